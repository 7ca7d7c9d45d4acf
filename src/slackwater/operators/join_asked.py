"""Asked: up to when a join gives nothing of what somebody asks for (asked.py).

Where one side is closed further than the other, what it keeps decides: each of these rows waits for
partners that the other side may still send, as long as it lives. So the other is asked for their keys.

Paper 3 has no such questions: docs/design/2026-11-18-recursion.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from slackwater.columns import FEW, framed, some_columns, taken
from slackwater.kernels.grouping import Keys
from slackwater.operators.asked import asked_of, columns_of, question
from slackwater.operators.live_events import LiveEvents
from slackwater.operators.step import Ask
from slackwater.patterns import Constant
from slackwater.plan import nodes
from slackwater.punctuations import Closings, Promise, Punctuation
from slackwater.times import BEGIN, INF, Times

__all__ = ["Inquiry", "key_columns"]

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_LEFT, _RIGHT = 0, 1
_MOST_ASKED = 1_000_000
"""so many pairs of an event and a question about others are looked at"""


@dataclass(frozen=True, slots=True)
class Inquiry:
    """What a join is asked while it keeps such events, and whom it asks."""

    node: nodes.Join
    keys: Keys
    sides: tuple[LiveEvents, LiveEvents]
    ask: Ask

    def closed_until(self, asked: Promise) -> Times:
        """As far as both sides are; or one of them, and the other for the keys of what is kept of it.

        What the further side has closed comes no more, so its rows are those that are kept; each waits
        for partners that the other side may still send, from its start to its end. What is alone changes
        with its row, and with every partner. A null key matches nothing.
        """
        node = self.node
        of_sides = (
            asked_of(asked, {name: name for name in node.left.schema}),
            asked_of(asked, {**node.on, **self._right_columns}),
        )
        own, other = (self.ask(port, each) for port, each in enumerate(of_sides))
        until = np.array(np.broadcast_arrays(own, other, np.empty(_size(asked)))[:2], dtype=np.int64)
        result: Ints = until.min(axis=0)
        for side in (_LEFT,) if node.how in ("left", "anti") else (_LEFT, _RIGHT):
            ahead = np.flatnonzero(until[side] > until[1 - side])
            if len(ahead):
                met = self._met_until(side, [_some(each, ahead) for each in of_sides])
                result[ahead] = np.maximum(result[ahead], np.minimum(until[side][ahead], met))
        lacks = _lacks_keys(asked, [name for name in node.on if name not in node.nulls_match])
        return np.where(lacks, INF if node.how == "inner" else until[_LEFT], result)

    @property
    def _right_columns(self) -> dict[str, str]:
        """Columns of pairs that come from the right: what else is alone, any partner changes."""
        if self.node.how != "inner":
            return {}
        return {called: name for name, called in self.node.right_names.items()}

    def _met_until(self, side: int, asked: Sequence[Promise]) -> Times:
        """Up to when what is kept of a side, of those asked for, meets nothing new."""
        own, other = asked[side], asked[1 - side]
        size = max(map(_size, asked))
        until = np.full(size, INF)
        key, which, kept, (start, end) = self._kept_of(side, own)
        if isinstance(own, Closings):
            values = Keys(own.keys.schema)
            number = values.number(own.keys)
            found = values.find(kept)
            rows = np.flatnonzero((found >= 0) & (found < len(values)))
            order = np.argsort(number, kind="stable")
            first, last = (
                np.searchsorted(number[order], found[rows], side=s) for s in ("left", "right")
            )
            of_row = np.repeat(rows, last - first)
            places = np.arange(len(of_row)) - np.repeat(
                np.cumsum(last - first) - (last - first), last - first
            )
            row = order[np.repeat(first, last - first) + places]
        else:
            rows = np.flatnonzero(own.matches_payload(kept))
            if len(rows) * size > _MOST_ASKED:
                return np.full(size, BEGIN)
            of_row, row = np.repeat(rows, size), np.tile(np.arange(size), len(rows))
        if not len(row):
            return until
        keys = self.keys.take(key[which[of_row]])
        names = dict(zip(self.node.on, key_columns(self.node, 1 - side), strict=True))
        times = _asked_by_key(other, row, keys.rename(names), lambda each: self.ask(1 - side, each))
        # nobody can meet it who comes after its end, and nothing that meets it starts before it
        met = np.where(times >= end[of_row], INF, np.maximum(times, start[of_row]))
        np.minimum.at(until, row, met)
        return until

    def _kept_of(self, side: int, asked: Promise) -> tuple[Ints, Ints, pl.DataFrame, tuple[Ints, Ints]]:
        """Keys, and the events of them that are kept of a side: whose, the columns asked for, times."""
        columns, events = key_columns(self.node, side), self.sides[side]
        if isinstance(asked, Closings) and columns and set(columns) <= set(asked.keys.columns):
            names = dict(zip(columns, self.node.on, strict=True))
            key = self.keys.find(some_columns(asked.keys, columns).rename(names))
            key = np.unique(key[key >= 0])
        else:
            key = np.flatnonzero(events.in_use(len(self.keys)))
        row, which, start, end = events.alive(key)
        wanted = columns_of(asked)
        keys = self.keys.take(key[which])
        of_keys = {own: keys[name].alias(own) for own, name in zip(columns, self.node.on, strict=True)}
        stored = events.payloads.take(row) if set(wanted) - set(columns) else keys
        kept = [of_keys[name] if name in of_keys else stored[name] for name in wanted]
        return key, which, framed(kept, len(row)), (start, end)


def key_columns(node: nodes.Join, port: int) -> list[str]:
    """The key columns of a side."""
    return list(node.on.values() if port == _RIGHT else node.on)


def _size(asked: Promise) -> int:
    return len(asked) if isinstance(asked, Closings) else 1


def _some(asked: Promise, rows: Ints) -> Promise:
    """Some of the questions; one pattern is asked for all."""
    return asked.take(rows) if isinstance(asked, Closings) else asked


def _lacks_keys(asked: Promise, columns: list[str]) -> Mask:
    """Which questions are about rows that have null in one of these columns."""
    if isinstance(asked, Closings):
        some = [asked.keys[name].is_null().to_numpy() for name in columns if name in asked.keys.columns]
        return np.any(some, axis=0) if some else np.zeros(len(asked), dtype=np.bool_)
    patterns = dict(asked.columns)
    return np.array([any(patterns.get(name) == Constant(None) for name in columns)])


def _asked_by_key(
    asked: Promise, row: Ints, keys: pl.DataFrame, ask: Callable[[Promise], Times]
) -> Times:
    """What is answered to some of the questions, each about a key as well."""
    if not keys.columns and not isinstance(asked, Closings):
        return np.full(len(row), ask(asked)[0])
    if isinstance(asked, Closings):
        rest = [name for name in asked.keys.columns if name not in keys.columns]
        keys = framed([*keys, *taken(asked.keys, row).select(rest)], len(row))
    different = Keys(keys.schema)
    number = different.number(keys)
    distinct = different.take(np.arange(len(different)))
    if isinstance(asked, Closings) or not columns_of(asked):
        return np.broadcast_to(ask(question(distinct)), len(different))[number]
    if len(different) > FEW:
        return np.full(len(row), BEGIN)
    # a range beside each of the keys
    times = []
    for values in distinct.iter_rows(named=True):
        both = asked.combine(Punctuation.of(INF, BEGIN, {n: Constant(v) for n, v in values.items()}))
        times.append(INF if both.is_empty else int(ask(both).min()))
    return np.array(times)[number]
