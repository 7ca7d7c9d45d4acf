"""Placement: where a plan waits and where it forgets, as the dial says.

`Consistency` asks for a point of the spectrum; `placed` turns it into operators. On every path from a
source, Finalize(memory) and then Align(blocking) stand below the first stateful operator, so that all
of the plan's state is kept over one stream, ordered and bounded as the dial wants it, and what one
operator waits for no other has to wait for again. Where a path without state meets one with state in a
union, it is made to wait there. A plan without state needs neither: it has nothing to forget, and
nothing is gained by holding back what it passes on row by row.

- An operator obeys the nearest dial above it; one that two different dials reach is refused.
- The loop of a fixpoint is never held back: only what enters it is.
- What two operators read is held back once, for both.

A disordered source is mended by a Finalize right behind it, with the memory of the dial, or the longest
of several. There is none where nothing but projections follow: external ctis pass those unchanged.
Elsewhere their counts would be wrong, with state or without it.

A plan whose dial is to be turned while it runs (`turnable`) has both operators wherever a dial could
place them, at MIDDLE too: what is not there cannot be turned. `ultra` cannot be turned, for others rely
on it that nothing is ever taken back.

Paper 1b section 3 (Figure 2); docs/design/2026-11-16-external-ctis.md.
"""

from __future__ import annotations

from slackwater.consistency import MIDDLE, Dial
from slackwater.errors import PlanError
from slackwater.plan import nodes as n
from slackwater.times import INF

__all__ = ["placed", "the_dial"]

_STATELESS = (
    n.Source,
    n.Argument,
    n.Where,
    n.Select,
    n.AlterLifetime,
    n.Deletes,
    n.PointAtEnd,
    n.Chop,
    n.Union,
    n.Finalize,
    n.Punctuate,
    n.Consistency,
    n.Latency,
)


def placed(root: n.Node, *, turnable: bool = False) -> n.Node:
    """The plan with every dial turned into Finalize and Align, and disordered sources mended.

    The plan itself if there is nothing to do.
    """
    order = list(n.walk(root))
    disordered = [node for node in order if isinstance(node, n.Source) and node.disordered]
    if not (disordered or turnable) and not any(isinstance(node, n.Consistency) for node in order):
        return root
    dials = _dials(root, order)
    mended: dict[n.Node, n.Finalize] = {
        source: _mended(source, dials[source], turnable)
        for source in disordered
        if _needs_mending(source, order)
    }
    # whether nothing on the paths from the sources keeps state; an argument comes out of a loop
    bare: dict[n.Node, bool] = {}
    new: dict[n.Node, n.Node] = {}
    held_back: dict[tuple[n.Node, Dial], n.Node] = {}
    for node in order:
        below = [bare[child] for child in node.inputs]
        stateful = _is_stateful(node)
        bare[node] = not stateful and all(below) and not isinstance(node, n.Argument)
        waits = not bare[node] and any(below)
        dial = _the_dial(node, dials[node]) if waits else MIDDLE
        inputs: dict[n.Node, n.Node] = {}
        for child in node.inputs:
            if waits and bare[child] and (dial != MIDDLE or turnable):
                key = (child, dial)
                # what is remembered so long only need not be forgotten twice
                sources = {mended.get(part) for part in n.walk(child) if isinstance(part, n.Source)}
                done = all(m and (m.memory, m.clock) == (dial.memory, dial.clock) for m in sources)
                held_back.setdefault(key, _held_back(new[child], dial, turnable, forgets=not done))
                inputs[child] = held_back[key]
            else:
                inputs[child] = new[child]
        new[node] = mended.get(node) or n.over(node, [inputs[child] for child in node.inputs])
    return new[root]


def _needs_mending(source: n.Node, order: list[n.Node]) -> bool:
    """Whether anything but a Finalize reads the source, or what is left of it after projections."""
    raw = {source}
    for node in order:
        if raw.isdisjoint(node.inputs):
            continue
        if isinstance(node, n.Select | n.Consistency | n.Latency):
            raw.add(node)
        elif not isinstance(node, n.Finalize):
            return True
    return False


def _mended(source: n.Node, dials: set[Dial], turnable: bool) -> n.Finalize:
    """Of several memories the longest; a clock that not all agree on cannot measure it."""
    longest = max(dials, key=lambda dial: dial.memory)
    if len({dial.clock for dial in dials}) > 1:
        return n.Finalize(source, INF)
    turns = turnable and not any(dial.perfect for dial in dials)
    return n.Finalize(source, longest.memory, longest.clock, turns)


def _dials(root: n.Node, order: list[n.Node]) -> dict[n.Node, set[Dial]]:
    """For each node, the nearest dials above it; the default where there is none."""
    found: dict[n.Node, set[Dial]] = {node: set() for node in order}
    found[root] = {MIDDLE}
    # readers before what they read
    for node in reversed(order):
        below = {node.dial} if isinstance(node, n.Consistency) else found[node]
        for child in node.inputs:
            found[child] |= below
    return found


def _is_stateful(node: n.Node) -> bool:
    if isinstance(node, n.GroupApply):
        return any(_is_stateful(part) for part in n.walk(node.body))
    return not isinstance(node, _STATELESS)


def _the_dial(node: n.Node, dials: set[Dial]) -> Dial:
    if len(dials) > 1:
        raise PlanError(
            f"{node.name} is read at two points of the consistency spectrum",
            detail=" and ".join(sorted(map(str, dials))),
            hint="put consistency() below the place where the stream is shared",
        )
    [dial] = dials
    return dial


def _held_back(node: n.Node, dial: Dial, turnable: bool, *, forgets: bool) -> n.Node:
    turns = turnable and not dial.perfect
    if forgets and (dial.memory < INF or turns):
        node = n.Finalize(node, dial.memory, dial.clock, turns)
    if dial.blocking > 0 or turns:
        node = n.Align(node, dial.blocking, dial.clock, dial.perfect, turns)
    return node


def the_dial(root: n.Node) -> Dial:
    """The dial of a whole plan, for turning it; refused if there are several, or if it is `ultra`."""
    found = {node.dial for node in n.walk(root) if isinstance(node, n.Consistency)} or {MIDDLE}
    if len(found) > 1:
        raise PlanError(
            "the query has several dials, and none that could be turned for all",
            detail=", ".join(sorted(map(str, found))),
        )
    [dial] = found
    if dial.perfect:
        raise PlanError(
            "a query at ultra cannot be turned",
            detail="that nothing is ever taken back holds for its whole answer",
            hint="start it at strong, which waits as long for everything but ends",
        )
    return dial
