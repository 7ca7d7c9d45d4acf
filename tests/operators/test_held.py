"""Aggregations that need the events of a group: what they say, step by step, and what stops them."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from itertools import permutations
from typing import Any
from zoneinfo import ZoneInfo

import polars as pl
import pytest

import slackwater as sw
from slackwater.events import Element
from slackwater.plan.aggregations import Aggregation

LATENCIES = list(sw.OutputLatency)
s = sw.stream({"k": str, "v": int})


def _insert(vs: int, ve: int, v: int | None, k: str = "a") -> sw.Insert:
    return sw.insert(vs, ve, k=k, v=v)


def test_the_next_largest_comes_back_when_the_largest_goes() -> None:
    q = s.aggregate(top=sw.max("v"))
    out = q.run({s: [_insert(0, 9, 1), _insert(2, 5, 7), sw.adjust(2, 5, 2, k="a", v=7)]}, batch=1)
    assert list(out) == [
        sw.insert(0, 9, top=1),
        sw.adjust(0, 9, 2, top=1),
        sw.insert(2, 5, top=7),
        sw.insert(5, 9, top=1),
        sw.adjust(0, 2, 9, top=1),
        sw.adjust(2, 5, 2, top=7),
        sw.adjust(5, 9, 5, top=1),
    ]


def test_an_event_that_changes_nothing_only_cuts() -> None:
    """The maximum stays, so the row keeps its value and gets another end; the endpoints are new."""
    q = s.aggregate(top=sw.max("v"))
    out = q.run({s: [_insert(0, 9, 7), _insert(2, 5, 1)]}, batch=1)
    assert out.history().rows() == [(7, 0, 2), (7, 2, 5), (7, 5, 9)]
    rows = out.as_batch()
    assert not ((rows.new_ve == rows.vs) & ~rows.is_insert).any(), "nothing is removed"


@pytest.mark.parametrize("latency", LATENCIES)
def test_who_is_first_does_not_depend_on_ends_that_may_still_move(latency: sw.OutputLatency) -> None:
    """Both start at 0, which is frozen; then the end of one moves past that of the other."""
    q = s.aggregate(first=sw.first("v"), last=sw.last("v")).latency(latency)
    told = [
        _insert(0, 8, 2),
        _insert(0, 9, 1),
        sw.cti(5),
        sw.adjust(0, 8, 12, k="a", v=2),
        sw.cti(sw.INF),
    ]
    out = q.run({s: told}, batch=1)
    sw.validate(list(out))
    assert out.history().rows() == [(1, 2, 0, 9), (2, 2, 9, 12)]


def test_a_late_event_far_back_moves_what_it_touches_and_no_more() -> None:
    told = [_insert(10 * i, 10 * i + 15, i) for i in range(50)]
    q = s.aggregate(top=sw.top_k("v", 2))
    running = q.open()
    for element in told:
        running.push(s, [element])
    late = [sw.Batch.of(part, q.schema) for part in running.push(s, [_insert(101, 104, 99)])]
    assert sum(batch.rows for batch in late) <= 4


def _broken(state: int, value: int) -> int:
    raise ValueError("not today")


def test_a_fold_that_raises_is_named_with_its_arguments() -> None:
    fold = sw.fold("v", init=int, add=_broken, remove=_broken, result=int, dtype=int)
    with pytest.raises(sw.OperatorError, match="aggregate total: _broken failed") as problem:
        s.aggregate(total=fold).run({s: [_insert(0, 9, 1)]})
    assert "ValueError: not today" in str(problem.value)


def test_a_result_of_another_type_than_declared_is_refused() -> None:
    words = sw.group_function(lambda values: "many", "v", dtype=int)
    with pytest.raises(sw.OperatorError, match="aggregate n: a result is not of type Int64"):
        s.aggregate(n=words).run({s: [_insert(0, 9, 1)]})


def test_a_product_that_does_not_fit_is_refused_and_one_that_comes_back_is_right() -> None:
    big = [_insert(0, 9, 2**40), _insert(0, 9, 2**40, k="b")]
    q = s.aggregate(p=sw.product("v"))
    with pytest.raises(sw.OperatorError, match="aggregate p: the product does not fit 64 bits"):
        q.run({s: big}, batch=1)
    out = q.run({s: [*big, sw.adjust(0, 9, 0, k="b", v=2**40)]}, batch=3)
    assert out.history().rows() == [(2**40, 0, 9)]


def test_a_percentile_needs_a_fraction_that_can_be_counted() -> None:
    with pytest.raises(sw.PlanError, match="at most 18 digits"):
        sw.percentile("v", 1e-20)


def test_rows_of_a_product_are_right_however_many_there_are() -> None:
    """Each row is the product of what is alive, rounded once; factors come and go 2,000 times."""
    floats = sw.stream({"x": float})
    values = [(1 + i / 997) * (-1) ** (i // 3) for i in range(1000)]
    told = [sw.insert(i, i + 700, x=x) for i, x in enumerate(values)]
    rows = floats.aggregate(p=sw.product("x")).run({floats: told}, batch=100).history().rows()
    exact, expected = Fraction(1), []
    for t in range(1699):
        if t < 1000:
            exact *= Fraction(values[t])
        if t >= 700:
            exact /= Fraction(values[t - 700])
        expected.append((float(exact), t, t + 1))
    assert rows == expected


WIDE: dict[str, tuple[pl.DataType, list[Any]]] = {
    "Int128": (pl.Int128(), [2**100 + 1, -(2**120), 5, None, 2**100 + 1, 2**64]),
    "UInt128": (pl.UInt128(), [2**127 + 1, 0, 5, None, 5, 2**64]),
    "Decimal": (
        pl.Decimal(38, 2),
        [Decimal("1.25") * 10**33, Decimal("-0.01"), None, Decimal(10) ** 33],
    ),
}


@pytest.mark.parametrize("name", WIDE)
@pytest.mark.parametrize("batch", [1, 100])
def test_numbers_that_are_wider_than_64_bits(name: str, batch: int) -> None:
    dtype, values = WIDE[name]
    wide = sw.stream({"w": dtype})
    told: list[Element] = [sw.insert(i, i + 4, w=w) for i, w in enumerate(values)]
    told += [sw.adjust(1, 5, 3, w=values[1]), sw.insert(20, 25, w=None), sw.cti(sw.INF)]
    query = wide.aggregate(
        top=sw.top_k("w", 2),
        low=sw.min("w"),
        median=sw.percentile("w", 0.5),
        part=sw.percentile("w", 0.3),
        kinds=sw.count_distinct("w"),
        first=sw.first("w"),
    )
    assert query.run({wide: told}, batch=batch).as_history() == query.meaning({wide: told})


def test_a_fold_may_show_its_own_state() -> None:
    """What it showed stays as it was, though the state goes on changing."""
    source = sw.stream({"v": int})
    query = source.aggregate(
        c=sw.fold(
            "v",
            init=list,
            add=lambda group, v: (group.append(v), group)[1],
            remove=lambda group, v: (group.remove(v), group)[1],
            result=lambda group: group,
            dtype=pl.List(pl.Int64),
        )
    )
    out = query.run({source: [sw.insert(0, 9, v=1), sw.insert(2, 6, v=2), sw.cti(sw.INF)]})
    assert out.history()["c"].to_list() == [[1], [1, 2], [1]]


OF_ONE_COLUMN: dict[str, Aggregation] = {
    "product": sw.product("v"),
    "fold": sw.fold(
        "v",
        init=int,
        add=lambda state, v: state + v,
        remove=lambda state, v: state - v,
        result=lambda state: state,
        dtype=int,
    ),
    "group_function": sw.group_function(str, "v", dtype=str),
    "max": sw.max("v"),
    "first": sw.first("v"),
    "percentile": sw.percentile("v", 0.5),
    "count_distinct": sw.count_distinct("v"),
}


@pytest.mark.parametrize(("one", "other"), list(permutations(OF_ONE_COLUMN, 2)))
def test_several_of_one_column_in_any_order(one: str, other: str) -> None:
    query = s.aggregate(**{name: OF_ONE_COLUMN[name] for name in (one, other)})
    told = [_insert(0, 9, 2), _insert(1, 5, None), _insert(2, 6, 3), sw.adjust(2, 6, 4, k="a", v=3)]
    assert query.run({s: told}, batch=2).as_history() == query.meaning({s: told})


def test_times_are_in_order_also_where_clocks_are_set_back() -> None:
    """02:30 before the change is earlier than 02:00 after it."""
    zone = ZoneInfo("Europe/Berlin")
    early, late = (
        datetime(2024, 10, 27, hour, minute, tzinfo=UTC).astimezone(zone)
        for hour, minute in ((0, 30), (1, 0))
    )
    times = sw.stream({"at": pl.Datetime("us", "Europe/Berlin")})
    told = [sw.insert(0, 9, at=late), sw.insert(0, 9, at=early)]
    query = times.aggregate(
        low=sw.min("at"),
        first=sw.first("at"),
        top=sw.top_k("at", 2),
        all=sw.group_function(list, "at", dtype=pl.List(times.schema["at"])),
    )
    for answer in query.run({times: told}).as_history(), query.meaning({times: told}):
        [row] = answer.events()
        assert row.payload == {"low": early, "first": early, "top": [late, early], "all": [early, late]}
    ranked = times.aggregate(place=sw.rank("at"))
    assert ranked.run({times: told}).as_history() == ranked.meaning({times: told})
