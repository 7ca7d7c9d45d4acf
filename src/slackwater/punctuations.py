"""Punctuations: promises about what a stream will not say any more.

A punctuation is a box over sync time and payload columns, and promises that no later element lies in it.
The box "sync < t" with every column a wildcard is the CTI (current time increment; a stable point, a
definite punctuation): the history before t no longer changes. What a stream has promised, all in all, is
another matter (promises.py).

An external CTI is no promise about what is to come, but a count of what there is: it may overtake the
elements that it counts. Finalize makes promises of such counts.

`Closings` are many punctuations at once, in columns.

Paper 4 section 3 (punctuations as patterns), paper 1b section 3 (CTI), erratum 26.
"""

from __future__ import annotations

import operator
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, SupportsIndex, TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt
import polars as pl

from slackwater.columns import taken
from slackwater.errors import InvalidElement
from slackwater.events import Batch, Control, Placed
from slackwater.kernels.grouping import Keys
from slackwater.patterns import (
    ANY,
    Any_,
    Constant,
    Empty,
    OneOf,
    Pattern,
    combine,
    fitted,
    implies,
    matches,
    pattern_of,
    values_of,
)
from slackwater.payloads import refuse_reserved
from slackwater.times import BEGIN, INF, Instant, Times, chronon, show

__all__ = [
    "Closings",
    "ExternalCti",
    "Promise",
    "Punctuation",
    "Reached",
    "behind",
    "combinations",
    "cti",
    "external_cti",
    "for_ever",
    "gathered",
    "is_of_payloads",
    "matching",
    "punctuation",
    "some_of",
    "together",
    "unmatched",
]

Mask: TypeAlias = npt.NDArray[np.bool_]

_BEFORE, _OTHER = "\0before", "\0other"


@dataclass(frozen=True, slots=True, repr=False)
class Punctuation(Control):
    """No later element has since <= sync < `before` and a payload that matches every pattern.

    With a `before` of INF no later sync is beyond it, INF included.

    >>> cti(20).implies(cti(10)), cti(10).implies(cti(20))
    (True, False)
    """

    before: int
    since: int = BEGIN
    columns: tuple[tuple[str, Pattern], ...] = ()
    """columns that are not wildcards, by name"""

    movable = True

    @classmethod
    def of(cls, before: int, since: int, columns: Mapping[str, Pattern]) -> Punctuation:
        """The box of these patterns."""
        named = sorted((name, p) for name, p in columns.items() if not isinstance(p, Any_))
        return cls(before, since, tuple(named))

    @property
    def is_cti(self) -> bool:
        """Whether it speaks of every payload, from the beginning of time."""
        return self.since == BEGIN and not self.columns

    @property
    def is_empty(self) -> bool:
        """Whether no element could ever match: it promises nothing."""
        in_no_time = self.since >= self.before and self.before != INF
        return in_no_time or any(isinstance(pattern, Empty) for _, pattern in self.columns)

    @property
    def is_of_values(self) -> bool:
        """Whether it speaks of payloads that can be listed, from the beginning of time."""
        values = all(isinstance(pattern, Constant | OneOf) for _, pattern in self.columns)
        return bool(self.columns) and values and self.since == BEGIN

    @property
    def sync(self) -> int:
        """Its place in sync order: that of the first element it still permits."""
        return self.before

    def matches(self, batch: Batch) -> Mask:
        """Which rows of the batch the promise speaks of."""
        found = behind(batch.sync, np.int64(self.before)) & (batch.sync >= self.since)
        return found & self.matches_payload(batch.payload) if self.columns else found

    def matches_payload(self, frame: pl.DataFrame) -> Mask:
        """Which payloads the promise speaks of, at some sync time."""
        found = np.ones(frame.height, dtype=np.bool_)
        for name, pattern in self.columns:
            found &= matches(pattern, frame[name])
        return found

    def combine(self, other: Punctuation) -> Punctuation:
        """The promise about what both speak of; it may be empty (paper 4 section 3.1)."""
        columns = dict(self.columns)
        for name, pattern in other.columns:
            columns[name] = combine(columns.get(name, ANY), pattern)
        return Punctuation.of(min(self.before, other.before), max(self.since, other.since), columns)

    def implies(self, other: Punctuation) -> bool:
        """Whether keeping this promise keeps the other one too."""
        if other.is_empty:
            return True
        if self.before < other.before or self.since > other.since:
            return False
        theirs = dict(other.columns)
        return all(implies(pattern, theirs.get(name, ANY)) for name, pattern in self.columns)

    def speaks_only_of(self, columns: Container[str]) -> bool:
        """Whether all its patterns are of these columns."""
        return all(name in columns for name, _ in self.columns)

    def renamed(self, names: Mapping[str, str]) -> Punctuation:
        """The same of columns that have other names now; the others keep theirs."""
        columns = {names.get(name, name): pattern for name, pattern in self.columns}
        assert len(columns) == len(self.columns), "two columns would have one name"
        return Punctuation.of(self.before, self.since, columns)

    def fitted(self, schema: Mapping[str, pl.DataType]) -> Punctuation:
        """The same with values of the types of these columns; refused if they have no such columns."""
        for name, _ in self.columns:
            _refuse_unknown(name, schema)
        columns = {name: fitted(pattern, name, schema[name]) for name, pattern in self.columns}
        return Punctuation.of(self.before, self.since, columns)

    def __repr__(self) -> str:
        if self.is_cti:
            return f"cti({show(self.before)})"
        times = [show(self.before)] if self.before != INF or self.since != BEGIN else []
        times += [show(self.since)] if self.since != BEGIN else []
        return f"punctuation({', '.join([*times, *(f'{n}={p!r}' for n, p in self.columns)])})"


def punctuation(before: Instant = None, since: Instant = BEGIN, /, **columns: Any) -> Punctuation:
    """The promise that no later element has these values in these columns, and a sync before a time.

    A value stands for itself, `sw.between` for a range, `sw.one_of` for a list, `sw.ANY` (as a column
    that is not named) for every value. Without a time, it is for ever; with a second one, only of
    elements whose sync is not before that.

    >>> from slackwater.patterns import between, one_of
    >>> punctuation(auction=1001)
    punctuation(auction=1001)
    >>> punctuation(20, hour=17, sensor=ANY, temp=between(20, 95), item=one_of(1001, 2004))
    punctuation(20, hour=17, item=one_of(1001, 2004), temp=between(20, 95))
    >>> punctuation(20, 10, hour=17)
    punctuation(20, 10, hour=17)
    """
    refuse_reserved(columns)
    told = Punctuation.of(
        chronon(before), chronon(since), {name: pattern_of(value) for name, value in columns.items()}
    )
    if told.since >= told.before:
        raise InvalidElement(
            f"a punctuation must end after it starts: before={show(told.before)}, "
            f"since={show(told.since)}",
            hint="it speaks of elements with since <= sync < before; the first time is `before`",
        )
    return told


def cti(time: Instant) -> Punctuation:
    """The promise that the history before `time` no longer changes.

    >>> cti(20)
    cti(20)
    >>> cti(None)
    cti(INF)
    """
    return Punctuation(chronon(time))


@dataclass(frozen=True, slots=True, eq=False)
class Closings(Control):
    """Many punctuations of one shape: payloads with these values get no later element before a time.

    Row i of `keys` and `before[i]` are one of them: the values of the row, each a constant.
    """

    keys: pl.DataFrame
    before: Times
    after: Times | None = None
    """if they stand among the rows of a batch: how many rows lie between the place of them all, which is
    that of the first, and each; it does not fall. Only the edge sees such."""

    movable = True

    def spread(self, position: int) -> Iterable[Placed]:
        """One by one."""
        places = np.zeros(len(self), dtype=np.int64) if self.after is None else self.after
        return map(Placed, (position + places).tolist(), self)

    @property
    def elements(self) -> int:
        """A punctuation each."""
        return len(self)

    def thinned(self, position: int, left: Times) -> Placed:
        """Where so many of the rows before each place are left."""
        first = int(left[position])
        if self.after is None:
            return Placed(first, self)
        return Placed(first, replace(self, after=left[position + self.after] - first))

    def cut(self, position: int, stop: int) -> tuple[Placed, ...]:
        """Those at or before a place, and those behind it."""
        some = len(self)
        if self.after is not None:
            some = int(np.searchsorted(self.after, stop - position, side="right"))
        if some == len(self):
            return (Placed(position, self),)
        assert self.after is not None
        assert some, "the first of them stands where all do"
        here = Closings(self.keys[:some], self.before[:some], self.after[:some])
        first = int(self.after[some])
        there = Closings(self.keys[some:], self.before[some:], self.after[some:] - first)
        return Placed(position, here), Placed(position + first, there)

    def together(self) -> Closings:
        """The same, in one place."""
        return Closings(self.keys, self.before)

    def fitted(self, schema: Mapping[str, pl.DataType]) -> Closings:
        """The same, if these are columns of the stream, of their types; else refused."""
        for name, dtype in self.keys.schema.items():
            _refuse_unknown(name, schema)
            if dtype != schema[name]:
                raise InvalidElement(
                    f"column {name!r} cannot hold what is promised of it",
                    detail=f"it is of type {schema[name]}, and the promise speaks of {dtype}",
                    hint="cast the values to the type of the column",
                )
        return self

    @staticmethod
    def of(told: Iterable[Promise], schema: Mapping[str, pl.DataType]) -> list[Promise]:
        """The same promises: of constants and lists in columns, those of one set of columns together.

        The others are as they were. Empty ones are left out.

        >>> from slackwater.patterns import between
        >>> told = [punctuation(k=7), cti(5), punctuation(9, k=8), punctuation(k=between(1, 4))]
        >>> Closings.of(told, {"k": pl.Int64()})
        [cti(5), punctuation(k=between(1, 4)), 2 closings of k]
        """
        others: list[Promise] = []
        keys: dict[tuple[str, ...], list[list[Any]]] = {}
        before: dict[tuple[str, ...], list[int]] = {}
        for each in told:
            if not isinstance(each, Punctuation) or not each.is_of_values:
                if isinstance(each, Closings) or not each.is_empty:
                    others.append(each)
                continue
            names = tuple(name for name, _ in each.columns)
            values = [_of_type(values_of(pattern), schema[name]) for name, pattern in each.columns]
            rows = [list(row) for row in product(*values)]
            if not rows:
                continue
            keys.setdefault(names, []).extend(rows)
            before.setdefault(names, []).extend([each.before] * len(rows))
        for names, rows in keys.items():
            columns = zip(names, zip(*rows, strict=True), strict=True)
            frame = pl.DataFrame([pl.Series(n, v, schema[n], strict=True) for n, v in columns])
            others.append(Closings(frame, np.array(before[names], dtype=np.int64)))
        return others

    def where(self, mask: Mask) -> Closings:
        """Those that satisfy the mask."""
        return self.take(np.flatnonzero(mask))

    def take(self, rows: npt.NDArray[np.int64]) -> Closings:
        """These of them, in that order."""
        return Closings(taken(self.keys, rows), self.before[rows])

    def strongest(self) -> Closings:
        """Of equal values the one that goes furthest, in the order in which values come."""
        values = Keys(self.keys.schema)
        number = values.number(self.keys)
        if len(values) == len(self):
            return self
        order = np.argsort(self.before, kind="stable")
        best = np.empty(len(values), dtype=np.int64)
        best[number[order]] = order
        return self.take(best)

    def sooner(self, before: Times | int) -> Closings:
        """The same promises, none of them for longer than that."""
        return Closings(self.keys, np.minimum(self.before, before))

    def renamed(self, names: Mapping[str, str]) -> Closings:
        """The same of columns that have other names now; the others keep theirs."""
        known = {name: new for name, new in names.items() if name in self.keys.columns}
        return Closings(self.keys.rename(known), self.before)

    def speaks_only_of(self, columns: Container[str]) -> bool:
        """Whether all its values are of these columns."""
        return all(name in columns for name in self.keys.columns)

    def frontier(self, frame: pl.DataFrame) -> Times:
        """For each row the time before which its values are closed; BEGIN if they are not."""
        if not len(self):
            return np.full(frame.height, BEGIN, dtype=np.int64)
        keys = Keys(self.keys.schema)
        numbers = keys.number(self.keys)
        latest = np.full(len(keys), BEGIN, dtype=np.int64)
        np.maximum.at(latest, numbers, self.before)
        asked = keys.number(frame)
        known = asked < len(latest)
        return np.where(known, latest[np.where(known, asked, 0)], BEGIN)

    def matches(self, batch: Batch) -> Mask:
        """Which rows of a batch one of the promises speaks of."""
        return behind(batch.sync, self.frontier(batch.payload))

    def matches_payload(self, frame: pl.DataFrame) -> Mask:
        """Which payloads one of the promises speaks of, at some sync time."""
        found: Mask = self.frontier(frame) > BEGIN
        return found

    def matched_by(self, frame: pl.DataFrame) -> Mask:
        """Which of the promises speak of one of these payloads."""
        if not len(self) or not frame.height:
            return np.zeros(len(self), dtype=np.bool_)
        seen = Keys(self.keys.schema)
        known = int(seen.number(frame).max()) + 1
        found: Mask = seen.number(self.keys) < known
        return found

    def __len__(self) -> int:
        return len(self.before)

    def __iter__(self) -> Iterator[Punctuation]:
        """One by one."""
        for key, before in zip(self.keys.iter_rows(named=True), self.before.tolist(), strict=True):
            columns = tuple((name, Constant(key[name])) for name in sorted(key))
            yield Punctuation(before, columns=columns)

    def __repr__(self) -> str:
        return f"{len(self)} closings of {', '.join(self.keys.columns)}"


Promise: TypeAlias = Punctuation | Closings


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


def _of_type(values: Iterable[Any], dtype: pl.DataType) -> list[Any]:
    """Those that a column can have: where nothing but null was ever seen, that one."""
    return [value for value in values if value is None or dtype != pl.Null]


def is_of_payloads(control: Control) -> TypeGuard[Promise]:
    """Whether it is a promise about more than time, which an operator may drop."""
    return isinstance(control, Closings) or (isinstance(control, Punctuation) and not control.is_cti)


def gathered(told: Iterable[Control], schema: Mapping[str, pl.DataType]) -> list[Promise]:
    """The same promises in one place: constants and lists as closings, one for each set of columns."""
    promises = [each for each in told if isinstance(each, Punctuation | Closings)]
    return together(Closings.of(promises, schema))


def together(told: Iterable[Promise]) -> list[Promise]:
    """The same promises, of which no two are closings of the same columns."""
    some: dict[tuple[str, ...], list[Closings]] = {}
    others: list[Promise] = []
    for each in told:
        if isinstance(each, Closings):
            ordered = pl.DataFrame([each.keys.get_column(name) for name in sorted(each.keys.columns)])
            some.setdefault(tuple(ordered.columns), []).append(Closings(ordered, each.before))
        else:
            others.append(each)
    for parts in some.values():
        keys = pl.concat([part.keys for part in parts])
        others.append(Closings(keys, np.concatenate([part.before for part in parts])))
    return others


def _refuse_unknown(name: str, schema: Mapping[str, pl.DataType]) -> None:
    if name not in schema:
        raise InvalidElement(
            f"a promise speaks of the unknown column {name!r}",
            detail=f"the stream has: {', '.join(schema) or 'no columns'}",
            hint="a promise is about columns of its stream, and sync times",
        )


def matching(batch: Batch, told: Iterable[Promise]) -> Mask:
    """Which rows one of the promises speaks of (paper 4 Table 1: setMatchTs, setNomatchTs)."""
    found = np.zeros(batch.rows, dtype=np.bool_)
    for each in told:
        found |= each.matches(batch)
    return found


def some_of(told: Promise, columns: Container[str]) -> Promise | None:
    """The pattern without what it says of other columns; None if that is nothing."""
    if isinstance(told, Closings):
        names = [name for name in told.keys.columns if name in columns]
        return Closings(told.keys.select(names), told.before) if names else None
    named = tuple(each for each in told.columns if each[0] in columns)
    return replace(told, columns=named) if named else None


def unmatched(told: Iterable[Promise], frame: pl.DataFrame) -> list[Promise]:
    """The promises that speak of none of these payloads (setNomatchPs of paper 4 Table 1)."""
    left: list[Promise] = []
    for each in told:
        if isinstance(each, Closings):
            alone = each.where(~each.matched_by(frame))
            left += [alone] if len(alone) else []
        elif not each.matches_payload(frame).any():
            left.append(each)
    return left


def for_ever(told: Sequence[Promise]) -> list[Promise]:
    """The promises that nothing ends."""
    found: list[Promise] = []
    for each in told:
        if isinstance(each, Closings):
            some = each if (each.before == INF).all() else each.where(each.before == INF)
            found += [some] if len(some) else []
        elif each.before == INF:
            found.append(each)
    return found


def combinations(some: Iterable[Promise], others: Sequence[Promise]) -> list[Promise]:
    """All combinations of one of these and one of the others that are not empty (setCombine there)."""
    found: list[Promise] = []
    for one in some:
        for other in others:
            found += _combined(one, other)
    return found


def _combined(one: Promise, other: Promise) -> list[Promise]:
    if isinstance(one, Punctuation) and isinstance(other, Punctuation):
        both = one.combine(other)
        return [] if both.is_empty else [both]
    if isinstance(one, Closings) and isinstance(other, Closings):
        return _met(one, other)
    closings, box = (one, other) if isinstance(one, Closings) else (other, one)
    assert isinstance(closings, Closings)
    assert isinstance(box, Punctuation)
    names = closings.keys.columns
    shared = Punctuation.of(INF, BEGIN, {n: p for n, p in box.columns if n in names})
    alone = {name: pattern for name, pattern in box.columns if name not in names}
    some = closings.where(shared.matches_payload(closings.keys)).sooner(box.before)
    if alone or box.since != BEGIN:
        rest = Punctuation.of(box.before, box.since, alone)
        return [each for each in (closed.combine(rest) for closed in some) if not each.is_empty]
    return [some] if len(some) else []


def _met(one: Closings, other: Closings) -> list[Promise]:
    """Closings with the same values in the columns that both have."""
    shared = [name for name in one.keys.columns if name in other.keys.columns]
    left, right = (each.keys.with_columns(pl.Series(_BEFORE, each.before)) for each in (one, other))
    met = (
        left.join(right, on=shared, how="inner", nulls_equal=True, suffix=_OTHER)
        if shared
        else left.join(right, how="cross", suffix=_OTHER)
    )
    before = np.minimum(met[_BEFORE].to_numpy(), met[_BEFORE + _OTHER].to_numpy())
    keys = met.drop(_BEFORE, _BEFORE + _OTHER)
    return [Closings(keys.select(sorted(keys.columns)), before)] if met.height else []


def behind(sync: Times, before: Times | np.int64) -> npt.NDArray[np.bool_]:
    """Which syncs a cti forbids; cti(INF) forbids everything, an end that stays at INF included."""
    forbidden: npt.NDArray[np.bool_] = (sync < before) | (before == INF)
    return forbidden
