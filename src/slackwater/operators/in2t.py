"""R3: rows in any order, inserts and adjusts, where (vs, payload) is a key of every input.

One index for all inputs and the output (in2t): the events (merged_events.py), and beside each the end
that every input gives it and the one that was shown.

- A row notes the end that its input gives the event. If the output has no such event, and the policy
  does not hold it back, it is shown.
- A cti(t) of an input that is further than the output: of the events that become half frozen (vs < t)
  and of those that would become fully frozen (end < t), either there or in the output, the output's is
  made what that input says. No other event is looked at. Who is fully frozen is forgotten, unless an
  input says otherwise.
- What an input says of an event that is frozen otherwise is kept to be judged: when it promises so, it
  contradicts (kernels/merging.py). So an event that is fully frozen is remembered as long as an input
  has told another end of it, and not come round.

An insert of an event that the input has told already is the same event with another end: that is what a
replica says that begins anew.

Time, for a batch of n rows: O(n); for a cti: O(c), with c the events whose turn it is. Space:
O(w (p + s)) for w events that are not fully frozen, s inputs, payloads of size p.

Paper 2 section IV-D and Table IV, errata 17, 18, 20.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from slackwater.columns import taken
from slackwater.events import Batch
from slackwater.kernels import merging as kernel
from slackwater.merging import QUARANTINE, MergePolicy
from slackwater.operators.inputs import Inputs, Ints, Wrong, whose
from slackwater.operators.merge_verdicts import (
    accuse,
    close_cases,
    forget_voter,
    hear_promised,
    verdicts,
)
from slackwater.operators.merged_events import MergedEvents, enlarged, kept_of
from slackwater.operators.merged_promises import closed, compared
from slackwater.punctuations import Promise
from slackwater.times import BEGIN, INF

__all__ = ["In2t", "State"]


@dataclass(slots=True)
class State:
    """The index: ends by event, where an end that is the start says that there is no such event."""

    events: MergedEvents
    out: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    ends: Ints = field(init=False)
    """by event and input"""

    def __post_init__(self) -> None:
        self.ends = np.empty((0, self.events.inputs), dtype=np.int64)

    def make_room(self) -> None:
        """For as many events as there may be."""
        room = len(self.events.vs)
        if room > len(self.out):
            self.out, self.ends = enlarged(self.out, room), enlarged(self.ends, room)

    def begin(self, nodes: Ints) -> None:
        """Nobody has these."""
        starts = self.events.vs[nodes]
        self.out[nodes] = starts
        self.ends[nodes] = starts[:, None]

    def pack(self) -> None:
        """Forget the dead, if they are many."""
        packed = self.events.packed()
        if packed is not None:
            self.out, self.ends = (kept_of(array, *packed) for array in (self.out, self.ends))


@dataclass(frozen=True, slots=True)
class In2t:
    """The algorithm R3."""

    schema: pl.Schema
    policy: MergePolicy

    def open(self, inputs: int) -> State:
        """Nothing told."""
        return State(MergedEvents(self.schema, inputs))

    def add_input(self, state: State) -> None:
        """There is one more, which has none of the events."""
        state.events.add_input()
        none = np.zeros((len(state.ends), 1), dtype=np.int64)
        size = state.events.size
        none[:size, 0] = state.events.vs[:size]
        state.ends = np.hstack([state.ends, none])

    def rows(self, state: State) -> int:
        """How many events are remembered."""
        return len(state.events)

    def take_in(self, state: State, inputs: Inputs, port: int, rows: Batch) -> tuple[Batch, list[Wrong]]:
        """Note what an input says; what is shown of it."""
        events = state.events
        nodes, first_new, ghosts = events.nodes_of(rows, inputs.stable_of(rows))
        state.make_room()
        if len(ghosts):
            state.begin(ghosts)
        shown, old, sooner, behind = (np.empty(len(nodes), np.int64) for _ in range(4))
        inserts, adjusts, needed = whose(self.policy, inputs)
        first, n_sooner, n_behind = kernel.take_in(
            nodes, rows.new_ve, port, inputs.out, first_new, inserts, adjusts, needed,
            events.vs, state.out, state.ends, events.due, events.front, events.mark, inputs.attached,
            shown, old, sooner, behind,
        )  # fmt: skip
        if len(ghosts):
            # told and taken back in one batch
            self.let_go(state, inputs, ghosts)
        if n_sooner:
            events.schedule(sooner[:n_sooner])
        if n_behind:
            events.behind[port].append(behind[:n_behind])
        places, old = shown[first:], old[first:]
        if not len(places):
            return Batch.empty(self.schema), []
        if not first:
            return Batch(rows.vs, old, rows.new_ve, rows.payload), []
        return Batch(rows.vs[places], old, rows.new_ve[places], taken(rows.payload, places)), []

    def advance(self, state: State, inputs: Inputs, port: int, until: int) -> tuple[Batch, list[Wrong]]:
        """Make the output what an input says, as far as a cti(until) needs it."""
        nodes = state.events.passed_by(until)
        rows, found = self.agreed(state, inputs, port, nodes, until=until)
        state.pack()
        return rows, found

    def close(
        self, state: State, inputs: Inputs, port: int, told: Sequence[Promise], *, trusted: bool
    ) -> tuple[Batch, list[Wrong]]:
        """Make the output what an input says of payloads, as far as promises about them need it."""
        return closed(self, state, inputs, port, told, trusted=trusted)

    def compare(self, state: State, inputs: Inputs, port: int, told: Sequence[Promise]) -> list[Wrong]:
        """What an input has promised of payloads that was promised to be otherwise."""
        return compared(self, state, inputs, port, told)

    def agreed(
        self, state: State, inputs: Inputs, port: int, nodes: Ints, *, until: int
    ) -> tuple[Batch, list[Wrong]]:
        """Make the output what an input says of some events, as far as a promise until then needs it."""
        events = state.events
        changed, old, later = (np.empty(len(nodes), dtype=np.int64) for _ in range(3))
        each = len(nodes) * inputs.count
        behind, their, wrong, accused, rule = (np.empty(each, dtype=np.int64) for _ in range(5))
        n_changed, n_later, n_behind, n_wrong = kernel.agree(
            nodes, port, inputs.out, until,
            events.vs, state.out, state.ends, events.due, events.lacks, events.front,
            events.dead, events.died, inputs.attached, inputs.stable, inputs.doubted,
            changed, old, later, behind, their, wrong, accused, rule,
        )  # fmt: skip
        events.schedule(later[:n_later])
        events.suspect(behind[:n_behind], their[:n_behind])
        said = changed[:n_changed]
        rows = events.said(said, old[:n_changed], state.out[said])
        those = wrong[:n_wrong], accused[:n_wrong], rule[:n_wrong]
        found = self._accused(state, inputs, *those, told=BEGIN, until=until)
        events.hold()
        if n_wrong:
            standing = wrong[:n_wrong][rule[:n_wrong] == kernel.LACKS]
            # who has promised past what it says of them is done
            theirs = state.ends[standing]
            done = (theirs < inputs.stable) | (inputs.stable == INF)
            state.ends[standing] = np.where(done, events.vs[standing][:, None], theirs)
            self.let_go(state, inputs, np.unique(wrong[:n_wrong]), until)
        return rows, found

    def judge(self, state: State, inputs: Inputs, port: int, told: int) -> list[Wrong]:
        """What an input has frozen, with that cti, that was promised to be otherwise."""
        return self.judged(state, inputs, port, state.events.suspects(port), told)

    def judged(self, state: State, inputs: Inputs, port: int, nodes: Ints, told: int) -> list[Wrong]:
        """The same of some events."""
        if not len(nodes):
            return []
        events = state.events
        kept, wrong, rule = (np.empty(len(nodes), dtype=np.int64) for _ in range(3))
        n_kept, n_wrong = kernel.judge(
            nodes, port, told, inputs.out, int(inputs.doubted[port]),
            events.vs, state.out, state.ends, events.lacks, events.front,
            events.dead, events.died, inputs.attached, kept, wrong, rule,
        )  # fmt: skip
        if n_kept:
            events.behind[port].append(kept[:n_kept])
        those = wrong[:n_wrong], np.full(n_wrong, port), rule[:n_wrong]
        found = self._accused(state, inputs, *those, told=told, until=BEGIN)
        events.hold()
        if n_wrong:
            self.let_go(state, inputs, wrong[:n_wrong])
        return found

    def _accused(
        self,
        state: State,
        inputs: Inputs,
        nodes: Ints,
        accused: Ints,
        rules: Ints,
        *,
        told: int,
        until: int,
    ) -> list[Wrong]:
        """The verdicts there are; inputs have promised up to `told`, and the output goes to `until`."""
        found: list[Wrong] = []
        done: set[tuple[int, int]] = set()
        for node, port, rule in zip(nodes.tolist(), accused.tolist(), rules.tolist(), strict=True):
            if (node, port) in done:
                continue
            is_standing = rule == kernel.LACKS
            promised, frozen = int(inputs.stable[port]), state.events.frozen_one(node, inputs.out)
            wrong = accuse(
                self, state, inputs, node, port, rule=rule,
                told=max(promised, told, until) if is_standing else max(promised, told),
                frozen=frozen if is_standing else max(frozen, until),
                is_standing=is_standing,
            )  # fmt: skip
            if wrong is not None:
                found.append(wrong)
                done.update((node, each) for each in wrong.against)
        return found

    @property
    def is_patient(self) -> bool:
        """Whether a verdict waits for those who are unheard."""
        return self.policy.contradiction is QUARANTINE and not self.policy.gaps

    def ends_of(self, state: State, node: int, who: int) -> list[int]:
        """The ends that an input gives an event, in order; the output comes after the inputs."""
        start = int(state.events.vs[node])
        end = int(state.out[node] if who == state.ends.shape[1] else state.ends[node, who])
        return [end] if end > start else []

    def take_as_told(self, state: State, inputs: Inputs, node: int, port: int) -> None:
        """An input is taken to say of an event what the output does."""
        state.ends[node, port] = state.out[node]

    def leave_standing(self, state: State, inputs: Inputs, node: int) -> None:
        """If an event is over, what the output says of it is nobody's word from now on."""
        events, start, final = state.events, int(state.events.vs[node]), int(state.out[node])
        frozen = events.frozen_one(node, inputs.out)
        if start < frozen and (final < frozen or frozen == INF):
            events.lacks[node] = INF
            theirs = state.ends[node]
            theirs[(theirs < inputs.stable) | (inputs.stable == INF)] = start
            others = np.flatnonzero(theirs > start)
            events.suspect(np.full(len(others), node), others)

    def verdicts(self, state: State, inputs: Inputs) -> list[Wrong]:
        """Contradictions that can be decided by now."""
        return verdicts(self, state, inputs) if state.events.cases else []

    def hear_promised(self, state: State, inputs: Inputs, nodes: Ints, port: int, *, until: int) -> None:
        """An input has promised the payloads of these events up to a time: that is a vote."""
        if state.events.cases:
            hear_promised(self, state, inputs, nodes, port, until=until)

    def close_cases(self, state: State, inputs: Inputs, nodes: Ints) -> list[Wrong]:
        """Contradictions that have to be decided by now."""
        return close_cases(self, state, inputs, nodes) if state.events.cases else []

    @staticmethod
    def let_go(state: State, inputs: Inputs, nodes: Ints, until: int = BEGIN) -> None:
        """Of these nodes those that are over then, and of which nobody says otherwise, are done with."""
        starts, final, theirs = state.events.vs[nodes], state.out[nodes], state.ends[nodes]
        frozen = np.maximum(state.events.frozen(inputs.out)[nodes], until)
        over = (starts < frozen) & ((final < frozen) | (frozen == INF))
        # to what was left standing nobody is held, nor done with it by saying so
        standing = state.events.lacks[nodes] == INF
        theirs_differ = (theirs != final[:, None]) | standing[:, None]
        differs = (theirs > starts[:, None]) & theirs_differ & inputs.attached
        # what is left standing when all is promised is waited for by nobody
        settled = ~differs.any(axis=1) | (standing & (frozen == INF))
        state.events.bury(nodes[over & settled])

    def forget(self, state: State, inputs: Inputs, port: int) -> None:
        """An input has none of the events any more."""
        events, size = state.events, state.events.size
        starts = events.vs[:size]
        state.ends[:size, port] = starts
        events.behind[port] = []
        forget_voter(state, port)
        self.let_go(state, inputs, np.arange(size))
