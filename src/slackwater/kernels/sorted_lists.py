"""Sorted lists: many sorted multisets, small and large ones, in one pool.

An item is a pair of numbers (a, b) with a count. A list keeps its items in order of a, then b; where
numbers stand for values, arrays give the order of each number. Items come and go one move at a time, and
the list is read between moves: its lowest and highest items, those at a percentile, how many there are.
A list of any size is changed and read in O(log n); slab_trees.py says how.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import gcd
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from slackwater.kernels import slab_trees as trees
from slackwater.kernels.arrays import Spares

__all__ = [
    "Between",
    "Distinct",
    "Highest",
    "Lowest",
    "Read",
    "Script",
    "SortedLists",
]

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_ROOT_WIDTH = 8
"""a power of two: a root fills one line of the cache"""
_LARGEST_ROOM = 128
_LOOSE = 16
"""so many rows of the pool for each item are not worth packing"""


@dataclass(frozen=True)
class Lowest:
    """How many copies there are, at most k; then one part of the k lowest, ascending."""

    k: int
    of: Literal["a", "b"] = "a"

    @property
    def width(self) -> int:
        """How many numbers a read gives."""
        return 1 + self.k

    @property
    def code(self) -> tuple[int, int, int]:
        """What the compiled loop is told."""
        return trees.LOWEST, self.k, trees.A if self.of == "a" else trees.B


@dataclass(frozen=True)
class Highest(Lowest):
    """The same of the k highest, descending."""

    @property
    def code(self) -> tuple[int, int, int]:
        """What the compiled loop is told."""
        return trees.HIGHEST, self.k, trees.A if self.of == "a" else trees.B


@dataclass(frozen=True)
class Between:
    """How many copies there are, and the a of the two that are nearest to a part of the way.

    The way is n - 1 steps from the first copy to the last. The two are one copy where a whole number of
    steps leads.
    """

    numerator: int
    denominator: int
    width = 3

    def __post_init__(self) -> None:
        assert 0 <= self.numerator <= self.denominator, "a part lies between 0 and 1"

    @property
    def code(self) -> tuple[int, int, int]:
        """What the compiled loop is told."""
        common = gcd(self.numerator, self.denominator)
        assert self.denominator // common < 2**62, "twice the denominator must fit 63 bits"
        return trees.BETWEEN, self.numerator // common, self.denominator // common


@dataclass(frozen=True)
class Distinct:
    """How many different items there are."""

    width = 1
    code = (trees.DISTINCT, 0, 0)


Read: TypeAlias = Lowest | Between | Distinct


class Script(NamedTuple):
    """Moves in order, of which some concern these lists.

    The columns of a move are list, count, who, and any others. It adds `count` copies of (a, b) to the
    list, or takes them away (< 0), if the bit `member` of who is set. Where count is 0 the list is read,
    and who is the row that the answer is written to.
    """

    moves: Ints
    a: int
    """which column is a"""
    b: int | None = None
    """... and b; None: it is 0 everywhere"""
    member: int = 0


@dataclass(slots=True)
class SortedLists:
    """Lists, numbered from 0. `limit` is the largest room of a slab, a power of two."""

    limit: int = _LARGEST_ROOM
    roots: Ints = field(init=False)
    """per list: its slab's start, size and room, its level, its items and copies"""
    pool: Ints = field(init=False)
    fill: Ints = field(init=False)
    """per slab of a tree, at start // 4: how many rows it has"""
    free: Ints = field(init=False)
    """per room: the first slab that was given back; each knows the next"""
    counts: Ints = field(init=False)
    spares: Spares = field(default_factory=Spares)

    def __post_init__(self) -> None:
        assert self.limit >= trees.FIRST_ROOM, "the smallest slab is one"
        assert self.limit & (self.limit - 1) == 0, "rooms double"
        self.roots = np.zeros((0, _ROOT_WIDTH), dtype=np.int64)
        self._empty()

    def _empty(self) -> None:
        self.pool = np.zeros((0, 4), dtype=np.int64)
        self.fill = np.zeros(0, dtype=np.int64)
        self.free = np.full(64, trees.NONE, dtype=np.int64)
        self.counts = np.zeros(2, dtype=np.int64)

    def admit(self, lists: int) -> None:
        """There are so many lists now, at least."""
        have = len(self.roots)
        if lists > have:
            self.roots = self.spares.enlarged(self.roots, max(lists, 2 * have), have, fill=0)

    def rows(self) -> int:
        """How many items are stored."""
        return int(self.counts[trees.STORED])

    def run(
        self,
        script: Script,
        reads: tuple[Read, ...],
        orders: tuple[Ints, Ints],
        out: Ints,
        column: int = 0,
    ) -> None:
        """Execute the moves; what the reads give is written side by side, from that column on.

        The orders of a and of b have the rank of each number; one is empty if numbers are compared
        themselves.
        """
        codes = np.array([read.code for read in reads], dtype=np.int64).reshape(-1, 3)
        order_a, order_b = map(_loop_array, orders)
        path = np.empty((trees.MOST_LEVELS + 2, 2), dtype=np.int64)
        columns = script.member, script.a, -1 if script.b is None else script.b
        moves = _loop_array(script.moves)
        done = 0
        while done < len(moves):
            done, needed = trees.run(
                moves,
                done,
                *columns,
                codes,
                order_a,
                order_b,
                self.limit,
                *self._arrays(),
                path,
                out,
                column,
            )
            self._grow(needed)

    def _arrays(self) -> tuple[Ints, Ints, Ints, Ints, Ints]:
        return self.pool, self.fill, self.roots, self.free, self.counts

    def _grow(self, needed: int) -> None:
        """Make room for so many rows more."""
        top, room = int(self.counts[trees.TOP]), len(self.pool)
        if top + needed > room:
            room = max(2 * room, top + needed)
            self.pool = self.spares.enlarged(self.pool, room, top)
            self.fill = self.spares.enlarged(self.fill, room // 4 + 1, top // 4, fill=0)

    def items(self) -> tuple[Ints, Ints, Ints, Ints]:
        """List, a, b and count of everything that is stored, in order."""
        number, a, b, count = (np.empty(self.rows(), dtype=np.int64) for _ in range(4))
        trees.items(self.pool, self.fill, self.roots, number, a, b, count)
        return number, a, b, count

    def renumber(self, alive: Mask, a_numbers: Ints | None, b_numbers: Ints | None) -> None:
        """Drop the lists that are not alive and number the others 0, 1, ... in the same order.

        The numbers of items are replaced, if new ones are given; their order must be that of the old
        ones. The pool is packed where that is not for nothing.
        """
        dead = self.roots[~alive]
        same_items = a_numbers is None and b_numbers is None and not dead[:, trees.LEVEL].any()
        if same_items and self.counts[trees.TOP] <= _LOOSE * max(self.rows(), self.limit):
            trees.release(dead, self.pool, self.free, self.counts)
            self.roots = self.roots[alive]
        else:
            self._pack(alive, a_numbers, b_numbers)

    def _pack(self, alive: Mask, a_numbers: Ints | None, b_numbers: Ints | None) -> None:
        number, a, b, count = self.items()
        keep = alive[number]
        number, a, b, count = (column[keep] for column in (number, a, b, count))
        a = a if a_numbers is None else a_numbers[a]
        b = b if b_numbers is None else b_numbers[b]
        new_numbers = np.cumsum(alive) - 1
        sizes = np.bincount(new_numbers[number], minlength=np.count_nonzero(alive))
        self.roots = np.zeros((len(sizes), _ROOT_WIDTH), dtype=np.int64)
        self.spares.give_back(self.pool)
        self.spares.give_back(self.fill)
        self._empty()
        self._grow(trees.packed_room(sizes, self.limit))
        trees.pack(
            sizes, _loop_array(a), _loop_array(b), count,
            self.limit, self.pool, self.fill, self.roots, self.counts,
        )  # fmt: skip


def _loop_array(column: Ints) -> Ints:
    """As compiled code knows it: arrays of another type or layout would be compiled for again."""
    return np.require(column, np.int64, ["C", "W"])
