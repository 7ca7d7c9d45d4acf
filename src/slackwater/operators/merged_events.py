"""The events that a logical merge remembers: a number for each (vs, payload), and when to look at it.

The first tier of in2t and in3t. Payloads are held once, whoever has told them. An event is looked at
by the cti that passes its `due`, for which it waits in a calendar. One that is frozen is dead, and
forgotten when there are as many dead as living. A late row may name an event that is not there; if it
says that the event is alive at the cti of the output, which has none, it becomes a ghost, to be judged
when its input promises that it stays so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from slackwater.columns import framed, taken
from slackwater.events import Batch
from slackwater.kernels.calendar import Calendar
from slackwater.kernels.grouping import Keys
from slackwater.operators.inputs import START, Ints, Mask, as_keys
from slackwater.times import BEGIN, INF

__all__ = ["MergedEvents", "enlarged"]

_LEAST = 64
"""room for fewer is not worth saving"""
_NODE = 1
"""the column of the calendar"""
_LOOSE, _TIGHT = 3, 1.5
"""so many nodes for each that is alive are too many, of small payloads and of others"""


class Shelves:
    """Where events are found by their values in some columns (merged_promises.py)."""

    def __init__(self) -> None:
        self.by_columns: dict[tuple[str, ...], Any] = {}

    def __reduce__(self) -> tuple[type[Shelves], tuple[()]]:
        # it can be set up again
        return Shelves, ()


@dataclass(slots=True)
class MergedEvents:
    """Arrays by node; there is room for more."""

    schema: pl.Schema
    inputs: int
    keys: Keys = field(init=False)
    vs: Ints = field(init=False)
    due: Ints = field(init=False)
    lacks: Ints = field(init=False)
    """of a ghost: the output has no such event that ends there or later"""
    dead: Mask = field(init=False)
    died: Ints = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    """how many are"""
    mark: Ints = field(init=False)
    """a place for loops to write down what they have seen; -1 between them"""
    calendar: Calendar = field(default_factory=lambda: Calendar(3))
    fresh: list[tuple[int, int]] = field(default_factory=list)
    """nodes that the next cti looks at, be it to put them into the calendar"""
    behind: list[list[Ints]] = field(init=False)
    """of each input: nodes of which it may say other than was promised"""
    front: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """up to when the output has promised the payload of each; empty as long as it has promised none"""
    shelves: Shelves = field(default_factory=Shelves)

    def __post_init__(self) -> None:
        self.keys = Keys(pl.Schema({START: pl.Int64(), **self.schema}))
        self.vs, self.due, self.lacks, self.mark = (np.empty(0, np.int64) for _ in range(4))
        self.dead = np.empty(0, dtype=np.bool_)
        self.behind = [[] for _ in range(self.inputs)]

    def add_input(self) -> None:
        """There is one more, which has said nothing."""
        self.inputs += 1
        self.behind.append([])

    def __len__(self) -> int:
        return len(self.keys) - int(self.died[0])

    @property
    def size(self) -> int:
        """How many nodes there are, the dead among them."""
        return len(self.keys)

    def nodes_of(self, rows: Batch, stable: int | Ints) -> tuple[Ints, slice, Ints]:
        """The node of each row, -1 where its event is frozen; which nodes are new, and which ghosts.

        `stable` is the cti of the output, or for each row how far the output has promised its payload.
        """
        late = rows.vs < stable
        some_late = bool(late.any())
        before = len(self.keys)
        nodes = self.keys.number_some(rows.vs, rows.payload, ~late if some_late else None)
        new = slice(before, len(self.keys))
        if new.stop > before:
            self._make_room()
            is_new = nodes >= before
            # of equal ones any will do: they start at one time
            self.vs[nodes[is_new]] = rows.vs[is_new]
            self.due[new], self.lacks[new] = self.vs[new], BEGIN
            if len(self.front):
                self.front[nodes[is_new]] = np.broadcast_to(stable, nodes.shape)[is_new]
            self.fresh.append((before, new.stop))
        if not some_late:
            return nodes, new, nodes[:0]
        nodes = self._living(nodes)
        # once all is promised, what ends at INF is forgotten as well
        unknown = np.flatnonzero((nodes < 0) & (rows.new_ve >= stable) & (np.asarray(stable) < INF))
        if not len(unknown):
            return nodes, new, nodes[:0]
        keys = as_keys(rows.vs, rows.payload)
        ghosts = self._haunted(taken(keys, unknown), np.broadcast_to(stable, nodes.shape)[unknown])
        # other rows may be of the same
        nodes[late] = self._living(self.keys.find(keys))[late]
        return nodes, new, ghosts

    def _haunted(self, keys: pl.DataFrame, stable: Ints) -> Ints:
        """Ghosts."""
        nodes = self.keys.number(keys)
        self._make_room()
        self.vs[nodes] = keys.get_column(START).to_numpy()
        ghosts = np.unique(nodes)
        self.died[0] -= np.count_nonzero(self.dead[ghosts])
        self.due[ghosts], self.lacks[nodes], self.dead[ghosts] = INF, stable, False
        if len(self.front):
            self.front[nodes] = stable
        return ghosts

    def _make_room(self) -> None:
        if len(self.keys) > len(self.vs):
            room = max(len(self.keys), 2 * len(self.vs), _LEAST)
            self.vs, self.due, self.lacks = (
                enlarged(array, room) for array in (self.vs, self.due, self.lacks)
            )
            self.dead = enlarged(self.dead, room)
            self.mark = np.full(room, -1, dtype=np.int64)
            if len(self.front):
                self.front = enlarged(self.front, max(room, len(self.front)))

    def _living(self, nodes: Ints) -> Ints:
        if not len(self.dead):
            return nodes
        found: Ints = np.where((nodes >= 0) & ~self.dead[nodes], nodes, -1)
        return found

    def schedule(self, nodes: Ints) -> None:
        """Have the cti that passes `due` look at these."""
        rows = np.zeros((len(nodes), 3), dtype=np.int64)
        rows[:, 0], rows[:, _NODE] = self.due[nodes], nodes
        self.calendar.put(rows)

    def passed_by(self, until: int) -> tuple[Ints, Ints]:
        """The nodes that a cti has to look at, and for which time they were put down."""
        due = self.calendar.take(INF if until == INF else until - 1)
        due = due[due[:, _NODE] >= 0]
        nodes, times = np.ascontiguousarray(due[:, _NODE]), np.ascontiguousarray(due[:, 0])
        if not self.fresh:
            return nodes, times
        # most start before the next cti, and need not wait
        new = np.concatenate([np.arange(*each) for each in self.fresh])
        self.fresh = []
        starts = self.vs[new]
        passed = (starts < until) | (until == INF)
        self.schedule(new[~passed])
        return np.concatenate([nodes, new[passed]]), np.concatenate([times, starts[passed]])

    def begin_promises(self) -> None:
        """From now on it is noted how far the payloads of nodes were promised."""
        if not len(self.front):
            self.front = np.full(max(_LEAST, len(self.vs)), BEGIN, dtype=np.int64)

    def promise(self, nodes: Ints, until: int) -> None:
        """The output has promised the payloads of these up to a time."""
        self.front[nodes] = np.maximum(self.front[nodes], until)

    def settle(self) -> None:
        """Have those that are new wait in the calendar: whether a cti comes is not known."""
        for first, stop in self.fresh:
            new = np.arange(first, stop)
            self.schedule(new[~self.dead[new] & (self.due[new] == self.vs[new])])
        self.fresh = []

    def frozen(self, stable: int) -> Ints:
        """Up to when the output has promised what it says of each node, with its cti."""
        size = len(self.keys)
        if not len(self.front):
            return np.full(size, stable, dtype=np.int64)
        return np.maximum(self.front[:size], stable)

    def bury(self, nodes: Ints) -> None:
        """They are done with."""
        self.died[0] += np.count_nonzero(~self.dead[nodes])
        self.dead[nodes] = True

    def payload(self, nodes: Ints) -> pl.DataFrame:
        """The payloads of these nodes."""
        columns = self.keys.take(nodes).get_columns()
        return framed([column for column in columns if column.name != START], len(nodes))

    def suspect(self, nodes: Ints, ports: Ints) -> None:
        """Each of these inputs may say of the node something other than was promised."""
        for port in range(self.inputs):
            theirs = nodes[ports == port]
            if len(theirs):
                self.behind[port].append(theirs)

    def suspects(self, port: int) -> Ints:
        """The nodes of which an input has to be judged, once each; they are put down no longer."""
        nodes, self.behind[port] = self.behind[port], []
        return np.unique(np.concatenate(nodes)) if nodes else np.empty(0, dtype=np.int64)

    def suspects_among(self, port: int, nodes: Ints) -> Ints:
        """The same of some nodes, which are in order; the others stay put down."""
        every = self.suspects(port)
        among = np.isin(every, nodes, assume_unique=True)
        if not among.all():
            self.behind[port].append(every[~among])
        return every[among]

    def packed(self) -> tuple[Mask, int] | None:
        """Forget the dead, if they are many: who was alive, in so much room from now on."""
        size, left = len(self.keys), len(self)
        loose = _LOOSE if self.keys.is_fixed else _TIGHT
        if size < _LEAST or loose * left > size:
            return None
        assert not self.fresh, "the cti has looked at them"
        alive = ~self.dead[:size]
        numbers = self.keys.keep(alive)
        room = max(_LEAST, int(loose * left))
        self.vs, self.due, self.lacks = (
            enlarged(array[:size][alive], room) for array in (self.vs, self.due, self.lacks)
        )
        if len(self.front):
            self.front = enlarged(self.front[:size][alive], room)
        self.shelves = Shelves()
        self.mark = np.full(room, -1, dtype=np.int64)
        self.dead = np.zeros(room, dtype=np.bool_)
        self.died[0] = 0
        places = self.calendar.used()
        waiting = self.calendar.pool[places, _NODE]
        # who is gone is nobody when its time comes
        self.calendar.pool[places, _NODE] = np.where(waiting >= 0, numbers[waiting], -1)
        if 2 * left < len(places):
            # no cti comes for them where promises about payloads alone are made
            rows = self.calendar.pool[places]
            self.calendar.clear()
            self.calendar.put(rows[rows[:, _NODE] >= 0])
        for port, parts in enumerate(self.behind):
            nodes = numbers[np.concatenate(parts)] if parts else np.empty(0, np.int64)
            self.behind[port] = [nodes[nodes >= 0]] if len(nodes) else []
        return alive, room


def enlarged(array: Any, room: int) -> Any:
    """The same with room for more, which is zero."""
    larger = np.zeros((room, *array.shape[1:]), dtype=array.dtype)
    larger[: len(array)] = array
    return larger
