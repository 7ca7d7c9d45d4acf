"""Chunks: rows by number, whatever came in which portions."""

from __future__ import annotations

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from slackwater.kernels.chunks import Chunks

SCHEMA = pl.Schema({"x": pl.String(), "y": pl.List(pl.Int64)})


@given(st.lists(st.one_of(st.integers(0, 40), st.lists(st.floats(0, 1), max_size=30)), max_size=30))
def test_a_list_of_rows_with_few_chunks(story: list[int | list[float]]) -> None:
    """A number appends so many rows; a list takes some; of its first, all before that are forgotten."""
    chunks, model = Chunks(SCHEMA), list[tuple[str, list[int]]]()
    for step in story:
        if isinstance(step, int):
            rows = [(f"{len(model) + i}", [i]) for i in range(step)]
            chunks.append(pl.DataFrame(rows, schema=SCHEMA, orient="row"))
            model += rows
        else:
            numbers = [int(part * (len(model) - 1)) for part in step if model]
            assert chunks.take(np.array(numbers, dtype=np.int64)).rows() == [model[n] for n in numbers]
            if numbers:
                chunks.keep(np.arange(numbers[0], len(model)))
                model = model[numbers[0] :]
        assert len(chunks) == len(model)
        assert chunks.frame.n_chunks() <= 8
    assert chunks.frame.rows() == model
