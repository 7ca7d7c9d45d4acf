"""The live events of one stream, by key: what a join remembers of each of its inputs.

`LiveEvents` takes in the rows of a batch and says how each event that they touch has changed in sum: an
event whose end moves several times within a batch appears once, with its end before and after it. It
finds whom a change meets, and forgets what two ctis have frozen. kernels/pairs.py has the loops.

Equal events are interchangeable. An adjust finds its event by key, start, end and a 64-bit hash of the
payload; the values decide. Should they differ, another seed is taken and all hashes are made anew.

Payloads lie in an append-only store and are referred to by number. It has few chunks, the later the
smaller, so that adding to it copies little and gathering from it looks into few.

Everything is NumPy arrays, frames and small numbers: it can be written down and read back as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from slackwater.events import Batch
from slackwater.kernels import pairs
from slackwater.kernels.pairs import BLOCK, COLUMNS, HASH, ROW, SIZE, START, VE, VS
from slackwater.times import BEGIN

__all__ = ["Changes", "LiveEvents", "Meetings", "Payloads"]

kernel: Any = pairs
"""compiled functions, which mypy cannot follow"""

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_MOST_CHUNKS = 8
_MOST_SEEDS = 16


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

    def take(self, index: Ints | Mask) -> Changes:
        """Some of them."""
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

    def take(self, index: Mask) -> Meetings:
        """Some of them."""
        return Meetings._make(column[index] for column in self)


@dataclass(slots=True)
class Payloads:
    """Rows that are referred to by number, in order of arrival."""

    schema: pl.Schema
    height: int = 0
    frame: pl.DataFrame = field(init=False)
    chunks: list[int] = field(default_factory=list)
    """the heights of the frame's chunks"""

    def __post_init__(self) -> None:
        self.frame = pl.DataFrame(schema=self.schema)

    def append(self, frame: pl.DataFrame, places: Ints) -> None:
        """The rows of the frame at these places get the next numbers; columns not needed are left."""
        before, self.height = self.height, self.height + len(places)
        if not self.schema:
            return
        frame = _some(frame[self.schema.names()], places)
        last, chunks = frame.height, self.chunks
        while chunks and (chunks[-1] < 2 * last or len(chunks) >= _MOST_CHUNKS):
            last += chunks.pop()
        kept = self.height - last
        frame = (self.frame.slice(kept).vstack(frame) if kept < before else frame).rechunk()
        self.frame = self.frame.slice(0, kept).vstack(frame) if kept else frame
        chunks.append(last)

    def take(self, numbers: Ints) -> pl.DataFrame:
        """The rows with these numbers."""
        return self.frame[numbers] if self.schema else pl.DataFrame(height=len(numbers))

    def keep(self, alive: Mask) -> None:
        """Forget the other rows; these are numbered from 0, in the same order."""
        self.height = int(np.count_nonzero(alive))
        if self.schema:
            self.frame = self.frame.filter(pl.Series(alive, dtype=pl.Boolean)).rechunk()
            self.chunks = [self.height] if self.height else []


@dataclass(slots=True)
class LiveEvents:
    """Events by key, sorted by start. `identity` are the columns that tell events of one key apart."""

    payloads: Payloads
    identity: list[str]
    seed: int = 0
    count: int = 0
    """how many events are stored, those that are gone and not yet swept away included"""
    top: int = 0
    slabs: Ints = field(default_factory=lambda: np.zeros((0, 3), dtype=np.int64))
    pool: Ints = field(default_factory=lambda: np.zeros((0, COLUMNS), dtype=np.int64))
    latest: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def apply(self, rows: Batch, key: Ints, keys: int) -> Changes:
        """Take in the rows of a batch; how each event that they touch has changed.

        `key` has the number of each row's key, `keys` is how many there are now.
        """
        self._admit_keys(keys)
        inserted = np.flatnonzero(rows.is_insert)
        adjusted = np.flatnonzero(~rows.is_insert & (rows.old_ve != rows.new_ve))
        # first all inserts: an adjust may then meet an equal event that came after it, which is as good
        born, where = self._insert(rows, key, inserted)
        if not len(adjusted):
            return born
        return self._adjust(rows, key, adjusted, born, where)

    def _admit_keys(self, keys: int) -> None:
        if keys > len(self.slabs):
            more = max(keys, 2 * len(self.slabs)) - len(self.slabs)
            self.slabs = np.concatenate([self.slabs, np.zeros((more, 3), dtype=np.int64)])

    def _hashes(self, payload: pl.DataFrame) -> Ints:
        if not self.identity:
            return np.zeros(payload.height, dtype=np.int64)
        return hash_rows(payload[self.identity], self.seed)

    def _insert(self, rows: Batch, key: Ints, inserted: Ints) -> tuple[Changes, Ints]:
        """The new events, and where they lie in the pool."""
        first_row = self.payloads.height
        if not len(inserted):
            none = np.empty(0, dtype=np.int64)
            return Changes(none, none, none, none, none), none
        self.payloads.append(rows.payload, inserted)
        self.count += len(inserted)
        key, vs, ve = key[inserted], rows.vs[inserted], rows.new_ve[inserted]
        hashes, order = self._hashes(_some(rows.payload, inserted)), _order(key, vs)
        self._grow(self.top + kernel.room_needed(self.slabs, key[order]))
        arrays = self.slabs, self.pool, self.latest
        self.top, where = kernel.insert(*arrays, self.top, key, vs, ve, hashes, order, first_row)
        return Changes(key[order], vs[order], vs[order], ve[order], first_row + order), where

    def _grow(self, needed: int) -> None:
        if needed > len(self.pool):
            size = -(-max(needed, 2 * len(self.pool)) // BLOCK) * BLOCK
            pool = np.zeros((size, COLUMNS), dtype=np.int64)
            pool[: self.top] = self.pool[: self.top]
            latest = np.zeros(size // BLOCK, dtype=np.int64)
            latest[: len(self.latest)] = self.latest
            self.pool, self.latest = pool, latest

    def _adjust(self, rows: Batch, key: Ints, adjusted: Ints, born: Changes, where: Ints) -> Changes:
        """Move ends; the changes of the new events and of those that were there before."""
        first_row = self.payloads.height - born.rows
        some = key[adjusted], rows.vs[adjusted], rows.old_ve[adjusted], rows.new_ve[adjusted]
        payload = _some(rows.payload, adjusted)
        for _ in range(_MOST_SEEDS):
            met, touched_key, touched, before = kernel.adjust(
                self.slabs, self.pool, self.latest, *some, self._hashes(payload), first_row
            )
            if self._are(met, payload):
                break
            # two payloads with one hash: back to where we were, and on with other hashes
            self.pool[touched, VE], self.pool[where, VE] = before, born.now
            where = self._rehash(born.row)
        else:
            raise AssertionError("an adjust names an event that is not there")
        events = self.pool[touched]
        moved = Changes(touched_key, events[:, VS], before, events[:, VE], events[:, ROW])
        born = born._replace(now=self.pool[where, VE])
        return Changes._make(np.concatenate(columns) for columns in zip(born, moved, strict=True))

    def _are(self, numbers: Ints, payload: pl.DataFrame) -> bool:
        """Whether the payloads with these numbers are the given ones, value for value."""
        if len(numbers) and numbers.min() < 0:
            return False
        stored = self.payloads.take(numbers)
        return all(stored[name].eq_missing(payload[name]).all() for name in self.identity)

    def _rehash(self, born: Ints) -> Ints:
        """Take another seed; where the events with the given payload numbers lie now."""
        self.seed += 1
        key, events = kernel.survivors(self.slabs, self.pool, BEGIN, BEGIN)
        events[:, HASH] = self._hashes(self.payloads.take(events[:, ROW]))
        order = np.lexsort((events[:, HASH], events[:, VS], key))
        key, events = key[order], events[order]
        self._rebuild(key, events)
        offset = np.arange(len(key)) - np.searchsorted(key, key)
        place = np.empty(self.payloads.height, dtype=np.int64)
        place[events[:, ROW]] = self.slabs[key, START] + offset
        return place[born]

    def _rebuild(self, key: Ints, events: Ints) -> None:
        self.slabs[:] = 0
        self.count = len(events)
        self.top, self.pool, self.latest = 0, self.pool[:0], self.latest[:0]
        self._grow(kernel.room_needed(self.slabs, key))
        self.top = kernel.rebuild(self.slabs, self.pool, self.latest, key, events)

    def meetings(self, changes: Changes, keys: int) -> Meetings:
        """How the changes of another stream's events change what they have in common with these."""
        self._admit_keys(keys)
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
        return Meetings._make(np.concatenate(columns) for columns in zip(*parts, strict=True))

    def forget(self, own_cti: int, other_cti: int) -> Mask:
        """Drop what can no longer matter. Which payloads are left: they are numbered anew, in order."""
        key, events = kernel.survivors(self.slabs, self.pool, own_cti, other_cti)
        alive = np.zeros(self.payloads.height, dtype=np.bool_)
        alive[events[:, ROW]] = True
        events[:, ROW] = (np.cumsum(alive) - 1)[events[:, ROW]]
        self.payloads.keep(alive)
        self._rebuild(key, events)
        return alive

    def in_use(self, keys: int) -> Mask:
        """Which keys have events."""
        self._admit_keys(keys)
        return self.slabs[:keys, SIZE] > 0

    def renumber(self, alive: Mask) -> None:
        """Other keys are gone, and these are numbered from 0."""
        self.slabs = self.slabs[: len(alive)][alive]


def _some(payload: pl.DataFrame, places: Ints) -> pl.DataFrame:
    """The rows at these places, which ascend."""
    if len(places) == payload.height:
        return payload
    return payload[places] if payload.width else pl.DataFrame(height=len(places))


def hash_rows(payload: pl.DataFrame, seed: int) -> Ints:
    """A number per row, equal for rows that are the same."""
    return payload.hash_rows(seed=seed).to_numpy(writable=True).view(np.int64)


def _order(key: Ints, vs: Ints) -> Ints:
    """The order by key and start; sorted as one number where both fit into it."""
    first, last = int(vs.min()), int(vs.max())
    width = last - first + 1
    if (int(key.max()) + 1) * width < 2**63:
        return np.argsort(key * width + (vs - first))
    return np.lexsort((vs, key))
