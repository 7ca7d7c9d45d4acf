"""Time: int64 chronons, INF, and how datetimes, timedeltas and strings become them.

A chronon is the smallest step of application time. Integers are taken as they are; datetimes and
durations become microseconds (naive datetimes are read as UTC). `INF` is the end of time: it absorbs
addition and subtraction, so that an unbounded lifetime stays unbounded. `BEGIN` lies before every
chronon and stands for "nothing promised yet".

Paper 1a section 2.1 (discrete time, chronons).
"""

from __future__ import annotations

import datetime as dt
import math
import operator
import re
from fractions import Fraction
from typing import SupportsIndex, TypeAlias, overload

import numpy as np
import numpy.typing as npt
from numba import vectorize

from slackwater.errors import InvalidTime

__all__ = [
    "BEGIN",
    "INF",
    "Duration",
    "Instant",
    "Times",
    "chronon",
    "duration",
    "plus",
    "show",
    "show_length",
    "to_datetime",
]

INF = 2**63 - 1
BEGIN = -(2**63)

Times: TypeAlias = npt.NDArray[np.int64]
Instant: TypeAlias = SupportsIndex | dt.date | None
Duration: TypeAlias = SupportsIndex | dt.timedelta | str | float

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)

_UNITS = {
    unit: micros
    for names, micros in (
        ("us usec microsecond microseconds", 1),
        ("ms msec millisecond milliseconds", 10**3),
        ("s sec second seconds", 10**6),
        ("m min minute minutes", 60 * 10**6),
        ("h hour hours", 3600 * 10**6),
        ("d day days", 86400 * 10**6),
        ("w week weeks", 7 * 86400 * 10**6),
    )
    for unit in names.split()
}
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*")


def chronon(value: Instant | float) -> int:
    """Read an instant: an int, a date or datetime, `INF`, or None for INF.

    >>> chronon(12)
    12
    >>> chronon(dt.datetime(1970, 1, 1, 0, 0, 1))
    1000000
    >>> chronon(None) == INF
    True
    """
    if value is None or value == math.inf:
        return INF
    if isinstance(value, dt.date) and value != value:  # noqa: PLR0124  # pandas' NaT is a datetime
        raise InvalidTime("NaT is not a time", hint="an end that is not known yet is None, or INF")
    if isinstance(value, dt.datetime):
        aware = value if value.tzinfo is not None else value.replace(tzinfo=dt.UTC)
        return (aware - _EPOCH) // _MICROSECOND
    if isinstance(value, dt.date):
        return chronon(dt.datetime(value.year, value.month, value.day))
    return _integer(value, "a time")


def duration(value: Duration) -> int:
    """Read a length of time: chronons, a timedelta, a string such as "1 h 30 min", or INF.

    >>> duration("1 h 30 min") == duration(dt.timedelta(minutes=90)) == 5_400_000_000
    True
    >>> duration("-5 s")
    -5000000
    >>> duration("10 parsecs")
    Traceback (most recent call last):
        ...
    slackwater.errors.InvalidTime: '10 parsecs' is not a duration
      detail: 'parsecs' is not a unit of time
      hint: write a number and a unit, for example '10 min', '1 h 30 min' or '250 ms'
    """
    if isinstance(value, str):
        return _parse(value)
    if isinstance(value, dt.timedelta):
        return value // _MICROSECOND
    if value == math.inf:
        return INF
    return _integer(value, "a duration")


def _integer(value: object, what: str) -> int:
    if isinstance(value, bool | np.bool_) or not hasattr(value, "__index__"):
        raise InvalidTime(
            f"{value!r} is not {what}",
            detail=f"it is of type {type(value).__name__}",
            hint="give an int (chronons), or "
            + ("a datetime" if what == "a time" else "a timedelta or a string such as '10 min'"),
        )
    integer = operator.index(value)
    if not BEGIN <= integer <= INF:
        raise InvalidTime(f"{value!r} does not fit 64 bits", detail="times are int64 chronons")
    return int(integer)


def _parse(text: str) -> int:
    body = text.strip().lower()
    sign = -1 if body.startswith("-") else 1
    body = body.removeprefix("-")
    total, at = Fraction(0), 0
    hint = "write a number and a unit, for example '10 min', '1 h 30 min' or '250 ms'"
    if body in ("inf", "infinity") and sign > 0:
        return INF
    while at < len(body):
        part = _PART.match(body, at)
        if part is None:
            raise InvalidTime(f"{text!r} is not a duration", hint=hint)
        number, unit = part.groups()
        if unit not in _UNITS:
            detail = f"{unit!r} is not a unit of time"
            raise InvalidTime(f"{text!r} is not a duration", detail=detail, hint=hint)
        total += Fraction(number) * _UNITS[unit]
        at = part.end()
    if not body or total.denominator != 1:
        raise InvalidTime(f"{text!r} is not a whole number of microseconds", hint=hint)
    return sign * int(total)


@vectorize(["int64(int64, int64)"], cache=True)  # type: ignore[no-untyped-call, untyped-decorator]
def _plus(time: int, length: int) -> int:
    if INF in (time, length):
        return INF
    # compiled code takes it that sums do not overflow
    if length > 0 and time > INF - length:
        return INF
    if length < 0 and time < BEGIN - length:
        return BEGIN
    return time + length


@overload
def plus(time: int, length: int) -> int: ...
@overload
def plus(time: int | Times, length: Times) -> Times: ...
@overload
def plus(time: Times, length: int | Times) -> Times: ...
def plus(time: int | Times, length: int | Times) -> int | Times:
    """Add a length to a time. INF absorbs, on either side; beyond the last chronon is INF.

    >>> plus(INF, -5) == INF
    True
    >>> plus(np.array([1, INF]), 4).tolist() == [5, INF]
    True
    """
    if isinstance(time, int) and isinstance(length, int):
        return INF if INF in (time, length) else max(BEGIN, min(time + length, INF))
    total: Times = _plus(time, length)
    return total


def to_datetime(time: int) -> dt.datetime | None:
    """The UTC datetime of a chronon of one microsecond; None for INF."""
    return None if time == INF else _EPOCH + time * _MICROSECOND


def show_length(length: int) -> str:
    """A length of time as people read it: whole seconds in words, anything else in chronons.

    >>> show_length(5_400_000_000), show_length(10), show_length(INF)
    ('90 min', '10', 'INF')
    """
    second = _UNITS["s"]
    if length in (0, INF) or length % second:
        return show(length)
    unit = max((u for u in ("s", "min", "h", "d") if length % _UNITS[u] == 0), key=_UNITS.__getitem__)
    return f"{length // _UNITS[unit]} {unit}"


def show(time: int) -> str:
    """A chronon as people read it: INF by name."""
    return "INF" if time == INF else "BEGIN" if time == BEGIN else str(time)
