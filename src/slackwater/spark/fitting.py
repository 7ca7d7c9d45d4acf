"""Values of records in columns of declared types: as they are, or not at all.

A value fits a column if the column can say it. Nothing is cut, rounded, parsed or filled in to make it
fit, at whatever depth: the one exception is a number with a point in JSON, which is as near as a column
of floats comes. What does not fit is null in the column, and is told with its row.

Polars would build many a column by converting what it is given. So each value is judged here first
(`change`), and polars gets only what it can take over: `stored` says of which type.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import struct
from collections.abc import Callable
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any

import polars as pl

from slackwater.errors import SlackwaterError
from slackwater.times import chronon

__all__ = ["Change", "Floats", "Lacking", "fitted", "floats_of_avro", "floats_of_json", "inner_types"]

Change = Callable[[Any], Any]
"""what a value becomes in a column; it raises if it does not fit"""
Floats = Callable[[pl.DataType], Change]
"""how the numbers of a format go into a column of floats"""


class Lacking(ValueError):
    """A struct has no field of that name."""


_MISFITS = (
    TypeError,
    ValueError,
    ArithmeticError,
    struct.error,
    SlackwaterError,
    pl.exceptions.PolarsError,
    pl.exceptions.PanicException,
)
"""what is raised by a value that does not fit; polars panics at some of them"""


def fitted(
    name: str, values: list[Any], dtype: pl.DataType | None, floats: Floats
) -> tuple[pl.Series, dict[int, BaseException]]:
    """The values as a column, with null for those that do not fit, and which these are.

    Without a type it is a column of times.
    """
    wanted = pl.Int64() if dtype is None else dtype
    if set(map(type, values)) <= _PLAIN.get(wanted.base_type(), set()):
        try:
            return _plain(name, values, wanted), {}
        except _MISFITS:
            pass
    change = _time if dtype is None else _change(dtype, floats)
    try:
        changed = [None if value is None else change(value) for value in values]
        return _built(name, changed, wanted), {}
    except _MISFITS:
        return _one_by_one(name, values, wanted, change)


def _one_by_one(
    name: str, values: list[Any], dtype: pl.DataType, change: Change
) -> tuple[pl.Series, dict[int, BaseException]]:
    kept: list[Any] = []
    misfits: dict[int, BaseException] = {}
    for row, value in enumerate(values):
        try:
            kept.append(None if value is None else change(value))
        except _MISFITS as problem:
            kept.append(None)
            misfits[row] = problem
    try:
        return _built(name, kept, dtype), misfits
    except _MISFITS:
        pass
    for row, value in enumerate(kept):
        try:
            _built(name, [value], dtype)
        except _MISFITS as problem:
            kept[row] = None
            misfits[row] = problem
    return _built(name, kept, dtype), misfits


_WHOLE: set[type] = {int, type(None)}
_PLAIN: dict[Any, set[type]] = {
    **dict.fromkeys((pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.Int128), _WHOLE),
    **dict.fromkeys((pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64), _WHOLE),
    pl.Float64: {float, type(None)},
    pl.Boolean: {bool, type(None)},
    pl.String: {str, type(None)},
}
"""columns of these types can be made of values of these types as they are"""


def _plain(name: str, values: list[Any], dtype: pl.DataType) -> pl.Series:
    series = pl.Series(name, values, dtype, strict=True)
    if dtype.is_float() and series.is_infinite().any():
        # whether it was said or is an overflow, the format knows
        raise OverflowError("infinite")
    return series


def _built(name: str, values: list[Any], dtype: pl.DataType) -> pl.Series:
    series = pl.Series(name, values, _stored(dtype), strict=True).cast(dtype)
    if series.dtype != dtype:
        raise TypeError(f"not {dtype}")
    return series


def _stored(dtype: pl.DataType) -> pl.DataType:
    """The type with integers for times: these have an exact way into polars, in every unit and zone."""
    if isinstance(dtype, pl.Datetime) or dtype == pl.Time:
        return pl.Int64()
    if isinstance(dtype, pl.Array):
        return pl.Array(_stored(_dtype(dtype.inner)), dtype.size)
    if isinstance(dtype, pl.List):
        return pl.List(_stored(_dtype(dtype.inner)))
    if isinstance(dtype, pl.Struct):
        return pl.Struct({each.name: _stored(_dtype(each.dtype)) for each in dtype.fields})
    return dtype


def inner_types(dtype: pl.DataType) -> list[pl.DataType]:
    """The type itself, and all that are in it."""
    inner: list[pl.DataType] = []
    if isinstance(dtype, pl.List | pl.Array):
        inner = [_dtype(dtype.inner)]
    elif isinstance(dtype, pl.Struct):
        inner = [_dtype(each.dtype) for each in dtype.fields]
    return [dtype, *(part for each in inner for part in inner_types(each))]


def _dtype(given: Any) -> pl.DataType:
    made: pl.DataType = given() if isinstance(given, type) else given
    return made


def _change(dtype: pl.DataType, floats: Floats) -> Change:
    if isinstance(dtype, pl.List | pl.Array):
        return _each(_change(_dtype(dtype.inner), floats))
    if isinstance(dtype, pl.Struct):
        return _fields({each.name: _change(_dtype(each.dtype), floats) for each in dtype.fields})
    if dtype.is_float():
        return floats(dtype)
    if dtype.is_integer():
        return _integer(dtype)
    if isinstance(dtype, pl.Decimal):
        return _decimal(dtype)
    if isinstance(dtype, pl.Datetime):
        return _datetime(dtype)
    for known, change in _OTHERS.items():
        if dtype == known:
            return change
    return lambda value: value


def _each(change: Change) -> Change:
    def changed(value: Any) -> Any:
        if not isinstance(value, list):
            raise TypeError("not a list")
        return [None if each is None else change(each) for each in value]

    return changed


def _fields(changes: dict[str, Change]) -> Change:
    def changed(value: Any) -> Any:
        if not isinstance(value, dict):
            raise TypeError("not a struct")
        for name in changes:
            if name not in value:
                raise Lacking(name)
        return {
            name: None if value[name] is None else change(value[name])
            for name, change in changes.items()
        }

    return changed


def _of_type(type_: type) -> Change:
    def change(value: Any) -> Any:
        if type(value) is not type_:
            raise TypeError(f"not {type_.__name__}")
        return value

    return change


# Numbers


def _integer(dtype: pl.DataType) -> Change:
    unsigned, bits = str(dtype).startswith("U"), int(str(dtype).removeprefix("U").removeprefix("Int"))
    low, high = (0, 2**bits) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1))

    def change(value: Any) -> int:
        if type(value) is not int:
            raise TypeError("not an integer")
        if not low <= value < high:
            raise OverflowError(f"not {dtype}")
        return value

    return change


_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""how JSON says them, which has no numbers for them"""

_NUMBERS = (float, int, Decimal)


def floats_of_json(dtype: pl.DataType) -> Change:
    """A number with a point or an exponent is the nearest float; an integer is itself."""
    nearest = _nearest(dtype)

    def change(value: Any) -> float:
        if type(value) not in _NUMBERS:
            return _not_finite(value)
        number = nearest(value)
        if not math.isfinite(number) or (type(value) is int and number != value):
            raise OverflowError("no float")
        return number

    return change


def floats_of_avro(dtype: pl.DataType) -> Change:
    """All numbers are themselves."""
    nearest = _nearest(dtype)

    def change(value: Any) -> float:
        if type(value) is float and not math.isfinite(value):
            return value
        if type(value) is not int and type(value) is not float:
            return _not_finite(value)
        number = nearest(value)
        if number != value:
            raise ValueError("it would be rounded")
        return number

    return change


def _nearest(dtype: pl.DataType) -> Callable[[Any], float]:
    if dtype == pl.Float64:
        return float
    form = struct.Struct("f" if dtype == pl.Float32 else "e")

    def nearest(value: Any) -> float:
        number: float = form.unpack(form.pack(value))[0]
        return number

    return nearest


def _not_finite(value: Any) -> float:
    if isinstance(value, str) and value in _NOT_FINITE:
        return _NOT_FINITE[value]
    raise TypeError("not a number")


def _decimal(dtype: pl.Decimal) -> Change:
    exact = Context(prec=dtype.precision, traps=[Inexact, InvalidOperation])
    step = Decimal(1).scaleb(-dtype.scale)

    def change(value: Any) -> Decimal:
        if type(value) not in _NUMBERS and type(value) is not str:
            raise TypeError("not a decimal")
        number = Decimal(repr(value)) if type(value) is float else Decimal(value)
        if not number.is_finite():
            raise ValueError("not a number")
        return number.quantize(step, context=exact)

    return change


# Times


_MICROSECOND = 1_000
_UNITS = {"ns": 1, "us": _MICROSECOND, "ms": 1_000_000}
"""in nanoseconds"""
_FINER = re.compile(r"[.,][0-9]{7}")
_FINE = re.compile(r"(.{0,10}[^.,+-]*[.,][0-9]{6})([0-9]{1,3})0*((?![0-9])[^.,]*)")
"""a text of ISO 8601 with a finer fraction than Python reads; one behind a sign is of an offset"""


def _split(text: str) -> tuple[str, int]:
    """What Python reads of a text, and the nanoseconds that it would leave out."""
    if not _FINER.search(text):
        return text, 0
    found = _FINE.fullmatch(text)
    if found is None:
        raise ValueError("finer than a nanosecond")
    return found[1] + found[3], int(found[2].ljust(3, "0"))


def _count(value: str | dt.date, unit: int) -> int:
    """The instant in units since 1970."""
    finer = 0
    if isinstance(value, str):
        text, finer = _split(value)
        value = dt.datetime.fromisoformat(text)
    if unit == _MICROSECOND and not finer:
        return chronon(value)
    count, rest = divmod(chronon(value) * _MICROSECOND + finer, unit)
    if rest:
        raise ValueError("it would be cut")
    return count


def _time(value: Any) -> int:
    """An instant of the stream: chronons, or a date, or a text."""
    if type(value) is int:
        return value
    if not isinstance(value, (str, dt.date)):
        raise TypeError("not a time")
    return _count(value, _MICROSECOND)


def _datetime(dtype: pl.Datetime) -> Change:
    unit = _UNITS[dtype.time_unit]

    def change(value: Any) -> int:
        if not isinstance(value, (str, dt.datetime)):
            raise TypeError("not a datetime")
        return _count(value, unit)

    return change


def _date(value: Any) -> dt.date:
    if isinstance(value, str):
        return dt.date.fromisoformat(value)
    day: dt.date = _of_type(dt.date)(value)
    return day


def _clock(value: Any) -> int:
    """The nanoseconds since midnight."""
    finer = 0
    if isinstance(value, str):
        text, finer = _split(value)
        value = dt.time.fromisoformat(text)
    if not isinstance(value, dt.time) or value.tzinfo is not None:
        raise TypeError("not a time of day, or one of a zone")
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return (seconds * 1_000_000 + value.microsecond) * _MICROSECOND + finer


_OTHERS: dict[Any, Change] = {
    pl.Boolean: _of_type(bool),
    pl.Binary: _of_type(bytes),
    pl.Duration: _of_type(dt.timedelta),
    pl.String: _of_type(str),
    pl.Categorical: _of_type(str),
    pl.Enum: _of_type(str),
    pl.Date: _date,
    pl.Time: _clock,
    pl.Null: _of_type(type(None)),
}
