"""A directory of Parquet files that holds every batch of an answer once.

Tasks write their own rows, every attempt into a file of its own name. The files of a batch are those
whose names have come to the driver, and are listed when the batch is committed (commits.py).

What an attempt that came to nothing has written, before or after that, is in no list, and is not read.
A batch that is committed stays as it is. Nothing is ever deleted.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
from pyspark import TaskContext

from slackwater.corrections import CORRECTIONS, Told
from slackwater.distributed.files import Directory
from slackwater.distributed.parcels import from_arrow, to_arrow
from slackwater.distributed.tokens import Token
from slackwater.errors import PlanError
from slackwater.events import Batch
from slackwater.rows import changelog
from slackwater.spark.clock import batch_of_task
from slackwater.spark.commits import COMMITS, Commit, aligned, at_token, commits_in, read_commit
from slackwater.spark.news import WRITTEN, is_answer, news_parcel
from slackwater.spark.receiving import Delivery, Opening, Receiver, Rewrites, Sink

__all__ = ["Parquet", "aligned", "committed", "scan"]


@dataclass(frozen=True, kw_only=True)
class Parquet(Sink):
    """A directory of Parquet files: kind, vs, ve, new_ve and the payload. See `committed`."""

    directory: str

    def resolved(self, place: Callable[[str], str]) -> Parquet:
        """With the directory as the whole cluster knows it."""
        return replace(self, directory=place(self.directory))

    def in_tasks(self, schema: pl.Schema) -> Rewrites:
        """Write the rows of the answer; their number, the promise and the file's name go on."""
        directory = self.directory

        def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            context = TaskContext.get()
            assert context is not None, "this runs in tasks"
            number, _ = batch_of_task(context)
            answer: list[Batch] = []
            for rows in batches:
                parcels = from_arrow(rows)
                answer += (p.batch(schema) for p in parcels if is_answer(p) and p.rows)
                yield to_arrow([replace(p, data=None) if is_answer(p) else p for p in parcels])
            task = context.partitionId()
            # one file of the first batch tells the columns, whether there are rows or not
            if answer or (number == 0 and task == 0):
                table = changelog(Batch.concat([Batch.empty(schema), *answer])).to_arrow()
                name = f"{number:09d}-{task:05d}-{uuid.uuid4().hex}.parquet"
                Directory(directory).write_with(name, lambda file: _write(table, file))
                yield to_arrow([news_parcel(WRITTEN, f"{task}", [name])])

        return write

    def opened(self, at: Opening) -> Receiver:
        """The directory, if this query, and no other, has put its answer there."""
        receiver = _Committing(self, at)
        at.require_whole(receiver.root, has_last=receiver.has(at.through))
        return receiver


class _Committing(Receiver):
    def __init__(self, sink: Parquet, at: Opening) -> None:
        super().__init__(sink)
        self._directory, self._query = Directory(sink.directory), at.query
        self._holds_back = at.program.holds_back
        self._directory.require()
        committed = [*commits_in(self._directory)]
        if committed:
            self._require_own(committed[-1])

    @property
    def root(self) -> str:
        """Where it is."""
        return self._directory.root

    def has(self, batch: int) -> bool:
        """Whether that batch was committed."""
        return self._directory.has(f"{COMMITS}/{batch:09d}.json")

    def take(self, delivery: Delivery) -> None:
        """All tasks have written: the batch is there, if it was not before."""
        if self.has(delivery.batch):
            # another query may have begun there at the same time
            self._require_own(f"{delivery.batch:09d}.json")
            return
        files = sorted(delivery.written)
        told = dict(delivery.token)
        fields = delivery.batch, self._query, delivery.promise, files, self._directory, told
        Commit(*fields, self._holds_back).write()

    def _require_own(self, name: str) -> None:
        if read_commit(self._directory, name).query != self._query:
            raise PlanError(
                "another query has put its answer there",
                detail=f"{self._directory.root} holds its batch {int(name.partition('.')[0])}",
                hint="give each query and checkpoint a directory of its own",
            )


def _write(table: pa.Table, file: Any) -> None:
    """Times and numbers as they are: to look for equal ones takes longer than to write them."""
    repeated = [each.name for each in table.schema if not pa.types.is_primitive(each.type)]
    pq.write_table(table, file, use_dictionary=repeated)


def committed(directory: str, *, until: Token | None = None, told: Told | None = None) -> pl.DataFrame:
    """The changelog that a `Parquet` sink has written: whole batches only, in their order.

    With a token, up to where the answer is at it: `aligned(directory, ...)` finds one for several. With
    `told`, the changes alone, or the corrections: rows that speak of a time which the answer had spoken
    of before their batch.
    """
    if told is None:
        return scan(directory, until=until).collect()
    if not isinstance(told, Told):
        raise PlanError(f"told={told!r} is neither", hint="sw.CHANGES or sw.CORRECTIONS")
    place = Directory(directory)
    names = commits_in(place) if until is None else at_token(place, until)
    batches = (_read(place, read_commit(place, name).paths) for name in names)
    found = [*_only(told, (batch for batch in batches if batch is not None))]
    return pl.concat(found) if found else pl.DataFrame()


def _only(told: Told, batches: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """The rows of each batch that are changes, or those that are corrections."""
    highest: Any = None
    start, ends = pl.col("vs"), pl.min_horizontal("ve", "new_ve")
    for batch in batches:
        rows = batch.filter(pl.col("kind").is_in(["insert", "adjust"]))
        sync = rows.select(pl.when(pl.col("kind") == "insert").then(start).otherwise(ends)).to_series()
        is_late = pl.repeat(False, rows.height, eager=True) if highest is None else sync < highest
        yield rows.filter(is_late if told is CORRECTIONS else ~is_late)
        highest = sync.append(pl.Series([highest], dtype=sync.dtype)).max()


def _read(place: Directory, paths: Sequence[str]) -> pl.DataFrame | None:
    if not paths:
        return None
    found = pl.from_arrow(pads.dataset([*paths], filesystem=place.files, format="parquet").to_table())
    assert isinstance(found, pl.DataFrame), "it has columns"
    return found


def scan(directory: str, *, until: Token | None = None) -> pl.LazyFrame:
    """As `committed`, to be read later, and only what is asked for."""
    place = Directory(directory)
    names = commits_in(place) if until is None else at_token(place, until)
    paths = [path for name in names for path in read_commit(place, name).paths]
    if not paths:
        return pl.LazyFrame()
    return pl.scan_pyarrow_dataset(pads.dataset(paths, filesystem=place.files, format="parquet"))
