"""Promises to draw for a physical stream: about any column, each of them kept.

Whatever a promise says of the columns, the elements that are still to come tell in which times it holds:
between the syncs of those that match it. So the pattern is drawn first, and the times are derived.
Patterns are made of values that the stream has, for others would seldom be of interest.

Paper 4 section 3.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from functools import cache
from itertools import accumulate, combinations, pairwise
from typing import Any, TypeAlias

import polars as pl
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from slackwater.events import Adjust, Insert
from slackwater.identity import identity, place
from slackwater.patterns import Constant, OneOf, Pattern, Range, holds
from slackwater.punctuations import Punctuation
from slackwater.times import BEGIN, INF, plus

__all__ = ["draw_promises"]

Data: TypeAlias = Insert | Adjust
Columns: TypeAlias = tuple[tuple[str, Pattern], ...]

_MOST = 4
# constant, list, between, below, above; each end of a range belongs to it or not
_KINDS, _ENDS = 5, 4


def draw_promises(
    draw: DrawFn, data: Sequence[Data], schema: pl.Schema, names: Sequence[str]
) -> list[list[Punctuation]]:
    """The promises about columns that are made before each element, and at the end."""
    promises: list[list[Punctuation]] = [[] for _ in range(len(data) + 1)]
    speaks_of = _speaks_of([name for name in names if not schema[name].is_nested()])
    if not speaks_of or not data:
        return promises
    known = {name: _values(data, name) for name in schema}
    manner, which = draw(_soon(len(speaks_of)))
    if manner:
        for at, promise in _as_soon_as_kept(data, speaks_of[which], whole=manner == 1):
            promises[at].append(promise)
    most = max(map(len, known.values()))
    for at, which, *numbers in draw(_deviations(len(promises), len(speaks_of), most)):
        kind, ends, one, other, gap, less = numbers
        columns = tuple(
            (name, _pattern(kind, ends, _some(known[name], one), _some(known[name], other)))
            for name in speaks_of[which]
        )
        since, before = _gap([e.sync for e in data[at:] if _says(columns, e.payload)], gap)
        if before < INF:
            before = plus(before, -less)
        elif less:
            # less than could be promised: as far as something is said already
            before = 1 + max(element.sync for element in data)
        if since < before:
            promises[at].append(Punctuation(before, since, columns))
    return promises


@cache
def _soon(subsets: int) -> SearchStrategy[tuple[int, int]]:
    """Whether promises come as soon as they are kept, for each value: not, once for all, in steps."""
    return st.tuples(st.integers(0, 2), st.integers(0, subsets - 1))


@cache
def _deviations(places: int, subsets: int, values: int) -> SearchStrategy[list[tuple[int, ...]]]:
    limits = (places, subsets, _KINDS, _ENDS, values, values, 3, 3)
    return st.lists(st.tuples(*(st.integers(0, limit - 1) for limit in limits)), max_size=_MOST)


def _speaks_of(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Which columns a promise may name: one, or two of them."""
    return [*((name,) for name in names), *combinations(sorted(names), 2)]


def _values(data: Sequence[Data], name: str) -> list[Any]:
    """The values of a column, each of them once."""
    return list({identity(e.payload[name]): e.payload[name] for e in data}.values())


def _some(values: Sequence[Any], which: int) -> Any:
    return values[which % len(values)]


def _as_soon_as_kept(
    data: Sequence[Data], names: tuple[str, ...], *, whole: bool
) -> list[tuple[int, Punctuation]]:
    """For each value in these columns what can be promised, where it first can be.

    `whole`: only once nothing at all can come.
    """
    found = []
    for columns in {_key(e, names): _constants(e, names) for e in data}.values():
        syncs = [e.sync if _says(columns, e.payload) else INF for e in data]
        # the least sync that is still to come, before each element and at the end
        limits = list(accumulate(reversed(syncs), min, initial=INF))[::-1]
        for at, (earlier, limit) in enumerate(pairwise((BEGIN, *limits))):
            if limit > earlier and (limit == INF or not whole):
                found.append((at, Punctuation(limit, columns=columns)))
    return found


def _key(element: Data, names: tuple[str, ...]) -> Hashable:
    return identity([element.payload[name] for name in names])


def _constants(element: Data, names: tuple[str, ...]) -> Columns:
    return tuple((name, Constant(element.payload[name])) for name in names)


def _pattern(kind: int, ends: int, one: Any, other: Any) -> Pattern:
    """The pattern that these numbers mean; a constant where the values permit no other."""
    low, high = sorted((one, other), key=place)
    has_order = not any(_stands_alone(value) for value in (low, high))
    low_closed, high_closed = ends % 2 == 0, ends < 2
    if kind == 1 and identity(low) != identity(high):
        return OneOf((low, high))
    if kind == 2 and has_order and identity(low) != identity(high):
        return Range(low, high, low_closed, high_closed)
    if kind == 3 and has_order:
        return Range(None, high, high_closed=high_closed)
    if kind == 4 and has_order:
        return Range(low, None, low_closed=low_closed)
    return Constant(one)


def _stands_alone(value: Any) -> bool:
    """Whether no range holds it."""
    return value is None or isinstance(value, bool) or (isinstance(value, float) and math.isnan(value))


def _says(columns: Columns, payload: Mapping[str, Any]) -> bool:
    """Whether a payload matches every pattern."""
    return all(holds(pattern, payload[name]) for name, pattern in columns)


def _gap(syncs: Sequence[int], which: int) -> tuple[int, int]:
    """One of the intervals between these times, the first of which begins with time itself."""
    times = sorted(set(syncs))
    gaps = list(pairwise((BEGIN, *(time for each in times for time in (each, each + 1)), INF)))[::2]
    return gaps[which % len(gaps)]
