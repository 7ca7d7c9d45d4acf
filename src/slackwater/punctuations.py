"""Punctuations: promises about what a stream will not say any more.

A punctuation is a pattern over sync time and payload columns, and promises that no later element
matches it. So far one pattern is known: the half-line "sync < t", every column a wildcard. That is the
CTI (current time increment; a stable point, a definite punctuation): the history before t no longer
changes. `Promises` accumulates what a stream has promised and judges batches against it.

An external CTI is no promise about what is to come, but a count of what there is: it may overtake the
elements that it counts. Finalize makes promises of such counts.

Room left on purpose: a pattern per column joins `before` in `Punctuation`, and `Promises` becomes an
index of them; who asks `matches`, `implies` and `broken_by` does not change.

Paper 4 section 3 (punctuations as patterns), paper 1b section 3 (CTI), erratum 26.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass
from typing import SupportsIndex

import numpy as np
import numpy.typing as npt

from slackwater.errors import InvalidElement
from slackwater.events import Batch, Control
from slackwater.times import BEGIN, INF, Instant, Times, chronon, show

__all__ = ["ExternalCti", "Promises", "Punctuation", "Reached", "cti", "external_cti"]


@dataclass(frozen=True, slots=True, repr=False)
class Punctuation(Control):
    """No later element matches: here, has sync < `before`.

    >>> cti(20).implies(cti(10)), cti(10).implies(cti(20))
    (True, False)
    """

    before: int

    movable = True

    @property
    def sync(self) -> int:
        """Its place in sync order: that of the first element it still permits."""
        return self.before

    def matches(self, batch: Batch) -> npt.NDArray[np.bool_]:
        """Which rows of the batch the promise speaks of."""
        return _behind(batch.sync, np.int64(self.before))

    def implies(self, other: Punctuation) -> bool:
        """Whether keeping this promise keeps the other one too."""
        return self.before >= other.before

    def __repr__(self) -> str:
        return f"cti({show(self.before)})"


def cti(time: Instant) -> Punctuation:
    """The promise that the history before `time` no longer changes.

    >>> cti(20)
    cti(20)
    >>> cti(None)
    cti(INF)
    """
    return Punctuation(chronon(time))


@dataclass(frozen=True, slots=True, repr=False)
class ExternalCti(Control):
    """The stream has `count` elements with since <= sync < `before`, wherever they stand in it.

    With a `before` of INF the elements whose sync is INF are counted, too.
    """

    before: int
    count: int
    since: int = BEGIN

    movable = True

    def __post_init__(self) -> None:
        if self.since >= self.before:
            raise InvalidElement(
                "an external cti must end after it starts: "
                f"since={show(self.since)}, before={show(self.before)}",
                hint="it counts the elements with since <= sync < before",
            )
        if self.count < 0:
            raise InvalidElement(f"{self.count} is not a number of elements")

    def __repr__(self) -> str:
        since = "" if self.since == BEGIN else f", since={show(self.since)}"
        return f"external_cti({show(self.before)}, {self.count}{since})"


def external_cti(time: Instant, count: SupportsIndex, *, since: Instant = BEGIN) -> ExternalCti:
    """The stream has `count` elements in all whose sync is before `time`; or from `since` on.

    Inserts and adjusts count alike, each by its own sync. It may come before the elements that it
    counts, and in any order with other external ctis: that is what `sw.stream(..., disordered=True)` is
    for. Intervals [since, time) are disjoint, or begin at the same time.

    >>> external_cti(8, 4)
    external_cti(8, 4)
    >>> external_cti(None, 0, since=8)
    external_cti(INF, 0, since=8)
    """
    if not isinstance(count, SupportsIndex):
        raise InvalidElement(f"{count!r} is not a number of elements", hint="a count is an int")
    return ExternalCti(chronon(time), operator.index(count), chronon(since))


@dataclass(frozen=True, slots=True, repr=False)
class Reached(Control):
    """The starts of the sources' rows have come so far, wherever the rows went.

    It is the engine's own: where a stream is spread over many places, each sees a share of the rows, and
    is told what one place would have seen. Of a source with several partitions, each with its own order,
    `slowest` is how far the last of them is and `furthest` how far the first.
    """

    slowest: int
    furthest: int

    def __repr__(self) -> str:
        return f"reached({show(self.slowest)}, {show(self.furthest)})"


@dataclass(frozen=True, slots=True)
class Promises:
    """Everything a stream has promised so far.

    >>> Promises().with_(cti(5)).with_(cti(3)).cti
    5
    """

    cti: int = BEGIN

    def with_(self, punctuation: Punctuation) -> Promises:
        """These promises and one more."""
        return Promises(max(self.cti, punctuation.before))

    @property
    def closed(self) -> bool:
        """Whether nothing more can come."""
        return self.cti == INF

    def broken_by(self, batch: Batch) -> npt.NDArray[np.bool_]:
        """Which rows break a promise: one of these, or one made earlier in their own batch."""
        # what was promised before each row, and one place more for what follows the last
        at_row = np.full(batch.rows + 1, self.cti, dtype=np.int64)
        promises = [p for p in batch.controls if isinstance(p.control, Punctuation)]
        places = np.array([p.position for p in promises], dtype=np.int64)
        np.maximum.at(at_row, places, [_before(p.control) for p in promises] or self.cti)
        at_row = np.maximum.accumulate(at_row)[:-1]
        return _behind(batch.sync, at_row)

    def strengthened_by(self, controls: Iterable[Control]) -> tuple[Promises, list[Punctuation]]:
        """These promises and those, and the fewest punctuations that tell the difference."""
        after = self
        for control in controls:
            if isinstance(control, Punctuation):
                after = after.with_(control)
        return after, ([Punctuation(after.cti)] if after.cti > self.cti else [])


def _behind(sync: Times, before: Times | np.int64) -> npt.NDArray[np.bool_]:
    """Which syncs a cti forbids; cti(INF) forbids everything, an end that stays at INF included."""
    forbidden: npt.NDArray[np.bool_] = (sync < before) | (before == INF)
    return forbidden


def _before(control: Control) -> int:
    assert isinstance(control, Punctuation)
    return control.before
