"""Histories instant by instant: the view in which what a node should answer is easy to compute.

All drawn times lie between FIRST and UNTIL, and nothing changes from UNTIL - 1 on, so that this
instant stands for all later ones and an event without end can be followed to it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import Any, TypeAlias

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from slackwater.history import History
from slackwater.times import INF

FIRST, UNTIL = -10, 40

fewer_examples = settings(max_examples=settings().max_examples // 2)
"""Half of what the profile says, for laws of which each example asks for several answers."""

Row: TypeAlias = tuple[Hashable, ...]

keys: SearchStrategy[str | None] = st.sampled_from(("a", "b", None))
integers: SearchStrategy[int | None] = st.sampled_from((0, 1, 2, 5, -3, None))
floats: SearchStrategy[float | None] = st.sampled_from((0.0, 1.0, -0.0, 2.5, math.nan, None))


def plain(value: Any) -> Hashable:
    """A value that Python compares as we do: NaN = NaN, null = null."""
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, dict):
        return tuple((name, plain(part)) for name, part in value.items())
    return tuple(map(plain, value)) if isinstance(value, list | tuple) else value


def bag(rows: Iterable[Sequence[Any]]) -> Counter[Row]:
    return Counter(tuple(map(plain, row)) for row in rows)


def rows(history: History) -> Counter[Row]:
    """The bag of (payload..., vs, ve)."""
    return bag(history.frame.rows())


def at_instants(history: History) -> Counter[Row]:
    """The bag of (t, payload...) with one entry for every instant at which an event is alive."""
    return bag(
        (t, *payload)
        for *payload, vs, ve in history.frame.rows()
        for t in range(max(vs, FIRST), min(ve, UNTIL))
    )


def runs(alive: Callable[[int], bool], cuts: Collection[int] = ()) -> list[tuple[int, int]]:
    """The longest lifetimes that cover exactly the instants that are alive, cut where told."""
    lifetimes, start = [], None
    for t in range(FIRST, UNTIL):
        if start is not None and (t in cuts or not alive(t)):
            lifetimes.append((start, t))
            start = None
        if start is None and alive(t):
            start = t
    return lifetimes if start is None else [*lifetimes, (start, INF)]
