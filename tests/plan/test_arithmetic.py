"""Arithmetic on arrays gives what polars gives, or says that it is not sure."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import OperatorError
from slackwater.plan.arithmetic import constant_in, in_arrays
from slackwater.plan.evaluation import Formula

SCHEMA = pl.Schema(
    {"a": pl.Int64(), "b": pl.Int64(), "s": pl.String(), "t": pl.String(), "p": pl.Boolean()}
)

numbers = st.one_of(
    st.integers(-5, 5),
    st.sampled_from([2**62, -(2**62), 2**63 - 1, -(2**63), 2**31, 2**31 + 1, -(2**31) - 1, 2**32]),
)
words = st.sampled_from(["", "x", "y", "ä", "x\0"])
literals = st.one_of(st.integers(-3, 3), st.sampled_from([2**31, 2**61, -(2**61)])).map(pl.lit)

sums = st.recursive(
    st.sampled_from([pl.col("a"), pl.col("b")]),
    lambda inner: st.tuples(
        st.sampled_from("+-*"), inner, st.one_of(inner, literals), st.booleans()
    ).map(lambda drawn: _applied(*drawn)),
    max_leaves=4,
)
compared = st.tuples(
    st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), sums, st.one_of(sums, literals), st.booleans()
).map(lambda drawn: _applied(*drawn))
said = st.tuples(
    st.sampled_from(["==", "!="]),
    st.sampled_from([pl.col("s"), pl.col("t")]),
    st.one_of(words.map(pl.lit), st.just(pl.col("t"))),
    st.booleans(),
).map(lambda drawn: _applied(*drawn))
conditions = st.recursive(
    st.one_of(compared, said, st.just(pl.col("p"))),
    lambda inner: st.one_of(
        inner.map(lambda each: ~each),
        st.tuples(st.sampled_from("&|"), inner, inner, st.booleans()).map(lambda d: _applied(*d)),
    ),
    max_leaves=4,
)


def _applied(sign: str, one: pl.Expr, other: pl.Expr, turned: bool) -> pl.Expr:
    if turned:
        one, other = other, one
    of_sign = {
        "+": "__add__", "-": "__sub__", "*": "__mul__", "&": "__and__", "|": "__or__",
        "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__", "==": "__eq__", "!=": "__ne__",
    }  # fmt: skip
    found: pl.Expr = getattr(one, of_sign[sign])(other)
    return found


@st.composite
def frames(draw: st.DrawFn) -> pl.DataFrame:
    rows = draw(st.integers(0, 4))
    of_type: dict[Any, st.SearchStrategy[Any]] = {
        pl.Int64: numbers, pl.String: words, pl.Boolean: st.booleans()
    }  # fmt: skip
    may_miss = draw(st.booleans())
    columns = {}
    for name, dtype in SCHEMA.items():
        values = st.one_of(st.none(), of_type[dtype]) if may_miss else of_type[dtype]
        columns[name] = draw(st.lists(values, min_size=rows, max_size=rows))
    return pl.DataFrame(columns, schema=SCHEMA)


@given(st.one_of(sums, conditions), frames())
def test_it_gives_what_polars_gives(expression: pl.Expr, frame: pl.DataFrame) -> None:
    arithmetic = in_arrays(expression, SCHEMA)
    assert arithmetic is not None
    found = arithmetic(frame)
    if found is not None:
        assert pl.Series(found).to_list() == frame.select(x=expression)["x"].to_list()


@given(st.one_of(sums, conditions), frames())
def test_a_formula_says_the_same_with_and_without_it(expression: pl.Expr, frame: pl.DataFrame) -> None:
    quick, slow = (Formula(expression, SCHEMA, "test") for _ in range(2))
    object.__setattr__(slow, "_in_arrays", None)
    answers = []
    for formula in (quick, slow):
        try:
            answers.append(formula.values(frame).to_list())
        except OperatorError as problem:
            answers.append([problem.fact, problem.detail])
    assert answers[0] == answers[1]


def test_it_is_sure_of_what_is_usual() -> None:
    frame = pl.DataFrame(
        {"a": [1, 2], "b": [2, 1], "s": ["x", "y"], "t": ["x", "x"], "p": [True, False]}
    )
    for expression, expected in [
        (pl.col("a") + pl.col("b") * 2 - 1, [4, 3]),
        (1 - pl.col("a"), [0, -1]),
        ((pl.col("s") == "x") & (pl.col("a") < pl.col("b")), [True, False]),
        (~pl.col("p") | (pl.col("t") != "x"), [False, True]),
        ((pl.col("a") > 1).alias("named"), [False, True]),
    ]:
        arithmetic = in_arrays(expression, SCHEMA)
        assert arithmetic is not None
        found = arithmetic(frame)
        assert found is not None
        assert found.tolist() == expected


@pytest.mark.parametrize(
    "expression",
    [
        pl.col("a") // 2,
        pl.col("a") / 2,
        pl.col("a").cast(pl.Float64) + 1,
        pl.col("a") + 1.5,
        pl.col("a") + pl.lit(1, dtype=pl.Int8),
        pl.lit(1) + pl.lit(2),
        pl.col("s") + "x",
        pl.col("s") < "x",
        pl.col("p") == pl.lit(True),
        pl.col("a") == pl.lit(None),
        pl.col("a") > 2**63,
        pl.col("a").abs(),
        pl.col("a").map_elements(lambda x: x, return_dtype=pl.Int64),
        pl.when(pl.col("p")).then(pl.col("a")).otherwise(0),
    ],
    ids=str,
)
def test_what_is_not_of_that_kind_is_left_to_polars(expression: pl.Expr) -> None:
    assert in_arrays(expression, SCHEMA) is None


def test_constants() -> None:
    for value, dtype in [(7, None), (0, pl.Int64), ("s", None), (None, pl.String), (2.5, None)]:
        constant = constant_in(pl.lit(value, dtype=dtype).alias("x"))
        assert constant is not None
        assert constant.to_list() == [value]
        assert constant.dtype == pl.select(pl.lit(value, dtype=dtype)).to_series().dtype
    assert constant_in(pl.col("a")) is None
    assert constant_in(pl.lit(pl.Series([1, 2]))) is None
