"""Choices: of every key the best of its ranked candidates, on every stretch of time.

A row is (vs, ve, place, rank, number of the payload); of places, less is better. What is said of a key
at an instant stays as long as some candidate that is alive has its place and a smaller rank; if one has
to go, the key waits there. If it does not wait, each candidate that is better than all of smaller rank
is said, with a rank one more; operators/support.py says why.

Between two endpoints nothing changes. The candidates of a key lie in the order of their ranks, with a
bit each that says whether it is alive: setting one costs nothing, and the first that are alive are soon
found, however many there are. So a key costs n log n for n endpoints, and a key with one endpoint and
thousands of candidates a look at each.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
# ruff: noqa: PLR0917

from __future__ import annotations

import numpy as np
from numba import njit

from slackwater.kernels.pairs import ROW as NUMBER
from slackwater.kernels.pairs import SIZE, START
from slackwater.kernels.pairs import VE as POOL_VE
from slackwater.kernels.pairs import VS as POOL_VS

__all__ = ["COLUMNS", "PLACE", "RANK", "ROW", "VE", "VS", "chosen", "lives_of"]

COLUMNS = 5
VS, VE, PLACE, RANK, ROW = range(COLUMNS)

_FEW = 24
"""so many are sorted one by one"""
_ONE = np.uint64(1)
_NONE = np.uint64(0)


@njit(cache=True)
def lives_of(slabs, pool, keys):
    """The events of some keys that exist: where those of each begin, and (vs, ve, payload's number)."""
    total = 0
    for k in keys:
        total += slabs[k, SIZE]
    at = np.empty(len(keys) + 1, dtype=np.int64)
    lives = np.empty((total, 3), dtype=np.int64)
    n = 0
    for i in range(len(keys)):
        at[i] = n
        start = slabs[keys[i], START]
        for e in range(start, start + slabs[keys[i], SIZE]):
            if pool[e, POOL_VE] > pool[e, POOL_VS]:
                lives[n, 0], lives[n, 1], lives[n, 2] = (
                    pool[e, POOL_VS],
                    pool[e, POOL_VE],
                    pool[e, NUMBER],
                )
                n += 1
    at[len(keys)] = n
    return at, lives[:n]


@njit(cache=True)
def chosen(c_at, candidates, s_at, said, t_at, stretches, w_at, waiting):
    """What is to be said of each key, if it may change in these stretches of time.

    `..._at` says where the rows of each key begin. The changes: which key, vs, the end before and now,
    rank, payload's number; then where keys wait from now on: which key, from when to when.
    """
    changes = np.empty((len(said) + len(candidates) + 16, 6), dtype=np.int64)
    more = np.empty((16, 3), dtype=np.int64)
    count, waits = 0, 0
    for key in range(len(c_at) - 1):
        own = candidates[c_at[key] : c_at[key + 1]]
        before = said[s_at[key] : s_at[key + 1]]
        order = _by_rank(own)
        wait = waiting[w_at[key] : w_at[key + 1]]
        now = before
        for i in range(t_at[key], t_at[key + 1]):
            now, again = _of_stretch(own, order, now, wait, stretches[i, 0], stretches[i, 1])
            if len(again):
                if waits + len(again) > len(more):
                    more = _enlarged(more, waits + len(again))
                more[waits : waits + len(again), 0] = key
                more[waits : waits + len(again), 1:] = again
                waits += len(again)
                wait = np.concatenate((wait, again))
        if count + len(before) + len(now) > len(changes):
            changes = _enlarged(changes, count + len(before) + len(now))
        count = _differ(key, before, now, changes, count)
    return changes[:count], more[:waits]


@njit(cache=True)
def _enlarged(array, rows):
    new = np.empty((2 * rows, array.shape[1]), dtype=np.int64)
    new[: len(array)] = array
    return new


@njit(cache=True)
def _is_before(rows, i, j, first, second, third):
    """Whether row i comes before row j by these columns."""
    if rows[i, first] != rows[j, first]:
        return rows[i, first] < rows[j, first]
    if rows[i, second] != rows[j, second]:
        return rows[i, second] < rows[j, second]
    return rows[i, third] < rows[j, third]


@njit(cache=True)
def _sorted_by(rows, first, second, third):
    """The order by three columns; what is equal stays as it is."""
    n = len(rows)
    order = np.arange(n)
    if n <= _FEW:
        for i in range(1, n):
            each, at = order[i], i
            while at > 0 and _is_before(rows, each, order[at - 1], first, second, third):
                order[at] = order[at - 1]
                at -= 1
            order[at] = each
        return order
    for column in (third, second, first):
        order = order[_order_of(rows[order, column])]
    return order


@njit(cache=True)
def _order_of(values):
    """The order of some numbers; what is equal stays as it is."""
    return np.argsort(values, kind="mergesort")


@njit(cache=True)
def _by_rank(candidates):
    return _sorted_by(candidates, RANK, PLACE, VS)


@njit(cache=True)
def _times(candidates, said, wait, since, until):
    """Where anything begins or ends, from `since` to `until`, both included."""
    times = np.empty(2 + 2 * (len(candidates) + len(said) + len(wait)), dtype=np.int64)
    times[0], times[1] = since, until
    n = 2
    for i in range(len(candidates)):
        for time in (candidates[i, VS], candidates[i, VE]):
            if since < time < until:
                times[n] = time
                n += 1
    for i in range(len(said)):
        for time in (said[i, VS], said[i, VE]):
            if since < time < until:
                times[n] = time
                n += 1
    for i in range(len(wait)):
        for time in (wait[i, 0], wait[i, 1]):
            if since < time < until:
                times[n] = time
                n += 1
    times = times[:n]
    times = times[_order_of(times)]
    count = 1
    for i in range(1, n):
        if times[i] != times[count - 1]:
            times[count] = times[i]
            count += 1
    return times[:count]


@njit(cache=True, inline="always")
def _next_alive(alive, place, stop):
    """The first place from one on whose bit is set; `stop` if there is none."""
    while place < stop:
        word = alive[place >> 6] >> np.uint64(place & 63)
        if word != _NONE:
            while word & _ONE == _NONE:
                word >>= _ONE
                place += 1
            return place
        place = (place | 63) + 1
    return stop


@njit(cache=True)
def _is_supported(candidates, order, alive, place, rank):
    """Whether a candidate that is alive has this place and a smaller rank."""
    at = _next_alive(alive, 0, len(order))
    while at < len(order):
        each = order[at]
        if candidates[each, RANK] >= rank:
            return False
        if candidates[each, PLACE] == place:
            return True
        at = _next_alive(alive, at + 1, len(order))
    return False


@njit(cache=True)
def _choose(candidates, order, alive, lowest, mine, n):
    """To the n rows of `mine` that stay, those candidates that are better than all of smaller rank."""
    has_best, best = False, np.int64(0)
    at = _next_alive(alive, 0, len(order))
    while at < len(order):
        each = order[at]
        place = candidates[each, PLACE]
        if not has_best or place < best:
            has_best, best = True, place
            rank = candidates[each, RANK] + 1
            # the same value is good enough with any rank: so nothing moves only because of a shorter way
            is_said = False
            for i in range(n):
                is_better = mine[i, PLACE] < place and mine[i, RANK] <= rank
                is_said |= is_better or mine[i, PLACE] == place
            if not is_said:
                mine[n, PLACE], mine[n, RANK], mine[n, ROW] = place, rank, candidates[each, ROW]
                n += 1
            if best == lowest:
                break
        at = _next_alive(alive, at + 1, len(order))
    # what is not better than something of no larger rank goes; that was so of all of them together
    for i in range(n):
        mine[i, VS] = 0
        for j in range(n):
            if mine[j, PLACE] < mine[i, PLACE] and mine[j, RANK] <= mine[i, RANK]:
                mine[i, VS] = 1
    left = 0
    for i in range(n):
        if mine[i, VS] == 0:
            mine[left] = mine[i]
            left += 1
    return left


@njit(cache=True)
def _of_stretch(candidates, order, said, wait, since, until):
    """What is to be said of a key, if it may change from `since` to `until`; and where it waits then.

    What was said comes by start, and so does what is said.
    """
    points = _times(candidates, said, wait, since, until)
    lowest = np.int64(0)
    for i in range(len(candidates)):
        lowest = candidates[i, PLACE] if i == 0 else min(lowest, candidates[i, PLACE])
    result = np.empty((2 * len(said) + len(points) + 4, COLUMNS), dtype=np.int64)
    more = np.empty((len(points), 2), dtype=np.int64)
    mine = np.empty((len(said) + len(candidates), COLUMNS), dtype=np.int64)
    count, waits = 0, 0
    for i in range(len(said)):
        if said[i, VS] < since:
            result[count] = said[i]
            result[count, VE] = min(said[i, VE], since)
            count += 1
    alive = np.zeros(len(order) // 64 + 1, dtype=np.uint64)
    coming = _order_of(candidates[order, VS])
    ending = _order_of(candidates[order, VE])
    come = ended = first = 0
    for point in range(len(points) - 1):
        start, end = points[point], points[point + 1]
        while come < len(order) and candidates[order[coming[come]], VS] <= start:
            alive[coming[come] >> 6] |= _ONE << np.uint64(coming[come] & 63)
            come += 1
        while ended < len(order) and candidates[order[ending[ended]], VE] <= start:
            alive[ending[ended] >> 6] &= ~(_ONE << np.uint64(ending[ended] & 63))
            ended += 1
        while first < len(said) and said[first, VE] <= start:
            first += 1
        n = old = 0
        i = first
        while i < len(said) and said[i, VS] <= start:
            if said[i, VE] > start:
                old += 1
                if _is_supported(candidates, order, alive, said[i, PLACE], said[i, RANK]):
                    mine[n] = said[i]
                    n += 1
            i += 1
        if n < old:
            more[waits, 0], more[waits, 1] = start, end
            waits += 1
        else:
            is_waiting = False
            for i in range(len(wait)):
                is_waiting |= wait[i, 0] <= start < wait[i, 1]
            if not is_waiting:
                n = _choose(candidates, order, alive, lowest, mine, n)
        if count + n + len(said) > len(result):
            result = _enlarged(result, count + n + len(said))
        for i in range(n):
            result[count] = mine[i]
            result[count, VS], result[count, VE] = start, end
            count += 1
    for i in range(len(said)):
        if said[i, VE] > until:
            result[count] = said[i]
            result[count, VS] = max(said[i, VS], until)
            count += 1
    return _together(result[:count]), more[:waits]


@njit(cache=True)
def _together(pieces):
    """Neighbours that say the same are one; by start."""
    pieces = pieces[_sorted_by(pieces, PLACE, RANK, VS)]
    count = 0
    for i in range(len(pieces)):
        if (
            count
            and pieces[count - 1, PLACE] == pieces[i, PLACE]
            and pieces[count - 1, RANK] == pieces[i, RANK]
            and pieces[count - 1, VE] == pieces[i, VS]
        ):
            pieces[count - 1, VE] = pieces[i, VE]
        else:
            pieces[count] = pieces[i]
            count += 1
    pieces = pieces[:count]
    return pieces[_sorted_by(pieces, VS, PLACE, RANK)]


@njit(cache=True)
def _differ(key, before, now, changes, count):
    """What turns the one into the other: ends move where the start and all else is the same."""
    i = j = 0
    one = _sorted_by(before, VS, PLACE, RANK)
    while i < len(before) or j < len(now):
        if i == len(before):
            order = 1
        elif j == len(now):
            order = -1
        else:
            order = _compared(before, one[i], now, j)
        if order <= 0:
            old = before[one[i]]
            end = old[VS] if order else now[j, VE]
            if end != old[VE]:
                _put(changes, count, key, old, old[VE], end)
                count += 1
            i += 1
            j += order == 0
        else:
            _put(changes, count, key, now[j], now[j, VS], now[j, VE])
            count += 1
            j += 1
    return count


@njit(cache=True)
def _compared(one, i, other, j):
    for column in (VS, PLACE, RANK):
        if one[i, column] != other[j, column]:
            return -1 if one[i, column] < other[j, column] else 1
    return 0


@njit(cache=True)
def _put(changes, at, key, row, old_ve, new_ve):
    changes[at, 0], changes[at, 1] = key, row[VS]
    changes[at, 2], changes[at, 3] = old_ve, new_ve
    changes[at, 4], changes[at, 5] = row[RANK], row[ROW]
