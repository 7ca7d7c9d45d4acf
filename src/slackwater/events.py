"""Elements of a physical stream, and the columnar batches in which they travel.

A stream is a sequence of elements in arrival order. Data elements say what happened to one event, a
payload with a lifetime [vs, ve): `insert` creates it, `adjust` moves its end (`new_ve = vs` removes it).
Control elements carry no event: punctuations (promises), and later tokens, speculative punctuations
and external progress.

In a batch every data element is one row (vs, old_ve, new_ve, payload): *the event that started at vs
and ended at old_ve now ends at new_ve*. An insert is the row whose event did not exist (old_ve = vs),
a removal the row whose event is gone afterwards (new_ve = vs). With that reading there is one rule
for all of them: the row takes (vs, old_ve) out of the history if that lifetime is not empty, puts
(vs, new_ve) in likewise, and its sync is min(old_ve, new_ve).

Invariant of a batch: vs <= old_ve and vs <= new_ve, not both equal to vs.
Not here: what elements mean together (history.py), what a promise says (punctuations.py).

Paper 1a section 2.1, paper 1b section 3, paper 2 section III (growing adjusts).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from slackwater.columns import column_of, framed, stacked, taken
from slackwater.errors import InvalidElement
from slackwater.identity import identity
from slackwater.payloads import Payload, payload_frame, refuse_reserved
from slackwater.times import Instant, Times, chronon, show

__all__ = [
    "Adjust",
    "Batch",
    "Control",
    "Element",
    "Event",
    "Insert",
    "Placed",
    "Stream",
    "adjust",
    "insert",
]


class Event(NamedTuple):
    """A row of a history: a payload that is alive during [vs, ve)."""

    vs: int
    ve: int
    payload: Payload


class Element:
    """One item of a physical stream: an insert, an adjust or a control element."""

    __slots__ = ()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Notebooks and Hypothesis print an element as it is written."""
        printer.text(repr(self))


@dataclass(frozen=True, slots=True, eq=False)
class _Data(Element):
    """What inserts and adjusts share: equality by identity of values (NaN = NaN)."""

    def _key(self) -> tuple[object, ...]:
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Insert(_Data):
    """An event begins to exist: `payload` is alive during [vs, ve)."""

    vs: int
    ve: int
    payload: Payload = field(default_factory=dict)

    def __post_init__(self) -> None:
        _refuse_fractions(self.vs, self.ve)
        if self.vs >= self.ve:
            raise InvalidElement(
                f"an event must end after it starts: vs={show(self.vs)}, ve={show(self.ve)}",
                detail=f"payload: {dict(self.payload)}",
                hint="a lifetime is [vs, ve) with vs < ve; an instant is [vs, vs + 1)",
            )

    @property
    def sync(self) -> int:
        """The earliest instant whose content this element changes."""
        return self.vs

    def _key(self) -> tuple[object, ...]:
        return self.vs, self.ve, identity(self.payload)

    def __repr__(self) -> str:
        return f"insert({show(self.vs)}, {show(self.ve)}{_named(self.payload)})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Adjust(_Data):
    """The event ([vs, ve), payload) now ends at new_ve; new_ve = vs removes it."""

    vs: int
    ve: int
    new_ve: int
    payload: Payload = field(default_factory=dict)

    def __post_init__(self) -> None:
        _refuse_fractions(self.vs, self.ve, self.new_ve)
        if self.vs >= self.ve or self.new_ve < self.vs:
            raise InvalidElement(
                f"an event cannot end before it starts: vs={show(self.vs)}, ve={show(self.ve)}, "
                f"new_ve={show(self.new_ve)}",
                detail=f"payload: {dict(self.payload)}",
                hint="an adjust needs vs < ve and vs <= new_ve; new_ve = vs removes the event",
            )

    @property
    def sync(self) -> int:
        """The earliest instant whose content this element changes."""
        return min(self.ve, self.new_ve)

    def _key(self) -> tuple[object, ...]:
        return self.vs, self.ve, self.new_ve, identity(self.payload)

    def __repr__(self) -> str:
        times = f"{show(self.vs)}, {show(self.ve)}, {show(self.new_ve)}"
        return f"adjust({times}{_named(self.payload)})"


def _refuse_fractions(*times: object) -> None:
    for time in times:
        if not isinstance(time, int):
            raise InvalidElement(
                f"{time!r} is not a time",
                detail=f"it is of type {type(time).__name__}",
                hint="sw.insert and sw.adjust also take datetimes",
            )


class Control(Element):
    """An element that carries no event. Every kind of control element is a subclass.

    `movable` says that it may be delivered later within its batch without harm. That is so for a
    promise, which a delay only weakens. It is not so for what marks an exact place in the stream.

    One may stand for many, each with a place of its own: `spread` tells them, `thinned` and `cut` are
    what becomes of it where its batch loses rows.
    """

    __slots__ = ()
    movable = False

    def spread(self, position: int) -> Iterable[Placed]:
        """The elements that it stands for, where they stand; it stands at that place itself."""
        return (Placed(position, self),)

    @property
    def elements(self) -> int:
        """How many it stands for."""
        return 1

    def thinned(self, position: int, left: Times) -> Placed:
        """The same, where of the rows before each place so many are left."""
        return Placed(int(left[position]), self)

    def cut(self, position: int, stop: int) -> tuple[Placed, ...]:
        """What stands at or before a place, and what stands behind it."""
        del stop
        return (Placed(position, self),)


def insert(vs: Instant, ve: Instant, /, **payload: Any) -> Insert:
    """An event begins to exist.

    >>> insert(0, 10, sensor="a", temp=31.0)
    insert(0, 10, sensor='a', temp=31.0)
    >>> insert(5, 5, sensor="a")
    Traceback (most recent call last):
        ...
    slackwater.errors.InvalidElement: an event must end after it starts: vs=5, ve=5
      detail: payload: {'sensor': 'a'}
      hint: a lifetime is [vs, ve) with vs < ve; an instant is [vs, vs + 1)
    """
    refuse_reserved(payload)
    return Insert(chronon(vs), chronon(ve), payload)


def adjust(vs: Instant, ve: Instant, new_ve: Instant, /, **payload: Any) -> Adjust:
    """The end of an existing event moves from ve to new_ve (new_ve = vs removes it).

    >>> adjust(0, 10, 4, sensor="a", temp=31.0).sync
    4
    """
    refuse_reserved(payload)
    return Adjust(chronon(vs), chronon(ve), chronon(new_ve), payload)


def _named(payload: Payload) -> str:
    return "".join(f", {name}={value!r}" for name, value in payload.items())


class Placed(NamedTuple):
    """A control element and how many data rows of its batch come before it."""

    position: int
    control: Control


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """A run of elements in arrival order: data as columns, control elements beside them.

    >>> batch = Batch.of([insert(0, 10, k="a"), adjust(0, 10, 4, k="a")])
    >>> batch.vs.tolist(), batch.old_ve.tolist(), batch.new_ve.tolist(), batch.sync.tolist()
    ([0, 0], [0, 10], [10, 4], [0, 4])
    >>> list(batch)
    [insert(0, 10, k='a'), adjust(0, 10, 4, k='a')]
    """

    vs: Times
    old_ve: Times
    new_ve: Times
    payload: pl.DataFrame
    controls: tuple[Placed, ...] = ()

    @classmethod
    def of(cls, elements: Stream, schema: pl.Schema | None = None) -> Batch:
        """Elements as columns. Without a schema, types are inferred from the payloads."""
        if isinstance(elements, Batch):
            return elements
        vs: list[int] = []
        old_ve: list[int] = []
        new_ve: list[int] = []
        payloads: list[Payload] = []
        controls: list[Placed] = []
        for element in elements:
            if isinstance(element, Control):
                controls.append(Placed(len(vs), element))
                continue
            if isinstance(element, Insert):
                old_ve.append(element.vs)
                new_ve.append(element.ve)
            elif isinstance(element, Adjust):
                old_ve.append(element.ve)
                new_ve.append(element.new_ve)
            else:
                raise InvalidElement(
                    f"{element!r} is not an element of a stream",
                    detail=f"it is of type {type(element).__name__}",
                    hint="use sw.insert, sw.adjust and sw.cti, or sw.from_dataframe for tables",
                )
            vs.append(element.vs)
            payloads.append(element.payload)
        return cls(
            np.array(vs, dtype=np.int64),
            np.array(old_ve, dtype=np.int64),
            np.array(new_ve, dtype=np.int64),
            payload_frame(payloads, schema),
            tuple(controls),
        )

    @classmethod
    def inserts(cls, vs: Times, ve: Times, payload: pl.DataFrame) -> Batch:
        """A batch of inserts only: that these columns are one is kept, and saves work."""
        return cls(vs, vs, ve, payload)

    @classmethod
    def empty(cls, schema: pl.Schema) -> Batch:
        """No elements at all."""
        return _no_elements(tuple(schema.items()))

    @property
    def schema(self) -> pl.Schema:
        """Names and types of the payload's columns."""
        return self.payload.schema

    @property
    def sync(self) -> Times:
        """For each row the earliest instant whose content it changes."""
        return np.minimum(self.old_ve, self.new_ve)

    @property
    def rows(self) -> int:
        """How many data elements there are."""
        return len(self.vs)

    @property
    def elements(self) -> int:
        """How many there are one by one. In `len` and `split` a control that stands for many is one."""
        return len(self.vs) + sum(placed.control.elements for placed in self.controls)

    @property
    def is_insert(self) -> npt.NDArray[np.bool_]:
        """Which rows create their event."""
        if self.only_inserts:
            return np.ones(len(self.vs), dtype=np.bool_)
        is_insert: npt.NDArray[np.bool_] = self.old_ve == self.vs
        return is_insert

    @property
    def only_inserts(self) -> bool:
        """Whether all rows are known to create their event, without a look at them."""
        return self.old_ve is self.vs

    @property
    def taken_back(self) -> int:
        """How many rows shorten or remove an event that had been said to exist."""
        return int(np.count_nonzero(self.new_ve < self.old_ve))

    def __len__(self) -> int:
        return len(self.vs) + len(self.controls)

    def __iter__(self) -> Iterator[Element]:
        """The elements one by one, in arrival order."""
        spread = [each for placed in self.controls for each in placed.control.spread(placed.position)]
        controls = iter(sorted(spread, key=_position))
        placed = next(controls, None)
        times = zip(self.vs.tolist(), self.old_ve.tolist(), self.new_ve.tolist(), strict=True)
        payloads = self.payload.iter_rows(named=True) if self.payload.width else _nothing(self.rows)
        for position, ((vs, old_ve, new_ve), payload) in enumerate(zip(times, payloads, strict=True)):
            while placed is not None and placed.position == position:
                yield placed.control
                placed = next(controls, None)
            is_insert = old_ve == vs
            yield Insert(vs, new_ve, payload) if is_insert else Adjust(vs, old_ve, new_ve, payload)
        while placed is not None:
            yield placed.control
            placed = next(controls, None)

    def where(self, mask: npt.NDArray[np.bool_]) -> Batch:
        """The rows that satisfy the mask. Control elements keep their place among them."""
        if mask.all():
            return self
        controls = self.controls
        if controls:
            before = np.concatenate(([0], np.cumsum(mask)))
            controls = tuple(p.control.thinned(p.position, before) for p in controls)
        rows = np.flatnonzero(mask)
        chosen = column_of("", mask)
        columns = [column.filter(chosen) for column in self.payload.get_columns()]
        payload = framed(columns, len(rows))
        vs = self.vs[rows]
        old_ve = vs if self.only_inserts else self.old_ve[rows]
        return Batch(vs, old_ve, self.new_ve[rows], payload, controls)

    def take(self, rows: npt.NDArray[np.int64]) -> Batch:
        """These data rows, in that order, without control elements."""
        vs = self.vs[rows]
        old_ve = vs if self.only_inserts else self.old_ve[rows]
        return Batch(vs, old_ve, self.new_ve[rows], taken(self.payload, rows))

    def slice(self, start: int, stop: int) -> Batch:
        """The data rows from start to stop, without control elements."""
        payload = self.payload.slice(start, max(0, stop - start))
        vs = self.vs[start:stop]
        old_ve = vs if self.only_inserts else self.old_ve[start:stop]
        return Batch(vs, old_ve, self.new_ve[start:stop], payload)

    def checked(self) -> Batch:
        """The batch, if every row is one that an element could be; for batches made by hand."""
        lengths = {len(self.vs), len(self.old_ve), len(self.new_ve), self.payload.height}
        if len(lengths) > 1:
            raise InvalidElement("the columns of a batch have different lengths", detail=f"{lengths}")
        nothing = (self.old_ve == self.vs) & (self.new_ve == self.vs)
        wrong = np.flatnonzero((self.old_ve < self.vs) | (self.new_ve < self.vs) | nothing)
        if len(wrong):
            row = int(wrong[0])
            times = ", ".join(show(int(c[row])) for c in (self.vs, self.old_ve, self.new_ve))
            raise InvalidElement(
                f"an event must end after it starts: row {row} has (vs, old_ve, new_ve) = ({times})",
                detail=f"payload: {self.payload.row(row, named=True) if self.payload.width else {}}",
                hint="a lifetime is [vs, ve) with vs < ve; an insert has old_ve = vs",
            )
        return self

    def data(self) -> Batch:
        """The same rows without control elements."""
        return Batch(self.vs, self.old_ve, self.new_ve, self.payload) if self.controls else self

    def followed_by(self, controls: Iterable[Control]) -> Batch:
        """The same rows with these control elements after all of them, replacing its own."""
        placed = tuple([Placed(self.rows, control) for control in controls])
        if not placed and not self.controls:
            return self
        return Batch(self.vs, self.old_ve, self.new_ve, self.payload, placed)

    def split(self, size: int) -> Iterator[Batch]:
        """Consecutive batches of at most `size` elements, control elements counted.

        One that stands for many is one, and is cut where the rows are.
        """
        places = np.array([p.position for p in self.controls], dtype=np.int64)
        # element i is a control exactly when i is one of these
        control_index = places + np.arange(len(places))
        rest: list[Placed] = []
        for start in range(0, len(self), size):
            stop = min(start + size, len(self))
            first, last = np.searchsorted(control_index, (start, stop)).tolist()
            row_start, row_stop = start - first, stop - last
            controls: list[Placed] = []
            later: list[Placed] = []
            for placed in [*rest, *self.controls[first:last]]:
                here, *there = placed.control.cut(placed.position, row_stop)
                controls.append(Placed(here.position - row_start, here.control))
                later += there
            rest = later
            yield replace(self.slice(row_start, row_stop), controls=tuple(controls))

    @staticmethod
    def concat(batches: Sequence[Batch]) -> Batch:
        """One batch with the elements of all of them, in order."""
        first, *rest = batches
        if not rest:
            return first
        controls: list[Placed] = []
        offset = 0
        for batch in batches:
            controls += (Placed(offset + p.position, p.control) for p in batch.controls)
            offset += batch.rows
        # batches that only carry promises are many, on loops above all
        full = [batch for batch in batches if batch.rows] or [first]
        if len(full) == 1:
            [only] = full
            return Batch(only.vs, only.old_ve, only.new_ve, only.payload, tuple(controls))
        vs = np.concatenate([b.vs for b in full])
        only_inserts = all(b.only_inserts for b in full)
        return Batch(
            vs,
            vs if only_inserts else np.concatenate([b.old_ve for b in full]),
            np.concatenate([b.new_ve for b in full]),
            stacked([b.payload for b in full]),
            tuple(controls),
        )


def _position(placed: Placed) -> int:
    return placed.position


@lru_cache(maxsize=256)
def _no_elements(columns: tuple[tuple[str, pl.DataType], ...]) -> Batch:
    none = np.empty(0, dtype=np.int64)
    return Batch(none, none, none, pl.DataFrame(schema=dict(columns)))


def _nothing(rows: int) -> Iterator[Payload]:
    return ({} for _ in range(rows))


Stream: TypeAlias = Batch | Iterable[Element]
"""A physical stream, or a part of one: columns, or elements one by one."""
