"""The events that a logical merge remembers: a number for each (vs, payload), and when to look at it.

The first tier of in2t and in3t. Payloads are held once, whoever has told them. An event is looked at
by the cti that passes its `due`, for which it waits. One that is frozen is dead, and
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
from slackwater.kernels.grouping import Keys, pack
from slackwater.kernels.merging import enter
from slackwater.kernels.waiting import Waiting
from slackwater.operators.inputs import START, Ints, Mask, as_keys
from slackwater.operators.merge_case import Case
from slackwater.times import BEGIN, INF

__all__ = ["MergedEvents", "enlarged", "kept_of"]

_LEAST = 64
"""room for fewer is not worth saving"""
_LOOSE, _TIGHT = 3, 1.5
"""so many nodes for each that is alive are too many, of small payloads and of others"""
_SMALL = 100
"""bytes of a payload"""
_SPARE = 2
"""so many times the room that is needed is too much"""


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
    waiting: Waiting = field(default_factory=Waiting)
    """who waits for its `due`"""
    fresh: int = 0
    """nodes from here on are looked at by the next cti, be it to let them wait"""
    behind: list[list[Ints]] = field(init=False)
    """of each input: nodes of which it may say other than was promised"""
    front: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """up to when the output has promised the payload of each; empty as long as it has promised none"""
    shelves: Shelves = field(default_factory=Shelves)
    cases: list[Case] = field(default_factory=list)
    """what inputs contradict each other in; these events are held"""

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

    def nodes_of(self, rows: Batch, stable: int | Ints) -> tuple[Ints, int, Ints]:
        """The node of each row, -1 where its event is frozen; the first that is new; and ghosts.

        `stable` is the cti of the output, or for each row how far the output has promised its payload.
        """
        first_new = len(self.keys)
        nodes = self._numbered(rows, stable)
        self._make_room()
        floors = np.atleast_1d(np.asarray(stable, dtype=np.int64))
        if len(self.front):
            new = nodes >= first_new
            self.front[nodes[new]] = np.broadcast_to(floors, nodes.shape)[new]
        unknown = np.empty(rows.rows, dtype=np.int64)
        count = enter(
            nodes, rows.vs, rows.new_ve, floors, first_new,
            self.vs, self.due, self.lacks, self.dead, unknown,
        )  # fmt: skip
        if not count:
            return nodes, first_new, nodes[:0]
        keys = as_keys(rows.vs, rows.payload)
        some = unknown[:count]
        ghosts = self._haunted(taken(keys, some), np.broadcast_to(floors, nodes.shape)[some])
        # other rows may be of the same
        late = rows.vs < stable
        nodes[late] = self._living(self.keys.find(keys))[late]
        return nodes, first_new, ghosts

    def _numbered(self, rows: Batch, stable: int | Ints) -> Ints:
        """The node of each row; of those that start behind a promise only if there is one."""
        if isinstance(stable, int):
            return self.keys.number_from(stable, rows.vs, rows.payload)
        keys = as_keys(rows.vs, rows.payload)
        nodes = self.keys.find(keys)
        new = np.flatnonzero((nodes < 0) & (rows.vs >= stable))
        nodes[new] = self.keys.number(taken(keys, new))
        return nodes

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
            self.vs, self.due, self.lacks, self.dead = (
                enlarged(array, room) for array in (self.vs, self.due, self.lacks, self.dead)
            )
            self.mark = np.full(room, -1, dtype=np.int64)
            self.waiting.make_room(room)
            if len(self.front):
                self.front = enlarged(self.front, max(room, len(self.front)))

    def _living(self, nodes: Ints) -> Ints:
        found: Ints = np.where((nodes >= 0) & ~self.dead[nodes], nodes, -1)
        return found

    def schedule(self, nodes: Ints) -> None:
        """Have the cti that passes `due` look at these, and none before."""
        self.waiting.put(nodes, self.due)

    def passed_by(self, until: int) -> Ints:
        """The nodes that a cti has to look at."""
        # most start before the next cti, and need not wait
        new = range(self.fresh, self.size)
        self.fresh = self.size
        return self.waiting.take(INF if until == INF else until - 1, self.due, new, self.vs)

    def begin_promises(self) -> None:
        """From now on it is noted how far the payloads of nodes were promised."""
        if not len(self.front):
            self.front = np.full(max(_LEAST, len(self.vs)), BEGIN, dtype=np.int64)

    def promise(self, nodes: Ints, until: int) -> None:
        """The output has promised the payloads of these up to a time."""
        self.front[nodes] = np.maximum(self.front[nodes], until)

    def settle(self) -> None:
        """Have those that are new wait for their time: whether a cti comes is not known."""
        new = np.arange(self.fresh, self.size)
        self.schedule(new[~self.dead[new] & (self.due[new] == self.vs[new])])
        self.fresh = self.size

    def frozen(self, stable: int) -> Ints:
        """Up to when the output has promised what it says of each node, with its cti."""
        size = len(self.keys)
        if not len(self.front):
            return np.full(size, stable, dtype=np.int64)
        return np.maximum(self.front[:size], stable)

    def frozen_one(self, node: int, stable: int) -> int:
        """The same of one node."""
        return max(stable, int(self.front[node])) if len(self.front) else stable

    def bury(self, nodes: Ints) -> None:
        """They are done with."""
        self.died[0] += np.count_nonzero(~self.dead[nodes])
        self.dead[nodes] = True
        self.hold()

    def hold(self) -> None:
        """Whoever is done with events of which there is a case, they stay."""
        for case in self.cases:
            self.died[0] -= self.dead[case.node]
            self.dead[case.node] = False

    def said(self, nodes: Ints, old: Ints, new: Ints) -> Batch:
        """The events of these nodes end otherwise."""
        if not len(nodes):
            return Batch.empty(self.schema)
        return Batch(self.vs[nodes], old, new, self.payload(nodes))

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

    def packed(self) -> tuple[Ints, int] | None:
        """Forget the dead, if they are many: who was alive, in so much room from now on."""
        size, left = len(self.keys), len(self)
        loose = _LOOSE if self.keys.width <= _SMALL else _TIGHT
        if size < _LEAST or loose * left > size:
            return None
        assert self.fresh == size, "the cti has looked at them"
        alive = ~self.dead[:size]
        kept = np.flatnonzero(alive)
        numbers = self.keys.keep(alive)
        room = max(_LEAST, int(loose * left))
        self.vs, self.due, self.lacks, self.dead = (
            kept_of(array, kept, room) for array in (self.vs, self.due, self.lacks, self.dead)
        )
        self.dead[left:] = False
        room = len(self.vs)
        if len(self.front):
            self.front = enlarged(self.front[kept], room)
        self.shelves = Shelves()
        if len(self.mark) != room:
            self.mark = np.full(room, -1, dtype=np.int64)
        self.died[0], self.fresh = 0, left
        self.waiting.renumber(numbers, self.due, room)
        for case in self.cases:
            case.node = int(numbers[case.node])
        for port, parts in enumerate(self.behind):
            nodes = numbers[np.concatenate(parts)] if parts else np.empty(0, np.int64)
            self.behind[port] = [nodes[nodes >= 0]] if len(nodes) else []
        return kept, room


def enlarged(array: Any, room: int) -> Any:
    """The same with room for more, which is zero."""
    larger = np.zeros((room, *array.shape[1:]), dtype=array.dtype)
    larger[: len(array)] = array
    return larger


def kept_of(array: Any, kept: Ints, room: int) -> Any:
    """These rows, in ascending order, and room for others, which may be anything."""
    if len(array) > _SPARE * room:
        return enlarged(array[kept], room)
    pack(array, kept)
    return array
