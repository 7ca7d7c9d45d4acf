"""Logical merge and promises about payloads: each payload is as a stream of its own, by hand."""

from __future__ import annotations

from typing import Any

import pytest

import slackwater as sw
from slackwater.errors import SlackwaterError
from slackwater.events import Element
from slackwater.persistence import encode
from slackwater.runtime import Execution

SCHEMA = {"k": int, "v": str}
KEY = sw.StreamProperties(vs_payload_key=True)
PERFECT = sw.StreamProperties(ordered=True, insert_only=True, vs_payload_key=True)
a, b = (sw.stream(SCHEMA, name=name, properties=KEY) for name in "ab")

each_index = pytest.mark.parametrize("algorithm", ["R3", "R4"])


def _said(running: Any, source: Any, *elements: Element) -> list[Element]:
    return [each for batch in running.push(source, elements) for each in batch]


def _rows(running: Any) -> int:
    return sum(each.state.state_rows for each in running.describe())


@each_index
def test_what_an_input_has_closed_is_made_what_it_says_and_forgotten(algorithm: Any) -> None:
    running = sw.merge(a, b, algorithm=algorithm).open()
    _said(
        running, a, sw.insert(1, 5, k=1, v="x"), sw.insert(2, 9, k=1, v="y"), sw.insert(3, 9, k=2, v="x")
    )
    _said(running, b, sw.insert(1, 7, k=1, v="x"))
    # b has x until 7, and no y
    assert _said(running, b, sw.punctuation(k=1)) == [
        sw.adjust(1, 5, 7, k=1, v="x"),
        sw.adjust(2, 9, 2, k=1, v="y"),
        sw.punctuation(k=1),
    ]
    assert _rows(running) == 1
    assert running.output.settled().rows() == [(1, "x", 1, 7)]
    assert _said(running, a, sw.adjust(1, 5, 7, k=1, v="x"), sw.adjust(2, 9, 2, k=1, v="y")) == []
    assert _said(running, a, sw.punctuation(k=1)) == []
    assert _rows(running) == 1


@each_index
def test_who_begins_anew_tells_what_is_closed_again_and_nothing_of_it_is_shown(algorithm: Any) -> None:
    running = sw.merge(a, b, algorithm=algorithm, policy=sw.merge_policy(adjusts=sw.EVERY)).open()
    _said(running, a, sw.insert(5, 9, k=1, v="x"), sw.insert(6, 9, k=2, v="x"), sw.punctuation(k=1))
    running.detach(b)
    running.attach(b)
    again = [sw.insert(5, sw.INF, k=1, v="x"), sw.adjust(5, sw.INF, 9, k=1, v="x"), sw.punctuation(k=1)]
    assert _said(running, b, *again) == []
    assert _said(running, b, sw.insert(6, 9, k=2, v="x"), sw.cti(sw.INF)) == [sw.cti(sw.INF)]
    assert running.output.history().rows() == [(1, "x", 5, 9), (2, "x", 6, 9)]
    assert _rows(running) == 0


@each_index
def test_up_to_a_time_it_is_a_cti_of_these_payloads(algorithm: Any) -> None:
    running = sw.merge(a, b, algorithm=algorithm, policy=sw.merge_policy(adjusts=sw.EVERY)).open()
    _said(running, a, sw.insert(5, 30, k=1, v="x"), sw.insert(5, 6, k=1, v="y"))
    assert _said(running, a, sw.punctuation(10, k=1)) == [sw.punctuation(10, k=1)]
    assert _rows(running) == 1, "y has ended"
    # another end before 10, another event before 10: both are late
    assert _said(running, b, sw.insert(5, 7, k=1, v="x"), sw.insert(6, 8, k=1, v="z")) == []
    # from 10 on everything may be said
    assert _said(running, b, sw.adjust(5, 7, 20, k=1, v="x"), sw.insert(10, 11, k=1, v="z")) == [
        sw.adjust(5, 30, 20, k=1, v="x"),
        sw.insert(10, 11, k=1, v="z"),
    ]
    # other payloads are not concerned
    assert _said(running, b, sw.insert(0, 1, k=2, v="x")) == [sw.insert(0, 1, k=2, v="x")]


def test_a_promise_trails_as_a_cti_does() -> None:
    running = sw.merge(a, b, policy=sw.merge_policy(trailing=3)).open()
    assert _said(running, a, sw.punctuation(10, k=1)) == [sw.punctuation(7, k=1)]
    assert _said(running, a, sw.punctuation(k=1)) == [sw.punctuation(k=1)]


@each_index
def test_what_an_input_promises_counts_when_it_is_complete(algorithm: Any) -> None:
    running = sw.merge(a, b, algorithm=algorithm).open()
    _said(running, a, sw.insert(1, 5, k=1, v="x"), sw.insert(2, 20, k=1, v="x"), sw.cti(3))
    running.detach(b)
    running.attach(b, since=8)
    assert _said(running, b, sw.insert(2, 19, k=1, v="x"), sw.punctuation(k=1)) == []
    assert _rows(running) == 2
    assert _said(running, a, sw.cti(8)) == [
        sw.adjust(2, 20, 19, k=1, v="x"),
        sw.punctuation(k=1),
        sw.cti(8),
    ]
    assert _rows(running) == 0


@each_index
def test_who_has_promised_otherwise_is_named(algorithm: Any) -> None:
    running = sw.merge(a, b, algorithm=algorithm).open()
    _said(running, a, sw.insert(1, 50, k=1, v="x"), sw.cti(20))
    _said(running, b, sw.insert(1, 9, k=1, v="x"))
    with pytest.raises(SlackwaterError, match=r"another end.*insert\(1, 50"):
        _said(running, b, sw.punctuation(15, k=1))
    running = sw.merge(a, b, algorithm=algorithm).open()
    _said(running, a, sw.insert(1, 50, k=1, v="x"), sw.cti(20))
    with pytest.raises(SlackwaterError, match=r"an event is missing.*insert\(1, 50"):
        _said(running, b, sw.punctuation(k=1))


@each_index
def test_nobody_is_held_to_what_it_said_of_a_payload_that_it_need_not_tell_any_more(
    algorithm: Any,
) -> None:
    """b has an event that a has not; it takes it back, which nobody listens to, or it goes on."""
    for more in (sw.adjust(6, 9, 6, k=1, v="y"), sw.insert(30, 31, k=1, v="z")):
        running = sw.merge(a, b, algorithm=algorithm).open()
        _said(running, a, sw.insert(1, 5, k=1, v="x"))
        _said(running, b, sw.insert(6, 9, k=1, v="y"))
        assert _said(running, a, sw.punctuation(k=1)) == [
            sw.adjust(6, 9, 6, k=1, v="y"),
            sw.punctuation(k=1),
        ]
        assert _rows(running) == 0
        assert _said(running, b, more, sw.punctuation(k=1)) == []
        assert _said(running, b, sw.cti(40)) == [sw.cti(40)]
        assert running.output.history().rows() == [(1, "x", 1, 5)]


@each_index
def test_a_promise_that_begins_later_counts_when_the_cti_has_come_there(algorithm: Any) -> None:
    running = sw.merge(a, b, algorithm=algorithm).open()
    later = sw.punctuation(20, 5, k=1)
    assert _said(running, a, later) == []
    assert _said(running, a, sw.cti(5)) == [sw.cti(5)]
    assert _said(running, a, later) == [sw.punctuation(20, k=1)]


def test_inputs_in_order_pass_a_promise_on_and_hold_others_to_it() -> None:
    one, other = (sw.stream(SCHEMA, name=name, properties=PERFECT) for name in "ab")
    running = sw.merge(one, other, policy=sw.merge_policy(gaps=True)).open()
    assert "R2" in sw.merge(one, other).explain()
    _said(running, one, sw.insert(1, 5, k=1, v="x"))
    assert _said(running, one, sw.punctuation(k=1)) == [sw.punctuation(k=1)]
    out = _said(running, other, *(sw.insert(vs, 5, k=k, v="x") for vs, k in ((1, 1), (2, 1), (3, 2))))
    assert out == [sw.insert(3, 5, k=2, v="x")]
    [entry] = running.output.ledger
    assert entry.reason == "missing"
    assert "punctuation(k=1) was promised without" in entry.detail


def test_one_index_for_each_input_drops_promises_about_payloads() -> None:
    running = sw.merge(a, b, algorithm="R3-").open()
    assert _said(running, a, sw.insert(1, 5, k=1, v="x"), sw.punctuation(k=1)) == [
        sw.insert(1, 5, k=1, v="x")
    ]


def test_other_inputs_need_not_compute_what_is_closed() -> None:
    counts = [each.group_by("k").aggregate(n=sw.count()) for each in (a, b)]
    running = sw.merge(*counts).open()
    _said(running, a, sw.insert(1, 5, k=1, v="x"), sw.insert(1, 5, k=2, v="x"), sw.punctuation(k=1))
    _said(running, b, sw.insert(1, 5, k=1, v="x"), sw.insert(1, 5, k=2, v="x"))
    assert [each.rows_in for each in running.describe()[:2]] == [2, 1]
    assert _said(running, a, sw.cti(sw.INF)) == [sw.cti(sw.INF)]
    assert running.output.history().rows() == [(1, 1, 1, 5), (2, 1, 1, 5)]


@each_index
def test_keys_that_are_closed_one_by_one_leave_nothing_behind(algorithm: Any) -> None:
    """Time stands still: no cti ever comes."""
    running = Execution(sw.merge(a, b, algorithm=algorithm).node)
    written = []
    for first in range(0, 2000, 50):
        keys = range(first, first + 50)
        for source in (a.node, b.node):
            _said(running, source, *(sw.insert(k, None, k=k, v="x") for k in keys))
        for source in (a.node, b.node):
            _said(running, source, *(sw.punctuation(k=k) for k in keys))
        assert _rows(running) == 0
        written.append(encode(running.snapshot().operators).size)
    assert max(written[20:]) <= max(written[:20]), "nor in the room that they had"
