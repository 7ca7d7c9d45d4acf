"""A program: a plan in stages, with all that the places where it runs have to know.

It is made once, by whoever starts a query, and sent to the workers. Its fingerprint says whether state
that was written by another program is of any use to this one.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass

import polars as pl

from slackwater.consistency import OutputLatency
from slackwater.distributed.combining import Combining, combining_of
from slackwater.errors import PlanError
from slackwater.plan.code import digest_of
from slackwater.plan.consequences import Consequences
from slackwater.plan.exchanges import Cut, Feed, Stage, cut
from slackwater.plan.functions import Function, functions_in
from slackwater.plan.interest import outdated_below, unwanted_below
from slackwater.plan.nodes import Node, Source, walk
from slackwater.plan.preaggregation import preaggregated
from slackwater.plan.properties import infer, is_disordered, output_latencies
from slackwater.plan.rewrites import rewritten
from slackwater.policies import Progress
from slackwater.punctuations import Promise
from slackwater.runtime.controlled import less_than_the_answer
from slackwater.runtime.edge import RAISE, OnInvalid
from slackwater.validity import StreamProperties

__all__ = ["Program", "Target", "program_of"]

STATE_VERSION = 18
"""of what buckets remember; another one cannot be read"""


@dataclass(frozen=True)
class Target:
    """Where the rows of a stream go: to which input of which stage, spread by which columns."""

    stage: int
    feed: int
    columns: tuple[str, ...] | None
    """None: rows do not go there, only how far the stream is"""


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
    functions: tuple[Function, ...] = ()
    """the user's own, which expressions know by name only: they have to come along"""
    tells_back: bool = False
    """whether replicas are told what is of no interest of them any more"""
    aligned: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """the sources that wait for each other's tokens, by name, and their origins where these are known"""
    holds_back: str = ""
    """if some are: why less is shown than the answer to what was let in, which the token names"""

    @property
    def schema(self) -> pl.Schema:
        """The columns of what comes out."""
        return self.cut.root.schema

    @property
    def origins_of_answer(self) -> list[str]:
        """The buckets that the answer comes from, by name."""
        return ["0"] if self.cut.spread == () else [str(bucket) for bucket in range(self.buckets)]

    def stage(self, number: int) -> Stage:
        """Stages are numbered from 1."""
        return self.cut.stages[number - 1]

    def targets(self, node: Node) -> list[Target]:
        """Where the rows of a source, or of a node that leaves its stage, go."""
        to = [
            Target(number, place, feed.columns)
            for number, stage in enumerate(self.cut.stages, 1)
            for place, feed in enumerate(stage.feeds)
            if feed.node is node
        ]
        for number, stage in enumerate(self.cut.stages, 1):
            watched = [feed.node for feed in self.watched_feeds(number)]
            if node in watched:
                to.append(Target(number, len(stage.feeds) + watched.index(node), None))
        return to

    def combining(self, source: Source) -> Combining | None:
        """How the rows of a source are combined before they are sent, if they are."""
        to = self.targets(source)
        if self.functions or len(to) != 1 or to[0].columns is None:
            return None
        stage = self.stage(to[0].stage)
        return combining_of(stage, stage.feeds[to[0].feed])

    def policy(self, source: Source) -> Progress:
        """How the partitions of a source come to promise something."""
        return self.progress.get(source.stream_name, Progress())

    def unwanted(self, told: Sequence[Promise]) -> dict[Node, list[Promise]]:
        """What of every stream between two stages is of no interest, if that of the answer is not."""
        return unwanted_below(self.cut.root, output_latencies(self.cut.root), told)

    def outdated(self, before: int) -> dict[Node, int]:
        """Before which times events end that every stream between two stages need not tell."""
        return outdated_below(self.cut.root, output_latencies(self.cut.root), before)

    def watched_feeds(self, number: int) -> list[Feed]:
        """Streams that do not enter a stage, but whose promise an idle source of it would follow."""
        entering = [feed for feed in self.stage(number).feeds if feed.has_partitions]
        if not any(f.source and self.policy(f.source).idle is not None for f in entering):
            return []
        here = [feed.source for feed in entering]
        elsewhere: dict[Node, Feed] = {}
        for stage in self.cut.stages:
            for feed in stage.feeds:
                # replicas are heard by who merges them; what is mended in a stage, not in the same one
                if not feed.has_partitions or feed.source in here or feed.entrance.replicated:
                    continue
                if number > 1 or not feed.mended:
                    elsewhere.setdefault(feed.node, feed)
        return list(elsewhere.values())

    def consequences(self, number: int) -> Consequences:
        """What follows, in the answer, from what nodes and entrances of a stage give up."""
        return Consequences(self.cut.root, stands_for=self.stage(number).stands_for)

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
        plain = _unnumbered(order)
        for node in order:
            below = ", ".join(str(number[child]) for child in node.inputs)
            # people read the description; two that read alike may differ in what it leaves out
            written = plain("".join(e.meta.serialize(format="json") for e in _expressions(node)))
            digest = hashlib.sha256(written.encode()).hexdigest()[:8] if written else ""
            known = ""
            if isinstance(node, Source):
                policy = self.progress.get(node.stream_name, Progress())
                known = f"{', '.join(node.properties.names())}; {policy}"
                if node.stream_name in self.aligned:
                    known += "; aligned"
            said = f"{node.name}({below}) {node.describe()} {dict(node.schema)} {digest} {known}"
            lines.append(plain(f"{number[node]} {said}".rstrip()))
            lines += _codes(node)
        return lines


def program_of(
    root: Node,
    *,
    buckets: int,
    progress: Mapping[Source, Progress] | None = None,
    on_invalid: OnInvalid = RAISE,
    turnable: bool = False,
    tells_back: bool = False,
    aligned: Collection[Source] = (),
) -> Program:
    """The program of a plan as it was written."""
    if buckets < 1:
        raise PlanError("a plan runs in one bucket or more", detail=f"buckets={buckets!r}")
    if is_disordered(root):
        raise PlanError("a disordered stream cannot leave the plan as it is", hint="finalize() it")
    for source, policy in (progress or {}).items():
        if source.disordered and policy.lateness is not None:
            raise PlanError(
                f"a lateness cannot be promised of the disordered stream {source.stream_name!r}",
                detail="an adjust may come before what it adjusts, however late that is",
                hint="count with external ctis; consistency(memory=...) gives up what is later",
            )
    ready = preaggregated(rewritten(root, turnable=turnable))
    parts = cut(ready)
    latencies = output_latencies(parts.root)
    names = [node.stream_name for node in walk(ready) if isinstance(node, Source)]
    if len(set(names)) < len(names):
        raise PlanError(
            "two streams have the same name",
            detail=", ".join(names),
            hint="give each a name of its own: sw.stream(..., name=...)",
        )
    of_stages = {own: latencies[old] for stage in parts.stages for own, old in stage.origins.items()}
    policies = {source.stream_name: policy for source, policy in (progress or {}).items()}
    for source in aligned:
        policies.setdefault(source.stream_name, Progress())
    functions = {each.column: each for node in walk(ready) for each in _functions(node)}
    holds_back = _holding_back(root, turnable=turnable) if aligned else ""
    return Program(
        parts, buckets, of_stages, policies, on_invalid, infer(root)[root], tuple(functions.values()),
        tells_back, {each.stream_name: policies[each.stream_name].origins for each in aligned},
        holds_back,
    )  # fmt: skip


def _holding_back(root: Node, *, turnable: bool) -> str:
    """Why a plan shows less than the answer to what it has taken in; or nothing."""
    if turnable:
        return "its dial can be turned: what is shown may lack what waits"
    problem = less_than_the_answer(root)
    return "" if problem is None else problem.detail


def _expressions(node: Node) -> Iterator[pl.Expr]:
    """All expressions of a node, in the order of its fields; not those of its inputs."""
    return (part for part in _parts(node) if isinstance(part, pl.Expr))


def _parts(value: object) -> Iterator[object]:
    if isinstance(value, Mapping):
        for each in value.values():
            yield from _parts(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _parts(each)
    elif is_dataclass(value) and not isinstance(value, type):
        for each in fields(value):
            part = getattr(value, each.name)
            if not isinstance(part, Node):
                yield from _parts(part)
    else:
        yield value


def _codes(node: Node) -> Iterator[str]:
    """What users' functions of a node run: one of the same name may do another thing by now."""
    python = ".".join(map(str, sys.version_info[:2]))
    for each in (*_parts(node), *(each.function for each in _functions(node))):
        if callable(each) and not isinstance(each, type):
            name = getattr(each, "__name__", type(each).__name__)
            yield f"function {name}: {digest_of(each)} in Python {python}"


def _unnumbered(nodes: list[Node]) -> Callable[[str], str]:
    """Writes the columns of user functions by their place in the plan.

    Their own names count the functions of a process, and would be others after a restart.
    """
    columns = dict.fromkeys(each.column for node in nodes for each in _functions(node))
    names = {column: f"function {place}" for place, column in enumerate(columns)}

    def plain(text: str) -> str:
        # the longest first: one may be the beginning of another
        for column in sorted(names, key=len, reverse=True):
            for spelling in (json.dumps(column)[1:-1], column):
                text = text.replace(spelling, names[column])
        return text

    return plain


def _functions(node: Node) -> Iterator[Function]:
    waiting = list(_expressions(node))
    while waiting:
        for each in functions_in(waiting.pop()).values():
            yield each
            waiting += each.arguments
