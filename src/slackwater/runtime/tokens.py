"""Synchronization tokens: they divide all that flows into what came before, and what comes after.

Every so many elements a token enters all inputs. An operator does not read on behind a token on one of
its queues until there is one on each; then it puts one into the queues of its readers. When a token
comes out, the output is the answer to what had entered before it: a drained system, and nothing had to
stop.

A token enters an input wherever that is, unless inputs are in step (the paper's emitSynch): then it
stands, in each of them, behind what had arrived at one time, the latest arrival that any has let in.

A token is a batch of its own, so that it waits in a queue like any other.

Paper 5 section 4.2.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import index

from slackwater.events import Batch, Control
from slackwater.levels import Adaptive, Tokens
from slackwater.runtime.period import Beat, Period
from slackwater.runtime.queues import Queue

__all__ = ["Metronome", "Token", "is_token", "put_token"]


@dataclass(frozen=True, slots=True)
class Token(Control):
    """A place in a stream, which is the same place in all."""

    number: int


def is_token(batch: Batch) -> bool:
    """Whether the batch is a token."""
    return len(batch.controls) == 1 and isinstance(batch.controls[0].control, Token)


def put_token(queues: Sequence[Queue], number: int) -> None:
    """One into each."""
    for queue in queues:
        queue.put(Batch.empty(queue.schema).followed_by([Token(number)]))


@dataclass(slots=True)
class Metronome:
    """When tokens enter, and what is known of those that are on their way."""

    tokens: Tokens
    period: Period | None = field(init=False)
    number: int = 0
    """of the last that was due"""
    since: int = 0
    """elements that have entered after it"""
    due: dict[str, deque[tuple[int, int]]] = field(default_factory=dict)
    """by input: tokens that are still to enter, each behind all that had arrived at a time"""
    offsets: dict[int, dict[str, int]] = field(default_factory=dict)
    """by token: how much of each input had entered before it"""
    entered: dict[int, tuple[int, float, int]] = field(default_factory=dict)
    """its period, when it was due, and under which turn of the period"""
    beats: list[Beat] = field(default_factory=list)
    last: float | None = None

    def __post_init__(self) -> None:
        every = self.tokens.every
        self.period = Period(every) if isinstance(every, Adaptive) else None

    @property
    def every(self) -> int:
        """Elements between two tokens, as things stand."""
        every = self.tokens.every
        if isinstance(every, Adaptive):
            assert self.period is not None, "it is adapted"
            return self.period.now
        return index(every)

    def is_due(self, elements: int) -> bool:
        """Whether it is time for a token, now that so many elements have entered."""
        self.since += elements
        return self.since >= self.every

    def strike(self, names: Sequence[str], at: int, now: float) -> None:
        """A token is to enter every input, behind all that had arrived at that time."""
        self.number += 1
        self.entered[self.number] = self.since, now, 0 if self.period is None else self.period.turn
        self.offsets[self.number] = {}
        self.since = 0
        for name in names:
            self.due.setdefault(name, deque()).append((self.number, at))

    def comes_out(self, number: int, outside: int, now: float) -> Mapping[str, int]:
        """A token has arrived: the prefix that the output is the answer to.

        So many elements have not been let in; others have, and are behind this token.
        """
        period, entered, turn = self.entered.pop(number)
        delay = now - (entered if self.last is None else self.last)
        beat = Beat(period, now - entered, delay)
        self.last = now
        self.beats.append(beat)
        if self.period is not None:
            inside = self.since + sum(elements for elements, _, _ in self.entered.values())
            self.period.hear(beat, outside + inside, turn)
        return self.offsets.pop(number)
