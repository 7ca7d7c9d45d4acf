"""Examples that are the same on every machine, for documentation and for tests of strategies."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from hypothesis import find, settings
from hypothesis.strategies import SearchStrategy

__all__ = ["simplest"]

T = TypeVar("T")


def simplest(strategy: SearchStrategy[T], where: Callable[[T], bool] = lambda _: True) -> T:
    """The example to which a failing test would shrink, of those that satisfy `where`.

    Unlike `hypothesis.find` it remembers nothing from earlier runs and is not random.

    >>> from hypothesis import strategies as st
    >>> simplest(st.lists(st.integers()), lambda numbers: sum(numbers) > 10)
    [11]
    """
    return find(strategy, where, settings=settings(max_examples=2000, derandomize=True))
