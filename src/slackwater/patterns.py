"""Patterns: which values of one column a promise speaks of.

ANY matches every value, null included; a constant the same value (identity.py: null = null, NaN = NaN);
a range the values between its ends, neither null nor NaN; a list its members; EMPTY nothing. Patterns of
one column are closed under intersection (`combine`), which is what makes punctuations so (paper 4
section 3). Their union is one only at times: `united` says when it is exact.

Ranges are of types that have an order (`is_ordered`): numbers, texts, booleans, times; nested values and
categories are constants only. Integers and dates are discrete, so (1, 3) is 2, and 1 and 2 are [1, 2];
so are times, if the column's type tells the unit. `fitted` brings what a user wrote to the type of its
column, and everything else takes it that this has been done: 20 is 20.0 where floats are.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from slackwater.columns import FEW
from slackwater.errors import InvalidElement
from slackwater.identity import PLAIN, identity, place
from slackwater.payloads import payload_frame

__all__ = [
    "ANY",
    "EMPTY",
    "Any_",
    "Constant",
    "Empty",
    "OneOf",
    "Pattern",
    "Range",
    "between",
    "closed_name",
    "combine",
    "fitted",
    "holds",
    "implies",
    "is_ordered",
    "limits",
    "matches",
    "one_of",
    "pattern_of",
    "united",
    "values_of",
]

Mask: TypeAlias = npt.NDArray[np.bool_]
Closed: TypeAlias = Literal["both", "left", "right", "neither"]

_CLOSED: dict[str, tuple[bool, bool]] = {
    "both": (True, True),
    "left": (True, False),
    "right": (False, True),
    "neither": (False, False),
}
_CLOSED_NAMES = {ends: name for name, ends in _CLOSED.items()}
_DAY = dt.timedelta(days=1)
_UNITS = {"us": dt.timedelta(microseconds=1), "ms": dt.timedelta(milliseconds=1)}


@dataclass(frozen=True, slots=True, repr=False)
class Any_:  # noqa: N801  # `Any` is another thing in Python
    """Every value."""

    def __repr__(self) -> str:
        return "ANY"


@dataclass(frozen=True, slots=True, repr=False)
class Empty:
    """No value."""

    def __repr__(self) -> str:
        return "EMPTY"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Constant:
    """One value."""

    value: Any

    def _key(self) -> Hashable:
        return identity(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return repr(self.value)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Range:
    """The values between two ends, each of which belongs to it or not; None: there is no such end."""

    low: Any = None
    high: Any = None
    low_closed: bool = True
    high_closed: bool = True

    def _key(self) -> Hashable:
        return identity(self.low), identity(self.high), self.low_closed, self.high_closed

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Range) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        closed = closed_name(self)
        how = "" if closed == "both" else f", closed={closed!r}"
        return f"between({self.low!r}, {self.high!r}{how})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class OneOf:
    """The values of a list: at least two, in ascending order, none twice."""

    values: tuple[Any, ...]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OneOf) and identity(self.values) == identity(other.values)

    def __hash__(self) -> int:
        return hash(identity(self.values))

    def __repr__(self) -> str:
        return f"one_of({', '.join(map(repr, self.values))})"


Pattern: TypeAlias = Any_ | Constant | Range | OneOf | Empty

ANY = Any_()
EMPTY = Empty()


def between(low: Any, high: Any, closed: Closed = "both") -> Pattern:
    """The values from `low` to `high`, neither null nor NaN; None: there is no such end.

    >>> between(20, 95), between(None, 3, closed="neither"), between(3, 3)
    (between(20, 95), between(None, 3, closed='neither'), 3)
    >>> between(95, 20)
    Traceback (most recent call last):
        ...
    slackwater.errors.InvalidElement: a range cannot end before it begins: between(95, 20)
      detail: it would hold no value
      hint: the lower end comes first; None stands for no end
    """
    if closed not in tuple(_CLOSED):  # by ==, whatever it is
        raise InvalidElement(
            f"{closed!r} does not say which ends belong to a range", hint=f"one of {', '.join(_CLOSED)}"
        )
    drawn = Range(low, high, *_CLOSED[closed])
    for end in (low, high):
        if end.is_nan() if isinstance(end, Decimal) else isinstance(end, float) and math.isnan(end):
            raise InvalidElement(
                f"NaN is not an end of a range: {drawn!r}", hint="it has no place there"
            )
        if isinstance(end, Pattern) or not _has_order(end):
            raise InvalidElement(
                f"{end!r} is not an end of a range",
                detail=f"it is of type {type(end).__name__}, whose values have no order here",
                hint="numbers, texts and times have one; sw.one_of lists values of any type",
            )
    if low is None or high is None:
        return drawn
    try:
        swapped, same = _order(low) > _order(high), _order(low) == _order(high)
    except TypeError as problem:
        raise InvalidElement(
            f"the ends of {drawn!r} are of different types",
            detail=f"{type(low).__name__} and {type(high).__name__}",
            hint="both are of the type of the column",
        ) from problem
    if swapped or (same and closed != "both"):
        raise InvalidElement(
            f"a range cannot end before it begins: {drawn!r}",
            detail="it would hold no value",
            hint="the lower end comes first; None stands for no end",
        )
    return Constant(low) if same else drawn


def one_of(*values: Any) -> Pattern:
    """These values, and no others.

    >>> one_of(2004, 1001, 2004), one_of(7), one_of()
    (one_of(1001, 2004), 7, EMPTY)
    """
    return _listed(pattern_of(value) for value in values)


def closed_name(drawn: Range) -> str:
    """Which ends belong to a range, as `between` is told."""
    return _CLOSED_NAMES[drawn.low_closed, drawn.high_closed]


def pattern_of(value: Any) -> Pattern:
    """A pattern as it is, any other value as the constant that it is."""
    if isinstance(value, Pattern):
        return value
    try:
        identity(value)
        hash(identity(value))
        assert not isinstance(value, Decimal) or value.is_finite(), "no column holds such decimals"
    except (AssertionError, TypeError) as problem:
        raise InvalidElement(
            f"{value!r} is no value of a column", detail=f"it is of type {type(value).__name__}"
        ) from problem
    return Constant(value)


def _listed(patterns: Iterable[Pattern]) -> Pattern:
    found: dict[Hashable, Any] = {}
    for pattern in patterns:
        if not isinstance(pattern, Constant):
            raise InvalidElement(
                f"{pattern!r} is not a value of a list", hint="a list is of constants; null is None"
            )
        found.setdefault(identity(pattern.value), pattern.value)
    return _of_values(found.values())


def _of_values(values: Iterable[Any]) -> Pattern:
    """The pattern of values that differ."""
    values = [*values]
    try:
        ordered = sorted(values, key=place)
    except TypeError as problem:
        raise InvalidElement(
            "the values of a list are of different types",
            detail=", ".join(map(repr, values)),
            hint="all of them are of the type of the column",
        ) from problem
    if not ordered:
        return EMPTY
    return Constant(ordered[0]) if len(ordered) == 1 else OneOf(tuple(ordered))


# to a column


def is_ordered(dtype: pl.DataType) -> bool:
    """Whether a column's values have an order that ranges can use."""
    return dtype.is_numeric() or dtype.is_temporal() or dtype in (pl.String, pl.Boolean, pl.Binary)


def fitted(pattern: Pattern, name: str, dtype: pl.DataType) -> Pattern:
    """The pattern in values of the column's type, as it is written there; refused if it cannot be.

    >>> fitted(between(1, 3, closed="neither"), "n", pl.Int64())
    2
    >>> fitted(between(20, 95), "temp", pl.Float64())
    between(20.0, 95.0)
    """
    match pattern:
        case Constant(value):
            return Constant(_fitted_value(value, name, dtype))
        case OneOf(values):
            return _listed(Constant(_fitted_value(value, name, dtype)) for value in values)
        case Range(low, high):
            if not is_ordered(dtype):
                raise InvalidElement(
                    f"column {name!r} has no order, and no ranges",
                    detail=f"it is of type {dtype}; the pattern is {pattern!r}",
                    hint="list the values with sw.one_of",
                )
            low, high = (None if end is None else _fitted_value(end, name, dtype) for end in (low, high))
            return _normal(Range(low, high, pattern.low_closed, pattern.high_closed), dtype)
        case _:
            return pattern


def _fitted_value(value: Any, name: str, dtype: pl.DataType) -> Any:
    if type(value) is int and dtype.is_integer():
        least, greatest = limits(dtype)
        if least <= value <= greatest:
            return value
    [fitting] = payload_frame([{name: value}], pl.Schema({name: dtype}))[name].to_list()
    return fitting


# which values


def holds(pattern: Pattern, value: Any) -> bool:
    """Whether a pattern matches a value."""
    match pattern:
        case Any_():
            return True
        case Empty():
            return False
        case Constant(constant):
            return identity(constant) == identity(value)
        case OneOf(values):
            return identity(value) in map(identity, values)
        case Range(low, high, low_closed, high_closed):
            if not _is_ranked(value):
                return False
            at = _order(value)
            above = low is None or (_order(low) <= at if low_closed else _order(low) < at)
            return above and (high is None or (at <= _order(high) if high_closed else at < _order(high)))


def matches(pattern: Pattern, series: pl.Series) -> Mask:
    """Which values of a column a pattern matches, whose own values are of the column's type (`fitted`).

    >>> matches(between(2, None), pl.Series([1, 2, None, 3])).tolist()
    [False, True, False, True]
    """
    if len(series) <= FEW and series.dtype in PLAIN and not _is_long(pattern):
        one_by_one = (holds(pattern, value) for value in series.to_list())
        return np.fromiter(one_by_one, dtype=np.bool_, count=len(series))
    match pattern:
        case Any_():
            return np.ones(len(series), dtype=np.bool_)
        case Empty():
            return np.zeros(len(series), dtype=np.bool_)
        case Constant(value):
            if value is None:
                return series.is_null().to_numpy()
            return series.eq_missing(_column([value], series.dtype)).to_numpy()
        case OneOf(values):
            if series.dtype.is_nested():
                found = [matches(Constant(value), series) for value in values]
                return np.asarray(np.logical_or.reduce(found))
            return series.is_in(_column(values, series.dtype).implode(), nulls_equal=True).to_numpy()
        case Range(low, high, low_closed, high_closed):
            if series.dtype == pl.Int64 and not series.null_count():
                return _within(pattern, series.to_numpy())
            within = series.is_not_null()
            if series.dtype.is_float():
                within &= series.is_not_nan().fill_null(value=False)
            if low is not None:
                end = _column([low], series.dtype)
                within &= (series >= end if low_closed else series > end).fill_null(value=False)
            if high is not None:
                end = _column([high], series.dtype)
                within &= (series <= end if high_closed else series < end).fill_null(value=False)
            return within.to_numpy()


def _is_long(pattern: Pattern) -> bool:
    return isinstance(pattern, OneOf) and len(pattern.values) > FEW


def _within(drawn: Range, values: npt.NDArray[np.int64]) -> Mask:
    """Which integers lie in a range: the same as by expressions, whose price is that of many rows."""
    found = np.ones(len(values), dtype=np.bool_)
    if drawn.low is not None:
        found &= values >= drawn.low if drawn.low_closed else values > drawn.low
    if drawn.high is not None:
        found &= values <= drawn.high if drawn.high_closed else values < drawn.high
    return found


def _column(values: Iterable[Any], dtype: pl.DataType) -> pl.Series:
    return pl.Series(list(values), dtype=dtype, strict=True)


# the algebra


def combine(a: Pattern, b: Pattern, dtype: pl.DataType | None = None) -> Pattern:
    """The values that both match.

    >>> combine(between(1, 5), between(4, None)), combine(one_of(1, 9), between(4, None))
    (between(4, 5), 9)
    """
    if isinstance(a, Any_) or isinstance(b, Empty) or a == b:
        return b
    if isinstance(b, Any_) or isinstance(a, Empty):
        return a
    if isinstance(a, Range) and isinstance(b, Range):
        low, low_closed = _later(a, b)
        high, high_closed = _earlier(a, b)
        return _normal(Range(low, high, low_closed, high_closed), dtype)
    listed, other = (a, b) if not isinstance(a, Range) else (b, a)
    return _of_values(value for value in values_of(listed) if holds(other, value))


def implies(a: Pattern, b: Pattern, dtype: pl.DataType | None = None) -> bool:
    """Whether a promise about the values of `a` is one about those of `b`: a matches all that b does."""
    if isinstance(a, Any_) or isinstance(b, Empty):
        return True
    if isinstance(a, Empty) or isinstance(b, Any_):
        return False
    if isinstance(b, Range):
        if isinstance(a, Range):
            return combine(a, b, dtype) == _normal(b, dtype)
        members = _members(b, len(values_of(a)), dtype)
        return members is not None and all(holds(a, value) for value in members)
    return all(holds(a, value) for value in values_of(b))


def united(a: Pattern, b: Pattern, dtype: pl.DataType | None = None) -> Pattern | None:
    """The pattern that matches what either matches; None if there is no such pattern.

    A column's type says more: what its unit is, where its values end, and that all of them are there.

    >>> united(between(None, 5), between(5, None)), united(between(1, 2), between(3, 4))
    (between(None, None), between(1, 4))
    >>> united(between(None, None), pattern_of(None), pl.Int64())
    ANY
    >>> united(between(1.0, 2.0), between(3.0, 4.0)) is None
    True
    """
    # of two ranges none is compared with the other first: side by side they are one, or they are not
    if not (isinstance(a, Range) and isinstance(b, Range)):
        if implies(a, b, dtype):
            return a
        if implies(b, a, dtype):
            return b
    apart, spans = _spans(a, dtype)
    more, others = _spans(b, dtype)
    apart |= more
    spans = _joined([*spans, *others], dtype)
    if _is_all(apart, spans, dtype):
        return ANY
    points = [span.low for span in spans if span.is_point]
    if len(points) == len(spans):
        return _of_values([*points, *apart.values()])
    return _normal(Range(*spans[0]), dtype) if len(spans) == 1 and not apart else None


class _Span(NamedTuple):
    low: Any
    high: Any
    low_closed: bool
    high_closed: bool

    @property
    def is_point(self) -> bool:
        return self.low is not None and self.high is not None and _order(self.low) == _order(self.high)


def _spans(pattern: Pattern, dtype: pl.DataType | None) -> tuple[dict[Hashable, Any], list[_Span]]:
    """A pattern as values without a place in an order, by identity, and stretches of the others."""
    if isinstance(pattern, Range):
        drawn = _normal(pattern, dtype)
        if isinstance(drawn, Range):
            span = _Span(drawn.low, drawn.high, drawn.low_closed, drawn.high_closed)
            return {}, [span]
        pattern = drawn
    apart: dict[Hashable, Any] = {}
    spans = []
    for value in values_of(pattern):
        if _is_ranked(value):
            spans.append(_Span(value, value, True, True))
        else:
            apart[identity(value)] = value
    return apart, spans


def _joined(spans: list[_Span], dtype: pl.DataType | None) -> list[_Span]:
    """Stretches that touch as one, in order."""
    lowest = [span for span in spans if span.low is None]
    ordered = sorted(
        (span for span in spans if span.low is not None),
        key=lambda span: (_order(span.low), not span.low_closed),
    )
    joined: list[_Span] = []
    for span in [*lowest, *ordered]:
        if joined and _touch(joined[-1], span, dtype):
            last = joined[-1]
            high, high_closed = _later_end(last, span)
            joined[-1] = _Span(last.low, high, last.low_closed, high_closed)
        else:
            joined.append(span)
    return joined


def _touch(a: _Span, b: _Span, dtype: pl.DataType | None) -> bool:
    """Whether nothing lies between two stretches, of which the first begins first."""
    if a.high is None or b.low is None:
        return True
    end, start = _order(a.high), _order(b.low)
    if start < end or (start == end and (a.high_closed or b.low_closed)):
        return True
    following = _step(a.high, 1, dtype)
    return following is not None and a.high_closed and b.low_closed and _order(following) == start


def _later_end(a: _Span, b: _Span) -> tuple[Any, bool]:
    if a.high is None or b.high is None:
        return None, True
    return max(
        ((a.high, a.high_closed), (b.high, b.high_closed)), key=lambda end: (_order(end[0]), end[1])
    )


def _is_all(apart: dict[Hashable, Any], spans: list[_Span], dtype: pl.DataType | None) -> bool:
    """Whether nothing is left out: null and NaN are values, too."""
    if None not in apart or not spans:
        return False
    points = [span.low for span in spans if span.is_point]
    if points and all(isinstance(value, bool) for value in points):
        return len(points) == 2
    if dtype is None or len(spans) > 1 or _normal(Range(*spans[0]), dtype) != Range():
        return False
    return not dtype.is_float() or identity(math.nan) in apart


def _later(a: Range, b: Range) -> tuple[Any, bool]:
    if a.low is None or b.low is None:
        return (b.low, b.low_closed) if a.low is None else (a.low, a.low_closed)
    ends = (a.low, a.low_closed), (b.low, b.low_closed)
    return max(ends, key=lambda end: (_order(end[0]), not end[1]))


def _earlier(a: Range, b: Range) -> tuple[Any, bool]:
    if a.high is None or b.high is None:
        return (b.high, b.high_closed) if a.high is None else (a.high, a.high_closed)
    ends = (a.high, a.high_closed), (b.high, b.high_closed)
    return min(ends, key=lambda end: (_order(end[0]), end[1]))


def values_of(pattern: Pattern) -> tuple[Any, ...]:
    """The values of a pattern that lists them."""
    match pattern:
        case Constant(value):
            return (value,)
        case OneOf(values):
            return values
        case _:
            assert isinstance(pattern, Empty), pattern
            return ()


# values


def _has_order(value: object) -> bool:
    scalar = (int, float, Decimal, str, bytes, dt.date, dt.time, dt.timedelta)
    return value is None or isinstance(value, scalar)


def _is_ranked(value: object) -> bool:
    """Whether a value has a place in the order of its column."""
    if value is None or not _has_order(value):
        return False
    return not isinstance(value, float) or not math.isnan(value)


def _order(value: Any) -> Any:
    """What a value is compared by."""
    return value.astimezone(dt.UTC) if isinstance(value, dt.datetime) and value.tzinfo else value


def _step(value: Any, steps: int, dtype: pl.DataType | None) -> Any:
    """The value so many steps on; None if the steps are not known, or end there."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value + steps
    if isinstance(value, dt.datetime | dt.timedelta):
        unit = _UNITS.get(getattr(dtype, "time_unit", None) or "")
    else:
        unit = _DAY if isinstance(value, dt.date) else None
    if unit is None:
        return None
    try:
        if isinstance(value, dt.datetime) and value.tzinfo is not None:
            # Python adds to what clocks show, and leaves out or repeats the hour by which they are set
            return (value.astimezone(dt.UTC) + steps * unit).astimezone(value.tzinfo)
        return value + steps * unit
    except OverflowError:
        return None


@lru_cache(maxsize=64)
def limits(dtype: pl.DataType | None) -> tuple[Any, Any]:
    """The least and the greatest value of a type, NaN apart; None where Python has no such values.

    >>> limits(pl.Int8()), limits(pl.Float64()), limits(pl.String())
    ((-128, 127), (-inf, inf), (None, None))
    """
    if dtype is not None and dtype.is_float():
        return -math.inf, math.inf
    if dtype is None or not dtype.is_integer():
        return None, None
    least, greatest = pl.select(least=dtype.min(), greatest=dtype.max()).row(0)  # type: ignore[attr-defined]
    return least, greatest


def _normal(drawn: Range, dtype: pl.DataType | None = None) -> Pattern:
    """A range as simple as it can be: of discrete values with closed ends, a constant if it is one."""
    low, high, low_closed, high_closed = drawn.low, drawn.high, drawn.low_closed, drawn.high_closed
    if isinstance(low, bool) or isinstance(high, bool) or dtype == pl.Boolean:
        return _of_values(value for value in (False, True) if holds(drawn, value))
    least, greatest = limits(dtype)
    if low is not None and not low_closed and (step := _step(low, 1, dtype)) is not None:
        low, low_closed = step, True
    if high is not None and not high_closed and (step := _step(high, -1, dtype)) is not None:
        high, high_closed = step, True
    if low is None or (least is not None and low_closed and low <= least):
        low, low_closed = None, True
    if high is None or (greatest is not None and high_closed and high >= greatest):
        high, high_closed = None, True
    if least is not None:
        # of integers all ends belong to their range by now
        is_above = low is not None and (low > greatest if low_closed else low >= greatest)
        is_below = high is not None and (high < least if high_closed else high <= least)
        if is_above or is_below:
            return EMPTY
    if low is None or high is None:
        if least is not None and (low == greatest or high == least):
            return Constant(least if low is None else greatest)
        return Range(low, high, low_closed, high_closed)
    if _order(low) > _order(high) or (_order(low) == _order(high) and not (low_closed and high_closed)):
        return EMPTY
    return Constant(low) if _order(low) == _order(high) else Range(low, high, low_closed, high_closed)


def _members(drawn: Range, most: int, dtype: pl.DataType | None) -> list[Any] | None:
    """The values of a range, if they can be listed and are not more than so many."""
    drawn_again = _normal(drawn, dtype)
    if not isinstance(drawn_again, Range):
        return list(values_of(drawn_again))
    low, high = drawn_again.low, drawn_again.high
    least, greatest = limits(dtype)
    low, high = least if low is None else low, greatest if high is None else high
    if low is None or high is None or _step(low, 0, dtype) is None:
        return None
    members = [low]
    while len(members) <= most and _order(members[-1]) < _order(high):
        members.append(_step(members[-1], 1, dtype))
    return None if len(members) > most else members
