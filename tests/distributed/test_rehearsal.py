"""Every operator in several buckets, over sources with several partitions, against the oracle."""

from __future__ import annotations

import pickle

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.bags import Bag
from tests.laws import CASES, SCHEMA, Case, answers_at_once

import slackwater as sw
from slackwater.distributed.bucket import Bucket
from slackwater.distributed.program import Program, program_of
from slackwater.distributed.rehearsal import Rehearsal
from slackwater.events import Element
from slackwater.oracle import meaning
from slackwater.plan.nodes import Node, Source, walk
from slackwater.testing import batchings, histories, streams
from slackwater.validity import Validator


def links(s: sw.Query) -> sw.Query:
    """Links between numbers."""
    return s.select("v", w=sw.col("k").fill_null("").str.len_chars().cast(int) - 1)


def _next(reach: sw.Query, hops: sw.Query) -> sw.Query:
    """One link further, from where it began."""
    return reach.join(hops.select(m="v", u="w"), on={"w": "m"}).select("v", w="u")


left, right = sw.stream(SCHEMA, name="left"), sw.stream(SCHEMA, name="right")
small = right.where(sw.col("v") > 0).select(k="k", w="v")
hourly = left.window(sw.hopping(6, 3))
SPREAD = {
    "aggregates per bucket": hourly.aggregate(
        n=sw.count(),
        some=sw.count("x", where=sw.col("v") > 0),
        total=sw.sum("v"),
        none=sw.sum("v", where=sw.col("v") > 100),
        mean=sw.avg("v", where=sw.col("x") > 0),
        low=sw.min("x"),
        high=sw.max("k", where=sw.col("v") > 0),
    ),
    "aggregates per bucket of a union": (
        hourly.union(right.window(sw.tumbling(2))).aggregate(n=sw.count(), m=sw.avg("v"))
    ),
    "aggregates per bucket of an aggregate": (
        hourly.group_by("k").aggregate(n=sw.count()).aggregate(most=sw.max("n"), of=sw.sum("n"))
    ),
    "aggregates per bucket, held back": (
        hourly.aggregate(n=sw.count(), t=sw.sum("v")).consistency("strong")
    ),
    "broadcast right": left.join(right, on="k", broadcast="right"),
    "broadcast left": left.join(
        right, on="k", where=sw.col("v") > sw.col("v_right"), broadcast="left"
    ).select("k", "v", "v_right"),
    "broadcast of some rows, then by key": (
        left.join(small, on="k", broadcast="right").group_by("k").aggregate(n=sw.count())
    ),
    "broadcast, left join": left.join(small, on={"v": "w"}, how="left", broadcast="right"),
    "broadcast, anti join": left.join(small, on="k", how="anti", broadcast="right"),
    "broadcast, cross": left.join(small, suffix="_2", broadcast="right").select("v", "w"),
    "broadcast to a later stage": (
        left.group_by("k").aggregate(n=sw.count()).join(small, on={"n": "w"}, broadcast="right")
    ),
    "broadcast of what two read": left.join(small.union(small.shift(1)), on="k", broadcast="right").join(
        right.select(k="k", y="x"), on="k"
    ),
    "broadcast of an aggregate, to two stages": (
        left.join(right.group_by("k").aggregate(c=sw.count()), on={"v": "c"}, broadcast="right")
        .group_by("x")
        .aggregate(n=sw.count())
        .join(small, on={"n": "w"}, how="left", broadcast="right")
    ),
    "broadcast, held back": left.join(small, on="k", broadcast="right").consistency("strong"),
    "broadcast of itself": left.join(left.select(k="k", w="v"), on="k", broadcast="right"),
    "broadcast of a few, else by key": left.join(
        right.where(sw.col("v") > 0).select(k="k", w="v"), on="k", broadcast="right"
    ).join(right, on="k"),
    "broadcast as a whole, and by key": (
        left.join(right.select(k="k", w="v"), on="k", broadcast="right")
        .group_by("k")
        .aggregate(n=sw.count())
        .join(right.group_by("k").aggregate(m=sw.count()), on="k", how="full")
    ),
}
"""plans that are run otherwise in buckets than in one place"""

hops = links(left)
from_right = links(right)
HOP, COST = {"v": int, "w": int}, {"v": int, "w": int, "d": int}
none, cost = pl.lit(0, dtype=pl.Int64), pl.lit(1, dtype=pl.Int64)


def _in_groups(reach: sw.Query) -> sw.Query:
    """Ways between the links of a group."""
    own = left.select("k", "v", w=sw.col("x").fill_null(0).fill_nan(0).clip(-3, 3).cast(int))
    further = reach.join(own.select(k="k", m="v", u="w"), on={"k": "k", "w": "m"})
    return own.union(further.select("k", "v", w="u")).distinct()


def _least(far: sw.Query) -> sw.Query:
    """The fewest links from each start."""
    further = far.join(hops.select(m="v", u="w"), on={"w": "m"})
    both = hops.select("v", "w", d=cost).union(further.select("v", w="u", d=sw.col("d") + 1))
    return both.group_by("v", "w").aggregate(d=sw.min("d")).distinct()


def _on_the_right(reach: sw.Query) -> sw.Query:
    """The loop is the right side of its joins; of two, one is by what it carries."""
    allowed = from_right.select(v="v", m="w").join(reach, on="v", suffix="_2")
    further = hops.select(m="v", u="w").join(allowed.select("v", t="w", m2="m"), on={"m": "t"})
    return hops.union(further.where(sw.col("u") > sw.col("m")).select("v", w="u"))


def _unless_blocked(reach: sw.Query) -> sw.Query:
    """Upwards only, not into what is blocked."""
    further = reach.join(hops.select(m="v", u="w"), on={"w": "m"}, where=sw.col("u") > sw.col("w"))
    blocked = right.where(sw.col("x") > 0).select(b="v")
    return hops.union(further.select("v", w="u").join(blocked, on={"w": "b"}, how="anti"))


def _reach(reach: sw.Query) -> sw.Query:
    return hops.union(_next(reach, hops)).distinct()


reached = sw.fixpoint(_reach, schema=HOP)
distances = sw.fixpoint(_least, schema=COST)
SPREAD |= {
    "loop by group": sw.fixpoint(_in_groups, schema={"k": str, "v": int, "w": int}),
    "loop of least values by start": distances,
    "loop on the right": sw.fixpoint(_on_the_right, schema=HOP),
    "loop unless blocked": sw.fixpoint(_unless_blocked, schema=HOP),
    "loop, then by what it carries": reached.group_by("v").aggregate(n=sw.count()),
    "loop, then by something else": reached.group_by("w").aggregate(n=sw.count(), m=sw.min("v")),
    "loop, then all": reached.window(sw.tumbling(4)).aggregate(n=sw.count(), m=sw.max("w")),
    "loop over an aggregate": sw.fixpoint(
        lambda reach: hops.union(_next(reach, hops.group_by("v").aggregate(w=sw.max("w")))).distinct(),
        schema=HOP,
    ),
    "loop over what is in one bucket": sw.fixpoint(
        lambda reach: left.aggregate(v=sw.min("v"), w=sw.max("v")).union(_next(reach, hops)).distinct(),
        schema=HOP,
    ),
    "two loops": reached.join(distances, on=("v", "w")).union(
        sw.fixpoint(_unless_blocked, schema=HOP).select("v", "w", d=cost)
    ),
    "loop over a loop": sw.fixpoint(
        lambda reach: from_right.union(_next(reach, reached)).distinct(), schema=HOP
    ),
    "loop and its stream": reached.join(left.select("v", "x"), on="v").select("w", "x"),
    "loop and its stream, by something else": reached.join(right, on={"w": "v"}).join(
        left.select("k", y="v"), on="k"
    ),
    "loop, broadcast": left.join(reached.select(a="v", b="w"), on={"v": "a"}, broadcast="right"),
    "loop in each group": left.group_by("k").apply(
        lambda group: sw.fixpoint(
            lambda reach: links(group).union(_next(reach, links(group))).distinct(),
            schema=HOP,
        )
    ),
    "loop, held back": reached.consistency("strong"),
    "loop with an explicit broadcast": sw.fixpoint(
        lambda reach: left.select("k", "v", d=none).union(
            reach.where(sw.col("d") < 2)
            .join(right.select("k", w="v"), on="k", broadcast="right")
            .select("k", v="w", d=sw.col("d") + 1)
        ),
        schema={"k": str, "v": int, "d": int},
    ),
    "rules": sw.datalog(
        """
        reach(X, Y) :- hop(X, Y).
        reach(X, Z) :- reach(X, Y), hop(Y, Z).
        odd(X, Y) :- reach(X, Y), not back(Y, X).
        far(X, max(Y)) :- odd(X, Y).
        """,
        {"hop": hops, "back": from_right},
        "far",
    ),
    "rules that define each other": sw.datalog(
        """
        even(X, X) :- hop(X, _).
        odd(X, Z) :- even(X, Y), hop(Y, Z).
        even(X, Z) :- odd(X, Y), hop(Y, Z).
        """,
        {"hop": hops},
        "odd",
    ),
    "automaton": sw.automaton(
        left.select("v", "k"), right.select(a="v", b=sw.col("v") + 1, k="k"), start=0
    ),
}


def _case(name: str) -> Case:
    if name in CASES:
        return CASES[name]()
    query = SPREAD[name]
    return Case(query, tuple(sw.Query(n) for n in walk(query.node) if isinstance(n, Source)))


FEWER = settings(max_examples=max(1, settings().max_examples // 33))


def restored(program: Program, bucket: Bucket) -> Bucket:
    written = pickle.dumps(bucket.remembered())
    fresh = Bucket(program, bucket.stage, bucket.number)
    fresh.restore(pickle.loads(written))  # noqa: S301
    return fresh


@pytest.mark.parametrize("name", [*CASES, *SPREAD])
@FEWER
@given(data=st.data())
def test_a_plan_in_buckets_means_what_it_means(name: str, data: st.DataObject) -> None:
    case = _case(name)
    root = case.query.node
    program = program_of(root, buckets=data.draw(st.integers(1, 3)))
    at_work = Rehearsal(
        program, seed=data.draw(st.integers(0, 9)), meddle=lambda b: restored(program, b)
    )
    eager = answers_at_once(root)

    waiting: dict[tuple[Source, str], list[sw.Batch]] = {}
    said: dict[Node, Bag] = {}
    for query in case.sources:
        source = query.node
        assert isinstance(source, Source)
        said[source] = Bag()
        for partition in range(data.draw(st.integers(1, 2))):
            history = data.draw(histories(source.schema, unbounded=case.unbounded, max_size=4))
            patterns = data.draw(st.booleans(), label="promises about payloads")
            stream = data.draw(streams(history, unbounded=case.unbounded, patterns=patterns))
            parts = data.draw(batchings(stream))
            waiting[source, str(partition)] = [sw.Batch.of(part, source.schema) for part in parts]
    # each names all its partitions before anything is promised
    everyone = {s: {n: sw.Batch.empty(s.schema) for t, n in waiting if t is s} for s, _ in waiting}
    at_work.batch(everyone)
    valid = Validator()
    while waiting:
        speaking = data.draw(
            st.lists(st.sampled_from(sorted(waiting, key=_name)), min_size=1, unique=True)
        )
        given: dict[Source, dict[str, sw.Batch]] = {}
        for source, each in speaking:
            part = waiting[source, each].pop(0)
            said[source].take_in(part.data())
            given.setdefault(source, {})[each] = part
            if not waiting[source, each]:
                del waiting[source, each]
        before = len(at_work.output.batches)
        at_work.batch(given)
        for out in at_work.output.batches[before:]:
            valid.admit(out)
        if eager:
            answer = meaning(root, {node: bag.history(node.schema) for node, bag in said.items()})
            assert at_work.output.as_history() == answer, "EAGER: the oracle's answer over the prefix"
    answer = meaning(root, {node: bag.history(node.schema) for node, bag in said.items()})
    assert at_work.output.as_history() == answer
    assert at_work.output.settled_until == sw.INF


def _name(key: tuple[Source, str]) -> tuple[str, str]:
    return key[0].stream_name, key[1]


def test_what_is_broadcast_is_set_aside_once() -> None:
    """Late, invalid or without a value: every bucket finds out, and one of them says so."""
    positive = right.where(10 // sw.col("v") > 0).where(sw.col("k").cast(int) > 0)
    query = left.join(positive.select(k="k", w="v"), on="k", broadcast="right")
    policy = {right.node: sw.Progress(lateness=5)}
    program = program_of(query.node, buckets=3, progress=policy, on_invalid=sw.LEDGER)  # type: ignore[arg-type]
    at_work = Rehearsal(program)
    rows: list[list[Element]] = [
        [sw.insert(1, 9, k="1", v=1, x=0.0), sw.insert(50, 90, k="x", v=1, x=0.0)],
        [sw.insert(2, 9, k="1", v=1, x=0.0), sw.adjust(50, 90, 60, k="1", v=3, x=0.0)],
    ]
    said = [
        at_work.batch(
            {
                left.node: {"0": sw.Batch.of([sw.insert(0, 99, k="1", v=i, x=0.0)], left.schema)},  # type: ignore[dict-item]
                right.node: {"0": sw.Batch.of(part, right.schema)},  # type: ignore[dict-item]
            }
        )
        for i, part in enumerate(rows)
    ]
    assert at_work.ledger.counts() == {"no value": 1, "late": 1, "unknown event": 1}
    assert sum(told.standing.rows_in for batch in said for told in batch) == 6
    assert len(at_work.output.history()) == 2


def test_a_column_may_have_to_equal_two() -> None:
    """Rows go by it to where those go whose two columns it is equal to."""
    one, other = sw.stream({"a": int, "b": int}, name="one"), sw.stream({"x": int}, name="other")
    rows = [sw.insert(1, 9, a=n, b=n + n % 2) for n in range(20)]
    others = [sw.insert(2, 9, x=n) for n in range(20)]
    for query in (one.join(other, on={"a": "x", "b": "x"}), other.join(one, on={"x": "a"}, how="left")):
        at_work = Rehearsal(program_of(query.node, buckets=3))
        said = {one: rows, other: others}
        at_work.batch({_source(s): {"0": sw.Batch.of(each, s.schema)} for s, each in said.items()})
        assert at_work.output.as_history() == query.meaning(said)


def _source(query: sw.Query) -> Source:
    assert isinstance(query.node, Source)
    return query.node
