"""Stretches of a slab that can be looked at by themselves: nothing that begins before reaches into them.

The rows of a slab (slabs.py) begin with a time, and what is said of each is its *reach*: the last time
that was looked at to find out what begins there. A row is a place to *begin anew* if the reach of every
row before it is less than its own time; so no two rows of one time are torn apart.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
# ruff: noqa: PLR0917

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["begun_again", "chosen", "ends", "forget_before", "places", "reached", "stretches", "tell"]

BEGIN = np.int64(-(2**63))
INF = np.int64(2**63 - 1)


@njit(cache=True)
def stretches(start, size, rows, said, key, first, last, since, until):
    """For each key the stretch that changes from the first to the last time may concern.

    It is [since, until), and INF if it goes to the end.
    """
    for i in range(len(key)):
        base, n = start[key[i]], size[key[i]]
        reach, begin, at = BEGIN, first[i], 0
        since[i] = first[i]
        while at < n and rows[base + at, 0] < first[i]:
            if reach < rows[base + at, 0]:
                begin = rows[base + at, 0]
            reach = max(reach, said[base + at])
            at += 1
            if reach >= first[i]:
                since[i] = begin
                break
        until[i] = INF
        while at < n:
            time = rows[base + at, 0]
            if time > last[i] and reach < time:
                until[i] = time
                break
            reach = max(reach, said[base + at])
            at += 1


@njit(cache=True)
def _first_from(rows, base, n, time):
    """The first of a slab's rows that does not begin before a time."""
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if rows[base + middle, 0] < time:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True)
def ends(start, size, rows, said, key, since, until):
    """For each key, where a stretch that nobody before looks into ends; INF if it goes to the end."""
    for i in range(len(key)):
        base, n = start[key[i]], size[key[i]]
        at, reach = _first_from(rows, base, n, since[i]), BEGIN
        until[i] = INF
        while at < n:
            time = rows[base + at, 0]
            if time > since[i] and reach < time:
                until[i] = time
                break
            reach = max(reach, said[base + at])
            at += 1


@njit(cache=True)
def places(start, size, rows, key, since, until, write, o_place, o_of):
    """How many rows lie in the stretches; with `write`, where, and in which of them."""
    out = 0
    for i in range(len(key)):
        base, n = start[key[i]], size[key[i]]
        low = _first_from(rows, base, n, since[i])
        while low < n and (until[i] == INF or rows[base + low, 0] < until[i]):
            if write:
                o_place[out], o_of[out] = base + low, i
            out += 1
            low += 1
    return out


@njit(cache=True)
def tell(said, place, reach):
    """Say how far rows reach; of several copies of a row the furthest."""
    for i in range(len(place)):
        said[place[i]] = BEGIN
    for i in range(len(place)):
        said[place[i]] = max(said[place[i]], reach[i])


@njit(cache=True)
def chosen(end):
    """Which matches are left if each begins behind the last row of the one before it.

    `end` has for every row what follows the match that begins there, or -1. Also: at which rows a match
    might begin, if there were one.
    """
    is_chosen = np.zeros(len(end), dtype=np.bool_)
    is_asked = np.zeros(len(end), dtype=np.bool_)
    i = 0
    while i < len(end):
        is_asked[i] = True
        if end[i] > i:
            is_chosen[i] = True
            i = end[i]
        else:
            i += 1
    return is_chosen, is_asked


@njit(cache=True)
def reached(group, reach, is_asked):
    """For each row the largest reach of those of its group that are asked, up to there.

    What begins at a row that is not asked counts when one of those is answered otherwise.
    """
    found = np.empty_like(reach)
    so_far = BEGIN
    for i in range(len(group)):
        if i == 0 or group[i] != group[i - 1]:
            so_far = BEGIN
        if is_asked[i]:
            so_far = max(so_far, reach[i])
        found[i] = so_far
    return found


@njit(cache=True)
def begun_again(group, vs, reach, last, cti, keys):
    """For each key the first time from which on its rows are needed, if changes come from cti on.

    `last` says of every row, in order of its key and time, how long what begins there can change. What
    is needed begins where nobody before looks across.
    """
    since = np.full(keys, cti, dtype=np.int64)
    i = 0
    while i < len(group):
        k, furthest, found, begin = group[i], BEGIN, False, vs[i]
        while i < len(group) and group[i] == k:
            if furthest < vs[i]:
                begin = vs[i]
            furthest = max(furthest, reach[i])
            if not found and last[i] >= cti:
                since[k], found = min(begin, cti), True
            i += 1
    return since


@njit(cache=True)
def forget_before(start, size, room, rows, since):
    """Drop the rows of each key that begin before its time; how many."""
    dropped = 0
    for k in range(len(since)):
        gone = 0
        while gone < size[k] and rows[start[k] + gone, 0] < since[k]:
            gone += 1
        start[k] += gone
        size[k] -= gone
        room[k] -= gone
        dropped += gone
    return dropped
