"""Promises: all that a stream has promised so far, and what follows from it.

Most streams promise ctis only, and then it is one number: operators keep many of these. What is promised
of payloads is kept beside it in an index (boxes.py) and taken in in place (`add`). Only who has to judge
by it, or has to wait for other inputs, remembers any.

A cti drops what it implies, and values that are closed one by one end as ranges where they lie densely.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from slackwater.boxes import Boxes, Spans
from slackwater.columns import FEW, framed
from slackwater.events import Batch, Control
from slackwater.kernels import spans as spans_kernel
from slackwater.kernels.grouping import Keys
from slackwater.kernels.integers import is_fixed
from slackwater.patterns import Constant, OneOf, Range, values_of
from slackwater.punctuations import Closings, Promise, Punctuation, behind, combinations, is_of_payloads
from slackwater.times import BEGIN, INF, Times

__all__ = ["Known", "Promises"]

Mask: TypeAlias = npt.NDArray[np.bool_]


@dataclass(slots=True)
class Known:
    """Promises about payloads, by shape."""

    schema: dict[str, pl.DataType] = field(default_factory=dict)
    """the types of columns, as far as they have been told"""
    spans: list[Spans] = field(default_factory=list)
    boxes: Boxes = field(default_factory=Boxes)

    def __len__(self) -> int:
        return sum(map(len, self.spans)) + len(self.boxes)

    def add(self, told: Promise, cti: int) -> None:
        """Take in one promise that is no cti."""
        if isinstance(told, Closings):
            self.schema |= told.keys.schema
            if len(told):
                self._spans_of(told.keys.columns).add(told, cti)
                self._forget_parts(told)
            return
        if told.is_empty:
            return
        for box in _without_lists(told):
            self._add_box(box, cti)

    def _forget_parts(self, told: Closings) -> None:
        """What was promised piece by piece of values that are closed now, if it is little to look at."""
        names = set(told.keys.columns)
        for spans in self.spans:
            if len(told) * len(spans) <= FEW and names < set(spans.schema) and len(spans):
                spans.forget_others(told)

    def _add_box(self, box: Punctuation, cti: int) -> None:
        names = [name for name, _ in box.columns]
        ranges = [name for name, pattern in box.columns if isinstance(pattern, Range)]
        if self._knows(box) and names and box.since == BEGIN and len(ranges) <= 1:
            if not ranges:
                [closing] = Closings.of([box], self.schema)
                self.add(closing, cti)
                return
            if is_fixed(self.schema[ranges[0]]):
                self._spans_of(names, ranges[0]).add_range(box, cti)
                return
        both = self.boxes.add(box, self.schema)
        if both is not None:
            self._add_box(both, cti)

    def _spans_of(self, names: Iterable[str], along: str | None = None) -> Spans:
        """Where promises about these columns are, of ranges of one of them or of constants only."""
        names = sorted(names)
        for spans in self.spans:
            if list(spans.schema) == names and along in (None, spans.along):
                return spans
        schema = pl.Schema({name: self.schema[name] for name in names})
        if along is None:
            fixed = [name for name, dtype in schema.items() if is_fixed(dtype)]
            # a column of many values first: there they may lie densely
            fixed.sort(key=lambda name: schema[name] == pl.Boolean or schema[name].is_float())
            along = fixed[0] if fixed else ""
        found = Spans.of(schema, along)
        for at, spans in enumerate(self.spans):
            if list(spans.schema) == names and (again := spans.rekeyed(along, BEGIN)):
                # constants beside ranges: together they may leave no value out
                self.spans[at] = again
                return again
        self.spans.append(found)
        return found

    def purge(self, cti: int) -> None:
        """Drop what a cti implies."""
        for spans in self.spans:
            spans.purge(cti)
        if len(self.boxes):
            self.boxes.purge(cti)

    def forget(self, told: Promise) -> None:
        """Drop what a promise implies."""
        if isinstance(told, Punctuation) and told.is_of_values and self._knows(told):
            for closings in Closings.of([told], self.schema):
                self.forget(closings)
            return
        names = told.keys.columns if isinstance(told, Closings) else [n for n, _ in told.columns]
        for spans in self.spans:
            if _is_alike(told, spans):
                spans.forget(told)
            elif len(spans) and set(names) <= set(spans.schema):
                spans.forget_others(told)
        if len(self.boxes):
            for box in told if isinstance(told, Closings) else [told]:
                self.boxes.forget(box, self.schema)

    def _knows(self, told: Punctuation) -> bool:
        return all(name in self.schema for name, _ in told.columns)

    def frontier(self, frame: pl.DataFrame, reached: Times) -> None:
        """Raise the time of each row to the frontier of its values."""
        names = set(frame.columns)
        for spans in self.spans:
            missing = [name for name in spans.schema if name not in names]
            if not missing:
                spans.frontier(frame, reached)
            elif missing == [spans.along]:
                spans.covering(frame, reached)
            elif len(missing) == 1 and spans.schema[missing[0]] == pl.Boolean:
                _over_all_flags(spans, frame, missing[0], reached)
        if len(self.boxes):
            while self.boxes.frontier(frame, reached, {**self.schema, **frame.schema}):
                pass

    def forbids(self, sync: Times, payload: pl.DataFrame) -> Mask:
        """Which elements, of this sync and payload, a promise speaks of."""
        before = np.full(payload.height, BEGIN, dtype=np.int64)
        for spans in self.spans:
            spans.frontier(payload, before)
        found = behind(sync, before)
        return found | self.boxes.forbids(sync, payload) if len(self.boxes) else found

    def one_of_row(self, alone: Batch) -> Punctuation | None:
        """A promise that speaks of the only row of a batch."""
        for spans in self.spans:
            found = spans.one_of_row(alone.payload, int(alone.sync[0]))
            if found is not None:
                return found
        return self.boxes.one_of_row(alone.payload, alone.sync)

    def punctuations(self) -> list[Promise]:
        """All of them."""
        return [*(each for spans in self.spans for each in spans.punctuations()), *self.boxes.told]

    def meeting(self, told: Punctuation, besides: Collection[str] = ()) -> list[Promise]:
        """Those that another one meets, and perhaps some that it does not.

        Of those that speak of some columns alone, from the beginning of time, none.
        """
        found: list[Promise] = []
        for spans in self.spans:
            if len(spans) and not set(spans.schema) <= set(besides):
                found += spans.punctuations(told)
        boxes = self.boxes.meeting(told, self.schema) if len(self.boxes) else []
        return [*found, *(each for each in boxes if _is_later(each) or not each.speaks_only_of(besides))]


def _is_alike(told: Promise, spans: Spans) -> bool:
    """Whether a promise is of the shape of these."""
    if isinstance(told, Closings):
        return sorted(told.keys.columns) == sorted(spans.schema)
    columns = dict(told.columns)
    if sorted(columns) != sorted(spans.schema) or told.since != BEGIN:
        return False
    return all(isinstance(p, Range if n == spans.along else Constant) for n, p in told.columns)


def _over_all_flags(spans: Spans, frame: pl.DataFrame, name: str, reached: Times) -> None:
    """The frontier where a column of booleans is not known: the least of all three values."""
    least = np.full(frame.height, INF, dtype=np.int64)
    for value in (False, True, None):
        time = np.full(frame.height, BEGIN, dtype=np.int64)
        spans.frontier(frame.with_columns(pl.lit(value, dtype=pl.Boolean).alias(name)), time)
        np.minimum(least, time, out=least)
    np.maximum(reached, least, out=reached)


def _without_lists(told: Punctuation) -> Iterable[Punctuation]:
    lists = [(name, pattern) for name, pattern in told.columns if isinstance(pattern, OneOf)]
    if not lists:
        return [told]
    names = [name for name, _ in lists]
    rows = product(*(values_of(pattern) for _, pattern in lists))
    columns = dict(told.columns)
    return [
        Punctuation.of(
            told.before,
            told.since,
            columns | {name: Constant(value) for name, value in zip(names, row, strict=True)},
        )
        for row in rows
    ]


@dataclass(slots=True)
class Promises:
    """Everything a stream has promised so far.

    >>> from slackwater.punctuations import cti, punctuation
    >>> Promises().with_(cti(5)).with_(cti(3)).cti
    5
    >>> promises = Promises.of({"k": pl.Int64()})
    >>> promises.add([punctuation(k=2), punctuation(k=1), punctuation(8, k=3), cti(4)])
    >>> promises.frontier(pl.DataFrame({"k": [1, 3, 4]})).tolist() == [INF, 8, 4]
    True
    >>> promises.punctuations()
    [cti(4), 1 closings of k, punctuation(k=between(1, 2))]
    """

    cti: int = BEGIN
    known: Known | None = None
    """what was promised of payloads"""

    @classmethod
    def of(cls, schema: Mapping[str, pl.DataType]) -> Promises:
        """None yet, of a stream with these columns: for who will add promises about payloads.

        Without the types of columns, ranges are judged as well, but one after the other.
        """
        return cls(known=Known(dict(schema)))

    # of time alone: a value

    def with_(self, punctuation: Punctuation) -> Promises:
        """These promises and one more, a cti. What is known of payloads is shared with these."""
        assert punctuation.is_cti, f"{punctuation!r} is added"
        if punctuation.before <= self.cti:
            return self
        if self.known is not None:
            self.known.purge(punctuation.before)
        return replace(self, cti=punctuation.before)

    def strengthened_by(self, controls: Iterable[Control]) -> tuple[Promises, list[Punctuation]]:
        """These promises and the ctis of those, and the fewest ctis that tell the difference."""
        ctis = [each.before for each in controls if isinstance(each, Punctuation) and each.is_cti]
        latest = max(ctis, default=BEGIN)
        if latest <= self.cti:
            return self, []
        told = Punctuation(latest)
        return self.with_(told), [told]

    @property
    def closed(self) -> bool:
        """Whether nothing more can come."""
        return self.cti == INF

    # of payloads: in place

    def add(self, told: Iterable[Control]) -> None:
        """Remember these, ctis too; control elements that are no promises are passed over."""
        before = self.cti
        for each in self._gathered(told):
            if isinstance(each, Punctuation) and each.is_cti:
                self.cti = max(self.cti, each.before)
            elif isinstance(each, Punctuation | Closings):
                self.known = Known() if self.known is None else self.known
                self.known.add(each, self.cti)
        if self.known is not None and self.cti > before:
            self.known.purge(self.cti)

    def _gathered(self, told: Iterable[Control]) -> Iterable[Control]:
        """The same, those of values that are told one by one in columns."""
        every = [*told]
        if self.known is None or len(every) == 1:
            return every
        known = self.known.schema
        of_values = [
            each
            for each in every
            if isinstance(each, Punctuation)
            and each.is_of_values
            and all(name in known for name, _ in each.columns)
        ]
        if len(of_values) <= 1:
            return every
        gone = set(map(id, of_values))
        return [*(each for each in every if id(each) not in gone), *Closings.of(of_values, known)]

    def forget(self, told: Sequence[Promise]) -> None:
        """Drop what these imply, of what is promised of payloads: somebody else has been told."""
        if self.known is not None:
            for each in told:
                self.known.forget(each)

    def frontier(self, frame: pl.DataFrame) -> Times:
        """For each row the largest t such that no element with these values and sync < t can come.

        The frame has the columns of a payload, or some of them: all payloads with these values count.
        Promises about one column more count where together they leave none of its values out, null
        and NaN included.
        """
        reached = np.full(frame.height, self.cti, dtype=np.int64)
        if self.known is not None:
            self.known.frontier(frame, reached)
        return reached

    def forbids(self, sync: Times, payload: pl.DataFrame) -> Mask:
        """Which elements, of this sync and payload, a promise speaks of."""
        found = behind(sync, np.int64(self.cti))
        return found | self.known.forbids(sync, payload) if self.known else found

    def broken_by(self, batch: Batch) -> Mask:
        """Which rows break a promise: one of these, or one made earlier in their own batch."""
        # what was promised before each row, and one place more for what follows the last
        at_row = np.full(batch.rows + 1, self.cti, dtype=np.int64)
        ctis = [p for p in batch.controls if isinstance(p.control, Punctuation) and p.control.is_cti]
        places = np.array([p.position for p in ctis], dtype=np.int64)
        np.maximum.at(at_row, places, [_before(p.control) for p in ctis] or self.cti)
        broken = behind(batch.sync, np.maximum.accumulate(at_row)[:-1])
        if self.known:
            broken |= self.known.forbids(batch.sync, batch.payload)
        if len(ctis) < len(batch.controls):
            _break(broken, batch)
        return broken

    def broken_one(self, alone: Batch) -> Punctuation | None:
        """The promise about payloads that the only row of a batch breaks, if there is one."""
        return self.known.one_of_row(alone) if self.known else None

    def news(self, told: Iterable[Promise]) -> list[Promise]:
        """What of these is not promised already, as far as that is seen soon."""
        new: list[Promise] = []
        for each in told:
            if isinstance(each, Closings):
                some = each.where(self.frontier(each.keys) < each.before)
                new += [some] if len(some) else []
            elif not self._implies(each):
                new.append(each)
        return new

    def until(self, told: Promise) -> Times:
        """Of each, or of all that a pattern matches: the largest t such that no sync < t can come.

        Whatever times they name themselves.
        """
        if isinstance(told, Closings):
            return self.frontier(told.keys)
        return np.array([self._until(told)])

    def _until(self, told: Punctuation) -> int:
        if self.known is None or not told.columns:
            return self.cti
        types, found = self.known.schema, self.cti
        values = {n: p for n, p in told.columns if isinstance(p, Constant | OneOf) and n in types}
        if values:
            [rows] = Closings.of([Punctuation.of(INF, BEGIN, values)], types)
            assert isinstance(rows, Closings)
            found = int(self.frontier(rows.keys).min(initial=INF))
        found = max([found, *(spans.promised(told) for spans in self.known.spans)])
        whole = replace(told, since=BEGIN, before=INF)
        if len(self.known.boxes):
            for each in self.known.boxes.meeting(whole, types):
                if each.since <= found and replace(each, since=BEGIN, before=INF).implies(whole):
                    found = max(found, each.before)
        return found

    def _implies(self, told: Punctuation) -> bool:
        if told.is_empty or told.before <= self.cti:
            return True
        if self.known is None:
            return False
        if any(isinstance(pattern, OneOf) for _, pattern in told.columns):
            return all(map(self._implies, _without_lists(told)))
        types = self.known.schema
        values = {n: p for n, p in told.columns if isinstance(p, Constant) and n in types}
        if values:
            [row] = Closings.of([Punctuation.of(INF, BEGIN, values)], types)
            assert isinstance(row, Closings)
            if self.frontier(row.keys)[0] >= told.before:
                return True
        if len(self) > FEW:
            return False
        if any(spans.promised(told) >= told.before for spans in self.known.spans):
            return True
        boxes = (each for each in self._of_payloads() if isinstance(each, Punctuation))
        return any(each.implies(told) for each in boxes)

    def combined(self, told: Sequence[Promise]) -> list[Promise]:
        """The combinations of these promises with those that are not empty: what both sides say.

        Closings find those of the same columns, and of some of them, by their values.
        """
        found: list[Promise] = []
        for each in told:
            if isinstance(each, Closings):
                both = each.sooner(self.frontier(each.keys))
                both = both.where(both.before > BEGIN)
                found += [both] if len(both) else []
                found += self._beside(each)
            else:
                time = [Punctuation(self.cti)] if self.cti > BEGIN else []
                others = self.known.meeting(each) if self.known else []
                found += combinations([each], [*time, *others])
        return found

    def _beside(self, told: Closings) -> list[Promise]:
        """The combinations with promises that speak of other columns as well, or of later times."""
        names = told.keys.columns
        if self.known is None or not len(self.known):
            return []
        if len(told) > FEW:
            others = [p for p in self._of_payloads() if _is_later(p) or not p.speaks_only_of(names)]
            return combinations([told], others)
        found: list[Promise] = []
        for row, each in enumerate(told):
            alone = told.take(np.array([row]))
            found += combinations([alone], self.known.meeting(each, names))
        return found

    def punctuations(self) -> list[Promise]:
        """The fewest promises that say the same, as far as the index finds them."""
        time = [Punctuation(self.cti)] if self.cti > BEGIN else []
        return [*time, *self._of_payloads()]

    def _of_payloads(self) -> list[Promise]:
        return self.known.punctuations() if self.known else []

    def __len__(self) -> int:
        """How many boxes are remembered, that of the cti apart."""
        return len(self.known) if self.known else 0

    def __bool__(self) -> bool:
        return True


def _is_later(told: Promise) -> bool:
    return isinstance(told, Punctuation) and told.since != BEGIN


def _before(control: Control) -> int:
    assert isinstance(control, Punctuation)
    return control.before


def _break(broken: Mask, batch: Batch) -> None:
    """Mark rows that a promise about payloads forbids which stands before them in the batch."""
    closings: dict[tuple[str, ...], list[tuple[int, Closings]]] = {}
    boxes: list[tuple[int, Promise]] = []
    for position, control in batch.controls:
        if position == batch.rows:
            continue
        if isinstance(control, Punctuation) and control.is_of_values:
            for some in Closings.of([control], batch.schema):
                assert isinstance(some, Closings)
                closings.setdefault(tuple(sorted(some.keys.columns)), []).append((position, some))
        elif isinstance(control, Closings):
            closings.setdefault(tuple(sorted(control.keys.columns)), []).append((position, control))
        elif isinstance(control, Punctuation) and is_of_payloads(control):
            boxes.append((position, control))
    for names, parts in closings.items():
        keys = Keys(pl.Schema({name: batch.schema[name] for name in names}))
        key = keys.number(
            pl.concat([framed([part.keys.get_column(n) for n in names], len(part)) for _, part in parts])
        )
        before = np.concatenate([part.before for _, part in parts])
        place = np.concatenate(
            [at + (np.zeros(len(p), dtype=np.int64) if p.after is None else p.after) for at, p in parts]
        )
        latest = np.full(len(keys), BEGIN, dtype=np.int64)
        order = np.argsort(place, kind="stable")
        found = keys.find(batch.payload)
        spans_kernel.sweep(batch.sync, found, key[order], before[order], place[order], latest, broken)
    for position, box in boxes:
        broken[position:] |= box.matches(batch.slice(position, batch.rows))
