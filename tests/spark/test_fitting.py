"""A value is in its column as it was written, or its record is refused: at whatever depth.

The numbers and times of random records are compared with what they say, read another way.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import fastavro
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.rows import Form
from slackwater.spark.values import Reader, avro_reader, json_reader

Refused = list[tuple[int, str]]


def _read(reader: Reader, values: Sequence[bytes]) -> tuple[pl.DataFrame, Refused]:
    refused: Refused = []
    series = pl.Series("value", values, pl.Binary)
    (table,) = reader(series, lambda place, reason, detail: refused.append((place, reason)))
    return table.rows, refused


def _json(dtype: Any, *texts: str) -> tuple[list[Any], Refused]:
    """What texts of JSON are in a column of that type."""
    reader = json_reader(Form("vs"), pl.Schema({"v": dtype}))
    rows, refused = _read(reader, [f'{{"v": {text}, "vs": 0}}'.encode() for text in texts])
    assert rows.schema["v"] == dtype
    return rows["v"].to_list(), refused


INTS, POINT = pl.List(pl.Int64), pl.Struct({"a": pl.Int64, "b": pl.Int64})
NANOS = pl.Datetime("ns")

BAD = [
    (POINT, '{"a": "1", "b": 1}', "wrong type"),
    (POINT, '{"a": 1.5, "b": 1}', "wrong type"),
    (POINT, '{"a": 1.0, "b": 1}', "wrong type"),
    (POINT, '{"a": true, "b": 1}', "wrong type"),
    (POINT, '{"a": 9223372036854775808, "b": 1}', "wrong type"),
    (POINT, '{"a": 1}', "missing field"),
    (POINT, "{}", "missing field"),
    (POINT, "[1, 2]", "wrong type"),
    (pl.List(POINT), '[{"a": 1, "b": 2}, {"a": 1}]', "missing field"),
    (pl.Struct({"p": POINT}), '{"p": {"a": 1, "b": "2"}}', "wrong type"),
    (INTS, "[true]", "wrong type"),
    (INTS, '["1"]', "wrong type"),
    (INTS, "[1.5]", "wrong type"),
    (INTS, "1", "wrong type"),
    (INTS, '"12"', "wrong type"),
    (INTS, '{"a": 1}', "wrong type"),
    (pl.List(INTS), "[[1], [2, true]]", "wrong type"),
    (pl.List(pl.UInt8), "[256]", "wrong type"),
    (pl.Struct({"a": pl.UInt8}), '{"a": -1}', "wrong type"),
    (pl.List(pl.String), "[1]", "wrong type"),
    (pl.List(pl.String), r'["\ud800"]', "wrong type"),
    (pl.List(pl.Boolean), "[1]", "wrong type"),
    (pl.List(pl.Enum(["a"])), '["b"]', "wrong type"),
    (pl.List(pl.Decimal(10, 2)), '["NaN"]', "wrong type"),
    (pl.List(pl.Decimal(10, 2)), "[1.234]", "wrong type"),
    (pl.List(pl.Float64), "[1e999]", "wrong type"),
    (pl.Array(pl.Int64, 2), "[1]", "wrong type"),
    (pl.Array(pl.Int64, 2), "[1, 2.5]", "wrong type"),
    (pl.List(pl.Datetime("ms")), '["2024-01-01T00:00:00.1234"]', "wrong type"),
    (pl.Null(), "5", "wrong type"),
    (pl.Float64(), "1e999", "wrong type"),
    (pl.Float64(), "-1e999", "wrong type"),
    (pl.Float64(), "9007199254740993", "wrong type"),
    (pl.Float32(), "1e300", "wrong type"),
    (pl.Float32(), "16777217", "wrong type"),
    (pl.Decimal(38, 20), "0.123456789012345678901", "wrong type"),
    (pl.Decimal(10, 2), "1e99999999999999999999", "wrong type"),
    (pl.Decimal(10, 2), "1e-99999999999999999999", "wrong type"),
    (pl.Decimal(10, 2), "1e999999999", "wrong type"),
    (pl.Decimal(10, 2), "true", "wrong type"),
    (pl.Datetime("ms"), '"2024-01-01T00:00:00.123456"', "wrong type"),
    (pl.Datetime("us"), '"2024-01-01T00:00:00.1234567"', "wrong type"),
    (NANOS, '"2024-01-01T00:00:00.1234567891"', "wrong type"),
    (NANOS, '"2024-01-01T00:00:00+01:00:00.1234567"', "wrong type"),
    (NANOS, '"2024-01-01T00:00:00.1234567+01:00:00.1234567"', "wrong type"),
    (NANOS, '"2263-01-01T00:00:00"', "wrong type"),
    (pl.Time(), '"10:00+05:00"', "wrong type"),
    (pl.Time(), '"10:00Z"', "wrong type"),
    (pl.Time(), '"10:00:00.1234567891"', "wrong type"),
]


@pytest.mark.parametrize(("dtype", "text", "reason"), BAD)
def test_what_a_column_cannot_say_is_refused(dtype: Any, text: str, reason: str) -> None:
    assert _json(dtype, "null", text, "null") == ([None, None], [(1, reason)])


@pytest.mark.parametrize("text", ["2024-01-01T00:00:00.0000001Z", "2024-01-01T00:00:00.1234567"])
def test_a_time_of_the_stream_is_not_cut(text: str) -> None:
    reader = json_reader(Form("vs"), pl.Schema({}))
    values = [json.dumps({"vs": each}).encode() for each in (0, text, "1970-01-01T00:00:00.0000010")]
    rows, refused = _read(reader, values)
    assert (rows["vs"].to_list(), refused) == ([0, 1], [(1, "wrong type")])


GOOD: list[tuple[Any, str, Any]] = [
    (POINT, '{"b": null, "a": 1, "more": "x"}', {"a": 1, "b": None}),
    (pl.List(POINT), '[null, {"a": 1, "b": 2}]', [None, {"a": 1, "b": 2}]),
    (pl.List(INTS), "[[1], [], null]", [[1], [], None]),
    (pl.Array(pl.Int64, (1, 2)), "[[1, 2]]", [[1, 2]]),
    (pl.List(pl.UInt64), "[18446744073709551615]", [2**64 - 1]),
    (pl.List(pl.Float64), '[1, 0.1, "-Infinity"]', [1.0, 0.1, -math.inf]),
    (pl.List(pl.Enum(["a", "b"])), '["b", null]', ["b", None]),
    (pl.Float64(), "9007199254740992", 2.0**53),
    (pl.Float64(), "1e308", 1e308),
    (pl.Float32(), "16777216", 2.0**24),
    (pl.Decimal(38, 20), "0.12345678901234567890", Decimal("0.12345678901234567890")),
    (pl.Decimal(38, 0), "1" * 38, Decimal("1" * 38)),
    (pl.Decimal(10, 2), "1e2", Decimal(100)),
    (pl.Decimal(10, 2), "0e999999999", Decimal(0)),
    (pl.List(pl.Decimal(10, 2)), '["1.5", 2.25, 3]', [Decimal("1.5"), Decimal("2.25"), Decimal(3)]),
]


@pytest.mark.parametrize(("dtype", "text", "value"), GOOD)
def test_what_a_column_can_say_is_there_as_it_was(dtype: Any, text: str, value: Any) -> None:
    assert _json(dtype, text) == ([value], [])


@pytest.mark.parametrize(
    ("dtype", "text", "count"),
    [
        (NANOS, "1970-01-01T00:00:00.123456789", 123_456_789),
        (NANOS, "1970-01-01T01:00:00,12345678+01:00", 123_456_780),
        (NANOS, "1969-12-31T23:59:59.9999999990Z", -1),
        (pl.Datetime("ms", "Europe/Berlin"), "1970-01-01T01:00:00.123000+01:00", 123),
        (pl.Datetime("us"), "1970-01-01T00:00:00.123456000", 123_456),
        (pl.Time(), "00:00:01.000000002", 1_000_000_002),
        (pl.Time(), "23:59", (24 * 60 - 1) * 60 * 10**9),
    ],
)
def test_times_keep_their_last_digit(dtype: Any, text: str, count: int) -> None:
    for whole, column in ((f'"{text}"', dtype), (f'["{text}"]', pl.List(dtype))):
        reader = json_reader(Form("vs"), pl.Schema({"v": column}))
        rows, refused = _read(reader, [f'{{"v": {whole}, "vs": 0}}'.encode()])
        told = rows["v"] if column == dtype else rows["v"].explode()
        assert (told.to_physical().to_list(), refused) == ([count], [])


NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70).map(str),
    st.decimals(allow_nan=False, allow_infinity=False, places=4).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
)


@given(st.lists(NUMBERS, max_size=6))
def test_numbers_in_columns_are_what_was_written(texts: list[str]) -> None:
    exact = {"i": pl.Int64(), "d": pl.Decimal(20, 3), "l": pl.List(pl.Decimal(20, 3))}
    for name, dtype in exact.items():
        written = [f"[{text}]" if name == "l" else text for text in texts]
        got, refused = _json(dtype, *written)
        places = {place for place, _ in refused}
        kept = [Fraction(text) for place, text in enumerate(texts) if place not in places]
        assert [Fraction(v[0] if name == "l" else v) for v in got] == kept
        for place in places:
            number = Fraction(texts[place])
            integer = texts[place].lstrip("-").isdigit() and -(2**63) <= number < 2**63
            decimal = (number * 1000).denominator == 1 and abs(number) < 10**17
            assert not (integer if name == "i" else decimal)


AVRO: dict[str, Any] = {
    "type": "record",
    "name": "reading",
    "fields": [
        {"name": "single", "type": "double"},
        {"name": "exact", "type": ["long", "double"]},
        {"name": "ts", "type": "long"},
    ],
}


def _avro(record: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, AVRO, record)
    return out.getvalue()


def test_floats_of_avro_are_never_rounded_and_may_be_infinite() -> None:
    schema = pl.Schema({"single": pl.Float32, "exact": pl.Float64})
    pairs = [(0.5, 1), (0.1, 1), (1e300, 1), (math.inf, -math.inf), (0.0, 2**53 + 1), (0.0, 0.1)]
    values = [_avro({"single": single, "exact": exact, "ts": 1}) for single, exact in pairs]
    rows, refused = _read(avro_reader(Form("ts"), schema, json.dumps(AVRO)), values)
    assert refused == [(place, "wrong type") for place in (1, 2, 4)]
    assert rows.select("single", "exact").rows() == [(0.5, 1.0), (math.inf, -math.inf), (0.0, 0.1)]
