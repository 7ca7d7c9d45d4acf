"""Consequences: during which time the results would have been others, had a row not been given up.

A change of one stream is followed through the plan, node by node, up to the answer. It is known in one
of two forms:

    Changed      a row [vs, old_ve) became [vs, new_ve); a row that was not there, or is gone, ends at vs
    Stretch      at no instant outside [since, until) the stream has other rows

As long as every row goes its own way (where, select, windows), a change stays one of a row, and where it
leads to is known exactly. What looks at several rows (joins, sets, aggregates) makes it a stretch. A
stretch keeps its ends through all that is local in time. Otherwise its start moves as a cti would, since
both streams are the same before it, and its end is unknown: rows that overlap it may last for ever. That
is so for sessions, ends that follow ve, and whatever asks which row started first. A window that follows
vs alone has an end all the same: a row that differs starts at `until` at the latest.

The law (tests/plan/test_consequences.py): answers with and without the row are equal at every instant
outside the stretch. It may be too long; it is never too short.

Each row is told as if it were the only one that was given up: of two equal rows, distinct would miss
neither alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias

import numpy as np

from slackwater.consistency import OutputLatency
from slackwater.events import Adjust, Insert
from slackwater.plan import aggregations as agg
from slackwater.plan import nodes as n
from slackwater.plan.lifetimes import Lifetime, Sum, Symbol
from slackwater.plan.loops import turning
from slackwater.plan.matching import TO_NEXT_ROW, decides_by_one_row
from slackwater.plan.properties import infer
from slackwater.times import BEGIN, INF, Times, plus

__all__ = ["Changed", "Consequences", "Stretch"]


@dataclass(frozen=True, slots=True)
class Changed:
    """Rows that end elsewhere now; one that is not there ends where it starts."""

    vs: Times
    old_ve: Times
    new_ve: Times

    @classmethod
    def of(cls, elements: Sequence[Insert | Adjust]) -> Changed:
        """What elements change, or would have changed."""
        old = [e.vs if isinstance(e, Insert) else e.ve for e in elements]
        new = [e.ve if isinstance(e, Insert) else e.new_ve for e in elements]
        return cls(*(np.array(each, dtype=np.int64) for each in ([e.vs for e in elements], old, new)))


@dataclass(frozen=True, slots=True)
class Stretch:
    """Times between which a stream differs; empty if `since` is not before `until`."""

    since: Times
    until: Times

    def pairs(self) -> list[tuple[int, int]]:
        """Since and until of each; the two are equal where nothing differs."""
        return list(zip(self.since.tolist(), np.maximum(self.since, self.until).tolist(), strict=True))


Change: TypeAlias = Changed | Stretch


class Consequences:
    """What changes of streams lead to, in the answers of a plan.

    `stands_for` names nodes of this plan by others, where only a part of it runs in one place.
    """

    def __init__(self, *roots: n.Node, stands_for: Mapping[n.Node, n.Node] | None = None) -> None:
        self._roots = roots
        self._order = list(n.walk(*roots))
        self._stands_for = stands_for or {}

    def of_input(self, node: n.Node, change: Changed) -> Stretch:
        """What follows from a change of what a node of one input gets."""
        node = self._stands_for.get(node, node)
        return self._followed(node, _through(node, 0, change))

    def of_output(self, node: n.Node, change: Changed) -> Stretch:
        """What follows from a change of what a node, perhaps a source, gives.

        Of an outer join that is a pair, and while it lasts its rows are alone or not: where they are cut
        depends on it, too. Of a merge it is an event that inputs give other ends, of which one is told;
        and if they may lengthen it, they may come to give it later ones.
        """
        at = self._stands_for.get(node, node)
        if isinstance(node, n.Merge):
            stretch = _stretch(change)
            return self._followed(at, _without_end(stretch) if _may_lengthen(node) else stretch)
        alone = isinstance(at, n.Join) and at.how != "inner"
        return self._followed(at, _stretch(change) if alone else change)

    def _followed(self, start: n.Node, change: Change) -> Stretch:
        found: dict[n.Node, Change] = {start: change}
        for node in self._order:
            if node in found:
                continue
            led_to = [
                _through(node, port, found[child])
                for port, child in enumerate(node.inputs)
                if child in found
            ]
            if led_to:
                found[node] = led_to[0] if len(led_to) == 1 else _together(led_to)
        return _together(found[root] for root in self._roots if root in found)


def _may_lengthen(node: n.Merge) -> bool:
    """Whether an input of a merge may let an event end later than it has said."""
    known = (infer(node, latency) for latency in OutputLatency)
    return not all(each[stream].never_lengthens for each in known for stream in node.streams)


def _through(node: n.Node, port: int, change: Change) -> Change:
    """What a change of one input of a node changes in its output."""
    match node, change:
        case n.AlterLifetime(), Changed():
            return _altered(node.lifetime, change)
        case n.AlterLifetime(), Stretch():
            return _moved(node.lifetime, change)
        case n.Deletes(), Changed():
            return Stretch(_first_end(change), np.full(len(change.vs), INF))
        case n.PointAtEnd(), Changed():
            return Stretch(_first_end(change), plus(1, np.maximum(change.old_ve, change.new_ve)))
        case ((n.Deletes() | n.PointAtEnd() | n.Session() | n.ClipBy()), Stretch()):
            return _without_end(change)
        case n.Session(), Changed():
            return _from_starts(change)
        case n.ClipBy(), Changed():
            return _stretch(change) if port == 0 else _from_starts(change)
        case n.Aggregate(), Stretch() if _asks_for_starts(node):
            return _without_end(change)
        case n.Match(), _:
            return _found(node, _stretch(change))
        case n.Fixpoint(), _:
            return _round_and_round(node, _stretch(change))
        case (
            (
                n.Join()
                | n.Distinct()
                | n.Intersect()
                | n.Difference()
                | n.Aggregate()
                | n.Rank()
                | n.Chop()
                | n.Automaton()
            ),
            _,
        ):
            return _stretch(change)
        case _:
            assert isinstance(node, _SAME), f"{node.name} does not say what a change changes"
            return change


_SAME = (
    n.Where
    | n.Select
    | n.Union
    | n.Merge
    | n.Sort
    | n.Align
    | n.Cleanse
    | n.Finalize
    | n.Punctuate
    | n.Consistency
    | n.Latency
)
"""nodes that let every row through as it is, or not at all"""


def _round_and_round(loop: n.Fixpoint, change: Stretch) -> Stretch:
    """What goes round stays where it is in time, unless there is a window on the loop."""
    moves = any(not isinstance(node, _LOCAL) for node in turning(loop))
    return _without_end(change) if moves else change


_LOCAL = (
    n.Argument, n.Where, n.Select, n.Union, n.Join, n.Distinct, n.Aggregate, n.Consistency, n.Latency
)  # fmt: skip
"""nodes that say of an instant what follows from that instant"""


def _altered(lifetime: Lifetime, change: Changed) -> Changed:
    """Each row in its new lifetime, of which nothing may be left."""
    start = lifetime.starts(change.vs)

    def end(ve: Times) -> Times:
        return np.where(ve > change.vs, np.maximum(lifetime.ends(change.vs, ve), start), start)

    return Changed(start, end(change.old_ve), end(change.new_ve))


def _moved(lifetime: Lifetime, change: Stretch) -> Stretch:
    """A stretch, when all rows in it get other lifetimes."""
    if (by := _shift_of(lifetime)) is not None:
        return Stretch(plus(by, change.since), plus(by, change.until))
    since, until = lifetime.promises(change.since), _without_end(change).until
    if not any(part.mentions("ve") or part.falls_with("vs") for part in lifetime.end.sums()):
        latest = lifetime.ends(change.until, change.until)
        until = np.where(change.until == INF, INF, np.maximum(latest, change.until))
    return Stretch(since, np.where(change.since < change.until, until, since))


def _shift_of(lifetime: Lifetime) -> int | None:
    """How far both ends move, if that is all that happens."""
    start, end = lifetime.start, lifetime.end
    if not isinstance(start, Sum) or not isinstance(end, Sum) or start.constant != end.constant:
        return None
    plain = start.atoms == ((Symbol("vs"), 1),) and end.atoms == ((Symbol("ve"), 1),)
    return start.constant if plain else None


def _first_end(change: Changed) -> Times:
    """The first time at which a row ends that is there before or after."""
    old = np.where(change.old_ve > change.vs, change.old_ve, INF)
    new = np.where(change.new_ve > change.vs, change.new_ve, INF)
    return np.where(old == new, INF, np.minimum(old, new))


def _from_starts(change: Changed) -> Stretch:
    """From the start of each row that came or went; where it ends does not matter."""
    comes_or_goes = (change.old_ve > change.vs) != (change.new_ve > change.vs)
    return Stretch(change.vs, np.where(comes_or_goes, INF, change.vs))


def _found(node: n.Match, change: Stretch) -> Stretch:
    """From there on; but what may give up what it had begun, or give way to others, may end before."""
    if node.after is TO_NEXT_ROW and decides_by_one_row(node.pattern):
        return _without_end(change)
    is_some = change.since < change.until
    return Stretch(np.where(is_some, BEGIN, change.since), np.where(is_some, INF, change.until))


def _asks_for_starts(node: n.Aggregate) -> bool:
    """Whether its values depend on when rows started."""
    asking = (agg.First, agg.Last, agg.GroupFunction)
    return any(isinstance(each, asking) for each in node.aggregations.values())


def _stretch(change: Change) -> Stretch:
    if isinstance(change, Stretch):
        return change
    return Stretch(np.minimum(change.old_ve, change.new_ve), np.maximum(change.old_ve, change.new_ve))


def _together(changes: Iterable[Change]) -> Stretch:
    """The least stretch that has all of them; empty ones do not count."""
    return reduce(_both, map(_stretch, changes))


def _both(one: Stretch, other: Stretch) -> Stretch:
    one_is_empty, other_is_empty = one.since >= one.until, other.since >= other.until
    since, until = np.minimum(one.since, other.since), np.maximum(one.until, other.until)
    since = np.where(one_is_empty, other.since, np.where(other_is_empty, one.since, since))
    until = np.where(one_is_empty, other.until, np.where(other_is_empty, one.until, until))
    return Stretch(since, until)


def _without_end(change: Stretch) -> Stretch:
    """From there on for ever, where there is something at all."""
    return Stretch(change.since, np.where(change.since < change.until, INF, change.since))
