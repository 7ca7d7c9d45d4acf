"""Expressions: Polars expressions that speak of one row at a time, checked against a schema.

A stream has no last row and no fixed batches, so an expression that looks at other rows (sums, shifts,
ranks, window functions) would mean something else for every batching. Such expressions are refused
here, once, while the plan is built; so are columns that do not exist and types that do not fit.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from slackwater.errors import PlanError
from slackwater.plan.schemas import require_columns

__all__ = ["checked", "column", "type_of"]


def column(value: str | pl.Expr) -> pl.Expr:
    """A column name or an expression, as an expression."""
    return pl.col(value) if isinstance(value, str) else value


def checked(expression: pl.Expr, schema: pl.Schema, who: str) -> pl.Expr:
    """The expression, if it gives one value per row of that schema."""
    type_of(expression, schema, who)
    return expression


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
    require_columns(schema, expression.meta.root_names(), who)
    for part in _parts(expression):
        if not _one_row_at_a_time(part, who):
            raise PlanError(
                f"{who}: an expression must look at one row at a time",
                detail=f"{part} depends on other rows",
                hint="a stream has no fixed set of rows: use aggregate, sort or a join for that",
            )
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


def _parts(expression: pl.Expr) -> Iterator[pl.Expr]:
    yield expression
    if _evaluates_inside_one_value(expression):
        return
    for part in expression.meta.pop():
        yield from _parts(part)


def _one_row_at_a_time(part: pl.Expr, who: str) -> bool:
    if str(part).endswith(".python_udf()"):
        raise PlanError(
            f"{who}: a Python function inside an expression cannot be checked",
            detail=f"{part} may look at other rows",
            hint="compute the column before it enters the stream",
        )
    if _evaluates_inside_one_value(part):
        return True
    meta = part.meta
    return meta.is_row_separable() and (meta.is_length_preserving() or meta.is_literal())


def _evaluates_inside_one_value(part: pl.Expr) -> bool:
    """list.eval and array.eval look at the elements of one row's value only."""
    text = str(part)
    return text.endswith(")") and (".list.eval(" in text or ".array.eval(" in text)
