"""Finalize by hand: what is too late is in the ledger, and nothing else is missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slackwater as sw
from slackwater.events import Element
from slackwater.testing import ManualClock, batchings, histories, streams

S = sw.stream({"a": int})


def _given_up(out: sw.Output) -> list[object]:
    return [entry.element for entry in out.ledger]


def test_what_comes_too_late_is_given_up_with_all_that_continues_it() -> None:
    late = [
        sw.insert(1, 4, a=3),
        sw.adjust(0, 9, 2, a=1),
        sw.adjust(1, 4, 7, a=3),
        sw.adjust(0, 2, 8, a=1),
    ]
    out = S.finalize(5).run(
        {S: [sw.insert(0, 9, a=1), sw.insert(8, 12, a=2), *late, sw.adjust(8, 12, 9, a=2)]}, batch=1
    )
    assert list(out) == [
        sw.insert(0, 9, a=1),
        sw.cti(-5),
        sw.insert(8, 12, a=2),
        sw.cti(3),
        sw.adjust(8, 12, 9, a=2),
    ]
    assert _given_up(out) == late
    assert {(entry.reason, entry.place) for entry in out.ledger} == {
        ("forgotten", "Finalize memory=5 over stream")
    }
    assert [(entry.detail, entry.since, entry.until) for entry in out.ledger] == [
        ("it came behind 3", 1, 4),
        ("it came behind 3", 2, 9),
        ("it continues what was given up", 4, 7),
        ("it came behind 3", 2, 8),
    ]


def test_an_unbounded_event_keeps_its_legal_retraction() -> None:
    """Erratum 15: an insert is not forgotten because its start is."""
    elements = [sw.insert(0, 100, a=1), sw.insert(50, 60, a=2), sw.adjust(0, 100, 48, a=1)]
    out = S.finalize(5).run({S: elements}, batch=1)
    assert out.history().rows() == [(1, 0, 48), (2, 50, 60)]
    assert len(out.ledger) == 0


def test_memory_by_the_clock_forgets_what_was_long_known() -> None:
    clock = ManualClock()
    running = S.finalize(10, clock="system").open(now=clock.now)

    def push(*elements: Element) -> list[Element]:
        return [element for batch in running.push(S, list(elements)) for element in batch]

    assert push(sw.insert(7, 99, a=1)) == [sw.insert(7, 99, a=1)]
    clock.advance(9)
    assert push(sw.insert(5, 6, a=2)) == [sw.insert(5, 6, a=2)]
    clock.advance(1)
    assert push(sw.insert(6, 7, a=3), sw.insert(9, 10, a=4)) == [sw.insert(9, 10, a=4), sw.cti(7)]
    clock.advance(10)
    assert push(sw.cti(1)) == [sw.cti(9)]
    assert _given_up(running.output) == [sw.insert(6, 7, a=3)]


Dialled: TypeAlias = Callable[[sw.Query, int, Literal["application", "system"]], sw.Query]
PLANS: list[Dialled] = [
    lambda s, memory, clock: s.finalize(memory, clock=clock),
    lambda s, memory, clock: s.aggregate(n=sw.count()).consistency(memory=memory, clock=clock),
    lambda s, memory, clock: (
        s.where(sw.col("a") > 0)
        .aggregate(n=sw.count())
        .consistency(blocking=memory // 2, memory=memory, clock=clock)
    ),
    lambda s, memory, clock: (
        s.finalize(memory, clock=clock)
        .window(sw.hopping(4, 2))
        .group_by("a")
        .aggregate(n=sw.count(), top=sw.max("a"))
        .latency(sw.PERFECTNESS_PRESERVING)
    ),
    lambda s, memory, clock: s.finalize(memory, clock=clock).distinct().latency(sw.ORDER_PRESERVING),
    lambda s, memory, clock: s.finalize(memory, clock=clock).window(sw.session(3)),
    lambda s, memory, clock: (finalized := s.finalize(memory, clock=clock)).join(
        finalized.shift(1), on="a", how="left"
    ),
]


@given(
    data=st.data(),
    memory=st.integers(0, 6),
    plan=st.sampled_from(PLANS),
    clock=st.sampled_from(["application", "system"]),
)
def test_the_output_is_the_oracles_over_the_input_minus_exactly_the_ledger(
    data: st.DataObject, memory: int, plan: Dialled, clock: Literal["application", "system"]
) -> None:
    query = plan(S, memory, clock)
    stream = data.draw(streams(data.draw(histories(S.schema))))
    manual = ManualClock()
    running = query.open(now=manual.now)
    given_up: list[object] = []
    kept: list[Element] = []
    for element in stream:
        manual.advance(data.draw(st.integers(0, 3)))
        running.push(S, [element])
        new = [entry.element for entry in running.output.ledger][len(given_up) :]
        given_up += new
        # exactly this element, or nothing
        assert new in ([], [element])
        if not new:
            kept.append(element)
    sw.validate(running.output.as_batch())
    sw.validate([element for element in kept if not isinstance(element, sw.Punctuation)], S.schema)
    assert running.output.as_history() == query.meaning({S: kept})
    assert not any(status.state.state_rows for status in running.describe())


LEFT, RIGHT = (sw.stream({"a": int}, name=name) for name in ("left", "right"))
OVER_TWO: dict[str, Callable[[sw.Query, sw.Query], sw.Query]] = {
    "join": lambda a, b: a.join(b, on="a"),
    "full join": lambda a, b: a.join(b.select(b="a"), on={"a": "b"}, how="full"),
    "anti join": lambda a, b: a.join(b, on="a", how="anti"),
    "difference all": lambda a, b: a.difference(b, all=True),
    "intersect": lambda a, b: a.intersect(b),
    "clip": lambda a, b: a.clip(b, on="a"),
    "aggregates": lambda a, b: a.aggregate(n=sw.count()).union(
        b.group_by("a").aggregate(n=sw.max("a")).select("n")
    ),
}
FEWER = settings(max_examples=max(1, settings().max_examples // 10))


@pytest.mark.parametrize("latency", sw.OutputLatency)
@pytest.mark.parametrize("name", OVER_TWO)
@FEWER
@given(data=st.data(), memory=st.integers(0, 6), blocking=st.integers(0, 6))
def test_the_same_for_two_streams_in_batches(
    name: str, latency: sw.OutputLatency, data: st.DataObject, memory: int, blocking: int
) -> None:
    sides = (LEFT, RIGHT)
    query = OVER_TWO[name](*(s.finalize(memory).align(min(blocking, memory)) for s in sides))
    running = query.latency(latency).open()
    told = {side: data.draw(streams(data.draw(histories(side.schema)))) for side in sides}
    waiting = {side: data.draw(batchings(stream)) for side, stream in told.items()}
    order = data.draw(st.permutations([side for side, parts in waiting.items() for _ in parts]))
    parts = {side: iter(batches) for side, batches in waiting.items()}
    for side in order:
        running.push(side, next(parts[side]))
    kept = {side: list(reversed(stream)) for side, stream in told.items()}
    for entry in running.output.ledger:
        side = LEFT if entry.place.endswith("left") else RIGHT
        assert isinstance(entry.element, Element)
        # of several alike the last: who is late once stays so
        kept[side].remove(entry.element)
    inputs = {side: list(reversed(stream)) for side, stream in kept.items()}
    sw.validate(running.output.as_batch())
    assert running.output.as_history() == query.meaning(inputs)
    assert not any(status.state.state_rows for status in running.describe())


@given(data=st.data(), memory=st.integers(0, 6))
def test_what_is_given_up_does_not_depend_on_how_the_stream_is_cut(
    data: st.DataObject, memory: int
) -> None:
    stream = data.draw(streams(data.draw(histories(S.schema)), ctis=False))
    one_by_one = S.finalize(memory).run({S: stream}, batch=1)
    running = S.finalize(memory).open()
    for part in data.draw(batchings(stream)):
        running.push(S, part)
    assert _given_up(running.output) == _given_up(one_by_one)
    assert running.output.as_history() == one_by_one.as_history()
