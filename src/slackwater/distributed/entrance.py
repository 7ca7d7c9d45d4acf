"""Where a stream enters a bucket: what its origins say is put together, and judged.

The rows of each origin come in its own order. Those that were here before are left out (repeats.py), of
a source those are refused that break a promise of their own origin (ctis.py), and what a policy has
made late goes to the ledger, with every later element that continues it; what was set aside is
remembered until the promise has passed it. Then comes what all origins together promise: of payloads
(pledges.py), and of time (progress.py).

A stream that is all in one bucket is closed in the others from the beginning: nothing of it can come
there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple

from slackwater.admission import Admission
from slackwater.distributed.ctis import kept
from slackwater.distributed.parcels import Parcel
from slackwater.distributed.pledges import Pledges
from slackwater.distributed.progress import Frontier
from slackwater.distributed.repeats import Repeats
from slackwater.events import Batch, Control
from slackwater.ledger import Ledger
from slackwater.operators.buffer import Buffer
from slackwater.operators.finalize import given_up_among
from slackwater.plan.consequences import Changed, Consequences
from slackwater.plan.exchanges import Feed
from slackwater.plan.nodes import Source
from slackwater.policies import Progress
from slackwater.punctuations import Promise, Punctuation, Reached
from slackwater.runtime.edge import Edge, OnInvalid
from slackwater.times import BEGIN, INF, show

__all__ = ["Entered", "Entrance", "Heard", "Judging"]


class Heard(NamedTuple):
    """What was promised before a batch: of the stream, and by each origin itself."""

    before: int
    by_origin: dict[str, int]


class Judging(NamedTuple):
    """What becomes of elements that cannot be taken in."""

    on_invalid: OnInvalid
    ledger: Ledger
    consequences: Consequences


@dataclass(slots=True)
class Entered:
    """What is remembered of a stream that enters."""

    frontier: Frontier
    pledges: Pledges
    repeats: Repeats
    lost: Buffer
    """what was late, and may be continued"""
    validator: Admission | None
    """of a source: what it may still adjust"""


class Entrance:
    """One stream that enters one bucket."""

    def __init__(self, feed: Feed, policy: Progress, judging: Judging, *, is_void: bool = False) -> None:
        self.feed, self._judging, self._is_void = feed, judging, is_void
        self.schema = feed.entrance.schema
        self.frontier = Frontier(policy)
        # buckets are as many origins
        self._pledges = Pledges(self.schema, feed.spread, policy.partitions)
        self._repeats = Repeats()
        self._lost = Buffer(self.schema, timed=False)
        self._edge: Edge | None = None
        if isinstance(feed.node, Source) and feed.has_partitions:
            self._edge = Edge(feed.entrance, *judging)

    @property
    def promised(self) -> int:
        """What the stream has promised here: all, once it was heard of, if nothing of it ever comes."""
        is_closed = self._is_void and self.frontier.began is not None
        return INF if is_closed else self.frontier.promised

    def hear(self, parcels: Iterable[Parcel], now: int) -> Heard:
        """Its origins have said how far they are; what was promised before that."""
        before = Heard(self.promised, self.frontier.told)
        for parcel in parcels:
            self.frontier.hear(
                parcel.origin,
                promise=parcel.promise,
                latest=parcel.latest,
                now=now,
                slowest=parcel.slowest if self.feed.source is None else parcel.latest,
                held_by=parcel.held_by,
                # who reads a source sends only what there is
                spoke=isinstance(self.feed.node, Source),
            )
        self.frontier.advance(now)
        return before

    def taken_in(self, parcels: Iterable[Parcel], heard: Heard) -> list[Batch]:
        """The rows that have come, and what is promised now, as operators expect them."""
        patterns: dict[str, list[Promise]] = {}
        fresh = self._fresh(parcels, heard.by_origin, patterns)
        batch = Batch.concat([Batch.empty(self.schema), *fresh])
        batch = self._without_late(batch, heard.before)
        promised, frontier = self.promised, self.frontier
        told: list[Control] = [*self._pledges.hear(patterns, frontier.unended())]
        told += [Punctuation(promised)] if promised > heard.before else []
        whole = batch.followed_by(told)
        parts = [whole] if self._edge is None else list(self._edge.admit(whole))
        last = (placed.control for placed in parts[-1].controls)
        reached = Reached(INF, BEGIN) if self._is_void else frontier.reached
        parts[-1] = parts[-1].followed_by([*last, reached])
        return parts

    def _fresh(
        self, parcels: Iterable[Parcel], told_by: dict[str, int], patterns: dict[str, list[Promise]]
    ) -> Iterator[Batch]:
        """The rows that have not been here before; of a source, those that keep their origin's promises.

        What origins promise of payloads is put into `patterns`.
        """
        for origin, own in groupby(parcels, lambda parcel: parcel.origin):
            parts = self._parts(origin, own, patterns)
            if self._edge is None:
                yield from (rows for rows, _ in parts if rows.rows)
            else:
                told = replace(self._pledges.of(origin), cti=told_by.get(origin, BEGIN))
                yield kept(self._edge, told, parts)

    def _parts(
        self, origin: str, parcels: Iterable[Parcel], patterns: dict[str, list[Promise]]
    ) -> Iterator[tuple[Batch, list[Promise]]]:
        """The rows of an origin, and what it promises behind them."""
        for parcel in parcels:
            if told := parcel.promises(self.schema):
                patterns.setdefault(origin, []).extend(told)
                yield Batch.empty(self.schema), told
            elif parcel.rows or parcel.promise > BEGIN:
                yield self._repeats.without(origin, *parcel.tagged(self.schema)), parcel.ctis

    def _without_late(self, batch: Batch, before: int) -> Batch:
        """What comes behind a promise that a policy has made in a source's name goes to the ledger."""
        lost, policy = self._lost, self.frontier.policy
        if self.feed.source is None or (policy.lateness is None and policy.idle is None):
            return batch
        late = (batch.sync < before) | (before == INF)
        gone = given_up_among(lost, batch, late)
        lost.forget_ends_before(self.frontier.promised)
        if not gone.any():
            return batch
        entrance, rows = self.feed.entrance, batch.where(gone)
        name = entrance.stream_name
        change = Changed(rows.vs, rows.old_ve, rows.new_ve)
        stretches = self._judging.consequences.of_output(entrance, change).pairs()
        for element, is_late, during in zip(rows, late[gone].tolist(), stretches, strict=True):
            why = f"{name} was taken to be complete up to {show(before)}: {policy}"
            self._judging.ledger.write(
                element,
                reason="late",
                place=name,
                detail=why if is_late else "it continues what was late",
                during=during,
            )
        return batch.where(~gone)

    def held_by(self, now: int) -> str:
        """What holds its promise back, for people."""
        called = self.feed.entrance.stream_name
        name, origin = self.frontier.held_by(now)
        if origin is not None and self.feed.source is None:
            return origin.held_by
        if origin is None:
            return f"{called}: {name}" if name else ""
        return f"{called}, partition {name or repr(name)}"

    def remembered(self) -> Entered:
        """All that is needed to go on from here."""
        validator = None if self._edge is None else self._edge.validator
        return Entered(self.frontier, self._pledges, self._repeats, self._lost, validator)

    def restore(self, state: Entered) -> None:
        """Go on from there."""
        self.frontier, self._pledges = state.frontier, state.pledges
        self._repeats, self._lost = state.repeats, state.lost
        if self._edge is not None:
            assert state.validator is not None, "it is a source"
            self._edge.validator = state.validator
