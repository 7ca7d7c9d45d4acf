"""Endpoints: for every key, what holds between one endpoint of its events and the next.

An event that is alive during [vs, ve) adds its weights at vs and takes them away at ve. A *timeline* is
the sequence of a key's endpoints with, at each, how many events begin or end there (refs) and the sums
of all weights from there on. Everything that depends on a group through such sums is computed here.

A batch goes through five steps, each a loop over what it touches:

    spread      rows -> changes: weights that are added from a time on, near the horizon or beyond it
    by_key      near changes -> the same, by key and time, equal ones summed
    make_room   slabs that are too small move to the top of the pool
    merge       changes into entries; what was there before stays in a scratch table
    emit        scratch and entries -> the rows that change

Between the last two others may compute results that are not sums (`R` columns of an entry).

Endpoints up to the horizon are *entries*, kept per key in a slab of a common pool, sorted by time. Those
beyond it are *pending*: changes in a calendar, which become entries when the horizon reaches them (the
papers' POS and ECQ). A row is shown from an entry to the next one; of the last entry, which is
still open at the horizon, either nothing is shown (beyond what had been shown before) or [vs, INF).
Where the horizon is INF from the beginning on, an end at INF need not be an entry (`endless`): a row
that is the last one and still open does not end, and a row that never ends takes one entry, not two.

- refs is separate from the count: an endpoint where as many events end as begin is still one
  (erratum 1).
- An entry that vanishes lengthens the row before it, whose sums are what they were (erratum 3).
- Weights are integers, so that sums are exact and what is taken away leaves no trace.

All tables are int64 matrices, one line of memory per row, since keys come in any order. Columns:

    change   time, key, refs, labels (as many as there are), sums
    entry    time, refs, shown end, sums, results
    slab     first entry, entries, room
    touched  key, first entry that changed, first row in scratch, rows there, entries that stand for them

Paper 1a section 3.2 to 3.5.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
# ruff: noqa: PLR0917, SIM110

from __future__ import annotations

import numpy as np
from numba import njit

from slackwater.kernels.prefetch import prefetch, prefetch_at

__all__ = [
    "by_key",
    "close",
    "compact",
    "emit",
    "make_room",
    "merge",
    "note_all",
    "note_open",
    "open_since",
    "pack_notes",
    "purge",
    "room_needed",
    "spread",
]

INF = np.int64(2**63 - 1)

# columns of a change
TIME, KEY, CHANGE_REFS, LABELS = 0, 1, 2, 3
# columns of an entry; its time is the first column, too
REFS, SHOWN, SUMS = 1, 2, 3
# columns of a slab; the last is free for who has the slabs: a note of the key, the cursor of its records
START, SIZE, ROOM, MARK = 0, 1, 2, 3
SLAB = 4
"""columns, so that no slab lies on two lines of the cache"""
# columns of what a batch has touched
T_KEY, T_FIRST, T_SCRATCH, T_OLD, T_NEW = 0, 1, 2, 3, 4

CHUNK = 1024
"""notes that are looked through together"""

_LEAST_ROOM = 2
"""as a power of two: a slab that is smaller would soon move"""
FEW_ENTRIES = 64
"""are moved whenever one before them goes"""
_FEW = 24
_WARM, _TRIED = 2048, 4096
"""rows up to the second of these show whether their changes meet, as it were with the table full"""
_MIX = np.uint64(0x9E3779B97F4A7C15)
_AHEAD = 8
"""rounds between fetching a place and going there"""


@njit(cache=True)
def spread(
    key, vs, old_ve, new_ve, labels, weights,  # rows
    horizon,
    endless,  # what ends at INF has no endpoint there
    near, far,  # room for two changes per row in each
    seen,  # all -1; as many as a power of two, or none
):  # fmt: skip
    """Each row takes its event's weights away at its old end, and adds them up to its new one.

    How many changes are near, and how many are beyond the horizon.

    In windows many events of a key begin and end together. `seen` has where changes went lately, by a
    hash of key and time; one that meets its like there is added to it. Where that is rare, it is given
    up. It needs changes without labels.
    """
    n = f = met = before = 0
    at_label, width = labels.shape[1], weights.shape[1]
    looks = len(seen) > 0
    for i in range(len(key)):
        if i == _WARM:
            met, before = 0, n + f
        if i == _TRIED and 4 * met < n + f - before:
            looks = False
        start, old, new = vs[i], old_ve[i], new_ve[i]
        if old == new:
            continue
        first, first_refs, first_sign = start, 1, 1
        second, second_refs, second_sign = new, 1, -1
        if old > start and new > start:
            first, first_refs, first_sign = old, -1, 1
        elif old > start:
            first, first_refs, first_sign = start, -1, -1
            second, second_refs, second_sign = old, -1, 1
        for time, refs, sign in (
            (first, first_refs, first_sign),
            (second, second_refs, second_sign),
        ):
            if endless and time == INF:
                continue
            if looks:
                mixed = (np.uint64(time) * _MIX + np.uint64(key[i])) * _MIX
                slot = (mixed >> np.uint64(32)) & np.uint64(len(seen) - 1)
                at = seen[slot]
                rows = near if time <= horizon else far
                if (
                    at >= 0
                    and at < (n if time <= horizon else f)
                    and rows[at, TIME] == time
                    and rows[at, KEY] == key[i]
                    and (rows[at, CHANGE_REFS] > 0) == (refs > 0)
                ):
                    rows[at, CHANGE_REFS] += refs
                    for a in range(width):
                        rows[at, LABELS + a] += sign * weights[i, a]
                    met += 1
                    continue
                seen[slot] = n if time <= horizon else f
            if time <= horizon:
                rows, at = near, n
                n += 1
            else:
                rows, at = far, f
                f += 1
            rows[at, TIME], rows[at, KEY], rows[at, CHANGE_REFS] = time, key[i], refs
            for a in range(at_label):
                rows[at, LABELS + a] = labels[i, a]
            for a in range(width):
                rows[at, LABELS + at_label + a] = sign * weights[i, a]
    return n, f


@njit(cache=True, inline="always")
def _copy(source, i, target, j):
    for a in range(source.shape[1]):
        target[j, a] = source[i, a]


@njit(cache=True, inline="always")
def _add_change(source, i, target, j, labels):
    target[j, CHANGE_REFS] += source[i, CHANGE_REFS]
    for a in range(LABELS + labels, source.shape[1]):
        target[j, a] += source[i, a]


@njit(cache=True, inline="always")
def _is_nothing(changes, i, labels):
    if changes[i, CHANGE_REFS] != 0:
        return False
    for a in range(LABELS + labels, changes.shape[1]):
        if changes[i, a] != 0:
            return False
    return True


@njit(cache=True, inline="always")
def _is_before(changes, i, time, j, other, labels):
    """Whether change i, at that time, comes before change j of the same key, at the other time."""
    if time != other:
        return time < other
    for a in range(LABELS, LABELS + labels):
        if changes[i, a] != changes[j, a]:
            return changes[i, a] < changes[j, a]
    return False


@njit(cache=True)
def _insert_each(index, times, low, high, most, changes, labels):
    """Sort index[low:high], one after the other; how far it has come with moves of so many places."""
    for i in range(low + 1, high):
        own, time = index[i], times[i]
        j = i
        while j > low and _is_before(changes, own, time, index[j - 1], times[j - 1], labels):
            index[j], times[j] = index[j - 1], times[j - 1]
            j -= 1
        index[j], times[j] = own, time
        most -= i - j
        if most < 0:
            return i + 1
    return high


@njit(cache=True)
def _sort_changes(index, times, high, spare, spare_times, changes, labels):
    """Sort index[:high], with their times, by time and labels; stable."""
    # most are nearly in order
    done = _insert_each(index, times, 0, high, _FEW * high // 2, changes, labels)
    if done == high:
        return
    for block in range(done // _FEW * _FEW, high, _FEW):
        _insert_each(index, times, block, min(block + _FEW, high), _FEW * _FEW, changes, labels)
    width = _FEW
    while width < high:
        for block in range(0, high, 2 * width):
            middle, stop = min(block + width, high), min(block + 2 * width, high)
            if middle == stop or not _is_before(
                changes, index[middle], times[middle], index[middle - 1], times[middle - 1], labels
            ):
                continue
            spare[block:middle] = index[block:middle]
            spare_times[block:middle] = times[block:middle]
            i, j, w = block, middle, block
            while i < middle:
                if j < stop and _is_before(
                    changes, index[j], times[j], spare[i], spare_times[i], labels
                ):
                    index[w], times[w] = index[j], times[j]
                    j += 1
                else:
                    index[w], times[w] = spare[i], spare_times[i]
                    i += 1
                w += 1
        width *= 2


@njit(cache=True)
def by_key(
    changes, count, labels,
    head,  # for each key -1; so again afterwards
    out, together, keys, first,  # room for as many
):  # fmt: skip
    """Changes of each key together, by time and labels, equal ones summed.

    How many keys, and how many changes are left; `first` says where each key's changes start.
    """
    met = 0
    for i in range(count):
        if i + _AHEAD < count:
            prefetch_at(head, changes[i + _AHEAD, KEY])
        k = changes[i, KEY]
        if head[k] < 0:
            head[k] = met
            keys[met], first[met] = k, 0
            met += 1
        first[head[k]] += 1
    most = total = 0
    for n in range(met):
        most = max(most, first[n])
        first[n], total = total, total + first[n]
    for i in range(count):
        if i + _AHEAD < count:
            prefetch_at(head, changes[i + _AHEAD, KEY])
        n = head[changes[i, KEY]]
        _copy(changes, i, together, first[n])
        first[n] += 1
    index = np.empty(most, dtype=np.int64)
    times = np.empty(most, dtype=np.int64)
    spare = np.empty(most, dtype=np.int64)
    spare_times = np.empty(most, dtype=np.int64)
    touched = w = begin = 0
    for n in range(met):
        k, end = keys[n], first[n]
        head[k] = -1
        for j in range(begin, end):
            index[j - begin], times[j - begin] = j, together[j, TIME]
        _sort_changes(index, times, end - begin, spare, spare_times, together, labels)
        start = w
        for j in range(end - begin):
            own = index[j]
            if j > 0 and not _is_before(together, index[j - 1], times[j - 1], own, times[j], labels):
                _add_change(together, own, out, w - 1, labels)
                continue
            if w > start and _is_nothing(out, w - 1, labels):
                w -= 1
            _copy(together, own, out, w)
            w += 1
        if _is_nothing(out, w - 1, labels):
            w -= 1
        begin = end
        if w > start:
            keys[touched], first[touched] = k, start
            touched += 1
    first[touched] = w
    return touched, w


@njit(cache=True, inline="always")
def _first_from(entries, start, size, time):
    """The first of a slab's entries that is not before that time: often one of the last."""
    high = size
    step = 1
    while high > 0 and entries[start + high - 1, TIME] >= time:
        high = max(high - step, 0)
        step *= 2
    low, high = high, min(high + step, size)
    while low < high:
        middle = (low + high) // 2
        if entries[start + middle, TIME] < time:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True)
def room_needed(slabs, entries, keys, first, changes):
    """For the changes by key: pool rows to allot, rows that can change, and scratch."""
    pool, scratch = 0, 0
    for i in range(len(keys)):
        if i + 2 * _AHEAD < len(keys):
            prefetch(slabs, keys[i + 2 * _AHEAD])
            last = slabs[keys[i + _AHEAD], START] + slabs[keys[i + _AHEAD], SIZE] - 1
            for x in range(3):
                prefetch(entries, last - x)
        k = keys[i]
        start, size, room, _ = slabs[k]
        new = first[i + 1] - first[i]
        if size + new > room:
            pool += 1 << _rooms(size + new)
        scratch += size - _first_from(entries, start, size, changes[first[i], TIME])
    return pool, 2 * (scratch + first[len(keys)]) + len(keys), scratch


@njit(cache=True, inline="always")
def _rooms(size):
    """The smallest n such that 2**n rows have room for so many; there are few small ones."""
    n = _LEAST_ROOM
    while (1 << n) < size:
        n += 1
    return n


@njit(cache=True)
def make_room(
    slabs, top, free, keys, first, entries,
    cti,  # what it has frozen may go
    has_cursors,  # ... if a key's cursor has passed it; or, without cursors, if its row has ended
):  # fmt: skip
    """Move the slabs that are too small for their changes; the new top, and how many entries went.

    Rooms are powers of two. `free` has the first slab of each size that was left; in its first column,
    each of them has the next.
    """
    gone = 0
    for i in range(len(keys)):
        if i + _AHEAD < len(keys):
            prefetch(slabs, keys[i + _AHEAD])
        k = keys[i]
        start, size, room, _ = slabs[k]
        new = first[i + 1] - first[i]
        if size + new > room:
            past = 0
            while past < size and entries[start + past, TIME] < cti:
                past += 1
            past = min(past, slabs[k, MARK]) if has_cursors else max(past - 1, 0)
            if past > 0:
                size -= past
                for x in range(start, start + size):
                    _copy(entries, x + past, entries, x)
                slabs[k, SIZE] = size
                gone += past
                if has_cursors:
                    slabs[k, MARK] -= past
        if size + new > room:
            n = _rooms(size + new)
            place = free[n]
            if place >= 0:
                free[n] = entries[place, TIME]
                prefetch(entries, free[n])
            else:
                place = top
                top += 1 << n
            for x in range(size):
                _copy(entries, start + x, entries, place + x)
            if room > 0:
                old = _rooms(room)
                entries[start, TIME] = free[old]
                free[old] = start
            slabs[k, START] = place
            slabs[k, ROOM] = 1 << n
    return top, gone


@njit(cache=True)
def merge(
    slabs, entries,
    keys, first, changes, labels,  # by key and time
    scratch, touched,  # as many rows as needed
    may_stop,  # after its last change a key's sums are what they were
):  # fmt: skip
    """Merge each key's changes into its entries. By how much the number of entries has grown.

    A row of `touched` says, for a key: which entry is the first that changed, where the old entries from
    there on are in the scratch and how many of them, and how many entries stand for these now. Entries
    behind have only moved.
    """
    width = changes.shape[1] - LABELS - labels
    weights = LABELS + labels
    sums = np.zeros(width, dtype=np.int64)  # before
    added = np.zeros(width, dtype=np.int64)
    s = grown = 0
    for c in range(len(keys)):
        if c + 2 * _AHEAD < len(keys):
            prefetch(slabs, keys[c + 2 * _AHEAD])
            last = slabs[keys[c + _AHEAD], START] + slabs[keys[c + _AHEAD], SIZE] - 1
            # where the next one would go, too: the slab of a new key is as cold as any
            for x in range(4):
                prefetch(entries, last + 1 - x)
        k = keys[c]
        base, n = slabs[k, START], slabs[k, SIZE]
        j, stop = first[c], first[c + 1]
        p = _first_from(entries, base, n, changes[j, TIME])
        tail = n - p
        for x in range(tail):
            _copy(entries, base + p + x, scratch, s + x)
        for a in range(width):
            added[a] = 0
            sums[a] = entries[base + p - 1, SUMS + a] if p > 0 else 0
        i, w = 0, base + p
        moved = 0
        while i < tail or j < stop:
            if j == stop and may_stop:
                quiet = True
                for a in range(width):
                    quiet = quiet and added[a] == 0
                if quiet:
                    moved = tail - i
                    break
            here = i < tail and (j == stop or scratch[s + i, TIME] <= changes[j, TIME])
            time = scratch[s + i, TIME] if here else changes[j, TIME]
            refs = 0
            shown = time
            if here:
                refs = scratch[s + i, REFS]
                shown = scratch[s + i, SHOWN]
                for a in range(width):
                    sums[a] = scratch[s + i, SUMS + a]
                i += 1
            while j < stop and changes[j, TIME] == time:
                refs += changes[j, CHANGE_REFS]
                for a in range(width):
                    added[a] += changes[j, weights + a]
                j += 1
            if refs > 0:
                entries[w, TIME], entries[w, REFS], entries[w, SHOWN] = time, refs, shown
                for a in range(width):
                    entries[w, SUMS + a] = sums[a] + added[a]
                w += 1
        touched[c, T_KEY] = k
        touched[c, T_FIRST] = base + p
        touched[c, T_SCRATCH] = s
        touched[c, T_OLD] = tail - moved
        touched[c, T_NEW] = w - (base + p)
        for x in range(moved):
            _copy(scratch, s + i + x, entries, w + x)
        size = w + moved - base
        grown += size - n
        slabs[k, SIZE] = size
        s += tail
    return grown


@njit(cache=True, inline="always")
def _same(left, i, right, j, first):
    for a in range(first, left.shape[1]):
        if left[i, a] != right[j, a]:
            return False
    return True


@njit(cache=True, inline="always")
def _say(out, n, key, vs, old_ve, new_ve, entries, x):
    out[n, 0], out[n, 1], out[n, 2], out[n, 3] = key, vs, old_ve, new_ve
    for a in range(SUMS, entries.shape[1]):
        out[n, 1 + a] = entries[x, a]


@njit(cache=True)
def emit(
    slabs, entries, scratch, touched,
    open_ended,  # show the last entry's row as [vs, INF)
    shows_size,  # entries with another number of events are another row
    out,  # key, start, old end, new end, then sums and results
    is_cut,  # for each touched key: its last row may have been cut where no endpoint remains
    since,  # ... since when its last row is open, if nothing of it is shown; else INF
):  # fmt: skip
    """What the merge changes: the row before a key's first change, then old and new rows side by side.

    The number of output rows.
    """
    n = 0
    compared = SUMS if shows_size else SUMS + 1
    for c in range(len(touched)):
        if c + _AHEAD < len(touched):
            prefetch(slabs, touched[c + _AHEAD, T_KEY])
            prefetch(entries, touched[c + _AHEAD, T_FIRST] - 1)
            prefetch(entries, touched[c + _AHEAD, T_FIRST] + 1)
        k, x, s, olds, news = touched[c]
        base, size = slabs[k, START], slabs[k, SIZE]
        end_of_slab = base + size
        i, stop_old, stop_new = s, s + olds, x + news
        if x > base:
            before = x - 1
            shown = entries[before, SHOWN]
            end = entries[before, TIME]
            if entries[before, SUMS] > 0:
                if x < end_of_slab:
                    end = entries[x, TIME]
                else:
                    end = INF if open_ended else shown
            if end != shown:
                _say(out, n, k, entries[before, TIME], shown, end, entries, before)
                n += 1
                entries[before, SHOWN] = end
        while i < stop_old or x < stop_new:
            old_here = i < stop_old
            new_here = x < stop_new
            if old_here and new_here:
                if scratch[i, TIME] < entries[x, TIME]:
                    new_here = False
                elif entries[x, TIME] < scratch[i, TIME]:
                    old_here = False
            time = entries[x, TIME] if new_here else scratch[i, TIME]
            end = time
            is_open = False
            if new_here and entries[x, SUMS] > 0:
                if x + 1 < end_of_slab:
                    end = entries[x + 1, TIME]
                elif open_ended:
                    end = INF
                else:
                    is_open = True
            if old_here and new_here and _same(scratch, i, entries, x, compared):
                shown = scratch[i, SHOWN]
                if is_open:
                    end = shown
                if end != shown:
                    _say(out, n, k, time, shown, end, entries, x)
                    n += 1
                entries[x, SHOWN] = end
            else:
                if old_here and scratch[i, SHOWN] > time:
                    _say(out, n, k, time, scratch[i, SHOWN], time, scratch, i)
                    n += 1
                if new_here:
                    if end > time:
                        _say(out, n, k, time, time, end, entries, x)
                        n += 1
                    entries[x, SHOWN] = end
            i += old_here
            x += new_here
        is_cut[c], since[c] = False, INF
        if size > 0 and not open_ended:
            last = end_of_slab - 1
            is_cut[c] = entries[last, SHOWN] > entries[last, TIME]
            if entries[last, SUMS] > 0 and not is_cut[c]:
                since[c] = entries[last, TIME]
    return n


@njit(cache=True)
def note_open(waiting, filled, bounds, slabs, keys, since):
    """Note since when these keys' last rows are open and nothing of them is shown; INF: it is not so.

    A key's last note is the one that holds, and its slab says where that is: one more than its place, 0
    if there is none. Others are struck out (key -1). Notes lie in chunks; `bounds` are no later than the
    earliest note of each. How many places are used now.
    """
    for i in range(len(keys)):
        if i + 2 * _AHEAD < len(keys):
            prefetch(slabs, keys[i + 2 * _AHEAD])
            prefetch(waiting, slabs[keys[i + _AHEAD], MARK] - 1)
        key, time = keys[i], since[i]
        if slabs[key, MARK] > 0:
            waiting[slabs[key, MARK] - 1, 1] = -1
            slabs[key, MARK] = 0
        if time < INF:
            waiting[filled, 0], waiting[filled, 1] = time, key
            chunk = filled // CHUNK
            if filled % CHUNK == 0 or time < bounds[chunk]:
                bounds[chunk] = time
            filled += 1
            slabs[key, MARK] = filled
    return filled


@njit(cache=True)
def note_all(waiting, bounds, slabs, entries):
    """The same of all keys, by their last entries; there are no other notes."""
    filled = 0
    for k in range(len(slabs)):
        if k + _AHEAD < len(slabs):
            prefetch(entries, slabs[k + _AHEAD, START] + slabs[k + _AHEAD, SIZE] - 1)
        slabs[k, MARK] = 0
        if slabs[k, SIZE] == 0:
            continue
        last = slabs[k, START] + slabs[k, SIZE] - 1
        time = entries[last, TIME]
        if entries[last, SUMS] > 0 and entries[last, SHOWN] <= time:
            waiting[filled, 0], waiting[filled, 1] = time, k
            if filled % CHUNK == 0 or time < bounds[filled // CHUNK]:
                bounds[filled // CHUNK] = time
            filled += 1
            slabs[k, MARK] = filled
    return filled


@njit(cache=True)
def pack_notes(waiting, filled, bounds, slabs):
    """Move the notes that hold together. How many there are."""
    n = 0
    for i in range(filled):
        if i + _AHEAD < filled and waiting[i + _AHEAD, 1] >= 0:
            prefetch(slabs, waiting[i + _AHEAD, 1])
        time, key = waiting[i]
        if key >= 0:
            waiting[n, 0], waiting[n, 1] = time, key
            if n % CHUNK == 0 or time < bounds[n // CHUNK]:
                bounds[n // CHUNK] = time
            n += 1
            slabs[key, MARK] = n
    return n


@njit(cache=True)
def open_since(waiting, filled, bounds):
    """The earliest note that holds, INF if none."""
    chunks = (filled + CHUNK - 1) // CHUNK
    while True:
        earliest = 0
        for c in range(1, chunks):
            if bounds[c] < bounds[earliest]:
                earliest = c
        if chunks == 0 or bounds[earliest] == INF:
            return INF
        least = INF
        for i in range(earliest * CHUNK, min((earliest + 1) * CHUNK, filled)):
            if waiting[i, 1] >= 0 and waiting[i, 0] < least:
                least = waiting[i, 0]
        if least == bounds[earliest]:
            return least
        bounds[earliest] = least


@njit(cache=True)
def purge(slabs, entries, cti):
    """Forget entries whose row ended before the cti: how many are left."""
    left = 0
    for k in range(len(slabs)):
        if k + _AHEAD < len(slabs):
            prefetch(entries, slabs[k + _AHEAD, START])
        start, n = slabs[k, START], slabs[k, SIZE]
        gone = frozen_in(entries, start, n, cti)
        if gone > 0:
            for x in range(start, start + n - gone):
                _copy(entries, x + gone, entries, x)
            slabs[k, SIZE] = n - gone
        left += n - gone
    return left


@njit(cache=True, inline="always")
def leave(slabs, entries, free, k):
    """A key is done with: its room is for others. How many entries it had."""
    start, size, room, _ = slabs[k]
    if room > 0:
        n = _rooms(room)
        entries[start, TIME] = free[n]
        free[n] = start
    slabs[k, START] = slabs[k, SIZE] = slabs[k, ROOM] = 0
    return size


@njit(cache=True)
def close(slabs, entries, free, keys, until):
    """Forget the entries of these keys whose row ended before a time, of each its own; at INF all.

    How many went. Of many entries few are not worth moving the others: half of them may stay behind.
    """
    went = 0
    for i in range(len(keys)):
        if i + 2 * _AHEAD < len(keys):
            prefetch(slabs, keys[i + 2 * _AHEAD])
            prefetch(entries, slabs[keys[i + _AHEAD], START])
        k = keys[i]
        if until[i] == INF:
            went += leave(slabs, entries, free, k)
            slabs[k, MARK] = 0
            continue
        start, n = slabs[k, START], slabs[k, SIZE]
        gone = frozen_in(entries, start, n, until[i])
        if gone > 0 and (n <= FEW_ENTRIES or 2 * gone >= n):
            for x in range(start, start + n - gone):
                _copy(entries, x + gone, entries, x)
            slabs[k, SIZE] = n - gone
            went += gone
    return went


@njit(cache=True, inline="always")
def frozen_in(entries, start, n, cti):
    """How many of a key's entries have a row that ended before the cti."""
    gone = 0
    while gone + 1 < n and entries[start + gone + 1, TIME] < cti:
        gone += 1
    if gone + 1 == n:
        last = start + gone
        if entries[last, SUMS] == 0 and entries[last, TIME] < cti:
            gone = n
    return gone


@njit(cache=True)
def compact(slabs, keep, entries, new_slabs, new_entries):
    """Move the entries of the kept keys together, with room for some more; the new top."""
    top = 0
    for i in range(len(keep)):
        if i + _AHEAD < len(keep):
            # slabs have moved: in order of their keys, entries are anywhere
            prefetch(entries, slabs[keep[i + _AHEAD], START])
            prefetch(entries, slabs[keep[i + _AHEAD], START] + 2)
        start, size, _, mark = slabs[keep[i]]
        for x in range(size):
            _copy(entries, start + x, new_entries, top + x)
        room = 1 << _rooms(size + 1) if size > 0 else 0
        new_slabs[i, START], new_slabs[i, SIZE], new_slabs[i, ROOM] = top, size, room
        new_slabs[i, MARK] = mark
        top += room
    return top
