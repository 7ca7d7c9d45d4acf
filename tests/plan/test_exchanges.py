"""Where plans are cut: as few exchanges as will do, and each source in at one place."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import slackwater as sw
from slackwater.distributed.program import program_of
from slackwater.plan.exchanges import Cut, cut
from slackwater.plan.nodes import Source
from slackwater.plan.preaggregation import preaggregated
from slackwater.plan.rewrites import rewritten

s = sw.stream({"k": int, "j": str, "v": float}, name="s")
t = sw.stream({"k": int, "w": float}, name="t")
counts = s.group_by("k").aggregate(n=sw.count())

double = sw.function(lambda v: v, "v", returns=float)

PLANS = {
    "the value of a user's function": (
        s.select(k="k", d=double).group_by("d").aggregate(n=sw.count()),
        ["s by k, j, v", "Select by d"],
    ),
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
        ["s by k; t broadcast and by k"],
    ),
    "a side that others read, too, of which little is left": (
        s.join(t.where(sw.col("w") > 1), on="k", broadcast="right").join(
            t.select(w2="w", k="k"), on="k"
        ),
        ["t by k", "s by k; Where broadcast; Select by k"],
    ),
    "all rows, first per bucket": (
        s.window(sw.tumbling(10)).aggregate(n=sw.count()),
        ["s by k, j, v", "Aggregate in one bucket"],
    ),
}


link = sw.stream({"t": int, "a": str, "b": str}, name="link")
other = sw.stream({"t": int, "c": str, "d": str}, name="other")
REACH = {"t": int, "a": str, "b": str}


def _further(reach: sw.Query, *on: str) -> sw.Query:
    """One link further, in a join on these columns, too."""
    both = {"b": "c"} | {name: name for name in on}
    return reach.join(other, on=both, suffix="_2").select("t", "a", b="d")


def _loop(body: Callable[[sw.Query], sw.Query]) -> sw.Query:
    return sw.fixpoint(body, schema=REACH)


LOOPS = {
    "what it carries": (
        _loop(lambda reach: link.union(_further(reach)).distinct()),
        ["link by t, a; other broadcast"],
    ),
    "what it carries and is joined on": (
        _loop(lambda reach: link.union(_further(reach, "t")).distinct()),
        ["link by t; other by t"],
    ),
    "unless that is broadcast": (
        _loop(
            lambda reach: link.union(
                reach.join(other, on={"b": "c", "t": "t"}, broadcast="right").select("t", "a", b="d")
            )
        ),
        ["other broadcast; link by t, a"],
    ),
    "one join on what it carries, one on what it does not": (
        _loop(lambda reach: link.union(_further(_further(reach), "t"))),
        ["other broadcast and by t; link by t"],
    ),
    "what readers would like": (
        _loop(lambda reach: link.union(_further(reach))).group_by("a").aggregate(n=sw.count()),
        ["other broadcast; link by a"],
    ),
    "what an input has": (
        _loop(
            lambda reach: (
                link.group_by("t").aggregate(a=sw.min("a"), b=sw.max("b")).union(_further(reach))
            )
        ),
        ["link by t; other broadcast"],
    ),
    "the same links twice": (
        _loop(
            lambda reach: link.union(
                reach.join(link.select(c="a", d="b"), on={"b": "c"}).select("t", "a", b="d")
            )
        ),
        ["link broadcast and by t, a"],
    ),
    "the loop on the right": (
        _loop(
            lambda reach: link.union(
                other.join(reach, on={"c": "b"}, suffix="_2").select(t="t_2", a="a", b="d")
            )
        ),
        ["other broadcast; link by t, a"],
    ),
    "two rows of the loop": (
        _loop(
            lambda reach: link.union(
                reach.join(reach.select(t="t", m="a", c="b"), on={"t": "t", "b": "m"}).select(
                    "t", "a", b="c"
                )
            )
        ),
        ["link by t"],
    ),
    "nothing": (
        _loop(lambda reach: link.union(_further(reach).select(t=sw.col("t") + 1, a="b", b="a"))),
        ["other in one bucket; link in one bucket"],
    ),
    "the best of each": (
        sw.fixpoint(
            lambda far: (
                link.select("t", "b", far="t")
                .union(far.join(other, on={"b": "c"}, suffix="_2").select("t", b="d", far="far"))
                .group_by("t", "b")
                .aggregate(far=sw.min("far"))
                .distinct()
            ),
            schema={"t": int, "b": str, "far": int},
        ),
        ["link by t; other broadcast"],
    ),
}


@pytest.mark.parametrize("name", [*PLANS, *LOOPS])
def test_stages(name: str) -> None:
    query, stages = (PLANS | LOOPS)[name]
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
    with pytest.raises(sw.PlanError, match="GroupApply cannot be spread"):
        cut(s.group_by("k").apply(lambda group: group.distinct()).node)


def test_why_a_loop_is_in_one_bucket() -> None:
    query, _ = LOOPS["nothing"]
    assert query.explain(format="stages", buckets=3).splitlines()[-1] == (
        "    Fixpoint in one bucket, since no column comes round unchanged "
        "(t is computed; a comes from what is joined; b was a before)"
    )


def test_a_loop_itself_is_not_broadcast() -> None:
    query = _loop(
        lambda reach: link.union(
            reach.join(other, on={"b": "c"}, suffix="_2", broadcast="left").select("t", "a", b="d")
        )
    )
    with pytest.raises(sw.PlanError, match="the left side of a join on the loop cannot be broadcast"):
        query.explain(format="stages")


def test_what_cannot_turn_is_refused_before_anything_begins() -> None:
    query = _loop(lambda reach: link.union(reach.group_by("t", "a").aggregate(b=sw.max("b"))))
    with pytest.raises(sw.PlanError, match="Aggregate cannot be on the loop"):
        program_of(query.node, buckets=2)
