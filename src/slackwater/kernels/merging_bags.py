"""Logical merge where an event may be there many times: the loops over the index of three tiers (in3t).

As kernels/merging.py, but an input, and the output, give a node any number of ends, each any number of
times: a list of (end, copies) for each of them, sorted by end. Lists are chains in a common pool, whose
columns are end, copies, next; `heads` and `totals` are by node and input, the output being the last.

Paper 2 section IV-E, erratum 19: the invariants are what is kept here. An output has no more copies of
an event than some input; the same number as the input that freezes its start; and of those ends that
freeze, exactly those of that input.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
# ruff: noqa: PLR0917, PLR1714, SIM109

from __future__ import annotations

import numpy as np
from numba import njit

from slackwater.kernels.merging import ANYONE, ENDS, HAS, LACKS, frozen_to, is_over, is_standing

__all__ = ["absorb", "agree", "clear_all", "copy", "judge", "release", "show"]

INF = np.int64(2**63 - 1)
END, COPIES, NEXT = 0, 1, 2
# facts: the first free link, how many are in use
FREE, USED = 0, 1


@njit(cache=True)
def _count(pool, facts, heads, totals, node, who, end, change):
    """One copy more or less of an end; whether there was one to take away."""
    before, at = -1, heads[node, who]
    while at >= 0 and pool[at, END] < end:
        before, at = at, pool[at, NEXT]
    if at < 0 or pool[at, END] != end:
        if change < 0:
            return False
        link = facts[FREE]
        facts[FREE] = pool[link, NEXT]
        facts[USED] += 1
        pool[link, END], pool[link, COPIES], pool[link, NEXT] = end, 0, at
        if before < 0:
            heads[node, who] = link
        else:
            pool[before, NEXT] = link
        at = link
    pool[at, COPIES] += change
    totals[node, who] += change
    if pool[at, COPIES] == 0:
        if before < 0:
            heads[node, who] = pool[at, NEXT]
        else:
            pool[before, NEXT] = pool[at, NEXT]
        pool[at, NEXT] = facts[FREE]
        facts[FREE] = at
        facts[USED] -= 1
    return True


@njit(cache=True)
def clear(pool, facts, heads, totals, node, who):
    """No copies any more."""
    at = heads[node, who]
    while at >= 0:
        following = pool[at, NEXT]
        pool[at, NEXT] = facts[FREE]
        facts[FREE] = at
        facts[USED] -= 1
        at = following
    heads[node, who], totals[node, who] = -1, 0


@njit(cache=True)
def clear_all(pool, facts, heads, totals, nodes, first, stop):
    """No copies any more of these nodes, of some of the inputs."""
    for i in range(len(nodes)):
        for who in range(first, stop):
            clear(pool, facts, heads, totals, nodes[i], who)


@njit(cache=True)
def copy(pool, facts, heads, totals, node, one, other):
    """Another list with the same copies."""
    clear(pool, facts, heads, totals, node, other)
    at = heads[node, one]
    while at >= 0:
        _count(pool, facts, heads, totals, node, other, pool[at, END], pool[at, COPIES])
        at = pool[at, NEXT]


@njit(cache=True)
def absorb(nodes, starts, old_ends, new_ends, port, pool, facts, heads, totals, mark, touched, had):
    """Note what rows of an input say of their nodes; which nodes, and how many copies it had of them."""
    count = 0
    for i in range(len(nodes)):
        node = nodes[i]
        if node < 0:
            continue
        if mark[node] < 0:
            mark[node] = count
            touched[count], had[count] = node, totals[node, port]
            count += 1
        if old_ends[i] > starts[i]:
            _count(pool, facts, heads, totals, node, port, old_ends[i], -1)
        if new_ends[i] > starts[i]:
            _count(pool, facts, heads, totals, node, port, new_ends[i], 1)
    for j in range(count):
        mark[touched[j]] = -1
    return count


@njit(cache=True)
def _compare(pool, heads, node, one, other, floor, more, less):
    """The copies of one list, from an end on, that the other lacks, and the other way round."""
    a, b = heads[node, one], heads[node, other]
    while a >= 0 and pool[a, END] < floor:
        a = pool[a, NEXT]
    while b >= 0 and pool[b, END] < floor:
        b = pool[b, NEXT]
    n_more = n_less = 0
    while a >= 0 or b >= 0:
        end = pool[a, END] if b < 0 or (a >= 0 and pool[a, END] <= pool[b, END]) else pool[b, END]
        copies = 0
        if a >= 0 and pool[a, END] == end:
            copies += pool[a, COPIES]
            a = pool[a, NEXT]
        if b >= 0 and pool[b, END] == end:
            copies -= pool[b, COPIES]
            b = pool[b, NEXT]
        for _ in range(copies):
            more[n_more] = end
            n_more += 1
        for _ in range(-copies):
            less[n_less] = end
            n_less += 1
    return n_more, n_less


@njit(cache=True)
def _match(
    node, start, port, half_frozen, floor, until,
    pool, facts, heads, totals, more, less, changed, old_ends, new_ends, n,
):  # fmt: skip
    """Make the output's copies those of an input, as far as ends before `until` need it.

    Of a node that is not half frozen, also their number. Both are sorted, so that those which have to be
    right come first: each takes the place of one that has to go, or else of the last one that may. How
    many changes there are by now, and whether it could not be done.
    """
    out = totals.shape[1] - 1
    n_more, n_less = _compare(pool, heads, node, out, port, floor, more, less)
    a = b = 0
    while True:
        goes = a < n_more and (more[a] < until or until == INF)
        comes = b < n_less and (less[b] < until or until == INF)
        if not goes and not comes:
            break
        if goes:
            old = more[a]
            a += 1
        elif a < n_more:
            n_more -= 1
            old = more[n_more]
        elif half_frozen:
            return n, True
        else:
            old = start
        if comes or b < n_less:
            new = less[b]
            b += 1
        elif half_frozen:
            return n, True
        else:
            new = start
        n = _change(
            node, start, out, old, new, pool, facts, heads, totals, changed, old_ends, new_ends, n
        )
    if half_frozen:
        return n, n_more - a != n_less - b
    # what is left over may stay, if the number is right
    left_more, left_less = n_more - a, n_less - b
    while left_more > left_less:
        left_more -= 1
        old = more[a + left_more]
        n = _change(
            node, start, out, old, start, pool, facts, heads, totals, changed, old_ends, new_ends, n
        )
    while left_less > left_more:
        left_less -= 1
        new = less[b + left_less]
        n = _change(
            node, start, out, start, new, pool, facts, heads, totals, changed, old_ends, new_ends, n
        )
    return n, False


@njit(cache=True, inline="always")
def _change(node, start, out, old, new, pool, facts, heads, totals, changed, old_ends, new_ends, n):
    if old > start:
        _count(pool, facts, heads, totals, node, out, old, -1)
    if new > start:
        _count(pool, facts, heads, totals, node, out, new, 1)
    changed[n], old_ends[n], new_ends[n] = node, old, new
    return n + 1


@njit(cache=True)
def _present(totals, node, attached):
    count = 0
    for other in range(len(attached)):
        if attached[other] and totals[node, other] > 0:
            count += 1
    return count


@njit(cache=True)
def _allowed(totals, node, attached, needed, scratch):
    """So many copies have at least `needed` inputs."""
    count = 0
    for other in range(len(attached)):
        if attached[other]:
            scratch[count] = totals[node, other]
            count += 1
    if count < needed:
        return 0
    return np.sort(scratch[:count])[count - needed]


@njit(cache=True)
def show(
    touched, had, port, cti, inserts, adjusts, needed,
    vs, due, front, pool, facts, heads, totals, attached, more, less, scratch,
    changed, old_ends, new_ends, sooner, behind,
):  # fmt: skip
    """What the output says to the nodes that an input has touched; see kernels/merging.py."""
    out = totals.shape[1] - 1
    n = n_sooner = n_behind = 0
    for j in range(len(touched)):
        node = touched[j]
        start, stable = vs[node], frozen_to(cti, front, node)
        follows = adjusts == ANYONE or adjusts == port
        if start >= stable:
            if follows and totals[node, out] > 0:
                n, _ = _match_half(
                    node, start, port, start,
                    pool, facts, heads, totals, more, less, changed, old_ends, new_ends, n,
                )  # fmt: skip
                # who has told fewer so far does not say that there are no more
                gone = had[j] - totals[node, port]
                n_more, _ = _compare(pool, heads, node, out, port, start, more, less)
                for a in range(min(gone, n_more)):
                    n = _change(
                        node, start, out, more[a], start,
                        pool, facts, heads, totals, changed, old_ends, new_ends, n,
                    )  # fmt: skip
            if inserts == ANYONE or inserts == port:
                most = totals[node, port]
                if needed > 1:
                    most = min(most, _allowed(totals, node, attached, needed, scratch))
                if most > totals[node, out]:
                    _, n_less = _compare(pool, heads, node, out, port, start, more, less)
                    # most of them are new, and the new ones are the last
                    for b in range(n_less - 1, -1, -1):
                        if most <= totals[node, out]:
                            break
                        n = _change(
                            node, start, out, start, less[b],
                            pool, facts, heads, totals, changed, old_ends, new_ends, n,
                        )  # fmt: skip
            continue
        if totals[node, port] == 0:
            continue
        behind[n_behind] = node
        n_behind += 1
        if is_over(start, _last(pool, heads[node, out], start), stable):
            continue
        if follows:
            n, _ = _match_half(
                node, start, port, stable,
                pool, facts, heads, totals, more, less, changed, old_ends, new_ends, n,
            )  # fmt: skip
        first = _first_from(pool, heads[node, port], stable)
        if first < due[node]:
            due[node] = first
            sooner[n_sooner] = node
            n_sooner += 1
    return n, n_sooner, n_behind


@njit(cache=True)
def _match_half(
    node, start, port, stable, pool, facts, heads, totals, more, less, changed, old_ends, new_ends, n
):  # fmt: skip
    """Follow an input in ends that are open, as many as both have."""
    out = totals.shape[1] - 1
    n_more, n_less = _compare(pool, heads, node, out, port, stable, more, less)
    for i in range(min(n_more, n_less)):
        n = _change(
            node, start, out, more[i], less[i],
            pool, facts, heads, totals, changed, old_ends, new_ends, n,
        )  # fmt: skip
    return n, False


@njit(cache=True)
def _first_from(pool, at, time):
    """The first end of a list from that time on."""
    while at >= 0:
        if pool[at, END] >= time:
            return pool[at, END]
        at = pool[at, NEXT]
    return INF


@njit(cache=True)
def _last(pool, at, start):
    """The last end of a list; the start where there is none."""
    last = start
    while at >= 0:
        last = pool[at, END]
        at = pool[at, NEXT]
    return last


@njit(cache=True)
def _has_more(pool, heads, node, other):
    """Whether an input has copies of an event that the output has not, or not with these ends."""
    out = heads.shape[1] - 1
    a, b = heads[node, out], heads[node, other]
    while b >= 0:
        while a >= 0 and pool[a, END] < pool[b, END]:
            a = pool[a, NEXT]
        if a < 0 or pool[a, END] > pool[b, END] or pool[a, COPIES] < pool[b, COPIES]:
            return True
        b = pool[b, NEXT]
    return False


@njit(cache=True)
def is_settled(pool, heads, totals, node, attached, standing):
    """Whether no input says otherwise of an event that is over than the output.

    Where that was left standing: whether all have promised past what they say of it.
    """
    for other in range(len(attached)):
        says = attached[other] and totals[node, other] > 0
        if says and (standing or _has_more(pool, heads, node, other)):
            return False
    return True


@njit(cache=True)
def all_settled(nodes, vs, lacks, pool, facts, heads, totals, attached):
    """Of which of these nodes, which are over, that is so."""
    found = np.empty(len(nodes), dtype=np.bool_)
    for i in range(len(nodes)):
        node = nodes[i]
        standing = is_standing(lacks[node])
        found[i] = is_settled(pool, heads, totals, node, attached, standing)
    return found


@njit(cache=True)
def release(nodes, vs, stables, pool, facts, heads, totals):
    """Of these nodes, which were left standing: inputs that have promised past all they say are done."""
    for i in range(len(nodes)):
        for other in range(len(stables)):
            last = _last(pool, heads[nodes[i], other], vs[nodes[i]])
            if last < stables[other] or stables[other] == INF:
                clear(pool, facts, heads, totals, nodes[i], other)


@njit(cache=True)
def last_ends(nodes, starts, pool, facts, heads, totals):
    """The last end that the output gives each of these nodes; the start where there is none."""
    found = np.empty(len(nodes), dtype=np.int64)
    for i in range(len(nodes)):
        found[i] = _last(pool, heads[nodes[i], totals.shape[1] - 1], starts[i])
    return found


@njit(cache=True)
def _contradicts(told, more, n_more, less, n_less):
    """What an input that has promised so much cannot put right any more of an event that is over; or -1.

    It has the ends in `less` that the output has not, and lacks those in `more`, which may have been
    left out, for nobody wants them.
    """
    frozen = 0
    while frozen < n_less and less[frozen] < told:
        frozen += 1
    free = 0
    while free < n_more and more[n_more - 1 - free] >= told:
        free += 1
    if frozen == 0 and n_less <= free:
        return -1
    return ENDS if n_less == n_more else HAS


@njit(cache=True)
def agree(
    nodes, port, cti, until,
    vs, due, lacks, front, dead, died, pool, facts, heads, totals, attached, more, less,
    changed, old_ends, new_ends, later, behind_node, behind_port, wrong_node, wrong,
):  # fmt: skip
    """Bring the output to where an input allows the cti `until`; see kernels/merging.py."""
    out = totals.shape[1] - 1
    n = n_later = n_behind = n_wrong = 0
    for i in range(len(nodes)):
        node = nodes[i]
        if dead[node]:
            continue
        start, stable = vs[node], frozen_to(cti, front, node)
        half_frozen = start < stable
        if is_over(start, _last(pool, heads[node, out], start), stable):
            continue
        floor = stable if half_frozen else start
        lacking, failed = half_frozen and totals[node, port] == 0, False
        if not lacking:
            n, failed = _match(
                node, start, port, half_frozen, floor, until,
                pool, facts, heads, totals, more, less, changed, old_ends, new_ends, n,
            )  # fmt: skip
            if failed:
                n_more, n_less = _compare(pool, heads, node, out, port, floor, more, less)
                wrong_node[n_wrong], wrong[n_wrong] = node, LACKS if n_more > n_less else HAS
                n_wrong += 1
        if totals[node, out] == 0:
            if _present(totals, node, attached) == 0:
                dead[node] = True
                died[0] += 1
                continue
            lacks[node] = start
            due[node] = INF
            for other in range(out):
                if totals[node, other] > 0:
                    behind_node[n_behind], behind_port[n_behind] = node, other
                    n_behind += 1
            continue
        last = _last(pool, heads[node, out], start)
        if until == INF or last < until:
            if lacking:
                wrong_node[n_wrong], wrong[n_wrong] = node, LACKS
                n_wrong += 1
            due[node], held = INF, False
            for other in range(out):
                if lacking or failed:
                    # nobody has said that they end there for good, so nobody is held to it
                    if totals[node, other] > 0 and until < INF:
                        behind_node[n_behind], behind_port[n_behind] = node, other
                        n_behind += 1
                        lacks[node], held = INF, True
                elif other != port and attached[other] and _has_more(pool, heads, node, other):
                    behind_node[n_behind], behind_port[n_behind] = node, other
                    n_behind += 1
                    held = True
            if not held:
                dead[node] = True
                died[0] += 1
            elif not (lacking or failed) and _has_more(pool, heads, node, port):
                # what it ends before the output's cti was judged, or need not be true: nobody asks again
                clear(pool, facts, heads, totals, node, port)
            continue
        due[node] = _first_from(pool, heads[node, out], until)
        for other in range(out):
            if totals[node, other] > 0:
                due[node] = min(due[node], _first_from(pool, heads[node, other], until))
                if other != port:
                    behind_node[n_behind], behind_port[n_behind] = node, other
                    n_behind += 1
        later[n_later] = node
        n_later += 1
    return n, n_later, n_behind, n_wrong


@njit(cache=True)
def judge(
    nodes, port, told, cti, doubted, complete,
    vs, lacks, front, dead, died, pool, facts, heads, totals, attached, more, less,
    kept, wrong_node, wrong,
):  # fmt: skip
    """Which nodes an input has frozen otherwise than the output, at its cti `told`.

    An input that is not complete yet may lack copies that end before it is.
    """
    out = totals.shape[1] - 1
    n_kept = n_wrong = 0
    for i in range(len(nodes)):
        node = nodes[i]
        if dead[node]:
            continue
        start, stable = vs[node], frozen_to(cti, front, node)
        final = _last(pool, heads[node, out], start)
        if is_over(start, final, stable):
            last = _last(pool, heads[node, port], start)
            if is_standing(lacks[node]):
                if last >= told and told < INF and totals[node, port] > 0:
                    kept[n_kept] = node
                    n_kept += 1
                    continue
                clear(pool, facts, heads, totals, node, port)
                if is_settled(pool, heads, totals, node, attached, True):
                    dead[node] = True
                    died[0] += 1
                continue
            if final == start:
                differs = last > start and last >= lacks[node] and last >= doubted
                rule = HAS if differs and start < told and lacks[node] <= told else -1
                # what is open may come to end where it need not be true
                rule = rule if doubted <= told else -1
                # ... or where it contradicts
                differs = differs or (last > start and last >= told and told < INF)
            else:
                n_more, n_less = _compare(pool, heads, node, out, port, start, more, less)
                first = np.searchsorted(less[:n_less], doubted)
                differs = first < n_less
                rule = -1
                if differs and start < told and doubted <= told:
                    rule = _contradicts(told, more, n_more, less[first:], n_less - first)
            if rule >= 0:
                wrong_node[n_wrong], wrong[n_wrong] = node, rule
                n_wrong += 1
            elif differs:
                kept[n_kept] = node
                n_kept += 1
            else:
                if _has_more(pool, heads, node, port):
                    # it need not be true
                    clear(pool, facts, heads, totals, node, port)
                if is_settled(pool, heads, totals, node, attached, False):
                    dead[node] = True
                    died[0] += 1
            continue
        if totals[node, port] == 0:
            continue
        # copies that have ended before the output's cti may have been left out, for nobody wants them
        floor = max(doubted, stable if told >= stable else start)
        n_more, n_less = _compare(pool, heads, node, out, port, floor, more, less)
        if n_more == 0 and n_less == 0:
            continue
        rule = -1
        if told >= stable:
            if n_less > n_more or (n_more > n_less and complete):
                rule = HAS if n_less > n_more else LACKS
                if totals[node, port] == totals[node, out]:
                    rule = ENDS
        elif start < told and n_less > n_more and doubted <= start:
            rule = HAS
        elif n_less > 0 and less[0] < told:
            # frozen there, and the output cannot get there any more
            rule = ENDS
        if rule < 0:
            kept[n_kept] = node
            n_kept += 1
            continue
        wrong_node[n_wrong], wrong[n_wrong] = node, rule
        n_wrong += 1
    return n_kept, n_wrong
