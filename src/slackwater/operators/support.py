"""Support: of every key the best of its candidates, each with the round that it was derived in.

What a loop says of a set, or of the least value of a group, may be derived from itself: y is reached
from x and x from y. If what they were reached from first is gone, neither may stay, nor may they come
back with ever larger values. So every candidate carries a *rank*, one more than the largest of those
that it was derived from. What is said is always supported by a candidate of a smaller rank: following
the support, one comes to an end, and that is outside the loop.

At every instant, of a key, its candidates by rank, and what is said of it:

- What is said stays as long as it has a candidate of the same value and a smaller rank.
- Else it is taken back, and the key waits.
- If it does not wait: a candidate that is better than all of smaller rank is said, with a rank one
  more, unless its value is said already, of whatever rank. What is not better than something of a
  smaller rank is taken back for that.

What has waited until nothing is on its way is said then: by that time all that rested on what was taken
back is gone, too. If nothing is ever taken back nobody waits, and rows circulate freely.

Of a set (no value) one row is said of each key. Of least values there may be several: what is worse and
was derived earlier is needed if what is better was derived from it, round a cycle. Readers behind the
loop look at the best of them.

In time, this happens on every stretch between two endpoints of a key's candidates; neighbouring
stretches that say the same are one row. A row that began before the cti keeps its start.

Candidates and what is said are kept until they end behind the cti, or behind what is promised of their
key. A batch costs as much as the keys that it touches have candidates (kernels/choices.py).

Paper 3 section 6, erratum 25; docs/design/2026-11-18-recursion.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

import slackwater.state
from slackwater.columns import column_of, framed, stacked, taken
from slackwater.events import Batch
from slackwater.kernels import choices
from slackwater.kernels.choices import COLUMNS, PLACE, RANK, ROW, VE, VS
from slackwater.kernels.grouping import Keys
from slackwater.operators.closing import frontiers, matched
from slackwater.operators.live_events import LiveEvents
from slackwater.operators.payload_store import Payloads
from slackwater.plan.nodes import Best
from slackwater.punctuations import Promise
from slackwater.times import INF

__all__ = ["Support"]

Ints = npt.NDArray[np.int64]

kernel: Any = choices
"""compiled functions, which mypy cannot follow"""


@dataclass(slots=True)
class Support:
    """The candidates of every key, what is said of it, and where it waits."""

    best: Best
    keys: Keys
    candidates: LiveEvents
    said: LiveEvents
    waiting: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    """by key the stretches in which something was taken back; none when all is quiet"""
    sweep_at: int = field(default_factory=lambda: slackwater.state.SWEEP_FROM)

    @classmethod
    def of(cls, best: Best, schema: pl.Schema) -> Support:
        """No candidates, of rows with these columns."""
        keys = Keys(pl.Schema({name: schema[name] for name in best.keys}))
        rest = pl.Schema({name: dtype for name, dtype in schema.items() if name not in best.keys})
        candidates, said = (LiveEvents(Payloads(rest), list(rest)) for _ in range(2))
        return cls(best, keys, candidates, said)

    def absorb(self, rows: Batch) -> Batch:
        """Take in changes of candidates; how what is said changes."""
        key = self.keys.number(rows.payload)
        self.candidates.apply(rows, key, len(self.keys))
        touched, which = np.unique(key, return_inverse=True)
        since, until = np.full(len(touched), INF), np.full(len(touched), -INF)
        np.minimum.at(since, which, rows.sync)
        np.maximum.at(until, which, np.maximum(rows.old_ve, rows.new_ve))
        stretches = [[pair] for pair in zip(since.tolist(), until.tolist(), strict=True)]
        return self._told(touched, stretches)

    def release(self) -> Batch:
        """Say what has waited."""
        waiting, self.waiting = self.waiting, {}
        return self._told(np.array([*waiting], dtype=np.int64), [*waiting.values()])

    def rows(self) -> int:
        """How many events are remembered."""
        return self.candidates.count + self.said.count

    def forget(self, cti: int) -> None:
        """Now and then, forget what ends behind a cti, when nothing waits."""
        assert not self.waiting, "who waits is known by number, and numbers may change"
        stored = self.candidates.payloads.height + self.said.payloads.height
        if not stored or (cti < INF and stored < self.sweep_at):
            return
        times = np.full(1, cti)
        in_use = np.zeros(len(self.keys), dtype=np.bool_)
        for events in (self.candidates, self.said):
            events.forget(len(in_use), times, times)
            in_use |= events.in_use(len(in_use))
        if 2 * np.count_nonzero(in_use) < len(in_use):
            self.keys.keep(in_use)
            for events in (self.candidates, self.said):
                events.renumber(in_use)
        self.sweep_at = slackwater.state.sweep_after(self.rows())

    def close(self, told: Sequence[Promise]) -> None:
        """Forget what promises about keys settle."""
        key, until = frontiers(matched(self.keys, told))
        for events in (self.candidates, self.said):
            events.admit(len(self.keys))
            events.close(key, until, until)

    def _told(self, keys: Ints, stretches: list[list[tuple[int, int]]]) -> Batch:
        """How what is said of some keys changes in these stretches."""
        (c_at, candidates), (s_at, said) = (
            self._lives(self.candidates, keys),
            self._lives(self.said, keys),
        )
        payload = stacked(
            [self.candidates.payloads.take(candidates[:, ROW]), self.said.payloads.take(said[:, ROW])]
        )
        both = np.concatenate([candidates, said])
        both[:, PLACE] = self._places(payload)
        both[:, RANK] = payload.get_column(self.best.rank).to_numpy()
        both[:, ROW] = np.arange(len(both))
        candidates, said = both[: len(candidates)], both[len(candidates) :]
        waiting = (
            [self.waiting.get(key, []) for key in keys.tolist()] if self.waiting else [[]] * len(keys)
        )
        changes, more = kernel.chosen(
            c_at, candidates, s_at, said, *_in_rows(stretches), *_in_rows(waiting)
        )
        for which, since, until in more.tolist():
            self.waiting.setdefault(int(keys[which]), []).append((since, until))
        changes[:, 0] = keys[changes[:, 0]]
        return self._rows(changes, payload)

    @staticmethod
    def _lives(events: LiveEvents, keys: Ints) -> tuple[Ints, Ints]:
        """The events of some keys, with room for what else they are; and where those of each begin."""
        if len(keys):
            events.admit(int(keys.max()) + 1)
        at, lives = kernel.lives_of(events.slabs, events.pool, keys)
        rows = np.zeros((len(lives), COLUMNS), dtype=np.int64)
        rows[:, VS], rows[:, VE], rows[:, ROW] = lives.T
        return at, rows

    def _places(self, payload: pl.DataFrame) -> Ints:
        """The place of each row's value among all of them; null comes last."""
        if self.best.value is None:
            return np.zeros(payload.height, dtype=np.int64)
        values = payload.get_column(self.best.value)
        order = values.unique().sort(descending=self.best.descending, nulls_last=True)
        places = pl.DataFrame({"value": order, "place": np.arange(len(order))})
        found = pl.DataFrame({"value": values}).join(
            places, on="value", how="left", nulls_equal=True, maintain_order="left"
        )
        return found.get_column("place").to_numpy()

    def _rows(self, changes: Ints, payload: pl.DataFrame) -> Batch:
        """What is to be said, as rows; and it is remembered."""
        if not len(changes):
            return Batch.empty(pl.Schema({**self.keys.schema, **payload.schema}))
        key, vs, old_ve, new_ve, rank, row = changes.T.copy()
        rest = taken(payload, row).with_columns(column_of(self.best.rank, rank))
        whole = framed([*self.keys.take(key).get_columns(), *rest.get_columns()], len(key))
        rows = Batch(vs, old_ve, new_ve, whole)
        self.said.apply(rows, key, len(self.keys))
        return rows


def _in_rows(stretches: list[list[tuple[int, int]]]) -> tuple[Ints, Ints]:
    """Where those of each key begin, and from when to when each is."""
    at = np.cumsum([0, *map(len, stretches)])
    return at, np.array([pair for some in stretches for pair in some], dtype=np.int64).reshape(-1, 2)
