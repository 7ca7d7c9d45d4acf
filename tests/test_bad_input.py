"""Bad input: a clear error that names operator and element, or the ledger, as configured.

Whatever comes in, no wrong row goes out: after an error the output holds what was said before the bad
batch and nothing of it, and with the ledger the answer is that over the input without what it lists.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
import slackwater.state
from slackwater.events import Element, Insert
from slackwater.history import History
from slackwater.plan.aggregations import Aggregation
from slackwater.runtime import OnInvalid
from slackwater.testing import histories, streams

SMALLEST, LARGEST = -(2**63), 2**63 - 1
NAN = float("nan")


def _stream(name: str = "s") -> sw.Query:
    return sw.stream({"k": float, "v": int}, name=name)


OPERATORS: dict[str, Callable[[sw.Query], sw.Query]] = {
    "select": lambda s: s.select("v"),
    "aggregate": lambda s: s.group_by("k").aggregate(n=sw.count(), t=sw.sum("v")),
    "join": lambda s: s.join(s, on="k"),
    "anti join": lambda s: s.join(s.shift(1), on="k", how="anti"),
    "distinct": lambda s: s.distinct(),
    "session": lambda s: s.group_by("k").window(sw.session(2)),
    "strong": lambda s: s.aggregate(n=sw.count()).consistency("strong"),
}
GOOD: list[Element] = [sw.insert(0, 10, k=1.0, v=1), sw.insert(5, 9, k=NAN, v=2), sw.cti(4)]
OFFENDERS: dict[str, tuple[Element, str, str]] = {
    "an adjust of an event that was never there": (
        sw.adjust(5, 9, 7, k=2.0, v=2),
        "unknown event",
        "adjusts an event that does not exist",
    ),
    "an adjust with another payload": (
        sw.adjust(5, 9, 7, k=None, v=2),
        "unknown event",
        "adjusts an event that does not exist",
    ),
    "an adjust of another end": (
        sw.adjust(5, 8, 7, k=NAN, v=2),
        "chain out of order",
        "names an end that its event does not have",
    ),
    "an insert behind the cti": (
        sw.insert(3, 20, k=1.0, v=1),
        "promise broken",
        "breaks the promise cti(4)",
    ),
    "an adjust to behind the cti": (
        sw.adjust(0, 10, 3, k=1.0, v=1),
        "promise broken",
        "breaks the promise cti(4)",
    ),
    "a removal behind the cti": (
        sw.adjust(0, 10, 0, k=1.0, v=1),
        "promise broken",
        "breaks the promise cti(4)",
    ),
}


@pytest.mark.parametrize("offence", OFFENDERS)
@pytest.mark.parametrize("operator", OPERATORS)
def test_what_a_stream_may_not_contain_stops_the_query_by_name(operator: str, offence: str) -> None:
    offender, rule, fact = OFFENDERS[offence]
    s = _stream("readings")
    running = OPERATORS[operator](s).open()
    running.push(s, GOOD)
    said = list(running.output)
    with pytest.raises(sw.InvalidStream) as error:
        running.push(s, [sw.insert(6, 7, k=1.0, v=9), offender])
    assert (error.value.element, error.value.rule) == (offender, rule)
    assert f"{offender!r} {fact}" in error.value.fact
    assert list(running.output) == said
    with pytest.raises(sw.OperatorError, match="has stopped"):
        running.push(s, [])


@pytest.mark.parametrize("offence", OFFENDERS)
@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("batch", [1, 100])
def test_or_is_set_aside_as_if_it_had_never_come(operator: str, offence: str, batch: int) -> None:
    offender, rule, _ = OFFENDERS[offence]
    s = _stream("readings")
    query = OPERATORS[operator](s)
    rest = [sw.adjust(5, 9, 6, k=NAN, v=2), sw.cti(sw.INF)]
    out = query.run({s: [*GOOD, offender, *rest]}, on_invalid=sw.LEDGER, batch=batch)
    [entry] = out.ledger
    assert (entry.element, entry.reason, entry.place) == (offender, rule, "readings")
    assert out.as_history() == query.meaning({s: [*GOOD, *rest]})


# NaN and null as keys


KEYS: list[Insert] = [
    sw.insert(0, 10, k=None, v=1),
    sw.insert(1, 10, k=None, v=2),
    sw.insert(2, 10, k=NAN, v=3),
    sw.insert(3, 10, k=-NAN, v=4),
    sw.insert(4, 10, k=0.0, v=5),
    sw.insert(5, 10, k=-0.0, v=6),
]


def _at(out: sw.Output, time: int) -> list[tuple[Any, ...]]:
    rows = out.history().filter((pl.col("vs") <= time) & (pl.col("ve") > time)).drop("vs", "ve").rows()
    return sorted(rows, key=repr)


def test_nulls_form_one_group_and_so_does_nan() -> None:
    s = _stream()
    out = s.group_by("k").aggregate(n=sw.count(), t=sw.sum("v")).run({s: KEYS}, batch=1)
    groups = [(repr(k + 0.0 if k is not None else k), n, t) for k, n, t in _at(out, 9)]
    assert groups == [("0.0", 2, 11), ("None", 2, 3), ("nan", 2, 7)]


def test_null_keys_match_nothing_and_nan_matches_nan() -> None:
    s, t = _stream("s"), _stream("t")
    inputs = {s: KEYS, t: KEYS}
    pairs = {(v, w) for _, v, w in _at(s.join(t, on="k").run(inputs, batch=2), 9)}
    assert pairs == {(3, 3), (3, 4), (4, 3), (4, 4), (5, 5), (5, 6), (6, 5), (6, 6)}
    alone = _at(s.join(t, on="k", how="anti").run(inputs, batch=2), 9)
    assert alone == [(None, 1), (None, 2)]


def test_as_payloads_nulls_are_equal_and_so_is_nan() -> None:
    s = _stream()
    query = s.select("k").distinct()
    out = query.run({s: KEYS}, batch=1)
    assert sorted(repr(abs(k) if k is not None else k) for [k] in _at(out, 9)) == ["0.0", "None", "nan"]
    removed = [sw.adjust(e.vs, e.ve, e.vs, **e.payload) for e in KEYS]
    assert len(query.run({s: [*KEYS, *removed]}, batch=1).history()) == 0


# Integers that do not fit


def test_a_sum_that_does_not_fit_names_aggregate_and_group() -> None:
    s = _stream()
    running = s.group_by("k").aggregate(total=sw.sum("v")).open()
    running.push(s, [sw.insert(0, 9, k=1.0, v=LARGEST), sw.insert(0, 9, k=2.0, v=LARGEST)])
    said = list(running.output)
    with pytest.raises(sw.OperatorError, match=r"aggregate total: .*does not fit 64 bits") as error:
        running.push(s, [sw.insert(4, 6, k=2.0, v=1)])
    assert str(LARGEST + 1) in error.value.fact
    assert "{'k': 2.0}" in error.value.detail
    assert list(running.output) == said


def test_a_sum_that_does_not_fit_in_a_group_of_a_subplan_names_the_group() -> None:
    s = _stream()
    query = s.group_by("k").apply(lambda group: group.aggregate(total=sw.sum("v")))
    with pytest.raises(sw.OperatorError) as error:
        query.run({s: [sw.insert(0, 9, k=2.0, v=LARGEST), sw.insert(0, 9, k=2.0, v=1)]})
    assert "group {'k': 2.0}, from 0 on" in error.value.detail


@pytest.mark.parametrize("batch", [0, 2.0, "a", None])
def test_what_is_not_the_size_of_a_batch(batch: Any) -> None:
    s = _stream()
    with pytest.raises(sw.PlanError, match="one element or more"):
        s.run({s: []}, batch=batch)


def test_a_column_without_a_name() -> None:
    with pytest.raises(sw.PlanError, match="needs a name"):
        sw.stream({"": int})


@pytest.mark.parametrize("batch", [1, 100])
@pytest.mark.parametrize("latency", sw.OutputLatency)
def test_a_sum_that_comes_back_is_right(batch: int, latency: sw.OutputLatency) -> None:
    """The opposite number comes first, or in the same batch: no snapshot's sum is out of range."""
    s = _stream()
    query = s.group_by("k").aggregate(total=sw.sum("v"), mean=sw.avg("v")).latency(latency)
    elements: list[Element] = [
        sw.insert(0, 9, k=1.0, v=LARGEST),
        sw.insert(5, 9, k=1.0, v=SMALLEST),
        sw.insert(5, 7, k=1.0, v=LARGEST),
        sw.insert(5, 7, k=1.0, v=SMALLEST),
        sw.adjust(5, 7, 6, k=1.0, v=LARGEST),
        sw.adjust(5, 7, 6, k=1.0, v=SMALLEST),
        sw.cti(sw.INF),
    ]
    if batch == 1:
        # one by one, the adjust of the first would leave a sum that does not fit
        elements = [e for e in elements if not isinstance(e, sw.Adjust)]
    out = query.run({s: elements}, batch=batch)
    assert out.as_history() == query.meaning({s: elements})
    assert {total for _, total, *_ in out.history().rows()} <= {LARGEST, -1, -2}


def test_a_sum_that_overflows_between_two_events_of_a_batch_is_right() -> None:
    s = _stream()
    query = s.aggregate(total=sw.sum("v"))
    elements = [sw.insert(0, 5, k=1.0, v=v) for v in (LARGEST, LARGEST, SMALLEST, SMALLEST)]
    assert query.run({s: elements}, batch=100).history().rows() == [(-2, 0, 5)]
    with pytest.raises(sw.OperatorError, match="does not fit 64 bits"):
        query.run({s: elements}, batch=2)


ARITHMETIC: dict[str, tuple[pl.Expr, int]] = {
    "+": (sw.col("v") + 1, LARGEST),
    "+ of a column": (sw.col("v") + sw.col("v"), LARGEST),
    "-": (sw.col("v") - 1, SMALLEST),
    "*": (sw.col("v") * 2, LARGEST),
    "* inside": ((sw.col("v") * 4) // 4, 2**61),
    "//": (sw.col("v") // -1, SMALLEST),
    "**": (sw.col("v") ** 2, 2**32),
    "** that wraps to a small number": (sw.col("v") ** 2, 2**32 + 1),
    "negation": (-sw.col("v"), SMALLEST),
    "abs": (sw.col("v").abs(), SMALLEST),
    "sum_horizontal": (pl.sum_horizontal("v", pl.lit(1)), LARGEST),
    "a narrow type": (sw.col("v").cast(pl.Int8) + sw.col("v").cast(pl.Int8), 100),
    "unsigned": (sw.col("v").cast(pl.UInt64) - 1, 0),
    "in a branch that is taken": (pl.when(sw.col("v") > 5).then(sw.col("v") * 2).otherwise(0), LARGEST),
}


@pytest.mark.parametrize("name", ARITHMETIC)
def test_an_expression_that_does_not_fit_has_no_value(name: str) -> None:
    expression, bad = ARITHMETIC[name]
    s = _stream()
    good, offender = sw.insert(0, 5, k=1.0, v=3), sw.insert(1, 5, k=1.0, v=bad)
    query = s.select(x=expression)
    for compute in query.run, query.meaning:
        with pytest.raises(sw.OperatorError, match=r"select x: .* has no value for") as error:
            compute({s: [good, offender]})
        assert f"'v': {bad}" in error.value.fact
        assert "does not fit" in error.value.detail
    out = query.run({s: [good, offender]}, on_invalid=sw.LEDGER)
    assert [entry.element for entry in out.ledger] == [offender]
    assert out.as_history() == query.meaning({s: [good]})


@pytest.mark.parametrize("value", [SMALLEST, -(2**32), -1, 0, 1, 7, 2**31, 2**53 + 1, LARGEST, None])
def test_an_expression_that_fits_is_not_refused(value: int | None) -> None:
    s = _stream()
    v = sw.col("v")
    query = s.select(
        same=v + 0,
        back=(v // 2) + (v - v // 2),
        zero=v * 0,
        one=v**0,
        square=(v % 1000) ** 3,
        guarded=pl.when(v < LARGEST).then(v + 1).otherwise(v),
        nested=pl.when(v > 0).then(pl.when(v < 10).then(v * 2**59).otherwise(v)).otherwise(0),
        unsigned=v.cast(pl.Int128) * v,
        float=v.cast(float) * 1e300,
        times=pl.duration(microseconds=v % 1000) * (v % 7),
        text=v.cast(str) + "b",
    )
    [row] = query.run({s: [sw.insert(0, 1, k=1.0, v=value)]}).history().rows(named=True)
    assert row["same"] == row["back"] == value
    if value is not None:
        assert row["guarded"] == min(value + 1, LARGEST)
        assert row["square"] == (value % 1000) ** 3
        assert row["unsigned"] == value * value


# Expressions and aggregates that do not fit the data


def test_an_aggregate_over_strings_is_refused_while_it_is_written() -> None:
    s = sw.stream({"k": str})
    for name, aggregation in {"t": sw.sum("k"), "m": sw.avg("k"), "d": sw.stddev("k")}.items():
        with pytest.raises(
            sw.PlanError, match=f"aggregate {name}: cannot aggregate values of type String"
        ):
            s.aggregate(**{name: aggregation})


def test_an_expression_without_a_value_is_an_error_of_the_same_form_everywhere() -> None:
    s = sw.stream({"a": str})
    number = sw.col("a").cast(pl.Int64)
    elements = [*(sw.insert(i, 50, a=str(i)) for i in range(30)), sw.insert(17, 40, a="x")]
    queries = {
        "select n": s.select(n=number),
        "where": s.where(number > 3),
        "aggregate n": s.aggregate(n=sw.sum(number)),
        "join where": s.join(s, on="a", where=number > 3),
    }
    for who, query in queries.items():
        facts = set()
        for compute in query.run, query.meaning:
            with pytest.raises(sw.OperatorError) as error:
                compute({s: elements})
            facts.add(error.value.fact)
            assert error.value.hint
        [fact] = facts
        assert fact.startswith(f"{who}: ")
        assert "has no value for {'a': 'x'" in fact


@pytest.mark.parametrize("batch", [1, 7, 100])
def test_rows_without_a_value_go_to_the_ledger_one_expression_after_the_other(batch: int) -> None:
    s = sw.stream({"a": str, "b": str})
    query = s.select(m=sw.col("a").cast(pl.Int64), n=sw.col("b").cast(pl.Int64)).aggregate(t=sw.sum("m"))
    bad = [
        sw.insert(1, 9, a="x", b="1"),
        sw.insert(2, 9, a="1", b="y"),
        sw.adjust(2, 9, 4, a="1", b="y"),
        sw.insert(3, 9, a="x", b="y"),
    ]
    good = [sw.insert(i, i + 3, a=str(i), b="0") for i in range(8)]
    elements = [e for pair in zip(good, [*bad, *good[4:]], strict=True) for e in dict.fromkeys(pair)]
    out = query.run({s: [*elements, sw.cti(sw.INF)]}, on_invalid=sw.LEDGER, batch=batch)
    assert sorted(map(repr, (e.element for e in out.ledger))) == sorted(map(repr, bad))
    assert {entry.reason for entry in out.ledger} == {"no value"}
    assert {entry.place.split()[0] for entry in out.ledger} == {"Select"}
    assert out.as_history() == query.meaning({s: good})
    assert out.settled_until == sw.INF


def _unless_negative(values: pa.Array) -> pa.Array:
    if any(value is not None and value < 0 for value in values.to_pylist()):
        raise ValueError("negative")
    return values


FALLIBLE: dict[str, Callable[[sw.Query], sw.Query]] = {
    "select": lambda s: s.select("k", n=sw.function(_unless_negative, "v", returns=int)),
    "where": lambda s: s.where(sw.function(_unless_negative, "v", returns=int) > 1),
    "aggregate": lambda s: s.group_by("k").aggregate(
        n=sw.count(where=sw.function(_unless_negative, "v", returns=int) > 1)
    ),
    "below a join": lambda s: s.select("k", n=sw.function(_unless_negative, "v", returns=int)).join(
        s, on="k", how="left"
    ),
    "a cast": lambda s: s.select("k", n=sw.col("v").cast(pl.UInt64)).distinct(),
}


@pytest.mark.parametrize("name", FALLIBLE)
@given(data=st.data())
def test_the_answer_is_that_over_the_input_without_the_ledger(name: str, data: st.DataObject) -> None:
    s = _stream()
    query = FALLIBLE[name](s)
    history = data.draw(histories(s.schema))
    elements = list(data.draw(streams(history)))
    out = query.run({s: elements}, batch=data.draw(st.integers(1, 9)), on_invalid=sw.LEDGER)
    bad = [e for e in elements if isinstance(e, sw.Insert | sw.Adjust) and (e.payload["v"] or 0) < 0]
    assert [entry.element for entry in out.ledger] == bad
    rest = History(history.frame.filter(pl.col("v").fill_null(0) >= 0))
    if name == "below a join":
        # the other input of the join has all rows
        left, right = _stream("left"), _stream("right")
        assert out.as_history() == left.select("k", n="v").join(right, on="k", how="left").meaning(
            {left: rest, right: history}
        )
    else:
        assert out.as_history() == query.meaning({s: rest})
    assert out.settled_until == sw.INF


# Strings that are not Unicode


@pytest.mark.parametrize("value", ["\ud800", "a\udfff"])
def test_half_of_a_character_is_not_a_string(value: str) -> None:
    s = sw.stream({"a": str, "b": pl.List(pl.String)}, name="words")
    good = sw.insert(0, 9, a="\U0001f600", b=["x"])
    for bad in sw.insert(1, 5, a=value, b=None), sw.insert(1, 5, a="x", b=["x", value]):
        with pytest.raises(sw.InvalidElement, match="cannot hold"):
            s.run({s: [good, bad]})
        out = s.run({s: [good, bad]}, on_invalid=sw.LEDGER)
        assert list(out) == [good]
        [entry] = out.ledger
        assert entry.element is bad
        assert (entry.reason, entry.place) == ("does not fit the columns", "words")


# A group without a result: nobody is to blame, so nothing is set aside


def _no_twos(values: list[int]) -> int:
    if 2 in values:
        raise ValueError("two")
    return len(values)


def _not_two(state: int, value: int) -> int:
    if value == 2:
        raise ValueError("two")
    return state + value


def _not_three(state: int) -> int:
    if state == 3:
        raise ValueError("three")
    return state


def _total(
    add: Callable[[int, int], int] = lambda state, value: state + value,
    result: Callable[[int], int] = lambda state: state,
) -> Aggregation:
    return sw.fold(
        "v", init=int, add=add, remove=lambda state, value: state - value, result=result, dtype=int
    )


NO_RESULT: dict[str, tuple[Aggregation, str, str]] = {
    "group_function": (
        sw.group_function(_no_twos, "v", dtype=int),
        "_no_twos failed",
        "ValueError: two; it was called as _no_twos([1, 2]); group {'k': 7.0}, from 4 on",
    ),
    "fold, add": (
        _total(add=_not_two),
        "_not_two failed",
        "ValueError: two; it was called as _not_two(1, 2); group {'k': 7.0}, from 4 on",
    ),
    "fold, result": (
        _total(result=_not_three),
        "_not_three failed",
        "ValueError: three; it was called as _not_three(3); group {'k': 7.0}, from 4 on",
    ),
    "another type": (
        sw.group_function(lambda v: "2" if 2 in v else 1, "v", dtype=int),
        "a result is not of type Int64",
        "it is '2', of type str; group {'k': 7.0}, from 4 on",
    ),
    "nearly the type": (
        sw.group_function(lambda v: 2 in v or 1, "v", dtype=int),
        "a result is not of type Int64",
        "it is True, of type bool; group {'k': 7.0}, from 4 on",
    ),
    "product": (
        sw.product(sw.col("v") * 2**40),
        "the product does not fit 64 bits",
        "it has some 82 bits; group {'k': 7.0}, from 4 on",
    ),
}


@pytest.mark.parametrize("name", NO_RESULT)
@pytest.mark.parametrize("on_invalid", [sw.RAISE, sw.LEDGER])
@pytest.mark.parametrize("in_group_apply", [False, True])
def test_a_group_without_a_result_stops_the_query_by_its_keys_and_time(
    name: str, on_invalid: OnInvalid, in_group_apply: bool
) -> None:
    aggregation, fact, detail = NO_RESULT[name]
    s = _stream()
    query = s.group_by("k").aggregate(r=aggregation)
    if in_group_apply:
        query = s.group_by("k").apply(lambda group: group.aggregate(r=aggregation))
    running = query.open(on_invalid=on_invalid)
    running.push(s, [sw.insert(0, 9, k=3.0, v=1), sw.insert(0, 9, k=7.0, v=1)])
    said = list(running.output)
    with pytest.raises(sw.OperatorError) as error:
        running.push(s, [sw.insert(3, 5, k=3.0, v=0), sw.insert(4, 6, k=7.0, v=2)])
    assert error.value.fact == f"aggregate r: {fact}"
    assert error.value.detail == detail
    assert "LEDGER" not in str(error.value)
    assert list(running.output) == said


def test_a_result_is_shown_by_its_first_values() -> None:
    s = _stream()
    many = [sw.insert(0, 9, k=1.0, v=i) for i in range(1000)]
    with pytest.raises(sw.OperatorError) as error:
        s.aggregate(r=sw.group_function(_no_twos, "v", dtype=int)).run({s: many})
    assert error.value.detail == (
        "ValueError: two; it was called as _no_twos([0, 1, 2, 3, 4, 5, ...]); from 0 on"
    )


# Rows that cannot be chopped


ENDLESS: dict[str, tuple[list[Element], list[Element]]] = {
    "an insert without end": ([sw.insert(2, None, k=1.0, v=1)], []),
    "one that gets an end": (
        [
            sw.insert(2, None, k=1.0, v=1),
            sw.adjust(2, sw.INF, 9, k=1.0, v=1),
            sw.adjust(2, 9, 7, k=1.0, v=1),
            sw.adjust(2, 7, 2, k=1.0, v=1),
        ],
        [sw.insert(2, 9, k=2.0, v=1)],
    ),
    "a row that loses its end": (
        [sw.adjust(2, 9, sw.INF, k=1.0, v=1), sw.adjust(2, sw.INF, 12, k=1.0, v=1)],
        [sw.insert(2, 9, k=1.0, v=1)],
    ),
    "far too many pieces": (
        [sw.insert(0, 2**62, k=1.0, v=1), sw.adjust(0, 2**62, 20, k=1.0, v=1)],
        [sw.insert(SMALLEST + 1, SMALLEST + 20, k=1.0, v=1)],
    ),
}


@pytest.mark.parametrize("name", ENDLESS)
@pytest.mark.parametrize("batch", [1, 2, 100])
def test_a_row_with_too_many_pieces_goes_to_the_ledger_with_all_that_happens_to_it(
    name: str, batch: int
) -> None:
    s = _stream()
    query = s.chop(5)
    bad, good = ENDLESS[name]
    rest = [sw.insert(3, 11, k=None, v=3), sw.adjust(3, 11, 8, k=None, v=3)]
    elements = [*good, *rest[:1], *bad, *rest[1:]]
    with pytest.raises(sw.OperatorError, match=r"chop: .* pieces") as error:
        query.run({s: elements}, batch=batch)
    assert error.value.detail == repr(bad[0])
    running = query.open(on_invalid=sw.LEDGER)
    for start in range(0, len(elements), batch):
        running.push(s, elements[start : start + batch])
    assert [entry.element for entry in running.output.ledger] == bad
    assert {entry.reason for entry in running.output.ledger} == {"cannot be chopped"}
    assert running.output.as_history() == query.meaning({s: [*good, *rest]})
    running.push(s, [sw.cti(sw.INF)])
    assert [status.state.state_rows for status in running.describe()] == [0]


@given(data=st.data())
def test_chop_answers_over_the_input_without_the_ledger(data: st.DataObject) -> None:
    s = _stream()
    query = s.chop(3)
    elements = list(data.draw(streams(data.draw(histories(s.schema)))))
    with pytest.MonkeyPatch.context() as patch:
        # so that forgetting is tried
        patch.setattr(slackwater.state, "SWEEP_FROM", 0)
        out = query.run({s: elements}, batch=data.draw(st.integers(1, 9)), on_invalid=sw.LEDGER)
    rest = list(elements)
    for entry in out.ledger:
        assert isinstance(entry.element, sw.Insert | sw.Adjust)
        rest.remove(entry.element)
    sw.validate(rest)
    assert out.as_history() == query.meaning({s: rest})
    batch = sw.Batch.of(rest, s.schema)
    assert sw.INF not in {*batch.old_ve.tolist(), *batch.new_ve.tolist()}
    assert out.settled_until == sw.INF


@pytest.mark.parametrize("period", [1, 5, 7, 2**62, LARGEST])
def test_chop_is_right_at_both_ends_of_time(period: int) -> None:
    s = _stream()
    query = s.chop(period)
    elements: list[Element] = [
        sw.insert(SMALLEST + 1, SMALLEST + 9, k=1.0, v=1),
        sw.adjust(SMALLEST + 1, SMALLEST + 9, SMALLEST + 3, k=1.0, v=1),
        sw.insert(LARGEST - 9, LARGEST - 4, k=2.0, v=1),
        sw.adjust(LARGEST - 9, LARGEST - 4, LARGEST - 1, k=2.0, v=1),
        sw.insert(-3, 4, k=3.0, v=1),
    ]
    for batch in 1, 100:
        assert query.run({s: elements}, batch=batch).as_history() == query.meaning({s: elements})


def test_an_element_is_no_stream() -> None:
    s = sw.stream({"v": int}, name="s")
    with pytest.raises(sw.InvalidElement, match="is one element, and no stream"):
        s.run({s: sw.insert(0, 1, v=1)})  # type: ignore[arg-type]


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "sNaN"])
def test_a_decimal_that_is_no_number_is_refused_where_it_comes(value: str) -> None:
    """Polars panics on it."""
    stream = sw.stream({"price": pl.Decimal(10, 2), "n": int})
    row = sw.insert(0, 5, price=Decimal(value), n=1)
    with pytest.raises(sw.InvalidElement, match="cannot hold Decimal"):
        stream.run({stream: [row]})
    with pytest.raises(sw.InvalidElement, match="is no value of a column"):
        sw.one_of(Decimal(1), Decimal(value))
    if "Inf" not in value:
        with pytest.raises(sw.InvalidElement, match="NaN is not an end of a range"):
            sw.between(Decimal(value), Decimal(1))
    with pytest.raises(sw.InvalidElement, match="one type per column"):
        sw.validate([row])
