"""Slabs: for every key a sorted run of rows, all of them in one pool.

A row is a few integers, by which a key's rows are sorted, and a count of how often it is there. Rows
come and go by differences of that count. A batch of them costs what it touches: each key's rows from the
first change on are moved, the others are not looked at. A slab that is full moves to the end of the
pool with twice the room; the holes are closed when rows are forgotten.

With each row goes one number, `said`, what its operator has said of it; a row whose count changes
has it set to `NOTHING`.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
# ruff: noqa: PLR0917

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

__all__ = ["NOTHING", "Changes", "Slabs", "above", "from_on"]

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

NOTHING = 2**63 - 1


class Changes(NamedTuple):
    """Differences of counts, sorted by key and row; none is zero and no row occurs twice."""

    key: Ints
    rows: Ints
    delta: Ints

    @classmethod
    def net(cls, key: Ints, columns: tuple[Ints, ...], delta: Ints) -> Changes:
        """What differences of these rows come to."""
        rows = np.empty((len(key), len(columns)), dtype=np.int64)
        for i, column in enumerate(columns):
            rows[:, i] = column
        if len(key) > 1:
            order = np.lexsort((*reversed(columns), key))
            key, rows, delta = key[order], rows[order], delta[order]
            first = np.ones(len(key), dtype=np.bool_)
            first[1:] = (key[1:] != key[:-1]) | (rows[1:] != rows[:-1]).any(axis=1)
            start = np.flatnonzero(first)
            key, rows, delta = key[start], rows[start], np.add.reduceat(delta, start)
        return cls(key, rows, delta.astype(np.int64)).where(delta != 0)

    def where(self, mask: Mask) -> Changes:
        """Some of them."""
        return Changes(self.key[mask], self.rows[mask], self.delta[mask])

    def __len__(self) -> int:
        return len(self.key)


def _none() -> Ints:
    return np.zeros(0, dtype=np.int64)


@dataclass(slots=True)
class Slabs:
    """The rows of all keys; `width` integers each."""

    width: int
    # per key: where its slab starts, how many rows it has, how many fit
    start: Ints = field(default_factory=_none)
    size: Ints = field(default_factory=_none)
    room: Ints = field(default_factory=_none)
    # the pool
    top: int = 0
    rows: Ints = field(init=False)
    count: Ints = field(default_factory=_none)
    said: Ints = field(default_factory=_none)
    total: int = 0
    """how many rows there are"""

    def __post_init__(self) -> None:
        self.rows = np.zeros((0, self.width), dtype=np.int64)

    def admit(self, keys: int) -> None:
        """There are so many keys now."""
        if keys > len(self.start):
            more = np.zeros(max(keys, 2 * len(self.start)) - len(self.start), dtype=np.int64)
            self.start, self.size, self.room = (
                np.concatenate([column, more]) for column in (self.start, self.size, self.room)
            )

    def get(self, changes: Changes) -> tuple[Ints, Ints]:
        """How often each changed row is there, and what is said of it; 0 and NOTHING if it is not."""
        found: tuple[Ints, Ints] = _get(
            self.start, self.size, *self._columns(), changes.key, changes.rows
        )
        return found

    def merge(self, changes: Changes) -> None:
        """Rows come and go; nothing is said of those that are touched."""
        if not len(changes):
            return
        pool, scratch = _room_needed(
            self.start, self.size, self.room, self.rows, changes.key, changes.rows
        )
        if pool:
            self._grow(self.top + pool)
            self.top = _relocate(
                self.start, self.size, self.room, self.top, changes.key, *self._columns()
            )
        self.total += _merge(
            self.start,
            self.size,
            *self._columns(),
            *changes,
            np.empty((scratch, self.width), dtype=np.int64),
            np.empty(scratch, dtype=np.int64),
            np.empty(scratch, dtype=np.int64),
        )

    def _columns(self) -> tuple[Ints, Ints, Ints]:
        return self.rows, self.count, self.said

    def _grow(self, needed: int) -> None:
        if needed <= len(self.count):
            return
        more = max(needed, 2 * len(self.count)) - len(self.count)
        self.rows = np.concatenate([self.rows, np.zeros((more, self.width), dtype=np.int64)])
        self.count = np.concatenate([self.count, np.zeros(more, dtype=np.int64)])
        self.said = np.concatenate([self.said, np.zeros(more, dtype=np.int64)])

    def clear(self) -> None:
        """Forget everything."""
        self.size[:] = 0

    def compact(self, alive: Mask) -> None:
        """Close the holes. Only keys that are alive are left, and numbered in the same order."""
        keep = np.flatnonzero(alive)
        size = self.size[keep]
        room = 2 * size
        start = np.cumsum(room) - room
        self.total = int(size.sum())
        # where each row is, and where it goes
        offset = np.arange(self.total) - np.repeat(np.cumsum(size) - size, size)
        source, target = np.repeat(self.start[keep], size) + offset, np.repeat(start, size) + offset
        self.top = 2 * self.total
        old = self._columns()
        self.rows, self.count, self.said = (
            np.zeros((self.top, *column.shape[1:]), dtype=np.int64) for column in old
        )
        for column, before in zip(self._columns(), old, strict=True):
            column[target] = before[source]
        self.start, self.size, self.room = start, size, room

    def places(self) -> Ints:
        """Where in the pool rows are."""
        offset = np.arange(int(self.size.sum())) - np.repeat(np.cumsum(self.size) - self.size, self.size)
        return np.repeat(self.start, self.size) + offset


@njit(cache=True)
def _before(rows, i, other, j):
    """Whether row i comes before row j of the other array."""
    for c in range(rows.shape[1]):
        if rows[i, c] != other[j, c]:
            return rows[i, c] < other[j, c]
    return False


@njit(cache=True)
def _first_from(rows, start, size, other, j):
    """The first of a slab's rows that is not before row j of the other array."""
    low, high = 0, size
    while low < high:
        middle = (low + high) // 2
        if _before(rows, start + middle, other, j):
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True)
def from_on(rows, start, size, time):
    """The first of a slab's rows whose first number is not less."""
    low, high = 0, size
    while low < high:
        middle = (low + high) // 2
        if rows[start + middle, 0] < time:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True)
def above(rows, start, size, time):
    """The first of a slab's rows whose first number is greater."""
    low, high = 0, size
    while low < high:
        middle = (low + high) // 2
        if rows[start + middle, 0] <= time:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True)
def _get(start, size, rows, count, said, key, wanted):
    counts = np.zeros(len(key), dtype=np.int64)
    told = np.full(len(key), NOTHING, dtype=np.int64)
    for j in range(len(key)):
        k = key[j]
        p = _first_from(rows, start[k], size[k], wanted, j)
        if p < size[k] and not _before(wanted, j, rows, start[k] + p):
            counts[j] = count[start[k] + p]
            told[j] = said[start[k] + p]
    return counts, told


@njit(cache=True)
def _room_needed(start, size, room, rows, key, changed):
    """Pool rows to allot, and the most rows of one slab from its first change on."""
    pool, scratch = 0, 0
    i = 0
    while i < len(key):
        k = key[i]
        j = i
        while j < len(key) and key[j] == k:
            j += 1
        if size[k] + (j - i) > room[k]:
            pool += 2 * (size[k] + (j - i))
        scratch = max(scratch, size[k] - _first_from(rows, start[k], size[k], changed, i))
        i = j
    return pool, scratch


@njit(cache=True)
def _relocate(start, size, room, top, key, rows, count, said):
    """Move the slabs that are too small for their changes to the top of the pool; the new top."""
    i = 0
    while i < len(key):
        k = key[i]
        j = i
        while j < len(key) and key[j] == k:
            j += 1
        needed = size[k] + (j - i)
        if needed > room[k]:
            old, n = start[k], size[k]
            rows[top : top + n] = rows[old : old + n]
            count[top : top + n] = count[old : old + n]
            said[top : top + n] = said[old : old + n]
            start[k] = top
            room[k] = 2 * needed
            top += 2 * needed
        i = j
    return top


@njit(cache=True)
def _merge(start, size, rows, count, said, key, changed, delta, s_rows, s_count, s_said):
    """Add the differences to the counts; how many rows there are more."""
    more = 0
    j = 0
    changes = len(key)
    while j < changes:
        k = key[j]
        base, n = start[k], size[k]
        p = _first_from(rows, base, n, changed, j)
        tail = n - p
        s_rows[:tail] = rows[base + p : base + n]
        s_count[:tail] = count[base + p : base + n]
        s_said[:tail] = said[base + p : base + n]
        i, w = 0, base + p
        while j < changes and key[j] == k:
            if i < tail and _before(s_rows, i, changed, j):
                rows[w] = s_rows[i]
                count[w] = s_count[i]
                said[w] = s_said[i]
                i += 1
                w += 1
                continue
            left = delta[j]
            if i < tail and not _before(changed, j, s_rows, i):
                left += s_count[i]
                i += 1
            assert left >= 0
            if left > 0:
                rows[w] = changed[j]
                count[w] = left
                said[w] = NOTHING
                w += 1
            j += 1
        rest = tail - i
        rows[w : w + rest] = s_rows[i:tail]
        count[w : w + rest] = s_count[i:tail]
        said[w : w + rest] = s_said[i:tail]
        size[k] = w + rest - base
        more += size[k] - n
    return more
