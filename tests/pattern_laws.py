"""The plans on which promises about columns are tried, and what is looked at after every batch.

`CASES` has at least one plan for every node that can be run, which test_pattern_laws.py checks.
`Trial` follows a plan from batch to batch and knows what its inputs and its output have said; what that
permits is decided by brute force (permitted.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

from hypothesis import strategies as st
from tests.bags import Bag, Row
from tests.laws import Case
from tests.permitted import Payload, Prefix, Told, boxes, changes, domain, forbids, frontier, implies

import slackwater as sw
from slackwater.events import Adjust, Control, Element, Insert
from slackwater.plan.nodes import Cleanse, Difference, Intersect, Source, walk
from slackwater.plan.properties import output_latencies
from slackwater.punctuations import Punctuation
from slackwater.runtime import Execution
from slackwater.testing import batchings, histories, streams
from slackwater.times import BEGIN, INF

SCHEMA = {"k": str, "v": int}
COLUMNS = {"k": st.sampled_from(["a", "b", None]), "v": st.sampled_from([0, 1, 2, None])}


def one(build: Callable[[sw.Query], sw.Query], *, unbounded: bool = True) -> Callable[[], Case]:
    """A plan that reads one stream."""

    @cache
    def case() -> Case:
        source = sw.stream(SCHEMA, name="s")
        return Case(build(source), (source,), unbounded)

    return case


def two(build: Callable[[sw.Query, sw.Query], sw.Query]) -> Callable[[], Case]:
    """A plan that reads two streams."""

    @cache
    def case() -> Case:
        left, right = sw.stream(SCHEMA, name="left"), sw.stream(SCHEMA, name="right")
        return Case(build(left, right), (left, right))

    return case


def _upwards(reach: sw.Query, seeds: sw.Query, links: sw.Query) -> sw.Query:
    """Larger and larger values of a key."""
    up = reach.join(links.select("k", w="v"), on="k", where=sw.col("w") > sw.col("v"))
    return seeds.union(up.select("k", v="w"))


def _to_and_fro(reach: sw.Query, seeds: sw.Query, links: sw.Query) -> sw.Query:
    """From a pair to what links lead to by its key, or by its value: no column goes round unchanged."""
    same_key = reach.join(links.select("k", w="v"), on="k").select("k", v="w")
    same_value = reach.join(links.select("v", other="k"), on="v").select(k="other", v="v")
    return seeds.union(same_key, same_value).distinct()


def _least(far: sw.Query, seeds: sw.Query, links: sw.Query) -> sw.Query:
    """The least that values of a key add up to."""
    more = far.join(links.select("k", w="v"), on="k").select("k", v=sw.col("v") + sw.col("w").abs())
    return seeds.union(more).group_by("k").aggregate(v=sw.min("v")).distinct()


def _unless_linked(reach: sw.Query, seeds: sw.Query, links: sw.Query) -> sw.Query:
    """Values one by one, as long as they are below the limit and no link has the same key and value."""
    more = reach.where(sw.col("v") < 2).select("k", v=sw.col("v") + 1)
    return seeds.union(more.join(links, on=("k", "v"), how="anti"))


CASES: dict[str, Callable[[], Case]] = {
    "fixpoint": two(lambda a, b: sw.fixpoint(lambda r: _upwards(r, a, b), schema=SCHEMA)),
    "fixpoint as a set": two(
        lambda a, b: sw.fixpoint(lambda r: _upwards(r, a, b).distinct(), schema=SCHEMA)
    ),
    "match": one(lambda s: s.match("A B*", within=4, n=sw.matched().count())),
    "match by key": one(
        lambda s: s.group_by("k").match(
            "A B", where={"B": sw.col("v") > sw.previous("v")}, n=sw.matched("B").last("v")
        )
    ),
    "fixpoint to and fro": two(lambda a, b: sw.fixpoint(lambda r: _to_and_fro(r, a, b), schema=SCHEMA)),
    "fixpoint as least values": two(lambda a, b: sw.fixpoint(lambda r: _least(r, a, b), schema=SCHEMA)),
    "fixpoint unless linked": two(
        lambda a, b: sw.fixpoint(lambda r: _unless_linked(r, a, b), schema=SCHEMA)
    ),
    "automaton": one(
        lambda s: sw.automaton(
            s.select("v", "k"), [("s", "q", "a"), ("q", "q", "b"), ("q", "f", "a")], start="s"
        )
    ),
    "where": one(lambda s: s.where(sw.col("v") > 0)),
    "select, renamed": one(lambda s: s.select(w="v", key="k")),
    "select, computed": one(lambda s: s.select("k", double=sw.col("v") * 2)),
    "select, one column": one(lambda s: s.select("k")),
    "sliding": one(lambda s: s.window(sw.sliding(3))),
    "tumbling": one(lambda s: s.window(sw.tumbling(4))),
    "hopping": one(lambda s: s.window(sw.hopping(6, 2))),
    "inserts": one(lambda s: s.inserts()),
    "shift back": one(lambda s: s.shift(-3)),
    "extend": one(lambda s: s.extend(3)),
    "extend by less than nothing": one(lambda s: s.extend(-3)),
    "clip": one(lambda s: s.clip(2)),
    "rounded": one(lambda s: s.alter_lifetime(start=sw.VS.floor(3), end=sw.VE.ceil(3))),
    "deletes": one(lambda s: s.deletes()),
    "point at end": one(lambda s: s.point_at_end()),
    "chop": one(lambda s: s.chop(3), unbounded=False),
    "session": one(lambda s: s.window(sw.session(2))),
    "session by key": one(lambda s: s.group_by("k").window(sw.session(4))),
    "clip by a stream": two(lambda a, b: a.clip(b)),
    "clip by key": two(lambda a, b: a.clip(b, on="k")),
    "union": two(lambda a, b: a.union(b)),
    "union with itself": one(lambda s: s.union(s.shift(1), s)),
    "merge": one(lambda s: sw.merge(s, s.shift(1).shift(-1))),
    "merge of sets": one(lambda s: sw.merge(s.distinct(), s.shift(1).shift(-1).distinct())),
    "join": two(lambda a, b: a.join(b, on="k")),
    "join by two keys": two(lambda a, b: a.join(b, on=("k", "v"))),
    "join where": two(lambda a, b: a.join(b, on="k", where=sw.col("v") > sw.col("v_right"))),
    "join, cross": two(lambda a, b: a.join(b)),
    "align": one(lambda s: s.align(2)),
    "align, strong": one(lambda s: s.align("inf")),
    "cleanse": one(lambda s: s.cleanse()),
    "cleanse, in any order": one(lambda s: s.cleanse(in_order=False)),
    "sort": one(lambda s: s.sort("v")),
    "sort by two columns": one(lambda s: s.sort("k", "v")),
    "punctuate": one(lambda s: s.punctuate(lateness=1000)),
    "finalize": one(lambda s: s.finalize("inf")),
    "the dial: blocking": one(lambda s: s.group_by("k").aggregate(n=sw.count()).consistency(blocking=2)),
    "the dial: ultra": one(lambda s: s.group_by("k").aggregate(n=sw.count()).consistency("ultra")),
    "group_apply": one(
        lambda s: s.group_by("k").apply(lambda g: g.where(sw.col("v") > 0).aggregate(n=sw.count()))
    ),
    "group_apply of sets": one(
        lambda s: s.group_by("k").apply(lambda g: g.distinct().difference(g.shift(2)))
    ),
    "warehouse": two(lambda a, b: a.union(b).distinct().group_by("k").aggregate(highest=sw.max("v"))),
    "auction": two(lambda a, b: a.join(b, on="k").group_by("k").aggregate(price=sw.sum("v_right"))),
}

BY_LATENCY_1: dict[str, Callable[[sw.Query], sw.Query]] = {
    "distinct": lambda s: s.distinct(),
    "count": lambda s: s.aggregate(n=sw.count()),
    "count by key": lambda s: s.group_by("k").aggregate(n=sw.count()),
    "sum by key": lambda s: s.group_by("k").aggregate(t=sw.sum("v")),
    "max by key": lambda s: s.group_by("k").aggregate(high=sw.max("v")),
    "count by two keys": lambda s: s.group_by("k", "v").aggregate(n=sw.count()),
    "rank by key": lambda s: s.group_by("k").aggregate(place=sw.rank("v")),
}
BY_LATENCY_2: dict[str, Callable[[sw.Query, sw.Query], sw.Query]] = {
    "intersect": lambda a, b: a.intersect(b),
    "intersect all": lambda a, b: a.intersect(b, all=True),
    "difference": lambda a, b: a.difference(b),
    "difference all": lambda a, b: a.difference(b, all=True),
    "left join": lambda a, b: a.join(b, on="k", how="left"),
    "full join": lambda a, b: a.join(b, on="k", how="full"),
    "anti join": lambda a, b: a.join(b, on="k", how="anti"),
}
for _latency in sw.OutputLatency:
    for _name, _build in BY_LATENCY_1.items():
        CASES[f"{_name}, {_latency.value}"] = one(
            lambda s, build=_build, latency=_latency: build(s).latency(latency)  # type: ignore[misc]
        )
    for _name, _both in BY_LATENCY_2.items():
        CASES[f"{_name}, {_latency.value}"] = two(
            lambda a, b, build=_both, latency=_latency: build(a, b).latency(latency)  # type: ignore[misc]
        )


class Trial:
    """A plan at work, with all that its inputs and its output have said."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.execution = Execution(case.query.node)
        self.inputs = {_source(s): Told(s.schema) for s in case.sources}
        self.prefix = Prefix(case.query.node, self.inputs, case.unbounded)
        self.output = Told(case.query.schema)

    def push(self, query: sw.Query, part: Iterable[Element]) -> list[Element]:
        """One batch in, what follows out."""
        source, batch = _source(query), sw.Batch.of(part, query.schema)
        said = self.hear(self.execution.push(source, batch))
        self.inputs[source].bag.take_in(batch)
        self.inputs[source].promises += (box for p in batch.controls for box in boxes(p.control))
        return said

    def hear(self, batches: Iterable[sw.Batch]) -> list[Element]:
        """What the plan says."""
        said: list[Element] = []
        for out in batches:
            said += out
            self.output.bag.take_in(out)
            self.output.promises += (box for p in out.controls for box in boxes(p.control))
        return said

    def told_by(self, query: sw.Query) -> Told:
        """What an input has said."""
        return self.inputs[_source(query)]

    def promised(self, payload: Payload) -> int:
        """How far the output has promised a payload."""
        return frontier(self.output.promises, payload)

    @property
    def state_rows(self) -> dict[str, int]:
        """What is remembered, by operator."""
        remembered: Counter[str] = Counter()
        for status in self.execution.describe():
            remembered[status.name] += status.state.state_rows
        return dict(+remembered)


def broken(said: Iterable[Element], earlier: Iterable[Punctuation]) -> list[tuple[Element, Punctuation]]:
    """Elements that come after a promise which forbids them, and that promise."""
    made = list(earlier)
    found: list[tuple[Element, Punctuation]] = []
    for element in said:
        if isinstance(element, Control):
            made += boxes(element)
        elif isinstance(element, Insert | Adjust):
            found += [(element, p) for p in made if forbids(p, element.payload, element.sync)]
    return found


def contradicted(trial: Trial, answer: Bag) -> list[tuple[Payload, int]]:
    """Payloads of which something was said for good, and before which time it would have to change."""
    found = []
    for key, sync in changes(trial.output.bag.rows, answer.rows).items():
        bag = answer if answer.knows(key) else trial.output.bag
        promised = trial.promised(bag.payload(key))
        if sync < promised or promised == sw.INF:
            found.append((bag.payload(key), sync))
    return found


def unsettled(trial: Trial, *, late: bool = False, judged: Prefix | None = None) -> list[Row]:
    """The rows that every permitted continuation implies, and that the output does not settle.

    A row is implied if whatever changes its payload does so after the row has ended; if it may be late,
    a chronon after that. PERFECTNESS_PRESERVING and cleanse show nothing else: it has to be shown. A row
    that ends where the promise does may be lengthened by as many elements as there are events that end
    there; so many are not tried. Of bags, PERFECTNESS_PRESERVING shows the copies of a payload in the
    order of their starts (perfect input gives perfect output), so that one waits for those that started
    before it and are not implied. What is permitted, and what it changes, another prefix may judge.
    """
    root = trial.case.query.node
    perfect = sw.PERFECTNESS_PRESERVING in output_latencies(root).values()
    shown_is_final = isinstance(root, Cleanse) or perfect
    in_order = perfect and any(
        isinstance(node, Intersect | Difference) and node.bag for node in walk(root)
    )
    answer, said = trial.prefix.answer(), trial.output.bag.rows
    left = []
    for row, copies in answer.rows.items():
        promised = trial.promised(answer.payload(row[2]))
        settled = shown_is_final or row[1] < promised or promised == sw.INF
        if said[row] != copies or not (settled or row[1] == promised):
            left.append(row)
    implied = set(answer.rows)
    judged = judged or trial.prefix
    before = judged.answer()
    for other in judged.continuations() if left else ():
        changed = changes(before.rows, other.rows)
        implied -= {row for row in implied if changed.get(row[2], row[1] + late + 1) <= row[1] + late}
        open_rows = answer.rows.keys() - implied if in_order else set()
        left = [row for row in left if row in implied and not any(_waits(row, o) for o in open_rows)]
        if not left:
            break
    return left


def by_time_alone(trial: Trial) -> Prefix:
    """What its inputs have said, as if they had promised nothing but ctis."""
    heard = {
        source: replace(told, promises=[p for p in told.promises if p.is_cti])
        for source, told in trial.inputs.items()
    }
    return replace(trial.prefix, inputs=heard)


def open_from(prefix: Prefix) -> int:
    """When the first event starts that its stream's cti still lets change."""
    starts = [
        vs
        for told in prefix.inputs.values()
        for vs, ve, _ in told.bag.rows
        if ve >= max((promise.before for promise in told.promises), default=BEGIN)
    ]
    return min(starts, default=INF)


def _waits(row: Row, other: Row) -> bool:
    """Whether a row comes after another one of its payload."""
    return row[2] == other[2] and row[0] > other[0]


def repeated(said: Iterable[Element], stream: Told) -> list[Punctuation]:
    """Promises that an earlier one of the same stream implies; `stream` is as it was before."""
    earlier = list(stream.promises)
    new = [box for element in said if isinstance(element, Control) for box in boxes(element)]
    payloads = domain([Told(stream.schema, stream.bag, [*earlier, *new])])
    found = []
    for promise in new:
        if any(implies(known, promise, payloads) for known in earlier):
            found.append(promise)
        earlier.append(promise)
    return found


def _source(query: sw.Query) -> Source:
    assert isinstance(query.node, Source)
    return query.node


def drawn(data: st.DataObject, trial: Trial, **options: Any) -> Iterator[tuple[sw.Query, list[Element]]]:
    """Batches of the inputs, in an order that keeps each stream's own."""
    cut = []
    unbounded = trial.case.unbounded
    for source in trial.case.sources:
        history = data.draw(
            histories(source.schema, columns=COLUMNS, max_size=4, span=6, unbounded=unbounded)
        )
        stream = data.draw(
            streams(history, columns=COLUMNS, unbounded=unbounded, **{"patterns": True, **options})
        )
        cut.append([(source, part) for part in data.draw(batchings(stream))])
    turns = data.draw(st.permutations([i for i, parts in enumerate(cut) for _ in parts]))
    waiting = [iter(parts) for parts in cut]
    for i in turns:
        yield next(waiting[i])
