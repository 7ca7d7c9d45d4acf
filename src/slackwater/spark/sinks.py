"""Where the answer of a query on Spark goes.

A sink gets what every batch adds to the answer, with the number of the batch; a batch may be repeated,
and then comes with the same number. So a sink that puts what it gets under that number holds every batch
once.

    Memory()                  in the handle: `query.output`
    Callback(function=f)      f(batch, number), in the driver; the same number again after a failure
    Parquet(directory=...)    changelog rows, written where they are; see `committed`

With `settled=True` only what can no longer change is told, each event once, with its final lifetime.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import polars as pl
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from pyspark import TaskContext

from slackwater.distributed.parcels import SINK, from_arrow, to_arrow
from slackwater.events import Batch
from slackwater.rows import changelog
from slackwater.spark.news import ANSWER

__all__ = ["Callback", "Memory", "Parquet", "Sink", "committed"]

Rewrites = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class Sink:
    """Takes the answer. `settled` says which form of it."""

    settled: bool = False

    def in_tasks(self, schema: pl.Schema) -> Rewrites | None:
        """What to do with the parcels where they are; what is left of them goes to the driver."""
        return None

    def take(self, said: Batch, batch: int, promise: int) -> None:
        """What a batch has added, as far as it has come to the driver."""


@dataclass(frozen=True)
class Memory(Sink):
    """The handle keeps it."""


@dataclass(frozen=True, kw_only=True)
class Callback(Sink):
    """A function gets it."""

    function: Callable[[Batch, int], object]

    def take(self, said: Batch, batch: int, promise: int) -> None:
        """Call it."""
        self.function(said, batch)


@dataclass(frozen=True, kw_only=True)
class Parquet(Sink):
    """A directory of Parquet files: kind, vs, ve, new_ve and the payload.

    Tasks write their own rows. A batch is there when its number is in `_batches`; a file that a failure
    has left behind is replaced when the batch is repeated.
    """

    directory: str

    def in_tasks(self, schema: pl.Schema) -> Rewrites:
        """Write the rows of the answer; their number and the promise go on."""
        directory = self.directory

        def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            context = TaskContext.get()
            assert context is not None, "this runs in tasks"
            number = int(context.getLocalProperty("streaming.sql.batchId") or 0)
            answer: list[Batch] = []
            for rows in batches:
                parcels = from_arrow(rows)
                answer += (p.batch(schema) for p in parcels if _is_answer(p.stage, p.feed) and p.rows)
                # the driver needs to know how much it was, and what is promised
                yield to_arrow(
                    [replace(p, data=None) if _is_answer(p.stage, p.feed) else p for p in parcels]
                )
            # also if there are none: another attempt may have left some
            table = changelog(Batch.concat([Batch.empty(schema), *answer])).to_arrow()
            name = f"{number:09d}-{context.partitionId():05d}.parquet"
            _write(directory, name, lambda file: pq.write_table(table, file))

        return write

    def take(self, said: Batch, batch: int, promise: int) -> None:
        """All tasks have written: the batch is there."""
        facts = json.dumps({"batch": batch, "settled_until": promise}).encode()
        _write(f"{self.directory}/_batches", f"{batch:09d}.json", lambda file: file.write(facts))


def committed(directory: str) -> pl.DataFrame:
    """The changelog that a `Parquet` sink has written: whole batches only, in their order."""
    files, root = _files(directory)
    listed = files.get_file_info(pafs.FileSelector(f"{root}/_batches", allow_not_found=True))
    batches = {info.base_name.partition(".")[0] for info in listed if info.extension == "json"}
    tables = [
        pl.from_arrow(pq.read_table(info.path, filesystem=files))
        for info in sorted(files.get_file_info(pafs.FileSelector(root)), key=lambda info: info.path)
        if info.extension == "parquet" and info.base_name.partition("-")[0] in batches
    ]
    return pl.concat([t for t in tables if isinstance(t, pl.DataFrame)]) if tables else pl.DataFrame()


def _is_answer(stage: int, feed: int) -> bool:
    return stage == SINK and feed == ANSWER


def _files(directory: str) -> tuple[pafs.FileSystem, str]:
    if "://" in directory:
        files, root = pafs.FileSystem.from_uri(directory)
        return files, root
    return pafs.LocalFileSystem(), directory.rstrip("/")


def _write(directory: str, name: str, write: Callable[[pa.NativeFile], object]) -> None:
    """A file has its name when it is complete."""
    files, root = _files(directory)
    files.create_dir(root)
    unfinished = f"{root}/.{name}.{uuid.uuid4().hex}"
    with files.open_output_stream(unfinished) as file:
        write(file)
    files.move(unfinished, f"{root}/{name}")
