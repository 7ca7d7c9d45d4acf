"""Shelves: numbers that were put on a shelf each, one after the other, and all that lie on some of them.

A shelf is a chain, the last one that was put there first: `heads` is by shelf, `following` by number,
and -1 ends a chain.
"""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["lying_on", "put"]


@njit(cache=True)
def put(heads, following, first, shelves):
    """Put the numbers from `first` on, one on each of these shelves."""
    for i in range(len(shelves)):
        following[first + i] = heads[shelves[i]]
        heads[shelves[i]] = first + i


@njit(cache=True)
def lying_on(heads, following, shelves):
    """The numbers that lie on these shelves, and on the how many-th of them."""
    count = 0
    for i in range(len(shelves)):
        at = heads[shelves[i]]
        while at >= 0:
            count += 1
            at = following[at]
    numbers, which = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
    count = 0
    for i in range(len(shelves)):
        at = heads[shelves[i]]
        while at >= 0:
            numbers[count], which[count] = at, i
            count += 1
            at = following[at]
    return numbers, which
