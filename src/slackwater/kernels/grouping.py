"""Grouping: a dense number for every distinct key, whatever its columns.

`Keys` hands out numbers 0, 1, 2, ... and finds them again in a hash table. Columns of fixed width
(numbers, booleans, times) make a row of integers, which is stored, hashed and compared as such; a last
integer says which of them are null. For other keys (strings, nested values) a 64-bit hash of the columns
narrows the search and the values decide: rows whose hash is known are compared with the stored key.
Either way by identity: null = null, NaN = NaN, -0.0 = 0.0.

Two keys with one hash are told apart by probing on: each stored key has its own slot, and a row is
compared with every slot of its hash until one is equal.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
# ruff: noqa: PLR0917

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
from numba import njit

from slackwater.columns import FEW, blank, column_of, framed, nulls_in, some_columns, taken
from slackwater.identity import PLAIN, hash_rows, identity, same
from slackwater.kernels.arrays import Spares
from slackwater.kernels.chunks import Chunks
from slackwater.kernels.prefetch import prefetch, prefetch_at
from slackwater.kernels.words import are_words, hashed_words

__all__ = ["Keys", "hashes_of", "is_fixed", "of_places", "pack", "places", "same_rows"]

Ints = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]

_FREE = -1
_NO_SEED = np.uint64(0)
_LEAST_SLOTS = 64
_SPARSE = 4
"""so many times as much room as keys is given back"""
_BITS = 63
"""one for each column that may be null"""
_AHEAD = 8
"""rounds between fetching a place and going there"""
_NAN = np.array([np.nan]).view(np.int64)[0]
_SIGN = np.int64(-(2**63))
_ALL = np.empty(0, dtype=np.bool_)
"""says that all rows may be added"""
_NUMBERS = ([pl.Int64()], [pl.Float64()])
"""schemas of one number, of which Python has the values at once"""


@dataclass(slots=True)
class Keys:
    """The keys in use: their columns, by number, and a hash table that finds them."""

    schema: pl.Schema
    is_fixed: bool = field(init=False)
    """whether all columns have a fixed width"""
    values: Ints = field(init=False)
    """if so: a row of integers per key; there is room for more"""
    rows: Chunks = field(init=False)
    """if not: the key's columns, by number"""
    hashes: Hashes = field(init=False)
    """of each key, by number; there is room for more"""
    size: int = 0
    slots: Ints = field(init=False)
    spares: Spares = field(default_factory=Spares)

    def __post_init__(self) -> None:
        self.is_fixed = _are_fixed(self.schema)
        self.values = np.empty((0, len(self.schema) + 1), dtype=np.int64)
        self.rows = Chunks(self.schema)
        self.hashes = np.empty(0, dtype=np.uint64)
        self.slots = np.full(_LEAST_SLOTS, _FREE, dtype=np.int64)

    def __len__(self) -> int:
        return self.size

    def take(self, numbers: Ints) -> pl.DataFrame:
        """The keys with these numbers, row by row."""
        if not self.schema:
            return blank(len(numbers))
        if self.is_fixed:
            return self._decoded(_rows(self.values, numbers))
        return self.rows.take(numbers)

    def tuples(self, numbers: Ints) -> list[tuple[Any, ...]]:
        """The same as Python's values."""
        if self.is_fixed and len(numbers) <= FEW and self.schema.dtypes() in _NUMBERS:
            [dtype] = self.schema.dtypes()
            rows = _rows(self.values, numbers)
            if not rows[:, -1].any():
                column = np.ascontiguousarray(rows[:, 0])
                values = column.view(np.float64) if dtype == pl.Float64 else column
                return [(value,) for value in values.tolist()]
        return self.take(numbers).rows()

    def number(self, payload: pl.DataFrame) -> Ints:
        """The number of each row's key; keys that are new get one."""
        if not self.is_fixed:
            keys = some_columns(payload, list(self.schema))
            return self._number_rows(keys, hashes_of(keys))
        return self._number_integers(_encoded(payload, list(self.schema)))

    def number_some(self, first: Ints, rest: pl.DataFrame, may_add: Mask | None) -> Ints:
        """The number of each row's key, of which the first column is given apart.

        Keys that are new get one where they may, which None says of all; else it is -1.
        """
        names = list(self.schema)
        if self.is_fixed:
            return self._number_integers(_encoded(rest, names[1:], first), may_add)
        columns = [rest.get_column(name) for name in names[1:]]
        keys = framed([column_of(names[0], first), *columns], len(first))
        hashes = hashes_of(keys)
        if may_add is None:
            return self._number_rows(keys, hashes)
        found = self._find_others(keys, hashes)
        new = np.flatnonzero((found < 0) & may_add)
        if len(new):
            found[new] = self._number_rows(taken(keys, new), hashes[new])
        return found

    def find(self, payload: pl.DataFrame) -> Ints:
        """The number of each row's key; -1 if it has none."""
        if self.is_fixed:
            found: Ints = _find_rows(self.slots, self.values, _encoded(payload, list(self.schema)))
            return found
        keys = some_columns(payload, list(self.schema))
        return self._find_others(keys, hashes_of(keys))

    def number_of(self, values: npt.NDArray[Any]) -> Ints:
        """The number of each key, where keys are single numbers of the type of these."""
        assert self.is_fixed
        rows = np.zeros((len(values), 2), dtype=np.int64)
        rows[:, 0] = _numbers(values)
        return self._number_integers(rows)

    def number_one(self, values: Sequence[Any]) -> int:
        """The number of the key with these values, which it gets if it is new."""
        row = self._integers_of(values)
        numbers = self.number(self._frame_of(values)) if row is None else self._number_integers(row)
        return int(numbers[0])

    def find_one(self, values: Sequence[Any]) -> int:
        """The number of the key with these values; -1 if it has none."""
        row = self._integers_of(values)
        if row is None:
            return int(self.find(self._frame_of(values))[0])
        return int(_find_rows(self.slots, self.values, row)[0])

    def _frame_of(self, values: Sequence[Any]) -> pl.DataFrame:
        named = zip(self.schema.items(), values, strict=True)
        return framed([pl.Series(name, [v], dtype, strict=True) for (name, dtype), v in named], 1)

    # keys of fixed width

    def _integers_of(self, values: Sequence[Any]) -> Ints | None:
        """One key as a row, where Python has its integers at once."""
        known = zip(values, self.schema.dtypes(), strict=True)
        if not self.is_fixed or not all(type(v) is int and dtype == pl.Int64 for v, dtype in known):
            return None
        return np.array([[*values, 0]], dtype=np.int64)

    def _number_integers(self, rows: Ints, may_add: Mask | None = None) -> Ints:
        numbers = np.empty(len(rows), dtype=np.int64)
        if may_add is None:
            may_add = _ALL
        done = 0
        while done < len(rows):
            self._reserve(len(rows) - done)
            begun, before = done, self.size
            done, self.size = _find_or_add(
                self.slots, self.values, self.size, rows, may_add, numbers, done
            )
            if 2 * self.size >= len(self.slots):
                # the others are as new as these were
                more = (len(rows) - done) * (self.size - before) // max(1, done - begun)
                self._rebuild(more)
        return numbers

    def _decoded(self, rows: Ints) -> pl.DataFrame:
        columns = []
        nulls = rows[:, -1]
        some_null = nulls.any()
        for i, (name, dtype) in enumerate(self.schema.items()):
            column = _from_integers(name, np.ascontiguousarray(rows[:, i]), dtype)
            if some_null:
                column = column.set(column_of("", (nulls >> i) & 1 == 1), None)
            columns.append(column)
        return framed(columns, len(rows))

    # others

    def _number_rows(self, keys: pl.DataFrame, hashes: Hashes) -> Ints:
        found = np.full(keys.height, _FREE, dtype=np.int64)
        wanted = np.arange(keys.height)
        skip = np.zeros(keys.height, dtype=np.int64)
        while len(wanted):
            candidates = _find(self.slots, self.hashes, hashes[wanted], skip[wanted])
            unknown = candidates == _FREE
            if unknown.any():
                # one key per new hash; rows of other keys with that hash come round again
                self._add(keys, hashes, wanted[unknown])
                continue
            known = self._are(candidates, keys, wanted)
            if known.all():
                found[wanted] = candidates
                break
            found[wanted[known]] = candidates[known]
            skip[wanted[~known]] += 1
            wanted = wanted[~known]
        return found

    def _find_others(self, keys: pl.DataFrame, hashes: Hashes) -> Ints:
        found = np.full(keys.height, _FREE, dtype=np.int64)
        wanted = np.arange(keys.height)
        skip = np.zeros(keys.height, dtype=np.int64)
        while len(wanted):
            candidates = _find(self.slots, self.hashes, hashes[wanted], skip[wanted])
            wanted, candidates = wanted[candidates != _FREE], candidates[candidates != _FREE]
            known = self._are(candidates, keys, wanted)
            found[wanted[known]] = candidates[known]
            wanted = wanted[~known]
            skip[wanted] += 1
        return found

    def _are(self, numbers: Ints, keys: pl.DataFrame, rows: Ints) -> Mask:
        """Which of the keys with these numbers are the same as those in these rows."""
        if len(rows) > FEW or not self._is_plain:
            asked = keys if len(rows) == keys.height else taken(keys, rows)
            return same(asked, self.take(numbers))
        equal = np.ones(len(rows), dtype=np.bool_)
        for name in self.schema:
            _compare(self.rows.frame.get_column(name), numbers, keys.get_column(name), rows, equal)
        return equal

    @property
    def _is_plain(self) -> bool:
        """Whether values are as polars stores them, so that a few are soon compared."""
        return all(dtype in PLAIN for dtype in self.schema.dtypes())

    def _add(self, keys: pl.DataFrame, hashes: Hashes, unknown: Ints) -> None:
        """Store the first of the unknown rows of each hash."""
        rows = unknown[_firsts(hashes[unknown])]
        self.rows.append(keys if len(rows) == keys.height else taken(keys, rows))
        self._reserve(len(rows))
        start, self.size = self.size, self.size + len(rows)
        self.hashes[start : self.size] = hashes[rows]
        if 2 * self.size >= len(self.slots):
            self._rebuild()
        else:
            _insert(self.slots, self.hashes, np.arange(start, self.size))

    # all

    def _reserve(self, more: int) -> None:
        if self.is_fixed and self.size + more > len(self.values):
            room = max(self.size + more, 2 * len(self.values))
            self.values = self.spares.enlarged(self.values, room, self.size)
        if not self.is_fixed and self.size + more > len(self.hashes):
            hashes = np.empty(max(self.size + more, 2 * len(self.hashes)), dtype=np.uint64)
            hashes[: self.size] = self.hashes[: self.size]
            self.hashes = hashes

    def _rebuild(self, more: int = 0) -> None:
        """Enter all keys into slots for as many again, or for so many more."""
        slots = _LEAST_SLOTS
        while slots < 4 * self.size or slots < 2 * (self.size + more):
            slots *= 2
        self.spares.give_back(self.slots)
        self.slots = self.spares.filled(_FREE, slots)
        if self.is_fixed:
            _insert_rows(self.slots, self.values, self.size)
        else:
            _insert(self.slots, self.hashes, np.arange(self.size))

    def keep(self, alive: Mask) -> Ints:
        """Forget the other keys. The new number of each old one, or -1; order is kept."""
        kept = np.flatnonzero(alive)
        renumbered: Ints = _renumbered(alive)
        if self.is_fixed:
            if _SPARSE * len(kept) < len(self.values):
                self.values = self.values[kept]
            else:
                pack(self.values, kept)
        else:
            self.rows.keep(kept)
            self.hashes = self.hashes[kept]
        self.size = len(kept)
        self._rebuild()
        return renumbered


def hashes_of(frame: pl.DataFrame, seed: int = 0) -> Hashes:
    """A number per row, the same for rows that are the same, in every process.

    Of columns of fixed width and of strings without a query of polars, which has it done by another
    thread: that takes as long as a whole batch of one.
    """
    rows = np.empty((frame.height, frame.width + 1), dtype=np.int64)
    rows[:, -1] = 0
    for i, column in enumerate(frame.get_columns()):
        values, nulls = _stand_ins(column)
        rows[:, i] = values
        if nulls is not None:
            rows[nulls, i] = 0
            # of many columns some share a bit, which is good enough for a hash
            rows[:, -1] ^= nulls.astype(np.int64) << (i % _BITS)
    hashes: Hashes = _hashed(rows, seed)
    return hashes


def _stand_ins(column: pl.Series) -> tuple[Ints, Mask | None]:
    """Integers that are equal where the values are the same; and which values are null, if any."""
    if _is_fixed(column.dtype):
        return _as_integers(column)
    if are_words(column.dtype):
        nulls = nulls_in(column) if column.null_count() else None
        return hashed_words(column).view(np.int64), nulls
    return hash_rows(column.to_frame()).view(np.int64), None


def _are_fixed(schema: pl.Schema) -> bool:
    return len(schema) < _BITS and all(map(_is_fixed, schema.dtypes()))


def _encoded(frame: pl.DataFrame, names: list[str], first: Ints | None = None) -> Ints:
    """Each row as integers that are equal exactly where these columns, and the first, are."""
    skipped = 0 if first is None else 1
    rows = np.empty((frame.height, skipped + len(names) + 1), dtype=np.int64)
    rows[:, -1] = 0
    if first is not None:
        rows[:, 0] = first
    for i, name in enumerate(names, skipped):
        column = frame.get_column(name)
        if column.dtype == pl.Int64 and not column.null_count():
            rows[:, i] = column.to_numpy()
            continue
        values, nulls = _as_integers(column)
        rows[:, i] = values
        if nulls is not None:
            rows[nulls, i] = 0
            rows[:, -1] |= nulls.astype(np.int64) << i
    return rows


def places(column: pl.Series) -> tuple[Ints, Mask | None]:
    """Integers that are in the order of the values, without gaps; and which values are null, if any.

    A NaN is above all numbers. Of columns of fixed width.
    """
    if column.dtype == pl.Int64 and not column.null_count():
        return column.to_numpy().astype(np.int64), None
    values, nulls = _as_integers(column)
    if column.dtype == pl.UInt64:
        values ^= _SIGN
    elif column.dtype.is_float():
        # below zero the bits count downwards, and -0.0 is gone
        values = np.where(values < 0, (values ^ ~_SIGN) + 1, values)
    return values, nulls


def of_places(name: str, values: Ints, dtype: pl.DataType) -> pl.Series:
    """The values again."""
    if dtype == pl.UInt64:
        values = values ^ _SIGN  # they are not ours
    elif dtype.is_float():
        values = np.where(values < 0, (values - 1) ^ ~_SIGN, values)
    return _from_integers(name, values, dtype)


def is_fixed(dtype: pl.DataType) -> bool:
    """Whether values of the type have a fixed width, and with it a place among integers."""
    return _is_fixed(dtype)


@lru_cache
def _is_fixed(dtype: pl.DataType) -> bool:
    if dtype in (pl.Int128, pl.UInt128):
        return False
    is_number = dtype.is_integer() or dtype in (pl.Float32, pl.Float64, pl.Boolean)
    return is_number or isinstance(dtype, pl.Date | pl.Datetime | pl.Duration | pl.Time)


def _as_integers(column: pl.Series) -> tuple[Ints, Mask | None]:
    """Integers which are equal exactly where the values are the same; and which values are null, if any.

    They are read from Arrow's buffers: polars would plan a query for every step of it, and that takes
    longer than a batch of one has time for.
    """
    dtype = column.dtype
    if dtype.is_numeric() and not column.null_count():
        return _numbers(column.to_numpy()), None
    array = column.alias("").to_arrow()
    validity, data = array.buffers()
    nulls = ~_bits(validity, array) if array.null_count else None
    if dtype == pl.Boolean:
        return _bits(data, array).astype(np.int64), nulls
    if data is None:
        return np.zeros(len(array), dtype=np.int64), nulls
    kind = "f" if dtype.is_float() else "u" if dtype.is_unsigned_integer() else "i"
    values = np.frombuffer(data, dtype=f"{kind}{array.type.bit_width // 8}")
    return _numbers(values[array.offset : array.offset + len(array)]), nulls


def _numbers(values: npt.NDArray[Any]) -> Ints:
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


def _from_integers(name: str, values: Ints, dtype: pl.DataType) -> pl.Series:
    if dtype == pl.Int64:
        return column_of(name, values)
    if dtype.is_float():
        floats = column_of(name, values.view(np.float64))
        return floats if dtype == pl.Float64 else floats.cast(dtype)
    if dtype == pl.UInt64:
        return pl.Series(name, values.view(np.uint64))
    column = column_of(name, values)
    return column.cast(pl.Int32).cast(dtype) if dtype == pl.Date else column.cast(dtype)


def same_rows(frame: pl.DataFrame, left: Ints, right: Ints) -> Mask:
    """Which of the rows at the places on the left are the same as their partners on the right."""
    if len(left) <= FEW and all(dtype in PLAIN for dtype in frame.dtypes):
        some = np.ones(len(left), dtype=np.bool_)
        for column in frame.get_columns():
            _compare(column, left, column, right, some)
        return some
    if _are_fixed(frame.schema):
        rows = _encoded(frame, frame.columns)
        equal: Mask = (rows[left] == rows[right]).all(axis=1)
        return equal
    return same(taken(frame, left), taken(frame, right))


def _compare(some: pl.Series, left: Ints, others: pl.Series, right: Ints, equal: Mask) -> None:
    """Say no where a value differs from its partner, one by one; of plain types."""
    for i, (mine, theirs) in enumerate(zip(left.tolist(), right.tolist(), strict=True)):
        a, b = some[mine], others[theirs]
        if a != b and identity(a) != identity(b):
            equal[i] = False


@njit(cache=True, inline="always")
def _mixed(value: np.uint64) -> np.uint64:
    """Spread the bits: integers that are their own hash often differ in few of them."""
    value ^= value >> np.uint64(33)
    value *= np.uint64(0xFF51AFD7ED558CCD)
    value ^= value >> np.uint64(33)
    return value


@njit(cache=True, inline="always")
def _hash_row(rows, i, value=_NO_SEED):
    for a in range(rows.shape[1]):
        value = _mixed(value ^ np.uint64(rows[i, a])) * np.uint64(0x9E3779B97F4A7C15)
    return value


@njit(cache=True)
def _hashed(rows, seed):
    hashes = np.empty(len(rows), dtype=np.uint64)
    for i in range(len(rows)):
        hashes[i] = _hash_row(rows, i, np.uint64(seed))
    return hashes


@njit(cache=True)
def _find_or_add(slots, stored, size, rows, may_add, numbers, done):
    """Number the rows from `done` on, until half of the slots are full: how far, and how many.

    Rows that are new and may not be added, if it is not said that all may, get -1.
    """
    mask = np.uint64(len(slots) - 1)
    anybody = len(may_add) == 0
    places = np.empty(len(rows), dtype=np.uint64)
    for i in range(done, len(rows)):
        places[i] = _mixed(_hash_row(rows, i)) & mask
    for i in range(done, len(rows)):
        if i + 2 * _AHEAD < len(rows):
            prefetch_at(slots, places[i + 2 * _AHEAD])
            prefetch(stored, slots[places[i + _AHEAD]])
        at = places[i]
        number = slots[at]
        while number >= 0:
            same = True
            for a in range(rows.shape[1]):
                same = same and stored[number, a] == rows[i, a]
            if same:
                break
            at = (at + np.uint64(1)) & mask
            number = slots[at]
        if number < 0 and (anybody or may_add[i]):
            if 2 * size >= len(slots):
                return i, size
            number = size
            for a in range(rows.shape[1]):
                stored[number, a] = rows[i, a]
            slots[at] = number
            size += 1
        numbers[i] = number
    return len(rows), size


@njit(cache=True)
def _find_rows(slots, stored, rows):
    """The number of each row, or -1."""
    mask = np.uint64(len(slots) - 1)
    numbers = np.empty(len(rows), dtype=np.int64)
    places = np.empty(len(rows), dtype=np.uint64)
    for i in range(len(rows)):
        places[i] = _mixed(_hash_row(rows, i)) & mask
    for i in range(len(rows)):
        if i + 2 * _AHEAD < len(rows):
            prefetch_at(slots, places[i + 2 * _AHEAD])
            prefetch(stored, max(0, slots[places[i + _AHEAD]]))
        at = places[i]
        number = slots[at]
        while number >= 0:
            same = True
            for a in range(rows.shape[1]):
                same = same and stored[number, a] == rows[i, a]
            if same:
                break
            at = (at + np.uint64(1)) & mask
            number = slots[at]
        numbers[i] = number
    return numbers


@njit(cache=True)
def _rows(stored, numbers):
    """These rows."""
    out = np.empty((len(numbers), stored.shape[1]), dtype=stored.dtype)
    for i in range(len(numbers)):
        if i + _AHEAD < len(numbers):
            prefetch(stored, numbers[i + _AHEAD])
        for a in range(stored.shape[1]):
            out[i, a] = stored[numbers[i], a]
    return out


@njit(cache=True)
def pack(stored, kept):
    """Move these rows, in ascending order, to the front."""
    for i in range(len(kept)):
        for a in range(stored.shape[1]):
            stored[i, a] = stored[kept[i], a]


@njit(cache=True)
def _renumbered(alive):
    """The new number of each, or -1."""
    numbers = np.empty(len(alive), dtype=np.int64)
    n = 0
    for i in range(len(alive)):
        numbers[i] = n if alive[i] else _FREE
        n += alive[i]
    return numbers


@njit(cache=True)
def _insert_rows(slots, stored, size):
    mask = np.uint64(len(slots) - 1)
    for number in range(size):
        if number + _AHEAD < size:
            prefetch_at(slots, _mixed(_hash_row(stored, number + _AHEAD)) & mask)
        at = _mixed(_hash_row(stored, number)) & mask
        while slots[at] >= 0:
            at = (at + np.uint64(1)) & mask
        slots[at] = number


@njit(cache=True)
def _find(slots: Ints, stored: Hashes, hashes: Hashes, skip: Ints) -> Ints:
    """For each hash the number of its (skip + 1)-th stored key, or -1."""
    mask = np.uint64(len(slots) - 1)
    found = np.empty(len(hashes), dtype=np.int64)
    for i in range(len(hashes)):
        at = _mixed(hashes[i]) & mask
        left = skip[i]
        number = slots[at]
        while number >= 0:
            if stored[number] == hashes[i]:
                if left == 0:
                    break
                left -= 1
            at = (at + np.uint64(1)) & mask
            number = slots[at]
        found[i] = number
    return found


@njit(cache=True)
def _firsts(hashes: Hashes) -> Ints:
    """Where each hash stands first."""
    size = 64
    while size < 2 * len(hashes):
        size *= 2
    mask = np.uint64(size - 1)
    slots = np.full(size, -1, dtype=np.int64)
    found = np.empty(len(hashes), dtype=np.int64)
    count = 0
    for i in range(len(hashes)):
        at = _mixed(hashes[i]) & mask
        while slots[at] >= 0 and hashes[slots[at]] != hashes[i]:
            at = (at + np.uint64(1)) & mask
        if slots[at] < 0:
            slots[at] = i
            found[count] = i
            count += 1
    return found[:count]


@njit(cache=True)
def _insert(slots: Ints, stored: Hashes, numbers: Ints) -> None:
    mask = np.uint64(len(slots) - 1)
    for number in numbers:
        at = _mixed(stored[number]) & mask
        while slots[at] >= 0:
            at = (at + np.uint64(1)) & mask
        slots[at] = number
