"""Plans on Spark against what Spark does by itself: `python -m benchmarks.spark [small] [names]`.

Both read the same Parquet files, so many per trigger that TRIGGERS=1 takes in all, and write Parquet.
Runs take turns, five times, after four that do not count: by then Java has compiled what it needs, for
both. Before each of them Java is made to collect its garbage: else who comes next pays for it. What is
reported is the median of the ratios: of the time in triggers (Spark's triggerExecution, added up), which
is what Spark divides the rows by to give processedRowsPerSecond; and of the whole query, its start and
its end included, of which there is one for however many rows. Until 18 November 2026 the whole query was
what was held against the limits.
Every answer of the last turn is compared, row by row, with one that polars computes from all files.
Each comparison has a process, and a Java, of its own.

hopping   count and average by key in windows of 10 s every 2 s; 2,000,000 events, 1,000 keys, 20 % of
          them displaced by up to 5 s. Native: groupBy(window, key) with a watermark, in append mode.
join      equal keys less than 30 s apart; 1,000,000 events a side, 100,000 keys, displaced as above.
          Native: the interval join of two streams with watermarks.
cores     hopping on local[2] with two processors, and on local[1] with one; of 2,000,000 events as
          above, and of more, where what a query costs whatever its rows hides less of what cores give.
trigger   what a trigger of 1,000 rows costs, by its parts, next to a native count by key.
change    triggers of 1,000 rows with 10,000 and with 10,000,000 live events, of which as many end as
          begin: time, and bytes written. So many come before those that count that the state is
          written once while these run.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
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
WARM = 4
"""turns before that"""
TRIGGERS = int(os.environ.get("TRIGGERS", "1"))
"""so many take in all of a comparison; with one, native is measured as DESIGN section 4 has it"""
LATE = 5 * SECOND
WITHIN = 30 * SECOND


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


@contextmanager
def scratch() -> Iterator[Path]:
    """A directory for the time being."""
    place = Path(tempfile.mkdtemp(prefix="bench"))
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


# what is read


def events(number: int, keys: int, seed: int) -> pl.DataFrame:
    """Two events per millisecond, every fifth up to 5 s late, in the order of arrival.

    They begin an hour after the epoch: Spark takes what is at the epoch itself to be late.
    """
    random = np.random.default_rng(seed)
    due = 3_600 * SECOND + np.arange(number) * 500
    late = np.where(random.random(number) < 0.2, random.integers(0, LATE, number), 0)
    return pl.DataFrame(
        {
            "ts": pl.Series(due).cast(pl.Datetime("us", "UTC")),
            "k": random.integers(0, keys, number),
            "v": random.integers(0, 1000, number),
        }
    )[np.argsort(due + late, kind="stable")]


def write(directory: Path, table: pl.DataFrame, files: int, first: int = 0) -> None:
    """As files, in the order of arrival, which is that of their times."""
    directory.mkdir(parents=True, exist_ok=True)
    for number, part in enumerate(table.iter_slices(-(-table.height // files)), first):
        path = directory / f"{number:05d}.parquet"
        part.write_parquet(path)
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


DDL = "ts timestamp, k long, v long"


def _native_stream(spark: SparkSession, directory: Path, per_batch: int) -> Any:
    reader = spark.readStream.schema(DDL).option("maxFilesPerTrigger", per_batch)
    return reader.parquet(str(directory))


def _native(answer: Any, place: Path, mode: str = "append") -> Any:
    query = (
        answer.writeStream.format("parquet")
        .option("path", str(place / "out"))
        .option("checkpointLocation", str(place / "checkpoint"))
        .outputMode(mode)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return query


def _ours(query: sw.Query, spark: SparkSession, inputs: dict[Any, Any], place: Path, sink: Any) -> Any:
    handle = query.start(
        spark,
        inputs,
        checkpoint=str(place / "checkpoint"),
        sink=sink,
        trigger={"availableNow": True},
    )
    handle.spark_query.awaitTermination()
    failure = handle.spark_query.exception()
    handle.stop()
    if failure is not None:
        raise failure
    return handle.spark_query


def _files(directory: Path, per_batch: int) -> Any:
    return sw.read_files(
        str(directory), vs="ts", per_batch=per_batch, progress=sw.progress(lateness="5 s")
    )


# hopping windows

EVENTS = sw.stream({"k": int, "v": int}, name="events")
HOPPING = EVENTS.window(sw.hopping("10 s", "2 s")).group_by("k").aggregate(n=sw.count(), m=sw.avg("v"))
SETTLED = HOPPING.latency(sw.PERFECTNESS_PRESERVING)


def native_hopping(spark: SparkSession, given: Path, per_batch: int, place: Path) -> Any:
    """Spark's own windows."""
    stream = _native_stream(spark, given, per_batch).withWatermark("ts", "5 seconds")
    answer = stream.groupBy(f.window("ts", "10 seconds", "2 seconds"), "k").agg(
        f.count("*").alias("n"), f.avg("v").alias("m")
    )
    return _native(answer, place)


def our_hopping(spark: SparkSession, given: Path, per_batch: int, place: Path, *, settled: bool) -> Any:
    """The same with ours; settled rows only, or EAGER with retractions."""
    sink = sinks.Parquet(directory=str(place / "out"), settled=settled)
    inputs = {EVENTS: _files(given, per_batch)}
    return _ours(SETTLED if settled else HOPPING, spark, inputs, place, sink)


def _windows(table: pl.DataFrame) -> pl.DataFrame:
    """All windows at once: when each ends, its key, count and average."""
    ts = table["ts"].dt.timestamp("us")
    first = (ts // (2 * SECOND) + 1) * (2 * SECOND)
    every = pl.concat([table.with_columns(end=first + hop * 2 * SECOND) for hop in range(5)])
    return every.group_by("end", "k").agg(n=pl.len().cast(pl.Int64), m=pl.col("v").mean())


def _check_windows(name: str, table: pl.DataFrame, place: Path) -> str:
    wanted = _windows(table)
    if name.startswith("native"):
        told = pl.read_parquet(place / "out" / "*.parquet").select(
            end=pl.col("window").struct.field("end").dt.timestamp("us"), k="k", n="n", m="m"
        )
    else:
        rows = sw.from_dataframe(
            sinks.committed(str(place / "out")),
            vs="vs", ve="ve", kind="kind", new_ve="new_ve",
            schema=HOPPING.schema,
        )  # fmt: skip
        history = sw.History.of(rows).frame
        # a row whose result stays the same is one row for several windows
        hops = pl.int_ranges("vs", "ve", 2 * SECOND)
        told = history.select("k", "n", "m", end=hops).explode("end")
    # by then both have said all; rows that go on are not settled yet
    until = int(table["ts"].dt.timestamp("us").max()) - LATE - 20 * SECOND  # type: ignore[arg-type]
    told, wanted = (
        frame.filter(pl.col("end") <= until).select("end", "k", "n", "m").sort("end", "k")
        for frame in (told, wanted)
    )
    return "right" if told.equals(wanted) else "WRONG"


def hopping(console: Console, *, small: bool) -> None:
    """Windows by key."""
    number, files = (100_000, 4) if small else (2_000_000, 20)
    table = events(number, 1_000, seed=1)
    spark = session()
    with scratch() as base:
        write(base / "in", table, files)
        per_batch = max(1, files // TRIGGERS)
        runs: dict[str, Callable[[Path], Any]] = {
            "native, append": lambda place: native_hopping(spark, base / "in", per_batch, place),
            "ours, settled": lambda place: our_hopping(
                spark, base / "in", per_batch, place, settled=True
            ),
            "ours, eager": lambda place: our_hopping(
                spark, base / "in", per_batch, place, settled=False
            ),
        }
        check = _check_windows
        _compare(console, "hopping windows, count and average by key", runs, table, check, spark=spark)
    spark.stop()


# a join

LEFT = sw.stream({"k": int, "v": int}, name="left")
RIGHT = sw.stream({"k": int, "w": int}, name="right")
JOIN = LEFT.window(sw.sliding("30 s")).join(RIGHT.window(sw.sliding("30 s")), on="k")


def _sides(number: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    left, right = (events(number, 100_000, seed) for seed in (2, 3))
    rows = pl.int_range(number, eager=True)
    # every event has a name, so that answers can be compared
    return left.with_columns(v=rows), right.with_columns(v=rows)


def native_join(spark: SparkSession, given: Path, per_batch: int, place: Path) -> Any:
    """Spark's own interval join."""
    left = _native_stream(spark, given / "left", per_batch).withWatermark("ts", "5 seconds")
    right = (
        _native_stream(spark, given / "right", per_batch)
        .withWatermark("ts", "5 seconds")
        .select(f.col("ts").alias("ts2"), f.col("k").alias("k2"), f.col("v").alias("w"))
    )
    near = f.expr("k = k2 and ts2 > ts - interval 30 seconds and ts2 < ts + interval 30 seconds")
    return _native(left.join(right, near).select("k", "v", "w"), place)


def our_join(spark: SparkSession, given: Path, per_batch: int, place: Path) -> Any:
    """The same with ours."""
    inputs = {
        LEFT: _files(given / "left", per_batch),
        RIGHT: _files(given / "renamed", per_batch),
    }
    return _ours(JOIN, spark, inputs, place, sinks.Parquet(directory=str(place / "out")))


def _check_join(name: str, wanted: pl.DataFrame, place: Path) -> str:
    if name.startswith("native"):
        told = pl.read_parquet(place / "out" / "*.parquet")
    else:
        told = sinks.committed(str(place / "out")).filter(pl.col("kind") == "insert")
    told, wanted = (each.select("k", "v", "w").sort("k", "v", "w") for each in (told, wanted))
    return "right" if told.equals(wanted) else "WRONG"


def _pairs(left: pl.DataFrame, right: pl.DataFrame) -> pl.DataFrame:
    both = left.join(right.select(ts2="ts", k="k", w="v"), on="k")
    apart = (pl.col("ts") - pl.col("ts2")).dt.total_microseconds().abs()
    return both.filter(apart < WITHIN)


def join(console: Console, *, small: bool) -> None:
    """Two streams."""
    number, files = (50_000, 4) if small else (1_000_000, 20)
    left, right = _sides(number)
    spark = session()
    with scratch() as base:
        write(base / "left", left, files)
        write(base / "right", right, files)
        write(base / "renamed", right.rename({"v": "w"}), files)
        per_batch = max(1, files // TRIGGERS)
        runs: dict[str, Callable[[Path], Any]] = {
            "native, append": lambda place: native_join(spark, base, per_batch, place),
            "ours": lambda place: our_join(spark, base, per_batch, place),
        }
        rows = pl.concat([left, right])
        wanted = _pairs(left, right)
        _compare(
            console,
            f"equijoin within 30 s, {wanted.height / number:.1f} matches per event",
            runs,
            rows,
            lambda name, _, place: _check_join(name, wanted, place),
            spark=spark,
        )
    spark.stop()


def _compare(
    console: Console,
    title: str,
    runs: dict[str, Callable[[Path], Any]],
    table: pl.DataFrame,
    check: Callable[[str, pl.DataFrame, Path], str],
    *,
    spark: SparkSession,
) -> None:
    whole: dict[str, list[float]] = {name: [] for name in runs}
    triggers: dict[str, list[float]] = {name: [] for name in runs}
    answers: dict[str, str] = {}
    for turn in range(WARM + TURNS):
        for name, run in runs.items():
            with scratch() as place:
                spark._jvm.System.gc()  # type: ignore[union-attr]
                start = time.perf_counter()
                query = run(place)
                seconds = time.perf_counter() - start
                if turn >= WARM:
                    whole[name].append(seconds)
                    triggers[name].append(
                        sum(p["durationMs"]["triggerExecution"] for p in query.recentProgress) / 1e3
                    )
                if turn == WARM + TURNS - 1:
                    answers[name] = check(name, table, place)
    out = Table(title=title)
    for column in ("", "triggers, s", "rows/s", "times native", "query, s", "times native", "answer"):
        out.add_column(column, justify="left" if not column else "right")
    for name in runs:
        cells = [*_measured(name, triggers, table.height), *_measured(name, whole)]
        out.add_row(name, *cells, answers[name])
    console.print(out)


def _measured(name: str, seen: dict[str, list[float]], rows: int | None = None) -> Iterator[str]:
    """The median of what was seen, and of how much that is less than what the first needs."""
    native, own = next(iter(seen.values())), seen[name]
    yield f"{statistics.median(own):.2f}"
    if rows is not None:
        yield f"{rows / statistics.median(own):,.0f}"
    yield f"{statistics.median(n / t for n, t in zip(native, own, strict=True)):.2f}"


# what more cores give


def cores(console: Console, *, small: bool) -> None:
    """The same on one core and on two, in turns: master and processors alike.

    Java, its workers and the keepers are processes of their own: where there are two cores, local[1]
    keeps both of them busy.
    """
    out = Table(title="hopping, settled, rows/s")
    for column in ("events", "local[1] on one core", "local[2] on two", "times as much"):
        out.add_column(column, justify="right")
    for number in (100_000,) if small else (2_000_000, 8_000_000, 16_000_000):
        one, two = _on_cores(number, files=4 if small else 20, turns=1 if small else 3)
        out.add_row(f"{number:,}", f"{number / one:,.0f}", f"{number / two:,.0f}", f"{one / two:.2f}")
    console.print(out)


def _on_cores(number: int, files: int, turns: int) -> list[float]:
    """The median of what it takes on one, and on two."""
    seen: dict[int, list[float]] = {1: [], 2: []}
    with scratch() as base:
        write(base / "in", events(number, 1_000, seed=1), files)
        for _ in range(turns):
            for count, times in seen.items():
                spawned = multiprocessing.get_context("spawn")
                with ProcessPoolExecutor(1, mp_context=spawned) as process:
                    run = process.submit(_seconds_on, count, base / "in", max(1, files // TRIGGERS))
                    times.extend(run.result())
    return [statistics.median(times) for times in seen.values()]


def _seconds_on(count: int, given: Path, per_batch: int) -> list[float]:
    """What a query takes in a process, and in all that it starts, which have so many processors."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])
    spark = session(count)
    times = []
    for turn in range(WARM + 3):
        with scratch() as place:
            start = time.perf_counter()
            our_hopping(spark, given, per_batch, place, settled=True)
            if turn >= WARM:
                times.append(time.perf_counter() - start)
    spark.stop()
    return times


# what a trigger costs

_PARTS = ("triggerExecution", "addBatch", "queryPlanning", "latestOffset", "walCommit", "commitOffsets")
COUNT = EVENTS.window(sw.sliding("1 h")).group_by("k").aggregate(n=sw.count())


def _durations(query: Any, last: int) -> dict[str, list[float]]:
    progress = [p for p in query.recentProgress if p["numInputRows"]][-last:]
    return {part: [p["durationMs"].get(part, 0) for p in progress] for part in _PARTS}


def trigger(console: Console, *, small: bool) -> None:
    """Triggers of 1,000 rows, all of their parts."""
    number = 12 if small else 60
    table = events(number * 1_000, 1_000, seed=4)
    spark = session()
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", str(number + 10))
    seen: dict[str, dict[str, float]] = {}
    with scratch() as base:
        write(base / "in", table, number)
        for _ in range(2):
            with scratch() as place:
                stream = _native_stream(spark, base / "in", 1)
                counted = stream.groupBy("k").agg(f.count("*").alias("n"))
                query = (
                    counted.writeStream.foreachBatch(lambda frame, _: frame.toArrow() and None)
                    .option("checkpointLocation", str(place / "checkpoint"))
                    .outputMode("update")
                    .trigger(availableNow=True)
                    .start()
                )
                query.awaitTermination()
                times = _durations(query, number // 2)
                seen["native count by key"] = {p: statistics.median(t) for p, t in times.items()}
            with scratch() as place:
                query = _ours(
                    COUNT, spark, {EVENTS: _files(base / "in", 1)}, place, sinks.Callback(function=_no)
                )
                times = _durations(query, number // 2)
                seen["ours, one stage"] = {p: statistics.median(t) for p, t in times.items()}
    out = Table(title="a trigger of 1,000 rows, median, ms")
    for column in ("", *_PARTS):
        out.add_column(column, justify="left" if not column else "right")
    for name, parts in seen.items():
        out.add_row(name, *(f"{parts[part]:.0f}" for part in _PARTS))
    console.print(out)
    whole = [parts["triggerExecution"] for parts in seen.values()]
    console.print(f"ours / native, whole trigger: {whole[1] / whole[0]:.2f}")
    spark.stop()


def _no(*_: object) -> None:
    """Nothing is done with the answer."""


# cost follows change


def change(console: Console, *, small: bool) -> None:
    """The same triggers with little and with much in state."""
    lives, triggers, before = ((1_000, 100_000), 10, 2) if small else ((10_000, 10_000_000), 200, 60)
    out = Table(title=f"{triggers} triggers of 1,000 rows")
    for column in ("live events", "mean ms", "median", "worst", "log bytes a trigger", "states written"):
        out.add_column(column, justify="right")
    means: list[float] = []
    for live in lives:
        spark = session()
        spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", str(before + triggers + 10))
        with scratch() as base:
            random = np.random.default_rng(5)
            number = live + (before + triggers) * 1_000
            whole = pl.DataFrame(
                {
                    "ts": pl.Series(np.arange(number)).cast(pl.Datetime("us", "UTC")),
                    "k": random.integers(0, live, number),
                    "v": random.integers(0, 1_000, number),
                }
            )
            fills = max(1, live // 1_000_000)
            write(base / "in", whole[:live], fills)
            on_time = sw.progress(lateness=0)
            rows = sw.read_files(str(base / "in"), vs="ts", per_batch=1, progress=on_time)
            handle = (
                EVENTS.window(sw.sliding(live))
                .group_by("k")
                .aggregate(n=sw.count())
                .start(
                    spark,
                    {EVENTS: rows},
                    checkpoint=str(base / "checkpoint"),
                    sink=sinks.Callback(function=_no),
                )
            )
            handle.process_all_available()
            write(base / "in", whole[live:], before + triggers, first=fills)
            handle.process_all_available()
            times = _durations(handle.spark_query, triggers)["triggerExecution"]
            log = base / "checkpoint" / "slackwater"
            sizes = {path: path.stat().st_size for path in log.rglob("*.parcels")}
            last = [s for p, s in sizes.items() if int(p.name.split("-")[0]) >= fills + before]
            states = [p.stat().st_size for p in log.rglob("*.state")]
            handle.stop()
            means.append(statistics.mean(times))
            out.add_row(
                f"{live:,}",
                f"{means[-1]:.0f}",
                f"{statistics.median(times):.0f}",
                f"{max(times)}",
                f"{sum(last) / triggers:,.0f}",
                f"{len(states)} of {sum(states):,} bytes in all",
            )
        spark.stop()
    console.print(out)
    console.print(f"much / little, mean: {means[1] / means[0]:.2f}")


MODES: dict[str, Callable[..., None]] = {
    "hopping": hopping,
    "join": join,
    "cores": cores,
    "trigger": trigger,
    "change": change,
}


def _run(chosen: str, *, small: bool) -> None:
    MODES[chosen](Console(width=120), small=small)


if __name__ == "__main__":
    words = sys.argv[1:]
    for name in [word for word in words if word in MODES] or MODES:
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as apart:
            apart.submit(_run, name, small="small" in words).result()
