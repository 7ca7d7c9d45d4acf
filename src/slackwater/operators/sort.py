"""Sort: the same history, told in order of some columns as far as promises allow.

    out = input

Only a promise says that a part of the stream is complete. On cti(t), what has sync < t comes out in
order of the columns, and where they are equal, of sync. Promises about the first column alone say it of
some of its values: where they leave no value out, from the least one up to some v (coverage.py), what
has a value up to v and a sync before theirs comes out in the same order. Until then rows of one event
become one, as in Align, so that any order is a valid one. Nulls come first, NaN last: so a promise
about null is needed for anything to come out, which `sw.domain` gives, as it does for what is below the
least value.

Pass: on cti(t), what has sync < t; what promises about the first column say is complete from the least
value on (`init`). Keep: the rest, and promises about values of the first column above that. Propagate:
cti(t), and every other promise when no row that it speaks of is held: of what came out in order nothing
follows.

    by k      in:   b [1, 9)   a [3, 5)   cti(4)   c [4, 6)   a [3, 5) -> [3, 4)   cti(9)
              out:  a [3, 5)   b [1, 9)   cti(4)   a [3, 5) -> [3, 4)   c [4, 6)   cti(9)

    by hour   in:   3   5   1   4   no more 2 to 4   no more 0 to 3       (and nothing below 0, nor null)
              out:                                   1   3   4   no more 2 to 4   no more 0 to 3

Paper 4 Tables 2 to 4 and section 5.2 (sort, init).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl

from slackwater.columns import taken
from slackwater.events import Batch
from slackwater.operators.buffer import Buffer
from slackwater.operators.coverage import prefix
from slackwater.operators.pending import Pending
from slackwater.operators.step import Answer, Description
from slackwater.patterns import matches
from slackwater.plan import nodes
from slackwater.plan.properties import infer
from slackwater.promises import Promises
from slackwater.punctuations import Closings, Promise, Punctuation, behind
from slackwater.times import BEGIN

__all__ = ["Sort", "State"]


@dataclass(slots=True)
class State:
    """What waits for a promise."""

    buffer: Buffer
    closed: Promises
    """what was promised of values of the first column"""
    pending: Pending = field(default_factory=Pending)


@dataclass(frozen=True, slots=True)
class Sort:
    """The step of a `Sort` node."""

    node: nodes.Sort
    never_lengthens: bool = field(init=False)

    def __post_init__(self) -> None:
        below = infer(self.node.input)[self.node.input]
        object.__setattr__(self, "never_lengthens", below.never_lengthens)

    def open(self) -> State:
        """Nothing held."""
        return State(Buffer(self.node.schema, timed=False), Promises.of(self.node.schema))

    def on_batch(self, state: State, port: int, rows: Batch) -> Batch:
        """Everything waits for the promise."""
        state.buffer.hold(rows)
        return Batch.empty(self.node.schema)

    def on_punctuation(self, state: State, port: int, punctuation: Punctuation) -> Answer:
        """What is complete, in order."""
        state.closed.add([punctuation])
        state.closed.forget([punctuation])
        rows = self._in_order(state.buffer.before(punctuation.before))
        waiting = state.pending.free(state.buffer.held()[1]) if state.pending.told else ()
        return Answer((punctuation, *waiting), rows)

    def _in_order(self, rows: Batch) -> Batch:
        by = [pl.col(name) for name in self.node.by]
        # the buffer gives them in order of sync, and the sort keeps that order among equals
        index = pl.int_range(pl.len(), dtype=pl.Int64)
        order = rows.payload.select(index.sort_by(*by, maintain_order=True)).to_series().to_numpy()
        return Batch(rows.vs[order], rows.old_ve[order], rows.new_ve[order], taken(rows.payload, order))

    def on_patterns(self, state: State, port: int, told: Sequence[Promise]) -> Answer:
        """What is complete from the least value on, in order; the promises of which nothing is held."""
        state.pending.take(told, with_since=self.never_lengthens)
        about_first = [each for each in told if _speaks_of(each, self.node.by[0])]
        rows = None
        if about_first:
            state.closed.add(about_first)
            slots, held = state.buffer.held()
            rows = self._in_order(state.buffer.release(slots[self._complete(state, held)]))
        return Answer(state.pending.free(state.buffer.held()[1]), rows)

    def _complete(self, state: State, held: Batch) -> npt.NDArray[np.bool_]:
        """Which rows no permitted one precedes."""
        [first, *_] = self.node.by
        column = held.payload[first]
        closed = state.closed.punctuations()
        boxes = [each for each in closed if isinstance(each, Punctuation) and not each.is_cti]
        values = [each for each in closed if isinstance(each, Closings)]
        times = [each.before for each in values]
        until = np.concatenate([*times, np.array([box.before for box in boxes], dtype=np.int64)])
        done = np.zeros(held.rows, dtype=np.bool_)
        for before in np.unique(until)[::-1].tolist():
            patterns = [pattern for box in boxes if box.before >= before for _, pattern in box.columns]
            some = [each.where(each.before >= before).keys[first] for each in values]
            found = prefix(patterns, column.dtype, pl.concat(some) if some else None)
            if found is None:
                continue
            complete = column.is_null().to_numpy()
            if found.values is not None:
                complete |= matches(found.values, column)
                state_prefix = Punctuation(before, columns=((first, found.values),))
                state.closed.forget([state_prefix])
                state.closed.add([state_prefix])
            if found.nan:
                complete |= column.is_nan().fill_null(value=False).to_numpy()
            done |= complete & behind(held.sync, np.int64(before))
        return done

    def describe(self, state: State) -> Description:
        """One row per event of which something is held."""
        return Description(state_rows=len(state.buffer))


def _speaks_of(promise: Promise, column: str) -> bool:
    """Whether it is about this column alone, from the beginning of time."""
    if isinstance(promise, Closings):
        return promise.keys.columns == [column]
    return promise.since == BEGIN and [name for name, _ in promise.columns] == [column]
