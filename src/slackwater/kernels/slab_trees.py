"""Trees of slabs: the compiled loops of sorted_lists.py.

A *slab* is a stretch of the pool with room for 4, 8, 16, ... `limit` rows. A list is one slab, which
moves to a larger one when it is full and to a smaller one when a quarter of it is used. A list that
outgrows the largest room becomes a tree of such slabs (its *level* is the height of it):

    level 0    root: | a b count . | a b count . | ...
    level 1    root: | a b copies child | a b copies child | ...     child: | a b count . | ...

The row of a child has the child's first item, and the copies in it and below. A slab that is full is
split in two, two neighbours that fill half of one at most become one, and a root with one child is
replaced by it. So a move costs O(log n + limit), and finding the k-th copy O(limit log n). Slabs that
are given back are used again by those that need the same room.

Compiled loops cannot grow arrays: `run` stops where the next move might not find room in the pool, and
is called again when the pool has grown.

    pool     the rows
    fill     per slab of a tree, at start // 4: how many rows it has
    roots    per list k: its slab's start, size and room, its level, its items and copies
    free     per room: the first slab that was given back, which knows the next
    counts   of all lists: rows of the pool that were allotted, items
"""

# mypy: allow-untyped-defs, allow-untyped-calls
# ruff: noqa: PLR0917

from __future__ import annotations

import numpy as np
from numba import njit

from slackwater.kernels.prefetch import prefetch

__all__ = ["items", "pack", "packed_room", "release", "run"]

# columns of a move
LIST, COUNT, WHO = 0, 1, 2
# columns of a row
A, B, COPIES, CHILD = 0, 1, 2, 3
# columns of a root: its slab, and how many items and copies the list has
START, SIZE, ROOM, LEVEL, ITEMS, TOTAL = 0, 1, 2, 3, 4, 5
# what is counted for all lists: rows of the pool that were allotted, items
TOP, STORED = 0, 1
# kinds of reads
LOWEST, HIGHEST, BETWEEN, DISTINCT = 0, 1, 2, 3

NONE = -1
FIRST_ROOM = 4
MOST_LEVELS = 62
# moves between what is worked on and what the cache is asked for
_AHEAD = 16


# Slabs


@njit(cache=True, inline="always")
def _room_class(room):
    """Which of the rooms 4, 8, 16, ... that is."""
    number = 0
    while FIRST_ROOM << number < room:
        number += 1
    return number


@njit(cache=True, inline="always")
def _allot(room, pool, free, counts):
    """Where a slab of that room may be."""
    number = _room_class(room)
    start = free[number]
    if start == NONE:
        start = counts[TOP]
        counts[TOP] += room
    else:
        free[number] = pool[start, 0]
        # for the next one that needs such a slab
        prefetch(pool, free[number])
    return start


@njit(cache=True, inline="always")
def _give_back(start, room, pool, free):
    number = _room_class(room)
    pool[start, 0] = free[number]
    free[number] = start


@njit(cache=True, inline="always")
def _copy(pool, source, target, rows):
    for i in range(rows):
        for c in range(4):
            pool[target + i, c] = pool[source + i, c]


@njit(cache=True, inline="always")
def _open_gap(pool, at, end):
    """Move the rows from `at` on up by one."""
    for i in range(end, at, -1):
        for c in range(4):
            pool[i, c] = pool[i - 1, c]


@njit(cache=True, inline="always")
def _close_gap(pool, at, end):
    """Move the rows after `at` down by one."""
    for i in range(at, end - 1):
        for c in range(4):
            pool[i, c] = pool[i + 1, c]


@njit(cache=True, inline="always")
def _move(roots, k, room, pool, free, counts):
    """Give a list of level 0 a slab of another room."""
    start = _allot(room, pool, free, counts)
    _copy(pool, roots[k, START], start, roots[k, SIZE])
    if roots[k, ROOM] > 0:
        _give_back(roots[k, START], roots[k, ROOM], pool, free)
    roots[k, START], roots[k, ROOM] = start, room


@njit(cache=True, inline="always")
def _rank(order, number):
    return order[number] if len(order) else number


@njit(cache=True, inline="always")
def _first_from(pool, start, size, rank_a, rank_b, order_a, order_b):
    """How many of a slab's rows come before the item with these ranks."""
    low, high = 0, size
    while low < high:
        middle = (low + high) >> 1
        rank = _rank(order_a, pool[start + middle, A])
        if rank < rank_a or (rank == rank_a and _rank(order_b, pool[start + middle, B]) < rank_b):
            low = middle + 1
        else:
            high = middle
    return low


# Moves


@njit(cache=True)
def run(
    moves, done, member, own, second,  # the script, how far it is done; see sorted_lists.Script
    codes, order_a, order_b, limit,
    pool, fill, roots, free, counts,
    path, out, column,
):  # fmt: skip
    """Go on with the script: how far it is done, and rows that the next move may need."""
    for i in range(done, len(moves)):
        if i + 2 * _AHEAD < len(moves):
            prefetch(roots, moves[i + 2 * _AHEAD, LIST])
            ahead = moves[i + _AHEAD, LIST]
            if ahead != moves[i + _AHEAD - 1, LIST]:
                # two rows fill a line of the cache
                for row in range(0, min(roots[ahead, SIZE] + 1, _AHEAD), 2):
                    prefetch(pool, roots[ahead, START] + row)
        k, n = moves[i, LIST], moves[i, COUNT]
        if n == 0:
            _read(roots, k, codes, pool, fill, out, moves[i, WHO], column)
            continue
        if not (moves[i, WHO] >> member) & 1:
            continue
        a, b = moves[i, own], np.int64(0)
        if second >= 0:
            b = moves[i, second]
        needed = 2 * roots[k, ROOM] + FIRST_ROOM
        if needed > limit:
            needed = (roots[k, LEVEL] + 2) * limit
        if counts[TOP] + needed > len(pool):
            return i, needed
        rank_a, rank_b = _rank(order_a, a), _rank(order_b, b)
        if roots[k, LEVEL] > 0:
            if n > 0:
                _add_deep(
                    roots, k, n, a, b, rank_a, rank_b,
                    order_a, order_b, limit, pool, fill, free, counts,
                )  # fmt: skip
            else:
                _remove_deep(
                    roots, k, -n, a, b, rank_a, rank_b,
                    order_a, order_b, limit, pool, fill, free, counts, path,
                )  # fmt: skip
            continue
        start, size = roots[k, START], roots[k, SIZE]
        at = start + _first_from(pool, start, size, rank_a, rank_b, order_a, order_b)
        here = at < start + size and pool[at, A] == a and pool[at, B] == b
        roots[k, TOTAL] += n
        if here:
            pool[at, COPIES] += n
            assert pool[at, COPIES] >= 0, "what is taken away is there"
            if pool[at, COPIES] == 0:
                _close_gap(pool, at, start + size)
                roots[k, SIZE] -= 1
                roots[k, ITEMS] -= 1
                counts[STORED] -= 1
                if 4 * roots[k, SIZE] <= roots[k, ROOM] and roots[k, ROOM] > FIRST_ROOM:
                    _move(roots, k, roots[k, ROOM] >> 1, pool, free, counts)
            continue
        assert n > 0, "what is taken away is there"
        if size == roots[k, ROOM]:
            if size == limit:
                roots[k, TOTAL] -= n
                _add_deep(
                    roots, k, n, a, b, rank_a, rank_b,
                    order_a, order_b, limit, pool, fill, free, counts,
                )  # fmt: skip
                continue
            _move(roots, k, max(2 * size, FIRST_ROOM), pool, free, counts)
            at += roots[k, START] - start
            start = roots[k, START]
        _open_gap(pool, at, start + size)
        pool[at, A], pool[at, B], pool[at, COPIES] = a, b, n
        roots[k, SIZE] += 1
        roots[k, ITEMS] += 1
        counts[STORED] += 1
    return len(moves), 0


@njit(cache=True)
def _add_deep(
    roots, k, n, a, b, rank_a, rank_b, order_a, order_b, limit, pool, fill, free, counts
):  # fmt: skip
    """Add to a tree, or to a slab that becomes one: full slabs are split on the way down."""
    start = roots[k, START]
    fill[start >> 2] = roots[k, SIZE]
    if roots[k, SIZE] == limit:
        # one level more: the root's rows are those of its only child
        child = start
        start = _allot(limit, pool, free, counts)
        pool[start, A], pool[start, B] = pool[child, A], pool[child, B]
        pool[start, COPIES], pool[start, CHILD] = roots[k, TOTAL], child
        fill[start >> 2] = 1
        roots[k, START] = start
        roots[k, LEVEL] += 1
        assert roots[k, LEVEL] < MOST_LEVELS
    roots[k, TOTAL] += n
    for _ in range(roots[k, LEVEL]):
        size = fill[start >> 2]
        at = _first_from(pool, start, size, rank_a, rank_b, order_a, order_b)
        if at == size or pool[start + at, A] != a or pool[start + at, B] != b:
            at -= 1
        if at < 0:
            at = 0
            pool[start, A], pool[start, B] = a, b
        child = pool[start + at, CHILD]
        if fill[child >> 2] == limit:
            right = _split(pool, fill, start, start + at, limit, at == size - 1, free, counts)
            rank = _rank(order_a, pool[right, A])
            if rank < rank_a or (rank == rank_a and _rank(order_b, pool[right, B]) <= rank_b):
                at += 1
                child = right
        pool[start + at, COPIES] += n
        start = child
    size = fill[start >> 2]
    at = start + _first_from(pool, start, size, rank_a, rank_b, order_a, order_b)
    if at < start + size and pool[at, A] == a and pool[at, B] == b:
        pool[at, COPIES] += n
    else:
        _open_gap(pool, at, start + size)
        pool[at, A], pool[at, B], pool[at, COPIES] = a, b, n
        fill[start >> 2] += 1
        roots[k, ITEMS] += 1
        counts[STORED] += 1
    roots[k, SIZE] = fill[roots[k, START] >> 2]


@njit(cache=True)
def _split(pool, fill, parent, row, limit, is_last, free, counts):
    """Move the upper part of a row's child to a new child, whose row is the next one: where that is."""
    left = pool[row, CHILD]
    # items that come in order are put at the end: leave little room where they no longer go
    stays = limit - (limit >> 2) if is_last else limit >> 1
    right = _allot(limit, pool, free, counts)
    _copy(pool, left + stays, right, limit - stays)
    fill[left >> 2], fill[right >> 2] = stays, limit - stays
    copies = 0
    for i in range(right, right + limit - stays):
        copies += pool[i, COPIES]
    _open_gap(pool, row + 1, parent + fill[parent >> 2])
    fill[parent >> 2] += 1
    pool[row, COPIES] -= copies
    pool[row + 1, A], pool[row + 1, B] = pool[right, A], pool[right, B]
    pool[row + 1, COPIES], pool[row + 1, CHILD] = copies, right
    return right


@njit(cache=True)
def _remove_deep(
    roots, k, n, a, b, rank_a, rank_b, order_a, order_b, limit, pool, fill, free, counts, path
):  # fmt: skip
    """Take away from a tree; on the way up, slabs that have become small are joined or go."""
    level = roots[k, LEVEL]
    start = roots[k, START]
    roots[k, TOTAL] -= n
    for depth in range(level):
        at = _first_from(pool, start, fill[start >> 2], rank_a, rank_b, order_a, order_b)
        if at == fill[start >> 2] or pool[start + at, A] != a or pool[start + at, B] != b:
            at -= 1
        assert at >= 0, "what is taken away is there"
        path[depth, 0], path[depth, 1] = start, start + at
        pool[start + at, COPIES] -= n
        start = pool[start + at, CHILD]
    size = fill[start >> 2]
    at = start + _first_from(pool, start, size, rank_a, rank_b, order_a, order_b)
    here = at < start + size and pool[at, A] == a and pool[at, B] == b
    assert here, "what is taken away is there"
    pool[at, COPIES] -= n
    assert pool[at, COPIES] >= 0, "what is taken away is there"
    if pool[at, COPIES] > 0:
        return
    _close_gap(pool, at, start + size)
    fill[start >> 2] -= 1
    roots[k, ITEMS] -= 1
    counts[STORED] -= 1
    for depth in range(level - 1, -1, -1):
        parent, row = path[depth, 0], path[depth, 1]
        child = pool[row, CHILD]
        if fill[child >> 2] > 0:
            pool[row, A], pool[row, B] = pool[child, A], pool[child, B]
        elif fill[parent >> 2] == 1:
            _give_back(child, limit, pool, free)
            fill[parent >> 2] = 0
            continue
        if 4 * fill[child >> 2] <= limit:
            if row + 1 < parent + fill[parent >> 2]:
                _join(pool, fill, parent, row, limit, free)
            if row > parent:
                _join(pool, fill, parent, row - 1, limit, free)
    while roots[k, LEVEL] > 0 and fill[roots[k, START] >> 2] == 1:
        child = pool[roots[k, START], CHILD]
        _give_back(roots[k, START], limit, pool, free)
        roots[k, START] = child
        roots[k, LEVEL] -= 1
    roots[k, SIZE] = fill[roots[k, START] >> 2]


@njit(cache=True)
def _join(pool, fill, parent, row, limit, free):
    """Make the children of a row and of the next one child, if that fills half a slab at most.

    Or if one of them is empty.
    """
    left, right = pool[row, CHILD], pool[row + 1, CHILD]
    left_size, right_size = fill[left >> 2], fill[right >> 2]
    if left_size > 0 and right_size > 0 and 2 * (left_size + right_size) > limit:
        return
    _copy(pool, right, left + left_size, right_size)
    fill[left >> 2] += right_size
    _give_back(right, limit, pool, free)
    pool[row, A], pool[row, B] = pool[left, A], pool[left, B]
    pool[row, COPIES] += pool[row + 1, COPIES]
    _close_gap(pool, row + 1, parent + fill[parent >> 2])
    fill[parent >> 2] -= 1


# Reads


@njit(cache=True, inline="always")
def _read(roots, k, codes, pool, fill, out, at, column):
    """Write what each read gives, one after the other."""
    for i in range(len(codes)):
        kind = codes[i, 0]
        if kind == LOWEST:
            _lowest(roots, k, codes[i, 1], codes[i, 2], pool, fill, out, at, column)
            column += 1 + codes[i, 1]
        elif kind == HIGHEST:
            _highest(roots, k, codes[i, 1], codes[i, 2], pool, fill, out, at, column)
            column += 1 + codes[i, 1]
        elif kind == BETWEEN:
            out[at, column] = roots[k, TOTAL]
            out[at, column + 1] = out[at, column + 2] = 0
            if roots[k, TOTAL] > 0:
                steps, rest = _multiply_divide(roots[k, TOTAL] - 1, codes[i, 1], codes[i, 2])
                out[at, column + 1] = out[at, column + 2] = _value_at(roots, k, steps, pool, fill)
                if rest:
                    out[at, column + 2] = _value_at(roots, k, steps + 1, pool, fill)
            column += 3
        else:
            out[at, column] = roots[k, ITEMS]
            column += 1


@njit(cache=True, inline="always")
def _lowest(roots, k, most, part, pool, fill, out, at, column):
    wanted = min(most, roots[k, TOTAL])
    out[at, column] = wanted
    done = 0
    while done < wanted:
        start, end, _ = _leaf(roots, k, done, pool, fill)
        for row in range(start, end):
            for _ in range(min(pool[row, COPIES], wanted - done)):
                done += 1
                out[at, column + done] = pool[row, part]
            if done == wanted:
                break
    for rest in range(wanted, most):
        out[at, column + 1 + rest] = 0


@njit(cache=True, inline="always")
def _highest(roots, k, most, part, pool, fill, out, at, column):
    wanted = min(most, roots[k, TOTAL])
    out[at, column] = wanted
    done = 0
    while done < wanted:
        start, end = _leaf_from_end(roots, k, done, pool, fill)
        for row in range(end - 1, start - 1, -1):
            for _ in range(min(pool[row, COPIES], wanted - done)):
                done += 1
                out[at, column + done] = pool[row, part]
            if done == wanted:
                break
    for rest in range(wanted, most):
        out[at, column + 1 + rest] = 0


@njit(cache=True, inline="always")
def _leaf(roots, k, index, pool, fill):
    """Where the leaf with a copy starts and ends, and the copy's index in it."""
    start, size = roots[k, START], roots[k, SIZE]
    for _ in range(roots[k, LEVEL]):
        row = start
        while index >= pool[row, COPIES]:
            index -= pool[row, COPIES]
            row += 1
        start = pool[row, CHILD]
        size = fill[start >> 2]
    return start, start + size, index


@njit(cache=True, inline="always")
def _leaf_from_end(roots, k, index, pool, fill):
    """The same for a copy that is counted from the end."""
    start, size = roots[k, START], roots[k, SIZE]
    for _ in range(roots[k, LEVEL]):
        row = start + size - 1
        while index >= pool[row, COPIES]:
            index -= pool[row, COPIES]
            row -= 1
        start = pool[row, CHILD]
        size = fill[start >> 2]
    return start, start + size


@njit(cache=True)
def _value_at(roots, k, index, pool, fill):
    """The a of a copy."""
    row, _, index = _leaf(roots, k, index, pool, fill)
    while index >= pool[row, COPIES]:
        index -= pool[row, COPIES]
        row += 1
    return pool[row, A]


@njit(cache=True)
def _multiply_divide(factor, numerator, denominator):
    """factor * numerator divided by denominator, and the rest: bit by bit, for the product may not fit.

    numerator <= denominator < 2**62.
    """
    quotient, rest = np.int64(0), np.int64(0)
    bit = np.int64(1)
    while bit <= factor >> 1:
        bit <<= 1
    while bit:
        quotient <<= 1
        rest <<= 1
        if rest >= denominator:
            rest -= denominator
            quotient += 1
        if factor & bit:
            rest += numerator
            if rest >= denominator:
                rest -= denominator
                quotient += 1
        bit >>= 1
    return quotient, rest


# All at once


@njit(cache=True)
def items(pool, fill, roots, number, a, b, count):
    """Write everything that is stored, list by list and in order."""
    out = 0
    for k in range(len(roots)):
        done = 0
        while done < roots[k, TOTAL]:
            start, end, _ = _leaf(roots, k, done, pool, fill)
            for row in range(start, end):
                number[out], a[out], b[out] = k, pool[row, A], pool[row, B]
                count[out] = pool[row, COPIES]
                done += count[out]
                out += 1


@njit(cache=True)
def release(dead, pool, free, counts):
    """Give back the slabs of these lists, which are not trees."""
    for k in range(len(dead)):
        if dead[k, ROOM] > 0:
            _give_back(dead[k, START], dead[k, ROOM], pool, free)
            counts[STORED] -= dead[k, ITEMS]


@njit(cache=True)
def _slabs_for(rows, limit):
    """How many slabs hold so many rows with a quarter of their room left."""
    full = limit - (limit >> 2)
    return (rows + full - 1) // full


@njit(cache=True)
def packed_room(sizes, limit):
    """How many rows of the pool lists of these sizes need."""
    needed = 0
    for size in sizes:
        rows = size
        while rows > limit:
            rows = _slabs_for(rows, limit)
            needed += rows * limit
        if size > limit:
            needed += limit
        elif size > 0:
            needed += FIRST_ROOM << _room_class(size)
    return needed


@njit(cache=True)
def pack(sizes, a, b, count, limit, pool, fill, roots, counts):
    """Fill empty lists with so many items each, which come in order."""
    item = 0
    for k in range(len(sizes)):
        rows = sizes[k]
        if rows == 0:
            continue
        roots[k, ITEMS] = rows
        counts[STORED] += rows
        for i in range(item, item + rows):
            roots[k, TOTAL] += count[i]
        # from the leaves upwards; the slabs of one level lie side by side
        below = NONE
        level = 0
        while True:
            slabs = 1 if rows <= limit else _slabs_for(rows, limit)
            room = limit if level or slabs > 1 else FIRST_ROOM << _room_class(rows)
            first = counts[TOP]
            counts[TOP] += slabs * room
            done = 0
            for j in range(slabs):
                start = first + j * room
                size = (j + 1) * rows // slabs - done
                for i in range(size):
                    row = start + i
                    if level == 0:
                        pool[row, A], pool[row, B], pool[row, COPIES] = a[item], b[item], count[item]
                        item += 1
                    else:
                        child = below + (done + i) * limit
                        pool[row, A], pool[row, B] = pool[child, A], pool[child, B]
                        pool[row, COPIES], pool[row, CHILD] = 0, child
                        for c in range(child, child + fill[child >> 2]):
                            pool[row, COPIES] += pool[c, COPIES]
                fill[start >> 2] = size
                done += size
            if slabs == 1:
                break
            below = first
            rows = slabs
            level += 1
        roots[k, START], roots[k, SIZE], roots[k, ROOM] = first, rows, room
        roots[k, LEVEL] = level
