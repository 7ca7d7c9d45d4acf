"""Patterns of one column: by hand, then the algebra against going through all values."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.errors import InvalidElement
from slackwater.identity import place
from slackwater.patterns import (
    ANY,
    EMPTY,
    Constant,
    OneOf,
    Pattern,
    Range,
    combine,
    fitted,
    holds,
    implies,
    matches,
    united,
)

NAN, INF = float("nan"), float("inf")
DAY = dt.date(2026, 1, 5)
NOON = dt.datetime(2026, 1, 5, 12, tzinfo=dt.UTC)
BERLIN = pl.Datetime("us", "Europe/Berlin")
AS_TWO = dt.datetime(2026, 10, 25, 2, tzinfo=ZoneInfo("Europe/Berlin"))
"""the hour from two to three comes twice"""
AS_THREE = AS_TWO.replace(hour=3)
AGAIN = AS_TWO.replace(fold=1)
CHRONON = dt.timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (sw.between(20, 95), "between(20, 95)"),
        (sw.between(20, None, closed="neither"), "between(20, None, closed='neither')"),
        (sw.between("a", "a"), "'a'"),
        (sw.one_of(3, 1, 3), "one_of(1, 3)"),
        (sw.one_of(None, 1), "one_of(None, 1)"),
        (sw.one_of(7), "7"),
        (sw.ANY, "ANY"),
    ],
)
def test_a_pattern_prints_as_it_is_written(pattern: Pattern, text: str) -> None:
    assert repr(pattern) == text


@pytest.mark.parametrize(
    ("write", "fact"),
    [
        (lambda: sw.between(9, 3), "a range cannot end before it begins"),
        (lambda: sw.between(3, 3, closed="left"), "a range cannot end before it begins"),
        (lambda: sw.between(NAN, 3), "NaN is not an end"),
        (lambda: sw.between([1], [2]), "is not an end of a range"),
        (lambda: sw.between(1, "a"), "of different types"),
        (lambda: sw.between(1, 2, closed="up"), "does not say which ends"),  # type: ignore[arg-type]
        (lambda: sw.one_of(1, sw.ANY), "not a value of a list"),
        (lambda: sw.one_of(1, "a"), "of different types"),
    ],
)
def test_what_is_no_pattern_is_refused(write: Any, fact: str) -> None:
    with pytest.raises(InvalidElement, match=fact):
        write()


@pytest.mark.parametrize(
    ("pattern", "dtype", "result"),
    [
        (sw.between(1, 3, closed="neither"), pl.Int64(), Constant(2)),
        (sw.between(1, 2, closed="neither"), pl.Int64(), EMPTY),
        (sw.between(20, 95), pl.Float64(), Range(20.0, 95.0)),
        (sw.between(-INF, 3), pl.Float64(), Range(None, 3.0)),
        (sw.between(INF, None), pl.Float64(), Constant(INF)),
        (sw.between(None, -INF, closed="neither"), pl.Float64(), EMPTY),
        (sw.between(False, None), pl.Boolean(), OneOf((False, True))),
        (sw.between(-128, 127), pl.Int8(), Range()),
        (Constant(2), pl.Float64(), Constant(2.0)),
        (sw.between(Decimal(1), Decimal(2)), pl.Decimal(10, 2), Range(Decimal("1.00"), Decimal("2.00"))),
        (sw.one_of([2], [1, None], [2]), pl.List(pl.Int64()), OneOf(([1, None], [2]))),
        (Constant({"x": [1]}), pl.Struct({"x": pl.List(pl.Int64())}), Constant({"x": [1]})),
    ],
)
def test_a_pattern_takes_the_type_of_its_column(
    pattern: Pattern, dtype: pl.DataType, result: Pattern
) -> None:
    assert fitted(pattern, "x", dtype) == result


@pytest.mark.parametrize(
    ("pattern", "dtype"),
    [
        (Constant("a"), pl.Int64()),
        (sw.between(1.5, 3), pl.Int64()),
        (sw.between(0, 300), pl.Int8()),
        (sw.one_of(True, False), pl.Int64()),
        (sw.between("a", "b"), pl.Enum(["a", "b"])),
        (sw.between(1, 2), pl.List(pl.Int64())),
    ],
)
def test_what_does_not_fit_the_column_is_refused(pattern: Pattern, dtype: pl.DataType) -> None:
    with pytest.raises(InvalidElement):
        fitted(pattern, "x", dtype)


COLUMNS: list[tuple[pl.DataType, list[Any]]] = [
    (pl.Int64(), [1, 2, 3, 4, None]),
    (pl.Float64(), [-1.0, -0.0, 0.0, 2.5, float("inf"), NAN, None]),
    (pl.String(), ["", "a", "ab", "b", None]),
    (pl.Boolean(), [False, True, None]),
    (pl.Date(), [DAY, DAY + dt.timedelta(1), DAY + dt.timedelta(2), None]),
    (pl.Datetime("us", "UTC"), [NOON, NOON + dt.timedelta(microseconds=1), None]),
    (BERLIN, [AS_TWO, AS_THREE - CHRONON, AGAIN, (AS_THREE - CHRONON).replace(fold=1), AS_THREE, None]),
    (pl.Duration("ms"), [dt.timedelta(0), dt.timedelta(milliseconds=1), None]),
    (pl.Decimal(10, 2), [Decimal("1.50"), Decimal("2.00"), None]),
]


@st.composite
def of_a_column(draw: st.DrawFn, count: int) -> tuple[pl.DataType, list[Any], list[Pattern]]:
    """A type, some of its values, and patterns of them."""
    dtype, values = draw(st.sampled_from(COLUMNS))
    ordered = [v for v in values if v is not None and v == v]  # noqa: PLR0124  # not NaN
    found: list[Pattern] = []
    for _ in range(count):
        kind = draw(st.sampled_from(["constant", "list", "range", "any", "empty"]))
        if kind == "constant":
            found.append(Constant(draw(st.sampled_from(values))))
        elif kind == "list":
            found.append(sw.one_of(*draw(st.lists(st.sampled_from(values)))))
        elif kind == "range":
            ends = sorted(draw(st.lists(st.sampled_from(ordered), min_size=2, max_size=2)), key=place)
            low, high = (draw(st.sampled_from([None, end])) for end in ends)
            drawn = Range(low, high, draw(st.booleans()), draw(st.booleans()))
            found.append(fitted(drawn, "x", dtype))
        else:
            found.append(ANY if kind == "any" else EMPTY)
    return dtype, values, found


@given(of_a_column(1))
def test_a_column_is_matched_as_its_values_are(drawn: Any) -> None:
    dtype, values, [pattern] = drawn
    expected = [holds(pattern, value) for value in values]
    assert matches(pattern, pl.Series(values, dtype=dtype)).tolist() == expected
    known = pl.Series(values, dtype=dtype).drop_nulls()
    assert matches(pattern, known).tolist() == [holds(pattern, value) for value in known.to_list()]


@given(of_a_column(2))
def test_a_combination_matches_what_both_do(drawn: Any) -> None:
    dtype, values, [a, b] = drawn
    for both in (combine(a, b, dtype), combine(b, a)):
        assert all(holds(both, v) == (holds(a, v) and holds(b, v)) for v in values)


@given(of_a_column(2))
def test_what_implies_another_matches_all_that_it_does(drawn: Any) -> None:
    dtype, values, [a, b] = drawn
    if implies(a, b, dtype):
        assert all(holds(a, v) for v in values if holds(b, v))
    assert implies(a, combine(a, b, dtype), dtype)
    assert implies(a, a)
    assert implies(ANY, a)
    assert implies(a, EMPTY)


@given(of_a_column(2))
def test_a_union_matches_what_either_does(drawn: Any) -> None:
    dtype, values, [a, b] = drawn
    for both in (united(a, b, dtype), united(a, b)):
        if both is not None:
            assert all(holds(both, v) == (holds(a, v) or holds(b, v)) for v in values)
            assert implies(both, a, dtype)
            assert implies(both, b, dtype)


@pytest.mark.parametrize(
    ("a", "b", "dtype", "both"),
    [
        (sw.between(0, 2), sw.between(3, 4), pl.Int64(), Range(0, 4)),
        (Constant(1), Constant(2), pl.Int64(), Range(1, 2)),
        (Constant(1), Constant(3), pl.Int64(), OneOf((1, 3))),
        (sw.between(0, 2), Constant(9), pl.Int64(), None),
        (sw.between(None, 4), sw.between(5, None), pl.Int64(), Range()),
        (Range(), Constant(None), pl.Int64(), ANY),
        (Range(), Constant(None), pl.Float64(), None),
        (Range(), OneOf((None, NAN)), pl.Float64(), ANY),
        (sw.between(-INF, INF), OneOf((None, NAN)), pl.Float64(), ANY),
        (Range(-INF, INF, False, False), OneOf((-INF, INF)), pl.Float64(), Range()),
        (OneOf((False, True)), Constant(None), pl.Boolean(), ANY),
        (sw.between(None, 4.0, closed="neither"), sw.between(4.0, None), pl.Float64(), Range()),
        (Range(None, 4.0, True, False), Range(4.0, None, False, True), pl.Float64(), None),
        (Constant(DAY), Constant(DAY + dt.timedelta(1)), pl.Date(), Range(DAY, DAY + dt.timedelta(1))),
        (sw.between("a", "b"), sw.between("b", "c"), pl.String(), Range("a", "c")),
    ],
)
def test_unions_by_hand(a: Pattern, b: Pattern, dtype: pl.DataType, both: Pattern | None) -> None:
    assert united(a, b, dtype) == both
    assert united(b, a, dtype) == both


def test_an_hour_that_comes_twice_is_not_skipped() -> None:
    before, after = sw.between(None, AS_THREE - CHRONON), sw.between(AS_THREE, None)
    assert united(before, after, BERLIN) is None
    assert united(sw.between(None, (AS_THREE - CHRONON).replace(fold=1)), after, BERLIN) == Range()
    first, second = sw.between(AS_TWO, None), sw.between(AGAIN, None)
    assert first != second
    assert not implies(second, first, BERLIN)
    assert combine(first, second) == combine(second, first) == second
    until_again = fitted(sw.between(None, AGAIN, closed="left"), "t", BERLIN)
    assert holds(until_again, AS_THREE - CHRONON)
