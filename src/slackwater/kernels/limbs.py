"""Limbs: numbers as integers on a grid of 32 bits, so that sums of them are exact.

    number = sum of piece_i * 2**(32 i),   piece_i an integer, |piece_i| < 2**32

Integers, decimals (as integers of their last digit) and floats (m * 2**e) are all of this kind, and so
are their squares. A sum is kept limb by limb, in int64: 2**31 pieces can be added without overflow, what
is added can be taken away, and the order does not matter. Of the many limbs that a float could have,
data touches a few: whoever sums needs columns only for these.

A result is what the limbs make together, as if computed without limits, and rounded once
(kernels/digits.py).
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from slackwater.kernels import digits

__all__ = [
    "Limbs",
    "Numbers",
    "integers",
    "limbs_of",
    "quotients",
    "split",
    "squared",
    "variances",
    "whole",
]

kernel: Any = digits
"""compiled functions, which mypy cannot follow"""

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Words: TypeAlias = npt.NDArray[np.uint64]

BITS = 32
_MASK = 2**BITS - 1
_WORD = 2 * BITS
_FACTOR = 9
"""decimal digits that one division takes away"""


class Numbers(NamedTuple):
    """A column of numbers: piece j of a row stands for limb lowest + j; all of one sign."""

    lowest: int | Ints
    """the same for all rows, or one for each"""
    pieces: Ints
    """one row for each j"""


class Limbs(NamedTuple):
    """Sums, limb by limb: which columns of the rows they are, and which limbs, in ascending order."""

    sums: Ints
    columns: Ints
    limbs: Ints


def limbs_of(dtype: pl.DataType) -> range:
    """The limbs that numbers of that type may have; for squares, twice the start and twice the end."""
    if dtype.is_float():
        # from 2**-1074 up to 2**1024
        return range(-34, 32)
    is_long = isinstance(dtype, pl.Decimal) or dtype in (pl.Int128, pl.UInt128)
    return range(4 if is_long else 2)


# numbers into pieces


def split(values: pl.Series, present: Mask) -> Numbers:
    """The numbers in pieces; 0 for those that are not present. Floats that are present are finite."""
    if values.dtype.is_float():
        return _split_floats(np.where(present, values.cast(pl.Float64).fill_null(0.0).to_numpy(), 0.0))
    physical = values if values.dtype.is_integer() else values.to_physical()
    numbers = physical if physical.dtype == pl.Int64 else physical.cast(pl.Int64, strict=False)
    if numbers.null_count() == physical.null_count():
        ints = np.where(
            present, (numbers.fill_null(0) if numbers.null_count() else numbers).to_numpy(), 0
        )
        if not len(ints) or (ints.min() >= -_MASK and ints.max() <= _MASK):
            return Numbers(0, ints.reshape(1, -1))
        # the absolute value of the least integer is right as a word
        return Numbers(0, _halves([np.abs(ints).view(np.uint64)], ints < 0))
    low, high = _words(physical.fill_null(0))
    low, high = np.where(present, low, 0), np.where(present, high, 0)
    is_negative = np.zeros(len(high), dtype=np.bool_)
    if physical.dtype.is_signed_integer():
        is_negative = high.view(np.int64) < 0
        low = np.where(is_negative, ~low + np.uint64(1), low)
        high = np.where(is_negative, ~high + (low == 0), high)
    return Numbers(0, _halves([low, high], is_negative))


def _split_floats(values: Floats) -> Numbers:
    lowest = np.empty(len(values), dtype=np.int64)
    pieces = np.empty((3, len(values)), dtype=np.int64)
    kernel.split(values, lowest, pieces)
    return Numbers(lowest, pieces)


def _words(values: pl.Series) -> tuple[Words, Words]:
    """Integers of up to 128 bits as two words, the lower one first."""
    is_signed = values.dtype.is_signed_integer()
    values = values.cast(pl.Int128 if is_signed else pl.UInt128)
    whole = pl.lit(2**_WORD, dtype=values.dtype)
    number, high = pl.col("number"), pl.col("high")
    found = (
        values.alias("number")
        .to_frame()
        .with_columns(high=number // whole)
        .select(
            low=(number - high * whole).cast(pl.UInt64),
            high=high.cast(pl.Int64 if is_signed else pl.UInt64),
        )
    )
    return found["low"].to_numpy(), found["high"].to_numpy().view(np.uint64)


def _halves(words: list[Words], is_negative: Mask) -> Ints:
    halves = np.array([half for word in words for half in (word & _MASK, word >> BITS)])
    return halves.astype(np.int64) * np.where(is_negative, -1, 1)


def squared(numbers: Numbers) -> Numbers:
    """The square of each number."""
    size, rows = numbers.pieces.shape
    squares = np.empty((2 * size, rows), dtype=np.int64)
    kernel.square(numbers.pieces, squares)
    return Numbers(2 * numbers.lowest, squares)


# sums into results


def quotients(total: Limbs, count: Ints, scale: int = 0) -> Floats:
    """The sums divided by positive integers and by 10**scale: the nearest floats, or infinite ones."""
    value = np.zeros(len(count))
    if len(total.limbs):
        kernel.quotients(*total, np.ascontiguousarray(count), _units(scale), value)
    return value


def variances(total: Limbs, squares: Limbs, count: Ints, scale: int = 0) -> Floats:
    """The sample variances of numbers that are given times 10**scale; 0 of fewer than two."""
    value = np.zeros(len(count))
    if len(total.limbs):
        kernel.variances(*total, *squares, np.ascontiguousarray(count), _units(scale), value)
    return value


def _units(scale: int) -> Ints:
    """Numbers of less than 32 bits whose product is 10**scale."""
    exponents = [min(_FACTOR, scale - done) for done in range(0, scale, _FACTOR)]
    return np.array([10**exponent for exponent in exponents], dtype=np.int64)


def integers(total: Limbs, bits: int) -> tuple[Words, Mask]:
    """The sums as integers of so many bits (64 or 128), a word in each column; and where they fit."""
    rows, count = len(total.sums), bits // BITS
    of_limb = {int(limb): total.sums[:, at] for limb, at in zip(total.limbs, total.columns, strict=True)}
    carry = np.zeros(rows, dtype=np.int64)
    if bits == _WORD and set(of_limb) <= {0}:
        words = np.ascontiguousarray(of_limb.get(0, carry)).view(np.uint64)
        return words.reshape(-1, 1), np.ones(rows, dtype=np.bool_)
    parts = np.empty((max([count - 1, *of_limb]) + 2, rows), dtype=np.int64)
    for i, part in enumerate(parts):
        carried = of_limb[i] + carry if i in of_limb else carry
        part[:] = carried & _MASK
        carry = carried >> BITS
    # what is beyond the room must repeat its first bit
    sign = parts[count - 1] >> (BITS - 1)
    fits = (carry == -sign) & (parts[count:] == sign * _MASK).all(axis=0)
    halves = parts[:count].astype(np.uint64)
    return np.ascontiguousarray((halves[0::2] | halves[1::2] << BITS).T), fits


def whole(total: Limbs) -> list[int]:
    """The sums of integers as integers without limit."""
    pairs = list(zip(total.limbs.tolist(), total.columns.tolist(), strict=True))
    return [sum(row[column] << BITS * limb for limb, column in pairs) for row in total.sums.tolist()]
