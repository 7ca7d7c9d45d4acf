"""Select: payloads mapped, lifetimes kept.

    out = { (vs, ve, g(p)) | (vs, ve, p) in input }

The mapping is a function of the payload alone, so the adjust of an event becomes the adjust of its image
(of one of equal images, which are interchangeable), and nothing is remembered. Where g has no value, and
the insert is set aside, so is every adjust of it, for the same reason.

Pass: every row, at once. Keep: nothing. Propagate: a promise about sync as it is.

    in:   a [0, 10)   a [0, 10) -> [0, 4)   cti(5)
    out:  g(a) [0, 10)   g(a) [0, 10) -> [0, 4)   cti(5)

Paper 4 Table 2 (project); paper 1b section 4.1 (stateless operators).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import polars as pl

from slackwater.events import Batch
from slackwater.operators.step import Answer, Description
from slackwater.plan import nodes
from slackwater.plan.evaluation import Formula
from slackwater.punctuations import Punctuation

__all__ = ["Select"]


@dataclass(frozen=True, slots=True)
class Select:
    """The step of a `Select` node. It has no state."""

    node: nodes.Select
    columns: dict[str, Formula] = field(init=False)

    def __post_init__(self) -> None:
        columns = {
            name: Formula(expression, self.node.input.schema, f"select {name}")
            for name, expression in self.node.columns.items()
        }
        object.__setattr__(self, "columns", columns)

    def open(self) -> None:
        """Nothing to remember."""

    def on_batch(self, state: None, port: int, rows: Batch) -> Batch:
        """The same rows with other payloads."""
        columns = {name: formula.values(rows.payload) for name, formula in self.columns.items()}
        return replace(rows, payload=pl.DataFrame(columns))

    def on_punctuation(self, state: None, port: int, punctuation: Punctuation) -> Answer:
        """Sync times are kept, so a promise about them is."""
        return Answer((punctuation,))

    def describe(self, state: None) -> Description:
        """Stateless."""
        return Description()
