"""Pairs: events arranged by key and start, and which of them are alive together.

The events of a key lie in a slab of a common pool, sorted by (vs, hash of the payload): a row of the
pool is (vs, ve, hash, number of the payload), a row of `slabs` says where a key's slab starts, how many
events it holds, how many would fit, and an upper bound of their ends. Slabs that are long are cut into
blocks, and `latest` has such a bound for each block: a search passes over what ended long ago.

- `arranged` puts new events in order: by key with a count, by start one by one, since they nearly are.
- `insert` merges them into the slabs, from the back: it touches what comes after them, no more.
- `adjust` moves the ends of events, found by (vs, hash, end), and notes the least that each end was; an
  event that is gone stays behind with ve = vs, where it overlaps nothing, until the next `survivors`.
- `overlapping` finds, for events whose end moved, whom that concerns. Where an event of [vs, before)
  becomes one of [vs, now) and meets one of [r_vs, r_ve), their common lifetime starts at max(vs, r_vs)
  and its end moves from min(before, r_ve) to min(now, r_ve), neither less than that start: inserts,
  adjusts and removals fall out of one formula.

Paper 1b section 4.3 (the "multidimensional structure" of a hash bucket).
"""

# mypy: allow-untyped-defs, allow-untyped-calls
# ruff: noqa: PLR0917

from __future__ import annotations

import numpy as np
from numba import njit

from slackwater.kernels.prefetch import prefetch

__all__ = [
    "BLOCK",
    "COLUMNS",
    "adjust",
    "arranged",
    "close",
    "events_of",
    "insert",
    "overlapping",
    "places",
    "rebuild",
    "room_needed",
    "survivors",
]

BLOCK = 32
COLUMNS = 4
VS, VE, HASH, ROW = range(COLUMNS)
START, SIZE, ROOM, LATEST = range(COLUMNS)

BEGIN = np.int64(-(2**63))
INF = np.int64(2**63 - 1)

_FEW = 8
"""places that a new event moves on the average; beyond that, they are not sorted one by one"""
_SOME = 4
"""fewer events of a key, when all are laid anew, get no room for more"""
_AHEAD = 16
"""rounds between fetching a slab's place, and then its first events, and going there"""


@njit(cache=True)
def _room_for(size):
    """Twice as much as is needed, and not so little that it will soon move; whole blocks if several."""
    room = max(2 * size, 4)
    return room if room < BLOCK else (room + BLOCK - 1) // BLOCK * BLOCK


@njit(cache=True)
def _first_room(size):
    """For the first events of a key no more than they need: of many keys no more comes."""
    return size if size < BLOCK else (size + BLOCK - 1) // BLOCK * BLOCK


@njit(cache=True)
def _room_again(size):
    """For what is left of a key: where few events are, it may well be that no more comes."""
    return size if size < _SOME else _room_for(size)


@njit(cache=True)
def room_needed(slabs, key, is_anew):
    """Pool rows to allot before the inserts, sorted by key, can be made; alignment included.

    `is_anew`: they are all that is left, and `rebuild` lays them.
    """
    needed = 0
    i = 0
    while i < len(key):
        j = i
        while j < len(key) and key[j] == key[i]:
            if j + _AHEAD < len(key):
                prefetch(slabs, key[j + _AHEAD])
            j += 1
        size = slabs[key[i], SIZE] + (j - i)
        if size > slabs[key[i], ROOM]:
            if is_anew:
                room = _room_again(size)
            else:
                room = _room_for(size) if slabs[key[i], ROOM] else _first_room(size)
            needed += room if room < BLOCK else room + BLOCK
        i = j
    return needed


@njit(cache=True)
def _allot(slabs, k, room, top):
    """Give a key a slab at the top of the pool; the new top."""
    if room >= BLOCK:
        top = (top + BLOCK - 1) // BLOCK * BLOCK
    slabs[k, START] = top
    slabs[k, ROOM] = room
    return top + room


@njit(cache=True)
def _bound(slabs, k, pool, latest, first):
    """Renew the bounds of a slab's blocks from its event number `first` on."""
    if slabs[k, ROOM] < BLOCK:
        return
    start, size = slabs[k, START], slabs[k, SIZE]
    for block in range(first // BLOCK, (size + BLOCK - 1) // BLOCK):
        end = BEGIN
        for i in range(start + block * BLOCK, start + min(size, (block + 1) * BLOCK)):
            end = max(end, pool[i, VE])
        latest[start // BLOCK + block] = end


@njit(cache=True, inline="always")
def _put(pool, at, vs, ve, hashed, row):
    pool[at, VS], pool[at, VE], pool[at, HASH], pool[at, ROW] = vs, ve, hashed, row


@njit(cache=True, inline="always")
def _copy(pool, source, target):
    _put(pool, target, pool[source, VS], pool[source, VE], pool[source, HASH], pool[source, ROW])


@njit(cache=True)
def places(key, keys):
    """Where each event goes if those of a key are put together, in their order."""
    following = np.zeros(keys + 1, dtype=np.int64)
    for k in key:
        following[k + 1] += 1
    for k in range(keys):
        following[k + 1] += following[k]
    place = np.empty(len(key), dtype=np.int64)
    for i in range(len(key)):
        place[i] = following[key[i]]
        following[key[i]] += 1
    return place


@njit(cache=True, inline="always")
def _is_behind(pool, i, vs, hashed):
    return pool[i, VS] > vs or (pool[i, VS] == vs and pool[i, HASH] > hashed)


@njit(cache=True)
def arranged(place, key, vs, ve, hashes, first_row, events):
    """Fill in events as they lie in a pool, by (key, vs, hash); the key of each.

    `place` has them by key. Event i has the payload number first_row + i.
    """
    own = np.empty(len(key), dtype=np.int64)
    for i in range(len(key)):
        own[place[i]] = key[i]
        _put(events, place[i], vs[i], ve[i], hashes[i], first_row + i)
    i = 0
    while i < len(own):
        j = i + 1
        moves = 0
        # most come nearly in order
        while j < len(own) and own[j] == own[i] and moves <= _FEW * (j - i):
            e_vs, e_ve, hashed, row = events[j, VS], events[j, VE], events[j, HASH], events[j, ROW]
            at = j
            while at > i and _is_behind(events, at - 1, e_vs, hashed):
                _copy(events, at - 1, at)
                at -= 1
            _put(events, at, e_vs, e_ve, hashed, row)
            moves += j - at
            j += 1
        if j < len(own) and own[j] == own[i]:
            while j < len(own) and own[j] == own[i]:
                j += 1
            _sort(events[i:j])
        i = j
    return own


@njit(cache=True)
def _sort(events):
    """Any events, by (vs, hash)."""
    # the lesser first: the other order keeps what is equal as it is
    by_hash = events[np.argsort(events[:, HASH], kind="mergesort")]
    events[:] = by_hash[np.argsort(by_hash[:, VS], kind="mergesort")]


@njit(cache=True, inline="always")
def _fetch_last(slabs, pool, k):
    """Fetch the last events of a slab, and the place behind them."""
    prefetch(pool, slabs[k, START] + slabs[k, SIZE] - 1)
    prefetch(pool, slabs[k, START] + slabs[k, SIZE])


@njit(cache=True)
def insert(slabs, pool, latest, top, key, events):
    """Merge events, arranged by (key, vs, hash), into their slabs; the new top and where each lies."""
    where = np.empty(len(key), dtype=np.int64)
    i = 0
    while i < len(key):
        k = key[i]
        j = i
        while j < len(key) and key[j] == k:
            if j + _AHEAD < len(key):
                _fetch_last(slabs, pool, key[j + _AHEAD])
            j += 1
        size = slabs[k, SIZE]
        if size + (j - i) > slabs[k, ROOM]:
            old = slabs[k, START]
            room = _room_for(size + (j - i)) if slabs[k, ROOM] else _first_room(j - i)
            top = _allot(slabs, k, room, top)
            new = slabs[k, START]
            for e in range(size):
                _copy(pool, old + e, new + e)
            _bound(slabs, k, pool, latest, 0)
        start = slabs[k, START]
        end = slabs[k, LATEST] if size else BEGIN
        last = size - 1
        to = size + (j - i) - 1
        for e in range(j - 1, i - 1, -1):
            vs, ve, hashed = events[e, VS], events[e, VE], events[e, HASH]
            while last >= 0 and _is_behind(pool, start + last, vs, hashed):
                _copy(pool, start + last, start + to)
                last -= 1
                to -= 1
            _put(pool, start + to, vs, ve, hashed, events[e, ROW])
            where[e] = start + to
            to -= 1
            end = max(end, ve)
        slabs[k, SIZE] = size + (j - i)
        slabs[k, LATEST] = end
        _bound(slabs, k, pool, latest, to + 1)
        i = j
    return top, where


@njit(cache=True)
def _find(pool, start, size, vs, hashed):
    """The first event of a slab that is not before (vs, hash)."""
    low, high = start, start + size
    while low < high:
        middle = (low + high) // 2
        if pool[middle, VS] < vs or (pool[middle, VS] == vs and pool[middle, HASH] < hashed):
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True)
def adjust(slabs, pool, latest, key, vs, old_ve, new_ve, hashes, first_row):
    """Move the ends of events, in order.

    For each adjust the payload number of the event that it met, or -1; then, for each event that was
    there before payload first_row, its key, where it lies, its end before and the least that it had.
    """
    met = np.full(len(key), -1, dtype=np.int64)
    touched_key = np.empty(len(key), dtype=np.int64)
    touched = np.empty(len(key), dtype=np.int64)
    touched_row = np.empty(len(key), dtype=np.int64)
    before = np.empty(len(key), dtype=np.int64)
    least = np.empty(len(key), dtype=np.int64)
    count = 0
    for i in range(len(key)):
        k = key[i]
        start, stop = slabs[k, START], slabs[k, START] + slabs[k, SIZE]
        at = _find(pool, start, slabs[k, SIZE], vs[i], hashes[i])
        while at < stop and pool[at, VS] == vs[i] and pool[at, HASH] == hashes[i]:
            if pool[at, VE] == old_ve[i]:
                row = pool[at, ROW]
                if 0 <= row < first_row:
                    touched_key[count], touched[count], touched_row[count] = k, at, row
                    before[count] = least[count] = old_ve[i]
                    # a negative number says: touched already, and which of the touched it is
                    pool[at, ROW] = ~count
                    count += 1
                which = ~pool[at, ROW]
                if which >= 0:
                    row = touched_row[which]
                    least[which] = min(least[which], new_ve[i])
                met[i] = row
                pool[at, VE] = new_ve[i]
                slabs[k, LATEST] = max(slabs[k, LATEST], new_ve[i])
                if slabs[k, ROOM] >= BLOCK:
                    block = start // BLOCK + (at - start) // BLOCK
                    latest[block] = max(latest[block], new_ve[i])
                break
            at += 1
    for i in range(count):
        pool[touched[i], ROW] = touched_row[i]
    return met, touched_key[:count], touched[:count], before[:count], least[:count]


@njit(cache=True)
def overlapping(slabs, pool, latest, key, vs, before, now, first, o_vs, o_old, o_new, o_mine, o_row):
    """For events from number `first` on, whose end moves from `before` to `now`: all that it changes.

    Fills the output with the common lifetimes, the number of the event and the payload number of whom it
    meets, as far as there is room. The first event that is not done, and the rows of output.
    """
    out = 0
    for i in range(first, len(key)):
        if i + 2 * _AHEAD < len(key):
            prefetch(slabs, key[i + 2 * _AHEAD])
            prefetch(pool, slabs[key[i + _AHEAD], START])
        low, high = min(before[i], now[i]), max(before[i], now[i])
        if low == high:
            continue
        done = out
        k = key[i]
        start, size = slabs[k, START], slabs[k, SIZE]
        if slabs[k, LATEST] <= low:
            continue
        blocks = slabs[k, ROOM] >= BLOCK
        e = 0
        while e < size:
            if blocks and e % BLOCK == 0 and latest[start // BLOCK + e // BLOCK] <= low:
                e += BLOCK
                continue
            r_vs, r_ve = pool[start + e, VS], pool[start + e, VE]
            if r_vs >= high:
                break
            if r_ve > low:
                begin = max(vs[i], r_vs)
                old, new = max(begin, min(before[i], r_ve)), max(begin, min(now[i], r_ve))
                if old != new:
                    if out == len(o_vs):
                        return i, done
                    o_vs[out], o_old[out], o_new[out] = begin, old, new
                    o_mine[out], o_row[out] = i, pool[start + e, ROW]
                    out += 1
            e += 1
    return len(key), out


@njit(cache=True, inline="always")
def _is_done(vs, end, own_cti, other_cti):
    return end == vs or ((end < own_cti or own_cti == INF) and end <= other_cti)


@njit(cache=True)
def close(slabs, pool, latest, keys, own_cti, other_cti):
    """Forget the events of some keys that can no longer matter; the payload numbers of those that went.

    Their room stays with the key.
    """
    total = 0
    for i in range(len(keys)):
        if i + _AHEAD < len(keys):
            prefetch(slabs, keys[i + _AHEAD])
        total += slabs[keys[i], SIZE]
    gone = np.empty(total, dtype=np.int64)
    count = 0
    for i in range(len(keys)):
        if i + _AHEAD < len(keys):
            prefetch(pool, slabs[keys[i + _AHEAD], START])
        k = keys[i]
        start, size = slabs[k, START], slabs[k, SIZE]
        to, first = start, -1
        for at in range(start, start + size):
            if _is_done(pool[at, VS], pool[at, VE], own_cti[i], other_cti[i]):
                gone[count] = pool[at, ROW]
                count += 1
                if first < 0:
                    first = at - start
            else:
                if to != at:
                    _copy(pool, at, to)
                to += 1
        slabs[k, SIZE] = to - start
        if first >= 0:
            _bound(slabs, k, pool, latest, first)
    return gone[:count]


@njit(cache=True)
def events_of(slabs, pool, keys):
    """The payload numbers of the events of some keys, and of which of the keys each is."""
    total = 0
    for k in keys:
        total += slabs[k, SIZE]
    row, which = np.empty(total, dtype=np.int64), np.empty(total, dtype=np.int64)
    n = 0
    for i in range(len(keys)):
        start = slabs[keys[i], START]
        for at in range(start, start + slabs[keys[i], SIZE]):
            row[n], which[n] = pool[at, ROW], i
            n += 1
    return row, which


@njit(cache=True)
def survivors(slabs, pool, own_cti, other_cti, alive, key, events):
    """The events that can still change or meet a change, with their keys, in the order of the slabs.

    No element of its own stream can name an event that ends before that stream's cti, and none of the
    other stream concerns one that ends at that one's cti or before it; there is one of each for every
    key, or one for all. `key` and `events` have room for all that there are. `alive` has a place for
    each payload, and says then which are left; the slabs are empty afterwards. How many they are.
    """
    count = 0
    alive[:] = False
    own, other = own_cti[0], other_cti[0]
    by_key = len(own_cti) > 1
    for k in range(len(slabs)):
        if k + _AHEAD < len(slabs):
            prefetch(pool, slabs[k + _AHEAD, START])
        if by_key:
            own, other = own_cti[k], other_cti[k]
        start = slabs[k, START]
        for at in range(start, start + slabs[k, SIZE]):
            end = pool[at, VE]
            if _is_done(pool[at, VS], end, own, other):
                continue
            key[count] = k
            events[count, VS], events[count, VE] = pool[at, VS], end
            events[count, HASH], events[count, ROW] = pool[at, HASH], pool[at, ROW]
            alive[pool[at, ROW]] = True
            count += 1
        slabs[k, START] = slabs[k, SIZE] = slabs[k, ROOM] = 0
    return count


@njit(cache=True)
def rebuild(slabs, pool, latest, key, events):
    """Lay events, in order of (key, vs, hash), into an empty pool; the top."""
    top = 0
    i = 0
    while i < len(key):
        k = key[i]
        j = i
        while j < len(key) and key[j] == k:
            j += 1
        top = _allot(slabs, k, _room_again(j - i), top)
        slabs[k, SIZE] = j - i
        at = slabs[k, START]
        slabs[k, LATEST] = BEGIN
        for e in range(i, j):
            slabs[k, LATEST] = max(slabs[k, LATEST], events[e, VE])
            _put(pool, at, events[e, VS], events[e, VE], events[e, HASH], events[e, ROW])
            at += 1
        _bound(slabs, k, pool, latest, 0)
        i = j
    return top
