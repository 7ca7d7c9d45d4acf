from __future__ import annotations

import math

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import naive
from tests.naive import SCHEMA, Marker

from slackwater.errors import InvalidElement, InvalidStream
from slackwater.events import Adjust, Batch, Element, Insert, adjust, insert
from slackwater.patterns import between, one_of
from slackwater.punctuations import cti, punctuation
from slackwater.times import BEGIN, INF
from slackwater.validity import StreamProperties, Validator, closed_up_to, validate

NAN = math.nan
P = pl.Schema({"p": pl.String})


def batches(*parts: list[Element]) -> list[Batch]:
    return [Batch.of(part, P) for part in parts]


def refused(stream: list[Element]) -> InvalidStream:
    with pytest.raises(InvalidStream) as caught:
        validate(stream, P)
    return caught.value


def test_a_promise_holds_within_its_batch_and_beyond():
    late = insert(3, 8, p="b")
    error = refused([insert(0, 10, p="a"), cti(5), late])
    assert (error.element, error.position, error.rule) == (late, 2, "promise broken")
    assert "insert(3, 8, p='b') breaks the promise cti(5)" in str(error)

    validator = Validator()
    first, second = batches([insert(0, 10, p="a"), cti(5)], [Marker("m"), late])
    validator.admit(first)
    with pytest.raises(InvalidStream) as caught:
        validator.admit(second)
    assert (caught.value.element, caught.value.position) == (late, 3)
    assert "cti(5)" in caught.value.fact


def test_the_promise_that_is_named_is_the_strongest_one_made_before():
    error = refused([cti(2), cti(7), cti(4), insert(5, 6, p="a"), cti(9)])
    assert "breaks the promise cti(7)" in error.fact


@pytest.mark.parametrize("element", [insert(5, 6, p="b"), adjust(0, 10, 5, p="a")])
def test_what_happens_at_the_promised_time_is_permitted(element):
    validate([insert(0, 10, p="a"), cti(5), element])


@pytest.mark.parametrize(
    "element", [adjust(0, 10, 4, p="a"), adjust(0, 10, 0, p="a"), adjust(3, 4, 9, p="b")]
)
def test_an_adjust_may_neither_leave_from_nor_arrive_before_a_promise(element):
    # the last one lengthens an event that ended at 4, and so was settled
    error = refused([insert(0, 10, p="a"), insert(3, 4, p="b"), cti(5), element])
    assert (error.element, error.rule) == (element, "promise broken")


def test_an_adjust_of_an_unknown_event_is_named():
    stray = adjust(0, 10, 4, p="b")
    error = refused([insert(0, 10, p="a"), stray])
    assert (error.element, error.position, error.rule) == (stray, 1, "unknown event")
    assert "adjusts an event that does not exist" in error.fact


def test_a_chain_out_of_order_is_told_from_an_unknown_event():
    error = refused([insert(0, 10, p="a"), adjust(0, 7, 5, p="a"), adjust(0, 10, 7, p="a")])
    assert (error.position, error.rule) == (1, "chain out of order")
    assert "now ends at 10" in error.detail


def test_each_adjust_uses_up_one_event():
    once: list[Element] = [insert(0, 9, p="a"), adjust(0, 9, 5, p="a"), adjust(0, 9, 5, p="a")]
    assert refused(once).position == 2
    validate([once[0], *once])


def test_an_element_that_is_wrong_by_itself_never_becomes_one():
    with pytest.raises(InvalidElement, match="vs=7, ve=3"):
        validate([insert(7, 3, p="a")])
    with pytest.raises(InvalidElement, match="column 'p' cannot hold 1"):
        validate([insert(0, 3, p=1)], P)
    with pytest.raises(InvalidElement, match="unknown column 'q'"):
        validate([insert(0, 3, p="a", q=1)], P)
    with pytest.raises(InvalidElement, match="cannot be named 'vs'"):
        validate([Insert(0, 3, {"vs": 1})])


def test_sift_sets_aside_what_is_wrong_and_keeps_the_rest():
    stream: list[Element] = [
        Marker("start"),
        insert(0, 10, p="a"),
        cti(5),
        insert(4, 6, p="late"),
        Marker("middle"),
        adjust(0, 10, 7, p="stray"),
        adjust(0, 9, 8, p="a"),
        adjust(0, 10, 6, p="a"),
        cti(20),
    ]
    validator = Validator()
    kept, violations = validator.sift(Batch.of(stream, P))
    assert [(v.position, v.rule) for v in violations] == [
        (3, "promise broken"),
        (5, "unknown event"),
        (6, "chain out of order"),
    ]
    assert [v.element for v in violations] == [stream[3], stream[5], stream[6]]
    assert list(kept) == [e for i, e in enumerate(stream) if i not in (3, 5, 6)]
    assert validator.promises.cti == 20
    # positions go on counting across batches, what was set aside included
    _, [late] = validator.sift(Batch.of([Marker("next"), insert(19, 21, p="b")], P))
    assert late.position == len(stream) + 1
    assert late.error().position == late.position


def test_what_was_set_aside_never_happened():
    late, follow_up = insert(3, 9, p="a"), adjust(3, 9, 7, p="a")
    _, violations = Validator().sift(Batch.of([cti(5), late, follow_up], P))
    assert [(v.element, v.rule) for v in violations] == [
        (late, "promise broken"),
        (follow_up, "unknown event"),
    ]


def test_what_no_adjust_may_name_is_forgotten():
    validator = Validator()
    points: list[Element] = [insert(t, t + 1, p="a") for t in range(2000)]
    removed: list[Element] = [adjust(t, t + 1, t, p="a") for t in range(1500, 2000)]
    validator.admit(Batch.of([*points, insert(0, None, p="a"), *removed, cti(1000)], P))
    # left are the points of 999 to 1499, and what started at 0 and has no end
    assert len(validator._alive) == 502
    still_open = [adjust(999, 1000, 1003, p="a"), adjust(0, None, 1003, p="a")]
    validator.admit(Batch.of(still_open, P))
    _, violations = validator.sift(Batch.of([adjust(998, 999, 1003, p="a")], P))
    assert [violation.rule for violation in violations] == ["promise broken"]


def test_who_does_not_judge_promises_forgets_nothing():
    validator = Validator(promises=False)
    many: list[Element] = [insert(t, t + 1, p="a") for t in range(2000)]
    for batch in batches([*many, cti(5000)], [insert(0, 2, p="b")]):
        validator.admit(batch)
    validator.admit(Batch.of([adjust(7, 8, 9, p="a")], P))


def test_a_nan_payload_can_be_adjusted():
    validate([insert(0, 9, x=NAN), adjust(0, 9, 5, x=NAN)])
    validate([insert(0, 9, x=0.0), adjust(0, 9, 5, x=-0.0)])
    with pytest.raises(InvalidStream):
        validate([insert(0, 9, x=NAN), adjust(0, 9, 5, x=None)])


@given(naive.any_streams())
def test_the_verdict_is_that_of_a_dictionary(stream):
    verdicts = naive.judge(stream)
    kept, violations = Validator().sift(Batch.of(stream, SCHEMA))
    assert [(v.position, v.rule) for v in violations] == [
        (position, rule) for position, rule in enumerate(verdicts) if rule
    ]
    assert [v.element for v in violations] == [stream[v.position] for v in violations]
    assert list(kept) == [e for e, rule in zip(stream, verdicts, strict=True) if rule is None]
    if violations:
        with pytest.raises(InvalidStream) as caught:
            validate(stream, SCHEMA)
        assert caught.value.position == violations[0].position
        assert repr(violations[0].element) in str(caught.value)
    else:
        validate(stream, SCHEMA)


@given(st.data())
def test_batching_does_not_change_the_verdict(data):
    stream = data.draw(naive.any_streams())
    whole, at_once = Validator().sift(Batch.of(stream, SCHEMA))
    validator = Validator()
    kept: list[Element] = []
    violations = []
    for part in data.draw(naive.cuts(stream)):
        good, bad = validator.sift(part)
        kept += good
        violations += bad
    assert kept == list(whole)
    assert [(v.position, v.element, v.rule, v.fact, v.detail) for v in violations] == [
        (v.position, v.element, v.rule, v.fact, v.detail) for v in at_once
    ]


@given(naive.valid_streams())
def test_every_prefix_of_a_valid_stream_is_valid(stream):
    for length in range(len(stream) + 1):
        validate(stream[:length], SCHEMA)


def test_observed_properties_of_small_streams():
    ordered: list[Element] = [insert(0, 9, p="a"), cti(2), insert(2, 4, p="b")]
    assert StreamProperties.observed(ordered).names() == [
        "ordered",
        "insert_only",
        "strictly_increasing",
        "vs_payload_key",
        "never_lengthens",
        "ties_in_order",
        "perfect",
    ]
    same_start: list[Element] = [insert(0, 9, p="a"), insert(0, 4, p="b")]
    assert StreamProperties.observed(same_start) == StreamProperties(
        ordered=True,
        insert_only=True,
        strictly_increasing=False,
        vs_payload_key=True,
        never_lengthens=True,
    )
    shortened: list[Element] = [insert(0, 9, p="a"), adjust(0, 9, 4, p="a")]
    assert StreamProperties.observed(shortened).ordered
    assert not StreamProperties.observed(shortened).perfect
    lengthened: list[Element] = [insert(0, 9, p="a"), adjust(0, 9, 12, p="a")]
    assert not StreamProperties.observed(lengthened).never_lengthens


def test_a_key_must_hold_at_every_prefix():
    twice: list[Element] = [insert(0, 9, p="a"), insert(0, 4, p="a"), adjust(0, 4, 0, p="a")]
    assert not StreamProperties.observed(twice).vs_payload_key
    replaced: list[Element] = [insert(0, 9, p="a"), adjust(0, 9, 0, p="a"), insert(0, 4, p="a")]
    assert StreamProperties.observed(replaced).vs_payload_key
    assert not StreamProperties.observed([insert(0, 9), insert(0, 4)]).vs_payload_key
    assert not StreamProperties.observed([insert(0, 9, x=NAN), insert(0, 4, x=NAN)]).vs_payload_key


@given(naive.valid_streams())
def test_observed_properties_are_those_of_a_loop(stream):
    seen = [e for e in stream if not isinstance(e, Marker)]
    syncs = [e.sync for e in seen]
    data = [e for e in seen if isinstance(e, Insert | Adjust)]
    starts = [e.vs for e in data if isinstance(e, Insert)]
    adjusts = [e for e in data if isinstance(e, Adjust)]
    is_key = all(
        len(keys) == len(set(keys))
        for length in range(len(data) + 1)
        for keys in [[(vs, p) for vs, _, p in naive.reconstitute(data[:length]).elements()]]
    )
    assert StreamProperties.observed(seen, SCHEMA) == StreamProperties(
        ordered=syncs == sorted(syncs),
        insert_only=not adjusts,
        strictly_increasing=starts == sorted(set(starts)),
        vs_payload_key=is_key,
        never_lengthens=all(e.new_ve <= e.ve for e in adjusts),
    )


def test_closed_up_to_is_the_largest_promise():
    assert closed_up_to([insert(0, 1, p="a")]) == BEGIN
    assert closed_up_to([cti(4), insert(5, 6, p="a"), cti(2)]) == 4
    assert closed_up_to([cti(4), cti(None)]) == INF


def test_where_all_values_were_null_a_promise_about_another_one_is_kept():
    """Without a schema nothing is known of the column, but that it has no such values."""
    row = insert(0, 1, k=None)
    for told in (5, one_of(1, 2), between(1, 2)):
        validate([row, punctuation(k=told), row])
    for with_null in (None, one_of(1, None)):
        with pytest.raises(InvalidStream, match="breaks the promise"):
            validate([row, punctuation(k=with_null), row])
