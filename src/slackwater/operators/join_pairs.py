"""Pairs: which of those that meet satisfy the condition of a join, and what is said of them.

    pairs = { l.p + r.p | l met r, where(l.p + r.p) }

The condition is looked at first, with nothing but the columns that it reads; the others are put
together for the pairs that satisfy it, as far as anybody reads them. Payloads come from where they are:
those of events that are remembered from the store, those of events that are not from the batch that they
came with.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from slackwater.columns import framed, some_columns, taken, true_in
from slackwater.events import Batch
from slackwater.operators.live_events import Changes, Meetings
from slackwater.operators.payload_store import Payloads
from slackwater.operators.step import GivenUp
from slackwater.plan import nodes
from slackwater.plan.evaluation import Formula, NoValue

__all__ = ["Pairs", "Said", "Sides", "numbers_of"]

Ints = npt.NDArray[np.int64]

_LEFT, _RIGHT = 0, 1

Sides: TypeAlias = tuple[Payloads | pl.DataFrame, Payloads | pl.DataFrame]
"""where the payloads of either side are"""


class Said(NamedTuple):
    """What follows from who meets whom."""

    met: Meetings
    """the meetings that count: of pairs that satisfy the condition, or of which nobody can say it"""
    pairs: list[Batch]
    given_up: GivenUp | None


class Columns(NamedTuple):
    """Some columns of pairs."""

    left: list[str]
    right: dict[str, str]
    """those of the right side, and how they are called"""


@dataclass(frozen=True, slots=True)
class Pairs:
    """The pairs of a `Join` node."""

    node: nodes.Join
    read: Collection[str] | None = None
    """the columns that anybody reads, if not all"""
    where: Formula | None = field(init=False)
    asked: Columns = field(init=False)
    """those that the condition reads"""
    shown: Columns = field(init=False)
    every: Columns = field(init=False)

    def __post_init__(self) -> None:
        where = self.node.where
        formula = None if where is None else Formula(where, self.node.pair_schema, "join where")
        object.__setattr__(self, "where", formula)
        if formula is None and self.node.how == "anti":
            # nobody looks at pairs, whose columns may have the same names
            every = Columns(list(self.node.left.schema), {})
        else:
            every = self._named(self.node.pair_schema)
        object.__setattr__(self, "every", every)
        # something has to say how many rows there are
        object.__setattr__(self, "shown", self._named(self.read) if self.read else every)
        reads = () if formula is None else formula.reads
        object.__setattr__(self, "asked", self._named(reads) if reads else every)

    def _named(self, wanted: Collection[str]) -> Columns:
        left = [name for name in self.node.left.schema if name in wanted]
        right = self.node.right_names
        return Columns(left, {name: called for name, called in right.items() if called in wanted})

    def said(self, port: int, changes: Changes, met: Meetings, sides: Sides) -> Said:
        """What follows from whom the changes of one side meet."""
        given_up, shown = None, met
        if self.where is not None:
            satisfied, given_up = self._satisfied(self.where, port, changes, met, sides)
            shown = _some(met, satisfied == 1)
            met = shown if given_up is None else _some(met, satisfied != 0)
        if self.node.how == "anti" or not len(shown.vs):
            return Said(met, [], given_up)
        return Said(met, [self._batch(port, changes, shown, sides, self.shown)], given_up)

    def _satisfied(
        self, where: Formula, port: int, changes: Changes, met: Meetings, sides: Sides
    ) -> tuple[npt.NDArray[np.int8], GivenUp | None]:
        """Of each pair: 1 if it satisfies the condition, 0 if not, -1 if nobody can say."""
        try:
            values = where.values(self._batch(port, changes, met, sides, self.asked).payload)
        except NoValue:
            # of whom nobody can say it, the whole pair is shown
            return _satisfied_of_some(where, self._batch(port, changes, met, sides, self.every))
        return true_in(values).astype(np.int8), None

    def _batch(
        self, port: int, changes: Changes, met: Meetings, sides: Sides, columns: Columns
    ) -> Batch:
        """How the common lifetimes change, with these columns of the pairs."""
        numbers = numbers_of(port, changes, met)
        left = _taken(sides[_LEFT], numbers[_LEFT], columns.left)
        right = _taken(sides[_RIGHT], numbers[_RIGHT], list(columns.right))
        renamed = [
            right.get_column(name) if name == called else right.get_column(name).alias(called)
            for name, called in columns.right.items()
        ]
        payload = framed([*left.get_columns(), *renamed], len(met.vs))
        return Batch(met.vs, met.old_ve, met.new_ve, payload)


def numbers_of(port: int, changes: Changes, met: Meetings) -> tuple[Ints, Ints]:
    """The payload numbers of the left and of the right event of each pair."""
    mine, theirs = changes.row[met.change], met.row
    return (mine, theirs) if port == _LEFT else (theirs, mine)


def _taken(rows: Payloads | pl.DataFrame, numbers: Ints, names: list[str]) -> pl.DataFrame:
    if isinstance(rows, Payloads):
        return rows.take(numbers, names)
    return taken(some_columns(rows, names), numbers)


def _some(met: Meetings, mask: npt.NDArray[np.bool_]) -> Meetings:
    return met if mask.all() else met.take(np.flatnonzero(mask))


def _satisfied_of_some(where: Formula, pairs: Batch) -> tuple[npt.NDArray[np.int8], GivenUp | None]:
    """The same, where the condition has no value for some of the pairs."""
    try:
        return true_in(where.values(pairs.payload)).astype(np.int8), None
    except NoValue as problem:
        [pair] = pairs.slice(problem.row, problem.row + 1)
        error = problem.of(pair)
        failures = problem.failures()
    satisfied = np.zeros(pairs.rows, dtype=np.int8)
    satisfied[list(failures)] = -1
    known = satisfied == 0
    satisfied[known] = true_in(where.values(pairs.where(known).payload))
    return satisfied, GivenUp(pairs.where(~known), "no value", tuple(failures.values()), error)
