"""Tokens at work: where they stand, how long they take, and the period that is found."""

from __future__ import annotations

import random

import pytest

import slackwater as sw
from slackwater.plan.nodes import Source
from slackwater.runtime.controlled import Controlled
from slackwater.runtime.period import Period

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


@pytest.mark.parametrize("first", [1, 16, 1024])
@pytest.mark.parametrize("noise", [0.0, 0.15])
def test_the_period_goes_to_the_bottom_of_the_valley(first: int, noise: float) -> None:
    """latency = 1 + 64 / T, delay = T / 4: lowest at T = 16, where it is 9."""
    rng = random.Random(first)
    period = Period(sw.Adaptive(first=first))
    found = []
    for turn in range(1_500):
        now = period.now
        cumulative = 1 + 64 / now + now / 4
        if turn > 500:
            found.append(cumulative)
        period.hear(cumulative * (1 + noise * rng.uniform(-1, 1)), 0)
    found.sort()
    assert found[len(found) // 2] <= 1.2 * 9


def test_a_backlog_that_grows_makes_the_period_grow() -> None:
    period = Period(sw.Adaptive(first=4, most=64))
    for turn in range(200):
        # fewer tokens look worse, but nothing else helps
        period.hear(float(period.now), 100 + 10 * turn)
    assert period.now == 64


def test_the_period_keeps_its_limits() -> None:
    rng = random.Random(2)
    period = Period(sw.Adaptive(first=5, least=3, most=9))
    for _ in range(500):
        period.hear(rng.random(), 0)
        assert 3 <= period.now <= 9
