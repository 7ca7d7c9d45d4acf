"""What is refused when a plan is written: a short fact, a detail, a hint."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

import slackwater as sw
from slackwater.plan import nodes
from slackwater.plan.lifetimes import SessionWindow

READINGS = sw.stream({"sensor": str, "temp": float, "n": int}, name="readings")
OTHER = sw.stream({"sensor": str, "place": str}, name="other")
NUMBERED = sw.stream({"sensor": int, "place": str}, name="numbered")


@pytest.mark.parametrize(
    ("write", "fact", "help"),
    [
        (lambda: READINGS.where(sw.col("tmp") > 3), "unknown column 'tmp'", "did you mean 'temp'?"),
        (lambda: READINGS.where(sw.col("vs") > 3), "unknown column 'vs'", "lifetimes are not columns"),
        (lambda: READINGS.where(sw.col("temp")), "must be true or false", "Float64"),
        (lambda: READINGS.where(sw.col("temp") == "hot"), "does not fit the columns' types", "temp"),
        (lambda: READINGS.where(sw.col("temp").sum() > 3), "one row at a time", "other rows"),
        (lambda: READINGS.select(r=sw.col("temp") / sw.col("temp").max()), "one row", "other rows"),
        (lambda: READINGS.select(r=sw.col("n").shift(1)), "one row at a time", "other rows"),
        (
            lambda: READINGS.select(r=sw.col("n").map_elements(abs, return_dtype=pl.Int64)),
            "cannot be checked",
            "may look at other rows",
        ),
        (lambda: READINGS.where(sw.col("n").is_in(sw.col("n"))), "one row at a time", "is_in"),
        (lambda: READINGS.where(~sw.col("n").is_in(sw.col("n") + 1)), "one row at a time", "is_in"),
        (
            lambda: READINGS.select(r=sw.col("n").replace(sw.col("n"), sw.col("n"))),
            "one row at a time",
            "replace",
        ),
        (
            lambda: READINGS.select(
                r=pl.concat_list("n", "n").list.eval(pl.element()).list.sum().cum_sum()
            ),
            "cannot be checked",
            "other rows",
        ),
        (lambda: READINGS.where(pl.all().is_null()), "cannot be checked", "one column at a time"),
        (lambda: sw.stream({"*": int}), "cannot be named '*'", ""),
        (lambda: READINGS.union(5), "is not a query", "int"),  # type: ignore[arg-type]
        (lambda: READINGS.group_by(["n"]), "not the name of a column", "list"),  # type: ignore[arg-type]
        (lambda: READINGS.align(5, clock="wall"), "unknown clock", "system"),  # type: ignore[arg-type]
        (lambda: READINGS.align(-5), "cannot be negative", "-5"),
        (lambda: READINGS.latency("later"), "is not one of", "eager"),  # type: ignore[arg-type]
        (lambda: READINGS.explain(format="svg"), "unknown format", "mermaid"),  # type: ignore[arg-type]
        (lambda: sw.merge(READINGS, algorithm="R9"), "is not known", "R0"),  # type: ignore[arg-type]
        (lambda: READINGS.consistency("strong", clock="system"), "either a level", ""),
        (lambda: READINGS.run([5]), "is not a (stream, element) pair", "run({"),  # type: ignore[list-item]
        (lambda: READINGS.run({"s": []}), "is not a stream from outside", ""),  # type: ignore[arg-type]
        (lambda: READINGS.run({READINGS: []}, on_invalid="drop"), "is not one of", "ledger"),  # type: ignore[arg-type]
        (lambda: READINGS.select(vs=sw.col("n")), "cannot be named 'vs'", "rename"),
        (
            lambda: READINGS.select(sw.col("n")),  # type: ignore[arg-type]
            "needs a name",
            "select(name=expression)",
        ),
        (READINGS.select, "at least one column", ""),
        (lambda: READINGS.where(True), "is not an expression", "sw.col"),  # type: ignore[arg-type]
        (lambda: sw.stream({"kind": int}), "cannot be named 'kind'", "rename"),
        (lambda: sw.stream({}), "at least one column", ""),
        (lambda: sw.stream({"a": object}), "cannot carry", "Polars type"),
        (lambda: READINGS.union(OTHER), "different columns", "select"),
        (lambda: READINGS.join(OTHER, on="place"), "unknown column 'place'", "the input has"),
        (lambda: READINGS.join(NUMBERED, on="sensor"), "different types", "cast"),
        (lambda: READINGS.join(READINGS, suffix=""), "two columns would be called", "suffix"),
        (lambda: READINGS.join(OTHER, on="sensor", where=sw.col("temp")), "true or false", "Float64"),
        (
            lambda: READINGS.join(OTHER, on="sensor", how="right"),  # type: ignore[arg-type]
            "is not known",
            "inner, left",
        ),
        (lambda: READINGS.intersect(OTHER), "different columns", "select"),
        (lambda: READINGS.group_by("place"), "unknown column 'place'", "the input has"),
        (READINGS.aggregate, "at least one aggregation", "sw.count()"),
        (lambda: READINGS.aggregate(s=sw.sum("sensor")), "cannot aggregate values of type", "numbers"),
        (lambda: READINGS.aggregate(s=sw.sum("tmp")), "unknown column 'tmp'", "temp"),
        (lambda: READINGS.aggregate(n=3), "is not an aggregation", "sw.count()"),  # type: ignore[arg-type]
        (lambda: READINGS.aggregate(r=sw.rank("n"), c=sw.count()), "rank stands alone", "join"),
        (lambda: READINGS.group_by("n").aggregate(n=sw.count()), "is a key already", "another name"),
        (lambda: READINGS.aggregate(r=sw.percentile("n", 6)), "between 0 and 1", "6"),
        (lambda: READINGS.aggregate(r=sw.top_k("n", 0)), "k >= 1", "0"),
        (lambda: sw.top_k("n", 1.5), "k is a whole number", "1.5"),  # type: ignore[arg-type]
        (lambda: sw.top_k("n", True), "k is a whole number", "True"),
        (lambda: sw.top_k("n", 10**12), "at most 1000 values", "sw.rank"),
        (lambda: sw.percentile("n", "0.5"), "is a number", "'0.5'"),  # type: ignore[arg-type]
        (lambda: READINGS.aggregate(r=sw.sum(3)), "3 is not an expression", "int"),  # type: ignore[arg-type]
        (lambda: sw.group_function(len, dtype=int), "len needs a column", "one list of values"),
        (lambda: sw.group_function(3, "n", dtype=int), "3 cannot be called", "int"),  # type: ignore[arg-type]
        (lambda: sw.group_function(len, "n", dtype=[int]), "cannot carry", "Polars type"),
        (
            lambda: sw.fold("n", init=0, add=max, remove=min, result=abs, dtype=int),  # type: ignore[arg-type]
            "fold: init: 0 cannot be called",
            "int",
        ),
        (
            lambda: READINGS.aggregate(r=sw.sum("n", where=sw.col("n"))),
            "filter must be true or false",
            "Int64",
        ),
        (lambda: READINGS.sort("place"), "unknown column", "the input has"),
        (READINGS.sort, "at least one column", "sort('temp')"),
        (lambda: READINGS.sort(sw.col("n")), "not the name of a column", "Expr"),  # type: ignore[arg-type]
        (lambda: READINGS.join(OTHER, on=3), "3 is not the name of a column", "int"),  # type: ignore[arg-type]
        (lambda: READINGS.join(OTHER, on=[3]), "3 is not the name of a column", "int"),  # type: ignore[list-item]
        (
            lambda: READINGS.join(OTHER, on={"sensor": 3}),
            "join on: 3 is not the name of a column",
            "on={'left': 'right'}",
        ),
        (
            lambda: READINGS.join(OTHER, on=sw.col("sensor")),  # type: ignore[arg-type]
            "not the name of a column",
            "Expr",
        ),
        (lambda: READINGS.clip(OTHER, on=3), "clip on: 3 is not the name of a column", "int"),  # type: ignore[arg-type]
        (lambda: READINGS.select("n", n="sensor"), "two columns would be called 'n'", "once"),
        (lambda: READINGS.select("n", "temp", "n"), "two columns would be called 'n'", "once"),
        (lambda: READINGS.group_by("n").window(5), "is not a window", "sw.tumbling"),  # type: ignore[arg-type]
        (lambda: READINGS.group_by("n").apply(5), "apply: 5 cannot be called", "int"),  # type: ignore[arg-type]
        (lambda: sw.fixpoint(5, schema={"a": int}), "fixpoint: 5 cannot be called", "int"),  # type: ignore[arg-type]
        (lambda: READINGS.window(sw.session(5, by=3)), "not the name of a column", "int"),  # type: ignore[arg-type]
        (lambda: sw.stream({3: int}), "3 is not the name of a column", "int"),  # type: ignore[dict-item]
        (lambda: sw.stream({"\ud800": int}), "a column cannot be named", "Unicode"),
        (lambda: READINGS.chop(0), "longer than zero", "0"),
        (lambda: READINGS.clip(5, on="sensor"), "goes with a stream", "clip(other"),
        (lambda: READINGS.clip(OTHER, on="temp"), "unknown column 'temp'", "the input has"),
        (lambda: READINGS.window(5), "is not a window", "sw.tumbling"),  # type: ignore[arg-type]
        (lambda: READINGS.window(sw.session(5, by="place")), "unknown column", "the input has"),
        (lambda: READINGS.consistency(blocking=5, memory=3), "longer than memory", "enlarge"),
        (lambda: READINGS.consistency("strongest"), "unknown level", "middle, strong"),
        (lambda: READINGS.consistency(blocking=-1), "cannot be negative", "-1"),
        (lambda: READINGS.punctuate(lateness=-1), "cannot be negative", "-1"),
        (
            lambda: READINGS.group_by("sensor").apply(lambda group: group.union(READINGS)),
            "may read only its group",
            "join with the other stream",
        ),
        (
            lambda: sw.fixpoint(lambda loop: loop.select(b="a"), schema={"a": int}),
            "must give the columns that it reads",
            "select",
        ),
        (sw.merge, "at least one stream", ""),
    ],
)
def test_refused_with_a_reason(write: Callable[[], object], fact: str, help: str) -> None:
    with pytest.raises(sw.PlanError) as refusal:
        write()
    assert fact in refusal.value.fact
    assert help in str(refusal.value)


def test_expressions_that_look_at_one_row_are_accepted() -> None:
    row_wise: dict[str, pl.Expr] = {
        "a": sw.col("temp") * 2 + sw.col("n"),
        "b": pl.when(sw.col("n") > 1).then(sw.col("sensor")).otherwise(pl.lit("none")),
        "c": sw.col("sensor").str.to_uppercase(),
        "d": sw.col("n").is_in([1, 2]),
        "e": pl.struct("sensor", "n"),
        "f": pl.lit(7),
        "g": sw.col("temp").cast(pl.Int64, strict=False),
        "h": sw.col("n").is_in(pl.concat_list("n", "n")),
        "i": sw.col("sensor").replace({"a": "b"}),
    }
    query = READINGS.select(**row_wise)
    assert list(query.schema) == list(row_wise)
    rows: list[sw.Insert] = [
        sw.insert(0, 9, sensor=sensor, temp=temp, n=n)
        for sensor, temp, n in (("a", 1.5, 1), (None, None, 2), ("c", float("nan"), None))
    ]
    one, all_at_once = (query.run({READINGS: rows}, batch=size).as_history() for size in (1, 3))
    assert one == all_at_once


def test_schemas_of_nodes() -> None:
    joined = READINGS.join(OTHER, on="sensor")
    assert joined.schema == pl.Schema(
        {"sensor": pl.String, "temp": pl.Float64, "n": pl.Int64, "place": pl.String}
    )
    assert READINGS.join(OTHER, on="sensor", how="anti").schema == READINGS.schema
    assert list(READINGS.join(READINGS, on="sensor").schema) == [
        "sensor",
        "temp",
        "n",
        "temp_right",
        "n_right",
    ]
    hourly = READINGS.group_by("sensor").aggregate(
        c=sw.count(), s=sw.sum("n"), m=sw.avg("n"), t=sw.top_k("temp", 3)
    )
    assert dict(hourly.schema) == {
        "sensor": pl.String,
        "c": pl.Int64,
        "s": pl.Int64,
        "m": pl.Float64,
        "t": pl.List(pl.Float64),
    }
    assert list(READINGS.aggregate(place=sw.rank("n")).schema) == ["sensor", "temp", "n", "place"]
    applied = READINGS.group_by("sensor").apply(lambda g: g.aggregate(c=sw.count()))
    assert applied.schema == pl.Schema({"sensor": pl.String, "c": pl.Int64})


def test_walk_gives_shared_nodes_once_and_inputs_first() -> None:
    hot = READINGS.where(sw.col("temp") > 30)
    both = hot.union(hot.shift(1), READINGS)
    order = list(nodes.walk(both.node))
    assert len(order) == len(set(order)) == 4
    assert all(order.index(child) < order.index(node) for node in order for child in node.inputs)


@pytest.mark.parametrize(
    "window", [sw.tumbling(5), sw.hopping(6, 2), sw.sliding(3), sw.session(4), sw.session(4, by="n")]
)
def test_a_window_of_groups_may_stand_before_or_after_them(window: Any) -> None:
    """Sessions are those of each group; the other windows do not depend on it."""
    grouped = READINGS.group_by("sensor").window(window)
    if isinstance(window, SessionWindow):
        window = sw.session(window.gap, by=("sensor", *window.by))
    plain = READINGS.window(window)
    told = [sw.insert(t, t + 1, sensor="ab"[t % 3 % 2], temp=0.5, n=t % 4) for t in range(12)]
    inputs = {READINGS: told}
    assert grouped.meaning(inputs) == plain.meaning(inputs)
    counts = plain.group_by("sensor").aggregate(c=sw.count(), t=sw.sum("n"))
    assert grouped.aggregate(c=sw.count(), t=sw.sum("n")).run(inputs).as_history() == counts.meaning(
        inputs
    )
    applied = grouped.apply(lambda group: group.select("n").distinct())
    assert list(applied.schema) == ["sensor", "n"]
    assert applied.run(inputs).as_history() == plain.select("sensor", "n").distinct().meaning(inputs)
    one = grouped.group_by().aggregate(c=sw.count())
    assert one.run(inputs).as_history() == plain.aggregate(c=sw.count()).meaning(inputs)


@pytest.mark.parametrize(
    ("how", "side"), [("full", "left"), ("full", "right"), ("left", "left"), ("anti", "left")]
)
def test_a_side_whose_lonely_rows_are_told_is_not_broadcast(how: Any, side: Any) -> None:
    a, b = sw.stream({"k": int}, name="a"), sw.stream({"k": int}, name="b")
    with pytest.raises(sw.PlanError, match=f"the {side} side of a {how} join cannot be broadcast"):
        a.join(b, on="k", how=how, broadcast=side)
    with pytest.raises(sw.PlanError, match="broadcast='both' is not known"):
        a.join(b, on="k", broadcast="both")  # type: ignore[arg-type]
