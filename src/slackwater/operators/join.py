"""Join: pairs of rows that match, alive while both are; and the parts of rows that match nothing.

    pairs = { (max(l.vs, r.vs), min(l.ve, r.ve), l.p + r.p) | l in left, r in right, l.key = r.key,
              where(l.p + r.p), not empty }
    alone(left) = { ([vs, ve) of every maximal part of l that no r covers, l.p + nulls) | l in left }

    inner: pairs   left: pairs + alone(left)   full: pairs + alone(left) + alone(right)
    anti: alone(left), without the nulls

A row of either input that comes, moves its end or goes does the same to its common lifetime with every
row of the other input that it meets: one formula for all, see kernels/pairs.py. Changes of one event
within a batch are taken together first, so nothing is said that the same batch takes back. A null key
matches nothing. `where` looks at payloads only, hence a pair satisfies it always or never. A pair for
which it has no value stops the query; with LEDGER the pair is left out, and every change of it. Nobody
knows whether its rows are alone while it lasts, so that is not said, either.

What a row is alone is the difference of its lifetime and those of its pairs, as a set: its own
timeline, see kernels/runs.py. A part that began before the cti keeps its start. An anti join without
`where` only asks whether there is a partner: of its right input it remembers where each key is covered.

Output latency concerns what is alone; pairs, and rows whose key is null, are whole rows that no other
row can change, and are shown at once. EAGER shows the answer over the input so far;
PERFECTNESS_PRESERVING a part when its end is final, for input that is perfect: when the watermark, the
largest of the starts and ctis of both inputs, has reached it; ORDER_PRESERVING shows it from its start
on, without end until that is final. operators/runs.py has the details.

Order: unless EAGER, all that follows from a batch is said by sync. Perfect input, merged by sync, gives
perfect output: all pairs together, and what each row is alone. Ordered input gives ordered output with
ORDER_PRESERVING, for which it does two things more. An end that went back and forth within a batch, 20
to 4 to 9, goes that way: 20 to 9 would have sync 9, and the next element may have 5. And as long as the
input is in order, what is said of a pair or of a null key moves the watermark, too: what is alone and
ends before that is said no later. (Other input may tell of ends far ahead, and of no time.)

Pass: every change of a pair, at once; of what is alone, what the batch changes and what the watermark
has reached. Keep: the events of both inputs, by key, until they end behind the ctis of *both*: behind
its own no adjust can name an event any more, and behind the other's it meets nothing new (erratum 14);
for rows that may be alone, their timelines from the smaller cti on. An EAGER inner join does not even
begin to keep an event that ends by the other's cti: it meets who is there, an adjust says
itself what it names, and one that makes it last longer is where it begins to be kept. On loops that is
nearly all that goes round. Propagate: the smaller cti;
PERFECTNESS_PRESERVING only up to the earliest start of a part that is not shown yet.

Promises about key columns alone close keys, each side its own. Pass: what is alone of keys that both
sides have closed, up to the smaller time. Keep: an event until it ends behind what both sides have
closed of its key; until it ends behind what the other has, if its own side never adjusts; not at all, if
it is not shown alone and the other side has ended: closed the key for ever, with no event of it left.
What comes of such keys is not looked at, adjusts included, and it is said to be of no interest. And what
one side has closed, until the other has. Propagate: keys that both sides have closed, up to the smaller
time; or one of them, if it has no event of the key and the other is not shown alone. A promise about
other columns of a side: if it speaks of none of the events kept (erratum 27), by the names that the
output has. On a loop it is asked instead (`closed_until`), and then rows of the kept side that such a
pattern speaks of count by their keys: they meet nothing new as far as the other side has closed these.

    left:   a [0, 10)                                    a [0, 10) -> [0, 7)   cti(9)
    right:               a [5, 20)   cti(6)
    inner:               a [5, 10)                       a [5, 10) -> [5, 7)   cti(6)
    anti:   a [0, 10)    a [0, 10) -> [0, 5)                                   cti(6)
    anti, PERFECT.:      a [0, 5)                                              cti(6)

Paper 1b section 4.3, errata 10 and 14; paper 4 Tables 3 and 4 (join), erratum 27.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl

import slackwater.state
from slackwater.columns import blank, framed, nothing, some_columns, taken
from slackwater.consistency import OutputLatency
from slackwater.events import Batch
from slackwater.kernels import runs
from slackwater.kernels.grouping import Keys
from slackwater.kernels.pairs import SIZE
from slackwater.operators.closing import Closed, Ports, about, closings_of
from slackwater.operators.join_asked import Inquiry, key_columns
from slackwater.operators.join_pairs import Pairs, Said, numbers_of
from slackwater.operators.live_events import Changes, LiveEvents, Meetings, netted, stable_order
from slackwater.operators.payload_store import Payloads
from slackwater.operators.projection import Apart, of_columns
from slackwater.operators.runs import Changed, Runs
from slackwater.operators.step import Answer, Ask, Description, GivenUp
from slackwater.plan import nodes
from slackwater.plan.properties import infer
from slackwater.promises import Promises
from slackwater.punctuations import Closings, Promise, Punctuation, unmatched
from slackwater.times import BEGIN, INF, Times

__all__ = ["Join", "State"]

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_LEFT, _RIGHT = 0, 1

_HALF, _HARDLY_ANY = 0.5, 0.25
"""that much of the state is worth a sweep at any time, and so little none"""
_LOOSE = 4
"""so many times as many keys as rows cost too much to look through"""


@dataclass(slots=True)
class State:
    """The keys in use, what is alive on each side, and what each side has promised."""

    keys: Keys
    sides: tuple[LiveEvents, LiveEvents]
    alone: dict[int, Runs]
    """for a side whose unmatched parts are shown, by event: its lifetime, and those of its pairs"""
    covered: Runs | None
    """by key: where the right side has a partner, if that is all that matters"""
    ports: Ports
    """what one side has closed and the other has not"""
    promised: list[Promises] = field(default_factory=lambda: [Promises(), Promises()])
    apart: tuple[Apart, Apart] = field(default_factory=lambda: (Apart(), Apart()))
    """of each side, promises about other columns than keys"""
    last_sync: int = BEGIN
    """the largest so far, as long as syncs do not decrease; then INF. ORDER_PRESERVING asks"""
    sweep_at: int = field(default_factory=lambda: slackwater.state.SWEEP_FROM)
    held_sweep_at: int = field(default_factory=lambda: 2 * slackwater.state.SWEEP_FROM)
    """... while one side holds the cti back: little can be forgotten then, and soon much"""

    @property
    def ctis(self) -> list[int]:
        """Of each side."""
        return [promises.cti for promises in self.promised]

    def rows(self) -> int:
        """How many events and endpoints are remembered."""
        return sum(side.count for side in self.sides) + self._endpoints()

    def stored(self) -> int:
        """The same, with what has gone and is not yet swept away."""
        return sum(side.payloads.height for side in self.sides) + self._endpoints()

    def _endpoints(self) -> int:
        runs = [*self.alone.values(), *([self.covered] if self.covered else [])]
        return sum(each.rows() for each in runs)


@dataclass(frozen=True, slots=True)
class Join:
    """The step of a `Join` node."""

    node: nodes.Join
    latency: OutputLatency
    read: Collection[str] | None = None
    """the columns that anybody reads, if not all"""
    pairs: Pairs = field(init=False)
    never_adjusts: tuple[bool, bool] = field(init=False)
    """whether a side only inserts, so that no element can name an event of it again"""

    def __post_init__(self) -> None:
        left, right = (infer(side)[side].insert_only for side in self.node.inputs)
        object.__setattr__(self, "never_adjusts", (left, right and not self._only_covers))
        # beside rows that are alone, pairs have all columns
        read = self.read if self.node.how == "inner" else None
        object.__setattr__(self, "pairs", Pairs(self.node, read))

    @property
    def _only_covers(self) -> bool:
        """Whether all that matters of the right side is where it has a partner; that moves."""
        return self.node.how == "anti" and self.node.where is None

    def open(self) -> State:
        """Nothing is alive, nothing is promised."""
        node = self.node
        keys = Keys(pl.Schema({name: node.left.schema[name] for name in node.on}))
        left = LiveEvents(
            Payloads(node.left.schema), [name for name in node.left.schema if name not in node.on]
        )
        others = [name for name in node.right.schema if name in node.right_names]
        stored = node.right.schema if node.how == "full" else {n: node.right.schema[n] for n in others}
        right = LiveEvents(Payloads(pl.Schema(stored)), others)
        covered = None
        if self._only_covers:
            right = LiveEvents(Payloads(pl.Schema()), [])
            covered = Runs(runs.DISTINCT, OutputLatency.EAGER)
        preserved = {"inner": (), "left": (_LEFT,), "anti": (_LEFT,), "full": (_LEFT, _RIGHT)}[node.how]
        alone = {port: Runs(runs.ALONE, self.latency) for port in preserved}
        return State(keys, (left, right), alone, covered, Ports.of(keys.schema))

    def on_batch(self, state: State, port: int, rows: Batch) -> Answer:
        """What the rows change in the pairs that they belong to, and in what is alone."""
        columns = key_columns(self.node, port)
        whole, given_up, changes, met = [], None, None, None
        seen = int(rows.vs[rows.is_insert].max(initial=BEGIN)) if state.alone else BEGIN
        is_ordered = self.latency is OutputLatency.ORDER_PRESERVING and _is_ordered(state, rows)
        keyless = _lacks(rows, [name for name in columns if name not in self.node.nulls_match])
        if keyless is not None:
            if port in state.alone:
                whole.append(self._alone(port, rows.where(keyless & (rows.old_ve != rows.new_ve))))
            rows = rows.where(~keyless)
        if rows.rows and self._pass_by(state, port, rows):
            changes, met, pairs, given_up = self._passing(state, port, rows, columns)
            whole += pairs
        elif rows.rows:
            key = state.keys.number(self._keys(rows.payload, columns))
            if state.ports.told:
                some = ~_is_barren(state, port, key)
                rows, key = rows.where(some), key[some]
            if port == _RIGHT and state.covered is not None:
                rows, key = _covered(state.covered, rows, key, len(state.keys))
            by_least = self.latency is OutputLatency.ORDER_PRESERVING and self.node.how != "anti"
            changes = state.sides[port].apply(rows, key, len(state.keys), by_least=by_least)
            met, pairs, given_up = self._pairs(state, port, changes)
            whole += pairs
        if is_ordered:
            seen = max([seen, *(int(part.sync.max(initial=BEGIN)) for part in whole)])
        alone: list[Batch] = []
        for side, own in state.alone.items():
            if changes is None or met is None or (side != port and not len(met.vs)):
                changed = own.advance(seen)
            else:
                row = numbers_of(port, changes, met)[side]
                lives, row, copies = _lives(changes if side == port else None, met, row)
                changed = own.absorb(lives, row, copies, state.sides[side].payloads.height, seen)
            alone += self._changed(state, side, changed)
        if changes is not None and state.ports.told and self.never_adjusts[port]:
            done = changes.key[state.ports.until[changes.key, 1 - port] == INF]
            if len(done):
                # they have met all that they can meet
                alone += self._forget_of(state, np.unique(done))[0]
        return Answer(rows=self._in_order([*whole, *alone]), given_up=given_up)

    def _pass_by(self, state: State, port: int, rows: Batch) -> bool:
        """Whether some of these events are, or were, over when anything else comes of the other side."""
        if self.node.how != "inner" or self.latency is not OutputLatency.EAGER:
            return False
        over = state.ctis[1 - port]
        return bool((np.where(rows.is_insert, rows.new_ve, rows.old_ve) <= over).any())

    def _passing(
        self, state: State, port: int, rows: Batch, columns: list[str]
    ) -> tuple[Changes, Meetings, list[Batch], GivenUp | None]:
        """The same where events that are over by the cti of the other side are not stored.

        They meet who is there. What comes later of the other side does not concern them, and an adjust
        says itself what it names. So none is looked for whose end was not behind that cti.
        """
        over = state.ctis[1 - port]
        keys = self._keys(rows.payload, columns)
        key = state.keys.find(keys)
        new = np.flatnonzero((key < 0) & (np.maximum(rows.old_ve, rows.new_ve) > over))
        if len(new):
            key[new] = state.keys.number(taken(keys, new))
        # whose key nobody has, meets nobody
        meets = key >= 0
        if state.ports.told:
            meets[meets] = ~_is_barren(state, port, key[meets])
        changes = netted(rows, key, meets, state.sides[port].identity)
        met, pairs, given_up = self._pairs(state, port, changes, rows.payload)
        lasts = np.maximum(changes.before, changes.now) > over
        if lasts.any():
            # one that is to be longer than that is there from now on
            key, vs, before, now, row = changes.take(np.flatnonzero(lasts))
            stored = Batch(vs, np.where(before <= over, vs, before), now, taken(rows.payload, row))
            state.sides[port].apply(stored, key, len(state.keys))
        return changes, met, pairs, given_up

    def _keys(self, payload: pl.DataFrame, columns: list[str]) -> pl.DataFrame:
        """The key columns, by the names that they have on the left."""
        names = list(self.node.on)
        if columns == names:
            return payload
        renamed = [payload.get_column(c).alias(name) for c, name in zip(columns, names, strict=True)]
        return framed(renamed, payload.height)

    def _pairs(self, state: State, port: int, changes: Changes, own: pl.DataFrame | None = None) -> Said:
        """Whom the changes meet, what is to be said of these pairs, and what nobody can say.

        `own` are the payloads of the changes, if they are not in the store.
        """
        met = state.sides[1 - port].meetings(changes, len(state.keys))
        if not len(met.vs) or self._only_covers:
            return Said(met, [], None)
        if self.latency is not OutputLatency.EAGER:
            met = met.take(stable_order(np.minimum(met.old_ve, met.new_ve)))
        left, right = (
            own if own is not None and at == port else side.payloads
            for at, side in enumerate(state.sides)
        )
        return self.pairs.said(port, changes, met, (left, right))

    def _in_order(self, parts: list[Batch]) -> Batch | None:
        """What is to be said, by sync. The rows of a part, which may be a chain, keep their order."""
        parts = [part for part in parts if part.rows]
        if not parts:
            return None
        out = Batch.concat(parts)
        if len(parts) == 1 or self.latency is OutputLatency.EAGER:
            return out
        order = stable_order(np.concatenate([np.maximum.accumulate(part.sync) for part in parts]))
        payload = taken(out.payload, order)
        return Batch(out.vs[order], out.old_ve[order], out.new_ve[order], payload)

    def _changed(self, state: State, side: int, changed: Changed) -> list[Batch]:
        if not len(changed.vs):
            return []
        if self.latency is OutputLatency.PERFECTNESS_PRESERVING:
            order = stable_order(np.minimum(changed.old_ve, changed.new_ve))
            changed = Changed._make(column[order] for column in changed)
        row, vs, old_ve, new_ve = changed
        return [self._alone(side, Batch(vs, old_ve, new_ve, state.sides[side].payloads.take(row)))]

    def _alone(self, port: int, rows: Batch) -> Batch:
        """Rows of one side as they look without a partner: keys are known, the other columns null."""
        node, payload = self.node, rows.payload
        if port == _RIGHT:
            known = {left: payload.get_column(right) for left, right in node.on.items()}
            known |= {called: payload.get_column(name) for name, called in node.right_names.items()}
        else:
            known = {name: payload.get_column(name) for name in node.left.schema}
        columns = [
            known[name].alias(name) if name in known else nothing(name, dtype, rows.rows)
            for name, dtype in node.schema.items()
        ]
        return Batch(rows.vs, rows.old_ve, rows.new_ve, framed(columns, rows.rows))

    def on_punctuation(self, state: State, port: int, punctuation: Punctuation) -> Answer:
        """The smaller cti; now and then, what both leave behind is forgotten."""
        before = state.ctis
        state.promised[port] = state.promised[port].with_(punctuation)
        state.apart[port].free(punctuation.before)
        cti = promise = min(state.ctis)
        parts: list[Batch] = []
        for side, own in state.alone.items():
            changed, own_promise = own.promise(cti)
            parts += self._changed(state, side, changed)
            promise = min(promise, own_promise)
        promises: list[Promise] = [Punctuation(promise)]
        closed = state.ports.reach(port, state.keys, before, state.ctis)
        if closed is not None:
            more, told = self._closed(state, closed)
            parts += more
            promises += told
        unwanted = self._unwanted(state, None if closed is None else closed.key)
        is_held = cti == min(before)
        is_due = state.stored() >= (state.held_sweep_at if is_held else state.sweep_at)
        past = None
        if self.node.how == "inner" and not any(self.never_adjusts) and (is_due or not is_held):
            past = _past(state, cti)
        if past is not None:
            is_due = past > _HALF or (is_due and past > _HARDLY_ANY)
        if cti == INF or is_due:
            sweep_at = state.sweep_at
            parts += self._sweep(state, cti)
            if is_held:
                state.sweep_at = sweep_at
        return Answer(tuple(promises), self._in_order(parts), unwanted=unwanted)

    # promises about columns

    def on_patterns(self, state: State, port: int, told: Sequence[Promise]) -> Answer:
        """Keys are closed on one side: what that settles is shown, forgotten, and promised."""
        node, parts, promises = self.node, list[Batch](), list[Promise]()
        unwanted: tuple[tuple[int, Promise], ...] = ()
        told = about(told, node.inputs[port].schema, state.promised[port].cti)
        schema = node.inputs[port].schema
        of_keys = of_columns(state.apart[port], told, key_columns(node, port), schema, BEGIN)
        if of_keys:
            names = {right: left for left, right in node.on.items()} if port == _RIGHT else {}
            renamed = [promise.renamed(names) for promise in of_keys]
            closed = state.ports.tell(port, renamed, state.keys, state.ctis)
            parts, promises = self._closed(state, closed)
            unwanted = self._unwanted(state, closed.key)
        promises += self._unmatched(state, port, told)
        if state.stored() >= state.sweep_at:
            parts += self._sweep(state, min(state.ctis))
        given_up = state.apart[port].note(schema)
        return Answer(tuple(promises), self._in_order(parts), given_up, unwanted)

    def _unwanted(self, state: State, key: Ints | None) -> tuple[tuple[int, Promise], ...]:
        """Of which ports which rows meet nobody any more, and are not shown alone, either."""
        found: list[tuple[int, Promise]] = []
        if state.alone and self.latency is not OutputLatency.EAGER:
            # they tell what is alone how far time is
            return ()
        for side in (_LEFT, _RIGHT):
            other = 1 - side
            if other in state.alone or state.ctis[other] == INF:
                continue
            if state.ctis[side] == INF and not state.sides[side].count:
                found.append((other, Punctuation(INF)))
            elif key is not None:
                state.sides[side].admit(len(state.keys))
                # what is closed there does not come anyway
                ended = key[_has_ended(state, side, key) & (state.ports.until[key, other] < INF)]
                names = dict(zip(self.node.on, key_columns(self.node, other), strict=True))
                closed = closings_of(state.keys, ended, np.full(len(ended), INF))
                found += [(other, closings.renamed(names)) for closings in closed]
        return tuple(found)

    def _closed(self, state: State, closed: Closed) -> tuple[list[Batch], list[Promise]]:
        """Some keys are closed: what is to be said, and what may be promised."""
        key, is_news = closed.key, closed.is_news
        parts, promised = self._forget_of(state, key)
        for side in (_LEFT, _RIGHT):
            if 1 - side not in state.alone:
                # with nothing there on that side, nothing comes of the other, either
                until = np.where(_is_empty(state, side, key), state.ports.until[key, side], BEGIN)
                is_news = is_news | (until > np.maximum(promised, state.ports.said[key]))
                promised = np.maximum(promised, until)
                state.ports.said[key] = np.maximum(state.ports.said[key], until)
        key, promised = key[is_news], promised[is_news]
        if state.alone and self.latency is OutputLatency.PERFECTNESS_PRESERVING:
            # it is promised key by key, as far as it is shown
            return parts, closings_of(state.keys, key, promised)
        return parts, closed.with_patterns(state.keys, key, promised)

    def _limits(self, state: State, port: int, key: Ints) -> tuple[Ints, Ints]:
        """Up to when no element of a side, and of the other, can come with these keys.

        As far as its own events are concerned: none can name them where that side only inserts. Nobody
        can meet them where the other side has ended.
        """
        own, other = (
            np.maximum(state.ports.until[key, at], state.ctis[at])
            if state.ports.told
            else np.full(len(key), state.ctis[at])
            for at in (port, 1 - port)
        )
        if self.never_adjusts[port]:
            # what is alone is not shown before its end is final
            own = np.where((other == INF) | (port not in state.alone), INF, own)
        if port not in state.alone and state.ports.told:
            own = np.where(_has_ended(state, 1 - port, key), INF, own)
        return own, other

    def _forget_of(self, state: State, key: Ints) -> tuple[list[Batch], Ints]:
        """Show what is settled of some keys, and forget it; what may be promised of each."""
        parts: list[Batch] = []
        promised = state.ports.frontier(key, state.ctis)
        for side in state.sides:
            side.admit(len(state.keys))
        for port, side in enumerate(state.sides):
            own, other = self._limits(state, port, key)
            if port in state.alone:
                row, which = side.of(key)
                until = np.minimum(own, other)[which]
                changed, shown = state.alone[port].promise_of(row, until)
                parts += self._changed(state, port, changed)
                np.minimum.at(promised, which, shown)
                state.alone[port].close(row, np.minimum(until, INF - 1))
            gone = side.close(key, own, other)
            if port in state.alone:
                state.alone[port].close(gone, np.full(len(gone), INF))
        if state.covered is not None:
            state.covered.close(key, np.maximum(state.ports.until[key, _RIGHT], state.ctis[_RIGHT]))
        return parts, promised

    def _unmatched(self, state: State, port: int, told: Sequence[Promise]) -> list[Promise]:
        """The promises of a side that speak of none of its events, by the names that the output has.

        Not of a side whose columns others have without it: there, they are null. Closings of keys have
        been answered.
        """
        node, side = self.node, state.sides[port]
        told = [promise for promise in told if not self._closes_keys(port, promise)]
        if not told or 1 - port in state.alone or (port == _RIGHT and node.how == "anti"):
            return []
        every = np.flatnonzero(side.in_use(len(state.keys)))
        row, which = side.of(every)
        kept = {column.name: column for column in side.payloads.take(row)}
        keys = state.keys.take(every[which])
        for own, name in zip(key_columns(self.node, port), node.on, strict=True):
            kept[own] = keys[name].alias(own)
        told = unmatched(told, pl.DataFrame(list(kept.values())))
        told = self._without_closed(state, port, told)
        if port == _LEFT:
            return told
        names = {right: left for left, right in node.on.items()} | dict(node.right_names)
        return [promise.renamed(names) for promise in told]

    def _without_closed(self, state: State, port: int, told: Sequence[Promise]) -> list[Promise]:
        """Without closings of values whose keys are closed, as far, for all of them."""
        names = dict(zip(key_columns(self.node, port), self.node.on, strict=True))
        if not state.ports.told or not names:
            return [*told]
        state.ports.admit(state.keys)
        left: list[Promise] = []
        for promise in told:
            if isinstance(promise, Closings) and set(names) <= set(promise.keys.columns):
                key = state.keys.find(some_columns(promise.keys, list(names)).rename(names))
                said = np.full(len(key), BEGIN)
                said[key >= 0] = state.ports.said[key[key >= 0]]
                promise = promise.where(promise.before > said)  # noqa: PLW2901
                if not len(promise):
                    continue
            left.append(promise)
        return left

    def _closes_keys(self, port: int, promise: Promise) -> bool:
        columns = set(key_columns(self.node, port))
        return isinstance(promise, Closings) and set(promise.keys.columns) == columns

    def closed_until(self, state: State, asked: Promise, ask: Ask) -> Times:
        """As far as both sides are; or one of them, and what is kept of it meets nothing new."""
        return Inquiry(self.node, state.keys, state.sides, ask).closed_until(asked)

    def _sweep(self, state: State, cti: int) -> list[Batch]:
        """Forget what is behind both ctis, and number payloads anew; keys, if few are left of many.

        Of a key that is final before the ctis say so (one side has closed it, and the cti of the other
        has passed it since), what was not yet shown is shown first.
        """
        in_use = np.zeros(len(state.keys), dtype=np.bool_)
        if state.ports.told:
            state.ports.admit(state.keys)
        for side in state.sides:
            side.admit(len(state.keys))
        # without closings it is the same for all keys, so that one is asked for
        asked = np.arange(len(state.keys) if state.ports.told else 1)
        limits = [self._limits(state, port, asked) for port in (_LEFT, _RIGHT)]
        final = [np.minimum(*limits[port]) > cti for port in state.alone]
        parts: list[Batch] = []
        if np.any(final):
            state.ports.admit(state.keys)
            is_final = np.broadcast_to(np.any(final, axis=0), len(state.keys))
            parts, _ = self._forget_of(state, np.flatnonzero(is_final))
        for port, side in enumerate(state.sides):
            alive = side.forget(len(state.keys), *limits[port])
            in_use |= side.in_use(len(in_use))
            if port in state.alone:
                state.alone[port].sweep(cti)
                state.alone[port].renumber(alive)
        if state.covered is not None:
            state.covered.sweep(cti)
            in_use |= state.covered.in_use(len(in_use))
        if state.ports.told:
            in_use |= state.ports.in_use(state.ctis)
        are_few = 2 * np.count_nonzero(in_use) < len(in_use)
        if state.covered is not None and (are_few or state.covered.timelines.is_loose(len(in_use))):
            # it may be that no key is renumbered: it lays what is left together
            state.covered.renumber(in_use | (not are_few))
        if are_few:
            state.keys.keep(in_use)
            if state.ports.told:
                state.ports.renumber(in_use)
            for side in state.sides:
                side.renumber(in_use)
        state.sweep_at = slackwater.state.sweep_after(state.rows())
        state.held_sweep_at = 2 * state.sweep_at
        return parts

    def describe(self, state: State) -> Description:
        """One row per event or endpoint; the side that has promised less holds the join back."""
        held_by = _LEFT if state.promised[_LEFT].cti <= state.promised[_RIGHT].cti else _RIGHT
        return Description(state.rows(), held_by)


def _past(state: State, cti: int) -> float | None:
    """Which part of what is stored is behind a cti, by a look at some keys; None if that does not tell.

    Who forgets more than half pays no more for a row than who waits until as much again has come. What
    has been cut off, or closed by its key, is not seen so, nor what is old among many events of a key.
    """
    stored = state.stored()
    is_small = stored < slackwater.state.SWEEP_FROM
    if is_small or state.ports.told or not stored <= 2 * len(state.keys) <= 2 * _LOOSE * stored:
        return None
    if 2 * sum(side.cut for side in state.sides) > stored:
        return None
    past = every = 0
    for side in state.sides:
        size, latest = side.sample()
        every += int(size.sum())
        past += int(size[latest < cti].sum())
    return past / every if every else None


def _is_ordered(state: State, rows: Batch) -> bool:
    """Whether the syncs of all rows so far, and of these, have not decreased."""
    sync = rows.sync[rows.old_ve != rows.new_ve]
    if len(sync):
        is_ordered = sync[0] >= state.last_sync and bool(np.all(sync[1:] >= sync[:-1]))
        state.last_sync = int(sync[-1]) if is_ordered else INF
    return state.last_sync < INF


def _lacks(rows: Batch, columns: list[str]) -> npt.NDArray[np.bool_] | None:
    """Which rows have no value in some key column; None if there are no such rows."""
    nullable = [name for name in columns if rows.payload.get_column(name).null_count()]
    if not nullable:
        return None
    null = rows.payload.select(pl.any_horizontal(pl.col(nullable).is_null())).to_series()
    return null.to_numpy()


def _covered(covered: Runs, rows: Batch, key: Ints, keys: int) -> tuple[Batch, Ints]:
    """How the rows change where their keys are covered, as rows without payload; and their keys."""
    one = np.zeros((rows.rows, 2), dtype=np.int64)
    one[:, 0] = 1
    key, vs, old_ve, new_ve = covered.absorb(rows, key, one, keys, BEGIN)
    return Batch(vs, old_ve, new_ve, blank(len(key))), key


def _lives(own: Changes | None, met: Meetings, row: Ints) -> tuple[Batch, Ints, Ints]:
    """How the lifetimes of events and of their pairs change; whose; and which of the two it is."""
    columns: tuple[Ints, ...] = met.vs, met.old_ve, met.new_ve, row
    if own is not None:
        mine = own.vs, own.before, own.now, own.row
        columns = tuple(map(np.concatenate, zip(columns, mine, strict=True)))
    vs, old_ve, new_ve, row = columns
    copies = np.zeros((len(vs), 2), dtype=np.int64)
    copies[: len(met.vs), 1] = 1
    copies[len(met.vs) :, 0] = 1
    return Batch(vs, old_ve, new_ve, blank(len(vs))), row, copies


def _is_empty(state: State, side: int, key: Ints) -> Mask:
    """Of which keys a side has no events."""
    is_empty: Mask = state.sides[side].slabs[key, SIZE] == 0
    return is_empty


def _has_ended(state: State, side: int, key: Ints) -> Mask:
    """Of which keys a side has no events and gets none."""
    # a key that is closed is not remembered so any more, once its side has ended altogether
    until = np.maximum(state.ports.until[key, side], state.ctis[side])
    ended: Mask = (until == INF) & _is_empty(state, side, key)
    return ended


def _is_barren(state: State, port: int, key: Ints) -> Mask:
    """Which rows can meet nothing any more, and are not shown alone, by their keys."""
    state.ports.hear(state.keys, len(key))
    state.sides[1 - port].admit(len(state.keys))
    if port in state.alone:
        return np.zeros(len(key), dtype=np.bool_)
    return _has_ended(state, 1 - port, key)
