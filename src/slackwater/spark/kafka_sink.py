"""A topic of Kafka as a sink, through Spark's connector.

Rows go to the partition that the hash of their key columns says (of all columns, if there are none), so
that an adjust follows the insert that it adjusts. One task writes one partition: its rows in the order
of the buckets, then what all buckets together promise, as a record of kind "cti". What they promise of
payloads the driver knows when it has heard of them all: it adds records of kind "punctuation" to every
partition before the next batch begins. So a query that reads the topic gets rows and promises per
partition, in order.

Of a latest view a record is the current row of its key, or says that there is none.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

import polars as pl
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, when

from slackwater.distributed.bucket import parcels_of
from slackwater.distributed.latest import latest, upserts_of
from slackwater.distributed.parcels import SINK, From, Parcel, from_arrow, in_order, spread, to_arrow
from slackwater.distributed.tokens import Token
from slackwater.errors import PlanError
from slackwater.events import Batch
from slackwater.identity import with_one_zero
from slackwater.plan.nodes import Node
from slackwater.punctuations import Punctuation, is_of_payloads
from slackwater.rows import changelog
from slackwater.spark import kafka
from slackwater.spark.clock import batch_of_task
from slackwater.spark.news import ANSWER, is_answer
from slackwater.spark.receiving import Delivery, Opening, Receiver, Rewrites, Sink
from slackwater.spark.workers import promptly
from slackwater.times import BEGIN

__all__ = ["Kafka"]

_MOST_BYTES = 900_000
"""in a value of Arrow: a broker takes a megabyte, unless it is told otherwise"""
_MOST_ROWS = 5_000
"""... and not more rows than that"""


@dataclass(frozen=True, kw_only=True)
class Kafka(Sink):
    """A topic of Kafka, which has to exist: rows of a changelog, and promises in every partition.

    value="json"     a record per row: kind, vs, ve, new_ve and the payload; its key is an object of the
                     key columns. Numbers that JSON does not have are texts: "NaN", "Infinity";
                     times of a zone are told in UTC
    value="arrow"    a record for many rows: the same columns; no key

    A promise with ranges, lists or nulls stands in a field `pattern`, as JSON; who reads the topic says
    pattern_column="pattern".

    With `tokens` every partition gets a record without a value behind each batch, whose header
    `slackwater.token` says of which batches of which queries the answer is, as JSON: for
    `read_kafka(..., aligned=True)`.

    With `view` the topic has the current row of every key, for whoever wants a table and no history: the
    payload and vs, when it began, under its key; and a record without a value where a key has no row any
    more. So it may be compacted (`cleanup.policy=compact`): a topic that is read from its beginning into
    a dictionary gives the view. Nothing is promised there.

    The number of partitions is fixed for a checkpoint when a query is started first. `options` are more
    options of Spark's connector, such as "kafka.security.protocol".
    """

    servers: str
    topic: str
    value: Literal["json", "arrow"] = "json"
    key: Sequence[str] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    tokens: bool = False
    view: bool = False
    partitions: int | None = None
    session: SparkSession | None = field(default=None, repr=False, compare=False)
    """of the query, once it is started"""

    def __post_init__(self) -> None:
        if isinstance(self.key, str):
            # one column, and not its letters
            object.__setattr__(self, "key", (self.key,))
        if self.value not in ("json", "arrow"):
            raise PlanError(f"values of form {self.value!r} are not written", hint="json or arrow")
        if self.view and (not self.key or self.value != "json" or self.tokens):
            raise PlanError(
                "a view has a record for each row, under its key, and nothing else",
                detail=f"key={list(self.key)!r}, value={self.value!r}, tokens={self.tokens}",
                hint='key=[...], value="json", tokens=False',
            )

    def plan(self, root: Node) -> Node:
        """The view's query, if it is one."""
        root = super().plan(root)
        return latest(root, self.key) if self.view else root

    @property
    def place(self) -> str:
        """The topic, what its records are, and where a row goes: changes of it must follow it there."""
        what = "a view" if self.view else "a changelog"
        by = f" by {', '.join(self.key)}" if self.key else ""
        return f"the topic {self.topic}, {what} as {self.value} in {self.partitions} partitions{by}"

    def prepared(self, spark: SparkSession, schema: pl.Schema, root: str) -> Sink:
        """The same, with the topic's number of partitions."""
        for name in self.key:
            if name not in schema:
                raise PlanError(
                    f"the answer has no column {name!r}",
                    detail=f"key={list(self.key)!r}",
                    hint=f"it has: {', '.join(schema)}",
                )
        if self.value == "json":
            for name, dtype in schema.items():
                _refuse_json(name, dtype)

        def ask() -> int:
            with kafka.admin_of(spark, self.servers, self.options) as admin:
                return kafka.counts(spark, admin, [self.topic])[self.topic]

        count = self.partitions
        if count is None:
            count = kafka.once(root, "the sink", self.topic, ask)
        return replace(self, partitions=count, session=spark)

    def in_tasks(self, schema: pl.Schema) -> Rewrites:
        """Spread rows over partitions; a promise goes to each of them."""
        columns, partitions = list(self.key or schema), self.partitions
        assert partitions is not None, "it was prepared"

        def divide(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for rows in batches:
                out: list[Parcel] = []
                for parcel in from_arrow(rows):
                    if not is_answer(parcel):
                        out.append(parcel)
                        continue
                    told = parcel.promise, parcel.latest, parcel.now
                    sender = From(parcel.origin, *told, part=parcel.part, first=parcel.number)
                    shares = spread(parcel.batch(schema), columns, partitions)
                    out += parcels_of(sender, (SINK, ANSWER), shares, partitions)
                yield to_arrow(out)

        return divide

    @contextmanager
    def published(self, frame: DataFrame, schema: pl.Schema) -> Iterator[DataFrame]:
        """Write the records; how many rows there were, and what is promised, goes on."""
        assert self.partitions is not None, "it was prepared"
        # kept, so that the stages run once
        kept = frame.persist()
        try:
            answer = (col("stage") == SINK) & (col("feed") == ANSWER)
            records = (
                kept.where(answer)
                .repartitionById(self.partitions, "bucket")
                .mapInArrow(_writing(self._records_of(), schema), _COLUMNS)
            )
            self._write(records)
            yield kept.withColumn("data", when(~answer, col("data")))
        finally:
            kept.unpersist()

    def _records_of(self) -> _Records:
        """The form of a record, by itself: what goes to tasks must not hold the session."""
        if self.view:
            return partial(_as_view, tuple(self.key))
        return partial(_as_json, tuple(self.key)) if self.value == "json" else _as_arrow

    def take(self, said: Batch, batch: int, promise: int) -> None:
        """Promises about payloads; that a repeated batch writes them again does no harm."""
        if self.view:
            return
        told = [placed.control for placed in said.controls if is_of_payloads(placed.control)]
        if not told:
            return
        assert self.partitions is not None, "it was prepared"
        assert self.session is not None, "it was prepared"
        frame = changelog(Batch.empty(said.schema).followed_by(told))
        values = _lines(frame) if self.value == "json" else _arrow(frame)
        everywhere = [(partition, value) for partition in range(self.partitions) for value in values]
        self._write(self.session.createDataFrame(everywhere, "partition int, value binary"))

    def opened(self, at: Opening) -> Receiver:
        """The topic, which also wants tokens."""
        if self.tokens and at.program.holds_back:
            raise PlanError(
                "a token would be told of less than the answer at it",
                detail=at.program.holds_back,
                hint="tokens=False; or let the last query wait, and none before it",
            )
        return _Telling(self)

    def tell(self, token: Token) -> None:
        """In every partition, behind the rows of the batch; told twice, it counts once."""
        assert self.partitions is not None, "it was prepared"
        assert self.session is not None, "it was prepared"
        header = [(kafka.TOKEN, json.dumps(dict(token)).encode())]
        everywhere = [(partition, None, header) for partition in range(self.partitions)]
        self._write(self.session.createDataFrame(everywhere, _TOLD))

    def _write(self, records: DataFrame) -> None:
        told = {**self.options, "kafka.bootstrap.servers": self.servers, "topic": self.topic}
        records.write.format("kafka").options(**told).save()


_Records = Callable[[Batch, int], tuple[Sequence[bytes | None], Sequence[bytes | None]]]
"""Keys and values for a partition: from the rows of a batch, and what they promise."""


class _Telling(Receiver):
    def take(self, delivery: Delivery) -> None:
        """The rows are there; now it is said up to where."""
        super().take(delivery)
        assert isinstance(self.sink, Kafka), "it has opened this"
        if self.sink.tokens and delivery.token:
            self.sink.tell(delivery.token)


_TOLD = "partition int, value binary, headers array<struct<key string, value binary>>"
_COLUMNS = "partition int, key binary, value binary, headers array<struct<key string, value binary>>"
_HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
_SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(_HEADER)),
    ]
)


def _writing(records_of: _Records, schema: pl.Schema) -> Rewrites:
    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None, "this runs in tasks"
        batch, _ = batch_of_task(context)
        query = context.getLocalProperty("sql.streaming.queryId")
        assert query is not None, "Spark says which query it is"
        by_partition: dict[int, list[Parcel]] = {}
        for rows in promptly(batches):
            for parcel in from_arrow(rows):
                by_partition.setdefault(parcel.bucket, []).append(parcel)
        for partition, parcels in by_partition.items():
            parts = [parcel.batch(schema) for parcel in in_order(parcels) if parcel.rows]
            promise = min(parcel.promise for parcel in parcels)
            whole = Batch.concat([Batch.empty(schema), *parts])
            keys, told = records_of(whole, promise)
            headers = _headers(query, batch, len(told))
            columns = [pa.array([partition] * len(told), pa.int32()), pa.array(keys, pa.binary())]
            columns += [pa.array(told, pa.binary()), headers]
            yield pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)

    return write


def _headers(query: str, batch: int, records: int) -> pa.ListArray:
    names = pa.array([kafka.QUERY, kafka.BATCH, kafka.SEQUENCE] * records, pa.string())
    who = query.encode(), str(batch).encode()
    texts = [text for number in range(records) for text in (*who, str(number).encode())]
    both = pa.StructArray.from_arrays([names, pa.array(texts, pa.binary())], fields=list(_HEADER))
    return pa.ListArray.from_arrays(pa.array(range(0, 3 * records + 1, 3), pa.int32()), both)


def _followed(rows: Batch, promise: int) -> pl.DataFrame:
    return changelog(rows.followed_by([Punctuation(promise)] if promise > BEGIN else []))


def _as_json(key: tuple[str, ...], rows: Batch, promise: int) -> tuple[list[bytes | None], list[bytes]]:
    frame = _followed(rows, promise)
    if not frame.height:
        return [], []
    keys: list[bytes | None] = [None] * frame.height
    if key:
        # a promise is of all keys
        lines: list[bytes | None] = [*_key_lines(frame.select(key))]
        keys = [*lines[: rows.rows], *([None] * (frame.height - rows.rows))]
    return keys, _lines(frame)


def _key_lines(keys: pl.DataFrame) -> list[bytes]:
    """What is the same key, in the same bytes."""
    return _lines(keys.with_columns(map(with_one_zero, keys.get_columns())))


def _lines(frame: pl.DataFrame) -> list[bytes]:
    """Each row as an object of JSON; times of a zone in UTC, for polars cuts the seconds of offsets."""
    frame = frame.with_columns(
        pl.col(name).dt.convert_time_zone("UTC")
        for name, dtype in frame.schema.items()
        if isinstance(dtype, pl.Datetime) and dtype.time_zone is not None
    )
    floats = [name for name, dtype in frame.schema.items() if dtype.is_float()]
    finite = (pl.col(name).is_finite().fill_null(True) for name in floats)
    odd = frame.select(~pl.all_horizontal(*finite)).to_series() if floats else pl.Series([False])
    if not odd.any():
        return _plain_lines(frame)
    # polars would write null; how a row is written does not depend on the others, for it may be a key
    lines = iter(_plain_lines(frame.filter(~odd)))
    odd_lines = iter(_odd_lines(frame.filter(odd), floats))
    return [next(odd_lines if is_odd else lines) for is_odd in odd]


def _plain_lines(frame: pl.DataFrame) -> list[bytes]:
    # as bytes: a text would also be split at characters that JSON leaves as they are, such as U+2028
    return frame.write_ndjson().encode().splitlines()


def _odd_lines(frame: pl.DataFrame, floats: Sequence[str]) -> Iterator[bytes]:
    exact = map(json.loads, _plain_lines(frame.drop(floats)))
    for row, own in zip(exact, frame.select(floats).rows(named=True), strict=True):
        whole = {**row, **{name: _number_text(value) for name, value in own.items()}}
        told = {name: whole[name] for name in frame.columns}
        yield json.dumps(told, separators=(",", ":"), ensure_ascii=False).encode()


def _number_text(value: float | None) -> float | str | None:
    if value is None or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _as_view(key: tuple[str, ...], rows: Batch, promise: int) -> tuple[list[bytes], list[bytes | None]]:
    """The rows that are now the latest of their keys, and no value for keys that have none."""
    changes = upserts_of(rows, key)
    keys = _key_lines(pl.concat([changes.upserts.select(key), changes.deletes.select(key)]))
    return keys, [*_lines(changes.upserts), *([None] * changes.deletes.height)]


def _as_arrow(rows: Batch, promise: int) -> tuple[list[None], list[bytes]]:
    told = _arrow(_followed(rows, promise))
    return [None] * len(told), told


def _arrow(frame: pl.DataFrame) -> list[bytes]:
    table = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
    starts = range(0, table.num_rows, _MOST_ROWS)
    return [value for start in starts for value in _streams(table.slice(start, _MOST_ROWS))]


def _streams(table: pa.Table) -> Iterator[bytes]:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    value = sink.getvalue()
    if len(value) <= _MOST_BYTES or table.num_rows == 1:
        yield value.to_pybytes()
    else:
        half = table.num_rows // 2
        yield from _streams(table.slice(0, half))
        yield from _streams(table.slice(half))


def _refuse_json(name: str, dtype: pl.DataType) -> None:
    """Raise if values of that type would not come back from JSON as they were."""
    exact = dtype.is_numeric() or dtype in (pl.String, pl.Categorical, pl.Enum, pl.Boolean, pl.Date)
    if isinstance(dtype, pl.Datetime):
        exact = dtype.time_unit != "ns"
    if not exact:
        raise PlanError(
            f"column {name!r} cannot be written as JSON",
            detail=f"values of {dtype} would not come back as they were",
            hint='value="arrow"',
        )
