"""Sums: aggregations that follow from adding and taking away, one event at a time.

    result = f(number of events, sums of weights over the events that are alive)

Count, sum, avg, var and stddev are of this kind. All weights are integers: a number is added as the
pieces of which it consists (kernels/limbs.py); NaN, the infinities and what is missing are counted
apart. So every sum is exact, whatever came and went before. A result is rounded once (and stddev is
the root of a variance); it is an error only where it would be shown and does not fit its type.

A weight has a *slot*, and a slot has a column in the timelines from the first weight on that is not 0.
Most never get one: small integers need one limb, floats of similar size two or three. Which column a
slot has is state (`Layout`). Aggregations that read the same values share their slots.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from slackwater.columns import column_of, nulls_in, true_in
from slackwater.kernels import limbs
from slackwater.plan import aggregations as agg
from slackwater.plan.evaluation import Formula
from slackwater.plan.expressions import type_of

__all__ = ["DoesNotFit", "Layout", "Sums", "Weight", "is_linear"]

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_LINEAR = (agg.Count, agg.Sum, agg.Avg, agg.Var, agg.Stddev)
_ALL = slice(None)
# the first slots of what is read; then come limbs, and limbs of squares
_COUNTED, _NAN, _PLUS, _MINUS, _LIMBS = 0, 1, 2, 3, 4
_DIGITS = 38
"""of a decimal"""


def is_linear(aggregation: agg.Aggregation) -> bool:
    """Whether it is computed from sums."""
    return isinstance(aggregation, _LINEAR)


class DoesNotFit(Exception):
    """A result that its type cannot hold: which row, and what is wrong."""

    def __init__(self, row: int, fact: str) -> None:
        super().__init__(fact)
        self.row = row
        self.fact = fact


class Weight(NamedTuple):
    """What some rows add to a sum: one slot for all of them, or one for each."""

    rows: slice | Ints
    slots: int | Ints
    values: Ints


@dataclass(slots=True)
class Layout:
    """Which column of the timelines each slot has, -1 for none; the first is the number of events."""

    columns: Ints
    width: int = 1


class Sums:
    """Several aggregations over one input."""

    def __init__(
        self, aggregations: Mapping[str, agg.Aggregation], schema: pl.Schema, result: pl.Schema
    ) -> None:
        self._reads: list[_Read] = []
        self._columns: dict[str, _Column] = {}
        for name, aggregation in aggregations.items():
            who = f"aggregate {name}"
            read = next((read for read in self._reads if read.is_of(aggregation)), None)
            if read is None:
                read = _Read(who, aggregation, schema)
                self._reads.append(read)
            read.serve(aggregation)
            self._columns[name] = _Column(who, aggregation, result[name], read)
        self._slots = 0
        for read in self._reads:
            read.first = self._slots
            self._slots += read.slots
        self.follow_size = any(aggregation.where is None for aggregation in aggregations.values())
        """whether results may differ where only the number of events does"""

    def open(self) -> Layout:
        """No columns but the number of events."""
        return Layout(np.full(self._slots, -1, dtype=np.int64))

    def weigh(self, payload: pl.DataFrame) -> list[Weight]:
        """What the rows add to the sums while they are alive, as far as it is not zero."""
        return [weight for read in self._reads for weight in read.weigh(payload)]

    def lay(self, layout: Layout, weights: list[Weight], rows: int) -> Ints:
        """The weights of so many rows in columns; new ones are behind the others."""
        is_used = np.zeros(self._slots, dtype=np.bool_)
        for weight in weights:
            is_used[weight.slots] = True
        new = np.flatnonzero(is_used & (layout.columns < 0))
        if len(new):
            layout.columns[new] = layout.width + np.arange(len(new))
            layout.width += len(new)
        out = np.zeros((rows, layout.width), dtype=np.int64)
        out[:, 0] = 1
        for weight in weights:
            out[weight.rows, layout.columns[weight.slots]] = weight.values
        return out

    def results(self, layout: Layout, sums: Ints) -> dict[str, pl.Series]:
        """The value of each aggregation, for each row of sums."""
        sums = np.ascontiguousarray(sums)
        return {
            name: column.result(sums, layout.columns).alias(name)
            for name, column in self._columns.items()
        }


class _Read:
    """What is read of an event, a value if it passes a filter: which weights that gives."""

    def __init__(self, who: str, aggregation: agg.Aggregation, schema: pl.Schema) -> None:
        values, where = aggregation.values, aggregation.where
        self._expressions = [*values, where]
        self.dtype = type_of(values[0], schema, who) if values else pl.Null()
        self.value = Formula(values[0], schema, who) if values else None
        self.where = None if where is None else Formula(where, schema, who)
        self.limbs = self.squares = range(0)
        self.first = 0

    def is_of(self, aggregation: agg.Aggregation) -> bool:
        """Whether it is what that one reads."""
        others = [*aggregation.values, aggregation.where]
        return len(others) == len(self._expressions) and all(
            a is b or (a is not None and b is not None and a.meta.eq(b))
            for a, b in zip(self._expressions, others, strict=True)
        )

    def serve(self, aggregation: agg.Aggregation) -> None:
        """That one needs sums of it."""
        if not isinstance(aggregation, agg.Count):
            self.limbs = limbs.limbs_of(self.dtype)
        if isinstance(aggregation, agg.Var | agg.Stddev):
            self.squares = range(2 * self.limbs.start, 2 * self.limbs.stop)

    @property
    def slots(self) -> int:
        """How many weights there may be."""
        return _LIMBS + len(self.limbs) + len(self.squares)

    def weigh(self, payload: pl.DataFrame) -> Iterator[Weight]:
        """What the rows add, as far as it is not zero."""
        present = np.ones(payload.height, dtype=np.bool_)
        if self.where is not None:
            present = true_in(self.where.values(payload))
        values = None if self.value is None else self.value.values(payload)
        if values is not None and values.null_count():
            present = present & ~nulls_in(values)
        # without a filter, few are missing; with one, few may be there
        yield from self._counted(_COUNTED, ~present if self.where is None else present)
        if values is None or not self.limbs:
            return
        if values.dtype.is_float():
            known = values.cast(pl.Float64)
            floats = (known.fill_null(0.0) if known.null_count() else known).to_numpy()
            odd = present & ~np.isfinite(floats)
            if odd.any():
                yield from self._counted(_NAN, odd & np.isnan(floats))
                yield from self._counted(_PLUS, odd & (floats == np.inf))
                yield from self._counted(_MINUS, odd & (floats == -np.inf))
                present = present & ~odd
        numbers = limbs.split(values, present)
        yield from self._placed(_LIMBS - self.limbs.start, numbers)
        if self.squares:
            behind = _LIMBS + len(self.limbs)
            yield from self._placed(behind - self.squares.start, limbs.squared(numbers))

    def _counted(self, slot: int, which: Mask) -> Iterator[Weight]:
        if which.any():
            yield Weight(_ALL, self.first + slot, which.astype(np.int64))

    def _placed(self, origin: int, numbers: limbs.Numbers) -> Iterator[Weight]:
        """The pieces of numbers; limb 0 would have the slot `origin`."""
        for j, piece in enumerate(numbers.pieces):
            slot = self.first + origin + j
            if isinstance(numbers.lowest, int):
                if piece.any():
                    yield Weight(_ALL, slot + numbers.lowest, piece)
                continue
            rows = np.flatnonzero(piece)
            if len(rows):
                yield Weight(rows, slot + numbers.lowest[rows], piece[rows])


@dataclass(frozen=True)
class _Column:
    """One aggregation: the result from the sums of what it reads."""

    who: str
    kind: agg.Aggregation
    dtype: pl.DataType
    read: _Read

    def result(self, sums: Ints, columns: Ints) -> pl.Series:
        """The values that follow from rows of sums; `columns` says which column each slot has."""
        own = columns[self.read.first : self.read.first + self.read.slots]
        # sums that have always been zero
        zero = np.zeros(len(sums), dtype=np.int64)
        counted, nan, plus, minus = (sums[:, at] if at >= 0 else zero for at in own[:_LIMBS])
        count = sums[:, 0] - counted if self.read.where is None else counted
        if isinstance(self.kind, agg.Count):
            return column_of("", count)
        behind = _LIMBS + len(self.read.limbs)
        total = _present(sums, own[_LIMBS:behind], self.read.limbs)
        if isinstance(self.kind, agg.Sum) and not self.dtype.is_float():
            return _null_where(count == 0, self._integers(total))
        scale = self.read.dtype.scale if isinstance(self.read.dtype, pl.Decimal) else 0
        if isinstance(self.kind, agg.Var | agg.Stddev):
            squares = _present(sums, own[behind:], self.read.squares)
            value = limbs.variances(total, squares, count, scale)
            if isinstance(self.kind, agg.Stddev):
                value = np.sqrt(value)
            value = np.where(nan + plus + minus > 0, np.nan, value)
            return _null_where(count < 2, column_of("", value))
        divisors = np.maximum(count, 1) if isinstance(self.kind, agg.Avg) else np.ones_like(count)
        value = limbs.quotients(total, divisors, scale)
        value = np.where(plus > 0, np.inf, np.where(minus > 0, -np.inf, value))
        value = np.where((nan > 0) | ((plus > 0) & (minus > 0)), np.nan, value)
        return _null_where(count == 0, column_of("", value))

    def _integers(self, total: limbs.Limbs) -> pl.Series:
        dtype = self.dtype
        if not isinstance(dtype, pl.Decimal):
            words, fits = limbs.integers(total, 64)
            self._require_room(fits, total, "64 bits")
            sums = column_of("", words[:, 0].view(np.int64))
            return sums if dtype == pl.Int64 else sums.cast(dtype)
        words, fits = limbs.integers(total, 128)
        low, high = words.T.view(np.int64)
        if (high != low >> 63).any():
            # beyond 64 bits there may be too many digits
            fits &= np.array([abs(number) < 10**_DIGITS for number in limbs.whole(total)])
        self._require_room(fits, total, f"{_DIGITS} digits")
        kind = pa.decimal128(_DIGITS, dtype.scale)
        return pl.Series(pa.Array.from_buffers(kind, len(words), [None, pa.py_buffer(words)]))

    def _require_room(self, fits: Mask, total: limbs.Limbs, room: str) -> None:
        if not fits.all():
            at = int(np.argmin(fits))
            [number] = limbs.whole(total._replace(sums=total.sums[at : at + 1]))
            if isinstance(self.dtype, pl.Decimal):
                number //= 10**self.dtype.scale
            raise DoesNotFit(at, f"{self.who}: the sum {number} does not fit {room}")


def _present(sums: Ints, columns: Ints, numbers: range) -> limbs.Limbs:
    """The limbs that have columns."""
    there = np.flatnonzero(columns >= 0)
    return limbs.Limbs(sums, columns[there], numbers.start + there)


def _null_where(mask: Mask, values: pl.Series) -> pl.Series:
    """Null where there is nothing to have a value of."""
    return values.set(column_of("", mask), None) if mask.any() else values
