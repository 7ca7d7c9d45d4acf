"""Programs: expressions as programs of a few steps, which compiled loops can run for a row at a time.

Sums, differences, products, comparisons and their combinations, of columns of 64 bits and of constants.
A program works on two stacks, of integers and of floats, whose places are counted together:

    m + step * 2 > 0.5      load m, load step, integer 2, times, plus, to float, float 0.5, greater

What polars does in another way is left to it: an expression that is more than this is `Unfit`, and so is
whoever runs a program where an integer does not fit, or NaN is compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from slackwater.plan.arithmetic import Unfit, tree_of

__all__ = ["Programs", "programs"]

Code: TypeAlias = list[tuple[int, int]]
Load: TypeAlias = tuple[int, int]
"""from which table, and which column there"""

_TYPES: dict[pl.DataType, str] = {pl.Int64(): "int", pl.Float64(): "float", pl.Boolean(): "bool"}
INTEGER, FLOAT, TO_FLOAT = 10, 11, 12
"""the first steps load from tables, of integers and of floats: 2 * table, and one more"""
_SUMS = {"Plus": 20, "Minus": 21, "Multiply": 22}
_COMPARISONS = {"Gt": 30, "GtEq": 31, "Lt": 32, "LtEq": 33, "Eq": 34, "NotEq": 35}
_CHOICES = {"And": 40, "Or": 41}
OF_FLOATS = 100
"""added to a step that takes floats"""
_FAR = 2**62


class Programs(NamedTuple):
    """Several programs: their steps, where each begins and ends, and the floats that they name."""

    code: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    floats: npt.NDArray[np.float64]


def programs(
    expressions: Sequence[tuple[pl.Expr | None, pl.DataType]],
    schema: Mapping[str, pl.DataType],
    loads: Mapping[str, Load],
) -> Programs:
    """Expressions of these types as programs; one that is none has no steps.

    >>> found = programs([(pl.col("m") + 2 > 1, pl.Boolean())], {"m": pl.Int64()}, {"m": (0, 0)})
    >>> found.code.tolist()
    [[0, 0], [10, 2], [20, 0], [10, 1], [30, 0]]
    """
    code: Code = []
    floats: list[float] = []
    ends = [0]
    for expression, dtype in expressions:
        if expression is not None:
            steps, kind, is_column = _Compiler(schema, loads, floats).steps(tree_of(expression))
            if not is_column or _TYPES.get(dtype) != kind:
                raise Unfit
            code += steps
        ends.append(len(code))
    return Programs(
        np.array(code, dtype=np.int64).reshape(-1, 2), np.array(ends), np.array(floats, dtype=np.float64)
    )


class _Compiler:
    """From the tree of an expression to steps, the kind of the result, and whether it reads columns."""

    def __init__(
        self, schema: Mapping[str, pl.DataType], loads: Mapping[str, Load], floats: list[float]
    ) -> None:
        self.schema = schema
        self.loads = loads
        self.floats = floats

    def steps(self, tree: Any) -> tuple[Code, str, bool]:
        match tree:
            case {"Column": str(name)} if name in self.loads and self.schema[name] in _TYPES:
                table, column = self.loads[name]
                kind = _TYPES[self.schema[name]]
                if kind == "bool":
                    raise Unfit
                return [(2 * table + (kind == "float"), column)], kind, True
            case {"Literal": {"Dyn": {"Int": int(value)}} | {"Scalar": {"Int64": int(value)}}} if (
                abs(value) < _FAR
            ):
                return [(INTEGER, value)], "int", False
            case {"Literal": {"Dyn": {"Float": float(number)}} | {"Scalar": {"Float64": float(number)}}}:
                self.floats.append(number)
                return [(FLOAT, len(self.floats) - 1)], "float", False
            case {"BinaryExpr": {"left": left, "op": str(operation), "right": right}}:
                return self.combined(operation, self.steps(left), self.steps(right))
        raise Unfit

    def combined(
        self, operation: str, left: tuple[Code, str, bool], right: tuple[Code, str, bool]
    ) -> tuple[Code, str, bool]:
        (one, kind, is_column), (other, other_kind, also) = left, right
        if not (is_column or also):
            raise Unfit
        kinds = {kind, other_kind}
        if operation in _CHOICES and kinds == {"bool"}:
            return [*one, *other, (_CHOICES[operation], 0)], "bool", True
        known = _SUMS | _COMPARISONS
        if operation not in known or "bool" in kinds:
            raise Unfit
        step = known[operation]
        if "float" in kinds:
            one = [*one, (TO_FLOAT, 0)] if kind == "int" else one
            other = [*other, (TO_FLOAT, 0)] if other_kind == "int" else other
            step += OF_FLOATS
        found = "bool"
        if operation in _SUMS:
            found = "float" if "float" in kinds else "int"
        return [*one, *other, (step, 0)], found, True
