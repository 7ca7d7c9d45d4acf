"""Processes that do the same work batch after batch keep the memory that it takes."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pyarrow as pa

import slackwater as sw
from slackwater.distributed.allocation import KEPT, keeping_memory
from slackwater.spark import sinks
from slackwater.spark.handle import _keeping_memory
from slackwater.spark.receiving import Rewrites

S = sw.stream({"k": int}, name="s")


def test_what_is_set_already_stays() -> None:
    environment = keeping_memory({"MALLOC_ARENA_MAX": "4", "HOME": "there"})
    assert environment == {**KEPT, "MALLOC_ARENA_MAX": "4", "HOME": "there"}


def test_who_starts_meanwhile_leaves_things_as_they_were() -> None:
    """Queries may be started in several threads, and what Spark uses is one."""
    spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(environment={"PYTHONHASHSEED": "0"}))
    one_is_in = threading.Event()

    def start() -> None:
        with _keeping_memory(spark):
            one_is_in.set()

    other = threading.Thread(target=start)
    with _keeping_memory(spark):
        other.start()
        assert not one_is_in.wait(0.2), "it takes what it finds for what was there before"
    other.join()
    assert one_is_in.is_set()
    assert spark.sparkContext.environment == {"PYTHONHASHSEED": "0"}


@dataclass(frozen=True, kw_only=True)
class Asking(sinks.Memory):
    """Writes down what the workers' environment says."""

    directory: str

    def in_tasks(self, schema: pl.Schema) -> Rewrites:
        directory = self.directory

        def asked(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            told = os.environ.get("MALLOC_TRIM_THRESHOLD_", "nothing")
            Path(directory, str(os.getpid())).write_text(told)
            yield from batches

        return asked


def test_workers_and_keepers_keep_memory_and_other_workers_do_not(spark: Any, tmp_path: Path) -> None:
    def told_by_keepers(column: pa.Array) -> pa.Array:
        return pa.array([os.environ.get("MALLOC_TRIM_THRESHOLD_", "nothing")] * len(column), pa.string())

    before = dict(spark.sparkContext.environment)
    (tmp_path / "in").mkdir()
    (tmp_path / "told").mkdir()
    pl.DataFrame({"ts": [1, 2], "k": [1, 2]}).write_parquet(tmp_path / "in" / "0.parquet")
    told = S.select(told=sw.function(told_by_keepers, "k", returns=str)).aggregate(top=sw.max("told"))
    handle = told.start(
        spark,
        {S: sw.read_files(str(tmp_path / "in"), vs="ts")},
        sink=Asking(directory=str(tmp_path / "told")),
        checkpoint=str(tmp_path / "checkpoint"),
    )
    handle.process_all_available()
    history = handle.output.history()
    handle.stop()
    wanted = os.environ.get("MALLOC_TRIM_THRESHOLD_", KEPT["MALLOC_TRIM_THRESHOLD_"])
    assert set(history["top"]) == {wanted}
    assert {path.read_text() for path in (tmp_path / "told").iterdir()} == {wanted}
    assert spark.sparkContext.environment == before
