"""Records: who comes and who goes at each endpoint, for results that are not sums.

A minimum, a median, a user's own function need the events themselves. For every key the records say,
sorted by time, how many events with which labels begin (count > 0) or end (count < 0) there. A *cursor*
stands somewhere on this timeline, and whoever holds the group as it is at the cursor can follow it: each
record that the cursor passes is a move, adding or removing so many copies; backwards it is undone.

A batch touches a stretch of the timeline. The cursor goes there from where it is, and on through the
stretch with a read at every entry: the cost is that of the stretch and of the way to it, in moves, and
not of the group. In-order input never goes far, since the cursor waits where the last stretch ended.

    script   key, count (0: read the result of an entry), labels; for a read the first label is the entry

Columns of a record: time, count, labels. Slabs and changes are those of endpoints.py.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
# ruff: noqa: PLR0917

from __future__ import annotations

from numba import njit

from slackwater.kernels.endpoints import (
    FEW_ENTRIES,
    INF,
    LABELS,
    MARK,
    SIZE,
    START,
    T_FIRST,
    T_KEY,
    T_NEW,
    TIME,
    _first_from,
    _rooms,
    leave,
)
from slackwater.kernels.prefetch import prefetch

__all__ = ["COUNT", "CURSOR", "S_COUNT", "S_KEY", "S_LABELS", "close", "follow", "forget", "script_room"]

COUNT = 1
CURSOR = MARK
"""the column of a slab"""
_AHEAD = 8
"""rounds between fetching a place and going there"""
# columns of a script
S_KEY, S_COUNT, S_LABELS = 0, 1, 2


@njit(cache=True, inline="always")
def _fetch(slabs, records, far, near):
    """Where a key is that comes later, and the last records of one that comes soon."""
    prefetch(slabs, far)
    last = slabs[near, START] + slabs[near, SIZE] - 1
    prefetch(records, last + 1)
    prefetch(records, last - 1)


@njit(cache=True)
def script_room(slabs, records, keys, first, changes, touched):
    """Rows of the pool to allot, moves and reads that `follow` makes at most, and its scratch."""
    pool = moves = scratch = 0
    for i in range(len(keys)):
        if i + 2 * _AHEAD < len(keys):
            _fetch(slabs, records, keys[i + 2 * _AHEAD], keys[i + _AHEAD])
        start, size, room, cursor = slabs[keys[i]]
        new = first[i + 1] - first[i]
        if size + new > room:
            pool += 1 << _rooms(size + new)
        q = _first_from(records, start, size, changes[first[i], TIME])
        tail = size - q
        moves += abs(cursor - q) + tail + new + touched[i, T_NEW]
        scratch = max(scratch, tail)
    return pool, moves, scratch


@njit(cache=True, inline="always")
def _is_before(left, i, right, j, labels):
    """Whether record i comes before change j: negative; zero if it is about the same."""
    if left[i, TIME] != right[j, TIME]:
        return -1 if left[i, TIME] < right[j, TIME] else 1
    for a in range(labels):
        if left[i, 2 + a] != right[j, LABELS + a]:
            return -1 if left[i, 2 + a] < right[j, LABELS + a] else 1
    return 0


@njit(cache=True, inline="always")
def _move(script, n, key, count, records, x, labels):
    script[n, S_KEY], script[n, S_COUNT] = key, count
    for a in range(labels):
        script[n, S_LABELS + a] = records[x, 2 + a]


@njit(cache=True)
def follow(
    slabs, records,
    first, changes, labels,  # of each touched key
    touched, entries,
    scratch, script,
):  # fmt: skip
    """Merge the changes into the records, and lead the cursor through what they touch.

    How long the script is, and by how much the number of records has grown.
    """
    n = grown = 0
    for c in range(len(touched)):
        if c + 2 * _AHEAD < len(touched):
            near, far = touched[c + _AHEAD, T_KEY], touched[c + 2 * _AHEAD, T_KEY]
            _fetch(slabs, records, far, near)
            prefetch(entries, touched[c + _AHEAD, T_FIRST])
        k = touched[c, T_KEY]
        base, size = slabs[k, START], slabs[k, SIZE]
        j, stop = first[c], first[c + 1]
        q = _first_from(records, base, size, changes[j, TIME])
        at = slabs[k, CURSOR]
        while at > q:
            at -= 1
            _move(script, n, k, -records[base + at, COUNT], records, base + at, labels)
            n += 1
        while at < q:
            _move(script, n, k, records[base + at, COUNT], records, base + at, labels)
            n += 1
            at += 1

        tail = size - q
        for x in range(tail):
            for a in range(2 + labels):
                scratch[x, a] = records[base + q + x, a]
        i, w = 0, base + q
        while j < stop or i < tail:
            which = 0
            if i == tail:
                which = 1
            elif j == stop:
                which = -1
            else:
                which = _is_before(scratch, i, changes, j, labels)
            count = 0
            if which <= 0:
                for a in range(2 + labels):
                    records[w, a] = scratch[i, a]
                count = scratch[i, COUNT]
                i += 1
            else:
                records[w, TIME] = changes[j, TIME]
                for a in range(labels):
                    records[w, 2 + a] = changes[j, LABELS + a]
            if which >= 0:
                count += changes[j, LABELS + labels]
                j += 1
            if count != 0:
                records[w, COUNT] = count
                w += 1
        new_size = w - base
        slabs[k, SIZE] = new_size
        grown += new_size - size

        for x in range(touched[c, T_FIRST], touched[c, T_FIRST] + touched[c, T_NEW]):
            while at < new_size and records[base + at, TIME] <= entries[x, TIME]:
                _move(script, n, k, records[base + at, COUNT], records, base + at, labels)
                n += 1
                at += 1
            script[n, S_KEY], script[n, S_COUNT], script[n, S_LABELS] = k, 0, x
            n += 1
        slabs[k, CURSOR] = at
    return n, grown


@njit(cache=True)
def forget(slabs, records, labels, cti, script):
    """Forget the records before the cti; the cursor goes past them.

    How long the script is, and how many records are left.
    """
    n = left = 0
    for k in range(len(slabs)):
        if k + _AHEAD < len(slabs):
            prefetch(records, slabs[k + _AHEAD, START])
            prefetch(records, slabs[k + _AHEAD, START] + slabs[k + _AHEAD, SIZE] - 1)
        gone = _first_from(records, slabs[k, START], slabs[k, SIZE], cti)
        n = _drop(slabs, records, labels, k, gone, script, n)
        left += slabs[k, SIZE]
    return n, left


@njit(cache=True)
def close(slabs, records, free, labels, keys, until, script):
    """The same for some keys, of each up to a time of its own; at INF all, which leaves nobody alive.

    How long the script is, and how many records went.
    """
    n = went = 0
    for i in range(len(keys)):
        k = keys[i]
        size = slabs[k, SIZE]
        gone = size if until[i] == INF else _first_from(records, slabs[k, START], size, until[i])
        if until[i] < INF and size > FEW_ENTRIES and 2 * gone < size:
            continue
        n = _drop(slabs, records, labels, k, gone, script, n)
        went += gone
        if until[i] == INF:
            leave(slabs, records, free, k)
    return n, went


@njit(cache=True)
def _drop(slabs, records, labels, k, gone, script, n):
    """Forget so many records of a key; the cursor goes past them. How long the script is then."""
    base, size, _, at = slabs[k]
    while at < gone:
        _move(script, n, k, records[base + at, COUNT], records, base + at, labels)
        n += 1
        at += 1
    for x in range(base, base + size - gone):
        for a in range(2 + labels):
            records[x, a] = records[x + gone, a]
    slabs[k, SIZE] = size - gone
    slabs[k, CURSOR] = at - gone
    return n
