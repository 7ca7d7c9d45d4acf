"""Paper 4's functions, traces and examples, with its own numbers.

Its tuples have no lifetime: they are rows [0, INF) here (erratum 26). Its streams are inserts only, so a
tuple once there stays; ours may be taken back until its own side has promised, which shows where a test
says so. The laws of section 5 are in test_pattern_laws.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
import pytest

import slackwater as sw
from slackwater.events import Batch, Control, Element, Insert
from slackwater.punctuations import Punctuation, combinations, matching, unmatched


@pytest.fixture(autouse=True)
def _forgotten_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What need not be kept goes at once, not when there is much of it."""
    monkeypatch.setattr("slackwater.state.SWEEP_FROM", 0)
    monkeypatch.setattr("slackwater.state.SWEEP_FACTOR", 0)


def _rows(**columns: Sequence[Any]) -> list[Element]:
    """Tuples, given by their columns."""
    named = (dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True))
    return [Insert(0, sw.INF, payload) for payload in named]


def _tuples(batches: Sequence[Batch]) -> list[Any]:
    """What was said of rows, as tuples; of one column: its values."""
    said = [e for batch in batches for e in batch if not isinstance(e, Control)]
    assert all(isinstance(e, Insert) and (e.vs, e.ve) == (0, sw.INF) for e in said)
    found = [tuple(e.payload.values()) for e in said if isinstance(e, Insert)]
    return [values[0] if len(values) == 1 else values for values in found]


def _promises(batches: Sequence[Batch]) -> list[Any]:
    """What was promised, written out."""
    return [repr(e) for batch in batches for e in batch if isinstance(e, Control)]


def _kept(running: sw.RunningQuery) -> int:
    """How many rows the operators remember, all together."""
    return sum(status.state.state_rows for status in running.describe())


# Section 3.1 and Table 1

BIDS = pl.Schema({"itemid": pl.Int64, "increase": pl.Int64, "buyerid": pl.Int64})
BID = Batch.of(_rows(itemid=[1001, 1002, 2004], increase=[5, 9, 2], buyerid=[71, 72, 71]), BIDS)
ON_TWO_ITEMS = sw.punctuation(itemid=sw.one_of(1001, 2004))
BUYER = sw.punctuation(buyerid=71)
SMALL = sw.punctuation(increase=sw.between(None, 4))


def test_the_five_patterns() -> None:
    def matched(**columns: Any) -> list[int]:
        return BID.payload["itemid"].filter(sw.punctuation(**columns).matches(BID)).to_list()

    assert matched(itemid=sw.ANY) == [1001, 1002, 2004]
    assert matched(itemid=1002) == [1002]
    assert matched(itemid=sw.between(1001, 1002)) == [1001, 1002]
    assert matched(itemid=sw.between(1001, 2004, closed="neither")) == [1002]
    assert matched(itemid=sw.one_of(1001, 2004)) == [1001, 2004]
    assert matched(itemid=sw.one_of()) == []


def test_a_combination_matches_what_both_match() -> None:
    both = ON_TWO_ITEMS.combine(SMALL)
    assert both.matches(BID).tolist() == [False, False, True]
    assert both.matches(BID).tolist() == (ON_TWO_ITEMS.matches(BID) & SMALL.matches(BID)).tolist()
    nothing = ON_TWO_ITEMS.combine(sw.punctuation(itemid=1002))
    assert nothing.is_empty
    assert not nothing.matches(BID).any()


def test_table_1() -> None:
    """setMatchTs and setNomatchTs; setNomatchPs; setCombine."""
    told = [SMALL, sw.punctuation(itemid=1001)]
    assert matching(BID, told).tolist() == [True, False, True]
    assert (~matching(BID, told)).tolist() == [False, True, False]
    assert unmatched([sw.punctuation(itemid=7), *told], BID.payload) == [sw.punctuation(itemid=7)]
    combined = combinations([ON_TWO_ITEMS, BUYER], [sw.punctuation(itemid=1001), SMALL])
    assert combined == [
        sw.punctuation(itemid=1001),
        sw.punctuation(itemid=sw.one_of(1001, 2004), increase=sw.between(None, 4)),
        sw.punctuation(itemid=1001, buyerid=71),
        sw.punctuation(buyerid=71, increase=sw.between(None, 4)),
    ]
    assert combinations([sw.punctuation(itemid=1)], [sw.punctuation(itemid=2)]) == []


# Sections 4.1 and 4.2: sdupelim

NUMBERS = sw.stream({"n": int}, name="numbers")
P_0_4 = sw.punctuation(n=sw.between(0, 4))


@pytest.mark.parametrize(
    ("third", "promised", "kept"),
    [([], [], [2, 3, 3, 5]), ([P_0_4], ["punctuation(n=between(0, 4))"], [2, 3, 1, 3])],
    ids=["without", "with P(0, 4)"],
)
def test_sdupelim(third: list[Element], promised: list[str], kept: list[int]) -> None:
    """S = [1, 5], [3], [] or [P(0, 4)], [5, 6, 7]: output, promises and state after each slice."""
    running = NUMBERS.distinct().open()
    slices = [_rows(n=[1, 5]), _rows(n=[3]), third, _rows(n=[5, 6, 7])]
    trace = []
    for part in slices:
        said = running.push(NUMBERS, part)
        trace.append((sorted(_tuples(said)), _promises(said), _kept(running)))
    assert trace == [
        ([1, 5], [], kept[0]),
        ([3], [], kept[1]),
        ([], promised, kept[2]),
        ([6, 7], [], kept[3]),
    ]


# Section 4.2 and Theorem 2: sdiff

LEFT, RIGHT = sw.stream({"n": int}, name="left"), sw.stream({"n": int}, name="right")


def test_sdiff_no_longer_blocks() -> None:
    """What both sides have promised is passed, combined and forgotten; the rest is kept.

    The paper passes t when the negative side alone has promised it. Here the positive side could still
    take it back, so it waits for both.
    """
    running = LEFT.difference(RIGHT).latency(sw.PERFECTNESS_PRESERVING).open()
    assert _tuples(running.push(LEFT, _rows(n=[1, 2, 3, 5]))) == []
    assert _tuples(running.push(RIGHT, _rows(n=[2]))) == []
    said = running.push(RIGHT, [P_0_4])
    assert (_tuples(said), _promises(said)) == ([], [])
    said = running.push(LEFT, [sw.punctuation(n=sw.between(2, 9))])
    assert (_tuples(said), _promises(said)[-1]) == ([3], "punctuation(n=between(2, 4))")
    said = running.push(LEFT, [sw.punctuation(n=1)])
    assert (_tuples(said), _promises(said)) == ([1], ["punctuation(n=1)"])
    assert _kept(running) == 2, "5 has two endpoints, and may still come on the right"
    said = running.push(RIGHT, [*_rows(n=[5]), sw.punctuation(n=sw.between(5, None))])
    assert (_tuples(said), _promises(said)[-1]) == ([], "punctuation(n=between(5, 9))")
    assert _kept(running) == 0


# Section 5.2: sort, and the function init

REPORTS = sw.stream({"sid": int, "hour": int, "minute": int, "currtmp": int}, name="reports")


def _reports(*hours: int) -> list[Element]:
    return _rows(sid=[1] * len(hours), hour=hours, minute=[0] * len(hours), currtmp=[70] * len(hours))


def test_sort_releases_what_nothing_can_precede() -> None:
    """<*,[2,4],*,*> releases nothing; <*,[0,3],*,*> then releases through hour 4.

    That 0 is the first hour is known of the attribute: here it is said in the stream.
    """
    running = REPORTS.sort("hour").open()
    no_others = [sw.punctuation(hour=None), sw.punctuation(hour=sw.between(None, -1))]
    running.push(REPORTS, [*no_others, *_reports(3, 5, 1, 4, 0, 2)])
    assert _tuples(running.push(REPORTS, [sw.punctuation(hour=sw.between(2, 4))])) == []
    said = running.push(REPORTS, [sw.punctuation(hour=sw.between(0, 3))])
    assert [hour for _, hour, _, _ in _tuples(said)] == [0, 1, 2, 3, 4]
    assert _kept(running) == 1, "hour 5"
    after = Batch.of(_reports(0, 1, 2, 3, 4, 5), REPORTS.schema)
    told = [p.control for batch in said for p in batch.controls if isinstance(p.control, Punctuation)]
    assert after.payload["hour"].filter(matching(after, told)).to_list() == [0, 1, 2, 3, 4]


# Sections 5.3 and 5.4: projPs, joinPs, modPs, groupPs


def test_proj_ps_projects_wildcards_away() -> None:
    hours = REPORTS.select("sid", "hour")
    run = hours.run({REPORTS: [sw.punctuation(hour=17), sw.punctuation(hour=18, minute=30)]}, batch=1)
    assert list(run) == [sw.punctuation(hour=17)]


@pytest.mark.parametrize("batch", [1, 9])
def test_proj_ps_of_patterns_that_together_are_a_wildcard(batch: int) -> None:
    """The paper leaves this open: two halves of an attribute that is projected away, and null."""
    halves = [
        sw.punctuation(hour=17, minute=sw.between(None, 29)),
        sw.punctuation(hour=17, minute=None),
        sw.punctuation(hour=17, minute=sw.between(30, None)),
    ]
    hours = REPORTS.select("sid", "hour")
    assert list(hours.run({REPORTS: halves}, batch=batch)) == [sw.punctuation(hour=17)]
    assert list(hours.run({REPORTS: halves[1:]}, batch=batch)) == []


NEVER_ADJUSTED = sw.StreamProperties(insert_only=True)
ITEMS = sw.stream({"itemid": int, "seller": int}, name="items", properties=NEVER_ADJUSTED)
INCREASES = sw.stream(
    {"itemid": int, "increase": int, "buyerid": int}, name="bids", properties=NEVER_ADJUSTED
)


def test_join_ps_are_about_join_attributes_only() -> None:
    """A bid is kept until all items with its itemid are there; a promise about sellers says nothing."""
    running = ITEMS.join(INCREASES, on="itemid").open()
    running.push(INCREASES, _rows(itemid=[1001, 1004], increase=[5, 6], buyerid=[1, 2]))
    running.push(ITEMS, [sw.punctuation(seller=9932)])
    assert _kept(running) == 2
    running.push(ITEMS, [sw.punctuation(itemid=1001)])
    assert _kept(running) == 1


def test_group_ps_are_about_grouping_attributes_only() -> None:
    """Items #1001 and #1004 are output when they are complete; seller #9932 completes no group."""
    bids = sw.stream({"itemid": int, "seller": int, "increase": int}, name="bids")
    total = bids.group_by("itemid").aggregate(price=sw.sum("increase"))
    running = total.latency(sw.PERFECTNESS_PRESERVING).open()
    running.push(bids, _rows(itemid=[1001, 1001, 1002, 1004], seller=[9932] * 4, increase=[5, 7, 1, 3]))
    said = running.push(bids, [sw.punctuation(seller=9932)])
    assert (_tuples(said), _promises(said)) == ([], [])
    said = running.push(bids, [sw.punctuation(itemid=sw.one_of(1001, 1004))])
    assert sorted(_tuples(said)) == [(1001, 12), (1004, 3)]
    assert _promises(said) == ["punctuation(itemid=1001)", "punctuation(itemid=1004)"]


# Section 1.3: the examples


def test_warehouse() -> None:
    """Sensors that promise every hour: one row per hour, as soon as all have promised it; no state."""
    schema = {"hour": int, "currtmp": int}
    first, second = sw.stream(schema, name="sensor1"), sw.stream(schema, name="sensor2")
    highest = first.union(second).distinct().group_by("hour").aggregate(maxtemp=sw.max("currtmp"))
    running = highest.latency(sw.PERFECTNESS_PRESERVING).open()
    found = []
    for hour in range(4):
        running.push(first, [*_rows(hour=[hour] * 3, currtmp=[70, 77, 70]), sw.punctuation(hour=hour)])
        assert _kept(running) > 0
        done = sw.punctuation(hour=hour)
        said = running.push(second, [*_rows(hour=[hour] * 2, currtmp=[70, 80 + hour]), done])
        assert _kept(running) == 0
        found += _tuples(said)
        assert _promises(said) == [f"punctuation(hour={hour})"]
    assert found == [(0, 80), (1, 81), (2, 82), (3, 83)]


def test_auction() -> None:
    """Items are unique, and closed one by one (erratum 27): each has its price when it is final."""
    price = ITEMS.join(INCREASES, on="itemid").group_by("itemid").aggregate(price=sw.sum("increase"))
    running = price.latency(sw.PERFECTNESS_PRESERVING).open()
    for item in (1001, 1002, 1003):
        running.push(ITEMS, [*_rows(itemid=[item], seller=[9]), sw.punctuation(itemid=item)])
    bids = _rows(itemid=[1001, 1002, 1001, 1003], increase=[5, 6, 7, 8], buyerid=[1, 2, 3, 4])
    assert _tuples(running.push(INCREASES, bids)) == []
    for item, final in ((1002, 6), (1001, 12), (1003, 8)):
        said = running.push(INCREASES, [sw.punctuation(itemid=item)])
        assert (_tuples(said), _promises(said)) == ([(item, final)], [f"punctuation(itemid={item})"])
    assert _kept(running) == 0
