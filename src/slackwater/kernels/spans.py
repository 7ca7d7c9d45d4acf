"""Spans: which stretches of integers are promised until when, and boxes that a point lies in.

Spans are rows of (group, low, high, before): the integers from low to high, both included, of that group
are promised before a time. A run of them is in order of (group, low) and disjoint: a step function per
group. Two runs are laid over each other, and the later time counts; stretches that touch and have the
same time become one. That is how values that are closed one by one end as one span.

Boxes have several low and high ends. They stand in order of (group, first low end), as a balanced tree
that is not written down: the middle of a part is its root. Each place knows the highest first end of its
part, so that a search leaves out all parts that end too early (an interval tree).
"""

# mypy: allow-untyped-defs, allow-untyped-calls
# ruff: noqa: PLR0917

from __future__ import annotations

import numpy as np
from numba import njit

from slackwater.times import BEGIN, INF

__all__ = [
    "around",
    "covered",
    "covered_until",
    "frontier",
    "highest",
    "look_up",
    "overlaid",
    "strike_out",
    "sweep",
    "widest",
    "within",
]

GROUP, LOW, HIGH, BEFORE = range(4)


@njit(cache=True, inline="always")
def _put(out, n, group, low, high, before, floor):
    """Append a span to those before it, or to the last of them; how many there are."""
    if before <= floor:
        return n
    if n and out[n - 1, GROUP] == group and out[n - 1, BEFORE] == before:
        last = out[n - 1, HIGH]
        if last != INF and last + 1 == low:
            out[n - 1, HIGH] = high
            return n
    out[n, GROUP] = group
    out[n, LOW] = low
    out[n, HIGH] = high
    out[n, BEFORE] = before
    return n + 1


@njit(cache=True)
def overlaid(left, right, floor):
    """Two runs as one; what is promised no later than the floor is left out."""
    out = np.empty((2 * (len(left) + len(right)), 4), dtype=np.int64)
    n = i = j = 0
    low_i = left[0, LOW] if len(left) else 0
    low_j = right[0, LOW] if len(right) else 0
    while i < len(left) or j < len(right):
        if j == len(right):
            only_left, only_right = True, False
        elif i == len(left):
            only_left, only_right = False, True
        else:
            a, b = left[i, GROUP], right[j, GROUP]
            only_left = a < b or (a == b and left[i, HIGH] < low_j)
            only_right = b < a or (a == b and right[j, HIGH] < low_i)
        if only_left:
            n = _put(out, n, left[i, GROUP], low_i, left[i, HIGH], left[i, BEFORE], floor)
            i += 1
            low_i = left[i, LOW] if i < len(left) else 0
        elif only_right:
            n = _put(out, n, right[j, GROUP], low_j, right[j, HIGH], right[j, BEFORE], floor)
            j += 1
            low_j = right[j, LOW] if j < len(right) else 0
        elif low_i < low_j:
            n = _put(out, n, left[i, GROUP], low_i, low_j - 1, left[i, BEFORE], floor)
            low_i = low_j
        elif low_j < low_i:
            n = _put(out, n, right[j, GROUP], low_j, low_i - 1, right[j, BEFORE], floor)
            low_j = low_i
        else:
            end = min(left[i, HIGH], right[j, HIGH])
            before = max(left[i, BEFORE], right[j, BEFORE])
            n = _put(out, n, left[i, GROUP], low_i, end, before, floor)
            if left[i, HIGH] == end:
                i += 1
                low_i = left[i, LOW] if i < len(left) else 0
            else:
                low_i = end + 1
            if right[j, HIGH] == end:
                j += 1
                low_j = right[j, LOW] if j < len(right) else 0
            else:
                low_j = end + 1
    return out[:n].copy()


@njit(cache=True)
def run_of(group, low, high, before, order, floor):
    """Spans in that order, of which those that overlap are the same stretch, as a run."""
    out = np.empty((len(order), 4), dtype=np.int64)
    n = 0
    i = 0
    while i < len(order):
        at = order[i]
        latest = before[at]
        i += 1
        while i < len(order) and group[order[i]] == group[at] and low[order[i]] == low[at]:
            latest = max(latest, before[order[i]])
            i += 1
        n = _put(out, n, group[at], low[at], high[at], latest, floor)
    return out[:n].copy()


@njit(cache=True, inline="always")
def _last_at_most(run, group, value):
    """The last span that begins at or before a value of a group; -1 if there is none."""
    low, high = 0, len(run)
    while low < high:
        middle = (low + high) >> 1
        if run[middle, GROUP] < group or (run[middle, GROUP] == group and run[middle, LOW] <= value):
            low = middle + 1
        else:
            high = middle
    return low - 1


@njit(cache=True)
def look_up(run, group, value, before):
    """Raise the time of each value to that of its span."""
    for i in range(len(value)):
        if group[i] < 0:
            continue
        at = _last_at_most(run, group[i], value[i])
        if at >= 0 and run[at, GROUP] == group[i] and value[i] <= run[at, HIGH]:
            before[i] = max(before[i], run[at, BEFORE])


@njit(cache=True)
def strike_out(run, told):
    """The run without what another one implies: stretches that it promises as long, or longer."""
    out = np.empty((len(run) + 2 * len(told), 4), dtype=np.int64)
    n = 0
    for i in range(len(run)):
        group, low, high, before = run[i]
        at = max(0, _last_at_most(told, group, low))
        done = False
        while not done and at < len(told):
            if told[at, GROUP] > group or (told[at, GROUP] == group and told[at, LOW] > high):
                break
            if told[at, GROUP] == group and told[at, HIGH] >= low and told[at, BEFORE] >= before:
                if told[at, LOW] > low:
                    n = _put(out, n, group, low, told[at, LOW] - 1, before, BEGIN)
                if told[at, HIGH] >= high:
                    done = True
                else:
                    low = told[at, HIGH] + 1
            at += 1
        if not done:
            n = _put(out, n, group, low, high, before, BEGIN)
    return out[:n].copy()


@njit(cache=True)
def covered(run, groups, least, greatest):
    """For each group the time before which all integers from least to greatest are promised."""
    before = np.full(groups, BEGIN, dtype=np.int64)
    i = 0
    while i < len(run):
        group = run[i, GROUP]
        whole = run[i, LOW] <= least
        end = run[i, HIGH]
        first = run[i, BEFORE]
        i += 1
        while i < len(run) and run[i, GROUP] == group:
            if end < greatest:
                whole = whole and run[i, LOW] == end + 1
                first = min(first, run[i, BEFORE])
                end = run[i, HIGH]
            i += 1
        if whole and end >= greatest:
            before[group] = first
    return before


@njit(cache=True)
def covered_until(run, asked):
    """For each stretch (group, low, high, _) the time before which all of it is promised."""
    before = np.full(len(asked), BEGIN, dtype=np.int64)
    for i in range(len(asked)):
        group, low, high = asked[i, GROUP], asked[i, LOW], asked[i, HIGH]
        at, until = _last_at_most(run, group, low), INF
        while at >= 0 and at < len(run) and run[at, GROUP] == group:
            if run[at, LOW] > low or run[at, HIGH] < low:
                break
            until = min(until, run[at, BEFORE])
            if run[at, HIGH] >= high:
                before[i] = until
                break
            low = run[at, HIGH] + 1
            at += 1
    return before


@njit(cache=True, inline="always")
def _touch(run, i):
    """Whether a span begins where the one before it ends."""
    if i == 0 or run[i - 1, GROUP] != run[i, GROUP] or run[i - 1, HIGH] == INF:
        return False
    return run[i - 1, HIGH] + 1 == run[i, LOW]


@njit(cache=True)
def around(run, told):
    """The spans of a run in which others lie, and all that they touch, as far as there is no gap."""
    is_near = np.zeros(len(run), dtype=np.bool_)
    for i in range(len(told)):
        at = _last_at_most(run, told[i, GROUP], told[i, LOW])
        if at < 0 or is_near[at]:
            continue
        low = high = at
        while _touch(run, low):
            low -= 1
        while high + 1 < len(run) and _touch(run, high + 1):
            high += 1
        is_near[low : high + 1] = True
    return run[is_near]


@njit(cache=True)
def widest(run):
    """For each span the widest stretch around it that is promised as long, as a span; each once."""
    left, right = np.empty(len(run), dtype=np.int64), np.empty(len(run), dtype=np.int64)
    is_new = np.ones(len(run), dtype=np.bool_)
    stack = np.empty(len(run), dtype=np.int64)
    top = chain = 0
    for i in range(len(run)):
        if not _touch(run, i):
            top, chain = 0, i
        while top and run[stack[top - 1], BEFORE] > run[i, BEFORE]:
            top -= 1
        left[i] = stack[top - 1] + 1 if top else chain
        if top and run[stack[top - 1], BEFORE] == run[i, BEFORE]:
            left[i], is_new[i] = left[stack[top - 1]], False
        stack[top] = i
        top += 1
    top = 0
    for i in range(len(run) - 1, -1, -1):
        if i == len(run) - 1 or not _touch(run, i + 1):
            top, chain = 0, i
        while top and run[stack[top - 1], BEFORE] >= run[i, BEFORE]:
            top -= 1
        right[i] = stack[top - 1] - 1 if top else chain
        stack[top] = i
        top += 1
    found = np.empty((is_new.sum(), 4), dtype=np.int64)
    n = 0
    for i in range(len(run)):
        if is_new[i]:
            found[n, GROUP], found[n, BEFORE] = run[i, GROUP], run[i, BEFORE]
            found[n, LOW], found[n, HIGH] = run[left[i], LOW], run[right[i], HIGH]
            n += 1
    return found


@njit(cache=True)
def sweep(sync, row_key, key, before, place, latest, broken):
    """Mark rows that a closing of their key, which stands before them, forbids; places do not fall."""
    j = 0
    for i in range(len(sync)):
        while j < len(place) and place[j] <= i:
            latest[key[j]] = max(latest[key[j]], before[j])
            j += 1
        known = row_key[i]
        if known >= 0 and (sync[i] < latest[known] or latest[known] == INF):
            broken[i] = True


# boxes


@njit(cache=True)
def highest(group, high):
    """For each place the highest end in the part of which it is the root; one group at a time."""
    out = high.copy()
    stack = np.empty((128, 3), dtype=np.int64)
    start = 0
    while start < len(group):
        stop = start
        while stop < len(group) and group[stop] == group[start]:
            stop += 1
        # a part is entered, its halves are done, it takes the higher of theirs
        n = 0
        stack[n] = (start, stop, 0)
        n += 1
        while n:
            n -= 1
            first, last, is_done = stack[n]
            middle = (first + last) >> 1
            if is_done:
                if first < middle:
                    out[middle] = max(out[middle], out[(first + middle) >> 1])
                if middle + 1 < last:
                    out[middle] = max(out[middle], out[(middle + 1 + last) >> 1])
                continue
            stack[n] = (first, last, 1)
            n += 1
            if first < middle:
                stack[n] = (first, middle, 0)
                n += 1
            if middle + 1 < last:
                stack[n] = (middle + 1, last, 0)
                n += 1
        start = stop
    return out


@njit(cache=True, inline="always")
def _part(group, wanted):
    """The boxes of a group."""
    first = np.searchsorted(group, wanted)
    return first, np.searchsorted(group, wanted, side="right")


@njit(cache=True, inline="always")
def _holds(low, high, at, point_low, point_high, i):
    for d in range(low.shape[1]):
        if low[at, d] > point_low[i, d] or high[at, d] < point_high[i, d]:
            return False
    return True


@njit(cache=True)
def within(group, low, high, top, wanted, point_low, point_high, since, before, first, last, found):
    """Which boxes hold what is asked for, and at least its times: the number of one of them, or -1."""
    stack = np.empty((128, 2), dtype=np.int64)
    for i in range(len(wanted)):
        if wanted[i] < 0:
            continue
        start, stop = _part(group, wanted[i])
        n = 0
        if start < stop:
            stack[n] = (start, stop)
            n += 1
        while n:
            n -= 1
            start, stop = stack[n]
            middle = (start + stop) >> 1
            if top[middle] < point_high[i, 0]:
                continue
            if (
                _holds(low, high, middle, point_low, point_high, i)
                and since[middle] <= first[i]
                and (before[middle] >= last[i] or before[middle] == INF)
            ):
                found[i] = middle
                break
            if start < middle:
                stack[n] = (start, middle)
                n += 1
            if middle + 1 < stop and low[middle, 0] <= point_low[i, 0]:
                stack[n] = (middle + 1, stop)
                n += 1


@njit(cache=True)
def frontier(group, low, high, top, wanted, point, since, before, reached):
    """Raise the time of each point by the boxes that hold it and begin no later."""
    stack = np.empty((128, 2), dtype=np.int64)
    for i in range(len(wanted)):
        if wanted[i] < 0:
            continue
        first, last = _part(group, wanted[i])
        again = first < last
        while again:
            again = False
            n = 0
            stack[n] = (first, last)
            n += 1
            while n:
                n -= 1
                start, stop = stack[n]
                middle = (start + stop) >> 1
                if top[middle] < point[i, 0]:
                    continue
                if since[middle] <= reached[i] < before[middle] and _holds(
                    low, high, middle, point, point, i
                ):
                    reached[i] = before[middle]
                    again = True
                if start < middle:
                    stack[n] = (start, middle)
                    n += 1
                if middle + 1 < stop and low[middle, 0] <= point[i, 0]:
                    stack[n] = (middle + 1, stop)
                    n += 1
