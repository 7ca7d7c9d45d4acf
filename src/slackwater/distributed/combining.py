"""Combining: what begins and ends together is added up where it is read, before it is sent.

In windows many events of a key begin and end at the same times. Where an aggregate of sums is the first
to look at more than one row, a task that reads does what comes before it, and sends one combined row per
key and window (operators/combined.py):

    source -> where, select, window -> aggregate
    \\_____________ task _____________/ \\_ bucket

So less is shuffled, logged and taken in, by as much as there are events in a window. The answer is the
same to the last bit, and so is every promise: these go the old way, through all operators.

Combined rows pass nobody who judges. So what needs a judge is sent as it is: rows from before the time
that the source had promised when the batch began, which are late; and pieces for which an expression has
no value. How far the source had promised is what the record of the batch before says. Only sources
that were declared to insert and nothing else are combined, and none with ctis among its rows.

Where few rows meet their like, a task gives it up.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from slackwater.consistency import OutputLatency
from slackwater.errors import OperatorError
from slackwater.events import Batch
from slackwater.operators import Step, step_of
from slackwater.operators.combined import Combined
from slackwater.operators.sums import Sums, is_linear
from slackwater.plan import nodes as n
from slackwater.plan.evaluation import NoValue
from slackwater.plan.exchanges import Feed, Stage
from slackwater.plan.preaggregation import is_rounded
from slackwater.times import show
from slackwater.validity import StreamProperties

__all__ = ["Combiner", "Combining", "combining_of"]

PAYS = 2
"""so many rows must become one, or it is not worth it"""


@dataclass(frozen=True)
class Combining:
    """What a task does with the rows of a source before it sends them."""

    chain: tuple[n.Node, ...]
    """what looks at one row, in order"""
    aggregate: n.Aggregate
    """who takes them in; these are nodes of a stage's own plan"""

    def promise(self, before: int) -> int:
        """What the aggregate is promised when the source promises this."""
        for node in self.chain:
            if isinstance(node, n.AlterLifetime):
                before = node.lifetime.promise(before)
        return before

    def require_promised(self, rows: Batch, before: int) -> None:
        """Combined rows were not judged one by one: they must not break what was promised."""
        promised = self.promise(before)
        if rows.rows and int(rows.vs.min()) < promised:
            raise OperatorError(
                "combined rows came behind the promise",
                detail=f"{show(int(rows.vs.min()))} is before {show(promised)}",
                hint="the checkpoint's record of the batch before is not the one that was written",
            )


def combining_of(stage: Stage, feed: Feed) -> Combining | None:
    """How rows that enter a stage may be combined, if they may."""
    if feed.node is not feed.source or not feed.columns or feed.broadcast:
        return None
    if feed.entrance.properties != StreamProperties(insert_only=True) or feed.entrance.disordered:
        return None
    readers: dict[n.Node, list[n.Node]] = {}
    for node in n.walk(*stage.roots):
        for child in node.inputs:
            readers.setdefault(child, []).append(node)
    chain: list[n.Node] = []
    at: n.Node = feed.entrance
    rounded = False
    while True:
        if len(readers.get(at, [])) != 1 or at in stage.roots:
            return None
        [at] = readers[at]
        match at:
            case n.Where() | n.Consistency() | n.Latency():
                pass
            case n.Select() if all(_is_passed(at, column) for column in feed.columns):
                pass
            case n.AlterLifetime():
                rounded = is_rounded(at.lifetime.start) and is_rounded(at.lifetime.end)
            case n.Aggregate() if rounded and _may_combine(at, feed.columns):
                steps = (n.Where, n.Select, n.AlterLifetime)
                return Combining(tuple(node for node in chain if isinstance(node, steps)), at)
            case _:
                return None
        chain.append(at)


def _is_passed(node: n.Select, column: str) -> bool:
    expression = node.columns.get(column)
    if expression is None:
        return False
    bare = expression.meta.undo_aliases()
    return bare.meta.is_column() and bare.meta.output_name() == column


def _may_combine(node: n.Aggregate, columns: tuple[str, ...]) -> bool:
    return (
        not node.per_bucket
        and set(columns) <= set(node.keys)
        and all(map(is_linear, node.aggregations.values()))
    )


class Combiner:
    """Combines the rows of one source, piece by piece."""

    def __init__(self, combining: Combining, before: int | None) -> None:
        """The source had promised that time when the batch began; None if nobody knows."""
        self._steps: list[Step] = [step_of(node, OutputLatency.EAGER) for node in combining.chain]
        node = combining.aggregate
        sums = Sums(node.aggregations, node.input.schema, node.schema)
        self._combined = Combined(pl.Schema({key: node.schema[key] for key in node.keys}), sums)
        self._before = before
        self._pays = True

    def shares(self, rows: Batch) -> list[tuple[Batch, int]]:
        """What is sent, and for how many rows it stands: 0 if it is the rows as they are."""
        as_it_is = [(rows, 0)]
        if self._before is None or not self._pays or not rows.rows:
            return as_it_is
        late = rows.vs < self._before
        some = rows.where(~late) if late.any() else rows
        try:
            sums = self._added_up(some)
        except NoValue:
            # who judges says which rows these are
            return as_it_is
        self._pays = PAYS * sums.rows <= some.rows
        if not sums.rows or not self._pays:
            return as_it_is
        return [(sums, some.rows), (rows.where(late), 0)]

    def _added_up(self, rows: Batch) -> Batch:
        for step in self._steps:
            said = step.on_batch(step.open(), 0, rows)
            # what it may promise by itself is promised in the buckets
            passed = said if isinstance(said, Batch) else said.rows
            assert passed is not None, "what looks at one row answers it at once"
            rows = passed
        return self._combined.of(rows)
