"""Reading: which columns of a node's output anybody looks at.

Who puts rows together out of others may leave out what nobody reads. Only selections read less than
there is, also through conditions that lie between: all others look at whole rows, if only to tell them
apart, and so do those outside. What is promised of a stream speaks of all its columns, whoever reads
them.
"""

from __future__ import annotations

from collections.abc import Sequence

from slackwater.plan.evaluation import columns_in
from slackwater.plan.nodes import Node, Select, Where, walk

__all__ = ["columns_read"]


def columns_read(roots: Sequence[Node]) -> dict[Node, frozenset[str]]:
    """Of every node of a plan the columns that are read, where roots are read by somebody else."""
    order = list(walk(*roots))
    read: dict[Node, set[str]] = {node: set() for node in order}
    for root in roots:
        read[root].update(root.schema)
    # readers before what they read
    for node in reversed(order):
        for child in node.inputs:
            read[child] |= _read_below(node, read[node])
    return {node: frozenset(names) for node, names in read.items()}


def _read_below(node: Node, read: set[str]) -> set[str]:
    """What is read of a node's input, if so much is read of its output."""
    match node:
        case Select():
            names = (columns_in(each, node.input.schema) for each in node.columns.values())
            return {name for some in names for name in some}
        case Where():
            return {*read, *columns_in(node.predicate, node.schema)}
        case _:
            return {name for child in node.inputs for name in child.schema}
