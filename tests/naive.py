"""The stream model once more, slow and obvious: dictionaries and loops, one instant at a time.

What tests of events, histories and validity compare with. Nothing here uses a column, and nothing
is shared with the code under test but the elements themselves.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import polars as pl
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from slackwater.events import Adjust, Batch, Control, Element, Event, Insert
from slackwater.punctuations import Punctuation, cti
from slackwater.times import BEGIN, INF

SCHEMA = pl.Schema({"k": pl.String, "x": pl.Float64})
HORIZON = 12
"""The drawn times lie before it, or are INF."""

Life: TypeAlias = tuple[int, int, Hashable]


@dataclass(frozen=True)
class Marker(Control):
    """A kind of control element that the library has never heard of."""

    name: str


def value_key(value: object) -> Hashable:
    """null = null, NaN = NaN, -0.0 = 0.0."""
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    assert isinstance(value, Hashable), "SCHEMA has plain values"
    return 0.0 if value == 0 else value


def payload_key(payload: Mapping[str, Any]) -> Hashable:
    return tuple((name, value_key(payload[name])) for name in sorted(payload))


def reconstitute(elements: Iterable[Element]) -> Counter[Life]:
    """The multiset of (vs, ve, payload) that a valid stream describes."""
    history: Counter[Life] = Counter()
    for element in elements:
        if not isinstance(element, Insert | Adjust):
            continue
        key = payload_key(element.payload)
        if isinstance(element, Insert):
            history[element.vs, element.ve, key] += 1
        else:
            assert history[element.vs, element.ve, key] > 0, "the stream is not valid"
            history[element.vs, element.ve, key] -= 1
            if element.new_ve > element.vs:
                history[element.vs, element.new_ve, key] += 1
    return +history


def multiset(events: Iterable[Event]) -> Counter[Life]:
    return Counter((event.vs, event.ve, payload_key(event.payload)) for event in events)


def bag_at(history: Counter[Life], time: int) -> Counter[Hashable]:
    """The payloads alive at an instant."""
    alive: Counter[Hashable] = Counter()
    for (vs, ve, key), count in history.items():
        if vs <= time < ve:
            alive[key] += count
    return alive


def instants(*histories: Counter[Life]) -> list[int]:
    """Enough instants to tell any two of these histories apart: where something can change."""
    return sorted({t for history in histories for vs, ve, _ in history for t in (vs, ve)})


def snapshots_equal(one: Counter[Life], other: Counter[Life]) -> bool:
    return all(bag_at(one, t) == bag_at(other, t) for t in instants(one, other))


def coalesced(history: Counter[Life]) -> Counter[Life]:
    """Per payload, copy k lives while the multiplicity is at least k."""
    result: Counter[Life] = Counter()
    times = instants(history)
    for key in {key for _, _, key in history}:
        levels = [bag_at(history, t)[key] for t in times]
        for k in range(1, max(levels) + 1):
            since = None
            for time, level in zip(times, levels, strict=True):
                if level >= k and since is None:
                    since = time
                elif level < k and since is not None:
                    result[since, time, key] += 1
                    since = None
    return result


def judge(elements: Sequence[Element]) -> list[str | None]:
    """For each element the rule it breaks, None if none; what breaks one never happened."""
    history: Counter[Life] = Counter()
    promised = BEGIN
    verdicts: list[str | None] = []
    for element in elements:
        verdict = None
        if isinstance(element, Punctuation):
            promised = max(promised, element.before)
        elif isinstance(element, Insert | Adjust):
            verdict = _rule_broken(element, history, promised)
            if verdict is None:
                _apply(element, history)
        verdicts.append(verdict)
    return verdicts


def breaks(element: Insert | Adjust, promised: int) -> bool:
    """Whether an element changes something before the promised time; after INF nothing comes."""
    changed = element.vs if isinstance(element, Insert) else min(element.ve, element.new_ve)
    return changed < promised or promised == INF


def _rule_broken(element: Insert | Adjust, history: Counter[Life], promised: int) -> str | None:
    if breaks(element, promised):
        return "promise broken"
    if isinstance(element, Insert):
        return None
    key = payload_key(element.payload)
    if history[element.vs, element.ve, key]:
        return None
    starts = {(vs, k) for (vs, _, k), count in history.items() if count}
    return "chain out of order" if (element.vs, key) in starts else "unknown event"


def _apply(element: Insert | Adjust, history: Counter[Life]) -> None:
    key = payload_key(element.payload)
    if isinstance(element, Insert):
        history[element.vs, element.ve, key] += 1
        return
    history[element.vs, element.ve, key] -= 1
    if element.new_ve > element.vs:
        history[element.vs, element.new_ve, key] += 1


def payloads() -> SearchStrategy[dict[str, Any]]:
    """Few different ones, so that events meet; and the values that are hard to compare."""
    values = st.sampled_from([0.0, -0.0, math.nan, None, 1.5])
    return st.fixed_dictionaries({"k": st.sampled_from(["a", "b", None]), "x": values})


def ends(after: int) -> SearchStrategy[int]:
    return st.one_of(st.integers(after + 1, max(after + 1, HORIZON)), st.just(INF))


@st.composite
def events(draw: DrawFn) -> Event:
    vs = draw(st.integers(0, HORIZON - 2))
    return Event(vs, draw(ends(vs)), draw(payloads()))


@st.composite
def any_elements(draw: DrawFn) -> Element:
    """An element that may or may not be valid where it stands."""
    sort = draw(st.sampled_from(["insert", "insert", "adjust", "adjust", "cti", "marker"]))
    if sort == "marker":
        return Marker(draw(st.sampled_from("pq")))
    if sort == "cti":
        return cti(draw(st.one_of(st.integers(0, HORIZON), st.just(INF))))
    vs, ve, payload = draw(events())
    if sort == "insert":
        return Insert(vs, ve, payload)
    return Adjust(vs, ve, draw(st.one_of(st.just(vs), ends(vs))), payload)


def any_streams() -> SearchStrategy[list[Element]]:
    return st.lists(any_elements(), max_size=25)


@st.composite
def valid_streams(draw: DrawFn) -> list[Element]:
    """A stream that keeps its promises and adjusts only what exists."""
    stream: list[Element] = []
    alive: list[Event] = []
    promised = 0
    for _ in range(draw(st.integers(0, 20))):
        # an adjust keeps the promise if both its ends lie behind it
        adjustable = [i for i, event in enumerate(alive) if event.ve >= promised]
        sort = draw(st.sampled_from(["insert", "cti", "marker", *["adjust"] * bool(adjustable)]))
        if sort == "marker":
            stream.append(Marker("m"))
        elif sort == "cti":
            time = draw(st.integers(0, HORIZON - 2))
            promised = max(promised, time)
            stream.append(cti(time))
        elif sort == "insert":
            vs = draw(st.integers(promised, HORIZON - 2))
            event = Event(vs, draw(ends(vs)), draw(payloads()))
            alive.append(event)
            stream.append(Insert(*event))
        else:
            index = draw(st.sampled_from(adjustable))
            vs, ve, payload = alive.pop(index)
            new_ve = draw(st.one_of(st.integers(max(vs, promised), HORIZON), st.just(INF)))
            stream.append(Adjust(vs, ve, new_ve, _other_zero(draw, payload)))
            if new_ve > vs:
                alive.append(Event(vs, new_ve, payload))
    return stream


def _other_zero(draw: DrawFn, payload: Mapping[str, Any]) -> Mapping[str, Any]:
    """Perhaps the same payload, spelled with the other zero."""
    if payload["x"] == 0 and draw(st.booleans()):
        return {**payload, "x": -payload["x"]}
    return payload


@st.composite
def cuts(draw: DrawFn, elements: Sequence[Element]) -> list[Batch]:
    """The elements in consecutive batches, some of them perhaps empty."""
    places = sorted(draw(st.lists(st.integers(0, len(elements)), max_size=6)))
    bounds = zip([0, *places], [*places, len(elements)], strict=True)
    return [Batch.of(elements[start:stop], SCHEMA) for start, stop in bounds]
