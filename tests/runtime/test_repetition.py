"""What an operator has promised is not promised again; and what is remembered of it stays small."""

from __future__ import annotations

import polars as pl

import slackwater as sw
from slackwater.promises import Promises
from slackwater.punctuations import Closings, Promise, Punctuation, cti, gathered
from slackwater.runtime.repetition import unsaid

SCHEMA = pl.Schema({"k": pl.Int64, "v": pl.Int64})


def _said(said: Promises, *told: Punctuation) -> list[str]:
    news: list[Promise] = unsaid(said, gathered(told, SCHEMA), SCHEMA)
    return sorted(repr(p) for each in news for p in (each if isinstance(each, Closings) else [each]))


def test_of_equal_values_in_one_batch_the_one_that_goes_furthest() -> None:
    told = [sw.punctuation(t, k=1) for t in (3, 9, 5)]
    assert _said(Promises.of(SCHEMA), *told) == ["punctuation(9, k=1)"]


def test_what_was_said_is_not_said_again_and_more_than_that_is() -> None:
    said = Promises.of(SCHEMA)
    assert _said(said, sw.punctuation(5, k=1)) == ["punctuation(5, k=1)"]
    assert _said(said, sw.punctuation(5, k=1), sw.punctuation(4, k=1, v=2)) == []
    assert _said(said, sw.punctuation(6, k=1)) == ["punctuation(6, k=1)"]
    assert _said(said, sw.punctuation(k=1)) == ["punctuation(k=1)"]
    assert _said(said, sw.punctuation(8, k=1, v=sw.between(0, 3))) == []


def test_a_cti_ends_what_is_remembered() -> None:
    said = Promises.of(SCHEMA)
    for key in range(0, 40, 2):
        _said(said, sw.punctuation(5 + key, k=key))
    assert len(said) == 20
    assert len(said.with_(cti(25))) == 9


def test_values_that_are_closed_for_ever_are_remembered_up_to_a_number() -> None:
    said = Promises.of(SCHEMA)
    for start in range(0, 6000, 60):
        # so far apart that no range has them together
        _said(said, *(sw.punctuation(k=7 * key) for key in range(start, start + 60)))
    assert len(said) < 2000
    assert _said(said, sw.punctuation(4, v=3)) == ["punctuation(4, v=3)"]
    assert _said(said, sw.punctuation(3, v=3)) == []


def test_where_much_would_have_to_be_compared_it_is_told_as_it_is() -> None:
    said = Promises.of(SCHEMA)
    told = [sw.punctuation(k=sw.between(10 * i, 10 * i + 3), v=sw.between(0, i)) for i in range(100)]
    assert len(_said(said, *told)) == 100
    assert len(said) == 0
