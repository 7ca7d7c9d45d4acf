"""What a promise costs: rows that were cut, and endpoints that wait."""

from __future__ import annotations

import pytest

import slackwater as sw
from slackwater.events import Element
from slackwater.runtime import Execution
from slackwater.timelines import Timelines


def _push(running: Execution, *elements: Element) -> list[Element]:
    [at] = running.edges
    return [element for batch in running.push(at, list(elements)) for element in batch]


def test_a_cut_row_is_looked_at_no_more_once_it_has_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """[0, 100) was shown up to 5, where another event began that is gone: a cti shows the rest, once."""
    looks: list[int] = []
    look = Timelines._next_pending

    def counted(self: Timelines, keys: object) -> object:
        looks.append(len(keys))  # type: ignore[arg-type]
        return look(self, keys)  # type: ignore[arg-type]

    monkeypatch.setattr(Timelines, "_next_pending", counted)
    source = sw.stream({"v": int})
    running = Execution(source.aggregate(n=sw.count()).latency(sw.PERFECTNESS_PRESERVING).node)
    _push(running, sw.insert(0, 100, v=1), sw.insert(5, 50, v=2))
    _push(running, sw.adjust(5, 50, 5, v=2))
    assert _push(running, sw.cti(10)) == [sw.adjust(0, 5, 100, n=1), sw.cti(10)]
    for time in (11, 12, 13):
        assert _push(running, sw.cti(time)) == [sw.cti(time)]
    assert looks == [1]


def test_an_end_that_goes_while_it_waits_cuts_a_row_again() -> None:
    source = sw.stream({"v": int})
    running = Execution(source.aggregate(n=sw.count()).latency(sw.PERFECTNESS_PRESERVING).node)
    _push(running, sw.insert(0, 100, v=1), sw.insert(5, 50, v=2))
    _push(running, sw.adjust(5, 50, 5, v=2))
    assert _push(running, sw.cti(10)) == [sw.adjust(0, 5, 100, n=1), sw.cti(10)]
    _push(running, sw.adjust(0, 100, 200, v=1))
    out = [*_push(running, sw.cti(150)), *_push(running, sw.cti(sw.INF))]
    assert sw.History.of([sw.insert(0, 5, n=1), sw.adjust(0, 5, 100, n=1), *out]).to_polars().rows() == [
        (1, 0, 200)
    ]


def test_where_much_is_pending_a_cut_row_is_shown_as_far_as_a_promise_asks_for() -> None:
    """To look through all of it for one row would cost more than the batch brought."""
    source = sw.stream({"v": int})
    running = Execution(source.aggregate(n=sw.count()).latency(sw.PERFECTNESS_PRESERVING).node)
    _push(running, *(sw.insert(0, 1_000 + i, v=1) for i in range(100)))
    _push(running, sw.insert(5, 50, v=2))
    _push(running, sw.adjust(5, 50, 5, v=2))
    first = _push(running, sw.cti(10))
    assert first == [sw.adjust(0, 5, 1_000, n=100), sw.cti(10)], "as much came in as there is"
    _push(running, sw.insert(20, 50, v=2), sw.adjust(20, 50, 20, v=2))
    _push(running, sw.insert(30, 50, v=2))
    _push(running, sw.adjust(30, 50, 30, v=2))
    told = _push(running, sw.cti(40))
    assert told == [sw.adjust(0, 30, 40, n=100), sw.cti(40)]
    assert _push(running, sw.cti(41)) == [sw.adjust(0, 40, 41, n=100), sw.cti(41)]
