"""Records: the events of all keys at their endpoints, for results that are not sums.

kernels/records.py has the loops. Records follow the timelines: every entry that a batch touches is read
once, after the moves that lead there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from slackwater.kernels import endpoints
from slackwater.kernels import records as kernels
from slackwater.kernels.arrays import Spares
from slackwater.timelines import Timelines, Touched

__all__ = ["Records", "rows_of"]

kernel: Any = kernels
endpoint_kernel: Any = endpoints
"""compiled functions, which mypy cannot follow"""

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(slots=True)
class Records:
    """Who comes and goes at each endpoint up to the horizon, and where the cursor of each key stands."""

    labels: int
    slabs: Ints = field(default_factory=lambda: np.zeros((0, endpoints.SLAB), dtype=np.int64))
    top: int = 0
    free: Ints = field(default_factory=lambda: np.full(64, -1, dtype=np.int64))
    size: int = 0
    pool: Ints = field(init=False)
    spares: Spares = field(default_factory=Spares)

    def __post_init__(self) -> None:
        self.pool = np.zeros((0, 2 + self.labels), dtype=np.int64)

    def admit(self, keys: int) -> None:
        """There are so many keys now, at least."""
        if keys > len(self.slabs):
            self.slabs = self.spares.enlarged(self.slabs, keys, len(self.slabs), fill=0)

    def cursors(self, keys: Ints) -> Ints:
        """Where those of these keys stand."""
        found: Ints = self.slabs[keys, kernels.CURSOR]
        return found

    def follow(self, timelines: Timelines, what: Touched) -> Ints:
        """Take in what has touched the timelines; the script of moves and reads through it."""
        self.admit(len(timelines.slabs))
        keys = np.ascontiguousarray(what.touched[:, endpoints.T_KEY])
        changes = what.changes
        pool, moves, old = kernel.script_room(
            self.slabs, self.pool, keys, what.first, changes, what.touched
        )
        if pool:
            self._grow(self.top + pool)
            tables = self.slabs, self.top, self.free, keys, what.first, self.pool
            self.top, gone = endpoint_kernel.make_room(*tables, timelines.frozen, True)
            self.size -= gone
        script = np.empty((moves, self.pool.shape[1]), dtype=np.int64)
        scratch = np.empty((old, self.pool.shape[1]), dtype=np.int64)
        length, grown = kernel.follow(
            self.slabs,
            self.pool,
            what.first,
            changes,
            self.labels,
            what.touched,
            timelines.entries,
            scratch,
            script,
        )
        self.size += grown
        found: Ints = script[:length]
        return found

    def _grow(self, needed: int) -> None:
        if needed > len(self.pool):
            self.pool = self.spares.enlarged(self.pool, max(needed, 2 * len(self.pool)), self.top)

    def forget(self, cti: int) -> Ints:
        """Drop what is before the cti; the script that leads past it."""
        # memory that is not written to costs nothing
        script = np.empty((self.size, self.pool.shape[1]), dtype=np.int64)
        length, self.size = kernel.forget(self.slabs, self.pool, self.labels, cti, script)
        found: Ints = script[:length]
        return found

    def close(self, keys: Ints, until: Ints) -> Ints:
        """Drop what is frozen of some keys, all of one that is closed for ever; the script past it."""
        script = np.empty(
            (int(self.slabs[keys, endpoints.SIZE].sum()), self.pool.shape[1]), dtype=np.int64
        )
        tables = self.slabs, self.pool, self.free, self.labels
        length, gone = kernel.close(*tables, keys, until, script)
        self.size -= gone
        found: Ints = script[:length]
        return found

    def renumber(self, alive: Mask) -> None:
        """Keys have new numbers: compact the slabs of those that are left."""
        keep = np.flatnonzero(alive)
        room = 4 * int(self.slabs[keep, endpoints.SIZE].sum())
        room = max(room, min(len(self.pool), 4 * room))
        keys = max(len(keep), min(len(self.slabs), 4 * len(keep)))
        slabs = self.spares.filled(0, keys, endpoints.SLAB)
        pool = self.spares.empty(room, self.pool.shape[1])
        self.top = endpoint_kernel.compact(self.slabs, keep, self.pool, slabs, pool)
        self.spares.give_back(self.slabs)
        self.spares.give_back(self.pool)
        self.slabs, self.pool = slabs, pool
        self.free[:] = -1
        self.size = int(slabs[:, endpoints.SIZE].sum())

    def in_use(self) -> Ints:
        """The rows of the pool that hold records."""
        return rows_of(self.slabs)


def rows_of(slabs: Ints) -> Ints:
    """The rows of a pool that lie in slabs."""
    size = slabs[:, endpoints.SIZE]
    offset = np.arange(int(size.sum())) - np.repeat(np.cumsum(size) - size, size)
    rows: Ints = np.repeat(slabs[:, endpoints.START], size) + offset
    return rows
