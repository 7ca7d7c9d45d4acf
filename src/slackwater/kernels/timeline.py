"""Timelines: for every key, what holds between one endpoint and the next.

An event that is alive during [vs, ve) adds its weights at vs and takes them away at ve. A timeline is
the sequence of a key's endpoints with, at each, how many events begin or end there (`refs`) and the sum
of all weights from there on (`ints`, `floats`): counts, sums, sums of squares. Everything that depends
on a group through such sums is computed here once.

Endpoints up to the horizon are *entries*, kept per key in a slab of a common pool, sorted by time. Those
beyond it are *pending*: differences sorted by time only, which become entries when the horizon reaches
them (the papers' POS and ECQ). Eager operators have no pending ones, their horizon is INF.

`apply` merges a batch of differences into the entries and says what that changes: rows (key, vs,
old_ve, new_ve) with the sums to compute their payloads from. It touches entries from the first change of
a key to its last, no others. A row is shown from an entry to the next one; of the last entry, which is
still open at the horizon, either nothing is shown (beyond what had been shown before) or [vs, INF).

- `refs` is separate from the count: an endpoint where as many events end as begin is still one
  (erratum 1).
- An entry that vanishes lengthens the row before it, whose sums are what they were (erratum 3).
- Floats are summed in double-double arithmetic: a sum and what its rounding lost.

Paper 1a section 3.2 to 3.5.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
# ruff: noqa: PLR0917, SIM110

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

__all__ = ["apply", "combine", "merge", "open_since", "purge", "relocate", "room_needed"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

INF = np.int64(2**63 - 1)


@njit(cache=True, inline="always")
def _add(high, low, high2, low2):
    """The sum of two double-doubles."""
    total = high + high2
    part = total - high
    error = (high - (total - part)) + (high2 - part)
    error += low + low2
    high3 = total + error
    return high3, error - (high3 - total)


@njit(cache=True)
def combine(key, time, refs, ints, floats):
    """Sum differences of one key and time, which must be neighbours. Changes its arguments.

    How many are left; differences that cancel to nothing are dropped.
    """
    out = 0
    i = 0
    rows = len(key)
    while i < rows:
        j = i
        if out != i:
            key[out], time[out], refs[out] = key[i], time[i], refs[i]
            ints[out] = ints[i]
            floats[out] = floats[i]
        i += 1
        while i < rows and key[i] == key[j] and time[i] == time[j]:
            refs[out] += refs[i]
            for a in range(ints.shape[1]):
                ints[out, a] += ints[i, a]
            for f in range(0, floats.shape[1], 2):
                floats[out, f], floats[out, f + 1] = _add(
                    floats[out, f], floats[out, f + 1], floats[i, f], floats[i, f + 1]
                )
            i += 1
        nothing = refs[out] == 0
        for a in range(ints.shape[1]):
            nothing = nothing and ints[out, a] == 0
        for f in range(floats.shape[1]):
            nothing = nothing and floats[out, f] == 0.0
        if not nothing:
            out += 1
    return out


@njit(cache=True)
def room_needed(start, size, room, time, key, change_time):
    """For the changes, sorted by key and time: pool rows to allot, output rows and scratch at most."""
    pool, output, scratch = 0, 0, 0
    i = 0
    while i < len(key):
        k = key[i]
        j = i
        while j < len(key) and key[j] == k:
            j += 1
        if size[k] + (j - i) > room[k]:
            pool += 2 * (size[k] + (j - i))
        tail = size[k] - _first_from(time, start[k], size[k], change_time[i])
        output += 2 * (tail + (j - i)) + 1
        scratch = max(scratch, tail)
        i = j
    return pool, output, scratch


@njit(cache=True)
def relocate(start, size, room, top, key, time, refs, shown, ints, floats):
    """Move the slabs that are too small for their changes to the top of the pool; the new top."""
    i = 0
    while i < len(key):
        k = key[i]
        j = i
        while j < len(key) and key[j] == k:
            j += 1
        needed = size[k] + (j - i)
        if needed > room[k]:
            old, n = start[k], size[k]
            time[top : top + n] = time[old : old + n]
            refs[top : top + n] = refs[old : old + n]
            shown[top : top + n] = shown[old : old + n]
            ints[top : top + n] = ints[old : old + n]
            floats[top : top + n] = floats[old : old + n]
            start[k] = top
            room[k] = 2 * needed
            top += 2 * needed
        i = j
    return top


@njit(cache=True)
def _first_from(time, start, size, t):
    """The first of a slab's entries that is not before t."""
    low, high = 0, size
    while low < high:
        middle = (low + high) // 2
        if time[start + middle] < t:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True)
def _same(ints, floats, i, ints2, floats2, i2):
    for a in range(ints.shape[1]):
        if ints[i, a] != ints2[i2, a]:
            return False
    for f in range(floats.shape[1]):
        if floats[i, f] != floats2[i2, f]:
            return False
    return True


@njit(cache=True)
def merge(
    base, n, time, refs, shown, ints, floats,  # the key's entries: where they start, how many
    j, stop, change_time, change_refs, change_ints, change_floats,  # its changes, by time
    s_time, s_refs, s_shown, s_ints, s_floats,  # scratch
    old_ints, old_floats, d_ints, d_floats,  # sums: before, and added so far
):  # fmt: skip
    """Merge one key's changes into its entries.

    Gives p: entries before it are as they were; touched_old: how many of the old ones from p on, now in
    the scratch, were replaced; touched_new: up to where new ones stand in the pool; w: where the entries
    end; and whether a sum overflowed. Entries behind the touched ones have only moved.
    """
    width, fwidth = ints.shape[1], floats.shape[1]
    overflow = False
    p = _first_from(time, base, n, change_time[j])
    tail = n - p
    s_time[:tail] = time[base + p : base + n]
    s_refs[:tail] = refs[base + p : base + n]
    s_shown[:tail] = shown[base + p : base + n]
    s_ints[:tail] = ints[base + p : base + n]
    s_floats[:tail] = floats[base + p : base + n]
    d_ints[:] = 0
    d_floats[:] = 0.0
    if p > 0:
        old_ints[:] = ints[base + p - 1]
        old_floats[:] = floats[base + p - 1]
    else:
        old_ints[:] = 0
        old_floats[:] = 0.0
    i, w = 0, base + p
    while i < tail or j < stop:
        if j == stop:
            quiet = True
            for a in range(width):
                quiet = quiet and d_ints[a] == 0
            for f in range(fwidth):
                quiet = quiet and d_floats[f] == 0.0
            if quiet:
                rest = tail - i
                time[w : w + rest] = s_time[i:tail]
                refs[w : w + rest] = s_refs[i:tail]
                shown[w : w + rest] = s_shown[i:tail]
                ints[w : w + rest] = s_ints[i:tail]
                floats[w : w + rest] = s_floats[i:tail]
                return p, i, w, w + rest, overflow
        here = i < tail and (j == stop or s_time[i] <= change_time[j])
        t = s_time[i] if here else change_time[j]
        r = np.int64(0)
        if here:
            r += s_refs[i]
            old_ints[:] = s_ints[i]
            old_floats[:] = s_floats[i]
        if j < stop and change_time[j] == t:
            r += change_refs[j]
            for a in range(width):
                d_ints[a] += change_ints[j, a]
            for f in range(0, fwidth, 2):
                d_floats[f], d_floats[f + 1] = _add(
                    d_floats[f], d_floats[f + 1], change_floats[j, f], change_floats[j, f + 1]
                )
            j += 1
        if r > 0:
            time[w] = t
            refs[w] = r
            shown[w] = s_shown[i] if here else t
            for a in range(width):
                total = old_ints[a] + d_ints[a]
                if (old_ints[a] ^ total) & (d_ints[a] ^ total) < 0:
                    overflow = True
                ints[w, a] = total
            for f in range(0, fwidth, 2):
                floats[w, f], floats[w, f + 1] = _add(
                    old_floats[f], old_floats[f + 1], d_floats[f], d_floats[f + 1]
                )
            w += 1
        if here:
            i += 1
    return p, tail, w, w, overflow


@njit(cache=True)
def apply(
    start, size, time, refs, shown, ints, floats,  # entries
    key, change_time, change_refs, change_ints, change_floats,  # changes by (key, time)
    s_time, s_refs, s_shown, s_ints, s_floats,  # scratch
    open_ended,  # show the last entry's row as [vs, INF)
    o_key, o_vs, o_old, o_new, o_ints, o_floats,  # output
):  # fmt: skip
    """Merge the changes into the entries; the number of output rows, and whether a sum overflowed."""
    width, fwidth = ints.shape[1], floats.shape[1]
    d_ints = np.zeros(width, dtype=np.int64)
    d_floats = np.zeros(fwidth, dtype=np.float64)
    old_ints = np.zeros(width, dtype=np.int64)
    old_floats = np.zeros(fwidth, dtype=np.float64)
    out = 0
    overflow = False
    j = 0
    changes = len(key)
    while j < changes:
        k = key[j]
        stop = j
        while stop < changes and key[stop] == k:
            stop += 1
        base = start[k]
        p, touched_old, touched_new, w, over = merge(
            base, size[k], time, refs, shown, ints, floats,
            j, stop, change_time, change_refs, change_ints, change_floats,
            s_time, s_refs, s_shown, s_ints, s_floats,
            old_ints, old_floats, d_ints, d_floats,
        )  # fmt: skip
        overflow = overflow or over
        size[k] = w - base
        j = stop

        # what that changes: the row before the first change, then old and new rows side by side
        i, x = 0, base + p
        if p > 0:
            i, x = -1, base + p - 1
        while i < touched_old or x < touched_new:
            old_here = i < touched_old
            new_here = x < touched_new
            if i == -1:
                pass
            elif old_here and new_here:
                if s_time[i] < time[x]:
                    new_here = False
                elif time[x] < s_time[i]:
                    old_here = False
            end = INF
            if new_here:
                end = time[x]
                if ints[x, 0] > 0:
                    if x + 1 < w:
                        end = time[x + 1]
                    elif open_ended:
                        end = INF
            if i == -1:
                if ints[x, 0] > 0 and x + 1 == w and not open_ended:
                    end = shown[x]
                if end != shown[x]:
                    o_key[out], o_vs[out], o_old[out], o_new[out] = k, time[x], shown[x], end
                    o_ints[out] = ints[x]
                    o_floats[out] = floats[x]
                    out += 1
                    shown[x] = end
                i += 1
                x += 1
                continue
            if old_here and new_here and _same(s_ints, s_floats, i, ints, floats, x):
                if ints[x, 0] > 0 and x + 1 == w and not open_ended:
                    end = s_shown[i]
                if end != s_shown[i]:
                    o_key[out], o_vs[out], o_old[out], o_new[out] = k, time[x], s_shown[i], end
                    o_ints[out] = ints[x]
                    o_floats[out] = floats[x]
                    out += 1
                shown[x] = end
            else:
                if old_here and s_shown[i] > s_time[i]:
                    o_key[out], o_vs[out], o_old[out], o_new[out] = k, s_time[i], s_shown[i], s_time[i]
                    o_ints[out] = s_ints[i]
                    o_floats[out] = s_floats[i]
                    out += 1
                if new_here:
                    if end > time[x]:
                        o_key[out], o_vs[out], o_old[out], o_new[out] = k, time[x], time[x], end
                        o_ints[out] = ints[x]
                        o_floats[out] = floats[x]
                        out += 1
                    shown[x] = end
            if old_here:
                i += 1
            if new_here:
                x += 1
    return out, overflow


@njit(cache=True)
def open_since(start, size, time, shown, ints):
    """The earliest start of a row that is still open and of which nothing is shown; INF if none."""
    earliest = INF
    for k in range(len(size)):
        if size[k] > 0:
            x = start[k] + size[k] - 1
            if ints[x, 0] > 0 and shown[x] <= time[x] and time[x] < earliest:
                earliest = time[x]
    return earliest


@njit(cache=True)
def purge(start, size, room, time, ints, cti):
    """Forget entries whose row ended before the cti: how many are left."""
    left = 0
    for k in range(len(size)):
        n = size[k]
        gone = 0
        while gone + 1 < n and time[start[k] + gone + 1] < cti:
            gone += 1
        last = start[k] + n - 1
        if gone + 1 == n and ints[last, 0] == 0 and time[last] < cti:
            gone = n
        start[k] += gone
        size[k] = n - gone
        room[k] -= gone
        left += size[k]
    return left
