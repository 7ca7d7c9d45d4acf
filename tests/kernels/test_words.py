"""Words: hashes that are the same for the same bytes, and for little else; and words as integers."""

from __future__ import annotations

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from slackwater.columns import FEW
from slackwater.kernels.grouping import Keys
from slackwater.kernels.words import SHORT, as_two, hashed_words, short_words_of, views_of


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


def _two(words: list[bytes | None]) -> list[tuple[int, int]]:
    column = pl.Series("", words, dtype=pl.Binary)
    views, buffers, _ = views_of(column)
    two, where = np.empty((2, len(words)), dtype=np.int64), np.empty(len(words), dtype=np.int64)
    assert as_two(views, buffers, column.is_null().to_numpy(), two, where) == any(
        len(word or b"") > SHORT for word in words
    )
    return [(first, second) for first, second in two.T.tolist()]


@given(st.lists(st.none() | st.binary(max_size=40)))
def test_two_integers_are_those_of_the_word_wherever_it_lies(words: list[bytes | None]) -> None:
    apart = [_two([word])[0] for word in words]
    assert _two(words) == apart
    of_words = dict(zip([word or b"" for word in words], apart, strict=True))
    assert len(set(of_words.values())) == len(of_words)


@given(st.lists(st.none() | st.text(max_size=3), min_size=1))
def test_short_words_come_back_from_their_integers(words: list[str | None]) -> None:
    column = pl.Series("w", words, dtype=pl.String)
    nulls = column.is_null().to_numpy()
    back = short_words_of("w", pl.String(), views_of(column).views, nulls)
    assert back.equals(column, null_equal=True)


def test_long_words_with_the_same_integers_are_compared() -> None:
    one, other = _twins()
    assert one != other
    assert _two([one]) == _two([other])
    keys = Keys(pl.Schema({"w": pl.Binary()}))
    assert keys.number(pl.DataFrame({"w": [one, other, one, other]})).tolist() == [0, 1, 0, 1]
    assert keys.find(pl.DataFrame({"w": [other, one[:-1], one]})).tolist() == [1, -1, 0]
    assert keys.take(np.array([1, 0])).to_series().to_list() == [other, one]


def _twins() -> tuple[bytes, bytes]:
    """Two words of 32 bytes with one hash: the second part makes up for another first part."""
    bits = (1 << 64) - 1
    odd, value = 0xFF51AFD7ED558CCD, 32 * 0x9E3779B97F4A7C15 & bits
    first, second, other = (
        int.from_bytes(part, "little") for part in (b"ebb tide", b"flooding", b"ebb flow")
    )

    def stirred(start: int, word: int) -> int:
        mixed = (start ^ word) * odd & bits
        return mixed ^ (mixed >> 32)

    wanted = stirred(value, first) ^ stirred(value + odd & bits, second) ^ stirred(value, other)
    mixed = wanted ^ (wanted >> 32)
    made_up = mixed * pow(odd, -1, 1 << 64) & bits ^ (value + odd & bits)
    words = [[first, second], [other, made_up]]
    one, two = (b"".join(part.to_bytes(8, "little") for part in parts) + bytes(16) for parts in words)
    return one, two
