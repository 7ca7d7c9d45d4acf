"""Operators: how each node computes. One file per operator, found by its node's name.

`step_of` is the only way in: it knows which nodes have an operator, and refuses the others by name.
Nodes that only annotate a plan (the dial, the output latency) have none and are passed through.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from slackwater.consistency import OutputLatency
from slackwater.errors import PlanError
from slackwater.operators.aggregate import Aggregate
from slackwater.operators.alter_lifetime import AlterLifetime
from slackwater.operators.chop import Chop
from slackwater.operators.deletes import Deletes
from slackwater.operators.point_at_end import PointAtEnd
from slackwater.operators.select import Select
from slackwater.operators.setops import SetOperation
from slackwater.operators.step import Answer, Description, Step
from slackwater.operators.union import Union
from slackwater.operators.where import Where
from slackwater.plan import nodes

__all__ = ["Answer", "Description", "Step", "runnable", "step_of"]

_STEPS: dict[type[nodes.Node], Callable[[Any], Step]] = {
    nodes.Where: Where,
    nodes.Select: Select,
    nodes.AlterLifetime: AlterLifetime,
    nodes.Deletes: Deletes,
    nodes.PointAtEnd: PointAtEnd,
    nodes.Chop: Chop,
    nodes.Union: Union,
    nodes.Distinct: SetOperation,
    nodes.Intersect: SetOperation,
    nodes.Difference: SetOperation,
}


def runnable(kind: type[nodes.Node]) -> bool:
    """Whether there is an operator for this kind of node."""
    return kind in _STEPS or kind is nodes.Aggregate


def step_of(node: nodes.Node, latency: OutputLatency) -> Step:
    """The operator of a node; refused by name where there is none yet.

    `latency` concerns operators that show snapshots; the others emit whole rows at once.
    """
    if not runnable(type(node)):
        known = ", ".join(kind.__name__ for kind in (*_STEPS, nodes.Aggregate))
        raise PlanError(
            f"{node.name} cannot be run yet",
            detail=f"operators exist for: {known}",
            hint="query.meaning(inputs) computes the answer of any plan, slowly",
        )
    if isinstance(node, nodes.Aggregate):
        return Aggregate(node, latency)
    return _STEPS[type(node)](node)
