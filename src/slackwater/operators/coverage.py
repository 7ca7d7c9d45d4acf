"""Coverage: promises about one column that together leave no value out, or none up to some value.

Null is a value, too, and so is NaN: a range holds neither. In the order of a sort null comes before all
values, and NaN behind them (operators/sort.py). `prefix` is `init` of paper 4 section 5.2: with [2, 4]
alone nothing is known of what comes first; with [0, 3] as well, and nothing below 0, all up to 4 is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from heapq import merge
from typing import Any, NamedTuple

import polars as pl

from slackwater.columns import FEW
from slackwater.identity import place
from slackwater.patterns import ANY, Constant, OneOf, Pattern, Range, holds, limits, united

__all__ = ["Prefix", "covers", "prefix"]

_NULL, _NAN = Constant(None), Constant(math.nan)


class Prefix(NamedTuple):
    """Values from the least on, null first; and whether NaN, the last one, belongs to them."""

    values: Pattern | None
    """None: nothing but null"""
    nan: bool


def covers(patterns: Iterable[Pattern], dtype: pl.DataType) -> bool:
    """Whether these patterns of a column together match every value that it may have.

    >>> half, other = Range(None, 5, True, False), Range(5, None)
    >>> covers([half, other, Constant(None)], pl.Int64()), covers([half, other], pl.Int64())
    (True, False)
    """
    patterns = list(patterns)
    if ANY in patterns:
        return True
    found = prefix(patterns, dtype)
    if found is None or not _is_whole(found.values):
        return False
    return found.nan or not dtype.is_float()


def prefix(
    patterns: Iterable[Pattern], dtype: pl.DataType, values: pl.Series | None = None
) -> Prefix | None:
    """The values from the least on that these patterns match without a gap; None if null is left out.

    `values` are as many constants. No more of them are looked at than belong to the prefix.

    >>> closed = [Constant(None), Range(None, 0, True, False), Range(2, 4)]
    >>> prefix(closed, pl.Int64()).values, prefix([*closed, Range(0, 3)], pl.Int64()).values
    (between(None, 0, closed='left'), between(None, 4))
    >>> prefix(closed, pl.Int64(), pl.Series([7, 1, 0])).values
    between(None, 4)
    """
    parts = list(_parts(patterns))
    if ANY in parts:
        return Prefix(Range(), nan=True)
    constants = pl.Series([], dtype=dtype) if values is None else values
    if _NULL not in parts and not constants.null_count():
        return None
    ranked = sorted((part for part in parts if part not in (_NULL, _NAN)), key=_start)
    found: Pattern | None = None
    for part in merge(ranked, map(Constant, _ascending(constants)), key=_start):
        if found is None:
            if not _is_first(part, dtype):
                break
            found = part
            continue
        longer = united(found, part, dtype)
        if longer is None or (isinstance(longer, OneOf) and dtype != pl.Boolean):
            break
        found = longer
    has_nan = _NAN in parts or (dtype.is_float() and constants.is_nan().any())
    return Prefix(found, nan=_is_whole(found) and has_nan)


def _ascending(values: pl.Series) -> Iterator[Any]:
    """The values that have a place in an order, in this order, as they are asked for."""
    ranked = values.drop_nans() if values.dtype.is_float() else values
    ranked = ranked.drop_nulls().unique().sort()
    for first in range(0, len(ranked), FEW):
        yield from ranked[first : first + FEW].to_list()


def _parts(patterns: Iterable[Pattern]) -> Iterable[Pattern]:
    for pattern in patterns:
        if isinstance(pattern, OneOf):
            yield from map(Constant, pattern.values)
        else:
            yield pattern


def _start(part: Pattern) -> tuple[Any, ...]:
    match part:
        case Range(None):
            return (0,)
        case Range(low, _, low_closed):
            return 1, place(low), not low_closed
        case _:
            assert isinstance(part, Constant), part
            return 1, place(part.value), False


def _is_first(part: Pattern, dtype: pl.DataType) -> bool:
    """Whether no value comes before it."""
    if dtype == pl.Boolean:
        return holds(part, value=False)
    if isinstance(part, Constant):
        return part == Constant(limits(dtype)[0])
    return isinstance(part, Range) and part.low is None


def _is_whole(pattern: Pattern | None) -> bool:
    if isinstance(pattern, OneOf):
        return pattern.values == (False, True)
    return isinstance(pattern, Range) and pattern.low is None and pattern.high is None
