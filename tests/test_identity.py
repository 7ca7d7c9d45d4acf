from __future__ import annotations

import datetime as dt
import math
import subprocess
import sys
from typing import Any
from zoneinfo import ZoneInfo

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.identity import identity, row_ids, row_keys, with_one_zero

NAN = math.nan

values = st.sampled_from([None, 0.0, -0.0, NAN, -NAN, 1.5])


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (NAN, -NAN, True),
        (0.0, -0.0, True),
        (None, NAN, False),
        (None, 0.0, False),
        ([0.0, NAN], [-0.0, NAN], True),
        ([1.0, 2.0], [2.0, 1.0], False),
        ([None], [], False),
        ({"a": NAN, "b": 1}, {"b": 1, "a": NAN}, True),
        ({"a": NAN}, {"a": None}, False),
        ([{"a": [NAN]}], [{"a": [NAN]}], True),
        ("1", 1, False),
    ],
)
def test_identity_of_values(one, other, same):
    assert (identity(one) == identity(other)) is same
    if same:
        assert hash(identity(one)) == hash(identity(other))


def test_the_identity_of_rows_includes_nested_columns():
    frame = pl.DataFrame({"x": [[0.0], [-0.0], [NAN], [NAN], [None], None]})
    assert row_ids(frame).tolist() == [0, 0, 2, 2, 4, 5]
    keys = row_keys(frame)
    assert [keys.index(key) for key in keys] == [0, 0, 2, 2, 4, 5]


def test_rows_without_columns_are_all_the_same():
    assert row_ids(pl.DataFrame(height=3)).tolist() == [0, 0, 0]
    assert row_keys(pl.DataFrame(height=3)) == [(), (), ()]


@given(st.lists(st.tuples(values, st.sampled_from(["a", None])), max_size=10))
def test_rows_by_columns_and_rows_one_by_one_have_the_same_identity(rows):
    frame = pl.DataFrame(rows, schema={"x": pl.Float64, "k": pl.String}, orient="row")
    keys = row_keys(frame)
    assert row_ids(frame).tolist() == [keys.index(key) for key in keys]
    by_hand = [tuple(identity(value) for value in row) for row in rows]
    assert [keys.index(key) for key in keys] == [by_hand.index(key) for key in by_hand]


def test_an_hour_that_comes_twice_is_two_instants():
    """Where clocks are set back, Python calls 02:30 and 02:30 equal; they are an hour apart."""
    berlin = ZoneInfo("Europe/Berlin")
    first = dt.datetime(2020, 10, 25, 2, 30, tzinfo=berlin)
    second = first.replace(fold=1)
    assert first == second
    assert identity(first) != identity(second)
    frame = pl.DataFrame({"t": [first, second]}, schema={"t": pl.Datetime("us", "Europe/Berlin")})
    assert len(set(row_keys(frame))) == 2
    assert row_ids(frame).tolist() == [0, 1]


def test_a_hash_of_categories_is_the_same_in_every_process() -> None:
    """Their codes are not: they come in the order in which a process meets the words."""
    say = (
        "import polars as pl; from slackwater.identity import hash_rows; import sys;"
        "pl.Series(sys.argv[1:], dtype=pl.Categorical);"
        "t = pl.DataFrame({'c': [['x', 'y']], 'd': ['y']},"
        " schema={'c': pl.List(pl.Categorical), 'd': pl.Categorical}); print(hash_rows(t)[0])"
    )
    told = {
        subprocess.run(  # noqa: S603
            [sys.executable, "-c", say, *words], capture_output=True, text=True, check=True
        ).stdout
        for words in (["x", "y"], ["z", "y", "x"])
    }
    assert len(told) == 1


def test_one_zero_at_every_depth() -> None:
    values = [
        {"f": -0.0, "l": [-0.0, None, 1.5], "a": [-0.0, 0.0], "s": {"x": [{"y": -0.0}], "k": "-0.0"}},
        {"f": None, "l": None, "a": None, "s": None},
        {"f": float("nan"), "l": [], "a": [2.0, -3.0], "s": {"x": None, "k": None}},
    ]
    schema: dict[str, Any] = {
        "f": pl.Float64,
        "l": pl.List(pl.Float64),
        "a": pl.Array(pl.Float64, 2),
        "s": pl.Struct({"x": pl.List(pl.Struct({"y": pl.Float64})), "k": pl.String}),
    }
    frame = pl.DataFrame(values, schema=schema)
    plain = pl.DataFrame([with_one_zero(column) for column in frame.get_columns()])
    assert plain.schema == frame.schema
    assert row_keys(plain) == row_keys(frame)
    assert "-0.0" not in str(plain.drop("s").rows()) + str(plain["s"].struct.field("x").to_list())
