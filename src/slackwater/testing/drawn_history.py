"""Histories to draw: a few events whose times and payloads often coincide.

Payloads come from a pool drawn beforehand, and starts from a short span, so that equal, abutting
and overlapping lifetimes of equal payloads are the rule. Exact duplicates are drawn on purpose.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import polars as pl
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from slackwater.events import Event
from slackwater.history import History
from slackwater.identity import identity
from slackwater.testing.drawn_payload import Columns, payloads, schemas
from slackwater.times import INF, plus

__all__ = ["histories", "start_and_payload"]

_DURATIONS = (1, 2, 3, 4, 5)


def histories(
    schema: pl.Schema | SearchStrategy[pl.Schema] | None = None,
    *,
    columns: Columns | None = None,
    min_size: int = 0,
    max_size: int = 6,
    span: int = 8,
    unbounded: bool = True,
    negative: bool = True,
    vs_payload_key: bool = False,
) -> SearchStrategy[History]:
    """Histories of `min_size` to `max_size` events, all of which start within `span` chronons.

    `unbounded` permits events that end at INF, `negative` times before 0; `vs_payload_key` permits
    only one event for each start and payload. `columns` replaces the strategies of the columns
    that it names. Without a schema, one is drawn by `schemas`.

    >>> from slackwater.testing import simplest
    >>> schema = pl.Schema({"k": pl.String})
    >>> simplest(histories(schema), lambda history: len(history) == 2).rows()
    [('a', 0, 1), ('a', 0, 1)]
    >>> simplest(histories(schema, vs_payload_key=True), lambda history: len(history) == 2).rows()
    [('a', 0, 1), ('a', 1, 2)]
    """
    if schema is None:
        schema = schemas()
    return _histories(
        schema if isinstance(schema, SearchStrategy) else st.just(schema),
        columns=columns,
        size=(min_size, max_size),
        span=span,
        durations=(*_DURATIONS, INF) if unbounded else _DURATIONS,
        origins=(0, 0, 0, -(span // 2) - 1) if negative else (0,),
        vs_payload_key=vs_payload_key,
    )


@st.composite
def _histories(
    draw: DrawFn,
    schema_strategy: SearchStrategy[pl.Schema],
    *,
    columns: Columns | None,
    size: tuple[int, int],
    span: int,
    durations: Sequence[int],
    origins: Sequence[int],
    vs_payload_key: bool,
) -> History:
    schema = draw(schema_strategy)
    max_size = size[1]
    distinct = identity if vs_payload_key else None
    payload = payloads(schema, columns)
    pool = draw(st.lists(payload, min_size=1, max_size=max(3, max_size // 2), unique_by=distinct))
    origin = draw(st.sampled_from(origins))
    numbers = _events(size, span, len(durations), len(pool), vs_payload_key)
    events = []
    for after, which_duration, which_payload, copies in draw(numbers):
        vs = origin + after
        event = Event(vs, plus(vs, durations[which_duration]), pool[which_payload])
        events += [event] * copies
    return History.from_events(events[:max_size], schema)


@cache
def _events(
    size: tuple[int, int], span: int, durations: int, payloads: int, vs_payload_key: bool
) -> SearchStrategy[list[tuple[int, int, int, int]]]:
    """For each event its start, which duration, which payload, and how many copies.

    Numbers, so that one strategy serves many examples: making one takes longer than using it.
    """
    event = st.tuples(
        st.integers(0, span),
        st.integers(0, durations - 1),
        st.integers(0, payloads - 1),
        st.just(1) if vs_payload_key else st.sampled_from((1, 1, 1, 1, 2, 3)),
    )
    key = (lambda numbers: (numbers[0], numbers[2])) if vs_payload_key else None
    return st.lists(event, min_size=size[0], max_size=size[1], unique_by=key)


def start_and_payload(event: Event) -> tuple[int, object]:
    """What identifies an event where start and payload are a key."""
    return event.vs, identity(event.payload)
