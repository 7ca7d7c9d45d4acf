"""Punctuate: the same history with promises of what is known besides.

    out = input - ledger      (as streams: leaving out the elements that the ledger names)

**Lateness.** After every batch the promise is cti(largest vs seen - lateness), or that of the input if
it says more. So it is a Finalize with that memory, but for one thing: an element behind the promise was
not forgotten, it proves a declaration false. It stops the query; with sw.LEDGER it is set aside, and
with it every later element that continues it. Elements are judged one by one, so that it does not
matter how the stream was cut.

Pass: everything else, at once. Keep: the ends of events that were set aside in part, until the promise
has passed them. Propagate: the promise, which never goes back.

    lateness 5   in:   a [0, 9)            b [8, 12)           c [1, 4)   a [0, 9) -> [0, 6)
                 out:  a [0, 9)   cti(-5)  b [8, 12)   cti(3)             a [0, 9) -> [0, 6)
                 ledger:                                       c [1, 4)

**Other knowledge** (plan/knowledge.py): of an order, a domain, of unique values, of who has to report.
What follows from it is promised after every batch (embedding.py). An element that breaks such a promise
stops the query, or is set aside; what continues it has its payload, and breaks the promise, too.

Pass: everything else, at once. Keep: what was promised, as far as it is needed to judge by it; it is
counted by values, and compact. Propagate: the promises of the input, of which the output is a part, and
those that are embedded.

    unique item   in:   1 [0, 9)                 2 [3, 5)                1 [4, 8)
                  out:  1 [0, 9)   no more 1     2 [3, 5)   no more 2
                  ledger:                                                1 [4, 8)

Paper 4 section 6.2 (access order, application semantics, auxiliary tables).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from slackwater.errors import OperatorError
from slackwater.events import Batch
from slackwater.operators.embedding import Embedding, embedding
from slackwater.operators.finalize import Finalize
from slackwater.operators.step import Answer, Description, GivenUp, Step
from slackwater.plan import nodes
from slackwater.punctuations import Promise, Punctuation
from slackwater.times import INF, Times, show

__all__ = ["Punctuate", "State", "punctuate"]


def punctuate(node: nodes.Punctuate, *, atomic: bool = False) -> Step:
    """The step of a `Punctuate` node.

    With `atomic` the rows of a batch have no common order, and none is late for another of the batch.
    """
    if node.knowledge is None:
        return _not_later(node, atomic=atomic)
    return Punctuate(node, embedding(node.knowledge, node.schema, atomic=atomic))


@dataclass(slots=True)
class State:
    """What was seen, as the way of knowing needs it; None when nothing more can come."""

    seen: Any


@dataclass(frozen=True, slots=True)
class Punctuate:
    """The step of a `Punctuate` node that knows of more than lateness."""

    node: nodes.Punctuate
    known: Embedding

    def open(self) -> State:
        """Nothing seen."""
        return State(self.known.open())

    def on_batch(self, state: State, port: int, rows: Batch) -> Answer:
        """The rows that break no promise, and what they allow to promise."""
        if state.seen is None:
            return Answer(rows=rows)
        broken, promise = self.known.judge(state.seen, rows)
        given_up = None
        if broken.any():
            given_up = self._given_up(rows.where(broken), map(promise, np.flatnonzero(broken).tolist()))
            rows = rows.where(~broken)
        learned = self.known.learn(state.seen, rows)
        # below the least value of a type there is nothing to promise
        told = tuple(p for p in learned if not (isinstance(p, Punctuation) and p.is_empty))
        return Answer(told, rows, given_up)

    def _given_up(self, rows: Batch, promises: Iterable[Punctuation]) -> GivenUp:
        broken = [repr(promise) for promise in promises]
        who = f"{self.node.name} {self.node.describe()}"
        error = OperatorError(
            f"{who}: {next(iter(rows))!r} breaks the promise {broken[0]}",
            hint="promise only what always holds; sw.LEDGER sets such elements aside",
        )
        why = [f"it breaks the promise {promise}" for promise in broken]
        return GivenUp(rows, "promise broken", tuple(why), error)

    def on_patterns(self, state: State, port: int, told: Sequence[Promise]) -> Answer:
        """Promises hold of a part of the input, too."""
        return Answer(tuple(told))

    def on_punctuation(self, state: State, port: int, punctuation: Punctuation) -> Answer:
        """The promise; after the last one there is nothing to judge."""
        if punctuation.before == INF:
            state.seen = None
        return Answer((punctuation,))

    def describe(self, state: State) -> Description:
        """It holds no rows."""
        return Description()


def _not_later(node: nodes.Punctuate, *, atomic: bool) -> Finalize:
    """A Finalize that calls it an error to be late."""

    def give_up(rows: Batch, limits: Times, late: npt.NDArray[np.bool_]) -> GivenUp:
        why = [
            f"it breaks the promise cti({show(limit)})" if is_late else "it continues what was set aside"
            for limit, is_late in zip(limits.tolist(), late.tolist(), strict=True)
        ]
        # it is the first of all that stops a query, and that one continues nothing
        broken = f"cti({show(int(limits[0]))})"
        error = OperatorError(
            f"{node.name} {node.describe()}: {next(iter(rows))!r} breaks the promise {broken}",
            detail=f"its sync is {show(int(rows.sync[0]))}",
            hint="promise a larger lateness; sw.LEDGER sets such elements aside",
        )
        return GivenUp(rows, "promise broken", tuple(why), error)

    return Finalize(nodes.Finalize(node.input, node.lateness), give_up=give_up, atomic=atomic)
