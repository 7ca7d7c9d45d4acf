"""Aggregations: what a group of live events is reduced to. Declarations only.

Each class says which columns it reads, which types it accepts and which type it gives. What it computes
is defined in oracle.py, how it is computed in the aggregate operator. Nulls are skipped, except by
count() (which counts events), first, last and group_function; a filtered aggregation of nothing is null,
and count is 0.

NaN is a value like any other and larger than all numbers; sums that do not fit their type are an
error, not a wrapped number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Real
from typing import Any

import polars as pl

from slackwater.errors import PlanError
from slackwater.plan.expressions import column, type_of
from slackwater.plan.functions import shown
from slackwater.plan.schemas import polars_type, require_callable

__all__ = [
    "Aggregation",
    "Avg",
    "Count",
    "CountDistinct",
    "First",
    "Fold",
    "GroupFunction",
    "Last",
    "Max",
    "Min",
    "Percentile",
    "Product",
    "RankSpec",
    "Stddev",
    "Sum",
    "TopK",
    "Var",
    "avg",
    "count",
    "count_distinct",
    "first",
    "fold",
    "group_function",
    "last",
    "max",
    "min",
    "percentile",
    "product",
    "rank",
    "stddev",
    "sum",
    "top_k",
    "var",
]

Column = str | pl.Expr

_MOST_K = 1000
"""every row of a result has room for k values"""


@dataclass(frozen=True, eq=False, kw_only=True)
class Aggregation:
    """What all aggregations share: the values they read, and a filter on the events."""

    values: tuple[pl.Expr, ...] = ()
    where: pl.Expr | None = None

    def result_type(self, schema: pl.Schema, who: str) -> pl.DataType:
        """The type of the result over rows of that schema; refuses what makes no sense."""
        if self.where is not None:
            dtype = type_of(self.where, schema, f"{who} where")
            if dtype != pl.Boolean:
                raise PlanError(f"{who}: the filter must be true or false", detail=f"it is {dtype}")
        return self._result_type([type_of(value, schema, who) for value in self.values], who)

    def _result_type(self, types: Sequence[pl.DataType], who: str) -> pl.DataType:
        raise NotImplementedError

    def __str__(self) -> str:
        own = [f.name for f in fields(self) if f.name not in ("values", "where")]
        settings = [f"{name}={getattr(self, name)}" for name in own if not callable(getattr(self, name))]
        arguments = ", ".join([*map(shown, self.values), *settings])
        condition = "" if self.where is None else f" where {shown(self.where)}"
        return f"{type(self).__name__}({arguments}){condition}"


def _refuse(who: str, dtype: pl.DataType, accepts: str) -> PlanError:
    return PlanError(
        f"{who}: cannot aggregate values of type {dtype}",
        detail=f"it accepts {accepts}",
        hint="cast the column, or use min, max, first, last, count or count_distinct",
    )


def _is_number(dtype: pl.DataType) -> bool:
    return dtype.is_numeric()


def _is_orderable(dtype: pl.DataType) -> bool:
    return not dtype.is_nested()


class Count(Aggregation):
    """How many events are alive, or how many of them have a value that is not null."""

    def _result_type(self, types: Sequence[pl.DataType], who: str) -> pl.DataType:
        return pl.Int64()


class CountDistinct(Aggregation):
    """How many different values there are; NaN is one value, null is none."""

    def _result_type(self, types: Sequence[pl.DataType], who: str) -> pl.DataType:
        return pl.Int64()


class _Total(Aggregation):
    """Integers widen to 64 bits, floats to 64 bits, decimals keep their scale."""

    def _result_type(self, types: Sequence[pl.DataType], who: str) -> pl.DataType:
        [dtype] = types
        if dtype.is_integer():
            return pl.Int64()
        if dtype.is_float():
            return pl.Float64()
        if isinstance(dtype, pl.Decimal):
            return pl.Decimal(38, dtype.scale)
        if isinstance(dtype, pl.Duration) and isinstance(self, Sum):
            return dtype
        raise _refuse(who, dtype, "numbers")


class Sum(_Total):
    """The exact sum, rounded once."""


class Product(_Total):
    """The exact product, rounded once."""

    def _result_type(self, types: Sequence[pl.DataType], who: str) -> pl.DataType:
        dtype = super()._result_type(types, who)
        return pl.Float64() if isinstance(dtype, pl.Decimal) else dtype


class _Real(Aggregation):
    def _result_type(self, types: Sequence[pl.DataType], who: str) -> pl.DataType:
        [dtype] = types
        if not _is_number(dtype):
            raise _refuse(who, dtype, "numbers")
        return pl.Float64()


class Avg(_Real):
    """The mean."""


class Var(_Real):
    """The sample variance (n - 1); null for fewer than two values."""


class Stddev(_Real):
    """The square root of the sample variance."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Percentile(_Real):
    """The continuous percentile: linear between the two nearest values."""

    fraction: float = 0.5

    def __post_init__(self) -> None:
        if not isinstance(self.fraction, Real | Decimal) or isinstance(self.fraction, bool):
            raise PlanError(
                "a percentile's fraction is a number",
                detail=f"it is {self.fraction!r}",
                hint="for example sw.percentile('temp', 0.5) for the median",
            )
        if not 0 <= self.fraction <= 1:
            raise PlanError(
                "a percentile's fraction lies between 0 and 1", detail=f"it is {self.fraction}"
            )
        if Fraction(str(self.fraction)).denominator >= 2**62:
            raise PlanError(
                "a percentile's fraction has at most 18 digits", detail=f"it is {self.fraction}"
            )


class _Pick(Aggregation):
    def _result_type(self, types: Sequence[pl.DataType], who: str) -> pl.DataType:
        [dtype] = types
        return dtype


class First(_Pick):
    """The value of the event that starts first; the least if several do, null before all others."""


class Last(_Pick):
    """The value of the event that starts last; the largest if several do."""


class _Extreme(_Pick):
    def _result_type(self, types: Sequence[pl.DataType], who: str) -> pl.DataType:
        [dtype] = types
        if not _is_orderable(dtype):
            raise _refuse(who, dtype, "values that have an order")
        return dtype


class Min(_Extreme):
    """The smallest value."""


class Max(_Extreme):
    """The largest value."""


@dataclass(frozen=True, eq=False, kw_only=True)
class TopK(_Extreme):
    """The k largest values as one list, largest first."""

    k: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.k, Integral) or isinstance(self.k, bool):
            raise PlanError(
                "top_k: k is a whole number",
                detail=f"it is {self.k!r}",
                hint="for example sw.top_k('temp', 3)",
            )
        if self.k < 1:
            raise PlanError("top_k needs k >= 1", detail=f"it is {self.k}")
        if self.k > _MOST_K:
            raise PlanError(
                f"top_k gives at most {_MOST_K} values",
                detail=f"it was asked for {self.k}, in every row of its result",
                hint="aggregate(place=sw.rank('temp', descending=True)), then where(col('place') <= k), "
                "gives them as rows",
            )

    def _result_type(self, types: Sequence[pl.DataType], who: str) -> pl.DataType:
        return pl.List(super()._result_type(types, who))


@dataclass(frozen=True, eq=False, kw_only=True)
class Fold(Aggregation):
    """A user's aggregate, changed by one value at a time, in any order."""

    dtype: pl.DataType
    init: Callable[[], Any]
    add: Callable[[Any, Any], Any]
    remove: Callable[[Any, Any], Any]
    result: Callable[[Any], Any]

    def _result_type(self, types: Sequence[pl.DataType], who: str) -> pl.DataType:
        return self.dtype


@dataclass(frozen=True, eq=False, kw_only=True)
class GroupFunction(Aggregation):
    """A user's function of all values at once, in order of start, then of the values."""

    dtype: pl.DataType
    function: Callable[..., Any]

    def _result_type(self, types: Sequence[pl.DataType], who: str) -> pl.DataType:
        return self.dtype


@dataclass(frozen=True, eq=False)
class RankSpec:
    """The place of each live event among its group, from 1; equal values share the best place.

    It gives one row per live event, with all of its columns, and stands alone in an aggregate.
    """

    by: pl.Expr
    descending: bool = False

    def __str__(self) -> str:
        return f"Rank({shown(self.by)}{', descending' if self.descending else ''})"


def count(value: Column | None = None, *, where: pl.Expr | None = None) -> Count:
    """How many events are alive (with a column: how many have a value)."""
    return Count(values=() if value is None else (column(value),), where=where)


def sum(value: Column, *, where: pl.Expr | None = None) -> Sum:
    """The sum of a column."""
    return Sum(values=(column(value),), where=where)


def avg(value: Column, *, where: pl.Expr | None = None) -> Avg:
    """The mean of a column."""
    return Avg(values=(column(value),), where=where)


def min(value: Column, *, where: pl.Expr | None = None) -> Min:
    """The smallest value of a column."""
    return Min(values=(column(value),), where=where)


def max(value: Column, *, where: pl.Expr | None = None) -> Max:
    """The largest value of a column."""
    return Max(values=(column(value),), where=where)


def stddev(value: Column, *, where: pl.Expr | None = None) -> Stddev:
    """The sample standard deviation of a column."""
    return Stddev(values=(column(value),), where=where)


def var(value: Column, *, where: pl.Expr | None = None) -> Var:
    """The sample variance of a column."""
    return Var(values=(column(value),), where=where)


def product(value: Column, *, where: pl.Expr | None = None) -> Product:
    """The product of a column."""
    return Product(values=(column(value),), where=where)


def count_distinct(value: Column, *, where: pl.Expr | None = None) -> CountDistinct:
    """How many different values a column has."""
    return CountDistinct(values=(column(value),), where=where)


def first(value: Column, *, where: pl.Expr | None = None) -> First:
    """The value of the live event that starts first; the least if several do."""
    return First(values=(column(value),), where=where)


def last(value: Column, *, where: pl.Expr | None = None) -> Last:
    """The value of the live event that starts last; the largest if several do."""
    return Last(values=(column(value),), where=where)


def percentile(value: Column, fraction: float, *, where: pl.Expr | None = None) -> Percentile:
    """The continuous percentile of a column, for example 0.5 for the median."""
    return Percentile(values=(column(value),), where=where, fraction=fraction)


def top_k(value: Column, k: int, *, where: pl.Expr | None = None) -> TopK:
    """The k largest values of a column as a list, largest first."""
    return TopK(values=(column(value),), where=where, k=k)


def rank(by: Column, *, descending: bool = False) -> RankSpec:
    """The place of each live event by a column's value."""
    return RankSpec(column(by), descending)


def fold(
    value: Column,
    *,
    init: Callable[[], Any],
    add: Callable[[Any, Any], Any],
    remove: Callable[[Any, Any], Any],
    result: Callable[[Any], Any],
    dtype: Any,
    where: pl.Expr | None = None,
) -> Fold:
    """Your own aggregate: a state, changed by adding and removing one value at a time.

    The order in which values are added and removed must not matter.
    """
    for name, function in {"init": init, "add": add, "remove": remove, "result": result}.items():
        require_callable(function, f"fold: {name}")
    return Fold(
        values=(column(value),),
        where=where,
        dtype=polars_type("fold", dtype),
        init=init,
        add=add,
        remove=remove,
        result=result,
    )


def group_function(
    function: Callable[..., Any], *columns: Column, dtype: Any, where: pl.Expr | None = None
) -> GroupFunction:
    """Your own aggregate: a plain function of the group's values, one list per column."""
    require_callable(function, "group_function")
    if not columns:
        name = getattr(function, "__name__", type(function).__name__)
        raise PlanError(
            f"group_function: {name} needs a column",
            detail="it is given one list of values per column, and would know nothing of the group",
            hint=f"sw.group_function({name}, 'column', dtype=...)",
        )
    return GroupFunction(
        values=tuple(column(c) for c in columns),
        where=where,
        dtype=polars_type("group_function", dtype),
        function=function,
    )
