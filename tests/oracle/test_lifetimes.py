"""Lifetimes: what per-instant equality cannot see. How long the rows of snapshot nodes live.

Snapshots between endpoints for aggregates, the longest lifetimes per copy for sets and bags, the
intersection for pairs, the longest unmatched parts per input row for outer joins. All expected
lifetimes are computed by walking from instant to instant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

from hypothesis import given
from tests.oracle.instants import Row, at_instants, bag, floats, keys, plain, rows, runs

import slackwater as sw
from slackwater import History, Query
from slackwater.plan.nodes import How
from slackwater.testing import histories

first = sw.stream({"k": str, "v": float}, name="first")
second = sw.stream({"k": str, "w": float}, name="second")
third = sw.stream({"k": str, "v": float}, name="third")
drawn = histories(first.schema, columns={"k": keys, "v": floats})
drawn_second = histories(second.schema, columns={"k": keys, "w": floats}, max_size=4)


def is_alive(row: tuple[Any, ...], t: int) -> bool:
    return bool(row[-2] <= t < row[-1])


# Aggregates: exactly the snapshots in which something is alive


def snapshots(history: History, key: Callable[[tuple[Any, ...]], Row]) -> Counter[Row]:
    """The bag of (key..., how many are alive, vs, ve) that an aggregate by that key should give."""
    events = history.frame.rows()
    expected = []
    for group in {key(event) for event in events}:
        members = [event for event in events if key(event) == group]
        endpoints = {time for event in members for time in event[-2:]}
        alive = lambda t, members=members: any(is_alive(event, t) for event in members)
        for vs, ve in runs(alive, cuts=endpoints):
            expected.append((*group, sum(is_alive(event, vs) for event in members), vs, ve))
    return bag(expected)


@given(drawn)
def test_an_aggregate_has_one_row_per_snapshot(history: History):
    answer = first.aggregate(n=sw.count()).meaning({first: history})
    assert rows(answer) == snapshots(history, key=lambda event: ())


@given(drawn)
def test_a_grouped_aggregate_has_the_snapshots_of_its_group(history: History):
    answer = first.group_by("k").aggregate(n=sw.count()).meaning({first: history})
    assert rows(answer) == snapshots(history, key=lambda event: (event[0],))
    answer = first.group_by("v", "k").aggregate(n=sw.count()).meaning({first: history})
    assert rows(answer) == snapshots(history, key=lambda event: (plain(event[1]), event[0]))


@given(drawn)
def test_a_rank_has_one_row_per_snapshot_and_live_event(history: History):
    answer = first.group_by("k").aggregate(place=sw.rank("v")).meaning({first: history})
    found = Counter((k, vs, ve) for k, _, _, vs, ve in answer.frame.rows())
    expected = snapshots(history, key=lambda event: (event[0],))
    assert found == Counter({(k, vs, ve): n for k, n, vs, ve in expected})


# Sets and bags: copy i of a payload lives as long as it can


SETS: dict[str, tuple[Query, Callable[[int, int], int]]] = {
    "distinct": (first.distinct(), lambda here, there: min(here, 1)),
    "intersect": (first.intersect(third), lambda here, there: min(here, there, 1)),
    "intersect all": (first.intersect(third, all=True), min),
    "difference": (first.difference(third), lambda here, there: int(here > 0 and there == 0)),
    "difference all": (first.difference(third, all=True), lambda here, there: max(here - there, 0)),
}


@given(here=drawn, there=drawn)
def test_lifetimes_are_maximal_per_copy(here: History, there: History):
    in_here, in_there = at_instants(here), at_instants(there)
    payloads = {row[:-2] for row in rows(here)}
    for name, (query, copies) in SETS.items():
        expected = []
        for payload, copy in product(payloads, range(1, len(here) + 1)):

            def alive(t: int, copies=copies, payload=payload, copy=copy):
                return copies(in_here[t, *payload], in_there[t, *payload]) >= copy

            expected += [(*payload, *lifetime) for lifetime in runs(alive)]
        assert rows(query.meaning({first: here, third: there})) == Counter(expected), name


@given(histories())
def test_payloads_of_any_type_are_told_apart_and_grouped(history: History):
    stream = sw.stream(history.schema)
    alive = at_instants(history)
    answer = stream.distinct().meaning({stream: history})
    assert at_instants(answer) == Counter(alive.keys())
    answer = stream.group_by(*history.schema).aggregate(how_many=sw.count()).meaning({stream: history})
    assert at_instants(answer) == Counter((*row, copies) for row, copies in alive.items())


# Joins: one row per pair, and per unmatched part of an input row


def matches(left: tuple[Any, ...], right: tuple[Any, ...]) -> bool:
    return left[0] is not None and left[0] == right[0]


@given(lefts=drawn, rights=drawn_second)
def test_a_pair_lives_while_both_do(lefts: History, rights: History):
    expected = [
        (k, v, w, max(l_vs, r_vs), min(l_ve, r_ve))
        for k, v, l_vs, l_ve in lefts.frame.rows()
        for r_k, w, r_vs, r_ve in rights.frame.rows()
        if k is not None and k == r_k and l_vs < r_ve and r_vs < l_ve
    ]
    answer = first.join(second, on="k").meaning({first: lefts, second: rights})
    assert rows(answer) == bag(expected)


@given(lefts=drawn, rights=drawn_second)
def test_unmatched_parts_are_maximal_per_input_row(lefts: History, rights: History):
    left_rows, right_rows = lefts.frame.rows(), rights.frame.rows()

    def unmatched(events: list[tuple[Any, ...]], others: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        def alone(event: tuple[Any, ...], t: int) -> bool:
            partners = (other for other in others if matches(event, other))
            return is_alive(event, t) and not any(is_alive(other, t) for other in partners)

        return [(*event[:2], *life) for event in events for life in runs(partial(alone, event))]

    def joined(how: How) -> Counter[Row]:
        return rows(first.join(second, on="k", how=how).meaning({first: lefts, second: rights}))

    left_alone, right_alone = unmatched(left_rows, right_rows), unmatched(right_rows, left_rows)
    left_padded = bag((k, v, None, *life) for k, v, *life in left_alone)
    right_padded = bag((k, None, w, *life) for k, w, *life in right_alone)
    assert joined("anti") == bag(left_alone)
    assert joined("left") == joined("inner") + left_padded
    assert joined("full") == joined("inner") + left_padded + right_padded
