"""Input forms and output forms: how a table becomes a stream, and a stream a table.

The rows of a table, in their order, are elements in arrival order:

- `from_dataframe`: rows with a start only (points, or unbounded), rows with lifetimes, or changelog
  rows, which say with a `kind` whether they insert, adjust or promise;
- `from_open_close`: I- and D-streams, in which one row opens an event and another closes it;
- `changelog`: the way back, one row per element; `from_dataframe` reads it as the same stream.

Invariant: every row becomes exactly one element, or one entry of the ledger. A row that cannot be
used is refused (`InvalidElement`) where there is no ledger; none is ever dropped silently.
Not here: how columns are read (tables.py), whether the elements are valid together (validity.py).

Paper 2 Example 3 (open and close), paper 1b section 3 (changelog rows).
"""

from __future__ import annotations

import glob
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, Protocol, overload

import numpy as np
import polars as pl

from slackwater.errors import InvalidElement, PlanError
from slackwater.events import Batch, Placed, Stream
from slackwater.history import datetime_columns
from slackwater.identity import row_ids
from slackwater.ledger import Ledger
from slackwater.notation import EVERY_PAYLOAD, one_by_one, read_patterns, written
from slackwater.patterns import Constant, Pattern
from slackwater.policies import Progress
from slackwater.punctuations import Closings, ExternalCti, Punctuation
from slackwater.tables import (
    Instants,
    Mask,
    Rule,
    Table,
    concerned,
    has_value,
    instants,
    kinds,
    payload_of,
    read_table,
    refuse_unknown,
    usable,
)
from slackwater.times import BEGIN, INF, Times

__all__ = [
    "Committed",
    "Files",
    "Form",
    "Unread",
    "changelog",
    "from_changelog",
    "from_dataframe",
    "from_open_close",
    "read_committed",
    "read_files",
    "require_patient",
]


class Streaming(Protocol):
    """A DataFrame of Spark, which is read where it is."""

    @property
    def isStreaming(self) -> bool:  # noqa: N802
        """Whether it goes on and on."""


@dataclass(frozen=True)
class Form:
    """How the rows of a table are elements: see `from_dataframe`."""

    vs: str
    ve: str | None = None
    unbounded: bool = False
    kind: str | None = None
    new_ve: str | None = None
    count: str | None = None
    pattern: str | None = None

    def __post_init__(self) -> None:
        _refuse_contradictions(self.ve, self.unbounded, self.kind, self.new_ve, self.count)

    @property
    def special(self) -> list[str]:
        """The columns that say when and what."""
        names = (self.vs, self.ve, self.kind, self.new_ve, self.count, self.pattern)
        return [name for name in names if name is not None]

    def read(
        self,
        df: Table,
        schema: pl.Schema,
        ledger: Ledger,
        place: str,
        at: Callable[[int], str] = "row {}".format,
    ) -> Batch:
        """The elements; what cannot be used goes to the ledger, with where it was found."""
        return _elements(read_table(df), self, schema, _Aside(ledger, place, at))


@dataclass(frozen=True)
class Files:
    """The files of a directory, those there and those to come, in the order of their times."""

    directory: str
    kind: Literal["parquet", "arrow"]
    per_batch: int | None


@dataclass(frozen=True)
class Committed:
    """The answers of other queries, in directories that match a pattern."""

    directory: str
    per_batch: int | None


@dataclass(frozen=True)
class Unread:
    """Rows that are still to be read, and how: for `Query.start`."""

    frame: Any
    """a streaming DataFrame, or `Files`, `Committed`, `Kafka`"""
    form: Form
    partition: str | None
    """the column that says which partition of the source a row comes from; else there is one"""
    progress: Progress
    aligned: bool = False
    """whether it waits for the tokens of the others that are aligned: see `read_committed`"""


def read_files(
    directory: str,
    *,
    vs: str,
    ve: str | None = None,
    unbounded: bool = False,
    kind: str | None = None,
    new_ve: str | None = None,
    count: str | None = None,
    pattern: str | None = None,
    partition: str | None = None,
    progress: Progress | None = None,
    form: Literal["parquet", "arrow"] = "parquet",
    per_batch: int | None = None,
) -> Unread:
    """The files of a directory as a stream, for `Query.start`: Parquet, or Arrow IPC.

    Spark's tasks read them in columns, and not through Spark's own rows; those in directories below it,
    too, unless a name begins with "_" or ".": a query that would read its own checkpoint or answer is
    refused. Files are taken in the order of their times, at most `per_batch` of them at once. Files
    whose times are the same (file systems count in milliseconds, some in seconds) are in the order of
    their names within a batch, but Spark may put the later one into the earlier batch. A file is whole
    when it appears: it is written elsewhere, and moved there. One without a byte is passed over, and one
    that is no such file stops the query. What the columns mean is as in `from_dataframe`.
    """
    if form not in ("parquet", "arrow"):
        raise PlanError(f"files of form {form!r} are not known", hint="parquet or arrow")
    _require_place(directory)
    _require_some(per_batch, "file")
    files = Files(directory, form, per_batch)
    columns = Form(vs, ve, unbounded, kind, new_ve, count, pattern)
    return Unread(files, columns, partition, progress or Progress())


def read_committed(
    directory: str,
    *,
    progress: Progress | None = None,
    per_batch: int | None = None,
    aligned: bool = False,
) -> Unread:
    """The answer of another query on Spark as a stream, for `Query.start`.

    `directory` is where that query's `sinks.Parquet` writes. Whole batches are read, each once, in their
    order, with how far the answer is settled behind each; what a killed query has left half-written is
    not. It may be a pattern, such as "answers/copy-*": then every directory that matches it, also those
    that come to be while the query runs, is a partition of the stream, or a replica of a replicated one,
    called as it is. At most `per_batch` batches are read at once.

    With `aligned` the stream brings tokens along: each batch says of which batches of the queries before
    it is the answer. Of all aligned streams that a query reads, those of topics included, it takes in
    what is before the last token on which they agree, and holds the rest: what it shows is the answer to
    one prefix of the input that they come from (docs/consistency.md). One batch is then read at once,
    unless `per_batch` says more, so that no token is passed over.

    >>> read_committed("answers/left", aligned=True).frame
    Committed(directory='answers/left', per_batch=1)
    >>> read_committed("answers/copy-*", aligned=True)
    Traceback (most recent call last):
        ...
    slackwater.errors.PlanError: a pattern of directories cannot be aligned
      detail: 'answers/copy-*' may match more of them at any time, each with tokens of its own
      hint: name one directory
    """
    _require_place(directory)
    if aligned:
        if glob.has_magic(directory):
            raise PlanError(
                "a pattern of directories cannot be aligned",
                detail=f"{directory!r} may match more of them at any time, each with tokens of its own",
                hint="name one directory",
            )
        require_patient(progress)
        per_batch = 1 if per_batch is None else per_batch
    _require_some(per_batch, "batch")
    form = Form("vs", "ve", kind="kind", new_ve="new_ve")
    described = Committed(directory.rstrip("/"), per_batch)
    return Unread(described, form, None, progress or Progress(), aligned)


def _require_place(directory: object) -> None:
    if not isinstance(directory, str) or not directory:
        raise PlanError(
            f"{directory!r} does not name a directory",
            detail=f"it is of type {type(directory).__name__}",
            hint='"/path", "s3a://bucket/path"; of a Path, str(path)',
        )


def _require_some(per_batch: object, what: str) -> None:
    if per_batch is not None and (type(per_batch) is not int or per_batch < 1):
        raise PlanError(f"at least one {what} is read at once", detail=f"per_batch={per_batch!r}")


def require_patient(progress: Progress | None) -> None:
    """An aligned stream that is silent may have to wait for another one."""
    if progress is not None and progress.idle is not None:
        raise PlanError(
            "a stream that is aligned is not found idle",
            detail="what it says is held until the others are as far, and would be late then",
            hint="leave idle out here: the query that writes the stream knows who is idle",
        )


@overload
def from_dataframe(
    df: Streaming,
    *,
    vs: str,
    ve: str | None = None,
    unbounded: bool = False,
    kind: str | None = None,
    new_ve: str | None = None,
    count: str | None = None,
    pattern: str | None = None,
    partition: str | None = None,
    progress: Progress | None = None,
) -> Unread: ...


@overload
def from_dataframe(
    df: Table,
    *,
    vs: str,
    ve: str | None = None,
    unbounded: bool = False,
    kind: str | None = None,
    new_ve: str | None = None,
    count: str | None = None,
    pattern: str | None = None,
    schema: Mapping[str, Any] | None = None,
    ledger: Ledger | None = None,
    place: str = "rows",
) -> Batch: ...


def from_dataframe(
    df: Table | Streaming,
    *,
    vs: str,
    ve: str | None = None,
    unbounded: bool = False,
    kind: str | None = None,
    new_ve: str | None = None,
    count: str | None = None,
    pattern: str | None = None,
    schema: Mapping[str, Any] | None = None,
    ledger: Ledger | None = None,
    place: str = "rows",
    partition: str | None = None,
    progress: Progress | None = None,
) -> Batch | Unread:
    """The rows of a table as elements.

    Without `ve` a row is a point [vs, vs + 1), or [vs, INF) if `unbounded`. With `ve` it is an
    event with that lifetime; a null end is INF. With `kind` it is a row of a changelog: "insert",
    "adjust" (the end moves from ve to new_ve) or "cti" (at vs, everything else null); and of a
    disordered stream, with `count`, "count": so many elements have a sync in [vs, ve), from the
    beginning where vs is null (`sw.external_cti`). An adjust
    must have a new_ve; only in datetime columns, which cannot say INF otherwise, null means that.
    A "punctuation" promises that no later element has the values of its columns, nulls apart, and a
    sync in [vs, ve): ranges, lists and nulls stand in the column `pattern`, as JSON (notation.py).
    All other columns are the payload, or those of `schema`, whose types they must fit.

    >>> rides = pl.DataFrame({"bike": ["a", "b"], "out": [1, 2], "back": [4, None]})
    >>> list(from_dataframe(rides, vs="out", ve="back"))
    [insert(1, 4, bike='a'), insert(2, INF, bike='b')]
    >>> list(from_dataframe(rides.drop("back"), vs="out"))
    [insert(1, 2, bike='a'), insert(2, 3, bike='b')]

    What cannot be used is refused, or set aside in a ledger:

    >>> rides = pl.DataFrame({"bike": ["a", "b"], "out": [1, 9], "back": [4, 9]})
    >>> from_dataframe(rides, vs="out", ve="back")
    Traceback (most recent call last):
        ...
    slackwater.errors.InvalidElement: row 1 of rows cannot be used: ends before it starts
      detail: {'bike': 'b', 'out': 9, 'back': 9}; 1 of 2 rows cannot be used
      hint: repair the rows, or give ledger=Ledger() to set them aside and use the rest
    >>> ledger = Ledger()
    >>> list(from_dataframe(rides, vs="out", ve="back", ledger=ledger)), ledger.counts()
    ([insert(1, 4, bike='a')], {'ends before it starts': 1})

    A streaming DataFrame of Spark is read by `Query.start`, in Spark's tasks. There `partition` names a
    column that says which partition of the source a row comes from, and `progress` (`sw.progress`)
    how the partitions come to promise something.
    """
    form = Form(vs, ve, unbounded, kind, new_ve, count, pattern)
    if hasattr(df, "isStreaming"):
        return Unread(df, form, partition, progress or Progress())
    if partition is not None or progress is not None:
        raise PlanError(
            "a table has no partitions",
            detail="partition and progress are for streaming DataFrames",
            hint="sw.cti among the elements says how far a table goes",
        )
    wanted = None if schema is None else pl.Schema(schema)
    return _elements(read_table(df), form, wanted, _Aside(ledger, place))


class _Aside(NamedTuple):
    """Where rows go that cannot be used, and what is said about them."""

    ledger: Ledger | None
    place: str
    at: Callable[[int], str] = "row {}".format


def _elements(table: pl.DataFrame, form: Form, schema: pl.Schema | None, aside: _Aside) -> Batch:
    vs, ve, kind, new_ve, count = form.vs, form.ve, form.kind, form.new_ve, form.count
    given = {"vs": vs, "ve": ve, "kind": kind, "new_ve": new_ve, "count": count}
    given["pattern"] = form.pattern
    refuse_unknown(table, given)
    payload, misfits = payload_of(table, given, schema)
    start = instants(table, vs)
    if ve is not None:
        end = instants(table, ve)
    else:
        end = Instants.none(table.height) if form.unbounded else start.points()
    if kind is None:
        rules = [
            Rule("time out of range", start.outside | end.outside),
            Rule("no start", start.missing),
            Rule("ends before it starts", start.times >= end.times),
            *misfits,
        ]
        good = usable(table, rules, *aside)
        return _where(Batch.inserts(start.times, end.times, payload), good)
    new_end = Instants.none(table.height) if new_ve is None else instants(table, new_ve)
    names = ("insert", "adjust", "cti", "count", "punctuation")
    inserts, adjusts, ctis, counts, told = kinds(table[kind], names)
    numbers, uncounted = _numbers(table, count)
    counts &= count is not None
    since = np.where(start.missing, BEGIN, start.times)
    data = inserts | adjusts
    more = ~end.missing | ~new_end.missing | has_value(payload, ctis)
    says = np.zeros(table.height, dtype=np.bool_)
    if form.pattern is not None:
        says = table[form.pattern].is_not_null().to_numpy()
    rules = [
        Rule("unknown kind", ~(data | ctis | counts | told)),
        Rule("time out of range", start.outside | end.outside | new_end.outside),
        Rule("no start", start.missing & ~ctis & ~counts & ~told),
        Rule("no new end", adjusts & new_end.missing & (not new_end.null_is_inf)),
        Rule("ends before it starts", data & (start.times >= end.times)),
        Rule("ends before it starts", (counts | told) & (since >= end.times)),
        Rule("no count", counts & uncounted),
        Rule("count with a payload", counts & has_value(payload, counts)),
        Rule("ends before it starts", adjusts & (new_end.times < start.times)),
        Rule("insert with a new end", inserts & ~new_end.missing),
        Rule("cti with more than a time", ctis & (more | says)),
        Rule("pattern of a row that is no punctuation", (data | counts) & says),
        *misfits,
    ]
    texts = _texts(table, form.pattern, told, payload) if told.any() else _Texts({}, told, {})
    if told.any():
        says_nothing = told & ~has_value(payload, told) & ~texts.there(since)
        rules += [
            Rule("punctuation that cannot be read", texts.wrong, why=texts.why),
            Rule("punctuation without values", says_nothing),
            Rule("punctuation with a new end", told & ~new_end.missing),
        ]
    good = usable(table, rules, *aside)
    old_ve = np.where(adjusts, end.times, start.times)
    batch = Batch(start.times, old_ve, np.where(adjusts, new_end.times, end.times), payload)
    data &= good
    controls = _punctuations(start.times, good & ctis, data)
    if counts.any():
        each_count = zip(end.times.tolist(), numbers.tolist(), since.tolist(), strict=True)
        counted = [
            ExternalCti(*each)
            for each, is_count in zip(each_count, counts & good, strict=True)
            if is_count
        ]
        places = np.cumsum(data)[counts & good].tolist()
        controls = tuple(
            sorted([*controls, *map(Placed, places, counted)], key=lambda placed: placed.position)
        )
    told &= good
    if told.any():
        promises = _promises(payload, told, (since, end.times), np.cumsum(data), texts)
        controls = tuple(sorted([*controls, *promises], key=lambda placed: placed.position))
    return replace(_where(batch, data), controls=controls)


class _Texts(NamedTuple):
    """The column of patterns: what it says by row, and which rows cannot be read, for which reason."""

    patterns: dict[int, dict[str, Pattern]]
    wrong: Mask
    why: dict[int, str]

    def there(self, since: Times) -> Mask:
        """Which rows have patterns, or should; one without columns only if it begins at some time."""
        found = self.wrong.copy()
        found[[row for row, told in self.patterns.items() if told or since[row] != BEGIN]] = True
        assert len(found) == len(since)
        return found


def _texts(table: pl.DataFrame, name: str | None, told: Mask, payload: pl.DataFrame) -> _Texts:
    wrong = np.zeros(table.height, dtype=np.bool_)
    patterns: dict[int, dict[str, Pattern]] = {}
    why: dict[int, str] = {}
    if name is not None:
        texts = table[name].cast(pl.String)
        for row in np.flatnonzero(told & texts.is_not_null().to_numpy()).tolist():
            try:
                patterns[row] = read_patterns(texts[row], payload.schema)
            except InvalidElement as problem:
                wrong[row], why[row] = True, problem.fact
                continue
            for column, pattern in patterns[row].items():
                value = payload[column][row]
                if value is not None and pattern != Constant(value):
                    wrong[row], why[row] = True, f"column {column!r} has a value and another pattern"
    return _Texts(patterns, wrong, why)


def _promises(
    payload: pl.DataFrame, told: Mask, times: tuple[Times, Times], places: Times, texts: _Texts
) -> list[Placed]:
    """Rows that promise: those that are constants only together, by which columns they name."""
    since, before = times
    odd = told & ((since != BEGIN) | texts.there(since))
    found: list[Placed] = []
    for row in np.flatnonzero(odd).tolist():
        values = payload.row(row, named=True) if payload.width else {}
        constants = {name: Constant(value) for name, value in values.items() if value is not None}
        box = Punctuation.of(
            int(before[row]), int(since[row]), {**constants, **texts.patterns.get(row, {})}
        )
        found.append(Placed(int(places[row]), box))
    rows = np.flatnonzero(told & ~odd)
    if not len(rows):
        return found
    some = payload[rows]
    named = np.stack([column.is_not_null().to_numpy() for column in some.get_columns()], axis=1)
    shapes, shape = np.unique(named, axis=0, return_inverse=True)
    for at, columns in enumerate(shapes.tolist()):
        mine = np.flatnonzero(shape.ravel() == at)
        names = [name for name, is_named in zip(some.columns, columns, strict=True) if is_named]
        place = places[rows[mine]]
        closings = Closings(some[mine].select(names), before[rows[mine]], place - place[0])
        found.append(Placed(int(place[0]), closings))
    return found


def from_open_close(
    df: Table,
    *,
    at: str,
    kind: str = "kind",
    schema: Mapping[str, Any] | None = None,
    ledger: Ledger | None = None,
    place: str = "rows",
) -> Batch:
    """Rows that open and close events (I- and D-streams) as elements.

    A row with kind "open" begins an event at `at`, of yet unknown end; "close" ends the last event
    of the same payload, or, if that was closed before, revises its end; "cti" promises. One event
    per payload is alive at a time. An event that is closed where it was opened is gone, as if it
    had never been opened.

    >>> trips = pl.DataFrame({"kind": ["open", "close", "open", "close"],
    ...                       "bike": ["b", "b", "c", "b"], "at": [2, 6, 3, 5]})
    >>> for element in from_open_close(trips, at="at"):
    ...     print(element)
    insert(2, INF, bike='b')
    adjust(2, INF, 6, bike='b')
    insert(3, INF, bike='c')
    adjust(2, 6, 5, bike='b')

    What cannot be used: "close without open", "close before open", and "open while open", when the
    last event of that payload ends after the new one would begin.
    """
    table = read_table(df)
    given = {"at": at, "kind": kind}
    refuse_unknown(table, given)
    payload, misfits = payload_of(table, given, None if schema is None else pl.Schema(schema))
    time = instants(table, at)
    opens, closes, ctis = kinds(table[kind], ("open", "close", "cti"))
    rules = [
        Rule("unknown kind", ~(opens | closes | ctis)),
        Rule("time out of range", time.outside),
        Rule("no time", (opens & (time.times == INF)) | (closes & time.missing)),
        Rule("cti with more than a time", has_value(payload, ctis)),
        *misfits,
    ]
    rows = np.flatnonzero(~ctis & ~concerned(rules))
    moves = row_ids(payload)[rows], time.times[rows], opens[rows]
    followed = _follow(*moves)
    if followed.suspect.any():
        reasons = np.full(table.height, "", dtype=object)
        reasons[rows] = _walk(*moves, followed.suspect)
        names = ("close without open", "close before open", "open while open")
        rules += [Rule(name, reasons == name) for name in names]
        in_order = reasons[rows] == ""
        followed = _follow(*(column[in_order] for column in moves))
        assert not followed.suspect.any(), "what the walk lets through is in order"
    good = usable(table, rules, ledger, place)
    kept = payload.filter(pl.Series(good & ~ctis))
    controls = _punctuations(time.times, good & ctis, good & ~ctis)
    return Batch(followed.vs, followed.old_ve, followed.new_ve, kept, controls)


def from_changelog(rows: pl.DataFrame, schema: Mapping[str, Any]) -> Batch:
    """The way back from `changelog`."""
    pattern = "pattern" if "pattern" in rows.columns else None
    return from_dataframe(
        rows, vs="vs", ve="ve", kind="kind", new_ve="new_ve", pattern=pattern, schema=schema
    )


def changelog(stream: Stream, *, datetimes: bool = False) -> pl.DataFrame:
    """A stream as a table, one row per element in arrival order: kind, vs, ve, new_ve, the payload.

    What an element does not have is null; so is INF in datetime columns. As an Arrow table or a
    pandas frame: `.to_arrow()`, `.to_pandas()`. Where ranges or lists are promised, or nulls, there is
    a column `pattern` of JSON more.

    >>> from slackwater.events import adjust, insert
    >>> from slackwater.punctuations import cti
    >>> frame = changelog([insert(0, 10, k="a"), cti(3), adjust(0, 10, 4, k="a")])
    >>> for row in frame.rows():
    ...     print(row)
    ('insert', 0, 10, None, 'a')
    ('cti', 3, None, None, None)
    ('adjust', 0, 10, 4, 'a')
    >>> list(from_dataframe(frame, vs="vs", ve="ve", kind="kind", new_ve="new_ve"))
    [insert(0, 10, k='a'), cti(3), adjust(0, 10, 4, k='a')]
    """
    batch = Batch.of(stream)
    is_insert = batch.is_insert
    frame = pl.DataFrame(
        {
            "vs": batch.vs,
            "ve": np.where(is_insert, batch.new_ve, batch.old_ve),
            "new_ve": batch.new_ve,
            "kind": is_insert,
        }
    ).select(
        kind=pl.when("kind").then(pl.lit("insert")).otherwise(pl.lit("adjust")),
        vs="vs",
        ve="ve",
        new_ve=pl.when(~pl.col("kind")).then("new_ve"),
    )
    frame = frame.hstack(batch.payload) if batch.payload.width else frame
    frame = _with_punctuations(frame, batch.controls) if batch.controls else frame
    return datetime_columns(frame) if datetimes else frame


def _with_punctuations(frame: pl.DataFrame, controls: Sequence[Placed]) -> pl.DataFrame:
    """Put one row per punctuation where it stands among the others."""
    parts: list[pl.DataFrame] = []
    places: list[Times] = []
    rows: list[dict[str, Any]] = []
    row_places: list[int] = []
    for position, control in controls:
        if isinstance(control, Closings) and not sum(control.keys.null_count().row(0)):
            parts.append(
                control.keys.with_columns(kind=pl.lit("punctuation"), ve=pl.Series(control.before))
            )
            after = np.zeros(len(control), np.int64) if control.after is None else control.after
            places.append(position + after)
            continue
        for at, each in control.spread(position):
            if not isinstance(each, Punctuation):
                raise InvalidElement(
                    f"{each!r} cannot be written as a row",
                    detail="a changelog holds inserts, adjusts and punctuations",
                    hint="control elements are the engine's own; take them out before the output",
                )
            told = _rows_of(each)
            rows += told
            row_places += [at] * len(told)
    names = {name: dtype for name, dtype in frame.schema.items() if any(name in row for row in rows)}
    is_told = any(row.get("pattern") is not None for row in rows)
    types = {**names, **({"pattern": pl.String()} if is_told else {})}
    if rows:
        parts.append(pl.DataFrame([{n: row.get(n) for n in types} for row in rows], schema=types))
        places.append(np.array(row_places, dtype=np.int64))
    every = pl.concat([frame, *parts], how="diagonal")
    # a row comes before what stands behind it, and what stands in one place keeps its order
    order = np.concatenate([2 * np.arange(frame.height) + 1, *(2 * place for place in places)])
    fixed = [name for name in ("kind", "vs", "ve", "new_ve", "pattern") if name in every.columns]
    return every[np.argsort(order, kind="stable")].select(*fixed, pl.exclude(fixed))


def _rows_of(told: Punctuation) -> list[dict[str, Any]]:
    if told.is_cti:
        return [{"kind": "cti", "vs": told.before}]
    since = None if told.since == BEGIN else told.since
    row = {"kind": "punctuation", "vs": since, "ve": told.before}
    if not told.columns:
        return [{**row, "pattern": EVERY_PAYLOAD}]
    texts = (written(each) for each in one_by_one(dict(told.columns)))
    return [{**row, "pattern": pattern, **values} for pattern, values in texts]


def _refuse_contradictions(
    ve: str | None, unbounded: bool, kind: str | None, new_ve: str | None, count: str | None
) -> None:
    if unbounded and ve is not None:
        raise PlanError(
            "rows with an end are not unbounded",
            detail=f"ve={ve!r} and unbounded=True were both given",
            hint="leave one of them out; a null end is INF",
        )
    if kind is not None and ve is None:
        raise PlanError(
            "a changelog needs the column of its ends",
            detail=f"kind={kind!r} was given without ve",
            hint="give ve=, and new_ve= if there are adjusts",
        )
    if new_ve is not None and kind is None:
        raise PlanError(
            "only a changelog has new ends",
            detail=f"new_ve={new_ve!r} was given without kind",
            hint="give kind=, the column that says which rows are adjusts",
        )
    if count is not None and kind is None:
        raise PlanError(
            "only a changelog has counts",
            detail=f"count={count!r} was given without kind",
            hint="give kind=, the column that says which rows are counts",
        )


def _numbers(table: pl.DataFrame, name: str | None) -> tuple[Times, Mask]:
    """A column of counts, and which rows have none."""
    if name is None:
        return np.zeros(table.height, dtype=np.int64), np.ones(table.height, dtype=np.bool_)
    if table[name].null_count() < table.height and not table[name].dtype.is_integer():
        raise PlanError(
            f"column {name!r} does not count",
            detail=f"it is of type {table[name].dtype}",
            hint="counts are integers",
        )
    column = table[name].cast(pl.Int64)
    filled = column.fill_null(-1).to_numpy()
    return filled, filled < 0


def _where(batch: Batch, rows: Mask) -> Batch:
    return batch if rows.all() else batch.where(rows)


def _punctuations(times: Times, promises: Mask, data: Mask) -> tuple[Placed, ...]:
    """One cti per row that promises, placed among the rows that are data."""
    places = np.cumsum(data)[promises].tolist()
    befores = times[promises].tolist()
    return tuple(Placed(at, Punctuation(t)) for at, t in zip(places, befores, strict=True))


class _Followed(NamedTuple):
    """Open and close rows as the rows of a batch, and which of them cannot be such."""

    vs: Times
    old_ve: Times
    new_ve: Times
    suspect: Mask


def _follow(ids: Times, at: Times, opens: Mask) -> _Followed:
    """What each row says of the events of its payload, given that all rows before it can be used."""
    by_id = np.argsort(ids, kind="stable")
    ids, at, opens = ids[by_id], at[by_id], opens[by_id]
    row = np.arange(len(ids))
    is_first = np.append(True, ids[1:] != ids[:-1])[: len(ids)]
    first = np.maximum.accumulate(np.where(is_first, row, 0))
    opened = np.maximum.accumulate(np.where(opens, row, -1))
    has_event = opened >= first
    vs, new_ve = at[opened], np.where(opens, INF, at)
    last_vs, last_ve = np.roll(vs, 1), np.roll(new_ve, 1)
    # an event that is gone leaves its payload taken until when it was taken before
    takes = opens & ~is_first & np.roll(has_event, 1) & (last_ve > last_vs)
    taken = np.maximum.accumulate(np.where(takes, row, -1))
    taken_until = np.where(taken >= first, last_ve[taken], BEGIN)
    is_gone = (at == vs) & (last_ve == vs)
    suspect = np.where(opens, taken_until > at, ~has_event | (at < vs) | is_gone)
    old_ve = np.where(opens, at, last_ve)
    back = np.argsort(by_id)
    return _Followed(vs[back], old_ve[back], new_ve[back], suspect[back])


def _walk(ids: Times, at: Times, opens: Mask, suspect: Mask) -> list[str]:
    """Why each row cannot be used, "" if it can.

    Whether a row can be used depends on which rows before it could, so the payloads that have a
    suspect row are walked one row after the other; the others are in order.
    """
    reasons = [""] * len(ids)
    rows = np.flatnonzero(np.isin(ids, ids[suspect]))
    # by payload: start and end of its last event, and until when it is taken without that one
    state: dict[int, tuple[int | None, int, int]] = {}
    columns = (column[rows].tolist() for column in (ids, at, opens))
    for row, key, time, opening in zip(rows.tolist(), *columns, strict=True):
        vs, ve, taken_before = state.get(key, (None, BEGIN, BEGIN))
        if opening:
            taken_until = ve if vs is not None and ve > vs else taken_before
            if taken_until > time:
                reasons[row] = "open while open"
            else:
                state[key] = time, INF, taken_until
        elif vs is None or time == vs == ve:
            reasons[row] = "close without open"
        elif time < vs:
            reasons[row] = "close before open"
        else:
            state[key] = vs, time, taken_before
    return reasons
