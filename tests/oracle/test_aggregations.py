"""What each aggregation computes, value by value: nulls, NaN, infinities, overflow, order, types."""

from __future__ import annotations

import datetime as dt
import math
import statistics
from collections.abc import Iterable
from decimal import Decimal
from itertools import permutations
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracle.instants import plain

import slackwater as sw
from slackwater import History, Query, col, insert
from slackwater.errors import OperatorError
from slackwater.plan.aggregations import Aggregation

integers = sw.stream({"v": int})
floats = sw.stream({"v": float})
decimals = sw.stream({"v": pl.Decimal(20, 2)})
durations = sw.stream({"v": dt.timedelta})
keyed = sw.stream({"k": str, "v": int})

NAN, INF = math.nan, math.inf


def of(stream: Query, aggregation: Aggregation, values: Iterable[Any]) -> Any:
    """The aggregate of these values, all alive together."""
    events = [insert(0, 1, v=value) for value in values]
    [(value, vs, ve)] = stream.aggregate(x=aggregation).meaning({stream: events}).rows()
    assert (vs, ve) == (0, 1)
    return value


# Numbers


@pytest.mark.parametrize(
    ("aggregation", "expected"),
    [
        (sw.count(), 6),
        (sw.count("v"), 5),
        (sw.count_distinct("v"), 3),
        (sw.sum("v"), 20),
        (sw.avg("v"), 4.0),
        (sw.min("v"), -2),
        (sw.max("v"), 10),
        (sw.product("v"), -1280),
        (sw.var("v"), 18.0),
        (sw.stddev("v"), math.sqrt(18.0)),
        (sw.top_k("v", 3), [10, 4, 4]),
        (sw.top_k("v", 99), [10, 4, 4, 4, -2]),
        (sw.percentile("v", 0.5), 4.0),
        (sw.percentile("v", 0.0), -2.0),
        (sw.percentile("v", 1.0), 10.0),
        (sw.percentile("v", 0.125), 1.0),
        (sw.percentile("v", 0.9), 7.6),
    ],
    ids=str,
)
def test_of_five_numbers_and_a_null(aggregation: Aggregation, expected: object):
    assert of(integers, aggregation, [4, -2, None, 10, 4, 4]) == expected


@pytest.mark.parametrize(
    "aggregation",
    [
        sw.sum("v"),
        sw.avg("v"),
        sw.min("v"),
        sw.max("v"),
        sw.product("v"),
        sw.var("v"),
        sw.stddev("v"),
        sw.top_k("v", 2),
        sw.percentile("v", 0.5),
        sw.first("v"),
        sw.last("v"),
    ],
    ids=str,
)
def test_of_nothing_but_nulls_is_null(aggregation: Aggregation):
    assert of(integers, aggregation, [None, None]) is None


def test_counts_of_nothing_but_nulls():
    assert of(integers, sw.count(), [None, None]) == 2
    assert of(integers, sw.count("v"), [None, None]) == 0
    assert of(integers, sw.count_distinct("v"), [None, None]) == 0


@pytest.mark.parametrize(
    ("aggregation", "expected"),
    [
        (sw.count(where=col("v") > 9), 0),
        (sw.count("v", where=col("v") > 9), 0),
        (sw.count_distinct("v", where=col("v") > 9), 0),
        (sw.sum("v", where=col("v") > 9), None),
        (sw.min("v", where=col("v") > 9), None),
        (sw.avg("v", where=col("v") > 9), None),
        (sw.top_k("v", 2, where=col("v") > 9), None),
        (sw.first("v", where=col("v") > 9), None),
        (sw.percentile("v", 0.5, where=col("v") > 9), None),
        (sw.count(where=col("v") > 1), 2),
        (sw.sum("v", where=col("v") > 1), 5),
        (sw.first("v", where=col("v") > 1), 2),
        (sw.count(where=pl.lit(True)), 4),
    ],
    ids=str,
)
def test_a_filter_skips_events_for_which_it_is_false_or_null(aggregation: Aggregation, expected: object):
    assert of(integers, aggregation, [1, 2, 3, None]) == expected


def test_a_filter_concerns_its_own_aggregation_only():
    events = [insert(0, 1, v=1), insert(0, 1, v=2)]
    query = integers.aggregate(all=sw.sum("v"), some=sw.sum("v", where=col("v") > 1), n=sw.count())
    assert query.meaning({integers: events}).rows() == [(3, 2, 2, 0, 1)]


def test_an_aggregation_reads_an_expression():
    assert of(integers, sw.sum(col("v") * 10), [1, 2]) == 30
    assert of(integers, sw.sum(pl.lit(7, pl.Int64)), [1, None]) == 14


@pytest.mark.parametrize(
    ("aggregation", "expected"), [(sw.var("v"), None), (sw.stddev("v"), None), (sw.avg("v"), 5.0)]
)
def test_of_one_number(aggregation: Aggregation, expected: object):
    assert of(integers, aggregation, [5, None]) == expected
    assert plain(of(floats, aggregation, [NAN])) == (None if expected is None else "NaN")


# Overflow


@pytest.mark.parametrize(
    ("aggregation", "values"),
    [
        (sw.sum("v"), [2**63 - 1, 1]),
        (sw.sum("v"), [-(2**63), -1]),
        (sw.product("v"), [2**62, 2]),
        (sw.product("v"), [2**62, 2**62, -4]),
    ],
)
def test_a_result_beyond_64_bits_is_an_error(aggregation: Aggregation, values: list[int]):
    with pytest.raises(OperatorError, match="does not fit 64 bits"):
        of(integers, aggregation, values)


def test_a_sum_that_fits_does_so_in_any_order():
    assert of(integers, sw.sum("v"), [2**63 - 1, 1, -1]) == 2**63 - 1
    assert of(integers, sw.product("v"), [-(2**62), 2]) == -(2**63)
    assert of(integers, sw.product("v"), [2**62, 2**62, 0]) == 0


def test_a_decimal_sum_beyond_its_digits_is_an_error():
    wide = sw.stream({"v": pl.Decimal(38, 2)})
    largest = Decimal("9" * 36 + ".99")
    assert of(wide, sw.sum("v"), [largest]) == largest
    with pytest.raises(OperatorError, match="does not fit 38 digits"):
        of(wide, sw.sum("v"), [largest, Decimal("0.01")])


def test_a_sum_of_durations_beyond_64_bits_is_an_error():
    long = dt.timedelta(microseconds=2**62)
    assert of(durations, sw.sum("v"), [long, long - dt.timedelta(microseconds=1)]) == dt.timedelta(
        microseconds=2**63 - 1
    )
    with pytest.raises(OperatorError, match="does not fit 64 bits"):
        of(durations, sw.sum("v"), [long, long])


@pytest.mark.parametrize(
    ("aggregation", "values", "expected"),
    [
        (sw.sum("v"), [1e308, 1e308], INF),
        (sw.sum("v"), [-1e308, -1e308], -INF),
        (sw.sum("v"), [1e308, 1e308, -1e308], 1e308),
        (sw.product("v"), [1e308, -1e308], -INF),
        (sw.product("v"), [1e308, 1e308, 1e-308], 1e308),
        (sw.avg("v"), [1e308, 1e308], 1e308),
        (sw.var("v"), [1e308, -1e308], INF),
    ],
)
def test_floats_overflow_to_infinity_but_only_at_the_end(
    aggregation: Aggregation, values: list[float], expected: float
):
    assert of(floats, aggregation, values) == pytest.approx(expected)


# Floats


@pytest.mark.parametrize("values", list(permutations((1e16, 1.0, -1e16))))
def test_a_float_sum_does_not_depend_on_order(values: tuple[float, ...]):
    events = [insert(at, 4, v=value) for at, value in enumerate(values)]
    answer = floats.aggregate(total=sw.sum("v"), mean=sw.avg("v")).meaning({floats: events})
    assert answer.rows()[-1] == (1.0, 1 / 3, 2, 4)


@given(st.lists(st.floats(-1e150, 1e150), min_size=2, max_size=4))
def test_float_arithmetic_is_exact_and_rounded_once(values: list[float]):
    assert of(floats, sw.sum("v"), values) == math.fsum(values)
    assert of(floats, sw.avg("v"), values) == statistics.mean(values)
    assert of(floats, sw.var("v"), values) == statistics.variance(values)
    assert of(floats, sw.stddev("v"), values) == pytest.approx(statistics.stdev(values), rel=1e-15)


@pytest.mark.parametrize(
    ("aggregation", "values", "expected"),
    [
        (sw.sum("v"), [1.0, NAN], NAN),
        (sw.sum("v"), [INF, 1.0, INF], INF),
        (sw.sum("v"), [INF, -INF], NAN),
        (sw.avg("v"), [-INF, 5.0], -INF),
        (sw.avg("v"), [NAN, -INF], NAN),
        (sw.product("v"), [INF, -2.0], -INF),
        (sw.product("v"), [-INF, -2.0], INF),
        (sw.product("v"), [INF, 0.0], NAN),
        (sw.product("v"), [0.0, NAN], NAN),
        (sw.var("v"), [INF, 1.0], NAN),
        (sw.var("v"), [NAN, 1.0], NAN),
        (sw.var("v"), [INF], None),
        (sw.stddev("v"), [NAN], None),
        (sw.stddev("v"), [INF, INF], NAN),
        (sw.min("v"), [NAN, 1.0, INF], 1.0),
        (sw.max("v"), [NAN, 1.0, INF], NAN),
        (sw.max("v"), [1.0, INF, None], INF),
        (sw.min("v"), [NAN, None], NAN),
        (sw.top_k("v", 2), [1.0, NAN, INF, None], [NAN, INF]),
        (sw.count("v"), [NAN, None, NAN], 2),
        (sw.count_distinct("v"), [NAN, None, NAN, 0.0, -0.0], 2),
        (sw.percentile("v", 0.5), [NAN, 1.0, 2.0], 2.0),
        (sw.percentile("v", 0.5), [NAN, 1.0], NAN),
        (sw.percentile("v", 0.5), [INF, 1.0], INF),
        (sw.percentile("v", 0.5), [-INF, 1.0], -INF),
        (sw.percentile("v", 0.5), [-INF, INF], NAN),
        (sw.percentile("v", 0.75), [-INF, 1.0, INF, INF, INF], INF),
        (sw.percentile("v", 0.5), [-INF, 1.0, 2.0, NAN], 1.5),
    ],
)
def test_nan_and_infinity(aggregation: Aggregation, values: list[float | None], expected: object):
    assert plain(of(floats, aggregation, values)) == plain(expected)


def test_a_percentile_lies_where_it_was_written():
    """0.6 of five steps are three steps, though the float next to 0.6 is a little less."""
    assert of(integers, sw.percentile("v", 0.6), [-3, -2, -1, 0, 1, 2]) == 0.0
    assert of(integers, sw.percentile("v", 0.29), range(101)) == 29.0
    assert of(integers, sw.percentile("v", 0.6), [10, 20, 30, 40]) == 28.0
    assert of(integers, sw.percentile("v", 0.6), [7]) == 7.0


# Other types


def test_decimals_keep_their_scale():
    values = [Decimal("1.10"), Decimal("2.25"), None]
    query = decimals.aggregate(total=sw.sum("v"), least=sw.min("v"), mean=sw.avg("v"))
    answer = query.meaning({decimals: [insert(0, 1, v=value) for value in values]})
    assert answer.schema["total"] == pl.Decimal(38, 2)
    assert answer.schema["least"] == pl.Decimal(20, 2)
    assert answer.rows() == [(Decimal("3.35"), Decimal("1.10"), 1.675, 0, 1)]


def test_durations_have_a_sum():
    minute = dt.timedelta(minutes=1)
    assert of(durations, sw.sum("v"), [minute, None, -2 * minute]) == -minute
    assert of(durations, sw.max("v"), [minute, None, -2 * minute]) == minute


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        (pl.String, ["Z", "a", "é"]),
        (pl.Boolean, [False, True]),
        (pl.Binary, [b"", b"\x00", b"\xff"]),
        (pl.Date, [dt.date(1969, 7, 20), dt.date(2024, 2, 29)]),
        (pl.Datetime("us"), [dt.datetime(1969, 7, 20), dt.datetime(2024, 2, 29, 12)]),
        (pl.Time, [dt.time(3), dt.time(14, 30)]),
        (pl.UInt8, [0, 200, 255]),
        (pl.Float32, [-0.5, 1.5, INF]),
    ],
    ids=str,
)
def test_what_has_an_order_has_extremes(dtype: Any, values: list[Any]):
    stream = sw.stream({"v": dtype})
    query = stream.aggregate(
        least=sw.min("v"), most=sw.max("v"), top=sw.top_k("v", 2), kinds=sw.count_distinct("v")
    )
    events = [insert(0, 1, v=value) for value in (*values[1:], None, *values)]
    top = [values[-1], values[-1]]
    expected = (values[0], values[-1], top, len(values), 0, 1)
    assert query.meaning({stream: events}).rows() == [expected]


def test_small_integers_widen():
    small = sw.stream({"v": pl.UInt8})
    assert of(small, sw.sum("v"), [200, 200]) == 400
    assert of(small, sw.product("v"), [200, 200]) == 40_000


# Order


def test_first_and_last_are_by_start_then_value():
    query = keyed.aggregate(first=sw.first("v"), last=sw.last("v"), key=sw.last("k"))
    events = [
        insert(1, 8, k="a", v=3),
        insert(0, 9, k="a", v=1),
        insert(0, 8, k="b", v=0),
        insert(0, 8, k="a", v=2),
        insert(1, 8, k="b", v=None),
    ]
    answer = query.meaning({keyed: events})
    assert answer.rows() == [(0, 2, "b", 0, 1), (0, 3, "b", 1, 8), (1, 1, "a", 8, 9)]


def test_null_comes_first_and_nan_last():
    values = [1.0, NAN, None, -INF]
    assert of(floats, sw.first("v"), values) is None
    assert math.isnan(of(floats, sw.last("v"), values))


# A user's own


def test_fold():
    longest = sw.fold(
        "v",
        init=list,
        add=lambda state, value: [*state, value],
        remove=lambda state, value: [v for v in state if v != value],
        result=lambda state: max(state) - min(state),
        dtype=int,
    )
    answer = integers.aggregate(spread=longest).meaning(
        {integers: [insert(0, 9, v=3), insert(2, 5, v=10), insert(4, 5, v=None)]}
    )
    assert answer.rows() == [(0, 0, 2), (7, 2, 4), (7, 4, 5), (0, 5, 9)]
    assert of(integers, longest, [None]) is None


def test_group_function_sees_all_values_in_order_nulls_included():
    pairs = sw.group_function(
        lambda keys, values: [f"{k}{v}" for k, v in zip(keys, values, strict=True)],
        "k",
        col("v") * 10,
        dtype=pl.List(pl.String),
        where=col("v").is_null() | (col("v") < 5),
    )
    events = [insert(1, 3, k="b", v=1), insert(0, 3, k="a", v=None), insert(0, 3, k="c", v=7)]
    answer = keyed.aggregate(pairs=pairs).meaning({keyed: events})
    assert answer.rows() == [(["aNone"], 0, 1), (["aNone", "b10"], 1, 3)]


def test_group_function_of_nothing_is_null():
    total = sw.group_function(sum, "v", dtype=int, where=col("v") > 5)
    assert of(integers, total, [1, 2]) is None


def test_values_are_those_of_the_snapshot():
    """Nothing of an event that has ended, or has not begun, is left in a later or earlier row."""
    events = [insert(0, 4, v=NAN), insert(2, 8, v=1.5), insert(6, 8, v=INF)]
    query = floats.aggregate(total=sw.sum("v"), most=sw.max("v"), n=sw.count_distinct("v"))
    found = query.meaning({floats: History.of(events)}).rows()
    assert [plain(row) for row in found] == [
        ("NaN", "NaN", 1, 0, 2),
        ("NaN", "NaN", 2, 2, 4),
        (1.5, 1.5, 1, 4, 6),
        (INF, INF, 2, 6, 8),
    ]
