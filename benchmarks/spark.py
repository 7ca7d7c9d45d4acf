"""Plans on Spark against what Spark does by itself: `python -m benchmarks.spark [small]`.

Both read the same Parquet files, so many per trigger, on local[2], and write Parquet. The runs take
turns, five times, after one that does not count; what is reported is the median of the ratios.

hopping: count and average by key in windows of 10 s every 2 s; 2,000,000 events, 1,000 keys, 20 % of
them displaced by up to 5 s. Native: groupBy(window, key) with a watermark, in append mode.

To come: a comparison of the answers, the join within 30 s, what a trigger costs by its parts, and a
trigger with much and with little in state.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["PYSPARK_PYTHON"] = sys.executable

import numpy as np
import polars as pl
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from rich.console import Console
from rich.table import Table

import slackwater as sw
from slackwater.spark import sinks

SECOND = 1_000_000
TURNS = 5


def session(cores: int = 2) -> SparkSession:
    """On loopback, with nothing that is not needed."""
    made = (
        SparkSession.builder.master(f"local[{cores}]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "4g")
        .config("spark.sql.shuffle.partitions", str(cores))
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    made.sparkContext.setLogLevel("ERROR")
    return made


def write_events(directory: Path, *, events: int, keys: int, files: int, seed: int) -> pl.DataFrame:
    """Two events per millisecond, every fifth up to 5 s late; as files in the order of arrival."""
    random = np.random.default_rng(seed)
    due = np.arange(events) * 500
    late = np.where(random.random(events) < 0.2, random.integers(0, 5 * SECOND, events), 0)
    table = pl.DataFrame(
        {
            "ts": pl.Series(due).cast(pl.Datetime("us", "UTC")),
            "k": random.integers(0, keys, events),
            "v": random.integers(0, 1000, events),
        }
    )[np.argsort(due + late, kind="stable")]
    directory.mkdir(parents=True)
    for number, part in enumerate(table.iter_slices(-(-events // files))):
        path = directory / f"{number:05d}.parquet"
        part.write_parquet(path)
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
    return table


DDL = "ts timestamp, k long, v long"


def _native_stream(spark: SparkSession, directory: Path, per_batch: int) -> Any:
    reader = spark.readStream.schema(DDL).option("maxFilesPerTrigger", per_batch)
    return reader.parquet(str(directory))


def _seconds_of(work: Callable[[Path], None]) -> float:
    place = Path(tempfile.mkdtemp(prefix="bench"))
    try:
        start = time.perf_counter()
        work(place)
        return time.perf_counter() - start
    finally:
        shutil.rmtree(place, ignore_errors=True)


def native_hopping(spark: SparkSession, given: Path, per_batch: int, place: Path) -> None:
    """Spark's own windows."""
    stream = _native_stream(spark, given, per_batch).withWatermark("ts", "5 seconds")
    answer = stream.groupBy(f.window("ts", "10 seconds", "2 seconds"), "k").agg(
        f.count("*").alias("n"), f.avg("v").alias("m")
    )
    query = (
        answer.writeStream.format("parquet")
        .option("path", str(place / "out"))
        .option("checkpointLocation", str(place / "checkpoint"))
        .outputMode("append")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


EVENTS = sw.stream({"k": int, "v": int}, name="events", properties=sw.StreamProperties(insert_only=True))
HOPPING = EVENTS.window(sw.hopping("10 s", "2 s")).group_by("k").aggregate(n=sw.count(), m=sw.avg("v"))


def our_hopping(
    spark: SparkSession, given: Path, per_batch: int, place: Path, *, settled: bool = True
) -> None:
    """The same with ours; settled rows only, or EAGER with retractions."""
    query = HOPPING.latency(sw.PERFECTNESS_PRESERVING) if settled else HOPPING
    rows = sw.read_files(str(given), vs="ts", per_batch=per_batch, progress=sw.progress(lateness="5 s"))
    handle = query.start(
        spark,
        {EVENTS: rows},
        checkpoint=str(place / "checkpoint"),
        sink=sinks.Parquet(directory=str(place / "out")),
        trigger={"availableNow": True},
    )
    handle.spark_query.awaitTermination()
    handle.stop()


def hopping(console: Console, *, small: bool) -> None:
    """Windows by key."""
    events, files = (100_000, 4) if small else (2_000_000, 20)
    spark = session()
    base = Path(tempfile.mkdtemp(prefix="bench"))
    write_events(base / "in", events=events, keys=1_000, files=files, seed=1)
    per_batch = max(1, files // 4)
    runs: dict[str, Callable[[Path], None]] = {
        "native, append": lambda place: native_hopping(spark, base / "in", per_batch, place),
        "ours, settled": lambda place: our_hopping(spark, base / "in", per_batch, place),
        "ours, eager": lambda place: our_hopping(spark, base / "in", per_batch, place, settled=False),
    }
    _compare(console, "hopping windows, count and average by key", runs, events)
    spark.stop()
    shutil.rmtree(base)


def _compare(console: Console, title: str, runs: dict[str, Callable[[Path], None]], rows: int) -> None:
    seen: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(TURNS + 1):
        for name, run in runs.items():
            seconds = _seconds_of(run)
            if turn:
                seen[name].append(seconds)
    out = Table(title=title)
    for column in ("", "s", "rows/s", "times native"):
        out.add_column(column, justify="left" if not column else "right")
    native = next(iter(seen.values()))
    for name, times in seen.items():
        ratio = statistics.median(n / t for n, t in zip(native, times, strict=True))
        middle = statistics.median(times)
        out.add_row(name, f"{middle:.2f}", f"{rows / middle:,.0f}", f"{ratio:.2f}")
    console.print(out)


if __name__ == "__main__":
    modes = {"hopping": hopping}
    words = sys.argv[1:]
    for chosen in [word for word in words if word in modes] or modes:
        modes[chosen](Console(width=120), small="small" in words)
