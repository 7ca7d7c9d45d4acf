"""Rows as lines of JSON: every row is one line, and comes back as it was."""

from __future__ import annotations

import datetime as dt
import json

import polars as pl
import pytest

import slackwater as sw
from slackwater.rows import Form
from slackwater.spark.kafka_sink import _as_json, _as_view, _lines
from slackwater.spark.values import json_reader

TEXTS = ["a\u2028b", "a\u2029\x85\x1cb", 'a\r\n"b\\', "a,b}"]


@pytest.mark.parametrize("number", [1.5, float("nan"), float("inf"), float("-inf")])
def test_texts_come_back_as_they_were_whatever_the_numbers_are(number: float) -> None:
    lines = _lines(pl.DataFrame({"text": TEXTS, "number": [number, 0.5, None, 2.0]}))
    rows = [json.loads(line) for line in lines]
    assert [row["text"] for row in rows] == TEXTS
    written = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(str(number), number)
    assert [row["number"] for row in rows] == [written, 0.5, None, 2.0]


def test_rows_of_nothing_but_numbers_are_lines_too() -> None:
    lines = _lines(pl.DataFrame({"number": [float("nan"), 1.0]}))
    assert lines == [b'{"number":"NaN"}', b'{"number":1.0}']


def test_times_of_a_zone_come_back_as_they_were() -> None:
    """Until 1893 clocks in Berlin were 53 minutes and 28 seconds ahead."""
    instants = [dt.datetime(1880, 1, 1, 12, tzinfo=dt.UTC), dt.datetime(2024, 7, 1, tzinfo=dt.UTC), None]
    dtype = pl.Datetime("us", "Europe/Berlin")
    frame = pl.DataFrame({"vs": [0, 1, 2], "when": pl.Series(instants, dtype=pl.Datetime("us", "UTC"))})
    frame = frame.with_columns(pl.col("when").cast(dtype))
    read = json_reader(Form("vs"), pl.Schema({"when": dtype}))
    refused: list[str] = []
    lines = pl.Series(_lines(frame))
    [(rows, _)] = read(lines, lambda place, reason, detail: refused.append(detail))
    assert not refused
    assert rows.select("vs", "when").equals(frame)


def test_a_key_is_the_same_line_whatever_other_keys_there_are() -> None:
    """A topic is compacted by the bytes of its keys, and a reader's table goes by them."""
    keys = pl.DataFrame({"k": ["é", "é", "b", None], "x": [1e300, float("nan"), float("inf"), None]})
    together = _lines(keys)
    assert together == [line for row in keys.iter_slices(1) for line in _lines(row)]
    assert len(set(together)) == keys.height


def test_a_number_that_json_does_not_have_may_be_the_key() -> None:
    schema = pl.Schema({"x": pl.Float64})
    numbers = [float("nan"), -0.0, 0.0, 2.5]
    said = sw.Batch.of([sw.insert(at, 9, x=number) for at, number in enumerate(numbers)], schema)
    keys, values = _as_json(("x",), said, 7)
    zero = b'{"x":0.0}'
    assert keys == [b'{"x":"NaN"}', zero, zero, b'{"x":2.5}', None]
    assert [json.loads(value)["kind"] for value in values] == ["insert"] * 4 + ["cti"]
    upserts, _ = _as_view(("x",), sw.Batch.of([sw.insert(1, None, x=-0.0)], schema), 7)
    assert upserts == [zero]
