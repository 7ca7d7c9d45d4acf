"""Grouping: a dense number for every distinct key, whatever its columns.

`Keys` hands out numbers 0, 1, 2, ... One column of integers (or of what is stored as integers: dates,
datetimes, durations) is its own hash, and its values are the table. For other keys a 64-bit hash of the
columns narrows the search and the values decide: rows whose hash is known are compared with the stored
key, by identity (null = null, NaN = NaN).

Two keys with one hash are told apart by probing on: each stored key has its own slot, and a row is
compared with every slot of its hash until one is equal.
"""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl
from numba import njit

__all__ = ["Keys"]

Ints = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]

_FREE = -1
_LEAST_SLOTS = 64
_LEAST_DELTA = 4096


@dataclass(slots=True)
class Keys:
    """The keys in use: their columns, by number, and a hash table that finds them."""

    schema: pl.Schema
    base: pl.DataFrame = field(init=False)
    """the key's columns, by number; unless they are integers"""
    delta: pl.DataFrame = field(init=False)
    """those of the last numbers: small, so that a new key does not copy all others"""
    hashes: Hashes = field(init=False)
    """of each key, by number; there is room for more"""
    size: int = 0
    slots: Ints = field(init=False)
    are_integers: bool = field(init=False)
    null_number: int = _FREE
    """the number of null, which has no integer"""

    def __post_init__(self) -> None:
        self.are_integers = _stored_as_integers(self.schema)
        self.base = self.delta = pl.DataFrame(schema=self.schema)
        self.hashes = np.empty(0, dtype=np.uint64)
        self.slots = np.full(_LEAST_SLOTS, _FREE, dtype=np.int64)

    def __len__(self) -> int:
        return self.size

    def take(self, numbers: Ints) -> pl.DataFrame:
        """The keys with these numbers, row by row."""
        if not self.schema:
            return pl.DataFrame(height=len(numbers))
        if self.are_integers:
            return self._integers(numbers)
        old = numbers < self.base.height
        if old.all():
            return self.base[numbers]
        if not old.any():
            return self.delta[numbers - self.base.height]
        both = pl.concat([self.base[numbers[old]], self.delta[numbers[~old] - self.base.height]])
        place = np.empty(len(numbers), dtype=np.int64)
        place[np.concatenate([np.flatnonzero(old), np.flatnonzero(~old)])] = np.arange(len(numbers))
        return both[place]

    def _integers(self, numbers: Ints) -> pl.DataFrame:
        [(name, dtype)] = self.schema.items()
        column = pl.Series(name, self.hashes[numbers].view(np.int64))
        if self.null_number != _FREE:
            column = column.set(pl.Series(numbers == self.null_number), None)
        return pl.DataFrame([column if dtype == pl.Int64 else column.cast(dtype)])

    def number(self, payload: pl.DataFrame) -> Ints:
        """The number of each row's key; keys that are new get one."""
        if not self.schema:
            self.size = 1
            return np.zeros(payload.height, dtype=np.int64)
        if self.are_integers:
            return self._number_integers(payload[self.schema.names()[0]])
        keys = payload.select(self.schema.names())
        return self._number_rows(keys, keys.hash_rows().to_numpy())

    def _number_integers(self, column: pl.Series) -> Ints:
        if column.dtype != pl.Int64:
            column = column.to_physical().cast(pl.Int64)
        nulls = column.null_count()
        if nulls and self.null_number == _FREE:
            self._reserve(1)
            # no slot leads to it
            self.hashes[self.size] = 0
            self.null_number = self.size
            self.size += 1
        values = (column.fill_null(0) if nulls else column).to_numpy().view(np.uint64)
        is_null = column.is_null().to_numpy() if nulls else np.zeros(0, dtype=np.bool_)
        numbers = np.empty(len(values), dtype=np.int64)
        done = 0
        while done < len(values):
            self._reserve(len(values) - done)
            done, self.size = _find_or_add(
                self.slots, self.hashes, self.size, values, is_null, self.null_number, numbers, done
            )
            if 2 * self.size >= len(self.slots):
                self._rebuild()
        return numbers

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
            same = _same_rows(
                keys if len(wanted) == keys.height else keys[wanted], self.take(candidates)
            )
            if same.all():
                found[wanted] = candidates
                break
            found[wanted[same]] = candidates[same]
            skip[wanted[~same]] += 1
            wanted = wanted[~same]
        return found

    def _add(self, keys: pl.DataFrame, hashes: Hashes, unknown: Ints) -> None:
        """Store the first of the unknown rows of each hash."""
        _, first = np.unique(hashes[unknown], return_index=True)
        rows = unknown[np.sort(first)]
        self.delta = pl.concat([self.delta, keys[rows]], rechunk=True)
        if self.delta.height > max(_LEAST_DELTA, self.base.height // 8):
            self.base = pl.concat([self.base, self.delta], rechunk=True)
            self.delta = pl.DataFrame(schema=self.schema)
        self._reserve(len(rows))
        start, self.size = self.size, self.size + len(rows)
        self.hashes[start : self.size] = hashes[rows]
        if 2 * self.size >= len(self.slots):
            self._rebuild()
        else:
            _insert(self.slots, self.hashes, np.arange(start, self.size))

    def _reserve(self, more: int) -> None:
        if self.size + more > len(self.hashes):
            hashes = np.empty(max(self.size + more, 2 * len(self.hashes)), dtype=np.uint64)
            hashes[: self.size] = self.hashes[: self.size]
            self.hashes = hashes

    def _rebuild(self) -> None:
        slots = _LEAST_SLOTS
        while slots < 4 * self.size:
            slots *= 2
        self.slots = np.full(slots, _FREE, dtype=np.int64)
        numbers = np.arange(self.size)
        _insert(self.slots, self.hashes, numbers[numbers != self.null_number])

    def keep(self, alive: Mask) -> Ints:
        """Forget the other keys. The new number of each old one, or -1; order is kept."""
        renumbered = np.where(alive, np.cumsum(alive) - 1, _FREE)
        kept = np.flatnonzero(alive)
        if self.schema and not self.are_integers:
            self.base = self.take(kept)
            self.delta = pl.DataFrame(schema=self.schema)
        self.hashes = self.hashes[: self.size][alive] if self.schema else self.hashes
        self.size = len(kept)
        if self.null_number != _FREE:
            self.null_number = int(renumbered[self.null_number])
        self._rebuild()
        return renumbered


def _stored_as_integers(schema: pl.Schema) -> bool:
    """Whether there is one column, of 64 bits at most that are an integer."""
    if len(schema) != 1:
        return False
    [dtype] = schema.dtypes()
    is_wide = dtype in (pl.UInt64, pl.Int128, pl.UInt128)
    is_stored_so = isinstance(dtype, pl.Date | pl.Datetime | pl.Duration)
    return (dtype.is_integer() and not is_wide) or is_stored_so


def _same_rows(left: pl.DataFrame, right: pl.DataFrame) -> npt.NDArray[np.bool_]:
    """Row by row: the same in every column, null and NaN included."""
    same = np.ones(left.height, dtype=np.bool_)
    for name in left.columns:
        same &= left[name].eq_missing(right[name]).to_numpy()
    return same


@njit(cache=True)
def _mixed(value: np.uint64) -> np.uint64:
    """Spread the bits: integers that are their own hash often differ in few of them."""
    value ^= value >> np.uint64(33)
    value *= np.uint64(0xFF51AFD7ED558CCD)
    value ^= value >> np.uint64(33)
    return value


@njit(cache=True)
def _find_or_add(slots, stored, size, values, is_null, null_number, numbers, done):  # noqa: PLR0917
    """Number the values from `done` on, until half of the slots are full: how far, and how many."""
    mask = np.uint64(len(slots) - 1)
    nulls = len(is_null) > 0
    for i in range(done, len(values)):
        if nulls and is_null[i]:
            numbers[i] = null_number
            continue
        value = values[i]
        at = _mixed(value) & mask
        number = slots[at]
        while number >= 0 and stored[number] != value:
            at = (at + np.uint64(1)) & mask
            number = slots[at]
        if number < 0:
            if 2 * size >= len(slots):
                return i, size
            number = size
            stored[number] = value
            slots[at] = number
            size += 1
        numbers[i] = number
    return len(values), size


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
def _insert(slots: Ints, stored: Hashes, numbers: Ints) -> None:
    mask = np.uint64(len(slots) - 1)
    for number in numbers:
        at = _mixed(stored[number]) & mask
        while slots[at] >= 0:
            at = (at + np.uint64(1)) & mask
        slots[at] = number
