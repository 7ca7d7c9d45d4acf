"""Timelines: the endpoints of all keys, as an arrangement that operators share.

kernels/endpoints.py has the loops and says what the tables hold. Entries lie in slabs of a pool, so that
a batch costs what it changes and not what is remembered; slabs and pool grow by doubling. Changes beyond
the horizon wait in a calendar, where those that take others back stay until there are many. Whatever a
cti has frozen is forgotten when as much again has come in.

Everything is NumPy arrays and small numbers: it can be written down and read back as it is.

Paper 1a section 3.2 (POS and ECQ).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from slackwater import state
from slackwater.events import Batch
from slackwater.kernels import endpoints
from slackwater.kernels.arrays import Spares
from slackwater.kernels.calendar import Calendar
from slackwater.times import BEGIN, INF

__all__ = ["Said", "Timelines", "Touched", "Weights"]

kernel: Any = endpoints
"""compiled functions, which mypy cannot follow"""

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_LOOSE = 16
"""so many rows of the pool for each entry and key are too many"""
_SPARSE = 2
"""... and so many keys for each that is in use"""
_MANY = 4
"""... and one change that takes another back for so many that are pending"""
_LEAST_TAKING = 1024
_LOOKS = 4
"""for each change that came in, so many that are pending may be looked at"""
_MANY_ROWS = 1024
"""in a batch of so many, changes of the same key and time are looked for at once"""
_SEEN = 1 << 15
"""... among so many that came lately"""
_NO_ROWS = np.empty(0, dtype=np.int64)


class Weights(NamedTuple):
    """What each row of a batch carries: the number of its key, labels, and what it adds to the sums."""

    key: Ints
    labels: Ints
    added: Ints


class Touched(NamedTuple):
    """What a batch has changed in the entries, and what was there before."""

    touched: Ints
    scratch: Ints
    changes: Ints
    first: Ints
    """where the changes of each touched key start"""
    room: int
    """how many rows can follow, at most"""


class Said(NamedTuple):
    """Rows that an operator emits: which key, from when, and how the end moves; with their sums."""

    key: Ints
    vs: Ints
    old_ve: Ints
    new_ve: Ints
    sums: Ints
    results: Ints


@dataclass(slots=True)
class Timelines:
    """The timelines of all keys.

    `width` is the number of sums, and the first of them is the number of events; there may be more later
    (`widen`). `labels` are numbers that changes carry and that are not summed, `results` are columns of
    an entry that somebody else computes.
    """

    width: int
    labels: int = 0
    results: int = 0
    horizon: int = BEGIN
    endless: bool = False
    """all endpoints are shown, and an end at INF is none: what is open behind the last does not end"""
    slabs: Ints = field(default_factory=lambda: np.zeros((0, endpoints.SLAB), dtype=np.int64))
    # the pool of entries
    top: int = 0
    free: Ints = field(default_factory=lambda: np.full(64, -1, dtype=np.int64))
    size: int = 0
    entries: Ints = field(init=False)
    pending: Calendar = field(init=False)
    cut: Ints = field(default_factory=lambda: _NO_ROWS)
    """keys that may have a row that was cut where no endpoint remains; some twice"""
    changes_since: int = 0
    """how many came since all that is pending was looked through"""
    waiting: Ints = field(default_factory=lambda: np.zeros((0, 2), dtype=np.int64))
    waiting_size: int = 0
    """(start, key) of rows that are open and of which nothing is shown; see kernels.note_open"""
    bounds: Ints = field(default_factory=lambda: _NO_ROWS)
    frozen: int = BEGIN
    """entries whose row ended before this cti may go at any time"""
    sweep_at: int = field(default_factory=lambda: state.SWEEP_FROM)
    _head: Ints = field(default_factory=lambda: _NO_ROWS)
    spares: Spares = field(default_factory=Spares)

    def __post_init__(self) -> None:
        self.entries = np.zeros((0, endpoints.SUMS + self.width + self.results), dtype=np.int64)
        self.pending = Calendar(endpoints.LABELS + self.labels + self.width)

    def rows(self) -> int:
        """How many entries and pending changes are remembered."""
        return self.size + len(self.pending)

    def no_weights(self) -> Weights:
        """Those of no rows."""
        labels = np.empty((0, self.labels), np.int64)
        return Weights(_NO_ROWS, labels, np.empty((0, self.width), np.int64))

    def widen(self, width: int) -> None:
        """There are so many sums now; those that are new have been zero so far."""
        more = width - self.width
        behind = endpoints.SUMS + self.width
        entries = self.spares.empty(len(self.entries), self.entries.shape[1] + more)
        used, wider = self.entries[: self.top], entries[: self.top]
        wider[:, :behind] = used[:, :behind]
        wider[:, behind : behind + more] = 0
        wider[:, behind + more :] = used[:, behind:]
        self.spares.give_back(self.entries)
        self.entries, self.width = entries, width
        self.pending.widen(more)

    # taking in changes

    def touch(self, rows: Batch | None, weights: Weights, keys: int, horizon: int) -> Touched:
        """Take in rows and move the horizon: which entries that changes.

        `keys` is the number of keys there are now.
        """
        self.admit(keys)
        self.horizon = horizon
        return self._merged(self._near(rows, weights))

    def _merged(self, near: Ints) -> Touched:
        """Take in changes: which entries that changes."""
        changes, keys_touched, first = self._by_key(near)
        pool, room, old = kernel.room_needed(self.slabs, self.entries, keys_touched, first, changes)
        if pool:
            self._grow(self.top + pool)
            tables = self.slabs, self.top, self.free, keys_touched, first, self.entries
            self.top, gone = kernel.make_room(*tables, self.frozen, False)
            self.size -= gone
        scratch = np.empty((old, self.entries.shape[1]), dtype=np.int64)
        touched = np.empty((len(keys_touched), 5), dtype=np.int64)
        self.size += kernel.merge(
            self.slabs,
            self.entries,
            keys_touched,
            first,
            changes,
            self.labels,
            scratch,
            touched,
            # else as many may have come as are gone, and not the same ones
            self.labels == 0 or self.horizon == INF,
        )
        return Touched(touched, scratch, changes, first, room)

    def admit(self, keys: int) -> None:
        """There are so many keys now, at least."""
        if keys > len(self.slabs):
            known = len(self.slabs)
            self.slabs = self.spares.enlarged(self.slabs, max(keys, 2 * known), known, fill=0)
            self._renew_head()

    def _renew_head(self) -> None:
        self.spares.give_back(self._head)
        self._head = self.spares.filled(-1, len(self.slabs))

    def _near(self, rows: Batch | None, weights: Weights) -> Ints:
        """The changes that the horizon has reached; others are put aside."""
        due = self.pending.take(self.horizon)
        most = 0 if rows is None else 2 * rows.rows
        near = self._run(most + len(due))
        n = 0
        if rows is not None and rows.rows:
            far = self._run(most)
            times = rows.vs, rows.old_ve, rows.new_ve
            key, labels, added = weights
            many = rows.rows >= _MANY_ROWS and not self.labels
            seen = np.full(_SEEN if many else 0, -1)
            limits = self.horizon, self.endless
            n, f = kernel.spread(key, *times, labels, added, *limits, near, far, seen)
            self.changes_since += n + f
            if f:
                self._postpone(far[:f])
        near[n : n + len(due)] = due
        return near[: n + len(due)]

    def _run(self, rows: int) -> Ints:
        """Room for changes."""
        return np.empty((rows, self.pending.width), dtype=np.int64)

    def _postpone(self, far: Ints) -> None:
        pending = self.pending
        taking = far[:, endpoints.CHANGE_REFS] < 0
        if taking.any():
            # a row may be shown up to an endpoint that is gone now
            self._remember_cut(far[taking, endpoints.KEY])
        pending.put(far)
        if pending.taking > max(_LEAST_TAKING, len(pending) // _MANY):
            every = pending.pool[pending.used()]
            pending.clear()
            pending.put(self._by_key(every)[0])

    def _by_key(self, near: Ints) -> tuple[Ints, Ints, Ints]:
        count = len(near)
        out, together = self._run(count), self._run(count)
        keys, first = np.empty(count, dtype=np.int64), np.empty(count + 1, dtype=np.int64)
        touched, left = kernel.by_key(near, count, self.labels, self._head, out, together, keys, first)
        return out[:left], keys[:touched], first[: touched + 1]

    def _grow(self, needed: int) -> None:
        if needed <= len(self.entries):
            return
        self.entries = self.spares.enlarged(self.entries, max(needed, 2 * len(self.entries)), self.top)

    def say(self, what: Touched, *, open_ended: bool, shows_size: bool) -> Said:
        """What the touched entries change in the rows that are shown.

        `shows_size`: whether a row is another one if the number of events is.
        """
        out = np.empty((what.room, 1 + self.entries.shape[1]), dtype=np.int64)
        is_cut = np.empty(len(what.touched), dtype=np.bool_)
        since = np.empty(len(what.touched), dtype=np.int64)
        rows = kernel.emit(
            self.slabs,
            self.entries,
            what.scratch,
            what.touched,
            open_ended,
            shows_size,
            out,
            is_cut,
            since,
        )
        if not open_ended:
            self.note(what, is_cut, since)
        return self._said(out[:rows])

    def note(self, what: Touched, is_cut: Mask, since: Ints) -> None:
        """What was said of the last row of each touched key: see `lengthen_cut` and `open_since`."""
        # at the end of time, too, what was noted before may no longer hold
        if self.horizon < INF or self.waiting_size:
            keys = np.ascontiguousarray(what.touched[:, endpoints.T_KEY])
            if is_cut.any():
                self._remember_cut(keys[is_cut])
            self._remember_open(keys, since)

    def _said(self, out: Ints) -> Said:
        key, vs, old_ve, new_ve = (np.ascontiguousarray(out[:, a]) for a in range(4))
        sums, results = out[:, 4 : 4 + self.width], out[:, 4 + self.width :]
        return Said(key, vs, old_ve, new_ve, sums, results)

    def _remember_cut(self, keys: Ints) -> None:
        self.cut = np.concatenate([self.cut, keys])
        if len(self.cut) > 2 * len(self.slabs):
            self.cut = np.unique(self.cut)

    def _remember_open(self, keys: Ints, since: Ints) -> None:
        if self.waiting_size + len(keys) > len(self.waiting):
            notes = self.waiting, self.waiting_size, self.bounds
            self.waiting_size = kernel.pack_notes(*notes, self.slabs)
            self._reserve_notes(2 * self.waiting_size + len(keys))
        notes = self.waiting, self.waiting_size, self.bounds
        self.waiting_size = kernel.note_open(*notes, self.slabs, keys, since)

    def _reserve_notes(self, notes: int) -> None:
        if notes > len(self.waiting):
            chunks = 2 * notes // endpoints.CHUNK + 1
            rows = chunks * endpoints.CHUNK
            self.waiting = self.spares.enlarged(self.waiting, rows, self.waiting_size)
            self.bounds = np.concatenate(
                [self.bounds, np.empty(chunks - len(self.bounds), dtype=np.int64)]
            )

    # promises

    def reach(self, cti: int) -> Touched:
        """Take in the endpoints that a cti has passed; the horizon goes to the last of them."""
        horizon = self.horizon
        touched = self.touch(None, self.no_weights(), len(self.slabs), cti)
        times = touched.changes[:, endpoints.TIME]
        self.horizon = max(horizon, int(times.max())) if len(times) else horizon
        return touched

    def lengthen_cut(self, until: int) -> Said:
        """Rows that were cut where no endpoint remains, and that a cti would freeze so.

        They are shown up to their next endpoint, and need no further look unless that goes. To find it,
        all that is pending is looked through; where that would be more than has come in since last time,
        they are shown as far as the cti asks for, and looked at again.
        """
        self.cut = keys = self._still_cut(np.unique(self.cut))
        last = self._last(keys)
        short = self.entries[last, endpoints.SHOWN] < until
        keys, last = keys[short], last[short]
        if len(keys) and len(self.pending) <= _LOOKS * self.changes_since:
            ends = self._next_pending(keys)
            self.cut = self.cut[~short]
            self.changes_since = 0
        else:
            ends = np.full(len(keys), until)
        return self._lengthened(keys, last, ends)

    def _still_cut(self, keys: Ints) -> Ints:
        """Those of which a part of the last row is shown, while it is open."""
        keys = keys[self.slabs[keys, endpoints.SIZE] > 0]
        last = self._last(keys)
        shown, time = self.entries[last, endpoints.SHOWN], self.entries[last, endpoints.TIME]
        still: Ints = keys[(shown > time) & (self.entries[last, endpoints.SUMS] > 0)]
        return still

    def _lengthened(self, keys: Ints, last: Ints, ends: Ints) -> Said:
        entry = self.entries[last]
        out = np.empty((len(keys), 1 + self.entries.shape[1]), dtype=np.int64)
        out[:, 0], out[:, 1] = keys, entry[:, endpoints.TIME]
        out[:, 2], out[:, 3] = entry[:, endpoints.SHOWN], ends
        out[:, 4:] = entry[:, endpoints.SUMS :]
        self.entries[last, endpoints.SHOWN] = ends
        return self._said(out)

    def _next_pending(self, keys: Ints) -> Ints:
        """The first pending endpoint of each of these keys, which are sorted and have one."""
        if not len(keys):
            return _NO_ROWS
        wanted = np.zeros(len(self.slabs), dtype=np.bool_)
        wanted[keys] = True
        rows = self.pending.pool[self.pending.used()]
        rows = rows[wanted[rows[:, endpoints.KEY]]]
        key, time = rows[:, endpoints.KEY], rows[:, endpoints.TIME]
        order = np.lexsort((time, key))
        key, time = key[order], time[order]
        starts = np.flatnonzero(np.diff(key, prepend=-1) | np.diff(time, prepend=time[0]))
        # one change may take another back
        refs = np.add.reduceat(rows[order, endpoints.CHANGE_REFS], starts)
        key, time = key[starts][refs > 0], time[starts][refs > 0]
        return time[np.searchsorted(key, keys)]

    def _last(self, keys: Ints) -> Ints:
        last: Ints = self.slabs[keys, endpoints.START] + self.slabs[keys, endpoints.SIZE] - 1
        return last

    # promises about keys

    def reach_of(self, keys: Ints, until: Ints) -> Touched:
        """Take in the pending endpoints of some keys, before a time of its own for each; at INF all.

        They are final, so the horizon may come to them later. All that is pending is looked through.
        """
        limit = np.full(len(self.slabs), BEGIN)
        limit[keys] = until
        pending = self.pending
        places = pending.used()
        rows = pending.pool[places]
        most = limit[rows[:, endpoints.KEY]]
        taken = (rows[:, endpoints.TIME] < most) | (most == INF)
        if not taken.any():
            return self._merged(rows[:0])
        pending.clear()
        pending.put(rows[~taken])
        return self._merged(rows[taken])

    def lengthen_cut_of(self, keys: Ints, until: Ints) -> Said:
        """Rows of some keys that were cut where no endpoint remains, each up to a time of its own."""
        limit = np.full(len(self.slabs), BEGIN)
        limit[keys] = until
        keys = self._still_cut(np.unique(self.cut))
        last = self._last(keys)
        short = self.entries[last, endpoints.SHOWN] < limit[keys]
        keys, last = keys[short], last[short]
        return self._lengthened(keys, last, limit[keys])

    def held_back(self, keys: Ints) -> Ints:
        """The start of the last row of each key if it is open and nothing of it is shown; else INF."""
        out = np.full(len(keys), INF)
        known = np.flatnonzero(self.slabs[keys, endpoints.SIZE] > 0)
        last = self.entries[self._last(keys[known])]
        waits = (last[:, endpoints.SUMS] > 0) & (last[:, endpoints.SHOWN] <= last[:, endpoints.TIME])
        out[known[waits]] = last[waits, endpoints.TIME]
        return out

    def close(self, keys: Ints, until: Ints) -> None:
        """Forget what is frozen of some keys; all of a key that is closed for ever."""
        if self.waiting_size:
            done = keys[until == INF]
            notes = self.waiting, self.waiting_size, self.bounds
            kernel.note_open(*notes, self.slabs, done, np.full(len(done), INF))
        self.size -= kernel.close(self.slabs, self.entries, self.free, keys, until)

    def open_since(self) -> int:
        """The earliest start of a row that is still open and of which nothing is shown; INF if none."""
        return int(kernel.open_since(self.waiting, self.waiting_size, self.bounds))

    def forget(self, cti: int) -> bool:
        """Drop what the cti has frozen, now and then; whether it was done.

        A slab without room drops it at once, rather than move.
        """
        self.frozen = cti
        if cti < INF and self.rows() < self.sweep_at:
            return False
        self.sweep(cti)
        return True

    def sweep(self, cti: int) -> None:
        """Drop what the cti has frozen."""
        if cti == INF:
            self.slabs[:, [endpoints.SIZE, endpoints.MARK]] = 0
            self.pending.clear()
            self.size = self.waiting_size = 0
        else:
            self.size = kernel.purge(self.slabs, self.entries, cti)
        self.sweep_at = state.sweep_after(self.rows())

    def in_use(self, keys: int) -> Mask:
        """Which of so many keys are."""
        alive: Mask = self.slabs[:keys, endpoints.SIZE] > 0
        alive[self.pending.pool[self.pending.used(), endpoints.KEY]] = True
        return alive

    def is_loose(self, keys: int) -> bool:
        """Whether keys that are not in use, or rooms, take so much that it is worth packing."""
        if self.top > _LOOSE * (self.size + keys):
            return True
        few = keys // _SPARSE
        with_entries = np.count_nonzero(self.slabs[:keys, endpoints.SIZE])
        return bool(with_entries <= few and np.count_nonzero(self.in_use(keys)) <= few)

    def renumber(self, alive: Mask, numbers: Ints) -> None:
        """Keys have new numbers: compact the slabs of those that are left."""
        keep = np.flatnonzero(alive)
        # as many are to come again: what is not used of the room costs nothing, growing copies
        room = 4 * int(self.slabs[keep, endpoints.SIZE].sum())
        room = max(room, min(len(self.entries), 4 * room))
        slabs = self.spares.filled(
            0, max(len(keep), min(len(self.slabs), 4 * len(keep))), endpoints.SLAB
        )
        entries = self.spares.empty(room, self.entries.shape[1])
        self.top = kernel.compact(self.slabs, keep, self.entries, slabs, entries)
        self.spares.give_back(self.slabs)
        self.spares.give_back(self.entries)
        self.slabs, self.entries = slabs, entries
        self.free[:] = -1
        self._renew_head()
        waiting, pool = self.pending.used(), self.pending.pool
        pool[waiting, endpoints.KEY] = numbers[pool[waiting, endpoints.KEY]]
        self.cut = numbers[self.cut[alive[self.cut]]]
        if self.horizon < INF:
            self._reserve_notes(len(keep))
            self.waiting_size = kernel.note_all(self.waiting, self.bounds, self.slabs, self.entries)
