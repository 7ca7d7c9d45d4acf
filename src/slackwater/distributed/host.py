"""A host: buckets that live in one process, and what brings them to the batch that is asked for.

Whoever runs a batch asks for one step of one bucket. Usually the bucket is where it should be, one
batch behind. If it is elsewhere (the process is new, a batch is repeated, the query was taken up from
an earlier one, another host had the bucket in the meantime), it is built again from the store, and comes
to the same. A batch that was the last one, with the same parcels, is answered as it was: a repetition
changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from slackwater.distributed.bucket import Bucket, Remembered, Said
from slackwater.distributed.program import Program
from slackwater.distributed.store import FIRST, Place, Received, Store, linked
from slackwater.distributed.weight import weight
from slackwater.errors import OperatorError

__all__ = ["Host"]

_LEAST_LOG = 64 << 20
"""so many bytes of parcels are read again rather than that the state is written, or as many as it has"""
_MOST_BATCHES = 256
"""... but not of more batches, if the state is no larger than that"""


_WEIGHED_EVERY = 16
"""batches: how much memory the state takes is looked at now and then"""


@dataclass(slots=True)
class _Kept:
    """A bucket, and behind which batch it stands."""

    bucket: Bucket
    batch: int
    link: str = FIRST
    before: str = FIRST
    """the link before that"""
    states: list[int] = field(default_factory=list)
    """behind which batches a state of this chain was written, as far as is known"""
    log_bytes: int = 0
    batches: int = 0
    """since the state was written last"""
    state_bytes: int = 0
    weight: int = 0
    said: Said | None = None

    def has_said(self, batch: int, received: Received) -> bool:
        """Whether this was the last batch, with the same parcels."""
        is_last = self.said is not None and self.batch == batch
        return is_last and self.link == linked(self.before, received)


class Host:
    """The buckets of a program that are kept in this process."""

    def __init__(self, program: Program, store: Store) -> None:
        self._program, self._store = program, store
        self._kept: dict[Place, _Kept] = {}

    def step(self, place: Place, batch: int, received: Received) -> Said:
        """Run a batch in one of the buckets; it is durable when this returns."""
        kept = self._kept.get(place)
        if kept is not None and not self._is_of_record(place, kept):
            kept = None
        if kept is not None and kept.has_said(batch, received):
            assert kept.said is not None
            return kept.said
        if kept is None or kept.batch != batch - 1:
            # first, so that nothing half done is left if it fails
            self._kept.pop(place, None)
            kept = self._rebuilt(place, batch - 1)
        link, written = self._store.write_parcels(place, batch, kept.link, received)
        # whatever ends it half way, what is kept could not be trusted
        self._kept.pop(place, None)
        spoken = self._store.spoken(batch)
        said = kept.bucket.step(received.parcels, received.now, spoken=spoken)
        kept.batch, kept.before, kept.link = batch, kept.link, link
        kept.log_bytes += written
        if kept.said is None or batch % _WEIGHED_EVERY == 0:
            kept.weight = weight(kept.bucket.remembered())
        standing = replace(said.standing, state_bytes=kept.weight, link=link)
        kept.said = replace(said, standing=standing)
        kept.batches += 1
        much = kept.log_bytes > max(_LEAST_LOG, kept.state_bytes, kept.weight)
        many = kept.batches > _MOST_BATCHES and kept.state_bytes <= _LEAST_LOG
        if much or many:
            self._write_state(place, kept)
        self._kept[place] = kept
        return kept.said

    def _is_of_record(self, place: Place, kept: _Kept) -> bool:
        """Whether its last batch is the one that went on: another host may have run it again."""
        link = self._store.recorded(place, kept.batch)
        return link is None or link == kept.link

    def _write_state(self, place: Place, kept: _Kept) -> None:
        state = kept.bucket.remembered()
        kept.state_bytes = self._store.write_state(place, kept.batch, kept.link, state)
        kept.log_bytes = kept.batches = 0
        # a query may be taken up one batch before the last, so one state more than the last
        kept.states = [*kept.states[-1:], kept.batch]
        if len(kept.states) > 1:
            self._store.forget_before(place, kept.states[0])

    def _rebuilt(self, place: Place, batch: int) -> _Kept:
        """The bucket as it was behind a batch."""
        bucket = Bucket(self._program, place.stage, place.bucket)
        past = self._store.past(place, batch)
        kept = _Kept(bucket, past.batch, past.link)
        if past.state is not None:
            if not isinstance(past.state, Remembered):
                raise OperatorError("what is in the checkpoint is not a state", detail=f"{place}")
            bucket.restore(past.state)
            kept.states = [past.batch]
        for number, link, received in past.since():
            bucket.step(received.parcels, received.now)
            kept.batch, kept.before, kept.link = number, kept.link, link
            kept.batches += 1
            kept.log_bytes += sum(len(p.data) for p in received.parcels if p.data is not None)
        return kept
