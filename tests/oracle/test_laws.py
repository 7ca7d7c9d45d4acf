"""Laws that the meanings keep: what any reader of the papers would expect to be able to rewrite.

First view-update compliance (paper 1b, Definition 2): snapshot-equal inputs give snapshot-equal
outputs. The second input is made by coalescing the first, or by cutting its lifetimes to pieces.
Then the algebra: idempotence, commutativity, and nodes that are made of others.
"""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st
from tests.oracle.instants import at_instants, fewer_examples, floats, integers, keys, rows

import slackwater as sw
from slackwater import History, Query, col
from slackwater.testing import histories

first = sw.stream({"k": str, "v": float}, name="first")
second = sw.stream({"k": str, "v": float}, name="second")
other = sw.stream({"k": str, "w": int}, name="other")

first_histories = histories(first.schema, columns={"k": keys, "v": floats})
other_histories = histories(other.schema, columns={"k": keys, "w": integers}, max_size=4)
finite_histories = histories(first.schema, columns={"k": keys, "v": floats}, unbounded=False)


# Snapshot-equal in, snapshot-equal out

COMPLIANT: dict[str, Query] = {
    "where": first.where(col("v") > 0.5),
    "select": first.select("k", twice=col("v") * 2),
    "union": first.union(second),
    "distinct": first.distinct(),
    "intersect": first.intersect(second),
    "intersect all": first.intersect(second, all=True),
    "difference": first.difference(second),
    "difference all": first.difference(second, all=True),
    "inner join": first.join(other, on="k"),
    "left join": first.join(other, on="k", how="left"),
    "full join": first.join(other, on="k", where=col("v") < col("w"), how="full"),
    "anti join": first.join(other, on="k", how="anti"),
    "aggregate": first.aggregate(n=sw.count(), total=sw.sum("v"), most=sw.max("v")),
    "grouped aggregate": first.group_by("k").aggregate(
        n=sw.count(), mean=sw.avg("v"), top=sw.top_k("v", 2), middle=sw.percentile("v", 0.5)
    ),
    "rank": first.group_by("k").aggregate(place=sw.rank("v")),
}


def in_pieces(history: History, length: int) -> History:
    """The same snapshots: every lifetime in up to three pieces."""
    pieces = []
    for *payload, vs, ve in history.frame.rows():
        cuts = [t for t in (vs + 1, vs + 1 + length) if t < ve]
        pieces += [(*payload, *life) for life in zip([vs, *cuts], [*cuts, ve], strict=True)]
    return History(pl.DataFrame(pieces, history.frame.schema, orient="row"))


@fewer_examples
@given(here=first_histories, there=first_histories, others=other_histories, length=st.integers(1, 4))
def test_snapshot_equal_inputs_give_snapshot_equal_outputs(
    here: History, there: History, others: History, length: int
):
    given_inputs = {first: here, second: there, other: others}
    coalesced = {stream: history.coalesce() for stream, history in given_inputs.items()}
    cut = {stream: in_pieces(history, length) for stream, history in given_inputs.items()}
    for name, query in COMPLIANT.items():
        answer = at_instants(query.meaning(given_inputs))
        assert at_instants(query.meaning(coalesced)) == answer, name
        assert at_instants(query.meaning(cut)) == answer, name


@fewer_examples
@given(first_histories)
def test_windows_look_at_starts_only(history: History):
    points = History(history.frame.with_columns(ve=pl.col("vs") + 1))
    for window in (sw.sliding(3), sw.hopping(4, 2), sw.session(3, by="k")):
        query = first.window(window)
        assert query.meaning({first: history}) == query.meaning({first: points})


# Sets and bags


@fewer_examples
@given(first_histories)
def test_distinct_is_idempotent(history: History):
    once = first.distinct().meaning({first: history})
    assert first.distinct().meaning({first: once}) == once


@fewer_examples
@given(here=first_histories, there=first_histories)
def test_union_and_intersect_are_commutative(here: History, there: History):
    inputs = {first: here, second: there}
    for one, two in (
        (first.union(second), second.union(first)),
        (first.intersect(second), second.intersect(first)),
        (first.intersect(second, all=True), second.intersect(first, all=True)),
    ):
        assert one.meaning(inputs) == two.meaning(inputs)


@fewer_examples
@given(here=first_histories, there=first_histories)
def test_what_is_in_common_and_what_is_not_make_the_whole(here: History, there: History):
    inputs = {first: here, second: there}
    bags = first.difference(second, all=True).union(first.intersect(second, all=True))
    assert bags.meaning(inputs).snapshot_equal(here)
    sets = first.difference(second).union(first.intersect(second))
    assert sets.meaning(inputs).snapshot_equal(first.distinct().meaning(inputs))


@fewer_examples
@given(first_histories)
def test_a_bag_less_nothing_is_coalesced(history: History):
    inputs = {first: history, second: History.empty(second.schema)}
    assert first.difference(second, all=True).meaning(inputs) == history.coalesce()


# Joins


@fewer_examples
@given(here=first_histories, others=other_histories, condition=st.booleans())
def test_outer_joins_are_made_of_inner_and_anti_joins(here: History, others: History, condition: bool):
    inputs = {first: here, other: others}
    where = col("v") < col("w") if condition else None
    inner = first.join(other, on="k", where=where)
    anti = first.join(other, on="k", where=where, how="anti")
    left = inner.union(anti.select("k", "v", w=pl.lit(None, pl.Int64)))
    assert first.join(other, on="k", where=where, how="left").meaning(inputs) == left.meaning(inputs)
    mirrored = other.join(first, on="k", where=where, how="anti")
    full = left.union(mirrored.select("k", "w", v=pl.lit(None, pl.Float64)).select("k", "v", "w"))
    assert first.join(other, on="k", where=where, how="full").meaning(inputs) == full.meaning(inputs)


@fewer_examples
@given(here=first_histories, others=other_histories)
def test_inner_join_is_commutative(here: History, others: History):
    inputs = {first: here, other: others}
    mirrored = other.join(first, on="k").select("k", "v", "w")
    assert first.join(other, on="k").meaning(inputs) == mirrored.meaning(inputs)


# Groups


@fewer_examples
@given(first_histories)
def test_group_apply_is_the_subplan_over_each_group_alone(history: History):
    subplans = (
        lambda group: group.select("v").distinct(),
        lambda group: group.aggregate(n=sw.count(), total=sw.sum("v")),
        lambda group: group.window(sw.session(3)).select("v"),
        lambda group: group.aggregate(place=sw.rank("v")).select("v", "place"),
    )
    for subplan in subplans:
        alone = subplan(first)
        expected = []
        for key in set(history.frame["k"]):
            members = History(history.frame.filter(pl.col("k").eq_missing(pl.lit(key, pl.String))))
            expected += [(key, *row) for row in rows(alone.meaning({first: members})).elements()]
        answer = first.group_by("k").apply(subplan).meaning({first: history})
        assert sorted(rows(answer).elements(), key=repr) == sorted(expected, key=repr)


@fewer_examples
@given(first_histories)
def test_a_grouped_aggregate_is_an_aggregate_applied_to_groups(history: History):
    wanted = {"n": sw.count(), "last": sw.last("v"), "most": sw.max("v")}
    applied = first.group_by("k").apply(lambda group: group.aggregate(**wanted))
    grouped = first.group_by("k").aggregate(**wanted)
    assert applied.meaning({first: history}) == grouped.meaning({first: history})


# Lifetimes


@fewer_examples
@given(history=first_histories, size=st.integers(1, 6))
def test_tumbling_is_hopping_by_its_size(history: History, size: int):
    tumbling, hopping = first.window(sw.tumbling(size)), first.window(sw.hopping(size, size))
    assert tumbling.meaning({first: history}) == hopping.meaning({first: history})


@fewer_examples
@given(history=finite_histories, period=st.integers(1, 5))
def test_chop_keeps_the_snapshots_and_crosses_no_multiple(history: History, period: int):
    pieces = first.chop(period).meaning({first: history})
    assert pieces.snapshot_equal(history)
    for _, _, vs, ve in pieces.frame.rows():
        assert vs // period == (ve - 1) // period
    # no cut elsewhere: starts of pieces are starts of rows or multiples
    assert all(vs % period == 0 or vs in history.vs for vs in pieces.vs.tolist())


@fewer_examples
@given(history=first_histories, by=st.integers(-6, 6))
def test_shift_is_undone_by_shifting_back(history: History, by: int):
    assert first.shift(by).shift(-by).meaning({first: history}) == history


@fewer_examples
@given(history=first_histories, longest=st.integers(1, 6))
def test_clip_by_a_constant_shortens_what_is_longer(history: History, longest: int):
    expected = History(history.frame.with_columns(ve=pl.min_horizontal("ve", pl.col("vs") + longest)))
    assert first.clip(longest).meaning({first: history}) == expected


@fewer_examples
@given(first_histories)
def test_what_has_ended_is_what_was_inserted_and_is_not_there(history: History):
    """inserts = here + deletes, at every instant."""
    inserted = first.inserts().meaning({first: history})
    assert first.union(first.deletes()).meaning({first: history}).snapshot_equal(inserted)
