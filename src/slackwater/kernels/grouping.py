"""Grouping: a dense number for every distinct key, whatever its columns.

`Keys` hands out numbers 0, 1, 2, ... and finds them again in a hash table. Keys of numbers, booleans,
times and strings are stored, hashed and compared by compiled code (kernels/coded.py). For others (nested
values, decimals) a 64-bit hash of the columns narrows the search and polars decides: rows whose hash is
known are compared with the stored key. Either way by identity: null = null, NaN = NaN, -0.0 = 0.0.

Two keys with one hash are told apart by probing on: each stored key has its own slot, and a row is
compared with every slot of its hash until one is equal.
"""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from numba import njit

from slackwater.columns import FEW, blank, column_of, framed, nulls_in, some_columns, taken
from slackwater.identity import PLAIN, hash_rows, identity, same
from slackwater.kernels import coded as kernel
from slackwater.kernels.arrays import Spares
from slackwater.kernels.chunks import Chunks
from slackwater.kernels.coded import NO_WORDS, Coded, can_be_coded, coded, places_of, spread
from slackwater.kernels.integers import as_integers, from_integers, is_fixed, numbers
from slackwater.kernels.prefetch import prefetch
from slackwater.kernels.words import SHORT, Letters, are_words, hashed_words, short_words_of, words_of
from slackwater.times import BEGIN

__all__ = ["Index", "Keys", "hashes_of", "pack", "same_rows"]

Ints = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]

Slots = npt.NDArray[np.int32]

_FREE = -1
_NO_SEED = np.uint64(0)
_LEAST_SLOTS = 64
_LEAST_LETTERS = 1024
_SPARSE = 4
"""so many times as much room as keys is given back"""
_SHORT, _MORE = 1 << 20, 4
"""a text of so many letters grows by this part of it, and not to twice its length"""
_LENGTH = 0xFFFFFFFF
"""the half of a word's first integer that is its length"""
_LEAST_KEYS = 16
"""room for fewer is not worth saving"""
_BITS = 63
"""one for each column that may be null"""
_AHEAD = 8
"""rounds between fetching a place and going there"""
_NUMBERS = ([pl.Int64()], [pl.Float64()])
"""schemas of one number, of which Python has the values at once"""


@dataclass(slots=True, eq=False)
class Index:
    """The hash table. It is never written down, but made anew from the keys."""

    slots: Slots = field(default_factory=lambda: np.empty(0, dtype=np.int32))

    def __reduce__(self) -> tuple[Any, ...]:
        return Index, ()


@dataclass(slots=True)
class Keys:
    """The keys in use: their columns, by number, and a hash table that finds them."""

    schema: pl.Schema
    is_coded: bool = field(init=False)
    """whether compiled code knows all types"""
    worded: Ints = field(init=False)
    """if so: which of the integers of a row are the first of words"""
    values: Ints = field(init=False)
    """a row of integers per key; there is room for more"""
    begins: Ints = field(init=False)
    """where the long words of each key begin"""
    letters: Letters = field(init=False)
    """in this text, which has room for more"""
    used: int = 0
    rows: Chunks = field(init=False)
    """if not: the key's columns, by number"""
    hashes: Hashes = field(init=False)
    """of each key, by number; there is room for more"""
    size: int = 0
    index: Index = field(default_factory=Index)
    spares: Spares = field(default_factory=Spares)

    def __post_init__(self) -> None:
        self.is_coded = can_be_coded(self.schema)
        *places, nulls_at = places_of(self.schema.dtypes())
        words = [at for at, each in zip(places, self.schema.dtypes(), strict=True) if are_words(each)]
        self.worded = np.array(words if self.is_coded else [], dtype=np.int64)
        self.values = np.empty((0, nulls_at + 1), dtype=np.int64)
        self.begins = np.empty(0, dtype=np.int64)
        self.letters = np.zeros(1, dtype=np.uint8)
        self.rows = Chunks(self.schema)
        self.hashes = np.empty(0, dtype=np.uint64)

    @property
    def width(self) -> float:
        """How many bytes a key takes, on average; infinite if nobody knows."""
        if not self.is_coded:
            return math.inf
        return 8.0 * int(self.values.shape[1]) + self.used / max(1, self.size)

    def __len__(self) -> int:
        return self.size

    def take(self, numbers: Ints) -> pl.DataFrame:
        """The keys with these numbers, row by row."""
        if not self.schema:
            return blank(len(numbers))
        return self._decoded(numbers) if self.is_coded else self.rows.take(numbers)

    def tuples(self, numbers: Ints) -> list[tuple[Any, ...]]:
        """The same as Python's values."""
        if len(numbers) <= FEW and self.schema.dtypes() in _NUMBERS:
            [dtype] = self.schema.dtypes()
            rows = _rows(self.values, numbers)
            if not rows[:, -1].any():
                column = np.ascontiguousarray(rows[:, 0])
                values = column.view(np.float64) if dtype == pl.Float64 else column
                return [(value,) for value in values.tolist()]
        return self.take(numbers).rows()

    def number(self, payload: pl.DataFrame) -> Ints:
        """The number of each row's key; keys that are new get one."""
        if self.is_coded:
            return self._number_coded(coded(payload, list(self.schema)))
        keys = some_columns(payload, list(self.schema))
        return self._number_rows(keys, hashes_of(keys))

    def number_from(self, floor: int, first: Ints, rest: pl.DataFrame) -> Ints:
        """The number of each row's key, of which the first column, of integers, is given apart.

        Keys that are new get one where that is not below the floor; else it is -1.
        """
        names = list(self.schema)
        if self.is_coded:
            return self._number_coded(coded(rest, names[1:], first), floor)
        columns = [rest.get_column(name) for name in names[1:]]
        keys = framed([column_of(names[0], first), *columns], len(first))
        hashes = hashes_of(keys)
        found = self._find_others(keys, hashes)
        new = np.flatnonzero((found < 0) & (first >= floor))
        if len(new):
            found[new] = self._number_rows(taken(keys, new), hashes[new])
        return found

    def find(self, payload: pl.DataFrame) -> Ints:
        """The number of each row's key; -1 if it has none."""
        if self.is_coded:
            return self._find_coded(coded(payload, list(self.schema)))
        keys = some_columns(payload, list(self.schema))
        return self._find_others(keys, hashes_of(keys))

    def number_of(self, values: npt.NDArray[Any]) -> Ints:
        """The number of each key, where keys are single numbers of the type of these."""
        assert self.is_coded
        columns = np.zeros((2, len(values)), dtype=np.int64)
        columns[0] = numbers(values)
        return self._number_coded(Coded(columns, NO_WORDS))

    def number_one(self, values: Sequence[Any]) -> int:
        """The number of the key with these values, which it gets if it is new."""
        row = self._coded_at_once(values)
        found = self.number(self._frame_of(values)) if row is None else self._number_coded(row)
        return int(found[0])

    def find_one(self, values: Sequence[Any]) -> int:
        """The number of the key with these values; -1 if it has none."""
        row = self._coded_at_once(values)
        found = self.find(self._frame_of(values)) if row is None else self._find_coded(row)
        return int(found[0])

    def _frame_of(self, values: Sequence[Any]) -> pl.DataFrame:
        named = zip(self.schema.items(), values, strict=True)
        return framed([pl.Series(name, [v], dtype, strict=True) for (name, dtype), v in named], 1)

    # keys that are coded

    def _coded_at_once(self, values: Sequence[Any]) -> Coded | None:
        """One key, where Python has its integers at once."""
        known = zip(values, self.schema.dtypes(), strict=True)
        if not self.is_coded or not all(type(v) is int and dtype == pl.Int64 for v, dtype in known):
            return None
        return Coded(np.array([[value] for value in (*values, 0)], dtype=np.int64), NO_WORDS)

    def _number_coded(self, keys: Coded, floor: int = BEGIN) -> Ints:
        columns, where, _ = keys
        rows = columns.shape[1]
        found = np.empty(rows, dtype=np.int64)
        done = 0
        while True:
            slots, begun, before = self._slots(), done, self.size
            done, self.size, self.used = kernel.find_or_add(
                slots, self.values, self.begins, self.letters, self.size, self.used, self.worded,
                columns, where, True, floor, found, done,
            )  # fmt: skip
            if done == rows:
                return found
            # the others are as new as these were
            more = max(1, (rows - done) * (self.size - before) // max(1, done - begun))
            if 2 * self.size >= len(slots):
                self._rebuild(more)
            elif self.size == len(self.values):
                self._reserve(more)
            else:
                self._lengthen(_long_letters(columns[self.worded, done]))

    def _find_coded(self, keys: Coded) -> Ints:
        columns, where, _ = keys
        found = np.empty(columns.shape[1], dtype=np.int64)
        kernel.find_or_add(
            self._slots(), self.values, self.begins, self.letters, self.size, self.used, self.worded,
            columns, where, False, BEGIN, found, 0,
        )  # fmt: skip
        return found

    def _lengthen(self, more: int) -> None:
        """Have room for so many letters more."""
        part = self.used if self.used < _SHORT else self.used // _MORE
        room = self.used + max(more, part, _LEAST_LETTERS)
        letters = np.empty(room, dtype=np.uint8)
        letters[: self.used] = self.letters[: self.used]
        self.letters = letters

    def _decoded(self, wanted: Ints) -> pl.DataFrame:
        rows = _rows(self.values, wanted)
        columns = []
        *places, nulls_at = places_of(self.schema.dtypes())
        nulls = rows[:, nulls_at]
        some_null = nulls.any()
        for i, (at, (name, dtype)) in enumerate(zip(places, self.schema.items(), strict=True)):
            is_null = (nulls >> i) & 1 == 1 if some_null else None
            if are_words(dtype):
                if (rows[:, at] & _LENGTH > SHORT).any():
                    before = self.worded[self.worded < at]
                    ends, text = kernel.gather(
                        self.values, self.begins, self.letters, before, at, wanted
                    )
                    columns.append(words_of(name, dtype, ends, text, is_null))
                else:
                    columns.append(short_words_of(name, dtype, rows[:, at : at + 2].copy(), is_null))
                continue
            column = from_integers(name, np.ascontiguousarray(rows[:, at]), dtype)
            columns.append(column if is_null is None else column.set(column_of("", is_null), None))
        return framed(columns, len(rows))

    # others

    def _number_rows(self, keys: pl.DataFrame, hashes: Hashes) -> Ints:
        found = np.full(keys.height, _FREE, dtype=np.int64)
        wanted = np.arange(keys.height)
        skip = np.zeros(keys.height, dtype=np.int64)
        while len(wanted):
            candidates = _find(self._slots(), self.hashes, hashes[wanted], skip[wanted])
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
            candidates = _find(self._slots(), self.hashes, hashes[wanted], skip[wanted])
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
        if 2 * self.size >= len(self.index.slots):
            self._rebuild()
        else:
            _insert(self.index.slots, self.hashes, np.arange(start, self.size))

    # all

    def _reserve(self, more: int) -> None:
        needed = self.size + more
        if self.is_coded and needed > len(self.values):
            room = max(needed, 2 * len(self.values), _LEAST_KEYS)
            self.values = self.spares.enlarged(self.values, room, self.size)
        if len(self.worded) and needed > len(self.begins):
            self.begins = self.spares.enlarged(self.begins, len(self.values), self.size)
        if not self.is_coded and needed > len(self.hashes):
            hashes = np.empty(max(needed, 2 * len(self.hashes)), dtype=np.uint64)
            hashes[: self.size] = self.hashes[: self.size]
            self.hashes = hashes

    def _slots(self) -> Slots:
        """The hash table, which is not there yet, or was not written down."""
        if not len(self.index.slots):
            self._rebuild()
        return self.index.slots

    def _rebuild(self, more: int = 0) -> None:
        """Enter all keys into slots for as many again, or for so many more."""
        slots = _LEAST_SLOTS
        while slots < 4 * self.size or slots < 2 * (self.size + more):
            slots *= 2
        # two slots to an integer
        self.spares.give_back(self.index.slots.view(np.int64))
        self.index.slots = self.spares.filled(_FREE, slots // 2).view(np.int32)
        if self.is_coded:
            kernel.enter(self.index.slots, self.values[: self.size])
        else:
            _insert(self.index.slots, self.hashes, np.arange(self.size))

    def keep(self, alive: Mask) -> Ints:
        """Forget the other keys. The new number of each old one, or -1; order is kept."""
        kept = np.flatnonzero(alive)
        renumbered: Ints = _renumbered(alive)
        if self.is_coded:
            self.used = kernel.pack(self.values, self.begins, self.letters, self.worded, kept)
            if _SPARSE * len(kept) < len(self.values):
                values, begins = self.values, self.begins
                self.values, self.begins = values[: len(kept)].copy(), begins[: len(kept)].copy()
                self.spares.give_back(values)
                self.spares.give_back(begins)
            if _SPARSE * self.used < len(self.letters):
                self.letters = self.letters[: self.used + 1].copy()
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


def _long_letters(firsts: Ints) -> int:
    """How many letters long words have, by their first integers."""
    lengths = firsts & _LENGTH
    return int(lengths[lengths > SHORT].sum())


def _stand_ins(column: pl.Series) -> tuple[Ints, Mask | None]:
    """Integers that are equal where the values are the same; and which values are null, if any."""
    if is_fixed(column.dtype):
        return as_integers(column)
    if are_words(column.dtype):
        nulls = nulls_in(column) if column.null_count() else None
        return hashed_words(column).view(np.int64), nulls
    return hash_rows(column.to_frame()).view(np.int64), None


def same_rows(frame: pl.DataFrame, left: Ints, right: Ints) -> Mask:
    """Which of the rows at the places on the left are the same as their partners on the right."""
    if len(left) <= FEW and all(dtype in PLAIN for dtype in frame.dtypes):
        some = np.ones(len(left), dtype=np.bool_)
        for column in frame.get_columns():
            _compare(column, left, column, right, some)
        return some
    if len(frame.columns) <= kernel.MOST and all(map(is_fixed, frame.dtypes)):
        columns = coded(frame, frame.columns).columns
        equal: Mask = (columns[:, left] == columns[:, right]).all(axis=0)
        return equal
    return same(taken(frame, left), taken(frame, right))


def _compare(some: pl.Series, left: Ints, others: pl.Series, right: Ints, equal: Mask) -> None:
    """Say no where a value differs from its partner, one by one; of plain types."""
    for i, (mine, theirs) in enumerate(zip(left.tolist(), right.tolist(), strict=True)):
        a, b = some[mine], others[theirs]
        if a != b and identity(a) != identity(b):
            equal[i] = False


@njit(cache=True, inline="always")
def _hash_row(rows, i, value=_NO_SEED):
    for a in range(rows.shape[1]):
        value = spread(value ^ np.uint64(rows[i, a])) * np.uint64(0x9E3779B97F4A7C15)
    return value


@njit(cache=True)
def _hashed(rows, seed):
    hashes = np.empty(len(rows), dtype=np.uint64)
    for i in range(len(rows)):
        hashes[i] = _hash_row(rows, i, np.uint64(seed))
    return hashes


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
        if stored.ndim == 1:
            stored[i] = stored[kept[i]]
        else:
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
def _find(slots: Slots, stored: Hashes, hashes: Hashes, skip: Ints) -> Ints:
    """For each hash the number of its (skip + 1)-th stored key, or -1."""
    mask = np.uint64(len(slots) - 1)
    found = np.empty(len(hashes), dtype=np.int64)
    for i in range(len(hashes)):
        at = spread(hashes[i]) & mask
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
        at = spread(hashes[i]) & mask
        while slots[at] >= 0 and hashes[slots[at]] != hashes[i]:
            at = (at + np.uint64(1)) & mask
        if slots[at] < 0:
            slots[at] = i
            found[count] = i
            count += 1
    return found[:count]


@njit(cache=True)
def _insert(slots: Slots, stored: Hashes, numbers: Ints) -> None:
    mask = np.uint64(len(slots) - 1)
    for number in numbers:
        at = spread(stored[number]) & mask
        while slots[at] >= 0:
            at = (at + np.uint64(1)) & mask
        slots[at] = number
