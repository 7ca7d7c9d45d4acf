"""Events that are shown, adjusts that wait for one of them, and events that were given up.

`Links` takes rows in any order and says what becomes of each: it passes, perhaps with the end to which
waiting adjusts lead on; it waits; or it is given up. Equal events are interchangeable: an adjust is
matched with any of them.

Invariant: what came in, as a sum of differences, is what passed plus what waits plus what was given up;
and what passed is valid in its order.

A batch costs what it brings. Rows that have gone leave their room behind; when there is none left, what
is needed is moved together, which costs as much as what came in since.

kernels/links.py has the loops, and says why nothing waits for ever.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from slackwater.events import Batch
from slackwater.kernels import links
from slackwater.kernels.grouping import Keys
from slackwater.times import BEGIN, INF, Times

__all__ = ["Dropped", "Links", "Taken"]

kernel: Any = links
"""compiled functions: their many array arguments are passed by unpacking, which mypy cannot follow"""

Ints = npt.NDArray[np.int64]

LEAST_ROOM = 256
"""tests make this small, so that room is made often"""


class Dropped(NamedTuple):
    """Rows that had been waiting, and for each why it does so no longer (a fate, see the kernel)."""

    rows: Batch
    why: Ints


class Taken(NamedTuple):
    """What became of the rows of a batch: a fate for each, and the end of those that pass."""

    fates: Ints
    ends: Times
    dropped: Dropped | None


def _table(rows: int, columns: int) -> Ints:
    return np.full((rows, columns), links.NONE, dtype=np.int64)


@dataclass(slots=True)
class Links:
    """What is shown and may still be adjusted, what waits, and what was given up."""

    schema: pl.Schema
    keys: Keys = field(init=False)
    """numbers for payloads"""
    needed_from: int = BEGIN
    """events that end before this time may be forgotten"""
    room: int = 0
    counts: Ints = field(default_factory=lambda: np.zeros(links.COUNTS, dtype=np.int64))
    edges: Ints = field(default_factory=lambda: _table(0, links.EDGE))
    # the table of ends
    cells: Ints = field(default_factory=lambda: _table(1, links.CELL))
    # the heaps of first and of last edges
    heap_time: Ints = field(default_factory=lambda: _table(2, 0))
    heap_slot: Ints = field(default_factory=lambda: _table(2, 0))

    def __post_init__(self) -> None:
        self.keys = Keys(self.schema)

    def __len__(self) -> int:
        return int(self.counts[[links.EVENTS, links.WAITING, links.GONE]].sum())

    def take(self, rows: Batch, limits: Times, forgotten_before: int) -> Taken:
        """Take in rows, each with the limit behind which it is late. Limits do not decrease."""
        self._make_room(rows.rows)
        number = self.keys.number(rows.payload)
        dropped = self._for_dropped(rows.rows)
        fates, ends = kernel.take_in(
            # writable, for compiled kernels tell the two apart
            *(
                np.require(column, requirements=["C", "W"])
                for column in (number, rows.vs, rows.old_ve, rows.new_ve, limits)
            ),
            forgotten_before,
            *self._tables(),
            dropped,
        )
        return Taken(fates, ends, self._dropped(dropped))

    def forget(self, limit: int) -> Dropped | None:
        """Give up what would change the history before the limit."""
        return self._expire(limit, limit, links.FORGOTTEN)

    def give_up_unlinked(self, complete: int) -> Dropped | None:
        """Give up what waits for an event that ends before `complete` (INF: all that waits).

        What could bring about such an event would have a sync before it, too.
        """
        return self._expire(complete, BEGIN, links.UNLINKED)

    def _expire(self, begin: int, end: int, why: int) -> Dropped | None:
        if not self.counts[links.WAITING]:
            return None
        dropped = self._for_dropped(0)
        kernel.expire(begin, end, why, *self._tables(), dropped)
        return self._dropped(dropped)

    @property
    def earliest(self) -> int:
        """The earliest end to which something leads that waits; INF if nothing does."""
        return int(kernel.first_end(self.edges, self.heap_time, self.heap_slot, self.counts))

    def forget_ends_before(self, time: int) -> None:
        """Events that end before this time will not be adjusted any more.

        They go when room is made, or all at once at INF.
        """
        self.needed_from = time
        if time == INF and self.room:
            assert not self.counts[links.WAITING], "what waits was given up"
            self._move_together(0)

    def shown(self) -> Batch:
        """The events that are shown and may still be adjusted."""
        held = self._held_cells() & (self.cells[:, links.SHOWN] > 0)
        cells = np.repeat(self.cells[held], self.cells[held, links.SHOWN], axis=0)
        vs, ve = cells[:, links.CELL_VS], cells[:, links.CELL_END]
        return Batch(vs, vs, ve, self.keys.take(cells[:, links.CELL_KEY]))

    def waiting(self) -> Batch:
        """What waits, one row for each path."""
        edges = self.edges[: self.counts[links.SLOTS]]
        first = edges[(edges[:, links.LIVE] == 1) & (edges[:, links.BEFORE] == links.NONE)]
        last = edges[first[:, links.OTHER]]
        payload = self.keys.take(first[:, links.KEY])
        return Batch(first[:, links.VS], first[:, links.OLD], last[:, links.NEW], payload)

    def _tables(self) -> tuple[Ints, ...]:
        return (
            self.edges,
            self.cells,
            self.heap_time,
            self.heap_slot,
            self.counts,
        )

    def _for_dropped(self, rows: int) -> Ints:
        self.counts[links.DROPPED] = 0
        return _table(int(self.counts[links.WAITING]) + rows, 2)

    def _dropped(self, dropped: Ints) -> Dropped | None:
        if not self.counts[links.DROPPED]:
            return None
        dropped = dropped[: self.counts[links.DROPPED]]
        edges = self.edges[dropped[:, 0]]
        payload = self.keys.take(edges[:, links.KEY])
        rows = Batch(edges[:, links.VS], edges[:, links.OLD], edges[:, links.NEW], payload)
        return Dropped(rows, dropped[:, 1])

    def _held_cells(self) -> npt.NDArray[np.bool_]:
        used = self.cells[:, links.CELL_KEY] != links.NONE
        needed = used & (self.cells[:, links.CELL_END] >= self.needed_from)
        counted = (self.cells[:, links.SHOWN] > 0) | (self.cells[:, links.LOST] > 0)
        held: npt.NDArray[np.bool_] = needed & counted
        # after the last promise even events without end are done with
        return held & (self.needed_from < INF)

    def _make_room(self, rows: int) -> None:
        used = self._used(int(self.counts[links.SLOTS]), int(self.counts[links.CELLS]))
        if used + rows > self.room:
            self._move_together(rows)

    def _used(self, slots: int, cells: int) -> int:
        """For how many rows there is no room any more: a row claims one slot and two cells at most."""
        return max(len(self.keys), slots, (cells + 1) // 2)

    def _move_together(self, rows: int) -> None:
        """Only what is needed, with room for as much again and for this many rows more."""
        slots = np.flatnonzero(self.edges[: self.counts[links.SLOTS], links.LIVE] == 1)
        held = self.cells[self._held_cells()]
        edges = self.edges[slots]
        alive = np.zeros(len(self.keys), dtype=np.bool_)
        alive[held[:, links.CELL_KEY]] = alive[edges[:, links.KEY]] = True
        numbers = self.keys.keep(alive)
        held[:, links.CELL_KEY] = numbers[held[:, links.CELL_KEY]]
        edges[:, links.KEY] = numbers[edges[:, links.KEY]]
        # one place more, for NONE
        moved = np.full(len(self.edges) + 1, links.NONE, dtype=np.int64)
        moved[slots] = np.arange(len(slots))
        for column in (links.BEFORE, links.AFTER, links.OTHER):
            edges[:, column] = moved[edges[:, column]]

        self.room = max(LEAST_ROOM, 2 * (self._used(len(slots), len(held)) + rows))
        self.edges = _table(self.room, links.EDGE)
        self.edges[: len(slots)] = edges
        self.cells = _table(1 << (4 * self.room - 1).bit_length(), links.CELL)
        # a path that loses its last edges gets another last one
        self.heap_time, self.heap_slot = (_table(2, 2 * self.room) for _ in range(2))
        self.counts[:] = 0
        self.counts[links.SLOTS] = self.counts[links.WAITING] = len(slots)
        self.counts[links.EVENTS] = held[:, links.SHOWN].sum()
        self.counts[links.GONE] = held[:, links.LOST].sum()
        kernel.relink(len(slots), held, *self._tables())
