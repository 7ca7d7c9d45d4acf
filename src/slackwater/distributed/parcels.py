"""Parcels: how elements travel from one stage to another.

A parcel holds rows of one stream from one origin (a partition of a source, a bucket of an earlier stage)
for one bucket, as one Arrow buffer of bounded size, and beside them what the origin says about its
progress. Every origin sends every bucket at least one parcel per batch, if only to say that there are no
rows: what a bucket promises must not depend on whether it got any.

A shuffle keeps no order. An origin may be read in several parts, whose names are in the order of its
rows; the parcels of a part are numbered. `in_order` puts them right.

What is no row travels without rows: promises about more than time, for the buckets that they concern;
counts of an external cti, for the bucket that mends its origin; and for all buckets, how the dial was
turned (CONTROL), how far an aligned stream is (TOKEN), or just that time goes on (BEAT).

Rows go to the bucket of their key's hash, or of their origin's. That of keys is polars' hash, which may
change with its version: state remembers by which version it was spread.
"""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from slackwater.distributed.narrow import narrowed, widened
from slackwater.errors import OperatorError
from slackwater.events import Batch
from slackwater.identity import hash_rows
from slackwater.plan.exchanges import EVERYWHERE, ORIGIN
from slackwater.punctuations import Closings, ExternalCti, Promise, Punctuation
from slackwater.rows import changelog, from_changelog
from slackwater.times import BEGIN, Times

__all__ = [
    "BEAT",
    "BY",
    "CONTROL",
    "MOST_ROWS",
    "OFFSET",
    "PROMISED",
    "SCHEMA",
    "SINK",
    "TAG",
    "TOKEN",
    "From",
    "Parcel",
    "Tags",
    "bucket_of",
    "buckets_of",
    "from_arrow",
    "in_order",
    "pack",
    "pack_counts",
    "pack_promises",
    "shared",
    "spread",
    "to_arrow",
]

MOST_ROWS = 20_000
"""in one parcel"""
_MOST_BYTES = 2**31 - 1
"""... and of all that is sent together"""
SINK = 0
"""the stage number of the end"""
PROMISED = 4
"""at the end: what a bucket promises of payloads; news of other kinds are in spark/news.py"""
BEAT, CONTROL, TOKEN = -1, -2, -3
"""what comes through no input of a stage: that time goes on, how the dial was turned, how far an aligned
stream is"""

_VS, _OLD, _NEW = "\0vs", "\0old_ve", "\0new_ve"
BY, TAG, OFFSET = "\0by", "\0tag", "\0offset"
"""columns that a dispatcher may put beside the payload, see `Tags`"""
_SEED = 0x51AC

SCHEMA = pa.schema(
    [
        ("stage", pa.int32()),
        ("bucket", pa.int32()),
        ("feed", pa.int32()),
        ("origin", pa.string()),
        ("part", pa.string()),
        ("number", pa.int64()),
        ("promise", pa.int64()),
        ("latest", pa.int64()),
        ("slowest", pa.int64()),
        ("held_by", pa.string()),
        ("now", pa.int64()),
        ("rows", pa.int64()),
        ("stands_for", pa.int64()),
        ("data", pa.binary()),
    ]
)


class From(NamedTuple):
    """Who sends rows, and how far it is."""

    origin: str
    promise: int = BEGIN
    latest: int = BEGIN
    now: int = 0
    part: str = ""
    first: int = 0
    """the number of its next parcel"""
    slowest: int = BEGIN
    held_by: str = ""


class Tags(NamedTuple):
    """Of each row who has told it, with which number, and in which record of its origin.

    The numbers of a teller only grow, unless it repeats itself. Rows of one record have one number.
    0 as the teller says that there is none.
    """

    by: Times
    tag: Times
    offset: Times


@dataclass(frozen=True, slots=True)
class Parcel:
    """Rows of one origin for one bucket, and how far the origin is."""

    stage: int
    bucket: int
    feed: int
    """which of the stage's inputs; at the end, what kind of news it is"""
    origin: str
    part: str
    number: int
    promise: int = BEGIN
    """the cti that holds behind the rows"""
    latest: int = BEGIN
    """the latest start among all rows of the origin in this batch, wherever they went"""
    slowest: int = BEGIN
    """of a bucket: how far the slowest of the sources' partitions is"""
    held_by: str = ""
    """of a bucket: what holds its promise back"""
    now: int = 0
    """the time of the batch"""
    rows: int = 0
    stands_for: int = 0
    """how many rows of the source were combined to these; 0 if they are rows as they were read"""
    data: bytes | memoryview | None = None

    @property
    def read(self) -> int:
        """How many rows of a source are in it."""
        return self.stands_for or self.rows

    def sums(self) -> Batch:
        """The rows, if they were combined: they have columns of their own (operators/combined.py)."""
        assert self.data is not None, "they are there"
        frame = widened(pl.read_ipc_stream(io.BytesIO(self.data)))
        vs, ve = (frame.get_column(name).to_numpy() for name in (_VS, _NEW))
        return Batch.inserts(vs, ve, frame.drop(_VS, _NEW))

    def batch(self, schema: pl.Schema) -> Batch:
        """The rows."""
        return self.tagged(schema)[0]

    def tagged(self, schema: pl.Schema) -> tuple[Batch, Tags | None]:
        """The rows, and who has told them if that is known."""
        if self.data is None:
            return Batch.empty(schema), None
        frame = widened(pl.read_ipc_stream(io.BytesIO(self.data)))
        times = (frame[name].to_numpy() for name in (_VS, _OLD, _NEW) if name in frame.columns)
        vs, *ends = times
        old, new = ends if len(ends) > 1 else (vs, ends[0])
        tags = None
        if BY in frame.columns:
            tags = Tags(*(frame[name].to_numpy() for name in (BY, TAG, OFFSET)))
        return Batch(vs, old, new, frame.select(schema.names())), tags

    @property
    def ctis(self) -> list[Promise]:
        """What holds of time behind the rows, if anything is said of it."""
        return [Punctuation(self.promise)] if self.promise > BEGIN else []

    def promises(self, schema: pl.Schema) -> list[Promise]:
        """The promises that it holds instead of rows."""
        if self.rows or self.data is None or self._holds_counts:
            return []
        told = from_changelog(pl.read_ipc_stream(io.BytesIO(self.data)), schema)
        return [p.control for p in told.controls if isinstance(p.control, Punctuation | Closings)]

    @property
    def counts(self) -> list[ExternalCti]:
        """The external ctis that it holds instead of rows."""
        if self.rows or self.data is None or not self._holds_counts:
            return []
        return [ExternalCti(*told) for told in json.loads(bytes(self.data))]

    @property
    def _holds_counts(self) -> bool:
        # promises are a stream of Arrow, which begins otherwise
        return self.data is not None and bytes(self.data[:1]) == b"["


def pack_counts(told: Iterable[ExternalCti]) -> bytes:
    """External ctis as bytes."""
    return json.dumps([(each.before, each.count, each.since) for each in told]).encode()


def pack_promises(told: Sequence[Promise], schema: pl.Schema) -> bytes:
    """Promises as bytes: rows of a changelog."""
    out = io.BytesIO()
    changelog(Batch.empty(schema).followed_by(told)).write_ipc_stream(out, compression="uncompressed")
    return out.getvalue()


def pack(batch: Batch) -> bytes:
    """Rows as bytes. Inserts alone need no old end."""
    times = [pl.Series(_VS, batch.vs)]
    if not batch.is_insert.all():
        times.append(pl.Series(_OLD, batch.old_ve))
    times.append(pl.Series(_NEW, batch.new_ve))
    out = io.BytesIO()
    frame = narrowed(pl.DataFrame([*times, *batch.payload.get_columns()]))
    frame.write_ipc_stream(out, compression="uncompressed")
    return out.getvalue()


def spread(batch: Batch, columns: Sequence[str], buckets: int) -> Iterator[tuple[int, Batch]]:
    """The rows of each bucket that has some, in their order."""
    if not batch.rows:
        return
    if columns == EVERYWHERE:
        yield from ((bucket, batch) for bucket in range(buckets))
        return
    if buckets == 1 or not columns:
        yield 0, batch
        return
    bucket = buckets_of(batch.payload, columns, buckets)
    together = batch.take(np.argsort(bucket, kind="stable"))
    stops = np.cumsum(np.bincount(bucket, minlength=buckets))
    start = 0
    for number, stop in enumerate(stops.tolist()):
        if stop > start:
            yield number, together.slice(start, stop)
        start = stop


def buckets_of(payload: pl.DataFrame, columns: Sequence[str], buckets: int) -> npt.NDArray[Any]:
    """The bucket of each payload, if they are spread by these columns."""
    # a column may stand for two, where a join has it equal to both
    keys = payload.select(pl.col(name).alias(f"{place}") for place, name in enumerate(columns))
    hashes = hash_rows(keys, _SEED)
    # numbers of 16 bits are sorted by their digits
    return (hashes % np.uint64(buckets)).astype(np.uint16 if buckets < 2**16 else np.int64)


def shared(
    batch: Batch, columns: Sequence[str] | None, buckets: int, origin: str
) -> Iterator[tuple[int, Batch]]:
    """The rows of each bucket, spread by columns or by their origin; if by nothing, there are none."""
    if columns == (ORIGIN,):
        yield bucket_of(origin, buckets), batch
    elif columns is not None:
        yield from spread(batch, columns, buckets)


def bucket_of(origin: str, buckets: int) -> int:
    """Where the rows of an origin go that must stay together."""
    return zlib.crc32(origin.encode()) % buckets


def in_order(parcels: Iterable[Parcel]) -> list[Parcel]:
    """As their origins sent them, one origin after the other."""
    return sorted(parcels, key=lambda parcel: (parcel.origin, parcel.part, parcel.number))


def to_arrow(parcels: Sequence[Parcel]) -> pa.RecordBatch:
    """Parcels as rows of a table."""
    *fields, _ = SCHEMA
    columns = [pa.array([getattr(p, f.name) for p in parcels], f.type) for f in fields]
    return pa.RecordBatch.from_arrays([*columns, _binary([p.data for p in parcels])], schema=SCHEMA)


def _binary(values: Sequence[bytes | memoryview | None]) -> pa.Array:
    """The values as a column. pyarrow (26.0.1) never lets go of views that it makes one of by itself."""
    present = [value is not None for value in values]
    ends = np.cumsum([0, *(0 if value is None else len(value) for value in values)])
    if ends[-1] > _MOST_BYTES:
        raise OperatorError(
            "a bucket got more at once than fits into one message",
            detail=f"{ends[-1]:,} bytes in {len(values)} parcels",
            hint="take in fewer rows per trigger, or start with more buckets",
        )
    data = b"".join(value for value in values if value is not None)
    validity = None if all(present) else pa.array(present, pa.bool_()).buffers()[1]
    buffers = [validity, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(values), buffers)


def from_arrow(rows: pa.RecordBatch) -> list[Parcel]:
    """The way back; the data stays where it is."""
    *columns, data = (rows.column(field.name) for field in SCHEMA)
    buffers = [value.as_buffer() if value.is_valid else None for value in data]
    values = zip(*(c.to_pylist() for c in columns), map(_view, buffers), strict=True)
    return [Parcel(*row) for row in values]


def _view(buffer: pa.Buffer | None) -> Any:
    return None if buffer is None else memoryview(buffer)
