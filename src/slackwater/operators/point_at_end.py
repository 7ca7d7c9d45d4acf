"""PointAtEnd: the instant at which each row ends.

    out = { (ve, ve + 1, p) | (vs, ve, p) in input, ve < INF }

As for deletes, an event whose end moves loses one image and gains another.

Pass: every row, at once. Keep: nothing. Propagate: the promise as it is, if it does not begin at a time.

    in:   a [1, 9)     a [1, 9) -> [1, 5)                 cti(4)
    out:  a [9, 10)    a [9, 10) -> gone, a [5, 6)        cti(4)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slackwater.events import Batch
from slackwater.operators.deletes import from_the_beginning, images
from slackwater.operators.step import Answer, Ask, Description
from slackwater.plan import nodes
from slackwater.punctuations import Promise, Punctuation
from slackwater.times import Times, plus

__all__ = ["PointAtEnd"]


@dataclass(frozen=True, slots=True)
class PointAtEnd:
    """The step of a `PointAtEnd` node. It has no state."""

    node: nodes.PointAtEnd

    def open(self) -> None:
        """Nothing to remember."""

    def on_batch(self, state: None, port: int, rows: Batch) -> Batch:
        """The image of the old end goes, that of the new end comes."""
        return images(rows, plus(rows.old_ve, 1), plus(rows.new_ve, 1))

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
