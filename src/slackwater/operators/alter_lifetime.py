"""AlterLifetime: every row with a new lifetime. Windows, shift, extend, clip and inserts are made of it.

    out = { (s(vs), e(vs, ve), p) | (vs, ve, p) in input, s(vs) < e(vs, ve) }

A row (vs, old_ve, new_ve) says that an end moved from old_ve to new_ve, where an end of vs means that
the event does not exist. Mapping both ends, and "does not exist" to "does not exist", maps the row: an
insert stays one, a full removal removes in full whatever e is (a window of constant length too), and
a move that makes no difference disappears. A lifetime that becomes empty is a removal, one that becomes
non-empty an insert.

Pass: every row, at once. Keep: nothing. Propagate: cti(t) as the least sync that a still permitted
element can cause, see plan/lifetimes.py; not t, and not s(t) (erratum 12).

    sliding(3)     in:   a [1, 9)   a [1, 9) -> [1, 5)   a [1, 5) -> gone   cti(4)
                   out:  a [1, 4)                        a [1, 4) -> gone   cti(4)

Paper 1b section 4.2, Definition 6.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slackwater.events import Batch
from slackwater.operators.step import Answer, Description
from slackwater.plan import nodes
from slackwater.punctuations import Punctuation
from slackwater.times import Times

__all__ = ["AlterLifetime"]


@dataclass(frozen=True, slots=True)
class AlterLifetime:
    """The step of an `AlterLifetime` node. It has no state."""

    node: nodes.AlterLifetime

    def open(self) -> None:
        """Nothing to remember."""

    def on_batch(self, state: None, port: int, rows: Batch) -> Batch:
        """Both ends of every row mapped; rows that then say nothing are left out."""
        start = self.node.lifetime.starts(rows.vs)
        only_inserts = bool(rows.is_insert.all())
        old_ve = start if only_inserts else self._mapped(rows.vs, rows.old_ve, start)
        new_ve = self._mapped(rows.vs, rows.new_ve, start)
        return Batch(start, old_ve, new_ve, rows.payload).where(old_ve != new_ve)

    def _mapped(self, vs: Times, ve: Times, start: Times) -> Times:
        end = np.maximum(self.node.lifetime.ends(vs, ve), start)
        return np.where(ve == vs, start, end)

    def on_punctuation(self, state: None, port: int, punctuation: Punctuation) -> Answer:
        """The promise in the new time."""
        return Answer((Punctuation(self.node.lifetime.promise(punctuation.before)),))

    def describe(self, state: None) -> Description:
        """Stateless."""
        return Description()
