"""One bucket of one stage at work: the parcels of a batch go in, and parcels come out.

The rows of each input enter in the order of their origins, then the promise that all origins together
allow. What leaves the stage is spread over the buckets of those who read it; every one of them gets a
parcel, if only with the promise. So a batch is atomic for a stage: all of its input, and nothing of the
next.

A bucket's state is what its operators remember, what its sources have said, and how far its origins are:
plain data, which follows from the parcels of all batches so far and from nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from slackwater.distributed.parcels import MOST_ROWS, SINK, From, Parcel, in_order, pack, spread
from slackwater.distributed.program import Program
from slackwater.distributed.progress import Frontier
from slackwater.distributed.repeats import Repeats
from slackwater.events import Batch
from slackwater.ledger import Entry
from slackwater.plan.nodes import Node, Source
from slackwater.policies import Progress
from slackwater.punctuations import Punctuation
from slackwater.runtime.dataflow import Dataflow
from slackwater.runtime.edge import Edge
from slackwater.times import BEGIN, show
from slackwater.validity import Validator

__all__ = ["Bucket", "Remembered", "Said", "Standing", "parcels_of"]


@dataclass(frozen=True, slots=True)
class Standing:
    """How one bucket stands, for the handle and for people."""

    stage: int
    bucket: int
    rows_in: int
    rows_out: int
    taken_back: int
    state_rows: int
    promised: int
    """the least promise of its inputs"""
    held_by: str
    """the origin that has promised least"""
    state_bytes: int = 0
    """how much memory it takes, when that was looked at last"""
    link: str = ""
    """what came in, as a digest: see store.py"""


@dataclass(frozen=True, slots=True)
class Said:
    """What a bucket says to one batch."""

    parcels: list[Parcel]
    entries: list[Entry]
    standing: Standing


@dataclass(slots=True)
class Remembered:
    """What a bucket needs to go on from here."""

    operators: list[Any]
    validators: list[Validator | None]
    frontiers: list[Frontier]
    promised: list[int]
    repeats: list[Repeats]


class Bucket:
    """One share of a stage."""

    def __init__(self, program: Program, stage: int, number: int) -> None:
        self._program, self.stage, self.number = program, stage, number
        self._now = 0
        plan = program.stage(stage)
        self._feeds = plan.feeds
        self._exits = plan.exits
        self._dataflow = Dataflow(
            plan.roots, program.latencies, on_invalid=program.on_invalid, now=self._clock
        )
        ledger = self._dataflow.ledger
        self._edges = [
            Edge(feed.entrance, program.on_invalid, ledger) if isinstance(feed.node, Source) else None
            for feed in self._feeds
        ]
        self._frontiers = [
            Frontier(program.progress.get(feed.entrance.stream_name, Progress()))
            if isinstance(feed.node, Source)
            else Frontier(Progress(partitions=program.buckets))
            for feed in self._feeds
        ]
        self._promised = [BEGIN for _ in self._exits]
        self._repeats = [Repeats() for _ in self._feeds]

    def _clock(self) -> int:
        return self._now

    def step(self, parcels: Iterable[Parcel], now: int) -> Said:
        """Take in all parcels of a batch, which was cut at that time."""
        self._now = now
        by_feed: list[list[Parcel]] = [[] for _ in self._feeds]
        for parcel in parcels:
            by_feed[parcel.feed].append(parcel)
        rows_in = 0
        for place, arrived in enumerate(by_feed):
            rows_in += self._take_in(place, in_order(arrived))
        out: list[Parcel] = []
        rows_out = taken_back = 0
        for place, node in enumerate(self._exits):
            batch = self._left(place, node)
            rows_out += batch.rows
            taken_back += batch.taken_back
            out += self._sent(place, node, batch)
        return Said(out, self._dataflow.ledger.take(), self._standing(rows_in, rows_out, taken_back))

    def _take_in(self, place: int, parcels: list[Parcel]) -> int:
        feed, frontier = self._feeds[place], self._frontiers[place]
        schema = feed.entrance.schema
        repeats = self._repeats[place]
        fresh = (repeats.without(p.origin, *p.tagged(schema)) for p in parcels if p.rows)
        batch = Batch.concat([Batch.empty(schema), *fresh])
        before = frontier.promised
        for parcel in parcels:
            told = {"promise": parcel.promise, "latest": parcel.latest, "now": self._now}
            frontier.hear(parcel.origin, **told)
        promise = frontier.advance(self._now)
        batch = self._without_late(place, batch, before)
        controls = [Punctuation(promise)] if promise > before else []
        edge = self._edges[place]
        if edge is None:
            self._push(feed.entrance, batch.followed_by(controls))
        else:
            for admitted in edge.admit(batch.followed_by(controls)):
                self._push(feed.entrance, admitted)
        return sum(parcel.rows for parcel in parcels)

    def _without_late(self, place: int, batch: Batch, before: int) -> Batch:
        """What comes behind a promise that a policy has made in a source's name goes to the ledger."""
        policy = self._frontiers[place].policy
        if policy.lateness is None and policy.idle is None:
            return batch
        late = batch.sync < before
        if not late.any():
            return batch
        name = self._feeds[place].entrance.stream_name
        for element in batch.where(late):
            self._dataflow.ledger.write(
                element,
                reason="late",
                place=name,
                detail=f"{name} was taken to be complete up to {show(before)}: {policy}",
            )
        return batch.where(~late)

    def _push(self, entrance: Source, batch: Batch) -> None:
        self._dataflow.push(entrance, batch)
        self._dataflow.run_until_quiet()

    def _left(self, place: int, node: Node) -> Batch:
        """What has left through an exit, and how far that has promised now."""
        batches = self._dataflow.take_output(place)
        for batch in batches:
            for placed in batch.controls:
                if isinstance(placed.control, Punctuation):
                    self._promised[place] = max(self._promised[place], placed.control.before)
        return Batch.concat([Batch.empty(node.schema), *(batch.data() for batch in batches)])

    def _sent(self, place: int, node: Node, batch: Batch) -> Iterator[Parcel]:
        sender = From(str(self.number), self._promised[place], now=self._now)
        program = self._program
        for target in program.targets(node):
            shares = spread(batch, target.columns, program.buckets)
            address = target.stage, target.feed
            yield from parcels_of(sender, address, shares, program.buckets)
        if node is program.cut.root:
            yield from parcels_of(sender, (SINK, 0), [(0, batch)], 1)

    def _standing(self, rows_in: int, rows_out: int, taken_back: int) -> Standing:
        least = min(self._frontiers, key=lambda frontier: frontier.promised)
        place = self._frontiers.index(least)
        origin = least.held_by(self._now)
        name = self._feeds[place].entrance.stream_name
        return Standing(
            self.stage,
            self.number,
            rows_in,
            rows_out,
            taken_back,
            sum(operator.describe().state_rows for operator in self._dataflow.operators),
            least.promised,
            f"{name}, {origin or 'of which nothing is known yet'}",
        )

    def remembered(self) -> Remembered:
        """All that is needed to go on from here; it must be written down before the next step."""
        return Remembered(
            self._dataflow.snapshot(),
            [None if edge is None else edge.validator for edge in self._edges],
            self._frontiers,
            self._promised,
            self._repeats,
        )

    def restore(self, state: Remembered) -> None:
        """Go on from there."""
        self._dataflow.restore(state.operators)
        for edge, validator in zip(self._edges, state.validators, strict=True):
            if edge is not None and validator is not None:
                edge.validator = validator
        self._frontiers, self._promised = state.frontiers, state.promised
        self._repeats = state.repeats


def parcels_of(
    sender: From, address: tuple[int, int], shares: Iterable[tuple[int, Batch]], buckets: int
) -> Iterator[Parcel]:
    """The parcels of an origin for one input: those with rows, and one for every bucket without."""
    stage, feed = address
    origin, promise, latest, now, name, first = sender
    silent = np.ones(buckets, dtype=np.bool_)
    for bucket, batch in shares:
        if not batch.rows:
            continue
        silent[bucket] = False
        for number, part in enumerate(batch.split(MOST_ROWS), first):
            data = pack(part)
            progress = promise, latest, now
            yield Parcel(stage, bucket, feed, origin, name, number, *progress, part.rows, data)
    for bucket in np.flatnonzero(silent).tolist():
        yield Parcel(stage, bucket, feed, origin, name, first, promise, latest, now)
