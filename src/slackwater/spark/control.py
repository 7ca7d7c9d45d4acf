"""What enters a query beside its sources: what is said to it while it runs, and that time goes on.

A running query of Spark cannot gain a source. So one that is to be spoken to has one more from the
beginning: a directory under its checkpoint. A file there is one turn of the dial, what is no longer
of interest, or that a replica comes or goes, or is quarantined; Spark's offsets say which batch it
belongs to, so that a repeated batch is told the same.
With a heartbeat there is another, which counts seconds. And what a query tells others (`Feedback`) they
read from a directory in the same way, or from a topic (kafka_feedback.py).

Both become parcels without rows, for every bucket of every stage. Spark makes them itself, for they need
nothing of ours.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Protocol

import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from slackwater.distributed.controls import Outdated, Told, pack_told, read_control
from slackwater.distributed.files import Directory
from slackwater.distributed.parcels import BEAT, CONTROL
from slackwater.distributed.program import Program
from slackwater.errors import PlanError
from slackwater.spark.reading import ANY_AGE
from slackwater.times import BEGIN

__all__ = ["Controls", "Feedback", "Telling", "beats", "to_all"]

_SECOND = 1_000_000
_BETWEEN = 5.0
"""seconds from one word of feedback to the next, at least"""


class Controls:
    """A directory of control files: a query's own, or one in which another tells it something."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self._place = Directory(self.directory)
        self._lock = threading.Lock()
        """the user speaks, and so does the query itself"""
        # Spark reads it from the beginning
        self._place.files.create_dir(self._place.root)

    def _numbers(self) -> list[int]:
        names = (name.partition(".") for name in self._place.listed())
        return sorted(int(number) for number, _, kind in names if kind == "json")

    def said(self, schema: pl.Schema) -> list[Told]:
        """All that was said so far."""
        files = (json.loads(self._place.read(f"{number:09d}.json")) for number in self._numbers())
        return [read_control(each["told"], schema) for each in files]

    def add(self, told: str) -> None:
        """Say one thing more."""
        with self._lock:
            number = max(self._numbers(), default=-1) + 1
            # while it is written its name begins with a dot, and Spark does not read it
            said = {"number": number, "told": told}
            self._place.write(f"{number:09d}.json", json.dumps(said).encode())

    def close(self) -> None:
        """Nothing more is said: there is nothing to be done."""

    def parcels(self, spark: SparkSession, program: Program) -> DataFrame:
        """Every file as a parcel for every bucket of every stage."""
        read = spark.readStream.schema("number bigint, told string")
        rows = read.options(**ANY_AGE).json(self.directory)
        return to_all(rows, program, CONTROL, f.col("number"), f.col("told").cast("binary"))


class Telling(Protocol):
    """Where a query tells something."""

    def add(self, told: str) -> None:
        """Say one thing more."""
        ...

    def close(self) -> None:
        """Nothing more is said."""
        ...


class Feedback:
    """What a query tells those whose answers it reads: up to when their events are of no interest.

    Times only grow, and may be told twice: whoever hears of a later one has heard of all. So not every
    one has to be told, and the directory grows by a file in some seconds at most: what comes sooner
    after the last one is told when these have passed.
    """

    def __init__(self, to: Telling) -> None:
        self._to = to
        self._known = self._told = BEGIN
        self._pauses = self._ended = False
        self._lock = threading.Lock()

    def tell(self, before: int) -> None:
        """Events that end before that time are of no interest any more."""
        with self._lock:
            self._known = max(self._known, before)
            self._write()

    def _write(self) -> None:
        if self._pauses or self._known <= self._told:
            return
        self._to.add(pack_told(Outdated(self._known)))
        self._told = self._known
        if self._ended:
            return
        self._pauses = True
        later = threading.Timer(_BETWEEN, self._go_on)
        later.daemon = True
        later.start()

    def _go_on(self) -> None:
        with self._lock:
            self._pauses = False
            if not self._ended:
                self._write()

    def end(self) -> None:
        """The last word, if it was not told yet."""
        with self._lock:
            self._pauses, self._ended = False, True
            try:
                self._write()
            finally:
                self._to.close()


def beats(spark: SparkSession, program: Program, every: int) -> DataFrame:
    """A parcel for every bucket of every stage, as time goes on."""
    if every != _SECOND:
        raise PlanError(
            "a heart beats once a second",
            detail=f"heartbeat={every / _SECOND} s",
            hint='heartbeat="1 s"; with trigger={"processingTime": "10 seconds"} it is heard less often',
        )
    rate = spark.readStream.format("rate").option("rowsPerSecond", 1).option("numPartitions", 1).load()
    # one a batch is enough: after a day without the query, the first one would have a day of them
    once = rate.mapInArrow(_first, rate.schema)
    return to_all(once, program, BEAT, f.lit(0).cast("bigint"), f.lit(None).cast("binary"))


def _first(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The first row of a task; the source has one."""
    for batch in batches:
        if batch.num_rows:
            yield batch.slice(0, 1)
            return


def to_all(rows: DataFrame, program: Program, feed: int, number: object, data: object) -> DataFrame:
    """A parcel of each row, for every bucket of every stage."""
    stages = f.explode(f.sequence(f.lit(1), f.lit(len(program.cut.stages))))
    buckets = f.explode(f.sequence(f.lit(0), f.lit(program.buckets - 1)))
    none, begin = f.lit(""), f.lit(BEGIN).cast("bigint")
    given = rows.select(number.alias("number"), data.alias("data"))  # type: ignore[attr-defined]
    return (
        given.select("*", stages.alias("stage"))
        .select("*", buckets.alias("bucket"))
        .select(
            "stage",
            "bucket",
            f.lit(feed).alias("feed"),
            none.alias("origin"),
            none.alias("part"),
            "number",
            begin.alias("promise"),
            begin.alias("latest"),
            begin.alias("slowest"),
            none.alias("held_by"),
            f.lit(0).cast("bigint").alias("now"),
            f.lit(0).cast("bigint").alias("rows"),
            f.lit(0).cast("bigint").alias("stands_for"),
            "data",
        )
    )
