"""Predicates as promises: what no row has that satisfies one.

A row that passes a conjunction satisfies each of its parts. A part that compares a column with a value
forbids some values of that column, null among them; NaN is greater than every number there. Other parts,
and values that are not of the column's own type, say nothing here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator

import polars as pl

from slackwater.patterns import EMPTY, Constant, Pattern, Range, fitted, is_ordered
from slackwater.punctuations import Punctuation
from slackwater.times import INF

__all__ = ["failing"]

_FAILS: dict[str, tuple[str, bool]] = {
    "Gt": ("above", False),
    "GtEq": ("above", True),
    "Lt": ("below", False),
    "LtEq": ("below", True),
    "Eq": ("is", True),
    "NotEq": ("is", False),
}
"""where a value that satisfies a comparison lies, and whether the compared one does"""
_MIRRORED = {"Gt": "Lt", "GtEq": "LtEq", "Lt": "Gt", "LtEq": "GtEq", "Eq": "Eq", "NotEq": "NotEq"}


def failing(predicate: pl.Expr, schema: pl.Schema) -> list[Punctuation]:
    """Promises about payloads that fail the predicate, as far as boxes can tell.

    >>> failing((pl.col("a") > 3) & (pl.col("b") == "x"), pl.Schema({"a": pl.Int64(), "b": pl.String()}))
    ... # doctest: +NORMALIZE_WHITESPACE
    [punctuation(a=between(None, 3)), punctuation(a=None),
     punctuation(b=between(None, 'x', closed='left')), punctuation(b=between('x', None, closed='right')),
     punctuation(b=None)]
    """
    found: dict[Punctuation, None] = {}
    waiting = [predicate]
    while waiting:
        each = waiting.pop()
        operation = json.loads(each.meta.serialize(format="json")).get("BinaryExpr", {}).get("op")
        if operation not in (*_FAILS, "And"):
            continue
        right, left = each.meta.pop()
        if operation == "And":
            waiting += [right, left]
            continue
        if left.meta.is_literal():
            left, right, operation = right, left, _MIRRORED[operation]
        if left.meta.is_column() and right.meta.is_literal():
            name = left.meta.output_name()
            if name not in schema:
                # the value of a user's function, which is called by a name of its own
                continue
            for pattern in _outside(operation, right, name, schema[name]):
                found[Punctuation(INF, columns=((name, pattern),))] = None
    return list(found)


def _outside(operation: str, literal: pl.Expr, name: str, dtype: pl.DataType) -> Iterator[Pattern]:
    """The values of a column that fail a comparison with a literal."""
    constant = pl.select(literal).to_series()
    is_number = constant.dtype.is_integer() and (dtype.is_integer() or dtype == pl.Float64)
    value = constant[0]
    if not is_ordered(dtype) or not (constant.dtype == dtype or is_number) or value is None:
        return
    if isinstance(value, float) and math.isnan(value):
        return
    where, included = _FAILS[operation]
    ranges: list[Pattern] = []
    if where == "above" or (where == "is" and included):
        ranges.append(Range(None, value, high_closed=where == "above" and not included))
    if where == "below" or (where == "is" and included):
        ranges.append(Range(value, None, low_closed=where == "below" and not included))
    if where == "is" and not included:
        ranges.append(Constant(value))
    if is_number and not _holds(dtype, value):
        return
    for pattern in ranges:
        within = fitted(pattern, name, dtype)
        if within != EMPTY:
            yield within
    yield Constant(None)
    if dtype.is_float() and (where == "below" or (where == "is" and included)):
        yield Constant(math.nan)


def _holds(dtype: pl.DataType, value: int) -> bool:
    """Whether a column can hold an integer as it is."""
    if dtype.is_float():
        return float(value) == value
    least, greatest = pl.select(least=dtype.min(), greatest=dtype.max()).row(0)  # type: ignore[attr-defined]
    return bool(least <= value <= greatest)
