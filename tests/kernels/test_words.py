"""Words: hashes that are the same for the same bytes, and for little else."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from slackwater.columns import FEW
from slackwater.kernels.words import hashed_words


@given(st.lists(st.binary(max_size=40)))
def test_a_hash_is_that_of_the_bytes_wherever_they_lie(words: list[bytes]) -> None:
    apart = [hashed_words(pl.Series([word], dtype=pl.Binary))[0] for word in words]
    assert hashed_words(pl.Series(words, dtype=pl.Binary)).tolist() == apart
    # many are read from Arrow's buffers
    many = pl.Series([*words, *[None] * (FEW + 1)], dtype=pl.Binary)
    assert hashed_words(many).tolist()[: len(words)] == apart


@given(st.lists(st.text(max_size=20), min_size=1), st.data())
def test_a_slice_has_the_hashes_of_its_part(words: list[str], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(words)))
    column = pl.Series(words, dtype=pl.String)
    assert hashed_words(column.slice(start)).tolist() == hashed_words(column).tolist()[start:]


def test_words_that_differ_little_have_hashes_that_differ() -> None:
    words = (
        [str(i) for i in range(100_000)]
        + ["x" * i for i in range(500)]
        + ["\0" * i for i in range(1, 99)]
    )
    assert len(set(hashed_words(pl.Series(words)).tolist())) == len(words)


def test_the_same_in_every_process() -> None:
    hashes = hashed_words(pl.Series(["", "tide", "slack water", "ebb and flow and ebb"])).tolist()
    assert hashes == [0, 7730917663493311386, 12501041054462910102, 4508318159019388845]
