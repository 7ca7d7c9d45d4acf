"""Projection: promises about columns that are projected away (projPs of paper 4).

One promise that speaks of such a column is of no use: other values of it may still come. Several are,
if together they leave none out: {a < 5, k = 1}, {a >= 5, k = 1} and {a null} are {k = 1} where a is
gone. The paper leaves that open. Found are promises that each speak of one of these columns, and of the
same one; what speaks of two of them, or only of syncs from some time on, is dropped.

What may still be completed by others is remembered, until what it says has been promised; the oldest is
forgotten when there is much of it, and then less is promised.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from slackwater.identity import row_ids
from slackwater.operators.coverage import covers
from slackwater.patterns import Constant, Pattern, Range, united
from slackwater.punctuations import Closings, Promise, Punctuation
from slackwater.times import BEGIN, INF

__all__ = ["Apart", "projected"]

MOST_BOXES = 1_000
MOST_CLOSINGS = 100_000
MOST_REGIONS = 100


@dataclass(slots=True)
class Apart:
    """Promises that are of no use alone."""

    boxes: list[Punctuation] = field(default_factory=list)
    closings: list[Closings] = field(default_factory=list)
    """for each set of columns, all together"""

    def __len__(self) -> int:
        return len(self.boxes) + sum(map(len, self.closings))

    def forget(self, told: Punctuation) -> None:
        """Drop what this promise says."""
        self.boxes = [box for box in self.boxes if not told.implies(box)]
        left = [each.where(~_says(told, each)) for each in self.closings]
        self.closings = [each for each in left if len(each)]


def projected(
    apart: Apart, told: Sequence[Promise], kept: Collection[str], schema: pl.Schema
) -> list[Punctuation]:
    """The promises about `kept` columns that follow from these and those that are remembered."""
    found: list[Punctuation] = []
    for promise in told:
        gone = [name for name in _columns(promise) if name not in kept]
        if len(gone) != 1 or (isinstance(promise, Punctuation) and promise.since != BEGIN):
            continue
        [column] = gone
        own = _remember(apart, promise, column, schema[column])
        if not _may_cover(apart, column, schema[column]):
            continue
        for region, parts in own:
            others = list(_others(apart, column, region, promise))
            for each in _common(region, others):
                more = [part for other, those in others if other.implies(each) for part in those]
                before = _covered_before([*parts, *more], schema[column])
                if before is not None:
                    found.append(Punctuation(before, columns=each.columns))
    said: list[Punctuation] = []
    for follows in found:
        if not any(other.implies(follows) for other in said):
            said = [*(other for other in said if not follows.implies(other)), follows]
    for follows in said:
        apart.forget(follows)
    return said


_Parts = list[tuple[int, Pattern]]
"""patterns of one column, each with the time before which it is promised"""
_Closed = tuple[Punctuation, _Parts]
"""what is promised of one column, in a region of the others"""


def _columns(promise: Promise) -> list[str]:
    if isinstance(promise, Closings):
        return promise.keys.columns
    return [name for name, _ in promise.columns]


def _remember(apart: Apart, told: Promise, column: str, dtype: pl.DataType) -> list[_Closed]:
    """Take a promise in; what is promised by now in the regions that it speaks of."""
    if isinstance(told, Punctuation):
        told = _grown(told, apart.boxes, column, dtype)
        apart.boxes = [*(box for box in apart.boxes if not told.implies(box)), told][-MOST_BOXES:]
        return [_of_box(told, column)]
    same = [each for each in apart.closings if set(each.keys.columns) == set(told.keys.columns)]
    apart.closings = [each for each in apart.closings if each not in same]
    keys = pl.concat([*(each.keys.select(told.keys.columns) for each in same), told.keys])
    before = np.concatenate([*(each.before for each in same), told.before])
    together = Closings(keys[-MOST_CLOSINGS:], before[-MOST_CLOSINGS:])
    apart.closings.append(together)
    return list(_groups(together, column, max(len(together) - len(told), 0)))


def _grown(
    told: Punctuation, boxes: Sequence[Punctuation], column: str, dtype: pl.DataType
) -> Punctuation:
    """The promise with what was said of the same region before, as far as that is one range with it.

    What is told piece by piece is one piece then, and not compared with every piece of it.
    """
    region, [(before, pattern)] = _of_box(told, column)
    for box in reversed(boxes):
        if box.before != before or column not in dict(box.columns) or _without(box, column) != region:
            continue
        both = united(pattern, dict(box.columns)[column], dtype)
        if isinstance(both, Range):
            pattern = both
    return Punctuation.of(before, BEGIN, {**dict(region.columns), column: pattern})


def _of_box(box: Punctuation, column: str) -> _Closed:
    return _without(box, column), [(box.before, dict(box.columns)[column])]


def _groups(closings: Closings, column: str, touched_from: int = 0) -> Iterator[_Closed]:
    """What is closed of a column, for the values of the others in the rows from some row on."""
    others = [name for name in closings.keys.columns if name != column]
    number = row_ids(closings.keys.select(others)) if others else np.zeros(len(closings), dtype=np.int64)
    order = np.argsort(number, kind="stable")
    values = closings.keys[column].to_list()
    for wanted in np.unique(number[touched_from:]).tolist():
        start, stop = np.searchsorted(number[order], [wanted, wanted + 1])
        rows = order[start:stop].tolist()
        key = closings.keys.select(others).row(rows[0]) if others else ()
        region = Punctuation.of(
            INF, BEGIN, {name: Constant(value) for name, value in zip(others, key, strict=True)}
        )
        yield region, [(int(closings.before[row]), Constant(values[row])) for row in rows]


def _others(apart: Apart, column: str, region: Punctuation, told: Promise) -> Iterator[_Closed]:
    """What else is promised of the column, in regions that meet that of what was told.

    Closings of the same columns are together, and what was told is among them if it is closings.
    """
    own = set(told.keys.columns) if isinstance(told, Closings) else set[str]()
    for box in apart.boxes:
        if column in dict(box.columns):
            yield _of_box(box, column)
    for closings in apart.closings:
        names = closings.keys.columns
        if column in names and set(names) != own:
            shared = Punctuation.of(INF, BEGIN, {n: p for n, p in region.columns if n in names})
            yield from _groups(closings.where(shared.matches_payload(closings.keys)), column)


def _common(region: Punctuation, others: Sequence[_Closed]) -> list[Punctuation]:
    """The parts of a region that some of the others have in common with it."""
    found = {region: None}
    for other, _ in others:
        for known in list(found):
            both = known.combine(other)
            if not both.is_empty and len(found) < MOST_REGIONS:
                found[both] = None
    return list(found)


def _without(box: Punctuation, column: str) -> Punctuation:
    return Punctuation.of(INF, BEGIN, {name: p for name, p in box.columns if name != column})


def _may_cover(apart: Apart, column: str, dtype: pl.DataType) -> bool:
    """Constants alone never leave no value out, unless there are only two."""
    if dtype == pl.Boolean:
        return True
    patterns = [pattern for box in apart.boxes for name, pattern in box.columns if name == column]
    ranges = [pattern for pattern in patterns if isinstance(pattern, Range)]
    return any(p.low is None for p in ranges) and any(p.high is None for p in ranges)


def _covered_before(parts: _Parts, dtype: pl.DataType) -> int | None:
    """The latest time before which these together say something of every value."""
    for before in sorted({before for before, _ in parts}, reverse=True):
        if covers([pattern for until, pattern in parts if until >= before], dtype):
            return before
    return None


def _says(told: Punctuation, closings: Closings) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which of these a promise says."""
    if not told.speaks_only_of(closings.keys.columns):
        return np.zeros(len(closings), dtype=np.bool_)
    said = told.matches_payload(closings.keys) & (closings.before <= told.before)
    return np.asarray(said)
