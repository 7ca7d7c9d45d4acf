"""Mending: disordered sources, brought into order one partition at a time, before anything is spread.

An external cti counts the elements of one partition. So the elements of a partition go to one bucket, as
they came. There those that were here before are left out (repeats.py), and every partition has a
Finalize of its own (operators/mend.py). What leaves is a valid stream with promises, still by partition:
to the stages that read it, it is the source.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from slackwater.admission import Admission
from slackwater.consistency import Dial
from slackwater.distributed.ctis import kept
from slackwater.distributed.parcels import From, Parcel, bucket_of
from slackwater.distributed.program import Program
from slackwater.distributed.repeats import Repeats
from slackwater.events import Batch, Control
from slackwater.ledger import Ledger
from slackwater.operators import Now
from slackwater.plan.consequences import Consequences
from slackwater.plan.exchanges import Mending
from slackwater.plan.nodes import Source, walk
from slackwater.promises import Promises
from slackwater.punctuations import Closings, Promise, Punctuation
from slackwater.runtime.dataflow import Dataflow
from slackwater.runtime.edge import Edge
from slackwater.times import BEGIN

__all__ = ["Mender", "Partition"]


@dataclass(slots=True)
class Partition:
    """What is remembered of one partition."""

    operators: list[Any]
    validator: Admission
    promised: int
    """what it has promised, mended"""
    told: int
    """what its own ctis have promised"""
    repeats: Repeats


@dataclass(slots=True)
class _AtWork:
    dataflow: Dataflow
    edge: Edge
    promised: int = BEGIN
    told: int = BEGIN
    repeats: Repeats = field(default_factory=Repeats)


class Mended(NamedTuple):
    """What a partition says: its rows, what it promises of payloads, how far it is."""

    origin: str
    rows: Batch
    promised: list[Promise]
    sender: From


class Mender:
    """One disordered source in one bucket."""

    def __init__(
        self,
        program: Program,
        mending: Mending,
        number: int,
        *,
        ledger: Ledger,
        consequences: Consequences,
        now: Now,
    ) -> None:
        self._program, self._mending, self._number = program, mending, number
        self._ledger, self._consequences, self._now = ledger, consequences, now
        [self._entrance] = (node for node in walk(mending.plan) if isinstance(node, Source))
        self._partitions: dict[str, _AtWork] = {}
        self._dial: Dial | None = None
        self.feed, self.node = mending.feed, mending.node

    def step(self, parcels: list[Parcel]) -> Iterator[Mended]:
        """What each partition of this bucket says, mended."""
        arrived: dict[str, list[Parcel]] = {}
        for parcel in parcels:
            # everyone hears of all partitions
            if bucket_of(parcel.origin, self._program.buckets) == self._number:
                arrived.setdefault(parcel.origin, []).append(parcel)
        # who says nothing may have something to say all the same: the clock has moved, or the dial
        for origin in sorted({*self._partitions, *arrived}):
            yield self._mended(origin, arrived.get(origin, []))

    def _mended(self, origin: str, parcels: list[Parcel]) -> Mended:
        if origin not in self._partitions:
            self._partitions[origin] = self._opened()
        at_work, entrance = self._partitions[origin], self._entrance
        schema = entrance.schema
        patterns = [parcel.promises(schema) for parcel in parcels]
        parts = (
            (self._fresh(origin, at_work, parcel), [*parcel.ctis, *promises])
            for parcel, promises in zip(parcels, patterns, strict=True)
        )
        rows = kept(at_work.edge, Promises(at_work.told), parts)
        told: list[Control] = [count for parcel in parcels for count in parcel.counts]
        told += (promise for promises in patterns for promise in promises)
        promise = max([parcel.promise for parcel in parcels], default=BEGIN)
        if promise > at_work.told:
            at_work.told = promise
            told.append(Punctuation(promise))
        for admitted in at_work.edge.admit(rows.followed_by(told)):
            at_work.dataflow.push(entrance, admitted)
            at_work.dataflow.run_until_quiet()
        said = at_work.dataflow.take_output()
        promised: list[Promise] = []
        for batch in said:
            for placed in batch.controls:
                if isinstance(placed.control, Punctuation) and placed.control.is_cti:
                    at_work.promised = max(at_work.promised, placed.control.before)
                elif isinstance(placed.control, Punctuation | Closings):
                    promised.append(placed.control)
        self._ledger.extend(at_work.dataflow.ledger.take())
        out = Batch.concat([Batch.empty(self.node.schema), *(batch.data() for batch in said)])
        latest = max([parcel.latest for parcel in parcels], default=BEGIN)
        return Mended(origin, out, promised, From(origin, at_work.promised, latest, now=self._now()))

    def _fresh(self, origin: str, at_work: _AtWork, parcel: Parcel) -> Batch:
        """The rows that have not been here before."""
        schema = self._entrance.schema
        if not parcel.rows:
            return Batch.empty(schema)
        return at_work.repeats.without(origin, *parcel.tagged(schema))

    def _opened(self) -> _AtWork:
        program = self._program
        dataflow = Dataflow(
            [self._mending.plan],
            program.latencies,
            on_invalid=program.on_invalid,
            now=self._now,
            consequences=self._consequences,
        )
        if self._dial is not None:
            dataflow.turn(self._dial)
        edge = Edge(self._entrance, program.on_invalid, self._ledger, self._consequences)
        return _AtWork(dataflow, edge)

    def turn(self, dial: Dial) -> None:
        """Remember for so long from now on, also of partitions that are yet to come."""
        self._dial = dial
        for at_work in self._partitions.values():
            at_work.dataflow.turn(dial)

    @property
    def state_rows(self) -> int:
        """How many rows are remembered."""
        return sum(
            operator.describe().state_rows
            for at_work in self._partitions.values()
            for operator in at_work.dataflow.operators
        )

    def remembered(self) -> dict[str, Partition]:
        """All that is needed to go on."""
        return {
            origin: Partition(
                at_work.dataflow.snapshot(),
                at_work.edge.validator,
                at_work.promised,
                at_work.told,
                at_work.repeats,
            )
            for origin, at_work in self._partitions.items()
        }

    def restore(self, partitions: dict[str, Partition], dial: Dial | None) -> None:
        """Go on from there."""
        self._dial = dial
        for origin, state in partitions.items():
            at_work = self._partitions[origin] = self._opened()
            at_work.dataflow.restore(state.operators)
            at_work.edge.validator = state.validator
            at_work.promised, at_work.told = state.promised, state.told
            at_work.repeats = state.repeats
