"""Where: the rows that satisfy a predicate.

    out = { (vs, ve, p) in input | f(p) }

An adjust carries its event's payload, so it passes exactly if its insert did, and nothing is remembered.
Likewise where f has no value: if the insert is set aside, so is every adjust of it, for the same reason.

Pass: every row that satisfies f, at once. Keep: nothing. Propagate: every promise as it is, since the
output is a part of the input; and with `promises`, at its start, that nothing comes that fails f, as far
as boxes can tell (plan/predicates.py).

    in:   a [0, 10)   b [2, 8)   cti(5)
    out:  a [0, 10)              cti(5)         (b does not satisfy f)

Paper 1b section 4.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from slackwater.columns import true_in
from slackwater.events import Batch
from slackwater.operators.step import Answer, Ask, Description
from slackwater.plan import nodes
from slackwater.plan.evaluation import Formula
from slackwater.plan.predicates import failing
from slackwater.promises import Promises
from slackwater.punctuations import Promise, Punctuation
from slackwater.times import Times

__all__ = ["State", "Where"]


@dataclass(slots=True)
class State:
    """Whether what follows from the predicate has been promised."""

    told: bool = False


@dataclass(frozen=True, slots=True)
class Where:
    """The step of a `Where` node."""

    node: nodes.Where
    predicate: Formula = field(init=False)
    excluded: Promises = field(init=False)
    """payloads that never satisfy it, as far as boxes can tell"""

    def __post_init__(self) -> None:
        predicate = Formula(self.node.predicate, self.node.input.schema, "where")
        object.__setattr__(self, "predicate", predicate)
        excluded = Promises.of(self.node.schema)
        excluded.add(failing(self.node.predicate, self.node.schema))
        object.__setattr__(self, "excluded", excluded)

    def open(self) -> State:
        """Nothing to remember, or nothing but whether it has made its own promise."""
        return State(told=not self.node.promises)

    def on_batch(self, state: State, port: int, rows: Batch) -> Batch | Answer:
        """The rows that satisfy the predicate; null is not true."""
        satisfied = self.predicate.values(rows.payload)
        passed = rows.where(true_in(satisfied))
        if state.told:
            return passed
        state.told = True
        return Answer(tuple(failing(self.node.predicate, self.node.schema)), passed)

    def on_punctuation(self, state: State, port: int, punctuation: Punctuation) -> Answer:
        """The promise holds of a part of the input, too."""
        return Answer((punctuation,))

    def on_patterns(self, state: State, port: int, told: Sequence[Promise]) -> Answer:
        """Promises hold of a part of the input, too."""
        return Answer(tuple(told))

    def closed_until(self, state: State, asked: Promise, ask: Ask) -> Times:
        """As the input, and for ever where no row satisfies the predicate."""
        return np.maximum(ask(0, asked), self.excluded.until(asked))

    def describe(self, state: State) -> Description:
        """It holds no rows."""
        return Description()
