"""User functions: Python functions of Arrow columns, as parts of expressions.

`function` gives an expression, so that a user function composes with all others. To Polars it is a
column with a name of its own (Polars could not say of a Python function whether it looks at one row at a
time); whoever evaluates the expression computes that column first. What the name stands for is in
`_FUNCTIONS`, for the life of the process.

A function gets one Arrow array per argument and returns one of the same length and of the declared type.
It must be a function of each row by itself, and give the same answer every time: an adjust finds what
its insert gave. It is not called while a query is written, and not without rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import polars as pl
import pyarrow as pa

from slackwater.errors import PlanError
from slackwater.plan.schemas import polars_type

__all__ = ["Failed", "Function", "function", "functions_in", "shown"]


class Failed(Exception):
    """No value, for a reason that people can read. Whoever evaluates says for which row."""


@dataclass(frozen=True, eq=False)
class Function:
    """A user's function at one place of a query."""

    function: Callable[..., Any]
    arguments: tuple[pl.Expr, ...]
    dtype: pl.DataType
    column: str
    """the column that stands for its values"""

    @property
    def name(self) -> str:
        """How its author calls it."""
        return getattr(self.function, "__name__", type(self.function).__name__)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(_plainly, self.arguments))})"

    def __reduce__(self) -> tuple[Any, ...]:
        # the column's name must stand for it in the process that it is sent to, too
        return _known, (self.function, self.arguments, self.dtype, self.column)

    def values(self, arguments: Sequence[pl.Series]) -> pl.Series:
        """Its value for every row of the arguments."""
        rows = len(arguments[0])
        if not rows:
            return pl.Series(dtype=self.dtype)
        # a name that Arrow cannot carry would be a panic, and no function looks at it
        result = self._called([argument.alias("").to_arrow() for argument in arguments])
        if not isinstance(result, pa.Array | pa.ChunkedArray):
            raise Failed(f"{self.name} returned a {type(result).__name__}, not an Arrow array")
        if len(result) != rows:
            raise Failed(f"{self.name} returned {len(result)} values for {rows} rows")
        try:
            series = pl.Series(result)
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as problem:
            raise Failed(f"{self.name} returned Arrow's {result.type}, unknown to Polars") from problem
        if series.dtype == pl.Null:
            # nothing but nulls: Arrow could not know of what type
            series = series.cast(self.dtype)
        if series.dtype != self.dtype:
            raise Failed(f"{self.name} returned {series.dtype}, and was declared to return {self.dtype}")
        return series

    def _called(self, arguments: list[pa.Array]) -> object:
        try:
            return self.function(*arguments)
        except Exception as problem:
            # a user's function may raise anything: all of it means that there is no value
            raise Failed(f"{self.name} raised {type(problem).__name__}: {problem}") from problem


_FUNCTIONS: dict[str, Function] = {}
_numbers = count(1)


def function(function: Callable[..., Any], *arguments: str | pl.Expr, returns: Any) -> pl.Expr:
    """Your own function of columns, as an expression.

    It gets one Arrow array per argument (a column's name or an expression) and returns an Arrow array
    of the same length, of the type that `returns` declares. It must treat every row by itself, and
    always alike. Where it raises, or returns something else, the query stops with an error that names
    the row; with `on_invalid=sw.LEDGER` the row is set aside.

    >>> import pyarrow.compute as pc
    >>> import slackwater as sw
    >>> s = sw.stream({"word": str})
    >>> backwards = sw.function(pc.utf8_reverse, "word", returns=str)
    >>> q = s.where(backwards != sw.col("word")).select(drow=backwards)
    >>> list(q.run({s: [sw.insert(0, 5, word="noon"), sw.insert(1, 5, word="tide")]}))
    [insert(1, 5, drow='edit')]
    """
    name = getattr(function, "__name__", type(function).__name__)
    if not callable(function):
        raise PlanError(f"function: {function!r} cannot be called")
    if not arguments:
        raise PlanError(
            f"function: {name} needs an argument",
            detail="it would not know how many rows there are",
            hint=f"sw.function({name}, 'column', returns=...)",
        )
    for argument in arguments:
        if not isinstance(argument, str | pl.Expr):
            raise PlanError(
                f"function: {argument!r} is neither a column nor an expression",
                detail=f"an argument of {name}, of type {type(argument).__name__}",
                hint="constants are written with polars.lit, or stay inside the function",
            )
    expressions = tuple(pl.col(a) if isinstance(a, str) else a for a in arguments)
    dtype = polars_type(name, returns)
    written = f"{name}({', '.join(map(_plainly, expressions))})"
    return pl.col(_known(function, expressions, dtype, f"{written} #{next(_numbers)}").column)


def _known(
    function: Callable[..., Any], arguments: tuple[pl.Expr, ...], dtype: pl.DataType, column: str
) -> Function:
    return _FUNCTIONS.setdefault(column, Function(function, arguments, dtype, column))


def functions_in(expression: pl.Expr) -> dict[str, Function]:
    """The user functions that an expression reads, by the columns that stand for them."""
    return {name: _FUNCTIONS[name] for name in expression.meta.root_names() if name in _FUNCTIONS}


def shown(expression: pl.Expr) -> str:
    """The expression with user functions as they were written."""
    text = str(expression)
    for name, each in functions_in(expression).items():
        text = text.replace(f'col("{name}")', str(each))
    return text


def _plainly(expression: pl.Expr) -> str:
    if expression.meta.is_column():
        name = expression.meta.output_name()
        return str(_FUNCTIONS.get(name, name))
    return shown(expression)
