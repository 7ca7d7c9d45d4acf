"""What a query on Spark reads: a streaming DataFrame, and how its rows are to be understood.

Rows become elements in the tasks that read them, in columns. A row that cannot be used goes to the
ledger; the query lives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import polars as pl
import pyarrow as pa
from pyspark import TaskContext

from slackwater.distributed.bucket import parcels_of
from slackwater.distributed.parcels import From, Parcel, spread, to_arrow
from slackwater.distributed.program import Target
from slackwater.events import Batch
from slackwater.ledger import Ledger
from slackwater.plan.nodes import Source
from slackwater.punctuations import Punctuation
from slackwater.rows import Unread
from slackwater.spark.news import ledger_parcel
from slackwater.times import BEGIN

__all__ = ["dispatching"]

_TOGETHER = 100_000
"""so many rows are spread at once"""
_PER_TASK = 1 << 32
"""parcels of a task are numbered from its own number times this on"""


def dispatching(
    source: Source, given: Unread, to: list[Target], buckets: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What a task does with the rows that it reads: parcels of them, for every bucket."""
    # what is named here is all that the tasks get to know
    name, schema = source.stream_name, source.schema
    form, partition = given.form, given.partition

    def dispatch(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None, "this runs in tasks"
        task = context.partitionId() * _PER_TASK
        sent = 0
        progress: dict[str, tuple[int, int]] = {}
        ledger = Ledger()
        for rows in _together(batches):
            table: Any = pl.from_arrow(rows)
            for origin, part in _by_origin(table, partition):
                batch = form.read(part, schema, ledger, name)
                promise, latest = _told(batch)
                known = progress.get(origin, (BEGIN, BEGIN))
                progress[origin] = max(known[0], promise), max(known[1], latest)
                parcels: list[Parcel] = []
                for target in to:
                    shares = spread(batch.data(), target.columns, buckets)
                    sender = From(origin, first=task + sent)
                    address = target.stage, target.feed
                    parcels += (p for p in parcels_of(sender, address, shares, buckets) if p.rows)
                sent += 1 + batch.rows
                yield to_arrow(parcels)
        last: list[Parcel] = []
        for origin, (promise, latest) in progress.items():
            for target in to:
                sender = From(origin, promise, latest, first=task + sent)
                last += parcels_of(sender, (target.stage, target.feed), [], buckets)
        if len(ledger):
            last.append(ledger_parcel(f"{name}-{task}", ledger))
        yield to_arrow(last)

    return dispatch


def _together(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= _TOGETHER:
            yield pa.Table.from_batches(waiting)
            waiting, rows = [], 0
    if rows:
        yield pa.Table.from_batches(waiting)


def _by_origin(table: pl.DataFrame, partition: str | None) -> Iterator[tuple[str, pl.DataFrame]]:
    if partition is None:
        yield "0", table
        return
    for (value,), part in table.group_by(partition, maintain_order=True):
        yield str(value), part.drop(partition)


def _told(batch: Batch) -> tuple[int, int]:
    """The last promise among the elements, and the latest start."""
    ctis = [p.control.before for p in batch.controls if isinstance(p.control, Punctuation)]
    starts = batch.vs[batch.is_insert]
    return max(ctis, default=BEGIN), int(starts.max()) if len(starts) else BEGIN
