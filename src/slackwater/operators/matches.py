"""Matches: what a pattern takes from every row of some stretches on, all of them at once.

A *run* is a row where a match may begin, and how far it has come: how many rows it took, until when they
all live, and what the references add up to (registers). A part of the pattern is asked of many runs and
answers with those that it matches, and where these are then; so that conditions are evaluated over
columns, and a part costs as many evaluations as the longest run of it has rows.

It is the definition (oracle.py), column-wise. Only that every row begins a run: which of the matches
there are in the end, if they may not overlap, is decided afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from slackwater.columns import column_of, framed, nulls_in, some_columns, taken, true_in
from slackwater.errors import OperatorError
from slackwater.plan import nodes
from slackwater.plan.evaluation import Formula, NoValue
from slackwater.plan.matching import Choice, Pattern, Reference, Repeat, Symbol, references_in
from slackwater.plan.matching import Sequence as InOrder
from slackwater.plan.properties import infer
from slackwater.times import BEGIN, INF

__all__ = ["Found", "Matcher", "Rows"]

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Array = npt.NDArray[Any]

_START, _AT, _UNTIL, _REGISTERS = range(4)


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of some stretches, one behind the other, each in order."""

    vs: Ints
    ve: Ints
    payload: pl.DataFrame
    stop: Ints
    """of each row: where its stretch ends"""
    bound: Ints
    """of each row: when the first row behind its stretch begins; INF if there is none"""


class Found(NamedTuple):
    """What is found from each row on."""

    end: Ints
    """what follows the last row of the match; -1 if there is none"""
    until: Ints
    """until when its rows all live"""
    reach: Ints
    """the last time that was looked at"""
    is_cut: Mask
    """whether a row behind the stretch would have been needed"""
    registers: list[Array]


@dataclass(frozen=True)
class Matcher:
    """A pattern, ready to be looked for."""

    node: nodes.Match
    conditions: dict[str, tuple[Formula, list[str], list[Reference]]] = field(init=False)
    """of a symbol: what is evaluated, over which columns, and what it speaks of"""
    measures: dict[str, tuple[Formula, list[Reference]]] = field(init=False)
    registers: dict[tuple[str, Reference], tuple[int, np.dtype[Any]]] = field(init=False)
    """of what a reference needs: which register it is, and of what type"""
    never_lengthens: bool = field(init=False)
    """whether no row gets a later end than it had"""

    def __post_init__(self) -> None:
        node, schema = self.node, self.node.test_schema
        conditions = {}
        for symbol, expression in node.where.items():
            formula = Formula(expression, schema, f"match where {symbol}")
            references = list(references_in(expression).values())
            conditions[symbol] = formula, list(node.input.schema), references
        measures = {
            name: (Formula(e, schema, f"match {name}"), list(references_in(e).values()))
            for name, e in node.measures.items()
        }
        registers: dict[tuple[str, Reference], tuple[int, np.dtype[Any]]] = {}
        for reference in node.references.values():
            for what in _needs(reference):
                is_float = what == "sum" and node.input.schema[reference.column or ""].is_float()
                dtype = np.dtype(np.float64 if is_float else np.int64)
                registers[what, reference] = len(registers), dtype
        object.__setattr__(self, "conditions", conditions)
        object.__setattr__(self, "measures", measures)
        object.__setattr__(self, "registers", registers)
        never_lengthens = infer(node.input)[node.input].never_lengthens
        object.__setattr__(self, "never_lengthens", never_lengthens)

    def find(self, rows: Rows) -> Found:
        """What is found from every row on."""
        count = len(rows.vs)
        work = _Work(self, rows)
        begin = np.arange(count)
        registers = [
            np.full(count, -1 if what == "row" else 0, dtype=dtype)
            for (what, _), (_, dtype) in self.registers.items()
        ]
        runs = [begin, begin.copy(), np.full(count, INF), *registers]
        hit, there = work.follow(self.node.pattern, runs)
        # what has taken no row is no match
        some = there[_AT] > there[_START]
        hit, there = hit[some], _of(there, some)
        end, until = np.full(count, -1), np.full(count, BEGIN)
        end[hit], until[hit] = there[_AT], there[_UNTIL]
        _put(runs, hit, there)
        return Found(end, until, work.reach, work.is_cut, runs[_REGISTERS:])

    def measured(self, rows: Rows, found: Found, starts: Ints) -> pl.DataFrame:
        """Keys and measures of the matches that begin there."""
        end = found.end[starts]
        runs = [starts, end, found.until[starts], *(each[starts] for each in found.registers)]
        work = _Work(self, rows)
        columns = taken(some_columns(rows.payload, self.node.keys), starts).get_columns()
        for name, (formula, references) in self.measures.items():
            said = [work.said(reference, runs, end) for reference in references]
            values = _values(formula, framed(said, len(starts)))
            columns.append(values.alias(name))
        return framed(columns, len(starts))


class _Work:
    """The rows that are looked at, and how far runs have looked."""

    def __init__(self, matcher: Matcher, rows: Rows) -> None:
        self.matcher = matcher
        self.rows = rows
        self.reach = np.full(len(rows.vs), BEGIN)
        self.is_cut = np.zeros(len(rows.vs), dtype=np.bool_)
        self._ranks: dict[str, Ints] = {}
        self._numbers: dict[str, tuple[Array, Mask]] = {}

    def follow(self, part: Pattern, runs: list[Array]) -> tuple[Ints, list[Array]]:
        """Which of the runs the part matches, and how far these have then come."""
        match part:
            case Symbol(name):
                return self._one_row(name, runs)
            case InOrder(parts):
                left = np.arange(len(runs[_AT]))
                for each in parts:
                    hit, runs = self.follow(each, runs)
                    left = left[hit]
                return left, runs
            case Choice(ways):
                return self._first_way(ways, runs)
            case Repeat():
                return self._again(part, runs)

    def _first_way(self, ways: Sequence[Pattern], runs: list[Array]) -> tuple[Ints, list[Array]]:
        there = [column.copy() for column in runs]
        matches = np.zeros(len(runs[_AT]), dtype=np.bool_)
        for way in ways:
            left = np.flatnonzero(~matches)
            if len(left):
                hit, further = self.follow(way, _of(runs, left))
                _put(there, left[hit], further)
                matches[left[hit]] = True
        found = np.flatnonzero(matches)
        return found, _of(there, found)

    def _again(self, part: Repeat, runs: list[Array]) -> tuple[Ints, list[Array]]:
        there = [column.copy() for column in runs]
        matches = np.full(len(runs[_AT]), part.least == 0)
        going = np.arange(len(runs[_AT]))
        while len(going):
            hit, further = self.follow(part.part, _of(there, going))
            going = going[hit]
            _put(there, going, further)
            matches[going] = True
            if part.once:
                break
        found = np.flatnonzero(matches)
        return found, _of(there, found)

    def _one_row(self, symbol: str, runs: list[Array]) -> tuple[Ints, list[Array]]:
        """The next row, if there is one, lives with those that were taken, and is as it should be."""
        rows, start, at, until = self.rows, runs[_START], runs[_AT], runs[_UNTIL]
        is_there = at < rows.stop[start]
        next_vs = rows.bound[start]
        next_vs[is_there] = rows.vs[at[is_there]]
        # what starts when they end is not taken, unless one of them is lengthened then
        shared = np.where(until == INF, INF, until - 1) if self.matcher.never_lengthens else until
        self.reach[start] = np.maximum(self.reach[start], np.minimum(next_vs, shared))
        # as if there were none, unless it may turn out that it could have been taken
        self.is_cut[start] |= ~is_there & (rows.bound[start] < INF) & (next_vs < until)
        hit = np.flatnonzero(is_there & (next_vs < until))
        if not len(hit):
            return hit, _of(runs, hit)
        row = at[hit]
        there = self._with(symbol, _of(runs, hit), row)
        if symbol in self.matcher.conditions:
            formula, columns, references = self.matcher.conditions[symbol]
            known = taken(some_columns(rows.payload, columns), row).get_columns()
            known += [self.said(reference, there, row) for reference in references]
            satisfied = np.flatnonzero(true_in(_values(formula, framed(known, len(row)))))
            hit, there = hit[satisfied], _of(there, satisfied)
        return hit, there

    def _with(self, symbol: str, runs: list[Array], row: Ints) -> list[Array]:
        """The runs when they have taken these rows."""
        runs[_AT] = row + 1
        runs[_UNTIL] = np.minimum(runs[_UNTIL], self.rows.ve[row])
        for (what, reference), (place, _) in self.matcher.registers.items():
            if not reference.counts(symbol):
                continue
            before = runs[_REGISTERS + place]
            if what == "count":
                now = before + 1 if reference.column is None else before + self._has(reference, row)
            elif what == "sum":
                now = self._added(before, reference, row)
            else:
                now = np.where(self._replaces(reference, before, row), row, before)
            runs[_REGISTERS + place] = now
        return runs

    def _has(self, reference: Reference, row: Ints) -> Mask:
        """In which rows the column has a value."""
        _, known = self._number(reference.column or "")
        return known[row]

    def _added(self, before: Array, reference: Reference, row: Ints) -> Array:
        values, known = self._number(reference.column or "")
        more = np.where(known[row], values[row], 0)
        with np.errstate(invalid="ignore"):
            now: Array = before + more
        if now.dtype == np.int64 and (((before ^ now) & (more ^ now)) < 0).any():
            raise OperatorError(
                f"match: {reference} does not fit 64 bits",
                hint="cast the column to a float with select",
            )
        # what has no value adds nothing, and nothing plus 0.0 is something else for -0.0
        return np.where(known[row], now, before)

    def _replaces(self, reference: Reference, before: Ints, row: Ints) -> Mask:
        """Where a row is the first, the last, the least or the greatest from now on."""
        if reference.kind == "first":
            return before < 0
        if reference.kind == "last":
            return np.ones(len(row), dtype=np.bool_)
        ranks = self._ranked(reference.column or "")
        mine, theirs = ranks[row], ranks[np.maximum(before, 0)]
        better = mine < theirs if reference.kind == "min" else mine > theirs
        return (mine > 0) & ((before < 0) | better)

    def _number(self, name: str) -> tuple[Array, Mask]:
        """The values of a column, and where there are some."""
        if name not in self._numbers:
            column = self.rows.payload.get_column(name)
            known = ~nulls_in(column)
            values: Array = np.zeros(len(column), dtype=np.int64)
            if column.dtype.is_float():
                values = column.fill_null(0.0).cast(pl.Float64).to_numpy()
            elif column.dtype.is_integer():
                whole = column.fill_null(0) if column.null_count() else column
                if column.dtype != pl.Int64:
                    whole = whole.cast(pl.Int64, strict=False).fill_null(0)
                values = whole.to_numpy()
            self._numbers[name] = values, known
        return self._numbers[name]

    def _ranked(self, name: str) -> Ints:
        """Numbers in the order of a column's values; 0 for none."""
        if name not in self._ranks:
            column = self.rows.payload.get_column(name)
            if column.dtype == pl.Boolean:
                column = column.cast(pl.Int8)
            self._ranks[name] = column.rank("dense").fill_null(0).cast(pl.Int64).to_numpy()
        return self._ranks[name]

    def said(self, reference: Reference, runs: list[Array], row: Ints) -> pl.Series:
        """The values of a reference, of runs whose row at hand is this one."""
        if reference.kind == "previous":
            before = np.where(row > runs[_START], row - 1, -1)
            return self._gathered(reference, before)
        held = {
            what: runs[_REGISTERS + place]
            for (what, other), (place, _) in self.matcher.registers.items()
            if other == reference
        }
        if reference.kind == "avg":
            none = held["count"] == 0
            mean = held["sum"].astype(np.float64) / np.where(none, 1, held["count"])
            values = column_of(reference.name, mean)
            return values.set(column_of("", none), None) if none.any() else values
        if "row" in held:
            return self._gathered(reference, held["row"])
        return column_of(reference.name, held[reference.kind])

    def _gathered(self, reference: Reference, row: Ints) -> pl.Series:
        column = self.rows.payload.get_column(reference.column or "")
        values = taken(column.to_frame(reference.name), np.maximum(row, 0)).to_series()
        none = row < 0
        return values.set(column_of("", none), None) if none.any() else values


def _needs(reference: Reference) -> tuple[str, ...]:
    """What is counted, added up or remembered for a reference."""
    if reference.kind == "avg":
        return "sum", "count"
    if reference.kind in ("sum", "count"):
        return (reference.kind,)
    return () if reference.kind == "previous" else ("row",)


def _of(runs: list[Array], which: Array) -> list[Array]:
    return [column[which] for column in runs]


def _put(runs: list[Array], where: Ints, others: list[Array]) -> None:
    for column, values in zip(runs, others, strict=True):
        column[where] = values


def _values(formula: Formula, payload: pl.DataFrame) -> pl.Series:
    try:
        return formula.values(payload)
    except NoValue as problem:
        # it is about a row and what was taken before it, and not about a row of the batch alone
        raise OperatorError(problem.fact, detail=problem.detail, hint=problem.hint) from problem
