"""Match: patterns in rows.

    out = { ([vs of the last row, least ve), measures) | a match of the pattern in the rows of a group }

The rows of a group are in order of (vs, payload). A row that comes, goes or gets another end changes
what is found from rows on that looked so far: of every row it is known up to which time it looked (its
reach). The stretch from the first of these on to where nobody looks across is searched twice, as it was
and as it is (matches.py), and the difference is said (differences.py). So a late row costs what lies
around it. What is found is not remembered: rows are, and their reach.

Pass: what the batch changes. Matches are said as soon as the rows show them; one that may become longer
is said as it is, and taken back.

Keep: the rows from where a match, or a row that may still begin one, can change. What begins at a row is
final when its reach is behind the cti; a match is when the first of its rows has ended before it. Rows
are forgotten from the front of a group, up to a row that nobody before has looked at.

Propagate: cti(t), or the start of what may still go or come before it, if that is less. From t on rows
come and go. What ends with them starts at t or later. But a pattern that may go on behind a match, or
give up what it had begun, may take back a match that started before; and if matches may not overlap, one
that is found late takes back those that began behind it. Such matches, and the reach of what they depend
on, are listed: `Open`. Promises about key columns alone do the same to the keys that they speak of, and
those about others if together they leave none of their values out; without keys that is a cti.

All that follows is not to be had in general: whether a row may still come that satisfies a condition, be
it by a promise about the columns that it reads, is whether an expression can be true. So any row may
come. Of promises about symbols alone nothing follows anyway: neighbours make a match, so that a row of
any kind that comes between ends one. What may go on is exact for patterns like A B and A B*
(tests/test_pattern_laws.py); where a pattern may give up what it had begun, the start of the run counts.

    A B* C    in:   A [0, 9)   C [4, 13)                            B [2, 11)    cti(5)
              out:             A C: [4, 9)                          A B C: as A C, with B in its measures

Issue 7 (patterns); paper 3 section 5.1 for a native operator beside the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from slackwater.columns import column_of, framed
from slackwater.events import Batch
from slackwater.kernels import matching
from slackwater.kernels.grouping import Keys
from slackwater.kernels.slabs import Changes, Slabs
from slackwater.operators.closing import frontiers, matched, shortened
from slackwater.operators.differences import difference
from slackwater.operators.matches import Found, Matcher, Rows
from slackwater.operators.projection import Apart, of_columns
from slackwater.operators.step import Answer, Description
from slackwater.plan import nodes
from slackwater.plan.matching import PAST_LAST_ROW, decides_by_one_row
from slackwater.punctuations import Promise, Punctuation
from slackwater.state import sweep_after
from slackwater.times import BEGIN, INF

__all__ = ["Match", "Open", "State"]

kernel: Any = matching
"""compiled functions, which mypy cannot follow"""

Ints = npt.NDArray[np.int64]
_VS, _PAYLOAD, _VE = range(3)
_NONE = np.empty(0, dtype=np.int64)


@dataclass(slots=True)
class Open:
    """What may still be taken back, or come: where it was found, since when, and until when it may."""

    key: Ints = field(default_factory=lambda: _NONE)
    begin: Ints = field(default_factory=lambda: _NONE)
    """where what was found begins"""
    since: Ints = field(default_factory=lambda: _NONE)
    """before this nothing of it changes"""
    reach: Ints = field(default_factory=lambda: _NONE)
    """a cti behind it says that nothing of it changes"""

    def where(self, mask: npt.NDArray[np.bool_]) -> Open:
        """Some of it."""
        return Open(self.key[mask], self.begin[mask], self.since[mask], self.reach[mask])

    def and_also(self, other: Open) -> Open:
        """All of both."""
        columns = ("key", "begin", "since", "reach")
        return Open(*(np.concatenate([getattr(self, c), getattr(other, c)]) for c in columns))


@dataclass(slots=True)
class State:
    """Groups and payloads by number; the rows of each group, with their reach; what may change."""

    keys: Keys
    payloads: Keys
    rows: Slabs
    open: Open = field(default_factory=Open)
    floor: Ints = field(default_factory=lambda: _NONE)
    """of each group: what starts before it is forgotten"""
    swept: int = BEGIN
    """the same for groups that come"""
    cti: int = BEGIN
    apart: Apart = field(default_factory=Apart)
    """promises about other columns than keys"""
    sweep_at: int = field(default_factory=lambda: sweep_after(0))


@dataclass(frozen=True, slots=True)
class _Searched:
    """What was found in stretches: in which rows, where these are kept, and of which stretch."""

    rows: Rows
    found: Found
    place: Ints
    of: Ints


@dataclass(frozen=True)
class Match:
    """The step of a `Match` node."""

    node: nodes.Match
    matcher: Matcher = field(init=False)
    is_crisp: bool = field(init=False)
    """whether a match that is found stays as it is, whatever follows it"""

    def __post_init__(self) -> None:
        object.__setattr__(self, "matcher", Matcher(self.node))
        object.__setattr__(self, "is_crisp", decides_by_one_row(self.node.pattern))

    def open(self) -> State:
        """No rows."""
        schema = self.node.input.schema
        keys = pl.Schema({key: schema[key] for key in self.node.keys})
        return State(Keys(keys), Keys(schema), Slabs(3))

    def on_batch(self, state: State, port: int, rows: Batch) -> Batch:
        """The stretches that the rows concern, as they were and as they are."""
        changes = self._changes(state, rows)
        if not len(changes):
            return Batch.empty(self.node.schema)
        first = np.flatnonzero(np.append(True, changes.key[1:] != changes.key[:-1]))
        last = np.append(first[1:], len(changes)) - 1
        key, early, late = changes.key[first], changes.rows[first, _VS], changes.rows[last, _VS]
        since, until = np.empty_like(key), np.empty_like(key)
        slabs = state.rows
        kernel.stretches(slabs.start, slabs.size, slabs.rows, slabs.said, key, early, late, since, until)
        said = [self._matches(self._search(state, key, since, until))]
        slabs.merge(changes)
        found = self._search(state, key, since, until)
        while found.found.is_cut.any():
            # what is found now looks further than what was: so must we, and nobody looked across there
            further = np.unique(found.of[found.found.is_cut])
            old, new = until[further], np.empty_like(further)
            kernel.ends(slabs.start, slabs.size, slabs.rows, slabs.said, key[further], old, new)
            said.append(self._matches(self._search(state, key[further], old, new)))
            until[further] = new
            found = self._search(state, key, since, until)
        self._note(state, key, since, until, found)
        return difference(Batch.concat(said), self._matches(found))

    def _changes(self, state: State, rows: Batch) -> Changes:
        """What comes to rows that are not forgotten, and what goes."""
        if not rows.rows:
            return Changes.net(_NONE, (_NONE, _NONE, _NONE), _NONE)
        key = state.keys.number(rows.payload)
        self._admit(state)
        known = rows.vs >= state.floor[key]
        if not known.all():
            rows, key = rows.where(known), key[known]
        number = state.payloads.number(rows.payload)
        gone, come = rows.old_ve > rows.vs, rows.new_ve > rows.vs
        columns = (
            np.concatenate([rows.vs[gone], rows.vs[come]]),
            np.concatenate([number[gone], number[come]]),
            np.concatenate([rows.old_ve[gone], rows.new_ve[come]]),
        )
        sign = np.ones(len(columns[0]), dtype=np.int64)
        sign[: int(gone.sum())] = -1
        return Changes.net(np.concatenate([key[gone], key[come]]), columns, sign)

    def _admit(self, state: State) -> None:
        count = len(state.keys)
        state.rows.admit(count)
        if count > len(state.floor):
            more = np.full(max(count, 2 * len(state.floor)) - len(state.floor), state.swept)
            state.floor = np.concatenate([state.floor, more])

    def _search(self, state: State, key: Ints, since: Ints, until: Ints) -> _Searched:
        """What is found in the rows of some groups between these times."""
        slabs = state.rows
        given = slabs.start, slabs.size, slabs.rows, key, since, until
        place, of = (
            np.empty(kernel.places(*given, False, _NONE, _NONE), dtype=np.int64) for _ in range(2)
        )
        kernel.places(*given, True, place, of)
        copies = slabs.count[place]
        if (copies > 1).any():
            place, of = np.repeat(place, copies), np.repeat(of, copies)
        place = place[self._order(state, place, of)]
        rows = slabs.rows[place]
        stop = np.searchsorted(of, of, side="right")
        payload = state.payloads.take(rows[:, _PAYLOAD])
        there = Rows(rows[:, _VS].copy(), rows[:, _VE].copy(), payload, stop, until[of])
        return _Searched(there, self.matcher.find(there), place, of)

    def _order(self, state: State, place: Ints, of: Ints) -> Ints:
        """Rows of one stretch and time in order of their payload, then of their end."""
        vs = state.rows.rows[place, _VS]
        tied = np.zeros(len(place), dtype=np.bool_)
        tied[1:] = (of[1:] == of[:-1]) & (vs[1:] == vs[:-1])
        order = np.arange(len(place))
        if not tied.any():
            return order
        tied[:-1] |= tied[1:]
        some = np.flatnonzero(tied)
        rows = state.rows.rows[place[some]]
        payload = state.payloads.take(rows[:, _PAYLOAD])
        names = [f"c{i}" for i in range(payload.width)]
        columns = [c.alias(name) for c, name in zip(payload.get_columns(), names, strict=True)]
        columns += [column_of("of", of[some]), column_of("vs", rows[:, _VS].copy())]
        columns += [column_of("ve", rows[:, _VE].copy()), column_of("at", np.arange(len(some)))]
        frame = framed(columns, len(some)).sort("of", "vs", *names, "ve", nulls_last=False)
        order[some] = some[frame.get_column("at").to_numpy()]
        return order

    def _shown(self, searched: _Searched) -> Ints:
        """Where the matches begin that there are in the end."""
        end = searched.found.end
        if self.node.after is PAST_LAST_ROW:
            return np.flatnonzero(kernel.chosen(end)[0])
        return np.flatnonzero(end >= 0)

    def _matches(self, searched: _Searched) -> Batch:
        """The matches, as events."""
        rows, found = searched.rows, searched.found
        starts = self._shown(searched)
        if not len(starts):
            return Batch.empty(self.node.schema)
        payload = self.matcher.measured(rows, found, starts)
        return Batch.inserts(rows.vs[found.end[starts] - 1], found.until[starts], payload)

    def _note(self, state: State, key: Ints, since: Ints, until: Ints, searched: _Searched) -> None:
        """How far each row looked, and what of it may still change."""
        found, slabs = searched.found, state.rows
        kernel.tell(slabs.said, searched.place, found.reach)
        which = np.minimum(np.searchsorted(key, state.open.key), len(key) - 1)
        again = (
            (key[which] == state.open.key)
            & (state.open.begin >= since[which])
            & ((state.open.begin < until[which]) | (until[which] == INF))
        )
        news = self._open(searched, key)
        if again.any():
            state.open = state.open.where(~again)
        if len(news.key):
            state.open = state.open.and_also(news)

    def _open(self, searched: _Searched, key: Ints) -> Open:
        """What was found and may change although it starts before what changes it."""
        rows, found = searched.rows, searched.found
        matches = found.end >= 0
        if self.is_crisp:
            some = np.flatnonzero(matches)
            since = rows.vs[found.end[some] - 1]
        else:
            some = np.flatnonzero(matches | (found.reach > rows.vs))
            since = rows.vs[some]
        reach = found.reach
        if self.node.after is PAST_LAST_ROW:
            _, is_asked = kernel.chosen(found.end)
            reach = kernel.reached(searched.of, reach, is_asked)
        news = Open(key[searched.of[some]], rows.vs[some], since, reach[some])
        return news.where(news.since < news.reach)

    def on_punctuation(self, state: State, port: int, punctuation: Punctuation) -> Answer:
        """What is final is forgotten, now and then; the promise is as strong as what is open permits."""
        cti = state.cti = max(state.cti, punctuation.before)
        state.apart.free(cti)
        if cti == INF:
            state.rows.clear()
            state.open = Open()
        elif len(state.open.key):
            state.open = state.open.where(state.open.reach >= cti)
        if cti == INF or max(state.rows.total, len(state.payloads)) >= state.sweep_at:
            self._sweep(state)
        promised = int(state.open.since.min()) if len(state.open.key) else cti
        return Answer((Punctuation(min(cti, promised)),))

    def on_patterns(self, state: State, port: int, told: Sequence[Promise]) -> Answer:
        """Groups are closed: as with a cti, of each by itself; those closed for ever are forgotten."""
        told = of_columns(state.apart, told, self.node.keys, self.node.input.schema, state.cti)
        found = matched(state.keys, told)
        key, until = frontiers(found)
        given_up = state.apart.note(self.node.input.schema)
        if not len(key):
            return Answer(tuple(each.promise for each in found), given_up=given_up)
        self._admit(state)
        which = np.minimum(np.searchsorted(key, state.open.key), len(key) - 1)
        is_closed = key[which] == state.open.key
        state.open = state.open.where(~is_closed | (state.open.reach >= until[which]))
        gone = key[until == INF]
        state.rows.total -= int(state.rows.size[gone].sum())
        state.rows.size[gone] = 0
        state.floor[gone] = INF
        state.open = state.open.where(~np.isin(state.open.key, gone))
        which = np.minimum(np.searchsorted(key, state.open.key), len(key) - 1)
        is_closed = key[which] == state.open.key
        limit = until.copy()
        np.minimum.at(limit, which[is_closed], state.open.since[is_closed])
        return Answer(shortened(found, key, limit), given_up=given_up)

    def _sweep(self, state: State) -> None:
        """Forget the rows that nothing depends on any more, and their groups and payloads."""
        slabs, count, cti = state.rows, len(state.keys), state.cti
        every = np.arange(count)
        searched = self._search(state, every, np.full(count, BEGIN), np.full(count, INF))
        last, shown = searched.found.reach.copy(), self._shown(searched)
        last[shown] = np.maximum(last[shown], searched.found.until[shown])
        since = kernel.begun_again(searched.of, searched.rows.vs, searched.found.reach, last, cti, count)
        slabs.total -= kernel.forget_before(slabs.start, slabs.size, slabs.room, slabs.rows, since)
        state.floor[:count] = np.maximum(state.floor[:count], since)
        state.swept = cti
        alive = slabs.size[:count] > 0
        groups = state.keys.keep(alive)
        state.floor = state.floor[:count][alive]
        state.open.key = groups[state.open.key]
        slabs.compact(alive)
        places = slabs.places()
        used = np.zeros(len(state.payloads), dtype=np.bool_)
        used[slabs.rows[places, _PAYLOAD]] = True
        numbers = state.payloads.keep(used)
        # new numbers are in the order of the old ones, so that rows stay in order
        slabs.rows[places, _PAYLOAD] = numbers[slabs.rows[places, _PAYLOAD]]
        state.sweep_at = sweep_after(slabs.total)

    def describe(self, state: State) -> Description:
        """One row for each that is remembered."""
        return Description(state_rows=state.rows.total)
