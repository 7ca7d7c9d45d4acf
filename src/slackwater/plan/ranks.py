"""Ranks: a loop whose body ends with a set, or with the least value of each group, made to carry ranks.

    fixpoint(distinct . body)                       every row once
    fixpoint(distinct . min(v) by keys . body)      of every group the least value (or the largest)

Such a loop ends on cycles, too: what is derived again is not news. But what is derived from itself must
not keep itself alive, so every row says in which round it was derived (operators/support.py). The body
is rewritten to carry that as one column more:

    what comes from outside   0
    rows of the loop          one more than what they were derived by (the operator sees to it)
    a pair of two such        the larger of the two

and the last step of the body becomes the choice of the best, `Fixpoint.best`. Behind the loop ranks are
left out, and lifetimes that only they cut are put together:

    distinct . (min(v) by keys) . select(all but rank) . fixpoint'(choose . body')

Windows cannot be on such a loop: rows are in pieces there, and have no start or end that means anything.

A loop whose body does not read it is its body.
"""

from __future__ import annotations

import polars as pl

from slackwater.errors import PlanError
from slackwater.plan import nodes as n
from slackwater.plan.aggregations import Max, Min
from slackwater.plan.loops import turning

__all__ = ["RANK", "ranked"]

RANK = "\x01rank"
"""The column that says in which round a row was derived. No user can have named one so by accident."""
_OTHER = "\x01other rank"
_OF_LIFETIMES = (n.AlterLifetime, n.Deletes, n.PointAtEnd)
"""nodes for which a row in two pieces is not the same"""


def ranked(root: n.Node) -> n.Node:
    """The plan, with loops that choose the best in a form that can be run."""
    built: dict[n.Node, n.Node] = {}
    for node in n.walk(root):
        new = n.over(node, [built[child] for child in node.inputs])
        if isinstance(new, n.Fixpoint):
            new = _loop(new)
        built[node] = new
    return built[root]


def _loop(loop: n.Fixpoint) -> n.Node:
    on_loop = dict.fromkeys(turning(loop))
    body = loop.body
    if body not in on_loop:
        return body
    while isinstance(body, n.Consistency | n.Latency):
        body = body.input
    if loop.best is not None or not isinstance(body, n.Distinct):
        return loop
    for node in on_loop:
        if isinstance(node, _OF_LIFETIMES):
            raise PlanError(
                f"fixpoint: {node.name} {node.describe()}".rstrip() + " cannot be on a loop of a set",
                detail="it asks when a row starts or ends; what goes round is cut as its support is",
                hint="put it before the stream enters the loop, or behind the fixpoint",
            )
    source, best = _best(body)
    argument = n.Argument(pl.Schema({**loop.schema, RANK: pl.Int64()}))
    built: dict[n.Node, n.Node] = {loop.argument: argument}
    for node in n.walk(source):
        if node in on_loop and node not in built:
            built[node] = _carrying(node, built)
    columns = {**{name: pl.col(name) for name in loop.schema}, RANK: pl.col(RANK)}
    if best.value is not None:
        assert isinstance(body.input, n.Aggregate)
        [[columns[best.value]]] = [each.values for each in body.input.aggregations.values()]
    candidates = n.Select(built[source], columns)
    turned = n.over(loop, [candidates], argument=argument, best=best)
    behind: n.Node = n.Select(turned, {name: pl.col(name) for name in loop.schema})
    if best.value is not None:
        choose = Max if best.descending else Min
        behind = n.Aggregate(behind, best.keys, {best.value: choose(values=(pl.col(best.value),))})
    return n.Distinct(behind)


def _best(body: n.Distinct) -> tuple[n.Node, n.Best]:
    """What the last step of a body chooses from, and how."""
    last = body.input
    if not isinstance(last, n.Aggregate):
        return last, n.Best(tuple(body.schema), None, False, RANK)
    aggregations = list(last.aggregations.items())
    name, aggregation = aggregations[0]
    if len(aggregations) > 1 or not isinstance(aggregation, Min | Max) or aggregation.where is not None:
        raise PlanError(
            f"fixpoint: Aggregate {last.describe()} cannot be on the loop",
            detail="more rows of the loop could make another answer of it, and that fewer rows",
            hint="one sw.min or one sw.max, of all rows of a group, followed by distinct()",
        )
    return last.input, n.Best(last.keys, name, isinstance(aggregation, Max), RANK)


def _carrying(node: n.Node, built: dict[n.Node, n.Node]) -> n.Node:
    """A node on the loop, over inputs of which some carry a rank: it carries it on, as a last column."""
    below = [built.get(child, child) for child in node.inputs]
    rank = {RANK: pl.col(RANK)}
    match node:
        case n.Select():
            return n.over(node, below, columns={**node.columns, **rank})
        case n.Union():
            return n.over(node, [each if RANK in each.schema else _first(each) for each in below])
        case n.Join():
            left, right = below
            if RANK in left.schema and RANK in right.schema:
                names = {name: pl.col(name) for name in node.right.schema}
                right = n.Select(right, {**names, _OTHER: pl.col(RANK)})
                rank = {RANK: pl.max_horizontal(RANK, _OTHER)}
            joined = n.over(node, [left, right])
            return n.Select(joined, {**{name: pl.col(name) for name in node.schema}, **rank})
        case _:
            return n.over(node, below)


def _first(node: n.Node) -> n.Select:
    """Rows from outside the loop."""
    columns = {name: pl.col(name) for name in node.schema}
    return n.Select(node, {**columns, RANK: pl.lit(0, dtype=pl.Int64)})
