"""Mend: Finalize over a disordered stream. Chains are linked, counts become promises.

    out = input - ledger      (as histories; the output is valid, whatever the order of the input)

Elements come in any order. An adjust whose event is not there yet waits, and joins others that wait;
when the event comes, all of them are said at once, as one change of its end. What comes back to where it
began is not said at all. A no-op adjust of an event that is not shown says nothing, but counts.

An external cti says how many elements have a sync in some interval. When they are all there, from the
beginning of the stream on, that is a promise: cti(t), if no change before t still waits for its event.

    in:    a [0,10)->8    a [0,6)->4    a [0,8)->6    a [0,10)    4 before 8    b [1,5)
    out:                                              a [0,4)                   b [1,5)   cti(8)
    waits  10->8          10->8, 6->4   10->4

Pass: what links up, at once. Keep: the end of every event that is shown, while it may be adjusted; what
waits; the events that were given up, as Finalize does; counts that are not complete, and the syncs of
the elements that may be counted. A promise frees what lies behind it. Propagate: how far the counts are
complete, or the earliest end that something waits to change if that is earlier; or the limit of the
memory if that is later. A promise about payloads follows when nothing waits that it speaks of, whatever
its sync: with what it continues it may be said as a change of another one. Of what is to come, what
links up to a change that a promise speaks of is spoken of itself, if the promise is from the beginning
of time.

The limit forgets what waits behind it, from the last end of a chain that is not behind it on. What waits
for an event that ends before t when all elements before t are there waits in vain: it is unlinked. Both
are in the ledger, element by element.

With several equal events, or an end that is left and come back to, more than one adjust may continue an
event. The first to come does; the history is the same in the end.

Paper 1b section 4.6, Table 5. As printed, its cti does not wait for broken chains: I [0,12), 12->10 and
10->8 have syncs 0, 10 and 8, and a count of 2 before 9 is complete without the second. Erratum 15.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from slackwater.consistency import Dial
from slackwater.errors import OperatorError
from slackwater.events import Batch
from slackwater.kernels import links as fates
from slackwater.operators.counting import Counting
from slackwater.operators.links import Dropped, Links
from slackwater.operators.memory import Limit
from slackwater.operators.pending import Pending
from slackwater.operators.step import Answer, Description, GivenUp, Now, wall_clock
from slackwater.plan import nodes
from slackwater.punctuations import ExternalCti, Promise, Punctuation
from slackwater.times import BEGIN, INF, Times, show

__all__ = ["Mend", "State"]


@dataclass(slots=True)
class State:
    """What is linked and what waits, what has been counted, how far the limit and the promise are."""

    links: Links
    limit: Limit
    counting: Counting = field(default_factory=Counting)
    promised: int = BEGIN
    pending: Pending = field(default_factory=Pending)


@dataclass(frozen=True, slots=True)
class Mend:
    """The step of a `Finalize` node over a disordered stream. `now` tells system time."""

    node: nodes.Finalize
    now: Now = wall_clock

    def open(self) -> State:
        """Nothing seen."""
        return State(Links(self.node.schema), Limit(self.node.memory))

    def on_batch(self, state: State, port: int, rows: Batch) -> Answer:
        """The rows that link up, with the ends to which what waited leads on."""
        if not rows.rows:
            return self._settled(state)
        state.counting.see(rows.sync)
        limits = state.limit.met_by(rows.vs, self.node.clock, self.now)
        taken = state.links.take(rows, np.maximum(limits, state.promised), state.promised)
        passed, passes = replace(rows, new_ve=taken.ends), taken.fates == fates.PASSES
        if not passes.all():
            passed = passed.where(passes)
        given_up = (*self._refused(state, rows, limits, taken.fates), *_dropped(taken.dropped, state))
        return self._settled(state, passed, given_up)

    def on_turn(self, state: State, dial: Dial) -> Answer:
        """Another memory, from the next element on."""
        state.limit.turn(dial.memory, self.node.clock, self.now)
        return self._settled(state)

    def on_punctuation(self, state: State, port: int, punctuation: Punctuation) -> Answer:
        """A promise needs no count."""
        state.limit.look(self.node.clock, self.now)
        state.counting.pass_(punctuation.before)
        return self._settled(state)

    def on_patterns(self, state: State, port: int, told: Sequence[Promise]) -> Answer:
        """The promises of which nothing waits."""
        state.pending.take(told, with_since=False)
        return self._settled(state)

    def on_external_cti(self, state: State, port: int, told: ExternalCti) -> Answer:
        """A count, which may be complete already."""
        state.limit.look(self.node.clock, self.now)
        if not state.counting.counts_from(told.since):
            why = f"what came before {show(state.counting.complete)} is not counted any more"
            forgotten = Batch.empty(self.node.schema).followed_by([told])
            return self._settled(state, given_up=(GivenUp(forgotten, "forgotten", (why,)),))
        problem = state.counting.tell(told)
        return self._settled(state, given_up=self._not_counted([told], [problem]) if problem else ())

    def describe(self, state: State) -> Description:
        """One row per event that may be adjusted, element that waits or was given up, and count."""
        return Description(state_rows=len(state.links) + len(state.counting))

    def _refused(self, state: State, rows: Batch, limits: Times, fate: Times) -> list[GivenUp]:
        """Rows that come too late, or continue what was given up."""
        gone = (fate == fates.LATE) | (fate == fates.CONTINUES)
        if not gone.any():
            return []
        broken = (fate == fates.LATE) & (rows.sync >= limits)
        forgotten = rows.where(gone & ~broken)
        why = [
            f"it came behind {show(limit)}" if late else "it continues what was given up"
            for limit, late in zip(
                limits[gone & ~broken].tolist(), (fate == fates.LATE)[gone & ~broken], strict=True
            )
        ]
        found = [GivenUp(forgotten, "forgotten", tuple(why))] if why else []
        if broken.any():
            too_many = rows.where(broken)
            why = [f"the history before {show(state.promised)} was complete"] * too_many.rows
            error = OperatorError(
                f"{self._who}: {next(iter(too_many))!r} breaks the promise cti({show(state.promised)})",
                detail=f"{why[0]}, as external ctis had counted it",
                hint="count every element, adjusts included; sw.LEDGER sets it aside",
            )
            found.append(GivenUp(too_many, "promise broken", tuple(why), error))
        return found

    def _not_counted(self, told: list[ExternalCti], problems: list[str]) -> tuple[GivenUp, ...]:
        error = OperatorError(
            f"{self._who}: {told[0]!r} cannot be used",
            detail=problems[0],
            hint="counts are of disjoint intervals, or of intervals that begin together",
        )
        controls = Batch.empty(self.node.schema).followed_by(told)
        return (GivenUp(controls, "count contradicted", tuple(problems), error),)

    @property
    def _who(self) -> str:
        return f"{self.node.name} {self.node.describe()}"

    def _settled(
        self, state: State, rows: Batch | None = None, given_up: tuple[GivenUp, ...] = ()
    ) -> Answer:
        """What may be promised by now, and what waits in vain by now."""
        links, counting, limit = state.links, state.counting, state.limit.at
        given_up += _dropped(links.forget(limit), state)
        counting.pass_(limit)
        wrong = counting.advance()
        if wrong:
            told = [ExternalCti(interval.end, interval.expected, interval.start) for interval in wrong]
            problems = [f"{counting.seen(interval)} elements of it have come" for interval in wrong]
            given_up += self._not_counted(told, problems)
        given_up += _dropped(links.give_up_unlinked(counting.complete), state)
        state.promised = max(state.promised, limit, min(counting.complete, links.earliest))
        if state.promised == INF:
            state.limit.raise_to(INF)
        links.forget_ends_before(state.promised)
        promises: tuple[Promise, ...] = (Punctuation(state.promised),)
        if state.pending.told:
            promises += state.pending.free(_at_any_time(links.waiting()))
        return Answer(promises, rows, given_up)


def _at_any_time(rows: Batch) -> Batch:
    """Rows with the earliest sync that there is, of which every promise speaks that matches them."""
    start = np.full(rows.rows, BEGIN)
    return Batch(start, start, np.full(rows.rows, INF), rows.payload)


def _dropped(dropped: Dropped | None, state: State) -> tuple[GivenUp, ...]:
    """What had been waiting, by reason."""
    if dropped is None:
        return ()
    found = []
    for reason, unlinked in (("forgotten", False), ("unlinked", True)):
        chosen = (dropped.why == fates.UNLINKED) == unlinked
        if chosen.any():
            rows = dropped.rows.where(chosen)
            why = [_why(fate, state) for fate in dropped.why[chosen].tolist()]
            found.append(GivenUp(rows, reason, tuple(why)))
    return tuple(found)


def _why(fate: int, state: State) -> str:
    if fate == fates.CONTINUES:
        return "it continues what was given up"
    if fate == fates.UNLINKED:
        return f"nothing before {show(state.counting.complete)} leads to what it continues"
    return f"what it continues did not come before {show(state.limit.at)} was the limit"
