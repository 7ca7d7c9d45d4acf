"""R3-: as R3, with an index for every input and one for the output. For comparison only.

Payloads are held once for every input, and what one index has is looked up in another: this is what the
index of R3 (in2t.py) saves. It knows no policies, judges nobody, and drops promises about payloads.

Paper 2 section VI-A (LMR3-).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from slackwater.columns import taken
from slackwater.events import Batch
from slackwater.operators.inputs import Inputs, Ints, Wrong, as_keys
from slackwater.operators.merged_events import MergedEvents, enlarged, kept_of
from slackwater.punctuations import Promise
from slackwater.times import BEGIN, INF

__all__ = ["Apart", "State"]


@dataclass(slots=True)
class One:
    """The events of one input, or of the output, and where they end: at their start, if they are not."""

    events: MergedEvents
    ends: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def known(self, rows: Batch) -> Ints:
        """The nodes of events, those that are new among them."""
        nodes, first_new, _ = self.events.nodes_of(rows, BEGIN)
        if len(self.events.vs) > len(self.ends):
            self.ends = enlarged(self.ends, len(self.events.vs))
        begun = slice(first_new, self.events.size)
        self.ends[begun] = self.events.vs[begun]
        return nodes

    def find(self, keys: pl.DataFrame) -> Ints:
        """The nodes of events; -1 if they are not there."""
        found = self.events.keys.find(keys)
        if not len(self.ends):
            return found
        living: Ints = np.where((found >= 0) & ~self.events.dead[found], found, -1)
        return living

    def passed_by(self, until: int) -> Ints:
        """The nodes that start or end before a cti, and are not done with."""
        nodes = self.events.passed_by(until)
        due: Ints = nodes[~self.events.dead[nodes]]
        return due

    def put_off(self, nodes: Ints) -> None:
        """To be looked at again when they end."""
        self.events.due[nodes] = self.ends[nodes]
        self.events.schedule(nodes)

    def forget(self, nodes: Ints) -> None:
        """They are done with."""
        self.events.bury(np.unique(nodes))
        packed = self.events.packed()
        if packed is not None:
            self.ends = kept_of(self.ends, *packed)


@dataclass(slots=True)
class State:
    """The indexes."""

    inputs: list[One]
    out: One


@dataclass(frozen=True, slots=True)
class Apart:
    """The algorithm R3-."""

    schema: pl.Schema

    def open(self, inputs: int) -> State:
        """Nothing told."""
        out, *others = (One(MergedEvents(self.schema, 1)) for _ in range(inputs + 1))
        return State(others, out)

    def add_input(self, state: State) -> None:
        """There is one more, with an index of its own."""
        state.inputs.append(One(MergedEvents(self.schema, 1)))

    def rows(self, state: State) -> int:
        """How many events are remembered, in all indexes."""
        return sum(len(each.events) for each in (*state.inputs, state.out))

    def take_in(self, state: State, inputs: Inputs, port: int, rows: Batch) -> tuple[Batch, list[Wrong]]:
        """Note what an input says; what the output has not is shown."""
        own, out = state.inputs[port], state.out
        late = rows.vs < inputs.out
        if late.any():
            old = rows.where(late)
            # of events that the output still has
            old = old.where(out.find(as_keys(old.vs, old.payload)) >= 0)
            nodes = own.known(old)
            own.ends[nodes] = old.new_ve
            own.put_off(np.unique(nodes[own.ends[nodes] >= inputs.out]))
            rows = rows.where(~late)
        nodes = own.known(rows)
        own.ends[nodes] = rows.new_ve
        nodes = out.known(rows)
        # of several rows of one event the last one counts
        last = np.full(out.events.size, -1, dtype=np.int64)
        last[nodes] = np.arange(rows.rows)
        places = np.sort(last[last >= 0])
        nodes = nodes[places]
        fresh = (out.ends[nodes] == rows.vs[places]) & (rows.new_ve[places] > rows.vs[places])
        places, nodes = places[fresh], nodes[fresh]
        out.ends[nodes] = rows.new_ve[places]
        return Batch.inserts(rows.vs[places], rows.new_ve[places], taken(rows.payload, places)), []

    def advance(self, state: State, inputs: Inputs, port: int, until: int) -> tuple[Batch, list[Wrong]]:
        """Make the output what an input says, as far as a cti(until) needs it."""
        own, out = state.inputs[port], state.out
        mine, shown = own.passed_by(until), out.passed_by(until)
        # what either has to look at, as nodes of the output: it has had all that was told in time
        asked = out.find(own.events.keys.take(mine))
        nodes = np.unique(np.concatenate([shown, asked[asked >= 0]]))
        theirs = own.find(out.events.keys.take(nodes))
        starts, before = out.events.vs[nodes], out.ends[nodes]
        ends = np.where(theirs >= 0, own.ends[theirs], starts) if len(own.ends) else starts
        lacks = (ends == starts) & (starts < inputs.out)
        ends = np.where(lacks, before, ends)
        frozen = (ends < until) | (until == INF)
        changed = (ends != before) & (frozen | (before < until))
        out.ends[nodes[changed]] = ends[changed]
        said = nodes[changed]
        rows = Batch(starts[changed], before[changed], ends[changed], out.events.payload(said))
        out.put_off(nodes[~frozen])
        own.put_off(theirs[~frozen & (theirs >= 0)])
        done = out.events.keys.take(nodes[frozen])
        for each in state.inputs:
            waiting = mine if each is own else each.passed_by(until)
            gone = out.find(each.events.keys.take(waiting)) < 0
            later = waiting[~gone & (each.ends[waiting] >= until)]
            if each is not own:
                each.put_off(later)
            frozen_there = each.find(done)
            each.forget(np.concatenate([waiting[gone], frozen_there[frozen_there >= 0]]))
        out.forget(nodes[frozen])
        return rows, []

    def close(
        self, state: State, inputs: Inputs, port: int, told: Sequence[Promise], *, trusted: bool
    ) -> None:
        """It does not."""

    def compare(self, state: State, inputs: Inputs, port: int, told: Sequence[Promise]) -> list[Wrong]:
        """It does not."""
        return []

    def judge(self, state: State, inputs: Inputs, port: int, told: int) -> list[Wrong]:
        """It does not."""
        return []

    def verdicts(self, state: State, inputs: Inputs) -> list[Wrong]:
        """Nothing waits to be decided."""
        return []

    def forget(self, state: State, inputs: Inputs, port: int) -> None:
        """An input has none of the events any more."""
        state.inputs[port] = One(MergedEvents(self.schema, 1))
