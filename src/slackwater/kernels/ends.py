"""Ends: at which times the events of one payload and start end now, and how many at each.

`judge` takes in the elements of a stream one by one, and stops at the first that does not fit: an adjust
must name an end that is there. A payload and start has a *group*, found in a hash table; the first end
stands in it. Others, which are rare, have rows of their own, found in a second table and linked to
their group. What is gone stays as a count of zero, until `survivors` leaves it behind.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
# ruff: noqa: PLR0917

from __future__ import annotations

import numpy as np
from numba import njit

from slackwater.kernels.prefetch import prefetch, prefetch_at
from slackwater.times import INF

__all__ = [
    "ALIVE",
    "COUNT",
    "DECLARED",
    "FINE",
    "GROUP_COLUMNS",
    "KEY",
    "LATE",
    "MORE",
    "MORE_COLUMNS",
    "NO_EVENT",
    "NO_ROOM",
    "VE",
    "VS",
    "find",
    "judge",
    "places",
    "put",
    "put_more",
    "survivors",
]

# a group
KEY, VS, VE, COUNT, MORE, ALIVE = range(6)
GROUP_COLUMNS = 6
# one more end of a group
_GROUP, _END, _COPIES, _NEXT = range(4)
MORE_COLUMNS = 4

FINE, LATE, NO_EVENT, DECLARED, NO_ROOM = range(5)
"""what there is to say of an element"""

_AHEAD = 8


@njit(cache=True, inline="always")
def _hash(a, b):
    value = np.uint64(a) * np.uint64(0x9E3779B97F4A7C15)
    value ^= value >> np.uint64(32)
    value = (value ^ np.uint64(b)) * np.uint64(0xFF51AFD7ED558CCD)
    value ^= value >> np.uint64(33)
    value *= np.uint64(0xC4CEB9FE1A85EC53)
    return value ^ (value >> np.uint64(29))


@njit(cache=True)
def places(slots, key, vs):
    """Where the search for each group begins."""
    mask = np.uint64(len(slots) - 1)
    out = np.empty(len(key), dtype=np.uint64)
    for i in range(len(key)):
        out[i] = _hash(key[i], vs[i]) & mask
    return out


@njit(cache=True, inline="always")
def _more(slots, more, group, end):
    """Where the row of a group's other end is, or should be."""
    mask = np.uint64(len(slots) - 1)
    at = _hash(group, end) & mask
    while slots[at] >= 0 and (more[slots[at], _GROUP] != group or more[slots[at], _END] != end):
        at = (at + np.uint64(1)) & mask
    return at


@njit(cache=True)
def judge(
    slots, groups, more_slots, more, used, place, key, vs, old_ve, new_ve, late, odd, unique, start
):
    """Take in the elements from `start` on: the first that does not fit, what it is, and what is used.

    `late` ones are never taken in; nor are `odd` ones, which break what was declared. With `unique`
    there may be one event of a group at a time. `used` is how many rows of groups and of more ends there
    are.
    """
    mask = np.uint64(len(slots) - 1)
    n_groups, n_more = used
    for i in range(start, len(key)):
        if i + 2 * _AHEAD < len(key):
            prefetch_at(slots, place[i + 2 * _AHEAD])
            prefetch(groups, slots[place[i + _AHEAD]])
        if late[i]:
            return i, LATE, (n_groups, n_more)
        at = place[i]
        group = slots[at]
        while group >= 0 and (groups[group, KEY] != key[i] or groups[group, VS] != vs[i]):
            at = (at + np.uint64(1)) & mask
            group = slots[at]
        is_adjust = old_ve[i] > vs[i]
        found = np.int64(-1)
        is_first = False
        if is_adjust:
            if group >= 0:
                is_first = groups[group, VE] == old_ve[i] and groups[group, COUNT] > 0
                if not is_first and groups[group, MORE] >= 0:
                    found = more_slots[_more(more_slots, more, group, old_ve[i])]
                    if found >= 0 and more[found, _COPIES] == 0:
                        found = np.int64(-1)
            if not is_first and found < 0:
                return i, NO_EVENT, (n_groups, n_more)
        if odd[i] or (unique and not is_adjust and group >= 0 and groups[group, ALIVE] > 0):
            return i, DECLARED, (n_groups, n_more)
        # before anything changes, so that it can be taken up again here
        if 2 * (n_groups + 1) > len(slots) or n_groups + 1 > len(groups):
            return i, NO_ROOM, (n_groups, n_more)
        if 2 * (n_more + 1) > len(more_slots) or n_more + 1 > len(more):
            return i, NO_ROOM, (n_groups, n_more)
        if is_adjust:
            groups[group, ALIVE] -= 1
            if is_first:
                groups[group, COUNT] -= 1
            else:
                more[found, _COPIES] -= 1
        if new_ve[i] <= vs[i]:
            continue
        if group < 0:
            groups[n_groups] = (key[i], vs[i], new_ve[i], 1, -1, 1)
            slots[at] = n_groups
            n_groups += 1
            continue
        groups[group, ALIVE] += 1
        if groups[group, VE] == new_ve[i]:
            groups[group, COUNT] += 1
        elif groups[group, COUNT] == 0 and groups[group, MORE] < 0:
            groups[group, VE] = new_ve[i]
            groups[group, COUNT] = 1
        else:
            at = _more(more_slots, more, group, new_ve[i])
            if more_slots[at] < 0:
                more[n_more] = (group, new_ve[i], 0, groups[group, MORE])
                groups[group, MORE] = n_more
                more_slots[at] = n_more
                n_more += 1
            more[more_slots[at], _COPIES] += 1
    return len(key), FINE, (n_groups, n_more)


@njit(cache=True)
def find(slots, groups, more, key, vs):
    """The ends of a group, with how many there are of each."""
    mask = np.uint64(len(slots) - 1)
    at = _hash(key, vs) & mask
    group = slots[at]
    while group >= 0 and (groups[group, KEY] != key or groups[group, VS] != vs):
        at = (at + np.uint64(1)) & mask
        group = slots[at]
    ends = [(np.int64(0), np.int64(0)) for _ in range(0)]
    if group >= 0:
        if groups[group, COUNT] > 0:
            ends.append((groups[group, VE], groups[group, COUNT]))
        end = groups[group, MORE]
        while end >= 0:
            if more[end, _COPIES] > 0:
                ends.append((more[end, _END], more[end, _COPIES]))
            end = more[end, _NEXT]
    return ends


@njit(cache=True)
def survivors(groups, n_groups, more, frontier):
    """Pack what is not frozen: groups that have an end from the frontier of their key on.

    How much is left of both. Where the frontier is the end of time, nothing is.
    """
    kept = 0
    kept_more = 0
    packed = np.empty_like(more)
    for i in range(n_groups):
        latest = groups[i, VE] if groups[i, COUNT] > 0 else groups[i, VS]
        end = groups[i, MORE]
        while end >= 0:
            if more[end, _COPIES] > 0:
                latest = max(latest, more[end, _END])
            end = more[end, _NEXT]
        before = frontier[groups[i, KEY]]
        if groups[i, ALIVE] == 0 or latest < before or before == INF:
            continue
        end = groups[i, MORE]
        groups[kept] = groups[i]
        groups[kept, MORE] = -1
        while end >= 0:
            if more[end, _COPIES] > 0:
                packed[kept_more] = (kept, more[end, _END], more[end, _COPIES], groups[kept, MORE])
                groups[kept, MORE] = kept_more
                kept_more += 1
            end = more[end, _NEXT]
        kept += 1
    more[:kept_more] = packed[:kept_more]
    return kept, kept_more


@njit(cache=True)
def put(slots, groups, n_groups):
    """Put groups into a table that has none."""
    mask = np.uint64(len(slots) - 1)
    for i in range(n_groups):
        at = _hash(groups[i, KEY], groups[i, VS]) & mask
        while slots[at] >= 0:
            at = (at + np.uint64(1)) & mask
        slots[at] = i


@njit(cache=True)
def put_more(slots, more, n_more):
    """The same for other ends."""
    for i in range(n_more):
        slots[_more(slots, more, more[i, _GROUP], more[i, _END])] = i
