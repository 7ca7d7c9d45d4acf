"""Arithmetic: expressions that NumPy computes as polars does, and sooner where there are few rows.

Sums, differences, products, comparisons and their combinations, of columns of 64 bits and of constants.
Who evaluates such an expression for a handful of rows many times a batch saves a query of polars each
time. What would not be the same is left to polars: `Unfit` says so of an expression, or of values: where
an integer would not fit, where NaN is compared, where something is missing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

__all__ = ["Unfit", "compiled"]

Array = npt.NDArray[Any]
Values = Callable[[Mapping[str, Array]], Any]

_TYPES = {pl.Int64(): "int", pl.Float64(): "float", pl.Boolean(): "bool"}
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


def compiled(expression: pl.Expr, schema: pl.Schema, dtype: pl.DataType) -> Values:
    """What computes an expression of that type from arrays of its columns.

    >>> schema = pl.Schema({"m": pl.Int64, "step": pl.Int64})
    >>> f = compiled(pl.col("m") + pl.col("step") * 2, schema, pl.Int64())
    >>> f({"m": np.array([1, 2]), "step": np.array([3, -1])}).tolist()
    [7, 0]
    """
    try:
        tree = json.loads(expression.meta.serialize(format="json"))
    except pl.exceptions.PolarsError as problem:
        raise Unfit from problem
    values, kind, is_column = _compiled(tree, schema)
    if not is_column or _TYPES.get(dtype) != kind:
        raise Unfit
    return values


def _compiled(tree: Any, schema: pl.Schema) -> tuple[Values, str, bool]:
    """What computes a part, of which kind, and whether any column has a part in it."""
    match tree:
        case {"Column": str(name)} if schema.get(name) in _TYPES:
            return lambda columns: columns[name], _TYPES[schema[name]], True
        case {"Literal": {"Dyn": {"Int": int(value)}} | {"Scalar": {"Int64": int(value)}}} if (
            abs(value) < _FAR
        ):
            return lambda _: np.int64(value), "int", False
        case {"Literal": {"Dyn": {"Float": float(value)}} | {"Scalar": {"Float64": float(value)}}}:
            return lambda _: np.float64(value), "float", False
        case {"BinaryExpr": {"left": left, "op": str(operation), "right": right}}:
            return _combined(operation, _compiled(left, schema), _compiled(right, schema))
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
    if "bool" in kinds:
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
