"""ClipBy: every row ends at the first start in another stream strictly after its own start.

    out = { (vs, min(ve, s), p) | (vs, ve, p) in input, s = the first start after vs of an event of
            other whose keys equal p's; INF if there is none }

Of the other stream only starts count: an adjust that does not remove its event changes nothing. A start
that comes shortens the rows between the start before it and itself, one that goes lengthens them.
Inserts and adjusts of the input pass with both ends cut at the row's next start. Null keys equal
nothing: such rows of the input pass as they are, such rows of the other stream are not looked at.

Pass: what the batch changes. Keep: of the other stream the starts that may still go or be the next one
of a row that is yet to come. Of the input the rows that may still end elsewhere, by an adjust or by
another start. A row that is cut at c ends there for ever once the other has promised that nothing
up to c changes and the input that nothing before c does: then the row is forgotten, even one without
end, and c with it if no other row needs it. Adjusts of it are still valid, but move its end
between times that are not before c. They are passed over; how they are known, `_forgotten` says.
Propagate: the smaller one of both promises. On the input's side a change at t is seen at t, or not at
all if the row is cut before t. A start s that comes or goes moves ends between s and something later,
so the change has sync s.

Promises about key columns alone close keys, each port its own, and do to them what ctis do to all. What
one port has closed is remembered until the other has. Starts of a key that the input has closed for
ever, and of which it has no row, are not looked at. Propagate: keys that both have closed, up to the
smaller time.

    in:      a [0, 20)                       a [0, 20) -> [0, 9)
    other:               x [7, 8)   y [5, 6)                       y gone   x gone
    out:     a [0, 20)   -> [0, 7)  -> [0, 5)                      -> [0, 7)  -> [0, 9)

StreamInsight's ClipEventDuration.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from slackwater.columns import nulls_in
from slackwater.events import Batch
from slackwater.kernels import successors
from slackwater.kernels.grouping import Keys
from slackwater.kernels.slabs import Changes, Ints, Mask, Slabs
from slackwater.operators.closing import Closed, Ports
from slackwater.operators.projection import Apart, of_columns
from slackwater.operators.step import Answer, Description
from slackwater.plan import nodes
from slackwater.promises import Promises
from slackwater.punctuations import Promise, Punctuation
from slackwater.state import sweep_after
from slackwater.times import INF

__all__ = ["ClipBy", "State"]

kernel: Any = successors
"""compiled functions, which mypy cannot follow"""

_INPUT, _OTHER = 0, 1


@dataclass(slots=True)
class State:
    """Keys and payloads by number; per key the input's (vs, ve, payload)s and the other's starts."""

    keys: Keys
    payloads: Keys
    events: Slabs
    starts: Slabs
    promised: list[Promises]
    ports: Ports
    """what one port has closed and the other has not"""
    apart: tuple[Apart, Apart] = field(default_factory=lambda: (Apart(), Apart()))
    """of each side, promises about other columns than keys"""
    sweep_at: int = field(default_factory=lambda: sweep_after(0))

    @property
    def ctis(self) -> list[int]:
        """Of each port."""
        return [promises.cti for promises in self.promised]

    def limits(self, key: Ints) -> Ints:
        """Up to when each port has closed these keys."""
        until = np.full((len(key), 2), self.ctis)
        return np.maximum(until, self.ports.until[key]) if self.ports.told else until

    def remembered(self) -> int:
        """How much there is, in use or not."""
        return max(self.events.total + self.starts.total, len(self.payloads), len(self.keys))


@dataclass(frozen=True, slots=True)
class ClipBy:
    """The step of a `ClipBy` node."""

    node: nodes.ClipBy

    def open(self) -> State:
        """No rows, no starts, no promises."""
        schema = self.node.schema
        keys = Keys(pl.Schema({key: schema[key] for key in self.node.on}))
        promised, ports = [Promises(), Promises()], Ports.of(keys.schema)
        return State(keys, Keys(schema), Slabs(3), Slabs(1), promised, ports)

    def on_batch(self, state: State, port: int, rows: Batch) -> Batch:
        """Rows of the input cut, or new ends for those that the other's starts cut otherwise."""
        if not rows.rows:
            return Batch.empty(self.node.schema)
        return self._cut(state, rows) if port == _INPUT else self._cut_otherwise(state, rows)

    def _cut(self, state: State, rows: Batch) -> Batch:
        matching = self._matching(rows)
        some = rows if matching.all() else rows.where(matching)
        until = np.full(rows.rows, INF, dtype=np.int64)
        if some.rows:
            key = state.keys.number(some.payload)
            _admit(state, some.rows)
            until[matching] = _cuts(state, some, key)
        # an end at vs, which means that the event does not exist, is before every cut
        old_ve, new_ve = np.minimum(rows.old_ve, until), np.minimum(rows.new_ve, until)
        return Batch(rows.vs, old_ve, new_ve, rows.payload).where(old_ve != new_ve)

    def _cut_otherwise(self, state: State, rows: Batch) -> Batch:
        change = (rows.new_ve > rows.vs).astype(np.int64) - (rows.old_ve > rows.vs)
        comes_or_goes = (change != 0) & self._matching(rows)
        if not comes_or_goes.any():
            return Batch.empty(self.node.schema)
        rows, change = rows.where(comes_or_goes), change[comes_or_goes]
        key = state.keys.number(rows.payload)
        _admit(state, rows.rows)
        if state.ports.told:
            wanted = ~_has_ended(state, key)
            rows, change, key = rows.where(wanted), change[wanted], key[wanted]
        changes = Changes.net(key, (rows.vs,), change)
        place, old_ve, new_ve = _moved(state, changes)
        events = state.events
        each = np.repeat(np.arange(len(place)), events.count[place])
        vs, _, payload = np.ascontiguousarray(events.rows[place[each]].T)
        return Batch(vs, old_ve[each], new_ve[each], state.payloads.take(payload))

    def _matching(self, rows: Batch) -> Mask:
        """Which rows have keys that can equal others."""
        matching = np.ones(rows.rows, dtype=np.bool_)
        for key in self.node.on:
            if key in self.node.nulls_match:
                continue
            column = rows.payload[key]
            if column.null_count():
                matching &= ~nulls_in(column)
        return matching

    def on_punctuation(self, state: State, port: int, punctuation: Punctuation) -> Answer:
        """What both ports have promised; rows and starts that it settles are forgotten, now and then."""
        before = state.ctis
        state.promised[port] = state.promised[port].with_(punctuation)
        state.apart[port].free(punctuation.before)
        promise = min(state.ctis)
        promises: list[Promise] = [Punctuation(promise)]
        closed = state.ports.reach(port, state.keys, before, state.ctis)
        if closed is not None:
            promises += self._closed(state, closed)
        if promise == INF or (promise > min(before) and state.remembered() >= state.sweep_at):
            _sweep(state)
        return Answer(tuple(promises))

    def on_patterns(self, state: State, port: int, told: Sequence[Promise]) -> Answer:
        """Keys are closed: what both ports have closed is forgotten, and promised."""
        schema, cti = self.node.inputs[port].schema, state.promised[port].cti
        told = of_columns(state.apart[port], told, self.node.on, schema, cti)
        given_up = state.apart[port].note(schema)
        if not told:
            return Answer(given_up=given_up)
        promises = self._closed(state, state.ports.tell(port, told, state.keys, state.ctis))
        if state.remembered() >= state.sweep_at:
            _sweep(state)
        return Answer(tuple(promises), given_up=given_up)

    @staticmethod
    def _closed(state: State, closed: Closed) -> list[Promise]:
        _admit(state)
        _forget(state, closed.key)
        return closed.promises(state.keys)

    def describe(self, state: State) -> Description:
        """One row per event of the input and start of the other stream that is remembered."""
        held_by = min((_INPUT, _OTHER), key=lambda port: state.promised[port].cti)
        return Description(state.events.total + state.starts.total, held_by)


def _admit(state: State, rows: int = 0) -> None:
    state.events.admit(len(state.keys))
    state.starts.admit(len(state.keys))
    state.ports.hear(state.keys, rows)


def _cuts(state: State, rows: Batch, key: Ints) -> Ints:
    """Where each row of the input is cut; those that matter are remembered."""
    starts = state.starts
    # a copy, since columns of a batch may be read-only or not contiguous
    vs = np.array(rows.vs, dtype=np.int64)
    cuts: Ints = kernel.successors(starts.start, starts.size, starts.rows, key, vs)
    forgotten = _forgotten(state, rows, key)
    if forgotten.any():
        # the cut is forgotten, too; it is not after the promise, where both ends are or later
        cuts[forgotten] = state.limits(key[forgotten])[:, _INPUT]
        rows, key = rows.where(~forgotten), key[~forgotten]
    _remember(state, rows, key)
    return cuts


def _forgotten(state: State, rows: Batch, key: Ints) -> Mask:
    """Which rows are adjusts of events that were forgotten, since their cut is final.

    An event that is adjusted and starts before the promise has been here before this batch, hence is
    remembered or was forgotten. Of those with its key and start all were forgotten or none, and none
    has come since: that one is remembered says that this one is, whatever it was adjusted to meanwhile
    and however many are equal to it.
    """
    forgotten: Mask = (rows.old_ve > rows.vs) & (rows.vs < state.limits(key)[:, _INPUT])
    if forgotten.any():
        events = state.events
        forgotten[forgotten] = ~kernel.begin_at(
            events.start, events.size, events.rows, key[forgotten], rows.vs[forgotten]
        )
    return forgotten


def _remember(state: State, rows: Batch, key: Ints) -> None:
    """The input's events as they are now."""
    moved = rows.old_ve != rows.new_ve
    was, will_be = moved & (rows.old_ve > rows.vs), moved & (rows.new_ve > rows.vs)
    payload = state.payloads.number(rows.payload)
    changes = Changes.net(
        np.concatenate([key[was], key[will_be]]),
        (
            np.concatenate([rows.vs[was], rows.vs[will_be]]),
            np.concatenate([rows.old_ve[was], rows.new_ve[will_be]]),
            np.concatenate([payload[was], payload[will_be]]),
        ),
        np.repeat([-1, 1], [np.count_nonzero(was), np.count_nonzero(will_be)]),
    )
    state.events.merge(changes)


def _moved(state: State, changes: Changes) -> tuple[Ints, Ints, Ints]:
    """Take in the starts that come and go. Events that end elsewhere now, their old and new end."""
    starts, events = state.starts, state.events
    before, _ = starts.get(changes)
    after = before + changes.delta
    # first those that come: then all starts are there that were or are
    more = changes.delta > 0
    starts.merge(changes.where(more))
    toggled = (before > 0) != (after > 0)
    key, mark, came = changes.key[toggled], changes.rows[toggled, 0], after[toggled] > 0
    given = (
        *(starts.start, starts.size, starts.rows),
        *(key, mark, came),
        *(events.start, events.size, events.rows),
    )
    none = np.empty(0, dtype=np.int64)
    moved = kernel.moved(*given, False, none, none, none)
    place, old_ve, new_ve = (np.empty(moved, dtype=np.int64) for _ in range(3))
    kernel.moved(*given, True, place, old_ve, new_ve)
    starts.merge(changes.where(~more))
    return place, old_ve, new_ve


def _has_ended(state: State, key: Ints) -> Mask:
    """Of which keys the input has no events and gets none: nobody asks for their starts."""
    ended: Mask = (state.ports.until[key, _INPUT] == INF) & (state.events.size[key] == 0)
    return ended


def _forget(state: State, key: Ints) -> None:
    """Drop what is final of some keys."""
    events, starts = state.events, state.starts
    limits = state.limits(key)
    went, went_starts = kernel.forget(
        starts.start, starts.size, starts.room, starts.rows,
        events.start, events.size, events.rows, events.count,
        key, np.ascontiguousarray(limits[:, _INPUT]), np.ascontiguousarray(limits[:, _OTHER]),
    )  # fmt: skip
    events.total -= went
    starts.total -= went_starts
    if state.ports.told:
        ended = key[_has_ended(state, key)]
        starts.total -= int(starts.size[ended].sum())
        starts.size[ended] = 0


def _sweep(state: State) -> None:
    """Drop what is final, close the holes, and forget keys and payloads that are not in use."""
    events, starts = state.events, state.starts
    _admit(state)
    _forget(state, np.arange(len(state.keys)))
    alive = (events.size[: len(state.keys)] > 0) | (starts.size[: len(state.keys)] > 0)
    if state.ports.told:
        alive |= state.ports.in_use(state.ctis)
        state.ports.renumber(alive)
    state.keys.keep(alive)
    events.compact(alive)
    starts.compact(alive)
    places = events.places()
    used = np.zeros(len(state.payloads), dtype=np.bool_)
    used[events.rows[places, 2]] = True
    numbers = state.payloads.keep(used)
    events.rows[places, 2] = numbers[events.rows[places, 2]]
    state.sweep_at = sweep_after(events.total + starts.total)
