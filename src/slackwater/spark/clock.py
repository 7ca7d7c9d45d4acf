"""The time of a batch: Spark's own, which is in its offset log, so that a repeated batch has the same.

Tasks are told it as a property of their job. As a column (`current_timestamp()`) it would be a number in
the code that Spark makes of a plan: other code in every batch, which Java has to compile each time.
"""

from __future__ import annotations

import json

from pyspark import TaskContext
from pyspark.sql import SparkSession

from slackwater.distributed.files import Directory
from slackwater.errors import OperatorError

__all__ = ["batch_of_task", "tell_tasks", "time_of"]

_NOW = "slackwater.now"
_BATCH = "streaming.sql.batchId"


def time_of(offsets: Directory, batch: int) -> int:
    """When Spark has begun a batch, in microseconds, by the log of offsets that it keeps."""
    # a version, what holds for the batch, and then the offsets of each source
    _, facts, *_ = offsets.read(str(batch)).decode().splitlines()
    return int(json.loads(facts)["batchTimestampMs"]) * 1000


def tell_tasks(spark: SparkSession, now: int) -> None:
    """What this thread has Spark do from here on, is done at that time."""
    spark.sparkContext.setLocalProperty(_NOW, str(now))


def batch_of_task(context: TaskContext) -> tuple[int, int]:
    """Of which batch this is a task, and the time of that."""
    batch, now = context.getLocalProperty(_BATCH), context.getLocalProperty(_NOW)
    if batch is None or now is None:
        raise OperatorError(
            "a task does not know its batch",
            detail="what a thread of Python says of its jobs has not come to Spark's tasks",
            hint="PYSPARK_PIN_THREAD must not be false where the query is started",
        )
    return int(batch), int(now)
