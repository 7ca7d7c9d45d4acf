"""Which columns of a node's output anybody reads."""

from __future__ import annotations

import pytest

import slackwater as sw
from slackwater import col
from slackwater.plan.reading import columns_read

A = sw.stream({"k": int, "a": int, "b": int}, name="a")
B = sw.stream({"k": int, "c": int, "d": int}, name="b")
PAIRS = A.join(B, on="k")
ALL = {"k", "a", "b", "c", "d"}


def _read(query: sw.Query) -> set[str]:
    """What is read of the pairs."""
    return set(columns_read([query.node])[PAIRS.node])


@pytest.mark.parametrize(
    ("query", "read"),
    [
        (PAIRS, ALL),
        (PAIRS.select("a", e=col("c") + 1), {"a", "c"}),
        (PAIRS.select("a", "b").select("b"), {"a", "b"}),
        (PAIRS.where(col("d") > 0).select("a"), {"a", "d"}),
        (PAIRS.where(col("d") > 0), ALL),
        (PAIRS.select("a").union(PAIRS.select(a=col("b"))), {"a", "b"}),
        (PAIRS.select("a").union(PAIRS.distinct().select("a")), ALL),
        (PAIRS.shift(1).select("a"), ALL),
        (PAIRS.select(e=sw.function(lambda x: x, col("b"), returns=int)), {"b"}),
    ],
)
def test_only_selections_read_less_than_there_is(query: sw.Query, read: set[str]) -> None:
    assert _read(query) == read


def test_roots_are_read_by_somebody_else() -> None:
    assert columns_read([PAIRS.select("a").node, PAIRS.node])[PAIRS.node] == ALL
