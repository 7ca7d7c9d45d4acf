"""Union: all rows of several streams, as a bag.

    out = in_0 + in_1 + ...

Rows pass as they come. An adjust that arrives on one port may meet an equal event of another port:
equal events are interchangeable, so the history is right either way.

Pass: every row, at once. Keep: the promise of each port. Propagate: what all ports have promised, that
is, the smallest of their ctis.

    in 0:  a [0, 10)   cti(5)              cti(9)
    in 1:              b [7, 8)   cti(6)
    out:   a [0, 10)   b [7, 8)   cti(5)   cti(6)

Paper 4 Table 3 (union).
"""

from __future__ import annotations

from dataclasses import dataclass

from slackwater.events import Batch
from slackwater.operators.step import Answer, Description
from slackwater.plan import nodes
from slackwater.punctuations import Promises, Punctuation

__all__ = ["State", "Union"]


@dataclass(slots=True)
class State:
    """What each port has promised."""

    promised: list[Promises]


@dataclass(frozen=True, slots=True)
class Union:
    """The step of a `Union` node."""

    node: nodes.Union

    def open(self) -> State:
        """No port has promised anything yet."""
        return State([Promises() for _ in self.node.streams])

    def on_batch(self, state: State, port: int, rows: Batch) -> Batch:
        """The rows as they are."""
        return rows

    def on_punctuation(self, state: State, port: int, punctuation: Punctuation) -> Answer:
        """Only what every port has promised holds of the union."""
        state.promised[port] = state.promised[port].with_(punctuation)
        return Answer((Punctuation(min(promises.cti for promises in state.promised)),))

    def describe(self, state: State) -> Description:
        """The port that has promised least holds the union back."""
        ports = range(len(state.promised))
        return Description(held_by=min(ports, key=lambda port: state.promised[port].cti))
