"""Deletes: what has ended, from its end on.

    out = { (ve, INF, p) | (vs, ve, p) in input, ve < INF }

The start of the image depends on ve. An event whose end moves therefore loses one image and gains
another: the row (vs, old_ve, new_ve) becomes the removal of the image of old_ve and the insert of that
of new_ve, where an end that does not exist, or is INF, has no image.

Pass: every row, at once. Keep: nothing. Propagate: the promise as it is, since both images start at an
end that is not before the sync of the row. That is so for every payload by itself, hence for a promise
about some of them; but not for one that begins at a time, since a row of before may end after it.

    in:   a [1, 9)    a [1, 9) -> [1, 5)                cti(4)
    out:  a [9, INF)  a [9, INF) -> gone, a [5, INF)    cti(4)

Paper 1b section 2 (Deletes).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slackwater.columns import taken
from slackwater.events import Batch
from slackwater.operators.step import Answer, Ask, Description
from slackwater.plan import nodes
from slackwater.punctuations import Closings, Promise, Punctuation
from slackwater.times import BEGIN, INF, Times

__all__ = ["Deletes", "from_the_beginning", "images"]


@dataclass(frozen=True, slots=True)
class Deletes:
    """The step of a `Deletes` node. It has no state."""

    node: nodes.Deletes

    def open(self) -> None:
        """Nothing to remember."""

    def on_batch(self, state: None, port: int, rows: Batch) -> Batch:
        """The image of the old end goes, that of the new end comes."""
        return images(rows, np.full(rows.rows, INF), np.full(rows.rows, INF))

    def on_punctuation(self, state: None, port: int, punctuation: Punctuation) -> Answer:
        """No image starts before the sync of its row."""
        return Answer((punctuation,))

    def on_patterns(self, state: None, port: int, told: Sequence[Promise]) -> Answer:
        """No image starts before the sync of its row."""
        return Answer(from_the_beginning(told))

    def closed_until(self, state: None, asked: Promise, ask: Ask) -> Times:
        """As the input: no image starts before the sync of its row."""
        return ask(0, asked)

    def describe(self, state: None) -> Description:
        """Stateless."""
        return Description()


def images(rows: Batch, old_end: Times, new_end: Times) -> Batch:
    """For each row the removal of [old_ve, old_end) and the insert of [new_ve, new_end)."""
    moved = rows.old_ve != rows.new_ve
    goes = moved & (rows.old_ve > rows.vs) & (rows.old_ve < INF)
    comes = moved & (rows.new_ve > rows.vs) & (rows.new_ve < INF)
    both = np.column_stack((goes, comes)).ravel()
    start = np.column_stack((rows.old_ve, rows.new_ve)).ravel()
    old_ve = np.column_stack((old_end, rows.new_ve)).ravel()
    new_ve = np.column_stack((rows.old_ve, new_end)).ravel()
    index = np.repeat(np.arange(rows.rows), 2)[both]
    return Batch(start[both], old_ve[both], new_ve[both], taken(rows.payload, index))


def from_the_beginning(told: Sequence[Promise]) -> tuple[Promise, ...]:
    """Promises that do not begin at a time: these hold of what happens later because of a row, too."""
    return tuple(p for p in told if isinstance(p, Closings) or p.since == BEGIN)
