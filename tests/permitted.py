"""What promises still permit, decided by brute force.

Nothing here knows the engine's index of promises or its operators: patterns are tried value by value,
and what may follow a prefix is tried out, with the oracle as the judge. Domains are small, but have a
value for everything that promises tell apart: those that were seen, their neighbours, null and NaN.

A payload's *frontier* is the largest t such that nothing with that payload and a sync before t is
permitted; INF if nothing at all is.

Paper 4 section 5.1 (safety, completeness).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations, product
from typing import Any

import polars as pl
from tests.bags import Bag, Row

from slackwater.events import Control, Event
from slackwater.history import History
from slackwater.identity import identity
from slackwater.oracle import meaning
from slackwater.patterns import Any_, Constant, Empty, OneOf, Pattern, Range
from slackwater.plan.nodes import Node, Source
from slackwater.punctuations import Closings, Punctuation
from slackwater.times import BEGIN, INF

Payload = Mapping[str, Any]
FAR = 50
"""beyond all times that are drawn"""


def boxes(control: Control) -> list[Punctuation]:
    """The punctuations that a control element stands for."""
    if isinstance(control, Closings):
        return list(control)
    return [control] if isinstance(control, Punctuation) else []


def matches(pattern: Pattern, value: Any) -> bool:
    """Whether a value is one of those of the pattern."""
    if isinstance(pattern, Any_):
        return True
    if isinstance(pattern, Empty):
        return False
    if isinstance(pattern, Constant):
        return identity(pattern.value) == identity(value)
    if isinstance(pattern, OneOf):
        return any(identity(each) == identity(value) for each in pattern.values)
    assert isinstance(pattern, Range)
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return False
    if pattern.low is not None and not (
        value > pattern.low or (pattern.low_closed and value == pattern.low)
    ):
        return False
    return (
        pattern.high is None
        or value < pattern.high
        or bool(pattern.high_closed and value == pattern.high)
    )


def speaks_of(promise: Punctuation, payload: Payload) -> bool:
    """Whether the payload matches every pattern."""
    return all(matches(pattern, payload[name]) for name, pattern in promise.columns)


def forbids(promise: Punctuation, payload: Payload, sync: int) -> bool:
    """Whether an element with that payload and sync would break it."""
    in_time = promise.since <= sync and (sync < promise.before or promise.before == INF)
    return in_time and speaks_of(promise, payload)


def frontier(promises: Iterable[Punctuation], payload: Payload) -> int:
    """The largest t such that nothing with that payload and a sync before t can still come."""
    reached = BEGIN
    for since, before in sorted((p.since, p.before) for p in promises if speaks_of(p, payload)):
        if since <= reached:
            reached = max(reached, before)
    return reached


def implies(promise: Punctuation, other: Punctuation, domain: Sequence[Payload]) -> bool:
    """Whether keeping one promise keeps the other, as far as the payloads of a domain can tell."""
    in_time = promise.since <= other.since and promise.before >= other.before
    return in_time and all(speaks_of(promise, each) for each in domain if speaks_of(other, each))


@dataclass
class Told:
    """What one stream has said: the events that there are, and what was promised."""

    schema: pl.Schema
    bag: Bag = field(default_factory=Bag)
    promises: list[Punctuation] = field(default_factory=list)

    def forbids(self, payload: Payload, sync: int) -> bool:
        """Whether an element can no longer come."""
        return any(forbids(promise, payload, sync) for promise in self.promises)

    def so_far(self) -> Told:
        """The same, whatever is said from now on."""
        return Told(self.schema, self.bag.copy(), list(self.promises))


def times(inputs: Iterable[Told]) -> list[int]:
    """Times at which something is, was promised, or could be."""
    inputs = list(inputs)
    ends = {time for told in inputs for vs, ve, _ in told.bag.rows for time in (vs, ve)}
    said = {time for told in inputs for p in told.promises for time in (p.since, p.before)}
    known = {time for time in ends | said if BEGIN < time < INF}
    near = {time + by for time in known for by in (-1, 0, 1)}
    return sorted(near | {min(known, default=0) - FAR, max(known, default=0) + FAR})


def domain(inputs: Iterable[Told]) -> list[Payload]:
    """Payloads of all kinds that promises tell apart."""
    inputs = list(inputs)
    schema = inputs[0].schema
    assert all(told.schema == schema for told in inputs), "streams that are tried have one schema"
    seen = [payload for told in inputs for payload in told.bag.payloads()]
    promises = [promise for told in inputs for promise in told.promises]
    columns = [
        [(name, value) for value in _values(name, dtype, seen, promises)]
        for name, dtype in schema.items()
    ]
    return [dict(values) for values in product(*columns)]


def _values(
    name: str, dtype: pl.DataType, seen: Sequence[Payload], promises: Sequence[Punctuation]
) -> list[Any]:
    """Of a column: the values that were seen, and of the others one of each kind."""
    patterns = [p for promise in promises for column, p in promise.columns if column == name]
    found = {identity(payload[name]): payload[name] for payload in seen}
    kinds = set()
    for value in _candidates([*found.values(), *chain(*map(_values_of, patterns))], dtype):
        kind = tuple(matches(pattern, value) for pattern in patterns)
        if identity(value) not in found and kind not in kinds:
            kinds.add(kind)
            found[identity(value)] = value
    return list(found.values())


def _values_of(pattern: Pattern) -> list[Any]:
    if isinstance(pattern, Constant):
        return [pattern.value]
    if isinstance(pattern, OneOf):
        return list(pattern.values)
    if isinstance(pattern, Range):
        return [end for end in (pattern.low, pattern.high) if end is not None]
    return []


def _candidates(values: Iterable[Any], dtype: pl.DataType) -> list[Any]:
    """Values of a column: those, what lies next to them, and what stands alone."""
    found: list[Any] = [None]
    if dtype.is_float():
        found += [math.nan, 0.0]
    elif dtype.is_integer():
        found += [0]
    elif isinstance(dtype, pl.String):
        found += ["", "~"]
    for value in values:
        found.append(value)
        if isinstance(value, float) and math.isfinite(value):
            found += [math.nextafter(value, math.inf), math.nextafter(value, -math.inf)]
        elif isinstance(value, int) and not isinstance(value, bool):
            found += [value - 1, value + 1]
        elif isinstance(value, str):
            # the next one; there is none right before
            found.append(value + "\0")
    return found


def changes(before: Counter[Row], after: Counter[Row]) -> dict[Hashable, int]:
    """For each payload whose rows differ the latest sync that the first element to say so can have.

    Where a start has more or fewer rows than before, that is the start; else the least end that moved.
    """
    gone, come = before - after, after - before
    ends: dict[tuple[int, Hashable], tuple[list[int], list[int]]] = {}
    for place, rows in enumerate((gone, come)):
        for vs, ve, payload in rows.elements():
            ends.setdefault((vs, payload), ([], []))[place].append(ve)
    earliest: dict[Hashable, int] = {}
    for (vs, payload), (old, new) in ends.items():
        sync = vs if len(old) != len(new) else min(*old, *new)
        earliest[payload] = min(sync, earliest.get(payload, INF))
    return earliest


@dataclass
class Prefix:
    """The inputs of a plan so far, and what may follow."""

    root: Node
    inputs: dict[Source, Told]
    unbounded: bool = True
    """whether events may last for ever"""
    combined: bool = False
    """whether only what all inputs have promised counts (setCombine)"""

    def answer(self) -> Bag:
        """What the plan means, over what was said."""
        return self._meaning({})

    def _meaning(self, others: Mapping[Source, Sequence[Event]]) -> Bag:
        histories: dict[Node, History] = {
            source: History.from_events(
                [e for e in others.get(source, told.bag.events()) if e.vs < e.ve], told.schema
            )
            for source, told in self.inputs.items()
        }
        return Bag.of(meaning(self.root, histories))

    def continuations(self) -> Iterator[Bag]:
        """The answers after what may follow: much at once, then single elements, then two.

        Much at once contradicts most of what can be contradicted, and spares the long search.
        """
        end = INF if self.unbounded else 3 * FAR
        payloads, instants = domain(self.inputs.values()), times(self.inputs.values())
        together = list(self.inputs.values())
        ways = {
            source: _Ways(told, together if self.combined else [told], payloads, instants, end)
            for source, told in self.inputs.items()
        }
        for size in range(1, len(ways) + 1):
            for sources in combinations(ways, size):
                for much in _MUCH:
                    yield self._meaning({source: much(ways[source]) for source in sources})
        for source, way in ways.items():
            for events in chain(way.one_adjusted(), way.one_inserted(), way.two_adjusted()):
                yield self._meaning({source: events})
        for one, other in combinations(ways, 2):
            for first, second in product(ways[one].one_early(), ways[other].one_early()):
                yield self._meaning({one: first, other: second})


class _Ways:
    """In which ways one stream may go on: each is the events that there are then."""

    def __init__(
        self,
        told: Told,
        bound_by: Sequence[Told],
        payloads: Sequence[Payload],
        instants: Sequence[int],
        end: int,
    ) -> None:
        self.bound_by = bound_by
        self.payloads = payloads
        self.end = end
        self.events = told.bag.events()
        self.times = instants

    def _permits(self, payload: Payload, sync: int) -> bool:
        return not all(told.forbids(payload, sync) for told in self.bound_by)

    def all_cut(self) -> list[Event]:
        """Every event is changed, as early as is permitted."""
        return [next(self._adjusted(event), event) for event in self.events]

    def all_gone(self) -> list[Event]:
        """Every event is removed that may be."""
        return [e for e in self.events if not self._permits(e.payload, e.vs)]

    def all_ended(self) -> list[Event]:
        """Every event is changed, as late as is permitted."""
        return [[event, *self._adjusted(event)][-1] for event in self.events]

    def all_shortened(self) -> list[Event]:
        """Every event ends as early as is permitted; what could only be lengthened stays."""
        return [min([event, *self._adjusted(event)], key=lambda each: each.ve) for event in self.events]

    def all_inserted(self) -> list[Event]:
        """For every payload one event more, as early as is permitted."""
        return [*self.events, *self._early()]

    def one_adjusted(self) -> Iterator[list[Event]]:
        """One adjust more."""
        for place, event in enumerate(self.events):
            for adjusted in self._adjusted(event):
                yield [*self.events[:place], adjusted, *self.events[place + 1 :]]

    def two_adjusted(self) -> Iterator[list[Event]]:
        """Two adjusts more, each as early as is permitted."""
        for two in combinations(range(len(self.events)), 2):
            yield [
                next(self._adjusted(event), event) if place in two else event
                for place, event in enumerate(self.events)
            ]

    def one_inserted(self) -> Iterator[list[Event]]:
        """One insert more."""
        for payload in self.payloads:
            for vs in self.times:
                if self._permits(payload, vs):
                    yield [*self.events, Event(vs, vs + 1, payload)]
                    yield [*self.events, Event(vs, self.end, payload)]

    def one_early(self) -> Iterator[list[Event]]:
        """One insert more, as early as is permitted."""
        for event in self._early():
            yield [*self.events, event]

    def _adjusted(self, event: Event) -> Iterator[Event]:
        """The same event with another end, earliest first; at its start: it is gone."""
        vs, ve, payload = event
        for time in (vs, *(time for time in self.times if time > vs), self.end):
            if time != ve and self._permits(payload, min(time, ve)):
                yield event._replace(ve=time)

    def _early(self) -> Iterator[Event]:
        for payload in self.payloads:
            for vs in self.times:
                if self._permits(payload, vs):
                    yield Event(vs, self.end, payload)
                    break


_MUCH = (
    _Ways.all_cut,
    _Ways.all_inserted,
    _Ways.all_gone,
    _Ways.all_ended,
    _Ways.all_shortened,
)
"""what changes much at once"""
