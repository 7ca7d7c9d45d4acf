"""The oracle on timelines that a person can follow, with the numbers written down by hand.

Lifetimes first, then sets, joins and aggregates, then the nodes that change nothing, then plans
within plans. Where the papers print an example, its numbers are the expected ones, as corrected by
the errata. What single aggregations compute is in test_aggregations.py.
"""

from __future__ import annotations

import polars as pl
import pytest

import slackwater as sw
from slackwater import INF, History, Query, adjust, col, cti, insert, oracle
from slackwater.errors import OperatorError, PlanError
from slackwater.plan import nodes

s = sw.stream({"a": int}, name="s")
t = sw.stream({"a": int}, name="t")
keyed = sw.stream({"k": str, "v": int}, name="keyed")
other = sw.stream({"k": str, "w": int}, name="other")


def test_every_node_has_a_meaning():
    concrete = {
        node
        for node in map(vars(nodes).get, nodes.__all__)
        if isinstance(node, type) and issubclass(node, nodes.Node)
    }
    given_from_outside = {nodes.Node, nodes.Source, nodes.Argument}
    assert concrete - given_from_outside == {*oracle._DEFINITIONS, nodes.Fixpoint}


# One row at a time


def test_where_keeps_what_is_true_and_not_what_is_null():
    answer = s.where(col("a") > 1).meaning({s: [insert(0, 5, a=n) for n in (1, 2, None)]})
    assert answer.rows() == [(2, 0, 5)]


def test_where_everything_and_nothing():
    events = [insert(0, 5, a=1), insert(2, 3, a=2)]
    assert s.where(pl.lit(True)).meaning({s: events}) == History.of(events)
    assert len(s.where(pl.lit(False)).meaning({s: events})) == 0


def test_select_maps_payloads_and_keeps_lifetimes_and_copies():
    query = s.select(half=col("a") // 2, one=pl.lit(1, pl.Int64))
    answer = query.meaning({s: [insert(0, 5, a=2), insert(0, 5, a=3), insert(4, 9, a=None)]})
    assert answer.rows() == [(1, 1, 0, 5), (1, 1, 0, 5), (None, 1, 4, 9)]


# Lifetimes

# what becomes of [3, 7), of the point [5, 6) and of [4, INF)
LIFETIMES: dict[str, tuple[Query, list[tuple[int, int]]]] = {
    "inserts": (s.inserts(), [(3, INF), (5, INF), (4, INF)]),
    "deletes": (s.deletes(), [(7, INF), (6, INF)]),
    "point_at_end": (s.point_at_end(), [(7, 8), (6, 7)]),
    "shift forward": (s.shift(2), [(5, 9), (7, 8), (6, INF)]),
    "shift back": (s.shift(-4), [(-1, 3), (1, 2), (0, INF)]),
    "extend": (s.extend(3), [(3, 10), (5, 9), (4, INF)]),
    "extend back": (s.extend(-1), [(3, 6), (4, INF)]),
    "extend back further": (s.extend(-4), [(4, INF)]),
    "clip": (s.clip(2), [(3, 5), (5, 6), (4, 6)]),
    "sliding": (s.window(sw.sliding(10)), [(3, 13), (5, 15), (4, 14)]),
    "tumbling": (s.window(sw.tumbling(5)), [(5, 10), (10, 15), (5, 10)]),
    "hopping": (s.window(sw.hopping(4, 2)), [(4, 8), (6, 10), (6, 10)]),
    "hopping, right": (s.window(sw.hopping(4, 2, closed="right")), [(4, 8), (6, 10), (4, 8)]),
    # sees only what starts at 3, 7, 11, ...
    "hopping over gaps": (s.window(sw.hopping(1, 4)), [(4, 8)]),
    "alter_lifetime": (s.alter_lifetime(sw.VS.floor(4), end=sw.VE), [(0, 7), (4, 6), (4, INF)]),
}


@pytest.mark.parametrize("name", LIFETIMES)
def test_lifetimes(name: str):
    query, expected = LIFETIMES[name]
    answer = query.meaning({s: [insert(3, 7, a=1), insert(5, 6, a=2), insert(4, None, a=3)]})
    assert sorted((vs, ve) for _, vs, ve in answer.rows()) == sorted(expected)


def test_chop_cuts_at_the_multiples_of_its_period():
    answer = s.chop(5).meaning({s: [insert(-2, 11, a=1), insert(5, 10, a=2), insert(6, 7, a=3)]})
    assert answer.rows() == [(1, -2, 0), (1, 0, 5), (1, 5, 10), (2, 5, 10), (3, 6, 7), (1, 10, 11)]


def test_chop_refuses_a_row_without_end():
    with pytest.raises(OperatorError, match=r"chop: a row without end has infinitely many pieces"):
        s.chop(5).meaning({s: [insert(0, None, a=1)]})


def test_clip_by_a_stream_ends_at_the_first_start_strictly_after_its_own():
    answer = keyed.clip(other, on="k").meaning(
        {
            keyed: [
                insert(0, 9, k="x", v=1),
                insert(2, 9, k="x", v=2),
                insert(5, 9, k="x", v=3),
                insert(0, None, k="y", v=4),
                insert(0, 9, k=None, v=5),
            ],
            # ends do not matter, nor do starts at the same instant, later ones, or other keys
            other: [
                insert(2, 3, k="x", w=0),
                insert(5, 6, k="x", w=0),
                insert(7, None, k="y", w=0),
                insert(1, 2, k=None, w=0),
            ],
        }
    )
    assert answer.rows() == [
        ("x", 1, 0, 2),
        ("y", 4, 0, 7),
        (None, 5, 0, 9),
        ("x", 2, 2, 5),
        ("x", 3, 5, 9),
    ]


def test_clip_by_a_stream_without_keys():
    answer = s.clip(t).meaning({s: [insert(0, 9, a=1), insert(4, 9, a=1)], t: [insert(4, 5, a=7)]})
    assert answer.rows() == [(1, 0, 4), (1, 4, 9)]


def test_a_session_lasts_until_gap_after_its_last_start():
    points = [insert(at, at + 1, k="x", v=at) for at in (10, 13, 18, 30)]
    points += [insert(16, 17, k="y", v=16), insert(11, 99, k=None, v=11), insert(12, 13, k=None, v=12)]
    answer = keyed.window(sw.session(5, by="k")).meaning({keyed: points})
    # 13 to 18 is not closer than 5; y's start does not join x's sessions; null is a key
    assert answer.rows() == [
        ("x", 10, 10, 18),
        (None, 11, 11, 17),
        (None, 12, 12, 17),
        ("x", 13, 13, 18),
        ("y", 16, 16, 21),
        ("x", 18, 18, 23),
        ("x", 30, 30, 35),
    ]


def test_a_session_of_the_whole_stream():
    answer = s.window(sw.session(5)).meaning({s: [insert(at, at + 1, a=0) for at in (0, 4, 8, 8, 13)]})
    assert answer.rows() == [(0, 0, 13), (0, 4, 13), (0, 8, 13), (0, 8, 13), (0, 13, 18)]


# Sets and bags

TWICE = [insert(0, 6, a=1), insert(2, 4, a=1), insert(4, 9, a=1), insert(0, 3, a=2)]
ONCE = [insert(3, 5, a=1), insert(8, 10, a=1), insert(0, 3, a=3)]


def test_union_keeps_copies():
    answer = s.union(t, s).meaning({s: [insert(0, 5, a=1)], t: [insert(0, 5, a=1)]})
    assert answer.rows() == [(1, 0, 5)] * 3


def test_distinct():
    assert s.distinct().meaning({s: TWICE}).rows() == [(2, 0, 3), (1, 0, 9)]


def test_intersect():
    answer = s.intersect(t).meaning({s: TWICE, t: ONCE})
    assert answer.rows() == [(1, 3, 5), (1, 8, 9)]
    # 1 is alive twice during [2, 6), in the other stream twice during [3, 5)
    answer = s.intersect(t, all=True).meaning({s: TWICE, t: [*ONCE, insert(3, 5, a=1)]})
    assert answer.rows() == [(1, 3, 5), (1, 3, 5), (1, 8, 9)]


def test_difference():
    answer = s.difference(t).meaning({s: TWICE, t: ONCE})
    assert answer.rows() == [(1, 0, 3), (2, 0, 3), (1, 5, 8)]
    answer = s.difference(t, all=True).meaning({s: TWICE, t: ONCE})
    assert answer.rows() == [(2, 0, 3), (1, 0, 8), (1, 2, 3), (1, 5, 6)]


# Joins


def test_join_of_paper_1b_section_4_3():
    """Tables 1 to 3, with erratum 10."""
    s1, s2 = sw.stream({"p": str}, name="S1"), sw.stream({"p": str}, name="S2")
    first = [insert(0, 2, p="A0"), cti(1), insert(2, 6, p="A1"), adjust(2, 6, 4, p="A1")]
    second = [insert(3, 5, p="A1"), cti(3)]
    assert History.of(first).rows() == [("A0", 0, 2), ("A1", 2, 4)]
    assert s1.join(s2, on="p").meaning({s1: first, s2: second}).rows() == [("A1", 3, 4)]


LEFT = [insert(0, 10, k="x", v=1), insert(0, 10, k=None, v=2), insert(8, 12, k="y", v=3)]
RIGHT = [insert(2, 4, k="x", w=7), insert(4, 6, k="x", w=8), insert(0, 9, k=None, w=9)]


def test_inner_join():
    answer = keyed.join(other, on="k").meaning({keyed: LEFT, other: RIGHT})
    assert answer.rows() == [("x", 1, 7, 2, 4), ("x", 1, 8, 4, 6)]


def test_left_join():
    answer = keyed.join(other, on="k", how="left").meaning({keyed: LEFT, other: RIGHT})
    assert answer.rows() == [
        ("x", 1, None, 0, 2),
        (None, 2, None, 0, 10),
        ("x", 1, 7, 2, 4),
        ("x", 1, 8, 4, 6),
        ("x", 1, None, 6, 10),
        ("y", 3, None, 8, 12),
    ]


def test_anti_join():
    answer = keyed.join(other, on="k", how="anti").meaning({keyed: LEFT, other: RIGHT})
    assert answer.rows() == [("x", 1, 0, 2), (None, 2, 0, 10), ("x", 1, 6, 10), ("y", 3, 8, 12)]


def test_full_join_gives_the_key_of_whichever_side_is_there():
    late = [*RIGHT, insert(9, 15, k="y", w=5)]
    answer = keyed.join(other, on="k", how="full").meaning({keyed: LEFT, other: late})
    assert answer.rows() == [
        ("x", 1, None, 0, 2),
        (None, None, 9, 0, 9),
        (None, 2, None, 0, 10),
        ("x", 1, 7, 2, 4),
        ("x", 1, 8, 4, 6),
        ("x", 1, None, 6, 10),
        ("y", 3, None, 8, 9),
        ("y", 3, 5, 9, 12),
        ("y", None, 5, 12, 15),
    ]


def test_a_condition_that_fails_leaves_a_row_unmatched():
    query = keyed.join(other, on="k", where=col("w") > 7, how="left")
    answer = query.meaning({keyed: LEFT[:1], other: RIGHT})
    assert answer.rows() == [("x", 1, None, 0, 4), ("x", 1, 8, 4, 6), ("x", 1, None, 6, 10)]


@pytest.mark.parametrize("condition", [True, False])
def test_a_condition_may_be_a_constant(condition: bool):
    query = keyed.join(other, on="k", where=pl.lit(condition))
    answer = query.meaning({keyed: LEFT, other: RIGHT})
    assert len(answer) == (2 if condition else 0)


def test_cross_join_and_the_names_of_right_columns():
    answer = s.join(t).meaning({s: [insert(0, 5, a=1)], t: [insert(3, 9, a=2), insert(5, 9, a=3)]})
    assert answer.schema.names() == ["a", "a_right"]
    assert answer.rows() == [(1, 2, 3, 5)]


def test_equal_rows_are_matched_one_by_one():
    twice = [insert(0, 5, k="x", v=1), insert(0, 5, k="x", v=1)]
    answer = keyed.join(other, on="k", how="left").meaning(
        {keyed: twice, other: [insert(1, 2, k="x", w=3)]}
    )
    assert (
        answer.rows()
        == [("x", 1, None, 0, 1)] * 2 + [("x", 1, 3, 1, 2)] * 2 + [("x", 1, None, 2, 5)] * 2
    )


# Aggregates

STEPS = [
    insert(1, 5, a=10),
    insert(1, 3, a=20),
    insert(2, 3, a=30),
    insert(2, 4, a=40),
    insert(3, 4, a=50),
]


def test_one_row_per_snapshot():
    answer = s.aggregate(n=sw.count(), most=sw.max("a")).meaning({s: STEPS})
    assert answer.rows() == [(2, 20, 1, 2), (4, 40, 2, 3), (3, 50, 3, 4), (1, 10, 4, 5)]


def test_equal_neighbours_are_not_coalesced_and_net_zero_endpoints_cut():
    answer = s.aggregate(n=sw.count()).meaning({s: [insert(0, 5, a=1), insert(5, 9, a=1)]})
    assert answer.rows() == [(1, 0, 5), (1, 5, 9)]
    answer = s.aggregate(n=sw.count()).meaning(
        {s: [insert(0, 9, a=1), insert(2, 5, a=1), insert(5, 7, a=1)]}
    )
    assert answer.rows() == [(1, 0, 2), (2, 2, 5), (2, 5, 7), (1, 7, 9)]


def test_an_empty_snapshot_gives_no_row():
    answer = s.aggregate(n=sw.count()).meaning({s: [insert(0, 2, a=1), insert(5, None, a=1)]})
    assert answer.rows() == [(1, 0, 2), (1, 5, INF)]
    assert len(s.aggregate(n=sw.count()).meaning({s: []})) == 0


def test_groups_have_snapshots_of_their_own_and_null_is_one():
    events = [insert(0, 9, k="x", v=1), insert(2, 4, k=None, v=2), insert(3, 5, k=None, v=3)]
    answer = keyed.group_by("k").aggregate(total=sw.sum("v")).meaning({keyed: events})
    assert answer.rows() == [("x", 1, 0, 9), (None, 2, 2, 3), (None, 5, 3, 4), (None, 3, 4, 5)]


def test_hopping_window_sum():
    points = [(11, 1), (12, 1), (21, 2), (25, 2)]
    query = s.window(sw.hopping(20, 10)).aggregate(total=sw.sum("a"))
    answer = query.meaning({s: [insert(at, at + 1, a=a) for at, a in points]})
    # the row at [30, 40) reports the window [10, 30): all four points
    assert answer.rows() == [(2, 20, 30), (6, 30, 40), (4, 40, 50)]


def test_rank_gives_one_row_per_live_event_and_snapshot():
    query = keyed.group_by("k").aggregate(place=sw.rank("v", descending=True))
    answer = query.meaning(
        {
            keyed: [
                insert(0, 6, k="x", v=5),
                insert(2, 4, k="x", v=9),
                insert(2, 6, k="x", v=5),
                insert(0, 4, k="y", v=1),
                insert(2, 4, k="x", v=None),
            ]
        }
    )
    assert answer.rows() == [
        ("x", 5, 1, 0, 2),
        ("y", 1, 1, 0, 4),
        ("x", None, None, 2, 4),
        ("x", 5, 2, 2, 4),
        ("x", 5, 2, 2, 4),
        ("x", 9, 1, 2, 4),
        ("x", 5, 1, 4, 6),
        ("x", 5, 1, 4, 6),
    ]


def test_rank_upwards_after_ties():
    answer = s.aggregate(place=sw.rank("a")).meaning({s: [insert(0, 1, a=a) for a in (7, 3, 3, 5)]})
    assert answer.rows() == [(3, 1, 0, 1), (3, 1, 0, 1), (5, 3, 0, 1), (7, 4, 0, 1)]


# The same history


@pytest.mark.parametrize(
    "query",
    [
        s.sort("a"),
        s.align(5),
        s.cleanse(),
        s.punctuate(lateness=3),
        s.finalize(5),
        s.consistency("strong"),
        s.consistency("ultra"),
        s.consistency(blocking=1, memory=2),
        s.latency(sw.PERFECTNESS_PRESERVING),
        sw.merge(s),
        sw.merge(s, s.union(s.where(pl.lit(False)))),
    ],
    ids=lambda query: query.node.name,
)
def test_the_same_history(query: Query):
    assert query.meaning({s: TWICE}) == History.of(TWICE)


def test_merge_of_equal_histories_told_differently():
    told = [insert(0, None, a=1), adjust(0, None, 6, a=1), insert(0, 3, a=2), insert(2, 4, a=1)]
    answer = sw.merge(s, t).meaning({s: TWICE, t: [*told, insert(4, 9, a=1), cti(20)]})
    assert answer == History.of(TWICE)


def test_merge_refuses_histories_that_contradict_each_other():
    with pytest.raises(OperatorError, match="do not describe one history") as caught:
        sw.merge(s, t).meaning({s: [insert(0, 5, a=1)], t: [insert(0, 6, a=1)]})
    assert "stream 0 alone: [(1, 0, 5)]" in caught.value.detail
    assert "stream 1 alone: [(1, 0, 6)]" in caught.value.detail


def test_merge_counts_copies():
    with pytest.raises(OperatorError, match="do not describe one history"):
        sw.merge(s, t).meaning({s: [insert(0, 5, a=1)], t: [insert(0, 5, a=1)] * 2})


# Plans within plans


def test_group_apply_is_the_subplan_per_key():
    events = [
        insert(0, 5, k="x", v=1),
        insert(3, 8, k="x", v=1),
        insert(4, 6, k="y", v=1),
        insert(0, 2, k=None, v=1),
        insert(2, 3, k=None, v=1),
    ]
    query = keyed.group_by("k").apply(lambda group: group.select("v").distinct())
    assert query.schema.names() == ["k", "v"]
    assert query.meaning({keyed: events}).rows() == [(None, 1, 0, 3), ("x", 1, 0, 8), ("y", 1, 4, 6)]


def test_group_apply_puts_its_keys_in_place_of_the_subplans_columns_of_that_name():
    query = keyed.group_by("k").apply(lambda group: group.select("v", k=pl.lit("other")))
    assert query.schema.names() == ["k", "v"]
    assert query.meaning({keyed: [insert(0, 5, k="x", v=1)]}).rows() == [("x", 1, 0, 5)]


def test_a_node_used_twice_means_the_same_twice():
    positive = s.where(col("a") > 0)
    answer = positive.union(positive.shift(10)).meaning({s: [insert(0, 5, a=1), insert(0, 5, a=-1)]})
    assert answer.rows() == [(1, 0, 5), (1, 10, 15)]


def test_every_stream_needs_a_history():
    with pytest.raises(PlanError, match="the stream 't' was given no history"):
        s.union(t).meaning({s: []})
