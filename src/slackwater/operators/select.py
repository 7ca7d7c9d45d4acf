"""Select: payloads mapped, lifetimes kept.

    out = { (vs, ve, g(p)) | (vs, ve, p) in input }

The mapping is a function of the payload alone, so the adjust of an event becomes the adjust of its image
(of one of equal images, which are interchangeable), and no row is remembered. Where g has no value, and
the insert is set aside, so is every adjust of it, for the same reason.

Pass: every row, at once. Keep: no row; promises about columns that do not pass as they are, until
others complete them. Propagate: a promise about sync as it is; one about columns that pass unchanged
under their new names (each of them, if there are several); one about other columns not by itself, but a
set that leaves no value of such a column out as one about the rest (projection.py).

    in:   a [0, 10)   a [0, 10) -> [0, 4)   cti(5)
    out:  g(a) [0, 10)   g(a) [0, 10) -> [0, 4)   cti(5)

Paper 4 Table 3 (project: projPs); paper 1b section 4.1 (stateless operators).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product

from slackwater.columns import framed
from slackwater.events import Batch
from slackwater.operators.asked import asked_of
from slackwater.operators.projection import Apart, projected
from slackwater.operators.step import Answer, Ask, Description
from slackwater.plan import nodes
from slackwater.plan.evaluation import Formula
from slackwater.punctuations import Closings, Promise, Punctuation
from slackwater.times import Times

__all__ = ["Select"]


@dataclass(frozen=True, slots=True)
class Select:
    """The step of a `Select` node."""

    node: nodes.Select
    columns: dict[str, Formula] = field(init=False)
    passing: dict[str, list[str]] = field(init=False)
    """columns that pass as they are, and how they are called then"""

    def __post_init__(self) -> None:
        columns = {
            name: Formula(expression, self.node.input.schema, f"select {name}")
            for name, expression in self.node.columns.items()
        }
        object.__setattr__(self, "columns", columns)
        passing: dict[str, list[str]] = {}
        for name, expression in self.node.columns.items():
            plain = expression.meta.undo_aliases()
            if plain.meta.is_column():
                passing.setdefault(plain.meta.output_name(), []).append(name)
        object.__setattr__(self, "passing", passing)

    def open(self) -> Apart:
        """Nothing promised."""
        return Apart()

    def on_batch(self, state: Apart, port: int, rows: Batch) -> Batch:
        """The same rows with other payloads."""
        if not rows.rows:
            # batches that only carry promises are many, on loops above all
            return Batch.empty(self.node.schema)
        columns = [formula.values(rows.payload).alias(name) for name, formula in self.columns.items()]
        return Batch(rows.vs, rows.old_ve, rows.new_ve, framed(columns, rows.rows))

    def on_punctuation(self, state: Apart, port: int, punctuation: Punctuation) -> Answer:
        """Sync times are kept, so a promise about them is."""
        state.free(punctuation.before)
        return Answer((punctuation,))

    def on_patterns(self, state: Apart, port: int, told: Sequence[Promise]) -> Answer:
        """What is about columns that pass, and what follows from the rest about these."""
        usable = [each for each in told if each.speaks_only_of(self.passing)]
        others = [each for each in told if not each.speaks_only_of(self.passing)]
        follows = projected(state, others, self.passing, self.node.input.schema) if others else []
        state.forget_said(usable, self.node.input.schema)
        promises = tuple(named for each in (*usable, *follows) for named in self._named(each))
        return Answer(promises, given_up=state.note(self.node.input.schema))

    def closed_until(self, state: Apart, asked: Promise, ask: Ask) -> Times:
        """What is asked of columns that pass; a column that is computed may have any value."""
        return ask(
            0, asked_of(asked, {new: old for old, names in self.passing.items() for new in names})
        )

    def _named(self, promise: Promise) -> Iterator[Promise]:
        """The promise about the columns of the output, under each of their names."""
        if isinstance(promise, Closings):
            columns = promise.keys.columns
        else:
            columns = [name for name, _ in promise.columns]
        for names in product(*(self.passing[name] for name in columns)):
            yield promise.renamed(dict(zip(columns, names, strict=True)))

    def describe(self, state: Apart) -> Description:
        """It holds no rows."""
        return Description()
