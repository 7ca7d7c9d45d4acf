"""Changes of the same key and time that meet while rows are spread come to what they come to apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from slackwater.kernels import endpoints
from slackwater.times import INF

Ints = npt.NDArray[np.int64]

kernel: Any = endpoints


def _changes(rows: Ints, weights: Ints, horizon: int, slots: int) -> tuple[Ints, Ints, int]:
    """Near and far changes by key and time, and how many there were before they were added up."""
    width = endpoints.LABELS + weights.shape[1]
    near, far = (np.empty((2 * len(rows), width), dtype=np.int64) for _ in range(2))
    labels = np.empty((len(rows), 0), dtype=np.int64)
    columns = (np.ascontiguousarray(column) for column in rows.T)
    n, f = kernel.spread(*columns, labels, weights, horizon, False, near, far, np.full(slots, -1))
    return _summed(near[:n]), _summed(far[:f]), n + f


def _summed(changes: Ints) -> Ints:
    count = len(changes)
    out, head = np.empty_like(changes), np.full(100, -1)
    keys, first = np.empty(count, dtype=np.int64), np.empty(count + 1, dtype=np.int64)
    _, left = kernel.by_key(changes, count, 0, head, out, np.empty_like(out), keys, first)
    out = out[:left]
    return out[np.lexsort((out[:, endpoints.TIME], out[:, endpoints.KEY]))]


def _rows(random: np.random.Generator, count: int, times: int) -> Ints:
    key = random.integers(0, 100, count)
    vs, old, new = random.integers(0, times, (3, count))
    is_insert = random.random(count) < 0.7
    old, new = vs + np.where(is_insert, 0, old), vs + new
    new[random.random(count) < 0.1] = INF
    return np.stack([key, vs, old, new], axis=1)


@pytest.mark.parametrize("late", [0, 5, 10**6], ids=["in order", "nearly", "in no order"])
def test_many_changes_of_few_keys_are_put_in_order(late: int) -> None:
    random = np.random.default_rng(late)
    count = 3_000
    changes = np.zeros((count, endpoints.LABELS + 1), dtype=np.int64)
    changes[:, endpoints.TIME] = np.arange(count) // 2 + random.integers(0, late + 1, count)
    changes[:, endpoints.KEY] = random.integers(0, 3, count)
    changes[:, endpoints.CHANGE_REFS] = 1
    changes[:, endpoints.LABELS] = np.arange(count)
    out, head = np.empty_like(changes), np.full(100, -1)
    keys, first = np.empty(count, dtype=np.int64), np.empty(count + 1, dtype=np.int64)
    found = kernel.by_key(changes, count, 0, head, out, np.empty_like(out), keys, first)
    assert (head == -1).all(), "as it was"
    told: dict[tuple[int, int], list[int]] = {}
    for time, key, refs, value in changes.tolist():
        sums = told.setdefault((key, time), [0, 0])
        sums[0] += refs
        sums[1] += value
    touched, left = found
    assert sorted(keys[:touched].tolist()) == [0, 1, 2]
    assert first[: touched + 1].tolist()[-1] == left == len(told)
    rows = [((key, time), [refs, value]) for time, key, refs, value in out[:left].tolist()]
    assert dict(rows) == told
    for begin, end in zip(first[:touched].tolist(), first[1 : touched + 1].tolist(), strict=True):
        assert sorted(rows[begin:end]) == rows[begin:end]
        assert len({key for (key, _), _ in rows[begin:end]}) == 1


@pytest.mark.parametrize("slots", [1, 8, 1024])
@pytest.mark.parametrize(("times", "horizon"), [(5, 4), (5, INF), (10**9, 10**9)])
def test_changes_that_meet_add_up_to_what_they_are_apart(slots: int, times: int, horizon: int) -> None:
    random = np.random.default_rng(slots + times)
    # more than are tried before it is given up
    rows = _rows(random, 6_000, times)
    weights = random.integers(-9, 9, (len(rows), 2))
    near, far, apart = _changes(rows, weights, horizon, 0)
    near_met, far_met, met = _changes(rows, weights, horizon, slots)
    assert np.array_equal(near, near_met)
    assert np.array_equal(far, far_met)
    assert met <= apart
    if times == 5 and slots == 1024:
        assert met < apart / 2
