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
  nothing with a later vs overtakes it. The output is perfect: ordered, and inserts only. A promise about
  its payload may make its end known before the cti does; it then leaves as soon as everything before it
  has left, and nothing that starts earlier can come: vs <= t.
- `perfect`, but not `in_order`: an insert waits for its own end only. The output is inserts only. That
  is what can be had of a stream whose time stands still, where promises are about payloads alone.

With `told`, time is how far the furthest partition of the sources is, which comes behind the rows of
every batch: nothing waits longer than `blocking` for a partition that says nothing.

When the dial is turned, what a smaller `blocking` has due leaves at once; a larger one holds back what
comes later, for the limit stays where it is until it is due further. Where it may be turned, rows that
have not to wait at all pass as they are.

Pass: what is due, and on cti(t) what has sync < t; if perfect, what the cti or a promise about its
payload settles. Keep: the rest; a row that is held has sync >= t. Propagate: cti(t); if perfect, only up
to the earliest insert that is still held. A promise about payloads releases nothing else, for that would
break the order; it follows when no row that it speaks of is held (pending.py). Neither the limit nor the
clock ever goes back.

    strong    in:   a [1, 100)   b [5, 10)   a [1, 100) -> [1, 50)   cti(20)
              out:                            a [1, 50)   b [5, 10)   cti(20)
    ultra     out:                                                    cti(1)
              in:   cti(60)
              out:  a [1, 50)   b [5, 10)   cti(60)

    ultra     in:   a [1, INF)   b [5, 10)   cti(3)   nothing more of a
              out:                           cti(1)   a [1, INF)   nothing more of a   cti(3)

Paper 1b section 4.5, erratum 13; paper 4 Tables 2 to 4, of which only sort comes near.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from slackwater.consistency import Clock, Dial
from slackwater.events import Batch
from slackwater.operators.buffer import Buffer
from slackwater.operators.pending import Pending, settled
from slackwater.operators.step import Answer, Description, Now, wall_clock
from slackwater.plan import nodes
from slackwater.plan.properties import infer
from slackwater.punctuations import Promise, Punctuation, Reached
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
    cti: int = BEGIN
    pending: Pending = field(default_factory=Pending)
    later: list[Punctuation] = field(default_factory=list)
    """promises that begin behind the cti: they settle rows when it comes there"""


@dataclass(frozen=True, slots=True)
class Align:
    """The step of an `Align` node. `now` tells system time."""

    node: nodes.Align
    now: Now = wall_clock
    told: bool = False
    """how far the stream is, it is told; else it goes by the rows"""
    never_lengthens: bool = field(init=False)

    def __post_init__(self) -> None:
        below = infer(self.node.input)[self.node.input]
        object.__setattr__(self, "never_lengthens", below.never_lengthens)

    @property
    def _timed(self) -> bool:
        return self.node.blocking < INF or self.node.turnable

    def open(self) -> State:
        """Nothing held."""
        by_end = self.node.perfect and not self.node.in_order
        return State(Buffer(self.node.schema, self._timed, by_end), self.node.blocking)

    def on_batch(self, state: State, port: int, rows: Batch) -> Answer:
        """Hold the rows; what is due by now, they included, comes out."""
        if not self._timed:
            state.buffer.hold(rows)
            return Answer()
        by_clock = self.node.clock is Clock.SYSTEM
        if by_clock:
            state.reached = max(state.reached, self.now())
        elif rows.rows and not self.told:
            state.reached = max(state.reached, int(rows.vs.max()))
        if self.node.turnable and state.blocking == 0:
            assert not len(state.buffer), "nothing waits where nothing has to"
            return Answer(rows=rows)
        if rows.rows:
            state.buffer.hold(rows, due=state.reached if by_clock else rows.vs)
        return self._due(state)

    def _due(self, state: State) -> Answer:
        self._go_on(state)
        # what is told may be behind the rows, and where nothing has to wait nothing does
        return self._released(state, state.buffer.due_at(state.limit if state.blocking else INF))

    def _released(self, state: State, rows: Batch, *promises: Promise) -> Answer:
        """Rows that leave, and the promises that waited for them."""
        if state.pending.told and rows.rows:
            promises += state.pending.free(state.buffer.held()[1])
        return Answer(promises, rows)

    def _go_on(self, state: State) -> None:
        """The limit follows the time, and never goes back."""
        if state.blocking < INF and state.reached > BEGIN:
            state.limit = max(state.limit, int(plus(state.reached, -state.blocking)))

    def on_reached(self, state: State, reached: Reached) -> Answer:
        """What is due by now."""
        if not (self.told and self._timed) or self.node.clock is Clock.SYSTEM:
            return Answer()
        state.reached = max(state.reached, reached.furthest)
        return self._due(state)

    def on_turn(self, state: State, dial: Dial) -> Answer:
        """Another blocking, from the next element on; what has waited that long leaves."""
        if self.node.clock is Clock.SYSTEM:
            state.reached = max(state.reached, self.now())
        # as far as it has come until now, which nobody may have asked
        self._go_on(state)
        state.blocking = dial.blocking
        return self._due(state)

    def on_patterns(self, state: State, port: int, told: Sequence[Promise]) -> Answer:
        """If perfect, what they settle; the promises themselves once no row of theirs is held."""
        # only inserts leave a perfect Align, each with the sync that it came with
        state.pending.take(told, with_since=self.node.perfect or self.never_lengthens)
        rows = Batch.empty(self.node.schema)
        promises: tuple[Promise, ...] = ()
        if self.node.perfect:
            state.later += [p for p in told if isinstance(p, Punctuation) and p.since > state.cti]
            self._know(state, told)
            rows, first_held = self._perfect(state)
            promises = (Punctuation(min(state.cti, first_held)),)
        return Answer((*promises, *state.pending.free(state.buffer.held()[1])), rows)

    def _know(self, state: State, told: Sequence[Promise]) -> None:
        """Mark the inserts whose ends are known by these promises."""
        slots, held = state.buffer.held()
        state.buffer.know(slots[settled(held.payload, held.vs, held.new_ve, told, state.cti)])

    def _perfect(self, state: State) -> tuple[Batch, int]:
        buffer, cti = state.buffer, state.cti
        return buffer.frozen(cti) if self.node.in_order else buffer.ended(cti)

    def on_punctuation(self, state: State, port: int, punctuation: Punctuation) -> Answer:
        """What nothing can be combined with any more, then the promise."""
        state.cti = punctuation.before
        if not self.node.perfect:
            return self._released(state, state.buffer.before(state.cti), punctuation)
        if state.later:
            self._know(state, state.later)
            state.later = [promise for promise in state.later if promise.since > state.cti]
        rows, first_held = self._perfect(state)
        return self._released(state, rows, Punctuation(min(state.cti, first_held)))

    def describe(self, state: State) -> Description:
        """One row per event of which something is held."""
        return Description(state_rows=len(state.buffer))
