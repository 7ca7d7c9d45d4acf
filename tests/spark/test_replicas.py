"""Answers of several queries, found by a pattern, merged by one that goes on when they do not."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import slackwater as sw
from slackwater.distributed.controls import Attached, Outdated
from slackwater.spark import sinks
from slackwater.spark.control import Controls
from slackwater.times import BEGIN

READINGS = sw.stream(
    {"k": int, "v": int}, name="readings", properties=sw.StreamProperties(insert_only=True)
)
COUNTS = READINGS.window(sw.tumbling(20)).group_by("k").aggregate(n=sw.count(), most=sw.max("v"))
COPIES = sw.stream(
    dict(COUNTS.schema),
    name="copies",
    replicated=True,
    properties=sw.StreamProperties(vs_payload_key=True),
)
FILES = 6


def _rows(number: int) -> pl.DataFrame:
    rng = np.random.default_rng(number)
    vs = number * 30 + rng.integers(-20, 30, 100)
    rows = pl.DataFrame(
        {
            "kind": "insert",
            "vs": vs,
            "ve": vs + 1,
            "k": rng.integers(0, 5, 100),
            "v": rng.integers(0, 9, 100),
        }
    )
    end = sw.INF if number == FILES - 1 else number * 30 + 5
    return pl.concat([rows, pl.DataFrame({"kind": ["cti"], "vs": [end]})], how="diagonal")


def _write(directory: Path, number: int) -> None:
    directory.mkdir(exist_ok=True)
    path = directory / f"{number:03d}.parquet"
    _rows(number).write_parquet(path)
    os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


def _replica(spark: Any, base: Path, name: str, per_batch: int, **more: Any) -> Any:
    given = sw.read_files(str(base / "in"), vs="vs", ve="ve", kind="kind", per_batch=per_batch)
    return COUNTS.start(
        spark,
        {READINGS: given},
        checkpoint=str(base / "checkpoints" / name),
        sink=sinks.Parquet(directory=str(base / "out" / name)),
        **more,
    )


def _merged(spark: Any, base: Path, **more: Any) -> Any:
    return sw.merge(COPIES).start(
        spark,
        {COPIES: sw.read_committed(str(base / "out" / "copy-*"))},
        checkpoint=str(base / "checkpoints" / "merged"),
        sink=sinks.Parquet(directory=str(base / "merged")),
        **more,
    )


def _answer(directory: Path) -> sw.History:
    rows = sinks.committed(str(directory))
    told = sw.from_dataframe(rows, vs="vs", ve="ve", kind="kind", new_ve="new_ve", schema=COUNTS.schema)
    sw.validate(told)
    return sw.History.of(told)


def _wanted() -> sw.History:
    rows = pl.concat([_rows(number) for number in range(FILES)])
    return COUNTS.meaning(
        {READINGS: sw.from_dataframe(rows, vs="vs", ve="ve", kind="kind", schema=READINGS.schema)}
    )


def _until(happens: Callable[[], bool], *queries: Any) -> None:
    for _ in range(100):
        for query in queries:
            query.process_all_available()
        if happens():
            return
    pytest.fail("it did not happen")


def test_replicas_come_and_go(spark: Any, tmp_path: Path) -> None:
    """One stops for good, one begins later, one goes on from its checkpoint, and so does the merge."""
    for number in range(3):
        _write(tmp_path / "in", number)
    merged = _merged(spark, tmp_path)
    first = _replica(spark, tmp_path, "copy-1", 1)
    _until(lambda: "copy-1" in merged.progress.replicas.get("copies", {}), first, merged)
    first.stop()
    second = _replica(spark, tmp_path, "copy-2", 2)
    _until(lambda: len(merged.progress.replicas["copies"]) == 2, second, merged)
    merged.stop()
    second.stop()
    for number in range(3, FILES):
        _write(tmp_path / "in", number)
    merged = _merged(spark, tmp_path)
    assert set(merged.progress.replicas["copies"]) == {"copy-1", "copy-2"}
    merged.detach(COPIES, "copy-1")
    second, third = _replica(spark, tmp_path, "copy-2", 2), _replica(spark, tmp_path, "copy-3", 3)
    for query in (second, third):
        query.process_all_available()
        query.stop()
    assert merged.await_settled(sw.INF, timeout=120)
    assert set(merged.progress.replicas["copies"]) == {"copy-2", "copy-3"}
    merged.stop()
    assert _answer(tmp_path / "merged") == _wanted()


def test_who_begins_anew_is_told_what_is_past(spark: Any, tmp_path: Path) -> None:
    for number in range(FILES - 1):
        _write(tmp_path / "in", number)
    merged = _merged(spark, tmp_path, feedback_to=str(tmp_path / "feedback"))
    first = _replica(spark, tmp_path, "copy-1", 2)
    _until(lambda: merged.progress.settled_until >= (FILES - 2) * 30, first, merged)
    first.stop()
    feedback = Controls(str(tmp_path / "feedback"))
    waited = time.monotonic() + 60
    while feedback.said(COUNTS.schema)[-1] != Outdated(merged.progress.settled_until):
        assert time.monotonic() < waited, "the last word is told, too"
        time.sleep(0.1)
    again = _replica(spark, tmp_path, "copy-1b", 1, feedback=str(tmp_path / "feedback"))
    again.process_all_available()
    told = sinks.committed(str(tmp_path / "out" / "copy-1b"))
    past = sinks.committed(str(tmp_path / "out" / "copy-1"))
    assert told.height < past.height / 2, "it has skipped what is past"
    _write(tmp_path / "in", FILES - 1)
    again.process_all_available()
    again.stop()
    assert merged.await_settled(sw.INF, timeout=120)
    merged.stop()
    assert _answer(tmp_path / "merged") == _wanted()


def test_replicas_by_a_column(spark: Any, tmp_path: Path) -> None:
    """Rows of all replicas in the same files; one tells something else, and is called by its name."""
    rows = [
        {"copy": copy, "kind": "insert", "vs": 1, "ve": end, "k": 1, "n": 2, "most": 3}
        for copy, end in (("east", 50), ("west", 9))
    ]
    ctis = [{"copy": copy, "kind": "cti", "vs": at} for copy, at in (("east", 20), ("west", 15))]
    (tmp_path / "in").mkdir()
    pl.DataFrame([*rows, *ctis], schema_overrides={"n": pl.UInt32}).with_columns(
        pl.col("n").cast(COUNTS.schema["n"])
    ).write_parquet(tmp_path / "in" / "0.parquet")
    given = sw.read_files(str(tmp_path / "in"), vs="vs", ve="ve", kind="kind", partition="copy")
    merged = sw.merge(COPIES).start(
        spark, {COPIES: given}, checkpoint=str(tmp_path / "checkpoint"), sink=sinks.Memory()
    )
    with pytest.raises(sw.OperatorError, match=r"against it: \[west\]"):
        merged.process_all_available()
    merged.stop()


def test_whom_one_bucket_quarantines_none_listens_to(spark: Any, tmp_path: Path) -> None:
    """Also after a restart, until it is attached again."""
    schema = {**COUNTS.schema, "n": pl.Int64()}
    copies = sw.stream(
        schema, name="copies", replicated=True, properties=sw.StreamProperties(vs_payload_key=True)
    )
    policy = sw.merge_policy(contradiction=sw.QUARANTINE)

    def rows(copy: str, vs: int, ve: int, keys: range = range(16)) -> list[dict[str, Any]]:
        same = {"copy": copy, "kind": "insert", "vs": vs, "n": 2, "most": 3}
        return [{**same, "ve": ve, "k": k} for k in keys]

    def cti(copy: str, vs: int) -> list[dict[str, Any]]:
        return [{"copy": copy, "kind": "cti", "vs": vs}]

    def write(number: int, *told: list[dict[str, Any]]) -> None:
        (tmp_path / "in").mkdir(exist_ok=True)
        types = pl.Schema({"n": copies.schema["n"], "most": copies.schema["most"]})
        frame = pl.DataFrame([row for each in told for row in each], infer_schema_length=None)
        columns = {name: pl.Int64() for name in ("ve", "k", "n", "most") if name not in frame.columns}
        frame = frame.with_columns(pl.lit(None, dtype).alias(name) for name, dtype in columns.items())
        frame.cast(types).write_parquet(tmp_path / "in" / f"{number}.parquet")

    def start() -> Any:
        given = sw.read_files(str(tmp_path / "in"), vs="vs", ve="ve", kind="kind", partition="copy")
        return sw.merge(copies, policy=policy).start(
            spark, {copies: given}, checkpoint=str(tmp_path / "checkpoint"), sink=sinks.Memory()
        )

    right = [each for copy in ("east", "north") for each in (*rows(copy, 1, 50), *cti(copy, 20))]
    # of one key it says another end
    wrong = [*rows("west", 1, 9, range(1)), *rows("west", 1, 50, range(1, 16)), *cti("west", 15)]
    write(0, right, wrong)
    query = start()
    query.process_all_available()
    [entry] = query.ledger
    assert "quarantined: west" in entry.detail
    assert query.progress.quarantined == {"copies": ["west"]}
    write(1, rows("west", 30, 40))
    query.process_all_available()
    query.stop()
    query = start()
    write(2, rows("west", 31, 40))
    query.process_all_available()
    assert query.progress.rows_out == 16, "it is not listened to"
    assert set(query.progress.replicas["copies"]) == {"east", "north"}
    query.attach(copies, "west", since=20)
    query.process_all_available()
    write(3, rows("west", 1, 50), rows("west", 32, 40))
    query.process_all_available()
    assert query.progress.quarantined == {}
    assert {event.vs for event in query.output.as_history().events()} == {1, 32}
    # as in one process, None is no time at all
    query.attach(copies, "west", since=None)
    query.stop()
    [*_, last] = Controls(str(tmp_path / "checkpoint" / "control")).said(copies.schema)
    assert last == Attached("copies", "west", BEGIN)


def test_only_replicas_come_and_go(spark: Any, tmp_path: Path) -> None:
    _write(tmp_path / "in", 0)
    query = _replica(spark, tmp_path, "copy-1", 1)
    with pytest.raises(sw.PlanError, match="is not a replicated stream of this query"):
        query.attach(READINGS, "a")
    query.stop()
