"""Steps of automata over rows that are kept by their places: which can be taken next.

The rows of a slab (slabs.py) are (place, vs, ve, payload), in that order. What is said of each is its
*reach*: the last place that was looked at for the ways that begin there.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
# ruff: noqa: PLR0917

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["forget", "looking", "note", "steps"]

BEGIN = np.int64(-(2**63))
INF = np.int64(2**63 - 1)


@njit(cache=True)
def _first_from(rows, base, n, place):
    """The first of a slab's rows that is not before a place."""
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if rows[base + middle, 0] < place:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True)
def looking(start, size, rows, said, key, place, longest, write, o_row, o_key):
    """How many rows look at the places, which are in order per key; with `write`, which, and their keys.

    No row looks further than `longest` places.
    """
    out, i = 0, 0
    while i < len(key):
        k = key[i]
        base, n = start[k], size[k]
        at = 0
        while i < len(key) and key[i] == k:
            early = place[i] - longest if place[i] >= BEGIN + longest else BEGIN
            at = max(at, _first_from(rows, base, n, early))
            while at < n and rows[base + at, 0] <= place[i]:
                if said[base + at] >= place[i]:
                    if write:
                        o_row[out], o_key[out] = base + at, k
                    out += 1
                at += 1
            i += 1
    return out


@njit(cache=True)
def steps(
    start, size, rows, symbols, first, key, hint, end, state, vs, ve, write, o_way, o_row, o_move, o_vs,
    o_ve,
):  # fmt: skip
    """How many steps can be taken by ways that end there; with `write`, which, by which row and move.

    `symbols` has the symbol of each payload, `first` for a state and a symbol where its moves begin.
    `hint` is a row near the next place, or -1.
    """
    out = 0
    for i in range(len(key)):
        if end[i] == INF:
            continue
        base, n, place = start[key[i]], size[key[i]], end[i] + 1
        at = hint[i] - base
        if at < 0 or at > n or (at > 0 and rows[base + at - 1, 0] >= place):
            at = _first_from(rows, base, n, place)
        tries = 0
        while at < n and rows[base + at, 0] < place:
            at += 1
            tries += 1
            if tries == 8:
                at = _first_from(rows, base, n, place)
        while at < n and rows[base + at, 0] == place:
            row = base + at
            symbol = symbols[rows[row, 3]]
            begin, until = max(vs[i], rows[row, 1]), min(ve[i], rows[row, 2])
            if symbol >= 0 and begin < until:
                for move in range(first[state[i], symbol], first[state[i], symbol + 1]):
                    if write:
                        o_way[out], o_row[out], o_move[out] = i, row, move
                        o_vs[out], o_ve[out] = begin, until
                    out += 1
            at += 1
    return out


@njit(cache=True)
def note(rows, said, row, origin, end):
    """Say of the rows how far the ways that begin there look; the most places that one does."""
    longest = 0
    for i in range(len(row)):
        place = rows[row[i], 0]
        said[row[i]] = place
    for i in range(len(origin)):
        if end[i] < INF:
            said[row[origin[i]]] = max(said[row[origin[i]]], end[i] + 1)
    for i in range(len(row)):
        longest = max(longest, said[row[i]] - rows[row[i], 0])
    return longest


@njit(cache=True)
def forget(start, size, rows, count, said, cti):
    """Drop the rows that end before the cti; how many."""
    dropped = 0
    for k in range(len(size)):
        base, kept = start[k], 0
        for i in range(size[k]):
            if rows[base + i, 2] >= cti:
                if kept != i:
                    rows[base + kept] = rows[base + i]
                    count[base + kept] = count[base + i]
                    said[base + kept] = said[base + i]
                kept += 1
        dropped += size[k] - kept
        size[k] = kept
    return dropped
