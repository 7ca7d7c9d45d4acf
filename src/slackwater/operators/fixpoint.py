"""Fixpoint: the operator that closes a loop, and finds out how far the loop has got (FFP).

    out = the least history R with R = body(R)

Every row that comes out of the body is said, and goes round: into whatever of the body reads the loop.
Rows circulate freely, inserts and adjusts alike: an operator of the body says of them what it would say
of any input, so a link that is taken back takes back what was derived from it, round by round, and
lifetimes intersect in the joins. The operator itself remembers no rows.

Promises of the body's output never come, for some operator of the loop waits for its own output. So a
guess is sent round behind the rows (speculation.py). What it proves when it is back is promised, to the
readers and to the loop, whose operators then forget what is past:

    HighWaterMark     all of the guess, if no row came meanwhile whose sync is before it
    Probing, Hybrid   what is left of it, up to the smallest sync of the rows that came meanwhile

Why that is so: whatever was on the loop ahead of the guess has come by before it, whatever enters the
loop behind it is no earlier than what the inputs have promised, which the guess was compared with on its
way, and no operator on the loop makes something earlier of what it gets.

Pass: every row, at once. Keep: no row, but what supports the best of each key (below), until a cti or a
promise about its payload settles it; and what inputs have promised of payloads, to conclude from it.
Propagate: what guesses have proved of time; of payloads, when all is quiet, what inputs have promised
and what would be so of the answer, taken for granted of the loop itself (runtime/induction.py says why,
and which promises are found). Such promises go round as well, and operators on the loop forget by them.

If only the best of what is derived is to go round (`node.best`: a set, or the least value of each
group), support.py chooses it, and readers are told when all is quiet: what is taken back and said again
within a batch they never see.

A loop that goes on for more than a number of rounds within a batch, or in which more than a number of
rows have gone round by then, is stopped, with an error that shows what kept circulating. A round is
everything that had come when the operator's turn was. (What multiplies every round runs out of memory
long before it has gone round a thousand times.)

    links:  a->b [0, 9)              b->c [3, 6)                      cti(10)
    out:    a->b [0, 9)   b->c [3, 6)   a->c [3, 6)   guess INF, revised to 10, back: cti(10)

Paper 3 sections 3.4 to 3.6 and 5.3; paper 4 section 5; docs/design/2026-11-18-recursion.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from slackwater.errors import OperatorError
from slackwater.events import Batch, Control
from slackwater.operators.asked import asked_of
from slackwater.operators.hopes import Hopes
from slackwater.operators.step import Answer, Ask, Description
from slackwater.operators.support import Support
from slackwater.plan import nodes
from slackwater.plan.loops import inputs_of
from slackwater.punctuations import Closings, Promise, Punctuation, some_of
from slackwater.speculation import Circulation, ExternalPatterns, ExternalProgress, Speculative
from slackwater.times import BEGIN, INF, Times

__all__ = ["Fixpoint", "State"]

_SHOWN = 3
"""so many of the rows that keep circulating are shown"""


@dataclass(slots=True)
class State:
    """How far the loop is, and, if only the best of what is derived goes round, what supports it."""

    known: Circulation
    support: Support | None
    hopes: Hopes = field(default_factory=Hopes)
    """what may come to be promised of payloads"""
    rounds: int = 0
    """of the batch that is being answered"""
    circulated: int = 0
    """how many rows have gone round in them"""
    unsaid: list[Batch] = field(default_factory=list)
    """what the readers are told of the best when all is quiet; then it is empty"""


@dataclass(frozen=True, slots=True)
class Fixpoint:
    """The step of a `Fixpoint` node."""

    node: nodes.Fixpoint

    def open(self) -> State:
        """Nothing has come by, nothing was promised."""
        best = self.node.best
        support = None if best is None else Support.of(best, self.node.schema)
        return State(Circulation([BEGIN for _ in inputs_of(self.node)]), support)

    def on_batch(self, state: State, port: int, rows: Batch) -> Answer:
        """The rows, to the readers and round again."""
        if not rows.rows:
            return Answer()
        self._count(state, rows)
        state.hopes.heard += rows.rows
        known = state.known
        known.earliest = min(known.earliest, int(rows.sync.min()))
        latest = int(rows.sync.max())
        known.highest = max(known.highest, latest + 1 if latest < INF else INF)
        known.has_news = True
        if state.support is None:
            return Answer(rows=rows, back=rows.followed_by(self._guess(state)))
        told = state.support.absorb(rows)
        state.unsaid.append(told)
        return Answer(back=told.followed_by(self._guess(state)))

    def on_punctuation(self, state: State, port: int, punctuation: Punctuation) -> Answer:
        """What was promised here has come round; nothing more is known by that."""
        return Answer()

    def on_external_progress(self, state: State, told: ExternalProgress) -> Answer:
        """An input of the loop has promised something."""
        known = state.known
        known.external[told.origin] = max(known.external[told.origin], told.before)
        known.has_news = True
        return self._round(self._guess(state))

    def on_external_patterns(self, state: State, told: ExternalPatterns) -> Answer:
        """An input of the loop has promised something of payloads: it may be so of the answer, too."""
        columns = self.node.schema if self.node.best is None else self.node.best.keys
        promises = (
            some_of(each, columns) for each in told.told if isinstance(each, Punctuation | Closings)
        )
        state.hopes.add([each for each in promises if each is not None], self.node.schema)
        return Answer()

    def on_concluded(self, state: State, told: Sequence[Promise]) -> None:
        """So much is promised of payloads: candidates of them are forgotten."""
        if state.support is not None:
            state.support.close(told)

    def closed_until(self, state: State, asked: Promise, ask: Ask) -> Times:
        """As the body; what is said of a group, all its candidates change."""
        best = self.node.best
        return ask(0, asked if best is None else asked_of(asked, {name: name for name in best.keys}))

    def on_speculative(self, state: State, told: Speculative) -> Answer:
        """The guess is back: what it proves is promised, and perhaps another one sets out."""
        known, speculation = state.known, self.node.speculation
        assert known.flying is not None, "no more than one guess is on its way"
        time = speculation.proven(known, told.before)
        known.missed = known.flying if time == BEGIN and speculation.lodges else None
        known.flying = None
        if time <= known.promised:
            return self._round(self._guess(state))
        known.promised = time
        known.promoted += 1
        # rows later than a guess that waited may have come before it set out again
        known.has_news |= speculation.lodges
        cti = Punctuation(time)
        return self._round([cti, *self._guess(state)], (cti,), self._unsaid(state))

    def on_wake(self, state: State) -> None:
        """Something has come from outside: what follows from it is counted from here on."""
        state.rounds = state.circulated = 0
        state.hopes.heard += 1
        state.known.has_news |= self.node.speculation.always

    def on_quiet(self, state: State) -> Answer:
        """Nothing is on its way: what has waited is said; who guesses always does it now."""
        if state.support is not None and state.support.waiting:
            told = state.support.release()
            if told.rows:
                self._count(state, told)
                state.unsaid.append(told)
                return Answer(back=told.followed_by(self._guess(state)))
        if state.support is not None:
            state.support.forget(state.known.promised)
        return self._round(self._guess(state), rows=self._unsaid(state))

    def _count(self, state: State, rows: Batch) -> None:
        """One round more, of not too many, and not too many rows."""
        state.rounds += 1
        state.circulated += rows.rows
        if state.rounds > self.node.rounds:
            raise self._without_end(rows, f"{self.node.rounds} rounds", "rounds")
        if state.circulated > self.node.rows:
            passed = f"{state.circulated:,} rows in {state.rounds} rounds"
            raise self._without_end(rows, passed, "rows")

    def _unsaid(self, state: State) -> Batch | None:
        """What the readers have not been told yet."""
        if not state.unsaid:
            return None
        told, state.unsaid = Batch.concat(state.unsaid), []
        return told

    def _guess(self, state: State) -> list[Control]:
        """The next guess, if none is on its way and there is a reason."""
        known = state.known
        if known.flying is not None or not known.has_news:
            return []
        if state.support is not None and state.support.waiting:
            # what waits sets out behind the guess, and would come by behind it
            return []
        time = self.node.speculation.guess(known)
        if time is None:
            return []
        known.flying, known.missed, known.earliest, known.has_news = time, None, INF, False
        known.speculated += 1
        return [Speculative(time, self.node.speculation.lodges)]

    def _round(
        self, controls: list[Control], promises: tuple[Promise, ...] = (), rows: Batch | None = None
    ) -> Answer:
        if not controls:
            return Answer(promises, rows)
        return Answer(promises, rows, back=Batch.empty(self.node.schema).followed_by(controls))

    def _without_end(self, rows: Batch, passed: str, limit: str) -> OperatorError:
        if self.node.best is not None:
            rows = replace(rows, payload=rows.payload.drop(self.node.best.rank))
        some = ", ".join(repr(element) for element in rows.slice(0, _SHOWN))
        more = f", and {rows.rows - _SHOWN} more" if rows.rows > _SHOWN else ""
        return OperatorError(
            f"fixpoint: no fixed point after {passed}",
            detail=f"still circulating: {some}{more}",
            hint="bound the recursion with a where, end the body with distinct() if cycles derive rows "
            f"again, or allow more with {limit}=",
        )

    def describe(self, state: State) -> Description:
        """Rows are held only to choose the best of them."""
        return Description(0 if state.support is None else state.support.rows())
