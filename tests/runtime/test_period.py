"""The period of tokens follows what is measured: a valley that moves, and work that has piled up.

A queue stands for the system: an element takes a second in the mean, a token so many more. What is
found while it runs is compared with the best of the fixed periods in the same queue.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import pytest

import slackwater as sw
from slackwater.runtime.period import Beat, Period

FIXED = (1, 2, 3, 4, 6, 8, 16)


@dataclass
class Queue:
    """Who comes first is served first; loads are elements a second, each for so many elements."""

    loads: Sequence[tuple[int, float]]
    token: float
    """seconds that a token takes"""
    seed: int = 0

    def run(self, period: Period) -> list[tuple[int, Beat]]:
        """Every token that came out, and how many elements had entered before it."""
        rng = random.Random(self.seed)
        under_way: deque[tuple[float, float, int, int, int]] = deque()
        now = free = last = 0.0
        since, entered = 0, 0
        told = []
        for count, load in self.loads:
            for _ in range(count):
                now += 1 / load
                while under_way and under_way[0][0] <= now:
                    out, struck, elements, turn, place = under_way.popleft()
                    beat = Beat(elements, out - struck, out - last)
                    last = out
                    told.append((place, beat))
                    period.hear(beat, entered - place, turn)
                free = max(free, now) + rng.uniform(0.5, 1.5)
                entered += 1
                since += 1
                if since >= period.now:
                    free += self.token
                    under_way.append((free, now, since, period.turn, entered))
                    since = 0
        return told

    def waits(self, period: Period, after: int) -> float:
        """How long an element does, in the median, behind the first so many."""
        later = [beat for place, beat in self.run(period) if place > after]
        found = sorted((beat.cumulative, beat.period) for beat in later)
        half = sum(elements for _, elements in found) / 2
        for cumulative, elements in found:
            half -= elements
            if half <= 0:
                return cumulative
        return float("inf")

    def lowest(self, after: int) -> float:
        """With the best of the fixed periods."""
        every = [sw.Adaptive(first=period, least=period, most=period) for period in FIXED]
        return min(self.waits(Period(each), after) for each in every)


@pytest.mark.parametrize("first", [1, 64])
@pytest.mark.parametrize(("load", "token"), [(0.5, 0.25), (0.5, 2), (0.7, 1), (0.85, 0.25)], ids=str)
def test_it_is_near_the_best_fixed_period(load: float, token: float, first: int) -> None:
    """Of valleys that are lowest at 1 to 8 elements, where one token for each is too much for most."""
    queue = Queue([(10_000, load)], token)
    assert queue.waits(Period(sw.Adaptive(first=first)), 5_000) <= 1.2 * queue.lowest(5_000)


@pytest.mark.parametrize("seed", range(3))
def test_after_a_burst_it_is_soon_as_short_as_before(seed: int) -> None:
    """Of a burst of 2,000 elements half are left behind, which takes 2,000 to work off."""
    before, burst = (5_000, 0.5), (2_000, 2.0)
    queue = Queue([before, burst, (7_000, 0.5)], 1, seed)
    calm = Queue([before], 1, seed)
    period = Period(sw.Adaptive())
    longest = max(beat.period for place, beat in queue.run(period) if place > 5_000)
    assert longest <= 1_000, "a share of what waits"
    assert queue.waits(Period(sw.Adaptive()), 10_500) <= 1.25 * calm.lowest(2_500)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("loads", [(0.9, 0.3), (0.3, 0.7), (0.2, 0.6, 0.2)], ids=str)
def test_when_the_load_changes_it_finds_the_bottom_anew(loads: tuple[float, ...], seed: int) -> None:
    queue = Queue([(6_000, load) for load in loads], 1, seed)
    after = 6_000 * (len(loads) - 1) + 3_000
    alone = Queue([(6_000, loads[-1])], 1, seed)
    assert queue.waits(Period(sw.Adaptive()), after) <= 1.25 * alone.lowest(3_000)


def _valley(period: int, lowest: int) -> float:
    """1 where it is lowest."""
    return (period / lowest + lowest / period) / 2


def _hear(period: Period, cumulative: float, backlog: int = 0) -> None:
    """Half of it is the delay."""
    period.hear(Beat(period.now, cumulative / 2, cumulative / 2), backlog, period.turn)


@pytest.mark.parametrize("lowest", [(16, 128), (128, 16), (4, 256, 4)], ids=str)
@pytest.mark.parametrize("noise", [0.0, 0.15])
def test_a_valley_that_moves_is_followed(lowest: tuple[int, ...], noise: float) -> None:
    rng = random.Random(len(lowest))
    period = Period(sw.Adaptive())
    for bottom in lowest:
        found, elements = [], 0
        while elements < 30_000:
            elements += period.now
            cumulative = _valley(period.now, bottom)
            if elements > 10_000:
                found.append(cumulative)
            _hear(period, cumulative * (1 + noise * rng.uniform(-1, 1)))
        assert median(found) <= 1.2


@pytest.mark.parametrize("first", [1, 16, 1024])
@pytest.mark.parametrize("noise", [0.0, 0.15])
def test_it_goes_to_the_bottom_of_the_valley(first: int, noise: float) -> None:
    rng = random.Random(first)
    period = Period(sw.Adaptive(first=first))
    found = []
    for _ in range(1_500):
        cumulative = 1 + 64 / period.now + period.now / 4
        found.append(cumulative)
        _hear(period, cumulative * (1 + noise * rng.uniform(-1, 1)))
    assert median(found[500:]) <= 1.2 * 9


def test_a_backlog_that_goes_up_and_down_does_not_move_the_period_away() -> None:
    rng = random.Random(5)
    period = Period(sw.Adaptive(first=64))
    for _ in range(2_000):
        _hear(period, _valley(period.now, 64), rng.randrange(40))
        assert 16 <= period.now <= 256


def test_while_work_piles_up_there_are_some_tokens_within_it() -> None:
    period = Period(sw.Adaptive(first=4, most=1_000))
    for waits in range(0, 100_000, 500):
        _hear(period, 1.0, waits)
    assert period.now == 1_000
    left = 100_000.0
    while left > 100:
        left *= 0.9
        _hear(period, 1.0, int(left))
    assert period.now <= 1_000 // 4


def test_what_entered_under_another_period_says_nothing() -> None:
    period = Period(sw.Adaptive(first=64))
    while period.turn == 0:
        _hear(period, 64.0)
    changed = period.now
    for _ in range(1_000):
        period.hear(Beat(64, 1.0, 1.0), 10_000, 0)
    assert period.now == changed


def test_it_keeps_its_limits() -> None:
    rng = random.Random(2)
    period = Period(sw.Adaptive(first=5, least=3, most=9))
    for turn in range(2_000):
        _hear(period, rng.random(), turn if turn % 500 < 200 else 0)
        assert 3 <= period.now <= 9


def test_where_a_stride_was_too_far_a_shorter_one_is_tried_on_the_same_side() -> None:
    """Lowest at 2, beside a cliff; from 4 the way down looks long, and 1 is what is tried first."""
    period = Period(sw.Adaptive(first=4))
    tried: list[int] = []
    while period.centre != 2:
        if not tried or tried[-1] != period.now:
            tried.append(period.now)
        latency = 100.0 if period.now == 1 else 0.1
        period.hear(Beat(period.now, latency, period.now), 0, period.turn)
    assert tried == [4, 1, 4, 2]


@pytest.mark.parametrize("looks", [1, 3])
def test_a_centre_that_is_worse_for_a_while_stays_where_it_is(looks: int) -> None:
    """No more comes than before: so it was chance."""
    period = Period(sw.Adaptive(first=64))
    while not (period.pause and period.now == period.centre == 64):
        _hear(period, _valley(period.now, 64))
    per_look = 6
    for _ in range(looks * per_look):
        if period.now == 64:
            # as many come as before
            period.hear(Beat(64, 1.5, 0.5), 0, period.turn)
    for _ in range(100):
        assert period.centre == 64
        _hear(period, _valley(period.now, 64))
