"""Arithmetic: expressions over whole numbers as operations on arrays.

A query of polars takes some 0.1 ms, however few rows there are, and looking for overflow in 128 bits
takes several times as long as the expression itself. On a loop, where batches are small and many, that
is most of what there is to do. So what most registers and conditions are made of is turned into a
function on arrays: sums, differences and products of 64-bit integers, comparisons of them and of
strings, and, or, not. It gives what polars gives, or says that it is not sure (a value is missing, a
number does not fit), and then polars is asked.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

__all__ = ["Arithmetic", "constant_in", "in_arrays"]

Values: TypeAlias = npt.NDArray[Any] | int
Arithmetic: TypeAlias = Callable[[pl.DataFrame], npt.NDArray[Any] | None]
"""the values of an expression over rows; None if it is not sure of them"""

_COMPARED: dict[str, Callable[[Any, Any], Any]] = {
    "Gt": operator.gt,
    "GtEq": operator.ge,
    "Lt": operator.lt,
    "LtEq": operator.le,
    "Eq": operator.eq,
    "NotEq": operator.ne,
}
_JOINED: dict[str, Callable[[Any, Any], Any]] = {"And": np.logical_and, "Or": np.logical_or}
_MOST = 2**63 - 1
_SMALL = 2**31
"""products of numbers up to this fit"""


class _Unsure(Exception):
    """This is for polars to decide."""


class _Part(NamedTuple):
    """A part of an expression: what type it has, and its values."""

    dtype: pl.DataType
    of: Callable[[pl.DataFrame], Any]


def in_arrays(expression: pl.Expr, schema: pl.Schema) -> Arithmetic | None:
    """The expression as a function on arrays, if it is of that kind.

    >>> import polars as pl
    >>> above = in_arrays(pl.col("a") + 1 > pl.col("b"), pl.Schema({"a": pl.Int64(), "b": pl.Int64()}))
    >>> above(pl.DataFrame({"a": [1, 2, 2**63 - 2], "b": [2, 2, 2]})).tolist()
    [False, True, True]
    >>> above(pl.DataFrame({"a": [1, 2**63 - 1], "b": [2, 2]})) is None                # too large
    True
    """
    part = _part(expression.meta.undo_aliases(), schema)
    if part is None or part.dtype not in (pl.Int64, pl.Boolean):
        return None

    def values(payload: pl.DataFrame) -> npt.NDArray[Any] | None:
        try:
            found: npt.NDArray[Any] = part.of(payload)
        except _Unsure:
            return None
        return found

    return values


def constant_in(expression: pl.Expr) -> pl.Series | None:
    """The value of an expression that is a single one for all rows, in a column of one row."""
    plain = expression.meta.undo_aliases()
    if not plain.meta.is_literal() or not {"Scalar", "Dyn"} & {*_told(plain).get("Literal", {})}:
        return None
    return pl.select(plain).to_series()


def _told(expression: pl.Expr) -> dict[str, Any]:
    """What an expression is, by polars' account."""
    try:
        told = json.loads(expression.meta.serialize(format="json"))
    except pl.exceptions.ComputeError:
        # a function of Python has no such account
        return {}
    return told if isinstance(told, dict) else {}


def _part(expression: pl.Expr, schema: pl.Schema) -> _Part | None:
    if expression.meta.is_column():
        return _column(expression.meta.output_name(), schema)
    told = _told(expression)
    if not told:
        return None
    if str(expression).endswith(".not()"):
        [inner] = [_part(each, schema) for each in expression.meta.pop()] or [None]
        return None if inner is None or inner.dtype != pl.Boolean else _not(inner)
    operation = told.get("BinaryExpr", {}).get("op")
    if not isinstance(operation, str):
        return None
    right, left = expression.meta.pop()
    one, other = _part(left, schema), _part(right, schema)
    # a literal takes the type of what it is compared with, or added to
    if one is None and other is not None:
        one = _literal(left, other.dtype)
    elif other is None and one is not None:
        other = _literal(right, one.dtype)
    if one is None or other is None or one.dtype != other.dtype:
        return None
    return _of_two(operation, one, other)


def _of_two(operation: str, one: _Part, other: _Part) -> _Part | None:
    if operation in _JOINED:
        return _both(_JOINED[operation], one, other, pl.Boolean()) if one.dtype == pl.Boolean else None
    if one.dtype == pl.Int64 and operation in _SUMS:
        return _both(_SUMS[operation], one, other, pl.Int64())
    if one.dtype == pl.Int64 and operation in _COMPARED:
        return _both(_COMPARED[operation], one, other, pl.Boolean())
    if one.dtype == pl.String and operation in {"Eq", "NotEq"}:
        return _both(_words(_COMPARED[operation]), one, other, pl.Boolean())
    return None


def _both(apply: Callable[[Any, Any], Any], one: _Part, other: _Part, dtype: pl.DataType) -> _Part:
    return _Part(dtype, lambda payload: apply(one.of(payload), other.of(payload)))


def _not(inner: _Part) -> _Part:
    return _Part(inner.dtype, lambda payload: np.logical_not(inner.of(payload)))


def _column(name: str, schema: pl.Schema) -> _Part | None:
    dtype = schema.get(name)
    if dtype not in (pl.Int64, pl.Boolean, pl.String):
        return None
    is_string = dtype == pl.String

    def values(payload: pl.DataFrame) -> Any:
        column = payload.get_column(name)
        if column.null_count():
            raise _Unsure
        return column if is_string else column.to_numpy()

    return _Part(dtype, values)


def _literal(expression: pl.Expr, dtype: pl.DataType) -> _Part | None:
    """A number or a text, where one of that type is needed."""
    constant = constant_in(expression)
    if constant is None or constant[0] is None:
        return None
    value = constant[0]
    is_whole = "Dyn" in _told(expression)["Literal"] and type(value) is int
    if constant.dtype != dtype and not (dtype == pl.Int64 and is_whole):
        return None
    if type(value) is int and not -_MOST <= value <= _MOST:
        return None
    return _Part(dtype, lambda _: value)


def _words(compare: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def compared(one: pl.Series | str, other: pl.Series | str) -> npt.NDArray[np.bool_]:
        # equality is the same from both sides
        if isinstance(one, str):
            one, other = other, one
        found: npt.NDArray[np.bool_] = compare(one, other).to_numpy()
        return found

    return compared


def _added(one: Values, other: Values) -> npt.NDArray[np.int64]:
    total: npt.NDArray[np.int64] = np.add(one, other)
    # both have the sign that the result has not
    if (((one ^ total) & (other ^ total)) < 0).any():
        raise _Unsure
    return total


def _subtracted(one: Values, other: Values) -> npt.NDArray[np.int64]:
    rest: npt.NDArray[np.int64] = np.subtract(one, other)
    if (((one ^ other) & (one ^ rest)) < 0).any():
        raise _Unsure
    return rest


def _multiplied(one: Values, other: Values) -> npt.NDArray[np.int64]:
    for each in (one, other):
        if np.any(np.greater(each, _SMALL)) or np.any(np.less(each, -_SMALL)):
            raise _Unsure
    product: npt.NDArray[np.int64] = np.multiply(one, other)
    return product


_SUMS: dict[str, Callable[[Any, Any], Any]] = {
    "Plus": _added,
    "Minus": _subtracted,
    "Multiply": _multiplied,
}
