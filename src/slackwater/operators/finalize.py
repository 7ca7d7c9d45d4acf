"""Finalize: the same history, remembered for a limited time only. What is given up is in the ledger.

    out = input - ledger      (as streams: leaving out the elements that the ledger names)

Every element moves the limit: `memory` behind the largest vs seen, or with the system clock, the largest
vs that had been seen `memory` ago (memory.py). An element whose sync is behind the limit when it arrives
comes too late: it is given up, and with it every later element that continues it. What had been passed
of its event stays. Elements are judged one by one, so that it does not matter how the stream was cut.

With `told`, the limit follows what is told of the sources, behind the rows of every batch: that is how
all buckets of a stream forget alike. When the dial is turned, the limit goes to where the new memory has
it, or stays until that is further.

Pass: everything else, at once. Keep: of each event that was given up in part, the end that it would have
by now, until the limit has passed that end, or a promise about its payload: to know what continues it.
Propagate: cti(t), and after every batch cti(limit) of its own. Limits never go back. Every other promise
as it is, since the elements that come out are some of those that come in, unchanged.

    memory 5   in:   a [0, 9)   b [8, 12)          c [1, 4)   a [0, 9) -> [0, 2)   c [1, 4) -> [1, 7)
               out:  a [0, 9)   b [8, 12)  cti(3)
               ledger:                             c [1, 4)   a [0, 9) -> [0, 2)   c [1, 4) -> [1, 7)

With an infinite memory it passes everything. That is so over a valid stream, which needs no repair; over
a disordered one, with adjusts before what they adjust and external ctis, Finalize is mend.py.

Paper 1b section 4.6, erratum 15.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from slackwater.consistency import Dial
from slackwater.events import Batch
from slackwater.operators.buffer import Buffer
from slackwater.operators.memory import Limit
from slackwater.operators.mend import Mend
from slackwater.operators.pending import settled
from slackwater.operators.step import Answer, Description, GivenUp, Now, Step, wall_clock
from slackwater.plan import nodes
from slackwater.plan.properties import is_disordered
from slackwater.punctuations import Promise, Punctuation, Reached
from slackwater.times import INF, Times, show

__all__ = ["Finalize", "State", "finalize", "given_up_among"]

GiveUp: TypeAlias = Callable[[Batch, Times, npt.NDArray[np.bool_]], GivenUp]
"""what to say of rows that are given up, of the limits that they met, and which of them were late"""


def finalize(node: nodes.Finalize, now: Now = wall_clock, *, told: bool = False) -> Step:
    """The step of a `Finalize` node: over a disordered stream it also mends it."""
    return Mend(node, now) if is_disordered(node.input) else Finalize(node, now, told=told)


def _forgotten(rows: Batch, limits: Times, late: npt.NDArray[np.bool_]) -> GivenUp:
    why = [
        f"it came behind {show(limit)}" if is_late else "it continues what was given up"
        for limit, is_late in zip(limits.tolist(), late.tolist(), strict=True)
    ]
    return GivenUp(rows, "forgotten", tuple(why))


def given_up_among(lost: Buffer, rows: Batch, late: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Which rows are given up: those that are late, and those that continue what was given up.

    `lost` remembers them, as long as they may be continued.
    """
    gone = np.zeros(rows.rows, dtype=np.bool_)
    concerned = late
    if len(lost) or late.any():
        # any adjust may continue what was given up
        concerned = late | ~rows.is_insert
    if concerned.any():
        gone[concerned] = lost.hold(rows.where(concerned), only=late[concerned])
    return gone


@dataclass(slots=True)
class State:
    """What was given up and may still be continued, and how far the limit has come."""

    lost: Buffer
    limit: Limit


@dataclass(frozen=True, slots=True)
class Finalize:
    """The step of a `Finalize` node over a valid stream. `now` tells system time."""

    node: nodes.Finalize
    now: Now = wall_clock
    give_up: GiveUp = _forgotten
    told: bool = False
    """how far the stream is, it is told; else it goes by the rows"""
    atomic: bool = False
    """the rows of a batch have no common order: all of them meet the limit that stood before it"""

    def open(self) -> State:
        """Nothing given up."""
        return State(Buffer(self.node.schema, timed=False), Limit(self.node.memory))

    def on_batch(self, state: State, port: int, rows: Batch) -> Batch | Answer:
        """The rows that are not too late, then a promise that nothing behind the limit follows."""
        if self.node.memory == INF and not self.node.turnable:
            return rows
        limits = self._met_by(state, rows)
        passed, given_up = self._judged(state, rows, limits)
        state.lost.forget_ends_before(state.limit.at)
        return Answer((Punctuation(state.limit.at),), passed, given_up)

    def _met_by(self, state: State, rows: Batch) -> Times:
        clock, limit = self.node.clock, state.limit
        if self.told:
            limit.look(clock, self.now)
            return np.full(rows.rows, limit.at)
        return limit.met_by(rows.vs, clock, self.now, atomic=self.atomic)

    def _judged(self, state: State, rows: Batch, limits: Times) -> tuple[Batch, GivenUp | None]:
        late = rows.sync < limits
        gone = given_up_among(state.lost, rows, late)
        if not gone.any():
            return rows, None
        return rows.where(~gone), self.give_up(rows.where(gone), limits[gone], late[gone])

    def on_punctuation(self, state: State, port: int, punctuation: Punctuation) -> Answer:
        """The promise, or the own one if that says more."""
        state.limit.look(self.node.clock, self.now)
        state.limit.raise_to(punctuation.before)
        return self._forgot(state)

    def on_patterns(self, state: State, port: int, told: Sequence[Promise]) -> Answer:
        """The promises; what they settle of what was given up is not continued any more."""
        if len(state.lost):
            slots, lost = state.lost.held()
            done = settled(lost.payload, lost.vs, lost.new_ve, told, state.limit.at)
            state.lost.release(slots[done])
        return Answer(tuple(told))

    def on_reached(self, state: State, reached: Reached) -> Answer:
        """The limit follows the last partition: what may still come in order is not late."""
        if not self.told:
            return Answer()
        state.limit.reach(reached.slowest, self.node.clock, self.now)
        return self._forgot(state)

    def on_turn(self, state: State, dial: Dial) -> Answer:
        """Another memory, from the next element on."""
        state.limit.turn(dial.memory, self.node.clock, self.now)
        return self._forgot(state)

    def _forgot(self, state: State) -> Answer:
        state.lost.forget_ends_before(state.limit.at)
        return Answer((Punctuation(state.limit.at),))

    def describe(self, state: State) -> Description:
        """One row per event that was given up and may still be continued."""
        return Description(state_rows=len(state.lost))
