"""Held: aggregations that need the events of a group, not only their sums.

Every event carries labels: numbers that stand for the values which these aggregations read. Records lead
through a group's timeline as moves (copies that come and go) and reads, see kernels/records.py:

- min, max, top_k, percentile, count_distinct, first and last keep the group at the cursor as a sorted
  list (kernels/sorted_lists.py), one for each order that is asked for, and read its ends or its middle;
- product, fold and group_function keep a Python value that is changed with every move (folds.py).

So a change costs what lies between the cursor and the end of the stretch that it touches, and never a
look at all of the group; a group_function, which asks for all of it, is the exception.

First and last are in order of start, and of value among those that start together (null before all
values). So they do not depend on where an event ends, which may still move when its start is frozen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from slackwater.columns import column_of, framed, nulls_in, true_in
from slackwater.errors import OperatorError, PlanError
from slackwater.kernels import precise
from slackwater.kernels import records as kernels
from slackwater.kernels.endpoints import TIME
from slackwater.kernels.grouping import Keys
from slackwater.kernels.labels import Labels
from slackwater.kernels.sorted_lists import (
    Between,
    Distinct,
    Highest,
    Lowest,
    Read,
    Script,
    SortedLists,
)
from slackwater.operators.folds import Fold, NoResult, fold_of
from slackwater.plan import aggregations as agg
from slackwater.plan.evaluation import Formula
from slackwater.plan.expressions import type_of
from slackwater.plan.rewrites import in_user_terms
from slackwater.records import Records, rows_of
from slackwater.state import sweep_after
from slackwater.timelines import Timelines, Touched
from slackwater.times import show

__all__ = ["Held", "State"]

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]

_NO_ORDER = np.empty(0, dtype=np.int64)
# the first label of every event: a bit for each order and fold that it belongs to
_MASK = 0
_MOST = 63
_LARGE = 1e280
"""beyond it, products of floats may overflow on the way"""


class _Cache:
    """What can be computed again: it is not written down with the state."""

    def __init__(self) -> None:
        self.groups: dict[int, Any] | None = None

    def __reduce__(self) -> tuple[type[_Cache], tuple[()]]:
        return _Cache, ()


@dataclass(slots=True)
class State:
    """Records, and the groups at their cursors; what labels and results stand for."""

    records: Records
    labels: list[Labels | Keys | None]
    """of each label: what it stands for; None: itself"""
    lists: list[SortedLists]
    """of each order, then of each fold"""
    results: list[Keys]
    caches: list[_Cache]
    """of each fold"""
    sweep_at: int = field(default_factory=lambda: sweep_after(0))
    """so many values, of labels and of results, are worth looking for those that nobody uses"""


@dataclass
class _Label:
    """One label of an event."""

    formulas: list[Formula]
    make: Callable[[], Labels | Keys | None]
    of_a_fold: bool = False
    """it numbers all values, null too, and knows no order"""


@dataclass
class _Order:
    """One sorted list per group: who belongs to it, by which labels it is sorted, what is read of it."""

    a: int
    b: int | None
    reads: list[Read] = field(default_factory=list)

    def read(self, read: Read) -> int:
        """Ask for something; at which of the order's own result columns it will be."""
        at = self.width
        self.reads.append(read)
        return at

    @property
    def width(self) -> int:
        """How many result columns there are."""
        return sum(read.width for read in self.reads)


@dataclass
class _Member:
    """Which events belong to an order or a fold: those that pass, with or without nulls."""

    passes: Formula | None
    formulas: list[Formula]
    nulls: bool | None
    """True: only nulls; False: no nulls; None: all"""


class Held:
    """Several such aggregations over one input."""

    def __init__(
        self, aggregations: Mapping[str, agg.Aggregation], schema: pl.Schema, result: pl.Schema
    ) -> None:
        self._schema = schema
        self._labels: list[_Label] = [_Label([], lambda: None)]
        self._orders: list[_Order] = []
        self._folds: list[Fold] = []
        self._members: list[_Member] = []
        self._columns: dict[str, Callable[[State, Ints], pl.Series]] = {}
        order_members: list[_Member] = []
        fold_members: list[_Member] = []
        for name, aggregation in aggregations.items():
            who = f"aggregate {name}"
            formulas = [Formula(value, schema, who) for value in aggregation.values]
            passes = None if aggregation.where is None else Formula(aggregation.where, schema, who)
            if isinstance(aggregation, agg.Product | agg.Fold | agg.GroupFunction):
                only_values = not isinstance(aggregation, agg.GroupFunction)
                fold_members.append(_Member(passes, formulas, False if only_values else None))
                self._columns[name] = self._fold(name, aggregation, formulas, result[name])
            else:
                self._columns[name] = self._read(
                    aggregation, _Member(passes, formulas, nulls=False), result[name], order_members
                )
        self._members = order_members + fold_members
        if len(self._members) > _MOST:
            raise PlanError(
                f"aggregate: too many results that are not sums, {len(self._members)}",
                detail=f"one operator computes {_MOST} at most; first and last count twice",
                hint="split them over two aggregates and join these on the keys",
            )
        offset = 0
        self._offsets = []
        for order in self._orders:
            self._offsets.append(offset)
            offset += order.width
        self._fold_offset = offset
        self.width = offset + len(self._folds)
        self.labels = len(self._labels) if aggregations else 0

    # what each aggregation asks for

    def _label(self, formulas: list[Formula], make: Callable[[], Labels | Keys | None]) -> int:
        for i, label in enumerate(self._labels):
            if i > 0 and not label.of_a_fold and _same_all(label.formulas, formulas):
                return i
        self._labels.append(_Label(formulas, make))
        return len(self._labels) - 1

    def _order(self, member: _Member, a: int, b: int | None, members: list[_Member]) -> int:
        for i, (order, other) in enumerate(zip(self._orders, members, strict=True)):
            same = _same_all(other.formulas, member.formulas) and other.nulls == member.nulls
            if (order.a, order.b) == (a, b) and same and _same(other.passes, member.passes):
                return i
        self._orders.append(_Order(a, b))
        members.append(member)
        return len(self._orders) - 1

    def _read(
        self,
        aggregation: agg.Aggregation,
        member: _Member,
        result: pl.DataType,
        members: list[_Member],
    ) -> Callable[[State, Ints], pl.Series]:
        """Register the reads of an aggregation; how its result follows from them."""
        [formula] = member.formulas
        dtype = _type(formula)
        own = self._label(member.formulas, lambda: Labels(dtype))
        if isinstance(aggregation, agg.First | agg.Last):
            return self._first_or_last(aggregation, member, own, members)
        which = self._order(member, own, None, members)
        order = self._orders[which]
        if isinstance(aggregation, agg.CountDistinct):
            at = order.read(Distinct())
            return lambda _, results: column_of("", results[:, self._offsets[which] + at])
        if isinstance(aggregation, agg.Percentile):
            part = Fraction(str(aggregation.fraction))
            at = order.read(Between(part.numerator, part.denominator))
            return lambda state, results: _percentile(
                _labels_of(state, own), part, results[:, self._offsets[which] + at :][:, :3]
            )
        k = aggregation.k if isinstance(aggregation, agg.TopK) else 1
        at = order.read(Lowest(k) if isinstance(aggregation, agg.Min) else Highest(k))

        def decoded(state: State, results: Ints) -> pl.Series:
            columns = results[:, self._offsets[which] + at :][:, : 1 + k]
            if isinstance(aggregation, agg.TopK):
                return _lists(_labels_of(state, own), columns, result)
            return _values(_labels_of(state, own), columns[:, 0] > 0, columns[:, 1])

        return decoded

    def _first_or_last(
        self, aggregation: agg.Aggregation, member: _Member, own: int, members: list[_Member]
    ) -> Callable[[State, Ints], pl.Series]:
        start = self._label([], lambda: None)
        only_nulls = _Member(member.passes, member.formulas, nulls=True)
        values = self._order(member, start, own, members)
        nulls = self._order(only_nulls, start, None, members)
        is_first = isinstance(aggregation, agg.First)
        end = Lowest if is_first else Highest
        at = self._orders[values].read(end(1, "a"))
        self._orders[values].read(end(1, "b"))
        at_null = self._orders[nulls].read(end(1, "a"))

        def decoded(state: State, results: Ints) -> pl.Series:
            found, when, _, label = results[:, self._offsets[values] + at :][:, :4].T
            null_found, null_when = results[:, self._offsets[nulls] + at_null :][:, :2].T
            earlier = (null_when <= when) if is_first else (null_when > when)
            is_null = (found == 0) | ((null_found > 0) & earlier)
            return _values(_labels_of(state, own), ~is_null, label)

        return decoded

    def _fold(
        self, name: str, aggregation: agg.Aggregation, formulas: list[Formula], dtype: pl.DataType
    ) -> Callable[[State, Ints], pl.Series]:
        columns = {str(i): _type(formula) for i, formula in enumerate(formulas)}
        # labels of the same values, but of another kind than those of orders
        own = len(self._labels)
        self._labels.append(_Label(formulas, lambda: Keys(pl.Schema(columns)), of_a_fold=True))
        start = None
        if isinstance(aggregation, agg.GroupFunction):
            start = self._label([], lambda: None)
        i = len(self._folds)
        self._folds.append(fold_of(name, aggregation, dtype, own, start))
        return lambda state, results: (
            state.results[i].take(np.ascontiguousarray(results[:, self._fold_offset + i])).to_series()
        )

    # at work

    def open(self) -> State:
        """No events."""
        return State(
            Records(self.labels),
            [label.make() for label in self._labels],
            [SortedLists() for _ in range(len(self._orders) + len(self._folds))],
            [Keys(fold.schema) for fold in self._folds],
            [_Cache() for _ in self._folds],
        )

    def evaluated(self, payload: pl.DataFrame) -> Evaluated:
        """What is read of each row."""
        found: list[tuple[Formula, pl.Series]] = []

        def values(formula: Formula) -> pl.Series:
            for other, series in found:
                if _same(other, formula):
                    return series
            series = formula.values(payload)
            found.append((formula, series))
            return series

        return Evaluated(
            [[values(formula) for formula in label.formulas] for label in self._labels],
            [_belongs(member, values, payload.height) for member in self._members],
        )

    def labels_of(self, state: State, rows: Evaluated, vs: Ints) -> Ints:
        """The labels of each row."""
        labels = np.zeros((len(vs), self.labels), dtype=np.int64)
        for i, member in enumerate(rows.members):
            labels[:, _MASK] |= member.astype(np.int64) << i
        for i, (series, known) in enumerate(zip(rows.values, state.labels, strict=True)):
            if i == _MASK:
                continue
            if known is None:
                labels[:, i] = vs
            elif isinstance(known, Keys):
                columns = [column.alias(str(c)) for c, column in enumerate(series)]
                labels[:, i] = known.number(framed(columns, len(vs)))
            else:
                [column] = series
                if column.null_count():
                    present = column.is_not_null()
                    labels[present.to_numpy(), i] = known.encode(column.filter(present))
                else:
                    labels[:, i] = known.encode(column)
        return labels

    def fill(self, state: State, timelines: Timelines, what: Touched, keys: Keys) -> None:
        """Compute the results of the entries that were touched."""
        moves = state.records.follow(timelines, what)
        self._run(state, moves, keys, timelines.entries)

    def _run(self, state: State, moves: Ints, keys: Keys, entries: Ints) -> None:
        """Lead the lists and folds through the moves; what is read goes to the entries."""
        results = entries.shape[1] - self.width
        for i, order in enumerate(self._orders):
            lists = state.lists[i]
            lists.admit(len(keys))
            lists.run(
                self._script(moves, i, order.a, order.b),
                tuple(order.reads),
                (_ranks(state, order.a), _ranks(state, order.b)),
                entries,
                results + self._offsets[i],
            )
        for j, fold in enumerate(self._folds):
            script = self._script(moves, len(self._orders) + j, fold.own, fold.start)
            state.lists[len(self._orders) + j].admit(len(keys))
            try:
                self._run_fold(state, j, script, entries, results + self._fold_offset + j)
            except NoResult as problem:
                where = _where(problem, keys, entries)
                detail = "; ".join([problem.detail, *where])
                raise OperatorError(problem.fact, detail=detail, hint=problem.hint) from problem

    @staticmethod
    def _script(moves: Ints, member: int, a: int, b: int | None) -> Script:
        return Script(moves, kernels.S_LABELS + a, None if b is None else kernels.S_LABELS + b, member)

    def _run_fold(self, state: State, j: int, script: Script, entries: Ints, column: int) -> None:
        fold, lists = self._folds[j], state.lists[len(self._orders) + j]
        known, cache = state.labels[fold.own], state.caches[j]
        assert isinstance(known, Keys)
        if cache.groups is None:
            cache.groups = {}
            key, row, start, count = lists.items()
            moves = np.stack([key, count, np.ones_like(key), row, start], axis=1)
            fold.run(cache.groups, Script(moves, 3, 4), known)
        # only to remember who is there: it asks for nothing
        lists.run(script, (), (_NO_ORDER, _NO_ORDER), entries)
        results = fold.run(cache.groups, script, known)
        reads = script.moves[script.moves[:, kernels.S_COUNT] == 0]
        entries[reads[:, kernels.S_LABELS], column] = fold.numbered(results, reads, state.results[j])

    def results(self, state: State, results: Ints) -> dict[str, pl.Series]:
        """The value of each aggregation, for each row of results."""
        return {name: column(state, results).alias(name) for name, column in self._columns.items()}

    # forgetting

    def rows(self, state: State) -> int:
        """How many records, and how many live events, are remembered."""
        return state.records.size + sum(lists.rows() for lists in state.lists)

    def forget(self, state: State, timelines: Timelines, cti: int, keys: Keys) -> None:
        """Drop the records that the cti has frozen."""
        self._run(state, state.records.forget(cti), keys, timelines.entries)

    def close(self, state: State, timelines: Timelines, key: Ints, until: Ints, keys: Keys) -> None:
        """Drop the records that are frozen of some keys; of one that is closed for ever, all.

        The moves past its last record leave its lists empty.
        """
        state.records.admit(len(timelines.slabs))
        self._run(state, state.records.close(key, until), keys, timelines.entries)

    def is_loose(self, state: State) -> bool:
        """Whether there are so many values that it is worth looking for those that nobody uses."""
        return self._values(state) >= state.sweep_at

    def _values(self, state: State) -> int:
        numbered = [known for known in state.labels if known is not None]
        return sum(map(len, numbered)) + sum(map(len, state.results))

    def renumber(self, state: State, timelines: Timelines, alive: Mask) -> None:
        """Keys have new numbers, in the timelines already; labels that nobody uses are forgotten."""
        every = np.zeros(len(state.records.slabs), dtype=np.bool_)
        every[: len(alive)] = alive
        state.records.renumber(every)
        used = _Used(self, state, timelines)
        numbers = [used.renumbered(i) for i in range(len(self._labels))]
        for i, lists in enumerate(state.lists):
            spec: _Order | Fold
            if i < len(self._orders):
                spec = self._orders[i]
                a, b = spec.a, spec.b
            else:
                spec = self._folds[i - len(self._orders)]
                a, b = spec.own, spec.start
            every = np.zeros(len(lists.roots), dtype=np.bool_)
            every[: len(alive)] = alive[: len(every)]
            lists.renumber(every, numbers[a], None if b is None else numbers[b])
        old_keys = np.flatnonzero(alive)
        for j, (known, cache) in enumerate(zip(state.results, state.caches, strict=True)):
            used.forget_results(known, self._fold_offset + j)
            if cache.groups is not None:
                groups = cache.groups
                cache.groups = {
                    new: groups[old] for new, old in enumerate(old_keys.tolist()) if old in groups
                }
        state.sweep_at = sweep_after(self._values(state))

    @property
    def is_exact(self) -> bool:
        """Whether results are the same only where their columns are."""
        return not any(isinstance(read, Between) for order in self._orders for read in order.reads)

    def label_columns(self, label: int) -> list[int]:
        """The result columns that hold such labels."""
        columns: list[int] = []
        for order, at in zip(self._orders, self._offsets, strict=True):
            column = at
            for read in order.reads:
                if isinstance(read, Lowest):
                    of = order.a if read.of == "a" else order.b
                    columns += range(column + 1, column + read.width) if of == label else ()
                elif isinstance(read, Between) and order.a == label:
                    columns += [column + 1, column + 2]
                column += read.width
        return columns


@dataclass(frozen=True)
class Evaluated:
    """The values that labels are made of, and which rows belong to which order or fold."""

    values: list[list[pl.Series]]
    members: list[Mask]


class _Used:
    """Where labels are in use, so that the others can be forgotten."""

    def __init__(self, held: Held, state: State, timelines: Timelines) -> None:
        self._held, self._state, self._timelines = held, state, timelines
        self._records = state.records.in_use()
        self._entries = rows_of(timelines.slabs)
        self._waiting = timelines.pending.used()
        self._first = timelines.entries.shape[1] - held.width

    def renumbered(self, label: int) -> Ints | None:
        """Forget the values of a label that nobody uses; the new numbers, if they changed."""
        known = self._state.labels[label]
        if known is None or (isinstance(known, Labels) and not known.is_numbered):
            return None
        alive = np.zeros(len(known), dtype=np.bool_)
        if not len(alive):
            return None
        columns = [self._first + c for c in self._held.label_columns(label)]
        pool, entries = self._state.records.pool, self._timelines.entries
        alive[pool[self._records, 2 + label]] = True
        pending, waiting = self._timelines.pending.pool, self._waiting
        alive[pending[waiting, 3 + label]] = True
        for column in columns:
            alive[entries[self._entries, column]] = True
        for items in self._items(label):
            alive[items] = True
        numbers = known.keep(alive)
        pool[self._records, 2 + label] = numbers[pool[self._records, 2 + label]]
        pending[waiting, 3 + label] = numbers[pending[waiting, 3 + label]]
        for column in columns:
            entries[self._entries, column] = numbers[entries[self._entries, column]]
        return numbers

    def _items(self, label: int) -> list[Ints]:
        items = []
        held, state = self._held, self._state
        specs = [(o.a, o.b) for o in held._orders] + [(f.own, f.start) for f in held._folds]
        for (a, b), lists in zip(specs, state.lists, strict=True):
            if label in (a, b):
                _, of_a, of_b, _ = lists.items()
                items.append(of_a if label == a else of_b)
        return items

    def forget_results(self, known: Keys, column: int) -> None:
        """Forget the results of a fold that no entry has."""
        if not len(known):
            return
        entries, at = self._timelines.entries, self._first + column
        alive = np.zeros(len(known), dtype=np.bool_)
        alive[entries[self._entries, at]] = True
        entries[self._entries, at] = known.keep(alive)[entries[self._entries, at]]


def _type(formula: Formula) -> pl.DataType:
    return type_of(formula.expression, formula.schema, formula.who)


def _same(one: Formula | None, other: Formula | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.expression.meta.eq(other.expression)


def _same_all(some: Sequence[Formula], others: Sequence[Formula]) -> bool:
    return len(some) == len(others) and all(map(_same, some, others))


def _belongs(member: _Member, values: Callable[[Formula], pl.Series], rows: int) -> Mask:
    belongs = np.ones(rows, dtype=np.bool_)
    if member.passes is not None:
        belongs &= true_in(values(member.passes))
    if member.nulls is not None:
        [formula] = member.formulas
        column = values(formula)
        if column.null_count():
            is_null = nulls_in(column)
            belongs &= is_null if member.nulls else ~is_null
        elif member.nulls:
            belongs[:] = False
    return belongs


def _labels_of(state: State, label: int) -> Labels:
    known = state.labels[label]
    assert isinstance(known, Labels)
    return known


def _where(problem: NoResult, keys: Keys, entries: Ints) -> list[str]:
    """Which group has no result, in the user's terms, and when."""
    where = []
    if keys.schema:
        [group] = in_user_terms(keys.take(np.array([problem.key]))).to_dicts()
        where.append(f"group {group}")
    if problem.entry is not None:
        where.append(f"from {show(int(entries[problem.entry, TIME]))} on")
    return [", ".join(where)] if where else []


def _ranks(state: State, label: int | None) -> Ints:
    known = None if label is None else state.labels[label]
    return known.order if isinstance(known, Labels) else _NO_ORDER


# results of reads


def _values(labels: Labels, present: Mask, label: Ints) -> pl.Series:
    """The values of the labels that are there, null for the others."""
    if present.all():
        return labels.decode(np.ascontiguousarray(label))
    nothing = pl.Series([None], dtype=labels.dtype)
    decoded = labels.decode(label[present]) if present.any() else nothing.head(0)
    at = np.where(present, np.cumsum(present) - 1, len(decoded))
    return pl.concat([decoded.alias(""), nothing]).gather(at)


def _lists(labels: Labels, columns: Ints, dtype: pl.DataType) -> pl.Series:
    """A list per row: its length, then labels."""
    length = columns[:, 0]
    row, column = np.nonzero(np.arange(columns.shape[1] - 1) < length[:, None])
    if not len(row):
        return pl.Series([None] * len(columns), dtype=dtype)
    values = labels.decode(columns[row, column + 1]).alias("")
    if values.dtype in (pl.Int128, pl.UInt128):
        return _gathered(values, row, length, dtype)
    offsets = np.concatenate([[0], np.cumsum(length)])
    lists = pa.LargeListArray.from_arrays(offsets, values.to_arrow(), mask=pa.array(length == 0))
    series = pl.Series(lists)
    return series if series.dtype == dtype else series.cast(dtype)


def _gathered(values: pl.Series, row: Ints, length: Ints, dtype: pl.DataType) -> pl.Series:
    """The same, of values that Arrow does not know."""
    frame = pl.DataFrame({"row": row, "value": values})
    lists = frame.group_by("row", maintain_order=True).agg("value").get_column("value")
    at = np.where(length > 0, np.cumsum(length > 0) - 1, len(lists))
    return pl.concat([lists, pl.Series("value", [None], dtype)]).gather(at)


def _percentile(labels: Labels, part: Fraction, columns: Ints) -> pl.Series:
    """Between the two nearest values, linear; computed in twice the precision and rounded once."""
    total, low, high = columns.T
    some = total > 0
    if not some.any():
        return pl.Series([None] * len(total), dtype=pl.Float64)
    ends = [labels.decode(np.ascontiguousarray(side[some])) for side in (low, high)]
    # how far it is from one to the other, in parts of the denominator
    over = _steps_over(part, total[some])
    value = _exactly_between(ends, over, part) if labels.is_numbered else _between(ends, over, part)
    if some.all():
        return column_of("", value)
    at = np.where(some, np.cumsum(some) - 1, len(value))
    return pl.concat([column_of("", value), pl.Series([None], dtype=pl.Float64)]).gather(at)


def _exactly_between(ends: list[pl.Series], over: Ints, part: Fraction) -> Floats:
    """Of numbers that are wider than twice a float's precision."""
    shares = (Fraction(steps, part.denominator) for steps in over.tolist())
    rows = zip(*(map(Fraction, end.to_list()) for end in ends), shares, strict=True)
    return np.array([float(low + (high - low) * share) for low, high, share in rows])


def _between(ends: list[pl.Series], over: Ints, part: Fraction) -> Floats:
    below, above = map(_pair, ends)
    size = np.maximum(np.abs(below[0]), np.abs(above[0]))
    is_safe = (size < _LARGE) & ((size > 1 / _LARGE) | (size == 0)) & (part.denominator < 2**53)
    is_exact = over == 0
    value = np.where(is_exact, below[0], 0.0)
    some_way = is_safe & ~is_exact
    if some_way.any():
        precise.between(below, above, over, float(part.denominator), some_way, value)
    for i in np.flatnonzero(~is_safe & ~is_exact):
        value[i] = _one_between(below, above, Fraction(int(over[i]), part.denominator), int(i))
    return value


def _steps_over(part: Fraction, total: Ints) -> Ints:
    """What is left of (total - 1) * part after whole steps, times its denominator."""
    numerator, denominator = part.numerator, part.denominator
    if numerator * int(total.max()) < 2**63:
        over: Ints = numerator * (total - 1) % denominator
        return over
    return np.array([numerator * (n - 1) % denominator for n in total.tolist()], dtype=np.int64)


def _one_between(below: precise.Pair, above: precise.Pair, share: Fraction, i: int) -> float:
    """The same for one row, where floats are too short or not finite."""
    low, high = float(below[0][i]), float(above[0][i])
    if not (math.isfinite(low) and math.isfinite(high)):
        return low * float(1 - share) + high * float(share)
    exact_low, exact_high = (Fraction(float(p[0][i])) + Fraction(float(p[1][i])) for p in (below, above))
    return float(exact_low * (1 - share) + exact_high * share)


def _pair(values: pl.Series) -> precise.Pair:
    """Numbers without rounding, as far as twice a float's precision goes."""
    if values.dtype.is_integer() and values.dtype != pl.UInt64:
        pair: precise.Pair = precise.from_ints(values.cast(pl.Int64).to_numpy())
        return pair
    if values.dtype.is_float():
        floats = values.cast(pl.Float64).to_numpy()
        return floats, np.zeros_like(floats)
    exact = [Fraction(value) for value in values.to_list()]
    high = [float(value) for value in exact]
    low = [float(value - Fraction(h)) for value, h in zip(exact, high, strict=True)]
    return np.array(high), np.array(low)
