"""The limit of a memory: behind it, what arrives comes too late.

In application time the limit is `memory` behind the largest vs seen; in system time it is the largest vs
that had been seen `memory` ago. It never goes back.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from slackwater.consistency import Clock
from slackwater.operators.step import Now
from slackwater.plan import nodes
from slackwater.times import BEGIN, INF, Times, plus

__all__ = ["Limit"]


@dataclass(slots=True)
class Limit:
    """How far the limit has come."""

    at: int = BEGIN
    largest_vs: int = BEGIN
    # system clock only: when the largest vs rose, and to what, oldest first
    risen_at: list[int] = field(default_factory=list)
    risen_to: list[int] = field(default_factory=list)

    def met_by(self, vs: Times, node: nodes.Finalize, now: Now) -> Times:
        """The limit that each row meets; afterwards it is where the next would meet it."""
        if node.memory == INF:
            return np.full(len(vs), self.at)
        if node.clock is Clock.SYSTEM:
            time = now()
            self._look_at_the_clock(node, time)
            limits = np.full(len(vs), self.at)
            if len(vs) and vs.max() > self.largest_vs:
                self.largest_vs = int(vs.max())
                self.risen_at.append(max([time, *self.risen_at[-1:]]))
                self.risen_to.append(self.largest_vs)
                self._look_at_the_clock(node, time)
            return limits
        largest = np.maximum.accumulate(np.concatenate(([self.largest_vs], vs)))
        limits = np.maximum(plus(largest, -node.memory), self.at)
        self.largest_vs, self.at = int(largest[-1]), int(limits[-1])
        return limits[:-1]

    def look(self, node: nodes.Finalize, now: Now) -> None:
        """Time may have moved it."""
        if node.memory < INF and node.clock is Clock.SYSTEM:
            self._look_at_the_clock(node, now())

    def _look_at_the_clock(self, node: nodes.Finalize, now: int) -> None:
        known_since = plus(now, -node.memory)
        passed = int(np.searchsorted(self.risen_at, known_since, side="right"))
        if passed:
            self.at = max(self.at, self.risen_to[passed - 1])
            del self.risen_at[:passed], self.risen_to[:passed]

    def raise_to(self, time: int) -> None:
        """It is at least there; nothing is to be remembered once it is at INF."""
        self.at = max(self.at, time)
        if self.at == INF:
            self.risen_at.clear()
            self.risen_to.clear()
