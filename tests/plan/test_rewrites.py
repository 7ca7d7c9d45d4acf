"""Rewrites: the plan that runs means what the plan that was written means."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slackwater as sw
from slackwater.oracle import meaning
from slackwater.plan import nodes
from slackwater.plan.rewrites import GROUP, groups_at_once, rewritten
from slackwater.testing import histories

SCHEMA = {"k": str, "v": int, "x": float}

Body = Callable[[sw.Query], sw.Query]


def _derived(group: sw.Query) -> sw.Query:
    """Every row again, with smaller values, down to nothing."""

    def smaller(row: sw.Query) -> sw.Query:
        less = row.where(sw.col("v") > 0).select(v=sw.col("v") - 1)
        return group.select("v").union(less)

    return sw.fixpoint(smaller, schema={"v": int})


def _over_itself(group: sw.Query) -> sw.Query:
    shared = group.select("v", "x").distinct()
    return shared.union(shared.shift(2), shared).difference(shared.clip(1))


def _nested(group: sw.Query) -> sw.Query:
    inner = group.group_by("v").apply(lambda g: g.aggregate(n=sw.count(), last=sw.last("x")))
    return inner.join(group, on="v", how="full").union(inner.join(group, on="v", how="full"))


BODIES: dict[str, Body] = {
    "itself": lambda g: g,
    "where": lambda g: g.where(sw.col("v") > 0),
    "select": lambda g: g.select(w=sw.col("v") * 2),
    "the keys made anew": lambda g: g.select(k=sw.col("v"), x=sw.col("k")),
    "lifetimes": lambda g: g.window(sw.hopping(4, 2)).deletes().union(g.point_at_end()),
    "chop": lambda g: g.clip(5).chop(2),
    "clip by": lambda g: g.clip(g.where(sw.col("v") > 0), on="v"),
    "clip by any": lambda g: g.clip(g.where(sw.col("v") > 0)),
    "session": lambda g: g.window(sw.session(2)),
    "session by key": lambda g: g.group_by("v").window(sw.session(2)),
    "inner join": lambda g: g.join(g.shift(1), on="v", where=sw.col("v") > 0),
    "cross join": lambda g: g.select("v").join(g.select(w="v").shift(1), on=()),
    "left join": lambda g: g.join(g.where(sw.col("v") > 0), on="v", how="left"),
    "full join": lambda g: g.clip(2).join(g.where(sw.col("v") > 0), on={"v": "v"}, how="full"),
    "anti join": lambda g: g.join(g.shift(2), on="x", how="anti"),
    "distinct": lambda g: g.select("v").distinct(),
    "intersect": lambda g: g.select("v").intersect(g.select("v").shift(1)),
    "difference": lambda g: g.select("v").difference(g.select("v").shift(1), all=True),
    "aggregate": lambda g: g.aggregate(n=sw.count(), t=sw.sum("v"), f=sw.first("x"), l=sw.last("v")),
    "aggregate by key": lambda g: g.group_by("v").aggregate(n=sw.count()).aggregate(n=sw.max("n")),
    "rank": lambda g: g.aggregate(place=sw.rank("v")),
    "the same history": lambda g: (
        g.sort("v").align(1).cleanse().finalize(9).punctuate(lateness=9).consistency("strong")
    ),
    "latency": lambda g: g.aggregate(n=sw.count()).latency(sw.ORDER_PRESERVING),
    "merge": lambda g: sw.merge(g.where(sw.col("v") > 0), g.where(sw.col("v") > 0)),
    "fixpoint": _derived,
    "match": lambda g: g.match(
        "A B", where={"B": sw.col("v") > sw.previous("v")}, within=5, n=sw.matched("B").last("v")
    ),
    "automaton": lambda g: sw.automaton(g.select("v", w="v"), [(0, 1, 1), (1, 1, 2)], start=0),
    "shared nodes": _over_itself,
    "nested": _nested,
    "nested without keys": lambda g: g.group_by().apply(lambda h: h.aggregate(n=sw.count())),
    "nested by a key of the outer": lambda g: g.group_by("k", "v").apply(lambda h: h.select("x")),
}
KEYS: tuple[tuple[str, ...], ...] = (("k",), ("x",), ("v", "k"), (), ("k", "k"))


@pytest.mark.parametrize("name", BODIES)
@settings(max_examples=settings().max_examples // 4)
@given(data=st.data())
def test_a_body_over_all_groups_at_once_means_what_it_means_for_each(
    name: str, data: st.DataObject
) -> None:
    source = sw.stream(SCHEMA, name="s")
    keys = data.draw(st.sampled_from(KEYS))
    query = source.where(sw.col("v").is_not_null()).group_by(*keys).apply(BODIES[name])
    at_once = groups_at_once(query.node)
    assert not any(isinstance(node, nodes.GroupApply) for node in nodes.walk(at_once))
    assert at_once.schema == query.schema
    inputs = {source.node: data.draw(histories(source.schema))}
    assert meaning(at_once, inputs) == meaning(query.node, inputs)


def test_every_kind_of_node_is_tried_in_a_body() -> None:
    source = sw.stream(SCHEMA)
    bodies = [source.group_by("k").apply(body).node for body in BODIES.values()]
    tried = {type(node) for body in bodies for node in nodes.walk(*_bodies(body))}
    all_kinds = {kind for name in nodes.__all__ if isinstance(kind := getattr(nodes, name), type)}
    kinds = {kind for kind in all_kinds if issubclass(kind, nodes.Node)}
    assert kinds - {nodes.Node, nodes.Source} <= tried


def _bodies(root: nodes.Node) -> list[nodes.Node]:
    return [node.body for node in nodes.walk(root) if isinstance(node, nodes.GroupApply)]


def test_what_has_no_groups_stays_the_same_plan() -> None:
    s = sw.stream(SCHEMA)
    query = s.where(sw.col("v") > 0).union(s)
    assert rewritten(query.node) is query.node


def test_a_shared_node_of_the_body_stays_one_node() -> None:
    s = sw.stream(SCHEMA)
    plan = rewritten(s.group_by("k").apply(_over_itself).node)
    assert sum(isinstance(node, nodes.Distinct) for node in nodes.walk(plan)) == 1


def test_groups_in_the_body_of_a_loop() -> None:
    s = sw.stream({"k": int, "v": int}, name="s")

    def body(row: sw.Query) -> sw.Query:
        return row.union(s).group_by("k").apply(lambda g: g.select(v=sw.col("v")).distinct())

    query = sw.fixpoint(body, schema={"k": int, "v": int})
    plan = rewritten(query.node)
    assert not any(isinstance(node, nodes.GroupApply) for node in nodes.walk(plan))
    history = sw.History.of([sw.insert(0, 5, k=1, v=1), sw.insert(3, 9, k=1, v=1)])
    assert meaning(plan, {s.node: history}).rows() == [(1, 1, 0, 9)]


def test_a_null_key_is_a_group_that_equals_itself() -> None:
    s = sw.stream({"k": str, "v": int})
    query = s.group_by("k").apply(lambda g: g.join(g.select(w="v"), on=()))
    plan = rewritten(query.node)
    rows = [sw.insert(0, 5, k=None, v=1), sw.insert(2, 9, k=None, v=2), sw.insert(0, 9, k="a", v=3)]
    answer = meaning(plan, {s.node: sw.History.of(rows)})
    assert answer == query.meaning({s: rows})
    assert (None, 1, 2, 2, 5) in answer.rows()


def test_the_plan_is_explained_as_it_was_written() -> None:
    query = sw.stream({"k": str, "v": int}).group_by("k").apply(lambda g: g.aggregate(n=sw.count()))
    assert "GroupApply by k" in query.explain()
    assert GROUP not in query.explain()


def test_names_of_the_group_column_are_not_in_the_result() -> None:
    s = sw.stream({"k": str, "v": int})
    query = s.group_by("k").apply(lambda g: g.group_by("v").apply(lambda h: h.aggregate(n=sw.count())))
    assert rewritten(query.node).schema == pl.Schema({"k": pl.String, "v": pl.Int64, "n": pl.Int64})


def test_people_read_the_names_that_they_have_given() -> None:
    s = sw.stream({"k": str, "v": int})

    def sums(group: sw.Query) -> sw.Query:
        return group.group_by("v").apply(lambda inner: inner.aggregate(t=sw.sum("v")))

    by_both = s.group_by("k").apply(sums)
    running = by_both.open()
    assert 't = Sum(col("v")) by k, v' in [status.settings for status in running.describe()]
    too_large = [sw.insert(0, 1, k="a", v=2**62), sw.insert(0, 1, k="a", v=2**62)]
    with pytest.raises(sw.OperatorError) as refusal:
        running.push(s, [*too_large, sw.cti(2)])
    assert "{'k': 'a', 'v': 4611686018427387904}" in str(refusal.value)
    for text in (by_both.explain(format="stages", buckets=2), str(refusal.value)):
        assert GROUP not in text
    assert not any(GROUP in status.settings for status in running.describe())
