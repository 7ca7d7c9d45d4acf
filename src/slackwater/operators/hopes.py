"""Hopes: what a loop may come to promise of payloads, since some input of it has.

What one input has promised the others may promise later, or it follows for another reason: so it is
looked at again when something has come. A look costs what is hoped for, and what of the loop's rows has
to be looked at; if that is much, it is only taken when as much has come since the last one. A promise
may be late.

A hope is given up when it is promised, when the cti says as much, and if there are very many, the oldest
first: then less is promised.

What hopes come true: runtime/induction.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import polars as pl

from slackwater.promises import Promises
from slackwater.punctuations import Closings, Promise, Punctuation, gathered
from slackwater.times import BEGIN

__all__ = ["Hopes"]

_MOST = 100_000
_MOST_BOXES = 1_000
_FEW = 1_000
"""so much may be looked at whenever something has come"""


@dataclass(slots=True)
class Hopes:
    """Patterns, each up to when an input has promised it."""

    told: list[Promise] = field(default_factory=list)
    """closings of a set of columns together, the latest last"""
    heard: int = 0
    """rows, promises and batches since they were looked at"""
    cost: int = 0
    """what the last look was at"""

    def add(self, told: Iterable[Promise], schema: pl.Schema) -> None:
        """More of them."""
        some = [_from_the_beginning(each) for each in told]
        self.heard += sum(map(_size, some))
        self.told = [_strongest(each) for each in gathered([*self.told, *some], schema)]
        boxes = [each for each in self.told if isinstance(each, Punctuation)]
        gone = boxes[: max(len(boxes) - _MOST_BOXES, 0)]
        self.told = [each for each in self.told if not any(each is other for other in gone)]

    @property
    def are_due(self) -> bool:
        """Whether it is time to look at them."""
        return bool(self.told) and self.heard > 0 and self.cost <= max(_FEW, self.heard)

    def keep_beyond(self, said: Promises) -> None:
        """Give up those that have been promised by now, as far as they go."""
        kept: list[Promise] = []
        for each in self.told:
            until = said.until(each)
            if isinstance(each, Closings):
                some = each.where(until < each.before)
                kept += [some] if len(some) else []
            elif until[0] < each.before:
                kept.append(each)
        self.told = kept

    def __len__(self) -> int:
        return sum(map(_size, self.told))


def _from_the_beginning(told: Promise) -> Promise:
    """What an input promises from some time on, it may have promised of earlier times, too."""
    return told if isinstance(told, Closings) else replace(told, since=BEGIN)


def _strongest(told: Promise) -> Promise:
    """Of equal values one; and no more than so many, the latest."""
    if not isinstance(told, Closings):
        return told
    told = told.strongest()
    return Closings(told.keys[-_MOST:], told.before[-_MOST:])


def _size(told: Promise) -> int:
    return len(told) if isinstance(told, Closings) else 1
