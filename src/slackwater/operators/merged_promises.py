"""What promises about payloads say of the events that a logical merge remembers.

For a merge every payload is a stream of its own, whose cti is the payload's *frontier*: the largest t
such that nothing with that payload and a sync before t comes any more. So where the cti of an input
makes the output agree with it, and the output's cti decides what is late, half frozen and fully frozen,
the frontiers do the same for events of their payloads (C1 to C3 of paper 2, payload by payload).

`concerned` finds the events that promises speak of. Closings look them up by the values of their
columns, on shelves that are set up when such a promise first comes; for other patterns all events are
looked through, once for all that a batch has told.

What is promised for ever is forgotten, and what an input says of such a payload afterwards is dropped.
It is one of two things. A repeat: an input that lags, or begins anew, tells what the output has said. Or
what nobody can be held to: with the promise the other inputs were told that these rows are of no
interest, so one that had said something else by then, which it may still change, need not take it back,
nor say all of it. So an input is judged by what it had promised itself when the payload was closed, and
not by what it says later, however new that looks.

A promise that begins at a time that its input's cti has not passed says nothing for a merge, as for all
that goes by keys (closing.py): what comes before that time may be an event that ends behind it.

Paper 4 section 5 for the operator that it does not have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
import polars as pl

from slackwater.events import Batch
from slackwater.kernels import shelves as kernel
from slackwater.kernels.grouping import Keys
from slackwater.operators.closing import Matched, frontiers
from slackwater.operators.inputs import Inputs, Ints, Wrong
from slackwater.operators.merged_events import MergedEvents
from slackwater.punctuations import Closings, Promise, Punctuation
from slackwater.times import INF, plus

__all__ = ["closed", "compared", "concerned", "earlier"]


class Events(Protocol):
    """What an index of R3 or R4 remembers."""

    events: MergedEvents

    def pack(self) -> None:
        """Forget the dead, if they are many."""
        ...


State = TypeVar("State", bound=Events)


class Index(Protocol[State]):  # type: ignore[misc]  # a state is asked and changed
    """R3 or R4, as far as it is asked of some events."""

    @property
    def schema(self) -> pl.Schema:
        """The columns of the output."""
        ...

    def agreed(
        self, state: State, inputs: Inputs, port: int, nodes: Ints, *, until: int
    ) -> tuple[Batch, list[Wrong]]:
        """Make the output what an input says of some events, as far as a promise until then needs it."""
        ...

    def judged(self, state: State, inputs: Inputs, port: int, nodes: Ints, told: int) -> list[Wrong]:
        """What an input has frozen of these events, up to a time, that was promised to be otherwise."""
        ...

    def hear_promised(self, state: State, inputs: Inputs, nodes: Ints, port: int, *, until: int) -> None:
        """An input has promised the payloads of these events up to a time: that is a vote."""
        ...

    def close_cases(self, state: State, inputs: Inputs, nodes: Ints) -> list[Wrong]:
        """Contradictions about some events that have to be decided by now."""
        ...


def closed(
    index: Index[State],
    state: State,
    inputs: Inputs,
    port: int,
    told: Sequence[Promise],
    *,
    trusted: bool,
) -> tuple[Batch, list[Wrong]]:
    """Make the output what an input says of payloads, as far as promises about them need it.

    What is promised for ever is forgotten; who says otherwise of it by then, and has promised so, is
    found out. If the promises are not `trusted`, since nobody is interested in these rows, nobody is.
    """
    events = state.events
    events.begin_promises()
    said, found = [Batch.empty(index.schema)], []
    for some, time in _by_time(*concerned(events, told)):
        if trusted:
            index.hear_promised(state, inputs, some, port, until=time)
        first = some[(events.due[some] < time) | (time == INF)]
        rows, wrong = index.agreed(state, inputs, port, first, until=time)
        said.append(rows)
        found += wrong
        events.promise(some, time)
        if time == INF:
            for other in np.flatnonzero(inputs.attached).tolist() if trusted else ():
                suspects = events.suspects_among(other, some)
                found += index.judged(state, inputs, other, suspects, int(inputs.stable[other]))
            if trusted:
                index.hear_promised(state, inputs, some, port, until=time)
            found += index.close_cases(state, inputs, some)
            events.bury(some)
    events.settle()
    state.pack()
    return Batch.concat(said), found if trusted else []


def compared(
    index: Index[State], state: State, inputs: Inputs, port: int, told: Sequence[Promise]
) -> list[Wrong]:
    """What an input has promised of payloads that was promised to be otherwise."""
    events = state.events
    if not events.behind[port] and not events.cases:
        return []
    found: list[Wrong] = []
    for some, time in _by_time(*concerned(events, told)):
        index.hear_promised(state, inputs, some, port, until=time)
        found += index.judged(state, inputs, port, events.suspects_among(port, some), time)
    return found


def _by_time(nodes: Ints, until: Ints) -> list[tuple[Ints, int]]:
    """The events of each of these times."""
    return [(nodes[until == time], time) for time in np.unique(until).tolist()]


def concerned(events: MergedEvents, told: Sequence[Promise]) -> tuple[Ints, Ints]:
    """The events that are not done with and that promises speak of, in order, and up to when."""
    found: list[Matched] = []
    living: Ints | None = None
    payloads = pl.DataFrame()
    for promise in told:
        if isinstance(promise, Closings):
            nodes, which = _on_shelves(events, promise)
            found.append(Matched(promise, nodes, which))
            continue
        if living is None:
            living = np.flatnonzero(~events.dead[: events.size])
            payloads = events.payload(living)
        nodes = living[promise.matches_payload(payloads)]
        found.append(Matched(promise, nodes, np.zeros(len(nodes), dtype=np.int64)))
    nodes, until = frontiers(found)
    alive = ~events.dead[nodes]
    return nodes[alive], until[alive]


def _on_shelves(events: MergedEvents, told: Closings) -> tuple[Ints, Ints]:
    """The events with these values, and which values."""
    names = tuple(sorted(told.keys.columns))
    if names not in events.shelves.by_columns:
        types = pl.Schema({name: events.schema[name] for name in names})
        events.shelves.by_columns[names] = _Shelf(Keys(types))
    shelf = events.shelves.by_columns[names]
    shelf.put(events)
    number = shelf.keys.find(told.keys)
    known = np.flatnonzero(number >= 0)
    nodes, which = shelf.lying_on(number[known])
    return nodes, known[which]


class _Shelf:
    """The events by their values in some columns."""

    def __init__(self, keys: Keys) -> None:
        self.keys = keys
        self.heads: Any = np.empty(0, dtype=np.int64)
        self.following: Any = np.empty(0, dtype=np.int64)
        self.known = 0

    def put(self, events: MergedEvents) -> None:
        """Those that have come since."""
        if events.size == self.known:
            return
        number = self.keys.number(events.payload(np.arange(self.known, events.size)))
        self.heads = _longer(self.heads, len(self.keys))
        self.following = _longer(self.following, events.size)
        kernel.put(self.heads, self.following, self.known, number)
        self.known = events.size

    def lying_on(self, number: Ints) -> tuple[Ints, Ints]:
        """The events with these values, and with the how many-th of them."""
        nodes, which = kernel.lying_on(self.heads, self.following, number)
        return nodes, which


def _longer(array: Ints, size: int) -> Ints:
    """With room for so many, or as many again; nothing is there yet."""
    if size <= len(array):
        return array
    longer = np.full(max(size, 2 * len(array), 64), -1, dtype=np.int64)
    longer[: len(array)] = array
    return longer


def earlier(told: Sequence[Promise], trailing: int) -> list[Promise]:
    """The same promises so much earlier; those for ever as they are."""
    if not trailing:
        return [*told]
    found: list[Promise] = []
    for each in told:
        if isinstance(each, Closings):
            found.append(Closings(each.keys, plus(each.before, -trailing)))
        else:
            found.append(Punctuation(plus(each.before, -trailing), each.since, each.columns))
    return found
