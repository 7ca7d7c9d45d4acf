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
its arrivals, so the first says which is the earliest, and only what comes behind is counted. All this is
done for every arrival, and an operator takes some 80 µs for one: labels are plain tuples, what only the
user reads bears none, and what happens at every batch is spelled out where it happens.

Paper 5 section 4.1 (Labeling, hasActiveAncestor, Detection, the multiset). Not here: what a prefix is
worth (testing/visible.py recomputes it).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Protocol, TypeAlias

from slackwater.events import Batch
from slackwater.levels import INPUT_PREFIX_CONSISTENT, UPDATE_COMPLETE, Level, Search
from slackwater.plan.nodes import AlterLifetime, Join, Select, Union, Where
from slackwater.plan.properties import infer
from slackwater.runtime.queues import Queue
from slackwater.runtime.running import Running
from slackwater.times import INF

__all__ = ["Heeded", "Label"]


Label: TypeAlias = tuple[int, int, Sequence[int] | None, bool]
"""What a batch is derived from; shared, and never changed.

The input that it is actively derived from, and which of its arrivals; of every input the latest arrival
that had a part in it, 0 for none (None: only its own had); whether it goes on where there are no rows.
"""


Line: TypeAlias = deque[Label]
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
        origin, number, _, _ = label
        counts = self.counts[origin]
        counts[number] = counts.get(number, 0) + queues

    def leaves(self, label: Label) -> None:
        """One less."""
        origin, number, _, _ = label
        counts = self.counts[origin]
        left = counts[number] - 1
        if left:
            counts[number] = left
        else:
            del counts[number]

    def is_beyond(self, latest: Sequence[int]) -> bool:
        """A line that had something too early in front mostly has it still."""
        line = self.blocking
        if line:
            origin, number, _, _ = line[0]
            if number <= latest[origin]:
                return False
        # loops, since this is asked for all that is said
        for origin, number in enumerate(latest):
            if not number:
                continue
            for line in self.unread[origin]:
                if line and line[0][1] <= number:
                    self.blocking = line
                    return False
            counts = self.counts[origin]
            if counts:
                # what has gone never comes back, and what is unread is later: it only goes forward
                place = self.lowest[origin]
                while place <= number and place not in counts:
                    place += 1
                self.lowest[origin] = place
                if place <= number:
                    return False
        return True

    def has(self, label: Label) -> bool:
        """Whether it is counted, or in a line, which no later one is in front of."""
        origin, number, _, _ = label
        if number in self.counts[origin]:
            return True
        return any(line and line[0][1] <= number for line in self.unread[origin])


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
            for active, number, _, _ in line:
                if active == origin and number < found:
                    found = number
        return found

    def has(self, label: Label) -> bool:
        """Whether one of them bears it."""
        return any(each[:2] == label[:2] for line in self.lines for each in line)


@dataclass(eq=False, slots=True)
class Memory:
    """An operator, as far as labels go."""

    heeded: Heeded = field(repr=False)
    work: Callable[[int, Batch], None]
    """let it work at a batch"""
    waiting: list[Line]
    """by port the labels of what waits"""
    is_inner: list[bool]
    """by port whether it reads from an operator, and not where an input enters"""
    readers: list[tuple[Queue, Line]]
    """the queues that it writes to, but for what the user reads"""
    user: list[Queue]
    """what is put here has been said"""
    highest: list[int] | None
    """the maximum over all that it has taken in, if it remembers anything"""
    traces: bool
    """whether it can keep something from being said"""
    begins_to_trace: bool
    """whether it can with the first adjust"""

    def serve(self, port: int, batch: Batch) -> None:
        """It works at the next batch of one of its queues."""
        heeded = self.heeded
        heeded.current = label = self.waiting[port].popleft()
        if self.is_inner[port]:
            heeded.way.leaves(label)
        heeded.at_work = self
        known = self.highest
        if known is not None:
            origin, number, highest, _ = label
            if highest is not None:
                _raise(known, label)
            elif number > known[origin]:
                known[origin] = number
            if self.begins_to_trace:
                self.watch(batch)
        self.work(port, batch)
        heeded.is_due = heeded.waits

    def watch(self, batch: Batch) -> None:
        """It is about to work at a batch, perhaps with an adjust."""
        # bytes, since most batches that travel under a schedule have few rows
        if batch.vs.tobytes() != batch.old_ve.tobytes():
            self.traces, self.begins_to_trace = True, False

    def goes_on(self, out: Batch) -> None:
        """What comes out of it goes on with its label; not, if nobody has to hear of it."""
        heeded = self.heeded
        label = heeded.current
        traces = self.traces or label[3]
        if not traces and not len(out):
            return
        if self.highest is not None:
            highest = self.highest[:]
            if self is not heeded.at_work:
                # it was asked for it by one that is: what that has just learned is in the answer
                _raise(highest, label)
            label = (label[0], label[1], highest, traces)
        for queue, line in self.readers:
            queue.put(out)
            line.append(label)
        heeded.way.enters(label, len(self.readers))

    def comes_out(self, out: Batch) -> None:
        """What comes out of it is said."""
        heeded = self.heeded
        label = heeded.current
        if not self.traces and not label[3] and not len(out):
            return
        assert self is heeded.at_work, "nobody reads it who could ask it for something"
        for queue in self.user:
            queue.put(out)
        heeded.says(label, self.highest)


class Heeded:
    """Labels at work: who bears which, and what follows."""

    def __init__(
        self,
        level: Level,
        search: Search,
        operators: Sequence[Running],
        entrances: Sequence[Sequence[Queue]],
    ) -> None:
        self._lines: dict[Queue, Line] = {}
        for queue in chain(*entrances, *(each.inbound for each in operators)):
            if not queue.leads_out:
                self._lines[queue] = Line()
                queue.keeps_all = True
        self._entrances = [self._inner(some) for some in entrances]
        self._said_at_once = [_user(some) for some in entrances]
        unread = [[line for _, line in some] for some in self._entrances]
        self.way: OnTheWay = (
            Counted.of(unread) if search is Search.MULTISET else Scanned([*self._lines.values()])
        )
        self._unread = {id(line) for line in chain(*unread)}
        self.at_work: Memory | None = None
        self.current: Label = (0, 0, None, False)
        """of the batch that is being worked at"""
        self._level = level
        self._said: list[Label] = []
        """what is not yet found right, where the level speaks of no prefix"""
        self.latest = [] if level is UPDATE_COMPLETE else [0 for _ in entrances]
        """of every input the latest arrival that had a part in what was said, as the level has it

        It is replaced, and never changed, since marks keep it.
        """
        self.waits = False
        """whether there is anything said that is not yet found right"""
        self.is_due = False
        """... and whether that may have changed"""

    def _inner(self, queues: Sequence[Queue]) -> list[tuple[Queue, Line]]:
        return [(queue, self._lines[queue]) for queue in queues if not queue.leads_out]

    def attended(self, running: Running) -> Callable[[int, Batch], None]:
        """Label what an operator emits: how it is to work at a batch of one of its queues."""
        node = running.node
        remembers = not isinstance(node, Where | Select | AlterLifetime | Union)
        is_inner_join = isinstance(node, Join) and node.how == "inner"
        known = infer(node)
        waiting = [self._lines[queue] for queue in running.inbound]
        memory = Memory(
            self,
            running.serve,
            waiting,
            [id(line) not in self._unread for line in waiting],
            self._inner(running.outbound),
            _user(running.outbound),
            [0 for _ in self._entrances] if remembers else None,
            traces=remembers and not is_inner_join,
            begins_to_trace=is_inner_join and not all(known[each].insert_only for each in node.inputs),
        )
        assert not (memory.readers and memory.user), "nobody reads the answer but the user"
        running.emits = memory.comes_out if memory.user else memory.goes_on
        return memory.serve

    def enters(self, origin: int, number: int, batches: Sequence[Batch]) -> None:
        """An arrival comes in."""
        self.current = label = (origin, number, None, False)
        for batch in batches:
            for queue, line in self._entrances[origin]:
                queue.put(batch)
                line.append(label)
            for queue in self._said_at_once[origin]:
                queue.put(batch)
                self.says(label, None)

    def says(self, label: Label, highest: list[int] | None) -> None:
        """Something comes out; of who remembers, the maximum over all that it has taken in."""
        self.waits = self.is_due = True
        if self._level is INPUT_PREFIX_CONSISTENT:
            if highest is not None:
                # there is nobody else who says something, and what he knows only rises
                self.latest = highest[:]
            else:
                self.latest = self.latest[:]
                _raise(self.latest, label)
        elif self._level is UPDATE_COMPLETE:
            self._said.append(label)
        else:
            self.latest = self.latest[:]
            _raise(self.latest, (label[0], label[1], None, False))

    def is_right(self) -> bool:
        """Whether nothing on its way belongs to what was said."""
        self.is_due = False
        if self._level is UPDATE_COMPLETE:
            is_right = not any(map(self.way.has, self._said))
            if is_right:
                self._said.clear()
        else:
            is_right = self.way.is_beyond(self.latest)
        self.waits = not is_right
        return is_right


def _user(queues: Sequence[Queue]) -> list[Queue]:
    return [queue for queue in queues if queue.leads_out]


def _raise(highest: list[int], label: Label) -> None:
    """The maximum, component by component."""
    # max takes three times as long, and this is done whenever an operator reads something
    active, latest, others, _ = label
    if others is None:
        if latest > highest[active]:  # noqa: PLR1730
            highest[active] = latest
        return
    for origin, number in enumerate(others):
        if number > highest[origin]:  # noqa: PLR1730
            highest[origin] = number
