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
key. A batch costs as much as the keys
that it touches have candidates.

Paper 3 section 6, erratum 25; docs/design/2026-11-18-recursion.md.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

import slackwater.state
from slackwater.columns import framed, taken
from slackwater.events import Batch
from slackwater.kernels.grouping import Keys
from slackwater.kernels.pairs import ROW, SIZE, START, VE, VS
from slackwater.operators.closing import frontiers, matched
from slackwater.operators.live_events import LiveEvents
from slackwater.operators.payload_store import Payloads
from slackwater.plan.nodes import Best
from slackwater.punctuations import Promise
from slackwater.times import INF

__all__ = ["Support"]

Ints = npt.NDArray[np.int64]


class Stretch(NamedTuple):
    """A stretch of time in which a key has this value and rank; `row` is where the value is found."""

    vs: int
    ve: int
    place: int
    """the place of the value among those that are compared: less is better"""
    rank: int
    row: int


class Change(NamedTuple):
    """What is to be said of a key: an event of this value and rank ends elsewhere now."""

    key: int
    vs: int
    old_ve: int
    new_ve: int
    rank: int
    row: int


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
        times = np.full(max(len(self.keys), 1), cti)
        in_use = np.zeros(len(self.keys), dtype=np.bool_)
        for events in (self.candidates, self.said):
            events.forget(times, times)
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
        candidates, said = self._lives(self.candidates, keys), self._lives(self.said, keys)
        payload = pl.concat([candidates.payload, said.payload])
        place = self._places(payload)
        rank = payload.get_column(self.best.rank).to_numpy()
        of_key = [
            list(_by_key(lives, len(keys), place[offset:], rank[offset:], offset))
            for lives, offset in ((candidates, 0), (said, candidates.payload.height))
        ]
        changes: list[Change] = []
        for i, key in enumerate(keys.tolist()):
            wait = self.waiting.get(key, [])
            now = of_key[1][i]
            for since, until in stretches[i]:
                now, more = _chosen(of_key[0][i], now, wait, since, until)
                wait = [*wait, *more]
            if wait:
                self.waiting[key] = wait
            changes += _differences(key, of_key[1][i], now)
        return self._rows(changes, payload)

    @staticmethod
    def _lives(events: LiveEvents, keys: Ints) -> Lives:
        if len(keys):
            events.admit(int(keys.max()) + 1)
        slabs = events.slabs[keys]
        parts = [events.pool[start : start + size] for start, size in slabs[:, [START, SIZE]].tolist()]
        pool = np.concatenate(parts) if parts else np.empty((0, 4), dtype=np.int64)
        which = np.repeat(np.arange(len(keys)), slabs[:, SIZE])
        alive = pool[:, VE] > pool[:, VS]
        pool, which = pool[alive], which[alive]
        return Lives(which, pool[:, VS], pool[:, VE], events.payloads.take(pool[:, ROW]))

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

    def _rows(self, changes: list[Change], payload: pl.DataFrame) -> Batch:
        """What is to be said, as rows; and it is remembered."""
        if not changes:
            return Batch.empty(pl.Schema({**self.keys.schema, **payload.schema}))
        key, vs, old_ve, new_ve, rank, row = np.array(changes, dtype=np.int64).T.copy()
        rest = taken(payload, row).with_columns(pl.Series(self.best.rank, rank))
        whole = framed([*self.keys.take(key).get_columns(), *rest.get_columns()], len(key))
        rows = Batch(vs, old_ve, new_ve, whole)
        self.said.apply(rows, key, len(self.keys))
        return rows


class Lives(NamedTuple):
    """Events of some keys: which key, their lifetimes, and what else they are."""

    which: Ints
    vs: Ints
    ve: Ints
    payload: pl.DataFrame


def _by_key(lives: Lives, keys: int, place: Ints, rank: Ints, offset: int) -> Iterator[list[Stretch]]:
    """The events of each key, by start."""
    size = len(lives.which)
    columns = lives.vs, lives.ve, place[:size], rank[:size], np.arange(offset, offset + size)
    found: list[list[Stretch]] = [[] for _ in range(keys)]
    for which, *stretch in zip(lives.which.tolist(), *(c.tolist() for c in columns), strict=True):
        found[which].append(Stretch(*stretch))
    for each in found:
        yield sorted(each)


def _chosen(
    candidates: list[Stretch],
    said: list[Stretch],
    waiting: list[tuple[int, int]],
    since: int,
    until: int,
) -> tuple[list[Stretch], list[tuple[int, int]]]:
    """What is to be said of a key, if it may change from `since` to `until`; and where it waits now."""
    times = {since, until}
    for vs, ve in (*((c.vs, c.ve) for c in (*candidates, *said)), *waiting):
        times |= {time for time in (vs, ve) if since < time < until}
    points = sorted(times)
    result = [old._replace(ve=min(old.ve, since)) for old in said if old.vs < since]
    more: list[tuple[int, int]] = []
    lowest = min((candidate.place for candidate in candidates), default=0)
    alive, before = _Alive(candidates), _Alive(said)
    for start, end in pairwise(points):
        now = alive.at(start)
        old = [each for _, _, each in before.at(start)]
        rows = [each for each in old if _is_supported(each, now)]
        if len(rows) < len(old):
            more.append((start, end))
        elif not any(vs <= start < ve for vs, ve in waiting):
            rows = _said_of(now, rows, lowest)
        result += (each._replace(vs=start, ve=end) for each in rows)
    result += [old._replace(vs=max(old.vs, until)) for old in said if old.ve > until]
    return _together(result), more


Ranked: TypeAlias = tuple[int, int, Stretch]
"""by rank, then by place"""


class _Alive:
    """Those that are alive, by rank and place, as time goes on."""

    def __init__(self, stretches: list[Stretch]) -> None:
        self._coming = sorted(stretches, key=lambda each: -each.vs)
        self._ending: list[tuple[int, Ranked]] = []
        self._alive: list[Ranked] = []

    def at(self, time: int) -> Sequence[Ranked]:
        """Until it is asked for the next time. Not a copy: there may be many, and few are looked at."""
        while self._coming and self._coming[-1].vs <= time:
            each = self._coming.pop()
            entry = (each.rank, each.place, each)
            insort(self._alive, entry)
            heappush(self._ending, (each.ve, entry))
        while self._ending and self._ending[0][0] <= time:
            _, entry = heappop(self._ending)
            del self._alive[bisect_left(self._alive, entry)]
        return self._alive


def _is_supported(said: Stretch, candidates: Sequence[Ranked]) -> bool:
    """Whether there is a candidate of the same value and a smaller rank."""
    for rank, place, _ in candidates:
        if rank >= said.rank:
            return False
        if place == said.place:
            return True
    return False


def _said_of(candidates: Sequence[Ranked], said: list[Stretch], lowest: int) -> list[Stretch]:
    """What is said, and candidates, by rank, that are better than all of smaller rank."""
    rows, best = [*said], None
    for rank, place, candidate in candidates:
        if best is not None and place >= best:
            continue
        best = place
        new = candidate._replace(rank=rank + 1)
        # the same value is good enough with any rank: so nothing moves only because of a shorter way
        if not any(each.place == new.place or _replaces(each, new) for each in rows):
            rows.append(new)
        if best == lowest:
            break
    return [each for each in rows if not any(_replaces(other, each) for other in rows)]


def _replaces(one: Stretch, other: Stretch) -> bool:
    """Whether one has a better value, derived no later."""
    return one.place < other.place and one.rank <= other.rank


def _together(stretches: list[Stretch]) -> list[Stretch]:
    """Neighbours that say the same are one; those that say the same come in the order of time."""
    found: dict[tuple[int, int], list[Stretch]] = {}
    for each in stretches:
        same = found.setdefault((each.place, each.rank), [])
        if same and same[-1].ve == each.vs:
            same[-1] = same[-1]._replace(ve=each.ve)
        else:
            same.append(each)
    return sorted(each for same in found.values() for each in same)


def _differences(key: int, before: list[Stretch], now: list[Stretch]) -> Iterator[Change]:
    """What turns the one into the other: ends move where start, value and rank are the same."""
    starts = {(each.vs, each.place, each.rank): each for each in now}
    for old in before:
        new = starts.pop((old.vs, old.place, old.rank), None)
        end = old.vs if new is None else new.ve
        if end != old.ve:
            yield Change(key, old.vs, old.ve, end, old.rank, old.row)
    for new in starts.values():
        yield Change(key, new.vs, new.vs, new.ve, new.rank, new.row)
