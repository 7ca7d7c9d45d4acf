"""Projection: promises about columns that are projected away (projPs of paper 4).

One promise that speaks of such a column is of no use: other values of it may still come. Several are,
if together they leave none out: {a < 5, k = 1}, {a >= 5, k = 1} and {a null} are {k = 1} where a is
gone. The paper leaves that open. Found are promises that each speak of one of these columns, and of the
same one; what speaks of two of them, or only of syncs from some time on, is dropped.

What may still be completed by others is remembered, until what it says has been promised or a cti has
passed it; the oldest is forgotten when there is much of it, and then less is promised, which the ledger
says (`note`). What groups by some columns (`of_columns`) hears promises about the others in the same
way. Boxes are found by their *region*, what they say of the columns that are kept; if that is one value
of each, it is a point, and only what has the same values there is looked at: what is told piece by piece
costs no more where many are open. As long as nothing can follow from them, boxes wait: mostly they are
said as a whole before they matter.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from slackwater.columns import FEW, framed, taken
from slackwater.events import Batch
from slackwater.identity import row_ids
from slackwater.operators.closing import about
from slackwater.operators.coverage import covers
from slackwater.operators.step import GivenUp
from slackwater.patterns import ANY, Constant, Pattern, Range, united, values_of
from slackwater.punctuations import Closings, Promise, Punctuation, gathered
from slackwater.times import BEGIN, INF

__all__ = ["Apart", "of_columns", "projected"]

MOST_BOXES = 1_000
MOST_CLOSINGS = 100_000
MOST_REGIONS = 100


_Region = tuple[tuple[str, Pattern], ...]
"""what a box says of the columns that are kept"""
_Names = tuple[str, ...]
_Place = tuple[str, _Region]
"""the column of a box that is gone, and its region"""


@dataclass(slots=True)
class Apart:
    """Promises that are of no use alone."""

    boxes: dict[_Place, list[Punctuation]] = field(default_factory=dict)
    """the last is the place of which something was told last"""
    regions: dict[tuple[str, _Names | None], dict[_Region, None]] = field(default_factory=dict)
    """of the boxes, by the column that is gone and, of points, the columns that are kept"""
    waiting: dict[_Place, list[Punctuation]] = field(default_factory=dict)
    """boxes that have not been compared with these yet, in the same order"""
    closings: list[Closings] = field(default_factory=list)
    """for each set of columns, all together"""
    said: list[Promise] = field(default_factory=list)
    """of columns that are kept, and not compared with the closings yet"""
    endless: tuple[list[str], list[str]] = field(default_factory=lambda: ([], []))
    """columns of which a range without a lower end was told, and without an upper one"""
    soonest: int = INF
    """no cti before that frees anything"""
    forgotten: int = 0
    """how many there were too many"""
    noted: int = 0
    """... when that was said last"""
    gone: Promise | None = None
    """the first of those that were forgotten since"""

    def __len__(self) -> int:
        return _count(self.boxes) + _count(self.waiting) + sum(map(len, self.closings))

    def wait(self, told: Punctuation, column: str, schema: pl.Schema) -> None:
        """Take in a box of which it need not be known yet what follows."""
        pattern = _pattern(told, column)
        if isinstance(pattern, Range):
            for known, end in zip(self.endless, (pattern.low, pattern.high), strict=True):
                if end is None and column not in known:
                    known.append(column)
        place = _place(told, column)
        self.waiting[place] = [*self.waiting.pop(place, []), told]
        if _count(self.waiting) > FEW:
            self.settle(schema)

    def may_cover(self, column: str, dtype: pl.DataType) -> bool:
        """Whether no value may be left out. Constants alone leave one out, unless there are only two."""
        return all(column in known for known in self.endless) or dtype == pl.Boolean

    def settle(self, schema: pl.Schema) -> None:
        """Nothing waits any more."""
        waiting, self.waiting = self.waiting, {}
        for (column, region), boxes in waiting.items():
            for box in boxes:
                self._add(box, (column, region), schema[column])

    def _add(self, told: Punctuation, place: _Place, dtype: pl.DataType) -> None:
        """Put a box, and what it is one range with, where it is found."""
        told, others = _grown(told, self.boxes.pop(place, []), place[0], dtype)
        self._drop_elsewhere(told, place)
        self.boxes[place] = [*others, told]
        column, region = place
        self.regions.setdefault((column, _names(region)), {})[region] = None
        if _count(self.boxes) > MOST_BOXES:
            oldest = next(iter(self.boxes))
            gone, *left = self.boxes[oldest]
            self.lose(gone, 1)
            self._put(oldest, left)

    def lose(self, first: Promise, count: int) -> None:
        """So many are forgotten that are still of use."""
        self.forgotten += count
        self.gone = self.gone or first

    def note(self, schema: pl.Schema) -> GivenUp | None:
        """What the ledger is to say of those that are forgotten: again when they are twice as many."""
        if self.gone is None or self.forgotten < 2 * self.noted:
            return None
        told, self.gone, self.noted = self.gone, None, self.forgotten
        why = (
            "what others would complete it to is not promised any more, and waits for time: of such "
            f"pieces {MOST_BOXES:,} are remembered, and {MOST_CLOSINGS:,} that are single values; "
            f"forgotten by now: {self.forgotten:,}"
        )
        return GivenUp(Batch.empty(schema).followed_by([told]), "promise forgotten", (why,))

    def _put(self, place: _Place, left: list[Punctuation]) -> None:
        """These are the boxes of a place now."""
        _put(self.boxes, place, left)
        if not left:
            column, region = place
            shape = column, _names(region)
            del self.regions[shape][region]
            if not self.regions[shape]:
                del self.regions[shape]

    def meeting(self, place: _Place) -> list[_Region]:
        """The regions of boxes that may have something in common with one: no other points."""
        column, region = place
        point = dict(region) if _is_point(region) else None
        found: list[_Region] = []
        for (gone, names), regions in self.regions.items():
            if gone != column:
                continue
            if point is None or names is None or not point.keys() >= set(names):
                found += regions
                continue
            same = tuple((name, point[name]) for name in names)
            found += [same] if same in regions else []
        return found

    def _drop_elsewhere(self, told: Punctuation, place: _Place) -> None:
        """Drop boxes of other places that a box says: not of other values in the same columns."""
        column, region = place
        is_wide = not _is_point(region)
        for other in self.meeting(place):
            boxes = self.boxes.get((column, other))
            if boxes and (is_wide or len(other) > len(region)):
                self._put((column, other), [box for box in boxes if not told.implies(box)])

    def free(self, cti: int) -> None:
        """Drop what a cti has passed: before it nothing comes, whatever the payload."""
        if cti < self.soonest:
            return
        for place, boxes in list(self.boxes.items()):
            self._put(place, [box for box in boxes if box.before > cti])
        for place, boxes in list(self.waiting.items()):
            _put(self.waiting, place, [box for box in boxes if box.before > cti])
        closings = [each.where(each.before > cti) for each in self.closings]
        self.closings = [each for each in closings if len(each)]
        told = [
            box.before for some in (self.boxes, self.waiting) for each in some.values() for box in each
        ]
        self.soonest = min([*told, *(int(each.before.min()) for each in self.closings)], default=INF)

    def forget(self, told: Promise) -> None:
        """Drop what this promise says."""
        self.forget_boxes(told)
        left = [each.where(~_says(told, each)) for each in self.closings]
        self.closings = [each for each in left if len(each)]

    def forget_said(self, told: Sequence[Promise], schema: pl.Schema) -> None:
        """Drop what these promises say, which come from the input; of values only now and then."""
        for each in told:
            self.forget_boxes(each)
        if self.closings:
            self.said += told
            if sum(map(_size, self.said)) >= sum(map(len, self.closings)):
                self.forget_values(schema)

    def forget_values(self, schema: pl.Schema) -> None:
        """Drop the values of which more has been said by now."""
        said, self.said = gathered(self.said, schema), []
        for each in said:
            left = [closings.where(~_says(each, closings)) for closings in self.closings]
            self.closings = [closings for closings in left if len(closings)]

    def forget_boxes(self, told: Promise) -> None:
        """Drop the boxes that this promise says, which is about columns that are kept."""
        for boxes in filter(None, (self.boxes, self.waiting)):
            until = _said_until(told, [region for _, region in boxes])
            for place, time in zip(list(boxes), until, strict=True):
                if time > BEGIN:
                    left = [box for box in boxes[place] if box.before > time]
                    if boxes is self.boxes:
                        self._put(place, left)
                    else:
                        _put(boxes, place, left)


def _size(told: Promise) -> int:
    return len(told) if isinstance(told, Closings) else 1


def _count(boxes: dict[_Place, list[Punctuation]]) -> int:
    return sum(map(len, boxes.values()))


def _put(boxes: dict[_Place, list[Punctuation]], place: _Place, left: list[Punctuation]) -> None:
    """These are the boxes of a place now."""
    if left:
        boxes[place] = left
    else:
        del boxes[place]


def _place(box: Punctuation, column: str) -> _Place:
    return column, tuple(each for each in box.columns if each[0] != column)


def _names(region: _Region) -> _Names | None:
    """The columns of a point; None of what is none."""
    return tuple(name for name, _ in region) if _is_point(region) else None


def _is_point(region: Iterable[tuple[str, Pattern]]) -> bool:
    return all(isinstance(pattern, Constant) for _, pattern in region)


def _said_until(told: Promise, regions: Sequence[_Region]) -> list[int]:
    """The time before which a promise says all of each region; BEGIN if it does not."""
    if isinstance(told, Punctuation):
        says = [told.implies(Punctuation(told.before, columns=region)) for region in regions]
        return [told.before if all_of_it else BEGIN for all_of_it in says]
    until = np.full(len(regions), BEGIN, dtype=np.int64)
    names = told.keys.columns
    shared = [[(name, dict(region).get(name, ANY)) for name in names] for region in regions]
    points = [at for at, patterns in enumerate(shared) if _is_point(patterns)]
    rows = [[value for _, pattern in shared[at] for value in values_of(pattern)] for at in points]
    if rows:
        columns = zip(told.keys.schema.items(), zip(*rows, strict=True), strict=True)
        frame = framed([pl.Series(n, v, dtype, strict=True) for (n, dtype), v in columns], len(rows))
        until[points] = told.frontier(frame)
    return until.tolist()


def projected(
    apart: Apart, told: Sequence[Promise], kept: Collection[str], schema: pl.Schema
) -> list[Promise]:
    """The promises about `kept` columns that follow from these and those that are remembered."""
    found: list[Punctuation] = []
    for promise in told:
        gone = [name for name in _columns(promise) if name not in kept]
        if len(gone) != 1 or (isinstance(promise, Punctuation) and promise.since != BEGIN):
            continue
        [column] = gone
        _remember(apart, promise, column, schema)
        if not apart.may_cover(column, schema[column]):
            continue
        apart.settle(schema)
        for region, parts in _own(apart, promise, column):
            others = list(_others(apart, column, region, promise))
            for each in _common(region, others):
                more = [part for other, those in others if other.implies(each) for part in those]
                before = _covered_before([*parts, *more], schema[column])
                if before is not None:
                    found.append(Punctuation(before, columns=each.columns))
    wide, points = _strongest(found)
    said = [*wide, *Closings.of(points, schema)]
    for follows in said:
        apart.forget(follows)
    return said


def _strongest(found: Iterable[Punctuation]) -> tuple[list[Punctuation], list[Punctuation]]:
    """Those that no other one says; points apart, of which most say nothing of each other."""
    wide: list[Punctuation] = []
    points: dict[_Names, dict[_Region, Punctuation]] = {}
    for follows in found:
        names = _names(follows.columns)
        if names is not None and names:
            same = points.setdefault(names, {})
            if follows.columns not in same or same[follows.columns].before < follows.before:
                same[follows.columns] = follows
        elif not any(other.implies(follows) for other in wide):
            wide = [*(other for other in wide if not follows.implies(other)), follows]

    def is_said(follows: Punctuation) -> bool:
        """Whether a point of fewer columns says it."""
        columns = dict(follows.columns)
        for names, same in points.items():
            if len(names) < len(columns) and columns.keys() >= set(names):
                other = same.get(tuple((name, columns[name]) for name in names))
                if other is not None and other.before >= follows.before:
                    return True
        return False

    singles = [
        each
        for same in points.values()
        for each in same.values()
        if not is_said(each) and not any(other.implies(each) for other in wide)
    ]
    return [each for each in wide if not is_said(each)], singles


def of_columns(
    apart: Apart,
    told: Sequence[Promise],
    columns: Collection[str],
    schema: pl.Schema,
    cti: int,
) -> list[Promise]:
    """The promises about these columns alone, and what follows about them from all others together.

    Before the cti nothing comes anyway.
    """
    told = about(told, schema, cti)
    found = [each for each in told if each.speaks_only_of(columns)]
    follows: list[Promise] = []
    if len(found) < len(told):
        others = [each for each in told if not each.speaks_only_of(columns)]
        follows = projected(apart, others, columns, schema)
    apart.forget_said(found, schema)
    return [*found, *follows]


_Parts = list[tuple[int, Pattern]]
"""patterns of one column, each with the time before which it is promised"""
_Closed = tuple[Punctuation, _Parts]
"""what is promised of one column, in a region of the others"""


def _columns(promise: Promise) -> list[str]:
    if isinstance(promise, Closings):
        return promise.keys.columns
    return [name for name, _ in promise.columns]


def _remember(apart: Apart, told: Promise, column: str, schema: pl.Schema) -> None:
    """Take a promise in."""
    if isinstance(told, Punctuation):
        apart.soonest = min(apart.soonest, told.before)
        apart.wait(told, column, schema)
        return
    apart.soonest = min(apart.soonest, int(told.before.min(initial=INF)))
    if sum(map(len, apart.closings)) + len(told) > MOST_CLOSINGS:
        apart.forget_values(schema)
    same = [each for each in apart.closings if set(each.keys.columns) == set(told.keys.columns)]
    apart.closings = [each for each in apart.closings if each not in same]
    keys = pl.concat([*(each.keys.select(told.keys.columns) for each in same), told.keys])
    before = np.concatenate([*(each.before for each in same), told.before])
    if len(keys) > MOST_CLOSINGS:
        apart.lose(Closings(keys[:1], before[:1]), len(keys) - MOST_CLOSINGS)
    apart.closings.append(Closings(keys[-MOST_CLOSINGS:], before[-MOST_CLOSINGS:]))


def _own(apart: Apart, told: Promise, column: str) -> list[_Closed]:
    """What is promised by now in the regions that a promise speaks of, which was taken in last."""
    if isinstance(told, Punctuation):
        return [_of_box(apart.boxes[_place(told, column)][-1], column)]
    together = apart.closings[-1]
    return list(_groups(together, column, max(len(together) - len(told), 0)))


def _grown(
    told: Punctuation, boxes: Sequence[Punctuation], column: str, dtype: pl.DataType
) -> tuple[Punctuation, list[Punctuation]]:
    """The promise with those of its region that are one range with it; and those that it does not say.

    What is told piece by piece is one piece then, and not compared with every piece of it.
    """
    pattern = _pattern(told, column)
    others: list[Punctuation] = []
    for box in reversed(boxes):
        both = united(pattern, _pattern(box, column), dtype) if box.before == told.before else None
        if isinstance(both, Range):
            pattern = both
        else:
            others.append(box)
    columns = tuple((name, pattern if name == column else p) for name, p in told.columns)
    grown = Punctuation(told.before, columns=columns)
    return grown, [box for box in reversed(others) if not grown.implies(box)]


def _pattern(box: Punctuation, column: str) -> Pattern:
    return next(pattern for name, pattern in box.columns if name == column)


def _of_box(box: Punctuation, column: str) -> _Closed:
    _, region = _place(box, column)
    return Punctuation(INF, columns=region), [(box.before, _pattern(box, column))]


def _groups(closings: Closings, column: str, touched_from: int = 0) -> Iterator[_Closed]:
    """What is closed of a column, for the values of the others in the rows from some row on."""
    others = [name for name in closings.keys.columns if name != column]
    number = row_ids(closings.keys.select(others)) if others else np.zeros(len(closings), dtype=np.int64)
    order = np.argsort(number, kind="stable")
    values = closings.keys[column].to_list()
    touched = np.unique(number[touched_from:])
    starts = np.searchsorted(number[order], touched)
    stops = np.searchsorted(number[order], touched, side="right")
    keys = taken(closings.keys.select(others), order[starts]).rows() if others else [()] * len(touched)
    for start, stop, key in zip(starts.tolist(), stops.tolist(), keys, strict=True):
        rows = order[start:stop].tolist()
        region = Punctuation.of(
            INF, BEGIN, {name: Constant(value) for name, value in zip(others, key, strict=True)}
        )
        yield region, [(int(closings.before[row]), Constant(values[row])) for row in rows]


def _others(apart: Apart, column: str, region: Punctuation, told: Promise) -> Iterator[_Closed]:
    """What else is promised of the column, in regions that meet that of what was told.

    Closings of the same columns are together, and what was told is among them if it is closings.
    """
    own = set(told.keys.columns) if isinstance(told, Closings) else set[str]()
    for met in apart.meeting((column, region.columns)):
        yield from (_of_box(box, column) for box in apart.boxes[column, met])
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


def _covered_before(parts: _Parts, dtype: pl.DataType) -> int | None:
    """The latest time before which these together say something of every value."""
    for before in sorted({before for before, _ in parts}, reverse=True):
        if covers([pattern for until, pattern in parts if until >= before], dtype):
            return before
    return None


def _says(told: Promise, closings: Closings) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which of these a promise says."""
    if not told.speaks_only_of(closings.keys.columns):
        return np.zeros(len(closings), dtype=np.bool_)
    if isinstance(told, Closings):
        said = closings.before <= told.frontier(closings.keys.select(told.keys.columns))
    else:
        said = told.matches_payload(closings.keys) & (closings.before <= told.before)
    return np.asarray(said)
