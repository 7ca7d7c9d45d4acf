"""The highest temperature of every hour in a warehouse, final when the hour is over for all sensors.

    highest(hour) = the largest of the distinct temperatures that were reported for the hour

Sensors of two halls report once a minute, some of them half an hour late. Union, distinct and maximum:
by time nothing of that could ever be let go, and no hour would be final, since a report counts for its
hour whenever it comes. What is known besides closes an hour:

- in the northern hall each sensor says itself when it is through with an hour. That is a row among its
  reports, and the list of sensors tells that nobody else is to be waited for;
- in the southern hall they say nothing. There the list of sensors is a table, and an hour is over when
  all of them have reported a later one.

What both halls have closed is closed for the union. Its temperatures are forgotten, and its highest is
settled. The last hour stays open: no southern sensor has reported a later one.

Spark computes it from files, as the halls would send them, and beside it the same query of one who knows
nothing. The answers are compared with those of a batch computation.

Paper 4, Example 1 and sections 1.3, 6.2 and 7.

    python examples/warehouse.py [hours]
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

os.environ["PYSPARK_PYTHON"] = sys.executable

import numpy as np
import polars as pl
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

import slackwater as sw
from slackwater.spark import sinks

HOURS = 60
FILES = 12
"""... of each hall"""
LATE = 30
"""minutes that a report takes at most; each sensor's take equally long"""

NORTHERN = list(range(12))
SOUTHERN = pl.DataFrame({"sensor": range(100, 108)})

INSERTS = sw.StreamProperties(insert_only=True)
SCHEMA = {"sensor": int, "hour": int, "minute": int, "temp": float}
NORTH = sw.stream(SCHEMA, name="north", properties=INSERTS)
SOUTH = sw.stream(SCHEMA, name="south", properties=INSERTS)
HALLS = {"north": NORTH, "south": SOUTH}
TABLE: dict[str, Any] = {"vs": "vs", "ve": "ve", "kind": "kind"}


def highest(north: sw.Query, south: sw.Query) -> sw.Query:
    """The question, to reports with and without promises."""
    reports = north.select("hour", "temp").union(south.select("hour", "temp"))
    return reports.distinct().group_by("hour").aggregate(highest=sw.max("temp"))


HIGHEST = highest(
    NORTH.punctuate(sw.domain(sensor=sw.one_of(*NORTHERN))),
    SOUTH.punctuate(sw.all_reported("hour", by="sensor", among=SOUTHERN)),
)
UNKNOWING = highest(NORTH, SOUTH)

IS_ROW = pl.col("kind") == "insert"


def halls(hours: int) -> dict[str, pl.DataFrame]:
    """What the halls send, by the minute `at`: rows, and the promises of northern sensors."""
    random = np.random.default_rng(4)
    north = _reports(random, np.array(NORTHERN), hours)
    south = _reports(random, SOUTHERN["sensor"].to_numpy(), hours)
    # with the last report of an hour, and behind it
    through = north.group_by("sensor", "hour").agg(pl.col("at").max(), kind=pl.lit("punctuation"))
    return {name: _told(*parts) for name, parts in (("north", (north, through)), ("south", (south,)))}


def _reports(
    random: np.random.Generator, sensors: np.ndarray[tuple[int], np.dtype[np.int64]], hours: int
) -> pl.DataFrame:
    """Once a minute each, warmer by day than by night. A report is of its hour for ever: [0, INF)."""
    minute = np.tile(np.arange(60 * hours), len(sensors))
    which = np.repeat(np.arange(len(sensors)), 60 * hours)
    warmth = 60 + 8 * np.sin(minute / 1440 * 2 * np.pi) + random.normal(0, 2, len(sensors))[which]
    return pl.DataFrame(
        {
            "at": minute + random.integers(0, LATE, len(sensors))[which],
            "sensor": sensors[which],
            "hour": minute // 60,
            "minute": minute % 60,
            "temp": (warmth + random.normal(0, 1, len(minute))).round(1),
            "vs": np.zeros(len(minute), dtype=np.int64),
            "ve": pl.Series([None], dtype=pl.Int64).new_from_index(0, len(minute)),
            "kind": "insert",
        }
    )


def _told(*parts: pl.DataFrame) -> pl.DataFrame:
    return pl.concat(parts, how="diagonal").sort("at", maintain_order=True)


@contextmanager
def session() -> Iterator[SparkSession]:
    """Spark in this machine."""
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


def main(hours: int = HOURS) -> None:
    console = Console()
    console.print(HIGHEST.explain(), style="dim", highlight=False, markup=False)
    sent = halls(hours)
    step = (60 * hours + LATE) // FILES + 1
    reports = sum(rows.filter(IS_ROW).height for rows in sent.values())
    shown = Table(
        "reports so far",
        "hours begun",
        "hours final",
        "rows kept",
        "without promises",
        title="The warehouse",
    )
    first: str | None = None
    with tempfile.TemporaryDirectory() as place, session() as spark:
        knowing = _start(spark, HIGHEST, Path(place) / "knowing")
        unknowing = _start(spark, UNKNOWING, Path(place) / "unknowing")
        for number in range(FILES):
            for name, rows in sent.items():
                part = rows.filter(pl.col("at") // step == number).drop("at")
                part.write_parquet(Path(place) / "knowing" / name / f"{number:03d}.parquet")
                part = part.filter(IS_ROW)
                part.write_parquet(Path(place) / "unknowing" / name / f"{number:03d}.parquet")
            so_far = pl.concat(
                [rows.filter(IS_ROW, pl.col("at") // step <= number) for rows in sent.values()]
            )
            for handle in (knowing, unknowing):
                handle.process_all_available()
            settled = knowing.output.settled()
            if first is None and 0 in settled["hour"]:
                [degrees] = settled.filter(pl.col("hour") == 0)["highest"]
                first = (
                    f"Hour 0 had {degrees} degrees at most, which was final when {so_far.height:,} of "
                )
                first += f"{reports:,} reports had come"
            shown.add_row(
                f"{so_far.height:,}",
                f"{so_far['hour'].n_unique():,}",
                f"{settled.height:,}",
                f"{knowing.progress.state_rows:,}",
                f"{unknowing.progress.state_rows:,}",
            )
        answers = [handle.output.history() for handle in (knowing, unknowing)]
        never = unknowing.output.settled().is_empty()
        for handle in (knowing, unknowing):
            handle.stop()
    console.print(shown)
    if first is None or not never:
        raise SystemExit("Hour 0 should be final with the promises, and without them no hour ever.")
    console.print(f"{first}; without promises no hour is.")
    wanted = batch(sent)
    if (
        not settled.select("hour", "highest")
        .sort("hour")
        .equals(wanted.filter(pl.col("hour") < hours - 1))
    ):
        raise SystemExit("What is final is not what the batch computation says.")
    if not all(answer.select("hour", "highest").sort("hour").equals(wanted) for answer in answers):
        raise SystemExit("The answers are not those of the batch computation.")
    console.print(f"All {wanted.height:,} hours equal those of a batch computation, the open one too.")


def _start(spark: SparkSession, query: sw.Query, place: Path) -> Any:
    for name in HALLS:
        (place / name).mkdir(parents=True)
    return query.start(
        spark,
        {stream: sw.read_files(str(place / name), **TABLE) for name, stream in HALLS.items()},
        checkpoint=str(place / "checkpoint"),
        sink=sinks.Memory(),
    )


def batch(sent: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """The same question to one group-by over all rows."""
    rows = pl.concat([rows.filter(IS_ROW) for rows in sent.values()])
    return rows.group_by("hour").agg(highest=pl.col("temp").max()).sort("hour")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
