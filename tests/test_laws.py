"""Every operator, under every way of telling a history, against the oracle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.laws import CASES, DIALS, EVERY_CASE, Case, Trial, at, forget_at_once

import slackwater as sw
from slackwater.consistency import Clock
from slackwater.events import Stream
from slackwater.operators import runnable
from slackwater.plan import aggregations as agg
from slackwater.plan import nodes
from slackwater.plan.properties import infer
from slackwater.testing import batchings, histories, several, streams
from slackwater.validity import StreamProperties

MANNERS: list[dict[str, Any]] = [{}, {"ordered": True}, {"perfect": True}, {"lengthen": False}]
FEWER = settings(max_examples=max(1, settings().max_examples // 10))

each_case = pytest.mark.parametrize("name", CASES)


def _operator_and_latency(name: str) -> Hashable:
    """What a case is about: its last node, which of its algorithms, and the output latency."""
    case = EVERY_CASE[name]()
    node, latency = case.query.node, sw.EAGER
    while isinstance(node, nodes.Latency | nodes.Consistency):
        latency = node.latency if isinstance(node, nodes.Latency) else latency
        node = node.input
    algorithms: set[object] = set()
    if isinstance(node, nodes.Join):
        algorithms = {node.how}
    elif isinstance(node, nodes.Aggregate):
        # sums of all kinds are one, every other aggregation has its own
        algorithms = {type(each) for each in node.aggregations.values() if not isinstance(each, SUMS)}
    return type(node), case.adjusts, frozenset(algorithms), latency


SUMS = agg.Count | agg.Sum | agg.Avg | agg.Var | agg.Stddev
SHARING = Counter(map(_operator_and_latency, EVERY_CASE))


def _examples(name: str) -> int:
    """The examples of a profile are for each operator and latency: its cases share them.

    Each has some of its own all the same: an eighth of them.
    """
    examples = settings().max_examples
    return max(25, examples // 8, -(-examples // SHARING[_operator_and_latency(name)]))


def _draw_arrivals(data: st.DataObject, case: Case) -> list[tuple[sw.Query, Stream]]:
    """Batches of closed streams, in an order that keeps each stream's own."""
    cut = []
    patterns = data.draw(st.booleans())
    for source in case.sources:
        history = data.draw(histories(source.schema, unbounded=case.unbounded))
        stream = data.draw(
            streams(history, unbounded=case.unbounded, adjusts=case.adjusts, patterns=patterns)
        )
        cut.append([(source, part) for part in data.draw(batchings(stream))])
    turns = data.draw(st.permutations([i for i, parts in enumerate(cut) for _ in parts]))
    waiting = [iter(parts) for parts in cut]
    return [next(waiting[i]) for i in turns]


@pytest.mark.parametrize("name", EVERY_CASE)
def test_every_prefix_is_valid_and_right_and_what_is_settled_is_final(name: str) -> None:
    @settings(max_examples=_examples(name))
    @given(data=st.data())
    def law(data: st.DataObject) -> None:
        # either way: what is swept away needs no room, and what stays may
        forget_at_once(data.draw(st.booleans()))
        # at once is where most can be said of an answer: half of the examples
        dial = data.draw(st.sampled_from(DIALS)) if data.draw(st.booleans()) else sw.MIDDLE
        trial = Trial(at(name, dial))
        for source, part in _draw_arrivals(data, trial.case):
            if dial.clock is Clock.SYSTEM:
                trial.clock.advance(data.draw(st.integers(0, 4)))
            trial.push(source, part, restored=data.draw(st.booleans()))
        trial.close()

    try:
        law()
    finally:
        forget_at_once(True)


@each_case
@FEWER
@given(data=st.data())
def test_equal_inputs_give_equal_outputs(name: str, data: st.DataObject) -> None:
    case = CASES[name]()
    tellings = []
    for source in case.sources:
        history = data.draw(histories(source.schema, unbounded=case.unbounded))
        tellings.append(data.draw(several(history, 2, unbounded=case.unbounded)))
    first, second = (
        case.query.run(
            {s: telling[i] for s, telling in zip(case.sources, tellings, strict=True)},
            batch=data.draw(st.integers(1, 5)),
        ).as_history()
        for i in range(2)
    )
    assert first == second


@each_case
@FEWER
@given(data=st.data())
def test_inferred_properties_hold(name: str, data: st.DataObject) -> None:
    """What sources really have may be declared; what is inferred from it must then be seen."""
    case = CASES[name]()
    manner = data.draw(st.sampled_from(MANNERS))
    inputs = {}
    for source in case.sources:
        history = data.draw(histories(source.schema, unbounded=case.unbounded))
        stream = data.draw(streams(history, unbounded=case.unbounded, **manner))
        inputs[source] = sw.Batch.of(stream, source.schema)
    observed = {s.node: StreamProperties.observed(stream) for s, stream in inputs.items()}
    declared = _with_declared(case.query.node, observed)
    out = case.query.run(inputs, batch=1).as_batch()
    found = StreamProperties.observed(out)
    for field in fields(StreamProperties):
        # whether copies agree on an order cannot be seen of one of them
        if getattr(declared, field.name) and field.name != "ties_in_order":
            assert getattr(found, field.name), f"{field.name} was inferred, but is not so"


def _with_declared(root: nodes.Node, observed: dict[nodes.Node, StreamProperties]) -> StreamProperties:
    """The inference, as if each source had declared what was observed."""
    rebuilt: dict[nodes.Node, nodes.Node] = {}
    for node in nodes.walk(root):
        if node in observed:
            assert isinstance(node, nodes.Source)
            rebuilt[node] = replace(node, properties=observed[node])
            continue
        inputs = {}
        for port in node.ports:
            value = getattr(node, port)
            many = isinstance(value, tuple)
            inputs[port] = tuple(rebuilt[child] for child in value) if many else rebuilt[value]
        rebuilt[node] = replace(node, **inputs)
    return infer(rebuilt[root])[rebuilt[root]]


def test_every_runnable_node_has_a_case() -> None:
    tried = {type(node) for case in CASES.values() for node in nodes.walk(case().query.node)}
    kinds = [kind for kind in _all_kinds(nodes.Node) if kind.__name__ in nodes.__all__]
    untried = [kind.__name__ for kind in kinds if runnable(kind) and kind not in tried]
    assert not untried


def _all_kinds(kind: type[nodes.Node]) -> list[type[nodes.Node]]:
    return [kind, *(below for sub in kind.__subclasses__() for below in _all_kinds(sub))]
