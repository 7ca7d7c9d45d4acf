"""Tables: their columns as times, kinds and payload, and the rows that cannot be used.

A table is anything that speaks Arrow's PyCapsule interface: a polars or pandas frame, an Arrow
table or record batch. rows.py says which elements its rows are; here is what all forms share.

A mistake in the call (a column that does not exist or cannot be read) is a `PlanError`. A
mistake in the data concerns single rows: each is refused with the first `Rule` it breaks, or goes
to the ledger with that reason. Rules are masks over whole columns, so that good tables cost little.

Integers are chronons. Datetimes and dates become microseconds of UTC, null standing for INF; what
is finer than a microsecond is cut off. In pandas NaN is null, and a named index is a column.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from slackwater.errors import InvalidElement, PlanError
from slackwater.ledger import Ledger
from slackwater.payloads import refuse_reserved
from slackwater.times import BEGIN, INF, Times

__all__ = [
    "Instants",
    "Mask",
    "Rule",
    "Table",
    "concerned",
    "has_value",
    "instants",
    "kinds",
    "payload_of",
    "read_table",
    "refuse_unknown",
    "usable",
]

Mask: TypeAlias = npt.NDArray[np.bool_]


class Table(Protocol):
    """A table of any library: what can hand over its rows in Arrow's layout."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


def read_table(df: Table) -> pl.DataFrame:
    """The table as a polars frame."""
    if isinstance(df, pl.DataFrame):
        return df
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(df, pandas.DataFrame):
        # A copy, because Arrow would share memory with a frame that its owner may still change.
        named = any(name is not None for name in df.index.names)
        df = df.reset_index() if named else df.copy()
    elif not hasattr(df, "__arrow_c_stream__"):
        raise PlanError(
            f"a {type(df).__name__} is not a table",
            detail="it has no Arrow interface (__arrow_c_stream__)",
            hint="give a polars, pandas or Arrow table; a polars LazyFrame after .collect()",
        )
    try:
        return pl.DataFrame(df)
    except (pa.ArrowException, pl.exceptions.PolarsError) as problem:
        raise PlanError(
            "the table cannot be read",
            detail=str(problem).splitlines()[0],
            hint="every column needs its own name and values of one type",
        ) from problem


def refuse_unknown(table: pl.DataFrame, given: Mapping[str, str | None]) -> None:
    """Raise if an argument names a column that the table does not have."""
    for argument, name in given.items():
        if name is not None and name not in table.columns:
            _refuse_missing(table, name, f"{argument}={name!r} was given")


def _refuse_missing(table: pl.DataFrame, name: str, detail: str) -> None:
    raise PlanError(
        f"the table has no column {name!r}",
        detail=detail,
        hint=f"it has: {', '.join(table.columns) or 'no columns'}",
    )


class Rule(NamedTuple):
    """A reason why rows cannot be used, and which rows it concerns; of some more can be said."""

    reason: str
    concerns: Mask
    column: str = ""
    why: Mapping[int, str] = MappingProxyType({})


def concerned(rules: Sequence[Rule]) -> Mask:
    """The rows that break a rule."""
    mask: Mask = np.logical_or.reduce([rule.concerns for rule in rules])
    return mask


def usable(
    table: pl.DataFrame,
    rules: Sequence[Rule],
    ledger: Ledger | None,
    place: str,
    at: Callable[[int], str] = "row {}".format,
) -> Mask:
    """The rows that break no rule. The others are refused, or go to the ledger, in their order.

    `at` says where a row was found.
    """
    bad = concerned(rules)
    if not bad.any():
        return ~bad
    rows = np.flatnonzero(bad)
    first = np.stack([rule.concerns[rows] for rule in rules]).argmax(axis=0).tolist()
    if ledger is None:
        content, rule = _contents(table, rows[:1])[0], rules[first[0]]
        why = f"{rule.why[rows[0]]}; " if rows[0] in rule.why else ""
        raise InvalidElement(
            f"row {rows[0]} of {place} cannot be used: {rule.reason}",
            detail=f"{why}{content}; {len(rows)} of {table.height} rows cannot be used",
            hint="repair the rows, or give ledger=Ledger() to set them aside and use the rest",
        )
    for row, index, content in zip(rows.tolist(), first, _contents(table, rows), strict=True):
        rule = rules[index]
        detail = f"{at(row)}, column {rule.column!r}" if rule.column else at(row)
        if row in rule.why:
            detail = f"{detail}: {rule.why[row]}"
        ledger.write(content, reason=rule.reason, place=place, detail=detail)
    return ~bad


_PYTHON_SECONDS = -62_135_596_800, 253_402_300_800
"""from the beginning of the year 1 to that of the year 10000"""


def _contents(table: pl.DataFrame, rows: npt.NDArray[np.intp]) -> list[dict[str, Any]]:
    """These rows as dictionaries. A time that Python does not have is shown as its integer."""
    some = table[rows]
    for column in some:
        if (scale := _scale(column.dtype)) and column.dtype.is_temporal():
            factor, divisor = scale
            # nanoseconds of 64 bits do not reach that far
            first, last = (
                min(max(second * 10**6 * divisor // factor, BEGIN), INF) for second in _PYTHON_SECONDS
            )
            integers = column.to_physical()
            if not integers.drop_nulls().is_between(first, last, closed="left").all():
                some = some.with_columns(integers)
    return some.rows(named=True)


def payload_of(
    table: pl.DataFrame, given: Mapping[str, str | None], schema: pl.Schema | None
) -> tuple[pl.DataFrame, list[Rule]]:
    """The payload's columns, and which rows do not fit the types they should have.

    Without a schema these are the columns that were not given as times or kinds.
    """
    if schema is None:
        payload = table.drop({name for name in given.values() if name is not None})
        refuse_reserved(payload.columns)
        return payload, _too_fine(payload)
    refuse_reserved(schema)
    columns, misfits = [], []
    for name, dtype in schema.items():
        if name not in table.columns:
            _refuse_missing(table, name, f"the schema is: {', '.join(schema)}")
        column = table[name]
        if column.dtype != dtype:
            column, changed = _cast(column, dtype)
            misfits.append(Rule("does not fit its type", changed.to_numpy(), name))
        columns.append(column)
    payload = pl.DataFrame(columns, height=table.height)
    return payload, [*misfits, *_too_fine(payload)]


def _too_fine(payload: pl.DataFrame) -> list[Rule]:
    """Which times of day lie between two of Python's: in a promise they would be another value."""
    times = [column for column in payload.get_columns() if column.dtype == pl.Time]
    finer = ((column.to_physical() % 1000 != 0).fill_null(value=False) for column in times)
    return [
        Rule("finer than a microsecond", concerns.to_numpy(), column.name)
        for column, concerns in zip(times, finer, strict=True)
    ]


def _cast(column: pl.Series, dtype: pl.DataType) -> tuple[pl.Series, pl.Series]:
    """The column in another type of the same family, and which values that would change."""
    family, wanted = _family(column.dtype), _family(dtype)
    problem = f"{family} is not {wanted}"
    if family in ("nothing", wanted):
        try:
            cast = column.cast(dtype, strict=False)
            if column.dtype.is_float() and dtype.is_float():
                # who declares Float32 expects its rounding; any other change of a value is a loss
                return cast, cast.is_null() & column.is_not_null()
            return cast, cast.cast(column.dtype, strict=False).ne_missing(column)
        except pl.exceptions.PolarsError as error:
            problem = str(error).splitlines()[0]
    raise PlanError(
        f"column {column.name!r} is {column.dtype}, not {dtype}",
        detail=problem,
        hint="convert the column before it becomes a stream, or declare the stream otherwise",
    )


def _family(dtype: pl.DataType) -> str:
    if dtype.is_numeric():
        return "a number"
    if dtype in (pl.Datetime, pl.Date):
        return "an instant"
    if dtype in (pl.String, pl.Categorical, pl.Enum):
        return "text"
    return "nothing" if dtype == pl.Null else str(dtype.base_type())


def has_value(payload: pl.DataFrame, rows: Mask) -> Mask:
    """Which of these rows have a payload that is not all null."""
    found = np.zeros(payload.height, dtype=np.bool_)
    if payload.width and rows.any():
        some = payload.filter(pl.Series(rows))
        found[rows] = some.select(pl.any_horizontal(pl.all().is_not_null())).to_series().to_numpy()
    return found


def kinds(column: pl.Series, names: Sequence[str]) -> list[Mask]:
    """For each name, which rows are of that kind."""
    if _family(column.dtype) not in ("text", "nothing"):
        raise PlanError(
            f"column {column.name!r} does not say kinds",
            detail=f"it is of type {column.dtype}",
            hint=f"its values should be: {', '.join(names)}",
        )
    text = column.cast(pl.String)
    return [(text == name).fill_null(False).to_numpy() for name in names]


@dataclass(frozen=True, slots=True)
class Instants:
    """A column of times: chronons, with INF where there is none."""

    times: Times
    missing: Mask
    outside: Mask
    """those that are no int64 chronon"""
    null_is_inf: bool
    """in datetime columns a null is a time: INF"""

    @classmethod
    def none(cls, rows: int, *, null_is_inf: bool = False) -> Instants:
        """A column without times."""
        no = np.zeros(rows, dtype=np.bool_)
        return cls(np.full(rows, INF, dtype=np.int64), ~no, no, null_is_inf)

    def points(self) -> Instants:
        """The ends of rows that live for one chronon."""
        times = self.times + (self.times != INF)
        return Instants(times, self.missing, self.outside, self.null_is_inf)


_MICROSECONDS = {"ns": (1, 1000), "us": (1, 1), "ms": (1000, 1)}
_DAY = 86_400_000_000, 1


def _scale(dtype: pl.DataType) -> tuple[int, int] | None:
    """How many chronons one unit of this type has, as a fraction; None if it is no type of time."""
    if isinstance(dtype, pl.Datetime):
        return _MICROSECONDS[dtype.time_unit]
    if dtype == pl.Date:
        return _DAY
    return (1, 1) if dtype.is_integer() else None


def instants(table: pl.DataFrame, name: str) -> Instants:
    """A column of the table, read as times."""
    column = table[name]
    dtype = column.dtype
    if column.null_count() == table.height:
        return Instants.none(table.height, null_is_inf=dtype.is_temporal())
    scale = _scale(dtype)
    if scale is None:
        raise PlanError(
            f"column {name!r} is not a time",
            detail=f"it is of type {dtype}",
            hint="give integers (chronons), datetimes or dates; pandas keeps integers with gaps "
            "as such after .astype('Int64')",
        )
    return _scaled(column.to_physical(), *scale, null_is_inf=dtype.is_temporal())


def _scaled(column: pl.Series, factor: int, divisor: int, *, null_is_inf: bool) -> Instants:
    """Integers times factor / divisor, in NumPy: polars panics when it scales a far datetime."""
    missing = column.is_null().to_numpy()
    narrow = column.cast(pl.Int64, strict=False)
    outside = narrow.is_null().to_numpy() & ~missing
    # writable, as all arrays of a batch, for compiled kernels tell the two apart
    times = narrow.fill_null(INF).to_numpy(writable=True)
    if (factor, divisor) != (1, 1):
        limit = INF // factor
        outside = outside | (~missing & ((times > limit) | (times < -limit)))
        times = np.where(missing | outside, INF, times * factor // divisor)
    return Instants(times, missing, outside, null_is_inf)
