"""Rewrites: a plan turned into another that means the same and that can be run.

A rewrite is a function from plan to plan; `REWRITES` is their order. They are applied when a plan is
about to run: `explain` shows the plan as it was written, with the dial placed. Every node that a rewrite
makes is checked as any node is when it is built, and nodes that nothing has changed, sources above all,
stay the same ones.

**groups_at_once** replaces every `GroupApply` by its body over all groups at once. The group is carried
through the body as one more column, a struct of the keys, which comes first in every schema there:

    group_apply(keys, body)   =   select(keys, rest) . body' . select(group = struct(keys), *)

where body' keeps groups apart: whatever looks at several rows of the body (aggregates, ranks, sessions,
joins) also compares the group, and what compares whole rows (sets, bags, unions) does so anyway. The
group of null keys is a group: a struct of nulls is not null, so that it equals itself in joins, too.

Not here: the choice of algorithms (properties.py), what nodes mean (oracle.py judges the rewrites).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import polars as pl

from slackwater.errors import PlanError
from slackwater.plan import nodes as n
from slackwater.plan.knowledge import AllReported, OrderedBy, Unique
from slackwater.plan.placement import placed

__all__ = ["GROUP", "REWRITES", "groups_at_once", "in_user_terms", "rewritten"]

GROUP = "\0group"
"""The column that carries the group. No user can have named one so by accident."""

_AS_THEY_ARE = (
    n.Where,
    n.AlterLifetime,
    n.Deletes,
    n.PointAtEnd,
    n.Chop,
    n.Union,
    n.Distinct,
    n.Intersect,
    n.Difference,
    n.Sort,
    n.Align,
    n.Cleanse,
    n.Finalize,
    n.Punctuate,
    n.Consistency,
    n.Latency,
    n.Merge,
)
"""Nodes that treat the rows of each group alike if the group is one of the columns."""


def rewritten(root: n.Node, *, turnable: bool = False) -> n.Node:
    """The plan after all rewrites; with `turnable`, one whose dial can be turned while it runs."""
    for rewrite in REWRITES:
        root = placed(root, turnable=True) if turnable and rewrite is placed else rewrite(root)
    return root


def in_user_terms(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows that carry the group, with the keys as the columns that they were."""
    while GROUP in rows.columns:
        rest = [name for name in rows.columns if name != GROUP]
        dtype = rows.schema[GROUP]
        keys = [field.name for field in dtype.fields] if isinstance(dtype, pl.Struct) else []
        restored = [pl.col(GROUP).struct.field(key) for key in keys if key not in rest]
        rows = rows.select(*restored, *rest)
    return rows


def groups_at_once(root: n.Node) -> n.Node:
    """The plan without `GroupApply`."""
    built: dict[n.Node, n.Node] = {}
    for node in n.walk(root):
        below = [built[child] for child in node.inputs]
        if isinstance(node, n.GroupApply):
            built[node] = _applied(node, below[0], node.keys)
        else:
            built[node] = n.over(node, below)
    return built[root]


def _applied(node: n.GroupApply, rows: n.Node, keys: Iterable[str]) -> n.Node:
    """The body over all groups of the rows, by these keys; then the keys and the body's columns."""
    keys = tuple(dict.fromkeys(keys))
    columns = node.argument.schema.names()
    assert GROUP not in columns, "the argument is as the user wrote it"
    # without keys there is one group
    group = {GROUP: pl.struct(*keys) if keys else pl.lit(0)}
    body = _rebuilt(node, n.Select(rows, group | {name: pl.col(name) for name in columns}))
    restored = {key: pl.col(GROUP).struct.field(key) for key in keys}
    rest = {name: pl.col(name) for name in body.schema if name not in (GROUP, *keys)}
    return n.Select(body, restored | rest)


def _rebuilt(node: n.GroupApply, argument: n.Node) -> n.Node:
    """The body over an argument that carries the group; what is shared in it stays shared."""
    built: dict[n.Node, n.Node] = {node.argument: argument}
    inside = list(n.walk(node.body))
    loops = [inner for inner in inside if isinstance(inner, n.Fixpoint)]
    arguments = {loop: _with_group(loop.argument, argument.schema[GROUP]) for loop in loops}
    built |= {loop.argument: carrying for loop, carrying in arguments.items()}
    for inner in inside:
        below = [built[child] for child in inner.inputs]
        if isinstance(inner, n.Fixpoint):
            built[inner] = n.Fixpoint(arguments[inner], *below)
        elif inner not in built:
            built[inner] = _carrying(inner, below)
    return built[node.body]


def _with_group(argument: n.Argument, dtype: pl.DataType) -> n.Argument:
    return n.Argument(pl.Schema({GROUP: dtype, **argument.schema}))


def _carrying(node: n.Node, below: Sequence[n.Node]) -> n.Node:
    """A node of a body over inputs that carry the group: it keeps groups apart, and carries it on."""
    match node:
        case n.Select():
            return n.over(node, below, columns={GROUP: pl.col(GROUP), **node.columns})
        case n.Aggregate() | n.Rank() | n.Session():
            return n.over(node, below, keys=(GROUP, *node.keys))
        case n.Join():
            return n.over(node, below, on={GROUP: GROUP, **node.on})
        case n.ClipBy():
            return n.over(node, below, on=(GROUP, *node.on))
        case n.GroupApply():
            return _applied(node, below[0], (GROUP, *node.keys))
        case n.Punctuate(knowledge=Unique(columns)):
            return n.over(node, below, knowledge=Unique((GROUP, *columns)))
        case n.Punctuate(knowledge=OrderedBy() | AllReported() as known):
            raise PlanError(
                f"group_apply: {known} cannot be said of each group by itself",
                hint="punctuate before the groups are made, by what is known of all of them",
            )
        case _:
            assert isinstance(node, _AS_THEY_ARE), f"{node.name} does not say how it carries a group"
            return n.over(node, below)


REWRITES: tuple[Callable[[n.Node], n.Node], ...] = (groups_at_once, placed)
