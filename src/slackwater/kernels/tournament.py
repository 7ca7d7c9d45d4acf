"""Tournaments: which of many keys has the least value, and which keys are at a limit or below it.

A complete binary tree in one table: row `leaves + k` has the values of key k, row i the lesser of rows
2i and 2i + 1, column by column; row 1 has the least of all. A key that changes renews its ancestors, as
far up as that makes a difference. Nothing is ever searched that is not found.
"""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["NONE", "build", "renew", "up_to"]

NONE = np.int64(2**63 - 1)
"""no value"""

_DEEPEST = 64


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
def renew(tree, key):
    """The values of a key have changed: so may those of its ancestors."""
    i = (len(tree) // 2 + key) // 2
    while i > 0:
        same = True
        for c in range(tree.shape[1]):
            least = min(tree[2 * i, c], tree[2 * i + 1, c])
            if tree[i, c] != least:
                tree[i, c] = least
                same = False
        if same:
            break
        i //= 2


@njit(cache=True)
def up_to(tree, column, limit, keys):
    """The keys, of so many, whose value in that column is at most the limit; in order."""
    leaves = len(tree) // 2
    found = np.empty(16, dtype=np.int64)
    count = 0
    path = np.empty(_DEEPEST, dtype=np.int64)
    path[0] = 1
    depth = 1 if leaves > 0 else 0
    while depth > 0:
        depth -= 1
        i = path[depth]
        if tree[i, column] > limit:
            continue
        if i < leaves:
            path[depth], path[depth + 1] = 2 * i + 1, 2 * i
            depth += 2
        elif i - leaves < keys:
            if count == len(found):
                found = np.concatenate((found, np.empty_like(found)))
            found[count] = i - leaves
            count += 1
    return found[:count]
