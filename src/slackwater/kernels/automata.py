"""Steps of automata over rows that are kept by their places: which can be taken next.

The rows of a slab (slabs.py) are (place, vs, ve, payload), in that order. What is said of each is its
*reach*: the last place that was looked at for the ways that begin there.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
# ruff: noqa: PLR0917

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = [
    "DONE",
    "FULL",
    "UNFIT",
    "close",
    "first_beyond",
    "follow",
    "forget",
    "forget_places",
    "looking",
    "note",
    "steps",
]

DONE, FULL, UNFIT = 0, 1, 2
"""why `follow` stops: there are no more, there is no room for more, polars must do it"""
ORIGIN, END, STATE, VS, VE, COPIES, HINT = range(7)
WAY = 7
_DEPTH = 32
"""more than a program puts on its stacks"""
_FAR = 2.0**62

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
            if at < n and rows[base + at, 0] < early:
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
def _run(
    code, begin, end, floats, begun, ended, i_ways, f_ways, way, i_move, f_move, move, ints, reals
):  # fmt: skip
    """Run a program (plan/programs.py); what it computes is the first of a stack. Whether it could."""
    top = -1
    for i in range(begin, end):
        step, what = code[i, 0], code[i, 1]
        if step < 10:
            top += 1
            if step == 0:
                ints[top] = i_ways[way, what]
            elif step == 1:
                reals[top] = f_ways[way, what]
            elif step == 2:
                ints[top] = i_move[move, what]
            elif step == 3:
                reals[top] = f_move[move, what]
            else:
                ints[top] = begun if what == 0 else ended
        elif step == 10:
            top += 1
            ints[top] = what
        elif step == 11:
            top += 1
            reals[top] = floats[what]
        elif step == 12:
            reals[top] = np.float64(ints[top])
        elif step < 100:
            top -= 1
            a, b = ints[top], ints[top + 1]
            if step < 30:
                x, y = np.float64(a), np.float64(b)
                far = x + y if step == 20 else x - y if step == 21 else x * y
                if abs(far) > _FAR:
                    return False
                ints[top] = a + b if step == 20 else a - b if step == 21 else a * b
            elif step == 30:
                ints[top] = a > b
            elif step == 31:
                ints[top] = a >= b
            elif step == 32:
                ints[top] = a < b
            elif step == 33:
                ints[top] = a <= b
            elif step == 34:
                ints[top] = a == b
            elif step == 35:
                ints[top] = a != b
            elif step == 40:
                ints[top] = a and b
            else:
                ints[top] = a or b
        else:
            top -= 1
            x, y = reals[top], reals[top + 1]
            if step == 120:
                reals[top] = x + y
            elif step == 121:
                reals[top] = x - y
            elif step == 122:
                reals[top] = x * y
            else:
                if np.isnan(x) or np.isnan(y):
                    return False
                if step == 130:
                    ints[top] = x > y
                elif step == 131:
                    ints[top] = x >= y
                elif step == 132:
                    ints[top] = x < y
                elif step == 133:
                    ints[top] = x <= y
                elif step == 134:
                    ints[top] = x == y
                else:
                    ints[top] = x != y
    return True


@njit(cache=True)
def follow(
    start, size, rows, copies, symbols, first, after, row, key, state, code, ends, floats, targets,
    i_move, f_move, i_first, f_first, ways, i_ways, f_ways, done,
):  # fmt: skip
    """All ways from these rows on, as `steps` by `steps`, with conditions and registers as programs.

    Program 0 is the condition, the others give registers, `targets` says which: of integers, or of
    floats, which are counted from -1 down. `done` has how far it is: rows, ways that have been followed,
    ways. It stops where there is no room, to be called again.
    """
    ints = np.empty(_DEPTH, dtype=np.int64)
    reals = np.empty(_DEPTH, dtype=np.float64)
    o, i, count = done[0], done[1], done[2]
    while o < len(row) or i < count:
        if i == count:
            if count == len(ways):
                done[0], done[1], done[2] = o, i, count
                return FULL
            place = rows[row[o], 0]
            ways[count, ORIGIN] = o
            ways[count, END] = INF if place == BEGIN else place - 1
            ways[count, STATE] = state
            ways[count, VS], ways[count, VE] = rows[row[o], 1], rows[row[o], 2]
            ways[count, COPIES], ways[count, HINT] = copies[row[o]], row[o]
            for r in range(len(i_first)):
                i_ways[count, r] = i_first[r]
            for r in range(len(f_first)):
                f_ways[count, r] = f_first[r]
            o += 1
            count += 1
        if ways[i, END] == INF:
            i += 1
            continue
        k = key[ways[i, ORIGIN]]
        base, n, place = start[k], size[k], ways[i, END] + 1
        at = ways[i, HINT] - base
        if at > n or (at > 0 and rows[base + at - 1, 0] >= place):
            at = _first_from(rows, base, n, place)
        tries = 0
        while at < n and rows[base + at, 0] < place:
            at += 1
            tries += 1
            if tries == 8:
                at = _first_from(rows, base, n, place)
        before = count
        while at < n and rows[base + at, 0] == place:
            here = base + at
            at += 1
            symbol = symbols[rows[here, 3]]
            begin, until = max(ways[i, VS], rows[here, 1]), min(ways[i, VE], rows[here, 2])
            if symbol < 0 or begin >= until:
                continue
            s = ways[i, STATE]
            for move in range(first[s, symbol], first[s, symbol + 1]):
                begun = rows[row[ways[i, ORIGIN]], 0]
                if ends[1] > 0:
                    # no tuple of arguments: it would count the references to each array, every time
                    if not _run(
                        code, 0, ends[1], floats, begun, ways[i, END],
                        i_ways, f_ways, i, i_move, f_move, move, ints, reals,
                    ):  # fmt: skip
                        return UNFIT
                    if ints[0] == 0:
                        continue
                if count == len(ways):
                    done[0], done[1], done[2] = o, i, before
                    return FULL
                for p in range(len(targets)):
                    if not _run(
                        code, ends[p + 1], ends[p + 2], floats, begun, ways[i, END],
                        i_ways, f_ways, i, i_move, f_move, move, ints, reals,
                    ):  # fmt: skip
                        return UNFIT
                    if targets[p] >= 0:
                        i_ways[count, targets[p]] = ints[0]
                    else:
                        f_ways[count, -1 - targets[p]] = reals[0]
                ways[count, ORIGIN] = ways[i, ORIGIN]
                ways[count, END] = place
                ways[count, STATE] = after[move]
                ways[count, VS], ways[count, VE] = begin, until
                ways[count, COPIES] = ways[i, COPIES] * copies[here]
                ways[count, HINT] = here + 1
                count += 1
        i += 1
    done[0], done[1], done[2] = o, i, count
    return DONE


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
def first_beyond(start, size, rows, said, key, low, high, place):
    """For each stretch of places the first from which some way looks beyond it; whether there is one."""
    found = np.zeros(len(key), dtype=np.bool_)
    for i in range(len(key)):
        base, n = start[key[i]], size[key[i]]
        # the first place is none
        at = _first_from(rows, base, n, max(low[i], BEGIN + 1))
        while at < n and rows[base + at, 0] <= high[i]:
            if said[base + at] > high[i]:
                place[i], found[i] = rows[base + at, 0], True
                break
            at += 1
    return found


@njit(cache=True)
def close(start, size, rows, count, said, key, until):
    """Drop the rows of each of these keys that end before its time, at INF all; how many."""
    dropped = 0
    for i in range(len(key)):
        k, kept = key[i], 0
        base = start[k]
        for j in range(size[k]):
            if until[i] < INF and rows[base + j, 2] >= until[i]:
                _move(rows, count, said, base + j, base + kept)
                kept += 1
        dropped += size[k] - kept
        size[k] = kept
    return dropped


@njit(cache=True)
def forget_places(start, size, rows, count, said, key, high, nowhere):
    """Drop the rows of each key up to a place, but not from where a way begins that looks further.

    `nowhere`: also those without a place.
    """
    for i in range(len(key)):
        k, kept = key[i], 0
        base = start[k]
        needed = INF
        for j in range(size[k]):
            place = rows[base + j, 0]
            if place > high[i] or (place > BEGIN and said[base + j] > high[i]):
                # and the others at this place, with which its ways may go on
                needed = place
                break
        for j in range(size[k]):
            place = rows[base + j, 0]
            if place >= needed or (place == BEGIN and not nowhere[i]):
                _move(rows, count, said, base + j, base + kept)
                kept += 1
        size[k] = kept


@njit(cache=True, inline="always")
def _move(rows, count, said, old, new):
    """Put a row into another place of the pool."""
    if old != new:
        rows[new] = rows[old]
        count[new] = count[old]
        said[new] = said[old]


@njit(cache=True)
def forget(start, size, rows, count, said, cti):
    """Drop the rows that end before the cti; how many."""
    dropped = 0
    for k in range(len(size)):
        base, kept = start[k], 0
        for i in range(size[k]):
            if rows[base + i, 2] >= cti:
                _move(rows, count, said, base + i, base + kept)
                kept += 1
        dropped += size[k] - kept
        size[k] = kept
    return dropped
