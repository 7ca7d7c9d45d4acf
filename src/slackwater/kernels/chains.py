"""Chains: sorted times in which each one is linked to the next if that is closer than a gap.

The rows of a slab (see slabs.py) begin with a time, and what is said of each is the *last* time of its
chain. A row's last is its own time, or if it is linked to the next row, that one's last: it depends on
what follows only. So a change concerns the rows before it, as far back as their last differs from what
was said, and no others: rows that follow, and rows before the first one that is right already, are not
looked at.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
# ruff: noqa: PLR0917

from __future__ import annotations

import numpy as np
from numba import njit

from slackwater.kernels.slabs import NOTHING

__all__ = ["close", "forget_ended", "relink"]

INF = np.int64(2**63 - 1)


@njit(cache=True, inline="always")
def _linked(time, following, gap):
    """Whether two times are closer than the gap; their distance may not fit 63 bits."""
    return np.uint64(following) - np.uint64(time) < np.uint64(gap)


@njit(cache=True)
def _up_to(rows, start, size, time, payload):
    """How many of a slab's rows are not after (time, payload)."""
    low, high = 0, size
    while low < high:
        middle = (low + high) // 2
        at = start + middle
        if rows[at, 0] < time or (rows[at, 0] == time and rows[at, 1] <= payload):
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True)
def relink(start, size, rows, said, key, changed, gap, write, o_place, o_old, o_new):
    """Say the last of every row again after the changes, which are sorted by key and row.

    How many rows have another last than was said; with `write`, where they are, the old and the new
    one. Rows of which nothing is said get their last and are not counted.
    """
    out = 0
    j = len(key) - 1
    while j >= 0:
        k = key[j]
        base, n = start[k], size[k]
        i = _up_to(rows, base, n, changed[j, 0], changed[j, 1]) - 1
        following, last = np.int64(0), np.int64(NOTHING)
        if i + 1 < n:
            following, last = rows[base + i + 1, 0], said[base + i + 1]
        while i >= 0:
            at = base + i
            time, payload = rows[at, 0], rows[at, 1]
            while (
                j >= 0
                and key[j] == k
                and (changed[j, 0] > time or (changed[j, 0] == time and changed[j, 1] >= payload))
            ):
                j -= 1
            if last == NOTHING or not _linked(time, following, gap):
                last = time
            following = time
            if said[at] == last:
                # so are all before it, up to the next change
                if j < 0 or key[j] != k:
                    break
                i = _up_to(rows, base, i, changed[j, 0], changed[j, 1]) - 1
                following, last = rows[base + i + 1, 0], said[base + i + 1]
                continue
            if said[at] != NOTHING:
                if write:
                    o_place[out], o_old[out], o_new[out] = at, said[at], last
                out += 1
            if write:
                said[at] = last
            i -= 1
        while j >= 0 and key[j] == k:
            j -= 1
    return out


@njit(cache=True)
def forget_ended(start, size, room, said, gap, cti):
    """Drop the chains to which no time from cti on can be linked."""
    for k in range(len(size)):
        _forget_ended(start, size, room, said, gap, k, cti)


@njit(cache=True)
def close(start, size, room, said, gap, keys, until):
    """The same for some keys, of each from a time of its own on; at INF all. How many rows went."""
    went = 0
    for i in range(len(keys)):
        k = keys[i]
        before = size[k]
        if until[i] == INF:
            size[k] = 0
        else:
            _forget_ended(start, size, room, said, gap, k, until[i])
        went += before - size[k]
    return went


@njit(cache=True)
def _forget_ended(start, size, room, said, gap, k, cti):
    gone = 0
    while gone < size[k]:
        last = said[start[k] + gone]
        if last >= cti or _linked(last, cti, gap):
            break
        gone += 1
    start[k] += gone
    size[k] -= gone
    room[k] -= gone
