"""Events are arranged by key, start and hash, in whatever order they come."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from slackwater.kernels import pairs
from slackwater.operators.live_events import _places

kernel: Any = pairs


def test_two_keys() -> None:
    key = np.array([1, 0, 1, 1])
    vs = np.array([5, 9, 3, 5])
    hashes = np.array([8, 1, 1, -2])
    place = kernel.places(key, 2)
    assert place.tolist() == [1, 0, 2, 3]
    events = np.empty((len(key), kernel.COLUMNS), dtype=np.int64)
    own = kernel.arranged(place, key, vs, vs + 1, hashes, 100, events)
    assert own.tolist() == [0, 1, 1, 1]
    rows = [(9, 10, 1, 101), (3, 4, 1, 102), (5, 6, -2, 103), (5, 6, 8, 100)]
    assert [tuple(event) for event in events.tolist()] == rows


@pytest.mark.parametrize("late", [0, 3, 10_000], ids=["in order", "nearly", "in no order"])
@pytest.mark.parametrize("keys", [1, 7, 500, 10**6])
def test_any_order(keys: int, late: int) -> None:
    random = np.random.default_rng(keys + late)
    count = 3_000
    key = random.integers(0, keys, count)
    vs = np.arange(count) // 2 + random.integers(0, late + 1, count)
    # the extremes, too
    hashes = random.choice(np.array([-(2**63), -1, 0, 2**63 - 1]), count)
    events = np.empty((count, kernel.COLUMNS), dtype=np.int64)
    own = kernel.arranged(_places(key, keys), key, vs, vs + 9, hashes, 0, events)
    order = np.lexsort((hashes, vs, key))
    assert np.array_equal(own, key[order])
    assert np.array_equal(events, np.stack([vs, vs + 9, hashes, np.arange(count)], axis=1)[order])
