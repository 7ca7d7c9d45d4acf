"""R4: as R3, where an event may be there many times, and with many ends.

One index for all inputs and the output (in3t): the events (merged_events.py), and beside each a list of
ends with their copies for every input, and for the output.

- A row notes what its input says. If that input has more copies of the event than the output, the policy
  does not hold it back, and the event is not half frozen, one more is shown.
- A cti(t) of an input that is further than the output: of the events that become half frozen the output
  gets as many copies as that input has, and of those ends that freeze exactly that input's. Ends change
  in place of others, so that as few rows as possible are said.
- What an input says of an event that is frozen otherwise is kept to be judged, be it fully frozen.

A replica that begins anew has to say so (`attach`), for what it says twice is there twice.

Space: O(w (p + s d)), for w events that are not fully frozen, with d ends each.

Paper 2 section IV-E and Table IV, erratum 19.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from slackwater.events import Batch
from slackwater.kernels import merging_bags as kernel
from slackwater.merging import QUARANTINE, MergePolicy
from slackwater.operators.inputs import Inputs, Ints, Mask, Wrong, whose
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
from slackwater.times import INF

__all__ = ["In3t", "State"]

_LEAST = 64


@dataclass(slots=True)
class State:
    """The index: chains of (end, copies, next) by event and input; the output is the last of them."""

    events: MergedEvents
    pool: Ints = field(default_factory=lambda: np.empty((0, 3), dtype=np.int64))
    facts: Ints = field(default_factory=lambda: np.array([-1, 0]))
    heads: Ints = field(init=False)
    totals: Ints = field(init=False)
    noted: Mask = field(init=False)
    """by event and input: of which it is written down that something is missing"""
    size: int = 0
    """so many nodes have chains"""

    def __post_init__(self) -> None:
        self.heads, self.totals = (
            np.empty((0, self.events.inputs + 1), dtype=np.int64) for _ in range(2)
        )
        self.noted = np.empty((0, self.events.inputs), dtype=np.bool_)

    def begin(self, first_new: int, ghosts: Ints) -> None:
        """Nobody has these."""
        room = len(self.events.vs)
        if room > len(self.heads):
            self.heads, self.totals, self.noted = (
                enlarged(array, room) for array in (self.heads, self.totals, self.noted)
            )
        # what some of the ghosts were before they died
        kernel.clear_all(*self.chains, ghosts[ghosts < self.size], 0, self.totals.shape[1])
        for nodes in (slice(first_new, self.events.size), ghosts):
            self.heads[nodes], self.totals[nodes], self.noted[nodes] = -1, 0, False
        self.size = self.events.size

    def reserve(self, links: int) -> None:
        """See to it that so many links are free."""
        had = len(self.pool)
        if had - self.facts[kernel.USED] >= links:
            return
        room = max(2 * had, had + links, _LEAST)
        self.pool = enlarged(self.pool, room)
        self.pool[had:, kernel.NEXT] = np.arange(had + 1, room + 1)
        self.pool[room - 1, kernel.NEXT] = self.facts[kernel.FREE]
        self.facts[kernel.FREE] = had

    @property
    def chains(self) -> tuple[Ints, Ints, Ints, Ints]:
        """What the loops work on."""
        return self.pool, self.facts, self.heads, self.totals

    def scratch(self, nodes: Ints) -> tuple[Ints, Ints]:
        """Room for the copies of any of these nodes."""
        most = int(self.totals[nodes].max()) if len(nodes) else 0
        return np.empty(most + 1, dtype=np.int64), np.empty(most + 1, dtype=np.int64)

    def pack(self) -> None:
        """Forget the dead, if they are many."""
        size = self.events.size
        dead = np.flatnonzero(self.events.dead[:size])
        packed = self.events.packed()
        if packed is not None:
            kernel.clear_all(*self.chains, dead, 0, self.totals.shape[1])
            self.heads, self.totals, self.noted = (
                kept_of(array, *packed) for array in (self.heads, self.totals, self.noted)
            )
            self.size = self.events.size


@dataclass(frozen=True, slots=True)
class In3t:
    """The algorithm R4."""

    schema: pl.Schema
    policy: MergePolicy

    def open(self, inputs: int) -> State:
        """Nothing told."""
        return State(MergedEvents(self.schema, inputs))

    def add_input(self, state: State) -> None:
        """There is one more, which has none of the events; the output stays the last."""
        state.events.add_input()
        for name, none in (("heads", -1), ("totals", 0)):
            before = getattr(state, name)
            setattr(state, name, np.insert(before, before.shape[1] - 1, none, axis=1))
        state.noted = np.insert(state.noted, state.noted.shape[1], False, axis=1)

    def rows(self, state: State) -> int:
        """How many events are remembered."""
        return len(state.events)

    def take_in(self, state: State, inputs: Inputs, port: int, rows: Batch) -> tuple[Batch, list[Wrong]]:
        """Note what an input says; what is shown of it."""
        events = state.events
        nodes, first_new, ghosts = events.nodes_of(rows, inputs.stable_of(rows))
        state.begin(first_new, ghosts)
        state.reserve(rows.rows)
        touched, had = (np.empty(len(nodes), dtype=np.int64) for _ in range(2))
        count = kernel.absorb(
            nodes, rows.vs, rows.old_ve, rows.new_ve, port, *state.chains, events.mark, touched, had
        )
        touched = touched[:count]
        # ghosts that were told and taken back in one batch
        events.bury(ghosts[~state.totals[ghosts].any(axis=1)])
        room = int(state.totals[touched, port].sum() + state.totals[touched, -1].sum())
        state.reserve(room)
        changed, old, new = (np.empty(room, dtype=np.int64) for _ in range(3))
        sooner, behind = (np.empty(count, dtype=np.int64) for _ in range(2))
        inserts, adjusts, needed = whose(self.policy, inputs)
        n, n_sooner, n_behind = kernel.show(
            touched, had, port, inputs.out, inserts, adjusts, needed,
            events.vs, events.due, events.front, *state.chains, inputs.attached, *state.scratch(touched),
            np.empty(inputs.count, dtype=np.int64), changed, old, new, sooner, behind,
        )  # fmt: skip
        if n_sooner:
            events.schedule(sooner[:n_sooner])
        if n_behind:
            events.behind[port].append(behind[:n_behind])
        return events.said(changed[:n], old[:n], new[:n]), []

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
        room = int(state.totals[nodes, port].sum() + state.totals[nodes, -1].sum())
        state.reserve(room)
        changed, old, new = (np.empty(room, dtype=np.int64) for _ in range(3))
        later, wrong, rule = (np.empty(len(nodes), dtype=np.int64) for _ in range(3))
        behind, their = (np.empty(len(nodes) * inputs.count, dtype=np.int64) for _ in range(2))
        n, n_later, n_behind, n_wrong = kernel.agree(
            nodes, port, inputs.out, until,
            events.vs, events.due, events.lacks, events.front, events.dead, events.died, *state.chains,
            inputs.attached, *state.scratch(nodes), changed, old, new, later, behind, their, wrong, rule,
        )  # fmt: skip
        events.schedule(later[:n_later])
        events.suspect(behind[:n_behind], their[:n_behind])
        rows = events.said(changed[:n], old[:n], new[:n])
        told = max(until, int(inputs.stable[port]))
        those = wrong[:n_wrong], rule[:n_wrong]
        found = self._accused(state, inputs, port, *those, told=told, is_standing=True)
        events.hold()
        standing = wrong[:n_wrong][events.lacks[wrong[:n_wrong]] == INF]
        if len(standing):
            kernel.release(standing, events.vs, inputs.stable, *state.chains)
            self._bury_settled(state, inputs, standing)
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
            nodes, port, told, inputs.out, int(inputs.doubted[port]), inputs.since[port] <= inputs.out,
            events.vs, events.lacks, events.front, events.dead, events.died, *state.chains,
            inputs.attached, *state.scratch(nodes), kept, wrong, rule,
        )  # fmt: skip
        if n_kept:
            events.behind[port].append(kept[:n_kept])
        those = wrong[:n_wrong], rule[:n_wrong]
        told = max(told, int(inputs.stable[port]))
        found = self._accused(state, inputs, port, *those, told=told, is_standing=False)
        events.hold()
        if n_wrong:
            if self.policy.gaps:
                # what it says of those that are not over still counts
                over = self._over(state, inputs, wrong[:n_wrong])
                kernel.clear_all(*state.chains, over, port, port + 1)
            self.let_go(state, inputs, wrong[:n_wrong])
        return found

    def _accused(
        self,
        state: State,
        inputs: Inputs,
        port: int,
        nodes: Ints,
        rules: Ints,
        *,
        told: int,
        is_standing: bool,
    ) -> list[Wrong]:
        """The verdicts there are on what an input has promised."""
        found: list[Wrong] = []
        for node, rule in zip(nodes.tolist(), rules.tolist(), strict=True):
            if self._is_noted(state, node, port):
                continue
            frozen = state.events.frozen_one(node, inputs.out)
            wrong = accuse(
                self, state, inputs, node, port,
                rule=rule, told=told, frozen=frozen, is_standing=is_standing,
            )  # fmt: skip
            found += [] if wrong is None else [wrong]
        return found

    def _is_noted(self, state: State, node: int, port: int) -> bool:
        """Whether that was said before of an input with gaps, which keeps what it says; now it is."""
        before = bool(state.noted[node, port])
        state.noted[node, port] = self.policy.gaps
        return before

    @staticmethod
    def _over(state: State, inputs: Inputs, nodes: Ints) -> Ints:
        """Those of these nodes of which the output has promised all that it says."""
        starts, frozen = state.events.vs[nodes], state.events.frozen(inputs.out)[nodes]
        last = kernel.last_ends(nodes, starts, *state.chains)
        over = (starts < frozen) & ((last < frozen) | (frozen == INF)) & ~state.events.dead[nodes]
        found: Ints = nodes[over]
        return found

    @staticmethod
    def let_go(state: State, inputs: Inputs, nodes: Ints) -> None:
        """Of these nodes, those that are over and of which nobody says otherwise are done with."""
        In3t._bury_settled(state, inputs, In3t._over(state, inputs, nodes))

    @staticmethod
    def _bury_settled(state: State, inputs: Inputs, nodes: Ints) -> None:
        events = state.events
        settled = kernel.all_settled(nodes, events.vs, events.lacks, *state.chains, inputs.attached)
        # what is left standing when all is promised is waited for by nobody
        settled |= (events.lacks[nodes] == INF) & (events.frozen(inputs.out)[nodes] == INF)
        events.bury(nodes[settled])

    @property
    def is_patient(self) -> bool:
        """Whether a verdict waits for those who are unheard."""
        return self.policy.contradiction is QUARANTINE and not self.policy.gaps

    def ends_of(self, state: State, node: int, who: int) -> list[int]:
        """The ends that an input gives an event, in order; the output comes after the inputs."""
        ends: list[int] = []
        at = int(state.heads[node, who])
        while at >= 0:
            end, copies, at = state.pool[at].tolist()
            ends += [end] * copies
        return ends

    def take_as_told(self, state: State, inputs: Inputs, node: int, port: int) -> None:
        """An input is taken to say of an event what the output does; not if what it lacks is a gap."""
        if not self.policy.gaps:
            state.reserve(int(state.totals[node, -1]))
            kernel.copy(*state.chains, node, inputs.count, port)

    def leave_standing(self, state: State, inputs: Inputs, node: int) -> None:
        """If an event is over, what the output says of it is nobody's word from now on."""
        over = self._over(state, inputs, np.array([node]))
        if len(over):
            state.events.lacks[node] = INF
            kernel.release(over, state.events.vs, inputs.stable, *state.chains)
            others = np.flatnonzero(state.totals[node, :-1])
            state.events.suspect(np.full(len(others), node), others)

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

    def forget(self, state: State, inputs: Inputs, port: int) -> None:
        """An input has none of the events any more."""
        events, size = state.events, state.events.size
        kernel.clear_all(*state.chains, np.flatnonzero(state.totals[:size, port]), port, port + 1)
        events.behind[port] = []
        state.noted[:size, port] = False
        forget_voter(state, port)
        self.let_go(state, inputs, np.arange(size))
