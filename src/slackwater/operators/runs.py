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
  waits for those around it. What will come with its start may not be promised away, hence the promise is
  the smaller of the cti and the earliest start of which nothing is shown; more would be false.
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
    spares: Spares = field(default_factory=Spares)

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
        scratch = np.empty((0, self.timelines.entries.shape[1]), dtype=np.int64)
        return self._show(scratch, np.empty((0, 5), dtype=np.int64), seen, 16)

    def _show(self, scratch: Ints, touched: Ints, seen: int, room: int) -> Changed:
        before, self.watermark = self.watermark, max(self.watermark, seen)
        due = np.empty(0, dtype=np.int64)
        if self.watermark > before and len(self.tree):
            due = tree_kernel.up_to(
                self.tree, self.leaves, runs.DUE, self.watermark, len(self.timelines.slabs)
            )
        timelines = self.timelines
        return self._changed(
            kernel.shown(
                _MODES[self.latency],
                self.rule,
                timelines.slabs,
                timelines.entries,
                scratch,
                touched,
                due,
                self.tree,
                self.leaves,
                before,
                self.watermark,
                room,
            )
        )

    def _changed(self, out: Ints) -> Changed:
        if self.latency is OutputLatency.ORDER_PRESERVING:
            out = out[:, np.argsort(np.minimum(out[2], out[3]), kind="stable")]
        return Changed(out[0], out[1], out[2], out[3])

    def _admit_keys(self, keys: int) -> None:
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
        timelines = self.timelines
        tree = self.tree, self.leaves
        short = tree_kernel.up_to(*tree, runs.CUT, promise - 1, len(timelines.slabs))
        longer = kernel.lengthened(self.rule, timelines.slabs, timelines.entries, short, *tree, promise)
        return Changed._make(np.concatenate(pair) for pair in zip(changed, longer, strict=True)), promise

    def forget(self, cti: int) -> Mask | None:
        """Drop what the cti has frozen, now and then; if so, which keys are still in use."""
        if cti < INF and self.rows() < self.timelines.sweep_at:
            return None
        return self.sweep(cti)

    def sweep(self, cti: int) -> Mask:
        """Drop what the cti has frozen: which keys are still in use."""
        timelines = self.timelines
        if cti == INF:
            timelines.slabs[:, endpoints.SIZE] = 0
            timelines.size = 0
        else:
            tables = timelines.slabs, timelines.entries, self.tree, self.leaves
            timelines.size = kernel.purge(self.rule, *tables, cti)
        timelines.sweep_at = state.sweep_after(timelines.rows())
        in_use: Mask = timelines.slabs[:, endpoints.SIZE] > 0
        return in_use

    def renumber(self, alive: Mask) -> None:
        """Other keys are gone, and these are numbered from 0."""
        self.timelines.renumber(alive, np.cumsum(alive) - 1)
        if len(self.tree):
            values = self.tree[: self.leaves][: len(alive)][alive[: self.leaves]]
            self._plant(values, len(values))
