"""Union: all rows of several streams, as a bag.

    out = in_0 + in_1 + ...

Rows pass as they come. An adjust that arrives on one port may meet an equal event of another port:
equal events are interchangeable, so the history is right either way.

Pass: every row, at once. Keep: the cti of each port, and what it has promised of payloads until all
others have. Propagate: what all ports have promised, that is, the smallest of their ctis, and the
combinations of a promise of each, of which a cti is one. When the cti of a port moves on, so do its
combinations with promises of others: they are told again, unless there are many, and then now and then
(a promise may be late), at a cost that is constant per element.

    in 0:  a [0, 10)   cti(5)              cti(9)
    in 1:              b [7, 8)   cti(6)
    out:   a [0, 10)   b [7, 8)   cti(5)   cti(6)

    in 0:  no more a                                           no more b or c
    in 1:              no more a or b
    out:                                no more a              no more b

Paper 4 Table 3 (union).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from slackwater.events import Batch
from slackwater.operators.step import Answer, Ask, Description
from slackwater.plan import nodes
from slackwater.promises import Promises
from slackwater.punctuations import Closings, Promise, Punctuation
from slackwater.times import BEGIN, INF, Times

__all__ = ["State", "Union"]


_FEW = 1000
"""so many promises may be told again whenever a cti moves on"""


@dataclass(slots=True)
class State:
    """What each port has promised and not all others have."""

    promised: list[Promises]
    heard: int = 0
    """rows and promises since combinations with ctis were told"""


@dataclass(frozen=True, slots=True)
class Union:
    """The step of a `Union` node."""

    node: nodes.Union

    def open(self) -> State:
        """No port has promised anything yet."""
        return State([Promises.of(self.node.schema) for _ in self.node.streams])

    def on_batch(self, state: State, port: int, rows: Batch) -> Batch:
        """The rows as they are."""
        state.heard += rows.rows
        return rows

    def on_punctuation(self, state: State, port: int, punctuation: Punctuation) -> Answer:
        """Only what every port has promised holds of the union."""
        state.promised[port].add([punctuation])
        common = Punctuation(min(promises.cti for promises in state.promised))
        told: list[Promise] = []
        remembered = sum(map(len, state.promised))
        if remembered:
            if remembered <= max(_FEW, state.heard) or punctuation.before == INF:
                told = self._common(state, port, [punctuation])
                state.heard = 0
            for promises in state.promised:
                promises.forget([common])
        return Answer((common, *told))

    def on_patterns(self, state: State, port: int, told: Sequence[Promise]) -> Answer:
        """What every port has promised by now of what this one promises."""
        state.promised[port].add(told)
        state.heard += sum(len(each) if isinstance(each, Closings) else 1 for each in told)
        return Answer(tuple(self._common(state, port, told)))

    def _common(self, state: State, port: int, told: Sequence[Promise]) -> list[Promise]:
        """The combinations of these with what all other ports have promised, which is then forgotten."""
        common = list(told)
        for other, promises in enumerate(state.promised):
            if other != port:
                common = promises.combined(common)
        cti = min(promises.cti for promises in state.promised)
        news = [each for each in (_beyond(promise, cti) for promise in common) if each is not None]
        if news:
            for promises in state.promised:
                promises.forget(news)
        return news

    def closed_until(self, state: State, asked: Promise, ask: Ask) -> Times:
        """What all ports have closed."""
        return reduce(np.minimum, (ask(port, asked) for port in range(len(state.promised))))

    def describe(self, state: State) -> Description:
        """The port that has promised least holds the union back."""
        ports = range(len(state.promised))
        return Description(held_by=min(ports, key=lambda port: state.promised[port].cti))


def _beyond(promise: Promise, cti: int) -> Promise | None:
    """What a promise says that the cti does not; None if that is nothing."""
    if isinstance(promise, Closings):
        more = promise.where(promise.before > cti)
        return more if len(more) else None
    if promise.is_cti or (promise.since == BEGIN and promise.before <= cti):
        return None
    return promise
