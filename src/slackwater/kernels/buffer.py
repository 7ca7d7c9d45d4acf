"""Changes that are held back: combined per event, released in order of time.

A held change says that the end of an event moves from `old` (where the reader knows it; its start, if
the reader does not know it at all) to `new` (where it is by now). Changes lie in slots, in order of
arrival, and are found in two ways:

- by what may continue them: a hash table of cells (key, end), each the head of a doubly linked stack
  of the changes that lead to that end. Equal events are interchangeable, so any of them will do, and
  any number of copies costs the same. `key` is a number for (start, payload).
- by time: binary heaps of (time, slot), by sync and by the time at which a change falls due, which may
  be the end that it leads to. Entries are not removed when their change is; they are stale if the slot
  is dead or has another sync, or end, by now, and dropped when they reach the top.

Slots and cells are not used again: operators/buffer.py compacts everything when there is no room left.
`counts` holds how many slots, cells, heap entries (by sync, by due time) and live changes there are.

Paper 1b section 4.5 (bufferedinserts, bufferedretractions and their queues).
"""

# mypy: allow-untyped-defs, allow-untyped-calls
# ruff: noqa: PLR0917

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = [
    "absorb",
    "link_all",
    "pop",
    "pop_before",
    "pop_due",
    "pop_ended",
    "pop_frozen",
    "push",
    "take_out",
]

INF = np.int64(2**63 - 1)
SLOTS, CELLS, BY_SYNC, BY_DUE, LIVE = 0, 1, 2, 3, 4
NONE = -1


@njit(cache=True, inline="always")
def push(time, slot, size, new_time, new_slot):
    """Put an entry into a heap of `size` entries."""
    at = size
    while at > 0:
        parent = (at - 1) >> 1
        if time[parent] < new_time or (time[parent] == new_time and slot[parent] < new_slot):
            break
        time[at], slot[at] = time[parent], slot[parent]
        at = parent
    time[at], slot[at] = new_time, new_slot


@njit(cache=True, inline="always")
def pop(time, slot, size):
    """Take the first entry out of a heap of `size` entries."""
    last = size - 1
    last_time, last_slot = time[last], slot[last]
    at = 0
    while True:
        child = 2 * at + 1
        if child >= last:
            break
        right = child + 1
        if right < last and (
            time[right] < time[child] or (time[right] == time[child] and slot[right] < slot[child])
        ):
            child = right
        if last_time < time[child] or (last_time == time[child] and last_slot < slot[child]):
            break
        time[at], slot[at] = time[child], slot[child]
        at = child
    time[at], slot[at] = last_time, last_slot


@njit(cache=True, inline="always")
def _cell(cell_key, cell_end, key, end):
    """Where the cell (key, end) is in the table, or the free place where it would be."""
    mask = np.uint64(len(cell_key) - 1)
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15) ^ np.uint64(end)
    mixed ^= mixed >> np.uint64(33)
    mixed *= np.uint64(0xFF51AFD7ED558CCD)
    mixed ^= mixed >> np.uint64(33)
    at = mixed & mask
    while cell_key[at] != NONE and (cell_key[at] != key or cell_end[at] != end):
        at = (at + np.uint64(1)) & mask
    return np.int64(at)


@njit(cache=True, inline="always")
def _link(slot, key, end, cell, above, below, cell_key, cell_end, cell_head, counts):
    """Put a change on the stack of those that lead to its end."""
    at = _cell(cell_key, cell_end, key, end)
    if cell_key[at] == NONE:
        cell_key[at], cell_end[at], cell_head[at] = key, end, NONE
        counts[CELLS] += 1
    head = cell_head[at]
    cell[slot], above[slot], below[slot] = at, NONE, head
    if head != NONE:
        above[head] = slot
    cell_head[at] = slot


@njit(cache=True, inline="always")
def _unlink(slot, cell, above, below, cell_head):
    if above[slot] == NONE:
        cell_head[cell[slot]] = below[slot]
    else:
        below[above[slot]] = below[slot]
    if below[slot] != NONE:
        above[below[slot]] = above[slot]


@njit(cache=True)
def link_all(slots, key, new, cell, above, below, cell_key, cell_end, cell_head, counts):
    """Fill an empty table with the first `slots` changes."""
    for slot in range(slots):
        _link(slot, key[slot], new[slot], cell, above, below, cell_key, cell_end, cell_head, counts)


@njit(cache=True)
def absorb(
    keys,
    starts,
    old_ends,
    new_ends,
    dues,
    hold,
    counts,
    key,
    vs,
    old,
    new,
    due,
    live,
    cell,
    above,
    below,
    cell_key,
    cell_end,
    cell_head,
    sync_time,
    sync_slot,
    due_time,
    due_slot,
    by_end,
):
    """Hold back rows: those of `hold`, and those that continue a change which is held already.

    Which rows are held. A change that comes back to where it began vanishes. `due_time` is empty if
    nothing falls due; with `by_end` a change is due at the end that it leads to, wherever that moves.
    """
    held = np.zeros(len(keys), dtype=np.bool_)
    for i in range(len(keys)):
        slot = NONE
        if old_ends[i] > starts[i]:
            at = _cell(cell_key, cell_end, keys[i], old_ends[i])
            if cell_key[at] != NONE:
                slot = cell_head[at]
        held[i] = hold[i] or slot != NONE
        if not held[i] or old_ends[i] == new_ends[i]:
            continue
        if slot == NONE:
            slot = counts[SLOTS]
            counts[SLOTS] += 1
            key[slot], vs[slot], due[slot], live[slot] = keys[i], starts[i], dues[i], True
            old[slot], new[slot] = old_ends[i], new_ends[i]
            counts[LIVE] += 1
            moved = True
            if len(due_time) and not by_end:
                push(due_time, due_slot, counts[BY_DUE], dues[i], slot)
                counts[BY_DUE] += 1
        else:
            _unlink(slot, cell, above, below, cell_head)
            if new_ends[i] == old[slot]:
                live[slot] = False
                counts[LIVE] -= 1
                continue
            moved = min(old[slot], new_ends[i]) != min(old[slot], new[slot])
            new[slot] = new_ends[i]
        _link(slot, keys[i], new_ends[i], cell, above, below, cell_key, cell_end, cell_head, counts)
        if by_end:
            push(due_time, due_slot, counts[BY_DUE], new_ends[i], slot)
            counts[BY_DUE] += 1
        if moved:
            push(sync_time, sync_slot, counts[BY_SYNC], min(old[slot], new[slot]), slot)
            counts[BY_SYNC] += 1
    return held


@njit(cache=True)
def pop_before(cti, counts, old, new, live, cell, above, below, cell_head, sync_time, sync_slot):
    """Release the changes with sync < cti, all if it is INF: their slots in order of sync."""
    out = np.empty(counts[LIVE], dtype=np.int64)
    size = 0
    while counts[BY_SYNC] and (sync_time[0] < cti or cti == INF):
        time, slot = sync_time[0], sync_slot[0]
        pop(sync_time, sync_slot, counts[BY_SYNC])
        counts[BY_SYNC] -= 1
        if live[slot] and min(old[slot], new[slot]) == time:
            live[slot] = False
            counts[LIVE] -= 1
            _unlink(slot, cell, above, below, cell_head)
            out[size] = slot
            size += 1
    return out[:size]


@njit(cache=True)
def pop_due(limit, counts, live, cell, above, below, cell_head, due_time, due_slot):
    """Release the changes that were due at the limit or before it: their slots."""
    out = np.empty(counts[LIVE], dtype=np.int64)
    size = 0
    while counts[BY_DUE] and due_time[0] <= limit:
        slot = due_slot[0]
        pop(due_time, due_slot, counts[BY_DUE])
        counts[BY_DUE] -= 1
        if live[slot]:
            live[slot] = False
            counts[LIVE] -= 1
            _unlink(slot, cell, above, below, cell_head)
            out[size] = slot
            size += 1
    return out[:size]


@njit(cache=True)
def pop_ended(
    cti, counts, new, live, cell, above, below, cell_head, sync_time, sync_slot, due_time, due_slot
):
    """Release the changes that lead to an end before the cti, all if it is INF.

    Their slots, and the start of the first that is still held (INF if there is none). All are inserts.
    """
    out = np.empty(counts[LIVE], dtype=np.int64)
    size = 0
    while counts[BY_DUE] and (due_time[0] < cti or cti == INF):
        time, slot = due_time[0], due_slot[0]
        pop(due_time, due_slot, counts[BY_DUE])
        counts[BY_DUE] -= 1
        if live[slot] and new[slot] == time:
            live[slot] = False
            counts[LIVE] -= 1
            _unlink(slot, cell, above, below, cell_head)
            out[size] = slot
            size += 1
    while counts[BY_SYNC] and not live[sync_slot[0]]:
        pop(sync_time, sync_slot, counts[BY_SYNC])
        counts[BY_SYNC] -= 1
    return out[:size], sync_time[0] if counts[BY_SYNC] else INF


@njit(cache=True)
def take_out(slots, counts, live, cell, above, below, cell_head):
    """Release these changes, which are alive. Their entries in the heaps become stale."""
    for slot in slots:
        live[slot] = False
        counts[LIVE] -= 1
        _unlink(slot, cell, above, below, cell_head)


@njit(cache=True)
def pop_frozen(
    cti, limit, counts, new, live, known, cell, above, below, cell_head, sync_time, sync_slot
):
    """Release inserts in order of start, up to the limit, or the first whose end may still change.

    An end is known if it is before the cti, or marked so; in the latter case the start must not be
    after the cti, for something that starts before it may still come. Their slots, and the start of
    that first one (INF if there is none). All changes are inserts, so that their sync is their start
    and never moves.
    """
    out = np.empty(counts[LIVE], dtype=np.int64)
    size = 0
    while counts[BY_SYNC]:
        slot = sync_slot[0]
        if live[slot]:
            if sync_time[0] > limit:
                break
            in_order = known[slot] and sync_time[0] <= cti
            if new[slot] >= cti and cti != INF and not in_order:
                return out[:size], sync_time[0]
            live[slot] = False
            counts[LIVE] -= 1
            _unlink(slot, cell, above, below, cell_head)
            out[size] = slot
            size += 1
        pop(sync_time, sync_slot, counts[BY_SYNC])
        counts[BY_SYNC] -= 1
    return out[:size], INF
