"""Admission: the validator of the edge, which judges as `Validator` does, in compiled loops.

Payloads are numbered (kernels/grouping.py), and the ends of the events of each payload and start are
kept in arrays (kernels/ends.py). A loop takes in element after element and comes back with the first
that does not fit; what is said of that one is `Validator`'s to say. Rules, order and words are the same
ones, and tests hold the two against each other.

What is remembered is arrays: it is written down as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from slackwater.events import Batch
from slackwater.kernels import ends
from slackwater.kernels.grouping import Keys
from slackwater.promises import Promises
from slackwater.validity import StreamProperties, Validator, Violation

__all__ = ["Admission", "Events"]

kernel: Any = ends
"""compiled functions, which mypy cannot follow"""

Ints = npt.NDArray[np.int64]

_LEAST = 64
_LEAST_PURGE = 1024


def _slots(rows: int) -> Ints:
    size = _LEAST
    while size < 4 * rows:
        size *= 2
    return np.full(size, -1, dtype=np.int64)


@dataclass(slots=True)
class Events:
    """The events that may still be adjusted: which payloads there are, and which ends."""

    keys: Keys
    groups: Ints = field(default_factory=lambda: np.empty((0, ends.GROUP_COLUMNS), dtype=np.int64))
    more: Ints = field(default_factory=lambda: np.empty((0, ends.MORE_COLUMNS), dtype=np.int64))
    slots: Ints = field(default_factory=lambda: _slots(0))
    more_slots: Ints = field(default_factory=lambda: _slots(0))
    used: tuple[int, int] = (0, 0)
    """how many rows of `groups` and of `more`"""

    def make_room(self, rows: int) -> None:
        """For so many groups more, and some other ends."""
        groups, more = self.used
        if groups + rows > len(self.groups):
            self.groups = _enlarged(self.groups, groups, max(groups + rows, 2 * len(self.groups)))
        if 2 * (groups + rows) > len(self.slots):
            self.slots = _slots(groups + rows)
            kernel.put(self.slots, self.groups, groups)
        if 4 * (more + 1) > 3 * len(self.more):
            self.more = _enlarged(self.more, more, max(_LEAST, 2 * len(self.more)))
        if 2 * len(self.more) > len(self.more_slots):
            self.more_slots = _slots(len(self.more))
            kernel.put_more(self.more_slots, self.more, more)

    def ends(self, key: int, vs: int) -> dict[int, int]:
        """When the events with that payload and start end now, and how many do."""
        return dict(kernel.find(self.slots, self.groups, self.more, key, vs))

    def forget(self, promises: Promises) -> None:
        """Drop what no valid adjust can name, and payloads that nothing has any more."""
        if promises.known:
            frontier = promises.frontier(self.keys.take(np.arange(len(self.keys))))
        else:
            frontier = np.full(len(self.keys), promises.cti, dtype=np.int64)
        groups, more = kernel.survivors(self.groups, self.used[0], self.more, frontier)
        self.used = groups, more
        alive = np.zeros(len(self.keys), dtype=np.bool_)
        alive[self.groups[:groups, ends.KEY]] = True
        self.groups[:groups, ends.KEY] = self.keys.keep(alive)[self.groups[:groups, ends.KEY]]
        self.groups, self.more = self.groups[:groups].copy(), self.more[:more].copy()
        self.slots, self.more_slots = _slots(groups), _slots(more)
        kernel.put(self.slots, self.groups, groups)
        kernel.put_more(self.more_slots, self.more, more)


def _enlarged(array: Ints, used: int, rows: int) -> Ints:
    larger = np.empty((rows, array.shape[1]), dtype=np.int64)
    larger[:used] = array[:used]
    return larger


class Admission(Validator):
    """Decides as a `Validator`, of millions of elements."""

    def __init__(
        self,
        schema: pl.Schema | None = None,
        *,
        promises: bool = True,
        chains: bool = True,
        declared: StreamProperties | None = None,
    ) -> None:
        super().__init__(promises=promises, chains=chains, declared=declared)
        schema = schema or pl.Schema()
        self._promises = Promises.of(schema)
        self._events = Events(Keys(schema))

    @property
    def _remembered(self) -> int:
        # also payloads of elements that were set aside
        return max(self._events.used[0], len(self._events.keys))

    def _judge_links(
        self, batch: Batch, broken: npt.NDArray[np.bool_], misbehaved: dict[int, str]
    ) -> Iterator[Violation]:
        if not batch.rows:
            return
        events = self._events
        key = events.keys.number(batch.payload)
        odd = np.zeros(batch.rows, dtype=np.bool_)
        odd[list(misbehaved)] = True
        columns = [np.ascontiguousarray(c) for c in (batch.vs, batch.old_ve, batch.new_ve)]
        unique = self._declared.vs_payload_key
        row, said, place = 0, ends.NO_ROOM, None
        while row < batch.rows:
            if said == ends.NO_ROOM or place is None:
                events.make_room(batch.rows - row)
                place = kernel.places(events.slots, key, columns[0])
            tables = events.slots, events.groups, events.more_slots, events.more
            row, said, events.used = kernel.judge(
                *tables, events.used, place, key, *columns, broken, odd, unique, row
            )
            if said in (ends.FINE, ends.NO_ROOM):
                continue
            if said == ends.LATE:
                yield self._late(batch, row)
            elif said == ends.NO_EVENT:
                now = events.ends(int(key[row]), int(batch.vs[row]))
                yield self._no_such_event(batch, row, now)
            else:
                yield self._not_as_declared(batch, row, misbehaved.get(row, "vs_payload_key"))
            row += 1

    def _forget_frozen(self) -> None:
        self._events.forget(self._promises)
        self._purge_at = max(_LEAST_PURGE, 2 * self._remembered)
