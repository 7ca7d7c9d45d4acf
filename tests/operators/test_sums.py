"""Sums are exact: the oracle's results to the last bit, whatever came and went before."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.laws import Case, Trial

import slackwater as sw
from slackwater.errors import OperatorError
from slackwater.events import Element
from slackwater.operators import step_of
from slackwater.testing import batchings, histories, streams

each_latency = pytest.mark.parametrize("latency", sw.OutputLatency)
each_batch = pytest.mark.parametrize("batch", [1, 2, 100])

floats = sw.stream({"x": float})


def told(
    source: sw.Query,
    aggregation: Any,
    stream: Sequence[Element],
    *,
    latency: sw.OutputLatency = sw.EAGER,
    batch: int = 1,
) -> list[tuple[Any, ...]]:
    """(vs, ve, result) of an aggregation, once all is said."""
    query = source.aggregate(r=aggregation).latency(latency)
    out = query.run({source: [*stream, sw.cti(sw.INF)]}, batch=batch)
    return sorted(out.history().select("vs", "ve", "r").rows())


def x(vs: int, ve: int, value: float | None) -> Element:
    return sw.insert(vs, ve, x=value)


def only(rows: list[tuple[Any, ...]]) -> Any:
    [(_, _, result)] = rows
    return result


@each_latency
@each_batch
def test_a_large_float_leaves_no_trace(latency: sw.OutputLatency, batch: int):
    stream = [x(0, 2000, 1.0), x(3, 5, 1e200), sw.cti(500), x(1000, 1005, 1.0), x(1000, 1005, 2.0)]
    rows = told(floats, sw.var("x"), stream, latency=latency, batch=batch)
    assert rows == [
        (0, 3, None),
        (3, 5, math.inf),
        (5, 1000, None),
        (1000, 1005, 1 / 3),
        (1005, 2000, None),
    ]


@each_latency
@each_batch
def test_three_scales(latency: sw.OutputLatency, batch: int):
    large = [x(0, 10, 1e40), x(0, 10, 1e20), x(0, 10, 1.0)]
    gone = [sw.adjust(0, 10, 5, x=1e40), sw.adjust(0, 10, 5, x=1e20)]
    rows = told(floats, sw.sum("x"), [*large, *gone], latency=latency, batch=batch)
    assert rows == [(0, 5, 1e40), (5, 10, 1.0)]


def test_the_ends_of_floats():
    assert only(told(floats, sw.avg("x"), [x(0, 1, 1e305)])) == 1e305
    two = [x(0, 9, 1.7e308), x(2, 5, 1.7e308)]
    assert told(floats, sw.sum("x"), two) == [(0, 2, 1.7e308), (2, 5, math.inf), (5, 9, 1.7e308)]
    assert told(floats, sw.avg("x"), two)[1] == (2, 5, 1.7e308)
    # half of the least float, and three halves: to even
    least = math.ulp(0.0)
    assert only(told(floats, sw.avg("x"), [x(0, 1, least), x(0, 1, 0.0)])) == 0.0
    assert only(told(floats, sw.avg("x"), [x(0, 1, 3 * least), x(0, 1, 0.0)])) == 2 * least


def test_what_is_not_finite_can_leave_again():
    stream = [x(0, 9, 1.0), x(1, 3, math.inf), x(2, 4, -math.inf), x(5, 6, math.nan), x(7, 8, None)]
    rows = told(floats, sw.sum("x"), stream)
    assert [(vs, str(result)) for vs, _, result in rows] == [
        (0, "1.0"),
        (1, "inf"),
        (2, "nan"),
        (3, "-inf"),
        (4, "1.0"),
        (5, "nan"),
        (6, "1.0"),
        (7, "1.0"),
        (8, "1.0"),
    ]


def test_a_value_of_zero_is_a_value():
    """Only the number of events changes, and so does the result."""
    stream = [x(0, 9, None), x(2, 6, 0.0), x(4, 6, 3.0), x(5, 6, 0.0)]
    assert told(floats, sw.sum("x"), stream) == [
        (0, 2, None),
        (2, 4, 0.0),
        (4, 5, 3.0),
        (5, 6, 3.0),
        (6, 9, None),
    ]
    means = told(floats, sw.avg("x"), stream)
    assert means == [(0, 2, None), (2, 4, 0.0), (4, 5, 1.5), (5, 6, 1.0), (6, 9, None)]


def test_variance_does_not_cancel():
    v = sw.stream({"v": int})
    large = [sw.insert(0, 1, v=1600000000000000000 + i) for i in range(1, 5)]
    assert only(told(v, sw.var("v"), large)) == 5 / 3
    close = [x(0, 1, 1e12 + 0.1), x(0, 1, 1e12 + 0.3)]
    step = (1e12 + 0.3) - (1e12 + 0.1)
    assert only(told(floats, sw.var("x"), close)) == step * step / 2
    assert only(told(floats, sw.stddev("x"), close)) == math.sqrt(step * step / 2)


def test_decimals():
    d = sw.stream({"d": pl.Decimal(10, 2)})
    stream = [sw.insert(0, 3, d=Decimal("-1.25")), sw.insert(1, 3, d=Decimal("0.10"))]
    assert told(d, sw.sum("d"), stream) == [(0, 1, Decimal("-1.25")), (1, 3, Decimal("-1.15"))]
    assert told(d, sw.avg("d"), stream) == [(0, 1, -1.25), (1, 3, -0.575)]
    assert told(d, sw.var("d"), stream) == [(0, 1, None), (1, 3, 0.91125)]


def test_decimals_up_to_38_digits():
    d = sw.stream({"d": pl.Decimal(38, 2)})
    most = Decimal(f"{10**38 - 1}E-2")
    one = Decimal("0.01")
    assert only(told(d, sw.sum("d"), [sw.insert(0, 1, d=most)])) == most
    assert only(told(d, sw.sum("d"), [sw.insert(0, 1, d=most.copy_negate())])) == most.copy_negate()
    # one batch: too large only on the way
    fits = [sw.insert(0, 1, d=most), sw.insert(0, 1, d=one), sw.insert(0, 1, d=most.copy_negate())]
    assert only(told(d, sw.sum("d"), fits, batch=9)) == one
    with pytest.raises(OperatorError, match=r"aggregate r: the sum 10{36} does not fit 38 digits"):
        told(d, sw.sum("d"), [sw.insert(0, 1, d=most), sw.insert(0, 1, d=one)])


@pytest.mark.parametrize("dtype", [pl.UInt64(), pl.Int128(), pl.UInt128()], ids=str)
def test_long_integers(dtype: pl.DataType):
    v = sw.stream({"v": dtype})
    large = [sw.insert(0, 3, v=2**64 - 2), sw.insert(1, 2, v=2**64 - 1)]
    assert told(v, sw.avg("v"), large)[1] == (1, 2, float(2**64))
    assert told(v, sw.var("v"), large)[1] == (1, 2, 0.5)
    with pytest.raises(
        OperatorError, match="aggregate r: the sum 18446744073709551614 does not fit 64 bits"
    ):
        told(v, sw.sum("v"), large)


def test_integers_beyond_the_result_may_cancel():
    v = sw.stream({"v": pl.Int128})
    stream = [sw.insert(0, 1, v=2**100), sw.insert(0, 1, v=5 - 2**100)]
    assert only(told(v, sw.sum("v"), stream, batch=2)) == 5


# against the oracle

least, most = math.ulp(0.0), sys.float_info.max
odd = (math.inf, -math.inf, math.nan, most, -most, least, 2.0**-1022, 1e40, 1e20, 1.0, 0.1, -0.0)
scales = st.builds(math.ldexp, st.floats(-1, 1), st.integers(-1080, 1023))
decimals = st.integers(-(10**37) + 1, 10**37 - 1) | st.integers(-500, 500)

NUMBERS: dict[str, tuple[pl.DataType, st.SearchStrategy[Any]]] = {
    "floats": (pl.Float64(), st.sampled_from((*odd, None)) | scales),
    "short floats": (pl.Float32(), st.floats(width=32) | st.none()),
    "integers": (pl.Int64(), st.integers(-(2**60), 2**60) | st.integers(-3, 3) | st.none()),
    "decimals": (
        pl.Decimal(38, 3),
        decimals.map(lambda n: Decimal(f"{n}E-3")) | st.none(),
    ),
    "unsigned": (pl.UInt64(), st.integers(0, 2**60) | st.integers(0, 9) | st.none()),
    "long": (pl.Int128(), st.integers(-(2**60), 2**60) | st.none()),
}
BEYOND: dict[str, tuple[pl.DataType, st.SearchStrategy[Any]]] = {
    "unsigned": (pl.UInt64(), st.integers(0, 2**64 - 1)),
    "long": (pl.Int128(), st.integers(-(2**127), 2**127 - 1)),
    "long unsigned": (pl.UInt128(), st.integers(0, 2**128 - 1)),
}


def _obey(case: Case, values: st.SearchStrategy[Any], data: st.DataObject) -> None:
    """The laws, state written down and read back before every batch."""
    [source] = case.sources
    keys = st.sampled_from(("a", "b"))
    history = data.draw(histories(source.schema, columns={"k": keys, "v": values}))
    trial = Trial(case)
    for part in data.draw(batchings(data.draw(streams(history)))):
        trial.push(source, part)
    trial.close()


@each_latency
@pytest.mark.parametrize("name", NUMBERS)
def test_any_numbers(name: str, latency: sw.OutputLatency):
    dtype, values = NUMBERS[name]
    source = sw.stream({"k": str, "v": dtype})
    query = source.group_by("k").aggregate(
        total=sw.sum("v"),
        mean=sw.avg("v"),
        var=sw.var("v"),
        dev=sw.stddev("v"),
        some=sw.sum("v", where=sw.col("v") > 1),
        # results that are not sums are behind them, and move when there are more
        least=sw.min("v"),
    )
    case = Case(query.latency(latency), (source,))

    @given(data=st.data())
    def law(data: st.DataObject) -> None:
        _obey(case, values, data)

    law()


@pytest.mark.parametrize("name", BEYOND)
def test_means_of_integers_that_no_sum_holds(name: str):
    dtype, values = BEYOND[name]
    source = sw.stream({"k": str, "v": dtype})
    query = source.group_by("k").aggregate(mean=sw.avg("v"), var=sw.var("v"), n=sw.count("v"))
    case = Case(query, (source,))

    @given(data=st.data())
    def law(data: st.DataObject) -> None:
        _obey(case, values, data)

    law()


def test_aggregations_of_the_same_values_share_their_sums():
    query = floats.aggregate(t=sw.sum("x"), m=sw.avg("x"), v=sw.var("x"), n=sw.count("x"))
    step: Any = step_of(query.node, sw.EAGER)
    state = step.open()
    step.on_batch(state, 0, sw.Batch.of([x(0, 1, 1.0)], floats.schema))
    # the number of events, one limb of the sum, one of the squares
    assert state.timelines.width == 3
    step.on_batch(state, 0, sw.Batch.of([x(0, 1, 0.1), x(0, 1, None)], floats.schema))
    assert state.timelines.width > 5
