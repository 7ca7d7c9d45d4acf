"""Carried columns: by what the rows of a loop can be spread, so that it turns in every bucket by itself.

A column of a loop is *carried* if every row has in it what the rows have that it was derived from: it
comes round unchanged. In

    reach(a, b)  <-  link(a, b)
    reach(a, c)  <-  reach(a, b), link(b, c)

that is `a`. So rows that differ in `a` never meet, and a bucket that has the links from some values of
`a` derives all that follows from them, if it has all that these meet:

- what becomes rows of the loop (the inputs of unions) is spread by the carried columns;
- what meets them in a join on carried columns is spread in the same way;
- what meets them in any other join is broadcast.

If some join is on carried columns, only those count that it is on, so that nothing need be broadcast to
it. If the loop chooses the best (ranks.py), all that it chooses among must be together: only the keys
count. A loop that carries nothing turns in one bucket.

Columns are followed back from the result: through what keeps rows as they are, plain columns of selects,
all ways of a union, and joins, of which two sides that both turn must agree in the column. Whoever joins
may say himself what is broadcast; but not the loop, whose rows are where they are.

Paper 3 does not say how recursion is spread; docs/design/2026-11-18-recursion.md does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from slackwater.errors import PlanError
from slackwater.plan import nodes as n
from slackwater.plan.loops import inputs_of, require_runnable, require_turning, turning
from slackwater.plan.properties import output_latencies
from slackwater.plan.rewrites import user_name

__all__ = [
    "EVERYWHERE", "Carried", "Columns", "by_columns", "carried", "loops_in", "sent_to_loops",
]  # fmt: skip

Columns = tuple[str, ...]
"""by which columns a stream is spread; none: all of it is in bucket 0

Inside a group_apply keys are fields of the group's column (rewrites.py), and are named so here.
"""

EVERYWHERE: Columns = ("\0everywhere",)
"""not by columns at all: every bucket has all rows"""


@dataclass(frozen=True, eq=False)
class Carried:
    """By what a loop can be spread. All of it is in one stage."""

    loop: n.Fixpoint
    columns: Columns
    """the columns of the loop, any of which will do; none: it turns in one bucket"""
    names: Mapping[n.Node, Mapping[str, str]]
    """for each node on the loop, how it calls them"""
    entering: Mapping[tuple[n.Node, int], Mapping[str, str] | None]
    """for each input of the loop, how it calls them; None: it is broadcast"""
    why_not: Mapping[str, str]
    """what becomes of the others"""

    def describe(self, by: Columns) -> str:
        """For people: by what the loop is spread, or why it is not."""
        if by:
            return by_columns(by)
        if self.columns:
            return "in one bucket, where its inputs are"
        reasons = "; ".join(f"{column} {why}" for column, why in self.why_not.items())
        return f"in one bucket, since no column comes round unchanged ({reasons})"

    def wished(self, wish: Columns | None) -> Columns:
        """The columns by which it may be spread, and its readers would like it to be."""
        liked = tuple(c for c in self.columns if wish is not None and c in wish)
        return liked or self.columns

    def chosen(self, wish: Columns | None, spread: Mapping[n.Node, Columns | None]) -> Columns:
        """By which of them: what an input has already, if it is enough; else what readers would like."""
        if all(spread[node.inputs[port]] == () for node, port in self.entering):
            return ()
        for (node, port), called in self.entering.items():
            has = spread[node.inputs[port]]
            own = {called[c]: c for c in self.columns} if called else {}
            if has and set(has) <= set(own):
                return tuple(own[name] for name in has)
        return self.wished(wish)

    def inputs(self, by: Columns) -> list[tuple[n.Node, Columns]]:
        """All that enters the loop, and by which columns it must be spread."""
        return [
            (node.inputs[port], _called(called, by)) for (node, port), called in self.entering.items()
        ]

    def inputs_of(self, node: n.Node, by: Columns) -> list[tuple[n.Node, Columns | None]]:
        """What a node on the loop reads. What turns is there: None."""
        entering = self.entering
        return [
            (child, _called(entering[node, port], by) if (node, port) in entering else None)
            for port, child in enumerate(node.inputs)
        ]

    def called_by(self, node: n.Node, by: Columns) -> Columns:
        """How a node on the loop calls the columns by which it is spread."""
        return by if node is self.loop else tuple(self.names[node][c] for c in by)


def _called(names: Mapping[str, str] | None, by: Columns) -> Columns:
    return EVERYWHERE if names is None and by else tuple((names or {})[c] for c in by)


def by_columns(columns: Columns) -> str:
    """For people."""
    return f"by {', '.join(map(user_name, columns))}" if columns else "in one bucket"


def loops_in(root: n.Node) -> dict[n.Node, Carried]:
    """For each node on a loop, and for the one that closes it, by what that loop can be spread."""
    found: dict[n.Node, Carried] = {}
    for node in n.walk(root):
        if isinstance(node, n.Fixpoint):
            found |= dict.fromkeys((*turning(node), node), carried(node))
    return found


def sent_to_loops(root: n.Node) -> n.Node:
    """The plan with joins on loops that say which side is broadcast; what cannot turn is refused."""
    loops = [node for node in n.walk(root) if isinstance(node, n.Fixpoint)]
    latencies = output_latencies(root) if loops else {}
    sides: dict[n.Node, n.Side | None] = {}
    for loop in loops:
        require_turning(loop)
        require_runnable(loop, latencies)
        sides |= _sides(loop)
    built: dict[n.Node, n.Node] = {}
    for node in n.walk(root) if sides else ():
        new = n.over(node, [built[child] for child in node.inputs])
        if node in sides:
            assert isinstance(new, n.Join), "only joins have sides"
            new = replace(new, broadcast=sides[node])
        built[node] = new
    return built.get(root, root)


def _sides(loop: n.Fixpoint) -> dict[n.Node, n.Side | None]:
    """The joins on a loop for which another side is to be broadcast than they say, and which."""
    on_loop = dict.fromkeys(turning(loop))
    found: dict[n.Node, n.Side | None] = {}
    known = carried(loop)
    for node in on_loop:
        if not isinstance(node, n.Join):
            continue
        outside = _outside(node, on_loop)
        if node.broadcast is not None and node.broadcast != outside:
            raise PlanError(
                f"fixpoint: the {node.broadcast} side of a join on the loop cannot be broadcast",
                detail="it turns with the loop, whose rows stay where they are",
                hint="" if outside is None else f"broadcast={outside!r}, or nothing: it is chosen",
            )
        if outside is None:
            continue
        port = ("left", "right").index(outside)
        side = outside if known.entering[node, port] is None else None
        if side != node.broadcast:
            found[node] = side
    return found


def carried(loop: n.Fixpoint) -> Carried:
    """By what a loop can be spread."""
    on_loop = dict.fromkeys(turning(loop))
    names: dict[n.Node, dict[str, str]] = {node: {} for node in on_loop}
    why_not: dict[str, str] = {}
    for column in loop.schema if loop.best is None else loop.best.keys:
        traced = _traced(loop, on_loop, column)
        if isinstance(traced, str):
            why_not[column] = traced
            continue
        for node, name in traced.items():
            names[node][column] = name
    columns = tuple(names[loop.argument])
    entering: dict[tuple[n.Node, int], dict[str, str] | None] = {}
    for node, port in inputs_of(loop):
        if isinstance(node, n.Join):
            met = _partners(node, port, names)
            common = tuple(column for column in columns if column in met)
            columns = common or columns
            # of a loop in one bucket, all are there
            entering[node, port] = met if common or not columns else None
        else:
            entering[node, port] = names[node]
    return Carried(loop, columns, names, entering, why_not)


def _traced(loop: n.Fixpoint, on_loop: dict[n.Node, None], column: str) -> dict[n.Node, str] | str:
    """How the nodes on a loop call a column that comes round unchanged; or why it does not."""
    found: dict[n.Node, str] = {loop.body: column}
    # readers before what they read
    for node in reversed(on_loop):
        name = found[node]
        for port, child in enumerate(node.inputs):
            if child not in on_loop:
                continue
            below = _below(node, port, name, on_loop)
            if below is None:
                return _replaced(node, on_loop)
            if found.setdefault(child, below) != below:
                return "is one column this way and another that way"
    name = found[loop.argument]
    return found if name == column else f"was {name} before"


def _below(node: n.Node, port: int, name: str, on_loop: dict[n.Node, None]) -> str | None:
    """The column of an input that turns which is this one of the node's, in every row."""
    match node:
        case n.Select():
            bare = node.columns[name].meta.undo_aliases()
            return bare.meta.output_name() if bare.meta.is_column() else None
        case n.Join() if _outside(node, on_loop) is None:
            # both must have it: it is what they are joined on
            return (name if port == 0 else node.on[name]) if name in node.on else None
        case n.Join() if port == 0:
            return name if name in node.left.schema else None
        case n.Join():
            back = {called: own for own, called in node.right_names.items()}
            return node.on.get(name) or back.get(name)
        case _:
            return name


def _replaced(node: n.Node, on_loop: dict[n.Node, None]) -> str:
    if not isinstance(node, n.Join):
        return "is computed"
    both = _outside(node, on_loop) is None
    return "need not be the same in two rows that are joined" if both else "comes from what is joined"


def _outside(node: n.Join, on_loop: dict[n.Node, None]) -> n.Side | None:
    """The side of a join on a loop that does not turn; None if both do."""
    if node.left in on_loop:
        return None if node.right in on_loop else "right"
    return "left"


def _partners(node: n.Join, port: int, names: Mapping[n.Node, Mapping[str, str]]) -> dict[str, str]:
    """The columns of what a loop meets in a join that must equal carried ones."""
    if node.broadcast is not None:
        return {}
    if port == 1:
        own, on = names[node.left], dict(node.on)
    else:
        own, on = names[node.right], {right: left for left, right in node.on.items()}
    return {column: on[name] for column, name in own.items() if name in on}
