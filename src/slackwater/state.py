"""State: arrangements of what an operator must remember, as plain arrays.

`Timelines` keeps, for every key, the sums that hold between one endpoint and the next;
kernels/timeline.py has the loops. Entries lie in slabs of a pool, so that a batch costs what it changes
and not what is remembered; slabs and pool grow by doubling. Differences beyond the horizon wait in
sorted runs, merged like the digits of a binary counter. Whatever a cti has frozen is forgotten when as
much again has come in.

Everything is NumPy arrays and small numbers: it can be written down and read back as it is.

Paper 1a section 3.2 (POS and ECQ).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from slackwater.kernels import timeline
from slackwater.times import BEGIN, INF

__all__ = ["Differences", "Said", "Timelines"]

kernel: Any = timeline
"""compiled functions: their many array arguments are passed by unpacking, which mypy cannot follow"""

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Differences(NamedTuple):
    """What is added to the sums of a key from a time on, and to the number of endpoints there."""

    key: Ints
    time: Ints
    refs: Ints
    ints: Ints
    floats: Floats

    @property
    def rows(self) -> int:
        """How many there are."""
        return len(self.key)

    def take(self, index: Ints | npt.NDArray[np.bool_] | slice) -> Differences:
        """Some of them."""
        return Differences._make(np.ascontiguousarray(column[index]) for column in self)

    def by_key(self) -> Differences:
        """Sorted by key and time, equal ones summed."""
        return self._combined(np.lexsort((self.time, self.key)))

    def by_time(self) -> Differences:
        """Sorted by time and key, equal ones summed."""
        return self._combined(np.lexsort((self.key, self.time)))

    def _combined(self, order: Ints) -> Differences:
        ordered = self.take(order)
        return ordered.take(slice(0, kernel.combine(*ordered)))

    @staticmethod
    def concat(parts: list[Differences]) -> Differences:
        """All of them."""
        if len(parts) == 1:
            return parts[0]
        return Differences._make(np.concatenate(columns) for columns in zip(*parts, strict=True))


class Said(NamedTuple):
    """Rows that an operator emits: which key, from when, and how the end moves; with their sums."""

    key: Ints
    vs: Ints
    old_ve: Ints
    new_ve: Ints
    ints: Ints
    floats: Floats


def _times(size: int) -> Ints:
    return np.zeros(size, dtype=np.int64)


@dataclass(slots=True)
class Timelines:
    """The timelines of all keys. `width` and `fwidth` are the numbers of integer and float sums.

    The first integer sum is the number of events; a float sum takes two columns.
    """

    width: int
    fwidth: int
    horizon: int = BEGIN
    # per key: where its slab starts, how many entries it has, how many fit
    start: Ints = field(default_factory=lambda: _times(0))
    size: Ints = field(default_factory=lambda: _times(0))
    room: Ints = field(default_factory=lambda: _times(0))
    # the pool of entries
    top: int = 0
    time: Ints = field(default_factory=lambda: _times(0))
    refs: Ints = field(default_factory=lambda: _times(0))
    shown: Ints = field(default_factory=lambda: _times(0))
    ints: Ints = field(init=False)
    floats: Floats = field(init=False)
    # differences beyond the horizon, each run sorted by time
    pending: list[Differences] = field(default_factory=list)
    cut: Ints = field(default_factory=lambda: _times(0))
    """keys that may have a row that was cut where no endpoint remains"""
    sweep_at: int = 1024

    def __post_init__(self) -> None:
        self.ints = np.zeros((0, self.width), dtype=np.int64)
        self.floats = np.zeros((0, self.fwidth), dtype=np.float64)

    def rows(self) -> int:
        """How many entries and pending differences are remembered."""
        return int(self.size.sum()) + sum(run.rows for run in self.pending)

    def absorb(
        self, new: Differences, keys: int, horizon: int, *, open_ended: bool
    ) -> tuple[Said, bool]:
        """Take in differences and move the horizon; what that changes, and whether a sum overflowed.

        `keys` is the number of keys there are now.
        """
        self._admit_keys(keys)
        later = new.time > horizon
        self.horizon = horizon
        if later.any():
            self._postpone(new.take(later).by_time())
            new = new.take(~later)
        changes = Differences.concat([new, *self._due()]).by_key()
        return self._apply(changes, open_ended)

    def _admit_keys(self, keys: int) -> None:
        if keys > len(self.start):
            more = _times(max(keys, 2 * len(self.start)) - len(self.start))
            self.start = np.concatenate([self.start, more])
            self.size = np.concatenate([self.size, more])
            self.room = np.concatenate([self.room, more])

    def _postpone(self, run: Differences) -> None:
        while self.pending and self.pending[-1].rows < 2 * run.rows:
            run = Differences.concat([self.pending.pop(), run]).by_time()
        if run.rows:
            self.pending.append(run)

    def _due(self) -> list[Differences]:
        """Pending differences that the horizon has reached."""
        due = []
        for i, run in enumerate(self.pending):
            reached = int(np.searchsorted(run.time, self.horizon, side="right"))
            if reached:
                due.append(run.take(slice(0, reached)))
                self.pending[i] = Differences._make(column[reached:] for column in run)
        self.pending = [run for run in self.pending if run.rows]
        return due

    def _apply(self, changes: Differences, open_ended: bool) -> tuple[Said, bool]:
        pool, output, scratch = kernel.room_needed(
            self.start, self.size, self.room, self.time, changes.key, changes.time
        )
        if pool:
            self._grow(self.top + pool)
            self.top = kernel.relocate(
                self.start, self.size, self.room, self.top, changes.key, *self._entries()
            )
        said = Said._make(
            (
                *(np.empty(output, dtype=np.int64) for _ in range(4)),
                np.empty((output, self.width), dtype=np.int64),
                np.empty((output, self.fwidth), dtype=np.float64),
            )
        )
        rows, overflow = kernel.apply(
            self.start,
            self.size,
            *self._entries(),
            *changes,
            *(np.empty(scratch, dtype=np.int64) for _ in range(3)),
            np.empty((scratch, self.width), dtype=np.int64),
            np.empty((scratch, self.fwidth), dtype=np.float64),
            open_ended,
            *said,
        )
        if not open_ended and self.horizon < INF:
            self._remember_cut(np.unique(changes.key))
        return Said._make(column[:rows] for column in said), overflow

    def _entries(self) -> tuple[Ints, Ints, Ints, Ints, Floats]:
        return self.time, self.refs, self.shown, self.ints, self.floats

    def _grow(self, needed: int) -> None:
        if needed <= len(self.time):
            return
        more = max(needed, 2 * len(self.time)) - len(self.time)
        self.time = np.concatenate([self.time, _times(more)])
        self.refs = np.concatenate([self.refs, _times(more)])
        self.shown = np.concatenate([self.shown, _times(more)])
        self.ints = np.concatenate([self.ints, np.zeros((more, self.width), dtype=np.int64)])
        self.floats = np.concatenate([self.floats, np.zeros((more, self.fwidth))])

    def _remember_cut(self, touched: Ints) -> None:
        last = self.start[touched] + self.size[touched] - 1
        last = np.maximum(last, 0)
        is_cut = (self.size[touched] > 0) & (self.shown[last] > self.time[last])
        if is_cut.any():
            self.cut = np.union1d(self.cut, touched[is_cut])

    def last_pending(self, until: int) -> int:
        """The last endpoint that is pending and not after `until`; BEGIN if there is none."""
        times = []
        for run in self.pending:
            reached = int(np.searchsorted(run.time, until, side="right"))
            if reached:
                times.append(int(run.time[reached - 1]))
        return max(times, default=BEGIN)

    def lengthen_cut(self, until: int) -> Said:
        """Rows that were cut where no endpoint remains, and would be frozen so: shown up to `until`."""
        keys = self.cut
        last = self.start[keys] + self.size[keys] - 1
        still = (self.size[keys] > 0) & (self.shown[last] > self.time[last]) & (self.ints[last, 0] > 0)
        keys, last = keys[still], last[still]
        self.cut = keys
        short = self.shown[last] < until
        keys, last = keys[short], last[short]
        said = Said(
            keys,
            self.time[last],
            self.shown[last],
            np.full(len(keys), until, dtype=np.int64),
            self.ints[last],
            self.floats[last],
        )
        self.shown[last] = until
        return said

    def open_since(self) -> int:
        """The earliest start of a row that is still open and of which nothing is shown; INF if none."""
        return int(kernel.open_since(self.start, self.size, self.time, self.shown, self.ints))

    def forget(self, cti: int) -> npt.NDArray[np.bool_] | None:
        """Drop what the cti has frozen, now and then; if so, which keys are still in use."""
        if cti < INF and self.rows() < self.sweep_at:
            return None
        if cti == INF:
            self.size[:] = 0
            self.pending.clear()
        else:
            kernel.purge(self.start, self.size, self.room, self.time, self.ints, cti)
        alive = self.size > 0
        for run in self.pending:
            alive[run.key] = True
        self.sweep_at = max(1024, 2 * self.rows())
        return alive

    def renumber(self, alive: npt.NDArray[np.bool_], numbers: Ints) -> None:
        """Keys have new numbers: compact the slabs of those that are left."""
        keep = np.flatnonzero(alive)
        sizes = self.size[keep]
        offsets = np.cumsum(sizes) - sizes
        index = np.repeat(self.start[keep] - offsets, sizes) + np.arange(int(sizes.sum()))
        self.time, self.refs, self.shown = self.time[index], self.refs[index], self.shown[index]
        self.ints, self.floats = self.ints[index], self.floats[index]
        self.start, self.size, self.room = offsets, sizes, sizes.copy()
        self.top = len(index)
        self.pending = [run._replace(key=numbers[run.key]) for run in self.pending]
        self.cut = numbers[self.cut[alive[self.cut]]]
