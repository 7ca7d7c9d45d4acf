"""Schedules: who is next, and which of its inputs an operator reads.

A schedule is a value. `begin` makes the turns of one run of it, which may remember who was last. What is
right must not depend on it: with `Shuffled` every order that queues permit happens sooner or later,
which is what the laws of consistency are tried under.

Paper 5 section 2 (the scheduler) and section 6 (round-robin, for as long as queues are).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import index
from typing import Protocol, TypeVar

from slackwater.errors import PlanError
from slackwater.runtime.queues import Queue

__all__ = [
    "BOTTOM_UP",
    "BottomUp",
    "Fair",
    "RoundRobin",
    "Schedule",
    "Shuffled",
    "Turns",
    "Worker",
    "require_schedule",
]


class Worker(Protocol):
    """Who takes turns: an operator, or what emits an input."""

    @property
    def ready(self) -> bool:
        """Whether there is something to do."""
        ...

    @property
    def waiting(self) -> int:
        """How many batches wait for it."""
        ...

    @property
    def spent(self) -> float:
        """Seconds that it has taken so far."""
        ...


Anybody = TypeVar("Anybody", bound=Worker)


class Turns(Protocol):
    """A schedule at work."""

    def next(self, workers: Sequence[Anybody]) -> Anybody | None:
        """Whose turn it is, of workers in the order of the plan, sources first; None if all is quiet."""
        ...

    def pick(self, queues: Sequence[Queue]) -> Queue:
        """The input that is read, of one or more."""
        ...


class Schedule(Protocol):
    """A way to take turns."""

    def begin(self) -> Turns:
        """Nobody has had a turn yet."""
        ...


@dataclass(frozen=True, slots=True)
class BottomUp:
    """The ready operator that is nearest to the sources, and its first input that has something."""

    def begin(self) -> Turns:
        """There is nothing to remember."""
        return self

    def next(self, workers: Sequence[Anybody]) -> Anybody | None:
        """The first that is ready."""
        for worker in workers:
            if worker.ready:
                return worker
        return None

    def pick(self, queues: Sequence[Queue]) -> Queue:
        """The first."""
        return queues[0]


BOTTOM_UP = BottomUp()


@dataclass(frozen=True, slots=True)
class Fair:
    """The ready operator that has taken the least time so far.

    So that of several plans for one query, which are read by a merge, each gets its share.
    """

    def begin(self) -> Turns:
        """The workers themselves know how long they took."""
        return self

    def next(self, workers: Sequence[Anybody]) -> Anybody | None:
        """Whoever has had the least."""
        ready = (worker for worker in workers if worker.ready)
        return min(ready, key=_spent, default=None)

    def pick(self, queues: Sequence[Queue]) -> Queue:
        """The first."""
        return queues[0]


@dataclass(frozen=True, slots=True)
class RoundRobin:
    """One after the other, each for as many batches as wait for it when its turn comes.

    An operator reads the longest of its queues. Nobody has more than `at_most` batches in one turn: an
    input whose rows are all there would let them all in at once.
    """

    at_most: int = 64

    def __post_init__(self) -> None:
        if not _is_whole(self.at_most) or self.at_most < 1:
            raise PlanError(
                "whose turn it is has one batch or more",
                detail=f"at_most={self.at_most!r}",
                hint="sw.RoundRobin(64)",
            )

    def begin(self) -> Turns:
        """The first begins."""
        return _Round(index(self.at_most))


@dataclass(slots=True)
class _Round:
    at_most: int
    place: int = -1
    left: int = 0

    def next(self, workers: Sequence[Anybody]) -> Anybody | None:
        if self.left and workers[self.place].ready:
            self.left -= 1
            return workers[self.place]
        for _ in workers:
            self.place = (self.place + 1) % len(workers)
            worker = workers[self.place]
            if worker.ready:
                self.left = min(worker.waiting, self.at_most) - 1
                return worker
        self.left = 0
        return None

    def pick(self, queues: Sequence[Queue]) -> Queue:
        return max(queues, key=_length)


@dataclass(frozen=True, slots=True)
class Shuffled:
    """Anybody who is ready, and any input that has something, by the throw of a die."""

    seed: int = 0

    def __post_init__(self) -> None:
        if not _is_whole(self.seed):
            raise PlanError(
                "a seed is a whole number",
                detail=f"seed={self.seed!r}",
                hint="sw.Shuffled(7): the same throws every time",
            )

    def begin(self) -> Turns:
        """The same throws for the same seed."""
        return _Throws(random.Random(index(self.seed)))  # noqa: S311  nothing is kept secret by it


@dataclass(slots=True)
class _Throws:
    die: random.Random = field(repr=False)

    def next(self, workers: Sequence[Anybody]) -> Anybody | None:
        ready = [worker for worker in workers if worker.ready]
        return self.die.choice(ready) if ready else None

    def pick(self, queues: Sequence[Queue]) -> Queue:
        return self.die.choice(queues)


def require_schedule(schedule: object) -> None:
    """Refuse what does not say who is next."""
    if isinstance(schedule, type) or not callable(getattr(schedule, "begin", None)):
        raise PlanError(
            f"{schedule!r} is not a schedule",
            detail="a schedule is a value that begins its turns",
            hint="sw.RoundRobin(), sw.BottomUp(), sw.Fair() or sw.Shuffled(seed)",
        )


def _is_whole(number: object) -> bool:
    """Whether it is a whole number, of NumPy perhaps; truth is none."""
    try:
        index(number)  # type: ignore[arg-type]
    except TypeError:
        return False
    return not isinstance(number, bool)


def _spent(worker: Worker) -> float:
    return worker.spent


def _length(queue: Queue) -> int:
    return len(queue.batches)
