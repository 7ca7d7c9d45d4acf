"""From a program to a chain of DataFrames: dispatch, shuffle, stage, shuffle, stage.

What does not concern a stage passes through it: rows for later stages, and news for the sink.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import groupby

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext, cloudpickle
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from slackwater.distributed.keeper import Asked, ask, slot_of
from slackwater.distributed.parcels import SCHEMA, SINK, to_arrow
from slackwater.distributed.program import Program
from slackwater.distributed.store import Place
from slackwater.plan.nodes import Source
from slackwater.rows import Committed, Files, Unread
from slackwater.spark.clock import batch_of_task
from slackwater.spark.inputs import all_files, dispatching, dispatching_each, frame_of
from slackwater.spark.news import ANSWER, ENTRIES, STANDING, entries_parcel, standing_parcel
from slackwater.spark.receiving import Rewrites, Sink
from slackwater.spark.workers import promptly, settle_in

__all__ = ["OBSERVED", "Settings", "lowered"]

OBSERVED = "slackwater"
"""the name under which Spark's listeners find the figures of a batch"""

_COLUMNS: StructType = from_arrow_schema(SCHEMA)
"""as a value: Spark's Python would ask Java to read a text, once for each stage"""


@dataclass(frozen=True)
class Settings:
    """What tasks have to know besides the program."""

    run: str
    """names the keepers of an application"""
    root: str
    """where the store is"""
    slots: int
    """how many tasks run at a time, on all hosts; a host has no more keepers, nor more than cores"""


def lowered(
    spark: SparkSession,
    program: Program,
    inputs: Mapping[Source, Unread],
    settings: Settings,
    sink: Sink,
    *,
    beside: Sequence[DataFrame] = (),
) -> DataFrame:
    """The parcels for the sink, as a streaming DataFrame; `beside` are parcels that are no rows."""
    dispatched = [*beside, *_dispatched(spark, program, inputs, settings)]
    parcels: DataFrame = reduce(DataFrame.unionByName, dispatched)
    pickled: bytes = cloudpickle.dumps(program)  # type: ignore[no-untyped-call]
    for number in range(1, len(program.cut.stages) + 1):
        is_last = number == len(program.cut.stages)
        run = _stage(number, pickled, settings, is_last=is_last)
        if is_last:
            run = _then(run, sink.in_tasks(program.schema))
        parcels = parcels.repartitionById(program.buckets, "bucket").mapInArrow(run, _COLUMNS)
    return parcels.observe(OBSERVED, *_figures())


def _dispatched(
    spark: SparkSession, program: Program, inputs: Mapping[Source, Unread], settings: Settings
) -> Iterator[DataFrame]:
    """The parcels of all sources. In the plan's order: Spark knows its sources by their number."""

    def has_files(source: Source) -> bool:
        return isinstance(inputs[source].frame, Files | Committed)

    for are_files, sources in groupby(program.sources, has_files):
        given = {source: inputs[source] for source in sources}
        tasks = [dispatching(source, each, program, settings.root) for source, each in given.items()]
        if are_files and len(tasks) > 1:
            # else Spark has tasks of their own for each, and they do not all run at the same time
            names = all_files(spark, [*given.values()]).coalesce(settings.slots)
            yield names.mapInArrow(dispatching_each(tasks), _COLUMNS)
            continue
        for each, task in zip(given.values(), tasks, strict=True):
            yield frame_of(spark, each).mapInArrow(task, _COLUMNS)


def _figures() -> Iterator[Column]:
    """What listeners of Spark get to see of a batch, from the parcels for the sink.

    As SQL: a column that is built of calls takes Spark's Python half a millisecond for each.
    """

    def total(column: str, kind: int) -> str:
        return f"coalesce(sum(case when stage = {SINK} and feed = {kind} then {column} end), 0L)"

    figures = {
        "taken_back": total("slowest", STANDING),
        "rows_in": total("rows", STANDING),
        "state_rows": total("stands_for", STANDING),
        "state_bytes": total("latest", STANDING),
        "rows_out": total("rows", ANSWER),
        "settled_until": f"min(case when stage = {SINK} and feed = {ANSWER} then promise end)",
        "set_aside": total("rows", ENTRIES),
    }
    for name, figure in figures.items():
        yield f.expr(f"{figure} as {name}")


def _then(run: Rewrites, more: Rewrites | None) -> Rewrites:
    """Both, in the same worker: between two, rows would go through Java and back."""

    def both(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        assert more is not None
        return more(run(batches))

    return run if more is None else both


def _stage(number: int, program: bytes, settings: Settings, *, is_last: bool) -> Rewrites:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle_in()
        context = TaskContext.get()
        assert context is not None, "this runs in tasks"
        bucket = context.partitionId()
        batch, now = batch_of_task(context)
        mine: list[pa.RecordBatch] = []
        for rows in promptly(batches):
            here = pc.equal(rows.column("stage"), number)
            if pc.all(here).as_py():
                mine.append(_plain(rows))
                continue
            mine.append(_plain(rows.filter(here)))
            yield _plain(rows.filter(pc.invert(here)))
        place = Place(number, bucket)
        asked = Asked(place, batch, now, mine, program=program, root=settings.root)
        told = ask(settings.run, slot_of(bucket, settings.slots), asked)
        yield from told.rows
        origin = f"{number}/{bucket}"
        news = [standing_parcel(origin, told.header["standing"], is_last=is_last)]
        if told.header["entries"]:
            news.append(entries_parcel(origin, told.header["entries"]))
        yield to_arrow([replace(each, now=now) for each in news])

    return run


def _plain(rows: pa.RecordBatch) -> pa.RecordBatch:
    """As all others are: what Spark gives may be marked otherwise, and must not differ within a task."""
    columns = [rows.column(field.name).cast(field.type) for field in SCHEMA]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
