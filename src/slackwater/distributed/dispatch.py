"""Dispatch: what is read from a source, as parcels for every bucket.

A promise among the rows of an origin holds from its place on. Rows are judged by it in their buckets
(ctis.py), where repeated ones have been dropped. So that a bucket knows what was promised before a row,
rows are sent in stretches, none of which has a row that breaks a promise of the same stretch; behind
each, the buckets hear what is promised there: all of them of ctis, those that it concerns of the rest
(pledges.py). Of a valid stream, what is read at once is one stretch.

Where nobody knows the order of rows (Spark's own readers give those of several files as they like), all
promises of a batch hold behind all of its rows. What a disordered source promises goes to where its
rows are mended (mending.py).

How far an origin has come is sent at the end, to every bucket; of an aligned stream, behind each of its
parts (gate.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from slackwater.distributed.bucket import parcels_of
from slackwater.distributed.combining import Combiner
from slackwater.distributed.parcels import (
    From,
    Parcel,
    bucket_of,
    pack_counts,
    pack_promises,
    shared,
)
from slackwater.distributed.pledges import routed
from slackwater.distributed.program import Target
from slackwater.events import Batch
from slackwater.plan.exchanges import ORIGIN
from slackwater.promises import Promises
from slackwater.punctuations import (
    Closings,
    ExternalCti,
    Promise,
    Punctuation,
    gathered,
    is_of_payloads,
)
from slackwater.times import BEGIN

__all__ = ["Dispatch", "stretches"]

_LAST = "~"
"""the name of a part that is behind all others, which begin with digits"""


@dataclass(slots=True)
class _Told:
    """What an origin has said besides its rows."""

    promise: int = BEGIN
    latest: int = BEGIN
    counts: list[ExternalCti] = field(default_factory=list)
    patterns: list[Promise] = field(default_factory=list)
    """what nobody has been sent yet"""
    schema: pl.Schema = field(default_factory=pl.Schema)


class Dispatch:
    """What one task reads of a source in one batch."""

    def __init__(
        self,
        to: Sequence[Target],
        buckets: int,
        task: str,
        *,
        ordered: bool,
        combiner: Combiner | None = None,
    ) -> None:
        self._to, self._buckets, self._task, self._ordered = to, buckets, task, ordered
        self._combiner = combiner
        self._sent = 0
        self._told: dict[str, _Told] = {}

    def rows(self, origin: str, part: str, batch: Batch) -> Iterator[Parcel]:
        """The next elements of an origin, which are in this part of it; none: in the task's own."""
        told = self._told.setdefault(origin, _Told())
        starts = batch.vs[batch.is_insert]
        told.latest = max(told.latest, int(starts.max()) if len(starts) else BEGIN)
        controls = [placed.control for placed in batch.controls]
        told.counts += (each for each in controls if isinstance(each, ExternalCti))
        promises = [each for each in controls if isinstance(each, Punctuation | Closings)]
        told.promise = max(told.promise, cti_of(promises))
        told.schema = batch.schema
        part = part or self._task
        if self._ordered:
            parts = stretches(batch)
        else:
            told.patterns += gathered(patterns_of(promises), batch.schema)
            parts = iter([(batch.data(), list[Promise]())])
        for stretch, behind in parts:
            shares = [(stretch, 0)] if self._combiner is None else self._combiner.shares(stretch)
            for rows, stand_for in shares:
                sender = From(origin, part=part, first=self._sent)
                for target in self._to:
                    spread = shared(rows, target.columns, self._buckets, origin)
                    address = target.stage, target.feed
                    made = parcels_of(sender, address, spread, self._buckets, stand_for)
                    yield from (parcel for parcel in made if parcel.rows)
                self._sent += 1 + rows.rows
            yield from self._promised(origin, part, patterns_of(behind), batch.schema)
            if (promise := cti_of(behind)) > BEGIN:
                yield from self._to_all(From(origin, promise, part=part, first=self._sent))
                self._sent += 1

    def _promised(
        self, origin: str, part: str, told: Sequence[Promise], schema: pl.Schema
    ) -> Iterator[Parcel]:
        """What is promised of payloads, for the buckets that it concerns."""
        for target in self._to if told else ():
            if target.columns is None:
                continue
            shares = routed(told, target.columns, self._buckets)
            if target.columns == (ORIGIN,):
                shares = iter([(bucket_of(origin, self._buckets), [*told])])
            for bucket, share in shares:
                data = pack_promises(share, schema)
                yield Parcel(
                    target.stage, bucket, target.feed, origin, part, self._sent, data=data
                )  # fmt: skip
        self._sent += bool(told)

    def end(self) -> Iterator[Parcel]:
        """How far all of these origins are."""
        for origin in [*self._told]:
            yield from self.through(origin, f"{_LAST}{self._task}")

    def through(self, origin: str, part: str) -> Iterator[Parcel]:
        """How far an origin is with that part of it, which was sent."""
        told = self._told.pop(origin, None)
        if told is not None:
            yield from self._promised(origin, part, told.patterns, told.schema)
            yield from self._to_all(From(origin, told.promise, told.latest, part=part, first=self._sent))
            for target in self._to:
                if told.counts and target.columns == (ORIGIN,):
                    where = target.stage, bucket_of(origin, self._buckets), target.feed
                    data = pack_counts(told.counts)
                    yield Parcel(*where, origin, part, self._sent + 1, data=data)

    def _to_all(self, sender: From) -> Iterator[Parcel]:
        for target in self._to:
            yield from parcels_of(sender, (target.stage, target.feed), [], self._buckets)


def stretches(batch: Batch) -> Iterator[tuple[Batch, list[Promise]]]:
    """Rows none of which breaks a promise among them, and what is promised behind them.

    >>> from slackwater.events import insert
    >>> from slackwater.punctuations import cti
    >>> said = [insert(1, 9, k=1), cti(5), insert(5, 9, k=2), insert(3, 9, k=3), cti(7)]
    >>> [(list(rows), promises) for rows, promises in stretches(Batch.of(said))]
    [([insert(1, 9, k=1), insert(5, 9, k=2)], [cti(5)]), ([insert(3, 9, k=3)], [cti(7)])]
    """
    broken = np.flatnonzero(Promises().broken_by(batch)).tolist() if batch.controls else []
    # one by one only where it has to be told which of them a row breaks
    placed = batch.controls
    if broken:
        placed = tuple(each for p in placed for each in p.control.spread(p.position))
    promises = [(p.position, p.control) for p in placed if isinstance(p.control, Punctuation | Closings)]
    promises.sort(key=lambda promise: promise[0])
    told = [promise for _, promise in promises]
    places = np.array([place for place, _ in promises], dtype=np.int64)
    start = known = 0
    for row in broken:
        here = int(np.searchsorted(places, row, side="right"))
        if here > known:
            yield batch.slice(start, row), gathered(told[known:here], batch.schema)
            start, known = row, here
    yield batch.slice(start, batch.rows), gathered(told[known:], batch.schema)


def cti_of(told: Sequence[Promise]) -> int:
    """The last of the ctis among these."""
    ctis = (each.before for each in told if isinstance(each, Punctuation) and each.is_cti)
    return max(ctis, default=BEGIN)


def patterns_of(told: Sequence[Promise]) -> list[Promise]:
    """The others."""
    return [each for each in told if is_of_payloads(each)]
