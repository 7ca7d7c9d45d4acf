"""A topic of Kafka as a source, through Spark's connector.

A partition is an origin, "topic/partition"; its rows are in the order of their offsets. Values are read
in the tasks (values.py); what cannot be used goes to the ledger with its topic, partition and offset.

Partitions that exist when a query is started first are known to it from then on, whether they have
records or not: one without records holds the promise back, until it is idle for as long as was said.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
from pyspark.sql import DataFrame, SparkSession

from slackwater.distributed.parcels import BY, OFFSET, TAG
from slackwater.distributed.tokens import Token
from slackwater.errors import PlanError
from slackwater.events import Batch
from slackwater.ledger import Ledger
from slackwater.rows import Form, Unread
from slackwater.spark import kafka, values
from slackwater.spark.reading import Reading
from slackwater.times import Times
from slackwater.topics import Kafka

__all__ = ["frame_of", "known_partitions", "pieces", "reader_of"]

_SEQUENCE_BITS = 32


def frame_of(spark: SparkSession, topics: Kafka) -> DataFrame:
    """The records, as a streaming DataFrame."""
    reader = spark.readStream.format("kafka").options(**topics.connector())
    return reader.load().select("topic", "partition", "offset", "value", "headers")


def known_partitions(spark: SparkSession, given: Unread, root: str, name: str) -> Unread:
    """The same, with the partitions that the topics had when the query was started first."""
    topics: Kafka = given.frame

    def ask() -> list[str]:
        with kafka.admin_of(spark, topics.servers, topics.options) as admin:
            names = list(topics.topics)
            if topics.pattern is not None:
                listed = admin.listTopics().names().get()
                java: Any = spark._jvm
                names = [n for n in listed if java.java.util.regex.Pattern.matches(topics.pattern, n)]
            return [
                f"{n}/{p}"
                for n, count in kafka.counts(spark, admin, names).items()
                for p in range(count)
            ]

    # asked once: a batch that is repeated must not find more of them than before
    of = ", ".join(sorted(topics.topics)) if topics.pattern is None else f"like {topics.pattern}"
    origins = kafka.once(root, f"partitions of {name}", of, ask)
    return replace(given, progress=replace(given.progress, origins=tuple(origins)))


def pieces(
    tables: Iterator[pl.DataFrame], topics: Kafka, reading: Reading
) -> Iterator[tuple[str, str, Batch | Token]]:
    """Records as elements: their origin, the name of the part that they are, and the elements.

    A part ends where a token stands, which comes behind it.
    """
    read = reader_of(topics, reading.form, reading.schema)
    for table in tables:
        for (topic, partition), some in table.group_by("topic", "partition", maintain_order=True):
            records = some.sort("offset")
            start = 0
            for place, token in _tokens(records):
                own = records[start:place]
                for batch in _elements(own, read, reading) if own.height else ():
                    yield f"{topic}/{partition}", _part(own), batch
                if token is not None:
                    yield f"{topic}/{partition}", _part(records[place:]), token
                start = place + 1


def _part(records: pl.DataFrame) -> str:
    return f"{records['offset'][0]:020d}"


def _tokens(records: pl.DataFrame) -> Iterator[tuple[int, Token | None]]:
    """Where tokens stand among the records of a partition, and, without one, its end."""
    headers = records["headers"]
    if headers.null_count() < len(headers):
        token = pl.element().filter(pl.element().struct.field("key") == kafka.TOKEN)
        told = headers.list.eval(token.struct.field("value")).list.first()
        for place in np.flatnonzero(told.is_not_null().to_numpy()).tolist():
            yield place, json.loads(told[place])
    yield records.height, None


def reader_of(topics: Kafka, form: Form, schema: pl.Schema) -> values.Reader:
    """What reads the values of these topics."""
    match topics.value:
        case "json":
            return values.json_reader(form, schema)
        case "avro":
            assert topics.avro_schema is not None, "it was asked for"
            return values.avro_reader(form, schema, topics.avro_schema)
        case "arrow":
            return values.arrow_reader(form, schema)


def _elements(records: pl.DataFrame, read: values.Reader, reading: Reading) -> Iterator[Batch]:
    """The elements in records of one partition; what cannot be used goes to the ledger."""
    topic, partition, offsets = records["topic"][0], records["partition"][0], records["offset"]

    def at(place: int) -> str:
        return f"topic {topic!r}, partition {partition}, offset {offsets[place]}"

    def refuse(place: int, reason: str, detail: str) -> None:
        value = records["value"][place]
        element = None if value is None else _text(value)
        where = f"{at(place)}: {detail}" if detail else at(place)
        reading.ledger.write(element, reason=reason, place=reading.name, detail=where)

    tags = _tags(records)
    for rows, places in read(records["value"], refuse):
        if not rows.height:
            continue
        whole = rows if tags is None else rows.hstack(_beside(rows, tags[places], reading.form))
        try:
            yield _told(whole, places, reading, at)
            continue
        except PlanError:
            # the types of a value of Arrow may be wrong; which one's, has to be found out
            pass
        for place in np.unique(places).tolist():
            of = places == place
            try:
                yield _told(whole.filter(pl.Series(of)), places[of], reading, at)
            except PlanError as problem:
                refuse(place, "wrong type", f"{problem.fact}: {problem.detail}")


def _told(rows: pl.DataFrame, places: Times, reading: Reading, at: Callable[[int], str]) -> Batch:
    """Rows as elements, with their tags in the payload."""
    tags = {name: pl.Int64() for name in (BY, TAG, OFFSET) if name in rows.columns}
    own = Ledger()
    wide = replace(reading, schema=pl.Schema({**reading.schema, **tags}), ledger=own)
    batch = wide.elements(rows, lambda row: at(int(places[row])))
    for entry in own:
        content: Any = entry.element
        shown = {name: value for name, value in content.items() if name not in tags}
        reading.ledger.write(shown, reason=entry.reason, place=entry.place, detail=entry.detail)
    return batch


def _beside(rows: pl.DataFrame, tags: pl.DataFrame, form: Form) -> pl.DataFrame:
    """The tags of rows that are data: a promise speaks of none, and may be repeated."""
    if form.kind is None or rows[form.kind].dtype not in (pl.String, pl.Categorical, pl.Enum):
        return tags
    is_data = ~rows[form.kind].cast(pl.String).is_in(["cti", "count", "punctuation"]).fill_null(False)
    return tags.select(pl.when(is_data).then(pl.col(name)).alias(name) for name in tags.columns)


def _text(value: bytes) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def _tags(records: pl.DataFrame) -> pl.DataFrame | None:
    """Who has told the records and with which number; None if nobody says so."""
    headers = records["headers"]
    if headers.null_count() == len(headers) or not headers.list.len().sum():
        return None

    def told(key: str) -> pl.Expr:
        found = pl.element().filter(pl.element().struct.field("key") == key)
        return pl.col("headers").list.eval(found.struct.field("value")).list.first().alias(key)

    found = records.select(told(key) for key in (kafka.QUERY, kafka.BATCH, kafka.SEQUENCE))
    numbers = [
        None if by is None else _tag(batch, sequence) for by, batch, sequence in found.iter_rows()
    ]
    if not any(number is not None for number in numbers):
        return None
    names: dict[bytes, int] = {by: _number(by) for by in found[kafka.QUERY].unique() if by is not None}
    by = [0 if n is None else names[q] for q, n in zip(found[kafka.QUERY], numbers, strict=True)]
    return pl.DataFrame(
        {BY: by, TAG: [number or 0 for number in numbers], OFFSET: records["offset"]},
        schema=dict.fromkeys((BY, TAG, OFFSET), pl.Int64),
    )


def _tag(batch: bytes | None, sequence: bytes | None) -> int | None:
    """Both as one number; None if they are not as we write them."""
    if batch is None or sequence is None or not (batch.isdigit() and sequence.isdigit()):
        return None
    parts = int(batch), int(sequence)
    return (parts[0] << _SEQUENCE_BITS) + parts[1] if max(parts) < 1 << 31 else None


def _number(query: bytes) -> int:
    """A query's id as a number other than 0."""
    return int.from_bytes(hashlib.blake2b(query, digest_size=8).digest(), signed=True) or 1
