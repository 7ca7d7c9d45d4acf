"""User functions: Python functions of Arrow columns, wherever an expression stands.

Two families: what they compute (runs against the oracle), and what becomes of a row for which they have
no value.
"""

from __future__ import annotations

import datetime as dt
import pickle
from collections.abc import Callable
from typing import Any, Literal

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import slackwater as sw
from slackwater.events import Element
from slackwater.history import History
from slackwater.plan.functions import functions_in

ROWS: list[Element] = [
    sw.insert(0, 10, k="a", v=1),
    sw.insert(1, 10, k="b", v=2),
    sw.insert(2, None, k="a", v=3),
    sw.insert(3, 10, k=None, v=None),
    sw.adjust(0, 10, 5, k="a", v=1),
    sw.adjust(1, 10, 1, k="b", v=2),
    sw.insert(4, 6, k="b", v=4),
    sw.cti(20),
]


def is_odd(values: pa.Array) -> pa.Array:
    return pc.equal(pc.bit_wise_and(values, 1), 1)


def half(values: pa.Array) -> pa.Array:
    return pc.divide(pc.cast(values, pa.float64()), 2.0)


def greeting(names: pa.Array, numbers: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(names, pc.cast(numbers, names.type), pa.scalar("-", names.type))


def _stream(name: str = "s") -> sw.Query:
    return sw.stream({"k": str, "v": int}, name=name)


HALF = sw.function(half, "v", returns=float)
PLACES: dict[str, Callable[[sw.Query], sw.Query]] = {
    "where": lambda s: s.where(sw.function(is_odd, "v", returns=bool)),
    "where, in an expression": lambda s: s.where(
        sw.function(half, sw.col("v") + 1, returns=float) * 2 > sw.col("v").fill_null(0)
    ),
    "select": lambda s: s.select("k", h=sw.function(half, "v", returns=float)),
    "select, two arguments": lambda s: s.select(g=sw.function(greeting, "k", "v", returns=str)),
    "select, a constant argument": lambda s: s.select(
        g=sw.function(greeting, "k", pl.lit(7), returns=str)
    ),
    "select, only constants": lambda s: s.select(h=sw.function(half, pl.lit(7), returns=float)),
    "select, a function of a function": lambda s: s.select(
        h=sw.function(half, sw.function(half, "v", returns=float), returns=float)
    ),
    "select, the same twice": lambda s: s.select(h=HALF + HALF),
    "aggregate, as a filter": lambda s: s.group_by("k").aggregate(
        n=sw.count(where=sw.function(is_odd, "v", returns=bool))
    ),
    "aggregate, as a value": lambda s: s.group_by("k").aggregate(
        n=sw.sum(sw.function(half, "v", returns=float))
    ),
    "join": lambda s: s.join(
        s.shift(1), on="k", where=sw.function(half, "v_right", returns=float) < sw.col("v")
    ),
    "left join": lambda s: s.join(
        s.select("k", w="v").shift(1), on="k", where=sw.function(is_odd, "w", returns=bool), how="left"
    ),
    "group_apply": lambda s: s.group_by("k").apply(
        lambda g: g.select(h=sw.function(half, "v", returns=float))
    ),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("batch", [1, 3, 100])
def test_a_function_stands_wherever_an_expression_does(place: str, batch: int) -> None:
    s = _stream()
    query = PLACES[place](s)
    assert query.run({s: ROWS}, batch=batch).as_history() == query.meaning({s: ROWS})


def test_the_values_are_the_functions_own() -> None:
    s = _stream()
    query = s.where(sw.function(is_odd, "v", returns=bool)).select(
        h=sw.function(half, "v", returns=float), g=sw.function(greeting, "k", "v", returns=str)
    )
    assert query.run({s: ROWS}).history().rows() == [(0.5, "a-1", 0, 5), (1.5, "a-3", 2, sw.INF)]


def test_it_gets_one_arrow_array_per_argument_and_only_when_there_are_rows() -> None:
    seen: list[list[Any]] = []

    def spy(names: pa.Array, numbers: pa.Array) -> pa.Array:
        assert isinstance(names, pa.Array)
        assert isinstance(numbers, pa.Array)
        seen.append([names.to_pylist(), numbers.to_pylist()])
        return numbers

    s = _stream()
    query = s.select(n=sw.function(spy, "k", sw.col("v") + 1, returns=int))
    assert query.schema == {"n": pl.Int64()}
    assert "spy(k, " in query.explain()
    running = query.open()
    running.push(s, [sw.cti(0)])
    assert not seen, "neither writing a query nor a promise calls it"
    running.push(s, [sw.insert(0, 1, k="a", v=1), sw.insert(0, 1, k=None, v=None)])
    assert seen == [[["a", None], [2, None]]]


VALUES: dict[str, tuple[Any, Any, pa.DataType | None]] = {
    "bool": (bool, True, None),
    "string": (str, "é", None),
    "short strings of Arrow": (str, "é", pa.string()),
    "views of Arrow": (str, "é", pa.string_view()),
    "bytes": (bytes, b"\0", pa.binary()),
    "datetime": (dt.datetime, dt.datetime(2020, 1, 1), pa.timestamp("us")),
    "list": (pl.List(pl.Int64), [1, None], None),
    "struct": (pl.Struct({"x": pl.Int64}), {"x": 1}, None),
    "int32": (pl.Int32, 7, pa.int32()),
    "NaN": (float, float("nan"), None),
}


@pytest.mark.parametrize("name", VALUES)
def test_values_of_every_type_come_back(name: str) -> None:
    dtype, value, arrow = VALUES[name]
    s = _stream()
    query = s.select(x=sw.function(lambda v: pa.array([value] * len(v), arrow), "v", returns=dtype))
    got = query.run({s: [sw.insert(0, 1, k="a", v=1)]})
    assert list(got) == [sw.insert(0, 1, x=value)]


def test_nothing_but_nulls_needs_no_type() -> None:
    s = _stream()
    query = s.select(x=sw.function(lambda v: pa.array([None] * len(v)), "v", returns=str))
    assert list(query.run({s: [sw.insert(0, 1, k="a", v=1)]})) == [sw.insert(0, 1, x=None)]


def test_chunks_are_taken_together() -> None:
    s = _stream()
    query = s.select(x=sw.function(lambda v: pa.chunked_array([v[:1], v[1:]]), "v", returns=int))
    rows = [sw.insert(i, i + 1, k="a", v=i) for i in range(3)]
    assert query.run({s: rows}).history()["x"].to_list() == [0, 1, 2]


@pytest.mark.parametrize(
    ("write", "fact", "more"),
    [
        (lambda: sw.function(is_odd, returns=bool), "is_odd needs an argument", "how many rows"),
        (lambda: sw.function(5, "v", returns=bool), "5 cannot be called", ""),  # type: ignore[arg-type]
        (lambda: sw.function(is_odd, 5, returns=bool), "neither a column nor", "lit"),  # type: ignore[arg-type]
        (lambda: sw.function(is_odd, "v", returns=object), "a stream cannot carry", "use bool"),
        (
            lambda: _stream().where(sw.function(is_odd, "w", returns=bool)),
            "where: is_odd: unknown column 'w'",
            "the input has: k, v",
        ),
        (
            lambda: _stream().where(sw.function(half, "v", returns=float)),
            "where: a predicate must be true or false",
            "Float64",
        ),
        (
            lambda: _stream().select(x=sw.function(half, "v", returns=float) == "x"),
            "select x: the expression does not fit",
            "",
        ),
        (
            lambda: _stream().select(x=sw.function(half, sw.col("v").sum(), returns=float)),
            "select x: half: an expression must look at one row at a time",
            "sum",
        ),
        (
            lambda: _stream().select(x=sw.function(half, "v", returns=float).cum_sum()),
            "select x: an expression must look at one row at a time",
            "cum_sum",
        ),
        (
            lambda: _stream().aggregate(x=sw.sum(sw.function(greeting, "k", "v", returns=str))),
            "aggregate x: cannot aggregate values of type String",
            "numbers",
        ),
        (
            lambda: _stream().select(x=sw.col("v").map_batches(lambda v: v, return_dtype=pl.Int64)),
            "cannot be checked",
            "sw.function",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_while_it_is_written(
    write: Callable[[], object], fact: str, more: str
) -> None:
    with pytest.raises(sw.PlanError) as refusal:
        write()
    assert fact in refusal.value.fact
    assert more in str(refusal.value)


def raises(values: pa.Array) -> pa.Array:
    if pc.any(pc.equal(values, 13)).as_py():
        raise ValueError("unlucky")
    return values


def drops(values: pa.Array) -> pa.Array:
    return values.filter(pc.not_equal(values, 13))


def doubles(values: pa.Array) -> pa.Array:
    return pa.concat_arrays([values, values.filter(pc.equal(values, 13))])


def other_type(values: pa.Array) -> pa.Array:
    return pc.cast(values, pa.float64()) if 13 in values.to_pylist() else values


def not_arrow(values: pa.Array) -> Any:
    return values.to_pylist() if 13 in values.to_pylist() else values


def nothing(values: pa.Array) -> Any:
    return None if 13 in values.to_pylist() else values


BROKEN: dict[Callable[..., Any], str] = {
    raises: "raises raised ValueError: unlucky",
    drops: "drops returned 0 values for 1 rows",
    doubles: "doubles returned 2 values for 1 rows",
    other_type: "other_type returned Float64, and was declared to return Int64",
    not_arrow: "not_arrow returned a list, not an Arrow array",
    nothing: "nothing returned a NoneType, not an Arrow array",
}
SOME = [*(sw.insert(i, i + 5, k="a", v=i) for i in range(12)), sw.insert(12, 20, k="b", v=13)]

each_break = pytest.mark.parametrize("broken", BROKEN, ids=lambda f: f.__name__)


@each_break
@pytest.mark.parametrize("batch", [1, 5, 100])
def test_a_broken_function_is_named_with_operator_and_row(
    broken: Callable[..., Any], batch: int
) -> None:
    s = _stream()
    name = broken.__name__
    for who, query in {
        "select x": s.select(x=sw.function(broken, "v", returns=int)),
        "where": s.where(sw.function(broken, "v", returns=int) > 0),
        "aggregate n": s.aggregate(n=sw.count(where=sw.function(broken, "v", returns=int) > 0)),
        "join where": s.join(s, on="k", where=sw.function(broken, "v", returns=int) > 0),
    }.items():
        with pytest.raises(sw.OperatorError) as error:
            query.run({s: SOME}, batch=batch)
        assert error.value.fact.startswith(f"{who}: ")
        assert f"{name}(v)" in error.value.fact
        assert "has no value for {'k': 'b', 'v': 13" in error.value.fact
        assert error.value.detail.startswith(BROKEN[broken])
        assert "insert(12, 20, k='b', v=13" in error.value.detail
        with pytest.raises(sw.OperatorError) as by_definition:
            query.meaning({s: SOME})
        assert by_definition.value.fact == error.value.fact


@each_break
def test_no_row_comes_out_of_a_batch_that_fails(broken: Callable[..., Any]) -> None:
    s = _stream()
    running = s.select(x=sw.function(broken, "v", returns=int)).open()
    with pytest.raises(sw.OperatorError):
        running.push(s, SOME)
    assert len(running.output) == 0
    with pytest.raises(sw.OperatorError, match="has stopped"):
        running.push(s, [])


@each_break
@pytest.mark.parametrize("batch", [1, 5, 100])
def test_with_the_ledger_bad_rows_and_their_adjusts_are_set_aside(
    broken: Callable[..., Any], batch: int
) -> None:
    s = _stream()
    bad = [sw.insert(12, 20, k="b", v=13), sw.adjust(12, 20, 15, k="b", v=13)]
    good = [sw.insert(12, 20, k="b", v=14), sw.adjust(12, 20, 15, k="b", v=14)]
    elements = [*SOME[:-1], bad[0], good[0], good[1], bad[1], sw.cti(sw.INF)]
    function = sw.function(broken, "v", returns=int)
    for name, query in {
        "Select": s.select("k", x=function),
        "Where": s.where(function >= 0),
        "Aggregate": s.group_by("k").aggregate(n=sw.count(where=function > 3)),
    }.items():
        out = query.run({s: elements}, batch=batch, on_invalid=sw.LEDGER)
        assert [entry.element for entry in out.ledger] == bad
        assert {(entry.reason, entry.detail) for entry in out.ledger} == {("no value", BROKEN[broken])}
        assert all(entry.place.startswith(f"{name} ") for entry in out.ledger)
        rest = [element for element in elements if element not in bad]
        assert out.as_history() == query.meaning({s: rest})
        assert out.settled_until == sw.INF


@pytest.mark.parametrize("latency", sw.OutputLatency)
@pytest.mark.parametrize("how", ["inner", "left", "full", "anti"])
def test_a_pair_without_a_value_goes_to_the_ledger_and_nobody_is_said_to_be_alone(
    how: Literal["inner", "left", "full", "anti"], latency: sw.OutputLatency
) -> None:
    s, t = _stream("s"), _stream("t")
    inputs: dict[sw.Query, list[Element]] = {
        s: [*SOME],
        t: [sw.insert(0, 30, k="a", v=1), sw.insert(0, 30, k="b", v=1)],
    }
    inputs[s] += [sw.adjust(12, 20, 17, k="b", v=13), sw.cti(sw.INF)]
    inputs[t] += [sw.adjust(0, 30, 15, k="b", v=1), sw.cti(sw.INF)]
    query = s.join(t, on="k", where=sw.function(raises, "v", returns=int) >= 0, how=how).latency(latency)
    with pytest.raises(sw.OperatorError, match=r"join where: .* has no value") as error:
        query.run(inputs)
    assert "sw.LEDGER" in error.value.hint
    out = query.run(inputs, on_invalid=sw.LEDGER, batch=3)
    assert {(entry.reason, entry.detail) for entry in out.ledger} == {("no value", BROKEN[raises])}
    left_out = History.of(
        [e.element for e in out.ledger if isinstance(e.element, sw.Insert | sw.Adjust)]
    )
    assert left_out.rows() == [("b", 13, 1, 12, 15)]
    # as if all pairs were good, but for those that are left out
    answer = s.join(t, on="k", how=how).meaning(inputs)
    assert out.as_history() == (answer if how == "anti" else answer.minus(left_out))
    assert out.settled_until == sw.INF


def test_a_function_of_several_rows_is_found_out() -> None:
    """It fails for rows together and for none alone: no row is to blame, so nothing is set aside."""
    s = _stream()
    query = s.select(x=sw.function(lambda v: pa.array([pc.sum(v).as_py()]), "v", returns=int))
    for on_invalid in sw.RAISE, sw.LEDGER:
        with pytest.raises(sw.OperatorError, match="rows together, and for none alone") as error:
            query.run({s: SOME}, on_invalid=on_invalid)
        assert "returned 1 values for" in error.value.detail


def test_an_interrupt_is_not_taken_for_a_bad_row() -> None:
    def interrupted(values: pa.Array) -> pa.Array:
        raise KeyboardInterrupt

    s = _stream()
    with pytest.raises(KeyboardInterrupt):
        s.select(x=sw.function(interrupted, "v", returns=int)).run({s: SOME}, on_invalid=sw.LEDGER)


def test_a_function_can_be_sent_to_another_process() -> None:
    expression = sw.function(half, "v", returns=float) + 1
    [function] = functions_in(expression).values()
    sent = pickle.loads(pickle.dumps(function))  # noqa: S301
    assert (sent.function, sent.dtype, sent.column) == (half, pl.Float64(), function.column)
    assert [str(argument) for argument in sent.arguments] == ['col("v")']


def test_expressions_see_one_zero() -> None:
    """-0.0 is 0.0: an adjust may name its event by either, and means it whatever is made of it."""
    s = sw.stream({"x": float}, name="s")
    told = [sw.insert(0, 10, x=-0.0), sw.adjust(0, 10, 5, x=0.0), sw.cti(None)]
    inverse = 1 / sw.col("x")
    for query in (
        s.select(t=inverse),
        s.where(inverse > 0),
        s.select(t=sw.col("x").cast(str)),
        s.select(t=inverse).group_by("t").aggregate(n=sw.count()),
        s.aggregate(m=sw.max(inverse)),
        s.aggregate(t=sw.group_function(str, "x", dtype=str)),
    ):
        out = query.run({s: told}, batch=1)
        sw.validate(list(out))
        assert out.as_history() == query.meaning({s: told})
        assert [row[-1] for row in out.history().rows()] == [5]
