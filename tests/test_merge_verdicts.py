"""Logical merge: when one of several inputs contradicts the others, it is the one that is set aside.

Three to five inputs, of which one tells another history: events are missing, or end otherwise, and there
are others that nobody else has. The others agree, each in its own order and at its own pace, so that the
liar may be ahead of all of them, or behind, or in between.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.test_merge_laws import (
    COLUMN_TYPES,
    COLUMNS,
    FEWER,
    MANNERS,
    drawn_history,
    history_in,
    history_of,
    with_gaps,
)

import slackwater as sw
from slackwater.events import Element
from slackwater.history import History
from slackwater.plan.nodes import Source
from slackwater.runtime import Execution
from slackwater.testing import histories, streams
from slackwater.testing.compatibility import Told
from slackwater.testing.drawn_history import start_and_payload
from slackwater.validity import Validator


def other_than(data: st.DataObject, history: History, algorithm: str) -> History:
    """Where events are missing, or end otherwise, and there are some more."""
    told = list(with_gaps(data, history).events())
    if data.draw(st.booleans(), label="more"):
        key = algorithm.startswith("R3")
        more = data.draw(histories(history.schema, columns=COLUMNS, max_size=2, vs_payload_key=key))
        known = set(map(start_and_payload, told)) if key else set()
        told += [event for event in more.events() if start_and_payload(event) not in known]
    return History.from_events(told, history.schema)


INSERTS: list[Any] = [sw.AT_FIRST_SIGHT, sw.FROM_LEADER, sw.HALF_FROZEN, sw.after(0.5)]


@pytest.mark.parametrize("algorithm", ["R3", "R4", "R3, shortened"])
@FEWER
@given(data=st.data())
def test_only_who_contradicts_the_others_is_set_aside(algorithm: str, data: st.DataObject) -> None:
    manner, known = MANNERS[algorithm]
    history = drawn_history(data, algorithm)
    lied = other_than(data, history, algorithm)
    queries = [
        sw.stream(COLUMN_TYPES, name=f"s{i}", properties=known)
        for i in range(data.draw(st.integers(3, 5)))
    ]
    liar = data.draw(st.sampled_from(range(len(queries))), label="liar")
    policy = sw.merge_policy(
        contradiction=sw.QUARANTINE,
        inserts=data.draw(st.sampled_from(INSERTS)),
        adjusts=data.draw(st.sampled_from([sw.AT_STABLE, sw.EVERY, sw.WITH_LEADER])),
    )
    execution = Execution(sw.merge(*queries, policy=policy, algorithm=algorithm[:2]).node)  # type: ignore[arg-type]
    left: list[list[Element]] = [
        data.draw(streams(lied if i == liar else history, columns=COLUMNS, **manner))
        for i in range(len(queries))
    ]
    valid, out = Validator(), Told()
    while able := [i for i, each in enumerate(left) if each]:
        who = data.draw(st.sampled_from(able), label="by")
        source = queries[who].node
        assert isinstance(source, Source)
        for batch in execution.push(source, [left[who].pop(0)]):
            for each in valid.admit(batch):
                out.hear(each)
        [merge] = execution._dataflow.merges
        quarantined = merge.state.inputs.quarantined.nonzero()[0].tolist()
        assert set(quarantined) <= {liar}, execution.output.ledger
    assert out.cti == sw.INF
    if algorithm.startswith("R3"):
        # of R4 now and then an event stays (design note of merges, what is left)
        assert sum(each.state.state_rows for each in execution.describe()) == 0
    if history_of(lied) == history_of(history):
        assert list(execution.output.ledger) == []
        assert history_in(out) == history_of(history)
