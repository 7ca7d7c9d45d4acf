"""What was made narrow becomes what it was."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.distributed.narrow import narrowed, widened

LEAST, MOST = -(2**63), 2**63 - 1


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([7], pl.UInt8),
        ([-1, 254], pl.UInt8),
        ([-1, 255], pl.UInt16),
        ([LEAST, LEAST + 2**16], pl.UInt32),
        ([MOST, MOST - 2**32 + 1], pl.UInt32),
        ([0, 2**32], pl.Int64),
        ([LEAST, MOST], pl.Int64),
        ([1, None], pl.Int64),
        ([], pl.Int64),
    ],
)
def test_as_few_bytes_as_the_span_needs(values: list[int | None], dtype: pl.DataType) -> None:
    frame = pl.DataFrame({"k": pl.Series(values, dtype=pl.Int64)})
    narrow = narrowed(frame)
    assert narrow.dtypes == [dtype]
    assert widened(narrow).equals(frame)
    assert widened(narrow).schema == frame.schema


_COLUMNS = st.sampled_from([pl.Int64, pl.UInt8, pl.String, pl.Float64, pl.Datetime("us")])
_NAMES = st.sampled_from(["k", "", "\0vs", "\1", "k\1", "k\0015", "\1\1"])


@given(st.dictionaries(_NAMES, _COLUMNS, min_size=1), st.lists(st.integers(0, 200)))
def test_columns_of_any_kind_and_name(columns: dict[str, pl.DataType], numbers: list[int]) -> None:
    frame = pl.DataFrame(
        {name: pl.Series(numbers, dtype=pl.Int64).cast(dtype) for name, dtype in columns.items()}
    )
    back = widened(narrowed(frame))
    assert back.schema == frame.schema
    assert back.equals(frame)
