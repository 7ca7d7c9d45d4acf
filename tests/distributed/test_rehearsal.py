"""Every operator in several buckets, over sources with several partitions, against the oracle."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.bags import Bag
from tests.laws import CASES, answers_at_once

import slackwater as sw
from slackwater.distributed.bucket import Bucket
from slackwater.distributed.program import Program, program_of
from slackwater.distributed.rehearsal import Rehearsal
from slackwater.oracle import meaning
from slackwater.plan.nodes import Node, Source
from slackwater.testing import batchings, histories, streams
from slackwater.validity import Validator

FEWER = settings(max_examples=max(1, settings().max_examples // 25))


def _restored(program: Program, bucket: Bucket) -> Bucket:
    written = pickle.dumps(bucket.remembered())
    fresh = Bucket(program, bucket.stage, bucket.number)
    fresh.restore(pickle.loads(written))  # noqa: S301
    return fresh


@pytest.mark.parametrize("name", CASES)
@FEWER
@given(data=st.data())
def test_a_plan_in_buckets_means_what_it_means(name: str, data: st.DataObject) -> None:
    case = CASES[name]()
    root = case.query.node
    program = program_of(root, buckets=data.draw(st.integers(1, 3)))
    at_work = Rehearsal(
        program, seed=data.draw(st.integers(0, 9)), meddle=lambda b: _restored(program, b)
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
            stream = data.draw(streams(history, unbounded=case.unbounded))
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
