"""The laws that hold for every operator, and the plans they are tried on.

Two families of tests: two ways of telling one history against each other, and everything against the
oracle, which recomputes from scratch. A `Case` is a small plan with its streams; `CASES` names at
least one for every node that can be run, which test_laws.py checks.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np
import polars as pl
import pyarrow.compute as pc
from tests.bags import Bag

import slackwater as sw
import slackwater.state
from slackwater import timelines
from slackwater.consistency import Clock, Dial
from slackwater.events import Stream
from slackwater.history import History
from slackwater.kernels import arrays
from slackwater.ledger import Ledger
from slackwater.operators import buffer
from slackwater.oracle import meaning
from slackwater.plan.nodes import Align, Cleanse, Consistency, Merge, Node, Sort, Source, walk
from slackwater.plan.properties import output_latencies
from slackwater.plan.rewrites import rewritten
from slackwater.runtime import Execution, Output
from slackwater.testing import ManualClock
from slackwater.validity import StreamProperties, Validator

# histories are tiny here: what is done now and then must be done at every turn, or it is never tried
buffer.LEAST_ROOM = 1
buffer.MANY_ROWS = 2
timelines._LEAST_TAKING = 0
timelines._MANY_ROWS, timelines._SEEN = 1, 4
arrays.LEAST = 1


def _give_back(spares: arrays.Spares, array: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> None:
    """As it is, but whoever still looks at the array sees that it is another's."""
    given_back(spares, array)
    if spares.kept:
        spares.kept[-1].fill(-(2**62))


given_back = arrays.Spares.give_back
arrays.Spares.give_back = _give_back  # type: ignore[assignment, method-assign]


def forget_at_once(at_once: bool) -> None:
    """Whether what is frozen is looked for at every promise, or only when there is much of it."""
    slackwater.state.SWEEP_FROM = 0 if at_once else 1024
    slackwater.state.SWEEP_FACTOR = 0 if at_once else 2


forget_at_once(True)


@dataclass(frozen=True, eq=False)
class Case:
    """A plan, and the streams it reads."""

    query: sw.Query
    sources: tuple[sw.Query, ...]
    unbounded: bool = True
    """whether events may last for ever"""
    adjusts: bool = True
    """whether they may change; if not, the streams say so"""

    @cached_property
    def answers_at_once(self) -> bool:
        """Whether the answer after every batch is the oracle's over the input so far."""
        return answers_at_once(self.query.node)

    @cached_property
    def used(self) -> list[Pair]:
        """Executions of trials that ended well: to build some anew takes as long as several batches."""
        return []


class Pair:
    """Two executions of a plan, which tell each other all that they remember."""

    def __init__(self, root: Node) -> None:
        self.clock = ManualClock()
        self.current, self.other = (Execution(root, now=self._now) for _ in range(2))
        self._opening = pickle.dumps(self.current.snapshot())

    def _now(self) -> int:
        return self.clock.now()

    def begin(self) -> None:
        """From the beginning, with what was used before, and at time 0."""
        self.clock = ManualClock()
        self.current.output = Output(self.current.output.as_batch().schema, Ledger())
        self.current.restore(pickle.loads(self._opening))  # noqa: S301

    def swap(self) -> None:
        """The other goes on, from all that is remembered; it has to forget what it remembers itself."""
        written = pickle.dumps(self.current.snapshot())
        self.other.output = self.current.output
        self.current, self.other = self.other, self.current
        self.current.restore(pickle.loads(written))  # noqa: S301


SCHEMA = {"k": str, "v": int, "x": float}


def _one(build: Callable[[sw.Query], sw.Query], *, unbounded: bool = True) -> Callable[[], Case]:
    @cache
    def case() -> Case:
        source = sw.stream(SCHEMA, name="s")
        return Case(build(source), (source,), unbounded)

    return case


def _two(build: Callable[[sw.Query, sw.Query], sw.Query]) -> Callable[[], Case]:
    @cache
    def case() -> Case:
        left, right = sw.stream(SCHEMA, name="left"), sw.stream(SCHEMA, name="right")
        return Case(build(left, right), (left, right))

    return case


_A, _B, _ALL = sw.matched("A"), sw.matched("B"), sw.matched()
MATCHES: dict[str, Callable[[sw.Query], sw.Query]] = {
    "in order": lambda s: s.match(
        "A B* C",
        where={"A": sw.col("v") > 0, "B": sw.col("v") <= _A.last("v"), "C": sw.col("k").is_not_null()},
        n=_ALL.count(), t=_B.sum("v"), k=sw.matched("C").last("k"),
    ),
    "from every row": lambda s: s.match(
        "A B* C", within=5, after=sw.TO_NEXT_ROW,
        where={"A": sw.col("v") > 0, "B": sw.col("v") <= _A.last("v"), "C": sw.col("k").is_not_null()},
        n=_ALL.count(), t=_B.sum("v"), x=_ALL.sum("x"),
    ),
    "that may go on": lambda s: s.match(
        "A+ B*", within=6, where={"A": _A.sum("v") < 4, "B": sw.col("k") == "a"},
        n=_A.count("x"), m=_B.avg("v"), low=_ALL.min("x"), high=_ALL.max("k"),
    ),
    "that may go on, from every row": lambda s: s.match(
        "A B+", within=6, after=sw.TO_NEXT_ROW,
        where={"B": sw.col("v") >= sw.previous("v")}, n=_B.count(), x=_B.first("x"), y=_B.last("x"),
    ),
    "that gives up": lambda s: s.match(
        "((A B C | A) B) | A", where={"A": sw.col("v") > 0, "B": sw.col("v") < 3, "C": sw.col("v") > 1},
        n=_ALL.count(), k=_ALL.first("k"),
    ),
    "that gives up, from every row": lambda s: s.match(
        "(A B C | B)? (A | C A)*", within=9, after=sw.TO_NEXT_ROW,
        where={"A": sw.col("v") > 0, "B": sw.col("v") < 3, "C": sw.col("v") > 1},
        n=_ALL.count(), low=_A.min("v"), high=_A.max("x"),
    ),
    "by key": lambda s: s.group_by("k").match(
        "A B", where={"B": sw.col("v") > sw.previous("v")}, within=8, x=_A.last("x"), n=_ALL.max("v"),
    ),
    "by two keys": lambda s: s.group_by("v", "k").match("A A?", n=_A.count()),
}  # fmt: skip
_MOVES: dict[str, list[object]] = {
    "before": ["s", "q", "q", "f", "q", "s"], "after": ["q", "q", "f", "q", "q", None],
    "symbol": ["a", "b", "a", "b", "b", None], "step": [1, -1, 0, 2, 1, 5], "above": [-9, 0, 0, 1, 1, 0],
}  # fmt: skip
AUTOMATA: dict[str, Callable[[sw.Query], sw.Query]] = {
    "of words": lambda s: sw.automaton(
        s.select("v", "k", "x"), [("s", "q", "a"), ("q", "q", "b"), ("q", "f", "a")], start="s"
    ),
    "with registers": lambda s: sw.automaton(
        s.select("v", "k", "x"), _MOVES, start="s",
        registers={"m": (0, sw.col("m") + sw.col("step")), "y": (0.5, sw.col("y") + sw.col("x"))},
        where=(sw.col("m") > sw.col("above")) | (sw.col("x") > 0) | (sw.col("begin") == sw.col("end")),
    ),
    "of each group": lambda s: s.group_by("x").apply(
        lambda group: sw.automaton(
            group.select("v", "k"), _MOVES, start="s",
            registers={"m": (0, sw.col("m") + sw.col("step"))}, where=sw.col("m") >= sw.col("above"),
        ).where(sw.col("state") != "s")
    ),
}  # fmt: skip
CASES: dict[str, Callable[[], Case]] = {
    "where": _one(lambda s: s.where(sw.col("v") > 0)),
    "where on strings and nulls": _one(lambda s: s.where((sw.col("k") == "a") | sw.col("x").is_null())),
    "select": _one(lambda s: s.select("k", double=sw.col("v") * 2)),
    "select that loses columns": _one(lambda s: s.select("k")),
    "where of a function": _one(
        lambda s: s.where(sw.function(pc.abs, "v", returns=int) > sw.col("x").fill_nan(0.0))
    ),
    "select of a function": _one(
        lambda s: s.select(length=sw.function(pc.utf8_length, "k", returns=int) * 2)
    ),
    "join where a function": _two(
        lambda a, b: a.join(b, on="k", where=sw.function(pc.less, "v", "v_right", returns=bool))
    ),
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
    "clip by the next": _one(lambda s: s.inserts().clip(s, on="v")),
    **{
        f"match {name}": _one(lambda s, build=build: build(s))  # type: ignore[misc]
        for name, build in MATCHES.items()
    },
    **{
        f"automaton {name}": _one(lambda s, build=build: build(s))  # type: ignore[misc]
        for name, build in AUTOMATA.items()
    },
    "union": _two(lambda a, b: a.union(b)),
    "union with itself": _one(lambda s: s.union(s.shift(1), s)),
    "merge": _one(lambda s: sw.merge(s, s.shift(1).shift(-1))),
    "merge of sets": _two(
        lambda a, b: sw.merge(
            a.union(b).distinct(), b.union(a.where(sw.col("k").is_not_null() | True)).distinct()
        )
    ),
    "merge of plans": _one(
        lambda s: sw.merge(
            s.group_by("k").aggregate(n=sw.count()),
            s.select("k", "v").shift(2).group_by("k").aggregate(n=sw.count()).shift(-2),
            policy=sw.merge_policy(adjusts=sw.EVERY),
        )
    ),
    "distinct": _one(lambda s: s.distinct()),
    "difference with itself": _one(lambda s: s.select("k").difference(s.shift(2).select("k"), all=True)),
    "join": _two(lambda a, b: a.join(b, on="k")),
    "join by two keys": _two(lambda a, b: a.join(b, on=("k", "v"))),
    "join by a float": _two(lambda a, b: a.join(b, on={"x": "x"})),
    "join where": _two(lambda a, b: a.join(b, on="k", where=sw.col("v") > sw.col("v_right"))),
    "join, cross": _two(lambda a, b: a.join(b)),
    "join of keys": _two(lambda a, b: a.select("v").join(b.select("v"), on="v")),
    "join with itself": _one(lambda s: s.join(s, on="k", where=sw.col("v") <= sw.col("v_right"))),
    "left join where": _two(
        lambda a, b: a.join(b, on="k", where=sw.col("v") > sw.col("v_right"), how="left")
    ),
    "full join where": _two(
        lambda a, b: a.join(
            b.select(w="v", y="x"), on={"x": "y"}, where=sw.col("v") > sw.col("w"), how="full"
        )
    ),
    "full join, cross": _two(lambda a, b: a.select("v").join(b.select("v"), how="full")),
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
    "cleanse, in any order": _one(lambda s: s.cleanse(in_order=False)),
    "cleanse of few values, in any order": _one(lambda s: s.select(c=pl.lit(1)).cleanse(in_order=False)),
    "cleanse of few values": _one(lambda s: s.select(c=pl.lit(1)).cleanse()),
    "sort": _one(lambda s: s.sort("v")),
    "sort by three columns": _one(lambda s: s.sort("x", "k", "v")),
    "punctuate": _one(lambda s: s.punctuate(lateness=1000)),
    "punctuate before an aggregate": _one(
        lambda s: s.punctuate(lateness=1000).group_by("k").aggregate(n=sw.count())
    ),
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


def _told(words: list[str | None], numbers: list[float | None]) -> str:
    """A function of a group that shows every value and their order; -0.0 and 0.0 are one value."""
    return f"{words} {[None if x is None else x + 0.0 for x in numbers]}"


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
    "extremes": lambda s: s.group_by("k").aggregate(
        low=sw.min("v"), high=sw.max("v"), top=sw.top_k("x", 2), word=sw.max("k"), n=sw.count()
    ),
    "middles": lambda s: s.group_by("k").aggregate(
        p=sw.percentile("v", 0.6), m=sw.percentile("x", 0.5), d=sw.count_distinct("x"), t=sw.sum("x")
    ),
    "extremes of all": lambda s: s.aggregate(
        low=sw.min("k", where=sw.col("v") > 0), top=sw.top_k("k", 3), d=sw.count_distinct("k")
    ),
    "first and last": lambda s: s.group_by("v").aggregate(
        a=sw.first("k"), b=sw.last("k"), c=sw.first("x", where=sw.col("k") == "a"), d=sw.last("x")
    ),
    "product": lambda s: s.group_by("k").aggregate(p=sw.product("v"), q=sw.product("x")),
    "fold": lambda s: s.aggregate(
        total=sw.fold(
            "v",
            init=lambda: 0,
            add=lambda state, value: state + value,
            remove=lambda state, value: state - value,
            result=lambda state: state,
            dtype=int,
        )
    ),
    "group function": lambda s: s.group_by("v").aggregate(
        words=sw.group_function(_told, "k", "x", dtype=str), n=sw.count()
    ),
    "rank": lambda s: s.aggregate(place=sw.rank("v")),
    "rank by key": lambda s: s.group_by("k").aggregate(place=sw.rank("x", descending=True)),
    "rank of words": lambda s: s.group_by("v").aggregate(place=sw.rank("k")),
    "rank of equals": lambda s: s.select("v", c=pl.lit(1)).aggregate(place=sw.rank("c")),
    "of an aggregate": lambda s: (
        s.group_by("k").aggregate(n=sw.count()).aggregate(groups=sw.count(), t=sw.sum("n"))
    ),
}
for _name, _build in AGGREGATES.items():
    for _latency in sw.OutputLatency:
        CASES[f"{_name}, {_latency.value}"] = _one(
            lambda s, build=_build, latency=_latency: build(s).latency(latency)  # type: ignore[misc]
        )


SETS: dict[str, Callable[[sw.Query, sw.Query], sw.Query]] = {
    "intersect": lambda a, b: a.select("v").intersect(b.select("v")),
    "intersect all": lambda a, b: a.select("v").intersect(b.select("v"), all=True),
    "difference": lambda a, b: a.select("k").difference(b.select("k")),
    "difference all": lambda a, b: a.select("x").difference(b.select("x"), all=True),
    "left join": lambda a, b: a.join(b, on="k", how="left"),
    "full join": lambda a, b: a.join(b, on={"k": "k"}, how="full"),
    "full join where": lambda a, b: a.join(b, on="x", where=sw.col("v") > sw.col("v_right"), how="full"),
    "anti join": lambda a, b: a.join(b, on="k", how="anti"),
}
for _latency in sw.OutputLatency:
    CASES[f"distinct keys, {_latency.value}"] = _one(
        lambda s, latency=_latency: s.select("k").distinct().latency(latency)  # type: ignore[misc]
    )
    for _name, _sets in SETS.items():
        CASES[f"{_name}, {_latency.value}"] = _two(
            lambda a, b, build=_sets, latency=_latency: build(a, b).latency(latency)  # type: ignore[misc]
        )


GROUPED: dict[str, Callable[[sw.Query], sw.Query]] = {
    "aggregate": lambda g: g.where(sw.col("v") > 0).aggregate(n=sw.count(), t=sw.sum("x")),
    "windows": lambda g: g.window(sw.hopping(4, 2)).select("v").union(g.shift(1).select("v")),
    "nested": lambda g: g.group_by("v").apply(lambda h: h.select("x").aggregate(m=sw.avg("x"))),
    "session": lambda g: g.window(sw.session(2)),
    "clip": lambda g: g.clip(g.where(sw.col("v") > 0)),
    "join": lambda g: g.join(g.select(w="v").shift(1), on=(), where=sw.col("v") < sw.col("w")),
    "rank": lambda g: g.aggregate(place=sw.rank("v")),
    "sets": lambda g: g.select("v").distinct().difference(g.select("v").shift(2), all=True),
}
SHOWING_SNAPSHOTS = ("aggregate", "nested", "rank", "sets")
"""the bodies for which the output latency matters"""
for _name, _build in GROUPED.items():
    for _keys in (("k",), ("x", "k")):
        for _latency in sw.OutputLatency if _name in SHOWING_SNAPSHOTS else (sw.EAGER,):
            CASES[f"group_apply {_name} by {' and '.join(_keys)}, {_latency.value}"] = _one(
                lambda s, body=_build, keys=_keys, latency=_latency: (  # type: ignore[misc]
                    s.group_by(*keys).apply(body).latency(latency)
                )
            )


def _hops(links: sw.Query) -> sw.Query:
    """Links between numbers, from v to w."""
    return links.select("v", w=sw.col("k").fill_null("").str.len_chars().cast(pl.Int64) - 1)


def _by_depth(reach: sw.Query, seeds: sw.Query, links: sw.Query) -> sw.Query:
    """Numbers that can be reached over at most three links, once for each way to get there."""
    further = reach.where(sw.col("d") < 3).join(_hops(links), on="v")
    return seeds.select("v", d=pl.lit(0, dtype=pl.Int64)).union(further.select(v="w", d=sw.col("d") + 1))


def _by_halves(reach: sw.Query, seeds: sw.Query, links: sw.Query) -> sw.Query:
    """Ways of at most three links, each put together of two shorter ones in all ways."""
    there = reach.select(m="w", v="v", d="d")
    both = there.join(reach.select(m="v", w="w", e="d"), on="m", where=sw.col("d") + sw.col("e") <= 3)
    hops = _hops(links).union(_hops(seeds)).select("v", "w", d=pl.lit(1, dtype=pl.Int64))
    return hops.union(both.select("v", "w", d=sw.col("d") + sw.col("e")))


def _unless_blocked(reach: sw.Query, seeds: sw.Query, links: sw.Query) -> sw.Query:
    """Upwards only, over links that last for a while, not into what is blocked."""
    up = reach.join(_hops(links).clip(3), on="v", where=sw.col("w") > sw.col("v")).select(v="w")
    return seeds.select("v").union(up.join(links.where(sw.col("x") > 0), on="v", how="anti"))


def _in_time(reach: sw.Query, seeds: sw.Query, links: sw.Query) -> sw.Query:
    """What is reached is so for as long as a window, one instant later."""
    further = reach.where(sw.col("d") < 3).join(_hops(links), on="v").select(v="w", d=sw.col("d") + 1)
    return seeds.select("v", d=pl.lit(0, dtype=pl.Int64)).union(further.window(sw.sliding(4)).shift(1))


def _as_a_set(reach: sw.Query, seeds: sw.Query, links: sw.Query) -> sw.Query:
    """Numbers that can be reached at all, over cycles, too."""
    return seeds.select("v").union(reach.join(_hops(links), on="v").select(v="w")).distinct()


def _from_each_start(reach: sw.Query, seeds: sw.Query, links: sw.Query) -> sw.Query:
    """From where to where there is a way; in buckets it is spread by where from."""
    further = reach.join(_hops(links).select(m="v", u="w"), on={"w": "m"}).select("v", w="u")
    return _hops(links).union(_hops(seeds.where(sw.col("x") > 0)), further).distinct()


def _as_least_values(reach: sw.Query, seeds: sw.Query, links: sw.Query) -> sw.Query:
    """How far each number is, where links to others cost 1, and those to itself nothing."""
    cost = sw.col("d") + (sw.col("v") != sw.col("w")).cast(pl.Int64)
    further = reach.join(_hops(links), on="v").select(v="w", d=cost)
    all_ways = seeds.select("v", d=pl.lit(0, dtype=pl.Int64)).union(further)
    return all_ways.group_by("v").aggregate(d=sw.min("d")).distinct()


_V, _VW, _VD = {"v": int}, {"v": int, "w": int}, {"v": int, "d": int}
_VWD = {"v": int, "w": int, "d": int}
LOOPS: dict[str, tuple[Callable[[sw.Query, sw.Query, sw.Query], sw.Query], dict[str, type[int]]]] = {
    "by depth": (_by_depth, _VD),
    "by halves": (_by_halves, _VWD),
    "unless blocked": (_unless_blocked, _V),
    "in time": (_in_time, _VD),
    "as a set": (_as_a_set, _V),
    "from each start": (_from_each_start, _VW),
    "as least values": (_as_least_values, _VD),
}
for _name, (_turn, _columns) in LOOPS.items():
    _every_way = (sw.Hybrid(), sw.Probing(), sw.HighWaterMark())
    for _speculation in _every_way if _name in ("by depth", "as a set") else _every_way[:1]:
        CASES[f"fixpoint {_name}, {_speculation}"] = _two(
            lambda a, b, turn=_turn, columns=_columns, speculation=_speculation: (  # type: ignore[misc]
                sw.fixpoint(lambda r: turn(r, a, b), schema=columns, speculation=speculation)
            )
        )


DIALS = (
    sw.MIDDLE,
    *(Dial(blocking=b, clock=clock) for b in range(1, 8) for clock in Clock),
    sw.STRONG,
    sw.ULTRA,
)
"""How long a plan may wait: not at all, for a while in either time, for the cti, for ends as well."""


@cache
def at(name: str, dial: Dial) -> Case:
    """A case at a point of the spectrum. Dials that the case has itself are nearer, and stay."""
    case = EVERY_CASE[name]()
    return replace(case, query=sw.Query(Consistency(case.query.node, dial)))


def _of_inserts(build: Callable[[sw.Query, sw.Query], sw.Query]) -> Callable[[], Case]:
    @cache
    def case() -> Case:
        known = StreamProperties(insert_only=True)
        left, right = (sw.stream(SCHEMA, name=name, properties=known) for name in ("left", "right"))
        return Case(build(left, right), (left, right), adjusts=False)

    return case


OF_INSERTS = {
    f"{name} of inserts, {latency.value}": _of_inserts(
        lambda a, b, build=build, latency=latency: build(a, b).latency(latency)  # type: ignore[misc]
    )
    for name, build in {**SETS, "join": lambda a, b: a.join(b, on="k")}.items()
    for latency in sw.OutputLatency
}
"""what is known never to change may be forgotten sooner; only streams without adjusts may be read so"""
EVERY_CASE = {**CASES, **OF_INSERTS}


# what holds rows back answers later than the prefix
WAITING = (Align, Cleanse, Merge, Sort)


def answers_at_once(root: Node) -> bool:
    """Whether the answer after every batch is the oracle's over the input so far."""
    waits = any(isinstance(node, WAITING) for node in walk(rewritten(root)))
    return not waits and all(latency is sw.EAGER for latency in output_latencies(root).values())


@dataclass
class Trial:
    """A case under observation: checks every law after every batch that is pushed."""

    case: Case

    def __post_init__(self) -> None:
        self._pair = self.case.used.pop() if self.case.used else Pair(self.case.query.node)
        self._pair.begin()
        self.clock = self._pair.clock
        self.output = self.execution.output
        self.said: dict[Source, Bag] = {_node(s): Bag() for s in self.case.sources}
        self._answer = Bag()
        self._oracle: History | None = None
        self._output_is_valid = Validator()
        self._prefix_answers: list[tuple[int, Bag]] = []

    @property
    def execution(self) -> Execution:
        """The one of the two whose turn it is."""
        return self._pair.current

    def push(self, source: sw.Query, part: Stream, *, restored: bool = True) -> None:
        """One batch in; then: the output is valid, and equals the oracle over the prefix.

        If `restored`, all that is remembered is first written down and read back by another execution:
        nobody may notice.
        """
        node, batch = _node(source), sw.Batch.of(part, source.schema)
        if restored:
            self._pair.swap()
        for out in self.execution.push(node, batch):
            self._output_is_valid.admit(out)
            self._answer.take_in(out)
        if batch.rows:
            self.said[node].take_in(batch)
            self._oracle = None
        if self.case.answers_at_once:
            assert self._answer == Bag.of(self.oracle()), "EAGER: the oracle's answer over the prefix"
        self._prefix_answers.append((self.output.settled_until, self._answer.copy()))

    def close(self) -> None:
        """When all input is closed: so is the output, and what was settled was final and complete."""
        assert self.output.settled_until == sw.INF, "closed input closes the output"
        assert self.output.as_history() == self.oracle()
        remembered = [status for status in self.execution.describe() if status.state.state_rows]
        assert not remembered, "the last promise empties the state"
        final = Bag.of(self.oracle())
        for settled_until, answer in self._prefix_answers:
            assert answer.settled(settled_until) == final.settled(settled_until)
        self.case.used.append(self._pair)

    def oracle(self) -> History:
        """The meaning of what was said so far; asked again only if there is something new."""
        if self._oracle is None:
            inputs: dict[Node, History] = {
                node: bag.history(node.schema) for node, bag in self.said.items()
            }
            self._oracle = meaning(self.case.query.node, inputs)
        return self._oracle


def _node(query: sw.Query) -> Source:
    assert isinstance(query.node, Source)
    return query.node
