"""Payloads: the user's columns of an event, as Python values and as typed columns.

Values become columns of declared types, or of inferred ones, and come back as they were: a value that a
type would change (round, cut off, convert) is refused, and so are names that the stream needs itself.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import polars as pl

from slackwater.errors import InvalidElement
from slackwater.identity import identity

__all__ = ["RESERVED", "Payload", "payload_frame", "refuse_reserved"]

RESERVED = ("kind", "vs", "ve", "new_ve", "pattern")
"""Column names that a payload may not use: they are the columns of a changelog."""

Payload: TypeAlias = Mapping[str, Any]

_REFUSED = (
    TypeError,
    OverflowError,
    UnicodeEncodeError,
    pl.exceptions.PolarsError,
    # decimals that are no numbers
    pl.exceptions.PanicException,
)
"""what polars raises of values that a column cannot hold"""


def refuse_reserved(names: Iterable[str]) -> None:
    """Raise if a payload uses a name that a changelog needs for itself, or polars for patterns."""
    names = list(names)
    taken = [name for name in names if name in RESERVED]
    if taken:
        raise InvalidElement(
            f"a payload column cannot be named {taken[0]!r}",
            detail=f"reserved for the stream itself: {', '.join(RESERVED)}",
            hint=f"rename the column, for example to '{taken[0]}_'",
        )
    patterns = [name for name in names if name == "*" or name[:1] + name[-1:] == "^$"]
    if patterns:
        raise InvalidElement(
            f"a payload column cannot be named {patterns[0]!r}",
            detail="polars, which computes with the columns, reads it as a pattern of names",
            hint="rename the column; only '*' and names from '^' to '$' are such patterns",
        )


def payload_frame(payloads: Sequence[Payload], schema: pl.Schema | None) -> pl.DataFrame:
    """Payloads as columns of the given types, or of inferred ones; what does not fit is refused."""
    if schema is None:
        return _inferred(payloads)
    for payload in payloads:
        if payload.keys() != schema.keys():
            _refuse_columns(payload, schema)
    try:
        columns = {
            name: pl.Series(name, [payload[name] for payload in payloads], dtype, strict=True)
            for name, dtype in schema.items()
        }
    except _REFUSED as problem:
        _refuse_value(payloads, schema, problem)
    if any(series.dtype != schema[name] for name, series in columns.items()):
        _refuse_value(payloads, schema, TypeError("a datetime that polars gives another type"))
    for name, series in columns.items():
        _refuse_change(series, [payload[name] for payload in payloads])
    return pl.DataFrame(columns or None, height=len(payloads))


def _refuse_change(series: pl.Series, values: Sequence[Any]) -> None:
    """Polars rounds, cuts off and converts where types nearly fit: none of that is ours to do.

    Floats of 32 bits are rounded on purpose.
    """
    if series.dtype == pl.Float32:
        return
    is_number = series.dtype.is_numeric()
    for kept, given in zip(series.to_list(), values, strict=True):
        if kept is given or (type(kept) is type(given) and kept == given):
            continue
        is_flag = is_number and isinstance(given, bool)
        if is_flag or _unhashable(given) or identity(kept) != identity(given):
            raise InvalidElement(
                f"column {series.name!r} cannot hold {given!r} exactly",
                detail=f"as {series.dtype} it would become {kept!r}",
                hint="round or convert the value yourself, or declare the stream with another type",
            )


def _unhashable(value: object) -> bool:
    return not isinstance(value, Hashable | Mapping | list)


def _inferred(payloads: Sequence[Payload]) -> pl.DataFrame:
    names = list(payloads[0]) if payloads else []
    for payload in payloads:
        refuse_reserved(payload)
        if payload.keys() != set(names):
            _refuse_columns(payload, dict.fromkeys(names))
    columns = {name: [payload[name] for payload in payloads] for name in names}
    try:
        frame = pl.DataFrame(columns or None, height=len(payloads), strict=True)
    except (*_REFUSED, ValueError) as problem:
        raise InvalidElement(
            "the payloads of one stream must have one type per column",
            detail=str(problem).splitlines()[0],
            hint="declare the types with sw.stream({...}), or make the values alike",
        ) from problem
    for name, series in zip(names, frame.get_columns(), strict=True):
        if isinstance(series.dtype, pl.Object):
            raise InvalidElement(
                f"column {name!r} holds values that a stream cannot carry",
                detail=f"for example {columns[name][0]!r}",
                hint="use Python's or Polars' own types",
            )
        _refuse_change(series, columns[name])
    return frame


def _refuse_columns(payload: Payload, schema: Mapping[str, Any]) -> None:
    unknown = [name for name in payload if name not in schema]
    missing = [name for name in schema if name not in payload]
    fact = f"unknown column {unknown[0]!r}" if unknown else f"column {missing[0]!r} is missing"
    raise InvalidElement(
        fact,
        detail=f"payload: {dict(payload)}; the stream has: {', '.join(schema) or 'no columns'}",
        hint="every element of a stream has exactly its columns; use None for an absent value",
    )


def _refuse_value(payloads: Sequence[Payload], schema: pl.Schema, problem: BaseException) -> None:
    for payload in payloads:
        for name, dtype in schema.items():
            if not _fits(payload[name], dtype):
                raise InvalidElement(
                    f"column {name!r} cannot hold {payload[name]!r}",
                    detail=f"it is of type {dtype}; payload: {dict(payload)}",
                    hint="convert the value, or declare the stream with another type",
                ) from problem
    raise problem


def _fits(value: object, dtype: pl.DataType) -> bool:
    try:
        return pl.Series([value], dtype=dtype, strict=True).dtype == dtype
    except _REFUSED:
        return False
