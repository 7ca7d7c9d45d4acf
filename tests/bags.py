"""A history as a bag of rows in Python, kept up to date element by element.

What a stream says so far is asked after every batch of thousands of tiny examples. To sum it up again
as a table each time would take longer than everything under test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from typing import TypeAlias

import polars as pl

import slackwater as sw
from slackwater.events import Event
from slackwater.history import History
from slackwater.identity import identity
from slackwater.payloads import Payload

__all__ = ["Bag", "Row"]

Row: TypeAlias = tuple[int, int, Hashable]
"""vs, ve, and what identifies the payload"""


class Bag:
    """How often each row (vs, ve, payload) is there; rows that are not there are not kept."""

    def __init__(self) -> None:
        self.rows: Counter[Row] = Counter()
        self._payloads: dict[Hashable, Payload] = {}

    @staticmethod
    def of(history: History) -> Bag:
        """The rows of a history."""
        return Bag().take_in(history.to_batch())

    def take_in(self, batch: sw.Batch) -> Bag:
        """What valid elements change."""
        times = zip(batch.vs.tolist(), batch.old_ve.tolist(), batch.new_ve.tolist(), strict=True)
        for (vs, old_ve, new_ve), payload in zip(times, self._read(batch.payload), strict=True):
            if old_ve > vs:
                self.rows[vs, old_ve, payload] -= 1
                if not self.rows[vs, old_ve, payload]:
                    del self.rows[vs, old_ve, payload]
            if new_ve > vs:
                self.rows[vs, new_ve, payload] += 1
        return self

    def _read(self, payloads: pl.DataFrame) -> Iterator[Hashable]:
        for payload in payloads.rows(named=True) if payloads.width else [{}] * payloads.height:
            key = identity(payload)
            self._payloads.setdefault(key, payload)
            yield key

    def settled(self, time: int) -> Counter[Row]:
        """The rows that `History.settled` would keep."""
        if time == sw.INF:
            return self.rows
        return Counter({row: copies for row, copies in self.rows.items() if row[1] < time})

    def history(self, schema: pl.Schema) -> History:
        """The same as a table."""
        return History.from_events(self.events(), schema)

    def events(self) -> list[Event]:
        """One by one."""
        return [Event(vs, ve, self._payloads[payload]) for vs, ve, payload in self.rows.elements()]

    def payloads(self) -> list[Payload]:
        """All payloads that ever were in it."""
        return list(self._payloads.values())

    def knows(self, key: Hashable) -> bool:
        """Whether a payload that is identified so ever was in it."""
        return key in self._payloads

    def payload(self, key: Hashable) -> Payload:
        """The payload that is identified so."""
        return self._payloads[key]

    def copy(self) -> Bag:
        """As it is now."""
        copy = Bag()
        copy.rows, copy._payloads = Counter(self.rows), self._payloads
        return copy

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bag) and self.rows == other.rows

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        return f"Bag({sorted(self.rows.elements(), key=str)})"
