"""What a query on Spark needs is looked at before anything is begun: once, here, with a reason.

What is refused here has begun no query of Spark, and its checkpoint is open for another one.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from fnmatch import fnmatchcase
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from slackwater.distributed.files import Directory
from slackwater.distributed.program import Program
from slackwater.distributed.store import Store
from slackwater.errors import PlanError
from slackwater.persistence import is_carried
from slackwater.plan.nodes import Node, Source, walk
from slackwater.rows import Committed, Files, Unread
from slackwater.spark import kafka_sink
from slackwater.spark.commits import COMMITS
from slackwater.spark.delta import Delta
from slackwater.spark.parquet import Parquet
from slackwater.spark.receiving import Sink
from slackwater.topics import Kafka

__all__ = [
    "places_of",
    "require_apart",
    "require_at_rest",
    "require_buckets",
    "require_inputs",
    "require_offsets",
    "require_place",
    "require_python",
    "require_session",
    "require_sink",
    "require_trigger",
    "require_types",
]

_TRIGGERS: dict[str, type] = {"processingTime": str, "availableNow": bool, "once": bool}


def require_session(spark: object) -> None:
    """Spark itself, and in this process: keepers and sinks are reached through it."""
    if not isinstance(spark, SparkSession):
        raise PlanError(
            f"{_shown(spark)} is not a session of Spark",
            detail=_its_type(spark),
            hint="SparkSession.builder.getOrCreate(); one of Spark Connect has no workers of its own",
        )
    if spark.sparkContext._jsc is None:
        raise PlanError(
            "the session of Spark was stopped",
            hint="SparkSession.builder.getOrCreate() makes another; a query goes on from its checkpoint",
        )


def require_inputs(root: Node, inputs: Mapping[Source, object]) -> None:
    """An input that can be read for every stream of the query, and no other."""
    sources = [node for node in walk(root) if isinstance(node, Source)]
    names = ", ".join(source.stream_name for source in sources)
    for source in inputs:
        if source not in sources:
            raise PlanError(
                f"the query does not read {source.stream_name!r}",
                detail=f"it reads: {names}",
                hint="inputs are given by the stream objects that the query was built from",
            )
    for source in sources:
        if source not in inputs:
            raise PlanError(
                f"no input for {source.stream_name!r}",
                detail=f"the query reads: {names}",
                hint="sw.from_dataframe(df, vs=...) makes one of a streaming DataFrame",
            )
    for source, given in inputs.items():
        _require_readable(source, given)


def _require_readable(source: Source, given: object) -> None:
    name = source.stream_name
    if isinstance(given, DataFrame):
        raise PlanError(
            f"{name}: a DataFrame does not say when its rows are",
            hint="sw.from_dataframe(df, vs=...) says it",
        )
    if not isinstance(given, Unread):
        raise PlanError(
            f"{name}: {_shown(given)} cannot be read by Spark's tasks",
            detail=_its_type(given),
            hint="sw.from_dataframe of a streaming DataFrame, sw.read_files or sw.read_kafka; "
            "rows that are at hand go to run(), or into files",
        )
    if given.aligned and source.replicated:
        raise PlanError(
            f"{name}: replicas are not aligned",
            detail="whichever of them is furthest is followed, and they are not at one token",
            hint="align what the merge's own answer is read by",
        )
    if isinstance(given.frame, Files | Committed | Kafka):
        return
    if not isinstance(given.frame, DataFrame):
        raise PlanError(f"{name}: {_shown(given.frame)} is not a DataFrame of Spark")
    if not given.frame.isStreaming:
        raise PlanError(
            f"{name}: the DataFrame is not a streaming one",
            detail="it has all of its rows now, and a query waits for more",
            hint="spark.readStream instead of spark.read or createDataFrame; files: sw.read_files",
        )


def require_sink(sink: object) -> None:
    """One of ours, made."""
    if not isinstance(sink, Sink):
        made = isinstance(sink, type) and issubclass(sink, Sink)
        raise PlanError(
            f"{_shown(sink)} is not a sink",
            detail="it is the class of one" if made else _its_type(sink),
            hint="one of slackwater.spark.sinks, such as sinks.Memory() or sinks.Parquet(directory=...)",
        )


def require_types(program: Program, sink: Sink) -> None:
    """Columns of types that parcels carry from stage to stage, and that the sink can write.

    Arrow, its files and Parquet each lack some of polars' types. Which, is tried out.
    """
    feeds = [feed for stage in program.cut.stages for feed in stage.feeds]
    for schema in (*(feed.entrance.schema for feed in feeds), program.schema):
        _require_each(schema, is_carried, "cannot travel from one machine to another")
    match sink:
        case Parquet():
            _require_each(program.schema, _in_parquet, "cannot be written to Parquet")
        case kafka_sink.Kafka(value="arrow"):
            _require_each(program.schema, _in_arrow, "cannot be written as Arrow")


def _require_each(schema: pl.Schema, fits: Callable[[pl.DataType], bool], fact: str) -> None:
    for name, dtype in schema.items():
        if not fits(dtype):
            raise PlanError(
                f"column {name!r} {fact}",
                detail=f"it is {dtype}",
                hint="select() it as another type, for example cast(pl.Decimal(38, 0)), or leave it out",
            )


def _in_arrow(dtype: pl.DataType) -> bool:
    try:
        _arrow(dtype)
    except pa.ArrowException:
        return False
    return True


def _in_parquet(dtype: pl.DataType) -> bool:
    try:
        pq.write_table(_arrow(dtype), io.BytesIO())
    except pa.ArrowException:
        return False
    return True


def _arrow(dtype: pl.DataType) -> pa.Table:
    return pl.Series("values", [None], dtype=dtype).to_frame().to_arrow()


def require_place(checkpoint: object) -> None:
    """The checkpoint is named by a text, as Spark names places."""
    if not isinstance(checkpoint, str) or not checkpoint.strip():
        raise PlanError(
            f"checkpoint={checkpoint!r} does not name a directory",
            detail=_its_type(checkpoint) if not isinstance(checkpoint, str) else "it is empty",
            hint='checkpoint="/path", "s3a://bucket/path"; of a Path, str(path)',
        )


def require_at_rest(spark: SparkSession, checkpoint: str) -> None:
    """No query is at work there: Spark would stop it, after the new one has looked how far it is.

    Nor one of another session of the same application, of which only Spark's Java knows.
    """
    place = Directory(f"{checkpoint}/spark")
    if not place.has("metadata"):
        return
    known = json.loads(place.read("metadata"))["id"]
    active: Any = spark._jsparkSession.sharedState().activeStreamingQueries()
    if any(str(query) == known for query in active.keySet()):
        raise PlanError(
            "a query is at work with this checkpoint",
            detail=checkpoint,
            hint="stop() it first; another query wants a checkpoint of its own",
        )


def places_of(
    inputs: Mapping[Source, Unread], sink: Sink, resolved: Callable[[str], str]
) -> dict[str, str]:
    """Where each stream comes from and how its rows are read, and where the answer goes.

    A query that goes on needs the same ones: Spark remembers what it has read by the names of files, or
    by the offsets of topics, whatever it is told to read now.
    """
    places = {repr(source.stream_name): _place_of(given, resolved) for source, given in inputs.items()}
    # what was told elsewhere meanwhile, a table or a topic would lack
    return {**places, "the answer": sink.place or "in no table and no topic"}


def _place_of(given: Unread, resolved: Callable[[str], str]) -> str:
    match given.frame:
        case Files(directory, kind):
            place = f"{kind} files in {resolved(directory)}"
        case Committed(directory):
            place = f"answers in {resolved(directory)}"
        case Kafka() as topics:
            known = ", ".join(sorted({*topics.topics}))
            names = known if topics.pattern is None else f"like {topics.pattern}"
            place = f"{topics.value} in topics {names}"
        case _:
            place = "a DataFrame"
    columns = {each.name: getattr(given.form, each.name) for each in fields(given.form)}
    told = [
        f"{name}={value!r}" for name, value in {**columns, "partition": given.partition}.items() if value
    ]
    return f"{place} ({', '.join(told)})"


def require_apart(
    inputs: Mapping[Source, Unread], sink: Sink, checkpoint: str, resolved: Callable[[str], str]
) -> None:
    """No input is the query's own answer, which it would read again and again.

    Nor are files those of another query's answer, which has lists that say which of them count, and its
    checkpoint is not below what it reads.
    """
    for source, given in inputs.items():
        match given.frame, sink:
            case Files(directory), _:
                _require_apart_from_files(source, resolved(directory), sink, checkpoint)
            case Committed(read), Parquet(directory=place) if _is_matched(place, resolved(read)):
                raise PlanError(
                    f"{source.stream_name}: the query would read its own answer",
                    detail=f"it is in {place}, and answers in {read} are read",
                    hint="put it where the pattern does not find it",
                )
            case Kafka() as topics, kafka_sink.Kafka() as told if _is_among(told, topics, given):
                raise PlanError(
                    f"{source.stream_name}: the query would read its own answer",
                    detail=f"it is in the topic {told.topic}, which is read",
                    hint="give it a topic of its own, which no pattern matches",
                )


def _is_among(told: kafka_sink.Kafka, topics: Kafka, given: Unread) -> bool:
    """Whether the topic of an answer is one of those that are read, as they are known by now."""
    read = {origin.rpartition("/")[0] for origin in given.progress.origins}
    together = not {*told.servers.split(",")}.isdisjoint(topics.servers.split(","))
    return together and told.topic in read


def _require_apart_from_files(source: Source, read: str, sink: Sink, checkpoint: str) -> None:
    written = {"checkpoint": checkpoint}
    match sink:
        case Parquet(directory=place) | Delta(table=place):
            written["answer"] = place
    if Directory(read).has(COMMITS):
        raise PlanError(
            f"{source.stream_name}: the files in {read} are the answer of another query",
            detail="only its lists say which of them count; attempts that failed have left some",
            hint="sw.read_committed(directory) reads what was committed",
        )
    for what, place in written.items():
        if _is_below(place, read):
            raise PlanError(
                f"{source.stream_name}: the query would read its own {what}",
                detail=f"it is in {place}, and all files below {read} are read",
                hint="put it elsewhere, or into a directory there whose name begins with '_' or '.'",
            )


def _is_below(place: str, pattern: str) -> bool:
    """Whether Spark finds the files of one directory when it looks for those of another."""
    return any(
        not any(name.startswith(("_", ".")) for name in below) for below in _below(place, pattern)
    )


def _is_matched(place: str, pattern: str) -> bool:
    """Whether a directory is one of those that a pattern names."""
    return any(not below for below in _below(place, pattern))


def _below(place: str, pattern: str) -> Iterator[list[str]]:
    """The names by which a directory is below one that a pattern of Hadoop's names."""
    found = _ALTERNATIVES.search(pattern)
    if found is not None:
        for each in found[1].split(","):
            yield from _below(place, pattern[: found.start()] + each + pattern[found.end() :])
        return
    parts, wanted = (each.rstrip("/").split("/") for each in (place, pattern.replace("[^", "[!")))
    if len(parts) >= len(wanted) and all(map(fnmatchcase, parts, wanted)):
        yield parts[len(wanted) :]


_ALTERNATIVES = re.compile(r"\{([^{}]*)\}")


def require_offsets(store: Store, checkpoint: str) -> None:
    """What Spark knows of a query that was there is there, too: else it would read all input again."""
    last = store.last_record()
    if last is not None and not any(Directory(f"{checkpoint}/spark").listed("offsets")):
        raise PlanError(
            "the checkpoint is not whole",
            detail=f"batch {last['batch']} is through, and {checkpoint}/spark/offsets does not say "
            "what it had read",
            hint="restore what Spark has written there, or start anew with another checkpoint",
        )


def require_buckets(buckets: object) -> None:
    """A number, if it is said."""
    if buckets is not None and (type(buckets) is not int or buckets < 1):
        raise PlanError(
            f"buckets={buckets!r}: state is kept in one share or more",
            detail=_its_type(buckets) if type(buckets) is not int else "",
            hint="buckets=8; without it there are as many as Spark has cores",
        )


def require_trigger(spark: SparkSession, trigger: object) -> None:
    """One that Spark knows, and that a query in batches can have."""
    known = ", ".join(_TRIGGERS)
    hint = '{"processingTime": "10 seconds"}, {"availableNow": True} or {"once": True}'
    if not isinstance(trigger, Mapping) or len(trigger) != 1:
        raise PlanError(
            f"trigger={trigger!r} does not say when a batch is run",
            detail=f"it has one of: {known}",
            hint=hint,
        )
    [(name, value)] = trigger.items()
    if name not in _TRIGGERS:
        raise PlanError(
            f"there is no trigger {name!r} for this",
            detail=f"it is one of: {known}; a query runs in batches",
            hint=hint,
        )
    if type(value) is not _TRIGGERS[name] or value is False:
        raise PlanError(f"trigger: {name} cannot be {value!r}", detail=_its_type(value), hint=hint)
    if isinstance(value, str):
        java: Any = spark._jvm
        try:
            java.org.apache.spark.sql.streaming.Trigger.ProcessingTime(value)
        except PySparkException as problem:
            said = str(problem).strip().partition("\n")[0]
            raise PlanError(f"trigger: {value!r} is no time", detail=said, hint=hint) from problem


def require_python(spark: SparkSession) -> None:
    """Workers must run the driver's interpreter, or they miss our packages."""
    told = os.environ.get("PYSPARK_PYTHON") or spark.conf.get("spark.pyspark.python", None)
    if told is None:
        # nobody has said anything, and Spark would take whatever is called python3
        spark.sparkContext.pythonExec = sys.executable
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


def _its_type(value: object) -> str:
    return f"it is of type {type(value).__name__}"


def _shown(value: object) -> str:
    """A value in a line: of a table, what it is."""
    text = repr(value)
    return text if len(text) <= 60 and "\n" not in text else f"a {type(value).__name__}"
