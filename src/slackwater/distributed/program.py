"""A program: a plan in stages, with all that the places where it runs have to know.

It is made once, by whoever starts a query, and sent to the workers. Its fingerprint says whether state
that was written by another program is of any use to this one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import polars as pl

from slackwater.consistency import OutputLatency
from slackwater.errors import PlanError
from slackwater.plan.exchanges import Cut, Stage, cut
from slackwater.plan.nodes import Node, Source, walk
from slackwater.plan.properties import infer, is_disordered, output_latencies
from slackwater.plan.rewrites import rewritten
from slackwater.policies import Progress
from slackwater.runtime.edge import RAISE, OnInvalid
from slackwater.validity import StreamProperties

__all__ = ["Program", "Target", "program_of"]

STATE_VERSION = 1
"""of what buckets remember; another one cannot be read"""


@dataclass(frozen=True)
class Target:
    """Where the rows of a stream go: to which input of which stage, spread by which columns."""

    stage: int
    feed: int
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Program:
    """A plan that is ready to run in so many buckets per stage."""

    cut: Cut
    buckets: int
    latencies: Mapping[Node, OutputLatency]
    """of the nodes of the stages' own plans"""
    progress: Mapping[str, Progress]
    """of the sources, by name"""
    on_invalid: OnInvalid
    properties: StreamProperties = field(default_factory=StreamProperties)

    @property
    def schema(self) -> pl.Schema:
        """The columns of what comes out."""
        return self.cut.root.schema

    def stage(self, number: int) -> Stage:
        """Stages are numbered from 1."""
        return self.cut.stages[number - 1]

    def targets(self, node: Node) -> list[Target]:
        """Where the rows of a source, or of a node that leaves its stage, go."""
        return [
            Target(number, place, feed.columns)
            for number, stage in enumerate(self.cut.stages, 1)
            for place, feed in enumerate(stage.feeds)
            if feed.node is node
        ]

    @property
    def sources(self) -> list[Source]:
        """What it reads."""
        return [node for node in walk(self.cut.root) if isinstance(node, Source)]

    @property
    def fingerprint(self) -> str:
        """Says which programs can go on with each other's state."""
        return hashlib.sha256("\n".join(self.lines()).encode()).hexdigest()

    def lines(self) -> list[str]:
        """All that state depends on, for comparison."""
        order = list(walk(self.cut.root))
        number = {node: i for i, node in enumerate(order)}
        lines = [f"state {STATE_VERSION}, polars {'.'.join(pl.__version__.split('.')[:2])}"]
        lines.append(f"{self.buckets} buckets")
        lines += self.cut.describe()
        for node in order:
            below = ", ".join(str(number[child]) for child in node.inputs)
            lines.append(f"{number[node]} {node.name}({below}) {node.describe()} {node.schema}")
        return lines


def program_of(
    root: Node,
    *,
    buckets: int,
    progress: Mapping[Source, Progress] | None = None,
    on_invalid: OnInvalid = RAISE,
) -> Program:
    """The program of a plan as it was written."""
    if buckets < 1:
        raise PlanError("a plan runs in one bucket or more", detail=f"buckets={buckets!r}")
    if is_disordered(root):
        raise PlanError("a disordered stream cannot leave the plan as it is", hint="finalize() it")
    ready = rewritten(root)
    latencies = output_latencies(ready)
    parts = cut(ready)
    names = [node.stream_name for node in walk(ready) if isinstance(node, Source)]
    if len(set(names)) < len(names):
        raise PlanError(
            "two streams have the same name",
            detail=", ".join(names),
            hint="give each a name of its own: sw.stream(..., name=...)",
        )
    of_stages = {
        own: latencies.get(old, OutputLatency.EAGER)
        for stage in parts.stages
        for own, old in stage.origins.items()
    }
    policies = {source.stream_name: policy for source, policy in (progress or {}).items()}
    return Program(parts, buckets, of_stages, policies, on_invalid, infer(root)[root])
