"""AlterLifetime: every row with a new lifetime. Windows, shift, extend, clip and inserts are made of it.

    out = { (s(vs), e(vs, ve), p) | (vs, ve, p) in input, s(vs) < e(vs, ve) }

A row (vs, old_ve, new_ve) says that an end moved from old_ve to new_ve, where an end of vs means that
the event does not exist. Mapping both ends, and "does not exist" to "does not exist", maps the row: an
insert stays one, a full removal removes in full whatever e is (a window of constant length too), and
a move that makes no difference disappears. A lifetime that becomes empty is a removal, one that becomes
non-empty an insert.

Pass: every row, at once. Keep: nothing. Propagate: cti(t) as the least sync that a still permitted
element can cause, see plan/lifetimes.py; not t, and not s(t) (erratum 12). A promise about some payloads
likewise, since rows are mapped one by one. If it begins at a time, only where the end follows vs alone:
else an adjust of an earlier row may change the output after that time.

    sliding(3)     in:   a [1, 9)   a [1, 9) -> [1, 5)   a [1, 5) -> gone   cti(4)
                   out:  a [1, 4)                        a [1, 4) -> gone   cti(4)

Paper 1b section 4.2, Definition 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from slackwater.events import Batch
from slackwater.operators.step import Answer, Ask, Description
from slackwater.plan import nodes
from slackwater.punctuations import Closings, Promise, Punctuation
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

    def on_patterns(self, state: None, port: int, told: Sequence[Promise]) -> Answer:
        """The same payloads, in the new time."""
        mapped = (self._promise(promise) for promise in told)
        return Answer(tuple(promise for promise in mapped if promise is not None))

    def _promise(self, promise: Promise) -> Promise | None:
        lifetime = self.node.lifetime
        if isinstance(promise, Closings):
            return replace(promise, before=lifetime.promises(promise.before))
        times = lifetime.window(promise.since, promise.before)
        return None if times is None else replace(promise, since=times[0], before=times[1])

    def closed_until(self, state: None, asked: Promise, ask: Ask) -> Times:
        """As the input, in the new time."""
        return self.node.lifetime.promises(ask(0, asked))

    def describe(self, state: None) -> Description:
        """Stateless."""
        return Description()
