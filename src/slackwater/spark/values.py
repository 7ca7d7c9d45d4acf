"""The values of records as tables: JSON, Avro or Arrow.

A value is read by itself, so that a bad one concerns no other: it is refused with a reason, and the rest
goes on. What was read is then put into columns of the declared types; a value that does not fit its
column is refused, never changed.

Whether the rows are elements is asked later (rows.py). Nothing here knows of Spark or of Kafka.
"""

from __future__ import annotations

import datetime as dt
import io
import json
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple, NoReturn, Protocol

import numpy as np
import polars as pl
import pyarrow as pa

from slackwater.errors import PlanError, SlackwaterError
from slackwater.rows import Form
from slackwater.times import INF, Times, chronon

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
        if any(each in (pl.Binary, pl.Duration, pl.Object) for each in _parts(dtype)):
            raise PlanError(
                f"column {name!r} cannot be read from JSON",
                detail=f"it is {dtype}",
                hint='value="avro" or value="arrow"',
            )
    decode = json.JSONDecoder(parse_constant=_not_json).decode

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
        yield _columns(records, places, form, schema, refuse)

    return read


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
    except (fastavro.schema.SchemaParseException, fastavro.schema.UnknownType) as problem:
        raise PlanError("the schema of Avro cannot be used", detail=str(problem)) from problem
    fields = [field["name"] for field in parsed["fields"]]
    for name in (*schema, *form.special):
        if name not in fields:
            raise PlanError(
                f"the schema of Avro has no field {name!r}", detail=f"it has: {', '.join(fields)}"
            )
    # what fastavro raises on bytes that are not what the schema says
    broken = (EOFError, ValueError, IndexError, KeyError, TypeError, OverflowError, struct.error)

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
        yield _columns(records, places, form, schema, refuse)

    return read


Record = Mapping[str, Any]


def _columns(
    records: Sequence[Record], places: Sequence[int], form: Form, schema: pl.Schema, refuse: Refuse
) -> Table:
    """Records as columns of the declared types; those that do not fit are refused."""
    bad: dict[int, tuple[str, str]] = {}
    kinds = [record.get(form.kind) for record in records] if form.kind else ["insert"] * len(records)
    columns: dict[str, pl.Series] = {}
    for name, dtype in schema.items():
        needs = [kind != "cti" for kind in kinds] if form.kind else None
        columns[name] = _column(records, name, dtype, needs, bad)
    for name in form.special:
        if name in columns:
            continue
        if name == form.kind:
            columns[name] = _column(records, name, pl.String(), None, bad)
            continue
        needs = None
        if name == form.ve and form.kind:
            needs = [kind != "cti" for kind in kinds]
        elif name == form.new_ve:
            needs = [kind == "adjust" for kind in kinds]
        columns[name] = _column(records, name, None, needs, bad)
    if form.new_ve and form.new_ve not in schema:
        columns[form.new_ve] = _open_ends(columns[form.new_ve], records, form)
    for row, (reason, detail) in sorted(bad.items()):
        refuse(places[row], reason, detail)
    good = np.ones(len(records), dtype=np.bool_)
    good[list(bad)] = False
    rows = pl.DataFrame(columns).filter(pl.Series(good, dtype=pl.Boolean))
    return Table(rows, np.asarray(places, dtype=np.int64)[good])


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
) -> pl.Series:
    """One column; without a type it is one of times. `needs` are the records that must have it."""
    try:
        values = [record[name] for record in records]
    except KeyError:
        for row, record in enumerate(records):
            if name not in record and (needs is None or needs[row]):
                bad.setdefault(row, ("missing field", f"{name!r} is missing"))
        values = [record.get(name) for record in records]
    series, misfits = _series(name, values, dtype)
    for row in misfits:
        wanted = "a time" if dtype is None else str(dtype)
        bad.setdefault(row, ("wrong type", f"{name!r} is {_short(values[row])}, not {wanted}"))
    return series


def _series(name: str, values: list[Any], dtype: pl.DataType | None) -> tuple[pl.Series, list[int]]:
    """The values as a column, with null for those that do not fit, and which these are."""
    wanted = pl.Int64() if dtype is None else dtype
    change = _change(dtype)
    plain = _PLAIN.get(wanted.base_type()) if dtype is None or not dtype.is_nested() else None
    try:
        if plain is None or not set(map(type, values)) <= plain:
            values = [change(value) for value in values]
        return _built(name, values, wanted), []
    except _MISFITS:
        pass
    kept: list[Any] = []
    misfits: list[int] = []
    for row, value in enumerate(values):
        try:
            changed = change(value)
            _built(name, [changed], wanted)
        except _MISFITS:
            changed = None
            misfits.append(row)
        kept.append(changed)
    return _built(name, kept, wanted), misfits


_MISFITS = (
    TypeError,
    ValueError,
    OverflowError,
    InvalidOperation,
    SlackwaterError,
    pl.exceptions.PolarsError,
    pl.exceptions.PanicException,
)
"""what is raised by a value that does not fit; polars panics at some of them"""
_WHOLE: set[type] = {int, type(None)}
_PLAIN: dict[Any, set[type]] = {
    **dict.fromkeys((pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.Int128), _WHOLE),
    **dict.fromkeys((pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64), _WHOLE),
    pl.Float64: {float, type(None)},
    pl.Boolean: {bool, type(None)},
    pl.String: {str, type(None)},
}
"""columns of these types can be made of values of these types as they are"""


def _built(name: str, values: list[Any], dtype: pl.DataType) -> pl.Series:
    if isinstance(dtype, pl.Datetime):
        # as UTC, which has every instant once
        plain = pl.Series(name, values, pl.Datetime("us"), strict=True).cast(
            pl.Datetime(dtype.time_unit)
        )
        if dtype.time_zone is None:
            return plain
        return plain.dt.replace_time_zone("UTC").dt.convert_time_zone(dtype.time_zone)
    series = pl.Series(name, values, dtype, strict=True)
    if series.dtype != dtype or (dtype.is_decimal() and series.to_list() != values):
        # a decimal of more digits would be rounded
        raise TypeError(f"not {dtype}")
    return series


def _change(dtype: pl.DataType | None) -> Callable[[Any], Any]:
    """What a value becomes in a column of that type; it raises if it does not fit."""
    if dtype is None:
        return _time
    if dtype.is_float():
        return _float
    if isinstance(dtype, pl.Datetime):
        return _datetime
    if dtype.is_decimal():
        return _decimal
    if dtype == pl.Date:
        return lambda value: dt.date.fromisoformat(value) if isinstance(value, str) else _date(value)
    if dtype == pl.Time:
        return lambda value: dt.time.fromisoformat(value) if isinstance(value, str) else _clock(value)
    if dtype.is_integer():
        return _of_type(int)
    for known, type_ in ((pl.Boolean, bool), (pl.Binary, bytes), (pl.Duration, dt.timedelta)):
        if dtype == known:
            return _of_type(type_)
    if dtype in (pl.String, pl.Categorical, pl.Enum):
        return _of_type(str)
    return lambda value: value


def _of_type(type_: type) -> Callable[[Any], Any]:
    def change(value: Any) -> Any:
        if value is not None and type(value) is not type_:
            raise TypeError(f"{value!r}")
        return value

    return change


_date, _clock = _of_type(dt.date), _of_type(dt.time)


def _time(value: Any) -> int | None:
    if value is None or type(value) is int:
        return value
    if isinstance(value, str):
        value = dt.datetime.fromisoformat(value)
    if not isinstance(value, dt.date):
        raise TypeError(f"{value!r}")
    return chronon(value)


_NOT_FINITE = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
"""how JSON says them, which has no numbers for them"""


def _float(value: Any) -> float | None:
    if value is None or type(value) is float:
        return value
    if type(value) is int:
        return float(value)
    if isinstance(value, str) and value in _NOT_FINITE:
        return _NOT_FINITE[value]
    raise TypeError(f"{value!r}")


def _datetime(value: Any) -> dt.datetime | None:
    if value is None:
        return None
    if isinstance(value, str):
        value = dt.datetime.fromisoformat(value)
    if not isinstance(value, dt.datetime):
        raise TypeError(f"{value!r}")
    return value if value.tzinfo is None else value.astimezone(dt.UTC).replace(tzinfo=None)


def _decimal(value: Any) -> Decimal | None:
    if value is None:
        return None
    if type(value) not in (Decimal, str, int, float):
        raise TypeError(f"{value!r}")
    number = Decimal(str(value))
    if not number.is_finite():
        raise ValueError(f"{value!r}")
    return number


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
                missing = [name for name in needed if name not in table.column_names]
                rows: Any = None if missing else pl.from_arrow(table.select(needed))
            except (pa.ArrowException, OSError, ValueError, pl.exceptions.PolarsError) as problem:
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


def _joined(tables: Sequence[tuple[int, pl.DataFrame]]) -> Table:
    places = [np.full(rows.height, place, dtype=np.int64) for place, rows in tables]
    return Table(pl.concat([rows for _, rows in tables]), np.concatenate(places))


def _parts(dtype: pl.DataType) -> Iterator[pl.DataType]:
    yield dtype
    if isinstance(dtype, pl.List | pl.Array):
        yield from _parts(_dtype(dtype.inner))
    elif isinstance(dtype, pl.Struct):
        for each in dtype.fields:
            yield from _parts(_dtype(each.dtype))


def _dtype(given: Any) -> pl.DataType:
    made: pl.DataType = given() if isinstance(given, type) else given
    return made


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."
