"""A buffer of changes on their way: rows go in as they come, and come out combined, one per event.

Rows of one event that meet in the buffer become one: (vs, first old_ve, last new_ve); an insert that
meets its full removal vanishes with it. A removed event that is inserted again is another event: the
two rows stay two, so that what only shortens still only shortens when it comes out.

Invariant: what went in, as a sum of differences, is what came out plus what is held. Every held change
starts from an end that exists outside, so that held changes may leave in any order.

A batch costs what it holds and what it releases. Changes that have gone leave their room behind; when
there is none left, what is alive is moved together, which costs as much as what came in since.

Many inserts at once are *fresh* until something is asked for. Often the next promise releases nearly all
of them; then they are sorted, which is less than to enter each into a table and two heaps.

kernels/buffer.py has the loops. Used by Align, Sort and Finalize.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from slackwater.columns import column_of, framed
from slackwater.events import Batch
from slackwater.kernels import buffer
from slackwater.kernels.grouping import Keys
from slackwater.times import BEGIN, INF, Times

__all__ = ["Buffer"]

kernel: Any = buffer
"""compiled functions: their many array arguments are passed by unpacking, which mypy cannot follow"""

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

LEAST_ROOM = 256
"""tests make this small, so that room is made often"""
MANY_ROWS = 1000
"""so many inserts may wait as they came"""


def _are_inserts(rows: Batch) -> bool:
    """Whether all of them are, and say something."""
    return bool((rows.is_insert & (rows.new_ve != rows.vs)).all())


def _none(dtype: type = np.int64) -> Any:
    return np.empty(0, dtype=dtype)


@dataclass(slots=True)
class Buffer:
    """Held changes. With `timed`, each also falls due at a time that is given when it comes in; with
    `by_end`, at the end that it leads to."""

    schema: pl.Schema
    timed: bool
    by_end: bool = False
    keys: Keys = field(init=False)
    """numbers for (payload, vs)"""
    needed_from: int = BEGIN
    """changes that lead to an end before this time may be forgotten"""
    room: int = 0
    counts: Ints = field(default_factory=lambda: np.zeros(5, dtype=np.int64))
    # per change
    key: Ints = field(default_factory=_none)
    vs: Ints = field(default_factory=_none)
    old: Ints = field(default_factory=_none)
    new: Ints = field(default_factory=_none)
    due: Ints = field(default_factory=_none)
    live: Mask = field(default_factory=lambda: _none(np.bool_))
    known: Mask = field(default_factory=lambda: _none(np.bool_))
    """of an insert: whether its end is known not to change, whatever the cti says"""
    cell: Ints = field(default_factory=_none)
    above: Ints = field(default_factory=_none)
    below: Ints = field(default_factory=_none)
    # the table of ends
    cell_key: Ints = field(default_factory=_none)
    cell_end: Ints = field(default_factory=_none)
    cell_head: Ints = field(default_factory=_none)
    # the heaps
    sync_time: Ints = field(default_factory=_none)
    sync_slot: Ints = field(default_factory=_none)
    due_time: Ints = field(default_factory=_none)
    due_slot: Ints = field(default_factory=_none)
    fresh: list[Batch] = field(default_factory=list)
    marked: bool = False
    """whether ends have become known since somebody asked"""

    def __post_init__(self) -> None:
        self.keys = Keys(pl.Schema({**self.schema, "vs": pl.Int64()}))

    def __len__(self) -> int:
        return int(self.counts[buffer.LIVE]) + sum(rows.rows for rows in self.fresh)

    def hold(self, rows: Batch, due: Times | int = INF, only: Mask | None = None) -> Mask:
        """Hold rows back, or only some, and then also those that continue a held change; which ones."""
        if not rows.rows:
            return np.zeros(0, dtype=np.bool_)
        if not self.timed and only is None and rows.rows >= MANY_ROWS and _are_inserts(rows):
            self.fresh.append(rows)
            return np.ones(rows.rows, dtype=np.bool_)
        for waiting in self._take_fresh():
            self._absorb(waiting, INF, None)
        return self._absorb(rows, due, only)

    def _take_fresh(self) -> list[Batch]:
        fresh, self.fresh = self.fresh, []
        return fresh

    def _absorb(self, rows: Batch, due: Times | int, only: Mask | None) -> Mask:
        self._make_room(rows.rows)
        starts = column_of("vs", rows.vs)
        number = self.keys.number(framed([*rows.payload.get_columns(), starts], rows.rows))
        dues = np.full(rows.rows, due) if isinstance(due, int) else due
        hold = np.ones(rows.rows, dtype=np.bool_) if only is None else only
        held: Mask = kernel.absorb(
            # writable, for compiled kernels tell the two apart
            *(
                np.require(column, requirements=["C", "W"])
                for column in (number, rows.vs, rows.old_ve, rows.new_ve, dues, hold)
            ),
            self.counts,
            *self._changes(),
            self.cell,
            self.above,
            self.below,
            self.cell_key,
            self.cell_end,
            self.cell_head,
            self.sync_time,
            self.sync_slot,
            self.due_time,
            self.due_slot,
            self.by_end,
        )
        return held

    def held(self) -> tuple[Ints, Batch]:
        """All that is held, in order of arrival, and the slots that it is in."""
        for waiting in self._take_fresh():
            self._absorb(waiting, INF, None)
        slots = np.flatnonzero(self.live)
        return slots, Batch(self.vs[slots], self.old[slots], self.new[slots], self._payload(slots))

    def know(self, slots: Ints) -> None:
        """The ends of these inserts will not change any more."""
        self.known[slots] = True
        self.marked = self.marked or bool(len(slots))

    def release(self, slots: Ints) -> Batch:
        """Release these changes, in order of sync."""
        if not len(slots):
            return Batch.empty(self.schema)
        kernel.take_out(slots, self.counts, self.live, *self._links())
        sync = np.minimum(self.old[slots], self.new[slots])
        return self._rows(slots[np.lexsort((slots, sync))])

    def due_at(self, limit: int) -> Batch:
        """Release what was due at the limit or before it, in order of sync."""
        if not self.room:
            return Batch.empty(self.schema)
        slots = kernel.pop_due(
            limit, self.counts, self.live, *self._links(), self.due_time, self.due_slot
        )
        sync = np.minimum(self.old[slots], self.new[slots])
        return self._rows(slots[np.lexsort((slots, sync))])

    def before(self, cti: int) -> Batch:
        """Release everything with sync < cti (cti(INF): everything), in order of sync."""
        fresh = Batch.concat([Batch.empty(self.schema), *self._take_fresh()])
        released = Batch.empty(self.schema)
        if self.room:
            slots = kernel.pop_before(
                cti,
                self.counts,
                self.old,
                self.new,
                self.live,
                *self._links(),
                self.sync_time,
                self.sync_slot,
            )
            released = self._rows(slots)
        return self._with_fresh(released, fresh, (fresh.vs < cti) | (cti == INF))

    def frozen(self, cti: int) -> tuple[Batch, int]:
        """Release inserts in order of vs, up to the first that is not fully frozen; and its vs.

        One whose end is known otherwise counts as frozen if nothing can come that starts before it.
        """
        fresh = Batch.concat([Batch.empty(self.schema), *self._take_fresh()])
        waits = (fresh.new_ve >= cti) & (cti != INF)
        first = int(fresh.vs[waits].min()) if waits.any() else INF
        released = Batch.empty(self.schema)
        if self.room:
            slots, held = kernel.pop_frozen(
                cti,
                first,
                self.counts,
                self.new,
                self.live,
                self.known,
                *self._links(),
                self.sync_time,
                self.sync_slot,
            )
            released, first = self._rows(slots), min(first, int(held))
        return self._with_fresh(released, fresh, ~waits & (fresh.vs <= first)), first

    def ended(self, cti: int) -> tuple[Batch, int]:
        """Release all inserts that are fully frozen, or whose end is known; and the first vs held."""
        assert self.by_end, "they are found by their ends"
        fresh = Batch.concat([Batch.empty(self.schema), *self._take_fresh()])
        released, first = Batch.empty(self.schema), INF
        if self.room:
            if self.marked:
                known = np.flatnonzero(self.live & self.known)
                kernel.take_out(known, self.counts, self.live, *self._links())
            slots, first = kernel.pop_ended(
                cti,
                self.counts,
                self.new,
                self.live,
                *self._links(),
                self.sync_time,
                self.sync_slot,
                self.due_time,
                self.due_slot,
            )
            if self.marked:
                slots, self.marked = np.concatenate([known, slots]), False
            released = self._rows(slots[np.lexsort((slots, self.vs[slots]))])
        go = (fresh.new_ve < cti) | (cti == INF)
        waiting = fresh.vs[~go]
        first = min(int(first), int(waiting.min())) if len(waiting) else int(first)
        return self._with_fresh(released, fresh, go), first

    def _with_fresh(self, released: Batch, fresh: Batch, go: Mask) -> Batch:
        """Release some of the fresh rows as well, by their starts; the others are held."""
        if not fresh.rows:
            return released
        if not go.all():
            self._absorb(fresh.where(~go), INF, None)
            fresh = fresh.where(go)
        both = Batch.concat([released, fresh])
        return both.take(np.argsort(both.sync, kind="stable"))

    def forget_ends_before(self, time: int) -> None:
        """Changes that lead to an end before this time are not needed any more.

        They go when room is made, or all at once at INF.
        """
        assert not self.fresh, "these are not forgotten, but released"
        self.needed_from = time
        if time == INF and self.room:
            self.live[:] = False
            self._move_together(0)

    def _payload(self, slots: Ints) -> pl.DataFrame:
        keys = self.keys.take(self.key[slots])
        return framed([column for column in keys.get_columns() if column.name != "vs"], len(slots))

    def _rows(self, slots: Ints) -> Batch:
        rows = Batch(self.vs[slots], self.old[slots], self.new[slots], self._payload(slots))
        if not len(self) and self.room > LEAST_ROOM:
            self._move_together(0)
        return rows

    def _changes(self) -> tuple[Any, ...]:
        return self.key, self.vs, self.old, self.new, self.due, self.live

    def _links(self) -> tuple[Ints, ...]:
        return self.cell, self.above, self.below, self.cell_head

    def _needed(self) -> int:
        return max(len(self.keys), int(self.counts.max()))

    def _make_room(self, rows: int) -> None:
        if self._needed() + rows > self.room:
            self._move_together(rows)

    def _move_together(self, rows: int) -> None:
        """Only what is alive, with room for as much again and for this many rows more."""
        slots = np.flatnonzero(self.live & (self.new >= self.needed_from))
        used = len(slots)
        self.room = max(LEAST_ROOM, 2 * (used + rows))
        alive = np.zeros(len(self.keys), dtype=np.bool_)
        alive[self.key[slots]] = True
        numbers = self.keys.keep(alive)
        key, self.vs, self.old, self.new, self.due, self.live = (
            self._moved(column, slots) for column in self._changes()
        )
        self.known = self._moved(self.known, slots)
        key[:used] = numbers[key[:used]]
        self.key = key
        self.cell, self.above, self.below = (self._moved(_none(), slots[:0]) for _ in range(3))
        cells = 1 << (2 * self.room - 1).bit_length()
        self.cell_key, self.cell_end, self.cell_head = (
            np.full(cells, buffer.NONE, dtype=np.int64) for _ in range(3)
        )
        self.counts[:] = (used, 0, used, used, used)
        kernel.link_all(
            used,
            self.key,
            self.new,
            self.cell,
            self.above,
            self.below,
            self.cell_key,
            self.cell_end,
            self.cell_head,
            self.counts,
        )
        self.sync_time, self.sync_slot = self._heap(np.minimum(self.old, self.new)[:used])
        if self.timed or self.by_end:
            due = self.new if self.by_end else self.due
            self.due_time, self.due_slot = self._heap(due[:used])
        else:
            self.counts[buffer.BY_DUE] = 0

    def _moved(self, column: Any, slots: Ints) -> Any:
        moved = np.zeros(self.room, dtype=column.dtype)
        moved[: len(slots)] = column[slots]
        return moved

    def _heap(self, times: Times) -> tuple[Ints, Ints]:
        """A sorted array is a heap."""
        order = np.argsort(times, kind="stable")
        return self._moved(times, order), self._moved(np.arange(len(times)), order)
