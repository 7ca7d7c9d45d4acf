"""Closing: what promises about columns say of the keys that an operator keeps.

A key is *closed* up to a time, its frontier, if nothing with that key and a sync before it can still
come; at INF it is closed for ever. Only promises that speak of key columns alone say so, and only from
the beginning of time on, or from a time that a cti has passed: what changes a key at one time may change
what is said of it at any later one.

`matched` finds the keys that promises speak of. Closings of exactly the key columns are looked up, which
costs what they are; for others, all keys in use are looked through, once for all that a batch has told.

An operator with one input needs no memory of promises: its input is valid. Of two inputs, what one has
closed and the other has not is remembered (`Ports`): by the number of the key, which a closing gives to
a key that has none yet; other patterns as they are, and a key that comes later is compared with them.

Paper 4 sections 5.2 to 5.4 (groupPs, joinPs, setCombine).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from slackwater.kernels.grouping import Keys
from slackwater.promises import Promises
from slackwater.punctuations import Closings, Promise, Punctuation, combinations
from slackwater.times import BEGIN, INF

__all__ = ["Closed", "Matched", "Ports", "about", "closings_of", "frontiers", "matched", "shortened"]

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_FEW = 1000
"""so many keys and patterns may be looked through whenever a cti moves on"""
_NO_KEYS = np.empty(0, dtype=np.int64)


class Matched(NamedTuple):
    """A promise, the keys that it speaks of, and by which of its closings (0: there is but one)."""

    promise: Promise
    key: Ints
    which: Ints

    @property
    def before(self) -> Ints:
        """Of each key, up to when it is closed."""
        return _before(self.promise)[self.which]


def about(told: Iterable[Promise], columns: Collection[str], cti: int = BEGIN) -> list[Promise]:
    """The promises that speak of these columns alone, and from the beginning of time on.

    Before the cti nothing comes anyway.
    """
    found: list[Promise] = []
    for promise in told:
        if not promise.speaks_only_of(columns):
            continue
        if isinstance(promise, Closings):
            found.append(promise)
        elif promise.since <= cti:
            found.append(replace(promise, since=BEGIN))
    return found


def matched(keys: Keys, told: Iterable[Promise]) -> list[Matched]:
    """Which keys in use these promises speak of."""
    found = []
    frame: pl.DataFrame | None = None
    for promise in told:
        if _is_exact(promise, keys):
            assert isinstance(promise, Closings)
            key = keys.find(promise.keys)
            which = np.flatnonzero(key >= 0)
            found.append(Matched(promise, key[which], which))
            continue
        if frame is None:
            frame = keys.take(np.arange(len(keys)))
        found.append(_looked_through(frame, promise))
    return found


def _looked_through(frame: pl.DataFrame, promise: Promise) -> Matched:
    """Which rows of a frame a promise speaks of."""
    if isinstance(promise, Punctuation):
        key = np.flatnonzero(promise.matches_payload(frame))
        return Matched(promise, key, np.zeros(len(key), dtype=np.int64))
    # whatever limits the strongest of equal ones limits the others as well
    promise = promise.strongest()
    values = Keys(promise.keys.schema)
    values.number(promise.keys)
    found = values.find(frame)
    key = np.flatnonzero(found >= 0)
    return Matched(promise, key, found[key])


def frontiers(found: Sequence[Matched]) -> tuple[Ints, Ints]:
    """Each key that something is promised of, once, in order; and up to when it is closed."""
    if not found:
        return _NO_KEYS, _NO_KEYS
    if len(found) == 1:
        key, before = found[0].key, found[0].before
    else:
        key = np.concatenate([each.key for each in found])
        before = np.concatenate([each.before for each in found])
    if not (key[1:] > key[:-1]).all():
        order = np.lexsort((before, key))
        key, before = key[order], before[order]
        last = np.append(key[1:] != key[:-1], True)
        key, before = key[last], before[last]
    return key, before


def shortened(found: Sequence[Matched], key: Ints, until: Ints) -> tuple[Promise, ...]:
    """The same promises, none of them further than is given for one of its keys.

    `key` has all keys that are matched, in order.
    """
    return tuple(
        _limited(each.promise, each.which, until[np.searchsorted(key, each.key)]) for each in found
    )


def closings_of(keys: Keys, key: Ints, until: Ints) -> list[Promise]:
    """That these keys are closed, each up to a time of its own."""
    return [Closings(keys.take(key), until)] if len(key) else []


def _limited(promise: Promise, which: Ints, until: Ints) -> Promise:
    before = _before(promise).copy()
    np.minimum.at(before, which, until)
    if isinstance(promise, Closings):
        return Closings(promise.keys, before)
    return replace(promise, before=int(before[0]))


def _before(promise: Promise) -> Ints:
    if isinstance(promise, Closings):
        return promise.before
    return np.array([promise.before])


@dataclass(slots=True)
class Ports:
    """What each of two ports has closed: by the number of a key, and patterns that are no closings."""

    patterns: tuple[Promises, Promises]
    until: Ints = field(default_factory=lambda: np.empty((0, 2), dtype=np.int64))
    """per key and port; BEGIN: nothing is promised. There is room for more"""
    said: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """per key, up to when it was found to be closed by both"""
    known: int = 0
    """how many keys have been compared with the patterns"""
    told: bool = False
    """whether anything was closed so far"""
    heard: int = 0
    """rows and promises since what one has promised was last combined with the cti of the other"""

    @classmethod
    def of(cls, schema: pl.Schema) -> Ports:
        """Nothing is closed."""
        return cls((Promises.of(schema), Promises.of(schema)))

    def admit(self, keys: Keys) -> None:
        """Compare the keys that have come with what was promised before."""
        if len(keys) == self.known:
            return
        if len(keys) > len(self.until):
            until = np.full((max(len(keys), 2 * len(self.until)), 2), BEGIN)
            until[: self.known] = self.until[: self.known]
            said = np.full(len(until), BEGIN)
            said[: self.known] = self.said[: self.known]
            self.until, self.said = until, said
        come = slice(self.known, len(keys))
        self.until[come] = self.said[come] = BEGIN
        if any(len(patterns) for patterns in self.patterns):
            frame = keys.take(np.arange(self.known, len(keys)))
            for port, patterns in enumerate(self.patterns):
                self.until[come, port] = patterns.frontier(frame)
        self.known = len(keys)

    def tell(self, port: int, told: Sequence[Promise], keys: Keys, ctis: Sequence[int]) -> Closed:
        """A port has closed keys; the promises speak of the columns of `keys` alone."""
        self.told = True
        self.heard += sum(len(each) if isinstance(each, Closings) else 1 for each in told)
        found = [
            Matched(promise, keys.number(promise.keys), np.arange(len(promise)))
            for promise in told
            if isinstance(promise, Closings) and _is_exact(promise, keys)
        ]
        self.admit(keys)
        patterns = [promise for promise in told if not _is_exact(promise, keys)]
        both: list[Promise] = []
        if patterns:
            both = self.patterns[1 - port].combined(patterns)
            if ctis[1 - port] > ctis[port]:
                both += combinations(patterns, [Punctuation(ctis[1 - port])])
            self.patterns[port].add(patterns)
            for each in self.patterns:
                each.forget(both)
            found += matched(keys, patterns)
        key, before = frontiers(found)
        self.until[key, port] = np.maximum(self.until[key, port], before)
        return self._closed(key, ctis, both)

    def hear(self, keys: Keys, rows: int) -> None:
        """So many rows have come, some with keys that are new."""
        if self.told:
            self.heard += rows
            self.admit(keys)

    def reach(self, port: int, keys: Keys, before: Sequence[int], ctis: Sequence[int]) -> Closed | None:
        """The cti of a port has moved: what the other has promised beyond its own, both then have.

        All that one of them has promised is looked through for that, so not at every cti if it is more
        than what has come since. What is not told then is told later.
        """
        others = self.patterns[1 - port]
        if not self.told or before == ctis or min(ctis) == INF:
            return None
        if len(keys) + len(others) > max(_FEW, self.heard) and ctis[port] < INF:
            return None
        self.heard = 0
        self.admit(keys)
        both = []
        if len(others) and ctis[port] > ctis[1 - port]:
            both = others.combined([Punctuation(ctis[port])])
            others.forget(both)
        beyond = np.flatnonzero(self.until[: self.known, 1 - port] > ctis[1 - port])
        key, until, is_news, _ = self._closed(beyond, ctis, both)
        return Closed(key[is_news], until[is_news], is_news[is_news], both)

    def _closed(self, key: Ints, ctis: Sequence[int], both: list[Promise]) -> Closed:
        now = self.frontier(key, ctis)
        is_news = now > np.maximum(self.said[key], min(ctis))
        self.said[key] = np.maximum(self.said[key], now)
        return Closed(key, now, is_news, both)

    def frontier(self, key: Ints, ctis: Sequence[int]) -> Ints:
        """Up to when both ports have closed these keys."""
        # column by column: numpy is slow along an axis of two
        first, second = (np.maximum(self.until[key, port], ctis[port]) for port in (0, 1))
        both: Ints = np.minimum(first, second)
        return both

    def in_use(self, ctis: Sequence[int]) -> Mask:
        """The keys of which one port has promised what the other has not."""
        first, second = (self.until[: self.known, port] for port in (0, 1))
        more = (first > ctis[0]) | (second > ctis[1])
        found: Mask = more & ((first < INF) | (second < INF))
        return found

    def renumber(self, alive: Mask) -> None:
        """Other keys are gone, and these are numbered from 0."""
        self.until = self.until[: self.known][alive[: self.known]]
        self.said = self.said[: self.known][alive[: self.known]]
        self.known = len(self.until)


class Closed(NamedTuple):
    """Keys that a port has closed, in order, and up to when both have; patterns that both have."""

    key: Ints
    until: Ints
    is_news: Mask
    """whether both have closed the key further than before"""
    patterns: list[Promise]

    def promises(self, keys: Keys) -> list[Promise]:
        """What both have closed, as far as it is news."""
        return self.with_patterns(keys, self.key[self.is_news], self.until[self.is_news])

    def with_patterns(self, keys: Keys, key: Ints, until: Ints) -> list[Promise]:
        """That keys are closed, and the patterns; not that of a key which a pattern says as well."""
        if self.patterns and len(key):
            said = Promises.of(keys.schema)
            said.add(self.patterns)
            more = until > said.frontier(keys.take(key))
            key, until = key[more], until[more]
        return [*closings_of(keys, key, until), *self.patterns]


def _is_exact(promise: Promise, keys: Keys) -> bool:
    return isinstance(promise, Closings) and set(promise.keys.columns) == set(keys.schema)
