from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st
from tests import naive
from tests.naive import SCHEMA, Marker

from slackwater.events import Adjust, Batch, Insert, adjust, insert
from slackwater.punctuations import Promises, Punctuation, cti
from slackwater.times import BEGIN, INF

P = pl.Schema({"p": pl.String})


def test_a_cti_speaks_of_what_begins_to_change_before_it():
    batch = Batch.of([insert(4, 9, p="a"), insert(5, 9, p="b")], P)
    assert cti(5).matches(batch).tolist() == [True, False]


def test_promises_of_the_same_batch_count_from_where_they_stand():
    batch = Batch.of([insert(1, 9, p="a"), cti(3), insert(2, 9, p="b"), insert(3, 9, p="c")], P)
    assert Promises().broken_by(batch).tolist() == [False, True, False]
    assert Promises(3).broken_by(batch).tolist() == [True, True, False]


def test_after_the_end_of_time_nothing_comes():
    stay = adjust(1, None, None, p="a")
    batch = Batch.of([insert(1, None, p="a"), cti(None), stay], P)
    assert Promises().broken_by(batch).tolist() == [False, True]
    assert Promises(INF).broken_by(Batch.of([stay], P)).tolist() == [True]


def test_the_difference_is_told_with_the_fewest_punctuations():
    promises, news = Promises(5).strengthened_by([cti(3), Marker("m"), cti(9), cti(7)])
    assert (promises, news) == (Promises(9), [cti(9)])
    assert promises.strengthened_by([cti(9)]) == (promises, [])


def test_nothing_is_promised_at_first():
    assert Promises().cti == BEGIN
    assert not Promises().broken_by(Batch.of([insert(BEGIN, 0, p="a")], P)).any()


@given(st.integers(0, naive.HORIZON), naive.any_streams())
def test_broken_promises_are_those_of_a_loop(before, elements):
    batch = Batch.of([cti(before), *elements], SCHEMA)
    promised, expected = BEGIN, []
    for element in batch:
        if isinstance(element, Punctuation):
            promised = max(promised, element.before)
        elif isinstance(element, Insert | Adjust):
            expected.append(naive.breaks(element, promised))
    assert Promises().broken_by(batch).tolist() == expected


@given(st.integers(0, 9), st.integers(0, 9))
def test_one_promise_implies_another_when_it_forbids_as_much(one, other):
    every = Batch.of([insert(t, INF, p="a") for t in range(10)], P)
    forbidden_by_one, forbidden_by_other = cti(one).matches(every), cti(other).matches(every)
    assert cti(one).implies(cti(other)) == bool((forbidden_by_one >= forbidden_by_other).all())
