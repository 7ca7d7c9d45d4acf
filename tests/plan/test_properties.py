"""What is known of a plan's nodes: at which output latency they run."""

from __future__ import annotations

import pytest

import slackwater as sw
from slackwater import operators
from slackwater.plan import properties

S = sw.stream({"a": int}, name="s")


def test_what_shows_no_snapshots_may_be_read_at_several_output_latencies() -> None:
    shared = S.where(sw.col("a") > 0).window(sw.sliding(5))
    query = (
        shared.aggregate(n=sw.count())
        .latency(sw.ORDER_PRESERVING)
        .union(shared.aggregate(n=sw.sum("a")))
    )
    told = [sw.insert(0, 1, a=7), sw.insert(2, 3, a=8)]
    out = query.run({S: told}, batch=1)
    assert sw.insert(2, None, n=2) in list(out), "the open snapshot"
    assert sw.insert(2, 5, n=15) in list(out), "the eager one"
    closed = [*told, sw.cti(None)]
    assert query.run({S: closed}).as_history() == query.meaning({S: closed})


def test_what_shows_snapshots_may_not() -> None:
    shared = S.distinct()
    query = shared.latency(sw.ORDER_PRESERVING).union(shared)
    with pytest.raises(sw.PlanError, match="Distinct is read at two output latencies"):
        query.run({S: []})


def test_these_are_the_nodes_whose_operators_have_one() -> None:
    assert set(properties._SNAPSHOTS) == set(operators._LATENT)


def test_windows_that_end_where_their_starts_say_never_lengthen() -> None:
    for query, never in [(S.window(sw.hopping(6, 2)), True), (S.inserts(), True), (S.extend(2), False)]:
        assert properties.infer(query.node)[query.node].never_lengthens is never
