"""Punctuate by what is known besides: an order, a domain, unique values, who has to report."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import polars as pl
import pytest

import slackwater as sw
from slackwater.events import Element
from slackwater.plan.nodes import Source
from slackwater.runtime import Execution

S = sw.stream({"hour": int, "sensor": str, "temp": float}, name="s")


def _row(hour: int | None, sensor: str = "a", temp: float | None = 20.0) -> Element:
    return sw.insert(0, None, hour=hour, sensor=sensor, temp=temp)


def _through(query: sw.Query, *elements: Element, batch: int = 1) -> list[Element]:
    return list(query.run({S: list(elements)}, batch=batch))


def _hours(low: int | None, high: int | None) -> sw.Punctuation:
    return sw.punctuation(hour=sw.between(low, high))


# access order


def test_a_sorted_scan_promises_what_lies_behind_it() -> None:
    rows = [_row(17), _row(17), _row(None), _row(19)]
    assert _through(S.punctuate(sw.ordered_by("hour")), *rows) == [
        rows[0],
        _hours(None, 16),
        *rows[1:],
        _hours(None, 18),
    ]


@pytest.mark.parametrize("batch", [1, 10])
def test_a_row_that_goes_back_breaks_the_promise(batch: int) -> None:
    rows = [_row(17), _row(18), _row(17, "late"), _row(18)]
    query = S.punctuate(sw.ordered_by("hour"))
    with pytest.raises(sw.OperatorError) as broken:
        _through(query, *rows, batch=batch)
    assert broken.value.fact == (
        f"Punctuate ordered by hour: {rows[2]!r} breaks the promise punctuation(hour=between(None, 17))"
    )
    out = query.run({S: rows}, batch=batch, on_invalid=sw.LEDGER)
    assert [e for e in out if isinstance(e, sw.Insert)] == [rows[0], rows[1], rows[3]]
    [entry] = out.ledger
    assert entry.element == rows[2]
    assert entry.reason == "promise broken"
    assert entry.detail == "it breaks the promise punctuation(hour=between(None, 17))"


def test_texts_and_times_have_an_order_and_nan_has_none() -> None:
    words = sw.stream({"w": str}, name="words")
    out = words.punctuate(sw.ordered_by("w")).run(
        {words: [sw.insert(0, 1, w=w) for w in "bab"]}, batch=9, on_invalid=sw.LEDGER
    )
    assert len(list(out.ledger)) == 1
    days = sw.stream({"day": dt.date}, name="days")
    day = sw.insert(0, 1, day=dt.date(2026, 3, 1))
    [_, told] = days.punctuate(sw.ordered_by("day")).run({days: [day]})
    assert told == sw.punctuation(day=sw.between(None, dt.date(2026, 2, 28)))
    nan = _row(1, temp=float("nan"))
    rows = [_row(1, temp=3.0), nan, _row(1, temp=2.0)]
    out = S.punctuate(sw.ordered_by("temp")).run({S: rows}, on_invalid=sw.LEDGER)
    assert [entry.element for entry in out.ledger] == [rows[2]]


@pytest.mark.parametrize(("dtype", "values"), [(pl.Boolean, [False, True]), (pl.UInt8, [0, 1])])
def test_below_the_least_value_of_a_type_nothing_is_promised(
    dtype: type[pl.DataType], values: list[object]
) -> None:
    flags = sw.stream({"k": int, "flag": dtype}, name="flags")
    rows = [sw.insert(0, None, k=1, flag=value) for value in values]
    for known in (sw.ordered_by("flag"), sw.all_reported("flag", by="k", among=[1])):
        query = flags.punctuate(known)
        out = query.run({flags: rows}, batch=1)
        assert list(out) == [*rows, sw.punctuation(flag=values[0])]
        assert out.changelog().height == 3
        closed = [sw.punctuation(flag=None), *rows]
        counts = query.group_by("k").aggregate(n=sw.count())
        assert counts.run({flags: closed}, batch=1).history()["n"].to_list() == [2]


def test_where_clocks_are_set_back_the_order_is_that_of_time() -> None:
    at = sw.stream({"at": pl.Datetime("us", "Europe/Berlin")}, name="at")
    first = dt.datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    second = first.replace(fold=1)
    rows = [sw.insert(0, 1, at=value) for value in (first, second, first)]
    out = at.punctuate(sw.ordered_by("at")).run({at: rows}, batch=1, on_invalid=sw.LEDGER)
    assert [entry.element for entry in out.ledger] == [rows[0]]
    # what clocks show before two for the second time is an hour with everything in it
    whole = sw.domain(at=sw.between(None, second, closed="left"))
    assert len(at.punctuate(whole).run({at: [sw.insert(0, 1, at=first)]}).ledger) == 0


# application knowledge


def test_a_domain_is_promised_at_the_start() -> None:
    """20 to 95 F, the paper's: two half-lines, and null and NaN, which are values, too."""
    query = S.punctuate(sw.domain(temp=sw.between(20, 95)))
    out = _through(query, _row(1), _row(2))
    below = sw.punctuation(temp=sw.between(None, 20.0, closed="left"))
    above = sw.punctuation(temp=sw.between(95.0, None, closed="right"))
    null, nan = sw.punctuation(temp=None), sw.punctuation(temp=float("nan"))
    assert out == [_row(1), below, above, null, nan, _row(2)]
    assert sw.punctuation(temp=None) not in _through(
        S.punctuate(sw.domain(temp=sw.between(20, 95)).or_null()), _row(1)
    )


@pytest.mark.parametrize("temp", [19.9, 95.1, None, float("nan")])
def test_what_is_outside_of_the_domain_breaks_the_promise(temp: float | None) -> None:
    query = S.punctuate(sw.domain(temp=sw.between(20, 95)))
    out = query.run({S: [_row(1), _row(1, temp=temp)]}, on_invalid=sw.LEDGER)
    assert out.ledger.counts() == {"promise broken": 1}
    with pytest.raises(sw.OperatorError, match="breaks the promise"):
        query.run({S: [_row(1, temp=temp)]})


def test_a_domain_may_be_a_list() -> None:
    flags = sw.stream({"n": int}, name="flags")
    out = flags.punctuate(sw.domain(n=sw.one_of(1, 2, 5))).run({flags: []}, batch=1)
    out = flags.punctuate(sw.domain(n=sw.one_of(1, 2, 5))).run({flags: [sw.cti(1)]}, batch=1)
    assert list(out) == [
        sw.punctuation(n=sw.between(None, 0)),
        sw.punctuation(n=sw.between(3, 4)),
        sw.punctuation(n=sw.between(6, None)),
        sw.punctuation(n=None),
        sw.cti(1),
    ]


@pytest.mark.parametrize("batch", [1, 10])
def test_unique_values_are_closed_by_their_row(batch: int) -> None:
    items = sw.stream({"item": int, "price": int}, name="items")
    rows = [sw.insert(i, None, item=i, price=7) for i in (3, 1)]
    again = [sw.insert(5, None, item=3, price=8), sw.adjust(1, None, 4, item=1, price=7)]
    query = items.punctuate(sw.unique("item"))
    out = query.run({items: [*rows, *again]}, batch=batch, on_invalid=sw.LEDGER)
    told = [e for e in out if isinstance(e, sw.Punctuation)]
    assert told == [sw.punctuation(item=3), sw.punctuation(item=1)]
    assert [entry.element for entry in out.ledger] == again
    assert out.as_history() == query.meaning({items: rows})


def test_unique_values_settle_what_is_made_of_them() -> None:
    items = sw.stream({"item": int, "price": int}, name="items")
    rows = [sw.insert(i, None, item=i, price=7) for i in range(4)]
    out = items.punctuate(sw.unique("item")).cleanse(in_order=False).run({items: rows}, batch=1)
    assert [e for e in out if isinstance(e, sw.Insert)] == rows


# auxiliary tables


def test_an_hour_is_complete_when_all_sensors_have_a_later_one() -> None:
    query = S.punctuate(sw.all_reported("hour", by="sensor", among=["a", "b"]))
    rows = [_row(17, "a"), _row(17, "b"), _row(18, "a"), _row(17, "b"), _row(20, "c"), _row(19, "b")]
    assert _through(query, *rows) == [*rows[:2], _hours(None, 16), *rows[2:], _hours(None, 17)]
    late = _row(17, "c")
    for batch in (1, 10):
        out = query.run({S: [*rows, late, _row(18, "a")]}, batch=batch, on_invalid=sw.LEDGER)
        assert [entry.element for entry in out.ledger] == [late]


def test_an_hour_that_each_reports_once_is_complete_when_all_have() -> None:
    sensors = pl.DataFrame({"sensor": ["a", "b"], "room": [1, 2]})
    query = S.punctuate(sw.all_reported("hour", by="sensor", among=sensors, once=True))
    rows = [_row(18, "a"), _row(17, "a"), _row(18, "c"), _row(18, "b"), _row(17, "b")]
    assert _through(query, *rows) == [
        *rows[:4],
        sw.punctuation(hour=18),
        rows[4],
        sw.punctuation(hour=17),
    ]
    late = _row(18, "a")
    for batch in (1, 10):
        out = query.run({S: [*rows, late]}, batch=batch, on_invalid=sw.LEDGER)
        assert [entry.element for entry in out.ledger] == [late]
        assert out.ledger.counts() == {"promise broken": 1}


def test_who_is_no_member_any_more_does_not_count_for_another() -> None:
    """The list is another one when the query goes on: a has reported, of which b knows nothing."""
    running, again = (
        Execution(S.punctuate(sw.all_reported("hour", by="sensor", among=among, once=True)).node)
        for among in (["a", "b"], ["b", "c"])
    )
    assert isinstance(S.node, Source)
    running.push(S.node, [_row(17, "a")])
    again.restore(running.snapshot())
    assert [list(each) for each in again.push(S.node, [_row(17, "b")])] == [[_row(17, "b")]]
    [said] = again.push(S.node, [_row(17, "c")])
    assert list(said) == [_row(17, "c"), sw.punctuation(hour=17)]


def test_a_column_that_is_named_twice_is_one() -> None:
    assert _through(S.punctuate(sw.unique("hour", "hour")), _row(17)) == [
        _row(17),
        sw.punctuation(hour=17),
    ]


# mistakes


@pytest.mark.parametrize("among", [[1.5, 2.0], ["7"], [True, False], [dt.date(1970, 1, 2)]])
def test_members_of_another_type_are_refused(among: list[object]) -> None:
    """Polars would make other ones of them."""
    with pytest.raises(sw.PlanError, match="members are not of the type of 'hour'"):
        S.punctuate(sw.all_reported("temp", by="hour", among=among))
    S.punctuate(sw.all_reported("temp", by="hour", among=[1.0, 2.0, None]))


def test_what_cannot_be_known_is_refused() -> None:
    with pytest.raises(sw.PlanError, match="nothing is known"):
        S.punctuate()
    with pytest.raises(sw.PlanError, match="says nothing of a stream"):
        S.punctuate("hour")  # type: ignore[arg-type]
    with pytest.raises(sw.PlanError, match="minute"):
        S.punctuate(sw.ordered_by("minute"))
    with pytest.raises(sw.PlanError, match="cannot hold"):
        S.punctuate(sw.domain(temp=sw.between("a", "b")))
    with pytest.raises(sw.PlanError, match="not a list of values"):
        sw.all_reported("hour", by="sensor", among="ab")
    with pytest.raises(sw.PlanError, match="nobody is to report"):
        sw.all_reported("hour", by="sensor", among=[])
    with pytest.raises(sw.PlanError, match="not of the type"):
        S.punctuate(sw.all_reported("sensor", by="hour", among=["x"]))
    with pytest.raises(sw.PlanError, match="does not report itself"):
        S.punctuate(sw.all_reported("hour", by="hour", among=[1]))
    with pytest.raises(
        sw.PlanError, match=r"members are not of the type of 'sensor'\n.*Int64 and String"
    ):
        S.punctuate(sw.all_reported("hour", by="sensor", among=[1, 2]))
    nested = sw.stream({"xs": pl.List(pl.Int64())}, name="nested")
    with pytest.raises(sw.PlanError, match="have no order"):
        nested.punctuate(sw.ordered_by("xs"))


def test_several_things_may_be_known() -> None:
    query = S.punctuate(sw.ordered_by("hour"), sw.domain(sensor=sw.one_of("a", "b")), lateness=5)
    out = query.run({S: [_row(17), _row(18)]}, batch=1)
    assert out.settled_until == -5
    sw.validate(out.as_batch())


# operator semantics


@pytest.mark.parametrize(
    "predicate",
    [
        sw.col("temp") > 3,
        sw.col("temp") <= 3,
        sw.col("temp") == 3,
        sw.col("temp") != 3.0,
        (sw.col("hour") >= 2) & (sw.col("hour") < 4) & (sw.col("sensor") != "b"),
        pl.lit(3) > sw.col("hour"),
        (sw.col("hour") > 1) | (sw.col("sensor") == "a"),
        sw.col("hour") > 2.5,
        sw.col("hour") < 2**80,
    ],
)
def test_where_promises_nothing_that_a_row_it_passes_has(predicate: pl.Expr) -> None:
    temps = [2.0, 3.0, 4.0, None, float("nan"), float("inf")]
    rows = [_row(h, s, t) for h in (1, 2, 3, None) for s in ("a", "b") for t in temps]
    out = S.where(predicate, promise=True).run({S: rows}, batch=1)
    sw.validate(out.as_batch())


def test_where_promises_what_its_comparisons_exclude() -> None:
    query = S.where((sw.col("hour") > 3) & (sw.col("temp") < 90.0), promise=True)
    told = [e for e in _through(query, _row(17)) if isinstance(e, sw.Punctuation)]
    assert set(told) == {
        _hours(None, 3),
        sw.punctuation(hour=None),
        sw.punctuation(temp=sw.between(90.0, None)),
        sw.punctuation(temp=None),
        sw.punctuation(temp=float("nan")),
    }
    assert _through(S.where(sw.col("hour") > 3), _row(17)) == [_row(17)]


def test_a_sort_knows_from_where_what_comes_first() -> None:
    query = S.where(sw.col("hour") >= 0, promise=True).sort("hour")
    out = _through(query, _row(2), _row(1), _row(-1), _hours(0, 1))
    assert [e for e in out if isinstance(e, sw.Insert)] == [_row(1)]
