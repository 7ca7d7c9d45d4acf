"""Distinct, intersect and difference: what lives at every instant, as a set or as a bag.

    distinct      copies(t) = min(1, left(t))
    intersect     copies(t) = min(1, left(t), right(t))       all: min(left(t), right(t))
    difference    copies(t) = 1 if left(t) > 0 = right(t)     all: max(0, left(t) - right(t))

where left(t) and right(t) say how many copies of a payload are alive at t in each input. Copy k of a
payload lives where copies(t) >= k, and each uninterrupted stretch of that is one row.

Inserts and adjusts change the numbers between the old and the new end of their event; the rows of that
payload that touch the stretch get other ends, come or go. A row that began before the cti keeps its
start.

All output latencies show the eager answer, the one over the input so far. Pass: what the batch changes.
Keep: per payload the endpoints from the last one before the cti on, and where rows that are still alive
began. Propagate: the smallest of the inputs' promises.

    distinct   in:   a [0, 5)   a [3, 9)               a [0, 5) -> gone
               out:  a [0, 5)   a [0, 5) -> [0, 9)     a [0, 9) -> gone, a [3, 9)

Paper 4 Table 2; paper 1a section 3.1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slackwater.events import Batch
from slackwater.kernels import runs
from slackwater.kernels.grouping import Keys
from slackwater.operators.step import Answer, Description
from slackwater.plan import nodes
from slackwater.punctuations import Promises, Punctuation
from slackwater.state import Differences, Timelines
from slackwater.times import INF

__all__ = ["SetOperation", "State"]


@dataclass(slots=True)
class State:
    """The payloads in use, the timeline of each, and what each port has promised."""

    keys: Keys
    timelines: Timelines
    promised: list[Promises]


@dataclass(frozen=True, slots=True)
class SetOperation:
    """The step of a `Distinct`, `Intersect` or `Difference` node."""

    node: nodes.Distinct | nodes.Intersect | nodes.Difference

    @property
    def _rule(self) -> int:
        if isinstance(self.node, nodes.Intersect):
            return runs.BAG_INTERSECT if self.node.bag else runs.INTERSECT
        if isinstance(self.node, nodes.Difference):
            return runs.BAG_DIFFERENCE if self.node.bag else runs.DIFFERENCE
        return runs.DISTINCT

    def open(self) -> State:
        """No payloads."""
        timelines = Timelines(width=2, fwidth=0, horizon=INF)
        return State(Keys(self.node.schema), timelines, [Promises() for _ in self.node.inputs])

    def on_batch(self, state: State, port: int, rows: Batch) -> Batch:
        """How the rows change the runs of their payloads."""
        if not rows.rows:
            return rows
        key = state.keys.number(rows.payload)
        copies = np.zeros((rows.rows, 2), dtype=np.int64)
        copies[:, port] = 1
        differences = Differences.of(rows, key, copies, np.zeros((rows.rows, 0)))
        key, vs, old_ve, new_ve = state.timelines.absorb_runs(differences, len(state.keys), self._rule)
        return Batch(vs, old_ve, new_ve, state.keys.take(key))

    def on_punctuation(self, state: State, port: int, punctuation: Punctuation) -> Answer:
        """Only what every port has promised holds; what that freezes is forgotten."""
        state.promised[port] = state.promised[port].with_(punctuation)
        cti = min(promises.cti for promises in state.promised)
        alive = state.timelines.forget(cti, self._rule)
        if alive is not None:
            alive = alive[: len(state.keys)]
            state.timelines.renumber(alive, state.keys.keep(alive))
        return Answer((Punctuation(cti),))

    def describe(self, state: State) -> Description:
        """One row per endpoint that is remembered; the port that has promised least holds it back."""
        ports = range(len(state.promised))
        held_by = min(ports, key=lambda port: state.promised[port].cti) if len(ports) > 1 else None
        return Description(state.timelines.rows(), held_by)
