"""Evaluation: the values of an expression over rows, and who has none.

The one place that evaluates expressions, for the oracle and for operators alike. A row for which an
expression fails (a cast that cannot be, a user function that raises, an integer that does not fit) has
no value: `NoValue` names the operator, the expression and the row. Which rows fail is found by
bisection, so that one bad row of many costs a few evaluations more.

Payloads that are the same have the same values: of the two zeros of floats, expressions see one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from slackwater.columns import column_of
from slackwater.errors import OperatorError
from slackwater.identity import has_zeros, with_one_zero
from slackwater.plan.arithmetic import Arithmetic, constant_in, in_arrays
from slackwater.plan.functions import Failed, Function, functions_in, shown
from slackwater.plan.overflow import overflows

__all__ = ["Formula", "NoValue", "columns_in", "evaluate"]

_FAILURES = (pl.exceptions.PolarsError, pl.exceptions.PanicException, Failed)
_CASTS = (pl.Float64(), pl.Int64(), pl.Decimal(38, 0), pl.String())
"""types that a column is cast to more often than to others"""
_VALUE, _OVERFLOW = "\0value", "\0overflow"


class NoValue(OperatorError):
    """An expression without a value for some of the rows that it was asked for; `row` is the first."""

    def __init__(self, formula: Formula, payload: pl.DataFrame, row: int, reason: str) -> None:
        super().__init__(
            f"{formula.who}: {formula} has no value for {_named(payload, row)}",
            detail=reason,
            hint="guard it with a where, or with strict=False in a cast; sw.LEDGER sets such rows aside",
        )
        self.row = row
        self._formula = formula
        self._payload = payload

    def of(self, element: object) -> OperatorError:
        """The same, of the element that has the row for its payload."""
        return OperatorError(
            self.fact, detail=f"{self.detail}; it came with {element!r}", hint=self.hint
        )

    def failures(self) -> dict[int, str]:
        """All rows that have no value, and why."""
        return dict(self._formula.failures(self._payload))


@dataclass(frozen=True, eq=False)
class Formula:
    """An expression over rows of one schema, ready to be evaluated; `who` asks for its values."""

    expression: pl.Expr
    schema: pl.Schema
    who: str
    reads: tuple[str, ...] = field(init=False)
    """the columns whose values it depends on"""
    _column: str | None = field(init=False)
    """the column that it is, if it is nothing more"""
    _cast: tuple[str, pl.DataType] | None = field(init=False)
    """the column of which it is a cast, and to which type, if it is nothing more"""
    _zeros: list[str] = field(init=False)
    """the columns that it reads in which there may be two zeros"""
    _functions: dict[str, tuple[Function, list[Formula]]] = field(init=False)
    _overflows: list[tuple[pl.Expr, pl.Expr]] = field(init=False)
    _constant: pl.Series | None = field(init=False)
    """its value, if it is the same for all rows"""
    _in_arrays: Arithmetic | None = field(init=False)
    """the expression as a function on arrays, if it is of that kind"""

    def __post_init__(self) -> None:
        functions = functions_in(self.expression)
        arguments = {
            name: (each, [Formula(a, self.schema, self.who) for a in each.arguments])
            for name, each in functions.items()
        }
        object.__setattr__(self, "_functions", arguments)
        is_column = self.expression.meta.is_column() and not functions
        object.__setattr__(self, "_column", self.expression.meta.output_name() if is_column else None)
        object.__setattr__(self, "_cast", None if functions else _cast_of(self.expression))
        object.__setattr__(self, "reads", columns_in(self.expression, self.schema))
        read = [n for n in dict.fromkeys(self.expression.meta.root_names()) if n in self.schema]
        object.__setattr__(self, "_zeros", [name for name in read if has_zeros(self.schema[name])])
        columns = pl.Schema({**self.schema, **{name: f.dtype for name, f in functions.items()}})
        object.__setattr__(self, "_overflows", overflows(self.expression, columns))
        object.__setattr__(self, "_constant", constant_in(self.expression))
        plain = None if functions else in_arrays(self.expression, self.schema)
        object.__setattr__(self, "_in_arrays", plain)

    def __str__(self) -> str:
        return shown(self.expression)

    def values(self, payload: pl.DataFrame) -> pl.Series:
        """One value per row."""
        try:
            return self._values(payload)
        except _FAILURES as problem:
            for row, reason in self.failures(payload):
                raise NoValue(self, payload, row, reason) from problem
            raise

    def _values(self, payload: pl.DataFrame) -> pl.Series:
        if self._column is not None:
            return with_one_zero(payload[self._column]) if self._zeros else payload[self._column]
        if self._cast is not None and not self._zeros:
            # without a query of polars, which takes longer than a batch of one
            name, dtype = self._cast
            return payload.get_column(name).cast(dtype)
        if self._constant is not None:
            return self._constant.new_from_index(0, payload.height)
        if self._in_arrays is not None:
            found = self._in_arrays(payload)
            if found is not None:
                return column_of(_VALUE, found)
        frame = payload
        if self._zeros:
            frame = frame.with_columns(with_one_zero(frame[name]) for name in self._zeros)
        for name, (each, arguments) in self._functions.items():
            values = each.values([argument._values(payload) for argument in arguments])
            frame = frame.with_columns(values.alias(name))
        if not self._overflows:
            return frame.with_columns(self.expression.alias(_VALUE))[_VALUE]
        any_overflow = pl.any_horizontal([condition for _, condition in self._overflows]).any()
        both = frame.with_columns(self.expression.alias(_VALUE), any_overflow.alias(_OVERFLOW))
        if both.height and both[_OVERFLOW][0]:
            for part, condition in self._overflows:
                if frame.select(condition.any()).item():
                    raise Failed(f"{shown(part)} does not fit {frame.select(part).dtypes[0]}")
        return both[_VALUE]

    def failures(self, payload: pl.DataFrame, start: int = 0) -> Iterator[tuple[int, str]]:
        """The rows that have no value when looked at alone, in order, and why; rows count from start."""
        if not payload.height:
            return
        try:
            self._values(payload)
        except _FAILURES as problem:
            reason = str(problem).splitlines()[0]
        else:
            return
        if payload.height == 1:
            yield start, reason
            return
        half, found = payload.height // 2, False
        for first, last in ((0, half), (half, payload.height)):
            for failure in self.failures(payload.slice(first, last - first), start + first):
                found = True
                yield failure
        if not found:
            raise OperatorError(
                f"{self.who}: {self} fails for {payload.height} rows together, and for none alone",
                detail=f"{reason}; the first of them is {_named(payload, 0)}",
                hint="an expression, or a function, looks at each row by itself",
            )


def columns_in(expression: pl.Expr, schema: pl.Schema) -> tuple[str, ...]:
    """The columns whose values an expression depends on, by way of functions, too.

    >>> columns_in(pl.col("a") + 1 > pl.col("b"), pl.Schema({"a": int, "b": int, "c": int}))
    ('a', 'b')
    """
    of_functions = (
        name
        for function in functions_in(expression).values()
        for argument in function.arguments
        for name in columns_in(argument, schema)
    )
    named = [name for name in expression.meta.root_names() if name in schema]
    return tuple(dict.fromkeys([*named, *of_functions]))


def evaluate(expression: pl.Expr, payload: pl.DataFrame, who: str) -> pl.Series:
    """One value per row, once. Who asks for every batch keeps a `Formula`."""
    return Formula(expression, payload.schema, who).values(payload)


def _cast_of(expression: pl.Expr) -> tuple[str, pl.DataType] | None:
    """The column and the type, if the expression is a cast that fails where a value does not fit.

    >>> _cast_of(pl.col("x").cast(float))
    ('x', Float64)
    """
    for dtype in _CASTS if "cast" in str(expression) else ():
        match expression.meta.pop():
            case [inner] if inner.meta.is_column() and expression.meta.eq(inner.cast(dtype)):
                return inner.meta.output_name(), dtype
    return None


def _named(payload: pl.DataFrame, row: int) -> dict[str, Any]:
    named = payload.row(row, named=True) if payload.width else {}
    # the oracle's rows carry their lifetimes
    return {name: value for name, value in named.items() if name not in ("vs", "ve")}
