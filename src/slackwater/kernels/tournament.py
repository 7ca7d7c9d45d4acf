"""Tournaments: which of many keys has the least value, and which keys are at a limit or below it.

A tree in one table, level by level: row k has the values of key k, and each row of the next level the
least of eight rows of this one, column by column; the last row has the least of all. Keys that change
renew their ancestors, as far up as that makes a difference. Nothing is searched that is not found.
(Eight are three lines of memory side by side: two at a time would be thrice as many places to go to.)
"""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import numpy as np
from numba import njit

from slackwater.kernels.prefetch import prefetch

__all__ = ["NONE", "build", "renew", "rows_for", "up_to"]

NONE = np.int64(2**63 - 1)
"""no value"""

_FAN = 8
_AHEAD = 8
"""nodes between fetching one and looking at it"""


@njit(cache=True, inline="always")
def _above(size):
    """How many rows the level above so many has."""
    return (size + _FAN - 1) // _FAN


@njit(cache=True, inline="always")
def _fetch(tree, row):
    """The rows of one parent."""
    prefetch(tree, row)
    prefetch(tree, row + 3)
    prefetch(tree, row + 6)


@njit(cache=True)
def rows_for(leaves):
    """How many rows the tree over so many leaves has."""
    rows = size = leaves
    while size > 1:
        size = _above(size)
        rows += size
    return rows


@njit(cache=True)
def build(tree, leaves):
    """Compute all but the leaves."""
    tree[leaves:] = NONE
    start, size = 0, leaves
    while size > 1:
        for i in range(size):
            parent = start + size + i // _FAN
            for c in range(tree.shape[1]):
                tree[parent, c] = min(tree[parent, c], tree[start + i, c])
        start += size
        size = _above(size)


@njit(cache=True)
def renew(tree, leaves, keys):
    """The values of these keys have changed: so may those of their ancestors."""
    # level by level, so that what comes next is known and can be fetched
    nodes = keys // _FAN
    count = len(nodes)
    start, size = 0, leaves
    while count > 0 and size > 1:
        n = 0
        for f in range(count):
            if f + _AHEAD < count:
                _fetch(tree, start + nodes[f + _AHEAD] * _FAN)
                prefetch(tree, start + size + nodes[f + _AHEAD])
            i = nodes[f]
            parent, first = start + size + i, start + i * _FAN
            is_new = False
            for c in range(tree.shape[1]):
                least = tree[first, c]
                for child in range(first + 1, min(first + _FAN, start + size)):
                    least = min(least, tree[child, c])
                if tree[parent, c] != least:
                    tree[parent, c] = least
                    is_new = True
            if is_new:
                nodes[n] = i // _FAN
                n += 1
        count = n
        start += size
        size = _above(size)


@njit(cache=True)
def up_to(tree, leaves, column, limit, keys):
    """The keys, of so many, whose value in that column is at most the limit; in order."""
    if leaves == 0 or tree[-1, column] > limit:
        return np.empty(0, dtype=np.int64)
    sizes = [leaves]
    while sizes[-1] > 1:
        sizes.append(_above(sizes[-1]))
    # level by level, so that what comes next is known and can be fetched
    found, following = np.zeros(1, dtype=np.int64), np.empty(_FAN, dtype=np.int64)
    count, start = 1, len(tree) - 1
    for level in range(len(sizes) - 2, -1, -1):
        start -= sizes[level]
        if len(following) < _FAN * count:
            following = np.empty(2 * _FAN * count, dtype=np.int64)
        n = 0
        for f in range(count):
            if f + _AHEAD < count:
                _fetch(tree, start + found[f + _AHEAD] * _FAN)
            first = found[f] * _FAN
            for child in range(first, min(first + _FAN, sizes[level])):
                if tree[start + child, column] <= limit:
                    following[n] = child
                    n += 1
        found, following = following, found
        count = n
    while count > 0 and found[count - 1] >= keys:
        count -= 1
    return found[:count].copy()
