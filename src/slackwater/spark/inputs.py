"""What a query on Spark reads: a streaming DataFrame, and how its rows are to be understood.

Rows become elements in the tasks that read them, in columns. A row that cannot be used goes to the
ledger; the query lives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial, reduce
from typing import NamedTuple

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import to_arrow_schema

from slackwater.distributed.combining import Combiner
from slackwater.distributed.dispatch import Dispatch
from slackwater.distributed.files import Directory, opened
from slackwater.distributed.gate import Tokened
from slackwater.distributed.parcels import to_arrow
from slackwater.distributed.program import Program
from slackwater.distributed.store import Store
from slackwater.distributed.tokens import Token
from slackwater.errors import OperatorError, PlanError
from slackwater.events import Batch
from slackwater.ledger import Ledger
from slackwater.plan.nodes import Source
from slackwater.punctuations import Punctuation
from slackwater.rows import Committed, Files, Form, Unread
from slackwater.spark import kafka_source
from slackwater.spark.clock import batch_of_task
from slackwater.spark.commits import COMMITS, read_commit
from slackwater.spark.news import ledger_parcel
from slackwater.spark.reading import ANY_AGE, Reading
from slackwater.spark.receiving import Rewrites
from slackwater.spark.workers import promptly, settle_in
from slackwater.tables import read_table
from slackwater.topics import Kafka

__all__ = ["all_files", "dispatching", "dispatching_each", "frame_of", "known"]

_WHICH = "source"
_TOGETHER = 100_000
"""so many rows are spread at once"""


def known(spark: SparkSession, given: Unread, root: str, source: Source) -> Unread:
    """The same, with all that can be known of it before it is read; the query's store is there."""
    if isinstance(given.frame, Kafka):
        # what cannot be read at all is refused here, and not in the tasks
        kafka_source.reader_of(given.frame, given.form, source.schema)
        return kafka_source.known_partitions(spark, given, root, source.stream_name)
    if not isinstance(given.frame, Files | Committed):
        _require_columns(given, source)
    return given


def _require_columns(given: Unread, source: Source) -> None:
    """Read nothing, as tasks would read rows: what they cannot make elements of, is refused here."""
    try:
        columns = to_arrow_schema(given.frame.schema, timezone="UTC")
    except PySparkException as problem:
        raise PlanError(
            f"{source.stream_name}: the DataFrame has columns that Arrow does not",
            detail=str(problem).strip().partition("\n")[0],
            hint="select the columns of the stream",
        ) from problem
    if given.partition is not None and given.partition not in columns.names:
        raise PlanError(
            f"{source.stream_name}: the DataFrame has no column {given.partition!r}",
            detail="it is to say which partition a row comes from",
            hint=f"it has: {', '.join(columns.names)}",
        )
    form, schema = given.form, source.schema
    rows = _without_partition(read_table(columns.empty_table()), given.partition, form, schema)
    Reading(source.stream_name, form, schema, Ledger()).elements(rows)


def frame_of(spark: SparkSession, given: Unread) -> DataFrame:
    """The streaming DataFrame that tasks read: the rows themselves, records, or the names of files."""
    if isinstance(given.frame, Kafka):
        return kafka_source.frame_of(spark, given.frame)
    if not isinstance(given.frame, Files | Committed):
        frame: DataFrame = given.frame
        return frame
    # the contents are a column that nobody asks for, and hence not read
    reader = spark.readStream.format("binaryFile").schema(
        "path string, modificationTime timestamp, length bigint, content binary"
    )
    reader = reader.options(**ANY_AGE)
    if given.frame.per_batch is not None:
        reader = reader.option("maxFilesPerTrigger", given.frame.per_batch)
    place = given.frame.directory
    if isinstance(given.frame, Committed):
        place = f"{place}/{COMMITS}"
    else:
        # else Spark takes directories in it for partitions, which it refuses or does not read
        reader = reader.option("recursiveFileLookup", "true")
    try:
        return reader.load(place).select("path", "modificationTime")
    except AnalysisException as problem:
        raise PlanError(
            f"there is nothing to be read at {place!r}",
            detail=str(problem).strip().partition("\n")[0],
            hint="a directory has to be there, if only an empty one: files may come later"
            if isinstance(given.frame, Files)
            else "start the query first that writes its answer there",
        ) from problem


def all_files(spark: SparkSession, given: Sequence[Unread]) -> DataFrame:
    """The names of the files of several sources, and which source each of them is of."""
    names = (frame_of(spark, each).withColumn(_WHICH, f.lit(n)) for n, each in enumerate(given))
    return reduce(DataFrame.union, names)


def dispatching_each(each: Sequence[Rewrites]) -> Rewrites:
    """What a task does with the files of several sources: it reads one source after the other."""

    def dispatch(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        names = [*promptly(batches)]
        for number, one in enumerate(each):
            own = [some.filter(pc.equal(some.column(_WHICH), number)) for some in names]
            if any(some.num_rows for some in own):
                yield from one(iter(own))

    return dispatch


def dispatching(source: Source, given: Unread, program: Program, root: str) -> Rewrites:
    """What a task does with the rows that it reads: parcels of them, for every bucket."""
    # what is named here is all that the tasks get to know
    name, schema = source.stream_name, source.schema
    frame = given.frame if isinstance(given.frame, Files | Committed | Kafka) else None
    # an origin of a replicated stream is a replica's partition
    suffix = "/0" if source.replicated and not isinstance(frame, Kafka) else ""
    form, partition = given.form, given.partition
    to, buckets = program.targets(source), program.buckets
    # who repeats itself is recognised by rows, and so is who breaks a cti among them
    as_read = isinstance(given.frame, Kafka) or form.kind is not None
    combining = None if as_read else program.combining(source)
    aligned = Tokened(name, len(program.cut.stages), buckets) if given.aligned else None

    def dispatch(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle_in()
        batches = promptly(batches)
        context = TaskContext.get()
        assert context is not None, "this runs in tasks"
        task = f"{context.partitionId():010d}"
        combiner = None
        if combining is not None:
            batch, _ = batch_of_task(context)
            combiner = Combiner(combining, Store(root).promised(name, batch))
        # files and topics are read in their order
        sending = Dispatch(to, buckets, task, ordered=frame is not None, combiner=combiner)
        ledger = Ledger()
        reading = Reading(name, form, schema, ledger)
        read: Iterator[tuple[str, str, Batch | Token]]
        if isinstance(frame, Kafka):
            records = map(pl.DataFrame, _together(batches))
            read = kafka_source.pieces(records, frame, reading)
        elif isinstance(frame, Committed):
            read = _committed(batches, reading, aligned=aligned is not None)
        else:
            parts: Iterator[_Rows] = (_Rows(rows) for rows in _together(batches))
            if frame is not None:
                wanted = [*schema, *form.special, *([] if partition is None else [partition])]
                parts = _read_files(batches, frame, [*dict.fromkeys(wanted)])
            read = _pieces(parts, partition, reading)
        for origin, part, told in read:
            if isinstance(told, Batch):
                parcels = [*sending.rows(origin + suffix, part, told)]
                if aligned is not None:
                    parcels += sending.through(origin, part)
                yield to_arrow(parcels)
            elif aligned is not None:
                yield to_arrow([*aligned.told(origin, part, told)])
        last = [*sending.end()]
        if len(ledger):
            last.append(ledger_parcel(f"{name}-{task}", ledger))
        yield to_arrow(last)

    return dispatch


class _Rows(NamedTuple):
    """Rows that are read at once, and where they were found."""

    table: pa.Table
    part: str = ""
    """its name; a task's own part has none"""
    file: str = ""
    first: int = 0
    """how many rows of the file are before them"""

    def at(self, row: int) -> str:
        """Where one of them is: nobody knows that of a streaming DataFrame."""
        return f"{self.file}, row {self.first + row}" if self.file else f"row {row}"


def _pieces(
    parts: Iterator[_Rows], partition: str | None, reading: Reading
) -> Iterator[tuple[str, str, Batch]]:
    """Rows as elements: their origin, the name of the part that they are, and the elements."""
    for rows in parts:
        for origin, some, number in _by_origin(pl.DataFrame(rows.table), partition):
            own = _without_partition(some, partition, reading.form, reading.schema)

            def at(row: int, rows: _Rows = rows, number: Callable[[int], int] = number) -> str:
                return rows.at(number(row))

            try:
                elements = reading.elements(own, at)
            except PlanError as problem:
                where = f" in {rows.file}" if rows.file else ""
                raise OperatorError(
                    f"{reading.name}: {problem.fact}{where}", detail=problem.detail, hint=problem.hint
                ) from problem
            yield origin, rows.part, elements


def _read_files(batches: Iterator[pa.RecordBatch], files: Files, columns: list[str]) -> Iterator[_Rows]:
    """The files that a task was told to read, in parts that are named in their order."""
    places: set[str] = set()
    for batch in batches:
        names = zip(batch.column("path").to_pylist(), batch.column("modificationTime"), strict=True)
        for path, changed in sorted((path, time.cast(pa.int64()).as_py()) for path, time in names):
            place = path.rpartition("/")[0]
            if place not in places:
                places.add(place)
                _require_no_answer(place)
            table = _read_file(path, files, columns)
            for start in range(0, table.num_rows, _TOGETHER):
                yield _Rows(table.slice(start, _TOGETHER), f"{changed:020d} {path}", path, start)


def _require_no_answer(place: str) -> None:
    """Below what is read there may be such a directory, and there may come to be one."""
    if Directory(place).has(COMMITS):
        raise OperatorError(
            f"the files in {place} are the answer of another query",
            detail="only its lists say which of them count; attempts that failed have left some",
            hint="sw.read_committed(directory) reads what was committed; put them elsewhere",
        )


def _read_file(path: str, files: Files, columns: list[str]) -> pa.Table:
    """These columns of a file."""
    system, place = opened(path)
    try:
        with system.open_input_file(place) as file:
            if files.kind == "parquet":
                # Spark writes times of 96 bits; as nanoseconds, those behind 2261 would be others
                parquet = pq.ParquetFile(file, coerce_int96_timestamp_unit="us")
                # a task has one core; what is not there would be left out
                _require_all(columns, parquet.schema_arrow.names, path)
                return parquet.read(columns, use_threads=False)
            arrow = pa.ipc.open_file(file)
            _require_all(columns, arrow.schema.names, path)
            return arrow.read_all().select(columns)
    except (pa.ArrowException, OSError) as problem:
        raise OperatorError(
            f"{path} cannot be read as {files.kind}",
            detail=str(problem).partition("\n")[0],
            hint="put a whole file in its place: write it elsewhere, and move it there",
        ) from problem


def _require_all(columns: list[str], there: list[str], path: str) -> None:
    for name in columns:
        if name not in there:
            raise OperatorError(
                f"{path} has no column {name!r}",
                detail=f"it has: {', '.join(there)}",
                hint="put a file with all columns of the stream in its place",
            )


def _committed(
    batches: Iterator[pa.RecordBatch], reading: Reading, *, aligned: bool
) -> Iterator[tuple[str, str, Batch | Token]]:
    """What other queries have committed: the directory's name, the batch's number, elements, and tokens.

    Commits of a directory are numbered without a gap, and one is there before the next: whoever lists
    the directory finds them in that order.
    """
    paths = (path for batch in batches for path in batch.column("path").to_pylist())
    for path in sorted(paths):
        directory, _, name = path.rpartition(f"/{COMMITS}/")
        commit = read_commit(directory, name)
        if aligned and commit.token is None:
            raise OperatorError(
                f"{reading.name}: batch {commit.batch} tells no token",
                detail=f"{directory} was written by an earlier version",
                hint="read it without aligned=True, or have it written anew",
            )
        if aligned:
            commit.require_whole()
        origin, part = directory.rpartition("/")[2], f"{commit.batch:09d}"
        for table in commit.tables():
            yield origin, part, reading.elements(pl.DataFrame(table))
        empty = Batch.empty(reading.schema)
        yield origin, part, empty.followed_by([Punctuation(commit.settled_until)])
        if commit.token:
            yield origin, part, commit.token


def _together(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Rows that a task was given, many at a time."""
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


def _by_origin(
    table: pl.DataFrame, partition: str | None
) -> Iterator[tuple[str, pl.DataFrame, Callable[[int], int]]]:
    """The rows of each origin, and which rows of the table they are."""
    if partition is None:
        yield "0", table, int
        return

    @cache
    def numbers() -> pl.Series:
        by = table.select(pl.col(partition).alias("by")).with_row_index("row")
        return by.group_by("by", maintain_order=True).agg("row")["row"]

    def number(share: int, row: int) -> int:
        # looked for when somebody asks, which is when a row cannot be used
        return int(numbers()[share][row])

    for share, ((value,), part) in enumerate(table.group_by(partition, maintain_order=True)):
        yield _called(value), part, partial(number, share)


def _called(value: object) -> str:
    """A partition by its value: one without a value is None, and who is called so, is 'None'."""
    called = str(value)
    return f"'{called}'" if value is not None and called.strip("'") == "None" else called


def _without_partition(
    part: pl.DataFrame, partition: str | None, form: Form, schema: pl.Schema
) -> pl.DataFrame:
    """Rows whose partition is known: the column stays where it is the payload's, too."""
    if partition is None:
        return part
    if partition not in schema:
        return part.drop(partition)
    if form.kind is None:
        return part
    # a cti has no payload, but it is some partition's
    is_cti = (pl.col(form.kind).cast(pl.String) == "cti").fill_null(False)
    return part.with_columns(pl.when(~is_cti).then(partition).alias(partition))
