"""Chop: every row cut at the multiples of a period.

    out = { ([vs, ve) cut to [k*p, (k+1)*p), payload) | (vs, ve, payload) in input, k integer }

A row (vs, old_ve, new_ve) changes nothing before min(old_ve, new_ve) and nothing from the other end on,
so only the pieces between the two are looked at. In each of them both ends, cut to the piece, are again
a row (start, old end, new end): the piece in which the end moved is adjusted, pieces beyond come or go.

Pass: every piece that changes, at once. Keep: nothing, but for what was set aside. Propagate: the
promise as it is, if it does not begin at a time; pieces change at the sync of their row or later.

    period 5   in:   a [3, 12)                          a [3, 12) -> [3, 9)
               out:  a [3, 5)  a [5, 10)  a [10, 12)    a [5, 10) -> [5, 9)   a [10, 12) -> gone

A row without end has infinitely many pieces, and one that is too long more than there is room for. It
stops the query; with LEDGER it is set aside, and with it all that later happens to its event: the answer
is that over the input without these elements. To know them again, the events that were set aside are
remembered until the cti, or a promise about their payload, has frozen them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import polars as pl

from slackwater.columns import taken
from slackwater.errors import OperatorError
from slackwater.events import Batch
from slackwater.kernels.grouping import Keys
from slackwater.operators.deletes import from_the_beginning
from slackwater.operators.pending import settled
from slackwater.operators.step import Answer, Ask, Description, GivenUp
from slackwater.plan import nodes
from slackwater.plan.rewrites import in_user_terms
from slackwater.punctuations import Promise, Punctuation
from slackwater.state import sweep_after
from slackwater.times import BEGIN, INF, Times

__all__ = ["Chop", "State"]

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_MOST_PIECES = 10_000_000


@dataclass(slots=True)
class State:
    """The events that were set aside."""

    events: Keys
    """payload, vs and ve; also of some that were asked for in vain"""
    copies: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """of each event: how many there are; there is room for more"""
    total: int = 0
    cti: int = BEGIN
    sweep_at: int = field(default_factory=lambda: sweep_after(0))


@dataclass(frozen=True, slots=True)
class Chop:
    """The step of a `Chop` node."""

    node: nodes.Chop

    def open(self) -> State:
        """Nothing was set aside."""
        return State(Keys(pl.Schema({**self.node.schema, "vs": pl.Int64(), "ve": pl.Int64()})))

    def on_batch(self, state: State, port: int, rows: Batch) -> Answer:
        """The pieces between the old and the new end, each with its own old and new end."""
        too_long = _too_long(rows, self.node.period)
        if not state.total and not too_long.any():
            return Answer(rows=self._pieces(rows))
        aside = _set_aside(state, rows, too_long)
        return Answer(rows=self._pieces(rows.where(~aside)), given_up=_given_up(rows, aside, too_long))

    def _pieces(self, rows: Batch) -> Batch:
        period = self.node.period
        first = np.minimum(rows.old_ve, rows.new_ve) // period
        last = (np.maximum(rows.old_ve, rows.new_ve) - 1) // period
        pieces = last - first + 1
        row = np.repeat(np.arange(rows.rows), pieces)
        piece = np.arange(len(row)) - np.repeat(np.cumsum(pieces) - pieces, pieces) + first[row]
        vs = rows.vs[row]
        # the first piece may begin before all time, and the last end after it
        start = np.where(piece == vs // period, vs, piece * period)
        end = np.where(piece >= INF // period, INF, (piece + 1) * period)
        old_ve = np.maximum(start, np.minimum(end, rows.old_ve[row]))
        new_ve = np.maximum(start, np.minimum(end, rows.new_ve[row]))
        return Batch(start, old_ve, new_ve, taken(rows.payload, row)).where(old_ve != new_ve)

    def on_punctuation(self, state: State, port: int, punctuation: Punctuation) -> Answer:
        """No piece changes before the sync of its row."""
        state.cti = punctuation.before
        _sweep(state)
        return Answer((punctuation,))

    def on_patterns(self, state: State, port: int, told: Sequence[Promise]) -> Answer:
        """No piece changes before the sync of its row."""
        if state.total:
            events = _events(state)
            vs, ve = (events[name].to_numpy() for name in ("vs", "ve"))
            _keep(state, ~settled(events.drop("vs", "ve"), vs, ve, told, state.cti))
        return Answer(from_the_beginning(told))

    def closed_until(self, state: State, asked: Promise, ask: Ask) -> Times:
        """As the input: no piece changes before the sync of its row."""
        return ask(0, asked)

    def describe(self, state: State) -> Description:
        """One row per event that was set aside."""
        return Description(state_rows=state.total)


def _too_long(rows: Batch, period: int) -> Mask:
    """Which rows have more pieces than can be, before or after."""
    ve = np.maximum(rows.old_ve, rows.new_ve)
    # of two integers the difference may need 64 bits
    pieces = ((ve - 1) // period - rows.vs // period).view(np.uint64)
    too_long: Mask = (ve == INF) | (pieces >= _MOST_PIECES)
    return too_long


def _set_aside(state: State, rows: Batch, too_long: Mask) -> Mask:
    """Set aside what is too long and what happens to events that were; which rows these are."""
    aside = too_long.copy()
    some = np.flatnonzero(too_long | ~rows.is_insert)
    vs, old_ve, new_ve = rows.vs[some], rows.old_ve[some], rows.new_ve[some]
    payload = taken(rows.payload, some).with_columns(vs=pl.Series(vs))
    before, after = (
        state.events.number(payload.with_columns(ve=pl.Series(ve))).tolist() for ve in (old_ve, new_ve)
    )
    if len(state.events) > len(state.copies):
        copies = np.zeros(2 * len(state.events), dtype=np.int64)
        copies[: len(state.copies)] = state.copies
        state.copies = copies
    comes, stays = (old_ve == vs).tolist(), (new_ve > vs).tolist()
    # one after the other, since a batch may have several changes of one event
    for i, row in enumerate(some.tolist()):
        if not comes[i] and state.copies[before[i]]:
            aside[row] = True
            state.copies[before[i]] -= 1
            state.total -= 1
        if aside[row] and stays[i]:
            state.copies[after[i]] += 1
            state.total += 1
    _sweep(state)
    return aside


def _given_up(rows: Batch, aside: Mask, too_long: Mask) -> GivenUp | None:
    """What was set aside, each with its reason; the first of them stops a query that is not to go on."""
    if not aside.any():
        return None
    details = np.full(rows.rows, "its event was set aside", dtype=object)
    details[too_long] = f"a row has {_MOST_PIECES} pieces at most"
    details[(rows.old_ve == INF) | (rows.new_ve == INF)] = "a row without end has infinitely many pieces"
    given_up = rows.where(aside)
    reasons = tuple(details[aside].tolist())
    [element] = replace(given_up, payload=in_user_terms(given_up.payload)).slice(0, 1)
    error = OperatorError(
        f"chop: {reasons[0]}", detail=f"{element!r}", hint="clip() it first; sw.LEDGER sets it aside"
    )
    return GivenUp(given_up, "cannot be chopped", reasons, error)


def _sweep(state: State) -> None:
    """Forget what can no longer be adjusted, now and then."""
    if len(state.events) < state.sweep_at and state.cti < INF:
        return
    ends = _events(state)["ve"].to_numpy()
    _keep(state, (ends >= state.cti) & (state.cti < INF))


def _events(state: State) -> pl.DataFrame:
    return state.events.take(np.arange(len(state.events)))


def _keep(state: State, needed: Mask) -> None:
    """Forget the events that are not needed, and those that were asked for in vain."""
    copies = state.copies[: len(state.events)]
    alive = (copies > 0) & needed
    state.events.keep(alive)
    state.copies = copies[alive]
    state.total = int(state.copies.sum())
    state.sweep_at = sweep_after(len(state.copies))
