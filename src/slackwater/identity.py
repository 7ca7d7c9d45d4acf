"""When two values, and two rows, are the same one.

Identity is what an adjust finds its event by, and what histories are compared by: null = null,
NaN = NaN, -0.0 = 0.0, nested values element by element. Polars' grouping has the same rule, which is
what lets whole columns be compared there; this module is its row-at-a-time half, for dictionaries.
It is not the equality of joins, where a null matches nothing. Expressions could tell the two zeros apart
(1 / x), and then an adjust from its event: they are shown one (`with_one_zero`).
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from slackwater.columns import FEW, framed

__all__ = [
    "PLAIN",
    "has_zeros",
    "hash_rows",
    "identity",
    "place",
    "row_ids",
    "row_keys",
    "same",
    "with_one_zero",
]

_NAN, _INDEX = "\0NaN", "\0index"
PLAIN = (pl.Int64, pl.Float64, pl.String, pl.Boolean)
"""types whose values are what is stored of them; to ask polars for that is a query"""


def identity(value: object) -> Hashable:
    """A hashable stand-in that is equal exactly when the values are the same.

    >>> identity(float("nan")) == identity(float("nan")), identity(-0.0) == identity(0.0)
    (True, True)
    >>> identity([1, None]) == identity([1, None]), identity(None) == identity(float("nan"))
    (True, False)
    """
    if isinstance(value, float):
        return _NAN if math.isnan(value) else value + 0.0
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        # two instants an hour apart are equal in Python where clocks are set back
        return value.astimezone(dt.UTC)
    if isinstance(value, Mapping):
        return tuple((name, identity(value[name])) for name in sorted(value))
    if isinstance(value, list | tuple):
        return tuple(identity(part) for part in value)
    assert isinstance(value, Hashable), f"no identity for {type(value).__name__}"
    return value


def place(value: object) -> tuple[Any, ...]:
    """A sort key for values of one type: null first, NaN above all numbers, nested ones part by part.

    >>> sorted([float("nan"), 2.0, None, 1.0], key=place)
    [None, 1.0, 2.0, nan]
    """
    if value is None:
        return (0,)
    if isinstance(value, float) and math.isnan(value):
        return (2,)
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        # Python orders times of one zone by what clocks show
        return 1, value.astimezone(dt.UTC)
    if isinstance(value, Mapping):
        return 1, tuple(place(part) for part in value.values())
    if isinstance(value, list | tuple):
        return 1, tuple(place(part) for part in value)
    return 1, value


def row_ids(frame: pl.DataFrame) -> npt.NDArray[np.int64]:
    """For each row of the frame the index of the first row that is the same one.

    >>> row_ids(pl.DataFrame({"x": [1.0, float("nan"), None, float("nan")]})).tolist()
    [0, 1, 2, 1]
    """
    if not frame.width:
        return np.zeros(frame.height, dtype=np.int64)
    index = pl.int_range(pl.len(), dtype=pl.Int64).alias(_INDEX)
    first = pl.col(_INDEX).min().over(frame.columns)
    # writable, for compiled kernels tell the two apart
    return frame.with_columns(index).select(first).to_series().to_numpy(writable=True)


def row_keys(frame: pl.DataFrame) -> list[tuple[Any, ...]]:
    """One hashable key per row of the frame, equal exactly when the rows are the same."""
    if not frame.width:
        return [()] * frame.height
    # times as the integers they are: finer than Python's, and without its time zones
    columns = _spelled(frame).get_columns()
    frame = framed([c if c.dtype in PLAIN else c.to_physical() for c in columns], frame.height)
    if not any(_needs_care(dtype) for dtype in frame.schema.dtypes()):
        return frame.rows()
    return [tuple(identity(value) for value in row) for row in frame.rows()]


def same(left: pl.DataFrame, right: pl.DataFrame) -> npt.NDArray[np.bool_]:
    """Row by row: the same in every column, null and NaN included. Both have the same columns."""
    if left.equals(right):
        # as they mostly are, and known without a query
        return np.ones(left.height, dtype=np.bool_)
    if left.height <= FEW:
        keys = zip(row_keys(left), row_keys(right), strict=True)
        return np.fromiter((a == b for a, b in keys), dtype=np.bool_, count=left.height)
    equal = np.ones(left.height, dtype=np.bool_)
    for name in left.columns:
        equal &= left[name].eq_missing(right[name]).to_numpy()
    return equal


def hash_rows(frame: pl.DataFrame, seed: int = 0) -> npt.NDArray[np.uint64]:
    """A number per row, the same for rows that are the same, in every process."""
    return _spelled(frame).hash_rows(seed=seed).to_numpy()


def has_zeros(dtype: pl.DataType) -> bool:
    """Whether values of this type are, or hold, numbers that have two zeros."""
    if isinstance(dtype, pl.List | pl.Array):
        return has_zeros(_instance(dtype.inner))
    if isinstance(dtype, pl.Struct):
        return any(has_zeros(_instance(f.dtype)) for f in dtype.fields)
    return dtype.is_float()


def with_one_zero(column: pl.Series) -> pl.Series:
    """The same values, spelled in one way: -0.0 is 0.0, at every depth.

    >>> with_one_zero(pl.Series([-0.0, 1.5, None])).to_list()
    [0.0, 1.5, None]
    >>> with_one_zero(pl.Series([[{"x": -0.0}], None, []])).to_list()
    [[{'x': 0.0}], None, []]
    """
    if not has_zeros(column.dtype) or (column.dtype.is_float() and not (column == 0).any()):
        return column
    plain = _with_one_zero(pl.col(column.name), column.dtype)
    return column.to_frame().select(plain.alias(column.name)).to_series()


def _with_one_zero(value: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    if isinstance(dtype, pl.List):
        return value.list.eval(_with_one_zero(pl.element(), _instance(dtype.inner)))
    if isinstance(dtype, pl.Array):
        as_list = value.arr.to_list().list.eval(_with_one_zero(pl.element(), _instance(dtype.inner)))
        return as_list.list.to_array(dtype.size)
    if isinstance(dtype, pl.Struct):
        fields = [
            _with_one_zero(value.struct.field(f.name), _instance(f.dtype)).alias(f.name)
            for f in dtype.fields
        ]
        return pl.when(value.is_not_null()).then(pl.struct(fields))
    # polars takes adding 0.0 for doing nothing
    return pl.when(value == 0).then(pl.lit(0.0, dtype)).otherwise(value) if dtype.is_float() else value


def _spelled(frame: pl.DataFrame) -> pl.DataFrame:
    """Categories as the words that they are: their codes differ from process to process."""
    casts = {name: _without_codes(dtype) for name, dtype in frame.schema.items()}
    changed = {name: dtype for name, dtype in casts.items() if dtype != frame.schema[name]}
    return frame.cast(changed) if changed else frame  # type: ignore[arg-type]


def _without_codes(dtype: pl.DataType) -> pl.DataType:
    if isinstance(dtype, pl.Categorical):
        return pl.String()
    if isinstance(dtype, pl.List):
        return pl.List(_without_codes(_instance(dtype.inner)))
    if isinstance(dtype, pl.Array):
        return pl.Array(_without_codes(_instance(dtype.inner)), dtype.size)
    if isinstance(dtype, pl.Struct):
        return pl.Struct({f.name: _without_codes(_instance(f.dtype)) for f in dtype.fields})
    return dtype


def _instance(dtype: Any) -> pl.DataType:
    whole: pl.DataType = dtype() if isinstance(dtype, type) else dtype
    return whole


def _needs_care(dtype: pl.DataType) -> bool:
    return dtype.is_float() or dtype.is_nested()
