"""The live events of one stream, by key: what a join remembers of each of its inputs.

`LiveEvents` takes in the rows of a batch and says how each event that they touch has changed in sum: an
event whose end moves several times within a batch appears once, with its end before and after it. (Or
twice, if that is asked for and the end was before both for a while: it moves there, and back.) It finds
whom a change meets, and forgets what two ctis have frozen. kernels/pairs.py has the loops.

Equal events are interchangeable. An adjust finds its event by key, start, end and a 64-bit hash of the
payload; the values decide. Should they differ, another seed is taken and all hashes are made anew. As
long as a stream only inserts, there are none.

Everything is NumPy arrays, frames and small numbers: it can be written down and read back as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from slackwater.columns import some_columns, taken
from slackwater.events import Batch
from slackwater.kernels import pairs
from slackwater.kernels.arrays import LEAST, Spares
from slackwater.kernels.grouping import Keys, hashes_of
from slackwater.kernels.pairs import BLOCK, COLUMNS, HASH, LATEST, ROW, SIZE, START, VE, VS
from slackwater.operators.payload_store import Payloads
from slackwater.times import BEGIN

__all__ = ["Changes", "LiveEvents", "Meetings", "netted", "stable_order"]

kernel: Any = pairs
"""compiled functions, which mypy cannot follow"""

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_MOST_SEEDS = 16
_SPARSE = 8
"""if there are so many times as many keys as events, these are sorted, and the others not looked at"""
_MOST_ROOM = 4
"""a pool so many times as large as what is needed is given back"""
_SAMPLE = 512
"""at most so many keys are looked at to find out whether there is much to forget"""
_KEPT = 2_048
"""... but not below some times as many: what comes next is likely to need them again"""


class Changes(NamedTuple):
    """Events whose end moved; an end of vs means that the event does not exist."""

    key: Ints
    vs: Ints
    before: Ints
    now: Ints
    row: Ints
    """the number of the payload"""

    @property
    def rows(self) -> int:
        """How many there are."""
        return len(self.key)

    def take(self, index: Ints) -> Changes:
        """Some of them, or all in another order."""
        return Changes._make(column[index] for column in self)


class Meetings(NamedTuple):
    """How the common lifetimes of two events changed, and which two these are."""

    vs: Ints
    old_ve: Ints
    new_ve: Ints
    change: Ints
    """which of the changes caused it"""
    row: Ints
    """the number of the payload of the event that the change met"""

    def take(self, index: Ints | Mask) -> Meetings:
        """Some of them, or all in another order."""
        return Meetings._make(column[index] for column in self)


@dataclass(slots=True)
class LiveEvents:
    """Events by key, sorted by start. `identity` are the columns that tell events of one key apart."""

    payloads: Payloads
    identity: list[str]
    hashed: bool = False
    """whether events bear a hash: as long as no adjust has come, nobody looks for one"""
    seed: int = 0
    count: int = 0
    """how many events are stored, those that are gone and not yet swept away included"""
    cut: int = 0
    """how many ends have moved back since"""
    top: int = 0
    slabs: Ints = field(default_factory=lambda: np.zeros((0, COLUMNS), dtype=np.int64))
    pool: Ints = field(default_factory=lambda: np.zeros((0, COLUMNS), dtype=np.int64))
    latest: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    spares: Spares = field(default_factory=Spares)

    def apply(self, rows: Batch, key: Ints, keys: int, *, by_least: bool = False) -> Changes:
        """Take in the rows of a batch; how each event that they touch has changed.

        `key` has the number of each row's key, `keys` is how many there are now. `by_least`: an end goes
        by way of the least that it was, so that the change has the sync of the row that caused it.
        """
        self.admit(keys)
        inserted = np.flatnonzero(rows.is_insert)
        adjusted = np.flatnonzero(~rows.is_insert & (rows.old_ve != rows.new_ve))
        if len(adjusted) and self.identity and not self.hashed:
            self.hashed = True
            self._rehash(np.empty(0, dtype=np.int64))
        hashes = self._hashes(rows.payload)
        # first all inserts: an adjust may then meet an equal event that came after it, which is as good
        new = self._insert(rows, key, hashes, inserted)
        if not len(adjusted):
            return new[0]
        born, moved, least = self._adjust(rows, key, hashes, adjusted, new)
        parts = [born, moved]
        if by_least and (back := least < np.minimum(moved.before, moved.now)).any():
            there = moved._replace(now=np.where(back, least, moved.now))
            parts = [born, there, Changes._make(c[back] for c in moved._replace(before=least))]
        return Changes._make(np.concatenate(columns) for columns in zip(*parts, strict=True))

    def admit(self, keys: int) -> None:
        """There are so many keys now, at least."""
        if keys > len(self.slabs):
            slabs = self._lines(max(keys, 2 * len(self.slabs)))
            slabs[: len(self.slabs)] = self.slabs
            self.spares.give_back(self.slabs)
            self.slabs = slabs

    def _hashes(self, payload: pl.DataFrame) -> Ints:
        if not self.hashed:
            return np.zeros(payload.height, dtype=np.int64)
        return hashes_of(some_columns(payload, self.identity), self.seed).view(np.int64)

    def _insert(self, rows: Batch, key: Ints, hashes: Ints, inserted: Ints) -> tuple[Changes, Ints]:
        """The new events, and where they lie in the pool."""
        first_row = self.payloads.height
        if not len(inserted):
            none = np.empty(0, dtype=np.int64)
            return Changes(none, none, none, none, none), none
        self.payloads.append(rows.payload, inserted)
        self.count += len(inserted)
        columns: tuple[Ints, ...] = key, rows.vs, rows.new_ve, hashes
        if len(inserted) < rows.rows:
            columns = tuple(column[inserted] for column in columns)
        place = _places(columns[0], len(self.slabs))
        events = self.spares.empty(len(inserted), COLUMNS)
        key = kernel.arranged(place, *map(_writable, columns), first_row, events)
        self._grow(self.top + kernel.room_needed(self.slabs, key, False))
        arrays = self.slabs, self.pool, self.latest
        self.top, where = kernel.insert(*arrays, self.top, key, events)
        vs, ve, row = (events[:, column].copy() for column in (VS, VE, ROW))
        self.spares.give_back(events)
        return Changes(key, vs, vs, ve, row), where

    def _grow(self, needed: int) -> None:
        if needed > len(self.pool):
            size = -(-max(needed, 2 * len(self.pool)) // BLOCK) * BLOCK
            pool = self._lines(size)
            pool[: self.top] = self.pool[: self.top]
            self.spares.give_back(self.pool)
            latest = np.zeros(size // BLOCK, dtype=np.int64)
            latest[: len(self.latest)] = self.latest
            self.pool, self.latest = pool, latest

    def _adjust(
        self, rows: Batch, key: Ints, hashes: Ints, adjusted: Ints, new: tuple[Changes, Ints]
    ) -> tuple[Changes, Changes, Ints]:
        """Move ends; the changes of the new events, of those that were there before, and their least."""
        born, where = new
        first_row = self.payloads.height - born.rows
        some = key[adjusted], rows.vs[adjusted], rows.old_ve[adjusted], rows.new_ve[adjusted]
        for _ in range(_MOST_SEEDS):
            met, touched_key, touched, before, least = kernel.adjust(
                self.slabs, self.pool, self.latest, *some, hashes[adjusted], first_row
            )
            if met.min() >= 0 and self.payloads.are(met, rows.payload, adjusted, self.identity):
                break
            # two payloads with one hash: back to where we were, and on with other hashes
            self.pool[touched, VE], self.pool[where, VE] = before, born.now
            where = self._rehash(born.row)
            hashes = self._hashes(rows.payload)
        else:
            raise AssertionError("an adjust names an event that is not there")
        events = self.pool[touched]
        self.cut += int(np.count_nonzero(rows.new_ve[adjusted] < rows.old_ve[adjusted]))
        moved = Changes(touched_key, events[:, VS], before, events[:, VE], events[:, ROW])
        return born._replace(now=self.pool[where, VE]), moved, least

    def _rehash(self, born: Ints) -> Ints:
        """Take another seed; where the events with the given payload numbers lie now."""
        self.seed += 1
        never = np.full(1, BEGIN)
        key, events, _ = self._survivors(len(self.slabs), never, never)
        events[:, HASH] = self._hashes(self.payloads.take(events[:, ROW]))
        order = np.lexsort((events[:, HASH], events[:, VS], key))
        key, events = key[order], events[order]
        self._rebuild(key, events)
        offset = np.arange(len(key)) - np.searchsorted(key, key)
        place = np.empty(self.payloads.height, dtype=np.int64)
        place[events[:, ROW]] = self.slabs[key, START] + offset
        return place[born]

    def _survivors(self, keys: int, own_cti: Ints, other_cti: Ints) -> tuple[Ints, Ints, Mask]:
        """Take the events out that can still matter, with their keys; and which payloads these have."""
        alive = np.empty(self.payloads.height, dtype=np.bool_)
        key, events = self.spares.empty(self.count), self.spares.empty(self.count, COLUMNS)
        count = kernel.survivors(self.slabs[:keys], self.pool, own_cti, other_cti, alive, key, events)
        return key[:count], events[:count], alive

    def _rebuild(self, key: Ints, events: Ints) -> None:
        """Put events in, where there are none."""
        self.count, self.cut, self.top = len(events), 0, 0
        # as much again comes before the next time
        needed = 2 * kernel.room_needed(self.slabs, key, True)
        if max(needed, _KEPT) * _MOST_ROOM < len(self.pool):
            self.spares.give_back(self.pool)
            self.pool, self.latest = self.pool[:0].copy(), self.latest[:0].copy()
        self._grow(needed)
        self.top = kernel.rebuild(self.slabs, self.pool, self.latest, key, events)

    def meetings(self, changes: Changes, keys: int) -> Meetings:
        """How the changes of another stream's events change what they have in common with these."""
        self.admit(keys)
        parts: list[Meetings] = []
        done, size = 0, 2 * changes.rows + 16
        while done < changes.rows:
            part = Meetings._make(np.empty(size, dtype=np.int64) for _ in Meetings._fields)
            done, count = kernel.overlapping(
                self.slabs, self.pool, self.latest, *changes[:4], done, *part
            )
            parts.append(Meetings._make(column[:count] for column in part))
            size *= 2
        if not parts:
            none = np.empty(0, dtype=np.int64)
            return Meetings(none, none, none, none, none)
        if len(parts) == 1:
            return parts[0]
        return Meetings._make(np.concatenate(columns) for columns in zip(*parts, strict=True))

    def close(self, keys: Ints, own_cti: Ints, other_cti: Ints) -> Ints:
        """Drop what can no longer matter of some keys; the numbers of the payloads that went."""
        gone: Ints = kernel.close(self.slabs, self.pool, self.latest, keys, own_cti, other_cti)
        self.count -= len(gone)
        return gone

    def of(self, keys: Ints) -> tuple[Ints, Ints]:
        """The numbers of the payloads of some keys, and of which of the keys each is."""
        found: tuple[Ints, Ints] = kernel.events_of(self.slabs, self.pool, keys)
        return found

    def alive(self, keys: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        """Of the events of some keys the numbers of their payloads, of which key each is, start, end."""
        self.admit(int(keys.max(initial=-1)) + 1)
        size = self.slabs[keys, SIZE]
        which = np.repeat(np.arange(len(keys)), size)
        place = np.arange(len(which)) - np.repeat(np.cumsum(size) - size, size)
        events = self.pool[np.repeat(self.slabs[keys, START], size) + place]
        there = events[:, VE] > events[:, VS]
        return events[there, ROW], which[there], events[there, VS], events[there, VE]

    def forget(self, keys: int, own_cti: Ints, other_cti: Ints) -> Mask:
        """Drop what can no longer matter. Which payloads are left: they are numbered anew, in order.

        There is a cti of either stream for each of so many keys, or one for all.
        """
        self.admit(keys)
        key, events, alive = self._survivors(keys, own_cti, other_cti)
        events[:, ROW] = (np.cumsum(alive) - 1)[events[:, ROW]]
        self.payloads.keep(alive)
        self._rebuild(key, events)
        self.spares.give_back(key)
        self.spares.give_back(events)
        return alive

    def sample(self) -> tuple[Ints, Ints]:
        """Of some of the keys, spread over all: how many events they have, and a bound of their ends."""
        some = self.slabs[:: len(self.slabs) // _SAMPLE + 1]
        return some[:, SIZE], some[:, LATEST]

    def in_use(self, keys: int) -> Mask:
        """Which keys have events."""
        self.admit(keys)
        return self.slabs[:keys, SIZE] > 0

    def renumber(self, alive: Mask) -> None:
        """Other keys are gone, and these are numbered from 0."""
        kept = self.slabs[np.flatnonzero(alive)]
        if len(self.slabs) > _MOST_ROOM * max(len(kept), _KEPT):
            self.spares.give_back(self.slabs)
            self.slabs = self._lines(len(kept))
        else:
            # as many may come before the next time: memory from the system is touched page by page
            self.slabs[len(kept) : len(alive)] = 0
        self.slabs[: len(kept)] = kept

    def _lines(self, rows: int) -> Ints:
        """So many rows, empty: two share a line of the cache, and none lies in two lines."""
        if rows * COLUMNS >= LEAST:
            return self.spares.filled(0, rows, COLUMNS)
        # memory that comes cleared from the system has no large pages, and is touched for the first time
        numbers = np.empty(rows * COLUMNS + 8, dtype=np.int64)
        numbers.fill(0)
        first = -numbers.ctypes.data % 64 // 8
        return numbers[first : first + rows * COLUMNS].reshape(rows, COLUMNS)


def _places(key: Ints, keys: int) -> Ints:
    """Where each event goes if those of a key are put together, in their order."""
    if keys <= _SPARSE * len(key):
        counted: Ints = kernel.places(key, keys)
        return counted
    # a batch costs what it brings, however many keys there are
    place = np.empty_like(key)
    place[stable_order(key)] = np.arange(len(key))
    return place


def _writable(column: Ints) -> Ints:
    # compiled kernels tell the two apart
    return np.require(column, requirements=["C", "W"])


def netted(rows: Batch, key: Ints, some: Mask, identity: list[str]) -> Changes:
    """How some of the rows change each event in sum; for the number of its payload, a row that names it.

    Equal events are interchangeable: the ends that they have before, and do not have afterwards, become
    those that they have afterwards, and did not have before.
    """
    changes = Changes(key, rows.vs, rows.old_ve, rows.new_ve, np.arange(rows.rows))
    if not some.all():
        changes = changes.take(np.flatnonzero(some))
    key, vs, old_ve, new_ve, row = changes
    if (old_ve == vs).all():
        return changes
    order = np.lexsort((vs, key))
    again = (np.diff(key[order]) == 0) & (np.diff(vs[order]) == 0)
    if not again.any():
        return changes
    columns = [key, vs]
    if identity:
        values = taken(some_columns(rows.payload, identity), row)
        columns.append(Keys(values.schema).number(values))
    _, first, event = np.unique(np.stack(columns), axis=1, return_index=True, return_inverse=True)
    event = event.reshape(-1)
    ends = np.stack([np.tile(event, 2), np.concatenate([old_ve, new_ve])])
    (event, end), which = np.unique(ends, axis=1, return_inverse=True)
    change = np.bincount(which.reshape(-1), np.repeat([-1.0, 1.0], changes.rows)).astype(np.int64)
    before, after = (np.repeat(np.arange(len(end)), np.maximum(sign * change, 0)) for sign in (-1, 1))
    # both are in the order of events, and each has as many of one as of the other
    place = first[event[before]]
    return Changes(key[place], vs[place], end[before], end[after], row[place])


def stable_order(times: Ints) -> Ints:
    """The order by time, equal ones as they are; sorted as one number with their place if that fits."""
    if len(times) < 2:
        return np.arange(len(times))
    bits = len(times).bit_length()
    first, last = int(times.min()), int(times.max())
    if (last - first).bit_length() + bits > 63:
        return np.argsort(times, kind="stable")
    order: Ints = times - first
    order <<= bits
    order |= np.arange(len(times))
    order.sort()
    order &= (1 << bits) - 1
    return order
