"""Combining: rows with the same key, start and end become one, their weights added up."""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["add_up"]

_MIX = np.uint64(0x9E3779B97F4A7C15)


@njit(cache=True)
def add_up(key, vs, ve, weights, slots):
    """The first row of each kind, and its sums.

    `slots` are all -1, and are so again afterwards; they are twice as many as rows, or more, and a power
    of two.
    """
    mask = np.uint64(len(slots) - 1)
    first = np.empty(len(key), dtype=np.int64)
    sums = np.empty_like(weights)
    taken = np.empty(len(key), dtype=np.int64)
    count = 0
    for i in range(len(key)):
        mixed = (np.uint64(vs[i]) * _MIX + np.uint64(key[i])) * _MIX + np.uint64(ve[i])
        mixed = (mixed ^ (mixed >> np.uint64(32))) * _MIX
        at = (mixed >> np.uint64(32)) & mask
        while slots[at] >= 0:
            f = first[slots[at]]
            if key[f] == key[i] and vs[f] == vs[i] and ve[f] == ve[i]:
                break
            at = (at + np.uint64(1)) & mask
        n = slots[at]
        if n < 0:
            slots[at] = count
            first[count] = i
            taken[count] = at
            sums[count] = weights[i]
            count += 1
        else:
            for a in range(weights.shape[1]):
                sums[n, a] += weights[i, a]
    for n in range(count):
        slots[taken[n]] = -1
    return first[:count], sums[:count]
