"""Heeding: labels tell when the output is right by itself.

A batch on its way bears a label: from which arrival it is *actively* derived, an input and a number, and
for every input the highest number of an arrival that had a part in it, active or passive. What comes out
of an operator bears the label of the batch that it comes from, and of all that the operator remembers
the maximum, component by component. That is more than the paper's maximum over the events that took
part: a state may be found right later than it is, and none is found right that is not.

The output is right if no batch on its way is actively derived from an arrival as early as one that had
a part in what was said (for `INPUT_PREFIX_CONSISTENT`); as early as one that it is actively derived from
(`INPUT_PREFIX_UPDATE_COMPLETE`); or from the very same one (`UPDATE_COMPLETE`). This is asked when
something new is said, and when something has left the system while the user waits.

The paper's operators only ever add rows. Others also say things by *not* saying them: a row on the right
of an anti join keeps rows of the left from being shown, and leaves no other trace. So an operator that
can do that sends its label on even where there are no rows, as a trace, and so does everybody behind it.
Without it the state would be called the answer to a prefix that lacks that row. A join of streams that
only insert needs none; it begins to send them with the first adjust.

Paper 5 section 4.1 (Labeling, hasActiveAncestor, Detection, the multiset). Not here: what a prefix is
worth (testing/visible.py recomputes it).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from slackwater.events import Batch, Control, Placed
from slackwater.levels import (
    INPUT_PREFIX_UPDATE_COMPLETE,
    UPDATE_COMPLETE,
    Level,
)
from slackwater.plan.nodes import AlterLifetime, Join, Select, Union, Where
from slackwater.runtime.queues import Queue
from slackwater.runtime.running import Running
from slackwater.times import INF

__all__ = ["Counted", "Heeded", "Label", "OnTheWay", "Scanned"]

Numbers = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Label(Control):
    """What a batch is derived from."""

    origin: int
    """the input that it is actively derived from"""
    number: int
    """and which of its arrivals"""
    highest: Numbers
    """of every input the latest arrival that had a part in it, 0 for none"""
    traces: bool = False
    """whether it goes on where there are no rows"""


class OnTheWay(Protocol):
    """From which arrivals batches in the system are actively derived."""

    def enters(self, label: Label) -> None:
        """A batch is put into a queue."""
        ...

    def leaves(self, label: Label) -> None:
        """It was taken, and what follows from it is in the next queues."""
        ...

    def least(self, origin: int) -> int:
        """The earliest arrival of an input, INF if there is none."""
        ...

    def has(self, origin: int, number: int) -> bool:
        """Whether there is something of one arrival."""
        ...


@dataclass(slots=True)
class Counted:
    """One multiset for each input: how many batches there are of each of its arrivals."""

    counts: list[dict[int, int]]
    lowest: list[int]

    @classmethod
    def of(cls, inputs: int) -> Counted:
        """Nothing is on its way."""
        return cls([{} for _ in range(inputs)], [0] * inputs)

    def enters(self, label: Label) -> None:
        """One more."""
        counts = self.counts[label.origin]
        counts[label.number] = counts.get(label.number, 0) + 1

    def leaves(self, label: Label) -> None:
        """One less."""
        counts = self.counts[label.origin]
        left = counts[label.number] - 1
        if left:
            counts[label.number] = left
        else:
            del counts[label.number]

    def least(self, origin: int) -> int:
        """What has gone never comes back, so the place of the least only goes forward."""
        counts = self.counts[origin]
        if not counts:
            return INF
        place = self.lowest[origin]
        while place not in counts:
            place += 1
        self.lowest[origin] = place
        return place

    def has(self, origin: int, number: int) -> bool:
        """Whether it is counted."""
        return number in self.counts[origin]


@dataclass(slots=True)
class Scanned:
    """The queues themselves, which are looked through at every question."""

    queues: Sequence[Queue]

    def enters(self, label: Label) -> None:
        """It is seen where it is."""

    def leaves(self, label: Label) -> None:
        """It is not seen any more."""

    def least(self, origin: int) -> int:
        """Of all labels in all queues."""
        found = INF
        for queue in self.queues:
            for batch in queue.batches:
                label = label_of(batch)
                if label.origin == origin and label.number < found:
                    found = label.number
        return found

    def has(self, origin: int, number: int) -> bool:
        """Whether one of them bears it."""
        return any(
            label.origin == origin and label.number == number
            for queue in self.queues
            for label in map(label_of, queue.batches)
        )


def label_of(batch: Batch) -> Label:
    """The label that a batch bears."""
    label = batch.controls[-1].control
    assert isinstance(label, Label), "every batch bears one"
    return label


def without_label(batch: Batch) -> Batch:
    """The batch as operators know it."""
    return _with(batch, batch.controls[:-1])


def _with(batch: Batch, controls: tuple[Placed, ...]) -> Batch:
    """This is done for every batch at every operator, and `replace` takes its time."""
    return Batch(batch.vs, batch.old_ve, batch.new_ve, batch.payload, controls)


@dataclass(slots=True)
class Heeded:
    """Labels at work: who bears which, and what follows."""

    level: Level
    way: OnTheWay
    inputs: int
    current: Label = field(init=False)
    """of the batch that is being worked at"""
    remembered: dict[int, Numbers] = field(default_factory=dict)
    """by operator: the maximum over all that it has taken in, if it remembers anything"""
    traces: set[int] = field(default_factory=set)
    """operators that can keep something from being said"""
    said: Numbers = field(init=False)
    """of every input the latest arrival that had a part in what was said"""
    acted: list[int] = field(init=False)
    """... that something said is actively derived from"""
    pending: set[tuple[int, int]] = field(default_factory=set)
    """what is said and not yet found right is actively derived from these"""

    def __post_init__(self) -> None:
        self.said, self.acted = (0,) * self.inputs, [0] * self.inputs

    def attend(self, running: Running) -> None:
        """Label what an operator emits."""
        place = id(running)
        if not isinstance(running.node, Where | Select | AlterLifetime | Union):
            self.remembered[place] = (0,) * self.inputs
            if not (isinstance(running.node, Join) and running.node.how == "inner"):
                self.traces.add(place)
        running.sealed = lambda out: self._sealed(running, out)

    def begins(self, running: Running, batch: Batch) -> Batch:
        """An operator is about to work at a batch: what of it the operator knows."""
        label, bare = label_of(batch), without_label(batch)
        place = id(running)
        remembered = self.remembered.get(place)
        if remembered is not None:
            highest = _most(remembered, label.highest)
            if highest != label.highest:
                label = Label(label.origin, label.number, highest, label.traces)
            self.remembered[place] = highest
            if place not in self.traces and bare.rows and not bare.is_insert.all():
                self.traces.add(place)
        self.current = label
        return bare

    def _sealed(self, running: Running, out: Batch) -> Batch:
        """What comes out of an operator, with its label; nothing, if nobody has to hear of it."""
        place, label = id(running), self.current
        traces = label.traces or place in self.traces
        if not len(out) and not traces:
            return out
        # it may be another operator than the one that is at work: what that says reaches those above
        highest = _most(self.remembered.get(place, label.highest), label.highest)
        if traces != label.traces or highest != label.highest:
            label = Label(label.origin, label.number, highest, traces)
        for queue in running.outbound:
            if not queue.leads_out:
                self.way.enters(label)
        return _with(out, (*out.controls, Placed(out.rows, label)))

    def entering(self, origin: int, number: int, batch: Batch, queues: Sequence[Queue]) -> Batch:
        """An arrival comes in."""
        highest = tuple(number if each == origin else 0 for each in range(self.inputs))
        label = Label(origin, number, highest)
        for queue in queues:
            if not queue.leads_out:
                self.way.enters(label)
        return _with(batch, (*batch.controls, Placed(batch.rows, label)))

    def hears(self, label: Label) -> None:
        """Something comes out."""
        self.said = _most(self.said, label.highest)
        self.acted[label.origin] = max(self.acted[label.origin], label.number)
        self.pending.add((label.origin, label.number))

    def is_right(self) -> bool:
        """Whether nothing on its way belongs to what was said."""
        if self.level is UPDATE_COMPLETE:
            return not any(self.way.has(*each) for each in self.pending)
        said = self.acted if self.level is INPUT_PREFIX_UPDATE_COMPLETE else self.said
        for origin, latest in enumerate(said):
            if latest and self.way.least(origin) <= latest:
                return False
        return True

    def prefix(self, names: Sequence[str]) -> Mapping[str, int]:
        """Up to which arrival of every input; nothing where the level speaks of no prefix."""
        if self.level is UPDATE_COMPLETE:
            return {}
        said = self.acted if self.level is INPUT_PREFIX_UPDATE_COMPLETE else self.said
        return dict(zip(names, said, strict=True))


def _most(one: Numbers, other: Numbers) -> Numbers:
    """The maximum, component by component."""
    return one if one == other else tuple(map(max, one, other))
