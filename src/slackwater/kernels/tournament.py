"""Tournaments: which of many keys has the least value, and which keys are at a limit or below it.

A complete binary tree in one table: row `leaves + k` has the values of key k, row i the lesser of rows
2i and 2i + 1, column by column; row 1 has the least of all. Keys that change renew their ancestors, as
far up as that makes a difference. Nothing is ever searched that is not found.
"""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import numpy as np
from numba import njit

from slackwater.kernels.prefetch import prefetch

__all__ = ["NONE", "build", "renew", "up_to"]

NONE = np.int64(2**63 - 1)
"""no value"""

_AHEAD = 8
"""nodes between fetching one and looking at it"""


@njit(cache=True)
def build(leaves, values):
    """The tree over so many leaves, a power of two, of which the first have these values."""
    tree = np.full((2 * leaves, values.shape[1]), NONE, dtype=np.int64)
    tree[leaves : leaves + len(values)] = values
    for i in range(leaves - 1, 0, -1):
        for c in range(tree.shape[1]):
            tree[i, c] = min(tree[2 * i, c], tree[2 * i + 1, c])
    return tree


@njit(cache=True)
def renew(tree, keys):
    """The values of these keys have changed: so may those of their ancestors."""
    # level by level, so that what comes next is known and can be fetched
    nodes = (len(tree) // 2 + keys) // 2
    count = len(nodes)
    while count > 0 and nodes[0] > 0:
        n = 0
        for f in range(count):
            if f + _AHEAD < count:
                prefetch(tree, 2 * nodes[f + _AHEAD])
                prefetch(tree, nodes[f + _AHEAD])
            i = nodes[f]
            is_new = False
            for c in range(tree.shape[1]):
                least = min(tree[2 * i, c], tree[2 * i + 1, c])
                if tree[i, c] != least:
                    tree[i, c] = least
                    is_new = True
            if is_new:
                nodes[n] = i // 2
                n += 1
        count = n


@njit(cache=True)
def up_to(tree, column, limit, keys):
    """The keys, of so many, whose value in that column is at most the limit; in order."""
    leaves = len(tree) // 2
    if leaves == 0 or tree[1, column] > limit:
        return np.empty(0, dtype=np.int64)
    # level by level, so that what comes next is known and can be fetched
    found, following = np.ones(1, dtype=np.int64), np.empty(2, dtype=np.int64)
    count = 1
    while found[0] < leaves:
        if len(following) < 2 * count:
            following = np.empty(4 * count, dtype=np.int64)
        n = 0
        for f in range(count):
            if f + _AHEAD < count:
                prefetch(tree, 2 * found[f + _AHEAD])
            for child in range(2 * found[f], 2 * found[f] + 2):
                if tree[child, column] <= limit:
                    following[n] = child
                    n += 1
        found, following = following, found
        count = n
    while count > 0 and found[count - 1] - leaves >= keys:
        count -= 1
    return found[:count] - leaves
