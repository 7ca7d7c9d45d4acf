"""Ranks: the live events of each key in order of a value, and the rows that a change of them changes.

Of every key the group at the cursor of its records (records.py) is a list of *items*: the number of a
payload, how many copies of it are alive, and its value. Items are in order of their values, nulls last,
and where values are equal, of their numbers. An item's *place* is one more than the number of copies
with a value before its own; nulls have none.

`follow` leads the list through the entries that a batch has touched, and with it the *difference*: by
how many copies of which payloads the group is not what it was before the batch. At an entry both there
before and now,

    no difference         only the end may have moved
    else                  rows of values after the first difference have another place, until as many
                          copies are new as are gone; the others have theirs, and may get another end

so that what is not said is not looked at, but for the counts in front of the first difference.

    values    by number of payload: label, whether it is null, and the key; items have the first two,
              too, for of many payloads each look at them is one at cold memory
    list      slab of items, as in endpoints.py
    out       start, old end, new end, number of payload, place (0: null)

Tables of timelines are those of endpoints.py, the script is that of records.py.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
# ruff: noqa: PLR0917

from __future__ import annotations

import numpy as np
from numba import njit

from slackwater.kernels.endpoints import (
    INF,
    LABELS,
    ROOM,
    SHOWN,
    SIZE,
    START,
    SUMS,
    T_KEY,
    TIME,
    _first_from,
)
from slackwater.kernels.prefetch import prefetch, prefetch_at
from slackwater.kernels.records import COUNT

__all__ = [
    "COPIES",
    "IS_NULL",
    "ITEM",
    "KEY",
    "LABEL",
    "NUMBER",
    "OUT",
    "follow",
    "lengthened",
    "mark",
    "mark_at",
    "move",
    "relabel",
    "rename",
    "rename_at",
]

# columns of an item
NUMBER, COPIES, _OWN_LABEL, _OWN_IS_NULL = 0, 1, 2, 3
ITEM = 4
"""columns"""
# columns of values
LABEL, IS_NULL, KEY = 0, 1, 2
OUT = 5
"""columns of the output"""
# in the script
_S_KEY, _S_LABEL = 0, 2
_AHEAD = 8
"""rounds between fetching a place and going there"""
_FEW = 4
"""of a list's items, so many are fetched ahead"""


@njit(cache=True, inline="always")
def _compared(left, i, right, j, order, descending):
    """Which of two items has its value first: negative, zero or positive. Nulls are last."""
    if left[i, _OWN_IS_NULL] != right[j, _OWN_IS_NULL]:
        return left[i, _OWN_IS_NULL] - right[j, _OWN_IS_NULL]
    if left[i, _OWN_IS_NULL]:
        return 0
    one, other = left[i, _OWN_LABEL], right[j, _OWN_LABEL]
    if len(order) > 0:
        one, other = order[one], order[other]
    if one == other:
        return 0
    return -1 if (one < other) != descending else 1


@njit(cache=True, inline="always")
def _copy(source, i, target, j):
    for a in range(ITEM):
        target[j, a] = source[i, a]


@njit(cache=True)
def _first_of_value(items, low, size, diff, d, order, descending):
    """The first item from `low` on whose value is not before that of item d."""
    high = size
    while low < high:
        middle = (low + high) // 2
        if _compared(items, middle, diff, d, order, descending) < 0:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True)
def _move(items, size, p, copies, values, order, descending):
    """Add so many copies of p, or take them away; how many items there are now. There is room for 2."""
    if copies == 0:
        return size
    # first behind all others, where it can be compared
    own = size + 1
    items[own, NUMBER], items[own, COPIES] = p, copies
    items[own, _OWN_LABEL], items[own, _OWN_IS_NULL] = values[p, LABEL], values[p, IS_NULL]
    low, high = 0, size
    while low < high:
        middle = (low + high) // 2
        which = _compared(items, middle, items, own, order, descending)
        if which < 0 or (which == 0 and items[middle, NUMBER] < p):
            low = middle + 1
        else:
            high = middle
    if low < size and items[low, NUMBER] == p:
        items[low, COPIES] += copies
        if items[low, COPIES] != 0:
            return size
        for i in range(low, size - 1):
            _copy(items, i + 1, items, i)
        return size - 1
    for i in range(size, low, -1):
        _copy(items, i - 1, items, i)
    _copy(items, own, items, low)
    return size + 1


@njit(cache=True)
def _with_room(table, used, rows):
    """The table, or a larger one with its used rows."""
    if rows <= len(table):
        return table
    larger = np.empty((max(rows, 2 * len(table)), table.shape[1]), dtype=np.int64)
    larger[:used] = table[:used]
    return larger


@njit(cache=True)
def _load(lists, pool, k, items):
    start, size = lists[k, START], lists[k, SIZE]
    for i in range(size):
        _copy(pool, start + i, items, i)
    return size


@njit(cache=True)
def _store(lists, pool, top, k, items, size):
    """Write a list back, at the top if it does not fit its slab; where the top is then."""
    if size > lists[k, ROOM]:
        lists[k, START], lists[k, ROOM] = top, 2 * size
        top += 2 * size
    lists[k, SIZE] = size
    start = lists[k, START]
    for i in range(size):
        _copy(items, i, pool, start + i)
    return top


@njit(cache=True)
def _end_of_key(script, s, k):
    """Where the script of a key ends that starts at s."""
    while s < len(script) and script[s, _S_KEY] == k:
        s += 1
    return s


@njit(cache=True, inline="always")
def _say(out, n, copies, vs, old_ve, new_ve, p, place):
    for i in range(n, n + copies):
        out[i, 0], out[i, 1], out[i, 2], out[i, 3], out[i, 4] = vs, old_ve, new_ve, p, place
    return n + copies


@njit(cache=True)
def _say_changes(out, n, vs, shown, end, items, size, diff, diffs, order, descending):
    """Rows from vs to `shown`, of the items without the difference, become rows of the items, to `end`.

    An end at vs means that there are none.
    """
    moved = end != shown
    if not moved and (end == vs or diffs == 0):
        return n
    i = d = 0
    # new copies of values before this one; how many more than there were
    before = shift = 0
    while True:
        if not moved and shift == 0:
            if d == diffs:
                break
            stop = _first_of_value(items, i, size, diff, d, order, descending)
            for x in range(i, stop):
                before += items[x, COPIES]
            i = stop
        # the first of the items with the next value
        if i < size and (d == diffs or _compared(items, i, diff, d, order, descending) <= 0):
            least, at = items, i
        elif d < diffs:
            least, at = diff, d
        else:
            break
        place, old_place = before + 1, before + 1 - shift
        if least[at, _OWN_IS_NULL]:
            place = old_place = 0
        while True:
            is_item = i < size and _compared(items, i, least, at, order, descending) == 0
            is_diff = d < diffs and _compared(diff, d, least, at, order, descending) == 0
            if is_item and is_diff:
                is_item, is_diff = (
                    items[i, NUMBER] <= diff[d, NUMBER],
                    items[i, NUMBER] >= diff[d, NUMBER],
                )
            elif not is_item and not is_diff:
                break
            p = items[i, NUMBER] if is_item else diff[d, NUMBER]
            new = items[i, COPIES] if is_item else 0
            more = diff[d, COPIES] if is_diff else 0
            old = new - more
            same = min(old, new) if place == old_place else 0
            if moved:
                n = _say(out, n, same, vs, shown, end, p, place)
            if shown > vs:
                n = _say(out, n, old - same, vs, shown, vs, p, old_place)
            if end > vs:
                n = _say(out, n, new - same, vs, vs, end, p, place)
            before += new
            shift += more
            i += is_item
            d += is_diff
    return n


@njit(cache=True)
def follow(
    slabs, entries, scratch, touched, first, changes,  # of timelines
    record_slabs, records,
    cursors,  # of each touched key: where it stood before
    script,
    values, order, descending,
    lists, pool, top,
    open_ended,  # show the last entry's rows as [vs, INF)
    out,
    is_cut, since,  # as in endpoints.emit
):  # fmt: skip
    """Lead each list through what was touched, and say what changes.

    Pool and output may have to be replaced by larger ones: they, the pool's top, and the number of rows.
    """
    n = s = 0
    items = np.empty((64, ITEM), dtype=np.int64)
    diff = np.empty((16, ITEM), dtype=np.int64)
    for c in range(len(touched)):
        if c + 3 * _AHEAD < len(touched):
            prefetch(lists, touched[c + 3 * _AHEAD, T_KEY])
            prefetch(pool, lists[touched[c + 2 * _AHEAD, T_KEY], START])
            for change in range(first[c + _AHEAD], first[c + _AHEAD + 1]):
                prefetch(values, changes[change, LABELS])
        k, x, i, olds, news = touched[c]
        j, stop = first[c], first[c + 1]
        size, diffs = lists[k, SIZE], 0
        items = _with_room(items, 0, size + _end_of_key(script, s, k) - s + 2)
        diff = _with_room(diff, 0, stop - j + 2)
        _load(lists, pool, k, items)
        q = _first_from(records, record_slabs[k, START], record_slabs[k, SIZE], changes[j, TIME])
        for _ in range(abs(cursors[c] - q)):
            if s + 2 * _AHEAD < len(script):
                prefetch(values, script[s + 2 * _AHEAD, _S_LABEL])
            size = _move(items, size, script[s, _S_LABEL], script[s, COUNT], values, order, descending)
            s += 1
        base = slabs[k, START]
        end_of_slab = base + slabs[k, SIZE]
        stop_old, stop_new = i + olds, x + news
        if x > base and entries[x - 1, SUMS] > 0:
            shown = entries[x - 1, SHOWN]
            end = INF if open_ended else shown
            if x < end_of_slab:
                end = entries[x, TIME]
            out = _with_room(out, n, n + entries[x - 1, SUMS])
            n = _say_changes(
                out, n, entries[x - 1, TIME], shown, end, items, size, diff, 0, order, descending
            )
            entries[x - 1, SHOWN] = end
        while i < stop_old or x < stop_new:
            old_here, new_here = i < stop_old, x < stop_new
            if old_here and new_here:
                old_here, new_here = (
                    scratch[i, TIME] <= entries[x, TIME],
                    entries[x, TIME] <= scratch[i, TIME],
                )
            time = entries[x, TIME] if new_here else scratch[i, TIME]
            while j < stop and changes[j, TIME] <= time:
                p, copies = changes[j, LABELS], changes[j, LABELS + 1]
                diffs = _move(diff, diffs, p, copies, values, order, descending)
                j += 1
            shown = scratch[i, SHOWN] if old_here else time
            room = scratch[i, SUMS] if old_here else 0
            end = time
            if new_here:
                while script[s, COUNT] != 0:
                    if s + 2 * _AHEAD < len(script):
                        prefetch(values, script[s + 2 * _AHEAD, _S_LABEL])
                    p, copies = script[s, _S_LABEL], script[s, COUNT]
                    size = _move(items, size, p, copies, values, order, descending)
                    s += 1
                # the read of this entry
                s += 1
                room += entries[x, SUMS]
                if entries[x, SUMS] > 0:
                    if x + 1 < end_of_slab:
                        end = entries[x + 1, TIME]
                    else:
                        # no endpoint up to the horizon: what is there now is so as far as was shown
                        end = INF if open_ended else shown
                entries[x, SHOWN] = end
            out = _with_room(out, n, n + room)
            n = _say_changes(out, n, time, shown, end, items, size, diff, diffs, order, descending)
            i += old_here
            x += new_here
        pool = _with_room(pool, top, top + 2 * size)
        top = _store(lists, pool, top, k, items, size)
        is_cut[c], since[c] = False, INF
        if end_of_slab > base and not open_ended:
            last = end_of_slab - 1
            is_cut[c] = entries[last, SHOWN] > entries[last, TIME]
            if entries[last, SUMS] > 0 and not is_cut[c]:
                since[c] = entries[last, TIME]
    return pool, top, out, n


@njit(cache=True)
def move(script, values, order, descending, lists, pool, top):
    """Make moves without a look at entries. The pool, which may have been replaced, and its top."""
    items = np.empty((64, ITEM), dtype=np.int64)
    s = 0
    while s < len(script):
        k = script[s, _S_KEY]
        stop = _end_of_key(script, s, k)
        items = _with_room(items, 0, lists[k, SIZE] + stop - s + 2)
        size = _load(lists, pool, k, items)
        for at in range(s, stop):
            size = _move(items, size, script[at, _S_LABEL], script[at, COUNT], values, order, descending)
        pool = _with_room(pool, top, top + 2 * size)
        top = _store(lists, pool, top, k, items, size)
        s = stop
    return pool, top


@njit(cache=True)
def mark(slabs, table, column, used):
    """Which payloads these slabs speak of."""
    for k in range(len(slabs)):
        if k + 2 * _AHEAD < len(slabs):
            prefetch(table, slabs[k + 2 * _AHEAD, START])
            soon = slabs[k + _AHEAD]
            for x in range(soon[START], soon[START] + min(soon[SIZE], _FEW)):
                prefetch_at(used, table[x, column])
        for x in range(slabs[k, START], slabs[k, START] + slabs[k, SIZE]):
            used[table[x, column]] = True


@njit(cache=True)
def rename(slabs, table, column, numbers):
    """Payloads have new numbers."""
    for k in range(len(slabs)):
        if k + 2 * _AHEAD < len(slabs):
            prefetch(table, slabs[k + 2 * _AHEAD, START])
            soon = slabs[k + _AHEAD]
            for x in range(soon[START], soon[START] + min(soon[SIZE], _FEW)):
                prefetch_at(numbers, table[x, column])
        for x in range(slabs[k, START], slabs[k, START] + slabs[k, SIZE]):
            table[x, column] = numbers[table[x, column]]


@njit(cache=True)
def relabel(slabs, pool, values):
    """Values have new labels, and so have the items of these lists."""
    for k in range(len(slabs)):
        for x in range(slabs[k, START], slabs[k, START] + slabs[k, SIZE]):
            pool[x, _OWN_LABEL] = values[pool[x, NUMBER], LABEL]


@njit(cache=True)
def mark_at(places, table, column, used):
    """Which payloads these rows speak of."""
    for x in places:
        used[table[x, column]] = True


@njit(cache=True)
def rename_at(places, table, column, numbers):
    """Payloads have new numbers in these rows."""
    for i in range(len(places)):
        if i + _AHEAD < len(places):
            prefetch_at(numbers, table[places[i + _AHEAD], column])
        table[places[i], column] = numbers[table[places[i], column]]


@njit(cache=True)
def lengthened(key, vs, old_ve, new_ve, order, descending, lists, pool):
    """The rows of these keys' lists, all of a list with the same ends."""
    rows = 0
    for c in range(len(key)):
        start = lists[key[c], START]
        for x in range(start, start + lists[key[c], SIZE]):
            rows += pool[x, COPIES]
    out = np.empty((rows, OUT), dtype=np.int64)
    none = np.empty((0, ITEM), dtype=np.int64)
    n = 0
    for c in range(len(key)):
        start, size = lists[key[c], START], lists[key[c], SIZE]
        n = _say_changes(
            out, n, vs[c], old_ve[c], new_ve[c], pool[start : start + size], size, none, 0,
            order, descending,
        )  # fmt: skip
    return out
