"""Overflow: where the integers of an expression leave their type.

Polars wraps such numbers silently, which would be a wrong row. For every part of an expression that
calculates with integers (+, -, *, //, **, negation, abs, sum_horizontal), `overflows` gives a condition
that is true where the result is not the exact one. In when/then/otherwise a branch counts only where it
is taken. Not looked at: list.sum, arithmetic on times, and integers of 128 bits.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

__all__ = ["overflows"]

_SIGNS = (" + ", " - ", " * ", " // ", ".pow(", ".negate(", ".abs(", ".sum_horizontal(")
_TOLERANCE = 1e-6
"""far more than float rounding, far less than what wrapping changes"""


def overflows(expression: pl.Expr, schema: pl.Schema) -> list[tuple[pl.Expr, pl.Expr]]:
    """The parts that may overflow, each with the condition that it does.

    >>> [(part, condition)] = overflows(pl.col("a") * 2, pl.Schema({"a": pl.Int8}))
    >>> frame = pl.DataFrame({"a": [3, 64, None]}, schema={"a": pl.Int8})
    >>> str(part), frame.select(condition).to_series().to_list()
    ('[(col("a")) * (dyn int: 2)]', [False, True, None])
    """
    text = str(expression)
    if not any(sign in text for sign in _SIGNS):
        return []
    empty = pl.DataFrame(schema=schema)
    found = []
    for part, condition, taken in _conditions(expression, None):
        named = [each.alias(str(i)) for i, each in enumerate([part, *part.meta.pop()])]
        if all(map(_is_whole, empty.select(named).schema.dtypes())):
            found.append((part, condition if taken is None else taken & condition))
    return found


def _is_whole(dtype: pl.DataType) -> bool:
    narrow = dtype.is_integer() and dtype not in (pl.Int128, pl.UInt128)
    return narrow or dtype == pl.Boolean


def _conditions(
    part: pl.Expr, taken: pl.Expr | None
) -> Iterator[tuple[pl.Expr, pl.Expr, pl.Expr | None]]:
    operands = part.meta.pop()[::-1]
    text, texts = str(part), [str(operand) for operand in operands]
    if len(operands) == 3 and text == ".when({2}).then({0}).otherwise({1})".format(*texts):
        then, otherwise, when = operands
        is_so = when.fill_null(value=False)
        yield from _conditions(when, taken)
        yield from _conditions(then, is_so if taken is None else taken & is_so)
        yield from _conditions(otherwise, ~is_so if taken is None else taken & ~is_so)
        return
    for operand in operands:
        yield from _conditions(operand, taken)
    condition = _condition(part, text, operands, texts)
    if condition is not None:
        yield part, condition, taken


def _condition(part: pl.Expr, text: str, operands: list[pl.Expr], texts: list[str]) -> pl.Expr | None:
    wide = [operand.cast(pl.Int128) for operand in operands]
    exact = None
    if len(operands) == 2:
        left, right = operands
        if text == "[({}) + ({})]".format(*texts):
            exact = wide[0] + wide[1]
        elif text == "[({}) - ({})]".format(*texts):
            exact = wide[0] - wide[1]
        elif text == "[({}) * ({})]".format(*texts):
            exact = wide[0] * wide[1]
        elif text == "[({}) // ({})]".format(*texts):
            # the smallest integer has no opposite
            return (right == -1) & (left != 0) & (part == left)
        elif text == "{}.pow([{}])".format(*texts):
            real = left.cast(pl.Float64) ** right.cast(pl.Float64)
            return (part.cast(pl.Float64) - real).abs() > _TOLERANCE * real.abs()
    if len(operands) == 1 and text == f"{texts[0]}.negate()":
        exact = pl.lit(0, pl.Int128) - wide[0]
    if len(operands) == 1 and text == f"{texts[0]}.abs()":
        exact = wide[0].abs()
    if text.startswith(f"{texts[0]}.sum_horizontal(" if texts else "\0"):
        exact = pl.sum_horizontal(wide)
    return None if exact is None else part.cast(pl.Int128) != exact
