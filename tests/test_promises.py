"""What a stream has promised, all in all: by hand, then the index against a loop over all promises.

The laws take small domains, go through every payload and time, and ask which boxes speak of it.
"""

from __future__ import annotations

import datetime as dt
import itertools
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.errors import InvalidStream
from slackwater.events import Batch, Control, Element
from slackwater.patterns import ANY, Constant, Pattern, Range, holds
from slackwater.persistence import Encoded, decode, encode
from slackwater.promises import Promises
from slackwater.punctuations import Closings, Promise, Punctuation, cti, gathered, punctuation
from slackwater.times import BEGIN, INF

AB = pl.Schema({"a": pl.Int64(), "b": pl.Int64()})


def _told(*told: Promise, schema: pl.Schema = AB) -> Promises:
    promises = Promises.of(schema)
    promises.add(told)
    return promises


def _frontier(promises: Promises, **columns: list[Any]) -> list[int]:
    frame = pl.DataFrame(columns, schema={n: AB[n] for n in columns})
    times: list[int] = promises.frontier(frame).tolist()
    return times


def test_a_closed_value_has_a_frontier_of_its_own() -> None:
    promises = _told(cti(3), punctuation(a=7), punctuation(9, a=8))
    assert _frontier(promises, a=[6, 7, 8], b=[0, 0, 0]) == [3, INF, 9]
    assert _frontier(promises, a=[7]) == [INF]
    assert _frontier(promises, b=[7]) == [3]


DAY = dt.datetime(2026, 1, 1)
ORDERED: list[tuple[pl.DataType, Any]] = [
    (pl.Int64(), 3),
    (pl.UInt64(), 3),
    (pl.Float32(), 3.0),
    (pl.Decimal(38, 2), Decimal("1.10")),
    (pl.String(), "a"),
    (pl.Binary(), b"a"),
    (pl.Date(), DAY.date()),
    (pl.Time(), DAY.time().replace(hour=3)),
    (pl.Datetime("ms"), DAY),
    (pl.Datetime("ns"), DAY),
    (pl.Datetime("us", "UTC"), DAY.replace(tzinfo=dt.UTC)),
    (pl.Duration("us"), dt.timedelta(1)),
]


@pytest.mark.parametrize(("dtype", "value"), ORDERED)
def test_a_range_without_an_end_is_told_as_it_was(dtype: pl.DataType, value: Any) -> None:
    """The integer that stands for no end is no time that Python has."""
    for drawn in (sw.between(value, None), sw.between(None, value), sw.between(None, None)):
        told = punctuation(t=drawn).fitted({"t": dtype})
        assert _told(told, schema=pl.Schema({"t": dtype})).punctuations() == [told]


@pytest.mark.parametrize(("dtype", "value"), ORDERED)
def test_an_end_that_does_not_belong_to_a_range_is_not_told_either(
    dtype: pl.DataType, value: Any
) -> None:
    schema = pl.Schema({"t": dtype})
    end = pl.DataFrame({"t": [value]}, schema=schema)
    for drawn in (Range(value, None, low_closed=False), Range(None, value, high_closed=False)):
        [told] = _told(punctuation(t=drawn).fitted(schema), schema=schema).punctuations()
        assert isinstance(told, Punctuation)
        assert not told.matches_payload(end).any()


def test_times_between_two_of_python_are_left_out() -> None:
    """A stretch from 1.5 to 4.5 microseconds, in nanoseconds: of those that Python has, 2 to 4."""
    schema = pl.Schema({"t": pl.Time()})
    some = pl.Series("t", range(1500, 4501)).cast(pl.Time).to_frame()
    [told] = _told(Closings(some, np.full(3001, INF)), schema=schema).punctuations()
    assert told == punctuation(t=sw.between(dt.time(microsecond=2), dt.time(microsecond=4)))
    shorter = Closings(some[1:400], np.full(399, INF))
    assert _told(shorter, schema=schema).punctuations() == []


def test_who_breaks_a_promise_about_all_later_times_is_told_which() -> None:
    late = sw.stream({"at": dt.datetime}, name="late")
    running = late.open()
    running.push(late, [punctuation(at=sw.between(DAY, None))])
    with pytest.raises(InvalidStream, match=r"breaks the promise .*between\(datetime.*, None\)"):
        running.push(late, [sw.insert(1, None, at=DAY)])


def test_a_key_is_closed_when_two_promises_leave_no_value_of_another_column_out() -> None:
    halves = [punctuation(a=7, b=sw.between(None, 4)), punctuation(9, a=7, b=sw.between(5, None))]
    promises = _told(*halves)
    assert _frontier(promises, a=[7]) == [BEGIN], "a null is neither in one half nor in the other"
    promises.add([punctuation(a=7, b=None)])
    assert _frontier(promises, a=[7, 8]) == [9, BEGIN]
    assert _frontier(promises, a=[7], b=[3]) == [INF]
    of_all = [box for each in promises.punctuations() for box in _boxes(each)]
    assert punctuation(9, a=7) in of_all


def test_a_range_is_no_news_if_all_its_pieces_were_promised() -> None:
    told = _told(punctuation(a=1, b=0), punctuation(5, a=1, b=sw.between(None, 3)))
    assert told.news([punctuation(5, a=1, b=sw.between(-2, 3))]) == []
    assert told.news([punctuation(4, 2, a=1, b=sw.between(0, 1))]) == []
    wider, longer, other = (
        punctuation(5, a=1, b=sw.between(-2, 4)),
        punctuation(6, a=1, b=sw.between(-2, 3)),
        punctuation(5, a=2, b=sw.between(-2, 3)),
    )
    assert told.news([wider, longer, other]) == [wider, longer, other]
    told.add([punctuation(6, a=1, b=4)])
    assert told.news([wider, longer]) == [longer]


def test_both_booleans_and_null_close_a_key() -> None:
    schema = pl.Schema({"a": pl.Int64(), "f": pl.Boolean()})
    promises = _told(punctuation(a=1, f=True), punctuation(a=1, f=False), schema=schema)
    assert promises.frontier(pl.DataFrame({"a": [1]})).tolist() == [BEGIN]
    promises.add([punctuation(5, a=1, f=None)])
    assert promises.frontier(pl.DataFrame({"a": [1, 2]})).tolist() == [5, BEGIN]


def test_syncs_that_are_promised_piece_by_piece_add_up() -> None:
    promises = _told(punctuation(20, 10, a=1), punctuation(10, a=1), punctuation(40, 30, a=1))
    assert _frontier(promises, a=[1]) == [20]
    forbidden = promises.forbids(np.array([19, 20, 35]), pl.DataFrame({"a": [1] * 3, "b": [0] * 3}))
    assert forbidden.tolist() == [True, False, True]


@pytest.mark.parametrize("step", [1, 7919])
def test_values_that_are_closed_one_by_one_end_as_one_range(step: int) -> None:
    promises = Promises.of(AB)
    values = np.arange(10_000) * step % 10_000
    for part in np.split(values, 50):
        promises.add([Closings(pl.DataFrame({"a": part}), np.full(len(part), INF))])
    assert len(promises) == 1
    assert promises.punctuations() == [punctuation(a=sw.between(0, 9999))]
    assert _frontier(promises, a=[-1, 0, 9999, 10_000]) == [BEGIN, INF, INF, BEGIN]


def test_they_do_so_for_each_combination_of_the_others() -> None:
    schema = pl.Schema({"hour": pl.Int64(), "sensor": pl.String()})
    promises = Promises.of(schema)
    for hour in range(24):
        keys = pl.DataFrame({"hour": [hour, hour], "sensor": ["x", "y"]})
        promises.add([Closings(keys, np.array([INF, INF if hour < 9 else 30]))])
    assert set(map(repr, promises.punctuations())) == {
        "punctuation(hour=between(0, 23), sensor='x')",
        "punctuation(hour=between(0, 8), sensor='y')",
        "punctuation(30, hour=between(9, 23), sensor='y')",
    }


def test_a_cti_drops_what_it_implies() -> None:
    wide = punctuation(20, a=sw.between(1, 5), b=sw.between(1, 5))
    promises = _told(punctuation(8, a=1), punctuation(20, a=3), wide)
    assert len(promises) == 3
    promises.add([cti(10)])
    assert len(promises) == 2
    promises.add([cti(20)])
    assert len(promises) == 0
    assert promises.punctuations() == [cti(20)]


def test_what_others_were_told_is_forgotten() -> None:
    promises = _told(punctuation(a=1), punctuation(a=2), punctuation(9, a=3, b=4))
    promises.forget([punctuation(a=sw.one_of(2, 3)), punctuation(5, a=1)])
    assert _texts(promises.punctuations()) == ["punctuation(a=1)"]
    assert _frontier(promises, a=[1, 2]) == [INF, BEGIN]
    assert len(promises) == 1


def test_two_sides_together_promise_what_both_do() -> None:
    here = _told(cti(2), punctuation(9, a=1), punctuation(a=2), punctuation(a=sw.between(5, 7)))
    keys = pl.DataFrame({"a": [1, 2, 3, 6]})
    both = here.combined([Closings(keys, np.full(4, 30))])
    assert _texts(both) == [
        "punctuation(2, a=3)",
        "punctuation(30, a=2)",
        "punctuation(30, a=6)",
        "punctuation(9, a=1)",
    ]


def test_wider_and_narrower_promises_meet() -> None:
    here = _told(punctuation(a=1, b=2), punctuation(b=sw.between(8, 9)))
    both = here.combined([Closings(pl.DataFrame({"a": [1, 4]}), np.array([INF, 7]))])
    assert _texts(both) == [
        "punctuation(7, a=4, b=between(8, 9))",
        "punctuation(a=1, b=2)",
        "punctuation(a=1, b=between(8, 9))",
    ]


def test_a_promise_in_a_batch_holds_from_its_place_on() -> None:
    rows = [sw.insert(1, 5, a=1, b=0), punctuation(a=1), sw.insert(1, 5, a=1, b=0)]
    batch = Batch.of([*rows, sw.insert(1, 5, a=2, b=0), punctuation(a=2)], AB)
    assert Promises().broken_by(batch).tolist() == [False, True, False]


def test_closings_stand_among_the_rows_of_a_batch() -> None:
    batch = Batch.of([sw.insert(1, 5, a=a, b=0) for a in (1, 2, 1, 2)], AB)
    closings = Closings(pl.DataFrame({"a": [1, 2]}), np.array([INF, 1]), np.array([0, 2]))
    batch = batch.followed_by([])
    placed = Batch(batch.vs, batch.old_ve, batch.new_ve, batch.payload, ((sw_placed(1, closings)),))
    assert Promises().broken_by(placed).tolist() == [False, False, True, False]
    assert [repr(e) for e in placed if isinstance(e, Control)] == [
        "punctuation(a=1)",
        "punctuation(1, a=2)",
    ]
    assert [list(map(repr, part)) for part in placed.split(2)] == [
        ["insert(1, 5, a=1, b=0)", "punctuation(a=1)"],
        ["insert(1, 5, a=2, b=0)", "insert(1, 5, a=1, b=0)", "punctuation(1, a=2)"],
        ["insert(1, 5, a=2, b=0)"],
    ]
    kept = placed.where(np.array([True, False, True, True]))
    assert Promises().broken_by(kept).tolist() == [False, True, False]


def sw_placed(position: int, control: Control) -> Any:
    return Batch.of([control], AB).controls[0]._replace(position=position)


def test_of_boxes_that_are_gone_nothing_stays() -> None:
    """One holds for ever; the others come and go, by a cti, or since somebody else has been told."""
    stays = punctuation(a=sw.between(-9, -1), b=sw.between(-9, -1))
    promises = _told(stays)
    frame = pl.DataFrame({"a": [5, -5], "b": [5, -5]})
    for t in range(2, 1000, 2):
        told = [
            punctuation(t, a=sw.between(0, 9), b=sw.between(0, 7 + t)),
            punctuation(t + 1, t, a=sw.between(0, 9), b=sw.between(3, 7 + t)),
        ]
        promises.add(told)
        assert promises.frontier(frame).tolist() == [t + 1, INF]
        if t % 3:
            promises.forget(told)
        promises.add([cti(t + 1)])
        assert len(promises) == 1
    assert promises.known is not None
    built = promises.known.boxes.built
    assert max(built.taken, len(built.by_rest), len(built.ends)) < 300
    assert promises.punctuations() == [cti(999), stays]


def test_promises_survive_being_written_down() -> None:
    wide = punctuation(20, 4, a=sw.between(1, 5), b=sw.between(1, 5))
    promises = _told(cti(1), punctuation(a=1), punctuation(9, a=3, b=4), wide)
    again = decode(Encoded.of(b"".join(encode(promises).parts())))
    assert _texts(again.punctuations()) == _texts(promises.punctuations())
    assert _frontier(again, a=[1, 3], b=[1, 4]) == _frontier(promises, a=[1, 3], b=[1, 4])


@pytest.mark.parametrize(
    ("dtype", "values", "drawn"),
    [
        (pl.String(), ["", "a", "ab", "b", None], sw.between("a", "b", closed="right")),
        (pl.Float64(), [-1.0, -0.0, 0.0, float("nan"), None, 2.5], sw.between(0.0, 2.5, closed="left")),
        (pl.UInt64(), [0, 2**63, 2**64 - 1, None], sw.between(2**63, None)),
        (pl.Boolean(), [True, False, None], sw.one_of(True, None)),
        (pl.Int8(), [-128, 0, 127, None], sw.between(None, -1)),
    ],
)
def test_columns_of_any_type(dtype: pl.DataType, values: list[Any], drawn: Pattern) -> None:
    schema = pl.Schema({"x": dtype, "b": pl.Int64()})
    frame = pl.DataFrame({"x": values, "b": [1] * len(values)}, schema=schema)
    for more in ({}, {"b": sw.between(0, 3)}):
        box = punctuation(x=drawn, **more).fitted(schema)
        promises = _told(box, schema=schema)
        expected = [INF if holds(drawn, value) else BEGIN for value in values]
        assert promises.frontier(frame).tolist() == expected
        for i in range(40):  # so many that they are in a tree
            promises.add([punctuation(x=drawn, b=sw.between(50 + 9 * i, 55 + 9 * i)).fitted(schema)])
        assert promises.frontier(frame).tolist() == expected


# laws

VALUES = [None, 0, 1, 2]
TIMES = [BEGIN, 0, 1, 2, 3, INF]
SMALL = pl.Schema({"a": pl.Int8(), "b": pl.Int8(), "c": pl.Int8()})


@st.composite
def patterns(draw: st.DrawFn) -> Pattern:
    """Patterns of one column of small integers."""
    kind = draw(st.sampled_from(["any", "any", "constant", "constant", "list", "range"]))
    if kind == "any":
        return ANY
    if kind == "constant":
        return Constant(draw(st.sampled_from(VALUES)))
    if kind == "list":
        return sw.one_of(*draw(st.lists(st.sampled_from(VALUES), min_size=1, max_size=3)))
    low, high = draw(st.integers(0, 2)), draw(st.integers(0, 2))
    ends = min(low, high), max(low, high)
    low_end = draw(st.sampled_from([None, ends[0]]))
    high_end = draw(st.sampled_from([None, ends[1]]))
    if ends[0] == ends[1]:
        return sw.between(low_end, high_end)
    return Range(low_end, high_end, low_closed=draw(st.booleans()))


@st.composite
def boxes(draw: st.DrawFn) -> Punctuation:
    """Punctuations of few columns and times."""
    columns = {name: draw(patterns()) for name in SMALL}
    since = draw(st.sampled_from([BEGIN, BEGIN, BEGIN, 0, 1, 2]))
    before = draw(st.sampled_from([t for t in TIMES if t > since]))
    return Punctuation.of(before, since, columns).fitted(SMALL)


def _boxes(told: Promise) -> list[Punctuation]:
    return list(told) if isinstance(told, Closings) else [told]


def _texts(told: list[Promise]) -> list[str]:
    return sorted(repr(box) for each in told for box in _boxes(each))


def _speaks_of(box: Punctuation, sync: int, payload: dict[str, Any]) -> bool:
    in_time = box.since <= sync and (sync < box.before or box.before == INF)
    return in_time and all(holds(pattern, payload[name]) for name, pattern in box.columns)


PAYLOADS = [dict(zip(SMALL, row, strict=True)) for row in itertools.product(VALUES, VALUES, VALUES)]
FRAME = pl.DataFrame(PAYLOADS, schema=SMALL)
SYNCS = [-1, 0, 1, 2, 3, INF]


def _forbidden(told: list[Punctuation]) -> np.ndarray[Any, Any]:
    """Of every payload and sync whether it is forbidden, by the definition."""
    forbidden = np.zeros((len(SYNCS), len(PAYLOADS)), dtype=np.bool_)
    for box in told:
        in_time = [box.since <= sync and (sync < box.before or box.before == INF) for sync in SYNCS]
        matched = np.ones(len(PAYLOADS), dtype=np.bool_)
        for name, pattern in box.columns:
            held = {value: holds(pattern, value) for value in VALUES}
            matched &= [held[row[name]] for row in PAYLOADS]
        forbidden |= np.outer(in_time, matched)
    return forbidden


def _frontier_of(forbidden: Any) -> int:
    """The largest t before which every sync is forbidden."""
    for sync, is_forbidden in zip(SYNCS, forbidden, strict=True):
        if not is_forbidden:
            return BEGIN if sync == SYNCS[0] else sync
    return INF


blocks = st.lists(st.lists(boxes(), max_size=4), max_size=5)


def _index(told: list[list[Punctuation]], typed: bool) -> Promises:
    promises = Promises.of(SMALL) if typed else Promises()
    for block in told:
        promises.add(gathered(block, SMALL) if typed else block)
    return promises


@given(blocks, st.booleans())
def test_the_index_forbids_what_a_promise_speaks_of(told: list[list[Punctuation]], typed: bool) -> None:
    promises = _index(told, typed)
    expected = _forbidden([box for block in told for box in block])
    for at, sync in enumerate(SYNCS):
        found = promises.forbids(np.full(FRAME.height, sync), FRAME)
        assert found.tolist() == expected[at].tolist()


@given(blocks, st.booleans())
def test_a_frontier_is_the_first_time_that_is_not_forbidden(
    told: list[list[Punctuation]], typed: bool
) -> None:
    promises = _index(told, typed)
    forbidden = _forbidden([box for block in told for box in block])
    expected = [_frontier_of(forbidden[:, row]) for row in range(FRAME.height)]
    # a sync of -1 stands for all before 0
    assert promises.frontier(FRAME).tolist() == expected


@given(blocks)
def test_a_frontier_of_some_columns_is_safe(told: list[list[Punctuation]]) -> None:
    """It is complete for each promise alone; together, the index need not find all that follows."""
    promises = _index(told, typed=True)
    every = [box for block in told for box in block]
    forbidden = _forbidden(every)
    keys = FRAME.select("a", "b").unique(maintain_order=True)
    found = promises.frontier(keys).tolist()
    for key, time in zip(keys.rows(), found, strict=True):
        rows = [i for i, row in enumerate(PAYLOADS) if (row["a"], row["b"]) == key]
        assert time <= min(_frontier_of(forbidden[:, row]) for row in rows)
        alone = [box for box in every if box.speaks_only_of(("a", "b"))]
        assert time >= _frontier_of(_forbidden(alone)[:, rows[0]])


closed = st.tuples(st.sampled_from(VALUES), patterns(), st.sampled_from([1, 2, INF]))


@given(st.lists(closed, max_size=8))
def test_one_column_that_is_left_out_is_covered_exactly(drawn: list[tuple[Any, Pattern, int]]) -> None:
    """By all of its values, of which there are more than the laws go through: -128 stands for those."""
    told = [Punctuation.of(t, BEGIN, {"a": Constant(a), "c": c}).fitted(SMALL) for a, c, t in drawn]
    promises = _index([told], typed=True)
    for a in VALUES:
        values = [*VALUES, -128, 127]
        rows = [{"a": a, "b": 0, "c": c} for c in values]
        expected = min(
            max([box.before for box in told if _speaks_of(box, BEGIN, row)], default=BEGIN)
            for row in rows
        )
        assert promises.frontier(pl.DataFrame({"a": [a]}, schema={"a": pl.Int8()})).item() == expected


@given(blocks)
def test_the_fewest_punctuations_say_the_same(told: list[list[Punctuation]]) -> None:
    promises = _index(told, typed=True)
    every = [box for block in told for box in block]
    again = [box for each in promises.punctuations() for box in _boxes(each)]
    assert (_forbidden(again) == _forbidden(every)).all()
    lists = sum(len(list(_expanded(box))) for box in every)
    assert len(again) <= 3 * lists + 1


def _expanded(box: Punctuation) -> list[Any]:
    ranges = [
        [pattern] if isinstance(pattern, Range) else [p for p in VALUES if holds(pattern, p)]
        for _, pattern in box.columns
    ]
    return list(itertools.product(*ranges))


@given(blocks, st.lists(boxes(), max_size=3))
def test_combinations_are_what_both_sides_forbid(
    told: list[list[Punctuation]], others: list[Punctuation]
) -> None:
    promises = _index(told, typed=True)
    both = promises.combined(gathered(others, SMALL))
    expected = _forbidden([box for block in told for box in block]) & _forbidden(others)
    assert (_forbidden([box for each in both for box in _boxes(each)]) == expected).all()


@given(blocks, st.lists(boxes(), max_size=3))
def test_what_is_forgotten_was_implied(told: list[list[Punctuation]], gone: list[Punctuation]) -> None:
    promises = _index(told, typed=True)
    before = _forbidden([box for block in told for box in block])
    promises.forget(gathered(gone, SMALL))
    left = [box for each in promises.punctuations() for box in _boxes(each)]
    after = _forbidden(left)
    assert not (after & ~before).any()
    assert (after | _forbidden(gone) | ~before).all()
    if len(gone) == 1 and not gone[0].is_empty:
        assert not any(gone[0].implies(box) for box in left if not box.is_cti)


@given(st.lists(st.one_of(boxes(), st.tuples(st.sampled_from(PAYLOADS), st.integers(0, 3)))))
def test_promises_inside_a_batch_are_judged_as_element_by_element(drawn: list[Any]) -> None:
    elements: list[Element] = [
        each if isinstance(each, Punctuation) else sw.insert(each[1], each[1] + 1, **each[0])
        for each in drawn
    ]
    expected, known = [], list[Punctuation]()
    for element in elements:
        if isinstance(element, Punctuation):
            known.append(element)
        else:
            assert isinstance(element, sw.Insert)
            expected.append(any(_speaks_of(box, element.sync, dict(element.payload)) for box in known))
    batch = Batch.of(elements, SMALL)
    assert Promises().broken_by(batch).tolist() == expected
    half = len(elements) // 2
    first, second = Batch.of(elements[:half], SMALL), Batch.of(elements[half:], SMALL)
    promises = Promises.of(SMALL)
    found = promises.broken_by(first).tolist()
    promises.add(placed.control for placed in first.controls)
    assert found + promises.broken_by(second).tolist() == expected


@pytest.mark.parametrize("seed", range(8))
def test_many_boxes_are_in_a_tree_and_say_what_each_does(seed: int) -> None:
    draw = np.random.default_rng(seed)
    told = []
    for _ in range(60):
        low, width = draw.integers(0, 100, 2), draw.integers(0, 40, 2)
        since = int(draw.choice([BEGIN, 0, 3]))
        columns: dict[str, Pattern] = {
            n: Range(int(low[i]), int(low[i] + width[i]) + 1) for i, n in enumerate(AB)
        }
        if draw.random() < 0.3:
            columns["b"] = Constant(int(low[1]))
        told.append(Punctuation.of(int(draw.integers(4, 9)), since, columns))
    promises = _told(*told)
    frame = pl.DataFrame(draw.integers(0, 140, (50, 2)), schema=AB)
    sync = draw.integers(-2, 10, 50)
    batch = Batch.inserts(sync, sync + 1, frame)
    expected = np.logical_or.reduce([box.matches(batch) for box in told])
    assert promises.forbids(sync, frame).tolist() == expected.tolist()
    reached, before = np.full(50, BEGIN), None
    while before is None or (before != reached).any():
        before = reached.copy()
        for box in told:
            further = box.matches_payload(frame) & (box.since <= reached) & (box.before > reached)
            reached[further] = box.before
    assert promises.frontier(frame).tolist() == reached.tolist()
