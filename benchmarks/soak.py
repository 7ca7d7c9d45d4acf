"""A query on Spark for long, and what memory it takes: `python -m benchmarks.soak [minutes]`.

Hopping windows by key over 2,000 readings a second, a fifth of them late, joined with limits that hold
for 20 s; a trigger every second. Twenty times during the run memory is looked at: that of the driver's
Python, of its JVM, of Spark's workers and of the keepers. It is flat if a straight line through what was
seen after the first quarter rises by no more than 5 %, or 10 MB. The JVM's heap is there from the start,
so that what is resident tells of what is outside of it; what lives on the heap is counted after a
collection.

The store's files come and go: logs grow until the state is written, after 256 batches. After twice as
many, the second half must not hold more of them than the first. What Spark keeps itself is only shown.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ["PYSPARK_PYTHON"] = sys.executable

import numpy as np
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from rich.console import Console

import slackwater as sw
from slackwater.spark import sinks

SAMPLES = 20
INSERTS = sw.StreamProperties(insert_only=True)
READINGS = sw.stream({"k": int, "v": float}, name="readings", properties=INSERTS)
LIMITS = sw.stream({"k": int, "most": float}, name="limits", properties=INSERTS)
QUERY = (
    READINGS.window(sw.hopping("10 s", "2 s"))
    .group_by("k")
    .aggregate(n=sw.count(), m=sw.avg("v"))
    .join(LIMITS.window(sw.sliding("20 s")), on="k", where=sw.col("m") > sw.col("most"))
)
PARTS = ("driver Python", "driver JVM", "JVM heap", "workers", "keepers")


def main(minutes: float) -> bool:
    """Run it; whether all was flat."""
    console = Console(width=200)
    spark = _session()
    place = Path(tempfile.mkdtemp(prefix="soak"))
    said = [0]

    def count(batch: sw.Batch, number: int) -> None:
        said[0] += batch.rows

    handle = QUERY.start(
        spark,
        {READINGS: _rate(spark, 2_000, "v"), LIMITS: _rate(spark, 50, "most")},
        checkpoint=str(place / "checkpoint"),
        sink=sinks.Callback(function=count),
        trigger={"processingTime": "1 second"},
    )
    seen: list[dict[str, float]] = []
    begun = time.monotonic()
    columns = [
        "minutes",
        "batch",
        "rows in",
        "rows out",
        "state rows",
        *PARTS,
        "store files",
        "store MB",
    ]
    console.print("  ".join(f"{name:>13}" for name in [*columns, "Spark's MB"]))
    try:
        for turn in range(1, SAMPLES + 1):
            time.sleep(max(0.0, begun + turn * minutes * 60 / SAMPLES - time.monotonic()))
            if not handle.spark_query.isActive:
                raise SystemExit(f"the query has stopped: {handle.spark_query.exception()}")
            now = handle.progress
            standing = {
                "minutes": (time.monotonic() - begun) / 60,
                "batch": now.batch,
                "rows in": now.rows_in,
                "rows out": said[0],
                "state rows": now.state_rows,
            }
            seen.append({**standing, **_memory(spark), **_files(place / "checkpoint")})
            console.print("  ".join(f"{value:13,.1f}" for value in seen[-1].values()))
        set_aside = len(handle.ledger)
    finally:
        handle.stop()
        spark.stop()
        shutil.rmtree(place, ignore_errors=True)
    flat = [_judged(console, name, seen) for name in PARTS]
    console.print(f"{set_aside} rows in the ledger")
    return all([*flat, _purged(console, seen)])


def _session() -> SparkSession:
    made = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.extraJavaOptions", "-Xms1g -XX:+AlwaysPreTouch")
        .config("spark.sql.shuffle.partitions", "2")
        # what Spark remembers of batches that are over is full before memory is looked at
        .config("spark.ui.retainedJobs", "50")
        .config("spark.ui.retainedStages", "50")
        .config("spark.ui.retainedTasks", "100")
        .config("spark.sql.ui.retainedExecutions", "50")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    made.sparkContext.setLogLevel("ERROR")
    return made


def _rate(spark: SparkSession, rows: int, value: str) -> Any:
    """So many rows a second, of a hundred keys; every fifth is up to 2 s late."""
    frame = spark.readStream.format("rate").option("rowsPerSecond", rows).load()
    number = f.col("value")
    late = f.when(number % 5 == 0, number * 7919 % 2000).otherwise(0)
    at = f.timestamp_micros(f.unix_micros("timestamp") - late * 1000)
    key = (number * 31 % 100).alias("k")
    frame = frame.select(at.alias("at"), key, (number * 17 % 1000).cast("double").alias(value))
    return sw.from_dataframe(frame, vs="at", progress=sw.progress(lateness="3 s"))


def _memory(spark: SparkSession) -> dict[str, float]:
    """MB that are resident, by who has them."""
    found = dict.fromkeys(PARTS, 0.0)
    found["driver Python"] = _resident(os.getpid())
    processes = _processes()
    below = {pid for pid in processes if _is_below(pid, os.getpid(), processes)}
    for pid, (_, words) in processes.items():
        # keepers outlive the workers that have started them, so they name an executor
        if "slackwater.distributed.keeper" in words and {str(each) for each in below} & set(words):
            found["keepers"] += _resident(pid)
        elif pid in below and words[0].endswith("java"):
            found["driver JVM"] += _resident(pid)
        elif pid in below and any(word.startswith("pyspark") for word in words):
            found["workers"] += _resident(pid)
    java: Any = spark.sparkContext._jvm
    java.java.lang.System.gc()
    runtime = java.java.lang.Runtime.getRuntime()
    found["JVM heap"] = (runtime.totalMemory() - runtime.freeMemory()) / 2**20
    return found


def _resident(pid: int) -> float:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


Processes = dict[int, tuple[int, list[str]]]


def _processes() -> Processes:
    """All that run: their parents, and how they were called."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                words = (entry / "cmdline").read_text(errors="replace").split("\0")
            except (FileNotFoundError, ProcessLookupError):
                continue
            found[int(entry.name)] = parent, words
    return found


def _is_below(pid: int, top: int, processes: Processes) -> bool:
    parent = processes[pid][0] if pid in processes else 0
    return parent == top or (parent != 0 and _is_below(parent, top, processes))


def _files(checkpoint: Path) -> dict[str, float]:
    sizes: dict[str, list[int]] = {"slackwater": [], "spark": []}
    for name, found in sizes.items():
        for base, _, files in os.walk(checkpoint / name):
            for file in files:
                try:
                    found.append(Path(base, file).stat().st_size)
                except FileNotFoundError:
                    continue  # purged meanwhile
    own, sparks = sizes["slackwater"], sizes["spark"]
    return {
        "store files": len(own),
        "store MB": sum(own) / 2**20,
        "Spark's MB": sum(sparks) / 2**20,
    }


def _judged(console: Console, name: str, seen: list[dict[str, float]]) -> bool:
    """Whether it was flat after the first quarter."""
    later = seen[len(seen) // 4 :]
    values = np.array([each[name] for each in later])
    minutes = np.array([each["minutes"] for each in later])
    slope = np.polyfit(minutes, values, 1)[0]
    rise = slope * (minutes[-1] - minutes[0])
    flat = bool(rise <= max(0.05 * values.mean(), 10.0))
    console.print(
        f"{name}: {values.mean():.0f} MB, {slope:+.2f} MB a minute, {rise:+.1f} MB in all: "
        f"{'flat' if flat else 'NOT FLAT'}"
    )
    return flat


def _purged(console: Console, seen: list[dict[str, float]]) -> bool:
    """Whether the store holds no more in the second half than in the first."""
    half = len(seen) // 2
    if seen[half - 1]["batch"] < 2 * 256:
        console.print("store: too few batches to judge whether it is purged")
        return True
    before, after = (max(each["store files"] for each in part) for part in (seen[:half], seen[half:]))
    purged = after <= 1.1 * before
    console.print(
        f"store: at most {before:.0f} files, then {after:.0f}: {'purged' if purged else 'GROWS'}"
    )
    return purged


if __name__ == "__main__":
    sys.exit(not main(float(sys.argv[1]) if len(sys.argv) > 1 else 20.0))
