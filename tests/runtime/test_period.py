"""The period of tokens follows what is measured: a valley that moves, and work that has piled up."""

from __future__ import annotations

import random
from statistics import median

import pytest

import slackwater as sw
from slackwater.runtime.period import Period


def _cumulative(period: int, lowest: int) -> float:
    """Of a valley that is 1 where it is lowest."""
    return (period / lowest + lowest / period) / 2


@pytest.mark.parametrize("lowest", [(16, 128), (128, 16), (4, 256, 4)], ids=str)
@pytest.mark.parametrize("noise", [0.0, 0.15])
def test_a_valley_that_moves_is_followed(lowest: tuple[int, ...], noise: float) -> None:
    rng = random.Random(len(lowest))
    period = Period(sw.Adaptive())
    for bottom in lowest:
        found, elements = [], 0
        while elements < 30_000:
            elements += period.now
            cumulative = _cumulative(period.now, bottom)
            if elements > 10_000:
                found.append(cumulative)
            period.hear(cumulative * (1 + noise * rng.uniform(-1, 1)), 0)
        assert median(found) <= 1.2


def test_nothing_is_judged_by_what_had_piled_up() -> None:
    """While it is worked off, every period looks better than the one before it."""
    period = Period(sw.Adaptive(first=64))
    for turn in range(100):
        period.hear(1 / (1 + turn), 10_000 - 64 * turn)
        assert period.now == 64
    for _ in range(9):
        period.hear(1.0, 0)
    assert period.now != 64


def test_a_backlog_that_goes_up_and_down_does_not_move_the_period_away() -> None:
    rng = random.Random(5)
    period = Period(sw.Adaptive(first=64))
    for _ in range(2_000):
        period.hear(_cumulative(period.now, 64), rng.randrange(40))
        assert 16 <= period.now <= 256
