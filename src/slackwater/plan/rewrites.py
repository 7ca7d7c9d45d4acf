"""Rewrites: a plan turned into another that means the same and that can be run.

A rewrite is a function from plan to plan; `REWRITES` is their order. They are applied when a plan is
about to run: `explain` shows the plan as it was written, with the dial placed. Every node that a rewrite
makes is checked as any node is when it is built, and nodes that nothing has changed, sources above all,
stay the same ones.

**groups_at_once** replaces every `GroupApply` by its body over all groups at once. The keys are carried
through the body as columns more, which come first in every schema there and have names of their own:

    group_apply(keys, body)   =   select(keys, rest) . body' . select(carried = keys, *)

where body' keeps groups apart: whatever looks at several rows of the body (aggregates, ranks, sessions,
joins) also compares the carried keys, and what compares whole rows (sets, bags, unions) does so anyway.
The group of a null key is a group: in joins and clips, carried keys match where both are null. As keys
are columns, what is promised of them is promised of groups.

**ranked** makes loops that end with a set carry ranks (ranks.py).

Not here: the choice of algorithms (properties.py), what nodes mean (oracle.py judges the rewrites).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import polars as pl

from slackwater.errors import PlanError
from slackwater.plan import nodes as n
from slackwater.plan.knowledge import AllReported, OrderedBy, Unique
from slackwater.plan.placement import placed
from slackwater.plan.ranks import ranked
from slackwater.punctuations import Punctuation

__all__ = [
    "GROUP",
    "REWRITES",
    "groups_at_once",
    "in_user_terms",
    "promise_in_user_terms",
    "rewritten",
    "user_name",
]

GROUP = "\x01group."
"""How the names of columns begin that carry a key. No user can have named one so by accident.
A zero would do as well, but that Arrow's C interface takes it for the end of the name."""

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
    """Rows that carry groups, with the keys as the columns that they were."""
    rest = [name for name in rows.columns if not name.startswith(GROUP)]
    keys = {user_name(name): name for name in reversed(rows.columns) if name.startswith(GROUP)}
    restored = [pl.col(name).alias(key) for key, name in keys.items() if key not in rest]
    return rows.select(*reversed(restored), *rest) if keys else rows


def promise_in_user_terms(promise: Punctuation) -> Punctuation:
    """A promise about rows that carry groups, with the keys as the columns that they were."""
    known = {name for name, _ in promise.columns}
    return promise.renamed({name: user_name(name) for name in known if user_name(name) not in known})


def user_name(text: str) -> str:
    """A text with columns of which some carry a key, as the user calls them."""
    return text.replace(GROUP, "")


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
    carried = {f"{GROUP}{key}": pl.col(key) for key in keys}
    argument = n.Select(rows, carried | {name: pl.col(name) for name in columns})
    body = _rebuilt(node, argument, tuple(carried))
    restored = {key: pl.col(name) for key, name in zip(keys, carried, strict=True)}
    rest = {name: pl.col(name) for name in body.schema if name not in (*carried, *keys)}
    return n.Select(body, restored | rest)


def _rebuilt(node: n.GroupApply, argument: n.Node, group: tuple[str, ...]) -> n.Node:
    """The body over an argument that carries the group; what is shared in it stays shared."""
    built: dict[n.Node, n.Node] = {node.argument: argument}
    inside = list(n.walk(node.body))
    loops = [inner for inner in inside if isinstance(inner, n.Fixpoint)]
    carried = {name: argument.schema[name] for name in group}
    arguments = {loop: n.Argument(pl.Schema({**carried, **loop.argument.schema})) for loop in loops}
    built |= {loop.argument: carrying for loop, carrying in arguments.items()}
    for inner in inside:
        below = [built[child] for child in inner.inputs]
        if isinstance(inner, n.Fixpoint):
            built[inner] = n.over(inner, below, argument=arguments[inner])
        elif inner not in built:
            built[inner] = _carrying(inner, below, group)
    return built[node.body]


def _carrying(node: n.Node, below: Sequence[n.Node], group: tuple[str, ...]) -> n.Node:
    """A node of a body over inputs that carry the group: it keeps groups apart, and carries it on."""
    match node:
        case n.Select():
            return n.over(node, below, columns={**{c: pl.col(c) for c in group}, **node.columns})
        case n.Aggregate() | n.Rank() | n.Session() | n.Match() | n.Automaton():
            return n.over(node, below, keys=(*group, *node.keys))
        case n.Join():
            both = {name: name for name in group}
            return n.over(node, below, on=both | dict(node.on), nulls_match=group)
        case n.ClipBy():
            return n.over(node, below, on=(*group, *node.on), nulls_match=group)
        case n.GroupApply():
            return _applied(node, below[0], (*group, *node.keys))
        case n.Punctuate(knowledge=Unique(columns)):
            return n.over(node, below, knowledge=Unique((*group, *columns)))
        case n.Punctuate(knowledge=OrderedBy() | AllReported() as known):
            raise PlanError(
                f"group_apply: {known} cannot be said of each group by itself",
                hint="punctuate before the groups are made, by what is known of all of them",
            )
        case _:
            assert isinstance(node, _AS_THEY_ARE), f"{node.name} does not say how it carries a group"
            return n.over(node, below)


REWRITES: tuple[Callable[[n.Node], n.Node], ...] = (groups_at_once, placed, ranked)
