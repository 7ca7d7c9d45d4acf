"""Levels of consistency, and the methods that keep them, as small value objects.

A query that runs one operator at a time shows answers to halves of its input: one operator has seen an
event that another has still to see. A level says which states of the output count as right:

- `NO_LEVEL`: any. What an operator says is shown at once.
- `UPDATE_COMPLETE` (Definition 1): nothing more follows from an event of which something is shown.
- `INPUT_PREFIX_UPDATE_COMPLETE` (2): what is shown is all that is actively derived from a prefix of
  every input, and nothing else.
- `INPUT_PREFIX_CONSISTENT` (3): it is the answer to a prefix of every input.
- `SYNCHRONIZED_INPUT_PREFIX_CONSISTENT` (4): the answer to what all inputs had said at one time.

2 implies 1, and 4 implies 3. The first two speak of an order of reading, the others do not: 3 does not
imply 2, and 2 implies 3 only where no event takes two ways (the state of the paper's Figure 4 is
input-prefix update-complete, and no answer to any prefix). A method keeps a level, at a price:

- `Drain`: one arrival at a time, and nothing else on its way. Every level; no pipelining.
- `Heeding`: events bear labels, and states are found to be right when they are. Nothing is delayed; how
  often it happens nobody can say. No synchronized inputs.
- `Tokens`: every so often a mark enters every input, and operators wait for it on all theirs. States
  are right at known distances.

Paper 5 sections 3 (levels) and 4 (methods), erratum 28. Not here: how the methods work
(runtime/labels.py, runtime/tokens.py), or whether a log kept a level (testing/visible.py).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from operator import index
from typing import Any

from slackwater.errors import PlanError

__all__ = [
    "HELD",
    "INPUT_PREFIX_CONSISTENT",
    "INPUT_PREFIX_UPDATE_COMPLETE",
    "MARKED",
    "NO_LEVEL",
    "SYNCHRONIZED_INPUT_PREFIX_CONSISTENT",
    "UPDATE_COMPLETE",
    "Adaptive",
    "Drain",
    "Heeding",
    "Level",
    "Method",
    "Search",
    "Showing",
    "Tokens",
    "method_for",
]


class Level(enum.Enum):
    """Which states of the output count as right."""

    NO_LEVEL = "none"
    UPDATE_COMPLETE = "update-complete"
    INPUT_PREFIX_UPDATE_COMPLETE = "input-prefix update-complete"
    INPUT_PREFIX_CONSISTENT = "input-prefix consistent"
    SYNCHRONIZED_INPUT_PREFIX_CONSISTENT = "synchronized input-prefix consistent"


NO_LEVEL = Level.NO_LEVEL
UPDATE_COMPLETE = Level.UPDATE_COMPLETE
INPUT_PREFIX_UPDATE_COMPLETE = Level.INPUT_PREFIX_UPDATE_COMPLETE
INPUT_PREFIX_CONSISTENT = Level.INPUT_PREFIX_CONSISTENT
SYNCHRONIZED_INPUT_PREFIX_CONSISTENT = Level.SYNCHRONIZED_INPUT_PREFIX_CONSISTENT


class Showing(enum.Enum):
    """When a user sees what the query says."""

    HELD = "held"
    """when it is known to be right: every state that is seen keeps the level"""
    MARKED = "marked"
    """at once, and the states that are known to be right are marked"""


HELD = Showing.HELD
MARKED = Showing.MARKED


class Search(enum.Enum):
    """How Heeding finds out whether an event is still on its way."""

    MULTISET = "multiset"
    """what is on its way is counted, for each input"""
    SCAN = "scan"
    """all queues are looked through, each time: the paper's naive method, to compare with"""


@dataclass(frozen=True, slots=True)
class Drain:
    """One arrival at a time, in the order of arrival: the next one waits until all is quiet."""

    def require(self, level: Level) -> None:
        """It keeps every level."""


@dataclass(frozen=True, slots=True)
class Heeding:
    """Wait and see: labels tell when the output is right by itself."""

    search: Search = Search.MULTISET

    def __post_init__(self) -> None:
        if not isinstance(self.search, Search):
            raise PlanError(
                f"{self.search!r} is not a way to search what is on its way",
                detail=f"it is of type {type(self.search).__name__}",
                hint="sw.Heeding(), or sw.Heeding(sw.Search.SCAN) to compare with",
            )

    def require(self, level: Level) -> None:
        """It does not know when inputs are at one time."""
        if level is SYNCHRONIZED_INPUT_PREFIX_CONSISTENT:
            raise PlanError(
                f"heeding cannot keep the level {level.value!r}",
                detail="it finds states that are right, and does not make them",
                hint="by=sw.Tokens(in_step=True), or sw.Drain()",
            )


@dataclass(frozen=True, slots=True)
class Adaptive:
    """A period that is found while the query runs.

    It is chosen so that the cumulative latency is lowest, the time from the entrance of an event to the
    first right state that has it: with few tokens there are few such states, with many of them all take
    longer. As long as more comes in than goes out, it grows.
    """

    first: int = 64
    """elements between two tokens, to begin with"""
    least: int = 1
    most: int = 1_000_000

    def __post_init__(self) -> None:
        least, first, most = map(_size, (self.least, self.first, self.most))
        if not 1 <= least <= first <= most:
            raise PlanError(
                "a period is between the least and the most, which are whole numbers of elements",
                detail=f"least={self.least!r}, first={self.first!r}, most={self.most!r}",
            )


@dataclass(frozen=True, slots=True)
class Tokens:
    """Synchronization tokens, one after every so many elements that have entered.

    None stands inside of what arrives at once. `run` lets in up to `batch` elements of an input
    together: with `batch=1000` there is one of `Tokens(100)` after every 1,000.

    With `in_step` no input is further than another when a token enters: it is between what had arrived
    at one time and what had not.
    """

    every: int | Adaptive = 100
    in_step: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.every, Adaptive) and _size(self.every) < 1:
            raise PlanError(
                "there is one element or more between two tokens",
                detail=f"every={self.every!r}",
                hint="sw.Tokens(100), sw.Tokens(sw.Adaptive())",
            )
        if not isinstance(self.in_step, bool):
            raise PlanError(
                "tokens are in step, or they are not",
                detail=f"in_step={self.in_step!r}",
                hint="sw.Tokens(100, in_step=True)",
            )

    def require(self, level: Level) -> None:
        """Inputs are at one time only if that is seen to."""
        if level is SYNCHRONIZED_INPUT_PREFIX_CONSISTENT and not self.in_step:
            raise PlanError(
                f"tokens that are not in step cannot keep the level {level.value!r}",
                detail="each enters its input wherever that is",
                hint="by=sw.Tokens(in_step=True)",
            )


Method = Drain | Heeding | Tokens


def _size(every: Any) -> int:
    """A whole number, and 0 if it is none: truth is no number here."""
    try:
        if isinstance(every, bool):
            return 0
        return index(every)
    except TypeError:
        return 0


def method_for(level: Level | None, by: Method | None) -> tuple[Level, Method | None]:
    """A level and who keeps it, where one of them, or both, are left open.

    >>> method_for(INPUT_PREFIX_CONSISTENT, None)
    (<Level.INPUT_PREFIX_CONSISTENT: 'input-prefix consistent'>, Tokens(every=100, in_step=False))
    >>> method_for(SYNCHRONIZED_INPUT_PREFIX_CONSISTENT, Heeding())
    Traceback (most recent call last):
        ...
    slackwater.errors.PlanError: heeding cannot keep the level 'synchronized input-prefix consistent'
      detail: it finds states that are right, and does not make them
      hint: by=sw.Tokens(in_step=True), or sw.Drain()
    """
    if by is not None and not isinstance(by, Drain | Heeding | Tokens):
        raise PlanError(
            f"{by!r} is not a way to keep a level",
            detail=f"it is of type {type(by).__name__}",
            hint="sw.Drain(), sw.Heeding() or sw.Tokens(100)",
        )
    if level is NO_LEVEL and by is not None:
        raise PlanError(
            f"{by!r} has no level to keep",
            detail=f"level={level.value!r} is said beside it",
            hint="leave out by, or say which level",
        )
    if level is None:
        if by is None:
            return NO_LEVEL, None
        in_step = isinstance(by, Drain) or (isinstance(by, Tokens) and by.in_step)
        level = SYNCHRONIZED_INPUT_PREFIX_CONSISTENT if in_step else INPUT_PREFIX_CONSISTENT
    if by is None and level is not NO_LEVEL:
        by = Tokens(in_step=level is SYNCHRONIZED_INPUT_PREFIX_CONSISTENT)
        if level is UPDATE_COMPLETE:
            by = Heeding()
    if by is not None:
        by.require(level)
    return level, by
