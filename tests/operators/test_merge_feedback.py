"""Feedback of a merge: inputs that lag behind need not tell, nor compute, what ended before its cti."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slackwater as sw
from slackwater.oracle import meaning
from slackwater.plan.interest import outdated_of
from slackwater.plan.nodes import AlterLifetime, Source
from slackwater.runtime import Execution
from slackwater.testing import batchings, histories, streams
from slackwater.validity import Validator

SCHEMA = {"k": str, "v": int}
COLUMNS = {"k": st.sampled_from(["a", "b", None]), "v": st.sampled_from([0, 1, 2])}
FEW = settings(max_examples=max(1, settings().max_examples // 5))
INSERTS = sw.StreamProperties(insert_only=True)

PLANS: dict[str, Callable[[sw.Query], sw.Query]] = {
    "rows": lambda s: s.where(sw.col("v") > 0).select("k", w=sw.col("v") * 2),
    "windows": lambda s: s.window(sw.hopping(6, 2)).union(s.shift(-3)),
    "a join": lambda s: s.join(s.select(k="k", w="v").extend(2), on="k"),
    "counts of windows": lambda s: s.window(sw.tumbling(4)).group_by("k").aggregate(n=sw.count()),
    "counts": lambda s: s.group_by("k").aggregate(n=sw.count()),
    "a set": lambda s: s.distinct(),
    "an outer join": lambda s: s.join(s.select(k="k", w="v").shift(1), on="k", how="left"),
    "what is held back": lambda s: s.align(3).select("k"),
}


@pytest.mark.parametrize("name", PLANS)
@FEW
@given(data=st.data())
def test_the_answer_is_the_same(name: str, data: st.DataObject) -> None:
    replicas = [sw.stream(SCHEMA, name=each, properties=INSERTS) for each in "abc"]
    query = sw.merge(*(PLANS[name](each) for each in replicas))
    schema = replicas[0].schema
    history = data.draw(histories(schema, columns=COLUMNS, max_size=6))
    cut = [
        [
            (each, part)
            for part in data.draw(
                batchings(data.draw(streams(history, adjusts=False, patterns=data.draw(st.booleans()))))
            )
        ]
        for each in replicas
    ]
    execution, valid = Execution(query.node), Validator()
    turns = data.draw(st.permutations([i for i, parts in enumerate(cut) for _ in parts]))
    waiting = [iter(parts) for parts in cut]
    for i in turns:
        stream, part = next(waiting[i])
        assert isinstance(stream.node, Source)
        for batch in execution.push(stream.node, part):
            valid.admit(batch)
    assert execution.output.settled_until == sw.INF
    one: Any = replicas[0].node
    plan = PLANS[name](replicas[0])
    assert execution.output.as_history() == meaning(plan.node, {one: history})


def test_a_plan_that_lags_does_not_compute_what_is_past() -> None:
    a, b = (sw.stream(SCHEMA, name=each, properties=INSERTS) for each in "ab")
    slow = b.where(sw.col("v") >= 0).window(sw.sliding(5)).join(b.select(k="k", w="v"), on="k")
    fast = a.window(sw.sliding(5)).join(a.select(k="k", w="v"), on="k")
    running = sw.merge(fast, slow).open()
    rows = [sw.insert(t, t + 1, k="a", v=t) for t in range(100)]
    running.push(a, [*rows, sw.cti(100)])
    before = [each.rows_in for each in running.describe()]
    running.push(b, rows)
    read = {
        each.settings: each.rows_in - had
        for each, had in zip(running.describe(), before, strict=True)
        if each.name == "Where"
    }
    # lifetimes of 5: what starts before 94 ends before 100
    assert [*read.values()] == [5]


def test_not_where_an_end_is_the_start_of_another_row() -> None:
    s = sw.stream(SCHEMA, name="s", properties=INSERTS)
    for query in (
        s.distinct(),
        s.group_by("k").aggregate(n=sw.count()),
        s.cleanse(),
        s.join(s, how="full"),
    ):
        assert outdated_of(query.node, 0, 100) is None


@given(st.integers(-50, 50), st.integers(1, 9), st.integers(1, 9), st.integers(-9, 9))
def test_times_before_a_window(time: int, size: int, hop: int, shift: int) -> None:
    """Nothing that ends before the time that is found ends later than was asked; what is later may."""
    s = sw.stream(SCHEMA, name="s")
    for query in (
        s.window(sw.hopping(size, hop)),
        s.shift(shift),
        s.extend(shift),
        s.window(sw.sliding(size)),
    ):
        node = query.node
        assert isinstance(node, AlterLifetime)
        before = outdated_of(node, 0, time)
        assert before is not None
        lifetime = node.lifetime
        for vs in range(before - 30, before - 1):
            assert all(lifetime.ends(_array(vs), _array(ve))[0] < time for ve in range(vs + 1, before))
        assert any(
            lifetime.ends(_array(vs), _array(before))[0] >= time for vs in range(before - 30, before)
        )


def _array(value: int) -> Any:
    return np.array([value])


@pytest.mark.parametrize("past", [sw.cti(20), sw.punctuation(k="a")])
def test_what_a_merge_that_begins_anew_had_said_is_past_is_told_again(past: Any) -> None:
    """It has forgotten the event, and one of its copies had been told that it need not tell it."""
    known = sw.StreamProperties(vs_payload_key=True, insert_only=True)
    a, b, c = (sw.stream(SCHEMA, name=each, properties=known) for each in "abc")
    near = sw.merge(*(each.where(sw.col("v") > 0) for each in (a, b)))
    running = sw.merge(c, near).open()
    row = sw.insert(1, 16, k="a", v=1)
    # it is not complete, so that the answer does not go as far as it does
    running.attach(near, since=50)
    running.push(a, [row, past])
    running.attach(near)
    running.detach(c)
    for each in (b, a):
        running.push(each, [row, sw.cti(sw.INF)])
    assert running.output.settled_until == sw.INF
    assert running.output.history().rows() == [("a", 1, 1, 16)]


def test_a_copy_that_begins_anew_is_told_what_the_answer_has_settled() -> None:
    a, b = (sw.stream(SCHEMA, name=each, properties=INSERTS) for each in "ab")
    copies = [each.where(sw.col("v") >= 0).select("k") for each in (a, b)]
    running = sw.merge(*copies).open()
    rows = [sw.insert(t, t + 1, k="a", v=t) for t in range(100)]
    running.push(a, [*rows, sw.punctuation(k="b"), sw.cti(90)])
    running.attach(copies[1])
    running.push(b, [*rows, sw.insert(95, 96, k="b", v=1)])
    # lifetimes of 1: what starts before 89 ends before 90
    assert [each.rows_in for each in running.describe() if each.name == "Where"] == [100, 11]
