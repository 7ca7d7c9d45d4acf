from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import naive
from tests.naive import SCHEMA, Marker

import slackwater as sw
from slackwater.errors import InvalidElement
from slackwater.events import Adjust, Batch, Insert, adjust, insert
from slackwater.patterns import pattern_of
from slackwater.promises import Promises
from slackwater.punctuations import (
    Closings,
    Promise,
    Punctuation,
    combinations,
    cti,
    matching,
    punctuation,
    unmatched,
)
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


# patterns


AB = pl.Schema({"a": pl.Int64(), "b": pl.String()})


@pytest.mark.parametrize(
    ("told", "text"),
    [
        (punctuation(a=7), "punctuation(a=7)"),
        (punctuation(20, b="x", a=sw.between(1, 3)), "punctuation(20, a=between(1, 3), b='x')"),
        (punctuation(None, 10, a=None), "punctuation(INF, 10, a=None)"),
        (punctuation(20, 10), "punctuation(20, 10)"),
        (punctuation(20, a=sw.ANY), "cti(20)"),
    ],
)
def test_a_punctuation_prints_as_it_is_written(told, text):
    assert repr(told) == text


def test_what_is_no_punctuation_is_refused():
    with pytest.raises(InvalidElement, match="must end after it starts"):
        punctuation(10, 10, a=1)
    with pytest.raises(InvalidElement, match="cannot be named 'vs'"):
        punctuation(vs=1)
    with pytest.raises(InvalidElement, match="unknown column 'c'"):
        punctuation(c=1).fitted(AB)
    with pytest.raises(InvalidElement, match="column 'a' cannot hold 'x'"):
        punctuation(a="x").fitted(AB)
    with pytest.raises(InvalidElement, match="cannot hold what is promised"):
        Closings(pl.DataFrame({"a": ["x"]}), np.array([INF])).fitted(AB)


def test_a_box_speaks_of_payloads_and_times():
    told = punctuation(20, 10, a=sw.one_of(1, None), b="x")
    rows = [(9, 1, "x"), (10, 1, "x"), (15, None, "x"), (15, 2, "x"), (15, 1, None), (20, 1, "x")]
    batch = Batch.of([insert(at, 30, a=a, b=b) for at, a, b in rows], AB)
    assert told.matches(batch).tolist() == [False, True, True, False, False, False]


def _one_by_one(told: list[Promise]) -> list[Punctuation]:
    return [p for each in told for p in (each if isinstance(each, Closings) else [each])]


def test_table_1_of_paper_4():
    batch = Batch.of([insert(0, 9, a=a, b="x") for a in (1, 2, 3, 4)], AB)
    some = Closings(pl.DataFrame({"a": [2, 7]}), np.array([INF, INF]))
    told: list[Promise] = [punctuation(a=1), some]
    assert matching(batch, told).tolist() == [True, True, False, False]
    assert _one_by_one(unmatched(told, batch.payload)) == [punctuation(a=7)]
    both = combinations([punctuation(a=sw.between(1, 5))], [*told, punctuation(b="y")])
    assert sorted(map(repr, _one_by_one(both))) == [
        "punctuation(a=1)",
        "punctuation(a=2)",
        "punctuation(a=between(1, 5), b='y')",
    ]


def test_closings_of_other_columns_meet_where_they_agree():
    one = Closings(pl.DataFrame({"a": [1, 2, None]}), np.array([5, 6, 7]))
    other = Closings(pl.DataFrame({"a": [None, 1, 3], "b": ["n", "x", "y"]}), np.array([9, 3, 9]))
    assert set(map(repr, _one_by_one(combinations([one], [other])))) == {
        "punctuation(3, a=1, b='x')",
        "punctuation(7, a=None, b='n')",
    }


def test_closings_of_a_list_are_told_one_by_one():
    [some] = Closings.of([punctuation(a=sw.one_of(1, 2), b="x"), punctuation(5, a=3, b=None)], AB)
    assert [repr(each) for each in _one_by_one([some])] == [
        "punctuation(a=1, b='x')",
        "punctuation(a=2, b='x')",
        "punctuation(5, a=3, b=None)",
    ]
    renamed = some.renamed({"a": "c"})
    assert renamed.speaks_only_of({"b", "c"})
    assert not renamed.speaks_only_of({"a", "b"})


small = st.one_of(
    st.sampled_from([sw.ANY, sw.between(0, 1), sw.between(1, None), sw.one_of(0, 2, None)]),
    st.sampled_from([0, 1, 2, None]),
)
boxes = st.builds(
    lambda a, b, since, length: Punctuation.of(
        since + length, since, {"a": pattern_of(a), "b": pattern_of(b)}
    ),
    small,
    small,
    st.integers(0, 2),
    st.integers(1, 2),
)
NUMBERS = pl.Schema({"a": pl.Int64(), "b": pl.Int64()})
EVERY = Batch.of(
    [insert(t, 9, a=a, b=b) for t in range(5) for a in (0, 1, 2, None) for b in (0, 1, 2, None)],
    NUMBERS,
)


@given(boxes, boxes)
def test_a_combination_matches_what_both_do(p, q):
    both = p.combine(q)
    assert both.matches(EVERY).tolist() == (p.matches(EVERY) & q.matches(EVERY)).tolist()
    if both.is_empty:
        assert not both.matches(EVERY).any()
    else:
        assert p.implies(both)
        assert q.implies(both)


@given(boxes, boxes)
def test_a_box_implies_what_lies_in_it(p, q):
    if p.implies(q):
        assert not (q.matches(EVERY) & ~p.matches(EVERY)).any()
