"""Logical merge: what is shown before a cti is what the policy says, of whatever inputs say.

That no policy changes the answer is in test_merge_laws.py. Here every element that a row brings about is
held against what the inputs have told by then.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.test_merge_laws import COLUMN_TYPES, FEWER, MANNERS, drawn_history, telling

import slackwater as sw
from slackwater.events import Adjust, Element, Insert
from slackwater.identity import identity
from slackwater.merging import After
from slackwater.plan.nodes import Source
from slackwater.runtime import Execution
from slackwater.testing.compatibility import Told

INSERTS: list[Any] = [sw.AT_FIRST_SIGHT, sw.FROM_LEADER, sw.HALF_FROZEN, sw.after(0.5), sw.after(1)]
ADJUSTS = [sw.AT_STABLE, sw.EVERY, sw.WITH_LEADER]


def _copies(told: Told, row: Insert | Adjust) -> int:
    return told.events.get((row.vs, identity(row.payload)), Counter()).total()


def _may_show(inserts: Any, told: list[Told], leads: int | None, row: Insert, shown: int) -> bool:
    """Whether so many copies of an event may be shown; `leads`: who has spoken, if that is who leads."""
    have = sorted((_copies(each, row) for each in told), reverse=True)
    if isinstance(inserts, After):
        return have[inserts.needed(len(told)) - 1] >= shown
    if inserts is sw.FROM_LEADER:
        return leads is not None and _copies(told[leads], row) >= shown
    return inserts is sw.AT_FIRST_SIGHT and have[0] >= shown


@pytest.mark.parametrize("algorithm", ["R3", "R4"])
@FEWER
@given(data=st.data())
def test_nothing_is_shown_before_its_time(algorithm: str, data: st.DataObject) -> None:
    history = drawn_history(data, algorithm)
    queries = [
        sw.stream(COLUMN_TYPES, name=f"s{i}", properties=MANNERS[algorithm][1])
        for i in range(data.draw(st.integers(2, 4), label="inputs"))
    ]
    inserts, adjusts = data.draw(st.sampled_from(INSERTS)), data.draw(st.sampled_from(ADJUSTS))
    policy = sw.merge_policy(inserts=inserts, adjusts=adjusts)
    execution = Execution(sw.merge(*queries, policy=policy).node)
    left: list[list[Element]] = [telling(data, algorithm, history, repr) for _ in queries]
    told, out, leader = [Told() for _ in queries], Told(), 0
    while able := [i for i, each in enumerate(left) if each]:
        which = data.draw(st.sampled_from(able), label="by")
        element = left[which].pop(0)
        had = _copies(told[which], element) if isinstance(element, Insert | Adjust) else 0
        told[which].hear(element)
        if told[which].cti > told[leader].cti:
            leader = which
        source = queries[which].node
        assert isinstance(source, Source)
        for each in (each for batch in execution.push(source, [element]) for each in batch):
            out.hear(each)
            if isinstance(each, Adjust) and each.new_ve == each.vs:
                assert inserts is not sw.HALF_FROZEN
            if not isinstance(element, Insert | Adjust):
                continue
            assert isinstance(each, Insert | Adjust), "a row brings about no promise"
            if isinstance(each, Insert):
                leads = which if which == leader else None
                assert _may_show(inserts, told, leads, each, _copies(out, each))
            else:
                assert adjusts is sw.EVERY or (adjusts is sw.WITH_LEADER and which == leader)
                if each.new_ve == each.vs:
                    assert _copies(told[which], each) < had, "nobody has taken it back"
