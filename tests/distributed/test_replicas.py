"""Replicas of a stream that come and go, merged in buckets: what comes out is the one history."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.distributed.test_rehearsal import restored
from tests.test_merge_laws import (
    COLUMN_TYPES,
    COLUMNS,
    MANNERS,
    POLICIES,
    drawn_history,
    replicas_of,
)

import slackwater as sw
from slackwater.distributed.controls import Attached, Detached
from slackwater.distributed.program import program_of
from slackwater.distributed.rehearsal import Rehearsal
from slackwater.errors import OperatorError
from slackwater.events import Element
from slackwater.history import History
from slackwater.persistence import decode, encode
from slackwater.plan.merges import chosen
from slackwater.plan.nodes import Merge, Source
from slackwater.runtime import Execution
from slackwater.testing import batchings, histories, streams
from slackwater.times import BEGIN
from slackwater.validity import Validator

FEW = settings(max_examples=max(1, settings().max_examples // 8))
KEYED = sw.stream(COLUMN_TYPES, name="copies", properties=MANNERS["R3"][1], replicated=True)
BAGS = sw.stream(COLUMN_TYPES, name="copies", replicated=True)
CASES = {
    "R3": (KEYED, "default"),
    "R3, after half, every": (KEYED, "after half, every"),
    "R4": (BAGS, "default"),
    "R4, half frozen": (BAGS, "half frozen"),
    "R4, every, trailing": (BAGS, "every, trailing"),
}


def _source(query: sw.Query) -> Source:
    assert isinstance(query.node, Source)
    return query.node


@dataclass
class Copy:
    """A replica: what its partitions are going to say, batch by batch."""

    name: str
    parts: dict[str, list[list[Element]]]
    since: int = BEGIN

    @property
    def is_done(self) -> bool:
        return not any(self.parts.values())


def _copy(data: st.DataObject, name: str, history: History, *, keyed: bool, since: int = BEGIN) -> Copy:
    events = [event for event in history.events() if event.ve >= since]
    manner: dict[str, Any] = {"vs_payload_key": True} if keyed else {}
    shares: list[list[Any]] = [events]
    if not keyed:
        # each replica has its own way of spreading events over partitions
        where = data.draw(st.lists(st.integers(0, 1), min_size=len(events), max_size=len(events)))
        shares = [[e for e, at in zip(events, where, strict=True) if at == i] for i in range(2)]
    parts = {}
    for number, share in enumerate(shares):
        part = History.from_events(share, history.schema)
        told = data.draw(streams(part, columns=COLUMNS, **manner))
        parts[f"{name}/{number}"] = [list(each) for each in data.draw(batchings(told))]
    return Copy(name, parts, since)


@pytest.mark.parametrize("name", CASES)
@FEW
@given(data=st.data())
def test_one_history_comes_out(name: str, data: st.DataObject) -> None:
    stream, policy = CASES[name]
    keyed = stream is KEYED
    history = data.draw(histories(stream.schema, columns=COLUMNS, max_size=5, vs_payload_key=keyed))
    source = _source(stream)
    query = sw.merge(stream, policy=POLICIES[policy])
    progress = {source: sw.progress(partitions=1 if keyed else 2)}
    program = program_of(query.node, buckets=data.draw(st.integers(1, 3)), progress=progress)
    at_work = Rehearsal(
        program, seed=data.draw(st.integers(0, 9)), meddle=lambda bucket: restored(program, bucket)
    )
    # the first never fails; others come and go
    first = _copy(data, "0", history, keyed=keyed)
    running, valid, number = [first], Validator(), 1
    while not first.is_done:
        told: list[Attached | Detached] = []
        if data.draw(st.integers(0, 3), label="one more begins") == 3:
            since = data.draw(st.one_of(st.just(BEGIN), st.integers(0, 12)))
            running.append(_copy(data, str(number), history, keyed=keyed, since=since))
            if since > BEGIN:
                told.append(Attached("copies", str(number), since))
            number += 1
        if len(running) > 1 and data.draw(st.integers(0, 3), label="one breaks off") == 3:
            lost = running.pop(data.draw(st.integers(1, len(running) - 1)))
            if data.draw(st.booleans(), label="and it is known"):
                told.append(Detached("copies", lost.name))
        said: dict[str, sw.Batch] = {}
        for copy in running:
            for origin, waiting in copy.parts.items():
                if waiting and (copy is first or data.draw(st.booleans(), label=f"{origin} speaks")):
                    said[origin] = sw.Batch.of(waiting.pop(0), stream.schema)
        before = len(at_work.output.batches)
        at_work.batch({source: said}, told=told)
        for out in at_work.output.batches[before:]:
            valid.admit(out)
    # who is behind may say something that was promised to be otherwise, which is kept to be judged
    gone = [Detached("copies", str(each)) for each in range(1, number)]
    stands = at_work.batch({source: {}}, told=gone)
    assert at_work.output.as_history() == history
    assert at_work.output.settled_until == sw.INF
    assert sum(said.standing.state_rows for said in stands) == 0


@pytest.mark.parametrize("algorithm", ["R0", "R1", "R2", "R3", "R4"])
@FEW
@given(data=st.data())
def test_in_one_process_replicas_are_merged_as_streams_are(algorithm: str, data: st.DataObject) -> None:
    replicas = replicas_of(data, algorithm, drawn_history(data, algorithm))
    properties = MANNERS[algorithm][1]
    stream = sw.stream(COLUMN_TYPES, name="copies", properties=properties, replicated=True)
    query = sw.merge(stream)
    assert isinstance(query.node, Merge)
    assert chosen(query.node).algorithm == algorithm
    apart = Execution(sw.merge(*(each.query for each in replicas)).node)
    together = Execution(query.node)
    left = {str(i): each.tellings[0][1] for i, each in enumerate(replicas)}
    known = {str(i): each.query for i, each in enumerate(replicas)}
    for name in left:
        together.push(_source(stream), [], name)
    while any(left.values()):
        name = data.draw(st.sampled_from([n for n in left if left[n]]))
        element = left[name].pop(0)
        told = apart.push(_source(known[name]), [element])
        said = together.push(_source(stream), [element], name)
        assert [[*batch] for batch in said] == [[*batch] for batch in told]
        if data.draw(st.integers(0, 9), label="written down and read back") == 9:
            again = Execution(query.node)
            again.restore(decode(encode(together.snapshot())))
            together = again


def test_run_takes_what_each_replica_tells() -> None:
    told: list[Element] = [sw.insert(1, 5, k="a", v=1), sw.cti(9)]
    out = sw.merge(KEYED).run({KEYED: {"x": told, "y": told[:1]}})
    assert list(out) == told


def test_detached_in_one_process() -> None:
    running = sw.merge(KEYED).open()
    running.push(KEYED, [sw.insert(1, 9, k="a", v=1)], replica="x")
    assert running.detach(KEYED, replica="x") == []
    assert running.push(KEYED, [sw.insert(2, 9, k="b", v=1), sw.cti(20)], replica="x") == []
    [said] = running.push(KEYED, [sw.insert(2, 9, k="b", v=1), sw.cti(20)], replica="y")
    assert list(said) == [
        sw.insert(2, 9, k="b", v=1),
        sw.adjust(1, 9, 1, k="a", v=1),
        sw.cti(20),
    ]


def test_who_contradicts_is_called_by_its_name() -> None:
    running = sw.merge(KEYED).open()
    running.push(KEYED, [sw.insert(1, 50, k="a", v=1), sw.cti(20)], replica="east")
    with pytest.raises(OperatorError, match=r"against it: \[west\]"):
        running.push(KEYED, [sw.insert(1, 9, k="a", v=1), sw.cti(15)], replica="west")


@pytest.mark.parametrize(
    ("wrong", "fact"),
    [
        (lambda: KEYED.where(sw.col("v") > 1), "Where cannot read 'copies', which has several replicas"),
        (lambda: sw.merge(KEYED, BAGS), "a replicated stream is merged by itself"),
        (
            lambda: sw.stream({"a": int}, disordered=True, replicated=True),
            "replicas of a disordered stream cannot be merged",
        ),
        (lambda: sw.merge(KEYED).run({KEYED: [sw.cti(1)]}), "it is not said which of them tells what"),
        (lambda: sw.merge(KEYED).open().push(KEYED, []), "it is not said which of them this is"),
        (lambda: KEYED.run({KEYED: {"x": []}}), "several replicas"),
        (lambda: program_of(KEYED.node, buckets=2), "several replicas"),
        (
            lambda: sw.stream({"a": int}, name="s").open().push(sw.stream({"a": int}), []),
            "the query does not read",
        ),
    ],
)
def test_what_cannot_be_is_refused(wrong: Any, fact: str) -> None:
    with pytest.raises(sw.SlackwaterError, match=fact):
        wrong()


ROWS: list[Element] = [sw.insert(1, 50, k=k, v=v) for k in "abc" for v in range(4)]


def _merging(query: sw.Query) -> Rehearsal:
    program = program_of(query.node, buckets=4)
    return Rehearsal(program, meddle=lambda bucket: restored(program, bucket))


def _quarantined(said: list[Any]) -> list[list[str]]:
    """Of each bucket, whom it does not listen to."""
    return [[each.called for each in one.standing.quarantined] for one in said]


def test_whom_one_bucket_quarantines_none_listens_to() -> None:
    """From the next batch on, until it is attached again; also when it is told again."""
    source = _source(KEYED)
    policy = sw.merge_policy(contradiction=sw.QUARANTINE)
    at_work = _merging(sw.merge(KEYED, policy=policy))

    def batch(told: dict[str, list[Element]], *controls: Attached) -> list[list[str]]:
        given = {f"{name}/0": sw.Batch.of(each, KEYED.schema) for name, each in told.items()}
        return _quarantined(at_work.batch({source: given}, told=controls))

    right: list[Element] = [*ROWS, sw.cti(20)]
    assert batch({"east": right, "north": right, "west": ROWS}) == [[]] * 4
    assert sorted(batch({"west": [sw.adjust(1, 50, 9, k="a", v=1), sw.cti(15)]})) == [
        [],
        [],
        [],
        ["west"],
    ]
    [entry] = at_work.ledger
    assert entry.reason == "contradiction"
    assert "quarantined: west" in entry.detail
    assert batch({}) == [["west"]] * 4
    wrong: list[Element] = [sw.insert(30, 40, k=k, v=v) for k in "abc" for v in range(4)]
    assert batch({"west": wrong}) == [["west"]] * 4
    assert not any(event.vs == 30 for event in at_work.output.as_history().events())
    # it begins anew, while the others still hear that it was wrong
    assert batch({}, Attached("copies", "west", BEGIN)) == [[]] * 4
    assert batch({"west": [*right, sw.insert(30, 40, k="a", v=0)]}) == [[]] * 4
    assert {event.vs for event in at_work.output.as_history().events()} == {1, 30}
    assert batch({"west": [sw.cti(sw.INF)]}) == [[]] * 4
    assert at_work.output.settled_until == sw.INF


def test_whom_one_bucket_quarantines_none_listens_to_among_streams() -> None:
    properties = sw.StreamProperties(vs_payload_key=True)
    streams = [sw.stream(COLUMN_TYPES, name=name, properties=properties) for name in "pqr"]
    policy = sw.merge_policy(contradiction=sw.QUARANTINE)
    at_work = _merging(sw.merge(*streams, policy=policy))

    def batch(told: dict[int, list[Element]]) -> list[list[str]]:
        given = {
            _source(stream): {"0": sw.Batch.of(told.get(place, []), stream.schema)}
            for place, stream in enumerate(streams)
        }
        return _quarantined(at_work.batch(given))

    batch({0: [*ROWS, sw.cti(20)], 1: [*ROWS, sw.cti(20)], 2: ROWS})
    assert sorted(batch({2: [sw.adjust(1, 50, 9, k="a", v=1), sw.cti(15)]})) == [[], [], [], ["2"]]
    assert batch({2: [sw.insert(30, 40, k=k, v=1) for k in "abc"]}) == [["2"]] * 4
    assert not any(event.vs == 30 for event in at_work.output.as_history().events())
