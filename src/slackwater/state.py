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

from slackwater.events import Batch
from slackwater.kernels import runs, timeline
from slackwater.times import BEGIN, INF

__all__ = ["Differences", "Said", "Timelines", "sweep_after"]

kernel: Any = timeline
run_kernel: Any = runs
"""compiled functions: their many array arguments are passed by unpacking, which mypy cannot follow"""

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

SWEEP_FROM = 1024
SWEEP_FACTOR = 2
"""what is frozen is looked for when this many rows, and so many times those of last time, are kept"""


def sweep_after(rows: int) -> int:
    """How many rows must be kept until what is frozen is looked for again, now that so many are."""
    return max(SWEEP_FROM, SWEEP_FACTOR * rows)


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
        return self._combined(_order(self.key, _compact(self.time)))

    def by_time(self) -> Differences:
        """Sorted by time and key, equal ones summed."""
        return self._combined(_order(_compact(self.time), self.key))

    def _combined(self, order: Ints) -> Differences:
        ordered = self.take(order)
        return ordered.take(slice(0, kernel.combine(*ordered)))

    @staticmethod
    def of(rows: Batch, key: Ints, ints: Ints, floats: Floats) -> Differences:
        """Each row takes its event's weights away at its old end, and adds them up to its new one."""
        moved = rows.old_ve != rows.new_ve
        before = moved & (rows.old_ve > rows.vs)
        after = moved & (rows.new_ve > rows.vs)
        parts = []
        for mask, time, refs, sign in (
            (after & ~before, rows.vs, 1, 1),
            (before & ~after, rows.vs, -1, -1),
            (before, rows.old_ve, -1, 1),
            (after, rows.new_ve, 1, -1),
        ):
            count = np.full(int(np.count_nonzero(mask)), refs, dtype=np.int64)
            parts.append(
                Differences(key[mask], time[mask], count, sign * ints[mask], sign * floats[mask])
            )
        return Differences.concat(parts)

    @staticmethod
    def concat(parts: list[Differences]) -> Differences:
        """All of them."""
        if len(parts) == 1:
            return parts[0]
        return Differences._make(np.concatenate(columns) for columns in zip(*parts, strict=True))


def _compact(time: Ints) -> Ints:
    """Times in the same order, from 0, with INF right behind the last finite one."""
    if not len(time):
        return time
    finite = time[time != INF]
    first, last = (int(finite.min()), int(finite.max())) if len(finite) else (0, 0)
    if last - first >= 2**62:
        return time
    return np.where(time == INF, last + 1, time) - first


def _order(first: Ints, second: Ints) -> Ints:
    """The order by two columns; sorted as one number where both fit into it."""
    if len(first) and first.min() >= 0 and second.min() >= 0:
        width = int(second.max()) + 1
        if (int(first.max()) + 1) * width < 2**63:
            return np.argsort(first * width + second)
    return np.lexsort((second, first))


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
    sweep_at: int = field(default_factory=lambda: SWEEP_FROM)

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

    def absorb_runs(self, new: Differences, keys: int, rule: int) -> tuple[Ints, Ints, Ints, Ints]:
        """Take in differences; how that changes the runs: key, start, old end, new end."""
        self._admit_keys(keys)
        changes = new.by_key()
        output, scratch = self._make_room(changes)
        rows: tuple[Ints, Ints, Ints, Ints] = run_kernel.apply(
            rule, self.start, self.size, *self._entries(), *changes, *self._scratch(scratch), output
        )
        return rows

    def _make_room(self, changes: Differences) -> tuple[int, int]:
        """Room in the pool for the changes; how much output and scratch they need at most."""
        pool, output, scratch = kernel.room_needed(
            self.start, self.size, self.room, self.time, changes.key, changes.time
        )
        if pool:
            self._grow(self.top + pool)
            self.top = kernel.relocate(
                self.start, self.size, self.room, self.top, changes.key, *self._entries()
            )
        return output, scratch

    def _scratch(self, rows: int) -> tuple[Ints | Floats, ...]:
        return (
            *(np.empty(rows, dtype=np.int64) for _ in range(3)),
            np.empty((rows, self.width), dtype=np.int64),
            np.empty((rows, self.fwidth), dtype=np.float64),
        )

    def _apply(self, changes: Differences, open_ended: bool) -> tuple[Said, bool]:
        output, scratch = self._make_room(changes)
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
            *self._scratch(scratch),
            open_ended,
            *said,
        )
        if not open_ended and self.horizon < INF:
            is_first = np.ones(changes.rows, dtype=np.bool_)
            is_first[1:] = changes.key[1:] != changes.key[:-1]
            self._remember_cut(changes.key[is_first])
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

    def forget(self, cti: int, rule: int | None = None) -> npt.NDArray[np.bool_] | None:
        """Drop what the cti has frozen, now and then; if so, which keys are still in use.

        With a rule, the timelines are those of runs, whose starts are kept.
        """
        if cti < INF and self.rows() < self.sweep_at:
            return None
        if cti == INF:
            self.size[:] = 0
            self.pending.clear()
        else:
            self._purge(cti, rule)
        alive = self.size > 0
        for run in self.pending:
            alive[run.key] = True
        self.sweep_at = max(SWEEP_FROM, SWEEP_FACTOR * self.rows())
        return alive

    def _purge(self, cti: int, rule: int | None) -> None:
        if rule is None:
            kernel.purge(self.start, self.size, self.room, self.time, self.ints, cti)
        else:
            slabs = (self.start, self.size, self.room)
            run_kernel.purge(rule, *slabs, self.time, self.refs, self.ints, cti)

    def renumber(self, alive: npt.NDArray[np.bool_], numbers: Ints) -> None:
        """Keys have new numbers: compact the slabs of those that are left."""
        keep = np.flatnonzero(alive)
        size = self.size[keep]
        room = 2 * size
        start = np.cumsum(room) - room
        # where each entry is, and where it goes
        offset = np.arange(int(size.sum())) - np.repeat(np.cumsum(size) - size, size)
        source, target = np.repeat(self.start[keep], size) + offset, np.repeat(start, size) + offset
        old = self._entries()
        self.top = int(room.sum())
        self.time, self.refs, self.shown, self.ints, self.floats = (
            np.zeros((2 * self.top, *column.shape[1:]), dtype=column.dtype) for column in old
        )
        for column, before in zip(self._entries(), old, strict=True):
            column[target] = before[source]
        self.start, self.size, self.room = start, size, room
        self.pending = [run._replace(key=numbers[run.key]) for run in self.pending]
        self.cut = numbers[self.cut[alive[self.cut]]]
