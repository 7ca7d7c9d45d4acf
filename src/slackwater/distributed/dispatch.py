"""Dispatch: what is read from a source, as parcels for every bucket.

A cti among the rows of an origin holds from its place on. Rows are judged by it in their buckets
(ctis.py), where repeated ones have been dropped. So that a bucket knows what was promised before a row,
rows are sent in stretches, none of which has a row that breaks a cti of the same stretch; behind each,
every bucket hears what is promised there. Of a valid stream, what is read at once is one stretch.

Where nobody knows the order of rows (Spark's own readers give those of several files as they like), all
ctis of a batch hold behind all of its rows.

How far an origin has come is sent at the end, to every bucket.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from slackwater.distributed.bucket import parcels_of
from slackwater.distributed.combining import Combiner
from slackwater.distributed.parcels import From, Parcel, bucket_of, pack_counts, shared
from slackwater.distributed.program import Target
from slackwater.events import Batch
from slackwater.plan.exchanges import ORIGIN
from slackwater.punctuations import ExternalCti, Promises, Punctuation
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
        ctis = [each.before for each in controls if isinstance(each, Punctuation)]
        told.promise = max([told.promise, *ctis])
        part = part or self._task
        for stretch, promise in stretches(batch) if self._ordered else [(batch.data(), BEGIN)]:
            shares = [(stretch, 0)] if self._combiner is None else self._combiner.shares(stretch)
            for rows, stand_for in shares:
                sender = From(origin, part=part, first=self._sent)
                for target in self._to:
                    spread = shared(rows, target.columns, self._buckets, origin)
                    address = target.stage, target.feed
                    made = parcels_of(sender, address, spread, self._buckets, stand_for)
                    yield from (parcel for parcel in made if parcel.rows)
                self._sent += 1 + rows.rows
            if promise > BEGIN:
                yield from self._to_all(From(origin, promise, part=part, first=self._sent))
                self._sent += 1

    def end(self) -> Iterator[Parcel]:
        """How far all of these origins are."""
        part = f"{_LAST}{self._task}"
        for origin, told in self._told.items():
            yield from self._to_all(From(origin, told.promise, told.latest, part=part, first=self._sent))
            for target in self._to:
                if told.counts and target.columns == (ORIGIN,):
                    where = target.stage, bucket_of(origin, self._buckets), target.feed
                    data = pack_counts(told.counts)
                    yield Parcel(*where, origin, part, self._sent + 1, data=data)

    def _to_all(self, sender: From) -> Iterator[Parcel]:
        for target in self._to:
            yield from parcels_of(sender, (target.stage, target.feed), [], self._buckets)


def stretches(batch: Batch) -> Iterator[tuple[Batch, int]]:
    """Rows none of which breaks a cti among them, and what is promised behind them.

    >>> from slackwater.events import insert
    >>> from slackwater.punctuations import cti
    >>> said = [insert(1, 9, k=1), cti(5), insert(5, 9, k=2), insert(3, 9, k=3), cti(7)]
    >>> [(list(rows), promise) for rows, promise in stretches(Batch.of(said))]
    [([insert(1, 9, k=1), insert(5, 9, k=2)], 5), ([insert(3, 9, k=3)], 7)]
    """
    ctis = [(p.position, p.control.before) for p in batch.controls if isinstance(p.control, Punctuation)]
    places = np.array([place for place, _ in ctis], dtype=np.int64)
    start = known = 0
    for row in np.flatnonzero(Promises().broken_by(batch)).tolist() if ctis else []:
        here = int(np.searchsorted(places, row, side="right"))
        if here > known:
            yield batch.slice(start, row), max(before for _, before in ctis[known:here])
            start, known = row, here
    yield batch.slice(start, batch.rows), max([before for _, before in ctis[known:]], default=BEGIN)
