"""Rows as lines of JSON: every row is one line, and comes back as it was."""

from __future__ import annotations

import json

import polars as pl
import pytest

from slackwater.spark.kafka_sink import _lines

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
