"""Distinct, intersect and difference: what lives at every instant, as a set or as a bag.

    distinct      copies(t) = min(1, left(t))
    intersect     copies(t) = min(1, left(t), right(t))       all: min(left(t), right(t))
    difference    copies(t) = 1 if left(t) > 0 = right(t)     all: max(0, left(t) - right(t))

where left(t) and right(t) say how many copies of a payload are alive at t in each input. Copy k of a
payload lives where copies(t) >= k, and each uninterrupted stretch of that is one row.

Inserts and adjusts change the numbers between the old and the new end of their event; the rows of that
payload that touch the stretch get other ends, come or go. A row that began before the cti keeps its
start.

Output latency: EAGER shows all rows of the input so far. PERFECTNESS_PRESERVING shows a row when its end
is final, for input that is perfect: when the watermark (the largest of the starts and ctis of all ports)
has passed it. ORDER_PRESERVING shows it from its start on, without end until that is final. Perfect
input, ports merged by sync, gives perfect output for each payload; ordered input gives ordered output,
all payloads together. operators/runs.py says why.

Pass: what the batch changes, and what the watermark has passed. Keep: per payload the endpoints from the
last one before the cti on, and where rows that are still alive began. Propagate: the smallest of the
inputs' promises; PERFECTNESS_PRESERVING only up to the earliest start of a row that is not shown yet,
and a row that was shown before something late joined on to it is lengthened to there.

Promises about any columns do the same to the payloads that they match, of two ports as far as both have
promised it. Pass: their rows that end before the promised time; all of a payload that is closed for
ever. Keep: nothing of that one; of others as above, from the promised time on; of two ports what one has
promised and the other has not. Propagate: the promise; of two ports the combinations.

    distinct   in:   a [0, 5)   a [3, 9)               a [0, 5) -> gone             b [9, 12)   cti(10)
    EAGER      out:  a [0, 5)   a [0, 5) -> [0, 9)     a [0, 9) -> gone, a [3, 9)   b [9, 12)   cti(10)
    ORDER.     out:  a [0, INF)                        gone, a [3, INF)             b [9, INF)
                                                                   a [3, INF) -> [3, 9), cti(10)
    PERFECT.   out:                                                                 a [3, 9), cti(9)

Paper 4 Tables 2 to 4; paper 1a section 3.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slackwater.consistency import OutputLatency
from slackwater.events import Batch
from slackwater.kernels import runs
from slackwater.kernels.grouping import Keys
from slackwater.operators.closing import Ports, about, frontiers, matched, shortened
from slackwater.operators.runs import Changed, Runs
from slackwater.operators.step import Answer, Description
from slackwater.plan import nodes
from slackwater.promises import Promises
from slackwater.punctuations import Promise, Punctuation
from slackwater.state import is_worth_a_sweep
from slackwater.times import BEGIN, INF

__all__ = ["SetOperation", "State"]


@dataclass(slots=True)
class State:
    """The payloads in use, the runs of each, and what each port has promised."""

    keys: Keys
    runs: Runs
    promised: list[Promises]
    ports: Ports
    """what one of two ports has closed and the other has not"""
    closed: int = 0
    """payloads that are closed for ever and still have a number"""

    @property
    def ctis(self) -> list[int]:
        """Of each port."""
        return [promises.cti for promises in self.promised]


@dataclass(frozen=True, slots=True)
class SetOperation:
    """The step of a `Distinct`, `Intersect` or `Difference` node."""

    node: nodes.Distinct | nodes.Intersect | nodes.Difference
    latency: OutputLatency

    @property
    def _rule(self) -> int:
        if isinstance(self.node, nodes.Intersect):
            return runs.BAG_INTERSECT if self.node.bag else runs.INTERSECT
        if isinstance(self.node, nodes.Difference):
            return runs.BAG_DIFFERENCE if self.node.bag else runs.DIFFERENCE
        return runs.DISTINCT

    def open(self) -> State:
        """No payloads."""
        promised = [Promises() for _ in self.node.inputs]
        schema = self.node.schema
        return State(Keys(schema), Runs(self._rule, self.latency), promised, Ports.of(schema))

    def on_batch(self, state: State, port: int, rows: Batch) -> Batch:
        """How the rows change the runs of their payloads."""
        if not rows.rows:
            return rows
        key = state.keys.number(rows.payload)
        state.ports.hear(state.keys, rows.rows)
        copies = np.zeros((rows.rows, 2), dtype=np.int64)
        copies[:, port] = 1
        seen = int(rows.vs.max(initial=BEGIN, where=rows.is_insert))
        return _rows(state, state.runs.absorb(rows, key, copies, len(state.keys), seen))

    def on_punctuation(self, state: State, port: int, punctuation: Punctuation) -> Answer:
        """Only what every port has promised holds; what that freezes is forgotten."""
        before = state.ctis
        state.promised[port] = state.promised[port].with_(punctuation)
        cti = min(promises.cti for promises in state.promised)
        changed, promise = state.runs.promise(cti)
        rows = _rows(state, changed)
        promises: tuple[Promise, ...] = (Punctuation(promise),)
        closed = state.ports.reach(port, state.keys, before, state.ctis) if len(before) > 1 else None
        if closed is not None:
            answer = self._closed(state, closed.promises(state.keys))
            assert answer.rows is not None
            rows, promises = Batch.concat([rows, answer.rows]), (*promises, *answer.promises)
        if state.runs.forget(cti):
            _renumber(state)
        return Answer(promises, rows)

    def on_patterns(self, state: State, port: int, told: Sequence[Promise]) -> Answer:
        """Payloads are closed: what is held back of them, and then they are forgotten."""
        told = about(told, self.node.schema, state.promised[port].cti)
        if len(state.promised) > 1:
            told = state.ports.tell(port, told, state.keys, state.ctis).promises(state.keys)
        return self._closed(state, told)

    @staticmethod
    def _closed(state: State, told: Sequence[Promise]) -> Answer:
        """All ports have promised this."""
        found = matched(state.keys, told)
        key, until = frontiers(found)
        changed, promised = state.runs.promise_of(key, until)
        rows = _rows(state, changed)
        state.runs.close(key, until)
        state.closed += int(np.count_nonzero(until == INF))
        promises = shortened(found, key, promised)
        if is_worth_a_sweep(state.closed, len(state.keys)):
            _renumber(state)
        return Answer(promises, rows)

    def describe(self, state: State) -> Description:
        """One row per endpoint that is remembered; the port that has promised least holds it back."""
        ports = range(len(state.promised))
        held_by = min(ports, key=lambda port: state.promised[port].cti) if len(ports) > 1 else None
        return Description(state.runs.rows(), held_by)


def _renumber(state: State) -> None:
    """Payloads that are not in use are forgotten."""
    alive = state.runs.in_use(len(state.keys))
    if state.ports.told:
        state.ports.admit(state.keys)
        alive |= state.ports.in_use(state.ctis)
        state.ports.renumber(alive)
    state.runs.renumber(alive)
    state.keys.keep(alive)
    state.closed = 0


def _rows(state: State, changed: Changed) -> Batch:
    key, vs, old_ve, new_ve = changed
    if not len(key):
        return Batch.empty(state.keys.schema)
    return Batch(vs, old_ve, new_ve, state.keys.take(key))
