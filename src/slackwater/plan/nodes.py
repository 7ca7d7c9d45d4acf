"""Every node of a plan. Reads as a grammar: what a node is made of, and what it refuses.

A node is immutable and checked when it is built; its schema is known from then on. Nodes are compared
by identity: a node that two others consume is one node, and runs once. What a node means is in
oracle.py under its name, how it runs in operators/ under its name, how it is written in query.py.

`Argument` stands for the stream that a subplan (`GroupApply`) or a loop body (`Fixpoint`) is applied to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, TypeAlias

import polars as pl

from slackwater.consistency import Clock, Dial, OutputLatency
from slackwater.errors import PlanError
from slackwater.merging import MergePolicy
from slackwater.plan.aggregations import Aggregation, RankSpec
from slackwater.plan.expressions import type_of
from slackwater.plan.functions import shown
from slackwater.plan.knowledge import Knowledge
from slackwater.plan.lifetimes import Lifetime
from slackwater.plan.matching import (
    AfterMatch,
    Pattern,
    Reference,
    columns_in,
    read_plainly,
    references_in,
    symbols_of,
)
from slackwater.plan.schemas import require_columns, require_free, schema_of
from slackwater.speculation import HighWaterMark, Hybrid, Probing, Speculation
from slackwater.times import INF, show_length
from slackwater.validity import StreamProperties

__all__ = [
    "Aggregate",
    "Align",
    "AlterLifetime",
    "Argument",
    "Automaton",
    "Best",
    "Chop",
    "Cleanse",
    "ClipBy",
    "Consistency",
    "Deletes",
    "Difference",
    "Distinct",
    "Finalize",
    "Fixpoint",
    "GroupApply",
    "Intersect",
    "Join",
    "Latency",
    "Match",
    "Merge",
    "Node",
    "PointAtEnd",
    "Punctuate",
    "Rank",
    "Select",
    "Session",
    "Sort",
    "Source",
    "Union",
    "Where",
    "over",
    "walk",
]

How: TypeAlias = Literal["inner", "left", "full", "anti"]
Side: TypeAlias = Literal["left", "right"]
_SHOWS = MergePolicy()
_HYBRID = Hybrid()
Algorithm: TypeAlias = Literal["auto", "R0", "R1", "R2", "R3", "R3-", "R4"]


@dataclass(frozen=True, eq=False)
class Node:
    """One step of a plan. `ports` names the fields that hold the nodes it reads."""

    ports: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        require_free(self.schema)
        for child in self.inputs:
            if isinstance(child, Source) and child.replicated and not isinstance(self, Merge):
                raise PlanError(
                    f"{self.name} cannot read {child.stream_name!r}, which has several replicas",
                    detail="each of them tells the whole stream, in its own way",
                    hint="sw.merge(stream) makes one stream of them",
                )

    @cached_property
    def schema(self) -> pl.Schema:
        """Names and types of the output's payload columns."""
        raise NotImplementedError

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The nodes it reads, in order of its ports."""
        found: list[Node] = []
        for port in self.ports:
            value = getattr(self, port)
            found += value if isinstance(value, tuple) else [value]
        return tuple(found)

    @property
    def name(self) -> str:
        """How people call this kind of node."""
        return type(self).__name__

    def describe(self) -> str:
        """Its settings, on one line, without its inputs."""
        return ""


@dataclass(frozen=True, eq=False)
class Source(Node):
    """A stream that comes from outside."""

    stream_name: str
    columns: Mapping[str, object]
    properties: StreamProperties
    disordered: bool = False
    """elements come in any order, adjusts before what they adjust; external ctis say what is complete"""
    replicated: bool = False
    """it comes in any number of replicas, each of which tells all of it: for a merge"""

    @cached_property
    def schema(self) -> pl.Schema:
        if not self.columns:
            raise PlanError("a stream needs at least one column")
        return schema_of(self.columns)

    def __post_init__(self) -> None:
        super().__post_init__()
        known = self.properties
        if self.disordered and (known.ordered or known.strictly_increasing or known.vs_payload_key):
            raise PlanError(
                f"{self.stream_name}: a disordered stream can only be declared insert_only or "
                "never_lengthens",
                detail=f"it was declared {', '.join(known.names())}",
                hint="these say something of the order in which elements come",
            )
        if self.disordered and self.replicated:
            raise PlanError(
                f"{self.stream_name}: replicas of a disordered stream cannot be merged",
                detail="a merge compares what they say, element by element",
                hint="let each replica be a query that brings its elements into order (finalize)",
            )

    def describe(self) -> str:
        how = " disordered" if self.disordered else " replicated" if self.replicated else ""
        return f"{self.stream_name}{how}"


@dataclass(frozen=True, eq=False)
class Argument(Node):
    """The stream that a subplan or a loop body is applied to."""

    argument_schema: pl.Schema

    @cached_property
    def schema(self) -> pl.Schema:
        return self.argument_schema


@dataclass(frozen=True, eq=False)
class _SameSchema(Node):
    """A node whose rows look like those it reads."""

    ports: ClassVar[tuple[str, ...]] = ("input",)

    input: Node

    @cached_property
    def schema(self) -> pl.Schema:
        return self.input.schema


@dataclass(frozen=True, eq=False)
class Where(_SameSchema):
    """The rows that satisfy a predicate; with `promises` it says at its start that none does not."""

    predicate: pl.Expr
    promises: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        dtype = type_of(self.predicate, self.schema, "where")
        if dtype != pl.Boolean:
            raise PlanError("where: a predicate must be true or false", detail=f"it is {dtype}")

    def describe(self) -> str:
        return shown(self.predicate) + (", promised" if self.promises else "")


@dataclass(frozen=True, eq=False)
class Select(Node):
    """Payloads mapped, lifetimes kept."""

    ports: ClassVar[tuple[str, ...]] = ("input",)

    input: Node
    columns: Mapping[str, pl.Expr]

    @cached_property
    def schema(self) -> pl.Schema:
        if not self.columns:
            raise PlanError("select: at least one column is needed")
        types = {n: type_of(e, self.input.schema, f"select {n}") for n, e in self.columns.items()}
        return schema_of(types)

    def describe(self) -> str:
        return ", ".join(
            name if str(e) == f'col("{name}")' else f"{name} = {shown(e)}"
            for name, e in self.columns.items()
        )


@dataclass(frozen=True, eq=False)
class AlterLifetime(_SameSchema):
    """Every row with a new lifetime, computed from its old one."""

    lifetime: Lifetime

    def describe(self) -> str:
        return str(self.lifetime)


@dataclass(frozen=True, eq=False)
class Deletes(_SameSchema):
    """Every row from its end on: [ve, INF)."""


@dataclass(frozen=True, eq=False)
class PointAtEnd(_SameSchema):
    """Every row at the instant of its end: [ve, ve + 1)."""


@dataclass(frozen=True, eq=False)
class Chop(_SameSchema):
    """Every row cut at the multiples of a period."""

    period: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.period <= 0:
            raise PlanError("chop: the period must be longer than zero", detail=f"it is {self.period}")

    def describe(self) -> str:
        return f"every {show_length(self.period)}"


@dataclass(frozen=True, eq=False)
class ClipBy(Node):
    """Every row ends at the first start in `other`, with equal `on`, strictly after its own start."""

    ports: ClassVar[tuple[str, ...]] = ("input", "other")

    input: Node
    other: Node
    on: tuple[str, ...]
    nulls_match: tuple[str, ...] = ()
    """the key columns in which null equals null: those that carry a group"""

    @cached_property
    def schema(self) -> pl.Schema:
        return self.input.schema

    def __post_init__(self) -> None:
        super().__post_init__()
        _same_key_types(self.input.schema, self.other.schema, {k: k for k in self.on}, "clip")

    def describe(self) -> str:
        return f"on {', '.join(self.on)}"


@dataclass(frozen=True, eq=False)
class Session(_SameSchema):
    """[vs, last vs of its session + gap): rows closer than gap, per key, are one session."""

    gap: int
    keys: tuple[str, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        require_columns(self.schema, self.keys, "session")

    def describe(self) -> str:
        return f"gap {show_length(self.gap)}" + (f" by {', '.join(self.keys)}" if self.keys else "")


@dataclass(frozen=True, eq=False)
class Union(Node):
    """All rows of several streams with equal columns."""

    ports: ClassVar[tuple[str, ...]] = ("streams",)

    streams: tuple[Node, ...]

    @cached_property
    def schema(self) -> pl.Schema:
        return _one_schema(self.streams, "union")


@dataclass(frozen=True, eq=False)
class Join(Node):
    """Pairs of rows that match, alive while both are; the rest as `how` says.

    `on` maps left columns to the right columns they must equal. `where` is a further condition over the
    joined columns. Right columns that bear a left column's name get `suffix`; right key columns are
    left out, being equal.
    """

    ports: ClassVar[tuple[str, ...]] = ("left", "right")

    left: Node
    right: Node
    on: Mapping[str, str]
    where: pl.Expr | None
    how: How
    suffix: str
    broadcast: Side | None = None
    """the side that is sent to every bucket, so that the other one can stay where it is"""
    nulls_match: tuple[str, ...] = ()
    """the key columns, of both sides, in which null equals null: those that carry a group"""

    @cached_property
    def right_names(self) -> dict[str, str]:
        """Right columns that appear in the pairs, and how they are called there."""
        keys = set(self.on.values())
        left = self.left.schema
        return {
            name: f"{name}{self.suffix}" if name in left else name
            for name in self.right.schema
            if name not in keys
        }

    @cached_property
    def pair_schema(self) -> pl.Schema:
        """The columns of a pair of matching rows."""
        columns = dict(self.left.schema)
        for name, called in self.right_names.items():
            if called in columns:
                raise PlanError(
                    f"join: two columns would be called {called!r}",
                    hint="choose another suffix=, or rename with select",
                )
            columns[called] = self.right.schema[name]
        return pl.Schema(columns)

    @cached_property
    def schema(self) -> pl.Schema:
        return self.left.schema if self.how == "anti" else self.pair_schema

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.how not in ("inner", "left", "full", "anti"):
            raise PlanError(f"join: how={self.how!r} is not known", hint="inner, left, full or anti")
        self._require_broadcast()
        _same_key_types(self.left.schema, self.right.schema, self.on, "join")
        if self.where is not None:
            dtype = type_of(self.where, self.pair_schema, "join where")
            if dtype != pl.Boolean:
                raise PlanError("join: where must be true or false", detail=f"it is {dtype}")

    def _require_broadcast(self) -> None:
        """A row without a partner is told where it is, hence it must be in one place."""
        side = self.broadcast
        if side not in (None, "left", "right"):
            raise PlanError(f"join: broadcast={side!r} is not known", hint="left or right")
        if side is None or self.how == "inner" or (side == "right" and self.how in ("left", "anti")):
            return
        told = "both sides" if self.how == "full" else "the left side"
        raise PlanError(
            f"join: the {side} side of a {self.how} join cannot be broadcast",
            detail=f"rows of {told} without a partner would be told by every bucket",
            hint="broadcast='right' goes with inner, left and anti, broadcast='left' with inner",
        )

    def describe(self) -> str:
        keys = [left if left == right else f"{left} = {right}" for left, right in self.on.items()]
        condition = "" if self.where is None else f" where {shown(self.where)}"
        sent = "" if self.broadcast is None else f", broadcast {self.broadcast}"
        return f"{self.how} on {', '.join(keys) or 'nothing (cross)'}{condition}{sent}"


@dataclass(frozen=True, eq=False)
class Distinct(_SameSchema):
    """At every instant the set of payloads, with maximal lifetimes."""


@dataclass(frozen=True, eq=False)
class _Comparison(Node):
    """Two streams with equal columns, as sets, or with `bag` as bags."""

    ports: ClassVar[tuple[str, ...]] = ("left", "right")

    left: Node
    right: Node
    bag: bool

    @cached_property
    def schema(self) -> pl.Schema:
        return _one_schema((self.left, self.right), self.name.lower())

    def describe(self) -> str:
        return "all" if self.bag else ""


@dataclass(frozen=True, eq=False)
class Intersect(_Comparison):
    """At every instant the payloads that both streams have."""


@dataclass(frozen=True, eq=False)
class Difference(_Comparison):
    """At every instant the payloads of the left stream that the right one lacks."""


@dataclass(frozen=True, eq=False)
class Aggregate(Node):
    """For each group, one row per snapshot in which an event is alive."""

    ports: ClassVar[tuple[str, ...]] = ("input",)

    input: Node
    keys: tuple[str, ...]
    aggregations: Mapping[str, Aggregation]
    per_bucket: bool = False
    """of the rows that a bucket has; another aggregate follows, of what all have (preaggregation.py)"""

    @cached_property
    def schema(self) -> pl.Schema:
        require_columns(self.input.schema, self.keys, "group_by")
        if not self.aggregations:
            raise PlanError("aggregate: at least one aggregation is needed", hint="n=sw.count()")
        columns = {key: self.input.schema[key] for key in self.keys}
        for name, aggregation in self.aggregations.items():
            if name in columns:
                raise PlanError(f"aggregate: {name!r} is a key already", hint="choose another name")
            if not isinstance(aggregation, Aggregation):
                raise PlanError(
                    f"aggregate: {name!r} is not an aggregation",
                    detail=f"it is {aggregation!r}",
                    hint="for example n=sw.count(), mean=sw.avg('temp'); rank stands alone",
                )
            columns[name] = aggregation.result_type(self.input.schema, f"aggregate {name}")
        return schema_of(columns)

    def describe(self) -> str:
        by = f" by {', '.join(self.keys)}" if self.keys else ""
        by += ", per bucket" if self.per_bucket else ""
        return ", ".join(f"{name} = {a}" for name, a in self.aggregations.items()) + by


@dataclass(frozen=True, eq=False)
class Rank(Node):
    """For each group and snapshot, one row per live event: its columns and its place."""

    ports: ClassVar[tuple[str, ...]] = ("input",)

    input: Node
    keys: tuple[str, ...]
    column: str
    rank: RankSpec

    @cached_property
    def schema(self) -> pl.Schema:
        require_columns(self.input.schema, self.keys, "group_by")
        dtype = type_of(self.rank.by, self.input.schema, "rank")
        if dtype.is_nested():
            raise PlanError("rank: values must have an order", detail=f"they are {dtype}")
        if self.column in self.input.schema:
            raise PlanError(f"rank: {self.column!r} is a column already", hint="choose another name")
        return schema_of({**self.input.schema, self.column: pl.Int64()})

    def describe(self) -> str:
        by = f" by {', '.join(self.keys)}" if self.keys else ""
        return f"{self.column} = {self.rank}{by}"


@dataclass(frozen=True, eq=False)
class Match(Node):
    """For each group, a row for every match of a pattern in its rows, in order of (vs, payload).

    `where` has conditions of symbols: of a symbol that has none, any row will do.
    """

    ports: ClassVar[tuple[str, ...]] = ("input",)

    input: Node
    keys: tuple[str, ...]
    pattern: Pattern
    where: Mapping[str, pl.Expr]
    measures: Mapping[str, pl.Expr]
    after: AfterMatch

    @cached_property
    def references(self) -> dict[str, Reference]:
        """All that conditions and measures say of the rows taken so far, by the columns for it."""
        found: dict[str, Reference] = {}
        for expression in (*self.where.values(), *self.measures.values()):
            found |= references_in(expression)
        return found

    @cached_property
    def test_schema(self) -> pl.Schema:
        """What conditions can read: a row, and what is said of those that were taken, with it."""
        types = {name: r.type_over(self.input.schema, "match") for name, r in self.references.items()}
        return pl.Schema({**self.input.schema, **types})

    @cached_property
    def schema(self) -> pl.Schema:
        require_columns(self.input.schema, self.keys, "group_by")
        columns = {key: self.input.schema[key] for key in self.keys}
        for name, expression in self.measures.items():
            if name in columns:
                raise PlanError(f"match: {name!r} is a key already", hint="choose another name")
            columns[name] = type_of(expression, self.test_schema, f"match {name}")
        if not columns:
            raise PlanError(
                "match: nothing is asked of a match",
                hint="match('A B* C', total=sw.matched('B').sum('price'))",
            )
        return schema_of(columns)

    def __post_init__(self) -> None:
        for named in (self.where, self.measures):
            for name, expression in named.items():
                if not isinstance(expression, pl.Expr):
                    raise PlanError(
                        f"match: {name} is given {expression!r}, which is not an expression",
                        hint="where={'A': sw.col('price') > 10}, total=sw.matched('A').sum('price')",
                    )
        self._require_symbols()
        super().__post_init__()
        for symbol, condition in self.where.items():
            dtype = type_of(condition, self.test_schema, f"match where {symbol}")
            if dtype != pl.Boolean:
                raise PlanError(
                    f"match: the condition of {symbol} must be true or false", detail=f"it is {dtype}"
                )
        if not isinstance(self.after, AfterMatch):
            raise PlanError(
                f"match: {self.after!r} does not say where the next match begins",
                hint="after=sw.PAST_LAST_ROW or sw.TO_NEXT_ROW",
            )

    def _require_symbols(self) -> None:
        """Conditions and references speak of symbols of the pattern, measures of matches alone."""
        known = symbols_of(self.pattern)
        unbound = [(symbol, f"condition of {symbol}") for symbol in self.where if symbol not in known]
        named = [(f"condition of {s}", e) for s, e in self.where.items()] + [*self.measures.items()]
        for who, expression in named:
            symbols = {reference.symbol for reference in references_in(expression).values()}
            unbound += [
                (symbol, who) for symbol in symbols if symbol is not None and symbol not in known
            ]
        if unbound:
            symbol, who = unbound[0]
            raise PlanError(
                f"match: there is no symbol {symbol!r} in the pattern",
                detail=f"{who}; the pattern {self.pattern} has: {', '.join(known)}",
            )
        for name, expression in self.measures.items():
            alone = [*columns_in([expression])]
            alone += [str(r) for r in references_in(expression).values() if r.kind == "previous"]
            if alone:
                raise PlanError(
                    f"match: the measure {name!r} reads {alone[0]!r}, of no row in particular",
                    detail="a match has many rows",
                    hint="sw.matched('A').last('price'), or first, sum, count, min, max, avg",
                )

    def describe(self) -> str:
        said = [f"{self.pattern}"]
        said += [f"{symbol}: {read_plainly(condition)}" for symbol, condition in self.where.items()]
        measures = ", ".join(f"{name} = {read_plainly(e)}" for name, e in self.measures.items())
        by = f" by {', '.join(self.keys)}" if self.keys else ""
        return f"{', '.join(said)}; {measures or 'no measures'}{by}, next match {self.after.value}"


@dataclass(frozen=True, eq=False)
class GroupApply(Node):
    """The subplan `body`, for each group by itself. The group's keys are columns of the result.

    A column of the body's that bears a key's name gives way to the key.
    """

    ports: ClassVar[tuple[str, ...]] = ("input",)

    input: Node
    keys: tuple[str, ...]
    argument: Argument
    body: Node

    @cached_property
    def schema(self) -> pl.Schema:
        require_columns(self.input.schema, self.keys, "group_by")
        keys = {key: self.input.schema[key] for key in self.keys}
        rest = {name: dtype for name, dtype in self.body.schema.items() if name not in keys}
        return schema_of({**keys, **rest})

    def __post_init__(self) -> None:
        super().__post_init__()
        _only_reads(self.body, self.argument, "group_apply")

    def describe(self) -> str:
        return f"by {', '.join(self.keys)}"


@dataclass(frozen=True, eq=False)
class Sort(_SameSchema):
    """The rows, released in order of a column as punctuations allow."""

    by: tuple[str, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.by:
            raise PlanError("sort: at least one column is needed", hint="sort('temp')")
        require_columns(self.schema, self.by, "sort")

    def describe(self) -> str:
        return f"by {', '.join(self.by)}"


@dataclass(frozen=True, eq=False)
class Align(_SameSchema):
    """The same history, held back for up to `blocking`, or until a cti releases it in sync order."""

    blocking: int
    clock: Clock = Clock.APPLICATION
    perfect: bool = False
    turnable: bool = False
    """whether the dial may be turned while it runs: `blocking` is then where it begins"""
    in_order: bool = True
    """if perfect: whether nothing with a later vs overtakes a row"""

    def __post_init__(self) -> None:
        super().__post_init__()
        # refuses what no dial can say
        Dial(blocking=self.blocking, clock=self.clock, perfect=self.perfect)

    def describe(self) -> str:
        until = "until the end is known" if self.perfect else show_length(self.blocking)
        return f"blocking={until}{_unit(self.clock)}"


@dataclass(frozen=True, eq=False)
class Cleanse(_SameSchema):
    """The same history as a perfect stream: ordered, and nothing is ever taken back.

    If not `in_order`, each row as soon as its own end is known: nothing is taken back.
    """

    in_order: bool = True

    def describe(self) -> str:
        return "" if self.in_order else "in any order"


@dataclass(frozen=True, eq=False)
class Finalize(_SameSchema):
    """The same history, minus what a memory of `memory` gives up (into the ledger)."""

    memory: int
    clock: Clock = Clock.APPLICATION
    turnable: bool = False
    """as in `Align`"""

    def __post_init__(self) -> None:
        super().__post_init__()
        # refuses what no dial can say
        Dial(memory=self.memory, clock=self.clock)

    def describe(self) -> str:
        return f"memory={show_length(self.memory)}{_unit(self.clock)}"


@dataclass(frozen=True, eq=False)
class Punctuate(_SameSchema):
    """The same history with promises embedded: of time, or of what else is known of the payloads.

    Of time: no row is later than `lateness` behind the largest vs.
    """

    lateness: int = INF
    knowledge: Knowledge | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lateness < 0:
            raise PlanError("punctuate: lateness cannot be negative", detail=f"it is {self.lateness}")
        if self.knowledge is not None:
            assert self.lateness == INF, "one node, one thing that is known"
            self.knowledge.require(self.schema)

    def describe(self) -> str:
        return (
            f"lateness {show_length(self.lateness)}" if self.knowledge is None else str(self.knowledge)
        )


@dataclass(frozen=True, eq=False)
class Consistency(_SameSchema):
    """The same history, computed at a point of the consistency spectrum."""

    dial: Dial

    def describe(self) -> str:
        return str(self.dial)


@dataclass(frozen=True, eq=False)
class Latency(_SameSchema):
    """The same history; snapshot operators below show as much of the open future as it says."""

    latency: OutputLatency

    def describe(self) -> str:
        return self.latency.value


@dataclass(frozen=True, eq=False)
class Merge(Node):
    """The common history of several physical streams of one logical stream."""

    ports: ClassVar[tuple[str, ...]] = ("streams",)

    streams: tuple[Node, ...]
    algorithm: Algorithm = "auto"
    policy: MergePolicy = _SHOWS

    @cached_property
    def schema(self) -> pl.Schema:
        return _one_schema(self.streams, "merge")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.algorithm not in ("auto", "R0", "R1", "R2", "R3", "R3-", "R4"):
            raise PlanError(
                f"merge: algorithm {self.algorithm!r} is not known", hint="auto, or R0 to R4"
            )
        if not isinstance(self.policy, MergePolicy):
            raise PlanError(f"merge: {self.policy!r} is no policy", hint="sw.merge_policy(...)")
        if self.algorithm == "R1" and self.policy.gaps:
            raise PlanError(
                "merge: R1 counts the rows of a start, so no input may lack one of them",
                hint="without gaps=True, or algorithm='auto', which takes another",
            )
        if self.algorithm == "R3-" and self.policy != MergePolicy():
            raise PlanError("merge: R3- knows no policies", hint="it is there to be compared with R3")
        if self.replicated is None and any(_is_replicated(stream) for stream in self.streams):
            raise PlanError(
                "merge: a replicated stream is merged by itself",
                detail=f"there are {len(self.streams)} streams",
                hint="sw.merge(sw.merge(replicated), other)",
            )

    @property
    def replicated(self) -> Source | None:
        """The stream whose replicas are its inputs, as many as there come to be; else there is none."""
        only = self.streams[0] if len(self.streams) == 1 else None
        return only if isinstance(only, Source) and only.replicated else None

    def describe(self) -> str:
        asked = "" if self.algorithm == "auto" else f"{self.algorithm}, "
        return f"{asked}{self.policy}"


@dataclass(frozen=True, eq=False)
class Automaton(Node):
    """Every way through a constant automaton, from every row on, over rows at consecutive places.

    The transitions are a table: from which state, to which, by which symbol, and further columns, which
    conditions and registers may read, as those of the rows.
    """

    ports: ClassVar[tuple[str, ...]] = ("input",)

    input: Node
    keys: tuple[str, ...]
    place: str
    symbol: str
    table: pl.DataFrame
    start: pl.Series
    """one value: where all begin"""
    registers: Mapping[str, tuple[pl.Series, pl.Expr]]
    """the first value of each, and how it goes on"""
    where: pl.Expr | None

    @cached_property
    def further(self) -> list[str]:
        """The columns of rows that are read by conditions and registers alone."""
        own = (*self.keys, self.place, self.symbol)
        return [name for name in self.input.schema if name not in own]

    @cached_property
    def ways(self) -> pl.Schema:
        """What a way through it looks like."""
        state = self.table.schema.dtypes()[0]
        registers = {name: first.dtype for name, (first, _) in self.registers.items()}
        return schema_of({"begin": pl.Int64(), "end": pl.Int64(), "state": state, **registers})

    @cached_property
    def step_schema(self) -> pl.Schema:
        """What conditions and registers can read: a way, the next row, and a transition."""
        rows = {name: self.input.schema[name] for name in self.further}
        return pl.Schema({**self.ways, **rows, **dict([*self.table.schema.items()][3:])})

    @cached_property
    def schema(self) -> pl.Schema:
        return schema_of({**{key: self.input.schema[key] for key in self.keys}, **self.ways})

    def __post_init__(self) -> None:
        super().__post_init__()
        before, after, by, *_ = self.table.schema.dtypes()
        if before != after or before != self.start.dtype:
            raise PlanError(
                "automaton: states are of different types",
                detail=f"from {before}, to {after}, and the first is {self.start.dtype}",
            )
        if by != self.input.schema[self.symbol]:
            raise PlanError(
                "automaton: symbols and transitions have symbols of different types",
                detail=f"{self.input.schema[self.symbol]} and {by}",
                hint="cast one of them",
            )
        for name, (first, update) in self.registers.items():
            dtype = type_of(update, self.step_schema, f"automaton: register {name}")
            if dtype != first.dtype:
                raise PlanError(
                    f"automaton: the register {name!r} goes on as another type",
                    detail=f"it begins as {first.dtype} and goes on as {dtype}",
                    hint="cast the one or the other",
                )
        if self.where is not None:
            dtype = type_of(self.where, self.step_schema, "automaton where")
            if dtype != pl.Boolean:
                raise PlanError("automaton: where must be true or false", detail=f"it is {dtype}")

    def describe(self) -> str:
        first = {name: first.item() for name, (first, _) in self.registers.items()}
        registers = [f"{name} = {first[name]}, {shown(e)}" for name, (_, e) in self.registers.items()]
        condition = [] if self.where is None else [f"where {shown(self.where)}"]
        said = "; ".join([f"from {self.start.item()!r}", *registers, *condition])
        by = f" by {', '.join(self.keys)}" if self.keys else ""
        return f"native, its {self.table.height} transitions being constant: {said}{by}"


@dataclass(frozen=True, slots=True)
class Best:
    """Of every key the rows that are better than all of smaller rank: a lesser value, or a larger."""

    keys: tuple[str, ...]
    value: str | None
    """None: a key is all that there is"""
    descending: bool
    rank: str
    """the column that says in which round a row was derived"""


@dataclass(frozen=True, eq=False)
class Fixpoint(Node):
    """The least history R with R = body(R): the bag of derivations.

    With `best`, which ranks.py puts there, R is the best of body(R), and its ranks are one more.
    """

    ports: ClassVar[tuple[str, ...]] = ("body",)

    argument: Argument
    body: Node
    speculation: Speculation = _HYBRID
    """how it finds out how far it has got"""
    rounds: int = 1_000
    """how often rows may go round before the loop is taken for one without end"""
    best: Best | None = None
    rows: int = 10_000_000
    """... and how many"""
    reason: str = ""
    """why it is a loop, where it might be something else"""

    @cached_property
    def schema(self) -> pl.Schema:
        return self.argument.schema

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.body.schema != self.argument.schema:
            raise PlanError(
                "fixpoint: the body must give the columns that it reads",
                detail=f"it reads {dict(self.argument.schema)} and gives {dict(self.body.schema)}",
                hint="end the body with a select that restores the columns",
            )
        if not isinstance(self.speculation, HighWaterMark | Probing | Hybrid):
            raise PlanError(
                f"fixpoint: {self.speculation!r} is no way to speculate",
                hint="sw.Hybrid(), sw.Probing() or sw.HighWaterMark()",
            )
        for name, limit in (("rounds", self.rounds), ("rows", self.rows)):
            if type(limit) is not int or limit < 1:
                raise PlanError(f"fixpoint: {name} is a number, 1 or more", detail=f"it is {limit!r}")

    def describe(self) -> str:
        said = [self.reason, "" if self.speculation == _HYBRID else str(self.speculation)]
        return ", ".join(filter(None, said))


def walk(*roots: Node) -> Iterator[Node]:
    """All nodes below the roots, each once, inputs before those that read them."""
    seen: set[int] = set()
    # iterative, since plans may be deeper than Python's stack
    stack = [(root, False) for root in reversed(roots)]
    while stack:
        node, inputs_done = stack.pop()
        if inputs_done:
            yield node
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            stack += ((child, False) for child in reversed(node.inputs))


def over(node: Node, below: Sequence[Node], **settings: Any) -> Node:
    """The node over other inputs and with other settings; the same one if nothing is other."""
    if not settings and all(new is old for new, old in zip(below, node.inputs, strict=True)):
        return node
    rest = iter(below)
    ports: dict[str, Any] = {}
    for port in node.ports:
        value = getattr(node, port)
        ports[port] = tuple(next(rest) for _ in value) if isinstance(value, tuple) else next(rest)
    return replace(node, **ports, **settings)


def _is_replicated(node: Node) -> bool:
    return isinstance(node, Source) and node.replicated


def _unit(clock: Clock) -> str:
    return " clock=system" if clock is Clock.SYSTEM else ""


def _one_schema(streams: tuple[Node, ...], who: str) -> pl.Schema:
    if not streams:
        raise PlanError(f"{who}: at least one stream is needed")
    first, *rest = (node.schema for node in streams)
    for other in rest:
        if other != first:
            raise PlanError(
                f"{who}: the streams have different columns",
                detail=f"{dict(first)} and {dict(other)}",
                hint="bring them to the same columns, in the same order, with select",
            )
    return first


def _same_key_types(left: pl.Schema, right: pl.Schema, on: Mapping[str, str], who: str) -> None:
    require_columns(left, on.keys(), f"{who} (left)")
    require_columns(right, on.values(), f"{who} (right)")
    for left_name, right_name in on.items():
        if left[left_name] != right[right_name]:
            raise PlanError(
                f"{who}: the keys {left_name!r} and {right_name!r} have different types",
                detail=f"{left[left_name]} and {right[right_name]}",
                hint="cast one of them with select",
            )


def _only_reads(body: Node, argument: Argument, who: str) -> None:
    nodes = list(walk(body))
    own = {argument, *(node.argument for node in nodes if isinstance(node, Fixpoint))}
    for node in nodes:
        if isinstance(node, Source | Argument) and node not in own:
            raise PlanError(
                f"{who}: the subplan may read only its group",
                detail=f"it also reads {node.name} {node.describe()}".rstrip(),
                hint="join with the other stream before or after",
            )
