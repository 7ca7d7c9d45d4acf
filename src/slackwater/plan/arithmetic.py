"""Arithmetic: expressions that NumPy computes as polars does, and sooner where there are few rows.

Sums, differences, products, comparisons and their combinations, of columns of 64 bits and of constants.
Who evaluates such an expression for a handful of rows many times a batch saves a query of polars each
time, some 0.1 ms, and looking for overflow in 128 bits, which takes several times as long as the
expression itself. What would not be the same is left to polars: `Unfit` says so of an expression, or of
values: where an integer would not fit, where NaN is compared, where something is missing.

Who goes row by row in a compiled loop wants programs instead (plan/programs.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

__all__ = ["Arithmetic", "Unfit", "constant_in", "in_arrays", "tree_of"]

Array = npt.NDArray[Any]
Values = Callable[[Mapping[str, Array]], Any]
Arithmetic = Callable[[pl.DataFrame], Array | None]
"""the values of an expression over rows; None if polars must be asked"""

_TYPES: Mapping[pl.DataType, str] = {pl.Int64(): "int", pl.Boolean(): "bool", pl.String(): "text"}
"""floats are left out: where there are two zeros, expressions see one"""
_SUMS: dict[str, Callable[[Any, Any], Any]] = {
    "Plus": np.add,
    "Minus": np.subtract,
    "Multiply": np.multiply,
}
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "Gt": np.greater,
    "GtEq": np.greater_equal,
    "Lt": np.less,
    "LtEq": np.less_equal,
    "Eq": np.equal,
    "NotEq": np.not_equal,
}
_CHOICES: dict[str, Callable[[Any, Any], Any]] = {"And": np.logical_and, "Or": np.logical_or}
_FAR = 2.0**62


class Unfit(Exception):
    """Polars must do it."""


def in_arrays(expression: pl.Expr, schema: pl.Schema) -> Arithmetic | None:
    """The expression as a function of rows, if it is of that kind.

    >>> above = in_arrays(pl.col("a") + 1 > pl.col("b"), pl.Schema({"a": pl.Int64(), "b": pl.Int64()}))
    >>> above(pl.DataFrame({"a": [1, 2], "b": [2, 2]})).tolist()
    [False, True]
    >>> above(pl.DataFrame({"a": [1, 2**63 - 1], "b": [2, 2]})) is None                 # does not fit
    True
    """
    plain = expression.meta.undo_aliases()
    try:
        values, kind, is_column = _compiled(tree_of(plain), schema)
    except Unfit:
        return None
    if not is_column or kind not in {"int", "bool"}:
        return None
    names = list(dict.fromkeys(plain.meta.root_names()))

    def of_rows(payload: pl.DataFrame) -> Array | None:
        columns: dict[str, Any] = {}
        for name in names:
            column = payload.get_column(name)
            if column.null_count():
                return None
            columns[name] = column if column.dtype == pl.String else column.to_numpy()
        try:
            found: Array = values(columns)
        except Unfit:
            return None
        return found

    return of_rows


def constant_in(expression: pl.Expr) -> pl.Series | None:
    """The value of an expression that is a single one for all rows, in a column of one row."""
    plain = expression.meta.undo_aliases()
    if not plain.meta.is_literal():
        return None
    try:
        tree = tree_of(plain)
    except Unfit:
        return None
    match tree:
        case {"Literal": {"Scalar": _} | {"Dyn": _}}:
            return pl.select(plain).to_series()
    return None


def tree_of(expression: pl.Expr) -> Any:
    """What an expression is, by polars' account; what has a function of Python in it has none."""
    try:
        return json.loads(expression.meta.serialize(format="json"))
    except pl.exceptions.PolarsError as problem:
        raise Unfit from problem


def _compiled(tree: Any, schema: pl.Schema) -> tuple[Values, str, bool]:
    """What computes a part, of which kind, and whether any column has a part in it."""
    match tree:
        case {"Column": str(name)} if schema.get(name) in _TYPES:
            return lambda columns: columns[name], _TYPES[schema[name]], True
        case {"Literal": {"Scalar": {"String": str(text)}}}:
            return lambda _: text, "text", False
        case {"Function": {"input": [inner], "function": {"Boolean": "Not"}}}:
            values, kind, is_column = _compiled(inner, schema)
            if kind != "bool" or not is_column:
                raise Unfit
            return lambda columns: np.logical_not(values(columns)), "bool", True
        case {"Literal": {"Dyn": {"Int": int(value)}} | {"Scalar": {"Int64": int(value)}}} if (
            abs(value) < _FAR
        ):
            return lambda _: np.int64(value), "int", False
        case {"Literal": {"Dyn": {"Float": float(value)}} | {"Scalar": {"Float64": float(value)}}}:
            return lambda _: np.float64(value), "float", False
        case {"BinaryExpr": {"left": left, "op": str(operation), "right": right}}:
            sides = _compiled(left, schema), _compiled(right, schema)
            return _combined(operation, *sides)
    raise Unfit


def _combined(
    operation: str, left: tuple[Values, str, bool], right: tuple[Values, str, bool]
) -> tuple[Values, str, bool]:
    (one, kind, is_column), (other, other_kind, also) = left, right
    kinds = {kind, other_kind}
    if not (is_column or also):
        raise Unfit
    if operation in _CHOICES and kinds == {"bool"}:
        choose = _CHOICES[operation]
        return lambda columns: choose(one(columns), other(columns)), "bool", True
    if kinds == {"text"} and operation in {"Eq", "NotEq"}:
        return _texts(_COMPARISONS[operation], one, other, turned=not is_column), "bool", True
    if {"bool", "text"} & kinds:
        raise Unfit
    is_whole = kinds == {"int"}
    if operation in _COMPARISONS:
        compare = _COMPARISONS[operation]
        return lambda columns: compare(_known(one(columns)), _known(other(columns))), "bool", True
    if operation not in _SUMS:
        raise Unfit
    calculate = _SUMS[operation]

    def values(columns: Mapping[str, Array]) -> Any:
        a, b = one(columns), other(columns)
        with np.errstate(all="ignore"):
            found = calculate(a, b)
            if is_whole and (np.abs(calculate(np.float64(a), np.float64(b))) > _FAR).any():
                raise Unfit
        return found

    return values, "int" if is_whole else "float", True


def _known(values: Any) -> Any:
    """Values of which none is NaN, which polars compares in its own way."""
    if values.dtype == np.float64 and np.isnan(values).any():
        raise Unfit
    return values


def _texts(compare: Callable[[Any, Any], Any], one: Values, other: Values, *, turned: bool) -> Values:
    """Whether texts of two columns, or of one and a constant, are the same: polars compares them."""
    if turned:
        one, other = other, one
    is_same = compare is np.equal

    def values(columns: Mapping[str, Array]) -> Any:
        column, text = one(columns), other(columns)
        return (column == text if is_same else column != text).to_numpy()

    return values
