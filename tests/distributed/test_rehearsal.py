"""Every operator in several buckets, over sources with several partitions, against the oracle."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.bags import Bag
from tests.laws import SCHEMA, SPREADABLE, Case, answers_at_once

import slackwater as sw
from slackwater.distributed.bucket import Bucket
from slackwater.distributed.program import Program, program_of
from slackwater.distributed.rehearsal import Rehearsal
from slackwater.events import Element
from slackwater.oracle import meaning
from slackwater.plan.nodes import Node, Source, walk
from slackwater.testing import batchings, histories, streams
from slackwater.validity import Validator

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
}
"""plans that are run otherwise in buckets than in one place"""


def _case(name: str) -> Case:
    if name in SPREADABLE:
        return SPREADABLE[name]()
    query = SPREAD[name]
    return Case(query, tuple(sw.Query(n) for n in walk(query.node) if isinstance(n, Source)))


FEWER = settings(max_examples=max(1, settings().max_examples // 33))


def restored(program: Program, bucket: Bucket) -> Bucket:
    written = pickle.dumps(bucket.remembered())
    fresh = Bucket(program, bucket.stage, bucket.number)
    fresh.restore(pickle.loads(written))  # noqa: S301
    return fresh


@pytest.mark.parametrize("name", [*SPREADABLE, *SPREAD])
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
