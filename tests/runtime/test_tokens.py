"""Tokens at work: where they stand, how long they take, and the period that is found."""

from __future__ import annotations

import slackwater as sw
from slackwater.plan.nodes import Source
from slackwater.runtime.controlled import Controlled

LEFT, RIGHT = sw.stream({"k": int}, name="left"), sw.stream({"k": int}, name="right")
QUERY = LEFT.join(RIGHT, on="k").union(LEFT)


def _source(stream: sw.Query) -> Source:
    assert isinstance(stream.node, Source)
    return stream.node


def _offer(controlled: Controlled, stream: sw.Query, *keys: int) -> None:
    for key in keys:
        controlled.offer(_source(stream), [sw.insert(0, 9, k=key)])


def test_an_input_that_says_nothing_holds_up_nobody() -> None:
    out = QUERY.run(
        {LEFT: [sw.insert(0, 9, k=k) for k in range(6)], RIGHT: []}, batch=1, by=sw.Tokens(2)
    )
    assert [dict(mark.offsets) for mark in out.marks] == [{"left": n, "right": 0} for n in (2, 4, 6)]


def test_no_input_at_all_is_quiet() -> None:
    out = QUERY.run({LEFT: [], RIGHT: []}, by=sw.Tokens(2))
    assert out.marks == []


def test_what_arrives_later_is_let_in_later() -> None:
    controlled = Controlled(QUERY.node, level=sw.INPUT_PREFIX_CONSISTENT, by=sw.Tokens(100))
    _offer(controlled, LEFT, 1, 2)
    controlled.run_until_quiet()
    assert len(controlled.output) == 2
    _offer(controlled, RIGHT, 1)
    assert controlled.backlog == 1
    controlled.run_until_quiet()
    assert len(controlled.output) == 3
    assert [mark.token for mark in controlled.output.marks] == [1, 2]


def test_a_token_takes_as_long_as_the_clock_says() -> None:
    time = [0.0]

    def tick() -> float:
        time[0] += 1.0
        return time[0]

    controlled = Controlled(QUERY.node, level=sw.INPUT_PREFIX_CONSISTENT, by=sw.Tokens(2), clock=tick)
    _offer(controlled, LEFT, 1, 2, 3, 4)
    controlled.run_until_quiet()
    assert [beat.period for beat in controlled.beats] == [2, 2]
    # the clock is read when a token is due, and when it is out; the first has none before it
    first, second = controlled.beats
    assert first.cumulative == 2 * first.latency
    assert second.cumulative == second.latency + second.delay
    assert second.delay > 0
