"""The runs of many payloads, and what is shown of them: what set operations and outer joins share.

`Runs` takes in the rows of a batch, as changes of how many copies of a payload are alive, and says how
the runs that are shown change. kernels/runs.py has the loops, and defines rules, runs and levels.

The watermark is the largest of the starts seen and of the ctis, one for all ports and all payloads. (The
definition has the largest endpoint up to the cti in its place. No change comes to lie between the two.
A join that says other things in between has a reason to move it further.)
For perfect input nothing changes before it, hence:

- A run that ends before it is final. One that ends at it is not if an insert at that very time can join
  on to it; what a row of a join is alone has no such sequel.
- PERFECTNESS_PRESERVING shows nothing of a run before it is final: as runs are maximal, anything shorter
  would have to be lengthened. The rows of one payload come in the order of their starts, so a copy also
  waits for those around it that began before. What will come with its start may not be promised away,
  hence the promise is the smaller of the cti and the earliest start of a row that is not shown; more
  would be false.
- If the input is not perfect and something late joins on to a run that was shown, this stays as it is,
  until its end is final again or a promise needs it: then it is lengthened to the time of the promise.
- ORDER_PRESERVING shows a run from its start on, without end until that is final. All that changes is at
  the watermark or later, and is said in order of sync: ordered input gives ordered output.

Everything is NumPy arrays and small numbers: it can be written down and read back as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from slackwater import state
from slackwater.consistency import OutputLatency
from slackwater.events import Batch
from slackwater.kernels import endpoints, runs, tournament
from slackwater.kernels.arrays import Spares
from slackwater.timelines import Timelines, Weights
from slackwater.times import BEGIN, INF

__all__ = ["Changed", "Runs"]

kernel: Any = runs
tree_kernel: Any = tournament
"""compiled functions, which mypy cannot follow"""

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_NONE = np.empty(0, dtype=np.int64)
_MODES = {
    OutputLatency.EAGER: runs.EAGER,
    OutputLatency.ORDER_PRESERVING: runs.ORDERLY,
    OutputLatency.PERFECTNESS_PRESERVING: runs.PERFECT,
}


class Changed(NamedTuple):
    """Rows that come, go or get another end, and the numbers of their keys."""

    key: Ints
    vs: Ints
    old_ve: Ints
    new_ve: Ints


@dataclass(slots=True)
class Runs:
    """The timelines of all keys, and how far each is shown."""

    rule: int
    latency: OutputLatency
    watermark: int = BEGIN
    timelines: Timelines = field(default_factory=lambda: Timelines(width=2, horizon=INF))
    tree: Ints = field(default_factory=lambda: np.empty((0, runs.VALUES), dtype=np.int64))
    """see kernels/runs.py for the values, kernels/tournament.py for the shape"""
    leaves: int = 0
    fronts: Ints = field(default_factory=lambda: _NONE)
    """the watermark of each key of which more is promised than of all; empty as long as there is none"""
    spares: Spares = field(default_factory=Spares)

    def __post_init__(self) -> None:
        self.timelines.endless = self.latency is OutputLatency.EAGER

    def rows(self) -> int:
        """How many endpoints are remembered."""
        return self.timelines.rows()

    def absorb(self, rows: Batch, key: Ints, copies: Ints, keys: int, seen: int) -> Changed:
        """Take in rows, which carry so many copies of these keys in each input, and times seen."""
        self._admit_keys(keys)
        labels = np.empty((rows.rows, 0), dtype=np.int64)
        what = self.timelines.touch(rows, Weights(key, labels, copies), keys, INF)
        return self._show(what.scratch, what.touched, seen, what.room)

    def advance(self, seen: int) -> Changed:
        """Times are seen."""
        return self._show(*self._untouched(), seen, 16)

    def _untouched(self) -> tuple[Ints, Ints]:
        """No entries, none of which has changed."""
        width = self.timelines.entries.shape[1]
        return np.empty((0, width), dtype=np.int64), np.empty((0, 5), dtype=np.int64)

    def _show(self, scratch: Ints, touched: Ints, seen: int, room: int) -> Changed:
        before, self.watermark = self.watermark, max(self.watermark, seen)
        due = _NONE
        if self.watermark > before and len(self.tree):
            due = tree_kernel.up_to(
                self.tree, self.leaves, runs.DUE, self.watermark, len(self.timelines.slabs)
            )
        return self._compared((scratch, touched), (due, _NONE), before, room)

    def _compared(
        self, what: tuple[Ints, Ints], whose: tuple[Ints, Ints], before: int, room: int
    ) -> Changed:
        """What was touched, and whom the watermark concerns, with what it is for each: what changes."""
        timelines = self.timelines
        due, fronts = whose
        return self._changed(
            kernel.shown(
                _MODES[self.latency],
                self.rule,
                timelines.slabs,
                timelines.entries,
                *what,
                due,
                self.tree,
                self.leaves,
                before,
                self.watermark,
                self.fronts,
                fronts,
                room,
            )
        )

    def _changed(self, out: Ints) -> Changed:
        if self.latency is OutputLatency.ORDER_PRESERVING:
            out = out[:, np.argsort(np.minimum(out[2], out[3]), kind="stable")]
        return Changed(out[0], out[1], out[2], out[3])

    def _admit_keys(self, keys: int) -> None:
        if len(self.fronts) and keys > len(self.fronts):
            more = max(keys, 2 * len(self.fronts)) - len(self.fronts)
            self.fronts = np.concatenate([self.fronts, np.full(more, BEGIN)])
        if self.latency is not OutputLatency.EAGER and keys > self.leaves:
            self._plant(self.tree[: self.leaves], keys)

    def _plant(self, values: Ints, keys: int) -> None:
        self.leaves = 1 << max(keys - 1, 15).bit_length()
        tree = self.spares.empty(tree_kernel.rows_for(self.leaves), runs.VALUES)
        tree[: len(values)] = values
        tree[len(values) : self.leaves] = tournament.NONE
        self.spares.give_back(self.tree)
        tree_kernel.build(tree, self.leaves)
        self.tree = tree

    def promise(self, cti: int) -> tuple[Changed, int]:
        """Nothing before the cti changes any more: what follows, and what may be promised after that."""
        changed = self.advance(cti)
        if self.latency is not OutputLatency.PERFECTNESS_PRESERVING or not len(self.tree):
            return changed, cti
        promise = min(cti, int(self.tree[-1, runs.HOLD]))
        if self.tree[-1, runs.CUT] >= promise:
            return changed, promise
        short = tree_kernel.up_to(
            self.tree, self.leaves, runs.CUT, promise - 1, len(self.timelines.slabs)
        )
        return self._with_longer(changed, short, np.full(len(short), promise)), promise

    def _with_longer(self, changed: Changed, short: Ints, ends: Ints) -> Changed:
        timelines = self.timelines
        longer = kernel.lengthened(
            self.rule, timelines.slabs, timelines.entries, short, self.tree, self.leaves, ends
        )
        return Changed._make(np.concatenate(pair) for pair in zip(changed, longer, strict=True))

    def promise_of(self, keys: Ints, until: Ints) -> tuple[Changed, Ints]:
        """Nothing of these keys changes before a time, of each its own: as `promise`, key by key.

        At INF all of a key is shown. The watermark of the others stays where it is.
        """
        if self.latency is OutputLatency.EAGER or not len(keys):
            return Changed(_NONE, _NONE, _NONE, _NONE), until
        self.timelines.admit(int(keys.max()) + 1)
        slabs = self.timelines.slabs
        self._admit_keys(len(slabs))
        if not len(self.fronts):
            self.fronts = np.full(self.leaves, BEGIN)
        room = int(slabs[keys, endpoints.SIZE].sum()) + 16
        changed = self._compared(self._untouched(), (keys, until), self.watermark, room)
        self.fronts[keys] = np.maximum(self.fronts[keys], until)
        if self.latency is OutputLatency.ORDER_PRESERVING:
            return changed, until
        promises = np.minimum(until, self.tree[keys, runs.HOLD])
        short = self.tree[keys, runs.CUT] < promises
        return self._with_longer(changed, keys[short], promises[short]), promises

    def close(self, keys: Ints, until: Ints) -> None:
        """Forget what is frozen of these keys; all of a key at INF."""
        timelines = self.timelines
        timelines.admit(int(keys.max(initial=-1)) + 1)
        timelines.size -= kernel.close(
            self.rule,
            timelines.slabs,
            timelines.entries,
            timelines.free,
            self.tree,
            self.leaves,
            keys,
            until,
        )

    def forget(self, cti: int) -> bool:
        """Drop what the cti has frozen, now and then; whether it was done."""
        if cti < INF and self.rows() < self.timelines.sweep_at:
            return False
        self.sweep(cti)
        return True

    def sweep(self, cti: int) -> None:
        """Drop what the cti has frozen."""
        timelines = self.timelines
        if cti == INF:
            timelines.slabs[:, endpoints.SIZE] = 0
            timelines.size = 0
        else:
            tables = timelines.slabs, timelines.entries, self.tree, self.leaves
            timelines.size = kernel.purge(self.rule, *tables, cti)
        timelines.sweep_at = state.sweep_after(timelines.rows())

    def in_use(self, keys: int) -> Mask:
        """Which of so many keys have endpoints."""
        self.timelines.admit(keys)
        in_use: Mask = self.timelines.slabs[:keys, endpoints.SIZE] > 0
        return in_use

    def renumber(self, alive: Mask) -> None:
        """Other keys are gone, and these are numbered from 0."""
        self.timelines.renumber(alive, np.cumsum(alive) - 1)
        if len(self.fronts):
            known = self.fronts[: len(alive)]
            self.fronts = known[alive[: len(known)]]
            if not len(self.fronts):
                # as many as there are, and never none again
                self.fronts = np.full(1, BEGIN)
        if len(self.tree):
            values = self.tree[: self.leaves][: len(alive)][alive[: self.leaves]]
            self._plant(values, len(values))
