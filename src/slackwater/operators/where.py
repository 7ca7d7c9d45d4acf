"""Where: the rows that satisfy a predicate.

    out = { (vs, ve, p) in input | f(p) }

An adjust carries its event's payload, so it passes exactly if its insert did, and nothing is remembered.
Likewise where f has no value: if the insert is set aside, so is every adjust of it, for the same reason.

Pass: every row that satisfies f, at once. Keep: nothing. Propagate: the promise as it is, since the
output is a part of the input.

    in:   a [0, 10)   b [2, 8)   cti(5)
    out:  a [0, 10)              cti(5)         (b does not satisfy f)

Paper 1b section 4.1.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from slackwater.events import Batch
from slackwater.operators.step import Answer, Description
from slackwater.plan import nodes
from slackwater.plan.evaluation import Formula
from slackwater.punctuations import Punctuation

__all__ = ["Where"]


@dataclass(frozen=True, slots=True)
class Where:
    """The step of a `Where` node. It has no state."""

    node: nodes.Where
    predicate: Formula = field(init=False)

    def __post_init__(self) -> None:
        predicate = Formula(self.node.predicate, self.node.input.schema, "where")
        object.__setattr__(self, "predicate", predicate)

    def open(self) -> None:
        """Nothing to remember."""

    def on_batch(self, state: None, port: int, rows: Batch) -> Batch:
        """The rows that satisfy the predicate; null is not true."""
        satisfied = self.predicate.values(rows.payload)
        return rows.where(satisfied.fill_null(value=False).to_numpy())

    def on_punctuation(self, state: None, port: int, punctuation: Punctuation) -> Answer:
        """The promise holds of a part of the input, too."""
        return Answer((punctuation,))

    def describe(self, state: None) -> Description:
        """Stateless."""
        return Description()
