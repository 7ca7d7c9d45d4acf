"""Queues: batches on their way from one operator to one port of another.

A queue is first in, first out, and loses nothing but what nobody wants: a reader may say which payloads,
or events that end before which time, are no longer of interest to it. Such rows are not put in any more,
and those that wait are dropped; the queue tells whoever writes it.

Paper 5 section 2 (channels); paper 2 section V-D (feedback).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import polars as pl

from slackwater.events import Batch, Placed
from slackwater.promises import Promises
from slackwater.punctuations import Closings, Promise, Punctuation, for_ever, is_of_payloads
from slackwater.times import BEGIN, INF

__all__ = ["Queue"]


class Writer(Protocol):
    """Who puts batches into a queue, and hears what is not wanted there."""

    def forgo(self, told: Sequence[Promise]) -> None:
        """Some reader has no interest in such rows."""
        ...

    def outdate(self) -> None:
        """Some reader has no interest in events that end before some time."""
        ...


@dataclass(eq=False, slots=True)
class Queue:
    """Batches on their way to one port of an operator."""

    port: int
    schema: pl.Schema
    batches: deque[Batch] = field(default_factory=deque)
    writer: Writer | None = None
    """None: a source"""
    unwanted: Promises | None = None
    """of which payloads nothing is to be put in any more, if anybody has said so"""
    leads_out: bool = False
    """whether its reader is the user, who is not promised either what was left out"""
    never_lengthens: bool = False
    """whether no event of the stream comes to end later than it was said to"""
    behind_loop: bool = False
    """whether it leads out of a loop: then what every round says waits until the loop is quiet"""
    outdated: int = BEGIN
    """events that end before this time are not to be put in any more"""
    keeps_all: bool = False
    """whether batches stay though nothing in them is of interest: each has a label (labels.py)"""

    def put(self, batch: Batch) -> None:
        """Without the rows that are of no interest."""
        wanted = self.wanted(batch)
        if self.unwanted is not None:
            wanted = self._heard(wanted, self.unwanted)
        if len(wanted) or self.keeps_all:
            self.batches.append(wanted)

    def take(self) -> Batch:
        """The first batch, without what has become of no interest while it waited."""
        return self.wanted(self.batches.popleft())

    def take_all(self) -> Batch:
        """All that is waiting, as one batch, up to the first that has control elements."""
        some = [self.take()]
        while self.batches and not some[-1].controls:
            some.append(self.take())
        return Batch.concat(some)

    def take_gathered(self) -> Batch:
        """All that is waiting, as one batch, with promises behind the rows; up to the first with others.

        A promise that comes later holds as well.
        """
        some = [self.take()]
        while self.batches and all(map(_is_promise, some[-1].controls)):
            some.append(self.take())
        if len(some) == 1:
            return some[0]
        *before, last = some
        promises = [each.control for batch in before for each in batch.controls]
        rows = Batch.concat([batch.data() for batch in some])
        return rows.followed_by([*promises, *(each.control for each in last.controls)])

    def forgo(self, told: Sequence[Promise]) -> None:
        """Rows with such payloads are no longer of interest to the reader."""
        if self.unwanted is None:
            self.unwanted = Promises.of(self.schema)
        self.unwanted.add(told)
        waiting = [*self.batches]
        self.batches.clear()
        for batch in waiting:
            self.put(batch)
        if self.writer is not None:
            self.writer.forgo(told)

    def wanted(self, batch: Batch) -> Batch:
        """The rows that are of interest, with all control elements."""
        if batch.rows and self.outdated > BEGIN:
            past = np.maximum(batch.old_ve, batch.new_ve) < self.outdated
            batch = batch.where(~past) if past.any() else batch
        if self.unwanted is None or not batch.rows:
            return batch
        unwanted = self.unwanted.frontier(batch.payload) == INF
        return batch.where(~unwanted) if unwanted.any() else batch

    def outdate(self, before: int) -> None:
        """Events that end before a time are no longer of interest to the reader."""
        if not self.never_lengthens or before <= self.outdated:
            return
        # this is said with every cti: what waits is looked at when it is taken
        self.outdated = before
        if self.writer is not None:
            self.writer.outdate()

    def begin_anew(self) -> None:
        """Its reader has begun anew, and has not said yet what it has no interest in."""
        self.unwanted, self.outdated = None, BEGIN

    def _heard(self, batch: Batch, unwanted: Promises) -> Batch:
        """What is promised for ever does not come anyway; users hear nothing of what was left out."""
        patterns = [each.control for each in batch.controls if is_of_payloads(each.control)]
        if not patterns:
            return batch
        if not self.leads_out:
            unwanted.forget(for_ever(patterns))
            return batch
        left: list[Placed] = []
        for position, control in batch.controls:
            some = unwanted.news([control]) if is_of_payloads(control) else [control]
            left += (Placed(position, each) for each in some)
        return replace(batch, controls=tuple(left))


def _is_promise(placed: Placed) -> bool:
    return isinstance(placed.control, Punctuation | Closings)
