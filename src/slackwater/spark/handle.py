"""A query that runs on Spark: how far it is, what it has set aside, and how to stop it."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from slackwater.distributed.bucket import Standing
from slackwater.distributed.keeper import forget
from slackwater.distributed.parcels import Parcel, from_arrow, in_order
from slackwater.distributed.program import Program, program_of
from slackwater.distributed.store import Store
from slackwater.errors import OperatorError, PlanError
from slackwater.events import Batch
from slackwater.ledger import Ledger
from slackwater.plan.nodes import Cleanse, Node, Source
from slackwater.punctuations import Punctuation
from slackwater.rows import Unread
from slackwater.runtime.edge import RAISE, OnInvalid
from slackwater.runtime.run import Output
from slackwater.spark.lower import Settings, lowered
from slackwater.spark.news import ANSWER, ENTRIES, STANDING, entries_of, standing_of
from slackwater.spark.sinks import Memory, Sink
from slackwater.times import BEGIN, Instant, chronon, show

__all__ = ["SparkQuery", "Standings", "start"]


@dataclass(frozen=True)
class Standings:
    """How a query stands after a batch."""

    batch: int
    rows_in: int
    rows_out: int
    taken_back: int
    settled_until: int
    state_rows: int
    set_aside: int
    """how many entries the ledger has"""
    held_by: str
    """what holds the promise back"""


class SparkQuery:
    """A query at work. `output` has its answer so far, if it goes to memory."""

    def __init__(self, program: Program, settings: Settings, sink: Sink) -> None:
        self._program, self._settings, self._sink = program, settings, sink
        self._query: StreamingQuery | None = None
        self._news = threading.Condition()
        self.ledger = Ledger()
        self.output = Output(program.schema, self.ledger, program.properties)
        self.progress = Standings(-1, 0, 0, 0, BEGIN, 0, 0, "")

    def take_in(self, batch: int, parcels: list[Parcel]) -> None:
        """What a batch has said."""
        answer = in_order(p for p in parcels if p.feed == ANSWER)
        standings = [standing_of(p) for p in parcels if p.feed == STANDING]
        entries = [e for p in parcels if p.feed == ENTRIES for e in entries_of(p)]
        schema = self._program.schema
        rows = Batch.concat([Batch.empty(schema), *(p.batch(schema) for p in answer)])
        # every bucket of the last stage has sent how far it is
        promise = min((p.promise for p in answer), default=BEGIN)
        is_new = promise > self.progress.settled_until
        whole = rows.followed_by([Punctuation(promise)] if is_new else [])
        self._sink.take(whole, batch, promise)
        if isinstance(self._sink, Memory):
            self.output.append(whole)
        rows_out = sum(p.rows for p in answer)
        with self._news:
            for entry in entries:
                self.ledger.write(
                    entry.element, reason=entry.reason, place=entry.place, detail=entry.detail
                )
            self.progress = self._standings(batch, rows_out, standings, promise)
            self._news.notify_all()

    def _standings(
        self, batch: int, rows_out: int, standings: list[Standing], promise: int
    ) -> Standings:
        before, last = self.progress, len(self._program.cut.stages)
        first = [standing for standing in standings if standing.stage == 1]
        least = min(standings, key=lambda standing: standing.promised, default=None)
        return Standings(
            batch,
            before.rows_in + sum(standing.rows_in for standing in first),
            before.rows_out + rows_out,
            before.taken_back + sum(s.taken_back for s in standings if s.stage == last),
            max(before.settled_until, promise),
            sum(standing.state_rows for standing in standings),
            len(self.ledger),
            least.held_by if least else "",
        )

    def begun(self, query: StreamingQuery) -> None:
        """Spark runs it now."""
        self._query = query

    @property
    def spark_query(self) -> StreamingQuery:
        """Spark's own handle."""
        assert self._query is not None, "it was started"
        return self._query

    def await_settled(self, time_: Instant, timeout: float | None = None) -> bool:
        """Wait until the answer up to that time can no longer change; whether it came to that."""
        wanted = chronon(time_)
        until = None if timeout is None else time.monotonic() + timeout
        with self._news:
            while self.progress.settled_until < wanted:
                self._raise_failure()
                if not self.spark_query.isActive:
                    return False
                left = None if until is None else until - time.monotonic()
                if left is not None and left <= 0:
                    return False
                self._news.wait(0.2 if left is None else min(0.2, left))
        return True

    def _raise_failure(self) -> None:
        failure = self.spark_query.exception() if self._query is not None else None
        if failure is not None:
            raise OperatorError("the query has stopped", detail=str(failure).strip()) from failure

    def process_all_available(self) -> None:
        """Wait until everything that has arrived is processed."""
        self.spark_query.processAllAvailable()

    def stop(self) -> None:
        """End it; it can be taken up again from its checkpoint."""
        self.spark_query.stop()
        # elsewhere they find out by themselves: nobody asks any more
        forget(self._settings.run, self._settings.root)

    def __repr__(self) -> str:
        now = self.progress
        return f"SparkQuery(batch {now.batch}, settled until {show(now.settled_until)})"


def start(
    root: Node,
    spark: SparkSession,
    inputs: Mapping[Source, Unread],
    *,
    checkpoint: str,
    sink: Sink,
    buckets: int | None = None,
    on_invalid: OnInvalid = RAISE,
    trigger: Mapping[str, Any] | None = None,
) -> SparkQuery:
    """Start a plan on Spark."""
    _require_python(spark)
    slots = max(1, spark.sparkContext.defaultParallelism)
    program = program_of(
        Cleanse(root) if sink.settled else root,
        buckets=buckets or slots,
        progress={source: given.progress for source, given in inputs.items()},
        on_invalid=on_invalid,
    )
    root_of_store = f"{checkpoint.rstrip('/')}/slackwater"
    Store(root_of_store).open(program)
    settings = Settings(spark.sparkContext.applicationId, root_of_store, slots)
    handle = SparkQuery(program, settings, sink)

    def write(frame: DataFrame, batch: int) -> None:
        parcels = [p for rows in frame.toArrow().to_batches() for p in from_arrow(rows)]
        handle.take_in(batch, parcels)

    query = (
        lowered(spark, program, inputs, settings, sink)
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", f"{checkpoint.rstrip('/')}/spark")
        .trigger(**(trigger or {"processingTime": "0 seconds"}))
        .start()
    )
    handle.begun(query)
    return handle


def _require_python(spark: SparkSession) -> None:
    """Workers must run the driver's interpreter, or they miss our packages."""
    # what the session has told them; the environment may have changed since
    theirs: str = spark.sparkContext.pythonExec
    found = shutil.which(theirs)
    if found is None or _interpreter(found) != _interpreter(sys.executable):
        raise PlanError(
            "Spark's workers would run another Python",
            detail=f"they run {theirs} ({found or 'not found'}), this is {sys.executable}",
            hint="set PYSPARK_PYTHON to sys.executable before the session is made",
        )


def _interpreter(path: str) -> tuple[str, str]:
    """A virtual environment's is a link to another, whose packages it does not see: the place counts."""
    return os.path.realpath(os.path.dirname(path)), os.path.realpath(path)
