"""Logical merge: when one of several inputs contradicts the others, it is the one that is set aside.

Three to five inputs, of which one tells another history: events are missing, or end otherwise, and there
are others that nobody else has. The others agree, each in its own order and at its own pace, so that the
liar may be ahead of all of them, or behind, or in between. Any of them may promise payloads, and close
them for ever; and where events are never lengthened, who lags is told what is of no interest.

What was found so stands below by name.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
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
    telling,
    with_gaps,
)

import slackwater as sw
from slackwater.events import Element
from slackwater.history import History
from slackwater.plan.nodes import Source
from slackwater.runtime import Execution
from slackwater.testing import histories
from slackwater.testing.compatibility import Told
from slackwater.testing.drawn_history import start_and_payload
from slackwater.times import INF
from slackwater.validity import StreamProperties, Validator


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


@pytest.mark.parametrize("algorithm", ["R3", "R4", "R3, shortened", "R4, shortened"])
@FEWER
@given(data=st.data())
def test_only_who_contradicts_the_others_is_set_aside(algorithm: str, data: st.DataObject) -> None:
    _, known = MANNERS[algorithm]
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
        telling(data, algorithm, lied if i == liar else history, repr) for i in range(len(queries))
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
    assert sum(each.state.state_rows for each in execution.describe()) == 0
    if history_of(lied) == history_of(history):
        assert list(execution.output.ledger) == []
        assert history_in(out) == history_of(history)


# found by the search, each with who was accused, or what was left in the state

ANY = StreamProperties()
KEY = StreamProperties(vs_payload_key=True)
SHORTENED = StreamProperties(never_lengthens=True)
KEY_SHORTENED = StreamProperties(vs_payload_key=True, never_lengthens=True)
Said = list[tuple[int, list[Element]]]


def told_by(inputs: Iterable[int], *elements: Element) -> Said:
    return [(each, [*elements]) for each in inputs]


def outcomes(properties: StreamProperties, inputs: int, script: Said) -> list[str]:
    """Who was set aside for each contradiction; everybody promises everything, and nothing is kept."""
    queries = [sw.stream({"p": str}, name=f"s{i}", properties=properties) for i in range(inputs)]
    policy = sw.merge_policy(contradiction=sw.QUARANTINE)
    running = sw.merge(*queries, policy=policy).open()
    for which, elements in [*script, *told_by(range(inputs), sw.cti(INF))]:
        running.push(queries[which], elements)
    assert sum(each.state.state_rows for each in running.describe()) == 0
    return [entry.detail.rpartition("quarantined: ")[2] for entry in running.output.ledger]


@pytest.mark.parametrize("properties", [KEY, ANY])
def test_who_closes_a_payload_against_a_wrong_leader_is_not_outvoted(
    properties: StreamProperties,
) -> None:
    """Two have not come there, and need not tell it any more: nobody knows what they would have said."""
    script: Said = [
        (0, [sw.cti(3)]),
        (1, [sw.insert(0, INF, p="A")]),
        (2, [sw.insert(0, 3, p="A")]),
        (1, [sw.punctuation(p="A")]),
    ]
    assert outcomes(properties, 4, script) == ["nobody"]


@pytest.mark.parametrize("properties", [KEY, ANY])
def test_a_wrong_leader_that_closes_a_payload_outvotes_nobody(properties: StreamProperties) -> None:
    script: Said = [
        *told_by((0, 2, 3, 4), sw.insert(5, 6, p="A")),
        (1, [sw.cti(12)]),
        (2, [sw.cti(8)]),
        (1, [sw.punctuation(p="A")]),
    ]
    assert outcomes(properties, 5, script) == ["nobody"]


@pytest.mark.parametrize("properties", [KEY, ANY])
def test_promises_about_payloads_are_votes(properties: StreamProperties) -> None:
    """Also of those whose promise of it is not for ever, and of who closes it."""
    script: Said = [
        *told_by((0, 2, 3, 4), sw.insert(5, 6, p="A")),
        (1, [sw.cti(12)]),
        (2, [sw.cti(8)]),
        (3, [sw.punctuation(8, p="A")]),
        (4, [sw.punctuation(p="A")]),
    ]
    assert outcomes(properties, 5, script) == ["1"]


@pytest.mark.parametrize("properties", [KEY_SHORTENED, SHORTENED])
def test_who_was_told_that_an_event_is_of_no_interest_is_mute(properties: StreamProperties) -> None:
    """Nobody else says that the wrong event is there; but they might have left it out."""
    script: Said = [(1, [sw.insert(7, INF, p="A"), sw.cti(8)]), (2, [sw.cti(INF)])]
    assert outcomes(properties, 4, script) == ["nobody"]


def test_who_is_mute_does_not_vote_for_a_leader_that_lacks_an_event() -> None:
    script: Said = [
        (2, [sw.insert(0, 8, p="A"), sw.adjust(0, 8, 0, p="A")]),
        (1, [sw.cti(1)]),
        (2, [sw.insert(0, 9, p="A")]),
        (0, [sw.insert(0, 9, p="A"), sw.cti(2)]),
        (3, [sw.insert(0, 9, p="A")]),
        (1, [sw.cti(INF)]),
        (0, [sw.cti(INF)]),
        (4, [sw.insert(0, INF, p="A")]),
        (2, [sw.cti(INF)]),
        (4, [sw.adjust(0, INF, 9, p="A")]),
    ]
    assert outcomes(SHORTENED, 5, script) == ["nobody"]


def test_what_is_open_may_come_to_end_where_it_is_of_no_interest() -> None:
    """The last input says 9 and INF when it has promised up to 7, and it need not say the truth."""
    script: Said = [
        (0, [sw.insert(4, 9, p="A"), sw.insert(4, 9, p="A")]),
        (2, [sw.insert(4, 9, p="A")]),
        (4, [sw.insert(4, INF, p="A"), sw.insert(4, 9, p="A")]),
        (2, [sw.cti(INF)]),
        (0, [sw.cti(INF)]),
        (4, [sw.cti(7)]),
        (3, [sw.insert(4, 9, p="A"), sw.insert(4, 9, p="A")]),
        (4, [sw.adjust(4, INF, 9, p="A")]),
    ]
    assert outcomes(SHORTENED, 5, script) == []


def test_a_case_that_nobody_can_decide_is_closed() -> None:
    script: Said = [
        (1, [sw.insert(1, 10, p="A")]),
        (2, [sw.insert(1, 14, p="A"), sw.cti(13)]),
        (1, [sw.cti(17), sw.cti(INF)]),
        (2, [sw.cti(INF)]),
        (0, [sw.insert(1, INF, p="A"), sw.adjust(1, INF, 10, p="A")]),
    ]
    assert outcomes(SHORTENED, 3, script) == ["nobody"]


def test_what_was_left_standing_goes_with_its_case_when_all_is_promised() -> None:
    script: Said = [
        *told_by((4, 0), sw.insert(1, INF, p="A"), sw.insert(1, INF, p="A")),
        (3, [sw.insert(1, 7, p="A")]),
        (2, [sw.insert(1, INF, p="A"), sw.insert(1, INF, p="A")]),
        (1, [sw.insert(1, INF, p="A")]),
        (3, [sw.cti(7)]),
        (4, [sw.cti(5)]),
        (0, [sw.cti(6)]),
        (2, [sw.cti(INF)]),
        (1, [sw.insert(1, INF, p="A")]),
        (0, [sw.cti(INF)]),
    ]
    assert outcomes(ANY, 5, script) == ["3"]


def test_who_is_not_asked_any_more_is_mute() -> None:
    """The last input says what the first does; that was forgotten when it had promised everything."""
    script: Said = [
        (0, [sw.insert(0, each, p="A") for each in (1, INF, 1, 1, 1, 1)]),
        (1, [sw.insert(0, each, p="A") for each in (INF, 1, 1, 1)]),
        (1, [sw.cti(2), sw.insert(2, 3, p="A")]),
        (2, [sw.insert(0, each, p="A") for each in (1, INF, 1, 1, 1)]),
        (2, [sw.cti(INF)]),
        (0, [sw.adjust(0, 1, 0, p="A"), sw.cti(INF)]),
    ]
    assert outcomes(ANY, 3, [*script, (1, [sw.cti(INF)])]) == ["nobody", "1"]


def test_who_is_set_aside_for_one_event_is_not_waited_for_with_another() -> None:
    script: Said = [
        (0, [sw.insert(0, each, p="A") for each in (1, INF, 1, 1, 1)]),
        (1, [sw.insert(0, each, p="A") for each in (INF, 1, 1, 1)]),
        (1, [sw.cti(2), sw.insert(2, 3, p="A")]),
        (2, [sw.insert(0, each, p="A") for each in (1, INF, 1, 1, 1)]),
        (2, [sw.cti(INF)]),
        (0, [sw.cti(INF)]),
        (1, [sw.cti(4)]),
    ]
    assert len(outcomes(ANY, 3, script)) == 2


@pytest.mark.parametrize("properties", [KEY, ANY])
@pytest.mark.parametrize("inputs", [3, 5])
@pytest.mark.parametrize("seed", range(6))
def test_who_was_judged_before_still_has_a_vote(
    properties: StreamProperties, inputs: int, seed: int
) -> None:
    """What an input has said is forgotten when it is judged, and was no word any more when others came.

    Input 1 leads, and says another end than all others, who promise everything one after the other. Who
    led is set aside also where the others were a majority before it had promised all that it says.
    """
    order = [*range(inputs)]
    random.Random(seed).shuffle(order)
    script = told_by({*range(inputs)} - {1}, sw.insert(0, 1, p="a"))
    script += told_by([1], sw.insert(0, 2, p="a"), sw.cti(2))
    script += told_by(order, sw.cti(INF))
    found = outcomes(properties, inputs, script)
    assert found.count("1") == 1
    assert {*found} <= {"1", "nobody"}


@pytest.mark.parametrize("properties", [KEY, ANY])
@pytest.mark.parametrize("is_first", [True, False])
def test_who_may_still_lengthen_an_event_does_not_say_that_there_is_none(
    properties: StreamProperties, is_first: bool
) -> None:
    """Input 0 leads, and lacks [0, 2). Input 1 tells it as [0, 1) first, which is over by then."""
    begun = told_by([1], sw.cti(0), sw.insert(0, 1, p="a"), sw.cti(1))
    right = told_by([2], sw.insert(0, 2, p="a"), sw.cti(INF))
    script = told_by([0], sw.cti(2)) + (begun + right if is_first else right + begun)
    script += told_by([1], sw.adjust(0, 1, 2, p="a"), sw.cti(2))
    found = outcomes(properties, 3, script)
    assert found.count("0") == 1
    assert {*found} <= {"0", "nobody"}
