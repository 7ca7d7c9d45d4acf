"""Values of records as tables; what is bad in them is refused, and concerns no other."""

from __future__ import annotations

import datetime as dt
import io
import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import fastavro
import polars as pl
import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.rows import Form
from slackwater.spark.values import Reader, arrow_reader, avro_reader, json_reader

CHANGES = Form("vs", "ve", kind="kind", new_ve="new_ve")


def _read(reader: Reader, values: list[bytes | None]) -> tuple[pl.DataFrame, list[tuple[int, str]]]:
    refused: list[tuple[int, str]] = []
    given = pl.Series("value", values, pl.Binary)
    tables = list(reader(given, lambda place, reason, detail: refused.append((place, reason))))
    rows = [table.rows.with_columns(at=pl.Series(table.places)) for table in tables]
    return pl.concat(rows), refused


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "bad JSON"),
        (None, "no value"),
        (b'{"k": 1', "bad JSON"),
        (b'{"k": 1, "v": 2.0, "vs": 3} {}', "bad JSON"),
        (b"null", "bad JSON"),
        (b'[{"k": 1}]', "bad JSON"),
        (b'{"k": 1, "v": NaN, "vs": 3}', "bad JSON"),
        (b'{"k": 1, "v": 2.0, "vs": 3, "s": "\xff"}', "bad JSON"),
        (b"[" * 100_000, "bad JSON"),
        (b'{"k": "1", "v": 2.0, "vs": 3}', "wrong type"),
        (b'{"k": 1.0, "v": 2.0, "vs": 3}', "wrong type"),
        (b'{"k": true, "v": 2.0, "vs": 3}', "wrong type"),
        (b'{"k": 9223372036854775808, "v": 2.0, "vs": 3}', "wrong type"),
        (b'{"k": 1, "v": "2.0", "vs": 3}', "wrong type"),
        (b'{"k": 1, "v": {}, "vs": 3}', "wrong type"),
        (b'{"k": 1, "v": 1' + b"0" * 400 + b', "vs": 3}', "wrong type"),
        (b'{"k": 1, "v": 2.0, "vs": 3.5}', "wrong type"),
        (b'{"k": 1, "v": 2.0, "vs": "yesterday"}', "wrong type"),
        (b'{"k": 1, "vs": 3}', "missing field"),
        (b'{"k": 1, "v": 2.0}', "missing field"),
    ],
)
def test_a_bad_value_is_refused_and_its_neighbours_stay(value: bytes | None, reason: str) -> None:
    good = b'{"k": 1, "v": 2, "vs": 3, "more": [{"k": "x"}]}'
    reader = json_reader(Form("vs"), pl.Schema({"k": pl.Int64, "v": pl.Float64}))
    rows, refused = _read(reader, [good, value, good.replace(b"2", b'"-Infinity"')])
    assert refused == [(1, reason)]
    assert rows.rows() == [(1, 2.0, 3, 0), (1, float("-inf"), 3, 2)]


def test_null_is_a_value_and_times_may_be_texts() -> None:
    reader = json_reader(CHANGES, pl.Schema({"k": pl.Int64}))
    values = [
        {"kind": "insert", "vs": "1970-01-01T00:00:00.000005Z", "ve": None, "k": None},
        {
            "kind": "adjust",
            "vs": "1970-01-01 00:00:00",
            "ve": "1970-01-01T01:00+01:00",
            "new_ve": None,
            "k": 2,
        },
        {"kind": "adjust", "vs": 0, "ve": 7, "new_ve": None, "k": 2},
        {"kind": "cti", "vs": 9},
        {"kind": "insert", "vs": 5, "k": 1},
        {"kind": "adjust", "vs": 5, "ve": 6, "k": 1},
    ]
    rows, refused = _read(reader, [json.dumps(value).encode() for value in values])
    assert refused == [(4, "missing field"), (5, "missing field")]
    assert rows.select("k", "vs", "ve", "new_ve").rows() == [
        (None, 5, None, None),
        (2, 0, 0, sw.INF),
        (2, 0, 7, None),
        (None, 9, None, None),
    ]


def test_a_punctuation_has_what_it_speaks_of() -> None:
    form, schema = replace(CHANGES, pattern="about"), pl.Schema({"k": pl.Int64, "v": pl.Float64})
    values = [
        {"kind": "insert", "vs": 1, "ve": None, "k": 7, "v": 2.5, "about": None},
        {"kind": "punctuation", "k": 7},
        {"kind": "punctuation", "ve": 20, "about": {"v": {"low": 20}, "k": {"one_of": [1, 2]}}},
        {"kind": "punctuation", "about": '{"k": null}'},
        {"kind": "punctuation", "k": "seven"},
        {"kind": "punctuation", "about": {"v": {"lowest": 20}}},
        {"kind": "punctuation"},
        {"kind": "insert", "vs": 1, "ve": None, "k": 7},
    ]
    rows, refused = _read(json_reader(form, schema), [json.dumps(value).encode() for value in values])
    assert refused == [(4, "wrong type"), (7, "missing field")]
    ledger = sw.Ledger()
    told = form.read(rows.drop("at"), schema, ledger, "topic")
    # promises at one place have no order
    assert sorted(map(repr, told)) == [
        "insert(1, INF, k=7, v=2.5)",
        "punctuation(20, k=one_of(1, 2), v=between(20.0, None))",
        "punctuation(k=7)",
        "punctuation(k=None)",
    ]
    assert ledger.counts() == {
        "punctuation that cannot be read": 1,
        "punctuation without values": 1,
    }


def test_a_count_needs_nothing_but_its_number() -> None:
    form, schema = replace(CHANGES, count="n"), pl.Schema({"k": pl.Int64})
    values = [
        {"kind": "insert", "vs": 1, "ve": 5, "k": 7},
        {"kind": "count", "n": 3},
        {"kind": "count", "n": 2, "vs": 4, "ve": 9},
        {"kind": "count", "ve": 9},
        {"kind": "count", "n": "3"},
        {"kind": "count", "n": 1.0},
        {"kind": "count", "n": None},
    ]
    rows, refused = _read(json_reader(form, schema), [json.dumps(value).encode() for value in values])
    assert refused == [(3, "missing field"), (4, "wrong type"), (5, "wrong type")]
    ledger = sw.Ledger()
    told = form.read(rows.drop("at"), schema, ledger, "topic")
    assert [*told] == [sw.insert(1, 5, k=7), sw.external_cti(None, 3), sw.external_cti(9, 2, since=4)]
    assert ledger.counts() == {"no count": 1}


def test_columns_of_other_types_come_from_json_as_they_are() -> None:
    schema = pl.Schema(
        {
            "when": pl.Datetime("ms", "Europe/Berlin"),
            "plain": pl.Datetime("us"),
            "day": pl.Date(),
            "price": pl.Decimal(10, 2),
            "kind_": pl.Enum(["a", "b"]),
            "tags": pl.List(pl.Int64),
            "small": pl.UInt8(),
            "yes": pl.Boolean(),
        }
    )
    good = {
        "when": "2024-10-27T02:30:00+02:00",
        "plain": "2024-01-01T00:00:00.000001",
        "day": "2024-02-29",
        "price": "12.30",
        "kind_": "b",
        "tags": [1, None],
        "small": 255,
        "yes": False,
        "vs": 1,
    }
    bad = [("when", 5), ("day", "2023-02-29"), ("price", "1.234"), ("kind_", "c"), ("tags", ["x"])]
    bad += [("small", 256), ("yes", 0)]
    values = [json.dumps({**good, **dict([change])}).encode() for change in bad]
    rows, refused = _read(json_reader(Form("vs"), schema), [json.dumps(good).encode(), *values])
    assert refused == [(place, "wrong type") for place in range(1, 1 + len(bad))]
    (row,) = rows.rows(named=True)
    # an hour that there is twice: there, times of two zones are never equal
    assert row["when"].astimezone(dt.UTC) == dt.datetime(2024, 10, 27, 0, 30, tzinfo=dt.UTC)
    assert (row["plain"], row["price"]) == (dt.datetime(2024, 1, 1, microsecond=1), Decimal("12.30"))
    assert (row["kind_"], row["tags"], row["small"]) == ("b", [1, None], 255)


@pytest.mark.parametrize("number", ['"NaN"', '"sNaN"', '"Infinity"', '"-inf"', "1e999"])
def test_a_decimal_that_is_no_number_concerns_no_other(number: str) -> None:
    reader = json_reader(Form("vs"), pl.Schema({"price": pl.Decimal(10, 2)}))
    values = [f'{{"price": {price}, "vs": 1}}'.encode() for price in ('"1.5"', number, "2")]
    rows, refused = _read(reader, [*values])
    assert refused == [(1, "wrong type")]
    assert rows["price"].to_list() == [Decimal("1.50"), Decimal("2.00")]


AVRO: dict[str, Any] = {
    "type": "record",
    "name": "reading",
    "fields": [
        {"name": "k", "type": ["null", "long"]},
        {"name": "raw", "type": "bytes"},
        {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    ],
}


def _avro(record: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, AVRO, record)
    return out.getvalue()


def test_avro() -> None:
    at = dt.datetime(1970, 1, 1, microsecond=12, tzinfo=dt.UTC)
    whole = _avro({"k": 1, "raw": b"\xff", "ts": at})
    schema = pl.Schema({"k": pl.Int64, "raw": pl.Binary})
    reader = avro_reader(Form("ts"), schema, json.dumps(AVRO))
    more = _avro({"k": None, "raw": b"", "ts": at})
    rows, refused = _read(reader, [whole, whole[:-1], b"", whole + b"\0", None, b"\x09\xff", more])
    reasons = ["bad Avro", "bad Avro", "bad Avro", "no value", "bad Avro"]
    assert refused == list(enumerate(reasons, 1))
    assert rows.rows() == [(1, b"\xff", 12, 0), (None, b"", 12, 6)]
    with pytest.raises(sw.PlanError, match="no field 'vs'"):
        avro_reader(Form("vs"), schema, json.dumps(AVRO))


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def test_arrow() -> None:
    whole = _stream(pa.table({"vs": [1, 2], "k": ["a", "b"], "more": [0, 0]}))
    lacks = _stream(pa.table({"vs": [1]}))
    values = [whole, whole[:-40], b"PAR1", lacks, None, whole]
    rows, refused = _read(arrow_reader(Form("vs"), pl.Schema({"k": pl.String})), values)
    assert refused == [(1, "bad Arrow"), (2, "bad Arrow"), (3, "missing field"), (4, "no value")]
    assert rows.rows() == [("a", 1, 0), ("b", 2, 0), ("a", 1, 5), ("b", 2, 5)]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([Decimal("1.5")], pa.decimal256(50, 2)),
        pa.array([[]], pa.list_(pa.int64(), 0)),
        pa.array([(1, 2, 3)], pa.month_day_nano_interval()),
        pa.RunEndEncodedArray.from_arrays(pa.array([1], pa.int32()), pa.array([7])),
    ],
    ids=lambda column: str(column.type),
)
def test_rows_of_types_that_polars_does_not_have_concern_no_others(column: pa.Array) -> None:
    whole = _stream(pa.table({"vs": [1], "k": ["a"]}))
    reader = arrow_reader(Form("vs"), pl.Schema({"k": pl.String}))
    rows, refused = _read(reader, [whole, _stream(pa.table({"vs": [1], "k": column})), whole])
    assert refused == [(1, "bad Arrow")]
    assert rows.rows() == [("a", 1, 0), ("a", 1, 2)]


def test_nor_do_those_with_a_column_twice() -> None:
    twice = pa.table([pa.array([1]), pa.array(["a"]), pa.array(["b"])], names=["vs", "k", "k"])
    whole = _stream(twice.select([0, 1]))
    reader = arrow_reader(Form("vs"), pl.Schema({"k": pl.String}))
    rows, refused = _read(reader, [_stream(twice), whole])
    assert refused == [(0, "bad Arrow")]
    assert rows.rows() == [("a", 1, 1)]


def test_a_schema_of_avro_that_lacks_something_is_refused() -> None:
    fields = [{"name": "vs", "type": {"type": "enum", "name": "e"}}]
    schema = json.dumps({"type": "record", "name": "r", "fields": fields})
    with pytest.raises(sw.PlanError, match="the schema of Avro cannot be used"):
        avro_reader(Form("vs"), pl.Schema({}), schema)
