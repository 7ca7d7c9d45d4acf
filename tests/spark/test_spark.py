"""Plans on Spark: the same answer as in this process, also after a restart."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import slackwater as sw
from slackwater.spark import sinks

COLUMNS = {"k": int, "v": float}
DDL = "k long, v double, p string, kind string, vs long, ve long, new_ve long"
FORM: dict[str, Any] = {"vs": "vs", "ve": "ve", "kind": "kind", "new_ve": "new_ve"}
FILES, ROWS = 4, 300


def _changes(seed: int, files: int = FILES) -> list[pl.DataFrame]:
    """Files of a changelog: two partitions, late rows, ends that move, and a cti in each."""
    random = np.random.default_rng(seed)
    tables = []
    for number in range(files):
        now = number * ROWS
        vs = now + np.arange(ROWS) - random.integers(0, 30, ROWS)
        ve = vs + random.integers(1, 200, ROWS)
        rows = pl.DataFrame(
            {
                "k": random.integers(0, 7, ROWS),
                "v": random.integers(0, 1000, ROWS) / 8,
                "p": random.choice(["a", "b"], ROWS),
                "kind": "insert",
                "vs": vs,
                "ve": ve,
                "new_ve": pl.Series([None] * ROWS, dtype=pl.Int64),
            }
        )
        moved = rows.filter(pl.Series(random.random(ROWS) < 0.1)).with_columns(
            kind=pl.lit("adjust"), new_ve=pl.col("vs") + pl.col("ve") // 2 % 97
        )
        last = number == files - 1
        ctis = pl.DataFrame(
            {"p": ["a", "b"], "kind": "cti", "vs": [2**63 - 1] * 2 if last else [now - 100] * 2}
        )
        tables.append(pl.concat([rows, moved, ctis], how="diagonal"))
    return tables


def _written(tables: list[pl.DataFrame], directory: Path) -> Path:
    """Files in the order of their times, which is the order in which Spark reads them."""
    directory.mkdir()
    for number, table in enumerate(tables):
        path = directory / f"{number}.parquet"
        table.write_parquet(path)
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
    return directory


def _read(spark: Any, directory: Path) -> Any:
    frame = spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1).parquet(str(directory))
    return sw.from_dataframe(frame, **FORM, partition="p", progress=sw.progress(partitions=2))


def _elements(tables: list[pl.DataFrame]) -> sw.Batch:
    whole = pl.concat(tables).filter(pl.col("kind") != "cti").drop("p")
    return sw.from_dataframe(whole, **FORM, schema=COLUMNS)


s = sw.stream(COLUMNS, name="s")
QUERIES = {
    "windows by key": s.window(sw.hopping(50, 10)).group_by("k").aggregate(n=sw.count(), m=sw.avg("v")),
    "two stages": s.group_by("k").aggregate(n=sw.count()).group_by("n").aggregate(of=sw.count()),
    "held back": s.group_by("k").aggregate(top=sw.max("v")).consistency("strong"),
    "a side broadcast, then per bucket": (
        s.join(s.where(sw.col("k") == 1).select(w="v", one="k"), on={"v": "w"}, broadcast="right")
        .window(sw.tumbling(50))
        .aggregate(n=sw.count(), t=sw.sum("k"), m=sw.avg("k"))
    ),
    "join with a later stage": s.join(s.group_by("v").aggregate(n=sw.count()), on="v").select("k", "n"),
}


@pytest.mark.parametrize("name", QUERIES)
def test_the_answer_is_that_of_this_process(name: str, spark: Any, tmp_path: Path) -> None:
    query, tables = QUERIES[name], _changes(seed=1)
    directory = _written(tables, tmp_path / "in")
    handle = query.start(spark, {s: _read(spark, directory)}, checkpoint=str(tmp_path / "checkpoint"))
    try:
        assert handle.await_settled(sw.INF, timeout=240)
    finally:
        handle.stop()
    wanted = query.meaning({s: _elements(tables)}).to_polars()
    assert handle.output.history().equals(wanted)
    assert handle.progress.rows_in == sum(t.filter(pl.col("kind") != "cti").height for t in tables)
    assert handle.progress.state_rows == 0


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_files_are_read_in_the_tasks(form: Any, spark: Any, tmp_path: Path) -> None:
    """Two at a time, in the order of their times and not of their names or sizes."""
    query, tables = QUERIES["two stages"], _changes(seed=6)
    directory = tmp_path / "in"
    directory.mkdir()
    for number, table in enumerate(tables):
        path = directory / f"{9 - number}.{form}"
        table.write_parquet(path) if form == "parquet" else table.write_ipc(path)
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
    given = sw.read_files(
        str(directory),
        **FORM,
        form=form,
        partition="p",
        progress=sw.progress(partitions=2),
        per_batch=2,
    )
    handle = query.start(spark, {s: given}, checkpoint=str(tmp_path / "checkpoint"))
    try:
        assert handle.await_settled(sw.INF, timeout=240)
    finally:
        handle.stop()
    assert handle.progress.batch == 1
    assert handle.output.history().equals(query.meaning({s: _elements(tables)}).to_polars())


def test_a_query_goes_on_where_it_was(spark: Any, tmp_path: Path) -> None:
    """Stopped after two files, started again for the rest: the files of the sink hold one answer."""
    query, tables = QUERIES["two stages"], _changes(seed=2)
    directory = _written(tables[:2], tmp_path / "in")
    to = sinks.Parquet(directory=str(tmp_path / "out"))
    where: dict[str, Any] = {"checkpoint": str(tmp_path / "checkpoint"), "sink": to}
    handle = query.start(spark, {s: _read(spark, directory)}, **where)
    handle.process_all_available()
    for session in (spark, spark.newSession()):
        with pytest.raises(sw.PlanError, match="a query is at work with this checkpoint"):
            query.start(session, {s: _read(session, directory)}, **where)
    assert handle.spark_query.isActive
    handle.stop()
    assert handle.progress.batch == 1
    first, second = handle.explain().split("stage 2, ")
    so_far = r"so far: remembers \d+ rows \(\d+ bytes\); promised until -?\d+, held back by s"
    assert re.search(so_far, first)
    assert re.search(so_far, second)
    assert re.search(r"held back by s, partition [ab]$", second)
    for number, table in enumerate(tables[2:], 2):
        path = directory / f"{number}.parquet"
        table.write_parquet(path)
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
    again = query.start(spark, {s: _read(spark, directory)}, **where)
    try:
        assert again.await_settled(sw.INF, timeout=240)
    finally:
        again.stop()
    assert "held back" not in again.explain()
    changes = sinks.committed(str(tmp_path / "out"))
    said = sw.from_dataframe(
        changes, vs="vs", ve="ve", kind="kind", new_ve="new_ve", schema=query.schema
    )
    assert sw.History.of(said).to_polars().equals(query.meaning({s: _elements(tables)}).to_polars())

    with pytest.raises(sw.PlanError, match="written by another plan"):
        QUERIES["held back"].start(spark, {s: _read(spark, directory)}, **where)


def test_old_files_that_come_late_are_read_whatever_the_order_of_the_inputs(
    spark: Any, tmp_path: Path
) -> None:
    """A copy keeps its original's time; after a restart inputs may be given in another order."""
    week = 7 * 24 * 3600
    other = sw.stream(COLUMNS, name="other")
    table = pl.DataFrame({"k": [1], "v": [1.0], "vs": [5]})
    places = {stream: _written([table], tmp_path / name) for name, stream in (("s", s), ("t", other))}
    given = {stream: sw.read_files(str(place), vs="vs") for stream, place in places.items()}
    # the other one enters the second stage
    query = s.group_by("k").aggregate(n=sw.count()).join(other, on={"n": "k"})
    where: dict[str, Any] = {"checkpoint": str(tmp_path / "checkpoint"), "buckets": 1}
    handle = query.start(spark, given, **where)
    handle.process_all_available()
    handle.stop()
    for place in places.values():
        path = place / "old.parquet"
        table.write_parquet(path)
        os.utime(path, (1_700_000_000 - 2 * week, 1_700_000_000 - 2 * week))
    again = query.start(spark, dict(reversed(given.items())), **where)
    try:
        again.process_all_available()
    finally:
        again.stop()
    assert again.progress.rows_in == 4


def test_settled_rows_are_told_once(spark: Any, tmp_path: Path) -> None:
    query, tables = QUERIES["windows by key"], _changes(seed=3)
    directory = _written(tables, tmp_path / "in")
    told: list[sw.Batch] = []
    to = sinks.Callback(settled=True, function=lambda batch, number: told.append(batch))
    where: dict[str, Any] = {"checkpoint": str(tmp_path / "checkpoint"), "sink": to}
    handle = query.start(spark, {s: _read(spark, directory)}, **where)
    try:
        assert handle.await_settled(sw.INF, timeout=240)
    finally:
        handle.stop()
    assert all(batch.is_insert.all() for batch in told)
    whole = sw.Batch.concat([batch.data() for batch in told])
    assert sw.History.of(whole).to_polars().equals(query.meaning({s: _elements(tables)}).to_polars())


def test_what_cannot_be_used_is_in_the_ledger_and_the_query_lives(spark: Any, tmp_path: Path) -> None:
    tables = _changes(seed=4, files=2)
    bad = pl.DataFrame(
        {"k": [1, 2], "p": "a", "kind": ["insert", "upsert"], "vs": [9, 9], "ve": [9, 12]}
    )
    tables[0] = pl.concat([tables[0], bad], how="diagonal_relaxed").select(tables[0].columns)
    directory = _written(tables, tmp_path / "in")
    query = QUERIES["windows by key"]
    handle = query.start(spark, {s: _read(spark, directory)}, checkpoint=str(tmp_path / "checkpoint"))
    try:
        assert handle.await_settled(sw.INF, timeout=240)
    finally:
        handle.stop()
    assert handle.ledger.counts() == {"ends before it starts": 1, "unknown kind": 1}


def test_workers_with_another_python_are_refused(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it is the same interpreter, but not of the same environment."""
    elsewhere = tmp_path / "python"
    elsewhere.symlink_to(Path(sys.executable).resolve())
    for theirs in (str(elsewhere), "no-such-python"):
        monkeypatch.setattr(spark.sparkContext, "pythonExec", theirs)
        with pytest.raises(sw.PlanError, match="another Python"):
            s.start(spark, {s: _read(spark, tmp_path)}, checkpoint=str(tmp_path / "checkpoint"))


def test_rows_of_windows_are_added_up_where_they_are_read(spark: Any, tmp_path: Path) -> None:
    """One parcel stands for many rows; late ones travel as they are, and go to the ledger; so also
    after a restart, when what was promised is in the record of an earlier start."""
    query, random = QUERIES["windows by key"], np.random.default_rng(3)
    tables = []
    for number in range(4):
        vs = 1_000 * number + random.integers(0, 1_000, 2_000)
        vs[:20] -= 1_500 * (number == 2)
        payload = {"k": random.integers(0, 3, 2_000), "v": random.integers(0, 1000, 2_000) / 8}
        tables.append(pl.DataFrame({"vs": vs, **payload}))
    directory = _written(tables, tmp_path / "in")
    for last in (False, True):
        if not last:
            (directory / "3.parquet").rename(tmp_path / "3.parquet")
        else:
            (tmp_path / "3.parquet").rename(directory / "3.parquet")
        given = sw.read_files(str(directory), vs="vs", per_batch=1, progress=sw.progress(lateness=100))
        checkpoint = str(tmp_path / "checkpoint")
        handle = query.start(spark, {s: given}, checkpoint=checkpoint, trigger={"availableNow": True})
        handle.spark_query.awaitTermination()
        handle.stop()
    whole = pl.concat(tables)
    late = whole.filter((pl.col("vs") < 1_500) & (pl.int_range(pl.len()) >= 4_000))
    kept = whole.filter(~((pl.col("vs") < 1_500) & (pl.int_range(pl.len()) >= 4_000)))
    assert late.height == len(handle.ledger) == handle.progress.set_aside > 0
    first = late["vs"] // 10 * 10 + 10
    assert sorted((e.since, e.until) for e in handle.ledger) == sorted(
        zip(first, first + 50, strict=True)
    )
    wanted = query.meaning({s: sw.from_dataframe(kept, vs="vs", schema=COLUMNS)})
    assert handle.output.as_history() == wanted
    assert handle.progress.rows_in == 8_000
    log = [path.stat().st_size for path in tmp_path.rglob("*.parcels")]
    assert sum(log) < whole.estimated_size() / 2


def test_spark_makes_code_of_a_plan_once(spark: Any, tmp_path: Path) -> None:
    # else Java compiles in every batch, which costs a short trigger more than its work does
    query, directory = QUERIES["two stages"], tmp_path / "in"
    directory.mkdir()
    handle = query.start(
        spark,
        {s: sw.read_files(str(directory), vs="vs", per_batch=1)},
        checkpoint=str(tmp_path / "checkpoint"),
    )
    made: list[int] = []
    table = pl.DataFrame({"k": [1, 2], "v": [0.5, 1.5], "vs": [1, 2]})
    for number in range(3):
        table.write_parquet(directory / f"{number}.parquet")
        handle.process_all_available()
        metrics = spark._jvm.org.apache.spark.metrics.source.CodegenMetrics
        made.append(metrics.METRIC_COMPILATION_TIME().getCount())
    assert handle.progress.batch == 2
    handle.stop()
    assert made[1] == made[2], "the third batch had the code of the second"
