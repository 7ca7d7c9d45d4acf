"""Promises about payloads at the edges of a query: who is held to them, what they settle, as rows."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl
import pytest

import slackwater as sw
from slackwater.admission import Admission
from slackwater.errors import InvalidElement, InvalidStream
from slackwater.events import Batch
from slackwater.notation import read_patterns
from slackwater.patterns import Constant
from slackwater.punctuations import Closings
from slackwater.times import INF

BIDS = {"item": int, "price": float}
SCHEMA = pl.Schema({"item": pl.Int64(), "price": pl.Float64()})


def _bid(at: int, item: int, price: float = 1.0) -> sw.Insert:
    return sw.insert(at, at + 10, item=item, price=price)


def test_an_element_that_breaks_a_promise_is_named_with_it() -> None:
    bids = sw.stream(BIDS, name="bids")
    told = [_bid(0, 1001), sw.punctuation(item=1001), _bid(3, 1001)]
    with pytest.raises(
        InvalidStream, match=r"item=1001, .* breaks the promise punctuation\(item=1001\)"
    ):
        bids.run({bids: told})
    out = bids.run({bids: told}, on_invalid=sw.LEDGER)
    [entry] = out.ledger
    assert (entry.reason, entry.element) == ("promise broken", told[2])
    assert "punctuation(item=1001)" in entry.detail
    assert out.history().height == 1


@pytest.mark.parametrize("batch", [1, 2, 1000])
def test_it_is_found_in_the_same_batch_and_in_a_later_one(batch: int) -> None:
    bids = sw.stream(BIDS, name="bids")
    told = [
        sw.punctuation(price=sw.between(95, None, closed="neither")),
        _bid(0, 1, 95.0),
        _bid(0, 2, 96.0),
    ]
    with pytest.raises(InvalidStream, match="item=2"):
        bids.run({bids: told}, batch=batch)


@pytest.mark.parametrize(
    ("told", "fact"),
    [
        (sw.punctuation(colour="red"), "bids: a promise speaks of the unknown column 'colour'"),
        (sw.punctuation(item="x"), "bids: column 'item' cannot hold 'x'"),
        (sw.punctuation(item=sw.between(0.5, 1.5)), "bids: column 'item' cannot hold 0.5"),
    ],
)
def test_a_promise_that_does_not_fit_the_columns(told: sw.Punctuation, fact: str) -> None:
    bids = sw.stream(BIDS, name="bids")
    with pytest.raises(InvalidElement) as refusal:
        bids.run({bids: [told]})
    assert refusal.value.fact == fact
    assert repr(told) in refusal.value.detail
    out = bids.run({bids: [told, _bid(0, 1)]}, on_invalid=sw.LEDGER)
    [entry] = out.ledger
    assert (entry.element, entry.reason) == (told, "promise does not fit the columns")
    assert out.history().height == 1


def test_an_event_is_settled_when_its_payload_is() -> None:
    bids = sw.stream(BIDS, name="bids")
    told = [_bid(0, 1), _bid(0, 2), _bid(0, 3), sw.punctuation(item=1), sw.punctuation(10, item=2)]
    out = bids.run({bids: [*told, sw.punctuation(11, item=3)]})
    assert out.settled()["item"].to_list() == [1, 3]
    assert [repr(e) for e in out][3:] == [
        "punctuation(item=1)",
        "punctuation(10, item=2)",
        "punctuation(11, item=3)",
    ]


def test_the_edge_forgets_events_of_closed_payloads() -> None:
    admission = Admission(SCHEMA)
    for first in range(0, 20_000, 1000):
        items = np.arange(first, first + 1000)
        payload = pl.DataFrame({"item": items, "price": np.ones(1000)})
        starts = np.zeros(1000, dtype=np.int64)
        bids = Batch.inserts(starts, np.full(1000, INF), payload)
        admission.admit(bids.followed_by([Closings(payload.select("item"), np.full(1000, INF))]))
        assert admission._remembered <= 4096
    assert len(admission.promises) == 1


def test_a_changelog_holds_punctuations() -> None:
    told = [
        _bid(0, 1001),
        sw.punctuation(item=1001),
        sw.cti(2),
        sw.punctuation(30, 3, price=sw.between(20.0, 95.0, closed="left"), item=None),
        sw.punctuation(9, item=sw.one_of(1, 2), price=float("nan")),
    ]
    table = sw.changelog(told)
    assert table.columns == ["kind", "vs", "ve", "new_ve", "pattern", "item", "price"]
    assert table["kind"].to_list() == ["insert", "punctuation", "cti", "punctuation", "punctuation"]
    assert table.row(1) == ("punctuation", None, INF, None, None, 1001, None)
    names = {"vs": "vs", "ve": "ve", "kind": "kind", "new_ve": "new_ve", "pattern": "pattern"}
    again = sw.from_dataframe(table, **names)  # type: ignore[call-overload]
    assert sorted(map(repr, again)) == sorted(map(repr, told))


def test_a_changelog_holds_punctuations_of_every_form() -> None:
    """Of times alone; of nothing; of values for which JSON has no form."""
    schema = {"n": pl.Int64(), "xs": pl.List(pl.Int64())}
    told = [
        sw.punctuation(20, 10),
        sw.punctuation(n=sw.one_of()),
        sw.punctuation(n=sw.between(0, 5), xs=sw.one_of([1], [], None)),
        sw.punctuation(xs=sw.one_of([1], [2, None])),
    ]
    names = {"vs": "vs", "ve": "ve", "kind": "kind", "pattern": "pattern"}
    table = sw.changelog(sw.Batch.of(told, pl.Schema(schema)))
    again = sw.from_dataframe(table, schema=schema, **names)  # type: ignore[call-overload]
    assert sorted(map(repr, again)) == sorted(
        map(
            repr,
            [
                *told[:2],
                *(sw.punctuation(n=sw.between(0, 5), xs=xs) for xs in ([1], [], None)),
                *(sw.punctuation(xs=xs) for xs in ([1], [2, None])),
            ],
        )
    )
    nothing = table.head(1).with_columns(vs=pl.lit(None, pl.Int64))
    with pytest.raises(InvalidElement, match="punctuation without values"):
        sw.from_dataframe(nothing, schema=schema, **names)  # type: ignore[call-overload]


def test_closings_in_a_table_stay_in_columns_and_in_their_places() -> None:
    table = pl.DataFrame(
        {
            "kind": ["insert", "punctuation"] * 3,
            "vs": [1, None] * 3,
            "ve": [5, None] * 3,
            "item": [1, 1, 2, 2, 1, 3],
        }
    )
    batch = sw.from_dataframe(table, vs="vs", ve="ve", kind="kind")
    [placed] = batch.controls
    assert isinstance(placed.control, Closings)
    items = sw.stream({"item": int}, name="items")
    with pytest.raises(
        InvalidStream, match=r"insert\(1, 5, item=1\) breaks the promise punctuation\(item=1\)"
    ):
        items.run({items: batch})
    out = items.run({items: batch}, on_invalid=sw.LEDGER)
    assert out.ledger.counts() == {"promise broken": 1}
    assert [repr(e) for e in out if isinstance(e, sw.Punctuation)] == [
        "punctuation(item=1)",
        "punctuation(item=2)",
        "punctuation(item=3)",
    ]


def test_rows_that_are_no_punctuations_are_set_aside() -> None:
    table = pl.DataFrame(
        {
            "kind": ["punctuation"] * 5,
            "vs": [None, 9, None, None, None],
            "ve": [None, 3, None, None, None],
            "item": [None, 1, None, None, 4],
            "pattern": [None, None, "{", '{"item": {"low": 5, "high": 1}}', None],
        }
    )
    ledger = sw.Ledger()
    read = sw.from_dataframe(table, vs="vs", ve="ve", kind="kind", pattern="pattern", ledger=ledger)
    assert list(read) == [sw.punctuation(item=4)]
    assert ledger.counts() == {
        "punctuation without values": 1,
        "ends before it starts": 1,
        "punctuation that cannot be read": 2,
    }


@pytest.mark.parametrize("schema", [None, {"at": pl.Time}])
def test_a_time_that_python_does_not_have_is_no_value_of_a_promise(schema: Any) -> None:
    """It would be cut off, and speak of another row."""
    at = pl.Series("at", [1_000_000_001, 1_000_000_000, None], dtype=pl.Int64).cast(pl.Time)
    kinds = ["punctuation", "punctuation", "insert"]
    table = pl.DataFrame({"kind": kinds, "vs": [None, None, 0], "ve": [None, None, 9], "at": at})
    ledger = sw.Ledger()
    read = sw.from_dataframe(table, vs="vs", ve="ve", kind="kind", schema=schema, ledger=ledger)
    assert list(read) == [sw.punctuation(at=dt.time(0, 0, 1)), sw.insert(0, 9, at=None)]
    assert ledger.counts() == {"finer than a microsecond": 1}


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("{", "a pattern is not JSON"),
        ("[" * 100_000, "a pattern is not JSON"),
        ("[1]", "a pattern is not an object of JSON"),
        ('{"itme": 1}', "a pattern of the unknown column 'itme'"),
        ('{"item": "seven"}', "column 'item' cannot hold 'seven'"),
        ('{"item": {"low": 5, "high": 1}}', "a range cannot end before it begins"),
        ('{"item": {"low": 5, "high": "a"}}', "the ends of .* are of different types"),
        ('{"item": {"one_of": [1, "a"]}}', "the values of a list are of different types"),
        ('{"item": {"low": 5, "closed": ["both"]}}', "does not say which ends belong to a range"),
        ('{"item": {"lowest": 5}}', "is not a pattern"),
        ('{"item": 2}', "column 'item' has a value and another pattern"),
        ('{"item": 1, "item": 2}', "a pattern says 'item' twice"),
        ('{"item": {"low": 1, "low": 2}}', "a pattern says 'low' twice"),
        ('{"item": {"lowest": 0.5}}', '{"lowest": 0.5} is not a pattern'),
    ],
)
def test_a_pattern_that_cannot_be_read_is_refused_with_the_reason(pattern: str, why: str) -> None:
    table = pl.DataFrame(
        {"kind": ["punctuation"], "vs": [None], "ve": [None], "item": [1], "pattern": [pattern]},
        schema_overrides={"vs": pl.Int64, "ve": pl.Int64},
    )
    how: dict[str, Any] = {"vs": "vs", "ve": "ve", "kind": "kind", "pattern": "pattern"}
    with pytest.raises(sw.SlackwaterError, match=f"(?s)punctuation that cannot be read.*{why}"):
        sw.from_dataframe(table, **how)
    ledger = sw.Ledger()
    sw.from_dataframe(table, ledger=ledger, **how)
    [entry] = ledger
    assert re.search(f"row 0: .*{why}", entry.detail)


@pytest.mark.parametrize(
    ("dtype", "value", "why"),
    [
        (pl.Decimal(10, 2), '"NaN"', "Decimal.*is no value of a column"),
        (pl.Decimal(10, 2), '"Infinity"', "Decimal.*is no value of a column"),
        (pl.Decimal(10, 2), "1.505", "cannot hold Decimal.*exactly"),
        # as a float it would be 1.5
        (pl.Decimal(10, 2), "1.50000000000000000001", "cannot hold Decimal.*exactly"),
        (pl.Decimal(10, 2), "true", "True is no value of type Decimal"),
        (pl.Duration("us"), "1.5", "1.5 is no value of type Duration"),
        (pl.Datetime("us"), '"2026-01-01T00:00:00.1234567"', "is no value of type Datetime"),
        (pl.Datetime("us", "UTC"), '"2026-01-01T00:00:00"', "cannot hold .* exactly"),
        (pl.Int64(), "1.0", "cannot hold 1.0"),
        (pl.Int64(), "true", "cannot hold True exactly"),
        (pl.Float64(), '{"low": NaN}', "NaN is not an end of a range"),
    ],
)
def test_a_value_that_is_none_of_its_column_is_refused(dtype: pl.DataType, value: str, why: str) -> None:
    with pytest.raises(sw.InvalidElement, match=why):
        read_patterns(f'{{"x": {value}}}', {"x": dtype})


@pytest.mark.parametrize(
    ("dtype", "value", "read"),
    [
        (pl.Decimal(10, 2), "0.1", Decimal("0.10")),
        (pl.Decimal(38, 20), "1.50000000000000000001", Decimal("1.50000000000000000001")),
        (pl.Float64(), "0.1", 0.1),
        (pl.Float64(), "-0.0", -0.0),
        (pl.Duration("us"), "15", dt.timedelta(microseconds=15)),
        (pl.Datetime("us"), '"2026-01-01T00:00:00.1234560"', dt.datetime(2026, 1, 1, 0, 0, 0, 123456)),
        (pl.List(pl.Float64()), '{"one_of": [[0.5, 1.0]]}', [0.5, 1.0]),
    ],
)
def test_a_value_is_read_as_it_stands(dtype: pl.DataType, value: str, read: object) -> None:
    [pattern] = read_patterns(f'{{"x": {value}}}', {"x": dtype}).values()
    assert isinstance(pattern, Constant)
    assert pattern.value == read
    assert type(pattern.value) is type(read)


def test_a_pattern_without_columns_does_not_close_a_stream_nor_does_one_of_another_row() -> None:
    """A cti that has a pattern was not meant for all."""
    table = pl.DataFrame(
        {
            "kind": ["punctuation", "cti", "insert", "insert"],
            "vs": [None, 3, 1, 1],
            "ve": [None, None, 5, 5],
            "item": [None, None, 1, 2],
            "pattern": ["{}", '{"item": 1}', '{"item": 1}', None],
        }
    )
    ledger = sw.Ledger()
    read = sw.from_dataframe(table, vs="vs", ve="ve", kind="kind", pattern="pattern", ledger=ledger)
    assert list(read) == [sw.insert(1, 5, item=2)]
    assert ledger.counts() == {
        "punctuation without values": 1,
        "cti with more than a time": 1,
        "pattern of a row that is no punctuation": 1,
    }
