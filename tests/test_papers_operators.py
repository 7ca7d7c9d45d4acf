"""Operators with the papers' own numbers, and with the streams that break the printed algorithms.

Streams that concern one operator only stand with it: join Tables 1, 3 and 4 and erratum 14 in
operators/test_join.py, erratum 12 in operators/test_alter_lifetime.py, erratum 13 in
operators/test_align.py, Finalize Table 5 in operators/test_mend.py.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

import slackwater as sw
from slackwater.events import Adjust, Element

S = sw.stream({"v": int})
COUNT = S.aggregate(n=sw.count())

each_latency = pytest.mark.parametrize("latency", list(sw.OutputLatency), ids=lambda each: each.value)
each_batch = pytest.mark.parametrize("batch", [1, 2, 1000])


def _events(*lifetimes: tuple[int, int]) -> list[Element]:
    return [sw.insert(vs, ve, v=i) for i, (vs, ve) in enumerate(lifetimes)]


def _counted(
    latency: sw.OutputLatency, elements: list[Element], batch: int = 1
) -> list[tuple[int, int, int]]:
    """The counts in the end, as (vs, ve, n); what was said on the way was valid."""
    out = COUNT.latency(latency).run({S: [*elements, sw.cti(None)]}, batch=batch)
    sw.validate(out.as_batch())
    return [(vs, ve, n) for n, vs, ve in out.history().rows()]


# Paper 1a, erratum 1: how many events cover an entry is not how many begin or end there


@each_latency
@each_batch
def test_erratum_1_two_long_events_span_a_new_endpoint(latency: sw.OutputLatency, batch: int) -> None:
    """Algorithm 1 line 25: at 5, k is 2, and the tail [5, 10) would be lost."""
    elements = _events((0, 10), (0, 10), (12, 13), (2, 5))
    expected = [(0, 2, 2), (2, 5, 3), (5, 10, 2), (12, 13, 1)]
    assert _counted(latency, elements, batch) == expected


@each_latency
@each_batch
def test_erratum_1_two_long_events_span_an_end_that_moves(latency: sw.OutputLatency, batch: int) -> None:
    """Algorithm 4 lines 2 and 20: at 5, k is 2; the endpoint would stay, and the tail with it."""
    elements = [*_events((0, 10), (0, 10), (2, 5), (12, 13)), sw.adjust(2, 5, 4, v=2)]
    expected = [(0, 2, 2), (2, 4, 3), (4, 10, 2), (12, 13, 1)]
    assert _counted(latency, elements, batch) == expected


@each_latency
@each_batch
def test_erratum_1_and_an_event_that_goes(latency: sw.OutputLatency, batch: int) -> None:
    """Algorithm 4 line 10: at 2, k is 3 although one event begins there."""
    elements = [*_events((0, 10), (0, 10), (2, 5), (12, 13)), sw.adjust(2, 5, 2, v=2)]
    assert _counted(latency, elements, batch) == [(0, 10, 2), (12, 13, 1)]


@each_latency
@each_batch
def test_erratum_1_nothing_alive_is_not_no_endpoint(latency: sw.OutputLatency, batch: int) -> None:
    """k is 0 at 5: without that entry the count of [0, 5) would go on to 8."""
    elements = _events((0, 5), (8, 10), (12, 13))
    assert _counted(latency, elements, batch) == [(0, 5, 1), (8, 10, 1), (12, 13, 1)]


@each_latency
@each_batch
def test_erratum_1_as_many_begin_as_end(latency: sw.OutputLatency, batch: int) -> None:
    """The count does not change at 5, which is an endpoint all the same."""
    assert _counted(latency, _events((0, 5), (5, 9), (12, 13)), batch) == [
        (0, 5, 1),
        (5, 9, 1),
        (12, 13, 1),
    ]


@each_latency
@each_batch
def test_erratum_1_one_of_two_events_that_end_there_moves_on(
    latency: sw.OutputLatency, batch: int
) -> None:
    """Two events ended at 5, and one still does, whether or not 5 has been reached before."""
    begun, later = _events((0, 10), (2, 5), (3, 5)), [sw.insert(12, 13, v=9)]
    moved = [sw.adjust(2, 5, 4, v=1)]
    expected = [(0, 2, 1), (2, 3, 2), (3, 4, 3), (4, 5, 2), (5, 10, 1), (12, 13, 1)]
    assert _counted(latency, [*begun, *moved, *later], batch) == expected
    assert _counted(latency, [*begun, *later, *moved], batch) == expected


@each_latency
@each_batch
def test_erratum_2_several_events_end_at_one_time(latency: sw.OutputLatency, batch: int) -> None:
    """Algorithm 2: an entry for each would give rows [5, 5)."""
    elements = _events((0, 5), (1, 5), (2, 5), (12, 13))
    assert _counted(latency, elements, batch) == [(0, 1, 1), (1, 2, 2), (2, 5, 3), (12, 13, 1)]


# Paper 1a, erratum 3: retractions


@each_latency
@each_batch
def test_erratum_3_an_end_moves_to_where_there_is_no_entry(
    latency: sw.OutputLatency, batch: int
) -> None:
    """Algorithm 4 line 23: SearchEQ(4) finds nothing; SearchLE finds the entry at 0."""
    elements = [*_events((0, 10), (12, 13)), sw.adjust(0, 10, 4, v=0)]
    assert _counted(latency, elements, batch) == [(0, 4, 1), (12, 13, 1)]


LONG_AND_SHORT = _events((0, 100), (50, 60), (70, 71))


@each_latency
def test_erratum_3_a_row_that_began_before_the_cti_is_lengthened(latency: sw.OutputLatency) -> None:
    """Algorithm 4 lines 8 to 13: to retract [0, 50) and to insert [0, 70) would break cti(30)."""
    elements = [*LONG_AND_SHORT[:1], sw.cti(30), *LONG_AND_SHORT[1:], sw.adjust(50, 60, 50, v=1)]
    assert _counted(latency, elements) == [(0, 70, 1), (70, 71, 2), (71, 100, 1)]
    out = list(COUNT.latency(latency).run({S: elements}, batch=1))
    assert [e for e in out if isinstance(e, Adjust) and e.vs == e.new_ve == 0] == []
    assert sum(isinstance(e, sw.Insert) and e.vs == 0 for e in out) == 1


@each_latency
def test_erratum_3_a_row_cut_where_no_endpoint_remains_is_not_frozen(latency: sw.OutputLatency) -> None:
    """Nothing but the start of the second event ended [0, 50), and cti(60) would make that final."""
    elements = [*LONG_AND_SHORT[:2], sw.adjust(50, 60, 50, v=1), sw.cti(60)]
    running = COUNT.latency(latency).open()
    running.push(S, elements[:2])
    running.push(S, elements[2:])
    frozen = running.output.as_history().settled(running.output.settled_until)
    assert len(frozen) == 0
    assert _counted(latency, elements) == [(0, 100, 1)]


@each_latency
def test_erratum_3_an_end_moves_past_the_watermark(latency: sw.OutputLatency) -> None:
    """[0, 50) was shown up to the end of the second event, which then moves beyond all that was seen."""
    elements = [
        *_events((0, 100), (10, 50), (60, 61)),
        sw.adjust(10, 50, 90, v=1),
        sw.cti(60),
        sw.cti(75),
    ]
    expected = [(0, 10, 1), (10, 60, 2), (60, 61, 3), (61, 90, 2), (90, 100, 1)]
    assert _counted(latency, elements) == expected


@each_latency
def test_erratum_4_a_quiet_stream_finishes(latency: sw.OutputLatency) -> None:
    """No start comes after 0; cti(20) alone says that [0, 10) is over."""
    out = COUNT.latency(latency).run({S: [*_events((0, 10)), sw.cti(20)]}, batch=1)
    assert out.settled().rows() == [(1, 0, 10)]


# Outside facts: answers that others have published for these events

FACTS: list[Element] = [
    sw.insert(1, 5, v=10),
    sw.insert(1, 3, v=20),
    sw.insert(2, 3, v=30),
    sw.insert(2, 4, v=40),
    sw.insert(3, 4, v=50),
    sw.cti(None),
]
POINTS: list[Element] = [*(sw.insert(t, t + 1, v=v) for t, v in ((11, 1), (12, 1), (21, 2), (25, 2)))]
ANSWERS: dict[str, tuple[Callable[[], sw.Query], list[Element], list[tuple[int, int, int]]]] = {
    "count": (
        lambda: S.aggregate(a=sw.count()),
        FACTS,
        [(1, 2, 2), (2, 3, 4), (3, 4, 3), (4, 5, 1)],
    ),
    "max": (
        lambda: S.aggregate(a=sw.max("v")),
        FACTS,
        [(1, 2, 20), (2, 3, 40), (3, 4, 50), (4, 5, 10)],
    ),
    "moving sum": (
        lambda: S.window(sw.hopping(20, 10)).aggregate(a=sw.sum("v")),
        [*POINTS, sw.cti(None)],
        [(20, 30, 2), (30, 40, 6), (40, 50, 4)],
    ),
}


@pytest.mark.parametrize("name", ANSWERS)
@each_latency
@each_batch
def test_outside_facts(name: str, latency: sw.OutputLatency, batch: int) -> None:
    build, elements, expected = ANSWERS[name]
    out = build().latency(latency).run({S: elements}, batch=batch)
    assert [(vs, ve, value) for value, vs, ve in out.history().rows()] == expected
