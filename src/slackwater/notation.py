"""Patterns as text: how a punctuation is a row of a table.

A row of kind "punctuation" has the columns of any other. If it is about constants alone, they are values
of their own columns. If anything in it is no constant, or a null, all of it stands in the column
`pattern`, as JSON by column:

    {"temp": {"low": 20, "high": 95, "closed": "left"}, "item": {"one_of": [1001, 2004]}, "k": null}

So a reader that has not been told of that column finds nothing, instead of the half of a promise that
says more than the whole. (A constant for which JSON has no form, such as a list, stays in its column,
and of several such values each has a row of its own.) Written by others, constants may stand in their
columns beside a pattern. Bytes are texts in base64.

`vs` is the sync from which on it holds (null: all), `ve` the one before which it does (null or INF: for
ever). What holds of every payload, from some time on, has the pattern `{}`: so that it is not taken for
what lacks its values.

The three goals of paper 4 section 7.1: a punctuation is about as large as a row of what it describes,
for it is one; readers who do not understand it are not misled, for they go by the kind; and which rows
match is easily found, column by column, with the values that are compared.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import operator
import re
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from decimal import Decimal
from itertools import product
from typing import Any

import polars as pl

from slackwater.errors import InvalidElement
from slackwater.patterns import (
    Any_,
    Constant,
    Empty,
    OneOf,
    Pattern,
    Range,
    between,
    closed_name,
    fitted,
    one_of,
    pattern_of,
)

__all__ = ["EVERY_PAYLOAD", "one_by_one", "read_patterns", "written"]

EVERY_PAYLOAD = "{}"
"""the pattern of a promise that names no column"""

_PLAIN = (bool, int, float, str, Decimal, dt.date, dt.time, dt.timedelta)
"""what JSON has a form for, be it as a text"""


def written(patterns: Mapping[str, Pattern]) -> tuple[str | None, dict[str, Any]]:
    """What stands in the column of patterns, if anything; and the values of other columns.

    >>> written({"k": Constant(7), "temp": between(20, None), "n": Constant(None)})
    ('{"k": 7, "temp": {"low": 20}, "n": null}', {})
    >>> written({"k": Constant(7)})
    (None, {'k': 7})
    """
    constants = {name: each.value for name, each in patterns.items() if isinstance(each, Constant)}
    others = [each for each in patterns.values() if not isinstance(each, Constant | Any_)]
    if not others and None not in constants.values():
        return None, constants
    said: dict[str, Any] = {}
    apart: dict[str, Any] = {}
    for name, pattern in patterns.items():
        match pattern:
            case Constant(value) if value is None or isinstance(value, _PLAIN):
                said[name] = _written(value)
            case Constant(value):
                apart[name] = value
            case OneOf(values):
                said[name] = {"one_of": [_written(value) for value in values]}
            case Empty():
                said[name] = {"one_of": []}
            case Range(low, high):
                ends = {"low": low, "high": high}
                known = {end: _written(value) for end, value in ends.items() if value is not None}
                said[name] = known or {"low": None}
                closed = closed_name(pattern)
                said[name] |= {} if closed == "both" else {"closed": closed}
            case Any_():
                pass
    return json.dumps(said), apart


def one_by_one(patterns: Mapping[str, Pattern]) -> Iterator[Mapping[str, Pattern]]:
    """The same as several, if there are lists of values for which JSON has no form.

    >>> [*one_by_one({"xs": one_of([1], [2]), "n": between(0, 5)})]
    [{'xs': [1], 'n': between(0, 5)}, {'xs': [2], 'n': between(0, 5)}]
    """
    lists = {
        name: each.values
        for name, each in patterns.items()
        if isinstance(each, OneOf) and not all(_has_form(value) for value in each.values)
    }
    for row in product(*lists.values()):
        yield {**patterns, **dict(zip(lists, map(Constant, row), strict=True))}


def read_patterns(text: str, schema: Mapping[str, pl.DataType]) -> dict[str, Pattern]:
    """The patterns that a text tells, in the types of these columns; refused if it does not.

    >>> read_patterns('{"temp": {"low": 20}, "n": null}', {"temp": pl.Float64(), "n": pl.Int64()})
    {'temp': between(20.0, None), 'n': None}
    """
    try:
        # digits as they are: a decimal holds more of them than a float
        said = json.loads(text, parse_float=Decimal, object_pairs_hook=_each_once)
    except InvalidElement:
        raise
    except (ValueError, RecursionError) as problem:
        raise InvalidElement("a pattern is not JSON", detail=text) from problem
    if not isinstance(said, dict):
        raise InvalidElement("a pattern is not an object of JSON", detail=text)
    for name in said:
        if name not in schema:
            raise InvalidElement(f"a pattern of the unknown column {name!r}", detail=text)
    return {
        name: fitted(_pattern(each, schema[name]), name, schema[name]) for name, each in said.items()
    }


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, which says nothing twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidElement(f"a pattern says {twice!r} twice")
    return found


def _pattern(said: Any, dtype: pl.DataType) -> Pattern:
    if isinstance(said, dict) and said.keys() == {"one_of"} and isinstance(said["one_of"], list):
        return one_of(*(_read(value, dtype) for value in said["one_of"]))
    if isinstance(said, dict) and said and said.keys() <= {"low", "high", "closed"}:
        low, high = (_read(said.get(end), dtype) for end in ("low", "high"))
        return between(low, high, closed=said.get("closed", "both"))
    if isinstance(said, dict | list):
        raise InvalidElement(
            f"{json.dumps(_floats(said))} is not a pattern",
            hint='{"low": .., "high": .., "closed": ..}, {"one_of": [..]}, a value, or null',
        )
    return pattern_of(_read(said, dtype))


def _written(value: Any) -> Any:
    """A value in JSON; what it has no form for, as text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dt.timedelta):
        return value // dt.timedelta(microseconds=1)
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, bytes):
        return b64encode(value).decode()
    assert value is None or isinstance(value, _PLAIN), value
    return value


def _has_form(value: Any) -> bool:
    """Whether JSON has a form for it, be it as a text."""
    return value is None or isinstance(value, (*_PLAIN, bytes))


def _read(value: Any, dtype: pl.DataType) -> Any:
    try:
        if value is None:
            return None
        if dtype.is_float() and isinstance(value, str):
            return float(value)
        if dtype.is_decimal():
            return Decimal(str(value))
        if dtype == pl.Binary:
            return b64decode(value, validate=True)
        if isinstance(dtype, pl.Duration):
            return dt.timedelta(microseconds=operator.index(value))
        for kind, parsed in ((pl.Date, dt.date), (pl.Datetime, dt.datetime), (pl.Time, dt.time)):
            if isinstance(dtype, kind):
                return _exactly(parsed.fromisoformat(value), value)
    except (ValueError, TypeError, ArithmeticError) as problem:
        raise InvalidElement(f"{_floats(value)!r} is no value of type {dtype}") from problem
    return _floats(value)


def _exactly(value: Any, text: str) -> Any:
    """A time that a text tells, of which Python cuts off what is below a microsecond."""
    if re.search(r"[.,]\d{6}0*[1-9]", text):
        raise ValueError("more digits than are kept")
    return value


def _floats(said: Any) -> Any:
    """Numbers that are no integers as they are mostly meant."""
    match said:
        case Decimal():
            return float(said)
        case list():
            return [_floats(each) for each in said]
        case dict():
            return {name: _floats(each) for name, each in said.items()}
    return said
