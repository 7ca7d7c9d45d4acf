"""Payloads to draw: few distinct values per column, so that equal ones are common.

Among them is what row identity and arithmetic stumble over: nulls, NaN, both zeros, infinities,
decimals that no float can hold, strings that only look equal, lists and structs.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from functools import cache
from string import ascii_lowercase
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

import polars as pl
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from polars.datatypes import DataTypeClass

from slackwater.errors import SlackwaterError

__all__ = ["Columns", "payloads", "schemas", "values"]

Columns: TypeAlias = Mapping[str, SearchStrategy[Any]]
"""Strategies for the values of some columns, by name."""

DType: TypeAlias = pl.DataType | DataTypeClass

_FLAT: tuple[DType, ...] = (
    pl.Int64(),
    pl.String(),
    pl.Float64(),
    pl.Decimal(38, 2),
    pl.Datetime("us"),
    pl.Boolean(),
)
_NESTED: tuple[DType, ...] = (
    pl.List(pl.Int64()),
    pl.Struct({"x": pl.Float64(), "y": pl.String()}),
)

# The first value of a pool is what examples shrink to.
_INTEGERS = (0, 1, 2, 3)
# two spellings of one letter, composed and decomposed, are different values
_STRINGS = ("a", "b", "", "A", "\u00e9", "e\u0301", "\U0001f30a")
_FLOATS = (0.0, 1.0, -0.0, float("nan"), 0.5, -2.0, float("inf"), float("-inf"))
# the last fits neither a float nor 64 bits
_DECIMAL_UNITS = (0, 1, 10, -150, 1234567890123456789012)
_EPOCH = dt.datetime(1970, 1, 1)
_DATETIMES = (_EPOCH, dt.datetime(2024, 2, 29, 12), dt.datetime(1969, 12, 31, 23, 59, 59))
_SECONDS = (0, 1, -1, 86400)


def values(dtype: DType, *, nullable: bool = True) -> SearchStrategy[Any]:
    """Values of a payload column of the given type: few distinct ones, edge cases among them.

    `nullable` permits None, also inside lists and structs.

    >>> from slackwater.testing import simplest
    >>> simplest(values(pl.Decimal(38, 2)), lambda value: value is not None and value < 0)
    Decimal('-1.50')
    >>> simplest(values(pl.List(pl.String)), lambda value: value is not None and len(value) == 2)
    ['a', 'a']
    """
    return _values(_instance(dtype), nullable)


def schemas(
    *, min_columns: int = 1, max_columns: int = 3, dtypes: Sequence[DType] = ()
) -> SearchStrategy[pl.Schema]:
    """Payload schemas: columns a, b, ... of the given types.

    By default they are of integers, strings, floats, decimals, timestamps and booleans, and less
    often of lists and structs.

    >>> from slackwater.testing import simplest
    >>> dict(simplest(schemas(), lambda schema: len(schema) == 2))
    {'a': Int64, 'b': Int64}
    """
    pool = st.sampled_from(tuple(dtypes) or (*_FLAT, *_FLAT, *_NESTED))
    columns = st.lists(pool, min_size=min_columns, max_size=max_columns)
    return columns.map(lambda drawn: pl.Schema(zip(ascii_lowercase, drawn, strict=False)))


def payloads(schema: pl.Schema, columns: Columns | None = None) -> SearchStrategy[dict[str, Any]]:
    """Payloads of a schema. `columns` replaces the strategies of the columns that it names.

    >>> from slackwater.testing import simplest
    >>> schema = pl.Schema({"sensor": pl.String, "temp": pl.Float64})
    >>> simplest(payloads(schema, {"temp": st.integers(30, 40).map(float)}))
    {'sensor': 'a', 'temp': 30.0}
    """
    if not columns:
        return _payloads(tuple(schema.items()))
    unknown = [name for name in columns if name not in schema]
    if unknown:
        raise SlackwaterError(
            f"unknown column {unknown[0]!r}", detail=f"the schema has: {', '.join(schema)}"
        )
    return _records(
        (name, columns[name] if name in columns else values(dtype)) for name, dtype in schema.items()
    )


@cache
def _payloads(schema: tuple[tuple[str, DType], ...]) -> SearchStrategy[dict[str, Any]]:
    """Cached: a test asks for the same payloads thousands of times."""
    return _records((name, values(dtype)) for name, dtype in schema)


def _records(
    fields: Iterable[tuple[str, SearchStrategy[Any]]],
) -> SearchStrategy[dict[str, Any]]:
    """Dictionaries with these fields in this order (`fixed_dictionaries` keeps none)."""
    strategies = dict(fields)
    names = tuple(strategies)
    return st.tuples(*strategies.values()).map(lambda drawn: dict(zip(names, drawn, strict=True)))


@cache
def _values(dtype: pl.DataType, nullable: bool) -> SearchStrategy[Any]:
    if isinstance(dtype, pl.List):
        present: SearchStrategy[Any] = st.lists(_values(_instance(dtype.inner), nullable), max_size=2)
    elif isinstance(dtype, pl.Struct):
        present = _records((f.name, _values(_instance(f.dtype), nullable)) for f in dtype.fields)
    else:
        # null is one of the pool, not an alternative to it: examples shrink to the first value
        return st.sampled_from([*_pool(dtype), None] if nullable else _pool(dtype))
    return present | st.none() if nullable else present


def _instance(dtype: DType) -> pl.DataType:
    return dtype if isinstance(dtype, pl.DataType) else dtype()


def _pool(dtype: pl.DataType) -> Sequence[Any]:
    if dtype.is_unsigned_integer():
        return _INTEGERS
    if dtype.is_integer():
        return (*_INTEGERS, -1)
    if dtype.is_float():
        return _FLOATS
    if isinstance(dtype, pl.String):
        return _STRINGS
    if isinstance(dtype, pl.Boolean):
        return (False, True)
    if isinstance(dtype, pl.Decimal):
        fitting = (unit for unit in _DECIMAL_UNITS if len(str(abs(unit))) <= dtype.precision)
        return [Decimal(unit).scaleb(-dtype.scale) for unit in fitting]
    if isinstance(dtype, pl.Datetime):
        return _datetimes(dtype)
    if isinstance(dtype, pl.Date):
        return [time.date() for time in _DATETIMES]
    if isinstance(dtype, pl.Duration):
        return [dt.timedelta(seconds=seconds) for seconds in _SECONDS]
    raise SlackwaterError(
        f"no values are known for columns of type {dtype}",
        hint="give a strategy for the column: columns={'name': st.sampled_from([...])}",
    )


def _datetimes(dtype: pl.Datetime) -> list[dt.datetime]:
    """Some of them one tick apart, at the finest resolution that both the type and Python have."""
    tick = dt.timedelta(milliseconds=1) if dtype.time_unit == "ms" else dt.timedelta(microseconds=1)
    times = [*_DATETIMES, _EPOCH + tick, _EPOCH - tick]
    if dtype.time_zone is None:
        return times
    zone = ZoneInfo(dtype.time_zone)
    return [time.replace(tzinfo=dt.UTC).astimezone(zone) for time in times]
