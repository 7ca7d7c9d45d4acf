"""What is known of a stream that its elements do not say: the ways in which promises are embedded.

Paper 4 section 6.2 names five. A source that knows itself sends punctuations among its rows. The others
are stated here, as values that `Query.punctuate` takes:

- access order: `ordered_by("hour")`, the stream is sorted by a column;
- application knowledge: `domain(temp=between(20, 95))`, what values a column has, and `unique("item")`,
  no second element has the same values;
- auxiliary tables: `all_reported("hour", by="sensor", among=sensors)`, who must have reported before
  something is complete.

(The fifth, operator semantics, is each operator's own: a sort tells what it is through with.) All of
them promise something of payloads, at whatever time: a later element with such a payload, an adjust
included, proves the knowledge wrong.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import polars as pl

from slackwater.errors import InvalidElement, PlanError
from slackwater.patterns import (
    EMPTY,
    Constant,
    OneOf,
    Pattern,
    Range,
    fitted,
    holds,
    is_ordered,
    pattern_of,
)
from slackwater.plan.schemas import require_columns
from slackwater.punctuations import Punctuation
from slackwater.times import INF

__all__ = [
    "AllReported",
    "Domain",
    "Knowledge",
    "OrderedBy",
    "Unique",
    "all_reported",
    "domain",
    "ordered_by",
    "unique",
]


@dataclass(frozen=True, slots=True)
class OrderedBy:
    """No element has a smaller value of this column than one before it."""

    column: str

    def __str__(self) -> str:
        return f"ordered by {self.column}"

    def require(self, schema: pl.Schema) -> None:
        """Refuse columns that it cannot be about."""
        require_columns(schema, [self.column], "ordered_by")
        _require_order(schema, self.column, "ordered_by")


@dataclass(frozen=True, slots=True)
class Domain:
    """The values that columns have; no others, and null only if `nullable`."""

    columns: tuple[tuple[str, Pattern], ...]
    nullable: bool = False

    def or_null(self) -> Domain:
        """The same, and null."""
        return replace(self, nullable=True)

    def __str__(self) -> str:
        within = ", ".join(f"{name} in {pattern!r}" for name, pattern in self.columns)
        return f"domain {within}" + (" or null" if self.nullable else "")

    def require(self, schema: pl.Schema) -> None:
        """Refuse columns that it cannot be about."""
        require_columns(schema, [name for name, _ in self.columns], "domain")
        for name, _ in self.columns:
            _require_order(schema, name, "domain")
        list(self.outside(schema))

    def outside(self, schema: pl.Schema) -> Iterator[Punctuation]:
        """The promises that no value lies outside of the domain."""
        for name, pattern in self.columns:
            try:
                inside = fitted(pattern, name, schema[name])
            except InvalidElement as problem:
                raise PlanError(f"domain: {problem.fact}", detail=problem.detail) from problem
            for other in _others(inside, name, schema[name]):
                if not (self.nullable and other == Constant(None)):
                    yield Punctuation(INF, columns=((name, other),))


@dataclass(frozen=True, slots=True)
class Unique:
    """After an element, no other has the same values of these columns."""

    columns: tuple[str, ...]

    def __str__(self) -> str:
        return f"unique {', '.join(self.columns)}"

    def require(self, schema: pl.Schema) -> None:
        """Refuse columns that it cannot be about."""
        require_columns(schema, self.columns, "unique")


_TEXTS = (pl.String, pl.Categorical, pl.Enum)


@dataclass(frozen=True, slots=True, eq=False)
class AllReported:
    """A value of `group` is complete when every one of the members has reported it.

    With `once`, a member has reported a value when it has a row of it. Else members report values in
    ascending order, each several rows of a value perhaps, and one has reported a value when it has a row
    of a greater one.
    """

    group: str
    member: str
    among: pl.Series
    once: bool = False

    def __str__(self) -> str:
        how = " once" if self.once else ""
        return f"{self.group} reported{how} by all {len(self.among)} of {self.member}"

    def require(self, schema: pl.Schema) -> None:
        """Refuse columns that it cannot be about."""
        require_columns(schema, [self.group, self.member], "all_reported")
        if self.group == self.member:
            raise PlanError("all_reported: a column does not report itself", detail=repr(self.group))
        if not self.once:
            _require_order(schema, self.group, "all_reported")
        self.members(schema)

    def members(self, schema: pl.Schema) -> pl.Series:
        """Who must have reported, in the type of the column."""
        dtype = schema[self.member]
        wrong = PlanError(
            f"all_reported: the members are not of the type of {self.member!r}",
            detail=f"{self.among.dtype} and {dtype}",
            hint="among=[...] has values of that column",
        )
        # polars writes a number as a text, which nobody may have reported: 7 is not "07"
        if self.among.dtype != pl.Null and _kind(self.among.dtype) != _kind(dtype):
            raise wrong
        try:
            members = self.among.cast(dtype, strict=True).alias(self.member)
        except pl.exceptions.PolarsError as problem:
            raise wrong from problem
        # it cuts 1.5 off to 1, who is another one; floats of 32 bits are rounded on purpose
        again = members.cast(self.among.dtype, strict=False)
        if dtype != pl.Float32 and not again.equals(self.among, null_equal=True):
            raise wrong
        return members.unique(maintain_order=True)


def _kind(dtype: pl.DataType) -> object:
    """Types whose values may be the same ones."""
    if dtype.is_numeric():
        return "a number"
    if isinstance(dtype, pl.Date | pl.Datetime):
        return "a time"
    return "a text" if dtype in _TEXTS else dtype.base_type()


Knowledge: TypeAlias = OrderedBy | Domain | Unique | AllReported


def ordered_by(column: str) -> OrderedBy:
    """The stream is sorted by a column: a row with hour 18 promises that none below 18 follows."""
    return OrderedBy(_name(column, "ordered_by"))


def domain(**columns: Any) -> Domain:
    """The values that columns have: a pattern, or one value. `.or_null()` if null is one, too.

    >>> from slackwater.patterns import between
    >>> print(domain(temp=between(20, 95)))
    domain temp in between(20, 95)
    """
    if not columns:
        raise PlanError("domain: at least one column is needed", hint="domain(temp=sw.between(20, 95))")
    return Domain(tuple((name, pattern_of(pattern)) for name, pattern in columns.items()))


def unique(*columns: str) -> Unique:
    """After an element no other has the same values of these columns, not even an adjust of it."""
    if not columns:
        raise PlanError("unique: at least one column is needed", hint="unique('item')")
    return Unique(tuple(dict.fromkeys(_name(column, "unique") for column in columns)))


def all_reported(
    group: str, *, by: str, among: Iterable[Any] | pl.DataFrame, once: bool = False
) -> AllReported:
    """When all members have reported a value of `group`, no more rows with that value come.

    `among` lists the members, as values of the column `by`: a list, a column, or a table that has the
    column. Members report in ascending order, and have reported a value when they have a row of a
    greater one; with `once` when they have a row of it. What others say does not count.

    >>> print(all_reported("hour", by="sensor", among=["a", "b"]))
    hour reported by all 2 of sensor
    """
    group, member = _name(group, "all_reported"), _name(by, "all_reported")
    if isinstance(among, pl.DataFrame):
        if member not in among.columns:
            raise PlanError(
                f"all_reported: the table has no column {member!r}",
                detail=f"it has {', '.join(among.columns)}",
            )
        members = among[member]
    else:
        try:
            if isinstance(among, str | bytes):
                raise TypeError(f"{among!r} is one value")
            members = pl.Series(member, among if isinstance(among, pl.Series) else list(among))
        except (TypeError, pl.exceptions.PolarsError) as problem:
            raise PlanError(
                "all_reported: the members are not a list of values", detail=str(problem)
            ) from problem
    members = members.unique(maintain_order=True)
    if not len(members):
        raise PlanError("all_reported: nobody is to report", hint="among=[...] lists the members")
    return AllReported(group, member, members, once)


def _name(column: object, who: str) -> str:
    if not isinstance(column, str):
        raise PlanError(f"{who}: {column!r} is not the name of a column")
    return column


def _require_order(schema: pl.Schema, column: str, who: str) -> None:
    if not is_ordered(schema[column]):
        raise PlanError(
            f"{who}: the values of {column!r} have no order",
            detail=f"they are {schema[column]}",
        )


def _others(inside: Pattern, name: str, dtype: pl.DataType) -> Iterator[Pattern]:
    """Patterns that together match all values that `inside` does not."""
    if inside == EMPTY:
        raise PlanError(f"domain: {name!r} would have no value at all")
    for other in _gaps(inside):
        within = fitted(other, name, dtype)
        if within != EMPTY:
            yield within
    apart = [None, math.nan] if dtype.is_float() else [None]
    yield from (Constant(value) for value in apart if not holds(inside, value))


def _gaps(inside: Pattern) -> Iterator[Range]:
    """The stretches before, between and after the values of a pattern."""
    match inside:
        case Range(low, high, low_closed, high_closed):
            if low is not None:
                yield Range(None, low, high_closed=not low_closed)
            if high is not None:
                yield Range(high, None, low_closed=not high_closed)
        case Constant() | OneOf():
            values = (inside.value,) if isinstance(inside, Constant) else inside.values
            ranked = [
                v for v in values if v is not None and not (isinstance(v, float) and math.isnan(v))
            ]
            for low, high in zip([None, *ranked], [*ranked, None], strict=True):
                yield Range(low, high, low_closed=False, high_closed=False)
        case _:
            return
