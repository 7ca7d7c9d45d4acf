"""Links: adjusts that came before what they continue, joined into paths until a path links up.

A row moves the end of an event from `old` to `new`: an edge between two ends. The event is known by its
start and by `key`, a number for its payload. An insert needs nothing and puts an event at its end; an
adjust needs an event at its old end. Where there is none yet the edge waits, joined with the waiting
edges that end where it begins or begin where it ends. So no waiting path begins where another ends, nor
where an event is shown, and a path that comes back to its beginning changes nothing and vanishes.

Nothing is left behind by that: when all edges of a valid stream have come, what still waits has as many
edges into every end as out of it, or an event would be there to set it going; joined, such edges are
cycles. This holds whichever of several edges from one end is taken first.

- Edges lie in slots, rows of `edges`. The first and the last edge of a path know each other (OTHER).
- Cells are found by (key, start, end) in a hash table. A cell counts the events that are shown with that
  end, and those that would have it had they not been given up; it is the head of a stack of the paths
  that begin there, and of one of those that end there.
- Two heaps hold the first edges by old end and the last edges by new end. Entries are not removed when
  their edge is; they are stale if it is dead, or no longer first or last.

Slots and cells are not used again: operators/links.py moves everything together when room is short.

Paper 1b section 4.6 (brokenretractions, bufferedinserts).
"""

# mypy: allow-untyped-defs, allow-untyped-calls
# ruff: noqa: PLR0917

from __future__ import annotations

import numpy as np
from numba import njit

from slackwater.kernels.buffer import pop, push

__all__ = ["expire", "first_end", "relink", "take_in"]

INF = np.int64(2**63 - 1)
NONE = -1

# columns of an edge
KEY, VS, OLD, NEW, BEFORE, AFTER, OTHER, LIVE = 0, 1, 2, 3, 4, 5, 6, 7
UP, DOWN = 8, 10
"""neighbours on the stack of paths that begin here; one column on, of those that end here"""
EDGE = 12
# columns of a cell; a free one has no key
CELL_KEY, CELL_VS, CELL_END, SHOWN, LOST, STACK = 0, 1, 2, 3, 4, 5
CELL = 7
# which stack, and which heap
BEGINS, ENDS = 0, 1
# what becomes of a row, and why an edge is dropped
NOTHING, PASSES, LATE, CONTINUES, FORGOTTEN, UNLINKED = 0, 1, 2, 3, 4, 5
# counts: heap sizes come first, by which heap
SLOTS, CELLS, EVENTS, WAITING, GONE, DROPPED = 2, 3, 4, 5, 6, 7
COUNTS = 8


@njit(cache=True)
def _find(key, vs, end, cells):
    """Where the cell of this event and end is, or the free place where it would be."""
    mask = np.uint64(len(cells) - 1)
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15) ^ np.uint64(vs)
    mixed = mixed * np.uint64(0xC2B2AE3D27D4EB4F) ^ np.uint64(end)
    mixed ^= mixed >> np.uint64(33)
    mixed *= np.uint64(0xFF51AFD7ED558CCD)
    mixed ^= mixed >> np.uint64(33)
    at = np.int64(mixed & mask)
    while cells[at, CELL_KEY] != NONE and (
        cells[at, CELL_KEY] != key or cells[at, CELL_VS] != vs or cells[at, CELL_END] != end
    ):
        at = np.int64(np.uint64(at + 1) & mask)
    return at


@njit(cache=True)
def _claim(key, vs, end, cells, counts):
    """The cell of this event and end, made if it is not there."""
    at = _find(key, vs, end, cells)
    if cells[at, CELL_KEY] == NONE:
        cells[at, CELL_KEY], cells[at, CELL_VS], cells[at, CELL_END] = key, vs, end
        cells[at, SHOWN] = cells[at, LOST] = 0
        cells[at, STACK + BEGINS] = cells[at, STACK + ENDS] = NONE
        counts[CELLS] += 1
    return at


@njit(cache=True)
def _stack(slot, which, edges, cells, counts):
    """Put the first (last) edge of a path on the stack of its old (new) end."""
    at = _claim(edges[slot, KEY], edges[slot, VS], edges[slot, OLD + which], cells, counts)
    top = cells[at, STACK + which]
    edges[slot, UP + which], edges[slot, DOWN + which] = NONE, top
    if top != NONE:
        edges[top, UP + which] = slot
    cells[at, STACK + which] = slot


@njit(cache=True)
def _unstack(slot, which, edges, cells):
    above, below = edges[slot, UP + which], edges[slot, DOWN + which]
    if above == NONE:
        at = _find(edges[slot, KEY], edges[slot, VS], edges[slot, OLD + which], cells)
        cells[at, STACK + which] = below
    else:
        edges[above, DOWN + which] = below
    if below != NONE:
        edges[below, UP + which] = above


@njit(cache=True)
def _top(key, vs, end, which, cells):
    """The path that was put last on a stack, by its first (last) edge."""
    at = _find(key, vs, end, cells)
    return NONE if cells[at, CELL_KEY] == NONE else cells[at, STACK + which]


@njit(cache=True)
def _take(first, why, edges, cells, counts, dropped):
    """Take a path out, and say why its edges are dropped unless they are used; the end it leads to."""
    last = edges[first, OTHER]
    _unstack(first, BEGINS, edges, cells)
    _unstack(last, ENDS, edges, cells)
    slot = first
    while slot != NONE:
        edges[slot, LIVE] = 0
        counts[WAITING] -= 1
        if why != NOTHING:
            dropped[counts[DROPPED], 0], dropped[counts[DROPPED], 1] = slot, why
            counts[DROPPED] += 1
        slot = edges[slot, AFTER]
    return edges[last, NEW]


@njit(cache=True)
def _close(last, edges, cells, heap_time, heap_slot, counts, dropped):
    """Join the path that ends with this edge to one that begins there, or let it end there."""
    first = edges[last, OTHER]
    end = edges[last, NEW]
    following = _top(edges[last, KEY], edges[last, VS], end, BEGINS, cells)
    if following == first:
        # a cycle
        _stack(last, ENDS, edges, cells, counts)
        _take(first, NOTHING, edges, cells, counts, dropped)
        return
    if following == NONE:
        _stack(last, ENDS, edges, cells, counts)
        push(heap_time[ENDS], heap_slot[ENDS], counts[ENDS], end, last)
        counts[ENDS] += 1
        return
    _unstack(following, BEGINS, edges, cells)
    edges[last, AFTER], edges[following, BEFORE] = following, last
    its_last = edges[following, OTHER]
    edges[first, OTHER], edges[its_last, OTHER] = its_last, first


@njit(cache=True)
def _wait(key, vs, old, new, edges, cells, heap_time, heap_slot, counts, dropped):
    """A new edge, joined to the paths on both sides of it."""
    slot = counts[SLOTS]
    counts[SLOTS] += 1
    counts[WAITING] += 1
    edges[slot, KEY], edges[slot, VS], edges[slot, OLD], edges[slot, NEW] = key, vs, old, new
    edges[slot, AFTER], edges[slot, LIVE] = NONE, 1
    before = _top(key, vs, old, ENDS, cells)
    edges[slot, BEFORE] = before
    if before == NONE:
        edges[slot, OTHER] = slot
        _stack(slot, BEGINS, edges, cells, counts)
        push(heap_time[BEGINS], heap_slot[BEGINS], counts[BEGINS], old, slot)
        counts[BEGINS] += 1
    else:
        _unstack(before, ENDS, edges, cells)
        first = edges[before, OTHER]
        edges[before, AFTER] = slot
        edges[slot, OTHER], edges[first, OTHER] = first, slot
    _close(slot, edges, cells, heap_time, heap_slot, counts, dropped)


@njit(cache=True)
def _follow(key, vs, end, why, edges, cells, counts, dropped):
    """Where an event that comes to this end is led by the paths that wait there."""
    while end != vs:
        first = _top(key, vs, end, BEGINS, cells)
        if first == NONE:
            break
        end = _take(first, why, edges, cells, counts, dropped)
    return end


@njit(cache=True)
def _lose(key, vs, end, limit, edges, cells, counts, dropped):
    """An event that is not shown would come to this end: what continues it is dropped, too."""
    end = _follow(key, vs, end, CONTINUES, edges, cells, counts, dropped)
    if end != vs and end >= limit:
        cells[_claim(key, vs, end, cells, counts), LOST] += 1
        counts[GONE] += 1


@njit(cache=True)
def expire(begin, end, why, edges, cells, heap_time, heap_slot, counts, dropped):
    """Drop the paths that begin before `begin` (INF: all), and of those that end before `end` the last
    edges, back to where the path was not before it."""
    while counts[BEGINS] and (heap_time[BEGINS, 0] < begin or begin == INF):
        slot = heap_slot[BEGINS, 0]
        pop(heap_time[BEGINS], heap_slot[BEGINS], counts[BEGINS])
        counts[BEGINS] -= 1
        if edges[slot, LIVE] and edges[slot, BEFORE] == NONE:
            key, vs = edges[slot, KEY], edges[slot, VS]
            leads_to = _take(slot, why, edges, cells, counts, dropped)
            _lose(key, vs, leads_to, end, edges, cells, counts, dropped)
    while counts[ENDS] and heap_time[ENDS, 0] < end:
        last = heap_slot[ENDS, 0]
        pop(heap_time[ENDS], heap_slot[ENDS], counts[ENDS])
        counts[ENDS] -= 1
        if not edges[last, LIVE] or edges[last, AFTER] != NONE:
            continue
        first = edges[last, OTHER]
        _unstack(last, ENDS, edges, cells)
        slot = last
        while slot != NONE and edges[slot, NEW] < end:
            edges[slot, LIVE] = 0
            counts[WAITING] -= 1
            dropped[counts[DROPPED], 0], dropped[counts[DROPPED], 1] = slot, why
            counts[DROPPED] += 1
            slot = edges[slot, BEFORE]
        if slot == NONE:
            _unstack(first, BEGINS, edges, cells)
        else:
            edges[slot, AFTER] = NONE
            edges[slot, OTHER], edges[first, OTHER] = first, slot
            _close(slot, edges, cells, heap_time, heap_slot, counts, dropped)


@njit(cache=True)
def take_in(
    keys,
    starts,
    olds,
    news,
    limits,
    forgotten_before,
    edges,
    cells,
    heap_time,
    heap_slot,
    counts,
    dropped,
):
    """What becomes of each row, and the end to which a row that passes moves its event.

    A row behind its limit is late; what is waiting behind that limit is dropped before it is judged.
    """
    fates = np.empty(len(keys), dtype=np.int64)
    ends = news.copy()
    for i in range(len(keys)):
        key, vs, old, new, limit = keys[i], starts[i], olds[i], news[i], limits[i]
        if limit > forgotten_before:
            forgotten_before = limit
            expire(
                limit,
                limit,
                FORGOTTEN,
                edges,
                cells,
                heap_time,
                heap_slot,
                counts,
                dropped,
            )
        is_late = min(old, new) < limit or limit == INF
        shown = lost = False
        at = NONE
        if old > vs:
            at = _find(key, vs, old, cells)
            if cells[at, CELL_KEY] != NONE:
                shown, lost = cells[at, SHOWN] > 0, cells[at, LOST] > 0
        if is_late or (lost and not shown):
            fates[i] = LATE if is_late else CONTINUES
            if lost:
                cells[at, LOST] -= 1
                counts[GONE] -= 1
            _lose(key, vs, new, limit, edges, cells, counts, dropped)
        elif old == vs or shown:
            if shown:
                cells[at, SHOWN] -= 1
                counts[EVENTS] -= 1
            end = _follow(key, vs, new, NOTHING, edges, cells, counts, dropped)
            if end != vs:
                cells[_claim(key, vs, end, cells, counts), SHOWN] += 1
                counts[EVENTS] += 1
            ends[i] = end
            fates[i] = NOTHING if end == old and old != new else PASSES
        else:
            fates[i] = NOTHING
            if old != new:
                _wait(
                    key,
                    vs,
                    old,
                    new,
                    edges,
                    cells,
                    heap_time,
                    heap_slot,
                    counts,
                    dropped,
                )
    return fates, ends


@njit(cache=True)
def first_end(edges, heap_time, heap_slot, counts):
    """The earliest end to which a waiting path leads; INF if nothing waits."""
    while counts[ENDS]:
        last = heap_slot[ENDS, 0]
        if edges[last, LIVE] and edges[last, AFTER] == NONE:
            return heap_time[ENDS, 0]
        pop(heap_time[ENDS], heap_slot[ENDS], counts[ENDS])
        counts[ENDS] -= 1
    return INF


@njit(cache=True)
def relink(slots, held, edges, cells, heap_time, heap_slot, counts):
    """Fill an empty table with these cells, and with the paths of the first `slots` edges."""
    for i in range(len(held)):
        at = _claim(held[i, CELL_KEY], held[i, CELL_VS], held[i, CELL_END], cells, counts)
        cells[at, SHOWN], cells[at, LOST] = held[i, SHOWN], held[i, LOST]
    for slot in range(slots):
        if edges[slot, BEFORE] == NONE:
            _stack(slot, BEGINS, edges, cells, counts)
            push(heap_time[BEGINS], heap_slot[BEGINS], counts[BEGINS], edges[slot, OLD], slot)
            counts[BEGINS] += 1
        if edges[slot, AFTER] == NONE:
            _stack(slot, ENDS, edges, cells, counts)
            push(heap_time[ENDS], heap_slot[ENDS], counts[ENDS], edges[slot, NEW], slot)
            counts[ENDS] += 1
