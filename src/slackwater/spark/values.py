"""The values of records as tables: JSON, Avro or Arrow.

A value is read by itself, so that a bad one concerns no other: it is refused with a reason, and the rest
goes on. What was read is then put into columns of the declared types (fitting.py); a value that does not
fit its column is refused, never changed.

Whether the rows are elements is asked later (rows.py). Nothing here knows of Spark or of Kafka.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple, NoReturn, Protocol

import numpy as np
import polars as pl
import pyarrow as pa

from slackwater.errors import PlanError
from slackwater.rows import Form
from slackwater.spark.fitting import Floats, Lacking, fitted, floats_of_avro, floats_of_json, inner_types
from slackwater.times import INF, Times

__all__ = ["Reader", "Refuse", "Table", "arrow_reader", "avro_reader", "json_reader"]

Refuse = Callable[[int, str, str], None]
"""called with the place of a value, why it cannot be used, and more about it"""


class Table(NamedTuple):
    """Rows, and of each the place of the value that it is from."""

    rows: pl.DataFrame
    places: Times


class Reader(Protocol):
    """Reads values; those that it cannot use it refuses."""

    def __call__(self, values: pl.Series, refuse: Refuse) -> Iterator[Table]:
        """The rows of the values, in their order."""


# JSON and Avro: one row per value


def json_reader(form: Form, schema: pl.Schema) -> Reader:
    """Reads one object of JSON per value."""
    for name, dtype in schema.items():
        if any(each in (pl.Binary, pl.Duration, pl.Object) for each in inner_types(dtype)):
            raise PlanError(
                f"column {name!r} cannot be read from JSON",
                detail=f"it is {dtype}",
                hint='value="avro" or value="arrow"',
            )
    decimals = any(each.is_decimal() for dtype in schema.values() for each in inner_types(dtype))
    # a float has not all digits of a decimal, but is read faster
    number = _digits if decimals else None
    decode = json.JSONDecoder(parse_float=number, parse_constant=_not_json).decode
    wanted = Wanted(form, schema, floats_of_json)

    def read(values: pl.Series, refuse: Refuse) -> Iterator[Table]:
        records, places = [], []
        for place, value in enumerate(values):
            if value is None:
                refuse(place, "no value", "")
                continue
            try:
                record = decode(value.decode())
            except (ValueError, RecursionError) as problem:
                refuse(place, "bad JSON", str(problem))
                continue
            if not isinstance(record, dict):
                refuse(place, "bad JSON", f"{_short(record)} is not an object")
                continue
            records.append(record)
            places.append(place)
        yield _columns(records, places, wanted, refuse)

    return read


def _digits(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        # an exponent of many digits: this fits no column, and may be in a field that nobody reads
        return Decimal("NaN")


def _not_json(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def avro_reader(form: Form, schema: pl.Schema, avro: str) -> Reader:
    """Reads one datum of Avro per value."""
    try:
        import fastavro  # noqa: PLC0415  # for those who read Avro
    except ImportError as problem:
        raise PlanError("Avro is read by fastavro", hint="pip install 'slackwater[kafka]'") from problem
    try:
        parsed: Any = fastavro.parse_schema(json.loads(avro))
    except (fastavro.schema.SchemaParseException, fastavro.schema.UnknownType, KeyError) as problem:
        raise PlanError("the schema of Avro cannot be used", detail=str(problem)) from problem
    fields = [field["name"] for field in parsed["fields"]]
    for name in (*schema, *form.special):
        if name not in fields:
            raise PlanError(
                f"the schema of Avro has no field {name!r}", detail=f"it has: {', '.join(fields)}"
            )
    # what fastavro raises on bytes that are not what the schema says
    broken = (EOFError, ValueError, IndexError, KeyError, TypeError, OverflowError, struct.error)
    wanted = Wanted(form, schema, floats_of_avro)

    def read(values: pl.Series, refuse: Refuse) -> Iterator[Table]:
        records, places = [], []
        for place, value in enumerate(values):
            if value is None:
                refuse(place, "no value", "")
                continue
            file = io.BytesIO(value)
            try:
                record: Any = fastavro.schemaless_reader(file, parsed, None)
            except (*broken, StopIteration, MemoryError, InvalidOperation) as problem:
                refuse(place, "bad Avro", f"{type(problem).__name__}: {problem}")
                continue
            if file.tell() != len(value):
                refuse(place, "bad Avro", f"{len(value) - file.tell()} bytes are left over")
                continue
            records.append(record)
            places.append(place)
        yield _columns(records, places, wanted, refuse)

    return read


Record = Mapping[str, Any]


class Wanted(NamedTuple):
    """What records are to become, and how their numbers become floats."""

    form: Form
    schema: pl.Schema
    floats: Floats


def _columns(records: Sequence[Record], places: Sequence[int], wanted: Wanted, refuse: Refuse) -> Table:
    """Records as columns of the declared types; those that do not fit are refused."""
    form, schema, floats = wanted
    bad: dict[int, tuple[str, str]] = {}
    kinds = [record.get(form.kind) for record in records] if form.kind else ["insert"] * len(records)
    columns: dict[str, pl.Series] = {}
    # a promise has what it speaks of
    data = [kind not in ("cti", "count", "punctuation") for kind in kinds] if form.kind else None
    for name, dtype in schema.items():
        columns[name] = _column(records, name, dtype, data, bad, floats=floats)
    for name in form.special:
        if name in columns:
            continue
        if name == form.kind:
            columns[name] = _column(records, name, pl.String(), None, bad, floats=floats)
            continue
        if name == form.pattern:
            texts = [{name: _pattern(record.get(name))} for record in records]
            columns[name] = _column(texts, name, pl.String(), None, bad, floats=floats)
            continue
        if name == form.count:
            counts = [kind == "count" for kind in kinds]
            columns[name] = _column(records, name, pl.Int64(), counts, bad, floats=floats)
            continue
        # a promise need not say since when
        needs = [kind not in ("count", "punctuation") for kind in kinds] if form.kind else None
        if name == form.ve:
            needs = data
        elif name == form.new_ve:
            needs = [kind == "adjust" for kind in kinds]
        columns[name] = _column(records, name, None, needs, bad, floats=floats)
    if form.new_ve and form.new_ve not in schema:
        columns[form.new_ve] = _open_ends(columns[form.new_ve], records, form)
    for row, (reason, detail) in sorted(bad.items()):
        refuse(places[row], reason, detail)
    good = np.ones(len(records), dtype=np.bool_)
    good[list(bad)] = False
    rows = pl.DataFrame(columns).filter(pl.Series(good, dtype=pl.Boolean))
    return Table(rows, np.asarray(places, dtype=np.int64)[good])


def _pattern(value: object) -> object:
    """What a punctuation says beside its constants: as text, or in JSON as the object itself."""
    return json.dumps(value, default=str) if isinstance(value, dict) else value


def _open_ends(column: pl.Series, records: Sequence[Record], form: Form) -> pl.Series:
    """Where times are datetimes nothing else says INF: a new end of null does."""
    textual = [not isinstance(record.get(form.vs), int) for record in records]
    assert form.kind is not None, "only a changelog has new ends"
    adjusts = [record.get(form.kind) == "adjust" for record in records]
    both = pl.Series(textual, dtype=pl.Boolean) & pl.Series(adjusts, dtype=pl.Boolean)
    return column.zip_with(~(both & column.is_null()), pl.Series([INF], dtype=pl.Int64))


def _column(
    records: Sequence[Record],
    name: str,
    dtype: pl.DataType | None,
    needs: Sequence[bool] | None,
    bad: dict[int, tuple[str, str]],
    *,
    floats: Floats,
) -> pl.Series:
    """One column; without a type it is one of times. `needs` are the records that must have it."""
    try:
        values = [record[name] for record in records]
    except KeyError:
        for row, record in enumerate(records):
            if name not in record and (needs is None or needs[row]):
                bad.setdefault(row, ("missing field", f"{name!r} is missing"))
        values = [record.get(name) for record in records]
    series, misfits = fitted(name, values, dtype, floats)
    for row, problem in misfits.items():
        if isinstance(problem, Lacking):
            bad.setdefault(row, ("missing field", f"{str(problem)!r} is missing in {name!r}"))
            continue
        wanted = "a time" if dtype is None else str(dtype)
        bad.setdefault(row, ("wrong type", f"{name!r} is {_short(values[row])}, not {wanted}"))
    return series


# Arrow: many rows per value


def arrow_reader(form: Form, schema: pl.Schema) -> Reader:
    """Reads a stream of Arrow per value. Its rows have types, so that a whole value fits or does not."""
    needed = [*dict.fromkeys([*schema, *form.special])]

    def read(values: pl.Series, refuse: Refuse) -> Iterator[Table]:
        waiting: list[tuple[int, pl.DataFrame]] = []
        for place, value in enumerate(values):
            if value is None:
                refuse(place, "no value", "")
                continue
            try:
                table = pa.ipc.open_stream(value).read_all()
                table.validate(full=True)
                if form.pattern is not None and form.pattern not in table.column_names:
                    # only who promises ranges and lists needs it
                    none = pa.nulls(table.num_rows, pa.large_string())
                    table = table.append_column(form.pattern, none)
                missing = [name for name in needed if name not in table.column_names]
                twice = [name for name in needed if table.column_names.count(name) > 1]
                if twice:
                    raise ValueError(f"{twice[0]!r} is there twice")
                rows: Any = None if missing else pl.from_arrow(table.select(needed))
            except _NOT_ARROW as problem:
                refuse(place, "bad Arrow", str(problem))
                continue
            if missing:
                refuse(place, "missing field", f"{missing[0]!r} is missing")
                continue
            if waiting and waiting[-1][1].schema != rows.schema:
                yield _joined(waiting)
                waiting = []
            waiting.append((place, rows))
        if waiting:
            yield _joined(waiting)

    return read


_NOT_ARROW = (
    pa.ArrowException,
    OSError,
    ValueError,
    pl.exceptions.PolarsError,
    pl.exceptions.PanicException,
)
"""what is raised by bytes that are no rows, or rows of types that polars lacks; it panics at some"""


def _joined(tables: Sequence[tuple[int, pl.DataFrame]]) -> Table:
    places = [np.full(rows.height, place, dtype=np.int64) for place, rows in tables]
    return Table(pl.concat([rows for _, rows in tables]), np.concatenate(places))


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."
