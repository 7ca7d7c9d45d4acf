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

Labels are not in the batches but beside them, a line of them for each queue, and what one says is worked
out where somebody reads it: a vector when a batch comes out of an operator, and not for each that goes
in; of what was said only what the level asks for. What waits where an input enters is in the order of
its arrivals, so the first says which is the earliest, and only what comes behind is counted.

Paper 5 section 4.1 (Labeling, hasActiveAncestor, Detection, the multiset). Not here: what a prefix is
worth (testing/visible.py recomputes it).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Protocol

from slackwater.events import Batch
from slackwater.levels import INPUT_PREFIX_CONSISTENT, UPDATE_COMPLETE, Level, Search
from slackwater.plan.nodes import AlterLifetime, Join, Select, Union, Where
from slackwater.plan.properties import infer
from slackwater.runtime.queues import Queue
from slackwater.runtime.running import Running
from slackwater.times import INF

__all__ = ["Heeded", "Label"]


@dataclass(eq=False, slots=True)
class Label:
    """What a batch is derived from. It is shared, and never changed."""

    origin: int
    """the input that it is actively derived from"""
    number: int
    """and which of its arrivals"""
    highest: Sequence[int] | None = None
    """of every input the latest arrival that had a part in it, 0 for none; None: only its own had"""
    traces: bool = False
    """whether it goes on where there are no rows"""


Line = deque[Label]
"""the labels of what is in a queue"""


class OnTheWay(Protocol):
    """From which arrivals batches in the system are actively derived."""

    def enters(self, label: Label, queues: int) -> None:
        """A batch is put into so many queues, behind those where inputs enter."""
        ...

    def leaves(self, label: Label) -> None:
        """It was taken from one of them, and what follows from it will be in the next ones."""
        ...

    def is_beyond(self, latest: Sequence[int]) -> bool:
        """Whether there is nothing of any input as early as the latest given for it (0: it has none)."""
        ...

    def has(self, label: Label) -> bool:
        """Whether there is something of the same arrival."""
        ...


@dataclass(slots=True)
class Counted:
    """One multiset for each input: how many batches there are of each of its arrivals.

    Those that have not been read yet are in order, and need not be counted.
    """

    unread: list[list[Line]]
    counts: list[dict[int, int]]
    lowest: list[int]
    blocking: Line = field(default_factory=Line)
    """the line in front of which something was too early when this was asked last"""

    @classmethod
    def of(cls, unread: list[list[Line]]) -> Counted:
        """Nothing is on its way."""
        return cls(unread, [{} for _ in unread], [0 for _ in unread])

    def enters(self, label: Label, queues: int) -> None:
        """So many more."""
        counts, number = self.counts[label.origin], label.number
        counts[number] = counts.get(number, 0) + queues

    def leaves(self, label: Label) -> None:
        """One less."""
        counts, number = self.counts[label.origin], label.number
        left = counts[number] - 1
        if left:
            counts[number] = left
        else:
            del counts[number]

    def is_beyond(self, latest: Sequence[int]) -> bool:
        """A line that had something too early in front mostly has it still."""
        line = self.blocking
        if line and line[0].number <= latest[line[0].origin]:
            return False
        # a loop, since this is asked for all that is said
        for origin, number in enumerate(latest):
            if number and self._least(origin) <= number:
                return False
        return True

    def _least(self, origin: int) -> int:
        """What has gone never comes back, so the place of the least only goes forward."""
        least = INF
        for line in self.unread[origin]:
            if line and line[0].number < least:
                least, self.blocking = line[0].number, line
        counts, place = self.counts[origin], self.lowest[origin]
        if counts:
            # not beyond what is unread: that will be counted when it has been read
            while place < least and place not in counts:
                place += 1
            self.lowest[origin] = least = place
        return least

    def has(self, label: Label) -> bool:
        """Whether it is counted, or in a line, which no later one is in front of."""
        if label.number in self.counts[label.origin]:
            return True
        return any(line and line[0].number <= label.number for line in self.unread[label.origin])


@dataclass(slots=True)
class Scanned:
    """The queues themselves, which are looked through at every question."""

    lines: Sequence[Line]

    def enters(self, label: Label, queues: int) -> None:
        """It is seen where it is."""

    def leaves(self, label: Label) -> None:
        """It is not seen any more."""

    def is_beyond(self, latest: Sequence[int]) -> bool:
        """The earliest of each input, of all labels in all queues."""
        return not any(number and self._least(origin) <= number for origin, number in enumerate(latest))

    def _least(self, origin: int) -> int:
        found = INF
        for line in self.lines:
            for label in line:
                if label.origin == origin and label.number < found:
                    found = label.number
        return found

    def has(self, label: Label) -> bool:
        """Whether one of them bears it."""
        return any(
            each.origin == label.origin and each.number == label.number
            for line in self.lines
            for each in line
        )


@dataclass(slots=True)
class Readers:
    """The queues that one writes to."""

    inner: list[tuple[Queue, Line]]
    """those of operators"""
    user: list[Queue]
    """what is put here has been said"""


@dataclass(eq=False, slots=True)
class Memory:
    """An operator, as far as labels go."""

    serve: Callable[[int, Batch], None]
    """let it work at a batch"""
    waiting: list[Line]
    """by port the labels of what waits"""
    is_inner: list[bool]
    """by port whether it reads from an operator, and not where an input enters"""
    readers: Readers
    highest: list[int] | None
    """the maximum over all that it has taken in, if it remembers anything"""
    traces: bool
    """whether it can keep something from being said"""
    begins_to_trace: bool
    """whether it can with the first adjust"""

    def watch(self, batch: Batch) -> None:
        """It is about to work at a batch, perhaps with an adjust."""
        # bytes, since most batches that travel under a schedule have few rows
        if batch.vs.tobytes() != batch.old_ve.tobytes():
            self.traces, self.begins_to_trace = True, False


class Heeded:
    """Labels at work: who bears which, and what follows."""

    def __init__(
        self,
        level: Level,
        search: Search,
        operators: Sequence[Running],
        entrances: Sequence[Sequence[Queue]],
    ) -> None:
        self._inputs = len(entrances)
        self._lines: dict[Queue, Line] = {}
        for queue in chain(*entrances, *(each.inbound for each in operators)):
            if not queue.leads_out:
                self._lines[queue] = Line()
                queue.keeps_all = True
        self._entrances = [self._readers(some) for some in entrances]
        unread = [[line for _, line in each.inner] for each in self._entrances]
        self._way: OnTheWay = (
            Counted.of(unread) if search is Search.MULTISET else Scanned([*self._lines.values()])
        )
        self._unread = {id(line) for line in chain(*unread)}
        self._entered = [0] * self._inputs
        """how many have come in"""
        self._at_work: Memory | None = None
        self.current = Label(0, 0)
        """of the batch that is being worked at"""
        self._level = level
        self._said: list[Label] = []
        """what is not yet found right, where the level speaks of no prefix"""
        self.latest = [] if level is UPDATE_COMPLETE else [0] * self._inputs
        """of every input the latest arrival that had a part in what was said, as the level has it"""
        self._waits = False
        """whether there is anything said that is not yet found right"""
        self.is_due = False
        """... and whether that may have changed"""

    def _readers(self, queues: Sequence[Queue]) -> Readers:
        inner = [(queue, self._lines[queue]) for queue in queues if not queue.leads_out]
        return Readers(inner, [queue for queue in queues if queue.leads_out])

    def attended(self, running: Running) -> Callable[[int, Batch], None]:
        """Label what an operator emits: how it is to work at a batch of one of its queues."""
        node = running.node
        remembers = not isinstance(node, Where | Select | AlterLifetime | Union)
        is_inner_join = isinstance(node, Join) and node.how == "inner"
        known = infer(node)
        waiting = [self._lines[queue] for queue in running.inbound]
        memory = Memory(
            running.serve,
            waiting,
            [id(line) not in self._unread for line in waiting],
            self._readers(running.outbound),
            [0] * self._inputs if remembers else None,
            traces=remembers and not is_inner_join,
            begins_to_trace=is_inner_join and not all(known[each].insert_only for each in node.inputs),
        )
        running.emits = partial(self._emitted, memory)
        return partial(self._serve, memory)

    def enters(self, origin: int, batches: Sequence[Batch]) -> None:
        """An arrival comes in."""
        self._entered[origin] += 1
        self.current = label = Label(origin, self._entered[origin])
        readers = self._entrances[origin]
        for batch in batches:
            for queue, line in readers.inner:
                queue.put(batch)
                line.append(label)
            for queue in readers.user:
                queue.put(batch)
                self._says(label)

    def _serve(self, memory: Memory, port: int, batch: Batch) -> None:
        """An operator works at the next batch of one of its queues."""
        self.current = label = memory.waiting[port].popleft()
        if memory.is_inner[port]:
            self._way.leaves(label)
        self._at_work = memory
        if memory.highest is not None:
            _raise(memory.highest, label)
            if memory.begins_to_trace:
                memory.watch(batch)
        memory.serve(port, batch)
        self.is_due = self._waits

    def _emitted(self, memory: Memory, out: Batch) -> None:
        """What comes out of an operator goes on with its label; not, if nobody has to hear of it."""
        label = self.current
        traces = memory.traces or label.traces
        if not traces and not len(out):
            return
        if memory.highest is not None:
            highest = memory.highest[:]
            if memory is not self._at_work:
                # it was asked for it by one that is: what that has just learned is in the answer
                _raise(highest, label)
            label = Label(label.origin, label.number, highest, traces)
        readers = memory.readers
        if readers.inner:
            for queue, line in readers.inner:
                queue.put(out)
                line.append(label)
            self._way.enters(label, len(readers.inner))
        for queue in readers.user:
            queue.put(out)
            self._says(label)

    def _says(self, label: Label) -> None:
        """Something comes out."""
        self._waits = self.is_due = True
        if self._level is INPUT_PREFIX_CONSISTENT:
            _raise(self.latest, label)
        elif self._level is UPDATE_COMPLETE:
            self._said.append(label)
        elif label.number > self.latest[label.origin]:
            self.latest[label.origin] = label.number

    def is_right(self) -> bool:
        """Whether nothing on its way belongs to what was said."""
        self.is_due = False
        if self._level is UPDATE_COMPLETE:
            is_right = not any(map(self._way.has, self._said))
        else:
            is_right = self._way.is_beyond(self.latest)
        if is_right:
            self._waits = False
            self._said.clear()
        return is_right


def _raise(highest: list[int], label: Label) -> None:
    """The maximum, component by component."""
    # max takes three times as long, and this is done whenever an operator reads something
    if label.highest is None:
        if label.number > highest[label.origin]:  # noqa: PLR1730
            highest[label.origin] = label.number
        return
    for origin, number in enumerate(label.highest):
        if number > highest[origin]:  # noqa: PLR1730
            highest[origin] = number
