"""Loops: what of a plan turns with a fixpoint, and what may.

The loop of a `Fixpoint` is all that lies between its argument and its body. What is read there from
outside is an *input* of the loop.

An operator on the loop must answer without waiting for a promise (S2: not Align, Finalize, Cleanse,
Sort, Punctuate; nor may it hold rows back for its output latency), and no element that it says may be
earlier than the one that caused it (S3: no window that moves a row back). What a guess about the time
becomes on its way through an operator is what a cti would (S1, `through`): all that may be there answer
with what the least of their inputs has promised, in their own time.

Recursion has a least answer if more rows of the loop never make fewer: the loop cannot be the right side
of an anti join, or be counted. `is_linear` says which operators treat every row of the loop by itself.

Paper 3 sections 3.3 and 3.4; erratum 24.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product

from slackwater.consistency import MIDDLE, OutputLatency
from slackwater.errors import PlanError
from slackwater.plan import nodes as n
from slackwater.punctuations import Closings, Promise, some_of

__all__ = [
    "carried",
    "in_order",
    "inputs_of",
    "is_linear",
    "require_runnable",
    "require_turning",
    "through",
    "turning",
]

_LINEAR = (
    n.Argument,
    n.Where,
    n.Select,
    n.AlterLifetime,
    n.Deletes,
    n.PointAtEnd,
    n.Chop,
    n.Union,
    n.Consistency,
    n.Latency,
)
"""nodes that treat every row by itself"""
_WAITING = (n.Align, n.Cleanse, n.Finalize, n.Sort, n.Punctuate, n.Merge)


def turning(loop: n.Fixpoint) -> list[n.Node]:
    """The nodes on the loop, the argument first, each behind those that it reads."""
    found: dict[n.Node, None] = {loop.argument: None}
    for node in n.walk(loop.body):
        if any(child in found for child in node.inputs):
            found[node] = None
    return list(found)


def inputs_of(loop: n.Fixpoint) -> list[tuple[n.Node, int]]:
    """Where the loop is entered from outside: which nodes on it, at which ports."""
    on_loop = dict.fromkeys(turning(loop))
    return [
        (node, port)
        for node in on_loop
        for port, child in enumerate(node.inputs)
        if child not in on_loop
    ]


def in_order(root: n.Node, loops: Iterable[n.Fixpoint]) -> Iterator[n.Node]:
    """All nodes of a plan, inputs before readers; whatever enters a loop before anything that turns."""
    entering: dict[n.Node, list[n.Node]] = {
        loop.argument: [node.inputs[port] for node, port in inputs_of(loop)] for loop in loops
    }
    seen: set[n.Node] = set()
    stack = [(root, False)]
    while stack:
        node, inputs_done = stack.pop()
        if inputs_done:
            yield node
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            below = entering.get(node, node.inputs)
            stack += ((child, False) for child in reversed(below))


def through(node: n.Node, time: int) -> int:
    """What a promise about time becomes on its way through a node on a loop."""
    return node.lifetime.promise(time) if isinstance(node, n.AlterLifetime) else time


def carried(node: n.Node, port: int, told: Promise) -> list[Promise]:
    """What rows with such payloads look like behind a node on a loop, as far as they keep columns.

    A pattern may come to say less; nothing is promised by that.
    """
    match node:
        case n.Select():
            names: dict[str, list[str]] = {}
            for name, expression in node.columns.items():
                plain = expression.meta.undo_aliases()
                if plain.meta.is_column():
                    names.setdefault(plain.meta.output_name(), []).append(name)
            kept = some_of(told, names)
            if kept is None:
                return []
            columns = kept.keys.columns if isinstance(kept, Closings) else [c for c, _ in kept.columns]
            ways = product(*(names[column] for column in columns))
            return [kept.renamed(dict(zip(columns, way, strict=True))) for way in ways]
        case n.Join() if port == 1:
            of_keys = {right: left for left, right in node.on.items()}
            others = dict(node.right_names) if node.how != "anti" else {}
            kept = some_of(told, {**of_keys, **others})
            return [] if kept is None else [kept.renamed({**of_keys, **others})]
        case _:
            return [told]


def is_linear(node: n.Node, on_loop: Mapping[n.Node, None]) -> bool:
    """Whether a node on a loop gives for more rows of the loop what it gives for each."""
    if isinstance(node, n.Join):
        right = node.right in on_loop
        return node.how == "inner" or (node.how in ("left", "anti") and not right)
    return isinstance(node, _LINEAR)


def require_turning(loop: n.Fixpoint) -> None:
    """Refuse what can never be on a loop."""
    for node in turning(loop):
        if isinstance(node, _WAITING):
            raise PlanError(
                f"fixpoint: {node.name} cannot be on the loop",
                detail="it waits for promises, which the loop makes of what comes out of it",
                hint="put it before the stream enters the loop, or behind the fixpoint",
            )
        if isinstance(node, n.Consistency) and node.dial != MIDDLE:
            raise PlanError(
                f"fixpoint: the dial cannot be turned on the loop ({node.describe()})",
                detail="what turns there is neither held back nor given up",
                hint="turn it where the stream enters the loop, or behind the fixpoint",
            )
        if isinstance(node, n.AlterLifetime) and not node.lifetime.is_forward:
            raise PlanError(
                f"fixpoint: {node.name} {node.describe()} cannot be on the loop",
                detail="it may move rows back in time, so that nothing would ever be final",
                hint="put it before the stream enters the loop, or behind the fixpoint",
            )


def require_runnable(loop: n.Fixpoint, latencies: Mapping[n.Node, OutputLatency]) -> None:
    """Refuse what has a meaning on a loop but cannot be computed there."""
    on_loop = dict.fromkeys(turning(loop))
    for node in on_loop:
        if isinstance(node, n.Fixpoint):
            raise PlanError(
                "fixpoint: a loop within a loop cannot depend on it",
                detail="the body of the inner one reads the rows of the outer one",
                hint="one fixpoint over the union of both, with a column that says which",
            )
        if latencies[node] is not OutputLatency.EAGER:
            raise PlanError(f"fixpoint: {node.name} on the loop can only be EAGER")
        if not is_linear(node, on_loop):
            raise PlanError(
                f"fixpoint: {node.name} cannot be on the loop".replace("  ", " "),
                detail=f"{node.describe() or 'it'} looks at several rows of the loop at once",
                hint="distinct, perhaps of a min or a max by group, can be the last step of the body",
            )
