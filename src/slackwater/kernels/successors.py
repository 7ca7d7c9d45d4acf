"""Successors: for rows with a time, the first of some sorted marks that comes strictly later.

Rows and marks lie in slabs (see slabs.py) with a common numbering of keys, both sorted by their time.
When marks come and go, a row gets another successor exactly if the first mark after it, among those
that were there and those that are, is one that came or went. So each such mark concerns the rows
between the mark before it and itself, and each row is concerned by one mark at most.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
# ruff: noqa: PLR0917

from __future__ import annotations

import numpy as np
from numba import njit

from slackwater.kernels.slabs import above, from_on

__all__ = ["begin_at", "forget", "moved", "successors"]

INF = np.int64(2**63 - 1)


@njit(cache=True)
def successors(start, size, marks, key, time):
    """The first mark of the key that is later than the time; INF if there is none."""
    found = np.empty(len(key), dtype=np.int64)
    for i in range(len(key)):
        k = key[i]
        p = above(marks, start[k], size[k], time[i])
        found[i] = marks[start[k] + p, 0] if p < size[k] else INF
    return found


@njit(cache=True)
def moved(
    start, size, marks,  # marks that were there or are
    key, mark, came,  # those that came or went, by (key, mark)
    row_start, row_size, rows,  # (vs, ve, ...)
    write, o_place, o_old, o_new,  # output
):  # fmt: skip
    """Rows whose end, min(ve, successor), is another one now: how many.

    With `write` also where they are, and their old and new end.
    """
    out = 0
    was_next, is_next = INF, INF
    for j in range(len(key) - 1, -1, -1):
        k, s = key[j], mark[j]
        p = above(marks, start[k], size[k], s)
        following = marks[start[k] + p, 0] if p < size[k] else INF
        if j + 1 == len(key) or key[j + 1] != k or mark[j + 1] != following:
            was_next, is_next = following, following
        # the successors, before and after, of rows that start just before s
        if came[j]:
            is_next = s
        else:
            was_next = s
        first = 0
        if p > 1:
            # the mark before s; rows that start at it or later are nearer to s
            first = from_on(rows, row_start[k], row_size[k], marks[start[k] + p - 2, 0])
        last = from_on(rows, row_start[k], row_size[k], s)
        for at in range(row_start[k] + first, row_start[k] + last):
            ve = rows[at, 1]
            if ve > s:
                if write:
                    o_place[out], o_old[out], o_new[out] = at, min(ve, was_next), min(ve, is_next)
                out += 1
    return out


@njit(cache=True)
def begin_at(row_start, row_size, rows, key, time):
    """Whether some row of the key begins at the time."""
    found = np.empty(len(key), dtype=np.bool_)
    for i in range(len(key)):
        k = key[i]
        p = from_on(rows, row_start[k], row_size[k], time[i])
        found[i] = p < row_size[k] and rows[row_start[k] + p, 0] == time[i]
    return found


@njit(cache=True)
def forget(start, size, room, marks, row_start, row_size, rows, row_count, keys, cti, mark_cti):
    """Drop rows whose end, min(ve, successor), is final, and marks that nobody will ask for.

    `cti` is the promise of the rows' port, `mark_cti` that of the marks', for each of the keys: ends
    change at cti or later, rows that come begin there, marks before mark_cti neither come nor go. So
    what a mark that is not after cti, and before mark_cti, cuts is cut for ever: rows before the last
    such mark go, whatever their ve, and with them all such marks. Of rows that begin together all go or
    none, unless an end is final because it is before cti. How many rows and marks went.
    """
    went = went_marks = 0
    for i in range(len(keys)):
        k, row_cti, other_cti = keys[i], cti[i], mark_cti[i]
        if row_cti == INF and other_cti == INF:
            went += row_size[k]
            went_marks += size[k]
            row_size[k] = size[k] = 0
            continue
        settled = min(
            above(marks, start[k], size[k], row_cti), from_on(marks, start[k], size[k], other_cti)
        )
        first = row_start[k]
        if settled > 0:
            first += from_on(rows, row_start[k], row_size[k], marks[start[k] + settled - 1, 0])
        kept = row_start[k]
        for at in range(first, row_start[k] + row_size[k]):
            if (rows[at, 1] < row_cti or row_cti == INF) and rows[at, 1] <= other_cti:
                continue
            rows[kept] = rows[at]
            row_count[kept] = row_count[at]
            kept += 1
        went += row_size[k] - (kept - row_start[k])
        went_marks += settled
        row_size[k] = kept - row_start[k]
        start[k] += settled
        size[k] -= settled
        room[k] -= settled
    return went, went_marks
