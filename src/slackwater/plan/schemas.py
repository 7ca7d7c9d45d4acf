"""Schemas: the columns of a payload, as users declare them and as Polars knows them."""

from __future__ import annotations

import datetime as dt
import decimal
import difflib
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import polars as pl

from slackwater.errors import InvalidElement, PlanError
from slackwater.payloads import refuse_reserved

__all__ = [
    "polars_type",
    "require_callable",
    "require_columns",
    "require_free",
    "schema_of",
    "suggestion",
]

_PYTHON_TYPES: dict[Any, pl.DataType] = {
    bool: pl.Boolean(),
    int: pl.Int64(),
    float: pl.Float64(),
    str: pl.String(),
    bytes: pl.Binary(),
    decimal.Decimal: pl.Decimal(38, 9),
    dt.datetime: pl.Datetime("us"),
    dt.date: pl.Date(),
    dt.timedelta: pl.Duration("us"),
    dt.time: pl.Time(),
}


def schema_of(columns: Mapping[str, Any]) -> pl.Schema:
    """Names with Python or Polars types as a schema.

    >>> schema_of({"sensor": str, "temp": float})
    Schema([('sensor', String), ('temp', Float64)])
    >>> schema_of({"vs": int})
    Traceback (most recent call last):
        ...
    slackwater.errors.PlanError: a payload column cannot be named 'vs'
      detail: reserved for the stream itself: kind, vs, ve, new_ve, pattern
      hint: rename the column, for example to 'vs_'
    """
    require_free(columns)
    return pl.Schema({name: polars_type(name, dtype) for name, dtype in columns.items()})


def polars_type(name: str, dtype: Any) -> pl.DataType:
    """One column's type, refused if rows of it could not be compared."""
    known = _PYTHON_TYPES.get(dtype, dtype) if isinstance(dtype, Hashable) else dtype
    if isinstance(known, type) and issubclass(known, pl.DataType):
        known = known()
    if isinstance(known, pl.Datetime | pl.Duration) and known.time_unit == "ns":
        raise PlanError(
            f"column {name!r} is finer than a microsecond: {known}",
            detail="times and values of streams have microseconds, as Python's have",
            hint="declare it as us, or as an integer of nanoseconds",
        )
    if (
        not isinstance(known, pl.DataType)
        or isinstance(known, pl.Unknown | pl.Null)
        or _holds_objects(known)
    ):
        raise PlanError(
            f"column {name!r} has a type that a stream cannot carry: {dtype!r}",
            hint="use bool, int, float, str, bytes, Decimal, datetime, date, timedelta, time, "
            "or a Polars type",
        )
    return known


def _holds_objects(dtype: Any) -> bool:
    """Whether there are objects of Python in it, at whatever depth."""
    if isinstance(dtype, pl.List | pl.Array):
        return _holds_objects(dtype.inner)
    if isinstance(dtype, pl.Struct):
        return any(_holds_objects(field.dtype) for field in dtype.fields)
    return isinstance(dtype, pl.Object) or dtype is pl.Object


def require_free(names: Iterable[str]) -> None:
    """Refuse payload columns that bear a reserved name, or none that Polars could look up."""
    for name in names:
        if not isinstance(name, str):
            raise PlanError(
                f"{name!r} is not the name of a column", detail=f"it is of type {type(name).__name__}"
            )
        if not name:
            raise PlanError("a column needs a name", detail="it is empty")
        if any("\ud800" <= letter <= "\udfff" for letter in name):
            raise PlanError(f"a column cannot be named {name!r}", detail="it is not valid Unicode")
        try:
            refuse_reserved([name])
        except InvalidElement as problem:
            raise PlanError(problem.fact, detail=problem.detail, hint=problem.hint) from problem


def require_columns(schema: Mapping[str, Any], names: Iterable[str], who: str) -> None:
    """Refuse names that the schema does not have."""
    for name in names:
        if name not in schema:
            raise PlanError(
                f"{who}: unknown column {name!r}",
                detail=f"the input has: {', '.join(schema)}",
                hint=suggestion(name, schema),
            )


def require_callable(function: object, who: str) -> None:
    """Refuse what is not a function."""
    if not callable(function):
        raise PlanError(
            f"{who}: {function!r} cannot be called",
            detail=f"it is of type {type(function).__name__}",
            hint="give a function, for example a lambda",
        )


def suggestion(name: str, known: Iterable[str]) -> str:
    """What the writer may have meant."""
    if name in ("vs", "ve"):
        return "lifetimes are not columns: use alter_lifetime, window, shift, extend or clip"
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {close[0]!r}?" if close else ""
