"""Chop: every row cut at the multiples of a period.

    out = { ([vs, ve) cut to [k*p, (k+1)*p), payload) | (vs, ve, payload) in input, k integer }

A row (vs, old_ve, new_ve) changes nothing before min(old_ve, new_ve) and nothing from the other end on,
so only the pieces between the two are looked at. In each of them both ends, cut to the piece, are again
a row (start, old end, new end): the piece in which the end moved is adjusted, pieces beyond come or go.

Pass: every piece that changes, at once. Keep: nothing. Propagate: the promise as it is; pieces change at
the sync of their row or later.

    period 5   in:   a [3, 12)                          a [3, 12) -> [3, 9)
               out:  a [3, 5)  a [5, 10)  a [10, 12)    a [5, 10) -> [5, 9)   a [10, 12) -> gone

A row without end has infinitely many pieces and is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slackwater.errors import OperatorError
from slackwater.events import Batch
from slackwater.operators.step import Answer, Description
from slackwater.plan import nodes
from slackwater.punctuations import Punctuation
from slackwater.times import INF, plus

__all__ = ["Chop"]


@dataclass(frozen=True, slots=True)
class Chop:
    """The step of a `Chop` node. It has no state."""

    node: nodes.Chop

    def open(self) -> None:
        """Nothing to remember."""

    def on_batch(self, state: None, port: int, rows: Batch) -> Batch:
        """The pieces between the old and the new end, each with its own old and new end."""
        _refuse_endless(rows)
        period = self.node.period
        first = np.minimum(rows.old_ve, rows.new_ve) // period
        last = (np.maximum(rows.old_ve, rows.new_ve) - 1) // period
        pieces = last - first + 1
        row = np.repeat(np.arange(rows.rows), pieces)
        piece = np.arange(len(row)) - np.repeat(np.cumsum(pieces) - pieces, pieces) + first[row]
        start = np.maximum(rows.vs[row], piece * period)
        end = plus(piece * period, period)
        old_ve = np.maximum(start, np.minimum(end, rows.old_ve[row]))
        new_ve = np.maximum(start, np.minimum(end, rows.new_ve[row]))
        return Batch(start, old_ve, new_ve, rows.payload[row]).where(old_ve != new_ve)

    def on_punctuation(self, state: None, port: int, punctuation: Punctuation) -> Answer:
        """No piece changes before the sync of its row."""
        return Answer((punctuation,))

    def describe(self, state: None) -> Description:
        """Stateless."""
        return Description()


def _refuse_endless(rows: Batch) -> None:
    endless = np.flatnonzero((rows.old_ve == INF) | (rows.new_ve == INF))
    if len(endless):
        [element] = rows.slice(endless[0], endless[0] + 1)
        raise OperatorError(
            "chop: a row without end has infinitely many pieces",
            detail=f"{element!r}",
            hint="clip() it first",
        )
