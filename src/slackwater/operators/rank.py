"""Rank: for each group and snapshot, one row per live event, with its place among them.

    out = { (t_i, t_i+1, payload, place) | t_i, t_i+1 consecutive endpoints of the group's events,
            payload in alive(group, t_i) }
    place = 1 + |{ other in alive(group, t_i) | value(other) before value(payload) }|, null for a null

Equal values share a place, and exact duplicates give equal rows. NaN is the largest number; a null has
no place and is before nobody.

Inserts and adjusts change a stretch of their group's timeline. Within it, all rows of a snapshot end
where it ends; a row is taken back and said again only if its place is another. A snapshot that began
before the cti keeps its rows and may only get another end.

Output latency is as in Aggregate: EAGER shows all snapshots, PERFECTNESS_PRESERVING those that end by
the output watermark, ORDER_PRESERVING also the open one, as [t, INF).

Pass: what the batch changes; on cti(t), all snapshots that end by t. Keep: per group the endpoints, and
who comes and goes there, from the cti on; who is alive at one of them, by value; every payload and its
value once. Propagate: as Aggregate, whose promises are made of the same timelines.

Promises about key columns alone: as Aggregate, too. Other promises speak of events whose place others
may still change.

    by v    in:   5 [0, 10)    3 [4, 6)
    EAGER   out:  5 #1 [0, 10)   5 #1 [0, 10) -> [0, 4)   3 #1 [4, 6)   5 #2 [4, 6)   5 #1 [6, 10)

Paper 1a section 3, errata 1 to 5; paper 4 (group-by).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from slackwater.columns import column_of, framed, nulls_in
from slackwater.consistency import OutputLatency
from slackwater.events import Batch
from slackwater.kernels import endpoints, grouping, ranks
from slackwater.kernels.arrays import Spares
from slackwater.kernels.grouping import Keys
from slackwater.kernels.labels import Labels
from slackwater.operators.closing import frontiers, matched, shortened
from slackwater.operators.projection import Apart, of_columns
from slackwater.operators.step import Answer, Description
from slackwater.plan import nodes
from slackwater.plan.evaluation import Formula
from slackwater.plan.expressions import type_of
from slackwater.punctuations import Promise, Punctuation
from slackwater.records import Records
from slackwater.state import is_worth_a_sweep, sweep_after
from slackwater.timelines import Said, Timelines, Touched, Weights
from slackwater.times import BEGIN, INF

__all__ = ["Rank", "State"]

kernel: Any = ranks
endpoint_kernel: Any = endpoints
grouping_kernel: Any = grouping
"""compiled functions, which mypy cannot follow"""

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_LOOSE = 16
"""so many rows of a pool for each item and group are too many"""
# what a change is about: the number of its payload, first of its labels in a record and when pending
_IN_RECORD, _IN_PENDING = 2, endpoints.LABELS


@dataclass(slots=True)
class Lists:
    """Who is alive in each group at the cursor of its records, in order of their values."""

    slabs: Ints = field(default_factory=lambda: np.zeros((0, endpoints.SLAB), dtype=np.int64))
    pool: Ints = field(default_factory=lambda: np.zeros((0, ranks.ITEM), dtype=np.int64))
    top: int = 0
    spares: Spares = field(default_factory=Spares)

    def admit(self, groups: int) -> None:
        """There are so many groups now, at least."""
        known = len(self.slabs)
        if groups > known:
            self.slabs = self.spares.enlarged(self.slabs, max(groups, 2 * known), known, fill=0)

    def moved(self, pool: Ints, top: int) -> None:
        """Compiled code has put items there, into a larger pool if it had to.

        What it allocates lies on small pages, which costs a tenth of a batch once there is much. So a
        larger pool is only where its items wait for one of NumPy's.
        """
        if len(pool) > len(self.pool):
            pool = self.spares.enlarged(pool, len(pool), top)
        self.pool, self.top = pool, top

    @property
    def size(self) -> int:
        """How many items there are."""
        return int(self.slabs[:, endpoints.SIZE].sum())

    @property
    def is_loose(self) -> bool:
        """Whether lists that have moved leave so much behind that it is worth packing."""
        return self.top > _LOOSE * (self.size + len(self.slabs))

    def renumber(self, alive: Mask) -> None:
        """Other groups are gone, and these are numbered from 0."""
        self.admit(len(alive))
        keep = np.flatnonzero(alive)
        room = 4 * int(self.slabs[keep, endpoints.SIZE].sum())
        room = max(room, min(len(self.pool), 4 * room))
        slabs = self.spares.filled(
            0, max(len(keep), min(len(self.slabs), 4 * len(keep))), endpoints.SLAB
        )
        pool = self.spares.empty(room, ranks.ITEM)
        self.top = endpoint_kernel.compact(self.slabs, keep, self.pool, slabs, pool)
        self.spares.give_back(self.slabs)
        self.spares.give_back(self.pool)
        self.slabs, self.pool = slabs, pool


@dataclass(slots=True)
class State:
    """The groups in use, the timeline of each, who comes and goes on it and who is alive; payloads."""

    groups: Keys
    timelines: Timelines
    payloads: Keys
    labels: Labels
    records: Records = field(default_factory=lambda: Records(labels=1))
    lists: Lists = field(default_factory=Lists)
    values: Ints = field(default_factory=lambda: np.zeros((0, 3), dtype=np.int64))
    """by number of payload, see kernels/ranks.py; there is room for more"""
    cti: int = BEGIN
    apart: Apart = field(default_factory=Apart)
    """promises about other columns than keys"""
    closed: int = 0
    """groups that are closed for ever and still have a number"""
    sweep_at: int = field(default_factory=lambda: sweep_after(0))
    spares: Spares = field(default_factory=Spares)


@dataclass(frozen=True)
class Rank:
    """The step of a `Rank` node."""

    node: nodes.Rank
    latency: OutputLatency
    value: Formula = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", Formula(self.node.rank.by, self.node.input.schema, "rank"))

    @property
    def _open_ended(self) -> bool:
        return self.latency is OutputLatency.ORDER_PRESERVING

    def open(self) -> State:
        """No groups."""
        schema = self.node.input.schema
        timelines = Timelines(width=1, labels=1)
        if self.latency is OutputLatency.EAGER:
            timelines.horizon = INF
        return State(
            Keys(pl.Schema({key: schema[key] for key in self.node.keys})),
            timelines,
            Keys(schema),
            Labels(type_of(self.node.rank.by, schema, "rank")),
        )

    def on_batch(self, state: State, port: int, rows: Batch) -> Batch:
        """What the rows change in the snapshots that are shown."""
        if not rows.rows:
            return Batch.empty(self.node.schema)
        # the expression first: it may fail, and then nothing has changed
        values = self.value.values(rows.payload)
        number = _numbered(state, rows.payload, values)
        horizon = state.timelines.horizon
        if horizon < INF:
            starts = rows.vs[rows.is_insert]
            if len(starts):
                horizon = max(horizon, int(starts.max()))
        ones = np.ones((rows.rows, 1), dtype=np.int64)
        weights = Weights(state.values[number, ranks.KEY], number.reshape(-1, 1), ones)
        touched = state.timelines.touch(rows, weights, len(state.groups), horizon)
        return self._rows(state, self._follow(state, touched))

    def _follow(self, state: State, what: Touched) -> Ints:
        """Lead records and lists through what was touched: which rows come, go or get another end."""
        timelines, records, lists = state.timelines, state.records, state.lists
        records.admit(len(timelines.slabs))
        lists.admit(len(timelines.slabs))
        cursors = records.cursors(what.touched[:, endpoints.T_KEY])
        script = records.follow(timelines, what)
        is_cut = np.empty(len(what.touched), dtype=np.bool_)
        since = np.empty(len(what.touched), dtype=np.int64)
        pool, top, out, rows = kernel.follow(
            timelines.slabs,
            timelines.entries,
            what.scratch,
            what.touched,
            what.first,
            what.changes,
            records.slabs,
            records.pool,
            cursors,
            script,
            *self._order(state),
            lists.slabs,
            lists.pool,
            lists.top,
            self._open_ended,
            np.empty((what.room, ranks.OUT), dtype=np.int64),
            is_cut,
            since,
        )
        lists.moved(pool, top)
        if not self._open_ended:
            timelines.note(what, is_cut, since)
        found: Ints = out[:rows]
        if self._open_ended:
            # of a snapshot some rows may get another end, and others come with its start
            found = found[np.argsort(np.minimum(found[:, 1], found[:, 2]), kind="stable")]
        return found

    def _order(self, state: State) -> tuple[Ints, Ints, bool]:
        return state.values, state.labels.order, self.node.rank.descending

    def _rows(self, state: State, out: Ints) -> Batch:
        vs, old_ve, new_ve, number, place = (np.ascontiguousarray(column) for column in out.T)
        places = column_of(self.node.column, place)
        if not place.all():
            places = places.set(column_of("", place == 0), None)
        payload = state.payloads.take(number)
        return Batch(vs, old_ve, new_ve, framed([*payload.get_columns(), places], len(vs)))

    def on_punctuation(self, state: State, port: int, punctuation: Punctuation) -> Answer:
        """All snapshots that end by then; then the promise, and what it frees."""
        cti, timelines = punctuation.before, state.timelines
        state.apart.free(cti)
        rows, promise = None, cti
        if self.latency is not OutputLatency.EAGER:
            rows = self._rows(state, self._follow(state, timelines.reach(cti)))
            if not self._open_ended:
                rows = Batch.concat([rows, self._lengthened(state, cti)])
                promise = min(cti, timelines.open_since())
        self._forget(state, cti)
        return Answer((Punctuation(promise),), rows)

    def _lengthened(self, state: State, until: int) -> Batch:
        """Rows that were cut where no endpoint remains: lengthened, if they would be frozen so."""
        return self._longer(state, state.timelines.lengthen_cut(until))

    def _longer(self, state: State, cut: Said) -> Batch:
        key, vs, old_ve, new_ve, *_ = cut
        if not len(key):
            return Batch.empty(self.node.schema)
        records, lists = state.records, state.lists
        at_end = records.cursors(key) == records.slabs[key, endpoints.SIZE]
        assert at_end.all(), "with a horizon, a stretch that is touched goes to the last entry"
        _, *order = self._order(state)
        out = kernel.lengthened(key, vs, old_ve, new_ve, *order, lists.slabs, lists.pool)
        return self._rows(state, out)

    def _forget(self, state: State, cti: int) -> None:
        """Drop what the cti has frozen, now and then."""
        state.cti = max(state.cti, cti)
        if cti < INF and _remembered(state) < state.sweep_at:
            return
        timelines, records, lists = state.timelines, state.records, state.lists
        timelines.sweep(cti)
        records.admit(len(timelines.slabs))
        lists.admit(len(timelines.slabs))
        self._move(state, records.forget(cti))
        _tidy(state, timelines.is_loose(len(state.groups)) or lists.is_loose)

    def _move(self, state: State, script: Ints) -> None:
        """Lead the lists through moves that nobody reads after."""
        lists, order = state.lists, self._order(state)
        lists.moved(*kernel.move(script, *order, lists.slabs, lists.pool, lists.top))

    def on_patterns(self, state: State, port: int, told: Sequence[Promise]) -> Answer:
        """Groups are closed: what is held back of them, and then they are forgotten."""
        timelines, records, lists = state.timelines, state.records, state.lists
        told = of_columns(state.apart, told, self.node.keys, self.node.input.schema, state.cti)
        found = matched(state.groups, told)
        key, until = frontiers(found)
        timelines.admit(len(state.groups))
        records.admit(len(timelines.slabs))
        lists.admit(len(timelines.slabs))
        rows, promises = None, tuple(each.promise for each in found)
        if self.latency is not OutputLatency.EAGER and len(key):
            rows = self._rows(state, self._follow(state, timelines.reach_of(key, until)))
            if not self._open_ended:
                cut = timelines.lengthen_cut_of(key, until)
                rows = Batch.concat([rows, self._longer(state, cut)])
                promises = shortened(found, key, np.minimum(until, timelines.held_back(key)))
        self._move(state, records.close(key, until))
        timelines.close(key, until)
        state.closed += int(np.count_nonzero(until == INF))
        many = is_worth_a_sweep(state.closed, len(state.groups))
        if many or _remembered(state) >= state.sweep_at:
            _tidy(state, many)
        return Answer(promises, rows, state.apart.note(self.node.input.schema))

    def describe(self, state: State) -> Description:
        """One row per endpoint, who comes or goes, and who is alive."""
        return Description(state_rows=state.timelines.rows() + state.records.size + state.lists.size)


def _numbered(state: State, payload: pl.DataFrame, values: pl.Series) -> Ints:
    """The number of each payload. Of those that are new, group and value are kept."""
    known = len(state.payloads)
    number = state.payloads.number(payload)
    count = len(state.payloads)
    if count == known:
        return number
    if count - known < len(number) or (number != np.arange(known, count)).any():
        is_new = np.flatnonzero(number >= known)
        _, first = np.unique(number[is_new], return_index=True)
        payload, values = payload[is_new[first]], values[is_new[first]]
    is_null = nulls_in(values)
    if count > len(state.values):
        state.values = state.spares.enlarged(state.values, max(count, 2 * known), known)
    new = state.values[known:count]
    new[:, ranks.KEY] = state.groups.number(payload)
    new[:, ranks.IS_NULL] = is_null
    new[:, ranks.LABEL] = 0
    if not is_null.all():
        new[~is_null, ranks.LABEL] = state.labels.encode(
            values.drop_nulls() if is_null.any() else values
        )
    return number


def _tidy(state: State, has_few_groups: bool) -> None:
    """Forget groups that are not in use, if that is worth it; and the payloads that nobody uses."""
    if has_few_groups:
        timelines, every = state.timelines, len(state.timelines.slabs)
        alive = timelines.in_use(every)
        state.records.renumber(alive)
        state.lists.renumber(alive)
        groups = state.groups.keep(alive[: len(state.groups)])
        timelines.renumber(alive[: len(groups)], groups)
        known = state.values[: len(state.payloads), ranks.KEY]
        known[:] = groups[known]
        state.closed = 0
    _forget_payloads(state)
    state.sweep_at = sweep_after(_remembered(state))


def _remembered(state: State) -> int:
    return state.timelines.rows() + state.records.size + len(state.payloads)


def _forget_payloads(state: State) -> None:
    """Forget the payloads and values that nobody uses."""
    records, lists, pending = state.records, state.lists, state.timelines.pending
    users = [
        (records.slabs, records.pool, _IN_RECORD),
        (lists.slabs, lists.pool, ranks.NUMBER),
    ]
    count = len(state.payloads)
    used = np.zeros(count, dtype=np.bool_)
    for user in users:
        kernel.mark(*user, used)
    waiting = pending.used()
    kernel.mark_at(waiting, pending.pool, _IN_PENDING, used)
    numbers = state.payloads.keep(used)
    for user in users:
        kernel.rename(*user, numbers)
    kernel.rename_at(waiting, pending.pool, _IN_PENDING, numbers)
    grouping_kernel.pack(state.values, np.flatnonzero(used))
    if state.labels.is_numbered:
        values = state.values[: len(state.payloads)]
        with_value = values[:, ranks.IS_NULL] == 0
        in_use = np.zeros(len(state.labels), dtype=np.bool_)
        in_use[values[with_value, ranks.LABEL]] = True
        labels = state.labels.keep(in_use)
        values[with_value, ranks.LABEL] = labels[values[with_value, ranks.LABEL]]
        kernel.relabel(lists.slabs, lists.pool, values)
