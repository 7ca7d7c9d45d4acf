"""Sort: the same history, told in order of some columns as far as promises allow.

    out = input

Only a cti says that a part of the stream is complete: on cti(t), what has sync < t comes out in order of
the columns, and where they are equal, of sync. Until then rows of one event become one, as in Align, so
that any order is a valid one. Nulls come first, NaN last.

Pass: on cti(t), what has sync < t. Keep: the rest. Propagate: cti(t).

    by k      in:   b [1, 9)   a [3, 5)   cti(4)   c [4, 6)   a [3, 5) -> [3, 4)   cti(9)
              out:  a [3, 5)   b [1, 9)   cti(4)   a [3, 5) -> [3, 4)   c [4, 6)   cti(9)

Paper 4 Table 2 (sort).
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from slackwater.events import Batch
from slackwater.operators.buffer import Buffer
from slackwater.operators.step import Answer, Description
from slackwater.plan import nodes
from slackwater.punctuations import Punctuation

__all__ = ["Sort", "State"]


@dataclass(slots=True)
class State:
    """What waits for a promise."""

    buffer: Buffer


@dataclass(frozen=True, slots=True)
class Sort:
    """The step of a `Sort` node."""

    node: nodes.Sort

    def open(self) -> State:
        """Nothing held."""
        return State(Buffer(self.node.schema, timed=False))

    def on_batch(self, state: State, port: int, rows: Batch) -> Batch:
        """Everything waits for the promise."""
        state.buffer.hold(rows)
        return Batch.empty(self.node.schema)

    def on_punctuation(self, state: State, port: int, punctuation: Punctuation) -> Answer:
        """What is complete, in order."""
        rows = state.buffer.before(punctuation.before)
        by = [pl.col(name) for name in self.node.by]
        # the buffer gives them in order of sync, and the sort keeps that order among equals
        index = pl.int_range(pl.len(), dtype=pl.Int64)
        order = rows.payload.select(index.sort_by(*by, maintain_order=True)).to_series().to_numpy()
        ordered = Batch(rows.vs[order], rows.old_ve[order], rows.new_ve[order], rows.payload[order])
        return Answer((punctuation,), ordered)

    def describe(self, state: State) -> Description:
        """One row per event of which something is held."""
        return Description(state_rows=len(state.buffer))
