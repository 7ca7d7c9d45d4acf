"""Integers: columns of fixed width as integers that are equal exactly where the values are the same.

Numbers, booleans and times: null = null beside the integers, NaN = NaN, -0.0 = 0.0. They are read from
Arrow's buffers, for polars would plan a query for every step of it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from slackwater.columns import column_of

__all__ = ["as_integers", "from_integers", "is_fixed", "numbers", "of_places", "places"]

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_NAN = np.array([np.nan]).view(np.int64)[0]
_SIGN = np.int64(-(2**63))


def places(column: pl.Series) -> tuple[Ints, Mask | None]:
    """Integers that are in the order of the values, without gaps; and which values are null, if any.

    A NaN is above all numbers. Of columns of fixed width.
    """
    if column.dtype == pl.Int64 and not column.null_count():
        return column.to_numpy().astype(np.int64), None
    values, nulls = as_integers(column)
    if column.dtype == pl.UInt64:
        values ^= _SIGN
    elif column.dtype.is_float():
        if column.dtype == pl.Float32:
            # its own bits: between two of its values there are many of twice the width
            values = values.view(np.float64).astype(np.float32).view(np.int32).astype(np.int64)
        # below zero the bits count downwards, and -0.0 is gone
        values = np.where(values < 0, (values ^ _without_sign(column.dtype)) + 1, values)
    return values, nulls


def of_places(name: str, values: Ints, dtype: pl.DataType) -> pl.Series:
    """The values again."""
    if dtype == pl.UInt64:
        values = values ^ _SIGN  # they are not ours
    elif dtype.is_float():
        values = np.where(values < 0, (values - 1) ^ _without_sign(dtype), values)
        if dtype == pl.Float32:
            return column_of(name, values.astype(np.int32).view(np.float32))
    return from_integers(name, values, dtype)


def _without_sign(dtype: pl.DataType) -> np.int64:
    """All bits of a float but the first."""
    return np.int64(2**31 - 1) if dtype == pl.Float32 else ~_SIGN


@lru_cache
def is_fixed(dtype: pl.DataType) -> bool:
    """Whether values of the type have a fixed width, and with it a place among integers."""
    if dtype in (pl.Int128, pl.UInt128):
        return False
    is_number = dtype.is_integer() or dtype in (pl.Float32, pl.Float64, pl.Boolean)
    return is_number or isinstance(dtype, pl.Date | pl.Datetime | pl.Duration | pl.Time)


def as_integers(column: pl.Series) -> tuple[Ints, Mask | None]:
    """Integers that are equal exactly where the values are the same; and which are null, if any."""
    dtype = column.dtype
    if dtype.is_numeric() and not column.null_count():
        return numbers(column.to_numpy()), None
    array = column.alias("").to_arrow()
    validity, data = array.buffers()
    nulls = ~_bits(validity, array) if array.null_count else None
    if dtype == pl.Boolean:
        return _bits(data, array).astype(np.int64), nulls
    if data is None:
        return np.zeros(len(array), dtype=np.int64), nulls
    kind = "f" if dtype.is_float() else "u" if dtype.is_unsigned_integer() else "i"
    values = np.frombuffer(data, dtype=f"{kind}{array.type.bit_width // 8}")
    return numbers(values[array.offset : array.offset + len(array)]), nulls


def numbers(values: npt.NDArray[Any]) -> Ints:
    """The same for an array."""
    if values.dtype.kind == "f":
        # -0.0 becomes 0.0
        floats = values.astype(np.float64) + 0.0
        return np.where(np.isnan(floats), _NAN, floats.view(np.int64))
    return values.astype(np.int64)


def _bits(data: pa.Buffer | None, array: pa.Array) -> Mask:
    """What Arrow holds as bits."""
    if data is None:
        return np.zeros(len(array), dtype=np.bool_)
    bits = np.unpackbits(np.frombuffer(data, dtype=np.uint8), bitorder="little")
    return bits[array.offset : array.offset + len(array)].astype(np.bool_)


def from_integers(name: str, values: Ints, dtype: pl.DataType) -> pl.Series:
    """The values again, none of them null."""
    if dtype == pl.Int64:
        return column_of(name, values)
    if dtype.is_float():
        floats = column_of(name, values.view(np.float64))
        return floats if dtype == pl.Float64 else floats.cast(dtype)
    if dtype == pl.UInt64:
        return pl.Series(name, values.view(np.uint64))
    column = column_of(name, values)
    return column.cast(pl.Int32).cast(dtype) if dtype == pl.Date else column.cast(dtype)
