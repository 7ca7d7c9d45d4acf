"""Columns: the shortest way from arrays to polars and back, which matters where a batch has few rows.

Most of what polars does with a frame, and much of what it does with a column, it plans as a query and
hands to another thread: some 0.1 ms, and several times that on a busy machine. A batch of one has 1 ms
for all that an operator does. So for a few rows things are done here that are done where they are asked
for: a column from a list of numbers, a frame by putting columns side by side, rows of one column after
the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

__all__ = [
    "FEW",
    "blank",
    "column_of",
    "framed",
    "nothing",
    "nulls_in",
    "some_columns",
    "stacked",
    "taken",
    "true_in",
    "whole",
]

FEW = 64
"""so many rows are looked at one by one before another thread would have begun with a query of polars"""
_KNOWN = {
    np.dtype(np.int64): pl.Int64,
    np.dtype(np.float64): pl.Float64,
    np.dtype(np.uint32): pl.UInt32,
    np.dtype(np.bool_): pl.Boolean,
}


def column_of(name: str, values: npt.NDArray[Any]) -> pl.Series:
    """The numbers as a column.

    >>> column_of("x", np.array([1, 2])).to_list()
    [1, 2]
    """
    dtype = _KNOWN.get(values.dtype) if len(values) <= FEW else None
    return pl.Series(name, values) if dtype is None else pl.Series(name, values.tolist(), dtype)


def nothing(name: str, dtype: pl.DataType, rows: int) -> pl.Series:
    """A column of nulls."""
    return _null(name, dtype).new_from_index(0, rows)


@lru_cache(maxsize=1024)
def _null(name: str, dtype: pl.DataType) -> pl.Series:
    return pl.Series(name, [None], dtype)


@lru_cache(maxsize=1024)
def blank(rows: int) -> pl.DataFrame:
    """Rows without columns."""
    return pl.DataFrame(height=rows)


def framed(columns: Sequence[pl.Series], rows: int) -> pl.DataFrame:
    """Columns as a frame, of which there may be none."""
    if not columns:
        return blank(rows)
    first, *others = columns
    return first.to_frame().hstack(others) if others else first.to_frame()


def some_columns(frame: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """The columns of these names, in their order."""
    return framed([frame.get_column(name) for name in names], frame.height)


def taken(frame: pl.DataFrame, rows: npt.NDArray[np.integer[Any]]) -> pl.DataFrame:
    """The rows of the frame at these places.

    Column by column also if there are many: for a frame polars first looks at all places, which takes
    ten times as long as to take the rows.

    >>> taken(pl.DataFrame({"x": ["a", "b", "c"]}), np.array([2, 0])).rows()
    [('c',), ('a',)]
    """
    if not frame.width:
        return blank(len(rows))
    if len(rows) == 1:
        [row] = rows.tolist()
        return framed([column.new_from_index(row, 1) for column in frame.get_columns()], 1)
    places = column_of("", rows.astype(np.uint32))
    return framed([column[places] for column in frame.get_columns()], len(rows))


def stacked(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The rows of all frames, one frame below the other."""
    if sum(frame.height for frame in frames) > FEW:
        return pl.concat(frames)
    first, *others = frames
    for other in others:
        first = first.vstack(other)
    return whole(first)


def whole(frame: pl.DataFrame) -> pl.DataFrame:
    """The same in one chunk."""
    return framed([column.rechunk() for column in frame.get_columns()], frame.height)


def nulls_in(column: pl.Series) -> npt.NDArray[np.bool_]:
    """Where the column has no value."""
    if not column.null_count():
        return np.zeros(len(column), dtype=np.bool_)
    return column.is_null().to_numpy()


def true_in(column: pl.Series) -> npt.NDArray[np.bool_]:
    """Where a column of truth values says so; where it says nothing it does not.

    >>> true_in(pl.Series([True, None, False])).tolist()
    [True, False, False]
    """
    return (column.fill_null(value=False) if column.null_count() else column).to_numpy()
