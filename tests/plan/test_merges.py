"""Which algorithm a merge takes, by what is known of its inputs (paper 2 section IV-G, erratum 21)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import slackwater as sw
from slackwater.distributed.bucket import Bucket
from slackwater.distributed.program import program_of
from slackwater.errors import PlanError
from slackwater.events import Element
from slackwater.operators.in2t import In2t
from slackwater.operators.merge import Merge as Step
from slackwater.operators.merge_ordered import InOrder
from slackwater.plan.explain import mermaid, stages
from slackwater.plan.merges import chosen
from slackwater.plan.nodes import Merge
from slackwater.plan.properties import infer, output_latencies
from slackwater.runtime.dataflow import Dataflow
from slackwater.times import INF

PERFECT = sw.StreamProperties(ordered=True, insert_only=True)


def _of(properties: sw.StreamProperties) -> sw.Query:
    return sw.stream({"k": str, "v": int}, name="s", properties=properties)


def _aggregate(s: sw.Query) -> sw.Query:
    return s.window(sw.sliding(10)).aggregate(n=sw.count()).latency(sw.PERFECTNESS_PRESERVING)


def _top(s: sw.Query) -> sw.Query:
    return s.aggregate(best=sw.top_k("v", 3)).latency(sw.PERFECTNESS_PRESERVING)


def _grouped(s: sw.Query) -> sw.Query:
    windows = s.window(sw.tumbling(10)).group_by("k")
    return windows.aggregate(n=sw.count()).latency(sw.PERFECTNESS_PRESERVING)


def _hopping(s: sw.Query) -> sw.Query:
    windows = s.window(sw.hopping(20, 10)).group_by("k")
    return windows.aggregate(n=sw.count()).latency(sw.PERFECTNESS_PRESERVING)


CHOICES: dict[str, tuple[str, sw.StreamProperties, Callable[[sw.Query], sw.Query]]] = {
    "what sources declare": ("R0", sw.StreamProperties(True, True, True), lambda s: s),
    "... and rows keep": (
        "R0",
        sw.StreamProperties(True, True, True),
        lambda s: s.where(sw.col("v") > 0),
    ),
    "an order among equals": ("R1", sw.StreamProperties(True, True, ties_in_order=True), lambda s: s),
    "a key": ("R2", sw.StreamProperties(True, True, vs_payload_key=True), lambda s: s),
    "an aggregate of perfect input": ("R0", PERFECT, _aggregate),
    "the top of perfect input": ("R0", PERFECT, _top),
    "a grouped tumbling one": ("R2", PERFECT, _grouped),
    "a grouped one of windows that overlap": ("R3", PERFECT, _hopping),
    "an aggregate that answers at once": ("R3", PERFECT, lambda s: s.aggregate(n=sw.count())),
    "an aggregate of disordered input": ("R3", sw.StreamProperties(), _aggregate),
    "a set": ("R3", sw.StreamProperties(), lambda s: s.distinct()),
    "cleansed rows": ("R2", sw.StreamProperties(vs_payload_key=True), lambda s: s.cleanse()),
    "rows as they come": ("R4", sw.StreamProperties(), lambda s: s),
    "a key that is lost": ("R4", sw.StreamProperties(vs_payload_key=True), lambda s: s.select("k")),
    "a join": ("R4", PERFECT, lambda s: s.join(s.select(k="k", w="v"), on="k")),
}


@pytest.mark.parametrize("name", CHOICES)
def test_the_algorithm_follows_from_what_is_known(name: str) -> None:
    algorithm, properties, plan = CHOICES[name]
    query = sw.merge(plan(_of(properties)), plan(_of(properties)))
    assert isinstance(query.node, Merge)
    assert chosen(query.node).algorithm == algorithm
    assert f"Merge {algorithm} (" in query.explain()


def test_the_latency_may_be_said_above_the_merge() -> None:
    s = _of(PERFECT)
    counts = s.window(sw.sliding(10)).aggregate(n=sw.count())
    query = sw.merge(counts, counts).latency(sw.PERFECTNESS_PRESERVING)
    [merge] = query.node.inputs
    assert isinstance(merge, Merge)
    assert chosen(merge, output_latencies(query.node)[merge]).algorithm == "R0"
    assert "Merge R0" in query.explain()


def test_what_holds_for_all_inputs_counts() -> None:
    query = sw.merge(
        _of(sw.StreamProperties(True, True, True)), _of(sw.StreamProperties(vs_payload_key=True))
    )
    assert "Merge R3 ((vs, payload) is a key; input 1 may be disordered or revised)" in query.explain()


def test_an_algorithm_that_was_asked_for() -> None:
    s = _of(sw.StreamProperties())
    explained = sw.merge(s, s, algorithm="R3").explain()
    assert (
        "Merge R3 (asked for; R4 by itself: (vs, payload) is not known to be a key of any input)"
        in explained
    )
    with pytest.raises(sw.PlanError, match="R7"):
        sw.merge(s, s, algorithm="R7")  # type: ignore[arg-type]


def test_an_input_that_is_not_what_it_was_said_to_be_is_named() -> None:
    a, b = (sw.stream({"k": str}, name=name) for name in "ab")
    query = sw.merge(a, b, algorithm="R0")
    with pytest.raises(sw.OperatorError, match="input 1 is not strictly_increasing, which R0 needs"):
        query.run([(b, sw.insert(5, 6, k="x")), (b, sw.insert(5, 7, k="y"))], batch=1)
    with pytest.raises(sw.OperatorError, match="input 0 is not insert_only"):
        query.run([(a, sw.insert(5, 6, k="x")), (a, sw.adjust(5, 6, 7, k="x"))], batch=1)
    with pytest.raises(sw.OperatorError, match=r"insert\(4, 6, k='x'\) behind a start of 5"):
        query.run({a: [sw.insert(5, 6, k="x"), sw.insert(4, 6, k="x")], b: []})
    ties = sw.merge(a, b, algorithm="R1")
    script = [(a, sw.insert(5, 6, k="x")), (a, sw.insert(5, 6, k="y")), (b, sw.insert(5, 6, k="y"))]
    with pytest.raises(sw.OperatorError, match="rows of one start in another order"):
        ties.run(script, batch=1)
    keyed = sw.merge(a, b, algorithm="R2")
    with pytest.raises(sw.OperatorError, match=r"another end.*insert\(5, 7, k='x'\)"):
        keyed.run([(a, sw.insert(5, 6, k="x")), (b, sw.insert(5, 7, k="x"))], batch=1)
    with pytest.raises(sw.OperatorError, match="an event too many"):
        keyed.run([(a, sw.insert(5, 6, k="x")), (a, sw.cti(9)), (b, sw.insert(7, 8, k="y"))], batch=1)


def test_who_says_another_end_in_order_is_set_aside() -> None:
    a, b, c = (sw.stream({"k": str}, name=name) for name in "abc")
    policy = sw.merge_policy(contradiction=sw.QUARANTINE)
    running = sw.merge(a, b, c, algorithm="R2", policy=policy).open()
    for each in (a, c):
        running.push(each, [sw.insert(5, 6, k="x")])
    running.push(b, [sw.insert(5, 7, k="x")])
    running.push(b, [sw.insert(8, 9, k="z"), sw.cti(sw.INF)])
    running.push(a, [sw.cti(sw.INF)])
    assert list(running.output) == [sw.insert(5, 6, k="x"), sw.cti(sw.INF)]
    [entry] = running.output.ledger
    assert "another end" in entry.detail
    assert "quarantined: 1" in entry.detail


def test_who_says_other_rows_of_a_start_is_set_aside() -> None:
    """By R1, which compares them by their places; of what it says with them nothing is shown."""
    ties = replace(PERFECT, ties_in_order=True)
    a, b, c = (sw.stream({"k": str}, name=name, properties=ties) for name in "abc")
    script: list[tuple[sw.Query, list[Element]]] = [
        (a, [sw.insert(5, 6, k="x"), sw.insert(5, 6, k="y")]),
        (b, [sw.insert(5, 6, k="x"), sw.insert(5, 7, k="y"), sw.insert(8, 9, k="z")]),
        (c, [sw.insert(5, 6, k="x"), sw.insert(5, 6, k="y"), sw.insert(5, 6, k="z")]),
        (b, [sw.insert(9, 10, k="z"), sw.cti(INF)]),
        (c, [sw.cti(INF)]),
    ]
    assert "Merge R1" in sw.merge(a, b, c).explain()
    policy = sw.merge_policy(contradiction=sw.QUARANTINE)
    running = sw.merge(a, b, c, policy=policy).open()
    for stream, elements in script:
        running.push(stream, elements)
    assert list(running.output) == [*script[2][1], sw.cti(INF)]
    [entry] = running.output.ledger
    assert entry.element == sw.insert(5, 7, k="y")
    assert "another order, or others: input 1 has it as number 2 of its start" in entry.detail
    assert "quarantined: 1" in entry.detail
    # nobody is left who could be right
    running = sw.merge(a, b, c, policy=policy).open()
    running.push(*script[0])
    running.detach(a)
    running.push(*script[1])
    assert [entry.detail.rpartition(": ")[2] for entry in running.output.ledger] == ["nobody"]
    assert list(running.output)[-1] == sw.insert(8, 9, k="z")


def test_a_replica_that_is_not_in_order_is_called_by_its_name() -> None:
    copies = sw.stream({"k": str}, name="copies", replicated=True)
    running = sw.merge(copies, algorithm="R2").open()
    with pytest.raises(sw.OperatorError, match="input north is not ordered"):
        running.push(copies, [sw.insert(5, 6, k="x"), sw.insert(4, 6, k="y")], replica="north")


def test_inputs_in_order_are_shown_at_once_and_the_plan_says_so() -> None:
    a, b = (sw.stream({"k": str}, name=name) for name in "ab")
    query = sw.merge(a, b, algorithm="R0", policy=sw.merge_policy(inserts=sw.after(1), trailing=2))
    assert "inserts at first sight, adjusts at ctis, trailing 2" in query.explain()
    [out] = query.open().push(a, [sw.insert(5, 6, k="x")])
    assert list(out) == [sw.insert(5, 6, k="x")]


def test_inputs_with_gaps_are_not_counted() -> None:
    """R1 knows a row by how many come before it, so that one that is missing would stop the query."""
    a, b = (
        sw.stream({"k": str}, name=name, properties=replace(PERFECT, ties_in_order=True))
        for name in "ab"
    )
    gaps = sw.merge_policy(gaps=True)
    assert "Merge R1" in sw.merge(a, b).explain()
    merged = sw.merge(a, b, policy=gaps)
    assert "Merge R4" in merged.explain()
    assert not infer(merged.node)[merged.node].ordered
    both = [sw.insert(1, 5, k="x"), sw.insert(1, 5, k="y"), sw.cti(9)]
    out = merged.run([(a, both[0]), (b, both[1]), (a, both[1]), (a, both[2]), (b, both[2])], batch=1)
    assert out.as_history() == sw.merge(a, b).run([(a, each) for each in both]).as_history()
    with pytest.raises(PlanError, match="R1 counts"):
        sw.merge(a, b, policy=gaps, algorithm="R1")


@pytest.mark.parametrize("algorithm", ["R3", "R4"])
def test_who_asks_for_an_algorithm_that_goes_by_no_order_gets_none(algorithm: Any) -> None:
    a, b = (_of(replace(PERFECT, vs_payload_key=True)) for _ in range(2))
    by_itself, asked = sw.merge(a, b), sw.merge(a, b, algorithm=algorithm)
    assert infer(by_itself.node)[by_itself.node].ordered
    assert not infer(asked.node)[asked.node].ordered


PLAIN: dict[str, Callable[[sw.Query], sw.Query]] = {
    "rows": lambda s: s,
    "a count": lambda s: s.aggregate(n=sw.count()),
    "windows": lambda s: s.window(sw.tumbling(4)).group_by("k").aggregate(n=sw.count()),
    "cleansed": lambda s: s.cleanse(),
}
SETTINGS: dict[str, Callable[[sw.Query], sw.Query]] = {
    "as it is": lambda q: q,
    "perfect": lambda q: q.latency(sw.PERFECTNESS_PRESERVING),
    "ultra": lambda q: q.consistency("ultra"),
    "strong": lambda q: q.consistency("strong"),
}


def _algorithm(step: object) -> str:
    assert isinstance(step, Step)
    if isinstance(step.index, InOrder):
        return step.index.algorithm
    return "R3" if isinstance(step.index, In2t) else "R4"


def _at_work(query: sw.Query) -> list[str]:
    return [_algorithm(merge.step) for merge in Dataflow.of(query.node).merges]


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("grouped", [False, True])
def test_what_is_explained_is_what_runs(name: str, setting: str, grouped: bool) -> None:
    """Also of a plan for each group, which runs over all groups at once, and in all forms of a plan."""
    plan = PLAIN[name]
    for known in (
        PERFECT,
        sw.StreamProperties(vs_payload_key=True),
        sw.StreamProperties(True, True, True),
    ):
        if grouped:
            query = _of(known).group_by("k").apply(lambda group: sw.merge(plan(group), plan(group)))
        else:
            query = sw.merge(plan(_of(known)), plan(_of(known)))
        query = SETTINGS[setting](query)
        for told in (query.explain(), mermaid(query.node)):
            assert re.findall(r"Merge (R\d)", told) == _at_work(query), told


def test_stages_say_what_they_run() -> None:
    """Of a source that comes in partitions no order is known, and of cleansed rows one is."""
    s = _of(sw.StreamProperties(vs_payload_key=True)).cleanse()
    query = sw.merge(*(s.aggregate(n=sw.count()) for _ in "ab")).latency(sw.PERFECTNESS_PRESERVING)
    program = program_of(query.node, buckets=2)
    [merge] = (
        operator
        for stage in range(1, len(program.cut.stages) + 1)
        for operator in Bucket(program, stage, 0)._dataflow.merges
    )
    assert f"Merge {_algorithm(merge.step)} (" in stages(query.node, 2)
