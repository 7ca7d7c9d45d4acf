"""Align: the same history, held back for a while so that less of it has to be taken back.

    out = input

Rows wait in a buffer, where the rows of one event become one: an insert takes over the end that an
adjust gives it, or vanishes with its full removal; a chain of adjusts becomes (vs, first old_ve, last
new_ve). What leaves together leaves in order of sync.

- Application time: a row is due when its vs is `blocking` or more behind the largest vs seen. It is vs
  and not sync that counts: once an event is out, what corrects it follows at once.
- System time: a row is due when it, or the first row that it was combined with, has been there for
  `blocking`. This is looked at when anything arrives.
- A cti(t) releases everything with sync < t before its time: nothing that is still to come could be
  combined with it and be seen by then. With blocking INF (`strong`) nothing else releases anything, and
  the output is ordered.
- `perfect` (`ultra`, cleanse): an insert also waits until its end can no longer change, ve < t, and
  nothing with a later vs overtakes it. The output is perfect: ordered, and inserts only.

With `told`, time is how far the furthest partition of the sources is, which comes behind the rows of
every batch: nothing waits longer than `blocking` for a partition that says nothing.

When the dial is turned, what a smaller `blocking` has due leaves at once; a larger one holds back what
comes later, for the limit stays where it is until it is due further. Where it may be turned, rows that
have not to wait at all pass as they are.

Pass: what is due, and on cti(t) what has sync < t. Keep: the rest; a row that is held has sync >= t.
Propagate: cti(t); if perfect, only up to the earliest insert that is still held. Neither the limit nor
the clock ever goes back.

    strong    in:   a [1, 100)   b [5, 10)   a [1, 100) -> [1, 50)   cti(20)
              out:                            a [1, 50)   b [5, 10)   cti(20)
    ultra     out:                                                    cti(1)
              in:   cti(60)
              out:  a [1, 50)   b [5, 10)   cti(60)

Paper 1b section 4.5, erratum 13.
"""

from __future__ import annotations

from dataclasses import dataclass

from slackwater.consistency import Clock, Dial
from slackwater.events import Batch
from slackwater.operators.buffer import Buffer
from slackwater.operators.step import Answer, Description, Now, wall_clock
from slackwater.plan import nodes
from slackwater.punctuations import Punctuation, Reached
from slackwater.times import BEGIN, INF, plus

__all__ = ["Align", "State"]


@dataclass(slots=True)
class State:
    """What is held and for how long, and how far time has come: the largest vs, or the clock."""

    buffer: Buffer
    blocking: int
    reached: int = BEGIN
    limit: int = BEGIN
    """what starts there or before is due"""


@dataclass(frozen=True, slots=True)
class Align:
    """The step of an `Align` node. `now` tells system time."""

    node: nodes.Align
    now: Now = wall_clock
    told: bool = False
    """how far the stream is, it is told; else it goes by the rows"""

    @property
    def _timed(self) -> bool:
        return self.node.blocking < INF or self.node.turnable

    def open(self) -> State:
        """Nothing held."""
        return State(Buffer(self.node.schema, self._timed), self.node.blocking)

    def on_batch(self, state: State, port: int, rows: Batch) -> Batch:
        """Hold the rows; what is due by now, they included, comes out."""
        if not self._timed:
            state.buffer.hold(rows)
            return Batch.empty(self.node.schema)
        by_clock = self.node.clock is Clock.SYSTEM
        if by_clock:
            state.reached = max(state.reached, self.now())
        elif rows.rows and not self.told:
            state.reached = max(state.reached, int(rows.vs.max()))
        if self.node.turnable and state.blocking == 0:
            assert not len(state.buffer), "nothing waits where nothing has to"
            return rows
        if rows.rows:
            state.buffer.hold(rows, due=state.reached if by_clock else rows.vs)
        return self._due(state)

    def _due(self, state: State) -> Batch:
        self._go_on(state)
        # what is told may be behind the rows, and where nothing has to wait nothing does
        return state.buffer.due_at(state.limit if state.blocking else INF)

    def _go_on(self, state: State) -> None:
        """The limit follows the time, and never goes back."""
        if state.blocking < INF and state.reached > BEGIN:
            state.limit = max(state.limit, int(plus(state.reached, -state.blocking)))

    def on_reached(self, state: State, reached: Reached) -> Answer:
        """What is due by now."""
        if not (self.told and self._timed) or self.node.clock is Clock.SYSTEM:
            return Answer()
        state.reached = max(state.reached, reached.furthest)
        return Answer(rows=self._due(state))

    def on_turn(self, state: State, dial: Dial) -> Answer:
        """Another blocking, from the next element on; what has waited that long leaves."""
        if self.node.clock is Clock.SYSTEM:
            state.reached = max(state.reached, self.now())
        # as far as it has come until now, which nobody may have asked
        self._go_on(state)
        state.blocking = dial.blocking
        return Answer(rows=self._due(state))

    def on_punctuation(self, state: State, port: int, punctuation: Punctuation) -> Answer:
        """What nothing can be combined with any more, then the promise."""
        cti = punctuation.before
        if self.node.perfect:
            rows, first_held = state.buffer.frozen(cti)
            return Answer((Punctuation(min(cti, first_held)),), rows)
        return Answer((punctuation,), state.buffer.before(cti))

    def describe(self, state: State) -> Description:
        """One row per event of which something is held."""
        return Description(state_rows=len(state.buffer))
