"""Where plans are cut: as few exchanges as will do, and each source in at one place."""

from __future__ import annotations

import pytest

import slackwater as sw
from slackwater.plan.exchanges import Cut, cut
from slackwater.plan.nodes import Source
from slackwater.plan.preaggregation import preaggregated
from slackwater.plan.rewrites import rewritten

s = sw.stream({"k": int, "j": str, "v": float}, name="s")
t = sw.stream({"k": int, "w": float}, name="t")
counts = s.group_by("k").aggregate(n=sw.count())

PLANS = {
    "a source": (s, ["s by k, j, v"]),
    "rows alone": (s.where(sw.col("v") > 1), ["s by k, j, v"]),
    "keys": (counts, ["s by k"]),
    "rows that are together by few columns are so by all": (
        s.distinct().group_by("k").aggregate(n=sw.count()),
        ["s by k"],
    ),
    "keys and then fewer": (
        s.group_by("k", "j").aggregate(n=sw.count()).group_by("j").aggregate(m=sw.max("n")),
        ["s by j"],
    ),
    "other keys": (
        counts.group_by("n").aggregate(m=sw.count()),
        ["s by k", "Aggregate by n"],
    ),
    "no keys": (counts.aggregate(m=sw.max("n")), ["s by k", "Aggregate in one bucket"]),
    "a join": (s.join(t, on="k").group_by("k").aggregate(n=sw.count()), ["s by k; t by k"]),
    "a join under another name": (
        s.select(a="k", v="v").join(t, on={"a": "k"}),
        ["s by k; t by k"],
    ),
    "a join by some of several keys": (
        s.join(s.select(l="j", k="k"), on={"j": "l", "k": "k"}).group_by("k").aggregate(n=sw.count()),
        ["s by k"],
    ),
    "a source in one spread, needed in two": (
        s.join(s.select(k2="k", l="j"), on={"j": "l"}).join(t, on="k"),
        ["s by j", "Join by k; t by k"],
    ),
    "a union": (s.select("k").union(t.select("k")).distinct(), ["s by k; t by k"]),
    "a subplan": (s.group_by("k").apply(lambda g: g.distinct().aggregate(n=sw.count())), ["s by k"]),
    "a subplan with a join": (
        s.group_by("k").apply(
            lambda g: g.join(g.aggregate(m=sw.max("v")), where=sw.col("v") == sw.col("m"))
        ),
        ["s by k"],
    ),
    "a diamond": (
        counts.join(counts.group_by("n").aggregate(c=sw.count()), on="n"),
        ["s by k", "Aggregate by n"],
    ),
    "sorted": (s.sort("v"), ["s in one bucket"]),
    "a side that is broadcast": (
        s.join(t.where(sw.col("w") > 1), on="k", broadcast="right")
        .group_by("j")
        .aggregate(n=sw.count()),
        ["t broadcast; s by j"],
    ),
    "the left side, broadcast": (
        t.join(s.select("j", key="k"), on={"k": "key"}, broadcast="left")
        .group_by("k")
        .aggregate(n=sw.count()),
        ["s by k; t broadcast"],
    ),
    "a computed side that is broadcast": (
        counts.join(t.group_by("w").aggregate(c=sw.count()), on={"n": "c"}, broadcast="right"),
        ["s by k; t by w", "Aggregate by k; Aggregate broadcast"],
    ),
    "a side that others read, too": (
        s.join(t, on="k", broadcast="right").join(t.select(w2="w", k="k"), on="k"),
        ["t by k", "s by k; Union broadcast; Select by k"],
    ),
    "all rows, first per bucket": (
        s.window(sw.tumbling(10)).aggregate(n=sw.count()),
        ["s by k, j, v", "Aggregate in one bucket"],
    ),
}


@pytest.mark.parametrize("name", PLANS)
def test_stages(name: str) -> None:
    query, stages = PLANS[name]
    found = cut(preaggregated(rewritten(query.node)))
    assert list(found.describe()) == [f"stage {i}: {feeds}" for i, feeds in enumerate(stages, 1)]
    _require_sense(found)


def _require_sense(found: Cut) -> None:
    """Each source enters once, and whatever a stage reads leaves an earlier one."""
    left: set[object] = set()
    entered: list[object] = []
    for stage in found.stages:
        for feed in stage.feeds:
            entered.append(feed.node)
            assert isinstance(feed.node, Source) or feed.node in left
            assert feed.broadcast or set(feed.columns) <= set(feed.node.schema)
        left |= set(stage.exits)
    sources = [node for node in entered if isinstance(node, Source)]
    assert len(sources) == len(set(sources))
    assert found.root in left


def test_what_cannot_be_spread_is_refused_by_name() -> None:
    loop = sw.fixpoint(lambda loop: loop.union(t), schema=dict(t.schema))
    with pytest.raises(sw.PlanError, match="cannot be spread"):
        cut(loop.node)
