"""Align and Cleanse by hand, and what strong and ultra promise."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.events import Batch, Element
from slackwater.history import History
from slackwater.operators import buffer
from slackwater.testing import ManualClock, batchings, histories, streams
from slackwater.validity import StreamProperties

S = sw.stream({"a": int})
ERRATUM_13 = [sw.insert(1, 100, a=1), sw.insert(5, 10, a=2), sw.cti(20), sw.cti(200)]


def _through(query: sw.Query, *elements: Element) -> list[Element]:
    return list(query.run({S: list(elements)}, batch=1))


def test_erratum_13_strong_releases_in_sync_order() -> None:
    assert _through(S.align("inf"), *ERRATUM_13) == ERRATUM_13


def test_erratum_13_ultra_lets_nothing_overtake_an_insert_whose_end_is_open() -> None:
    """As printed, b would leave at cti(20) and a, with an earlier start, at cti(200)."""
    assert _through(S.cleanse(), *ERRATUM_13) == [
        sw.cti(1),
        sw.insert(1, 100, a=1),
        sw.insert(5, 10, a=2),
        sw.cti(200),
    ]


def test_an_insert_and_its_removal_vanish_and_chains_become_one_row() -> None:
    out = _through(
        S.align("inf"),
        sw.insert(1, 9, a=1),
        sw.insert(2, 9, a=2),
        sw.adjust(1, 9, 1, a=1),
        sw.adjust(2, 9, 7, a=2),
        sw.adjust(2, 7, 8, a=2),
        sw.cti(3),
        sw.adjust(2, 8, 5, a=2),
        sw.adjust(2, 5, 6, a=2),
        sw.cti(7),
    )
    assert out == [sw.insert(2, 8, a=2), sw.cti(3), sw.adjust(2, 8, 6, a=2), sw.cti(7)]


def test_rows_wait_for_the_largest_start_to_be_that_far_ahead() -> None:
    out = _through(
        S.align(5),
        sw.insert(3, 90, a=1),
        sw.insert(1, 90, a=2),
        sw.insert(8, 90, a=3),  # the limit is 3
        sw.adjust(1, 90, 50, a=2),  # what is out is corrected at once
        sw.adjust(8, 90, 20, a=3),
        sw.cti(9),
    )
    assert out == [
        sw.insert(1, 90, a=2),
        sw.insert(3, 90, a=1),
        sw.adjust(1, 90, 50, a=2),
        sw.insert(8, 20, a=3),
        sw.cti(9),
    ]


def test_rows_wait_for_the_clock() -> None:
    clock = ManualClock()
    running = S.align("5 s", clock="system").open(now=clock.now)

    def push(*elements: Element) -> list[Element]:
        return [element for batch in running.push(S, list(elements)) for element in batch]

    assert push(sw.insert(7, 9, a=1)) == []
    clock.advance("3 s")
    assert push(sw.insert(3, 9, a=2), sw.adjust(7, 9, 8, a=1)) == []
    clock.advance("2 s")
    assert push() == [sw.insert(7, 8, a=1)]
    clock.advance("3 s")
    # an adjust waits for itself
    assert push(sw.adjust(7, 8, 7, a=1)) == [sw.insert(3, 9, a=2)]
    assert push(sw.cti(5)) == [sw.cti(5)]
    assert push(sw.cti(8)) == [sw.adjust(7, 8, 7, a=1), sw.cti(8)]


def test_a_clock_that_goes_back_releases_nothing_twice_and_holds_nothing_longer() -> None:
    readings = iter([10, 4, 12, 15])
    running = S.align(5, clock="system").open(now=lambda: next(readings))
    assert running.push(S, [sw.insert(0, 9, a=1)]) == []
    assert running.push(S, [sw.insert(1, 9, a=2)]) == []
    assert running.push(S, [sw.insert(2, 9, a=3)]) == []
    [out] = running.push(S, [])
    assert list(out) == [sw.insert(0, 9, a=1), sw.insert(1, 9, a=2)]


def test_what_no_dial_can_say_is_refused() -> None:
    with pytest.raises(sw.PlanError, match="cannot be negative"):
        S.align(-1)
    with pytest.raises(sw.PlanError, match="does not wait for the cti"):
        sw.Dial(blocking=5, perfect=True)


@given(data=st.data())
def test_strong_emits_on_ctis_only_and_in_order(data: st.DataObject) -> None:
    running = S.align("inf").open()
    for part in data.draw(batchings(data.draw(streams(data.draw(histories(S.schema)))))):
        said = running.push(S, part)
        if not any(isinstance(element, sw.Punctuation) for element in part):
            assert not said
    assert StreamProperties.observed(running.output.as_batch()).ordered


@given(data=st.data())
def test_ultra_is_perfect(data: st.DataObject) -> None:
    stream = data.draw(streams(data.draw(histories(S.schema))))
    out = S.cleanse().run({S: stream}, batch=data.draw(st.integers(1, 5))).as_batch()
    assert StreamProperties.observed(out).perfect


@given(data=st.data(), blocking=st.integers(0, 12), clock=st.sampled_from(["application", "system"]))
def test_any_blocking_gives_the_same_history(data: st.DataObject, blocking: int, clock: str) -> None:
    history = data.draw(histories(S.schema))
    manual = ManualClock()
    running = S.align(blocking, clock=clock).open(now=manual.now)  # type: ignore[arg-type]
    for part in data.draw(batchings(data.draw(streams(history)))):
        manual.advance(data.draw(st.integers(0, 5)))
        running.push(S, part)
    sw.validate(running.output.as_batch())
    assert running.output.as_history() == history


def _revised(rng: np.random.Generator, size: int) -> list[Element]:
    """Many copies of few events, revised at random, with ctis that lag behind."""
    alive: list[sw.Insert] = []
    elements: list[Element] = []
    promised = 0
    for now in range(size):
        if alive and rng.random() < 0.6:
            at = int(rng.integers(len(alive)))
            event = alive[at]
            ends = [event.vs, *range(max(event.vs + 1, promised), now + 20)]
            new_ve = int(rng.choice(ends))
            adjust = sw.Adjust(event.vs, event.ve, new_ve, event.payload)
            if adjust.sync < promised:
                continue
            elements.append(adjust)
            alive.pop(at)
            if new_ve > event.vs:
                alive.append(sw.Insert(event.vs, new_ve, event.payload))
        else:
            vs = max(promised, now - int(rng.integers(0, 30)))
            event = sw.insert(vs, vs + int(rng.integers(1, 20)), a=int(rng.integers(2)))
            elements.append(event)
            alive.append(event)
        if rng.random() < 0.05 and now - 40 > promised:
            promised = now - int(rng.integers(20, 40))
            elements.append(sw.cti(promised))
    return [*elements, sw.cti(None)]


@pytest.mark.parametrize("many", [3, 10**9], ids=["as they came", "entered"])
@pytest.mark.parametrize("query", [S.align("inf"), S.align(15), S.cleanse(), S.sort("a")])
def test_room_is_made_without_losing_anything(
    query: sw.Query, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With little room, what is alive is moved together again and again; many inserts wait apart."""
    monkeypatch.setattr(buffer, "LEAST_ROOM", 4)
    monkeypatch.setattr(buffer, "MANY_ROWS", many)
    elements = _revised(np.random.default_rng(7), 3000)
    expected = History.of(elements)
    assert len(expected) > 200
    for size in (1, 17, 5000):
        running = query.open()
        for part in Batch.of(elements, S.schema).split(size):
            running.push(S, part)
        out = running.output
        sw.validate(out.as_batch())
        assert out.as_history() == expected
        assert [status.state.state_rows for status in running.describe()] == [0]


def test_payloads_of_any_kind_are_the_same_ones() -> None:
    schema = {"x": float, "l": pl.List(pl.Float64), "n": str}
    s = sw.stream(schema)
    nan = float("nan")
    rows = [{"x": nan, "l": [nan, None], "n": None}, {"x": -0.0, "l": [], "n": "b"}]
    same = [{"x": nan, "l": [nan, None], "n": None}, {"x": 0.0, "l": [], "n": "b"}]
    elements = [
        *(sw.insert(0, 9, **row) for row in rows),
        *(sw.adjust(0, 9, end, **row) for row, end in zip(same, (4, 0), strict=True)),
        sw.cti(None),
    ]
    assert list(s.align("inf").run({s: elements}, batch=1)) == [sw.insert(0, 4, **rows[0]), sw.cti(None)]
