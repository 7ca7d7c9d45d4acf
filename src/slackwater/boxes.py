"""Boxes: an index of promises about payloads, so that none of them is gone through one by one.

Two forms. *Spans*: promises that hold from the beginning of time, of constants and perhaps one range;
values of the ordered column of a shape are integers (kernels/grouping.py `places`), and what is promised
is a step function from them to times, per combination of the other columns (kernels/spans.py). Values
that are closed one by one in any order, and lie densely, end as one span. New ones come as a small run,
and runs of like size are laid over each other: O(log n) rounds for each.

*Boxes*: all others, of several ranges or of sync times that begin later, in a tree by one of the ranges.
Those that are alike in all but one column are united if their union is one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from slackwater.columns import FEW
from slackwater.kernels import spans as spans_kernel
from slackwater.kernels.grouping import Keys
from slackwater.kernels.integers import is_fixed, of_places, places
from slackwater.patterns import Any_, Constant, OneOf, Pattern, Range, united, values_of
from slackwater.punctuations import Closings, Promise, Punctuation
from slackwater.times import BEGIN, INF, Times

__all__ = ["Boxes", "Spans"]

kernel: Any = spans_kernel
"""compiled functions, which mypy cannot follow"""

Ints: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]

_RATIO = 4
"""a run is so many times as long as the next, or more"""
_LEAST_PENDING = 32
_LEAST_KEYS = 1024
_DAY_NS = 86_400_000_000_000
_MICROSECOND_NS = 1000


def _nothing() -> Ints:
    return np.empty((0, 4), dtype=np.int64)


@dataclass(slots=True)
class Spans:
    """Promises of one shape: constants in some columns, and in one of them perhaps ranges."""

    schema: pl.Schema
    """the columns, by name"""
    along: str
    """the one whose values are integers in order; "" if there is none"""
    keys: Keys
    """of the others"""
    runs: list[Ints] = field(default_factory=list)

    @classmethod
    def of(cls, schema: pl.Schema, along: str) -> Spans:
        """None yet."""
        others = pl.Schema({name: dtype for name, dtype in schema.items() if name != along})
        return cls(schema, along, Keys(others))

    def __len__(self) -> int:
        return sum(map(len, self.runs))

    def add(self, closings: Closings, floor: int) -> None:
        """Take in closings of these columns."""
        group, value = self._places(closings.keys, self.keys.number)
        order = np.lexsort((value, group))
        self._take(kernel.run_of(group, value, value, closings.before, order, floor), floor)

    def add_range(self, told: Punctuation, floor: int) -> None:
        """Take in one whose pattern of the ordered column is a range."""
        self._take(self._run_of_range(told, self.keys.number_one), floor)

    def frontier(self, frame: pl.DataFrame, reached: Times) -> None:
        """Raise the time of each row that has these columns."""
        if self._speaks_of_none(frame):
            return
        group, value = self._places(frame, self.keys.find)
        for run in self.runs:
            kernel.look_up(run, group, value, reached)

    def _speaks_of_none(self, frame: pl.DataFrame) -> bool:
        """Whether all rows are above or below all that is promised, as far as that is seen at once.

        Rows mostly are: what is promised lies behind them.
        """
        if not self.runs:
            return True
        if not self.along or self.schema[self.along] != pl.Int64 or len(self) > FEW:
            return False
        column = frame.get_column(self.along)
        if column.dtype != pl.Int64 or column.null_count() or not len(column):
            return False
        values = column.to_numpy()
        least, greatest = values.min(), values.max()
        runs = [run for run in self.runs if len(run)]
        return all(greatest < run[:, 1].min() or least > run[:, 2].max() for run in runs)

    def covering(self, frame: pl.DataFrame, reached: Times) -> None:
        """The same for rows without the ordered column: where all its values are promised."""
        number = self.keys.find(frame) if self.keys.schema else np.zeros(frame.height, dtype=np.int64)
        before = self._covered()
        known = (number >= 0) & (number < len(before))
        np.maximum(reached, np.where(known, before[np.where(known, number, 0)], BEGIN), out=reached)

    def _covered(self) -> Times:
        """Of each combination of the others the time before which all values are promised."""
        groups = 2 * max(1, len(self.keys))
        run = self._whole()
        before: Times = kernel.covered(run, groups, *_domain(self.schema[self.along]))
        alone = np.arange(0, groups, 2)
        also = [(alone + 1, np.zeros(len(alone), dtype=np.int64))]
        if self.schema[self.along].is_float():
            also.append((alone, np.full(len(alone), _place(math.nan, self.schema[self.along]))))
        whole = before[::2]
        for group, value in also:
            time = np.full(len(alone), BEGIN, dtype=np.int64)
            kernel.look_up(run, group, value, time)
            whole = np.minimum(whole, time)
        return whole

    def promised(self, told: Punctuation) -> int:
        """The time before which all of a range is promised, piece by piece; BEGIN if some is not.

        The promise speaks of constants in the other columns, and perhaps of columns more.
        """
        columns = dict(told.columns)
        constants = all(isinstance(columns.get(name), Constant) for name in self.keys.schema)
        if not constants or not isinstance(columns.get(self.along), Range):
            return BEGIN
        for group, low, high, _ in self._run_of_range(told, self.keys.find_one).tolist():
            run = self._whole()
            pieces = run[(run[:, 0] == group) & (run[:, 1] <= high) & (run[:, 2] >= low)]
            return int(kernel.covered(pieces, group + 1, low, high)[group])
        return BEGIN

    def forget(self, told: Promise) -> None:
        """Drop what a promise of the same shape implies."""
        if isinstance(told, Closings):
            group, value = self._places(told.keys, self.keys.find)
            known = np.flatnonzero(group >= 0)
            group, value, before = group[known], value[known], told.before[known]
            struck = kernel.run_of(group, value, value, before, np.lexsort((value, group)), BEGIN)
        else:
            struck = self._run_of_range(told, self.keys.find_one)
        if len(struck):
            self.runs = [kernel.strike_out(run, struck) for run in self.runs]
            self._settle(BEGIN)

    def forget_others(self, told: Promise) -> None:
        """Drop what a promise about some of these columns implies, one by one where it is ranges."""
        self.runs = [run[~self._implied(run, told)] for run in self.runs]
        self._settle(BEGIN)

    def _implied(self, run: Ints, told: Promise) -> Mask:
        is_value = (run[:, 1] == run[:, 2]) | ((run[:, 0] & 1) == 1)
        implied = np.zeros(len(run), dtype=np.bool_)
        for each in self._told(run[is_value]):
            assert isinstance(each, Closings)
            if isinstance(told, Closings):
                implied[is_value] = told.frontier(each.keys) >= each.before
            elif told.since == BEGIN:
                implied[is_value] = told.matches_payload(each.keys) & (told.before >= each.before)
        boxes = [told] if isinstance(told, Punctuation) else list(told)
        wide = zip(np.flatnonzero(~is_value).tolist(), self._told(run[~is_value]), strict=True)
        for at, each in wide:
            assert isinstance(each, Punctuation)
            implied[at] = any(box.implies(each) for box in boxes)
        return implied

    def purge(self, cti: int) -> None:
        """Drop what a cti implies."""
        if any((run[:, spans_kernel.BEFORE] <= cti).any() for run in self.runs):
            self.runs = [run[run[:, spans_kernel.BEFORE] > cti] for run in self.runs]
            self._settle(cti)

    def one_of_row(self, frame: pl.DataFrame, sync: int) -> Punctuation | None:
        """The promise that speaks of the only row of a frame at a time."""
        group, value = self._places(frame, self.keys.find)
        for run in self.runs:
            time = np.full(1, BEGIN, dtype=np.int64)
            kernel.look_up(run, group, value, time)
            if sync < time[0] or time[0] == INF:
                mine = (run[:, 0] == group[0]) & (run[:, 1] <= value[0]) & (value[0] <= run[:, 2])
                return next(iter(_one_by_one(self._told(run[mine]))))
        return None

    def punctuations(self, meeting: Punctuation | None = None) -> list[Promise]:
        """The same promises: closings where one value is, and where all values of a column are.

        If it is asked for those that another one meets, no others as far as that is seen at once.
        """
        run = self._whole()
        groups, some = self._meeting(run, meeting)
        if not self.along:
            return self._told(run[some])
        before = self._covered()
        number = run[:, 0] >> 1
        found = self._told(run[some & (run[:, 3] > before[number])])
        full = np.flatnonzero((before > BEGIN) & groups[: len(before)])
        if len(full) and self.keys.schema:
            found.append(Closings(self.keys.take(full), before[full]))
        elif len(full):
            found.append(Punctuation(int(before[0])))
        return found

    def _meeting(self, run: Ints, told: Punctuation | None) -> tuple[Mask, Mask]:
        """Which combinations of the other columns a promise may speak of, and which stretches."""
        groups = np.ones(max(1, len(self.keys)), dtype=np.bool_)
        some = np.ones(len(run), dtype=np.bool_)
        columns = {} if told is None else dict(told.columns)
        values = [columns.get(name) for name in self.keys.schema]
        constants = [each.value for each in values if isinstance(each, Constant)]
        if constants and len(constants) == len(values):
            groups[:] = False
            number = self.keys.find_one(constants)
            if number >= 0:
                groups[number] = True
            some &= run[:, 0] >> 1 == number
        drawn = columns.get(self.along)
        if isinstance(drawn, Range):
            low, high = _ends(drawn, self.schema[self.along])
            some &= (run[:, 1] <= high) & (run[:, 2] >= low)
        return groups, some

    def _told(self, run: Ints) -> list[Promise]:
        if not self.along:
            keys = self.keys.take(run[:, 0] >> 1)
            return [Closings(keys, run[:, 3].copy())] if len(run) else []
        dtype = self.schema[self.along]
        is_null = (run[:, 0] & 1).astype(np.bool_)
        is_value = (run[:, 1] == run[:, 2]) | is_null
        found: list[Promise] = []
        if is_value.any():
            some = run[is_value]
            values = of_places(self.along, np.ascontiguousarray(some[:, 1]), dtype)
            values = values.set(pl.Series(is_null[is_value]), None)
            frame = values.to_frame()
            if self.keys.schema:
                frame = self.keys.take(some[:, 0] >> 1).with_columns(values)
            found.append(Closings(frame.select(list(self.schema)), some[:, 3].copy()))
        wide = run[~is_value]
        least, greatest = _domain(dtype)
        no_end = np.column_stack((wide[:, 1] <= least, wide[:, 2] >= greatest))
        bounds, closed = _of_python(wide[:, 1:3], dtype)
        closed |= no_end
        # what stands for no end is no value that Python has, of times at least
        ends = [
            of_places("", np.where(none, 0, bound), dtype).to_list()
            for none, bound in zip(no_end.T, bounds.T, strict=True)
        ]
        others = self.keys.take(wide[:, 0] >> 1).rows(named=True) if self.keys.schema else None
        for i, (low, high) in enumerate(zip(*ends, strict=True)):
            if no_end[i].any() or bounds[i, 0] < bounds[i, 1]:
                low_end, high_end = (None if no_end[i, 0] else low), (None if no_end[i, 1] else high)
                drawn: Pattern = Range(low_end, high_end, *closed[i].tolist())
            elif bounds[i, 0] == bounds[i, 1] and closed[i].all():
                drawn = Constant(low)
            else:
                continue
            columns: dict[str, Pattern] = {self.along: drawn}
            if others is not None:
                columns |= {name: Constant(value) for name, value in others[i].items()}
            found.append(Punctuation.of(int(wide[i, 3]), BEGIN, columns))
        return found

    def rekeyed(self, along: str, floor: int) -> Spans | None:
        """The same along another column, if all of them are of single values."""
        again = Spans.of(self.schema, along)
        for each in self.punctuations():
            if not isinstance(each, Closings) or each.keys.width < len(self.schema):
                return None
            again.add(each, floor)
        return again

    # runs

    def _take(self, run: Ints, floor: int) -> None:
        self.runs.append(run)
        while len(self.runs) > 1 and len(self.runs[-2]) < _RATIO * len(self.runs[-1]):
            last = self.runs.pop()
            self.runs[-1] = kernel.overlaid(self.runs[-1], last, floor)

    def _whole(self) -> Ints:
        while len(self.runs) > 1:
            last = self.runs.pop()
            self.runs[-1] = kernel.overlaid(self.runs[-1], last, BEGIN)
        return self.runs[0] if self.runs else _nothing()

    def _settle(self, floor: int) -> None:
        """Runs in their order again, and no key that nothing is promised of."""
        runs, self.runs = [run for run in self.runs if len(run)], []
        for run in sorted(runs, key=len, reverse=True):
            self._take(run, floor)
        if len(self.keys) > _LEAST_KEYS and len(self.keys) > 2 * len(self):
            alive = np.zeros(len(self.keys), dtype=np.bool_)
            for run in self.runs:
                alive[run[:, 0] >> 1] = True
            number = self.keys.keep(alive)
            for run in self.runs:
                run[:, 0] = 2 * number[run[:, 0] >> 1] + (run[:, 0] & 1)

    def _places(self, frame: pl.DataFrame, number: Callable[[pl.DataFrame], Ints]) -> tuple[Ints, Ints]:
        """Of each row the group, -1 if there is none, and the integer."""
        if self.keys.schema:
            known = number(frame)
            group = np.where(known < 0, -1, 2 * known)
        else:
            group = np.zeros(frame.height, dtype=np.int64)
        if not self.along:
            return group, np.zeros(frame.height, dtype=np.int64)
        column, dtype = frame.get_column(self.along), self.schema[self.along]
        value, nulls = places(column if column.dtype == dtype else column.cast(dtype))
        if nulls is None:
            return group, np.ascontiguousarray(value)
        return np.where(group < 0, -1, group + nulls), np.where(nulls, 0, value)

    def _run_of_range(self, told: Punctuation, number: Callable[[Sequence[Any]], int]) -> Ints:
        columns = dict(told.columns)
        drawn = columns.pop(self.along)
        assert isinstance(drawn, Range)
        key = [value for name in self.keys.schema for value in values_of(columns[name])]
        group = 2 * number(key) if key else 0
        low, high = _ends(drawn, self.schema[self.along])
        if group < 0 or low > high:
            return _nothing()
        return np.array([[group, low, high, told.before]], dtype=np.int64)


def _one_by_one(told: Iterable[Promise]) -> Iterable[Punctuation]:
    for each in told:
        yield from each if isinstance(each, Closings) else [each]


def _ends(drawn: Range, dtype: pl.DataType) -> tuple[int, int]:
    """A range as integers, both ends included."""
    low, high = _domain(dtype)
    if drawn.low is not None:
        low = _place(drawn.low, dtype) + (not drawn.low_closed)
    if drawn.high is not None:
        high = _place(drawn.high, dtype) - (not drawn.high_closed)
    return low, high


def _all_ends(drawn: Sequence[Range], dtype: pl.DataType) -> tuple[Ints, Ints]:
    """The same of many."""
    least, greatest = _domain(dtype)
    low, no_low = places(pl.Series([each.low for each in drawn], dtype=dtype, strict=True))
    high, no_high = places(pl.Series([each.high for each in drawn], dtype=dtype, strict=True))
    low = low + np.array([not each.low_closed for each in drawn])
    high = high - np.array([not each.high_closed for each in drawn], dtype=np.int64)
    low = low if no_low is None else np.where(no_low, least, low)
    return low, high if no_high is None else np.where(no_high, greatest, high)


def _place(value: Any, dtype: pl.DataType) -> int:
    if type(value) is int and dtype == pl.Int64:
        return value
    return int(places(pl.Series([value], dtype=dtype, strict=True))[0][0])


def _of_python(ends: Ints, dtype: pl.DataType) -> tuple[Ints, Mask]:
    """The ends of stretches as values that Python has, and which of them belong to the stretch.

    Nanoseconds are finer: an end right beside one of Python's is that one, left out; any other is moved
    inwards, so that nothing is said that was not promised.
    """
    closed = np.ones(ends.shape, dtype=np.bool_)
    if dtype == pl.Time or getattr(dtype, "time_unit", None) == "ns":
        closed = ends % _MICROSECOND_NS != np.array([1, _MICROSECOND_NS - 1])
        inwards = np.column_stack((-(-ends[:, 0] // _MICROSECOND_NS), ends[:, 1] // _MICROSECOND_NS))
        ends = np.where(closed, inwards * _MICROSECOND_NS, ends + np.array([-1, 1]))
    return ends, closed


def _domain(dtype: pl.DataType) -> tuple[int, int]:
    """The integers of the least and of the greatest value of a type, NaN apart."""
    if dtype == pl.Boolean:
        return 0, 1
    if dtype == pl.Time:
        return 0, _DAY_NS - 1
    if dtype == pl.Date:
        return -(2**31), 2**31 - 1
    if dtype.is_float():
        return _place(-math.inf, dtype), _place(math.inf, dtype)
    if dtype.is_integer() and dtype not in (pl.Int64, pl.UInt64):
        least, greatest = pl.select(dtype.min(), b=dtype.max()).row(0)  # type: ignore[attr-defined]
        return least, greatest
    return BEGIN, INF


# boxes


class _Tree:
    """Some boxes of one shape, as arrays."""

    def __init__(self, boxes: Sequence[Punctuation], schema: Mapping[str, pl.DataType]) -> None:
        first = dict(boxes[0].columns)
        self.ranges = [name for name, pattern in first.items() if isinstance(pattern, Range)]
        self.constants = [name for name in first if name not in self.ranges]
        columns = [dict(box.columns) for box in boxes]
        group = np.zeros(len(boxes), dtype=np.int64)
        self.keys = Keys(pl.Schema({name: schema[name] for name in self.constants}))
        if self.constants:
            values = {
                name: pl.Series([each[name].value for each in columns], dtype=schema[name], strict=True)  # type: ignore[union-attr]
                for name in self.constants
            }
            group = self.keys.number(pl.DataFrame(values))
        self.rulers = [_Ruler([each[name] for each in columns], schema[name]) for name in self.ranges]
        low = _matrix([ruler.low for ruler in self.rulers], len(boxes))
        high = _matrix([ruler.high for ruler in self.rulers], len(boxes))
        self.order = np.lexsort((low[:, 0], group))
        self.group, self.low, self.high = group[self.order], low[self.order], high[self.order]
        self.since = np.array([box.since for box in boxes], dtype=np.int64)[self.order]
        self.before = np.array([box.before for box in boxes], dtype=np.int64)[self.order]
        self.top = kernel.highest(self.group, np.ascontiguousarray(self.high[:, 0]))

    def is_of(self, frame: pl.DataFrame) -> bool:
        return all(name in frame.columns for name in (*self.ranges, *self.constants))

    def _asked(self, frame: pl.DataFrame) -> tuple[Ints, Ints]:
        """The group of each row, -1 where there can be none, and its integers."""
        group = np.zeros(frame.height, dtype=np.int64)
        if self.constants:
            group = self.keys.find(frame)
        columns = []
        for name, ruler in zip(self.ranges, self.rulers, strict=True):
            value, odd = ruler.places(frame[name])
            group = np.where(odd, -1, group)
            columns.append(value)
        return group, _matrix(columns, frame.height)

    def within(self, frame: pl.DataFrame, sync: Times) -> Ints:
        """The number of a box that holds each row at its time, or -1."""
        group, point = self._asked(frame)
        found = np.full(frame.height, -1, dtype=np.int64)
        # a box holds a time if it holds the next, too; one that ends at INF all
        after = np.where(sync == INF, INF, sync + 1)
        times = (self.since, self.before, sync, after)
        kernel.within(self.group, self.low, self.high, self.top, group, point, point, *times, found)
        return np.where(found >= 0, self.order[found], -1)

    def meeting(self, told: Punctuation) -> Ints:
        """The numbers of the boxes that another one meets, as far as its ranges and times tell."""
        some = (self.since < told.before) & (self.before > told.since)
        drawn = dict(told.columns)
        for i, (name, ruler) in enumerate(zip(self.ranges, self.rulers, strict=True)):
            pattern = drawn.get(name)
            ends = ruler.ends_of(pattern) if isinstance(pattern, Range) else None
            if ends is not None:
                some &= (self.low[:, i] <= ends[1]) & (self.high[:, i] >= ends[0])
        return self.order[some]

    def frontier(self, frame: pl.DataFrame, reached: Times) -> None:
        group, point = self._asked(frame)
        times = (self.since, self.before, reached)
        kernel.frontier(self.group, self.low, self.high, self.top, group, point, *times)


def _matrix(columns: Sequence[Ints], rows: int) -> Ints:
    """Columns side by side; one of zeros if there are none."""
    return np.ascontiguousarray(np.stack(columns, axis=1) if columns else np.zeros((rows, 1), np.int64))


class _Ruler:
    """How the values of a column become integers, so that ranges are integers, too.

    Types without a fixed width are ranked: the i-th end of a range is 2 i + 1, what lies before it 2 i.
    """

    def __init__(self, ranges: Sequence[Pattern], dtype: pl.DataType) -> None:
        self.dtype = dtype
        drawn = [each for each in ranges if isinstance(each, Range)]
        assert len(drawn) == len(ranges)
        self.ends: pl.Series | None = None
        if is_fixed(dtype):
            self.low, self.high = _all_ends(drawn, dtype)
            return
        known = [end for each in drawn for end in (each.low, each.high) if end is not None]
        self.ends = pl.Series(known, dtype=dtype, strict=True).unique().sort()
        low = pl.Series([each.low for each in drawn], dtype=dtype)
        high = pl.Series([each.high for each in drawn], dtype=dtype)
        opened = np.array(
            [[not each.low_closed, not each.high_closed] for each in drawn], dtype=np.int64
        )
        lows, no_low = self.places(low)
        highs, no_high = self.places(high)
        self.low = np.where(no_low, -1, lows + opened[:, 0])
        self.high = np.where(no_high, 2 * len(self.ends) + 2, highs - opened[:, 1])

    def ends_of(self, drawn: Range) -> tuple[int, int]:
        """The integers of the ends of another range; open ends are taken to belong to it."""
        ends = pl.Series([drawn.low, drawn.high], dtype=self.dtype)
        (low, high), _ = self.places(ends)
        return (
            BEGIN if drawn.low is None else int(low),
            INF if drawn.high is None else int(high),
        )

    def places(self, column: pl.Series) -> tuple[Ints, Mask]:
        """The integer of each value, and which have no place: null and NaN."""
        column = column.cast(self.dtype)
        odd = column.is_null().to_numpy()
        if self.ends is None:
            value, _ = places(column)
            if self.dtype.is_float():
                odd = odd | column.is_nan().fill_null(value=True).to_numpy()
            return np.ascontiguousarray(value), odd
        if not len(self.ends):
            return np.zeros(len(column), dtype=np.int64), odd
        at = self.ends.search_sorted(column, side="left").cast(pl.Int64).to_numpy()
        there = np.minimum(at, len(self.ends) - 1)
        is_end = self.ends[there].eq_missing(column).to_numpy() & (at < len(self.ends))
        return 2 * at + is_end, odd


class _Built:
    """What can be computed again of boxes."""

    def __init__(self) -> None:
        self.count = 0
        self.trees: list[tuple[_Tree, list[Punctuation]]] = []
        self.pending: list[Punctuation] | None = None
        """what is in no tree yet; None: nothing has been computed"""
        self.by_rest: dict[Hashable, Punctuation] = {}
        """boxes by what they say of all columns but one, or of all but the times"""
        self.ends: list[tuple[int, int, Punctuation]] = []
        """a heap of the times until which they hold, each with the number that it was taken in as"""
        self.taken = 0
        """how many there were, some of which may be gone"""

    def __reduce__(self) -> tuple[type[_Built], tuple[()]]:
        return _Built, ()


@dataclass(slots=True)
class Boxes:
    """Promises of any shape."""

    told: dict[Punctuation, None] = field(default_factory=dict)
    """a set, in order"""
    built: _Built = field(default_factory=_Built)

    def __len__(self) -> int:
        return len(self.told)

    def add(self, told: Punctuation, schema: Mapping[str, pl.DataType] | None) -> Punctuation | None:
        """Take one in; or give back what says it together with one of them, which is gone then."""
        if told in self.told:
            return None
        self._tidy()
        built = self._begun()
        rests = list(_rests(told))
        for rest in rests:
            other = built.by_rest.get(rest)
            both = None if other is None or other not in self.told else _joined(other, told, schema)
            if other is not None and both is not None:
                # it may stay in its tree: what is true does not become wrong
                del self.told[other]
                return both
        built.by_rest.update(dict.fromkeys(rests, told))
        assert built.pending is not None
        built.pending.append(told)
        self.told[told] = None
        heappush(built.ends, (told.before, built.taken, told))
        built.taken += 1
        return None

    def forget(self, told: Punctuation, schema: Mapping[str, pl.DataType]) -> None:
        """Drop those that a promise implies."""
        for box in self.meeting(told, schema):
            if told.implies(box):
                # it may stay in its tree, see above
                del self.told[box]
        self._tidy()

    def meeting(self, told: Punctuation, schema: Mapping[str, pl.DataType]) -> list[Punctuation]:
        """Those that another one meets, and perhaps some that it does not."""
        trees, others = self._build(schema)
        found = [boxes[at] for tree, boxes in trees for at in tree.meeting(told).tolist()]
        # some are gone, and stay in their tree
        return list(dict.fromkeys(box for box in (*found, *others) if box in self.told))

    def purge(self, cti: int) -> None:
        """Drop what a cti implies."""
        ends = self._begun().ends
        while ends and ends[0][0] <= cti:
            _, _, box = heappop(ends)
            # it may stay in its tree, see above
            self.told.pop(box, None)
        self._tidy()

    def _tidy(self) -> None:
        """Forget what is mostly of boxes that are gone."""
        built = self.built
        if 2 * len(self.told) < max(built.count, built.taken - 2 * _LEAST_PENDING):
            self.built = _Built()

    def _begun(self) -> _Built:
        built = self.built
        if built.pending is None:
            built.pending = list(self.told)
            for at, box in enumerate(self.told):
                built.by_rest.update(dict.fromkeys(_rests(box), box))
                built.ends.append((box.before, at, box))
            heapify(built.ends)
            built.taken = len(self.told)
        return built

    def frontier(self, frame: pl.DataFrame, reached: Times, schema: Mapping[str, pl.DataType]) -> bool:
        """Raise the time of each row; whether any was."""
        before = reached.copy()
        trees, others = self._build(schema)
        for tree, _ in trees:
            if tree.is_of(frame):
                tree.frontier(frame, reached)
        for box in others:
            if box.speaks_only_of(frame.columns):
                further = (box.since <= reached) & (box.before > reached)
                reached[further & box.matches_payload(frame)] = box.before
        return bool((before != reached).any())

    def forbids(self, sync: Times, frame: pl.DataFrame) -> Mask:
        """Which rows one of them speaks of, at their times."""
        found = np.zeros(frame.height, dtype=np.bool_)
        trees, others = self._build(frame.schema)
        for tree, _ in trees:
            found |= tree.within(frame, sync) >= 0
        for box in others:
            found |= box.matches_payload(frame) & _in_time(box, sync)
        return found

    def one_of_row(self, frame: pl.DataFrame, sync: Times) -> Punctuation | None:
        """One that speaks of the only row of a frame at a time."""
        trees, others = self._build(frame.schema)
        for tree, boxes in trees:
            at = int(tree.within(frame, sync)[0])
            if at >= 0:
                return boxes[at]
        for box in others:
            if box.matches_payload(frame)[0] and _in_time(box, sync)[0]:
                return box
        return None

    def _build(
        self, schema: Mapping[str, pl.DataType]
    ) -> tuple[list[tuple[_Tree, list[Punctuation]]], list[Punctuation]]:
        """Trees, and what is not in them yet."""
        built = self._begun()
        assert built.pending is not None
        if len(built.pending) > max(_LEAST_PENDING, built.count // 8):
            shapes: dict[tuple[tuple[str, bool], ...], list[Punctuation]] = {}
            for box in self.told:
                shape = tuple((name, isinstance(pattern, Range)) for name, pattern in box.columns)
                shapes.setdefault(shape, []).append(box)
            if all(name in schema for shape in shapes for name, _ in shape):
                built.trees = [(_Tree(boxes, schema), boxes) for boxes in shapes.values()]
                built.count, built.pending = len(self.told), []
        return built.trees, built.pending


def _rests(box: Punctuation) -> Iterable[Hashable]:
    """What a box says but for one of its columns, or for its times."""
    yield "", box.columns
    for at, (name, _) in enumerate(box.columns):
        yield name, box.before, box.since, box.columns[:at] + box.columns[at + 1 :]


def _in_time(box: Punctuation, sync: Times) -> Mask:
    found: Mask = ((sync < box.before) | (box.before == INF)) & (sync >= box.since)
    return found


def _joined(
    one: Punctuation, other: Punctuation, schema: Mapping[str, pl.DataType] | None
) -> Punctuation | None:
    """Two boxes as one: one implies the other, or they differ in one column only, or in time."""
    if one.implies(other):
        return one
    if other.implies(one):
        return other
    if one.columns == other.columns:
        touch = one.since <= other.before and other.since <= one.before
        if not touch:
            return None
        return Punctuation(max(one.before, other.before), min(one.since, other.since), one.columns)
    mine, theirs = dict(one.columns), dict(other.columns)
    if mine.keys() != theirs.keys() or (one.before, one.since) != (other.before, other.since):
        return None
    differ = [name for name in mine if mine[name] != theirs[name]]
    if len(differ) > 1:
        return None
    [name] = differ
    both = united(mine[name], theirs[name], None if schema is None else schema.get(name))
    if both is None or isinstance(both, OneOf):
        return None
    rest = {**mine, name: both} if not isinstance(both, Any_) else mine
    if isinstance(both, Any_):
        del rest[name]
    return Punctuation.of(one.before, one.since, rest)
