"""The oracle against SQL: at every instant a node means what DuckDB answers over the rows alive then.

Events are exploded to a table with one row per instant, the query is computed there, and compared
with the oracle's answer exploded likewise. Windows and sessions are computed from starts by date
arithmetic, the way SQL users write them. What instants cannot show is in test_lifetimes.py.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import duckdb
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracle.instants import UNTIL, at_instants, bag, floats, integers, keys, rows

import slackwater as sw
from slackwater import History, Query, col
from slackwater.plan.nodes import How
from slackwater.testing import histories

DUCKDB = duckdb.connect()
DUCKDB.execute("SET threads = 1")

left = sw.stream({"k": str, "x": float}, name="left")
right = sw.stream({"k": str, "y": float}, name="right")
left_histories = histories(left.schema, columns={"k": keys, "x": floats}, max_size=5)
right_histories = histories(right.schema, columns={"k": keys, "y": floats}, max_size=5)

first = sw.stream({"k": str, "v": float}, name="first")
second = sw.stream({"k": str, "v": float}, name="second")
same_histories = histories(first.schema, columns={"k": keys, "v": floats})


def load(**tables: pl.DataFrame) -> None:
    for name, table in tables.items():
        DUCKDB.register(name, table.to_arrow())


def sql(statement: str, **parameters: object) -> list[tuple[Any, ...]]:
    return DUCKDB.execute(statement, parameters).fetchall()


def exploded(history: History) -> pl.DataFrame:
    """The payload columns and t, one row per event and instant."""
    instants = pl.int_ranges("vs", pl.min_horizontal("ve", UNTIL))
    return history.frame.with_columns(t=instants).explode("t").drop("vs", "ve")


# Joins

KEYED: dict[How, str] = {
    "inner": """
        SELECT l.t, l.k, l.x, r.y FROM l JOIN r
        ON l.t = r.t AND l.k = r.k AND (NOT $condition OR l.x < r.y)""",
    "left": """
        SELECT l.t, l.k, l.x, r.y FROM l LEFT JOIN r
        ON l.t = r.t AND l.k = r.k AND (NOT $condition OR l.x < r.y)""",
    "full": """
        SELECT coalesce(l.t, r.t), coalesce(l.k, r.k), l.x, r.y FROM l FULL JOIN r
        ON l.t = r.t AND l.k = r.k AND (NOT $condition OR l.x < r.y)""",
    "anti": """
        SELECT l.t, l.k, l.x FROM l ANTI JOIN r
        ON l.t = r.t AND l.k = r.k AND (NOT $condition OR l.x < r.y)""",
}
CROSS: dict[How, str] = {
    "inner": """
        SELECT l.t, l.k, l.x, r.k, r.y FROM l JOIN r ON l.t = r.t AND (NOT $condition OR l.x < r.y)""",
    "left": """
        SELECT l.t, l.k, l.x, r.k, r.y
        FROM l LEFT JOIN r ON l.t = r.t AND (NOT $condition OR l.x < r.y)""",
    "full": """
        SELECT coalesce(l.t, r.t), l.k, l.x, r.k, r.y
        FROM l FULL JOIN r ON l.t = r.t AND (NOT $condition OR l.x < r.y)""",
    "anti": """
        SELECT l.t, l.k, l.x FROM l ANTI JOIN r ON l.t = r.t AND (NOT $condition OR l.x < r.y)""",
}
BY_FLOAT: dict[How, str] = {
    "inner": "SELECT l.t, l.k, l.x, r.k FROM l JOIN r ON l.t = r.t AND l.x = r.y",
    "left": "SELECT l.t, l.k, l.x, r.k FROM l LEFT JOIN r ON l.t = r.t AND l.x = r.y",
    "full": """
        SELECT coalesce(l.t, r.t), l.k, coalesce(l.x, r.y), r.k
        FROM l FULL JOIN r ON l.t = r.t AND l.x = r.y""",
    "anti": "SELECT l.t, l.k, l.x FROM l ANTI JOIN r ON l.t = r.t AND l.x = r.y",
}


@given(lefts=left_histories, rights=right_histories, condition=st.booleans())
def test_join_by_key(lefts: History, rights: History, condition: bool):
    where = col("x") < col("y") if condition else None
    load(l=exploded(lefts), r=exploded(rights))
    for how, statement in KEYED.items():
        query = left.join(right, on="k", where=where, how=how)
        expected = bag(sql(statement, condition=condition))
        assert at_instants(query.meaning({left: lefts, right: rights})) == expected, how


@given(lefts=left_histories, rights=right_histories, condition=st.booleans())
def test_join_without_key(lefts: History, rights: History, condition: bool):
    where = col("x") < col("y") if condition else None
    load(l=exploded(lefts), r=exploded(rights))
    for how, statement in CROSS.items():
        query = left.join(right, where=where, how=how)
        expected = bag(sql(statement, condition=condition))
        assert at_instants(query.meaning({left: lefts, right: rights})) == expected, how


@given(lefts=left_histories, rights=right_histories)
def test_join_by_floats_among_which_nan_equals_nan(lefts: History, rights: History):
    load(l=exploded(lefts), r=exploded(rights))
    for how, statement in BY_FLOAT.items():
        query = left.join(right, on={"x": "y"}, how=how)
        expected = bag(sql(statement))
        assert at_instants(query.meaning({left: lefts, right: rights})) == expected, how


# Sets and bags

SETS: dict[str, tuple[Query, str]] = {
    "union": (
        first.union(second),
        "SELECT t, k, v FROM l UNION ALL SELECT t, k, v FROM r",
    ),
    "distinct": (
        first.distinct(),
        "SELECT DISTINCT t, k, v FROM l",
    ),
    "intersect": (
        first.intersect(second),
        "SELECT t, k, v FROM l INTERSECT SELECT t, k, v FROM r",
    ),
    "intersect all": (
        first.intersect(second, all=True),
        "SELECT t, k, v FROM l INTERSECT ALL SELECT t, k, v FROM r",
    ),
    "difference": (
        first.difference(second),
        "SELECT t, k, v FROM l EXCEPT SELECT t, k, v FROM r",
    ),
    "difference all": (
        first.difference(second, all=True),
        "SELECT t, k, v FROM l EXCEPT ALL SELECT t, k, v FROM r",
    ),
}


@given(data=st.data())
def test_sets_and_bags(data: st.DataObject):
    here = data.draw(same_histories)
    # some rows of the first, so that the two have much in common
    kept = pl.Series(data.draw(st.lists(st.booleans(), min_size=len(here), max_size=len(here))))
    common = here.frame.filter(kept.cast(pl.Boolean))
    there = History(pl.concat([common, data.draw(same_histories).frame]))
    load(l=exploded(here), r=exploded(there))
    for name, (query, statement) in SETS.items():
        answer = query.meaning({first: here, second: there})
        assert at_instants(answer) == bag(sql(statement)), name


@given(same_histories)
def test_where_and_select(history: History):
    load(l=exploded(history))
    query = first.where(col("v") > 0.5).select("v", half=col("v") / 2, key=col("k").fill_null("none"))
    expected = sql("SELECT t, v, v / 2, coalesce(k, 'none') FROM l WHERE v > 0.5")
    assert at_instants(query.meaning({first: history})) == bag(expected)


# Aggregates

INTEGERS = sw.stream({"k": str, "w": str, "v": int})
FLOATS = sw.stream({"k": str, "w": str, "v": float})
DECIMALS = sw.stream({"k": str, "w": str, "v": pl.Decimal(38, 2)})

AGGREGATES = {
    "n": sw.count(),
    "values": sw.count("v"),
    "total": sw.sum("v"),
    "mean": sw.avg("v"),
    "least": sw.min("v"),
    "most": sw.max("v"),
    "deviation": sw.stddev("v"),
    "variance": sw.var("v"),
    "product": sw.product("v"),
    "kinds": sw.count_distinct("v"),
    "median": sw.percentile("v", 0.5),
    "sixty": sw.percentile("v", 0.6),
    "top": sw.top_k("v", 3),
    "top_one": sw.top_k("v", 1),
    "some_n": sw.count(where=col("w") == "a"),
    "some_values": sw.count("v", where=col("w") == "a"),
    "some_total": sw.sum("v", where=col("w") == "a"),
    "some_mean": sw.avg("v", where=col("v") > 0),
    "some_kinds": sw.count_distinct("v", where=col("v") > 0),
    "some_top": sw.top_k("v", 2, where=col("v") > 0),
}
IN_SQL = """
    SELECT t, k, count(*), count(v), sum(v), avg(v), min(v), max(v), stddev_samp(v), var_samp(v),
    product(v), count(DISTINCT v), quantile_cont(v::DOUBLE, 0.5), quantile_cont(v::DOUBLE, 0.6),
    (list(v ORDER BY v DESC) FILTER (v IS NOT NULL))[:3],
    (list(v ORDER BY v DESC) FILTER (v IS NOT NULL))[:1],
    count(*) FILTER (w = 'a'), count(v) FILTER (w = 'a'), sum(v) FILTER (w = 'a'),
    avg(v) FILTER (v > 0), count(DISTINCT v) FILTER (v > 0),
    (list(v ORDER BY v DESC) FILTER (v > 0))[:2]
    FROM l GROUP BY t, k ORDER BY t, k NULLS FIRST
"""


def value_histories(query: Query, values: st.SearchStrategy[Any]) -> st.SearchStrategy[History]:
    return histories(query.schema, columns={"k": keys, "w": keys, "v": values}, max_size=8)


odd = (math.inf, -math.inf, math.nan)
all_floats = st.sampled_from((0.0, 1.0, 0.1, -3.5, 100.0, 1e9, *odd, None))
decimals = st.sampled_from((Decimal("0.00"), Decimal("1.10"), Decimal("2.25"), Decimal("-3.50"), None))


@pytest.mark.parametrize(
    ("stream", "values"),
    [(INTEGERS, integers), (FLOATS, all_floats), (DECIMALS, decimals)],
    ids=["integers", "floats", "decimals"],
)
@given(data=st.data())
def test_aggregates(stream: Query, values: st.SearchStrategy[Any], data: st.DataObject):
    history = data.draw(value_histories(stream, values))
    table = exploded(history)
    if data.draw(st.booleans(), label="grouped"):
        answer = stream.group_by("k").aggregate(**AGGREGATES).meaning({stream: history})
        actual: list[tuple[Any, ...]] = list(at_instants(answer).elements())
    else:
        # without groups is one group, here that of null
        answer = stream.aggregate(**AGGREGATES).meaning({stream: history})
        actual = [(t, None, *values) for t, *values in at_instants(answer).elements()]
        table = table.with_columns(k=pl.lit(None, pl.String))
    load(l=table)
    for ours, theirs in zip(sorted(actual, key=by_time_and_key), sql(IN_SQL), strict=True):
        for name, a, b in zip(["t", "k", *AGGREGATES], ours, theirs, strict=True):
            assert close(a, b), f"{name} is {a} in {ours}, by SQL {b} in {theirs}"


def by_time_and_key(row: tuple[Any, ...]) -> tuple[int, str]:
    """Null first."""
    return row[0], row[1] or ""


def close(ours: Any, theirs: Any) -> bool:
    """Equal, but for the last digits of floats."""
    if isinstance(ours, tuple) and theirs is not None:
        return len(ours) == len(theirs) and all(map(close, ours, theirs))
    if theirs is None or isinstance(theirs, str):
        return bool(ours == theirs)
    if math.isnan(theirs):
        return bool(ours == "NaN")
    if ours is None or ours == "NaN":
        return False
    return math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-9)


UPWARDS = """
    SELECT t, k, w, v, CASE WHEN v IS NOT NULL THEN
        rank() OVER (PARTITION BY t, k ORDER BY v ASC NULLS LAST) END FROM l
"""
DOWNWARDS = """
    SELECT t, k, w, v, CASE WHEN v IS NOT NULL THEN
        rank() OVER (PARTITION BY t, k ORDER BY v DESC NULLS LAST) END FROM l
"""


@given(history=value_histories(FLOATS, floats))
def test_rank(history: History):
    load(l=exploded(history))
    for descending, statement in ((False, UPWARDS), (True, DOWNWARDS)):
        query = FLOATS.group_by("k").aggregate(place=sw.rank("v", descending=descending))
        assert at_instants(query.meaning({FLOATS: history})) == bag(sql(statement))


# Windows: by date arithmetic over the starts

WINDOWED = {"n": sw.count(), "total": sw.sum("v")}
starts = histories(INTEGERS.schema, columns={"k": keys, "w": keys, "v": st.integers(0, 9)})


@given(history=starts, size=st.integers(1, 9), hop=st.integers(1, 6), right=st.booleans())
def test_hopping(history: History, size: int, hop: int, right: bool):
    """The row at [start, start + hop) covers [start - size, start), or (start - size, start]."""
    window = sw.hopping(size, hop, closed="right" if right else "left")
    query = INTEGERS.window(window).aggregate(**WINDOWED)
    load(events=history.frame)
    expected = sql(
        """
        SELECT start + i AS t, count(*), sum(v)
        FROM range(-60, 60) AS hops(start), range($hop) AS instants(i), events
        WHERE start % $hop = 0
        AND (CASE WHEN $right THEN start - $size < vs AND vs <= start
             ELSE start - $size <= vs AND vs < start END)
        GROUP BY start, i
        """,
        size=size,
        hop=hop,
        right=right,
    )
    assert at_instants(query.meaning({INTEGERS: history})) == bag(expected)


@given(history=starts, size=st.integers(1, 9))
def test_tumbling(history: History, size: int):
    """The row at [start, start + size) covers the window that ended at `start`."""
    query = INTEGERS.window(sw.tumbling(size)).group_by("k").aggregate(**WINDOWED)
    load(events=history.frame)
    expected = sql(
        """
        SELECT k, count(*), sum(v), start, start + $size FROM range(-60, 60) AS windows(start), events
        WHERE start % $size = 0 AND vs BETWEEN start - $size AND start - 1 GROUP BY start, k
        """,
        size=size,
    )
    assert rows(query.meaning({INTEGERS: history})) == bag(expected)


@given(history=starts, width=st.integers(1, 9))
def test_sliding(history: History, width: int):
    """At every instant, the inputs of the last `width` instants."""
    query = INTEGERS.window(sw.sliding(width)).group_by("k").aggregate(**WINDOWED)
    load(events=history.frame)
    expected = sql(
        """
        SELECT t, k, count(*), sum(v) FROM range(-60, 60) AS instants(t), events
        WHERE vs <= t AND vs > t - $width GROUP BY t, k
        """,
        width=width,
    )
    assert at_instants(query.meaning({INTEGERS: history})) == bag(expected)


@given(history=starts, gap=st.integers(1, 5))
def test_session(history: History, gap: int):
    """Gaps and islands: a session begins where the start before it is `gap` or more away."""
    load(events=history.frame)
    expected = sql(
        """
        WITH steps AS (
            SELECT k, w, v, vs, vs - lag(vs) OVER (PARTITION BY k ORDER BY vs) AS step FROM events),
        islands AS (
            SELECT *, count(*) FILTER (step >= $gap) OVER (PARTITION BY k ORDER BY vs) AS session
            FROM steps)
        SELECT k, w, v, vs, max(vs) OVER (PARTITION BY k, session) + $gap FROM islands
        """,
        gap=gap,
    )
    for query in (
        INTEGERS.window(sw.session(gap, by="k")),
        INTEGERS.group_by("k").window(sw.session(gap)),
    ):
        assert rows(query.meaning({INTEGERS: history})) == bag(expected)


@given(history=left_histories, other=right_histories)
def test_clip_by_a_stream(history: History, other: History):
    load(e=history.frame, o=other.frame)
    expected = sql("""
        SELECT k, x, vs, least(ve, (SELECT min(o.vs) FROM o WHERE o.k = e.k AND o.vs > e.vs)) FROM e
    """)
    assert rows(left.clip(right, on="k").meaning({left: history, right: other})) == bag(expected)
