"""Operators: how each node computes. One file per operator, found by its node's name.

`step_of` is the only way in: it knows which nodes have an operator, and refuses the others by name.
Nodes that only annotate a plan (the dial, the output latency) have none and are passed through.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from slackwater.consistency import OutputLatency
from slackwater.errors import PlanError
from slackwater.operators.aggregate import Aggregate
from slackwater.operators.align import Align
from slackwater.operators.alter_lifetime import AlterLifetime
from slackwater.operators.automaton import Automaton
from slackwater.operators.chop import Chop
from slackwater.operators.cleanse import cleanse
from slackwater.operators.clip_by import ClipBy
from slackwater.operators.deletes import Deletes
from slackwater.operators.finalize import finalize
from slackwater.operators.fixpoint import Fixpoint
from slackwater.operators.join import Join
from slackwater.operators.match import Match
from slackwater.operators.merge import Merge
from slackwater.operators.point_at_end import PointAtEnd
from slackwater.operators.punctuate import punctuate
from slackwater.operators.rank import Rank
from slackwater.operators.select import Select
from slackwater.operators.session import Session
from slackwater.operators.setops import SetOperation
from slackwater.operators.sort import Sort
from slackwater.operators.step import Answer, Description, GivenUp, Now, Step, wall_clock
from slackwater.operators.union import Union
from slackwater.operators.where import Where
from slackwater.plan import nodes

__all__ = ["Answer", "Description", "GivenUp", "Now", "Step", "runnable", "step_of", "wall_clock"]

_STEPS: dict[type[nodes.Node], Callable[[Any], Step]] = {
    nodes.Where: Where,
    nodes.Select: Select,
    nodes.AlterLifetime: AlterLifetime,
    nodes.Deletes: Deletes,
    nodes.PointAtEnd: PointAtEnd,
    nodes.Chop: Chop,
    nodes.ClipBy: ClipBy,
    nodes.Session: Session,
    nodes.Match: Match,
    nodes.Automaton: Automaton,
    nodes.Union: Union,
    nodes.Sort: Sort,
    nodes.Cleanse: cleanse,
    nodes.Fixpoint: Fixpoint,
}
_LATENT: dict[type[nodes.Node], Callable[[Any, OutputLatency], Step]] = {
    nodes.Aggregate: Aggregate,
    nodes.Rank: Rank,
    nodes.Join: Join,
    nodes.Distinct: SetOperation,
    nodes.Intersect: SetOperation,
    nodes.Difference: SetOperation,
}
"""operators that show snapshots, for which the output latency matters"""
_CHOOSING: dict[type[nodes.Node], Callable[[Any, OutputLatency], Step]] = {nodes.Merge: Merge}
"""operators that are chosen by what is known of their inputs, which depends on the output latency"""
_TIMED: dict[type[nodes.Node], Callable[[Any, Now, bool], Step]] = {
    nodes.Align: lambda node, now, told: Align(node, now, told=told),
    nodes.Finalize: lambda node, now, told: finalize(node, now, told=told),
    nodes.Punctuate: lambda node, now, told: punctuate(node, atomic=told),
}
"""operators that go by how far the stream is, or by the clock"""


def runnable(kind: type[nodes.Node]) -> bool:
    """Whether there is an operator for this kind of node."""
    return any(kind in known for known in (_STEPS, _LATENT, _CHOOSING, _TIMED))


def step_of(
    node: nodes.Node,
    latency: OutputLatency,
    now: Now = wall_clock,
    *,
    told: bool = False,
    read: Collection[str] | None = None,
) -> Step:
    """The operator of a node; refused by name where there is none yet.

    `latency` concerns operators that show snapshots; the others emit whole rows at once. `now` tells
    system time to those that need it. With `told` only a share of the rows is here, and how far the
    sources are comes with every batch (`Reached`). `read` are the columns of its output that anybody
    reads, if not all: who puts rows together may leave the others out.
    """
    if not runnable(type(node)):
        known = ", ".join(kind.__name__ for kind in (*_STEPS, *_LATENT, *_CHOOSING, *_TIMED))
        raise PlanError(
            f"{node.name} cannot be run yet",
            detail=f"operators exist for: {known}",
            hint="query.meaning(inputs) computes the answer of any plan, slowly",
        )
    if isinstance(node, nodes.Join):
        return Join(node, latency, read)
    if type(node) in _LATENT:
        return _LATENT[type(node)](node, latency)
    if type(node) in _CHOOSING:
        return _CHOOSING[type(node)](node, latency)
    if type(node) in _TIMED:
        return _TIMED[type(node)](node, now, told)
    return _STEPS[type(node)](node)
