"""A host: buckets that live in one process, and what brings them to the batch that is asked for.

Whoever runs a batch asks for one step of one bucket. Usually the bucket is where it should be, one
batch behind. If it is elsewhere (the process is new, a batch is repeated, the query was taken up from
an earlier one, another host had the bucket in the meantime), it is built again from the store, and comes
to the same. A batch that was the last one, with the same parcels, is answered as it was: a repetition
changes nothing.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from slackwater.distributed.bucket import Bucket, Remembered, Said
from slackwater.distributed.parcels import Parcel, in_order
from slackwater.distributed.program import Program
from slackwater.distributed.store import Place, Store
from slackwater.errors import OperatorError

__all__ = ["Host"]

_LEAST_LOG = 16 << 20
"""so many bytes of parcels are read again rather than that the state is written"""
_MOST_BATCHES = 256
"""... but not of more batches, if the state is no larger than that"""


@dataclass(slots=True)
class _Kept:
    """A bucket, and behind which batch it stands."""

    bucket: Bucket
    batch: int
    log_bytes: int = 0
    batches: int = 0
    """since the state was written last"""
    state_bytes: int = 0
    digest: bytes = b""
    stamp: tuple[int, int] | None = None
    """of what was written for its batch"""
    said: Said | None = None


class Host:
    """The buckets of a program that are kept in this process."""

    def __init__(self, program: Program, store: Store) -> None:
        self._program, self._store = program, store
        self._kept: dict[Place, _Kept] = {}

    def step(self, place: Place, batch: int, parcels: list[Parcel], now: int) -> Said:
        """Run a batch in one of the buckets; it is durable when this returns."""
        parcels = in_order(parcels)
        digest = _digest(parcels, now)
        kept = self._kept.get(place)
        if kept is not None and not self._is_last(place, kept):
            kept = None
        if kept is not None and kept.batch == batch and kept.digest == digest and kept.said is not None:
            return kept.said
        if kept is None or kept.batch != batch - 1:
            # first, so that nothing half done is left if it fails
            self._kept.pop(place, None)
            kept = self._rebuilt(place, batch - 1)
        kept.log_bytes += self._store.write_parcels(place, batch, parcels, now)
        stamp = self._store.parcels_stamp(place, batch)
        # whatever ends it half way, what is kept could not be trusted
        self._kept.pop(place, None)
        kept.said = kept.bucket.step(parcels, now)
        kept.batch, kept.digest, kept.stamp = batch, digest, stamp
        kept.batches += 1
        much = kept.log_bytes > max(_LEAST_LOG, kept.state_bytes)
        many = kept.batches > _MOST_BATCHES and kept.state_bytes <= _LEAST_LOG
        if much or many:
            kept.state_bytes = self._store.write_state(place, batch, kept.bucket.remembered())
            kept.log_bytes = kept.batches = 0
        self._kept[place] = kept
        return kept.said

    def _is_last(self, place: Place, kept: _Kept) -> bool:
        """Whether nobody has run its batch again: what came in then may have been something else."""
        return kept.stamp is None or self._store.parcels_stamp(place, kept.batch) == kept.stamp

    def _rebuilt(self, place: Place, batch: int) -> _Kept:
        """The bucket as it was behind a batch."""
        self._store.forget_after(place, batch)
        bucket = Bucket(self._program, place.stage, place.bucket)
        kept = _Kept(bucket, -1)
        found = self._store.last_state(place, batch)
        if found is not None:
            kept.batch, state = found
            if not isinstance(state, Remembered):
                raise OperatorError("what is in the checkpoint is not a state", detail=f"{place}")
            bucket.restore(state)
        for number in range(kept.batch + 1, batch + 1):
            parcels, now = self._store.read_parcels(place, number)
            bucket.step(in_order(parcels), now)
            kept.batch = number
            kept.batches += 1
            kept.log_bytes += sum(len(p.data) for p in parcels if p.data is not None)
        return kept


def _digest(parcels: list[Parcel], now: int) -> bytes:
    """Says whether two batches are the same."""
    digest = hashlib.blake2b(str(now).encode(), digest_size=16)
    for p in parcels:
        digest.update(repr((p.feed, p.origin, p.part, p.number, p.promise, p.latest, p.rows)).encode())
        if p.data is not None:
            digest.update(p.data)
    return digest.digest()
