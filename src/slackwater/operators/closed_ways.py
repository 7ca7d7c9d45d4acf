"""Closed ways: what promises about rows at consecutive places say of the ways over them (automaton.py).

A way over the places from b to e comes, goes or gets another end only with a row at one of them. So if
the places from l to h are closed up to t, each by itself or together, then before t nothing comes with

    l <= begin and end <= h         the ways that lie within
    l <= begin < m                  where m is the first place from which some way looks beyond h

and what has no place leads nowhere, and is closed as it is. If all of that is, the key is.

Places that are closed are remembered as stretches, each once as long as it holds as a whole: of places
that are closed one by one, in order, that is one stretch. Beside them it is remembered up to where
beginnings have been promised, so that nothing is said twice.

*Keep.* If all places up to h are closed for ever, the rows before m are in no way that may change.

Paper 4 sections 5.2 to 5.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from slackwater.kernels import automata, spans
from slackwater.kernels.grouping import Keys
from slackwater.kernels.integers import places
from slackwater.kernels.slabs import Slabs
from slackwater.operators.closing import closings_of
from slackwater.operators.projection import Apart
from slackwater.patterns import Constant, Pattern, Range, values_of
from slackwater.punctuations import Closings, Promise, Punctuation
from slackwater.times import BEGIN, INF

__all__ = ["ClosedWays", "closed_for_ever", "within"]

ways_kernel: Any = automata
"""compiled functions, which mypy cannot follow"""
kernel: Any = spans

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_GROUP, _LOW, _HIGH, _BEFORE = range(4)


def _nothing() -> Ints:
    return np.empty((0, 4), dtype=np.int64)


@dataclass(slots=True)
class ClosedWays:
    """What has been promised of rows, as far as it counts; stretches are those of kernels/spans.py.

    Their groups are twice the number of a key, and one more for what has no place.
    """

    apart: Apart = field(default_factory=Apart)
    places: Ints = field(default_factory=_nothing)
    begun: Ints = field(default_factory=_nothing)
    """of which places it has been said that what begins there is closed"""

    def purge(self, cti: int) -> None:
        """Drop what a cti implies."""
        self.places = self.places[self.places[:, _BEFORE] > cti]
        self.begun = self.begun[self.begun[:, _BEFORE] > cti]

    def forget(self, key: Ints) -> None:
        """Nothing comes with these keys."""
        self.places = self.places[~np.isin(self.places[:, _GROUP] >> 1, key)]
        self.begun = self.begun[~np.isin(self.begun[:, _GROUP] >> 1, key)]

    def in_use(self, keys: int) -> Mask:
        """The keys of which something is remembered."""
        found = np.zeros(keys, dtype=np.bool_)
        found[self.places[:, _GROUP] >> 1] = True
        found[self.begun[:, _GROUP] >> 1] = True
        return found

    def renumber(self, number: Ints) -> None:
        """Keys have other numbers, in the same order."""
        for run in (self.places, self.begun):
            run[:, _GROUP] = 2 * number[run[:, _GROUP] >> 1] + (run[:, _GROUP] & 1)


def within(
    known: ClosedWays, keys: Keys, rows: Slabs, told: Sequence[Promise], place: str
) -> tuple[list[Promise], list[Promise]]:
    """What follows from promises about places, of some keys or of all: of the keys alone, and of ways.

    They are remembered.
    """
    run = _nothing()
    found: list[Promise] = []
    for each in told:
        some = _stretches(keys, each, place)
        if some is None:
            found += _alone(each, place)
        else:
            run = kernel.overlaid(run, some, BEGIN)
    if not len(run):
        return [], found
    rows.admit(len(keys))
    before = known.places
    known.places = kernel.overlaid(before, run, BEGIN)
    key = np.unique(run[:, _GROUP] >> 1)
    whole = _whole(known.places, key)
    wide = kernel.widest(kernel.around(known.places, run))
    said = np.maximum(
        kernel.covered_until(before, wide), whole[np.searchsorted(key, wide[:, _GROUP] >> 1)]
    )
    wide = wide[wide[:, _BEFORE] > said]
    found += _of_stretches(known, before, wide, keys, rows)
    news = whole > _whole(before, key)
    return _closed_keys(keys, key[news], whole[news]), found


def _whole(run: Ints, key: Ints) -> Ints:
    """Up to when all places of these keys are closed, and none."""
    every = np.zeros((2, len(key), 4), dtype=np.int64)
    every[0, :, _GROUP], every[0, :, _LOW], every[0, :, _HIGH] = 2 * key, BEGIN, INF
    every[1, :, _GROUP] = 2 * key + 1
    one, other = (kernel.covered_until(run, each) for each in every)
    until: Ints = np.minimum(one, other)
    return until


def _closed_keys(keys: Keys, key: Ints, until: Ints) -> list[Promise]:
    """That these keys are closed; without columns, that is a promise about everything."""
    if not keys.schema:
        return [Punctuation(int(each)) for each in until]
    return closings_of(keys, key, until)


def _of_stretches(
    known: ClosedWays, earlier: Ints, wide: Ints, keys: Keys, rows: Slabs
) -> Iterator[Promise]:
    """What is promised of ways over these stretches; `earlier`: what was closed before."""
    group, low, high, before = (np.ascontiguousarray(wide[:, i]) for i in range(4))
    beyond = np.empty(len(wide), dtype=np.int64)
    given = rows.start, rows.size, rows.rows, rows.said
    is_open = ways_kernel.first_beyond(*given, group >> 1, low, high, beyond)
    nowhere = (group & 1).astype(np.bool_)
    last = np.where(is_open, beyond - 1, high)
    begins = ~nowhere & (last >= low) & _begun(known, np.column_stack((group, low, last, before)))
    rest = np.column_stack((group, beyond, high, before))
    # else a shorter stretch says so
    ends = ~nowhere & is_open & (kernel.covered_until(earlier, rest) < before)
    ends &= kernel.covered_until(known.places, rest) <= before
    names = list(keys.schema)
    values = keys.tuples(group >> 1) if names else [()] * len(wide)
    for i in range(len(wide)):
        columns: dict[str, Pattern] = {n: Constant(v) for n, v in zip(names, values[i], strict=True)}
        until = int(before[i])
        if nowhere[i]:
            yield Punctuation.of(until, BEGIN, {**columns, "begin": Constant(None)})
        if begins[i]:
            begin = _between(int(low[i]), int(last[i]))
            yield Punctuation.of(until, BEGIN, {**columns, "begin": begin})
        if ends[i]:
            within = {"begin": _between(int(beyond[i]), int(high[i])), "end": Range(None, int(high[i]))}
            yield Punctuation.of(until, BEGIN, {**columns, **within})


def _begun(known: ClosedWays, stretches: Ints) -> Mask:
    """Where what begins there is closed longer than was said; now it is."""
    is_news = np.zeros(len(stretches), dtype=np.bool_)
    is_some = (stretches[:, _HIGH] >= stretches[:, _LOW]) & (stretches[:, _GROUP] & 1 == 0)
    # the longest first, which may imply others; those of one time have nothing in common
    for until in np.unique(stretches[is_some, _BEFORE])[::-1]:
        which = np.flatnonzero(is_some & (stretches[:, _BEFORE] == until))
        which = which[kernel.covered_until(known.begun, stretches[which]) < until]
        is_news[which] = True
        columns = (np.ascontiguousarray(stretches[which, i]) for i in range(4))
        group, low, high, before = columns
        run = kernel.run_of(group, low, high, before, np.lexsort((low, group)), BEGIN)
        known.begun = kernel.overlaid(known.begun, run, BEGIN)
    return is_news


def _between(low: int, high: int) -> Pattern:
    if low == high:
        return Constant(low)
    return Range(None if low == BEGIN else low, None if high == INF else high)


def _stretches(keys: Keys, told: Promise, place: str) -> Ints | None:
    """The places of each key that a promise speaks of; none if it does not name each key it means."""
    if isinstance(told, Punctuation) and told.is_of_values:
        [told] = Closings.of([told], {**keys.schema, place: pl.Int64()})
    if isinstance(told, Closings):
        if set(told.keys.columns) != {*keys.schema, place}:
            return None
        value, is_null = places(told.keys.get_column(place))
        group = 2 * keys.number(told.keys)
        if is_null is not None:
            group, value = group + is_null, np.where(is_null, 0, value)
        of_values: Ints = kernel.run_of(
            group, value, value, told.before, np.lexsort((told.before, value, group)), BEGIN
        )
        return of_values
    columns = dict(told.columns)
    drawn = columns.pop(place)
    constants = {name: p for name, p in columns.items() if isinstance(p, Constant)}
    if set(constants) != set(keys.schema) or not isinstance(drawn, Range):
        return None
    low = BEGIN if drawn.low is None else drawn.low + (not drawn.low_closed)
    high = INF if drawn.high is None else drawn.high - (not drawn.high_closed)
    if low > high:
        return _nothing()
    number = keys.number_one([constants[name].value for name in keys.schema])
    return np.array([[2 * number, low, high, told.before]], dtype=np.int64)


def _alone(told: Promise, place: str) -> Iterable[Promise]:
    """What a promise about many keys says by itself: of ways that lie within its places."""
    for each in told if isinstance(told, Closings) else [told]:
        columns = dict(each.columns)
        drawn = columns.pop(place)
        if isinstance(drawn, Range):
            ends = Range(None, drawn.high, high_closed=drawn.high_closed)
            yield Punctuation.of(each.before, BEGIN, {**columns, "begin": drawn, "end": ends})
            continue
        for value in values_of(drawn):
            alone: dict[str, Pattern] = {"begin": Constant(value)}
            if value is not None:
                alone["end"] = Range(None, value)
            yield replace(each, columns=Punctuation.of(each.before, BEGIN, {**columns, **alone}).columns)


def closed_for_ever(known: ClosedWays) -> tuple[Ints, Ints, Mask]:
    """Keys of which all places up to one are closed for ever, that one, and whether none is as well."""
    some = known.places[known.places[:, _BEFORE] == INF]
    nowhere = some[(some[:, _GROUP] & 1) == 1, _GROUP] >> 1
    front = some[((some[:, _GROUP] & 1) == 0) & (some[:, _LOW] == BEGIN)]
    key = np.unique(np.concatenate([front[:, _GROUP] >> 1, nowhere]))
    high = np.full(len(key), BEGIN, dtype=np.int64)
    high[np.searchsorted(key, front[:, _GROUP] >> 1)] = front[:, _HIGH]
    return key, high, np.isin(key, nowhere)
