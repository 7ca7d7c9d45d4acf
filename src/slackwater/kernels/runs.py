"""Runs: where a payload lives, when what counts is how often it is there.

The key of a timeline is a payload, its sums are how many copies of it are alive in one input and in the
other. A *rule* turns these two numbers into a level: how many copies the result has. Copy k lives where
the level is at least k, without interruption; such a stretch is a run, and each run is one row.

`apply` merges changes into the timelines and says how that changes the runs. Only copies up to the
highest level of the touched stretch are looked at, and of the entries around it only as many as it takes
to find where a run begins and ends.

`purge` forgets entries that a cti has frozen. Runs that are still alive began somewhere before: their
starts are kept as a staircase of entries with the levels 1, 2, ...

Paper 1a section 3.1 (snapshot operators), paper 4 Table 2 (distinct, intersect, difference).
"""

# mypy: allow-untyped-defs, allow-untyped-calls, disable-error-code=assignment
# ruff: noqa: PLR0917

from __future__ import annotations

import numpy as np
from numba import njit

from slackwater.kernels.timeline import merge

__all__ = ["BAG_DIFFERENCE", "BAG_INTERSECT", "DIFFERENCE", "DISTINCT", "INTERSECT", "apply", "purge"]

DISTINCT, INTERSECT, BAG_INTERSECT, DIFFERENCE, BAG_DIFFERENCE = range(5)


@njit(cache=True)
def _level(rule, left, right):
    """How many copies the result has where the inputs have so many."""
    if rule == DISTINCT:
        return min(left, 1)
    if rule == INTERSECT:
        return min(left, right, 1)
    if rule == BAG_INTERSECT:
        return min(left, right)
    if rule == DIFFERENCE:
        return np.int64(1) if left > 0 and right == 0 else np.int64(0)
    return max(left - right, 0)


@njit(cache=True)
def _run_start(rule, time, ints, base, x, copy):
    """Where the run of a copy that is alive at entry x began."""
    while x > base and _level(rule, ints[x - 1, 0], ints[x - 1, 1]) >= copy:
        x -= 1
    return time[x]


@njit(cache=True)
def apply(
    rule,
    start, size, time, refs, shown, ints, floats,  # entries
    key, change_time, change_refs, change_ints, change_floats,  # changes by (key, time)
    s_time, s_refs, s_shown, s_ints, s_floats,  # scratch
    room,  # rows of output that fit
):  # fmt: skip
    """Merge the changes into the entries; the rows that change: key, start, old end, new end."""
    width = ints.shape[1]
    d_ints = np.zeros(width, dtype=np.int64)
    old_ints = np.zeros(width, dtype=np.int64)
    no_floats = np.zeros(0, dtype=np.float64)
    o_key = np.empty(room, dtype=np.int64)
    o_vs = np.empty(room, dtype=np.int64)
    o_old = np.empty(room, dtype=np.int64)
    o_new = np.empty(room, dtype=np.int64)
    a_start = np.empty(len(s_time) + 2, dtype=np.int64)
    a_end = np.empty(len(s_time) + 2, dtype=np.int64)
    b_start = np.empty(len(s_time) + len(key) + 2, dtype=np.int64)
    b_end = np.empty(len(s_time) + len(key) + 2, dtype=np.int64)
    out = 0
    j = 0
    changes = len(key)
    while j < changes:
        k = key[j]
        stop = j
        while stop < changes and key[stop] == k:
            stop += 1
        base = start[k]
        p, touched_old, touched_new, w, _ = merge(
            base, size[k], time, refs, shown, ints, floats,
            j, stop, change_time, change_refs, change_ints, change_floats,
            s_time, s_refs, s_shown, s_ints, s_floats,
            old_ints, no_floats, d_ints, no_floats,
        )  # fmt: skip
        size[k] = w - base
        j = stop

        before = np.int64(0)
        if p > 0:
            before = _level(rule, ints[base + p - 1, 0], ints[base + p - 1, 1])
        highest = before
        for i in range(touched_old):
            highest = max(highest, _level(rule, s_ints[i, 0], s_ints[i, 1]))
        for x in range(base + p, touched_new):
            highest = max(highest, _level(rule, ints[x, 0], ints[x, 1]))

        for copy in range(1, highest + 1):
            was = is_now = before >= copy
            a_began = b_began = np.int64(0)
            if was:
                a_began = b_began = _run_start(rule, time, ints, base, base + p - 1, copy)
            a = b = 0
            for i in range(touched_old):
                level = _level(rule, s_ints[i, 0], s_ints[i, 1])
                if level >= copy and not was:
                    was, a_began = True, s_time[i]
                elif level < copy and was:
                    a_start[a], a_end[a] = a_began, s_time[i]
                    a += 1
                    was = False
            for x in range(base + p, touched_new):
                level = _level(rule, ints[x, 0], ints[x, 1])
                if level >= copy and not is_now:
                    is_now, b_began = True, time[x]
                elif level < copy and is_now:
                    b_start[b], b_end[b] = b_began, time[x]
                    b += 1
                    is_now = False
            x = touched_new
            while (was or is_now) and x < w:
                level = _level(rule, ints[x, 0], ints[x, 1])
                if level >= copy:
                    if not was:
                        was, a_began = True, time[x]
                    if not is_now:
                        is_now, b_began = True, time[x]
                else:
                    if was:
                        a_start[a], a_end[a] = a_began, time[x]
                        a += 1
                    if is_now:
                        b_start[b], b_end[b] = b_began, time[x]
                        b += 1
                    was = is_now = False
                x += 1

            i, x = 0, 0
            while i < a or x < b:
                old_here = i < a and (x == b or a_start[i] <= b_start[x])
                new_here = x < b and (i == a or b_start[x] <= a_start[i])
                vs = a_start[i] if old_here else b_start[x]
                old_end = a_end[i] if old_here else vs
                new_end = b_end[x] if new_here else vs
                if old_end != new_end:
                    if out == len(o_key):
                        o_key = np.concatenate((o_key, np.empty_like(o_key)))
                        o_vs = np.concatenate((o_vs, np.empty_like(o_vs)))
                        o_old = np.concatenate((o_old, np.empty_like(o_old)))
                        o_new = np.concatenate((o_new, np.empty_like(o_new)))
                    o_key[out], o_vs[out], o_old[out], o_new[out] = k, vs, old_end, new_end
                    out += 1
                i += old_here
                x += new_here
    return o_key[:out], o_vs[:out], o_old[:out], o_new[:out]


@njit(cache=True)
def purge(rule, start, size, room, time, refs, ints, cti):
    """Forget what the cti has frozen, but not where runs that are still alive began."""
    for k in range(len(size)):
        n, base = size[k], start[k]
        if n == 0:
            continue
        last = base + n - 1
        if time[last] < cti:
            # eager: after its last endpoint a payload is gone
            start[k] += n
            room[k] -= n
            size[k] = 0
            continue
        gone = 0
        while gone + 1 < n and time[base + gone + 1] < cti:
            gone += 1
        if gone == 0:
            continue
        x = base + gone
        stairs = np.empty(_level(rule, ints[x, 0], ints[x, 1]), dtype=np.int64)
        steps = 0
        for copy in range(1, len(stairs) + 1):
            began = _run_start(rule, time, ints, base, x, copy)
            if began < time[x]:
                stairs[steps] = began
                steps += 1
        if steps >= gone:
            continue
        # copies that began together are one step of that height
        at = x - steps
        for step in range(steps):
            time[at + step] = stairs[step]
            refs[at + step] = 1
            ints[at + step, 0] = step + 1
            ints[at + step, 1] = step + 1 if rule in (INTERSECT, BAG_INTERSECT) else 0
        start[k] = at
        size[k] = n - (at - base)
        room[k] -= at - base
