"""Logical merge, one end per event and input: the loops over the index of two tiers (in2t).

The first tier is a number for every (vs, payload), a *node* (kernels/grouping.py). The second is a row
of ends, one for each input, and beside it the end that the output has: an end that equals vs says that
there is no such event. `due` is the earliest time at which a cti has to look at a node: its vs while
it is not half frozen, then the earliest end that anybody gives it, of those that are not behind the
cti. `front` is up to when the output has promised the payload of a node, if that is known: for events
of that payload this is the output's cti, where it is further.

A node whose event the output lacks for good is a *ghost*: it is kept as long as some input has it, to
tell whether that input contradicts what was promised. `lacks` is the earliest end of such an event that
would: the output has none that ends there or later.

Paper 2 section IV-D, errata 18 and 20.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
# ruff: noqa: PLR0917, PLR1714, SIM109

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["absorb", "agree", "first_out_of_order", "frozen_to", "judge", "present", "show"]

BEGIN, INF = np.int64(-(2**63)), np.int64(2**63 - 1)
# who may show an insert, and an adjust
ANYONE, NOBODY = -2, -1
# what is wrong with what an input says of a node
ENDS, LACKS, HAS = 0, 1, 2


@njit(cache=True)
def first_out_of_order(starts, old_ends, last, strictly):
    """The first row that is no insert, or starts before the one before (strictly: or with it); or -1."""
    step = 1 if strictly and last > BEGIN else 0
    for i in range(len(starts)):
        if old_ends[i] != starts[i] or starts[i] < last + step:
            return i
        last, step = starts[i], 1 if strictly else 0
    return -1


@njit(cache=True)
def absorb(nodes, ends, port, inputs, mark, touched, rows):
    """Note the ends that rows of an input give their nodes; which nodes, with their last rows."""
    count = 0
    for i in range(len(nodes)):
        node = nodes[i]
        if node < 0:
            continue
        if mark[node] < 0:
            mark[node] = count
            touched[count] = node
            count += 1
        rows[mark[node]] = i
        inputs[node, port] = ends[i]
    for j in range(count):
        mark[touched[j]] = -1
    return count


@njit(cache=True, inline="always")
def present(inputs, node, start, attached):
    """How many of the attached inputs have the event of a node."""
    count = 0
    for other in range(inputs.shape[1]):
        if attached[other] and inputs[node, other] > start:
            count += 1
    return count


@njit(cache=True, inline="always")
def frozen_to(stable, front, node):
    """Up to when the output has promised what it says of a node."""
    return max(stable, front[node]) if len(front) > 0 else stable


@njit(cache=True)
def show(
    touched, rows, port, cti, inserts, adjusts, needed,
    vs, out, inputs, due, front, attached,
    out_rows, old_ends, sooner, behind,
):  # fmt: skip
    """What the output says to the nodes that an input has touched, by the policy.

    `inserts` and `adjusts` say whose are shown: of one input, of anyone, of nobody; an insert not before
    `needed` inputs have it. How many rows of the batch are shown (`out_rows`, with the ends before), how
    many nodes are due sooner than they were, and of how many the input is behind the cti.
    """
    shown = n_sooner = n_behind = 0
    for j in range(len(touched)):
        node = touched[j]
        start, end, before = vs[node], inputs[node, port], out[node]
        stable = frozen_to(cti, front, node)
        if start >= stable:
            if before == start:
                may = inserts == ANYONE or inserts == port
                if (
                    end > start
                    and may
                    and (needed <= 1 or present(inputs, node, start, attached) >= needed)
                ):
                    out[node] = end
                    out_rows[shown], old_ends[shown] = rows[j], before
                    shown += 1
            elif end != before and (adjusts == ANYONE or adjusts == port):
                out[node] = end
                out_rows[shown], old_ends[shown] = rows[j], before
                shown += 1
            continue
        if end > start:
            if end < stable:
                behind[n_behind] = node
                n_behind += 1
            elif before > start:
                if end != before and (adjusts == ANYONE or adjusts == port):
                    out[node] = end
                    out_rows[shown], old_ends[shown] = rows[j], before
                    shown += 1
                if end < due[node]:
                    due[node] = end
                    sooner[n_sooner] = node
                    n_sooner += 1
            else:
                # a ghost: the output has no such event any more
                behind[n_behind] = node
                n_behind += 1
    return shown, n_sooner, n_behind


@njit(cache=True)
def agree(
    nodes, times, port, stable, until,
    vs, out, inputs, due, lacks, front, dead, died, attached, stables, doubted,
    changed, old_ends, later, behind_node, behind_port, wrong_node, wrong_port, wrong,
):  # fmt: skip
    """Bring the output to where an input allows the cti `until`, from `stable`.

    Of the nodes that are due, unless they were put off. How many nodes changed (`changed`, with the ends
    before), how many are due later, how many inputs are behind, how many contradict the output. Nodes
    that are done with are marked as dead.
    """
    n_changed = n_later = n_behind = n_wrong = 0
    for i in range(len(nodes)):
        node = nodes[i]
        if dead[node] or due[node] != times[i]:
            continue
        start, end, before = vs[node], inputs[node, port], out[node]
        half_frozen = start < frozen_to(stable, front, node)
        if half_frozen and before == start:
            # a ghost
            continue
        done = False
        if end == start:
            if not half_frozen:
                if before > start:
                    out[node] = start
                    changed[n_changed], old_ends[n_changed] = node, before
                    n_changed += 1
                if present(inputs, node, start, attached) == 0:
                    dead[node] = True
                    died[0] += 1
                    continue
                lacks[node] = start
                due[node] = INF
                for other in range(inputs.shape[1]):
                    if inputs[node, other] > start:
                        behind_node[n_behind], behind_port[n_behind] = node, other
                        n_behind += 1
                continue
            done = before < until or until == INF
            if done:
                wrong_node[n_wrong], wrong_port[n_wrong], wrong[n_wrong] = node, port, LACKS
                n_wrong += 1
        else:
            # an end that is behind the cti before was judged
            done = end < until or until == INF
            if end != before and (done or before < until):
                out[node] = end
                changed[n_changed], old_ends[n_changed] = node, before
                n_changed += 1
        if done:
            dead[node] = True
            died[0] += 1
            final = out[node]
            for other in range(inputs.shape[1]):
                theirs = inputs[node, other]
                if (
                    other != port and attached[other] and theirs >= doubted[other]
                    and start < theirs < stables[other] and theirs != final
                ):  # fmt: skip
                    wrong_node[n_wrong], wrong_port[n_wrong], wrong[n_wrong] = node, other, ENDS
                    n_wrong += 1
            continue
        due[node] = out[node]
        for other in range(inputs.shape[1]):
            theirs = inputs[node, other]
            if theirs > start:
                if theirs >= until:
                    due[node] = min(due[node], theirs)
                elif other != port:
                    behind_node[n_behind], behind_port[n_behind] = node, other
                    n_behind += 1
        later[n_later] = node
        n_later += 1
    return n_changed, n_later, n_behind, n_wrong


@njit(cache=True)
def judge(
    nodes, port, told, stable, doubted,
    vs, out, inputs, lacks, front, dead, died, attached,
    kept, wrong_node, wrong,
):  # fmt: skip
    """Which of the nodes of which an input is behind it has frozen otherwise, at its cti `told`.

    How many stay to be judged, and how many are wrong: of these the input is taken to say what the
    output does from now on, so that it is told once. What ends before `doubted` is not judged. Ghosts
    that nobody has are marked as dead.
    """
    n_kept = n_wrong = 0
    for i in range(len(nodes)):
        node = nodes[i]
        if dead[node]:
            continue
        start, end = vs[node], inputs[node, port]
        if out[node] == start:
            if end == start or end < lacks[node] or end < doubted:
                # taken back, or it was frozen so before, or it need not be true
                inputs[node, port] = start
                if present(inputs, node, start, attached) == 0:
                    dead[node] = True
                    died[0] += 1
                continue
            if start < told and lacks[node] <= told:
                wrong_node[n_wrong], wrong[n_wrong] = node, HAS
                n_wrong += 1
                inputs[node, port] = start
                if present(inputs, node, start, attached) == 0:
                    dead[node] = True
                    died[0] += 1
                continue
        elif end == start or end >= frozen_to(stable, front, node) or end < doubted:
            continue
        elif end < told:
            wrong_node[n_wrong], wrong[n_wrong] = node, ENDS
            n_wrong += 1
            inputs[node, port] = out[node]
            continue
        kept[n_kept] = node
        n_kept += 1
    return n_kept, n_wrong
