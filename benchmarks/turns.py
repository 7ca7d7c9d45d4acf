"""Clocks for a plan under a schedule: the processor's time, and time that is counted in turns.

Near the edge of what a system can do a hundredth more or less of its speed decides how long its queues
are, and no machine that is shared keeps its speed to a hundredth. So what turns take is measured
first, by worker and by kind; then runs are compared whose clock goes on, with each turn, by one of these
durations, drawn at random. Queues, schedule and tokens are those of the runtime; only the time is not
the machine's.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import mean
from typing import Any

import slackwater as sw
from slackwater.runtime.controlled import Emitter, Operator
from slackwater.runtime.queues import Queue
from slackwater.runtime.schedules import Schedule, Turns
from slackwater.runtime.tokens import is_token

__all__ = ["CountedTime", "MeasuringTime", "Taken", "WorkingTime"]

Turn = tuple[int, str]
"""which worker it was, and what it did"""
LETS_IN, WITH_TOKEN = "lets in", "lets in, and a token"
WORKS, PASSES_TOKEN = "works", "passes a token on"
SLOWEST = 100
"""one turn in so many, of those that take longest, is the machine's affair and not measured"""


@dataclass
class WorkingTime:
    """Goes on while this process works, and is put forward when it has nothing to do.

    What others do on this machine takes no time by it.
    """

    skipped: float = 0.0
    schedule: Schedule = field(default_factory=sw.RoundRobin)

    def now(self) -> float:
        return time.process_time() + self.skipped

    def asked(self) -> float:
        """By the runtime: when a token is to enter, and when it comes out."""
        return self.now()

    def over(self) -> None:
        """A turn has ended."""

    def wait_until(self, then: float) -> None:
        """Nothing happens before that."""
        self.skipped += max(0.0, then - self.now())


@dataclass
class Watched:
    """Turns as round robin has them; somebody hears whose each of them is, and what it does."""

    hears: Callable[[Turn], None]
    turns: Turns = field(default_factory=lambda: sw.RoundRobin().begin())

    def begin(self) -> Turns:
        return self

    def next(self, workers: Sequence[Any]) -> Any:
        worker = self.turns.next(workers)
        if worker is not None:
            self.hears((workers.index(worker), _does(worker)))
        return worker

    def pick(self, queues: Sequence[Queue]) -> Queue:
        return self.turns.pick(queues)


def _does(worker: Emitter | Operator) -> str:
    if isinstance(worker, Emitter):
        return LETS_IN
    heads = [queue.batches[0] for queue in worker.running.inbound if queue.batches]
    return PASSES_TOKEN if all(map(is_token, heads)) else WORKS


@dataclass(frozen=True)
class Taken:
    """What turns take: some that were measured, by worker and kind."""

    turns: dict[Turn, list[float]]
    arrival: float
    """what is done for an arrival, if it finds nothing on its way"""
    token: float
    """... and for a token"""


@dataclass
class MeasuringTime(WorkingTime):
    """As the processor's, and what each turn takes is noted."""

    seen: dict[Turn, list[float]] = field(default_factory=dict)
    turn: Turn | None = None
    begun: float = 0.0
    tokens: int = 0

    def __post_init__(self) -> None:
        self.schedule = Watched(self._begin)

    def _begin(self, turn: Turn) -> None:
        self.turn, self.begun = turn, time.process_time()

    def asked(self) -> float:
        if self.turn is not None and self.turn[1] == LETS_IN:
            self.turn = self.turn[0], WITH_TOKEN
            self.tokens += 1
        return super().asked()

    def over(self) -> None:
        if self.turn is not None:
            self.seen.setdefault(self.turn, []).append(time.process_time() - self.begun)
            self.turn = None

    def taken(self) -> Taken:
        """What was seen, after so many arrivals and tokens that each kind of turn is among it."""
        turns = {
            turn: sorted(some)[: len(some) - len(some) // SLOWEST] for turn, some in self.seen.items()
        }
        token = arrival = 0.0
        arrivals = 0
        for (place, does), some in turns.items():
            count = len(self.seen[place, does])
            if does == PASSES_TOKEN:
                token += count * mean(some)
            elif does == WORKS:
                arrival += count * mean(some)
            else:
                alone = mean(turns[place, LETS_IN])
                arrivals += count
                arrival += count * alone
                token += count * (mean(some) - alone)
        return Taken(turns, arrival / arrivals, token / self.tokens)


@dataclass
class CountedTime:
    """Goes on by what turns take: with each of them by one that was measured, drawn at random.

    So a run is the same every time, whatever else this machine does.
    """

    taken: Taken
    seed: int
    passed: float = 0.0
    turn: Turn | None = None
    skipped: float = 0.0
    die: random.Random = field(init=False, repr=False)
    schedule: Schedule = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.die, self.schedule = random.Random(self.seed), Watched(self._begin)

    def _begin(self, turn: Turn) -> None:
        self.turn = turn
        self.passed += self.die.choice(self.taken.turns[turn])

    def now(self) -> float:
        return self.passed

    def asked(self) -> float:
        if self.turn is not None and self.turn[1] == LETS_IN:
            # a token enters, too: that was not known when the turn began
            turns, place = self.taken.turns, self.turn[0]
            self.passed += max(0.0, mean(turns[place, WITH_TOKEN]) - mean(turns[place, LETS_IN]))
            self.turn = None
        return self.passed

    def over(self) -> None:
        self.turn = None

    def wait_until(self, then: float) -> None:
        waits = max(0.0, then - self.passed)
        self.passed += waits
        self.skipped += waits
