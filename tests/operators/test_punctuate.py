"""Punctuate by hand: what the application knows is promised, and what proves it false is named."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.events import Element
from slackwater.testing import batchings, histories, streams

S = sw.stream({"a": int})


def _set_aside(out: sw.Output) -> list[object]:
    return [entry.element for entry in out.ledger]


def test_a_promise_follows_every_batch_and_never_goes_back() -> None:
    elements = [sw.insert(3, 9, a=1), sw.insert(1, 2, a=2), sw.insert(8, 9, a=3), sw.cti(7)]
    assert list(S.punctuate(lateness=2).run({S: elements}, batch=1)) == [
        sw.insert(3, 9, a=1),
        sw.cti(1),
        sw.insert(1, 2, a=2),
        sw.insert(8, 9, a=3),
        sw.cti(6),
        sw.cti(7),
    ]
    # 1 is not behind 3 - 2, but behind what the cti says
    assert list(S.punctuate(lateness=2).run({S: [sw.cti(4), sw.insert(5, 6, a=1)]}, batch=1)) == [
        sw.cti(4),
        sw.insert(5, 6, a=1),
    ]


LATE = [
    sw.insert(1, 4, a=3),
    sw.adjust(0, 9, 2, a=1),
    sw.adjust(1, 4, 7, a=3),
    sw.adjust(0, 2, 8, a=1),
]
STREAM = [sw.insert(0, 9, a=1), sw.insert(8, 12, a=2), *LATE, sw.adjust(8, 12, 9, a=2)]


@pytest.mark.parametrize("batch", [1, 100])
def test_what_breaks_the_promise_is_set_aside_with_all_that_continues_it(batch: int) -> None:
    out = S.punctuate(lateness=5).run({S: STREAM}, batch=batch, on_invalid=sw.LEDGER)
    assert [element for element in out if not isinstance(element, sw.Punctuation)] == [
        sw.insert(0, 9, a=1),
        sw.insert(8, 12, a=2),
        sw.adjust(8, 12, 9, a=2),
    ]
    assert _set_aside(out) == LATE
    assert out.ledger.counts() == {"promise broken": 4}
    assert {entry.place for entry in out.ledger} == {"Punctuate lateness 5 over stream"}
    assert [(entry.detail, entry.since, entry.until) for entry in out.ledger] == [
        ("it breaks the promise cti(3)", 1, 4),
        ("it breaks the promise cti(3)", 2, 9),
        ("it continues what was set aside", 4, 7),
        ("it breaks the promise cti(3)", 2, 8),
    ]


@pytest.mark.parametrize("batch", [1, 100])
def test_what_breaks_the_promise_stops_the_query(batch: int) -> None:
    with pytest.raises(sw.OperatorError) as broken:
        S.punctuate(lateness=5).run({S: STREAM}, batch=batch)
    assert broken.value.fact == "Punctuate lateness 5: insert(1, 4, a=3) breaks the promise cti(3)"
    assert broken.value.detail == "its sync is 1"


def test_without_a_bound_nothing_is_promised() -> None:
    elements = [sw.insert(100, 101, a=1), sw.insert(0, 1, a=2)]
    assert list(S.punctuate(lateness="inf").run({S: elements})) == elements


def test_a_promise_settles_what_is_computed_of_it() -> None:
    count = S.punctuate(lateness=3).aggregate(n=sw.count())
    out = count.run({S: [sw.insert(0, 4, a=1), sw.insert(2, 9, a=2), sw.insert(8, 9, a=3)]})
    assert out.settled_until == 5
    assert out.settled().rows() == [(1, 0, 2), (2, 2, 4)]


PLANS: list[Callable[[sw.Query], sw.Query]] = [
    lambda s: s,
    lambda s: s.aggregate(n=sw.count()),
    lambda s: s.aggregate(place=sw.rank("a")).latency(sw.PERFECTNESS_PRESERVING),
]


@given(data=st.data(), lateness=st.integers(0, 6), plan=st.sampled_from(PLANS))
def test_the_output_is_the_oracles_over_the_input_minus_exactly_the_ledger(
    data: st.DataObject, lateness: int, plan: Callable[[sw.Query], sw.Query]
) -> None:
    query = plan(S.punctuate(lateness=lateness))
    running = query.open(on_invalid=sw.LEDGER)
    stream = data.draw(streams(data.draw(histories(S.schema))))
    set_aside = 0
    kept: list[Element] = []
    for element in stream:
        running.push(S, [element])
        new = _set_aside(running.output)[set_aside:]
        set_aside += len(new)
        # exactly this element, or nothing
        assert new in ([], [element])
        if not new:
            kept.append(element)
    sw.validate(running.output.as_batch())
    sw.validate([element for element in kept if not isinstance(element, sw.Punctuation)], S.schema)
    assert running.output.as_history() == query.meaning({S: kept})
    assert not any(status.state.state_rows for status in running.describe())


@given(data=st.data(), lateness=st.integers(0, 6))
def test_only_what_is_later_than_declared_is_set_aside(data: st.DataObject, lateness: int) -> None:
    stream = data.draw(streams(data.draw(histories(S.schema)), ctis=False))
    running = S.punctuate(lateness=lateness).open(on_invalid=sw.LEDGER)
    for part in data.draw(batchings(stream)):
        running.push(S, part)
    largest, first_late = None, None
    for element in stream:
        if not isinstance(element, sw.Insert | sw.Adjust):
            continue
        if largest is not None and element.sync < largest - lateness:
            first_late = first_late or element
        largest = element.vs if largest is None else max(largest, element.vs)
    assert _set_aside(running.output)[:1] == ([] if first_late is None else [first_late])
