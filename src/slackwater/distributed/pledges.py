"""Promises about any attribute, of a stream that comes from several origins.

Each origin (a partition of a source, a bucket of an earlier stage) promises for itself, and of the
stream holds what all of them have promised: the combinations (paper 4 Table 3, merge). What one has
promised is remembered until all others have, too. An origin that has ended has promised everything.

Buckets have their rows by a hash of some columns. A promise about constants in all of these columns
speaks of rows that one bucket alone could send: it holds as soon as that one has made it. That another
one makes it, who has no such rows, says nothing.

So that such a promise need not go to every bucket, it is routed like a row with these values. All others
go everywhere.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from slackwater.distributed.parcels import buckets_of
from slackwater.plan.exchanges import EVERYWHERE
from slackwater.promises import Promises
from slackwater.punctuations import Closings, Promise, gathered

__all__ = ["Pledges", "routed"]

Columns = Sequence[str] | None


@dataclass(slots=True)
class Pledges:
    """What the origins of one stream have promised of payloads."""

    schema: pl.Schema
    spread: tuple[str, ...] | None = None
    """the columns by which its origins have their rows, if they are buckets, named by their numbers"""
    buckets: int = 1
    """how many of these there are"""
    origins: dict[str, Promises] = field(default_factory=dict)
    counted: frozenset[str] = frozenset()
    """the origins whose word was needed last"""

    def of(self, origin: str) -> Promises:
        """What an origin has promised that does not yet hold of the stream."""
        return self.origins.get(origin) or Promises()

    def hear(self, told: dict[str, list[Promise]], counting: Collection[str]) -> list[Promise]:
        """Origins have promised this; what now holds of the stream, given whose word is needed."""
        whole: list[Promise] = []
        waiting: list[Promise] = []
        for origin, promises_of_one in told.items():
            alone = not [other for other in counting if other != origin]
            # a constant that is null comes as a pattern
            for promise in gathered(promises_of_one, self.schema):
                if alone:
                    whole.append(promise)
                    continue
                if speaks_for_one(promise, self.spread):
                    whole += self._of_its_own(int(origin), promise)
                    continue
                waiting.append(promise)
                own = self.origins.setdefault(origin, Promises.of(self.schema))
                own.add([promise])
        if not self.counted <= frozenset(counting):
            # somebody has ended, and holds nothing back any more
            waiting += (p for each in self.origins.values() for p in each.punctuations())
        self.counted = frozenset(counting)
        for origin in counting if waiting else ():
            waiting = self.of(origin).combined(waiting)
        for promises in self.origins.values() if waiting else ():
            promises.forget(waiting)
        return [*whole, *waiting]

    def _of_its_own(self, bucket: int, promise: Promise) -> Iterator[Promise]:
        """What a bucket says of rows that it could have."""
        assert isinstance(promise, Closings), "it speaks for one"
        own = buckets_of(promise.keys, self.spread or (), self.buckets) == bucket
        if own.any():
            yield promise if own.all() else promise.where(own)

    def __len__(self) -> int:
        return sum(map(len, self.origins.values()))


def speaks_for_one(promise: Promise, columns: Columns) -> bool:
    """Whether all rows that it speaks of are in one bucket, if they are spread by these columns."""
    return (
        bool(columns)
        and columns != EVERYWHERE
        and isinstance(promise, Closings)
        and all(name in promise.keys.columns for name in columns or ())
    )


def routed(
    told: Sequence[Promise], columns: Columns, buckets: int
) -> Iterator[tuple[int, list[Promise]]]:
    """What each bucket has to hear of these promises, if rows are spread by these columns."""
    shares: list[list[Promise]] = [[] for _ in range(buckets)]
    for promise in told:
        if isinstance(promise, Closings) and speaks_for_one(promise, columns):
            bucket = buckets_of(promise.keys, columns or (), buckets)
            for number in np.unique(bucket).tolist():
                shares[number].append(promise.where(bucket == number))
        else:
            for share in shares[: buckets if columns else 1]:
                share.append(promise)
    yield from ((number, share) for number, share in enumerate(shares) if share)
