"""Where the dial puts Finalize and Align."""

from __future__ import annotations

import pytest

import slackwater as sw
from slackwater.plan.nodes import Align, Finalize, Node, walk
from slackwater.plan.placement import placed

S = sw.stream({"k": str, "v": int}, name="s")
T = sw.stream({"k": str, "v": int}, name="t")


def _outline(query: sw.Query) -> str:
    """The plan after placement, inner nodes in brackets."""

    def show(node: Node) -> str:
        settings = node.describe() if isinstance(node, Align | Finalize) else ""
        return " ".join([node.name, *filter(None, [settings])]) + (
            f"({', '.join(map(show, node.inputs))})" if node.inputs else ""
        )

    return show(placed(query.node))


def _count(query: sw.Query) -> sw.Query:
    return query.group_by("k").aggregate(v=sw.count())


def test_below_the_first_stateful_operator_of_each_path() -> None:
    query = _count(S.where(sw.col("v") > 0)).join(T.shift(1), on="k").distinct()
    left = "Align blocking=2(Finalize memory=9(Where(Source)))"
    right = "Align blocking=2(Finalize memory=9(AlterLifetime(Source)))"
    assert _outline(query.consistency(blocking=2, memory=9)) == (
        f"Consistency(Distinct(Join(Aggregate({left}), {right})))"
    )


def test_only_what_the_dial_asks_for() -> None:
    count = _count(S)
    assert _outline(count.consistency("middle")) == "Consistency(Aggregate(Source))"
    assert _outline(count.consistency("strong")) == "Consistency(Aggregate(Align blocking=INF(Source)))"
    assert _outline(count.consistency(sw.weak(5))) == "Consistency(Aggregate(Finalize memory=5(Source)))"
    assert _outline(count.consistency("ultra")) == (
        "Consistency(Aggregate(Align blocking=until the end is known(Source)))"
    )


def test_a_plan_without_state_needs_neither() -> None:
    assert _outline(S.where(sw.col("v") > 0).union(T).consistency("strong")) == (
        "Consistency(Union(Where(Source), Source))"
    )


def test_a_path_without_state_waits_where_it_meets_one_with_state() -> None:
    query = _count(S).union(T.select("k", v="v"))
    assert _outline(query.consistency(blocking=3)) == (
        "Consistency(Union(Aggregate(Align blocking=3(Source)), Align blocking=3(Select(Source))))"
    )


def test_what_two_operators_read_is_held_back_once() -> None:
    positive = S.where(sw.col("v") > 0)
    query = _count(positive).join(positive.distinct(), on="k").consistency(blocking=3)
    assert sum(isinstance(node, Align) for node in walk(placed(query.node))) == 1


def test_the_nearest_dial_counts_and_two_are_refused() -> None:
    inner = _count(S).consistency(blocking=1)
    assert _outline(inner.distinct().consistency("strong")) == (
        "Consistency(Distinct(Consistency(Aggregate(Align blocking=1(Source)))))"
    )
    count = _count(S)
    both = count.consistency("strong").union(count)
    with pytest.raises(sw.PlanError, match="read at two points of the consistency spectrum"):
        placed(both.node)


def test_a_loop_is_never_held_back() -> None:
    link = sw.stream({"a": str, "b": str}, name="link")

    def body(reach: sw.Query) -> sw.Query:
        return link.union(reach.join(link, on={"b": "a"}, suffix="_next").select("a", b="b_next"))

    reach = sw.fixpoint(body, schema={"a": str, "b": str}).consistency(blocking=3)
    held = "Align blocking=3(Source)"
    assert _outline(reach) == f"Consistency(Fixpoint(Union({held}, Select(Join(Argument, {held})))))"


def test_a_plan_without_a_dial_is_left_alone() -> None:
    query = _count(S)
    assert placed(query.node) is query.node


def test_turning_the_dial_again_replaces_what_it_was_turned_to() -> None:
    s = sw.stream({"a": int})
    strong = s.distinct().consistency("strong")
    assert strong.consistency("middle").explain() == s.distinct().consistency("middle").explain()
