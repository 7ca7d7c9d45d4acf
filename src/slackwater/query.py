"""The fluent API: how a query is written. Every method is one line over a plan node.

A `Query` wraps a node. Methods give new queries and never change the old one, so that a query can be
used twice, and its node then runs once. What can go wrong is refused here and now, with a reason.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeVar

import polars as pl

from slackwater import oracle, runtime
from slackwater.consistency import Dial, OutputLatency, clock_of, dial
from slackwater.errors import PlanError
from slackwater.events import Batch, Element, Stream
from slackwater.history import History
from slackwater.levels import NO_LEVEL, Level, Method, Showing
from slackwater.merging import MergePolicy
from slackwater.operators import wall_clock
from slackwater.plan import explain, nodes
from slackwater.plan import lifetimes as lt
from slackwater.plan.aggregations import Aggregation, RankSpec
from slackwater.plan.expressions import column
from slackwater.plan.knowledge import Knowledge
from slackwater.plan.loops import require_turning
from slackwater.plan.matching import PAST_LAST_ROW, AfterMatch, parsed
from slackwater.plan.properties import infer, is_disordered
from slackwater.plan.schemas import require_callable, require_columns, schema_of
from slackwater.punctuations import Punctuation
from slackwater.rows import Unread
from slackwater.runtime import RAISE, Execution, OnInvalid, Output, Schedule, Status
from slackwater.speculation import Hybrid, Speculation
from slackwater.times import BEGIN, Duration, Instant, chronon, duration
from slackwater.topics import Topic
from slackwater.validity import StreamProperties

Choice = TypeVar("Choice", bound=enum.Enum)

__all__ = ["Grouped", "Query", "RunningQuery", "Windowed", "fixpoint", "merge", "stream"]


def stream(
    columns: Mapping[str, Any],
    *,
    name: str = "stream",
    properties: StreamProperties | None = None,
    disordered: bool = False,
    replicated: bool = False,
) -> Query:
    """A stream from outside: the names and types of its payload columns.

    Types are Python's (str, int, float, bool, bytes, Decimal, datetime, date, timedelta) or Polars'.
    `properties` declares what is known of the physical stream, for example that it is ordered.
    A `disordered` stream may bring an adjust before what it adjusts, and says with `sw.external_cti`
    how much of it there is: a Finalize right behind it brings it into a valid order.
    A `replicated` stream comes in any number of replicas, found while the query runs; what is known of
    it is known of each. `sw.merge(stream)` makes one stream of them.

    >>> readings = stream({"sensor": str, "temp": float}, name="readings")
    >>> readings
    Query(Source readings)
    """
    known = properties or StreamProperties()
    return Query(nodes.Source(name, dict(columns), known, disordered, replicated))


class Query:
    """A stream of events that is computed from others.

    >>> import slackwater as sw
    >>> readings = sw.stream({"sensor": str, "temp": float}, name="readings")
    >>> hot = readings.where(sw.col("temp") > 30).window(sw.tumbling(10))
    >>> out = hot.run({readings: [sw.insert(3, 4, sensor="a", temp=31.0),
    ...                           sw.insert(5, 6, sensor="a", temp=12.0), sw.cti(20)]})
    >>> list(out)
    [insert(10, 20, sensor='a', temp=31.0), cti(30)]
    """

    __slots__ = ("node",)

    def __init__(self, node: nodes.Node) -> None:
        self.node = node

    @property
    def schema(self) -> pl.Schema:
        """Names and types of the payload's columns."""
        return self.node.schema

    @property
    def properties(self) -> StreamProperties:
        """What is known of the physical stream that comes out."""
        return infer(self.node)[self.node]

    def __repr__(self) -> str:
        return f"Query({self.node.name} {self.node.describe()}".rstrip() + ")"

    # One row at a time

    def where(self, predicate: pl.Expr, *, promise: bool = False) -> Query:
        """The rows that satisfy a predicate (null is not true).

        With `promise` it is also promised that no others come, as far as the predicate compares columns
        with values: a sort, for one, then knows what comes first.

        >>> import slackwater as sw
        >>> s = sw.stream({"a": int})
        >>> list(s.where(sw.col("a") > 1).run({s: [sw.insert(0, 5, a=1), sw.insert(0, 5, a=2)]}))
        [insert(0, 5, a=2)]
        >>> list(s.where(sw.col("a") > 1, promise=True).run({s: [sw.insert(0, 5, a=2)]}))
        [insert(0, 5, a=2), punctuation(a=between(None, 1)), punctuation(a=None)]
        """
        return Query(nodes.Where(self.node, predicate, promise))

    def select(self, *columns: str, **named: pl.Expr | str) -> Query:
        """These columns and no others; named ones are computed.

        >>> import slackwater as sw
        >>> s = sw.stream({"a": int, "b": str})
        >>> list(s.select("b", twice=sw.col("a") * 2).run({s: [sw.insert(0, 5, a=1, b="x")]}))
        [insert(0, 5, b='x', twice=2)]
        """
        return Query(nodes.Select(self.node, _columns(columns, named)))

    # Lifetimes

    def alter_lifetime(
        self,
        start: lt.Term | Duration | None = None,
        *,
        duration: lt.Term | Duration | None = None,
        end: lt.Term | Duration | None = None,
    ) -> Query:
        """Every row with a new lifetime, computed from its old one with `sw.VS` and `sw.VE`.

        >>> import slackwater as sw
        >>> s = sw.stream({"a": int})
        >>> q = s.alter_lifetime(start=sw.VS.floor(10), duration=10)
        >>> list(q.run({s: [sw.insert(13, 14, a=1), sw.cti(15)]}))
        [insert(10, 20, a=1), cti(10)]
        """
        return Query(nodes.AlterLifetime(self.node, lt.lifetime(start, duration=duration, end=end)))

    def window(self, window: lt.Lifetime | lt.SessionWindow) -> Query:
        """`sw.tumbling(size)`, `sw.hopping(size, hop)`, `sw.sliding(width)` or `sw.session(gap)`.

        >>> import slackwater as sw
        >>> s = sw.stream({"a": int})
        >>> list(s.window(sw.hopping(20, 10)).run({s: [sw.insert(11, 12, a=1)]}))
        [insert(20, 40, a=1)]
        """
        return Query(_window(self.node, window))

    def inserts(self) -> Query:
        """Nothing ends: [vs, INF)."""
        return Query(nodes.AlterLifetime(self.node, lt.inserts()))

    def deletes(self) -> Query:
        """What has ended: [ve, INF)."""
        return Query(nodes.Deletes(self.node))

    def point_at_end(self) -> Query:
        """The instant at which each row ends: [ve, ve + 1)."""
        return Query(nodes.PointAtEnd(self.node))

    def shift(self, by: Duration) -> Query:
        """Both ends moved.

        >>> import slackwater as sw
        >>> s = sw.stream({"a": int})
        >>> list(s.shift(-2).run({s: [sw.insert(11, 12, a=1), sw.cti(12)]}))
        [insert(9, 10, a=1), cti(10)]
        """
        return Query(nodes.AlterLifetime(self.node, lt.shift(by)))

    def extend(self, by: Duration) -> Query:
        """The end moved; a row of which nothing is left goes.

        >>> import slackwater as sw
        >>> s = sw.stream({"a": int})
        >>> list(s.extend(-5).run({s: [sw.insert(0, 100, a=1), sw.cti(20), sw.adjust(0, 100, 20, a=1)]}))
        [insert(0, 95, a=1), adjust(0, 95, 15, a=1), cti(15)]
        """
        return Query(nodes.AlterLifetime(self.node, lt.extend(by)))

    def clip(self, other: Query | Duration, on: str | Iterable[str] | None = None) -> Query:
        """No row longer than a duration; or, with a stream, ended by the next start there.

        >>> import slackwater as sw
        >>> s = sw.stream({"a": int})
        >>> list(s.clip(10).run({s: [sw.insert(0, None, a=1)]}))
        [insert(0, 10, a=1)]
        """
        return Query(_clip(self.node, other, on))

    def chop(self, period: Duration) -> Query:
        """Every row cut at the multiples of a period."""
        return Query(nodes.Chop(self.node, duration(period)))

    # Several streams

    def union(self, *others: Query) -> Query:
        """All rows of all of these streams.

        >>> import slackwater as sw
        >>> s, t = sw.stream({"a": int}, name="s"), sw.stream({"a": int}, name="t")
        >>> list(s.union(t).run({s: [sw.insert(0, 5, a=1), sw.cti(9)], t: [sw.cti(7)]}))
        [insert(0, 5, a=1), cti(7)]
        """
        return Query(nodes.Union((self.node, *(_node(other, "union") for other in others))))

    def join(
        self,
        other: Query,
        on: str | Iterable[str] | Mapping[str, str] = (),
        *,
        where: pl.Expr | None = None,
        how: nodes.How = "inner",
        suffix: str = "_right",
        broadcast: nodes.Side | None = None,
    ) -> Query:
        """Pairs of rows with equal keys (and `where`), alive while both are.

        `how="left"` and `"full"` also give rows, with nulls, while they have no partner; `"anti"`
        gives only those. Right columns that bear a left column's name get `suffix`. `broadcast` is for
        Spark, and changes nothing of the answer: that side, a small one, is sent to every bucket, and
        the rows of the other one stay where they are.
        """
        pairs = _key_pairs(on, "join")
        right = _node(other, "join")
        return Query(nodes.Join(self.node, right, pairs, where, how, suffix, broadcast))

    def intersect(self, other: Query, *, all: bool = False) -> Query:
        """At every instant, the payloads that both have (`all`: as often as both have them)."""
        return Query(nodes.Intersect(self.node, _node(other, "intersect"), all))

    def difference(self, other: Query, *, all: bool = False) -> Query:
        """At every instant, the payloads that the other lacks (`all`: counted)."""
        return Query(nodes.Difference(self.node, _node(other, "difference"), all))

    # Snapshots

    def distinct(self) -> Query:
        """At every instant each payload once, with maximal lifetimes."""
        return Query(nodes.Distinct(self.node))

    def group_by(self, *keys: str) -> Grouped:
        """Groups of rows with equal keys; null is a key like any other."""
        require_columns(self.schema, _names(keys, "group_by"), "group_by")
        return Grouped(self, keys)

    def aggregate(self, **aggregations: Aggregation | RankSpec) -> Query:
        """One row per snapshot of the whole stream.

        >>> import slackwater as sw
        >>> s = sw.stream({"a": int})
        >>> q = s.aggregate(n=sw.count(), most=sw.max("a"))
        >>> q.meaning({s: [sw.insert(1, 5, a=10), sw.insert(2, 4, a=40)]}).rows()
        [(1, 10, 1, 2), (2, 40, 2, 4), (1, 10, 4, 5)]
        """
        return Query(_aggregate(self.node, (), aggregations))

    # The physical stream: the same history, told differently

    def match(
        self,
        pattern: str,
        *,
        where: Mapping[str, pl.Expr] | None = None,
        within: Duration | None = None,
        after: AfterMatch = PAST_LAST_ROW,
        **measures: pl.Expr,
    ) -> Query:
        """The matches of a pattern in the rows, in order of (vs, payload): one row for each.

        A symbol takes one row, that which comes next; `where` has the conditions of symbols, over
        columns of the row and over the rows that were taken so far, this one included (`sw.matched`,
        `sw.previous`). `A B` is one behind the other, `A | B` the first that matches, `A? A* A+` as
        many as there are; what was taken is not given back. The rows of a match must live together:
        with `within` every row lives for so long. A match lives from its last row on until the first
        of its rows ends. `after` says where the next one may begin: `sw.PAST_LAST_ROW` or
        `sw.TO_NEXT_ROW`. The measures say what is asked of a match.

        >>> import slackwater as sw
        >>> s = sw.stream({"letter": str, "v": int})
        >>> q = s.match(
        ...     "A B* C", within=1000, total=sw.matched("B").sum("v"),
        ...     where={symbol: sw.col("letter") == symbol for symbol in "ABC"})
        >>> rows = [(100, "A", 4), (110, "C", 3), (120, "A", 1), (130, "B", 6), (140, "B", 8),
        ...         (150, "C", 7), (160, "B", 9)]
        >>> q.meaning({s: [sw.insert(t, t + 1, letter=letter, v=v) for t, letter, v in rows]}).rows()
        [(0, 110, 1100), (14, 150, 1120)]
        """
        rows = _within(self.node, within)
        return Query(nodes.Match(rows, (), parsed(pattern), dict(where or {}), measures, after))

    def sort(self, *by: str) -> Query:
        """The rows, released in order of columns as punctuations allow."""
        return Query(nodes.Sort(self.node, _names(by, "sort")))

    def align(
        self, blocking: Duration, *, clock: Literal["application", "system"] = "application"
    ) -> Query:
        """Hold rows back for up to `blocking`, so that fewer are taken back later."""
        return Query(nodes.Align(self.node, duration(blocking), clock_of(clock)))

    def finalize(
        self, memory: Duration, *, clock: Literal["application", "system"] = "application"
    ) -> Query:
        """Forget after `memory`; what is given up is in the ledger."""
        return Query(nodes.Finalize(self.node, duration(memory), clock_of(clock)))

    def cleanse(self, *, in_order: bool = True) -> Query:
        """Wait until nothing can be taken back any more, and nothing that starts earlier can come.

        Without `in_order` a row waits for its own end only: where promises are about payloads, and time
        stands still, nothing else can be had.

        >>> import slackwater as sw
        >>> s = sw.stream({"item": int})
        >>> elements = [sw.insert(0, None, item=1), sw.insert(1, None, item=2), sw.punctuation(item=2)]
        >>> list(s.cleanse(in_order=False).run({s: elements}))
        [insert(1, INF, item=2), punctuation(item=2)]
        """
        return Query(nodes.Cleanse(self.node, in_order))

    def punctuate(self, *known: Knowledge, lateness: Duration | None = None) -> Query:
        """Promise what is known of the stream, so that what is computed of it can be settled and freed.

        `lateness`: no row is later than that behind the largest start seen. `sw.ordered_by("hour")`: the
        rows come sorted by a column. `sw.domain(temp=sw.between(20, 95))`: there are no other values.
        `sw.unique("item")`: an element is the only one with its values. `sw.all_reported("hour",
        by="sensor", among=sensors)`: an hour is complete when all sensors have reported it. An element
        that proves one of these wrong stops the query, or with `on_invalid=sw.LEDGER` is set aside.

        >>> import slackwater as sw
        >>> s = sw.stream({"hour": int})
        >>> q = s.punctuate(sw.ordered_by("hour"))
        >>> list(q.run({s: [sw.insert(0, 9, hour=17), sw.insert(1, 9, hour=18)]}))
        [insert(0, 9, hour=17), insert(1, 9, hour=18), punctuation(hour=between(None, 17))]
        """
        return Query(_punctuate(self.node, known, lateness))

    def consistency(
        self,
        level: Dial | str | None = None,
        *,
        blocking: Duration | None = None,
        memory: Duration | None = None,
        clock: Literal["application", "system"] = "application",
    ) -> Query:
        """The dial: how long to wait (blocking) and how long to remember (memory).

        A level instead: `"middle"` (the default), `"strong"`, `"ultra"`, or `sw.weak(memory)`. Turning
        the dial of a query again replaces what it was turned to.
        """
        point = dial(level, blocking=blocking, memory=memory, clock=clock)
        return Query(nodes.Consistency(_undialled(self.node), point))

    def latency(self, latency: OutputLatency) -> Query:
        """How much of the open future snapshot operators show: `sw.EAGER` and its siblings."""
        return Query(nodes.Latency(self.node, _one_of(OutputLatency, latency)))

    # Seeing and running

    def explain(
        self,
        *,
        format: Literal["text", "mermaid", "stages"] = "text",
        buckets: int | None = None,
        inputs: Mapping[Query, Unread] | None = None,
    ) -> str:
        """The plan, with what is known of every stream in it; or the stages in which Spark runs it.

        Stages are shown with what is exchanged by which columns, or broadcast; with `buckets`, also with
        how many of so many have work to do. What is aggregated per bucket first is shown so. With the
        `inputs` that it is going to be started with, which of them wait for each other's tokens.

        >>> import slackwater as sw
        >>> s = sw.stream({"a": int}, name="s", properties=sw.StreamProperties(ordered=True))
        >>> print(s.where(sw.col("a") > 1).union(s).explain())
        Union
        ├─ Where [(col("a")) > (dyn int: 1)] [ordered]
        │  └─ Source s (a: Int64) [ordered] #1, runs once
        └─ Source (see #1)
        >>> counts = s.group_by("a").aggregate(n=sw.count())
        >>> print(counts.aggregate(most=sw.max("n")).explain(format="stages"))
        stage 1: s by a
            Aggregate n = Count() by a
        stage 2: Aggregate in one bucket
            Aggregate most = Max(col("n"))
        >>> print(s.window(sw.tumbling(10)).aggregate(n=sw.count()).explain(format="stages", buckets=8))
        stage 1, 8 of 8 buckets: s by a
            AlterLifetime tumbling(10)
            Aggregate n = Count(), per bucket
        stage 2, 1 of 8 buckets: Aggregate in one bucket
            Aggregate n = Sum(col("n"))
        >>> t = sw.stream({"a": int}, name="t")
        >>> read = {each: sw.read_committed("answer", aligned=True) for each in (s, t)}
        >>> print(s.join(t, on="a").explain(format="stages", inputs=read))
        up to the last common token: s, t
        stage 1: s by a; t by a
            Join inner on a
        """
        if format == "stages":
            given = _given({} if inputs is None else inputs)
            aligned = [source.stream_name for source, each in given.items() if each.aligned]
            return explain.stages(self.node, buckets, aligned)
        formats = {"text": explain.text, "mermaid": explain.mermaid}
        if format not in formats:
            raise PlanError(f"explain: unknown format {format!r}", hint="text, mermaid or stages")
        if buckets is not None:
            raise PlanError(f"explain: {format} has no buckets", hint="format='stages' has")
        if inputs is not None:
            raise PlanError(f"explain: {format} is of any inputs", hint="format='stages' looks at them")
        return formats[format](self.node)

    def run(
        self,
        inputs: Mapping[Query, Stream | Mapping[str, Stream]] | Iterable[tuple[Query, Element]],
        *,
        batch: int = 1000,
        on_invalid: OnInvalid = RAISE,
        level: Level | None = None,
        by: Method | None = None,
        show: Showing | None = None,
        schedule: Schedule | None = None,
    ) -> Output:
        """Run in this process over scripted inputs, `batch` elements at a time.

        Inputs are given per stream, and read in turn (of a replicated stream, what each replica tells);
        or as (stream, element) pairs in arrival order. What a stream may not contain raises, or with
        `on_invalid=sw.LEDGER` is set aside.

        A batch is worked off before the next one is read, unless a `level` of consistency is named
        (`sw.INPUT_PREFIX_CONSISTENT`), a method that keeps it (`by=sw.Tokens(100)`, `sw.Heeding()`,
        `sw.Drain()`), or a `schedule` (`sw.RoundRobin()`). Then inputs wait in line, and operators take
        turns. Output is held until it is right, or shown at once with the states that are right in
        `.marks` (`show=sw.MARKED`).
        """
        return runtime.run(
            self.node,
            _by_source(inputs),
            batch=batch,
            on_invalid=_one_of(OnInvalid, on_invalid),
            level=None if level is None else _one_of(Level, level),
            by=by,
            show=None if show is None else _one_of(Showing, show),
            schedule=schedule,
        )

    def start(
        self,
        spark: Any,
        inputs: Mapping[Query, Unread],
        *,
        checkpoint: str,
        sink: Any = None,
        buckets: int | None = None,
        on_invalid: OnInvalid = RAISE,
        trigger: Mapping[str, Any] | None = None,
        heartbeat: Duration | None = None,
        turnable: bool = False,
        feedback: bool | str | Topic = False,
        feedback_to: str | Topic | None = None,
    ) -> Any:
        """Start on Spark: the same answer, in many places.

        Inputs are streaming DataFrames (`sw.from_dataframe(df, vs="ts")`). The checkpoint is a directory
        that all of Spark's machines reach; a query that is started again with it goes on where it was.
        Paths are understood as Spark does, in the file system that the cluster works with.
        `sink` is one of `slackwater.spark.sinks`, else the answer is kept in `.output` of what this
        gives, a handle. `buckets` is in how many shares state is kept: as many as Spark has cores, if
        it is not said, and fixed for a checkpoint from its first start on. `trigger` is as in Spark:
        {"availableNow": True}.

        Spark runs a batch when there is input. With `heartbeat="1 s"` time goes on without, so that a
        partition is found idle also when all others are. With `turnable` the handle has `turn`, by
        which the dial is turned while the query runs, with `feedback` it has `ignore`, by which it is
        told what is no longer of interest; a checkpoint is with these or without. With
        `feedback_to="directory"` a query tells there up to when its answer is settled, and one that is
        started with `feedback="directory"` no longer tells events that end before that: so a merge lets
        replicas that lag skip what is past. A topic of Kafka, `sw.topic(...)`, does as well.
        """
        # Spark takes a second to import, which is for those who use it
        from slackwater.spark.handle import start  # noqa: PLC0415
        from slackwater.spark.sinks import Memory  # noqa: PLC0415

        return start(
            self.node,
            spark,
            _given(inputs),
            checkpoint=checkpoint,
            sink=Memory() if sink is None else sink,
            buckets=buckets,
            on_invalid=_one_of(OnInvalid, on_invalid),
            trigger=trigger,
            heartbeat=None if heartbeat is None else duration(heartbeat),
            turnable=turnable,
            feedback=feedback,
            feedback_to=feedback_to,
        )

    def open(
        self,
        *,
        on_invalid: OnInvalid = RAISE,
        now: Callable[[], int] | None = None,
        turnable: bool = False,
        level: Level | None = None,
    ) -> RunningQuery:
        """Run in this process, step by step: push elements, read what the query says so far.

        >>> import slackwater as sw
        >>> s = sw.stream({"a": int})
        >>> running = s.window(sw.tumbling(10)).open()
        >>> [list(batch) for batch in running.push(s, [sw.insert(3, 4, a=1)])]
        [[insert(10, 20, a=1)]]

        `now` tells system time where `clock="system"` was asked for: the machine's, if not given. With
        `turnable` the dial can be turned between two batches:

        >>> running = s.distinct().consistency("strong").open(turnable=True)
        >>> running.push(s, [sw.insert(3, 4, a=1)])
        []
        >>> [list(batch) for batch in running.turn(blocking=0)]
        [[insert(3, 4, a=1)]]

        A push is worked off before it returns, which keeps every level of consistency. With a `level`,
        what cannot is refused, and `output.marks` says of which prefix of each stream the state after
        each push is the answer.

        >>> running = s.distinct().open(level=sw.INPUT_PREFIX_CONSISTENT)
        >>> out = running.push(s, [sw.insert(3, 4, a=1), sw.insert(5, 6, a=1)])
        >>> running.output.marks
        [Mark(said=2, offsets={'stream': 2}, token=None)]
        """
        return RunningQuery(
            Execution(
                self.node,
                on_invalid=_one_of(OnInvalid, on_invalid),
                now=now or wall_clock,
                turnable=turnable,
                level=NO_LEVEL if level is None else _one_of(Level, level),
            )
        )

    def meaning(self, inputs: Mapping[Query, History | Stream]) -> History:
        """The answer by definition, from whole histories: slow, for tests and for understanding.

        >>> import slackwater as sw
        >>> s, t = sw.stream({"a": int}, name="s"), sw.stream({"a": int}, name="t")
        >>> s.join(t, on="a").meaning({s: [sw.insert(0, 5, a=1)], t: [sw.insert(3, 9, a=1)]}).rows()
        [(1, 3, 5)]
        """
        known = {
            source.node: given
            if isinstance(given, History)
            else History.of(given, source.schema, disordered=is_disordered(source.node))
            for source, given in inputs.items()
        }
        return oracle.meaning(self.node, known)


class RunningQuery:
    """A query at work in this process. Elements go in as they come, a batch at a time."""

    __slots__ = ("_execution",)

    def __init__(self, execution: Execution) -> None:
        self._execution = execution

    def push(self, stream: Query, elements: Stream, *, replica: str | None = None) -> list[Batch]:
        """Take in some elements of a stream as one batch; what the query says to that.

        Of a replicated stream it has to be said which replica tells them; a new one is attached then.
        """
        return self._execution.push(_source(stream), elements, replica)

    def turn(self, *, blocking: Duration | None = None, memory: Duration | None = None) -> list[Batch]:
        """Turn the dial: how long to wait, how long to remember. What the query says to that.

        It concerns what comes from now on, and releases what has waited for as long as is now asked.
        What a longer memory could have remembered is not brought back. `open(turnable=True)` allows it.
        """
        return self._execution.turn(blocking=blocking, memory=memory)

    def ignore(self, *patterns: Punctuation) -> list[Batch]:
        """Rows with such payloads are no longer of interest, and all that is needed for nothing else.

        The pattern goes up through the plan, as far as its columns go: operators forget what they keep
        of it, and rows of it are dropped before anything is computed from them. What was said of them
        stays as it was, and is never settled. What the query says to that.

        >>> import slackwater as sw
        >>> s = sw.stream({"sensor": int, "v": float})
        >>> running = s.group_by("sensor").aggregate(n=sw.count()).open()
        >>> running.ignore(sw.punctuation(sensor=7))
        []
        >>> running.push(s, [sw.insert(1, 2, sensor=7, v=0.5)])
        []
        """
        return self._execution.ignore(*patterns)

    def detach(self, stream: Query, *, replica: str | None = None) -> list[Batch]:
        """An input of a merge has broken off; the merge goes on with the others.

        What leads to it alone is not looked at until it is attached again, whatever it says.
        """
        return self._execution.detach(_node(stream, "detach"), replica)

    def attach(
        self, stream: Query, since: Instant | None = None, *, replica: str | None = None
    ) -> list[Batch]:
        """An input of a merge begins anew, with all that leads to it and to nothing else.

        It tells every event that ends at `since` or later, in its own order from the beginning; all
        events, if that is not given. Until the output is settled up to there, the others lead.

        >>> import slackwater as sw
        >>> a, b = (sw.stream({"k": str}, name=name) for name in "ab")
        >>> running = sw.merge(a, b).open()
        >>> out = running.push(a, [sw.insert(1, 9, k="x"), sw.cti(5)])
        >>> running.detach(a)
        []
        >>> [out] = running.push(b, [sw.insert(1, 9, k="x"), sw.insert(6, 8, k="y"), sw.cti(7)])
        >>> list(out)
        [insert(6, 8, k='y'), cti(7)]
        """
        start = BEGIN if since is None else chronon(since)
        return self._execution.attach(_node(stream, "attach"), start, replica)

    @property
    def output(self) -> Output:
        """Everything that the query has said so far."""
        return self._execution.output

    def describe(self) -> list[Status]:
        """How every operator stands: rows in and out, what it has promised, what it remembers."""
        return self._execution.describe()


class Grouped:
    """A stream in groups, waiting to be told what to do with each."""

    __slots__ = ("keys", "query")

    def __init__(self, query: Query, keys: tuple[str, ...]) -> None:
        self.query = query
        self.keys = keys

    def aggregate(self, **aggregations: Aggregation | RankSpec) -> Query:
        """For each group, one row per snapshot in which an event of it is alive.

        >>> import slackwater as sw
        >>> s = sw.stream({"k": str, "a": int})
        >>> q = s.group_by("k").aggregate(n=sw.count())
        >>> q.meaning({s: [sw.insert(1, 5, k="x", a=1), sw.insert(2, 4, k="y", a=2)]}).rows()
        [('x', 1, 1, 5), ('y', 1, 2, 4)]
        """
        return Query(_aggregate(self.query.node, self.keys, aggregations))

    def match(
        self,
        pattern: str,
        *,
        where: Mapping[str, pl.Expr] | None = None,
        within: Duration | None = None,
        after: AfterMatch = PAST_LAST_ROW,
        **measures: pl.Expr,
    ) -> Query:
        """The matches of a pattern in the rows of each group, as in `Query.match`; with the keys.

        >>> import slackwater as sw
        >>> s = sw.stream({"k": str, "v": int})
        >>> q = s.group_by("k").match("Low High", where={"High": sw.col("v") > sw.previous("v")},
        ...                           within=9, low=sw.matched("Low").last("v"))
        >>> rows = [(1, "x", 5), (2, "y", 7), (3, "x", 8), (4, "y", 6)]
        >>> q.meaning({s: [sw.insert(t, t + 1, k=k, v=v) for t, k, v in rows]}).rows()
        [('x', 5, 3, 10)]
        """
        rows = _within(self.query.node, within)
        return Query(nodes.Match(rows, self.keys, parsed(pattern), dict(where or {}), measures, after))

    def apply(self, subplan: Callable[[Query], Query]) -> Query:
        """The subplan for each group by itself; the keys are columns of the result.

        >>> import slackwater as sw
        >>> s = sw.stream({"k": str, "a": int})
        >>> q = s.group_by("k").apply(lambda group: group.select("a").distinct())
        >>> q.meaning({s: [sw.insert(1, 5, k="x", a=1), sw.insert(2, 7, k="x", a=1)]}).rows()
        [('x', 1, 1, 7)]
        """
        return Query(_group_apply(self.query.node, self.keys, subplan))

    def window(self, window: lt.Lifetime | lt.SessionWindow) -> Windowed:
        """The rows in windows, sessions being those of each group; `aggregate` is then by group.

        >>> import slackwater as sw
        >>> s = sw.stream({"k": str, "a": int})
        >>> q = s.group_by("k").window(sw.tumbling(10)).aggregate(n=sw.count())
        >>> q.meaning({s: [sw.insert(1, 2, k="x", a=1), sw.insert(2, 3, k="y", a=2)]}).rows()
        [('x', 1, 10, 20), ('y', 1, 10, 20)]
        """
        if isinstance(window, lt.SessionWindow):
            window = lt.SessionWindow(window.gap, tuple(dict.fromkeys((*self.keys, *window.by))))
        return Windowed(_window(self.query.node, window), self.keys)


class Windowed(Query):
    """The rows of a stream in groups, in windows: a query that `aggregate` and `apply` treat by group.

    What any other method gives is a plain query, to be grouped again where that is meant.
    """

    __slots__ = ("keys",)

    def __init__(self, node: nodes.Node, keys: tuple[str, ...]) -> None:
        super().__init__(node)
        self.keys = keys

    def aggregate(self, **aggregations: Aggregation | RankSpec) -> Query:
        """For each group, one row per snapshot in which an event of it is alive."""
        return self.group_by(*self.keys).aggregate(**aggregations)

    def match(
        self,
        pattern: str,
        *,
        where: Mapping[str, pl.Expr] | None = None,
        within: Duration | None = None,
        after: AfterMatch = PAST_LAST_ROW,
        **measures: pl.Expr,
    ) -> Query:
        """The matches of a pattern in the rows of each group."""
        group = self.group_by(*self.keys)
        return group.match(pattern, where=where, within=within, after=after, **measures)

    def apply(self, subplan: Callable[[Query], Query]) -> Query:
        """The subplan for each group by itself; the keys are columns of the result."""
        return self.group_by(*self.keys).apply(subplan)


def merge(
    *streams: Query, policy: MergePolicy | None = None, algorithm: nodes.Algorithm = "auto"
) -> Query:
    """One right stream out of several fallible copies of it (logical merge).

    The copies describe one history, each in its own order, with its own revisions, at its own pace. What
    comes out goes as far as the one that is furthest, whichever that is, and is right as long as one of
    them is left. `policy` says how soon something is shown (`sw.merge_policy`); the algorithm is chosen
    by what is known of the streams, and `explain()` says which it is.

    >>> import slackwater as sw
    >>> a, b = (sw.stream({"k": str}, name=name) for name in "ab")
    >>> out = sw.merge(a, b).run([
    ...     (a, sw.insert(6, 10, k="x")), (b, sw.insert(6, 12, k="x")), (b, sw.cti(16)),
    ...     (a, sw.adjust(6, 10, 12, k="x")), (a, sw.insert(20, 30, k="y")), (a, sw.cti(25)),
    ... ], batch=1)
    >>> list(out)  # doctest: +NORMALIZE_WHITESPACE
    [insert(6, 10, k='x'), adjust(6, 10, 12, k='x'), cti(16), insert(20, 30, k='y'), cti(25)]
    """
    inputs = tuple(_node(s, "merge") for s in streams)
    return Query(nodes.Merge(inputs, algorithm, MergePolicy() if policy is None else policy))


def fixpoint(
    body: Callable[[Query], Query],
    *,
    schema: Mapping[str, Any],
    speculation: Speculation | None = None,
    rounds: int = 1_000,
    rows: int = 10_000_000,
) -> Query:
    """The least stream R with R = body(R): a recursive query.

    One row for each way to derive it, alive while all that it is derived from is. With `distinct()`, or
    `group_by(...).aggregate(best=sw.min(...)).distinct()`, as the last step of the body every row is
    there once, and cycles do no harm. `speculation` says how it finds out how far it has got:
    `sw.Hybrid()`, `sw.Probing()` or `sw.HighWaterMark()`. If rows go round more often than `rounds`
    within a batch, or more than `rows` of them, it is stopped.

    >>> import slackwater as sw
    >>> link = sw.stream({"a": str, "b": str}, name="link")
    >>> def body(reach):
    ...     hop = reach.join(link, on={"b": "a"}, suffix="_next").select("a", b="b_next")
    ...     return link.union(hop)
    >>> reach = sw.fixpoint(body, schema={"a": str, "b": str})
    >>> out = reach.run({
    ...     link: [sw.insert(0, 9, a="x", b="y"), sw.insert(3, 6, a="y", b="z"), sw.cti(5)]
    ... })
    >>> out.as_history().rows()
    [('x', 'y', 0, 9), ('x', 'z', 3, 6), ('y', 'z', 3, 6)]
    >>> out.settled_until
    5
    """
    require_callable(body, "fixpoint")
    argument = nodes.Argument(schema_of(schema))
    turned = _node(body(Query(argument)), "fixpoint")
    guessing = Hybrid() if speculation is None else speculation
    loop = nodes.Fixpoint(argument, turned, guessing, rounds, rows=rows)
    require_turning(loop)
    return Query(loop)


def _undialled(node: nodes.Node) -> nodes.Node:
    """The node without a dial that is about to be replaced."""
    if isinstance(node, nodes.Consistency):
        return _undialled(node.input)
    if isinstance(node, nodes.Latency):
        return nodes.Latency(_undialled(node.input), node.latency)
    return node


def _node(query: object, who: str) -> nodes.Node:
    if not isinstance(query, Query):
        raise PlanError(
            f"{who}: {query!r} is not a query", detail=f"it is of type {type(query).__name__}"
        )
    return query.node


def _names(names: tuple[str, ...], who: str, hint: str = "") -> tuple[str, ...]:
    """The names of columns, if they are."""
    for name in names:
        if not isinstance(name, str):
            raise PlanError(
                f"{who}: {name} is not the name of a column",
                detail=f"it is of type {type(name).__name__}",
                hint=hint or f"{who}('a', 'b'); compute a column with select first",
            )
    return names


def _one_of(choices: type[Choice], value: object) -> Choice:
    """A value of an enumeration, or the one that is written so."""
    for choice in choices:
        if value is choice or value == choice.value:
            return choice
    known = ", ".join(repr(choice.value) for choice in choices)
    raise PlanError(f"{value!r} is not one of {known}")


def _columns(plain: tuple[str, ...], named: Mapping[str, pl.Expr | str]) -> dict[str, pl.Expr]:
    for name in plain:
        if not isinstance(name, str):
            raise PlanError(
                "select: a computed column needs a name",
                detail=f"{name} has none",
                hint="select(name=expression)",
            )
    names = [*plain, *named]
    twice = [name for name in named if name in plain] or [n for n in plain if plain.count(n) > 1]
    if twice:
        raise PlanError(
            f"select: two columns would be called {twice[0]!r}",
            detail=f"it was asked for {', '.join(names)}",
            hint="name each column once",
        )
    return {name: pl.col(name) for name in plain} | {n: column(e) for n, e in named.items()}


def _key_pairs(on: str | Iterable[str] | Mapping[str, str], who: str) -> dict[str, str]:
    """Left columns, and the right columns that they must equal."""
    given: Any = on
    if isinstance(given, Mapping):
        pairs = list(given.items())
    elif isinstance(given, Iterable) and not isinstance(given, str):
        pairs = [(key, key) for key in given]
    else:
        pairs = [(given, given)]
    for pair in pairs:
        _names(pair, f"{who} on", "on='a', on=('a', 'b') or, in a join, on={'left': 'right'}")
    return dict(pairs)


def _window(node: nodes.Node, window: lt.Lifetime | lt.SessionWindow) -> nodes.Node:
    if isinstance(window, lt.SessionWindow):
        return nodes.Session(node, window.gap, window.by)
    if not isinstance(window, lt.Lifetime):
        raise PlanError(
            f"{window!r} is not a window", hint="sw.tumbling, sw.hopping, sw.sliding or sw.session"
        )
    return nodes.AlterLifetime(node, window)


def _clip(node: nodes.Node, other: Query | Duration, on: str | Iterable[str] | None) -> nodes.Node:
    if isinstance(other, Query):
        return nodes.ClipBy(node, other.node, tuple(_key_pairs(on if on is not None else (), "clip")))
    if on is not None:
        raise PlanError("clip: `on` goes with a stream", hint="clip(other, on='key') or clip('10 min')")
    return nodes.AlterLifetime(node, lt.clip(other))


def _aggregate(
    node: nodes.Node, keys: tuple[str, ...], aggregations: Mapping[str, Aggregation | RankSpec]
) -> nodes.Node:
    ranks = {name: spec for name, spec in aggregations.items() if isinstance(spec, RankSpec)}
    if not ranks:
        plain = {name: a for name, a in aggregations.items() if not isinstance(a, RankSpec)}
        return nodes.Aggregate(node, keys, plain)
    if len(aggregations) > 1:
        raise PlanError(
            "aggregate: rank stands alone",
            detail="it gives one row per live event, the others one row per snapshot",
            hint="use two aggregates and join them",
        )
    [(name, rank)] = ranks.items()
    return nodes.Rank(node, keys, name, rank)


def _within(node: nodes.Node, within: Duration | None) -> nodes.Node:
    """The rows of a match may be that far apart."""
    return node if within is None else nodes.AlterLifetime(node, lt.sliding(within))


def _punctuate(node: nodes.Node, known: tuple[Knowledge, ...], lateness: Duration | None) -> nodes.Node:
    if not known and lateness is None:
        raise PlanError(
            "punctuate: nothing is known",
            hint="lateness='5 s', sw.ordered_by('hour'), sw.unique('item')",
        )
    for each in known:
        if not isinstance(each, Knowledge):
            raise PlanError(
                f"punctuate: {each!r} says nothing of a stream",
                hint="sw.ordered_by, sw.domain, sw.unique, sw.all_reported; or lateness=",
            )
        node = nodes.Punctuate(node, knowledge=each)
    return node if lateness is None else nodes.Punctuate(node, duration(lateness))


def _group_apply(
    node: nodes.Node, keys: tuple[str, ...], subplan: Callable[[Query], Query]
) -> nodes.Node:
    require_callable(subplan, "apply")
    argument = nodes.Argument(node.schema)
    return nodes.GroupApply(node, keys, argument, _node(subplan(Query(argument)), "apply"))


def _by_source(
    inputs: Mapping[Query, Stream | Mapping[str, Stream]] | Iterable[tuple[Query, Element]],
) -> runtime.Inputs:
    if isinstance(inputs, Mapping):
        return {_source(query): given for query, given in inputs.items()}
    pairs: list[Any] = list(inputs)
    for pair in pairs:
        if not (isinstance(pair, tuple) and len(pair) == 2):
            raise PlanError(
                f"{pair!r} is not a (stream, element) pair",
                hint="run({stream: elements}), or run([(stream, element), ...])",
            )
    return [(_source(query), element) for query, element in pairs]


def _given(inputs: object) -> dict[nodes.Source, Any]:
    """What each stream is read from."""
    if not isinstance(inputs, Mapping):
        raise PlanError(
            "inputs are given per stream",
            detail=f"this is of type {type(inputs).__name__}",
            hint="start(spark, {stream: sw.from_dataframe(df, vs=...)}, ...)",
        )
    return {_source(query): given for query, given in inputs.items()}


def _source(query: object) -> nodes.Source:
    if not isinstance(query, Query) or not isinstance(query.node, nodes.Source):
        raise PlanError(
            f"{query!r} is not a stream from outside",
            hint="inputs are given by the objects that sw.stream returned",
        )
    return query.node
