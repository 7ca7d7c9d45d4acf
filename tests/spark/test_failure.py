"""A query that fails says why to who waits for it, and keeps nothing in memory."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import slackwater as sw
from slackwater.distributed.keeper import forget
from slackwater.spark import handle as handles
from slackwater.spark import sinks
from slackwater.spark.failure import failure_of


def test_what_is_not_ours_is_told_as_it_is() -> None:
    problem = RuntimeError("Job aborted\nValueError: no\n\n=== Streaming Query ===\nIdentifier: 1")
    assert failure_of(problem).fact == "the query has stopped"
    assert failure_of(problem).detail == "Job aborted\nValueError: no"


def test_what_a_callback_raises_is_told_as_it_is(spark: Any, tmp_path: Path) -> None:
    """And the batch comes again, for it was not taken."""
    (tmp_path / "in").mkdir()
    pl.DataFrame({"k": [2], "vs": [5]}).write_parquet(tmp_path / "in" / "0.parquet")
    s = sw.stream({"k": int}, name="s")
    told: list[int] = []

    def take(rows: sw.Batch, batch: int) -> None:
        told.append(batch)
        if len(told) == 1:
            raise KeyError(rows.payload["k"][0])

    given = {s: sw.read_files(str(tmp_path / "in"), vs="vs")}
    where: dict[str, Any] = {"checkpoint": str(tmp_path / "checkpoint"), "buckets": 1}
    handle = s.start(spark, given, sink=sinks.Callback(function=take), **where)
    with pytest.raises(sw.OperatorError) as failed:
        handle.process_all_available()
    assert failed.value.fact == "the query has stopped: the callback take raised KeyError: 2"
    assert f"{__file__}, line " in failed.value.detail
    assert failed.value.detail.endswith("it was told batch 0")
    assert failed.value.hint
    handle.stop()
    again = s.start(spark, given, sink=sinks.Callback(function=take), **where)
    again.process_all_available()
    again.stop()
    assert told == [0, 0]


def test_a_query_that_fails_says_why_and_is_forgotten(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forgotten = threading.Event()

    def heard(run: str, root: str) -> None:
        forget(run, root)
        forgotten.set()

    monkeypatch.setattr(handles, "forget", heard)
    (tmp_path / "in").mkdir()
    pl.DataFrame({"k": [2], "vs": [5], "ve": [9], "new_ve": [7], "kind": ["adjust"]}).write_parquet(
        tmp_path / "in" / "0.parquet"
    )
    s = sw.stream({"k": int}, name="s")
    rows = sw.read_files(str(tmp_path / "in"), vs="vs", ve="ve", kind="kind", new_ve="new_ve")
    handle = s.distinct().start(spark, {s: rows}, checkpoint=str(tmp_path / "checkpoint"), buckets=1)
    for wait in (lambda: handle.await_settled(9), handle.process_all_available):
        with pytest.raises(sw.OperatorError) as failed:
            wait()
        assert failed.value.fact == (
            "the query has stopped: adjust(5, 9, 7, k=2) adjusts an event that does not exist"
        )
        assert failed.value.detail == "no event with this start and payload is there to be adjusted"
        assert failed.value.hint.startswith("an adjust repeats vs, ve and the whole payload")
    assert forgotten.wait(10), "without a stop"
    handle.stop()
