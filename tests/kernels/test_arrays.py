"""What is given back is used again, by those who need about as much."""

from __future__ import annotations

import numpy as np
import pytest

from slackwater.kernels import arrays

MANY = 1 << 18


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "_kept", [])


def test_an_array_comes_back_in_another_shape() -> None:
    first = arrays.empty(MANY, 2)
    place = first.ctypes.data
    arrays.give_back(first)
    again = arrays.filled(7, MANY + 5)
    assert again.ctypes.data == place
    assert again.shape == (MANY + 5,)
    assert (again == 7).all()
    # the whole of it
    arrays.give_back(again)
    assert arrays.empty(2 * MANY).ctypes.data == place


@pytest.mark.parametrize("needed", [MANY + 1, MANY // 2 - 1, 3])
def test_one_that_is_too_small_or_far_too_large_does_not(needed: int) -> None:
    first = arrays.empty(MANY)
    arrays.give_back(first)
    assert arrays.empty(needed).ctypes.data != first.ctypes.data


def test_an_array_grows() -> None:
    small = arrays.filled(3, MANY, 2)
    large = arrays.enlarged(small, 2 * MANY, 10, fill=0)
    assert large.shape == (2 * MANY, 2)
    assert (large[:10] == 3).all()
    assert not large[10:].any()


def test_what_is_kept_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "_MOST", 3 * MANY)
    for _ in range(5):
        arrays.give_back(np.zeros(MANY, dtype=np.int64))
    assert len(arrays._kept) == 3


def test_memory_of_others_is_not_kept() -> None:
    arrays.give_back(np.frombuffer(bytes(8 * MANY), dtype=np.int64))
    assert not arrays._kept
