"""How far the slowest of several reporters is, report by report."""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["slowest"]


@njit(cache=True)
def slowest(largest, member, rank):
    """Before each report the least of what all members have come to; `largest` is moved on.

    A report of nobody (-1), or of no rank (0), moves nothing. The least is looked for only when the
    slowest member moves.
    """
    limits = np.empty(len(rank), dtype=np.int64)
    least = largest.min()
    for i in range(len(rank)):
        limits[i] = least
        who = member[i]
        if who >= 0 and rank[i] > largest[who]:
            was = largest[who]
            largest[who] = rank[i]
            if was == least:
                least = largest.min()
    return limits
