"""Embedding: what follows from knowledge about a stream, and which elements prove it wrong.

Each class follows one way of knowing (plan/knowledge.py). `judge` looks at rows in their order, and
says which break a promise that was embedded before them, and which promise; `learn` takes in the rows
that do not, and gives what may be promised now. What is promised is about payloads at all times, so an
element that continues one that was set aside has its payload, and is set aside for the same reason.

With `atomic` the rows of a batch have no common order, and none is judged by another of the batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from slackwater.events import Batch
from slackwater.identity import identity, row_ids
from slackwater.kernels import reports
from slackwater.patterns import Range, fitted
from slackwater.plan import knowledge
from slackwater.promises import Promises
from slackwater.punctuations import Closings, Promise, Punctuation
from slackwater.times import INF

__all__ = ["Embedding", "embedding"]

kernel: Any = reports
"""compiled functions, which mypy cannot follow"""

Mask = npt.NDArray[np.bool_]
Named = Callable[[int], Punctuation]
"""the promise that a row breaks"""

_PLACE = "\0place"


class Embedding(Protocol):
    """How promises follow from one way of knowing. State belongs to the caller."""

    def open(self) -> Any:
        """Nothing seen."""
        ...

    def judge(self, state: Any, rows: Batch) -> tuple[Mask, Named]:
        """Which rows break a promise, and which one each of them does."""
        ...

    def learn(self, state: Any, rows: Batch) -> tuple[Promise, ...]:
        """What these rows, which break nothing, allow to promise."""
        ...


def embedding(known: knowledge.Knowledge, schema: pl.Schema, *, atomic: bool) -> Embedding:
    """How promises follow from what is known."""
    match known:
        case knowledge.OrderedBy():
            return _OrderedBy(known.column, schema, atomic)
        case knowledge.Domain():
            return _Domain(tuple(known.outside(schema)))
        case knowledge.Unique():
            return _Unique(list(known.columns), schema)
        case knowledge.AllReported(once=True):
            return _ReportedOnce(known.group, known.members(schema), schema, atomic)
        case knowledge.AllReported():
            return _Reported(known.group, known.members(schema), schema, atomic)


def _ranked(values: pl.Series) -> pl.Series:
    """The values that have a place in their order; null for the others."""
    return values.fill_nan(None) if values.dtype.is_float() else values


def _below(column: str, value: Any, dtype: pl.DataType) -> Punctuation:
    return Punctuation(
        INF, columns=((column, fitted(Range(None, value, high_closed=False), column, dtype)),)
    )


@dataclass(slots=True)
class _Largest:
    """The largest value so far, in a column of its own; none if there was none."""

    value: pl.DataFrame


@dataclass(frozen=True, slots=True)
class _OrderedBy:
    """Nothing below the largest value so far."""

    column: str
    schema: pl.Schema
    atomic: bool

    def open(self) -> _Largest:
        return _Largest(pl.DataFrame(schema={self.column: self.schema[self.column]}))

    def judge(self, state: _Largest, rows: Batch) -> tuple[Mask, Named]:
        known = state.value[self.column]
        values = pl.concat([known, _ranked(rows.payload[self.column])])
        rank = values.rank("dense").fill_null(0).to_numpy().astype(np.int64)
        largest = np.maximum.accumulate(np.concatenate(([0], rank)))[:-1]
        if self.atomic:
            largest[:] = rank[0] if len(known) else 0
        broken = ((rank > 0) & (rank < largest))[len(known) :]

        def promise(row: int) -> Punctuation:
            at = int(np.flatnonzero(rank == largest[len(known) + row])[0])
            return _below(self.column, values[at], self.schema[self.column])

        return broken, promise

    def learn(self, state: _Largest, rows: Batch) -> tuple[Promise, ...]:
        values = pl.concat([state.value[self.column], _ranked(rows.payload[self.column])]).drop_nulls()
        if not len(values):
            return ()
        largest = values.sort().tail(1)
        if len(state.value) and identity(largest[0]) == identity(state.value[self.column][0]):
            return ()
        state.value = largest.to_frame()
        return (_below(self.column, largest[0], self.schema[self.column]),)


@dataclass(slots=True)
class _Told:
    told: bool = False


@dataclass(frozen=True, slots=True)
class _Domain:
    """Nothing outside, from the start on."""

    outside: tuple[Punctuation, ...]

    def open(self) -> _Told:
        return _Told()

    def judge(self, state: _Told, rows: Batch) -> tuple[Mask, Named]:
        matches = [promise.matches_payload(rows.payload) for promise in self.outside]
        broken = np.logical_or.reduce([np.zeros(rows.rows, dtype=np.bool_), *matches])

        def promise(row: int) -> Punctuation:
            return next(p for p, match in zip(self.outside, matches, strict=True) if match[row])

        return broken, promise

    def learn(self, state: _Told, rows: Batch) -> tuple[Promise, ...]:
        if state.told:
            return ()
        state.told = True
        return self.outside


@dataclass(slots=True)
class _Closed:
    """What was promised of values of some columns."""

    closed: Promises
    reported: pl.DataFrame = field(default_factory=pl.DataFrame)
    """who has reported what, of what is not complete"""


def _constants(rows: Batch, columns: list[str]) -> Named:
    def promise(row: int) -> Punctuation:
        [closing] = Closings(rows.payload.select(columns)[row : row + 1], np.array([INF]))
        return closing

    return promise


@dataclass(frozen=True, slots=True)
class _Unique:
    """No second element with the same values."""

    columns: list[str]
    schema: pl.Schema

    def open(self) -> _Closed:
        return _Closed(Promises.of(self.schema))

    def judge(self, state: _Closed, rows: Batch) -> tuple[Mask, Named]:
        keys = rows.payload.select(self.columns)
        broken = state.closed.frontier(keys) == INF
        broken |= row_ids(keys) != np.arange(rows.rows)
        return broken, _constants(rows, self.columns)

    def learn(self, state: _Closed, rows: Batch) -> tuple[Promise, ...]:
        if not rows.rows:
            return ()
        told = Closings(rows.payload.select(self.columns), np.full(rows.rows, INF))
        state.closed.add([told])
        return (told,)


@dataclass(frozen=True, slots=True)
class _ReportedOnce:
    """Nothing of a value of which every member has had a row."""

    group: str
    members: pl.Series
    schema: pl.Schema
    atomic: bool

    def open(self) -> _Closed:
        columns = {name: self.schema[name] for name in (self.group, self.members.name)}
        return _Closed(Promises.of(self.schema), pl.DataFrame(schema=columns))

    def judge(self, state: _Closed, rows: Batch) -> tuple[Mask, Named]:
        groups = rows.payload.select(self.group)
        broken = state.closed.frontier(groups) == INF
        if not self.atomic:
            complete = self._complete(self._reports(state, rows.where(~broken), np.flatnonzero(~broken)))
            at = groups.join(
                complete, on=self.group, how="left", nulls_equal=True, maintain_order="left"
            )[_PLACE]
            broken |= np.arange(rows.rows) > at.fill_null(rows.rows).to_numpy()
        return broken, _constants(rows, [self.group])

    def _reports(self, state: _Closed, rows: Batch, places: npt.NDArray[np.int64]) -> pl.DataFrame:
        """Who has reported what, and with which row first; -1 for what was known before."""
        columns = [self.group, self.members.name]
        inserts = rows.payload.select(columns).with_columns(pl.Series(_PLACE, places, dtype=pl.Int64))
        inserts = inserts.filter(rows.is_insert & self._is_member(inserts[self.members.name]))
        # by name, for there may be others when a query is started again
        before = state.reported.filter(self._is_member(state.reported[self.members.name]))
        before = before.with_columns(pl.lit(-1, dtype=pl.Int64).alias(_PLACE))
        return (
            pl.concat([before, inserts]).group_by(columns, maintain_order=True).agg(pl.col(_PLACE).min())
        )

    def _is_member(self, values: pl.Series) -> Mask:
        return values.is_in(self.members.implode(), nulls_equal=True).to_numpy()

    def _complete(self, reports: pl.DataFrame) -> pl.DataFrame:
        """The values that all have reported, and the row after which that is so."""
        of_each = reports.group_by(self.group, maintain_order=True)
        counted = of_each.agg(pl.len().alias("\0members"), pl.col(_PLACE).max())
        return counted.filter(pl.col("\0members") == len(self.members)).drop("\0members")

    def learn(self, state: _Closed, rows: Batch) -> tuple[Promise, ...]:
        reports = self._reports(state, rows, np.arange(rows.rows))
        complete = self._complete(reports).select(self.group)
        columns = [self.group, self.members.name]
        state.reported = reports.select(columns)
        if not len(complete):
            return ()
        state.reported = state.reported.join(complete, on=self.group, how="anti", nulls_equal=True)
        told = Closings(complete, np.full(len(complete), INF))
        state.closed.add([told])
        return (told,)


@dataclass(slots=True)
class _LargestOfEach:
    """The largest value of each member; null, or no row, if there was none."""

    values: pl.DataFrame


@dataclass(frozen=True, slots=True)
class _Reported:
    """Nothing below the value that every member has come to."""

    group: str
    members: pl.Series
    schema: pl.Schema
    atomic: bool

    def open(self) -> _LargestOfEach:
        columns = {name: self.schema[name] for name in (self.members.name, self.group)}
        return _LargestOfEach(pl.DataFrame(schema=columns))

    def judge(self, state: _LargestOfEach, rows: Batch) -> tuple[Mask, Named]:
        values, rank, member = self._ranks(state, rows)
        start, of_rows = rank[: len(self.members)], rank[len(self.members) :]
        limits = kernel.slowest(start.copy(), member, of_rows)
        if self.atomic:
            limits[:] = start.min()
        broken: Mask = (of_rows > 0) & (of_rows < limits)

        def promise(row: int) -> Punctuation:
            at = int(np.flatnonzero(rank == limits[row])[0])
            return _below(self.group, values[at], self.schema[self.group])

        return broken, promise

    def _ranks(
        self, state: _LargestOfEach, rows: Batch
    ) -> tuple[pl.Series, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The values of members and rows, their ranks (0: none), and which member each row is of."""
        # by name, for there may be others when a query is started again
        member = self.members.name
        known = self.members.to_frame().join(
            state.values, on=member, how="left", nulls_equal=True, maintain_order="left"
        )
        values = pl.concat([known[self.group], _ranked(rows.payload[self.group])])
        rank = values.rank("dense").fill_null(0).to_numpy().astype(np.int64)
        # the first row that is the same one: that of the member, since all of them differ
        both = pl.concat([self.members, rows.payload[member]]).to_frame()
        which = row_ids(both)[len(self.members) :].copy()
        which[(which >= len(self.members)) | ~rows.is_insert] = -1
        return values, rank, which

    def learn(self, state: _LargestOfEach, rows: Batch) -> tuple[Promise, ...]:
        values, rank, member = self._ranks(state, rows)
        before = rank[: len(self.members)]
        largest = before.copy()
        kernel.slowest(largest, member, rank[len(self.members) :])
        # a value of each rank; rank 0 is null
        first = np.zeros(int(rank.max()) + 1, dtype=np.int64)
        first[rank[::-1]] = np.arange(len(rank))[::-1]
        places = pl.Series(first[largest]).set(pl.Series(largest == 0), None)
        state.values = pl.DataFrame([self.members, values.gather(places).alias(self.group)])
        least = int(largest.min())
        if least == 0 or least == before.min():
            return ()
        return (_below(self.group, values[int(first[least])], self.schema[self.group]),)
