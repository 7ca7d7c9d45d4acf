"""Finalize: the same history, remembered for a limited time only. What is given up is in the ledger.

    out = input - ledger      (as streams: leaving out the elements that the ledger names)

Every element moves the limit: `memory` behind the largest vs seen, or with the system clock, the largest
vs that had been seen `memory` ago. An element whose sync is behind the limit when it arrives comes too
late: it is given up, and with it every later element that continues it. What had been passed of its
event stays. Elements are judged one by one, so that it does not matter how the stream was cut.

Pass: everything else, at once. Keep: of each event that was given up in part, the end that it would have
by now, until the limit has passed that end: to know what continues it. Propagate: cti(t), and after
every batch cti(limit) of its own. Limits never go back.

    memory 5   in:   a [0, 9)   b [8, 12)          c [1, 4)   a [0, 9) -> [0, 2)   c [1, 4) -> [1, 7)
               out:  a [0, 9)   b [8, 12)  cti(3)
               ledger:                             c [1, 4)   a [0, 9) -> [0, 2)   c [1, 4) -> [1, 7)

With an infinite memory it passes everything. Not here: external ctis with counts, which would say that
a part of the stream is complete before the limit does.

Paper 1b section 4.6, erratum 15.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from slackwater.consistency import Clock
from slackwater.events import Batch
from slackwater.operators.buffer import Buffer
from slackwater.operators.step import Answer, Description, GivenUp, Now, wall_clock
from slackwater.plan import nodes
from slackwater.punctuations import Punctuation
from slackwater.times import BEGIN, INF, Times, plus, show

__all__ = ["Finalize", "State"]


@dataclass(slots=True)
class State:
    """What was given up and may still be continued, and how far the limit has come."""

    lost: Buffer
    limit: int = BEGIN
    largest_vs: int = BEGIN
    # system clock only: when the largest vs rose, and to what, oldest first
    risen_at: list[int] = field(default_factory=list)
    risen_to: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Finalize:
    """The step of a `Finalize` node. `now` tells system time."""

    node: nodes.Finalize
    now: Now = wall_clock

    def open(self) -> State:
        """Nothing given up."""
        return State(Buffer(self.node.schema, timed=False))

    def on_batch(self, state: State, port: int, rows: Batch) -> Batch | Answer:
        """The rows that are not too late, then a promise that nothing behind the limit follows."""
        if self.node.memory == INF:
            return rows
        limits = self._limits(state, rows.vs)
        passed, given_up = self._judged(state, rows, limits)
        state.lost.forget_ends_before(state.limit)
        return Answer((Punctuation(state.limit),), passed, given_up)

    def _limits(self, state: State, vs: Times) -> Times:
        """The limit that each row meets; afterwards the state has the one that the next would meet."""
        if self.node.clock is Clock.SYSTEM:
            now = self.now()
            self._look_at_the_clock(state, now)
            limits = np.full(len(vs), state.limit)
            if len(vs) and vs.max() > state.largest_vs:
                state.largest_vs = int(vs.max())
                state.risen_at.append(max([now, *state.risen_at[-1:]]))
                state.risen_to.append(state.largest_vs)
                self._look_at_the_clock(state, now)
            return limits
        largest = np.maximum.accumulate(np.concatenate(([state.largest_vs], vs)))
        limits = np.maximum(plus(largest, -self.node.memory), state.limit)
        state.largest_vs, state.limit = int(largest[-1]), int(limits[-1])
        return limits[:-1]

    def _look_at_the_clock(self, state: State, now: int) -> None:
        known_since = plus(now, -self.node.memory)
        passed = int(np.searchsorted(state.risen_at, known_since, side="right"))
        if passed:
            state.limit = max(state.limit, state.risen_to[passed - 1])
            del state.risen_at[:passed], state.risen_to[:passed]

    def _judged(self, state: State, rows: Batch, limits: Times) -> tuple[Batch, GivenUp | None]:
        late = rows.sync < limits
        concerned = late
        if len(state.lost) or late.any():
            # any adjust may continue what was given up
            concerned = late | ~rows.is_insert
        if not concerned.any():
            return rows, None
        gone = np.zeros(rows.rows, dtype=np.bool_)
        gone[concerned] = state.lost.hold(rows.where(concerned), only=late[concerned])
        if not gone.any():
            return rows, None
        return rows.where(~gone), _given_up(rows.where(gone), limits[gone], late[gone])

    def on_punctuation(self, state: State, port: int, punctuation: Punctuation) -> Answer:
        """The promise, or the own one if that says more."""
        if self.node.memory < INF and self.node.clock is Clock.SYSTEM:
            self._look_at_the_clock(state, self.now())
        state.limit = max(state.limit, punctuation.before)
        state.lost.forget_ends_before(state.limit)
        if state.limit == INF:
            state.risen_at.clear()
            state.risen_to.clear()
        return Answer((Punctuation(state.limit),))

    def describe(self, state: State) -> Description:
        """One row per event that was given up and may still be continued."""
        return Description(state_rows=len(state.lost))


def _given_up(rows: Batch, limits: Times, late: npt.NDArray[np.bool_]) -> GivenUp:
    """Why each row was given up, and which stretch of time it would have changed."""
    details = []
    times = (rows.old_ve.tolist(), rows.new_ve.tolist(), limits.tolist(), late.tolist())
    for old_ve, new_ve, limit, is_late in zip(*times, strict=True):
        why = f"it came behind {show(limit)}" if is_late else "it continues what was given up"
        start, end = sorted((old_ve, new_ve))
        details.append(f"{why}; it would have changed [{show(start)}, {show(end)})")
    return GivenUp(rows, "forgotten", tuple(details))
