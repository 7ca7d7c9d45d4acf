"""Promises in operators that hold rows back: what they settle, and when they may be passed on.

A promise holds of the output once no row that it speaks of is held any more: `Pending` keeps it until
then. What is held may be changed by what is still to come, and then has another sync. With a promise
from the beginning of time that does no harm, since nothing that comes is before its end; but with one of
the syncs in [since, before), changes from outside of it may add up to one inside, unless none of them
lengthens an event.

`settled` are the events that no element can name any more: all syncs from their start to their end are
forbidden for their payload.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl

from slackwater.events import Batch
from slackwater.kernels.grouping import Keys
from slackwater.punctuations import Closings, Promise, Punctuation, behind, together
from slackwater.times import BEGIN, INF, Times

__all__ = ["Pending", "settled"]

Mask = npt.NDArray[np.bool_]


@dataclass(slots=True)
class Pending:
    """Promises that wait for rows to leave that they speak of."""

    told: list[Promise] = field(default_factory=list)
    """closings of a set of columns together: they are looked up among the rows, all at once"""

    def take(self, told: Iterable[Promise], *, with_since: bool) -> None:
        """Let these wait; those of [since, before) only if they can be passed on at all."""
        some = [p for p in told if isinstance(p, Closings) or p.since == BEGIN or with_since]
        self.told = sorted(together([*self.told, *some]), key=_width)

    def free(self, held: Batch) -> tuple[Promise, ...]:
        """Those that speak of no held row. They wait no longer."""
        going: list[Promise] = []
        staying: list[Promise] = []
        for promise in self.told:
            if isinstance(promise, Closings):
                waits = _waiting(promise, held)
                going += [promise.where(~waits)] if not waits.all() else []
                staying += [promise.where(waits)] if waits.any() else []
            else:
                (staying if promise.matches(held).any() else going).append(promise)
        self.told = staying
        return tuple(going)


def _width(told: Promise) -> tuple[int, int]:
    """What implies another one is told after it, as it came: then nothing is said twice."""
    if isinstance(told, Closings):
        return -len(told.keys.columns), 1
    return -len(told.columns), 0 if told.since > BEGIN else 2


def _waiting(closings: Closings, held: Batch) -> Mask:
    """Which of the promises speak of a held row."""
    if not held.rows:
        return np.zeros(len(closings), dtype=np.bool_)
    keys = Keys(closings.keys.schema)
    numbers = keys.number(held.payload)
    earliest = np.full(len(keys) + len(closings), INF, dtype=np.int64)
    np.minimum.at(earliest, numbers, held.sync)
    known = len(keys)
    asked = keys.number(closings.keys)
    return (asked < known) & behind(earliest[asked], closings.before)


def settled(payload: pl.DataFrame, vs: Times, ve: Times, told: Sequence[Promise], cti: int) -> Mask:
    """Which events no element can name any more, by these promises and the cti.

    What names an event has a sync from its start to its end.
    """
    # from where on an element may still come, of each payload
    reached = np.maximum(vs, cti)
    of_values = [promise for promise in told if isinstance(promise, Closings)]
    boxes = [(p, p.matches_payload(payload)) for p in told if isinstance(p, Punctuation)]
    for closings in of_values:
        np.maximum(reached, closings.frontier(payload), out=reached)
    moved = True
    while moved:
        moved = False
        for box, matched in boxes:
            further = matched & (box.since <= reached) & (box.before > reached)
            reached[further] = box.before
            moved |= bool(further.any())
    return behind(ve, reached)
