"""Aggregate: for each group, one row per snapshot in which at least one event is alive.

    out = { (t_i, t_i+1, key, result(alive(key, t_i))) | t_i, t_i+1 consecutive endpoints of the key's
            events, alive(key, t_i) not empty }

Inserts and adjusts add and take away weights at endpoints; what a batch changes is the stretch of each
key's timeline between its first and its last change. A snapshot that began before the cti keeps its
value and may only get another end.

Output latency: EAGER shows all snapshots of the input so far. PERFECTNESS_PRESERVING shows those that
end at the output watermark tau or before it, where tau is the largest of the starts seen and of the
endpoints that a cti has passed; ORDER_PRESERVING shows the open one, too, as [t, INF), and shortens it
later.

Pass: what the batch changes; on cti(t), all snapshots that end by t. Keep: per group the endpoints from
the last one before the cti on. Propagate: cti(t); PERFECTNESS_PRESERVING only up to the earliest open
snapshot of which nothing is shown, since it will be inserted with that start. A row that was cut where
no endpoint remains is lengthened to its next one before cti(t) leaves, if that would freeze it.

Promises about key columns alone do the same to the groups that they speak of. Pass: their snapshots that
end before the promised time; all of a group that is closed for ever, which is then final without any
cti. Keep: nothing of that one; of others the endpoints from the promised time on. Propagate: the promise
as it is; PERFECTNESS_PRESERVING as above, group by group. Other promises say nothing about a group.

    count     in:   a [0, 10)   b [4, 6)                                cti(6)
    EAGER     out:  1 [0, 10)   1 [0, 10) -> [0, 4), 2 [4, 6), 1 [6, 10)   cti(6)
    PERFECT.  out:              1 [0, 4)                    2 [4, 6)    cti(6)

Paper 1a section 3, errata 1 to 5 and 8; paper 4 Tables 2 to 4 (group-by).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl

from slackwater.columns import blank, framed, some_columns
from slackwater.consistency import OutputLatency
from slackwater.errors import OperatorError
from slackwater.events import Batch
from slackwater.kernels.grouping import Keys, same_rows
from slackwater.operators import combined, held
from slackwater.operators.closing import frontiers, matched, shortened
from slackwater.operators.projection import Apart, of_columns
from slackwater.operators.step import Answer, Description
from slackwater.operators.sums import DoesNotFit, Layout, Sums, is_linear
from slackwater.plan import nodes
from slackwater.plan.aggregations import Aggregation, Count
from slackwater.plan.rewrites import in_user_terms, user_name
from slackwater.punctuations import Promise, Punctuation
from slackwater.state import is_worth_a_sweep
from slackwater.timelines import Said, Timelines, Touched, Weights
from slackwater.times import INF, show

__all__ = ["Aggregate", "State"]

Ints = npt.NDArray[np.int64]


@dataclass(slots=True)
class State:
    """The keys in use, and the timeline of each; which sums its columns are."""

    keys: Keys
    timelines: Timelines
    layout: Layout
    held: held.State
    apart: Apart = field(default_factory=Apart)
    """promises about other columns than keys"""
    closed: int = 0
    """keys that are closed for ever and still have a number"""


@dataclass(frozen=True)
class Aggregate:
    """The step of an `Aggregate` node."""

    node: nodes.Aggregate
    latency: OutputLatency
    sums: Sums = field(init=False)
    held: held.Held = field(init=False)

    def __post_init__(self) -> None:
        linear: dict[str, Aggregation] = {}
        others: dict[str, Aggregation] = {}
        for name, aggregation in self.node.aggregations.items():
            (linear if is_linear(aggregation) else others)[name] = aggregation
        schemas = self.node.input.schema, self.node.schema
        object.__setattr__(self, "sums", Sums(linear, *schemas))
        object.__setattr__(self, "held", held.Held(others, *schemas))

    @property
    def _shows_size(self) -> bool:
        """Whether groups of different size have different results."""
        counts = [a for a in self.node.aggregations.values() if isinstance(a, Count)]
        return any(not count.values and count.where is None for count in counts)

    @property
    def _is_exact(self) -> bool:
        """Whether results are the same only where the numbers are that they follow from."""
        sums = [a for a in self.node.aggregations.values() if is_linear(a)]
        return self.held.is_exact and all(
            isinstance(a, Count) and not a.values and a.where is None for a in sums
        )

    @property
    def _open_ended(self) -> bool:
        return self.latency is OutputLatency.ORDER_PRESERVING

    def open(self) -> State:
        """No keys."""
        keys = Keys(pl.Schema({key: self.node.input.schema[key] for key in self.node.keys}))
        layout = self.sums.open()
        timelines = Timelines(layout.width, self.held.labels, self.held.width)
        if self.latency is OutputLatency.EAGER:
            timelines.horizon = INF
            # of events that are kept beside the timelines the ends are looked for there
            timelines.endless = not self.held.labels
        return State(keys, timelines, layout, self.held.open())

    def on_batch(self, state: State, port: int, rows: Batch) -> Batch:
        """What the rows change in the snapshots that are shown."""
        if not rows.rows:
            return Batch.empty(self.node.schema)
        # expressions first: they may fail, and then nothing has changed
        weighed = self.sums.weigh(rows.payload)
        evaluated = self.held.evaluated(rows.payload)
        key = state.keys.number(rows.payload)
        labels = self.held.labels_of(state.held, evaluated, rows.vs)
        weights = Weights(key, labels, self.sums.lay(state.layout, weighed, rows.rows))
        return self._taken_in(state, rows, weights)

    def on_sums(self, state: State, rows: Batch, sums: Batch) -> Batch:
        """The same for rows and combined rows at once: see operators/combined.py."""
        weighed = self.sums.weigh(rows.payload)
        events, added = combined.weighed(sums)
        key = np.concatenate([state.keys.number(each.payload) for each in (rows, sums)])
        # both in the columns that they have together
        self.sums.lay(state.layout, weighed, rows.rows)
        of_sums = self.sums.lay(state.layout, added, sums.rows)
        of_sums[:, 0] = events
        weights = np.concatenate([self.sums.lay(state.layout, weighed, rows.rows), of_sums])
        labels = np.zeros((len(key), self.held.labels), dtype=np.int64)
        pairs = zip(_times(rows), _times(sums), strict=True)
        vs, old_ve, new_ve = (np.concatenate(pair) for pair in pairs)
        both = Batch(vs, old_ve, new_ve, blank(len(key)))
        return self._taken_in(state, both, Weights(key, labels, weights))

    def _taken_in(self, state: State, rows: Batch, weights: Weights) -> Batch:
        horizon = state.timelines.horizon
        if horizon < INF:
            starts = rows.vs[rows.is_insert]
            if len(starts):
                horizon = max(horizon, int(starts.max()))
        if state.layout.width > state.timelines.width:
            state.timelines.widen(state.layout.width)
        return self._shown(state, state.timelines.touch(rows, weights, len(state.keys), horizon))

    def _shown(self, state: State, touched: Touched) -> Batch:
        """What the touched entries change in the output."""
        if self.held.width:
            self.held.fill(state.held, state.timelines, touched, state.keys)
        shows_size = self._shows_size or self.sums.follow_size
        timelines = state.timelines
        open_ended = self._open_ended or timelines.endless
        return self._rows(state, timelines.say(touched, open_ended=open_ended, shows_size=shows_size))

    def _rows(self, state: State, said: Said) -> Batch:
        if not len(said.key):
            return Batch.empty(self.node.schema)
        try:
            results = self.sums.results(state.layout, said.sums)
            results |= self.held.results(state.held, said.results)
        except DoesNotFit as problem:
            at = problem.row
            [key] = in_user_terms(state.keys.take(said.key[at : at + 1])).to_dicts()
            who = f"group {key}, from" if key else "from"
            raise OperatorError(
                problem.fact,
                detail=f"{user_name(self.node.describe())}: {who} {show(int(said.vs[at]))} on",
                hint="cast the column to pl.Decimal(38, 0), whose sums are exact, or to a float",
            ) from problem
        columns = [results[name] for name in self.node.aggregations]
        key_columns = state.keys.take(said.key).get_columns() if self.node.keys else []
        rows = Batch(said.vs, said.old_ve, said.new_ve, framed([*key_columns, *columns], len(said.vs)))
        if self._is_exact:
            return rows
        return _without_repetition(rows, said, list(self.node.aggregations), self._shows_size)

    def on_punctuation(self, state: State, port: int, punctuation: Punctuation) -> Answer:
        """All snapshots that end by then; then the promise, and what it frees."""
        cti, timelines = punctuation.before, state.timelines
        state.apart.free(cti)
        rows, promise = None, cti
        if self.latency is not OutputLatency.EAGER:
            rows = self._shown(state, timelines.reach(cti))
            if not self._open_ended:
                lengthened = timelines.lengthen_cut(cti)
                if len(lengthened.key):
                    rows = Batch.concat([rows, self._rows(state, lengthened)])
                promise = min(cti, timelines.open_since())
        if timelines.forget(cti):
            self._forget(state, cti)
        return Answer((Punctuation(promise),), rows)

    def on_patterns(self, state: State, port: int, told: Sequence[Promise]) -> Answer:
        """Keys are closed: what is held back of them, and then they are forgotten."""
        timelines = state.timelines
        keys, schema = self.node.keys, self.node.input.schema
        told = of_columns(state.apart, told, keys, schema, timelines.frozen)
        found = matched(state.keys, told)
        key, until = frontiers(found)
        timelines.admit(len(state.keys))
        rows, promises = None, tuple(each.promise for each in found)
        if self.latency is not OutputLatency.EAGER and len(key):
            rows = self._shown(state, timelines.reach_of(key, until))
            if not self._open_ended:
                rows = Batch.concat([rows, self._rows(state, timelines.lengthen_cut_of(key, until))])
                promises = shortened(found, key, np.minimum(until, timelines.held_back(key)))
        self._close(state, key, until)
        return Answer(promises, rows, state.apart.note(schema))

    def _close(self, state: State, key: Ints, until: Ints) -> None:
        """Forget what is frozen of keys; those that are closed for ever, when there are many."""
        timelines = state.timelines
        if self.held.width:
            self.held.close(state.held, timelines, key, until, state.keys)
        timelines.close(key, until)
        state.closed += int(np.count_nonzero(until == INF))
        if is_worth_a_sweep(state.closed, len(state.keys)) or self.held.is_loose(state.held):
            self._renumber(state)

    def _forget(self, state: State, cti: int) -> None:
        """What the timelines have forgotten, others need no longer, either."""
        timelines = state.timelines
        if self.held.width:
            self.held.forget(state.held, timelines, cti, state.keys)
        if timelines.is_loose(len(state.keys)) or self.held.is_loose(state.held):
            self._renumber(state)

    def _renumber(self, state: State) -> None:
        """Keys that are not in use are forgotten."""
        timelines = state.timelines
        alive = timelines.in_use(len(state.keys))
        timelines.renumber(alive, state.keys.keep(alive))
        if self.held.width:
            self.held.renumber(state.held, timelines, alive)
        state.closed = 0

    def describe(self, state: State) -> Description:
        """One row per endpoint that is remembered; and the events, where sums are not enough.

        With EAGER, and sums alone, an end at INF is none: events that start together and never end are
        one row, however many they are.
        """
        return Description(state_rows=state.timelines.rows() + self.held.rows(state.held))


def _times(rows: Batch) -> tuple[Ints, Ints, Ints]:
    return rows.vs, rows.old_ve, rows.new_ve


def _without_repetition(rows: Batch, said: Said, names: list[str], shows_size: bool) -> Batch:
    """A row that is removed and comes again with the same results just gets its new end."""
    key = said.key
    removed = (rows.new_ve == rows.vs)[:-1]
    again = removed & rows.is_insert[1:] & (rows.vs[1:] == rows.vs[:-1]) & (key[1:] == key[:-1])
    if shows_size:
        again &= said.sums[1:, 0] == said.sums[:-1, 0]
    candidates = np.flatnonzero(again)
    if not len(candidates):
        return rows
    results = some_columns(rows.payload, names)
    pairs = candidates[same_rows(results, candidates, candidates + 1)]
    if not len(pairs):
        return rows
    new_ve = rows.new_ve.copy()
    new_ve[pairs] = rows.new_ve[pairs + 1]
    keep = np.ones(rows.rows, dtype=np.bool_)
    keep[pairs + 1] = False
    merged = Batch(rows.vs, rows.old_ve, new_ve, rows.payload)
    return merged.where(keep & (rows.old_ve != new_ve))
