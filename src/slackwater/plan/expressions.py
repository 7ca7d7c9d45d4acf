"""Expressions: Polars expressions that speak of one row at a time, checked against a schema.

A stream has no last row and no fixed batches, so an expression that looks at other rows (sums, shifts,
ranks, window functions, membership in another column) would mean something else for every batching. Such
expressions are refused here, once, while the plan is built; so are columns that do not exist, types that
do not fit, and expressions of which Polars cannot say what they look at (map_elements, list.eval). A
user function (functions.py) looks at one row by its author's word; its arguments are checked like any
expression, and its values have the declared type.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from slackwater.errors import PlanError
from slackwater.plan.functions import functions_in
from slackwater.plan.schemas import require_columns

__all__ = ["column", "type_of"]

_LOOK_UP = ("is_in", "replace", "replace_strict", "index_of", "search_sorted")
"""functions that take a second operand whole: a column there would be all rows of a batch"""


def column(value: str | pl.Expr) -> pl.Expr:
    """A column name or an expression, as an expression."""
    return pl.col(value) if isinstance(value, str) else value


def type_of(expression: pl.Expr, schema: pl.Schema, who: str) -> pl.DataType:
    """The type of the expression's values over rows of that schema.

    >>> type_of(pl.col("a") + 1.5, pl.Schema({"a": pl.Int64}), "select")
    Float64
    >>> type_of(pl.col("a").sum(), pl.Schema({"a": pl.Int64}), "select")
    Traceback (most recent call last):
        ...
    slackwater.errors.PlanError: select: an expression must look at one row at a time
      detail: col("a").sum() depends on other rows
      hint: a stream has no fixed set of rows: use aggregate, sort or a join for that
    """
    if not isinstance(expression, pl.Expr):
        raise PlanError(
            f"{who}: {expression!r} is not an expression",
            detail=f"it is of type {type(expression).__name__}",
            hint="write it with sw.col, for example sw.col('temp') > 30",
        )
    try:
        functions = functions_in(expression)
        require_columns(schema, [n for n in expression.meta.root_names() if n not in functions], who)
        for name, function in functions.items():
            _require_free(schema, name, who)
            for argument in function.arguments:
                type_of(argument, schema, f"{who}: {function.name}")
        schema = pl.Schema({**schema, **{name: f.dtype for name, f in functions.items()}})
        for part in _parts(expression):
            if not _one_row_at_a_time(part, schema):
                raise PlanError(
                    f"{who}: an expression must look at one row at a time",
                    detail=f"{part} depends on other rows",
                    hint="a stream has no fixed set of rows: use aggregate, sort or a join for that",
                )
    except pl.exceptions.PolarsError as problem:
        raise PlanError(
            f"{who}: this expression cannot be checked",
            detail=f"{expression} may look at other rows, or at several columns at once",
            hint="name one column at a time; a Python function is given with sw.function; compute what "
            "needs list.eval before it enters the stream",
        ) from problem
    try:
        [dtype] = pl.DataFrame(schema=schema).select(expression).schema.dtypes()
    except pl.exceptions.PolarsError as problem:
        columns = ", ".join(f"{name}: {dtype}" for name, dtype in schema.items())
        raise PlanError(
            f"{who}: the expression does not fit the columns' types",
            detail=f"{str(problem).splitlines()[0]} (columns: {columns})",
            hint="compare and combine values of one type; cast where needed",
        ) from problem
    return dtype


def _require_free(schema: pl.Schema, name: str, who: str) -> None:
    if name in schema:
        raise PlanError(
            f"{who}: a column bears the name of a user function", detail=name, hint="rename the column"
        )


def _parts(expression: pl.Expr) -> Iterator[pl.Expr]:
    yield expression
    for part in expression.meta.pop():
        yield from _parts(part)


def _one_row_at_a_time(part: pl.Expr, schema: pl.Schema) -> bool:
    meta = part.meta
    # what holds an expression that Polars cannot resolve without a schema raises here
    if not meta.is_row_separable() or not (meta.is_length_preserving() or meta.is_literal()):
        return False
    operands = meta.pop()
    if len(operands) > 1:
        function = str(part).removeprefix(str(operands[-1]))
        if function.startswith(tuple(f".{name}(" for name in _LOOK_UP)):
            return all(_whole_in_itself(operand, schema) for operand in operands[:-1])
    return True


def _whole_in_itself(operand: pl.Expr, schema: pl.Schema) -> bool:
    """A literal, or a column in which every row has its own list."""
    if operand.meta.is_literal():
        return True
    [dtype] = pl.DataFrame(schema=schema).select(operand).schema.dtypes()
    return isinstance(dtype, pl.List | pl.Array)
