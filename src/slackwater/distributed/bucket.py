"""One bucket of one stage at work: the parcels of a batch go in, and parcels come out.

The rows of each input enter in the order of their origins, then the promise that all origins together
allow (entrance.py); the replicas of a stream enter a merge each by itself (replicas.py). What
leaves the stage is spread over the buckets of those who read it; every one of them gets a parcel, if
only with the promise. So a batch is atomic for a stage: all of its input, and nothing of the next.

How far the sources have come is told to every bucket alike, so that what operators wait for and forget
does not depend on how rows were spread. How the dial was turned, what is no longer of interest and which
replicas come and go, comes as a parcel, too, and counts before the rows of its batch: in all stages
alike, so that no stage waits for what an earlier one leaves out.
What is beyond the last common token of aligned streams waits before the bucket (gate.py).
What is broadcast is judged, and computed with, in every bucket alike. Bucket 0 speaks for all of them:
it writes the ledger, and sends on what leaves.

A bucket's state is what its operators remember, what its sources have said, and how far its origins are:
plain data, which follows from the parcels of all batches so far and from nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from slackwater.consistency import Dial
from slackwater.corrections import corrected
from slackwater.distributed.controls import (
    Attached,
    Detached,
    Ignored,
    Outdated,
    Quarantined,
    read_control,
)
from slackwater.distributed.entrance import Entered, Entrance, Heard, Judging
from slackwater.distributed.gate import Gate, Held
from slackwater.distributed.mending import Mender, Partition
from slackwater.distributed.parcels import (
    CONTROL,
    MOST_ROWS,
    PROMISED,
    SINK,
    TOKEN,
    From,
    Parcel,
    buckets_of,
    in_order,
    pack,
    pack_promises,
    shared,
)
from slackwater.distributed.pledges import routed
from slackwater.distributed.program import Program
from slackwater.distributed.progress import follow
from slackwater.distributed.replicas import Entering, Replicas
from slackwater.events import Batch
from slackwater.ledger import Entry, Ledger
from slackwater.operators.combined import together
from slackwater.plan.exchanges import ORIGIN, Columns, Feed
from slackwater.plan.nodes import Node, Source, walk
from slackwater.policies import Progress
from slackwater.promises import Promises
from slackwater.punctuations import Closings, Promise, Punctuation, Reached
from slackwater.runtime.dataflow import Dataflow
from slackwater.times import BEGIN, INF

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
    replicas: dict[str, dict[str, int]] = field(default_factory=dict)
    """how far each replica is of a replicated one"""
    quarantined: list[Quarantined] = field(default_factory=list)
    """inputs of merges that are not listened to any longer, here or everywhere"""
    corrections: int = 0
    """rows out that speak of a time which the answer had spoken of before this batch"""
    highest: int = BEGIN
    """of the rows out, the highest sync"""
    state_bytes: int = 0
    """how much memory it takes, when that was looked at last"""
    token: dict[str, int] = field(default_factory=dict)
    """up to which batches of other queries the aligned streams were let in"""
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
    entrances: list[Entered | dict[str, Entering]]
    watched: list[Entered]
    promised: list[int]
    reached: list[Reached]
    mended: list[dict[str, Partition]]
    dial: Dial | None
    unwanted: list[Promises | None]
    """of each exit: what is of no interest any more"""
    outdated: list[int]
    """... and before which time events end that are of none"""
    now: int
    held: Held
    """what waits for a token"""


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
        self._shares = [
            [each for each in plan.shares if each.of == place] for place in range(len(plan.feeds))
        ]
        self._turns = bool(plan.loops)
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
        self._combining = [
            None if feed.source is None else program.combining(feed.source) for feed in self._feeds
        ]
        self._entrances = [self._entered(feed) for feed in self._feeds]
        self._watched = [self._opened(feed, self._policy(feed)) for feed in program.watched_feeds(stage)]
        """streams that do not enter here, but whose promise an idle source would follow"""
        feeds = (*self._feeds, *(watched.feed for watched in self._watched))
        self._gate = Gate(program.aligned, [_aligned(feed, program) for feed in feeds])
        self._promised = [BEGIN for _ in self._exits]
        self._patterns: list[list[Promise]] = [[] for _ in self._exits]
        """what has left through each exit, promised of payloads, and was not sent yet"""
        self._reached = [Reached(BEGIN, BEGIN) for _ in self._exits]
        self._dial: Dial | None = None
        leaving = (*self._exits, *(mending.node for mending in plan.mends))
        self._targets = {node: program.targets(node) for node in leaving}
        entrances: dict[Node, int] = {feed.entrance: place for place, feed in enumerate(self._feeds)}
        entrances |= {share.entrance: share.of for share in plan.shares}
        self._below = [
            [entrances[node] for node in walk(root) if isinstance(node, Source)] for root in plan.roots
        ]
        """of each exit: the inputs that it is made of"""

    def _entered(self, feed: Feed) -> Entrance | Replicas:
        """How a stream enters here."""
        policy = self._policy(feed)
        if not feed.entrance.replicated:
            return self._opened(feed, policy)
        return Replicas(
            feed, policy, partial(self._opened, feed), self._dataflow, heeding=self._program.tells_back
        )

    def _opened(self, feed: Feed, policy: Progress) -> Entrance:
        ledger = self._ledger(broadcast=feed.broadcast)
        judging = Judging(self._program.on_invalid, ledger, self._dataflow.consequences)
        return Entrance(feed, policy, judging, is_void=not feed.columns and self.number > 0)

    def _policy(self, feed: Feed) -> Progress:
        if feed.source is None:
            return Progress(partitions=self._program.buckets)
        return self._program.policy(feed.source)

    def _clock(self) -> int:
        return self._now

    def _speaks(self, *, broadcast: bool) -> bool:
        return not broadcast or self.number == 0

    def _ledger(self, *, broadcast: bool) -> Ledger:
        return self._dataflow.ledger if self._speaks(broadcast=broadcast) else self._unheard

    def step(self, parcels: Iterable[Parcel], now: int, *, spoken: int = BEGIN) -> Said:
        """Take in all parcels of a batch, which was cut at that time.

        `spoken` is the highest sync that the answer had before.
        """
        # clocks may be set back; and earlier versions told no time to who got no parcel
        self._now = max(self._now, now)
        by_feed: list[list[Parcel]] = [[] for _ in (*self._entrances, *self._watched)]
        controls: list[Parcel] = []
        tokens: list[Parcel] = []
        for parcel in parcels:
            if parcel.feed >= 0:
                by_feed[parcel.feed].append(parcel)
            elif parcel.feed == CONTROL:
                controls.append(parcel)
            elif parcel.feed == TOKEN:
                tokens.append(parcel)
        for control in sorted(controls, key=lambda parcel: parcel.number):
            self._heed(control)
        arrived = [in_order(each) for each in self._gate.let_in(by_feed, tokens)]
        out: list[Parcel] = []
        rows_in = rows_out = taken_back = corrections = 0
        highest = BEGIN
        for mender in self._menders:
            for origin, batch, promised, sender in mender.step(arrived[mender.feed]):
                rows_out += batch.rows
                taken_back += batch.taken_back
                out += self._addressed(mender.node, origin, batch, sender)
                if promised:
                    out += self._pledged(mender.node, origin, promised)
        heard = self._heard(arrived)
        for place, feed in enumerate(self._feeds):
            # each row is counted where it enters the query
            if feed.node is feed.source and self._speaks(broadcast=feed.broadcast):
                rows_in += sum(parcel.read for parcel in arrived[place])
            entrance, before = self._entrances[place], heard[place]
            if isinstance(before, Heard):
                if feed.has_partitions or feed.source is None:
                    self._take_in(place, arrived[place], before)
            else:
                assert isinstance(entrance, Replicas), "they have said so much each"
                entrance.take_in(arrived[place], before)
        if self._turns:
            # a loop turns once it has all of the batch: else it would go round for what another input
            # takes back
            self._dataflow.run_until_quiet()
            self._dataflow.run_sums()
        for place, node in enumerate(self._exits):
            batch = self._left(place, node)
            if not self._speaks(broadcast=self._roots[place] in self._alike):
                batch = Batch.empty(node.schema)
            rows_out += batch.rows
            taken_back += batch.taken_back
            corrections += int(np.count_nonzero(corrected([batch], spoken)))
            highest = max(highest, int(batch.sync.max(initial=BEGIN)))
            out += self._sent(place, node, batch)
        self._unheard.take()
        standing = self._standing(rows_in, rows_out, taken_back)
        standing = replace(standing, corrections=corrections, highest=highest)
        return Said(out, self._dataflow.ledger.take(), standing)

    def _heed(self, control: Parcel) -> None:
        match read_control(control.data, self._program.schema):
            case Dial() as dial:
                self._turn(dial)
            case Ignored(told):
                unwanted = self._program.unwanted(told)
                for place, node in enumerate(self._exits):
                    if unwanted[node]:
                        self._dataflow.forgo(unwanted[node], place)
            case Outdated(before):
                outdated = self._program.outdated(before)
                for place, node in enumerate(self._exits):
                    if node in outdated:
                        self._dataflow.outdate(outdated[node], place)
            case Attached(stream, name, since):
                for replicas in self._replicas(stream):
                    replicas.attach(name, since)
            case Detached(stream, name):
                for replicas in self._replicas(stream):
                    replicas.detach(name)
            case Quarantined(stage, merge, port, begun) if stage == self.stage:
                self._dataflow.quarantine(merge, port, begun)

    def _replicas(self, stream: str) -> Iterator[Replicas]:
        for each in self._entrances:
            if isinstance(each, Replicas) and each.feed.entrance.stream_name == stream:
                yield each

    def _turn(self, dial: Dial) -> None:
        self._dial = dial
        self._dataflow.turn(dial)
        for mender in self._menders:
            mender.turn(dial)

    def _heard(self, arrived: list[list[Parcel]]) -> list[Heard | dict[str, Heard]]:
        """All origins have said how far they are; what was promised before that."""
        own = len(self._entrances)
        before = [each.hear(arrived[place], self._now) for place, each in enumerate(self._entrances)]
        for watched, parcels in zip(self._watched, arrived[own:], strict=True):
            watched.hear(parcels, self._now)
        sources = [each for each in self._entrances if each.feed.has_partitions]
        follow(
            [each.frontier for each in (*sources, *self._watched) if isinstance(each, Entrance)],
            self._now,
            others=[each.promised for each in sources if isinstance(each, Replicas)],
        )
        return before

    def _take_in(self, place: int, parcels: list[Parcel], heard: Heard) -> None:
        entrance = self._entrances[place]
        assert isinstance(entrance, Entrance), "replicas are taken in together"
        self._take_sums(place, [parcel for parcel in parcels if parcel.stands_for], heard.before)
        as_read = [parcel for parcel in parcels if not parcel.stands_for]
        for part in entrance.taken_in(as_read, heard):
            self._dataflow.push(entrance.feed.entrance, part)
            for share in self._shares[place]:
                self._dataflow.push(share.entrance, self._own(part, share.columns))
            if not self._turns:
                self._dataflow.run_until_quiet()
        if not self._turns:
            self._dataflow.run_sums()

    def _own(self, rows: Batch, columns: Columns) -> Batch:
        """The rows that would be here, were they spread by these columns; all that is promised."""
        if not columns or self._program.buckets == 1:
            own = np.full(rows.rows, self.number == 0)
        else:
            own = buckets_of(rows.payload, columns, self._program.buckets) == self.number
        return rows.where(own)

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
        least = min((self._entrances[place] for place in places), key=lambda each: each.promised)
        waits_for = self._gate.waits_for
        if waits_for and _aligned(least.feed, self._program) is not None:
            return waits_for
        return least.held_by(self._now)

    def _standing(self, rows_in: int, rows_out: int, taken_back: int) -> Standing:
        # what is mended here promises nothing before it is
        read = [place for place, feed in enumerate(self._feeds) if feed.columns != (ORIGIN,)]
        places = [p for p in read if self._feeds[p].columns or self.number == 0] or read
        state_rows = sum(operator.describe().state_rows for operator in self._dataflow.operators)
        return Standing(
            self.stage,
            self.number,
            rows_in,
            rows_out,
            taken_back,
            state_rows + sum(mender.state_rows for mender in self._menders) + self._gate.held_rows,
            min((self._entrances[place].promised for place in places), default=BEGIN),
            self._held_by(places) if places else "",
            {
                feed.source.stream_name: entrance.promised
                for feed, entrance in zip(self._feeds, self._entrances, strict=True)
                if feed.source is not None and feed.node is feed.source
            },
            {
                each.feed.entrance.stream_name: each.standing
                for each in self._entrances
                if isinstance(each, Replicas)
            },
            [*self._quarantined()],
            token=self._gate.token,
        )

    def _quarantined(self) -> Iterator[Quarantined]:
        """Whom merges do not listen to any longer: the handle tells it to all buckets."""
        for number, merge in enumerate(self._dataflow.merges):
            inputs = merge.state.inputs
            for port in np.flatnonzero(inputs.quarantined).tolist():
                begun, called = int(inputs.begun[port]), inputs.names[port]
                yield Quarantined(self.stage, number, port, begun, merge.streams, called)

    def remembered(self) -> Remembered:
        """All that is needed to go on from here; it must be written down before the next step."""
        return Remembered(
            self._dataflow.snapshot(),
            [entrance.remembered() for entrance in self._entrances],
            [watched.remembered() for watched in self._watched],
            self._promised,
            self._reached,
            [mender.remembered() for mender in self._menders],
            self._dial,
            self._dataflow.unwanted,
            self._dataflow.outdated,
            self._now,
            self._gate.remembered(),
        )

    def restore(self, state: Remembered) -> None:
        """Go on from there."""
        self._dataflow.restore(state.operators)
        for entrance, entered in zip(self._entrances, state.entrances, strict=True):
            if isinstance(entrance, Replicas):
                assert isinstance(entered, dict), "there are several"
                entrance.restore(entered)
            else:
                assert isinstance(entered, Entered), "there is one"
                entrance.restore(entered)
        for watched, each in zip(self._watched, state.watched, strict=True):
            watched.restore(each)
        self._promised, self._reached = state.promised, state.reached
        self._dial, self._now = state.dial, state.now
        self._gate.restore(state.held)
        self._dataflow.unwanted, self._dataflow.outdated = state.unwanted, state.outdated
        for mender, partitions in zip(self._menders, state.mended, strict=True):
            mender.restore(partitions, state.dial)


def _aligned(feed: Feed, program: Program) -> str | None:
    """Which aligned stream enters there, if one does: as it was read."""
    if feed.source is None or feed.node is not feed.source:
        return None
    name = feed.source.stream_name
    return name if name in program.aligned else None


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
