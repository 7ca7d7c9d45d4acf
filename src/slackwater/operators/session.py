"""Session: every row lives until a gap after the last start of its session.

    out = { (vs, last(vs) + gap, p) | (vs, ve, p) in input },   last(t) = last(t') if t' < t + gap is the
            next start of the key after t, else t

Only starts count: an adjust that does not remove its event changes nothing. An insert may lengthen the
rows before it, by continuing their session or by joining it to the next; a removal may shorten them.
Rows that start later keep their ends. A batch changes the rows before each of its starts as far back
as they belong to one session, and those only if that session's last start is another one now.

Pass: what the batch changes. Keep: the starts and payloads of sessions that may still go on, that is,
whose last start is less than the gap before the cti. Propagate: cti(t) as it is. A row's end can only
move between l + gap and some later time, where l is the last start of its session before or after the
change. The first start s that follows l in the other of the two has then come or gone, so that s >= t;
and it was or is linked to l, so that s < l + gap. The change has sync l + gap > s >= t.

Promises about key columns alone do the same to the keys that they speak of. Keep: nothing of a key that
is closed for ever; else what may go on after the promised time. Propagate: the promise as it is, for the
same reason.

    gap 5   in:   a [0, 1)   b [3, 9)                       cti(6)   b [3, 9) -> [3, 7)   c [7, 8)
            out:  a [0, 5)   a [0, 5) -> [0, 8)  b [3, 8)   cti(6)                        c [7, 12)
                                                                         a [0, 8) -> [0, 12), b likewise

Flink's and Spark's session windows, as lifetimes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from slackwater.events import Batch
from slackwater.kernels import chains
from slackwater.kernels.grouping import Keys
from slackwater.kernels.slabs import NOTHING, Changes, Ints, Slabs
from slackwater.operators.closing import frontiers, matched
from slackwater.operators.projection import Apart, of_columns
from slackwater.operators.step import Answer, Description
from slackwater.plan import nodes
from slackwater.punctuations import Promise, Punctuation
from slackwater.state import sweep_after
from slackwater.times import BEGIN, INF, plus

__all__ = ["Session", "State"]

kernel: Any = chains
"""compiled functions, which mypy cannot follow"""


@dataclass(slots=True)
class State:
    """Keys and payloads by number; per key the (start, payload)s, and the last start said of each."""

    keys: Keys
    payloads: Keys
    starts: Slabs
    cti: int = BEGIN
    apart: Apart = field(default_factory=Apart)
    """promises about other columns than keys"""
    sweep_at: int = field(default_factory=lambda: sweep_after(0))


@dataclass(frozen=True, slots=True)
class Session:
    """The step of a `Session` node."""

    node: nodes.Session

    def open(self) -> State:
        """No rows."""
        schema = self.node.schema
        return State(
            Keys(pl.Schema({key: schema[key] for key in self.node.keys})), Keys(schema), Slabs(2)
        )

    def on_batch(self, state: State, port: int, rows: Batch) -> Batch:
        """Rows that come and go, and new ends for those whose session has another last start."""
        change = (rows.new_ve > rows.vs).astype(np.int64) - (rows.old_ve > rows.vs)
        comes_or_goes = change != 0
        if not comes_or_goes.all():
            rows, change = rows.where(comes_or_goes), change[comes_or_goes]
        if not rows.rows:
            return Batch.empty(self.node.schema)
        key = state.keys.number(rows.payload)
        changes = Changes.net(key, (rows.vs, state.payloads.number(rows.payload)), change)
        return self._emitted(state, _absorbed(state, changes, self.node.gap))

    def _emitted(self, state: State, moves: _Moves) -> Batch:
        old_ve = np.where(moves.old_last == NOTHING, moves.vs, plus(moves.old_last, self.node.gap))
        new_ve = np.where(moves.new_last == NOTHING, moves.vs, plus(moves.new_last, self.node.gap))
        each = np.repeat(np.arange(len(moves.vs)), np.where(old_ve == new_ve, 0, moves.copies))
        payload = state.payloads.take(moves.payload[each])
        return Batch(moves.vs[each], old_ve[each], new_ve[each], payload)

    def on_punctuation(self, state: State, port: int, punctuation: Punctuation) -> Answer:
        """Sessions that have ended are forgotten, now and then; the promise holds as it is."""
        cti, starts = punctuation.before, state.starts
        state.cti = max(state.cti, cti)
        state.apart.free(cti)
        if cti == INF:
            starts.clear()
        elif max(starts.total, len(state.payloads)) < state.sweep_at:
            return Answer((punctuation,))
        else:
            kernel.forget_ended(starts.start, starts.size, starts.room, starts.said, self.node.gap, cti)
        _sweep(state)
        return Answer((punctuation,))

    def on_patterns(self, state: State, port: int, told: Sequence[Promise]) -> Answer:
        """Keys are closed: their sessions that have ended are forgotten; the promise holds as it is."""
        told = of_columns(state.apart, told, self.node.keys, self.node.schema, state.cti)
        key, until = frontiers(matched(state.keys, told))
        starts = state.starts
        starts.admit(len(state.keys))
        tables = starts.start, starts.size, starts.room, starts.said
        starts.total -= kernel.close(*tables, self.node.gap, key, until)
        if max(starts.total, len(state.payloads)) >= state.sweep_at:
            _sweep(state)
        return Answer(tuple(told), given_up=state.apart.note(self.node.schema))

    def describe(self, state: State) -> Description:
        """One row per start and payload that is remembered."""
        return Description(state_rows=state.starts.total)


class _Moves(NamedTuple):
    """Copies of a start and payload, and the last start of their session before and after a batch.

    NOTHING in place of a last start means that they are not there.
    """

    vs: Ints
    payload: Ints
    old_last: Ints
    new_last: Ints
    copies: Ints


def _absorbed(state: State, changes: Changes, gap: int) -> _Moves:
    """Take in what comes and goes; what that changes."""
    starts = state.starts
    starts.admit(len(state.keys))
    before, old_last = starts.get(changes)
    starts.merge(changes)
    place, was, is_now = _relinked(starts, changes, gap)
    after, new_last = starts.get(changes)
    both, nothing = np.minimum(before, after), np.full(len(changes), NOTHING)
    parts = (
        (*starts.rows[place].T, was, is_now, starts.count[place]),
        (*changes.rows.T, old_last, new_last, both),
        (*changes.rows.T, old_last, nothing, before - both),
        (*changes.rows.T, nothing, new_last, after - both),
    )
    return _Moves._make(np.concatenate(columns) for columns in zip(*parts, strict=True))


def _relinked(starts: Slabs, changes: Changes, gap: int) -> tuple[Ints, Ints, Ints]:
    """Rows that the batch does not name and whose last start is another one now."""
    given = (starts.start, starts.size, starts.rows, starts.said, changes.key, changes.rows, gap)
    none = np.empty(0, dtype=np.int64)
    moved = kernel.relink(*given, False, none, none, none)
    place, was, is_now = (np.empty(moved, dtype=np.int64) for _ in range(3))
    kernel.relink(*given, True, place, was, is_now)
    return place, was, is_now


def _sweep(state: State) -> None:
    """Close the holes, and forget keys and payloads that are not in use."""
    starts = state.starts
    alive = starts.size[: len(state.keys)] > 0
    state.keys.keep(alive)
    starts.compact(alive)
    places = starts.places()
    used = np.zeros(len(state.payloads), dtype=np.bool_)
    used[starts.rows[places, 1]] = True
    numbers = state.payloads.keep(used)
    starts.rows[places, 1] = numbers[starts.rows[places, 1]]
    state.sweep_at = sweep_after(starts.total)
