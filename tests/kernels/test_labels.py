"""Labels of every type of column: the same value back, and the oracle's order."""

from __future__ import annotations

import datetime as dt
import math
import pickle
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from slackwater.identity import place, row_keys
from slackwater.kernels.labels import Labels
from slackwater.testing import values

INTEGERS = {
    pl.Int8: (-(2**7), 2**7 - 1),
    pl.Int16: (-(2**15), 2**15 - 1),
    pl.Int32: (-(2**31), 2**31 - 1),
    pl.Int64: (-(2**63), 2**63 - 1),
    pl.Int128: (-(2**127), 2**127 - 1),
    pl.UInt8: (0, 2**8 - 1),
    pl.UInt16: (0, 2**16 - 1),
    pl.UInt32: (0, 2**32 - 1),
    pl.UInt64: (0, 2**64 - 1),
    pl.UInt128: (0, 2**128 - 1),
}
BREEDS = ["poodle", "Akita", "é", "beagle", ""]
COLUMNS: dict[pl.DataType, SearchStrategy[Any]] = {
    **{dtype(): st.integers(*limits) for dtype, limits in INTEGERS.items()},
    pl.Float64(): values(pl.Float64, nullable=False) | st.floats(),
    pl.Float32(): values(pl.Float64, nullable=False) | st.floats(width=32),
    pl.Boolean(): st.booleans(),
    pl.Date(): st.dates(),
    pl.Time(): st.times(),
    pl.Datetime("us"): values(pl.Datetime("us"), nullable=False) | st.datetimes(),
    pl.Datetime("ms", "Europe/Berlin"): values(pl.Datetime("ms", "Europe/Berlin"), nullable=False),
    pl.Duration("us"): st.timedeltas(dt.timedelta(-(10**5)), dt.timedelta(10**5)),
    pl.Duration("ms"): values(pl.Duration("ms"), nullable=False),
    pl.Decimal(18, 3): st.decimals(-(10**14), 10**14, places=3),
    pl.Decimal(38, 2): values(pl.Decimal(38, 2), nullable=False) | st.decimals(-9, 9, places=2),
    pl.String(): values(pl.String, nullable=False) | st.text(max_size=3),
    pl.Binary(): st.binary(max_size=3),
    pl.Categorical(): st.text(max_size=2),
    pl.Enum(BREEDS): st.sampled_from(BREEDS),
    pl.List(pl.Float64()): values(pl.List(pl.Float64()), nullable=True).filter(lambda v: v is not None),
    pl.Struct({"x": pl.Float64(), "y": pl.String()}): values(
        pl.Struct({"x": pl.Float64(), "y": pl.String()})
    ).filter(lambda v: v is not None),
    pl.Array(pl.Int8(), 2): st.lists(st.integers(0, 2), min_size=2, max_size=2),
}
WIDE = (pl.Int128(), pl.UInt128(), pl.Decimal(38, 2))
WITHOUT_NUMBERS = (pl.String, pl.Binary, pl.Categorical, pl.Enum, pl.List, pl.Struct, pl.Array)


def sort_key(dtype, value):
    """The oracle compares no nested values: Polars' order of them is what events are sorted by."""
    if not dtype.is_nested():
        return place(value)
    parts = value.values() if isinstance(value, dict) else value
    return [place(part) for part in parts]


def require_order(labels: Labels, known: dict[int, object]) -> None:
    """Labels compare as the values that they were given for."""
    order = labels.order
    ranked = sorted(known, key=lambda label: order[label] if len(order) else label)
    assert len({order[label] for label in known} if len(order) else known) == len(known)
    keys = [sort_key(labels.dtype, known[label]) for label in ranked]
    assert keys == sorted(keys)


@pytest.mark.parametrize("dtype", COLUMNS, ids=str)
@given(data=st.data())
def test_labels_are_values_that_compare(dtype, data):
    labels = Labels(dtype)
    assert labels.is_numbered == (dtype in WIDE or isinstance(dtype, WITHOUT_NUMBERS))
    known: dict[int, object] = {}
    by_key: dict[tuple[object, ...], int] = {}
    for batch in data.draw(st.lists(st.lists(COLUMNS[dtype], max_size=8), min_size=1, max_size=3)):
        column = pl.Series("column", batch, dtype=dtype)
        encoded = labels.encode(column)
        assert encoded.dtype == np.int64
        again = labels.decode(encoded)
        assert again.dtype == dtype
        keys = row_keys(column.to_frame())
        assert row_keys(again.to_frame()) == keys
        for label, key, value in zip(encoded.tolist(), keys, column.to_list(), strict=True):
            assert by_key.setdefault(key, label) == label
            known.setdefault(label, value)
        assert len(known) == len(by_key), "one label, one value"
        assert len(labels) == (len(known) if labels.is_numbered else 0)
        if data.draw(st.booleans()):
            require_order(labels, known)
        if labels.is_numbered and data.draw(st.booleans()):
            alive = data.draw(st.lists(st.booleans(), min_size=len(labels), max_size=len(labels)))
            new = labels.keep(np.array(alive, dtype=np.bool_))
            assert [number >= 0 for number in new] == alive
            known = {int(new[label]): value for label, value in known.items() if alive[label]}
            by_key = {key: int(new[label]) for key, label in by_key.items() if alive[label]}
        labels = pickle.loads(pickle.dumps(labels))  # noqa: S301
    require_order(labels, known)


def test_the_ends_of_floats():
    column = pl.Series([-math.inf, -1.0, -5e-324, -0.0, 0.0, 5e-324, 1.0, math.inf, math.nan])
    encoded = Labels(pl.Float64()).encode(column).tolist()
    assert encoded[3] == encoded[4]
    assert sorted(set(encoded)) == encoded[:4] + encoded[5:]
    quiet, signalling = np.array([0x7FF8000000000000, -0x000FFFFFFFFFFFFF]).view(np.float64)
    assert len(set(Labels(pl.Float64()).encode(pl.Series([quiet, signalling])).tolist())) == 1


def test_decimals_of_eighteen_digits_are_their_own_labels():
    labels = Labels(pl.Decimal(18, 2))
    column = pl.Series(
        [Decimal("9999999999999999.99"), Decimal("-9999999999999999.99")], dtype=labels.dtype
    )
    assert labels.encode(column).tolist() == [10**18 - 1, 1 - 10**18]


def in_order(labels: Labels) -> list[str]:
    return labels.decode(np.argsort(labels.order)).to_list()


@pytest.mark.parametrize("batch", [1, 7, 500])
@pytest.mark.parametrize("arrival", ["ascending", "descending", "at one place", "ends in turn", "any"])
def test_ranks_in_the_order_of_strings(arrival, batch):
    """Also between a first and a last value that stay, where gaps become small."""
    numbers = np.arange(12_000 if batch == 500 else 300)
    last = len(numbers) - 1
    arrivals = {
        "ascending": numbers,
        "descending": last - numbers,
        "at one place": np.where(numbers % 2, last - numbers // 2, numbers // 2),
        "ends in turn": len(numbers) // 2 + np.where(numbers % 2, -1, 1) * ((numbers + 1) // 2),
        "any": np.random.default_rng(3).permutation(len(numbers)),
    }
    labels = Labels(pl.String())
    labels.encode(pl.Series(["", "~"]))
    column = pl.Series([f"{number:06d}" for number in arrivals[arrival]])
    before: list[int] = []
    for start in range(0, len(column), batch):
        labels.encode(column[start : start + batch])
        order = labels.order
        assert (np.argsort(order[: len(before)]) == np.argsort(before)).all(), "the same order as before"
        before = order.tolist()
    assert in_order(labels) == sorted(["", "~", *column.to_list()])


def test_ranks_are_dealt_out_anew_where_no_gap_is_left():
    """Each value is the middle one of its neighbours: gaps are halved, whatever is left of them."""
    labels = Labels(pl.String())
    # long enough that later runs are not merged with the first at once
    numbers = labels.encode(pl.Series([f"{number:06d}" for number in range(20_000)]))
    first = labels.order[numbers].copy()
    text = "010000"
    inserted = []
    for i in range(100):
        text += "a" if i % 2 else "b"
        inserted.append(text)
        labels.encode(pl.Series([text]))
        labels.encode(pl.Series([text + "zz"]))
        inserted.append(text + "zz")
        assert len(labels.order) == 20_000 + len(inserted)
    assert (labels.order[numbers] != first).any(), "the test does not exhaust a gap"
    assert in_order(labels) == sorted([*(f"{number:06d}" for number in range(20_000)), *inserted])
