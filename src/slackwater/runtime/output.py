"""What a query said, in arrival order, and what becomes of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy, deepcopy
from itertools import islice, pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
import polars as pl

from slackwater.corrections import CORRECTIONS, Told, corrected
from slackwater.errors import PlanError
from slackwater.events import Batch, Element
from slackwater.history import History
from slackwater.ledger import Ledger
from slackwater.promises import Promises
from slackwater.rows import changelog
from slackwater.times import BEGIN, INF, Times
from slackwater.validity import StreamProperties

__all__ = ["Mark", "Origin", "Output", "Prefix"]

Origin: TypeAlias = tuple[str, int]
"""an input, and which of its arrivals: what something is actively derived from"""


Prefix: TypeAlias = Mapping[str, int] | Sequence[int]
"""how many elements of each input; or how many of its arrivals, in the order of the inputs"""


class Mark(NamedTuple):
    """A state of the output that keeps the level of consistency."""

    said: int
    """how many elements had been said"""
    offsets: Mapping[str, int]
    """of each input, how many of its elements make the prefix; empty where the level speaks of none"""
    token: int | None = None
    """which token came out, if one did"""


class Output:
    """What a query said, in arrival order, and what becomes of it.

    Iterating gives the elements. `history()` is the answer as a table, `settled()` the part of it that
    can no longer change.
    """

    def __init__(
        self,
        schema: pl.Schema,
        ledger: Ledger,
        properties: StreamProperties | None = None,
        *,
        disordered: bool = False,
    ) -> None:
        self.batches: list[Batch] = []
        self.ledger = ledger
        self.schema = schema
        self._properties = properties or StreamProperties()
        self._disordered = disordered
        self.promised = Promises.of(schema)
        self.ignored: Promises | None = None
        """which payloads are of no interest any more, if anybody has said so"""
        self.before = BEGIN
        """the highest sync of what was said before, by whom this one goes on from"""
        self._highest = BEGIN, 0
        """of its first so many batches"""
        self._ends: list[int] = []
        self.marked: list[tuple[int, Prefix, int | None]] = []
        """the marks as they were made: nearly every row may be a right state, and few are read"""
        self.arrivals: Mapping[str, Sequence[int]] = {}
        """of each input, how many elements there are in its first arrivals, if marks count these"""
        self.origins: list[tuple[int, Origin]] = []
        """where labels are heeded: what comes behind so many elements is actively derived from there"""

    def append(self, batch: Batch) -> None:
        """One more batch."""
        self.batches.append(batch)
        self.promised.add(p.control for p in batch.controls)

    def so_far(self) -> Output:
        """The same, to which nothing is appended: for who reads while others write."""
        same = copy(self)
        same.batches, same._ends = [*self.batches], [*self._ends]
        same.promised = deepcopy(self.promised)
        return same

    @property
    def marks(self) -> list[Mark]:
        """The states that are known to be right, where a level of consistency is kept."""
        return [Mark(said, self._offsets(prefix), token) for said, prefix, token in self.marked]

    def _offsets(self, prefix: Prefix) -> Mapping[str, int]:
        if isinstance(prefix, Mapping):
            return prefix
        # there is none, where the level speaks of no prefix
        known = zip(self.arrivals.items(), prefix, strict=False)
        return {name: elements[latest] for (name, elements), latest in known}

    @property
    def settled_until(self) -> int:
        """The last cti: the history before it no longer changes."""
        return self.promised.cti

    @property
    def taken_back(self) -> int:
        """How many rows shortened or removed an event that had been shown."""
        return sum(batch.taken_back for batch in self.batches)

    @property
    def highest(self) -> int:
        """The highest sync of all that was said."""
        known, count = self._highest
        known = max([known, *(int(each.sync.max(initial=BEGIN)) for each in self.batches[count:])])
        self._highest = known, len(self.batches)
        return max(self.before, known)

    @property
    def changes(self) -> int:
        """How many rows went on from what had been said."""
        return int(np.count_nonzero(~corrected(self._at_once(), self.before)))

    @property
    def corrections(self) -> int:
        """How many rows spoke of a time that had been spoken of before their batch."""
        return int(np.count_nonzero(corrected(self._at_once(), self.before)))

    def only(self, told: Told) -> Batch:
        """The changes, or the corrections, in one batch."""
        if not isinstance(told, Told):
            raise PlanError(
                f"{told!r} is neither changes nor corrections",
                detail=f"it is of type {type(told).__name__}",
                hint="sw.CHANGES or sw.CORRECTIONS",
            )
        # what is added meanwhile is in none of both
        batches = self._at_once()
        is_correction = corrected(batches, self.before)
        rows = Batch.concat([Batch.empty(self.schema), *batches]).data()
        return rows.where(is_correction == (told is CORRECTIONS))

    def ends_here(self) -> None:
        """What was appended since this was said last is one batch for who reads it."""
        if len(self.batches) > (self._ends or [0])[-1]:
            self._ends.append(len(self.batches))

    def _at_once(self) -> list[Batch]:
        """The batches as they were seen."""
        batches = [*self.batches]
        ends = [0, *self._ends, *range((self._ends or [0])[-1] + 1, len(batches) + 1)]
        return [Batch.concat(batches[start:stop]) for start, stop in pairwise(ends)]

    def as_batch(self) -> Batch:
        """All elements in one batch."""
        return Batch.concat([Batch.empty(self.schema), *self.batches])

    def as_history(self) -> History:
        """The history that the elements reconstitute to."""
        return History.of(self.as_batch(), disordered=self._disordered)

    def history(self, *, datetimes: bool = False) -> pl.DataFrame:
        """The answer: payload columns plus vs and ve, sorted by them."""
        return self.as_history().to_polars(datetimes=datetimes)

    def settled(self, *, datetimes: bool = False) -> pl.DataFrame:
        """The part of the answer that can no longer change, without what is ignored."""
        never_lengthens = self._properties.never_lengthens
        history = self.as_history()
        until: int | Times = self.settled_until
        if self.promised.known:
            until = self.promised.frontier(history.payload)
        if self.ignored is not None:
            # it has stayed as it was when that was said
            is_ignored = self.ignored.frontier(history.payload) == INF
            until = np.where(is_ignored, BEGIN, until)
        settled = history.settled(until, never_lengthens=never_lengthens)
        return settled.to_polars(datetimes=datetimes)

    def changelog(self, *, datetimes: bool = False, only: Told | None = None) -> pl.DataFrame:
        """What was said, one row per element: kind, vs, ve, new_ve and the payload.

        All of it, or `only=sw.CHANGES`, or `only=sw.CORRECTIONS`.
        """
        rows = self.as_batch() if only is None else self.only(only)
        return changelog(rows, datetimes=datetimes)

    def until(self, mark: Mark) -> History:
        """The history that had been said when the output was right."""
        left, said = mark.said, [Batch.empty(self.schema)]
        for batch in self.batches:
            if batch.elements > left:
                said.append(Batch.of(islice(batch, left), self.schema))
                break
            said.append(batch)
            left -= batch.elements
        else:
            if left:
                raise PlanError(
                    f"{mark} is not a state of this output",
                    detail=f"it has {len(self)} elements",
                    hint="a mark belongs to the output that has it in marks",
                )
        return History.of(Batch.concat(said), disordered=self._disordered)

    def __iter__(self) -> Iterator[Element]:
        for batch in self.batches:
            yield from batch

    def __len__(self) -> int:
        return sum(batch.elements for batch in self.batches)

    def __repr__(self) -> str:
        rows = sum(batch.rows for batch in self.batches)
        return f"Output of {rows} rows, {self.taken_back} taken back"
