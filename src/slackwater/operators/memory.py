"""The limit of a memory: behind it, what arrives comes too late.

In application time the limit is `memory` behind the largest vs seen; in system time it is the largest vs
that had been seen `memory` ago. It never goes back, also when the memory is made longer.

How far the stream has come is read from its rows, one after the other; or a whole batch at a time, where
the rows of a batch have no common order; or it is told (`reach`), where only a share of them is here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from slackwater.consistency import Clock
from slackwater.operators.step import Now
from slackwater.times import BEGIN, INF, Times, plus

__all__ = ["Limit"]


@dataclass(slots=True)
class Limit:
    """How far the limit has come."""

    memory: int = INF
    at: int = BEGIN
    largest_vs: int = BEGIN
    # system clock only: when the largest vs rose, and to what, oldest first
    risen_at: list[int] = field(default_factory=list)
    risen_to: list[int] = field(default_factory=list)

    def met_by(self, vs: Times, clock: Clock, now: Now, *, atomic: bool = False) -> Times:
        """The limit that each row meets; afterwards it is where the next would meet it."""
        if clock is Clock.SYSTEM or self.memory == INF or atomic:
            self.look(clock, now)
            limits = np.full(len(vs), self.at)
            if len(vs):
                self.reach(int(vs.max()), clock, now)
            return limits
        largest = np.maximum.accumulate(np.concatenate(([self.largest_vs], vs)))
        limits = np.maximum(plus(largest, -self.memory), self.at)
        self.largest_vs, self.at = int(largest[-1]), int(limits[-1])
        return limits[:-1]

    def reach(self, time: int, clock: Clock, now: Now) -> None:
        """The stream has come so far."""
        if time > self.largest_vs:
            self.largest_vs = time
            if clock is Clock.SYSTEM and self.memory < INF:
                self._rise(now())
        self._follow(clock, now)

    def turn(self, memory: int, clock: Clock, now: Now) -> None:
        """From now on it is that far behind, or where it was if that is further."""
        if clock is Clock.SYSTEM and self.memory == INF > memory and self.largest_vs > BEGIN:
            # since when it is known nobody knows: since now
            self._rise(now())
        self.memory = memory
        if memory == INF:
            self._forget_rises()
        self._follow(clock, now)

    def look(self, clock: Clock, now: Now) -> None:
        """Time may have moved it."""
        if self.memory < INF and clock is Clock.SYSTEM:
            known_since = plus(now(), -self.memory)
            passed = int(np.searchsorted(self.risen_at, known_since, side="right"))
            if passed:
                self.at = max(self.at, self.risen_to[passed - 1])
                del self.risen_at[:passed], self.risen_to[:passed]

    def _follow(self, clock: Clock, now: Now) -> None:
        if clock is Clock.SYSTEM:
            self.look(clock, now)
        elif self.memory < INF and self.largest_vs > BEGIN:
            self.at = max(self.at, int(plus(self.largest_vs, -self.memory)))

    def _rise(self, time: int) -> None:
        self.risen_at.append(max([time, *self.risen_at[-1:]]))
        self.risen_to.append(self.largest_vs)

    def _forget_rises(self) -> None:
        self.risen_at.clear()
        self.risen_to.clear()

    def raise_to(self, time: int) -> None:
        """It is at least there; nothing is to be remembered once it is at INF."""
        self.at = max(self.at, time)
        if self.at == INF:
            self._forget_rises()
