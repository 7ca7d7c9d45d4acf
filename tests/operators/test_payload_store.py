"""Payloads come out of the store as they went in, whatever their types; frames are the model."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from math import nan

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.identity import identity
from slackwater.operators.payload_store import Payloads

VALUES: dict[str, tuple[pl.DataType, list[object]]] = {
    "int": (pl.Int64(), [0, -(2**63), 2**63 - 1]),
    "small": (pl.UInt8(), [0, 255]),
    "huge": (pl.Int128(), [0, 2**100]),
    "float": (pl.Float64(), [0.0, -0.0, nan, 1.5]),
    "single": (pl.Float32(), [0.0, nan, 0.5]),
    "date": (pl.Date(), [date(1, 1, 1), date(2020, 2, 29)]),
    "instant": (pl.Datetime("us"), [datetime(1969, 7, 20, 20, 17), datetime(2020, 1, 1)]),
    "span": (pl.Duration("us"), [timedelta(0), timedelta(microseconds=-1)]),
    "time": (pl.Time(), [time(0), time(23, 59)]),
    "flag": (pl.Boolean(), [True, False]),
    "text": (pl.String(), ["", "a", "b" * 40]),
    "list": (pl.List(pl.Int64()), [[], [1, 2]]),
}


@st.composite
def _frames(draw: st.DrawFn) -> tuple[pl.Schema, list[pl.DataFrame]]:
    names = draw(st.lists(st.sampled_from(sorted(VALUES)), unique=True, max_size=3))
    schema = pl.Schema({name: VALUES[name][0] for name in names})
    row = st.tuples(*(st.sampled_from([None, *VALUES[name][1]]) for name in names))
    parts = draw(st.lists(st.lists(row, max_size=8), min_size=1, max_size=4))
    frames = [
        pl.DataFrame(part, schema=schema, orient="row") if names else pl.DataFrame(height=len(part))
        for part in parts
    ]
    return schema, frames


def _rows(frame: pl.DataFrame) -> list[object]:
    return [identity(row) for row in frame.rows()] if frame.width else [()] * frame.height


@given(drawn=_frames(), data=st.data())
def test_rows_are_what_they_were(
    drawn: tuple[pl.Schema, list[pl.DataFrame]], data: st.DataObject
) -> None:
    schema, frames = drawn
    store, expected = Payloads(schema), []
    for frame in frames:
        places = np.flatnonzero(
            data.draw(st.lists(st.booleans(), min_size=frame.height, max_size=frame.height))
        )
        store.append(frame, places)
        expected += [_rows(frame)[place] for place in places]
        if data.draw(st.booleans()):
            alive = data.draw(st.lists(st.booleans(), min_size=len(expected), max_size=len(expected)))
            store.keep(np.array(alive, dtype=np.bool_))
            expected = [row for row, lives in zip(expected, alive, strict=True) if lives]
        assert store.height == len(expected)
        if expected:
            numbers = np.array(data.draw(st.lists(st.integers(0, len(expected) - 1))), dtype=np.int64)
            taken = store.take(numbers)
            assert taken.schema == schema
            assert _rows(taken) == [expected[number] for number in numbers]


@pytest.mark.parametrize("name", VALUES)
def test_rows_are_compared_by_identity(name: str) -> None:
    dtype, values = VALUES[name]
    frame = pl.DataFrame({"a": [*values, None]}, schema={"a": dtype})
    store = Payloads(frame.schema)
    places = np.arange(frame.height)
    store.append(frame, places)
    for i in range(frame.height):
        for j in range(frame.height):
            same = identity(frame.row(i)) == identity(frame.row(j))
            assert store.are(np.array([i]), frame, np.array([j]), ["a"]) == same
