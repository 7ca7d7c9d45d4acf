"""Changes and corrections: what is new, and what had been said otherwise.

A row of the output is a *correction* when its sync lies below the highest sync that the output had
before the batch: it speaks of a time that had been spoken of. Anything else is a *change*: the answer
moves on because time does. Late input shows as corrections; a perfect input gives none.

    said: [0, 10) a       change        (nothing was said before)
          [10, 20) b      change        sync 10 after 0
          [0, 10) -> [0, 4) a           correction: sync 4 below 10
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from slackwater.events import Batch
from slackwater.times import BEGIN

__all__ = ["CHANGES", "CORRECTIONS", "Told", "corrected"]


class Told(enum.Enum):
    """Which of the rows that were said."""

    CHANGES = "changes"
    """those that go on from what was said"""
    CORRECTIONS = "corrections"
    """those that speak of a time that had been spoken of"""


CHANGES = Told.CHANGES
CORRECTIONS = Told.CORRECTIONS


def corrected(batches: Sequence[Batch], before: int = BEGIN) -> npt.NDArray[np.bool_]:
    """For every row of all batches, one after the other, whether it is a correction.

    `before` is the highest sync of what had been said before them.

    >>> from slackwater.events import adjust, insert
    >>> said = [insert(0, 10, k="a"), insert(10, 20, k="b"), adjust(0, 10, 4, k="a")]
    >>> corrected([Batch.of([each]) for each in said]).tolist()
    [False, False, True]
    >>> corrected([Batch.of(said)]).tolist()
    [False, False, False]
    >>> corrected([Batch.of(said)], before=10).tolist()
    [True, False, True]
    """
    highest, found = before, [np.empty(0, dtype=np.bool_)]
    for batch in batches:
        sync = batch.sync
        found.append(sync < highest)
        highest = max(highest, int(sync.max(initial=BEGIN)))
    return np.concatenate(found)
