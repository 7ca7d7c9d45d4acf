"""One bucket of one stage at work: the parcels of a batch go in, and parcels come out.

The rows of each input enter in the order of their origins, then the promise that all origins together
allow. Rows of a source that break a promise of their own origin are refused before that (ctis.py). What
leaves the stage is spread over the buckets of those who read it; every one of them gets a parcel, if
only with the promise. So a batch is atomic for a stage: all of its input, and nothing of the next.

How far the sources have come is told to every bucket alike, so that what operators wait for and forget
does not depend on how rows were spread. A stream that is all in one bucket is closed in the others from
the beginning: nothing of it can come there. What a policy has made late goes to the ledger, and with it
every later element that continues it; what was set aside is remembered until the promise has passed it.
How the dial was turned, and what is no longer of interest, comes as a parcel, too, and counts before the
rows of its batch: in all stages alike, so that no stage waits for what an earlier one leaves out.
What is broadcast is judged, and computed with, in every bucket alike. Bucket 0 speaks for all of them:
it writes the ledger, and sends on what leaves.

A bucket's state is what its operators remember, what its sources have said, and how far its origins are:
plain data, which follows from the parcels of all batches so far and from nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

import numpy as np

from slackwater.admission import Admission
from slackwater.consistency import Dial
from slackwater.distributed.controls import read_control
from slackwater.distributed.ctis import kept
from slackwater.distributed.mending import Mender, Partition
from slackwater.distributed.parcels import (
    CONTROL,
    MOST_ROWS,
    PROMISED,
    SINK,
    From,
    Parcel,
    in_order,
    pack,
    pack_promises,
    shared,
)
from slackwater.distributed.pledges import Pledges, routed
from slackwater.distributed.program import Program
from slackwater.distributed.progress import Frontier, follow
from slackwater.distributed.repeats import Repeats
from slackwater.events import Batch, Control
from slackwater.ledger import Entry, Ledger
from slackwater.operators.buffer import Buffer
from slackwater.operators.combined import together
from slackwater.operators.finalize import given_up_among
from slackwater.plan.consequences import Changed
from slackwater.plan.exchanges import ORIGIN, Feed
from slackwater.plan.nodes import Node, Source, walk
from slackwater.policies import Progress
from slackwater.promises import Promises
from slackwater.punctuations import Closings, Promise, Punctuation, Reached
from slackwater.runtime.dataflow import Dataflow
from slackwater.runtime.edge import Edge
from slackwater.times import BEGIN, INF, show

_BEHIND = "~"
"""the name of a part that is behind the rows of a bucket, which have none"""

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
    """what holds it back: a partition of a source, followed back to it through earlier stages"""
    promises: dict[str, int] = field(default_factory=dict)
    """what each source has promised that enters here"""
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
    validators: list[Admission | None]
    frontiers: list[Frontier]
    pledges: list[Pledges]
    promised: list[int]
    repeats: list[Repeats]
    reached: list[Reached]
    lost: list[Buffer]
    """of each input: what was late, and may be continued"""
    mended: list[dict[str, Partition]]
    dial: Dial | None
    unwanted: list[Promises | None]
    """of each exit: what is of no interest any more"""
    now: int


class Bucket:
    """One share of a stage."""

    def __init__(self, program: Program, stage: int, number: int) -> None:
        self._program, self.stage, self.number = program, stage, number
        self._now = 0
        plan = program.stage(stage)
        self._feeds = plan.feeds
        self._exits, self._roots = plan.exits, plan.roots
        self._dataflow = Dataflow(
            plan.roots,
            program.latencies,
            on_invalid=program.on_invalid,
            now=self._clock,
            told=True,
            consequences=program.consequences(stage),
        )
        self._alike = plan.everywhere
        self._unheard = Ledger()
        """what bucket 0 writes down, too"""
        for operator in self._dataflow.operators:
            operator.ledger = self._ledger(broadcast=operator.node in plan.everywhere)
        ledger = self._dataflow.ledger
        consequences = self._dataflow.consequences
        self._menders = [
            Mender(program, mending, number, ledger=ledger, consequences=consequences, now=self._clock)
            for mending in plan.mends
        ]
        self._edges = [
            Edge(feed.entrance, program.on_invalid, self._ledger(broadcast=feed.broadcast), consequences)
            if isinstance(feed.node, Source) and feed.has_partitions
            else None
            for feed in self._feeds
        ]
        self._combining = [
            None if feed.source is None else program.combining(feed.source) for feed in self._feeds
        ]
        self._frontiers = [Frontier(self._policy(feed)) for feed in self._feeds]
        self._frontiers += (Frontier(program.policy(source)) for source in self._watched_sources())
        nodes = [*(feed.node for feed in self._feeds), *program.watched(stage)]
        self._is_raw = [isinstance(node, Source) for node in nodes]
        """whether a stream comes from where it is read: who reads it sends only what there is"""
        self._pledges = [Pledges(feed.entrance.schema, feed.spread) for feed in self._feeds]
        self._lost = [Buffer(feed.entrance.schema, timed=False) for feed in self._feeds]
        self._promised = [BEGIN for _ in self._exits]
        self._patterns: list[list[Promise]] = [[] for _ in self._exits]
        """what has left through each exit, promised of payloads, and was not sent yet"""
        self._repeats = [Repeats() for _ in self._feeds]
        self._reached = [Reached(BEGIN, BEGIN) for _ in self._exits]
        self._dial: Dial | None = None
        leaving = (*self._exits, *(mending.node for mending in plan.mends))
        self._targets = {node: program.targets(node) for node in leaving}
        entrances = [feed.entrance for feed in self._feeds]
        self._below = [
            [entrances.index(node) for node in walk(root) if isinstance(node, Source)]
            for root in plan.roots
        ]
        """of each exit: the inputs that it is made of"""

    def _policy(self, feed: Feed) -> Progress:
        if feed.source is None:
            return Progress(partitions=self._program.buckets)
        return self._program.policy(feed.source)

    def _watched_sources(self) -> Iterator[Source]:
        everywhere = [feed for stage in self._program.cut.stages for feed in stage.feeds]
        for node in self._program.watched(self.stage):
            [source] = {feed.source for feed in everywhere if feed.node is node}
            assert source is not None, "only sources are watched"
            yield source

    def _clock(self) -> int:
        return self._now

    def _speaks(self, *, broadcast: bool) -> bool:
        return not broadcast or self.number == 0

    def _ledger(self, *, broadcast: bool) -> Ledger:
        return self._dataflow.ledger if self._speaks(broadcast=broadcast) else self._unheard

    def step(self, parcels: Iterable[Parcel], now: int) -> Said:
        """Take in all parcels of a batch, which was cut at that time."""
        # a batch without any parcel does not tell its time
        self._now = max(self._now, now)
        by_feed: list[list[Parcel]] = [[] for _ in self._frontiers]
        controls: list[Parcel] = []
        for parcel in parcels:
            if parcel.feed >= 0:
                by_feed[parcel.feed].append(parcel)
            elif parcel.feed == CONTROL:
                controls.append(parcel)
        for control in sorted(controls, key=lambda parcel: parcel.number):
            self._heed(control)
        arrived = [in_order(each) for each in by_feed]
        out: list[Parcel] = []
        rows_in = rows_out = taken_back = 0
        for mender in self._menders:
            for origin, batch, promised, sender in mender.step(arrived[mender.feed]):
                rows_out += batch.rows
                taken_back += batch.taken_back
                out += self._addressed(mender.node, origin, batch, sender)
                if promised:
                    out += self._pledged(mender.node, origin, promised)
        told = [frontier.told for frontier in self._frontiers]
        before = self._heard(arrived)
        for place, feed in enumerate(self._feeds):
            # each row is counted where it enters the query
            if feed.node is feed.source and self._speaks(broadcast=feed.broadcast):
                rows_in += sum(parcel.read for parcel in arrived[place])
            if feed.has_partitions or feed.source is None:
                self._take_in(place, arrived[place], before[place], told[place])
        for place, node in enumerate(self._exits):
            batch = self._left(place, node)
            if not self._speaks(broadcast=self._roots[place] in self._alike):
                batch = Batch.empty(node.schema)
            rows_out += batch.rows
            taken_back += batch.taken_back
            out += self._sent(place, node, batch)
        self._unheard.take()
        return Said(out, self._dataflow.ledger.take(), self._standing(rows_in, rows_out, taken_back))

    def _heed(self, control: Parcel) -> None:
        told = read_control(control.data, self._program.schema)
        if isinstance(told, Dial):
            self._turn(told)
            return
        unwanted = self._program.unwanted(told)
        for place, node in enumerate(self._exits):
            if unwanted[node]:
                self._dataflow.forgo(unwanted[node], place)

    def _turn(self, dial: Dial) -> None:
        self._dial = dial
        self._dataflow.turn(dial)
        for mender in self._menders:
            mender.turn(dial)

    def _heard(self, arrived: list[list[Parcel]]) -> list[int]:
        """All origins have said how far they are; what was promised before that."""
        before = [self._promise(place) for place in range(len(self._frontiers))]
        for place, (frontier, parcels) in enumerate(zip(self._frontiers, arrived, strict=True)):
            of_buckets = place < len(self._feeds) and self._feeds[place].source is None
            for parcel in parcels:
                frontier.hear(
                    parcel.origin,
                    promise=parcel.promise,
                    latest=parcel.latest,
                    now=self._now,
                    slowest=parcel.slowest if of_buckets else parcel.latest,
                    held_by=parcel.held_by,
                    spoke=self._is_raw[place],
                )
        for frontier in self._frontiers:
            frontier.advance(self._now)
        follow(
            [
                frontier
                for place, frontier in enumerate(self._frontiers)
                if place >= len(self._feeds) or self._feeds[place].has_partitions
            ],
            self._now,
        )
        return before

    def _is_void(self, place: int) -> bool:
        """Whether nothing of an input ever comes to this bucket."""
        return place < len(self._feeds) and not self._feeds[place].columns and self.number > 0

    def _promise(self, place: int) -> int:
        """What an input has promised here: all, once it was heard of, if nothing of it ever comes."""
        frontier = self._frontiers[place]
        return INF if self._is_void(place) and frontier.began is not None else frontier.promised

    def _take_in(self, place: int, parcels: list[Parcel], before: int, told_by: dict[str, int]) -> None:
        feed, frontier = self._feeds[place], self._frontiers[place]
        self._take_sums(place, [parcel for parcel in parcels if parcel.stands_for], before)
        as_read = [parcel for parcel in parcels if not parcel.stands_for]
        patterns: dict[str, list[Promise]] = {}
        fresh = self._fresh(place, as_read, told_by, patterns)
        batch = Batch.concat([Batch.empty(feed.entrance.schema), *fresh])
        batch = self._without_late(place, batch, before)
        promise = self._promise(place)
        told: list[Control] = [*self._pledges[place].hear(patterns, frontier.unended())]
        told += [Punctuation(promise)] if promise > before else []
        edge = self._edges[place]
        parts = [batch.followed_by(told)] if edge is None else list(edge.admit(batch.followed_by(told)))
        last = (placed.control for placed in parts[-1].controls)
        reached = Reached(INF, BEGIN) if self._is_void(place) else frontier.reached
        parts[-1] = parts[-1].followed_by([*last, reached])
        for part in parts:
            self._dataflow.push(feed.entrance, part)
            self._dataflow.run_until_quiet()
        self._dataflow.run_sums()

    def _take_sums(self, place: int, parcels: list[Parcel], before: int) -> None:
        """Rows that were combined where they were read go to who adds them up.

        It takes them in together with the rows of the batch, if any reach it, and before the promise.
        """
        if not parcels:
            return
        combining = self._combining[place]
        assert combining is not None, "only then they are combined"
        [aggregate] = (each for each in self._dataflow.operators if each.node is combining.aggregate)
        sums = together([parcel.sums() for parcel in parcels])
        combining.require_promised(sums, before)
        aggregate.take_sums(sums)

    def _fresh(
        self,
        place: int,
        parcels: list[Parcel],
        told_by: dict[str, int],
        patterns: dict[str, list[Promise]],
    ) -> Iterator[Batch]:
        """The rows that have not been here before; of a source, those that keep their origin's promises.

        What origins promise of payloads is put into `patterns`.
        """
        edge = self._edges[place]
        for origin, own in groupby(parcels, lambda parcel: parcel.origin):
            parts = self._parts(place, origin, own, patterns)
            if edge is None:
                yield from (rows for rows, _ in parts if rows.rows)
            else:
                told = replace(self._pledges[place].of(origin), cti=told_by.get(origin, BEGIN))
                yield kept(edge, told, parts)

    def _parts(
        self, place: int, origin: str, parcels: Iterable[Parcel], patterns: dict[str, list[Promise]]
    ) -> Iterator[tuple[Batch, list[Promise]]]:
        """The rows of an origin, and what it promises behind them."""
        schema = self._feeds[place].entrance.schema
        for parcel in parcels:
            if told := parcel.promises(schema):
                patterns.setdefault(origin, []).extend(told)
                yield Batch.empty(schema), told
            elif parcel.rows or parcel.promise > BEGIN:
                yield self._repeats[place].without(origin, *parcel.tagged(schema)), parcel.ctis

    def _without_late(self, place: int, batch: Batch, before: int) -> Batch:
        """What comes behind a promise that a policy has made in a source's name goes to the ledger."""
        feed, lost = self._feeds[place], self._lost[place]
        policy = self._frontiers[place].policy
        if feed.source is None or (policy.lateness is None and policy.idle is None):
            return batch
        late = (batch.sync < before) | (before == INF)
        gone = given_up_among(lost, batch, late)
        lost.forget_ends_before(self._frontiers[place].promised)
        if not gone.any():
            return batch
        name = feed.entrance.stream_name
        ledger = self._ledger(broadcast=feed.broadcast)
        rows = batch.where(gone)
        change = Changed(rows.vs, rows.old_ve, rows.new_ve)
        stretches = self._dataflow.consequences.of_output(feed.entrance, change).pairs()
        for element, is_late, during in zip(rows, late[gone].tolist(), stretches, strict=True):
            why = f"{name} was taken to be complete up to {show(before)}: {policy}"
            ledger.write(
                element,
                reason="late",
                place=name,
                detail=why if is_late else "it continues what was late",
                during=during,
            )
        return batch.where(~gone)

    def _left(self, place: int, node: Node) -> Batch:
        """What has left through an exit, and how far that has promised now."""
        batches = self._dataflow.take_output(place)
        for batch in batches:
            for placed in batch.controls:
                if isinstance(placed.control, Punctuation) and placed.control.is_cti:
                    self._promised[place] = max(self._promised[place], placed.control.before)
                elif isinstance(placed.control, Punctuation | Closings):
                    self._patterns[place].append(placed.control)
                elif isinstance(placed.control, Reached):
                    self._reached[place] = placed.control
        return Batch.concat([Batch.empty(node.schema), *(batch.data() for batch in batches)])

    def _sent(self, place: int, node: Node, batch: Batch) -> Iterator[Parcel]:
        origin, reached = str(self.number), self._reached[place]
        promise = self._promised[place]
        held_by = "" if promise == INF else self._held_by(self._below[place])
        sender = From(
            origin,
            promise,
            reached.furthest,
            now=self._now,
            slowest=reached.slowest,
            held_by=held_by,
        )
        yield from self._addressed(node, origin, batch, sender)
        if node is self._program.cut.root:
            yield from parcels_of(sender, (SINK, 0), [(0, batch)], 1)
        patterns, self._patterns[place] = self._patterns[place], []
        if patterns:
            yield from self._pledged(node, origin, patterns)

    def _pledged(self, node: Node, origin: str, told: list[Promise]) -> Iterator[Parcel]:
        """What is promised of payloads, for those that it concerns."""
        for target in self._targets[node]:
            for bucket, share in routed(told, target.columns, self._program.buckets):
                data = pack_promises(share, node.schema)
                where = target.stage, bucket, target.feed
                yield Parcel(*where, origin, _BEHIND, 0, now=self._now, data=data)
        if node is self._program.cut.root:
            data = pack_promises(told, node.schema)
            yield Parcel(SINK, 0, PROMISED, origin, "", 0, now=self._now, data=data)

    def _addressed(self, node: Node, origin: str, batch: Batch, sender: From) -> Iterator[Parcel]:
        buckets = self._program.buckets
        for target in self._targets[node]:
            shares = shared(batch, target.columns, buckets, origin)
            yield from parcels_of(sender, (target.stage, target.feed), shares, buckets)

    def _held_by(self, places: Iterable[int]) -> str:
        """What holds the least promise of some inputs back."""
        place = min(places, key=self._promise)
        return self._holder(place)

    def _holder(self, place: int) -> str:
        feed = self._feeds[place]
        name, origin = self._frontiers[place].held_by(self._now)
        if origin is not None and feed.source is None:
            return origin.held_by
        if not name or origin is None:
            return f"{feed.entrance.stream_name}: {name}" if name else ""
        return f"{feed.entrance.stream_name}, partition {name}"

    def _standing(self, rows_in: int, rows_out: int, taken_back: int) -> Standing:
        # what is mended here promises nothing before it is
        read = [place for place, feed in enumerate(self._feeds) if feed.columns != (ORIGIN,)]
        places = [place for place in read if not self._is_void(place)] or read
        state_rows = sum(operator.describe().state_rows for operator in self._dataflow.operators)
        return Standing(
            self.stage,
            self.number,
            rows_in,
            rows_out,
            taken_back,
            state_rows + sum(mender.state_rows for mender in self._menders),
            min(map(self._promise, places), default=BEGIN),
            self._held_by(places) if places else "",
            {
                feed.source.stream_name: self._promise(place)
                for place, feed in enumerate(self._feeds)
                if feed.source is not None and feed.node is feed.source
            },
        )

    def remembered(self) -> Remembered:
        """All that is needed to go on from here; it must be written down before the next step."""
        return Remembered(
            self._dataflow.snapshot(),
            [None if edge is None else edge.validator for edge in self._edges],
            self._frontiers,
            self._pledges,
            self._promised,
            self._repeats,
            self._reached,
            self._lost,
            [mender.remembered() for mender in self._menders],
            self._dial,
            self._dataflow.unwanted,
            self._now,
        )

    def restore(self, state: Remembered) -> None:
        """Go on from there."""
        self._dataflow.restore(state.operators)
        for edge, validator in zip(self._edges, state.validators, strict=True):
            if edge is not None and validator is not None:
                edge.validator = validator
        self._frontiers, self._promised = state.frontiers, state.promised
        self._pledges = state.pledges
        self._repeats = state.repeats
        self._reached, self._lost = state.reached, state.lost
        self._dial, self._now = state.dial, state.now
        self._dataflow.unwanted = state.unwanted
        for mender, partitions in zip(self._menders, state.mended, strict=True):
            mender.restore(partitions, state.dial)


def parcels_of(
    sender: From,
    address: tuple[int, int],
    shares: Iterable[tuple[int, Batch]],
    buckets: int,
    stand_for: int = 0,
) -> Iterator[Parcel]:
    """The parcels of an origin for one input: those with rows, and one for every bucket without.

    If the rows were combined, the first parcel stands for all that no other does.
    """
    stage, feed = address
    origin, promise, latest, now, name, first, slowest, held_by = sender
    silent = np.ones(buckets, dtype=np.bool_)
    shares = [(bucket, batch) for bucket, batch in shares if batch.rows]
    more = stand_for - sum(batch.rows for _, batch in shares)
    for bucket, batch in shares:
        silent[bucket] = False
        for number, part in enumerate(batch.split(MOST_ROWS), first):
            data = pack(part)
            progress = promise, latest, slowest, held_by, now
            stands_for = part.rows + more if stand_for else 0
            more = 0
            counts = part.rows, stands_for
            yield Parcel(stage, bucket, feed, origin, name, number, *progress, *counts, data)
    for bucket in np.flatnonzero(silent).tolist():
        yield Parcel(stage, bucket, feed, origin, name, first, promise, latest, slowest, held_by, now)
