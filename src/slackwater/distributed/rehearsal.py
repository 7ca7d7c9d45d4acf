"""A whole plan in buckets, in this process: what Spark runs, without Spark.

Every source has several partitions, whose elements arrive in their own order. In each batch every
partition hands over its next elements; then the stages run one after the other, each bucket with the
parcels that are addressed to it, in any order. For laws, and for looking at what a cut does.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from slackwater.consistency import Dial
from slackwater.distributed.bucket import Bucket, Said
from slackwater.distributed.combining import Combiner
from slackwater.distributed.controls import (
    Plain,
    Quarantined,
    pack_ignored,
    pack_told,
    pack_turn,
)
from slackwater.distributed.dispatch import Dispatch
from slackwater.distributed.gate import Tokened
from slackwater.distributed.parcels import BEAT, CONTROL, PROMISED, SINK, Parcel, in_order
from slackwater.distributed.pledges import Pledges
from slackwater.distributed.program import Program
from slackwater.distributed.tokens import Token
from slackwater.events import Batch
from slackwater.ledger import Ledger
from slackwater.plan.nodes import Source
from slackwater.punctuations import Promise, Punctuation
from slackwater.runtime.output import Output
from slackwater.times import BEGIN

__all__ = ["Part", "Rehearsal"]


@dataclass(frozen=True)
class Part:
    """A part of one origin of an aligned stream."""

    source: Source
    origin: str
    name: str
    """in the order of the parts"""
    rows: Batch
    token: Token | None
    """that stands behind it, if one does"""


Meddle = Callable[[Bucket], Bucket]


def _as_it_is(bucket: Bucket) -> Bucket:
    return bucket


class Rehearsal:
    """A program at work in this process."""

    def __init__(self, program: Program, *, seed: int = 0, meddle: Meddle = _as_it_is) -> None:
        self._program = program
        self._random = random.Random(seed)  # noqa: S311
        self._meddle = meddle
        """what happens to a bucket between two batches: nothing, or it is written down and read back"""
        self._buckets = {
            (stage, number): Bucket(program, stage, number)
            for stage in range(1, len(program.cut.stages) + 1)
            for number in range(program.buckets)
        }
        self._quarantined: list[Quarantined] = []
        """whom a bucket has stopped listening to: all hear of it with the next batch"""
        self._promised: dict[str, int] = {}
        """what each source has promised, all of its partitions together"""
        self.combines = False
        """whether rows are combined before they are sent, where they may be; there are no ctis then"""
        self._pledges = Pledges(program.schema, program.cut.spread, program.buckets)
        self.ledger = Ledger()
        self.output = Output(program.schema, self.ledger, program.properties)
        self.said = Batch.empty(program.schema)
        """what the last batch has added to it"""

    def batch(
        self,
        given: Mapping[Source, Mapping[str, Batch]],
        now: int = 0,
        turns: Sequence[Dial] = (),
        ignored: Sequence[Promise] = (),
        told: Sequence[Plain] = (),
        *,
        parts: Sequence[Part] = (),
    ) -> list[Said]:
        """Run one batch: for each source, the next elements of each of its partitions.

        Of aligned streams, the next parts, each up to a token or to where reading has stopped. Before
        that the dial is turned, if it is, and all else that there is to say is told.
        """
        controls = [pack_turn(dial) for dial in turns]
        controls += [pack_ignored(ignored, self._program.schema)] if ignored else []
        controls += map(pack_told, [*self._quarantined, *told])
        parcels = list(self._to_all(now, controls))
        for source, partitions in given.items():
            for name, rows in partitions.items():
                parcels += self._dispatched(source, name, rows)
        for part in parts:
            parcels += self._dispatched_part(part)
        said: list[Said] = []
        for stage in range(1, len(self._program.cut.stages) + 1):
            here = [parcel for parcel in parcels if parcel.stage == stage]
            parcels = [parcel for parcel in parcels if parcel.stage != stage]
            for number in range(self._program.buckets):
                own = [parcel for parcel in here if parcel.bucket == number]
                self._random.shuffle(own)
                bucket = self._buckets[stage, number]
                answer = bucket.step(own, now)
                self._buckets[stage, number] = self._meddle(bucket)
                parcels += answer.parcels
                self.ledger.extend(answer.entries)
                said.append(answer)
        self._quarantined = [each for one in said for each in one.standing.quarantined]
        self._promised = {k: v for each in said for k, v in each.standing.promises.items()}
        self._deliver([parcel for parcel in parcels if parcel.stage == SINK])
        return said

    def _dispatched(self, source: Source, name: str, rows: Batch) -> Iterator[Parcel]:
        combining = self._program.combining(source) if self.combines else None
        combiner = None
        if combining is not None:
            combiner = Combiner(combining, self._promised.get(source.stream_name, BEGIN))
        to = self._program.targets(source)
        sending = Dispatch(to, self._program.buckets, "0", ordered=True, combiner=combiner)
        yield from sending.rows(name, "", rows)
        yield from sending.end()

    def _dispatched_part(self, part: Part) -> Iterator[Parcel]:
        program = self._program
        stream = Tokened(part.source.stream_name, len(program.cut.stages), program.buckets)
        sending = Dispatch(program.targets(part.source), program.buckets, "0", ordered=True)
        yield from sending.rows(part.origin, part.name, part.rows)
        yield from sending.through(part.origin, part.name)
        if part.token is not None:
            yield from stream.told(part.origin, part.name, part.token)

    def _to_all(self, now: int, controls: Sequence[str]) -> Iterator[Parcel]:
        """What goes to every bucket of every stage."""
        for stage, bucket in self._buckets:
            yield Parcel(stage, bucket, BEAT, "", "", 0, now=now)
            for number, told in enumerate(controls):
                yield Parcel(stage, bucket, CONTROL, "", "", number, now=now, data=told.encode())

    def _deliver(self, parcels: list[Parcel]) -> None:
        """The rows of all buckets, then the least of their promises."""
        schema = self._program.schema
        told = {p.origin: p.promises(schema) for p in parcels if p.feed == PROMISED}
        patterns = self._pledges.hear(told, self._program.origins_of_answer)
        parcels = [parcel for parcel in parcels if parcel.feed != PROMISED]
        parts = [p.batch(self._program.schema) for p in in_order(parcels)]
        promise = min(parcel.promise for parcel in parcels)
        whole = Batch.concat([Batch.empty(self._program.schema), *parts])
        ctis = [Punctuation(promise)] if promise > self.output.settled_until else []
        self.said = whole.followed_by([*patterns, *ctis])
        self.output.append(self.said)
