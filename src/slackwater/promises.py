"""Promises: all that a stream has promised so far, and what follows from it.

Most streams promise ctis only, and then it is one number: operators keep many of these. What is promised
of payloads is kept beside it, and taken in in place (`add`): only who has to judge by it, or has to wait
for other inputs, remembers any.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from slackwater.events import Batch, Control
from slackwater.punctuations import Closings, Promise, Punctuation, behind, combinations
from slackwater.times import BEGIN, INF, Times

__all__ = ["Promises"]

Mask: TypeAlias = npt.NDArray[np.bool_]


@dataclass(slots=True)
class Promises:
    """Everything a stream has promised so far.

    >>> from slackwater.punctuations import cti
    >>> Promises().with_(cti(5)).with_(cti(3)).cti
    5
    """

    cti: int = BEGIN
    known: list[Promise] | None = None
    """what was promised of payloads"""

    @classmethod
    def of(cls, schema: pl.Schema) -> Promises:
        """None yet, of a stream with these columns: for who will add promises about payloads."""
        del schema
        return cls()

    # of time alone: a value

    def with_(self, punctuation: Punctuation) -> Promises:
        """These promises and one more, a cti. What is known of payloads is shared with these."""
        assert punctuation.is_cti, f"{punctuation!r} is added"
        return replace(self, cti=punctuation.before) if punctuation.before > self.cti else self

    def strengthened_by(self, controls: Iterable[Control]) -> tuple[Promises, list[Punctuation]]:
        """These promises and the ctis of those, and the fewest ctis that tell the difference."""
        after = self
        for control in controls:
            if isinstance(control, Punctuation) and control.is_cti:
                after = after.with_(control)
        return after, ([Punctuation(after.cti)] if after.cti > self.cti else [])

    @property
    def closed(self) -> bool:
        """Whether nothing more can come."""
        return self.cti == INF

    # of payloads: in place

    def add(self, told: Iterable[Control]) -> None:
        """Remember these, ctis too; control elements that are no promises are passed over."""
        for each in told:
            if isinstance(each, Punctuation) and each.is_cti:
                self.cti = max(self.cti, each.before)
            elif isinstance(each, Punctuation | Closings):
                self.known = [*(self.known or []), each]

    def forget(self, told: Sequence[Promise]) -> None:
        """Drop what these imply, ctis apart: somebody else has been told."""
        boxes = [box for each in told for box in _boxes(each)]
        known = [box for each in self.known or [] for box in _boxes(each)]
        self.known = [box for box in known if not any(other.implies(box) for other in boxes)]

    def frontier(self, frame: pl.DataFrame) -> Times:
        """For each row the largest t such that no element with these values and sync < t can come.

        The frame has the columns of a payload, or some of them: all payloads with these values count.
        """
        reached = np.full(frame.height, self.cti, dtype=np.int64)
        boxes = [b for e in self.known or [] for b in _boxes(e) if b.speaks_only_of(frame.columns)]
        found = [(box, box.matches_payload(frame)) for box in boxes]
        before = None
        while before is None or (before != reached).any():
            before = reached.copy()
            for box, matched in found:
                further = matched & (box.since <= reached) & (box.before > reached)
                reached[further] = box.before
        return reached

    def forbids(self, sync: Times, payload: pl.DataFrame) -> Mask:
        """Which elements, of this sync and payload, a promise speaks of."""
        found = behind(sync, np.int64(self.cti))
        for each in self.known or []:
            for box in _boxes(each):
                in_time = behind(sync, np.int64(box.before)) & (sync >= box.since)
                found |= in_time & box.matches_payload(payload)
        return found

    def broken_by(self, batch: Batch) -> Mask:
        """Which rows break a promise: one of these, or one made earlier in their own batch."""
        # what was promised before each row, and one place more for what follows the last
        at_row = np.full(batch.rows + 1, self.cti, dtype=np.int64)
        for placed in batch.controls:
            if isinstance(placed.control, Punctuation) and placed.control.is_cti:
                at_row[placed.position] = max(at_row[placed.position], placed.control.before)
        at_row = np.maximum.accumulate(at_row)[:-1]
        broken = behind(batch.sync, at_row)
        if self.known:
            broken |= self.forbids(batch.sync, batch.payload)
        for position, control in batch.controls:
            if isinstance(control, Closings) or (
                isinstance(control, Punctuation) and not control.is_cti
            ):
                broken[position:] |= control.matches(batch.slice(position, batch.rows))
        return broken

    def broken_one(self, alone: Batch) -> Punctuation | None:
        """The promise about payloads that a row breaks, if there is one."""
        boxes = (box for each in self.known or [] for box in _boxes(each))
        return next((box for box in boxes if box.matches(alone)[0]), None)

    def news(self, told: Iterable[Promise]) -> list[Promise]:
        """What of these, which are no ctis, is not promised already."""
        new: list[Promise] = []
        for each in told:
            if isinstance(each, Closings):
                some = each.where(self.frontier(each.keys) < each.before)
                new += [some] if len(some) else []
            elif each.before > self.cti:
                new.append(each)
        return new

    def combined(self, told: Sequence[Promise]) -> list[Promise]:
        """The combinations of these promises with those that are not empty: what both sides say."""
        return combinations(told, self.punctuations())

    def punctuations(self) -> list[Promise]:
        """The fewest promises that say the same."""
        time = [Punctuation(self.cti)] if self.cti > BEGIN else []
        return [*time, *(self.known or [])]

    def __len__(self) -> int:
        """How many boxes are remembered, that of the cti apart."""
        return sum(len(e) if isinstance(e, Closings) else 1 for e in self.known or [])


def _boxes(told: Promise) -> Iterable[Punctuation]:
    return told if isinstance(told, Closings) else [told]
