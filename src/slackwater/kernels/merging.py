"""Logical merge, one end per event and input: the loops over the index of two tiers (in2t).

The first tier is a number for every (vs, payload), a *node* (kernels/grouping.py). The second is a row
of ends, one for each input, and beside it the end that the output has: an end that equals vs says that
there is no such event. `due` is the earliest time at which a cti has to look at a node: its vs while
it is not half frozen, then the earliest end that anybody gives it, of those that are not behind the
cti. `front` is up to when the output has promised the payload of a node, if that is known: for events
of that payload this is the output's cti, where it is further.

A node of which the output says nothing any more is *over*: it lacks the event for good, or the event
has ended behind its cti. It is kept as long as some input says otherwise of it, to tell whether that
input comes round or contradicts what was promised. Where the output lacks the event it is a *ghost*, and
`lacks` is the earliest end that would contradict: the output has none that ends there or later. Where
the furthest input lacked an event that was half frozen, the output's end is nobody's word: it is *left
standing* (`lacks` is INF); so is what most inputs contradict. Inputs that have told it are not judged,
whatever they say, and the node is kept until each of them has promised past the end that it gives.

Paper 2 section IV-D, errata 18 and 20.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
# ruff: noqa: PLR0917, PLR1714, SIM109

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = [
    "agree", "enter", "first_out_of_order", "frozen_to", "is_standing", "judge", "present", "take_in",
]  # fmt: skip

BEGIN, INF = np.int64(-(2**63)), np.int64(2**63 - 1)
# who may show an insert, and an adjust
ANYONE, NOBODY = -2, -1
# what is wrong with what an input says of a node
ENDS, LACKS, HAS, ORDER = 0, 1, 2, 3


@njit(cache=True)
def first_out_of_order(starts, old_ends, only_inserts, last, strictly):
    """The first row that is no insert, or starts before the one before (strictly: or with it); or -1."""
    step = np.int64(1 if strictly else 0)
    first = np.int64(1 if strictly and last > BEGIN else 0)
    # most often there is none, and several at a time can be looked at if nobody asks after each
    wrong = np.int64(len(starts) > 0 and starts[0] < last + first)
    if not only_inserts:
        for i in range(len(starts)):
            wrong |= old_ends[i] ^ starts[i]
    for i in range(1, len(starts)):
        wrong |= np.int64(starts[i] < starts[i - 1] + step)
    if wrong == 0:
        return -1
    for i in range(len(starts)):
        if old_ends[i] != starts[i] or starts[i] < last + first:
            return i
        last, first = starts[i], step
    raise AssertionError("one of them is wrong")


@njit(cache=True)
def enter(nodes, starts, ends, floors, first_new, vs, due, lacks, dead, unknown):
    """Begin the nodes that are new; where the node of a row is dead, the row has none.

    How many rows without one say that there is an event that is alive where the output's promise ends
    (`unknown`): that is one of the `floors` for all rows, or one for each.
    """
    count = 0
    for i in range(len(nodes)):
        node = nodes[i]
        floor = floors[i] if len(floors) > 1 else floors[0]
        if node >= first_new:
            vs[node] = due[node] = starts[i]
            lacks[node] = BEGIN
        elif node < 0 or dead[node]:
            nodes[i] = -1
            # once all is promised, what ends at INF is forgotten as well
            if ends[i] >= floor and floor < INF:
                unknown[count] = i
                count += 1
    return count


@njit(cache=True)
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


@njit(cache=True, inline="always")
def is_over(start, end, frozen):
    """Whether the output, which gives an event that end, has promised all that it says of it."""
    return start < frozen and (end < frozen or frozen == INF)


@njit(cache=True, inline="always")
def is_standing(lacks):
    """Whether what the output says of an event that is over is nobody's word."""
    return lacks == INF


@njit(cache=True)
def asked(inputs, node, start, final, attached):
    """How many of the attached inputs say otherwise of an event that is over than the output."""
    count = 0
    for other in range(inputs.shape[1]):
        theirs = inputs[node, other]
        if attached[other] and theirs > start and theirs != final:
            count += 1
    return count


@njit(cache=True)
def take_in(
    nodes, ends, port, cti, first_new, inserts, adjusts, needed,
    vs, out, inputs, due, front, mark, attached,
    out_rows, old_ends, sooner, behind,
):  # fmt: skip
    """Note the ends that rows of an input give their nodes; what the output says to it, by the policy.

    `inserts` and `adjusts` say whose are shown: of one input, of anyone, of nobody; an insert not before
    `needed` inputs have it. The rows of the batch that are shown (`out_rows`, with the ends before: from
    which place on), how many nodes are due sooner than they were, and of how many the input is behind
    the cti.
    """
    first = len(nodes)
    n_sooner = n_behind = 0
    # of several rows of one node the last one counts
    for i in range(len(nodes) - 1, -1, -1):
        node = nodes[i]
        if node < 0 or mark[node] >= 0:
            continue
        mark[node] = i
        start, end = vs[node], ends[i]
        if node >= first_new:
            out[node] = start
            for other in range(inputs.shape[1]):
                inputs[node, other] = start
        inputs[node, port] = end
        before = out[node]
        stable = frozen_to(cti, front, node)
        shown = False
        if start >= stable:
            if before == start:
                if end > start and (inserts == ANYONE or inserts == port):
                    shown = needed <= 1 or present(inputs, node, start, attached) >= needed
            else:
                shown = end != before and (adjusts == ANYONE or adjusts == port)
        elif end > start:
            if end < stable or is_over(start, before, stable):
                behind[n_behind] = node
                n_behind += 1
            else:
                shown = end != before and (adjusts == ANYONE or adjusts == port)
                if end < due[node]:
                    due[node] = end
                    sooner[n_sooner] = node
                    n_sooner += 1
        if shown:
            out[node] = end
            first -= 1
            out_rows[first], old_ends[first] = i, before
    for i in range(len(nodes)):
        if nodes[i] >= 0:
            mark[nodes[i]] = -1
    return first, n_sooner, n_behind


@njit(cache=True)
def agree(
    nodes, port, stable, until,
    vs, out, inputs, due, lacks, front, dead, died, attached, stables, doubted,
    changed, old_ends, later, behind_node, behind_port, wrong_node, wrong_port, wrong,
):  # fmt: skip
    """Bring the output to where an input allows the cti `until`, from `stable`.

    Of the nodes that are due. How many nodes changed (`changed`, with the ends
    before), how many are due later, how many inputs are behind, how many contradict the output. Nodes
    that are done with are marked as dead.
    """
    n_changed = n_later = n_behind = n_wrong = 0
    for i in range(len(nodes)):
        node = nodes[i]
        if dead[node]:
            continue
        start, end, before = vs[node], inputs[node, port], out[node]
        frozen = frozen_to(stable, front, node)
        half_frozen = start < frozen
        if is_over(start, before, frozen):
            continue
        done = False
        # an end that is behind the cti before was judged, unless it need not be true
        lacking = end == start or (half_frozen and end < frozen)
        if lacking:
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
            done = end < until or until == INF
            if end != before and (done or before < until):
                out[node] = end
                changed[n_changed], old_ends[n_changed] = node, before
                n_changed += 1
        if done:
            final, due[node], held = out[node], INF, False
            for other in range(inputs.shape[1]):
                theirs = inputs[node, other]
                if lacking:
                    # nobody has said that it ends there for good, so nobody is held to it
                    if theirs > start and until < INF:
                        behind_node[n_behind], behind_port[n_behind] = node, other
                        n_behind += 1
                        lacks[node], held = INF, True
                    continue
                if other == port or not attached[other] or theirs == start or theirs == final:
                    continue
                if theirs < doubted[other]:
                    # it need not be true, and nobody asks whether it is
                    inputs[node, other] = final
                elif min(theirs, final) < stables[other] and doubted[other] <= stables[other]:
                    wrong_node[n_wrong], wrong_port[n_wrong], wrong[n_wrong] = node, other, ENDS
                    n_wrong += 1
                else:
                    behind_node[n_behind], behind_port[n_behind] = node, other
                    n_behind += 1
                    held = True
            if not held:
                dead[node] = True
                died[0] += 1
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

    How many stay to be judged, and how many are wrong. What ends before `doubted` is not judged. Nodes
    that are over, and of which nobody says otherwise any more, are marked as dead.
    """
    n_kept = n_wrong = 0
    for i in range(len(nodes)):
        node = nodes[i]
        if dead[node]:
            continue
        start, end, final = vs[node], inputs[node, port], out[node]
        if is_over(start, final, frozen_to(stable, front, node)):
            if is_standing(lacks[node]):
                if end > start and end >= told and told < INF:
                    kept[n_kept] = node
                    n_kept += 1
                    continue
                inputs[node, port] = start
                if present(inputs, node, start, attached) == 0:
                    dead[node] = True
                    died[0] += 1
                continue
            if final == start:
                # taken back, or it was frozen so before: an end that is open may become another one
                agrees = end == start or (end < lacks[node] and (end < told or told == INF))
                differs = start < told and lacks[node] <= told
            else:
                agrees = end == start or end == final
                differs = min(end, final) < told
            # what ends before `doubted` need not be true, and what is open may come to end there
            agrees = agrees or end < doubted
            differs = differs and doubted <= told
            if agrees or differs:
                if not agrees:
                    wrong_node[n_wrong], wrong[n_wrong] = node, HAS if final == start else ENDS
                    n_wrong += 1
                    continue
                inputs[node, port] = final
                if asked(inputs, node, start, final, attached) == 0:
                    dead[node] = True
                    died[0] += 1
                continue
        elif end == start or end >= frozen_to(stable, front, node) or end < doubted:
            continue
        elif end < told:
            wrong_node[n_wrong], wrong[n_wrong] = node, ENDS
            n_wrong += 1
            continue
        kept[n_kept] = node
        n_kept += 1
    return n_kept, n_wrong
