"""A calendar: rows that wait for their time, and come out when it is reached.

Nobody asks for the rows that wait one by one or in order, only for all those up to a time; so they need
not be sorted. A row lies in a bucket, which depends on the first byte (from the left) in which its time
differs from the time that was reached last, and on the value of that byte. When the time moves on, whole
buckets are due; of at most one bucket the rows are distributed anew, each to a later byte. Hence a row
moves at most once per byte in which times differ, however many wait: three times for a million of ticks.
(A radix heap; Ahuja, Mehlhorn, Orlin and Tarjan, Faster algorithms for the shortest path problem, 1990.)

Buckets are chains of chunks of a common pool. Columns of a bucket: its last chunk or -1, how many rows
that one holds, how many rows all its chunks hold. The first column of a row is its time; `TAKES` is less
than zero where the row takes back what another one says.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
# ruff: noqa: PLR0917

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from numba import njit

from slackwater.kernels.arrays import Spares
from slackwater.kernels.prefetch import prefetch, prefetch_at

__all__ = ["BUCKETS", "Calendar", "bucket_of", "is_of_one_time"]

Ints = npt.NDArray[np.int64]

TIME, TAKES = 0, 2
CHUNK = 16
_DIGIT = 8
_DIGITS = 1 << _DIGIT
_LEVELS = 64 // _DIGIT
BUCKETS = _LEVELS * _DIGITS
_SIGN = np.uint64(1 << 63)
# columns of a bucket
_LAST, _FILLED, _ROWS = 0, 1, 2
# what else there is to know: the time reached, the first free chunk and how many are free, all rows, and
# how many of them take something back
_REACHED, _FREE, _FREE_CHUNKS, _ALL, _TAKING = 0, 1, 2, 3, 4


def _no_buckets() -> Ints:
    buckets = np.zeros((BUCKETS, 3), dtype=np.int64)
    buckets[:, _LAST] = -1
    return buckets


@dataclass(slots=True)
class Calendar:
    """The rows that wait."""

    width: int
    pool: Ints = field(init=False)
    before: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """of each chunk, the one before it in its bucket, or the next that is free"""
    buckets: Ints = field(default_factory=_no_buckets)
    facts: Ints = field(init=False)
    spares: Spares = field(default_factory=Spares)

    def __post_init__(self) -> None:
        self.pool = np.empty((0, self.width), dtype=np.int64)
        self.facts = np.array([np.iinfo(np.int64).min, -1, 0, 0, 0])

    def __len__(self) -> int:
        return int(self.facts[_ALL])

    @property
    def taking(self) -> int:
        """How many of the rows take back what others say."""
        return int(self.facts[_TAKING])

    def put(self, rows: Ints) -> None:
        """Let these wait; none of them is for a time before the one that was reached."""
        self._reserve(len(rows) // CHUNK + min(len(rows), len(self.buckets)))
        _put(self.pool, self.before, self.buckets, self.facts, rows)

    def take(self, until: int) -> Ints:
        """Those up to a time, in no order."""
        # chunks are free again before their rows go elsewhere, and one per bucket may be begun
        self._reserve(min(len(self), len(self.buckets)))
        taken: Ints = _take(self.pool, self.before, self.buckets, self.facts, until)
        return taken

    def _reserve(self, chunks: int) -> None:
        """See to it that so many chunks are free."""
        if self.facts[_FREE_CHUNKS] >= chunks:
            return
        had = len(self.before)
        room = max(2 * had, had + chunks)
        self.pool = self.spares.enlarged(self.pool, room * CHUNK, len(self.pool))
        before = np.arange(1, room + 1)
        before[:had] = self.before
        before[-1] = self.facts[_FREE]
        self.before = before
        self.facts[_FREE] = had
        self.facts[_FREE_CHUNKS] += room - had

    def used(self) -> Ints:
        """The places of the pool where rows are."""
        places: Ints = _used(self.before, self.buckets, self.facts)
        return places

    def clear(self) -> None:
        """Forget all rows."""
        reached = self.facts[_REACHED]
        self.buckets = _no_buckets()
        self.pool, self.before = self.pool[:0].copy(), self.before[:0].copy()
        self.facts = np.array([reached, -1, 0, 0, 0])

    def widen(self, more: int) -> None:
        """So many columns more, of zeros."""
        self.width += more
        self.pool = np.pad(self.pool, ((0, 0), (0, more)))


@njit(cache=True, inline="always")
def bucket_of(time, reached):
    """Where a row of that time waits."""
    differ = np.uint64(time) ^ np.uint64(reached)
    level = 0
    while differ >> np.uint64(_DIGIT) != 0:
        differ >>= np.uint64(_DIGIT)
        level += 1
    return level * _DIGITS + _digit(time, level)


@njit(cache=True, inline="always")
def is_of_one_time(bucket):
    """Whether all rows of a bucket have the same time."""
    return bucket < _DIGITS


@njit(cache=True, inline="always")
def _digit(time, level):
    shifted = (np.uint64(time) ^ _SIGN) >> np.uint64(level * _DIGIT)
    return np.int64(shifted & np.uint64(_DIGITS - 1))


@njit(cache=True, inline="always")
def _append(pool, before, buckets, facts, b, rows, i):
    if buckets[b, _LAST] < 0 or buckets[b, _FILLED] == CHUNK:
        chunk = facts[_FREE]
        facts[_FREE] = before[chunk]
        facts[_FREE_CHUNKS] -= 1
        before[chunk] = buckets[b, _LAST]
        buckets[b, _LAST] = chunk
        buckets[b, _FILLED] = 0
    at = buckets[b, _LAST] * CHUNK + buckets[b, _FILLED]
    for a in range(rows.shape[1]):
        pool[at, a] = rows[i, a]
    buckets[b, _FILLED] += 1
    buckets[b, _ROWS] += 1


@njit(cache=True)
def _put(pool, before, buckets, facts, rows):
    reached = facts[_REACHED]
    for i in range(len(rows)):
        _append(pool, before, buckets, facts, bucket_of(rows[i, TIME], reached), rows, i)
        facts[_TAKING] += rows[i, TAKES] < 0
    facts[_ALL] += len(rows)


@njit(cache=True)
def _empty(pool, before, buckets, facts, b, out, n):
    """Move all rows of a bucket to `out`, from n on: where they end."""
    chunk, filled = buckets[b, _LAST], buckets[b, _FILLED]
    while chunk >= 0:
        earlier = before[chunk]
        prefetch_at(before, earlier)
        for x in range(chunk * CHUNK, chunk * CHUNK + filled):
            prefetch(pool, x + (earlier - chunk) * CHUNK)
            for a in range(pool.shape[1]):
                out[n, a] = pool[x, a]
            n += 1
        before[chunk] = facts[_FREE]
        facts[_FREE] = chunk
        facts[_FREE_CHUNKS] += 1
        chunk, filled = earlier, CHUNK
    buckets[b, _LAST] = -1
    buckets[b, _FILLED] = buckets[b, _ROWS] = 0
    return n


@njit(cache=True)
def _take(pool, before, buckets, facts, until):
    reached = facts[_REACHED]
    if until < reached or facts[_ALL] == 0:
        facts[_REACHED] = max(until, reached)
        return np.empty((0, pool.shape[1]), dtype=np.int64)
    last = bucket_of(until, reached)
    count = 0
    for b in range(last + 1):
        count += buckets[b, _ROWS]
    out = np.empty((count, pool.shape[1]), dtype=np.int64)
    n = 0
    # buckets of a level that `until` does not reach have no digit below that of `reached`
    for b in range(last):
        if buckets[b, _ROWS] > 0:
            n = _empty(pool, before, buckets, facts, b, out, n)
    facts[_REACHED] = until
    if buckets[last, _ROWS] > 0:
        stop = _empty(pool, before, buckets, facts, last, out, n)
        if not is_of_one_time(last):
            i = n
            for x in range(n, stop):
                if out[x, TIME] > until:
                    b = bucket_of(out[x, TIME], until)
                    _append(pool, before, buckets, facts, b, out, x)
                else:
                    for a in range(pool.shape[1]):
                        out[i, a] = out[x, a]
                    i += 1
            stop = i
        n = stop
    for i in range(n):
        facts[_TAKING] -= out[i, TAKES] < 0
    facts[_ALL] -= n
    return out[:n]


@njit(cache=True)
def _used(before, buckets, facts):
    places = np.empty(facts[_ALL], dtype=np.int64)
    n = 0
    for b in range(len(buckets)):
        chunk, filled = buckets[b, _LAST], buckets[b, _FILLED]
        while chunk >= 0:
            for x in range(filled):
                places[n] = chunk * CHUNK + x
                n += 1
            chunk, filled = before[chunk], CHUNK
    return places
