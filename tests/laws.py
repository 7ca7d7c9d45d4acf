"""The laws that hold for every operator, and the plans they are tried on.

Two families of tests: two ways of telling one history against each other, and everything against the
oracle, which recomputes from scratch. A `Case` is a small plan with its streams; `CASES` names at
least one for every node that can be run, which test_laws.py checks.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

import slackwater as sw
import slackwater.state
from slackwater.events import Stream
from slackwater.history import History
from slackwater.operators import buffer
from slackwater.oracle import meaning
from slackwater.plan.nodes import Align, Cleanse, Node, Sort, Source, walk
from slackwater.plan.properties import output_latencies
from slackwater.plan.rewrites import rewritten
from slackwater.runtime import Execution
from slackwater.validity import Validator

# histories are tiny here: forget at every promise, or forgetting would never be tried
slackwater.state.SWEEP_FROM = slackwater.state.SWEEP_FACTOR = 0
buffer.LEAST_ROOM = 1


@dataclass(frozen=True)
class Case:
    """A plan, and the streams it reads."""

    query: sw.Query
    sources: tuple[sw.Query, ...]
    unbounded: bool = True
    """whether events may last for ever"""


SCHEMA = {"k": str, "v": int, "x": float}


def _one(build: Callable[[sw.Query], sw.Query], *, unbounded: bool = True) -> Callable[[], Case]:
    def case() -> Case:
        source = sw.stream(SCHEMA, name="s")
        return Case(build(source), (source,), unbounded)

    return case


def _two(build: Callable[[sw.Query, sw.Query], sw.Query]) -> Callable[[], Case]:
    def case() -> Case:
        left, right = sw.stream(SCHEMA, name="left"), sw.stream(SCHEMA, name="right")
        return Case(build(left, right), (left, right))

    return case


CASES: dict[str, Callable[[], Case]] = {
    "where": _one(lambda s: s.where(sw.col("v") > 0)),
    "where on strings and nulls": _one(lambda s: s.where((sw.col("k") == "a") | sw.col("x").is_null())),
    "select": _one(lambda s: s.select("k", double=sw.col("v") * 2)),
    "select that loses columns": _one(lambda s: s.select("k")),
    "select of a constant": _one(lambda s: s.select(c=pl.lit(1))),
    "sliding": _one(lambda s: s.window(sw.sliding(3))),
    "tumbling": _one(lambda s: s.window(sw.tumbling(4))),
    "hopping": _one(lambda s: s.window(sw.hopping(6, 2))),
    "hopping with gaps": _one(lambda s: s.window(sw.hopping(2, 5))),
    "hopping closed right": _one(lambda s: s.window(sw.hopping(4, 2, closed="right"))),
    "inserts": _one(lambda s: s.inserts()),
    "shift back": _one(lambda s: s.shift(-3)),
    "shift": _one(lambda s: s.shift(2)),
    "extend": _one(lambda s: s.extend(3)),
    "extend by less than nothing": _one(lambda s: s.extend(-3)),
    "clip": _one(lambda s: s.clip(2)),
    "at least that long": _one(lambda s: s.alter_lifetime(end=sw.most(sw.VE, sw.VS + 4))),
    "rounded": _one(lambda s: s.alter_lifetime(start=sw.VS.floor(3), end=sw.VE.ceil(3))),
    "rounded inwards": _one(lambda s: s.alter_lifetime(start=sw.VS.ceil(3), end=sw.VE.floor(3))),
    "between two bounds": _one(
        lambda s: s.alter_lifetime(end=sw.least(sw.most(sw.VE - 2, sw.VS + 1), sw.VS + 5))
    ),
    "one start for all": _one(lambda s: s.alter_lifetime(start=-100, end=sw.VE)),
    "deletes": _one(lambda s: s.deletes()),
    "point at end": _one(lambda s: s.point_at_end()),
    "chop": _one(lambda s: s.chop(3), unbounded=False),
    "session": _one(lambda s: s.window(sw.session(2))),
    "session of points": _one(lambda s: s.window(sw.session(1))),
    "session by key": _one(lambda s: s.group_by("k").window(sw.session(4))),
    "session by two keys": _one(lambda s: s.group_by("x", "k").window(sw.session(3))),
    "session without end": _one(lambda s: s.window(sw.session(sw.INF, by="k"))),
    "clip by a stream": _two(lambda a, b: a.clip(b)),
    "clip by key": _two(lambda a, b: a.clip(b, on="k")),
    "clip by two keys": _two(lambda a, b: a.clip(b.where(sw.col("v") > 0), on=("x", "k"))),
    "clip by itself": _one(lambda s: s.clip(s, on="v")),
    "union": _two(lambda a, b: a.union(b)),
    "union with itself": _one(lambda s: s.union(s.shift(1), s)),
    "distinct": _one(lambda s: s.distinct()),
    "distinct keys": _one(lambda s: s.select("k").distinct()),
    "intersect": _two(lambda a, b: a.select("v").intersect(b.select("v"))),
    "intersect all": _two(lambda a, b: a.select("v").intersect(b.select("v"), all=True)),
    "difference": _two(lambda a, b: a.select("k").difference(b.select("k"))),
    "difference all": _two(lambda a, b: a.select("x").difference(b.select("x"), all=True)),
    "difference with itself": _one(lambda s: s.select("k").difference(s.shift(2).select("k"), all=True)),
    "join": _two(lambda a, b: a.join(b, on="k")),
    "join by two keys": _two(lambda a, b: a.join(b, on=("k", "v"))),
    "join by a float": _two(lambda a, b: a.join(b, on={"x": "x"})),
    "join where": _two(lambda a, b: a.join(b, on="k", where=sw.col("v") > sw.col("v_right"))),
    "join, cross": _two(lambda a, b: a.join(b)),
    "join of keys": _two(lambda a, b: a.select("v").join(b.select("v"), on="v")),
    "join with itself": _one(lambda s: s.join(s, on="k", where=sw.col("v") <= sw.col("v_right"))),
    "left join": _two(lambda a, b: a.join(b, on="k", how="left")),
    "left join where": _two(
        lambda a, b: a.join(b, on="k", where=sw.col("v") > sw.col("v_right"), how="left")
    ),
    "left join, preserving order": _two(
        lambda a, b: a.join(b, on="x", how="left").latency(sw.ORDER_PRESERVING)
    ),
    "full join": _two(lambda a, b: a.join(b, on={"k": "k"}, how="full")),
    "full join where": _two(
        lambda a, b: a.join(
            b.select(w="v", y="x"), on={"x": "y"}, where=sw.col("v") > sw.col("w"), how="full"
        )
    ),
    "full join, cross": _two(lambda a, b: a.select("v").join(b.select("v"), how="full")),
    "anti join": _two(lambda a, b: a.join(b, on="k", how="anti")),
    "anti join where": _two(
        lambda a, b: a.join(b, on="k", where=sw.col("v") > sw.col("v_right"), how="anti")
    ),
    "anti join, cross": _two(lambda a, b: a.join(b, how="anti")),
    "anti join with itself": _one(lambda s: s.join(s.shift(2), on="v", how="anti")),
    "several operators": _two(
        lambda a, b: a.where(sw.col("v") > 0).window(sw.hopping(4, 2)).union(b.clip(3)).select("k", "v")
    ),
    "align": _one(lambda s: s.align(2)),
    "align not at all": _one(lambda s: s.align(0)),
    "align, strong": _one(lambda s: s.align("inf")),
    "align of few values": _one(lambda s: s.select(c=pl.lit(1)).align(3)),
    "align twice": _one(lambda s: s.align(3).align(1)),
    "align by the clock": _one(lambda s: s.align(10**12, clock="system")),
    "cleanse": _one(lambda s: s.cleanse()),
    "cleanse of few values": _one(lambda s: s.select(c=pl.lit(1)).cleanse()),
    "sort": _one(lambda s: s.sort("v")),
    "sort by three columns": _one(lambda s: s.sort("x", "k", "v")),
    "finalize": _one(lambda s: s.finalize("inf")),
    "finalize with a long memory": _one(lambda s: s.finalize(1000)),
    "the dial: blocking": _one(
        lambda s: s.where(sw.col("v") > 0).group_by("k").aggregate(n=sw.count()).consistency(blocking=2)
    ),
    "the dial: strong": _one(
        lambda s: s.group_by("k").aggregate(n=sw.count(), t=sw.sum("v")).consistency("strong")
    ),
    "the dial: ultra": _one(lambda s: s.group_by("k").aggregate(n=sw.count()).consistency("ultra")),
    "the dial over two streams": _two(
        lambda a, b: (
            a.aggregate(n=sw.count())
            .union(b.aggregate(n=sw.sum("v")), b.select(n="v"))
            .consistency(blocking=2)
        )
    ),
    "the dial and the latency": _one(
        lambda s: s.where(sw.col("v") > 0).consistency("strong").latency(sw.ORDER_PRESERVING)
    ),
}


AGGREGATES: dict[str, Callable[[sw.Query], sw.Query]] = {
    "count": lambda s: s.aggregate(n=sw.count()),
    "count by key": lambda s: s.group_by("k").aggregate(n=sw.count()),
    "sums by key": lambda s: s.group_by("k").aggregate(
        t=sw.sum("v"), m=sw.avg("v"), s=sw.sum("x"), a=sw.avg("x"), c=sw.count("x")
    ),
    "sums by a float": lambda s: s.group_by("x").aggregate(n=sw.count(), t=sw.sum("v")),
    "sums by two keys": lambda s: s.group_by("k", "v").aggregate(n=sw.count(), m=sw.avg("x")),
    "spread": lambda s: s.group_by("k").aggregate(var=sw.var("v"), dev=sw.stddev("v"), odd=sw.var("x")),
    "filtered": lambda s: s.group_by("k").aggregate(
        big=sw.sum("v", where=sw.col("v") > 0), n=sw.count(where=sw.col("x").is_not_null())
    ),
    "windowed": lambda s: (
        s.window(sw.hopping(4, 2)).group_by("k").aggregate(n=sw.count(), t=sw.sum("v"))
    ),
    "of an aggregate": lambda s: (
        s.group_by("k").aggregate(n=sw.count()).aggregate(groups=sw.count(), t=sw.sum("n"))
    ),
}
for _name, _build in AGGREGATES.items():
    for _latency in sw.OutputLatency:
        CASES[f"{_name}, {_latency.value}"] = _one(
            lambda s, build=_build, latency=_latency: build(s).latency(latency)  # type: ignore[misc]
        )


GROUPED: dict[str, Callable[[sw.Query], sw.Query]] = {
    "aggregate": lambda g: g.where(sw.col("v") > 0).aggregate(n=sw.count(), t=sw.sum("x")),
    "windows": lambda g: g.window(sw.hopping(4, 2)).select("v").union(g.shift(1).select("v")),
    "nested": lambda g: g.group_by("v").apply(lambda h: h.select("x").aggregate(m=sw.avg("x"))),
    "session": lambda g: g.window(sw.session(2)),
    "clip": lambda g: g.clip(g.where(sw.col("v") > 0)),
    "join": lambda g: g.join(g.select(w="v").shift(1), on=(), where=sw.col("v") < sw.col("w")),
    "sets": lambda g: g.select("v").distinct().difference(g.select("v").shift(2), all=True),
}
for _name, _build in GROUPED.items():
    for _keys in (("k",), ("x", "k")):
        CASES[f"group_apply {_name} by {' and '.join(_keys)}"] = _one(
            lambda s, body=_build, keys=_keys: s.group_by(*keys).apply(body)  # type: ignore[misc]
        )


# what holds rows back answers later than the prefix
_WAITING = (Align, Cleanse, Sort)


@dataclass
class Trial:
    """A case under observation: checks every law after every batch that is pushed."""

    case: Case

    def __post_init__(self) -> None:
        self.execution = Execution(self.case.query.node)
        self.output = self.execution.output
        latencies = output_latencies(self.case.query.node).values()
        waits = any(isinstance(node, _WAITING) for node in walk(rewritten(self.case.query.node)))
        self.eager = not waits and all(latency is sw.EAGER for latency in latencies)
        self.said: dict[Source, list[sw.Batch]] = {_node(s): [] for s in self.case.sources}
        self._output_is_valid = Validator()
        self._prefix_answers: list[tuple[int, History]] = []

    def push(self, source: sw.Query, part: Stream) -> None:
        """One batch in; then: the output is valid, and equals the oracle over the prefix.

        The state is written down and read back before: nobody may notice.
        """
        node = _node(source)
        self.execution.restore(pickle.loads(pickle.dumps(self.execution.snapshot())))  # noqa: S301
        for out in self.execution.push(node, part):
            self._output_is_valid.admit(out)
        self.said[node].append(sw.Batch.of(part, node.schema))
        answer = self.output.as_history()
        if self.eager:
            assert answer == self._oracle(), "EAGER: the answer is the oracle's over the prefix"
        self._prefix_answers.append((self.output.settled_until, answer))

    def close(self) -> None:
        """When all input is closed: so is the output, and what was settled was final and complete."""
        assert self.output.settled_until == sw.INF, "closed input closes the output"
        final = self._oracle()
        assert self.output.as_history() == final
        remembered = [status for status in self.execution.describe() if status.state.state_rows]
        assert not remembered, "the last promise empties the state"
        for settled_until, answer in self._prefix_answers:
            assert answer.settled(settled_until) == final.settled(settled_until)

    def _oracle(self) -> History:
        inputs: dict[Node, History] = {
            node: History.of(sw.Batch.concat([sw.Batch.empty(node.schema), *parts]))
            for node, parts in self.said.items()
        }
        return meaning(self.case.query.node, inputs)


def _node(query: sw.Query) -> Source:
    assert isinstance(query.node, Source)
    return query.node
