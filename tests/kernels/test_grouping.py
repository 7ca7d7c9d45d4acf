"""Keys of every type: numbered by identity, and given back as they were."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.columns import FEW
from slackwater.kernels.grouping import Keys, same_rows
from slackwater.persistence import decode, encode

_DAY = dt.date(2024, 2, 29)
_NOON = dt.datetime(2024, 2, 29, 12, 0, 0, 1)

TYPES: dict[pl.DataType, list[Any]] = {
    pl.Int8(): [-128, 127],
    pl.Int16(): [-(2**15), 1],
    pl.Int32(): [-(2**31), 2**31 - 1],
    pl.Int64(): [-(2**63), 2**63 - 1],
    pl.UInt8(): [0, 255],
    pl.UInt16(): [0, 2**16 - 1],
    pl.UInt32(): [0, 2**32 - 1],
    pl.UInt64(): [0, 2**64 - 1],
    pl.Float32(): [0.5, math.nan],
    pl.Float64(): [0.1, -math.inf],
    pl.Boolean(): [True, False],
    pl.Date(): [_DAY, dt.date(1900, 1, 1)],
    pl.Datetime("us"): [_NOON, _NOON + dt.timedelta(days=1)],
    pl.Datetime("ns", "UTC"): [_NOON.replace(tzinfo=dt.UTC), dt.datetime(1969, 1, 1, tzinfo=dt.UTC)],
    pl.Duration("ms"): [dt.timedelta(milliseconds=-1), dt.timedelta(days=3)],
    pl.Time(): [dt.time(0), dt.time(23, 59, 59, 999_999)],
}
each_type = pytest.mark.parametrize("dtype", TYPES, ids=str)


@each_type
def test_values_and_null_have_numbers_and_come_back(dtype: pl.DataType) -> None:
    first, second = TYPES[dtype]
    column = pl.Series("k", [first, None, second, first, None, second], dtype=dtype)
    keys = Keys(pl.Schema({"k": dtype}))
    numbers = keys.number(column.to_frame())
    assert numbers.tolist() == [0, 1, 2, 0, 1, 2]
    assert keys.take(np.array([2, 1, 0])).to_series().equals(column[[2, 1, 0]], null_equal=True)
    for wanted in ([2, 0], [1, 2]):
        assert repr(keys.tuples(np.array(wanted))) == repr(column[wanted].to_frame().rows())


@each_type
def test_a_part_of_a_column_is_read_from_where_it_begins(dtype: pl.DataType) -> None:
    first, second = TYPES[dtype]
    whole = pl.Series("k", [first] * 9 + [None, second, None] + [second] * 3, dtype=dtype)
    keys = Keys(pl.Schema({"k": dtype}))
    assert keys.number(whole.slice(8, 5).to_frame()).tolist() == [0, 1, 2, 1, 2]
    pieces = pl.concat([whole.slice(10, 2), whole.slice(0, 1)], rechunk=False)
    assert keys.number(pieces.to_frame()).tolist() == [2, 1, 0]


@each_type
def test_one_key_has_the_number_that_it_has_among_others(dtype: pl.DataType) -> None:
    first, second = TYPES[dtype]
    keys = Keys(pl.Schema({"k": dtype, "n": pl.Int64(), "s": pl.String()}))
    fixed = Keys(pl.Schema({"k": dtype}))
    for number, value in enumerate((first, None, second)):
        assert fixed.find_one([value]) == keys.find_one([value, 1, "a"]) == -1
        assert fixed.number_one([value]) == keys.number_one([value, 1, "a"]) == number
        assert fixed.find_one([value]) == keys.find_one([value, 1, "a"]) == number
    column = pl.Series("k", [second, first, None], dtype=dtype)
    assert fixed.number(column.to_frame()).tolist() == [2, 0, 1]


def test_minus_zero_is_zero_and_every_nan_is_the_same() -> None:
    bits = np.array([0, 1 << 63, 0x7FF8 << 48, 0xFFF8 << 48, 0x7FF8 << 48 | 1], dtype=np.uint64)
    floats = pl.DataFrame({"k": bits.view(np.float64)})
    assert Keys(floats.schema).number(floats).tolist() == [0, 0, 1, 1, 1]


@pytest.mark.parametrize("words", [["a", "b"], [1, 2]], ids=["strings", "integers"])
def test_rows_are_the_same_where_every_column_is(words: list[Any]) -> None:
    one, other = words
    frame = pl.DataFrame({"k": [one, one, None, None, other], "v": [math.nan, math.nan, 1.0, 1.0, 1.0]})
    left, right = np.array([0, 1, 2, 3]), np.array([1, 2, 3, 4])
    assert same_rows(frame, left, right).tolist() == [True, False, True, False]


LONG = st.sampled_from([*("x" * n for n in (4, 5, 11, 12, 13, 16, 17, 40)), "x" * 12 + "y", "y" * 40])
WORDS = st.none() | st.text("ab\0é", max_size=3) | LONG
KEYS = st.lists(st.tuples(WORDS, st.sampled_from([0, 1, None]), WORDS), max_size=12)


@given(KEYS, KEYS, st.booleans(), st.sampled_from([pl.String(), pl.Binary()]), st.data())
def test_words_have_numbers_and_come_back(
    some: list[Any], others: list[Any], many: bool, dtype: pl.DataType, data: st.DataObject
) -> None:
    """Of few rows words are written as Python has them, of many as Arrow does."""
    schema = pl.Schema({"a": pl.String(), "n": pl.Int64(), "b": pl.String()})

    def framed(rows: list[Any]) -> pl.DataFrame:
        rows = rows * (FEW + 1 if many else 1)
        return pl.DataFrame(rows, schema, orient="row").with_columns(pl.col("b").cast(dtype))

    keys = Keys(framed([]).schema)
    expected: dict[Any, int] = {}
    for rows in (some, others):
        frame = framed(rows)
        found = keys.number(frame)
        assert found.tolist() == [expected.setdefault(row, len(expected)) for row in frame.rows()]
        assert keys.take(found).equals(frame, null_equal=True)
    kept = [data.draw(st.booleans()) for _ in expected]
    numbers = keys.keep(np.array(kept, dtype=np.bool_))
    # the hash table is made anew
    again = decode(encode(keys))
    left = {row: int(numbers[old]) for row, old in expected.items()}
    for each in (keys, again):
        frame = framed([*some, *others])
        assert each.find(frame).tolist() == [left[row] for row in frame.rows()]
        assert each.number(frame)[: len(some)].min(initial=0) >= 0
    assert len(keys) == len(again) == len(expected)


def test_a_word_that_is_null_is_not_what_lies_there() -> None:
    """Where a value was set to null, its bytes may still be in the buffer."""
    column = pl.Series("k", ["tide", "ebb", "tide"] * (FEW + 1))
    hidden = column.to_frame().select(pl.when(pl.col("k") == "ebb").then("k")).to_series()
    keys = Keys(pl.Schema({"k": pl.String()}))
    assert keys.number(hidden.to_frame())[:3].tolist() == [0, 1, 0]
    few = pl.DataFrame({"k": [None, "", "ebb"]})
    assert keys.number(few).tolist() == [0, 2, 1]


def test_only_keys_from_a_floor_on_are_added() -> None:
    for dtype, word in ((pl.String(), "a"), (pl.Int64(), 1), (pl.List(pl.Int64()), [1])):
        keys = Keys(pl.Schema({"t": pl.Int64(), "k": dtype}))
        rest = pl.DataFrame({"k": [word] * 3}, schema={"k": dtype})
        assert keys.number_from(2, np.array([1, 2, 3]), rest).tolist() == [-1, 0, 1]
        assert keys.number_from(9, np.array([3, 2, 1]), rest).tolist() == [1, 0, -1]
