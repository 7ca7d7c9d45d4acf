"""What is given back is used again, by those who need about as much."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from slackwater.kernels.arrays import Spares

MANY = 1 << 18


def test_an_array_comes_back_in_another_shape() -> None:
    spares = Spares()
    first = spares.empty(MANY, 2)
    place = first.ctypes.data
    spares.give_back(first)
    again = spares.filled(7, 2 * MANY - 5)
    assert again.ctypes.data == place
    assert again.shape == (2 * MANY - 5,)
    assert (again == 7).all()
    # the whole of it
    spares.give_back(again)
    assert spares.empty(2 * MANY).ctypes.data == place


def test_there_is_some_room_for_the_next_time() -> None:
    spares = Spares()
    first = spares.empty(MANY)
    place = first.ctypes.data
    spares.give_back(first)
    assert spares.empty(MANY + MANY // 8).ctypes.data == place


@pytest.mark.parametrize("needed", [2 * MANY, MANY // 2 + 1, 3])
def test_one_that_is_too_small_or_far_too_large_does_not(needed: int) -> None:
    spares = Spares()
    first = spares.empty(MANY)
    spares.give_back(first)
    assert spares.empty(needed).ctypes.data != first.ctypes.data


def test_an_array_grows() -> None:
    spares = Spares()
    large = spares.enlarged(spares.filled(3, MANY, 2), 2 * MANY, 10, fill=0)
    assert large.shape == (2 * MANY, 2)
    assert (large[:10] == 3).all()
    assert not large[10:].any()


def test_few_are_kept_and_none_is_written_down() -> None:
    spares = Spares()
    for _ in range(20):
        spares.give_back(np.zeros(MANY, dtype=np.int64))
    assert len(spares.kept) == 8
    assert not pickle.loads(pickle.dumps(spares)).kept  # noqa: S301


def test_memory_of_others_is_not_kept() -> None:
    spares = Spares()
    spares.give_back(np.frombuffer(bytes(8 * MANY), dtype=np.int64))
    assert not spares.kept
