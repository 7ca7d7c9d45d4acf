"""Runs: where a payload lives, when what counts is how often it is there.

The key of a timeline is a payload, its sums are how many copies of it are alive in one input and in the
other. A *rule* turns these two numbers into a level: how many copies the result has. Copy k lives where
the level is at least k, without interruption; such a stretch is a run, and each run is one row. Runs lie
within each other like brackets: the copy that began last ends first.

What is shown of the runs depends on the output latency:

    EAGER     all of them; what ends at INF has no entry there
    ORDERLY   those that begin up to the watermark; with their end if it is certain, else without end
    PERFECT   all, cut where the key is shown up to

An end at e is *certain* at a watermark behind e; at e already if no insert can join on there: not to
what a row is alone (it has but one event), and not where the other input of a difference has begun.

PERFECT shows a key up to the start of its first uncertain stretch, a stretch being a time in which the
level is not zero, a run of the first copy. When that becomes certain, all that lies in it is shown, by
start. If part of a stretch had been shown before it became uncertain (something late has joined on), it
is shown up to where it was. Of a stretch of which nothing is shown, those copies are shown that begin
where it does and whose own end is certain: copies that begin later have to wait, rows of one payload
come in the order of their starts.

`shown` compares what was shown with what is, from the first entry that could matter on, and no further
than that: of runs that began before, it looks for the start only if their end moves. The rest is
bookkeeping in a tournament (kernels/tournament.py) with three values per key: DUE, the watermark that
makes a difference; HOLD, the start of its first uncertain stretch if nothing of that is shown; else CUT,
up to where it is shown.

`purge` forgets entries that a cti has frozen. Runs that are still alive began somewhere before: their
starts are kept as a staircase of entries with the levels 1, 2, ...

Paper 1a section 3 (snapshot operators, three latencies), paper 4 Table 2 (distinct, intersect,
difference).
"""

# mypy: allow-untyped-defs, allow-untyped-calls, disable-error-code=assignment
# ruff: noqa: PLR0917

from __future__ import annotations

import numpy as np
from numba import njit

from slackwater.kernels.endpoints import (
    FEW_ENTRIES,
    REFS,
    SIZE,
    START,
    SUMS,
    T_FIRST,
    T_KEY,
    T_NEW,
    T_OLD,
    T_SCRATCH,
    TIME,
    _copy,
    leave,
)
from slackwater.kernels.prefetch import prefetch
from slackwater.kernels.tournament import NONE, renew

__all__ = [
    "ALONE",
    "BAG_DIFFERENCE",
    "BAG_INTERSECT",
    "CUT",
    "DIFFERENCE",
    "DISTINCT",
    "DUE",
    "EAGER",
    "HOLD",
    "INTERSECT",
    "ORDERLY",
    "PERFECT",
    "VALUES",
    "close",
    "lengthened",
    "purge",
    "shown",
]

DISTINCT, INTERSECT, BAG_INTERSECT, DIFFERENCE, BAG_DIFFERENCE, ALONE = range(6)
EAGER, ORDERLY, PERFECT = range(3)

VALUES = 3
DUE, HOLD, CUT = range(VALUES)

INF = np.int64(2**63 - 1)
BEGIN = np.int64(-(2**63))

_AHEAD = 8
"""how many keys before it is its turn what is known of a key is fetched"""

# columns of a run
_FROM, _TO = 0, 1


@njit(cache=True, inline="always")
def _level(rule, table, x):
    """How many copies the result has from an entry on."""
    left, right = table[x, SUMS], table[x, SUMS + 1]
    if rule == DISTINCT:
        return min(left, 1)
    if rule == INTERSECT:
        return min(left, right, 1)
    if rule == BAG_INTERSECT:
        return min(left, right)
    if rule == BAG_DIFFERENCE:
        return max(left - right, 0)
    return np.int64(1) if left > 0 and right == 0 else np.int64(0)


@njit(cache=True, inline="always")
def _certain_at(rule, table, x):
    """The least watermark at which a run that ends at entry x certainly does."""
    final = rule == ALONE or (rule == DIFFERENCE and table[x, SUMS + 1] > 0)
    end = table[x, TIME]
    return end if final or end == INF else end + 1


@njit(cache=True, inline="always")
def _first_from(entries, low, high, time):
    """The first of these entries that is not before that time."""
    while low < high:
        middle = (low + high) // 2
        if entries[middle, TIME] < time:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, inline="always")
def _end_of_stretch(rule, table, low, high):
    """The first of these entries at which nothing is alive; `high` if there is none."""
    while low < high and _level(rule, table, low) > 0:
        low += 1
    return low


@njit(cache=True)
def _brackets(rule, table, low, high, how, count, depth, outer):
    """Go on collecting runs, over the entries of one table from `low` to `high` that are before `stop`.

    (Nothing is before INF but what ends there: then all entries are meant.)
    `depth` is how many runs are open, `outer` how many of them were from the beginning on: their starts
    are not known. What does not end, or not certainly at the watermark, is shown `until`.
    """
    stop, until, watermark, runs, stack = how
    for x in range(low, high):
        time = table[x, TIME]
        if time >= stop and stop < INF:
            break
        level = _level(rule, table, x)
        if depth > level:
            end = time if _certain_at(rule, table, x) <= watermark else until
            while depth > level:
                depth -= 1
                if depth < outer:
                    outer = depth
                    runs[depth, _TO] = end
                else:
                    runs[stack[depth], _TO] = end
        while depth < level:
            runs[count, _FROM], runs[count, _TO] = time, until
            stack[depth] = count
            count += 1
            depth += 1
    return count, depth, outer


@njit(cache=True)
def _changes(
    mode, rule, k,
    entries, base, low, first, size,  # the key's: all from base; from low on they matter
    scratch, s, n_old, n_new,  # what was there instead of n_new entries from `first` on
    old_stop, old_until, old_watermark, new_stop, new_until, new_watermark,
    old, old_stack, new, new_stack,  # room for runs
    n_early_old, n_early_new,  # how many of them were put at its end: of starts that come later
    out, count,
):  # fmt: skip
    """Append the rows that are shown otherwise than before: key, start, old end, new end."""
    end = base + size
    depth = _level(rule, entries, low - 1) if low > base else np.int64(0)
    was = depth, depth, depth  # how many runs there are, how many open, how many from before
    now = depth, depth, depth
    before = old_stop, old_until, old_watermark, old, old_stack
    after = new_stop, new_until, new_watermark, new, new_stack
    rest = first + n_new
    was = _brackets(rule, entries, low, first, before, *was)
    was = _brackets(rule, scratch, s, s + n_old, before, *was)
    now = _brackets(rule, entries, low, rest, after, *now)
    if mode != EAGER:
        was = _brackets(rule, entries, rest, end, before, *was)
        now = _brackets(rule, entries, rest, end, after, *now)
    # of the runs from before, those whose end has moved
    i = min(was[2], now[2])
    if old_until != new_until:
        i = np.int64(0)
    old[i : was[2], _TO] = old_until
    new[i : now[2], _TO] = new_until
    if mode == EAGER:
        _close(rule, entries, rest, end, old, old_stack, was[1], was[2], new, new_stack, now[2])
    _find_starts(rule, entries, base, low, depth, i, old, new)
    olds = _with_early(old, was[0], n_early_old)
    news = _with_early(new, now[0], n_early_new)
    return _differences(k, old, i, olds, new, i, news, out, count)


@njit(cache=True, inline="always")
def _with_early(runs, count, early):
    """Have the runs at the end of the room follow the others, latest end first."""
    for i in range(early):
        runs[count + i] = runs[len(runs) - early + i]
    return count + early


@njit(cache=True)
def _early(rule, start, watermark, entries, low, first, scratch, s, n_old, rest, end, runs):
    """Put the copies that begin with a stretch and certainly end before it at the end of the room.

    The entries are those from `low` to `first`, of another table in between, and from `rest` to `end`.
    How many copies there are, latest end first, and the watermark that makes another one certain.
    """
    lowest = np.int64(-1)
    early = 0
    for part in range(3):
        table = scratch if part == 1 else entries
        x, stop = (low, first) if part == 0 else ((s, s + n_old) if part == 1 else (rest, end))
        x = _first_from(table, x, stop, start)
        while x < stop:
            level = _level(rule, table, x)
            if lowest < 0:
                lowest = level
            elif level < lowest:
                if _certain_at(rule, table, x) > watermark:
                    return early, _certain_at(rule, table, x)
                while lowest > max(level, 1):
                    early += 1
                    runs[len(runs) - early, _FROM], runs[len(runs) - early, _TO] = start, table[x, TIME]
                    lowest -= 1
            if lowest <= 1:
                # the first copy ends the stretch
                return early, NONE
            x += 1
    return early, NONE


@njit(cache=True)
def _close(rule, entries, x, end, old, old_stack, depth, old_outer, new, new_stack, new_outer):
    """Where the runs end that are open behind all changes; of those that are the same, nobody asks.

    They are as many before as now, for sums are what they were where entries are left. Where none are
    left, or what is alive behind the last does not end, the runs keep the end that they have: INF.
    """
    if x == end:
        return
    i = min(old_outer, new_outer)
    while i < depth:
        if i < old_outer or i < new_outer or old[old_stack[i], _FROM] != new[new_stack[i], _FROM]:
            break
        i += 1
    while depth > i and x < end:
        level = _level(rule, entries, x)
        while depth > max(level, i):
            depth -= 1
            old[depth if depth < old_outer else old_stack[depth], _TO] = entries[x, TIME]
            new[depth if depth < new_outer else new_stack[depth], _TO] = entries[x, TIME]
        x += 1


@njit(cache=True, inline="always")
def _find_starts(rule, entries, base, low, depth, least, old, new):
    """Where the runs from number `least` on began that are open before entry `low`."""
    x = low - 1
    while depth > least:
        below = _level(rule, entries, x - 1) if x > base else np.int64(0)
        while depth > max(below, least):
            depth -= 1
            old[depth, _FROM] = new[depth, _FROM] = entries[x, TIME]
        x -= 1


@njit(cache=True)
def _differences(k, old, i, olds, new, j, news, out, count):
    """Both are sorted by start, then by end, latest first. Of one start, what both have stays."""
    if count + (olds - i) + (news - j) > out.shape[1]:
        out = _more(out, count, (olds - i) + (news - j))
    while i < olds or j < news:
        if j == news or (i < olds and old[i, _FROM] < new[j, _FROM]):
            start = old[i, _FROM]
        else:
            start = new[j, _FROM]
        gone = come = count
        while True:
            is_old = i < olds and old[i, _FROM] == start
            is_new = j < news and new[j, _FROM] == start
            if not is_old and not is_new:
                break
            if is_old and is_new and old[i, _TO] == new[j, _TO]:
                i += 1
                j += 1
            elif is_old and (not is_new or old[i, _TO] > new[j, _TO]):
                out[2, gone] = old[i, _TO]
                gone += 1
                i += 1
            else:
                out[3, come] = new[j, _TO]
                come += 1
                j += 1
        out[2, gone : max(gone, come)] = start
        out[3, come : max(gone, come)] = start
        for row in range(count, max(gone, come)):
            out[0, row], out[1, row] = k, start
        count = max(gone, come)
    return out, count


@njit(cache=True, inline="always")
def _appear(rule, k, entries, x, end, until, out, count):
    """Append the runs from an entry on that end by then, where nothing was shown; of single copies."""
    while x < end:
        if _level(rule, entries, x) == 0:
            x += 1
            continue
        start = entries[x, TIME]
        x = _end_of_stretch(rule, entries, x, end)
        if start >= until:
            break
        if count == out.shape[1]:
            out = _more(out, count, 1)
        ve = entries[x, TIME] if x < end else INF
        out[0, count], out[1, count], out[2, count], out[3, count] = k, start, start, ve
        count += 1
    return out, count


@njit(cache=True)
def _more(out, count, rows):
    """Room for so many more rows, and as much again as there was."""
    more = np.empty((4, 2 * out.shape[1] + rows), dtype=np.int64)
    more[:, :count] = out[:, :count]
    return more


@njit(cache=True)
def _most_runs(rule, slabs, entries, scratch, touched, keys, tree):
    """How many runs of one key there can be, at most. On the way, what is known of them is fetched."""
    is_bag = rule in (BAG_INTERSECT, BAG_DIFFERENCE)
    most = 0
    for c in range(len(touched)):
        if c + _AHEAD < len(touched):
            prefetch(tree, touched[c + _AHEAD, T_KEY])
        k = touched[c, T_KEY]
        runs = slabs[k, SIZE] + touched[c, T_OLD]
        if is_bag:
            runs = 0
            for x in range(slabs[k, START], slabs[k, START] + slabs[k, SIZE]):
                runs += entries[x, REFS]
            for x in range(touched[c, T_SCRATCH], touched[c, T_SCRATCH] + touched[c, T_OLD]):
                runs += scratch[x, REFS]
        most = max(most, runs)
    for c in range(len(keys)):
        if c + 2 * _AHEAD < len(keys):
            prefetch(slabs, keys[c + 2 * _AHEAD])
            prefetch(entries, slabs[keys[c + _AHEAD], START])
        k = keys[c]
        runs = slabs[k, SIZE]
        if is_bag:
            runs = 0
            for x in range(slabs[k, START], slabs[k, START] + slabs[k, SIZE]):
                runs += entries[x, REFS]
        most = max(most, runs)
    return most + 2


@njit(cache=True)
def shown(
    mode, rule, slabs, entries, scratch, touched, due, tree, leaves,
    watermark_before, watermark_now,
    fronts,  # ... of each key, if that is further; or none
    fronts_now,  # ... of each that is due, from now on; or none
    room,
):  # fmt: skip
    """What has changed is touched, for some keys the watermark makes a difference: what that changes.

    Gives rows (key, start, old end, new end), as columns.
    """
    most = _most_runs(rule, slabs, entries, scratch, touched, due, tree)
    old, new = np.empty((most, 2), dtype=np.int64), np.empty((most, 2), dtype=np.int64)
    old_stack, new_stack = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64)
    out = np.empty((4, room), dtype=np.int64)
    count = 0
    is_set = rule not in (BAG_INTERSECT, BAG_DIFFERENCE)
    for c in range(len(touched) + len(due)):
        s = n_old = n_new = np.int64(0)
        before, watermark = watermark_before, watermark_now
        if c < len(touched):
            k = touched[c, T_KEY]
            base, size = slabs[k, START], slabs[k, SIZE]
            first, s = touched[c, T_FIRST], touched[c, T_SCRATCH]
            n_old, n_new = touched[c, T_OLD], touched[c, T_NEW]
            if len(fronts) > 0:
                before, watermark = max(before, fronts[k]), max(watermark, fronts[k])
        else:
            k = due[c - len(touched)]
            base, size = slabs[k, START], slabs[k, SIZE]
            first = base + size
            if len(fronts) > 0:
                before, watermark = max(before, fronts[k]), max(watermark, fronts[k])
            if len(fronts_now) > 0:
                watermark = max(watermark, fronts_now[c - len(touched)])
            if size == 0 or (tree[k, DUE] > watermark):
                continue
        if mode == EAGER and is_set and n_old == 0 and n_new == size:
            out, count = _appear(rule, k, entries, base, base + size, INF, out, count)
        elif mode == EAGER:
            out, count = _changes(
                mode, rule, k, entries, base, first, first, size, scratch, s, n_old, n_new,
                INF, INF, INF, INF, INF, INF, old, old_stack, new, new_stack, 0, 0, out, count,
            )  # fmt: skip
        elif mode == ORDERLY:
            low = _first_from(entries, base, first, before)
            out, count = _changes(
                mode, rule, k, entries, base, low, first, size, scratch, s, n_old, n_new,
                min(before, INF - 1) + 1, INF, before, min(watermark, INF - 1) + 1, INF, watermark,
                old, old_stack, new, new_stack, 0, 0, out, count,
            )  # fmt: skip
            tree[k, DUE] = _next_due(rule, entries, base, size, watermark)
        else:
            until, hold = min(tree[k, HOLD], tree[k, CUT]), tree[k, HOLD]
            low, now_until, is_new = _uncertain(
                rule, tree, k, until, entries, base, first, size, scratch, s, n_old, n_new, watermark
            )
            if is_new and is_set:
                out, count = _appear(rule, k, entries, low, base + size, now_until, out, count)
                continue
            n_early_old = n_early_new = 0
            if not is_set:
                end, rest = base + size, first + n_new
                if hold != NONE:
                    n_early_old, _ = _early(
                        rule, hold, before, entries, base, first, scratch, s, n_old, rest, end, old
                    )
                if tree[k, HOLD] != NONE:
                    n_early_new, again = _early(
                        rule, tree[k, HOLD], watermark,
                        entries, base, end, scratch, np.int64(0), np.int64(0), end, end, new,
                    )  # fmt: skip
                    tree[k, DUE] = min(tree[k, DUE], again)
                if low < 0 and n_early_old + n_early_new > 0:
                    # of what is shown besides, nothing has changed
                    low = _first_from(entries, base, first, until)
            if low >= 0:
                out, count = _changes(
                    mode, rule, k, entries, base, low, first, size, scratch, s, n_old, n_new,
                    until, until, INF, now_until, now_until, INF,
                    old, old_stack, new, new_stack, n_early_old, n_early_new, out, count,
                )  # fmt: skip
    if mode != EAGER:
        renew(tree, leaves, touched[:, T_KEY])
        renew(tree, leaves, due)
    return out[:, :count]


@njit(cache=True, inline="always")
def _next_due(rule, entries, base, size, watermark):
    """The next watermark at which ORDERLY shows more of a key."""
    x = _first_from(entries, base, base + size, watermark)
    while x < base + size and entries[x, TIME] == watermark:
        if _certain_at(rule, entries, x) > watermark:
            return _certain_at(rule, entries, x)
        x += 1
    return entries[x, TIME] if x < base + size else NONE


@njit(cache=True, inline="always")
def _uncertain(rule, tree, leaf, until, entries, base, first, size, scratch, s, n_old, n_new, watermark):
    """Find the first uncertain stretch of a key, and note it in its leaf.

    From which entry on that may change what is shown, -1 if nowhere; up to where it is shown now; and
    whether nothing was shown from that entry on.
    """
    end = base + size
    changed = INF
    if n_new > 0:
        changed = entries[first, TIME]
    if n_old > 0:
        changed = min(changed, scratch[s, TIME])
    if until != NONE and changed >= until:
        # what is shown changes only if the stretch becomes certain
        low = _first_from(entries, base, first, min(changed, tree[leaf, DUE] - 1))
        if low > base and _level(rule, entries, low - 1) > 0:
            at = _end_of_stretch(rule, entries, low, end)
            if _certain_at(rule, entries, at) > watermark:
                tree[leaf, DUE] = _certain_at(rule, entries, at)
                return -1, until, False
    low = _first_from(entries, base, first, min(changed, until))
    x = low
    begun = -1
    alive = low > base and _level(rule, entries, low - 1) > 0
    so_far = BEGIN
    rest = first + n_new
    if alive or (changed < until and (n_old > 0 or low < first or rest < end)):
        is_open, so_far = _shown_so_far(rule, until, entries, low, first, alive, so_far)
        is_open, so_far = _shown_so_far(rule, until, scratch, s, s + n_old, is_open, so_far)
        is_open, so_far = _shown_so_far(rule, until, entries, rest, end, is_open, so_far)
        if is_open:
            so_far = until
    while True:
        if not alive:
            while x < end and _level(rule, entries, x) == 0:
                x += 1
            begun = x
        if x == end:
            tree[leaf, DUE] = tree[leaf, HOLD] = tree[leaf, CUT] = NONE
            return low, NONE, so_far == BEGIN
        x = _end_of_stretch(rule, entries, x, end)
        if _certain_at(rule, entries, x) > watermark:
            break
        alive = False
    if begun < 0:
        begun = low - 1
        while begun > base and _level(rule, entries, begun - 1) > 0:
            begun -= 1
    start = entries[begun, TIME]
    tree[leaf, DUE] = _certain_at(rule, entries, x)
    tree[leaf, HOLD] = NONE if so_far > start else start
    tree[leaf, CUT] = so_far if so_far > start else NONE
    return low, max(start, so_far), so_far == BEGIN


@njit(cache=True, inline="always")
def _shown_so_far(rule, until, table, low, high, alive, last):
    """Go on looking for the last end that is shown, in one table; and whether a stretch is open then."""
    for x in range(low, high):
        if table[x, TIME] >= until and until < INF:
            break
        is_alive = _level(rule, table, x) > 0
        if alive and not is_alive:
            last = table[x, TIME]
        alive = is_alive
    return alive, last


@njit(cache=True)
def lengthened(rule, slabs, entries, keys, tree, leaves, ends):
    """Uncertain stretches of these keys, which are shown in part, are shown up to there."""
    scratch = np.empty((0, entries.shape[1]), dtype=np.int64)
    most = _most_runs(rule, slabs, entries, scratch, np.empty((0, 5), dtype=np.int64), keys, tree)
    old, new = np.empty((most, 2), dtype=np.int64), np.empty((most, 2), dtype=np.int64)
    old_stack, new_stack = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64)
    out = np.empty((4, len(keys)), dtype=np.int64)
    count = 0
    none = np.int64(0)
    for i in range(len(keys)):
        k, until = keys[i], ends[i]
        base, size, cut = slabs[k, START], slabs[k, SIZE], tree[k, CUT]
        low = _first_from(entries, base, base + size, cut)
        out, count = _changes(
            PERFECT, rule, k, entries, base, low, base + size, size, scratch, none, none, none,
            cut, cut, INF, until, until, INF, old, old_stack, new, new_stack, 0, 0, out, count,
        )  # fmt: skip
        tree[k, CUT] = until
    renew(tree, leaves, keys)
    return out[:, :count]


@njit(cache=True)
def purge(rule, slabs, entries, tree, leaves, cti):
    """Forget what the cti has frozen: how many entries are left."""
    left = 0
    for k in range(len(slabs)):
        if k + _AHEAD < len(slabs):
            prefetch(entries, slabs[k + _AHEAD, START])
        if slabs[k, SIZE] > 0:
            slabs[k, SIZE] = _purged(rule, slabs, entries, tree, leaves, k, cti, 0)
            left += slabs[k, SIZE]
    return left


@njit(cache=True)
def close(rule, slabs, entries, free, tree, leaves, keys, until):
    """The same for some keys, of each up to a time of its own; at INF all of it. How many went.

    Of many entries few are not worth moving the others: half of them may stay behind.
    """
    went = 0
    done = 0
    closed = np.empty(len(keys), dtype=np.int64)
    for i in range(len(keys)):
        if i + 2 * _AHEAD < len(keys):
            prefetch(slabs, keys[i + 2 * _AHEAD])
            prefetch(entries, slabs[keys[i + _AHEAD], START])
        k = keys[i]
        if until[i] == INF:
            went += leave(slabs, entries, free, k)
            if k < leaves:
                tree[k, DUE] = tree[k, HOLD] = tree[k, CUT] = NONE
                closed[done] = k
                done += 1
        elif slabs[k, SIZE] > 0:
            n = slabs[k, SIZE]
            least = n // 2 if n > FEW_ENTRIES else 0
            slabs[k, SIZE] = _purged(rule, slabs, entries, tree, leaves, k, until[i], least)
            went += n - slabs[k, SIZE]
    if leaves > 0:
        renew(tree, leaves, closed[:done])
    return went


@njit(cache=True)
def _purged(rule, slabs, entries, tree, leaves, k, cti, least):
    """Forget what the cti has frozen of a key, but not where runs that are still alive began.

    Nor, of several copies, those that have ended and are not shown yet. How many entries are left; all,
    if no more than the least would go.
    """
    base, n = slabs[k, START], slabs[k, SIZE]
    last = base + n - 1
    if entries[last, TIME] < cti and entries[last, SUMS] == entries[last, SUMS + 1] == 0:
        # after its last endpoint a payload is gone, unless it does not end
        return 0
    frozen = cti
    if rule in (BAG_INTERSECT, BAG_DIFFERENCE) and k < leaves:
        frozen = min(cti, tree[k, HOLD], tree[k, CUT])
    gone = _first_from(entries, base, base + n, frozen) - base - 1
    if gone <= least:
        return n
    x = base + gone
    depth = _level(rule, entries, x)
    stairs = np.empty(depth, dtype=np.int64)
    steps = depth
    y = x
    while depth > 0:
        below = _level(rule, entries, y - 1) if y > base else np.int64(0)
        if y == x:
            # these begin at an entry that stays
            steps = min(depth, below)
        while depth > below:
            depth -= 1
            stairs[depth] = entries[y, TIME]
        y -= 1
    if steps >= gone:
        return n
    at = x - steps
    for step in range(steps):
        entries[at + step, TIME] = stairs[step]
        entries[at + step, REFS] = 1
        entries[at + step, SUMS] = step + 1
        entries[at + step, SUMS + 1] = step + 1 if rule in (INTERSECT, BAG_INTERSECT) else 0
    # a slab keeps its place and room
    for x in range(at, base + n):
        _copy(entries, x, entries, x - (at - base))
    return n - (at - base)
