"""A driver that a test starts, kills and starts again: one query from files to files.

usage: python -m tests.spark.driver input checkpoint output [master]
"""

from __future__ import annotations

import os
import sys
from typing import Any

os.environ["PYSPARK_PYTHON"] = sys.executable

import slackwater as sw
from slackwater.spark import sinks

COLUMNS = {"k": int, "v": float}
SOURCE = sw.stream(COLUMNS, name="s")
QUERY = (
    SOURCE.group_by("k").aggregate(n=sw.count(), t=sw.sum("v")).group_by("n").aggregate(of=sw.count())
)


def start(spark: Any, given: str, checkpoint: str, out: str) -> Any:
    """The query, with one file per trigger."""
    frame = (
        spark.readStream.schema("k long, v double, kind string, vs long, ve long, new_ve long")
        .option("maxFilesPerTrigger", 1)
        .parquet(given)
    )
    rows = sw.from_dataframe(frame, vs="vs", ve="ve", kind="kind", new_ve="new_ve")
    to = sinks.Parquet(directory=out)
    return QUERY.start(spark, {SOURCE: rows}, checkpoint=checkpoint, sink=to, buckets=2)


def main(given: str, checkpoint: str, out: str, master: str = "local[2]") -> None:
    from tests.spark.session import session  # noqa: PLC0415

    spark = session(master)
    handle = start(spark, given, checkpoint, out)
    handle.await_settled(sw.INF, timeout=600)
    handle.stop()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
