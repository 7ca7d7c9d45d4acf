"""Columns: the short ways give what polars gives, for few rows and for many."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal, assert_series_equal

from slackwater.columns import (
    FEW,
    column_of,
    framed,
    nothing,
    nulls_in,
    some_columns,
    stacked,
    taken,
    true_in,
    whole,
)

SIZES = [0, 1, FEW, FEW + 1]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", [np.int64, np.float64, np.uint32, np.bool_, np.int8, np.uint64])
def test_a_column_has_the_values_and_the_type_of_the_array(size: int, dtype: type[Any]) -> None:
    values = (np.arange(size) % 2).astype(dtype)
    assert_series_equal(column_of("x", values), pl.Series("x", values))


@pytest.mark.parametrize("size", SIZES)
def test_odd_floats_and_large_integers_stay_as_they_are(size: int) -> None:
    floats = np.resize([np.nan, -0.0, np.inf, 0.1], size)
    assert column_of("x", floats).to_numpy().view(np.int64).tolist() == floats.view(np.int64).tolist()
    integers = np.resize([2**63 - 1, -(2**63)], size)
    assert column_of("x", integers).to_list() == integers.tolist()


def test_a_frame_without_columns_has_rows() -> None:
    assert framed([], 3).shape == (3, 0)
    assert some_columns(pl.DataFrame({"x": [1, 2]}), []).shape == (2, 0)
    assert taken(pl.DataFrame(height=3), np.array([0, 2])).shape == (2, 0)


def test_columns_come_in_the_order_they_are_asked_for() -> None:
    frame = pl.DataFrame({"x": [1], "y": ["a"], "z": [None]})
    assert_frame_equal(some_columns(frame, ["z", "x"]), frame.select("z", "x"))


@pytest.mark.parametrize("size", SIZES)
def test_rows_are_taken_as_often_as_they_are_named(size: int) -> None:
    frame = pl.DataFrame({"x": [1, None, 3], "y": [["a"], [], None], "z": ["p", "q", None]})
    rows = np.arange(size) % 3
    assert_frame_equal(taken(frame, rows), frame[rows.tolist()])


@pytest.mark.parametrize("size", SIZES)
def test_frames_are_stacked_into_one_chunk(size: int) -> None:
    parts = [pl.DataFrame({"x": range(size), "y": [str(i) for i in range(size)]}) for _ in range(3)]
    assert_frame_equal(stacked(parts), pl.concat(parts))
    assert whole(parts[0].vstack(parts[1])).n_chunks() == 1


def test_nulls_and_truth() -> None:
    assert nulls_in(pl.Series([1, None])).tolist() == [False, True]
    assert nulls_in(pl.Series([1, 2])).tolist() == [False, False]
    assert true_in(pl.Series([True, None, False])).tolist() == [True, False, False]
    assert_series_equal(
        nothing("x", pl.List(pl.Int8), 2), pl.Series("x", [None, None], pl.List(pl.Int8))
    )
