"""Grouping: a dense number for every distinct key, whatever its columns.

`Keys` hands out numbers 0, 1, 2, ... A 64-bit hash of the key's columns narrows the
search, the values decide: rows whose hash is known are compared with the stored key, by identity (null =
null, NaN = NaN). One integer column needs no comparison, it is its own hash.

Two keys with one hash are told apart by probing on: each stored key has its own slot, and a row is
compared with every slot of its hash until one is equal.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl
from numba import njit

__all__ = ["Keys"]

Ints = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]

_FREE = -1
_LEAST_SLOTS = 64
_LEAST_DELTA = 4096
_NULL = 0x9E3779B97F4A7C15 - 2**63


@dataclass(slots=True)
class Keys:
    """The keys in use: their columns, by number, and a hash table that finds them."""

    schema: pl.Schema
    base: pl.DataFrame = field(init=False)
    """the key's columns, by number"""
    delta: pl.DataFrame = field(init=False)
    """those of the last numbers: small, so that a new key does not copy all others"""
    hashes: Hashes = field(init=False)
    slots: Ints = field(init=False)
    has_null: bool = False

    def __post_init__(self) -> None:
        self.base = self.delta = pl.DataFrame(schema=self.schema)
        self.hashes = np.empty(0, dtype=np.uint64)
        self.slots = np.full(_LEAST_SLOTS, _FREE, dtype=np.int64)

    def __len__(self) -> int:
        return self.base.height + self.delta.height

    def take(self, numbers: Ints) -> pl.DataFrame:
        """The keys with these numbers, row by row."""
        old = numbers < self.base.height
        if old.all():
            return self.base[numbers]
        if not old.any():
            return self.delta[numbers - self.base.height]
        both = pl.concat([self.base[numbers[old]], self.delta[numbers[~old] - self.base.height]])
        place = np.empty(len(numbers), dtype=np.int64)
        place[np.concatenate([np.flatnonzero(old), np.flatnonzero(~old)])] = np.arange(len(numbers))
        return both[place]

    def number(self, payload: pl.DataFrame) -> Ints:
        """The number of each row's key; keys that are new get one."""
        if not self.schema:
            return self._only_one(payload.height)
        keys = payload.select(self.schema.names())
        hashes, exact = self._hashed(keys)
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
            if exact:
                found[wanted] = candidates
                break
            same = _same_rows(keys[wanted], self.take(candidates))
            found[wanted[same]] = candidates[same]
            skip[wanted[~same]] += 1
            wanted = wanted[~same]
        return found

    def _hashed(self, keys: pl.DataFrame) -> tuple[Hashes, bool]:
        """A hash per row, and whether equal hashes mean equal keys."""
        if list(self.schema.dtypes()) != [pl.Int64]:
            return keys.hash_rows().to_numpy(), False
        column = keys.to_series()
        if column.null_count():
            self.has_null = True
            column = column.fill_null(_NULL)
        return column.to_numpy().view(np.uint64), not self.has_null

    def _only_one(self, rows: int) -> Ints:
        if len(self) == 0:
            self.base = pl.DataFrame(height=1)
            self.hashes = np.zeros(1, dtype=np.uint64)
        return np.zeros(rows, dtype=np.int64)

    def _add(self, keys: pl.DataFrame, hashes: Hashes, unknown: Ints) -> None:
        """Store the first of the unknown rows of each hash."""
        _, first = np.unique(hashes[unknown], return_index=True)
        rows = unknown[np.sort(first)]
        start = len(self)
        self.delta = pl.concat([self.delta, keys[rows]], rechunk=True)
        if self.delta.height > max(_LEAST_DELTA, self.base.height // 8):
            self.base = pl.concat([self.base, self.delta], rechunk=True)
            self.delta = pl.DataFrame(schema=self.schema)
        self.hashes = np.concatenate([self.hashes, hashes[rows]])
        if 2 * len(self) > len(self.slots):
            self._rebuild(len(self))
        else:
            _insert(self.slots, self.hashes, np.arange(start, len(self)))

    def _rebuild(self, size: int) -> None:
        slots = _LEAST_SLOTS
        while slots < 4 * size:
            slots *= 2
        self.slots = np.full(slots, _FREE, dtype=np.int64)
        _insert(self.slots, self.hashes, np.arange(size))

    def keep(self, alive: npt.NDArray[np.bool_]) -> Ints:
        """Forget the other keys. The new number of each old one, or -1; order is kept."""
        renumbered = np.where(alive, np.cumsum(alive) - 1, _FREE)
        kept = np.flatnonzero(alive)
        self.base = self.take(kept) if self.schema else pl.DataFrame(height=len(kept))
        self.delta = pl.DataFrame(schema=self.schema)
        self.hashes = self.hashes[alive]
        self._rebuild(len(self))
        return renumbered


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
