"""Repeats: rows that a source tells twice because whoever wrote them has repeated a batch.

A query that writes to Kafka may write a batch again after a failure, from its beginning, with the same
records. Every record says who wrote it and carries a number, and in one partition the numbers of a
writer only grow; so what is not above the last number that was taken in has been here before. Two
attempts at once do no harm: each writes in order, hence whatever lies below a number has come before it.

All repetitions of a row come to the same bucket, which remembers one number per partition and writer. A
record may hold many rows, and these may come in several parcels.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from slackwater.distributed.parcels import Tags
from slackwater.events import Batch
from slackwater.times import Times

__all__ = ["Repeats"]


@dataclass(slots=True)
class Repeats:
    """The last number of every origin and writer, and the record in which it was."""

    last: dict[str, dict[int, tuple[int, int]]] = field(default_factory=dict)

    def without(self, origin: str, batch: Batch, tags: Tags | None) -> Batch:
        """The rows that have not been here before; they come in the order of their records."""
        if tags is None:
            return batch
        known = self.last.setdefault(origin, {})
        fresh = np.ones(batch.rows, dtype=np.bool_)
        for writer in np.unique(tags.by[tags.by != 0]).tolist():
            rows = np.flatnonzero(tags.by == writer)
            tag, offset = tags.tag[rows], tags.offset[rows]
            before = known.get(writer, (-1, -1))
            fresh[rows], known[writer] = _fresh(tag, offset, before)
        return batch if fresh.all() else batch.where(fresh)


def _fresh(
    tag: Times, offset: Times, before: tuple[int, int]
) -> tuple[np.ndarray[tuple[int], np.dtype[np.bool_]], tuple[int, int]]:
    """Which rows are new, and the last number now."""
    last_tag, last_offset = before
    starts = np.append(True, offset[1:] != offset[:-1])
    record = np.cumsum(starts) - 1
    tags, offsets = tag[starts], offset[starts]
    highest = np.maximum.accumulate(np.append(last_tag, tags))
    new = tags > highest[:-1]
    # the rest of a record whose first rows came in another parcel
    new[0] |= (int(tags[0]), int(offsets[0])) == before
    taken = np.flatnonzero(new)
    if len(taken):
        last_tag, last_offset = int(tags[taken[-1]]), int(offsets[taken[-1]])
    return new[record], (last_tag, last_offset)
