"""Aggregates in two steps: which ones may be taken so, and that they are the same to the last bit."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import polars as pl
import pytest

import slackwater as sw
from slackwater.events import Element
from slackwater.plan.aggregations import Aggregation
from slackwater.plan.nodes import Aggregate, walk
from slackwater.plan.preaggregation import preaggregated
from slackwater.plan.rewrites import rewritten

MANY = 2**63 - 1
COLUMNS = {
    "i": int,
    "u": pl.UInt64,
    "b": pl.Int8,
    "d": pl.Decimal(12, 2),
    "wide": pl.Decimal(38, 2),
    "x": float,
    "k": str,
    "c": pl.Categorical,
    "t": dt.timedelta,
}
s = sw.stream(COLUMNS, name="s")
windows = s.window(sw.tumbling(10))


def _in_two(query: sw.Query) -> sw.Query:
    return sw.Query(preaggregated(rewritten(query.node)))


def _steps(query: sw.Query) -> int:
    return sum(isinstance(node, Aggregate) for node in walk(_in_two(query).node))


@pytest.mark.parametrize(
    ("aggregation", "steps"),
    [
        (sw.count(), 2),
        (sw.count("x", where=sw.col("i") > 0), 2),
        (sw.sum("i"), 2),
        (sw.sum("u"), 2),
        (sw.sum("b"), 2),
        (sw.sum("d"), 2),
        (sw.avg("i"), 2),
        (sw.avg("d"), 2),
        (sw.min("x"), 2),
        (sw.max("k"), 2),
        (sw.sum("wide"), 1),
        (sw.sum("x"), 1),
        (sw.avg("x"), 1),
        (sw.sum("t"), 1),
        (sw.min("c"), 1),
        (sw.var("i"), 1),
        (sw.first("i"), 1),
        (sw.top_k("i", 2), 1),
        (sw.percentile("i", 0.5), 1),
        (sw.count_distinct("i"), 1),
    ],
    ids=str,
)
def test_what_can_be_taken_of_parts(aggregation: Aggregation, steps: int) -> None:
    assert _steps(windows.aggregate(a=aggregation)) == steps
    assert _steps(windows.aggregate(a=aggregation, other=sw.first("k"))) == 1, "all of them, or none"


@pytest.mark.parametrize(
    ("query", "steps"),
    [
        (s.aggregate(n=sw.count()), 1),
        (s.window(sw.sliding(5)).aggregate(n=sw.count()), 1),
        (s.window(sw.session(5)).aggregate(n=sw.count()), 1),
        (s.window(sw.hopping(10, 5)).where(sw.col("i") > 0).aggregate(n=sw.count()), 2),
        (windows.group_by("k").aggregate(n=sw.count()), 1),
        (windows.group_by("k").aggregate(n=sw.count()).aggregate(m=sw.max("n")), 3),
        (windows.union(s).aggregate(n=sw.count()), 1),
        (windows.aggregate(n=sw.count()).latency(sw.PERFECTNESS_PRESERVING), 1),
        (windows.aggregate(n=sw.count()).consistency(memory=100), 1),
        (windows.aggregate(n=sw.count()).consistency(blocking=5), 2),
        (windows.sort("i").aggregate(n=sw.count()), 1),
    ],
)
def test_where_it_pays_and_changes_no_promise(query: sw.Query, steps: int) -> None:
    assert _steps(query) == steps


def _row(**values: Any) -> Element:
    return sw.insert(1, 2, **(dict.fromkeys(COLUMNS) | values))


@pytest.mark.parametrize(
    "rows",
    [
        [{}],
        [{"i": None, "u": 2**64 - 1, "d": Decimal("-1.10")}],
        [{"i": MANY}, {"i": MANY}, {"i": -MANY}, {"i": -MANY}],
        [{"i": MANY}, {"i": -1}, {"i": -(2**53)}, {"i": 2}],
        [{"i": 1}, {"i": 2}, {"i": 4}, {"d": Decimal("0.01")}, {"d": Decimal("9999999999.99")}],
        [{"x": 0.0}, {"x": -0.0}, {"x": float("nan")}, {"k": ""}, {"b": -128}, {"b": 127}],
    ],
)
def test_it_is_the_same_to_the_last_bit(rows: list[dict[str, Any]]) -> None:
    """Whatever the parts are: here each row is one, which the oracle takes as groups by a number."""
    query = windows.aggregate(
        n=sw.count(),
        total=sw.sum("i"),
        mean=sw.avg("i", where=sw.col("i") != 3),
        none=sw.avg("i", where=sw.col("i") == 3),
        d=sw.sum("d"),
        of_d=sw.avg("d"),
        b=sw.sum("b"),
        low=sw.min("x"),
        high=sw.max("k"),
    )
    elements = [_row(**row) for row in rows]
    wanted = query.meaning({s: elements})
    two = _in_two(query)
    assert two.meaning({s: elements}) == wanted
    # the second step over parts of one row each
    [first] = [node for node in walk(two.node) if isinstance(node, Aggregate) and node.per_bucket]
    parts = sw.stream(dict(first.schema), name="parts")
    second = two.node
    assert isinstance(second, Aggregate)
    whole = sw.Query(Aggregate(parts.node, (), second.aggregations))
    alone = [event for e in elements for event in sw.Query(first).meaning({s: [e]}).events()]
    history = sw.History.from_events(alone, first.schema)
    assert whole.meaning({parts: history}) == wanted
    assert list(whole.run({parts: [sw.Insert(*event) for event in alone]}).history().rows()) == list(
        query.run({s: elements}).history().rows()
    )


def test_a_sum_that_does_not_fit_is_refused_as_before() -> None:
    query = windows.aggregate(total=sw.sum("i"))
    elements = [_row(i=MANY), _row(i=1)]
    for each in (query, _in_two(query)):
        with pytest.raises(sw.OperatorError, match="9223372036854775808 does not fit 64 bits"):
            each.run({s: elements})
