"""Sums: aggregations that follow from adding and taking away, one event at a time.

Each aggregation is turned into weights that an event carries (so many integers, so many floats) and a
result computed from the sums of those weights over the events that are alive. Count, sum, avg, var and
stddev are of this kind; NaN and the infinities are counted apart, so that they can leave a sum again.
Integers are summed in two halves, which cannot overflow: a total that does not fit is an error where it
would be shown, and none where it is only passed through.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from slackwater.errors import OperatorError
from slackwater.kernels import precise
from slackwater.plan import aggregations as agg
from slackwater.plan.evaluation import Formula
from slackwater.plan.expressions import type_of

__all__ = ["DoesNotFit", "Sums", "is_linear"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

_HALF = 32
"""bits of the lower half of an integer"""

_LINEAR = (agg.Count, agg.Sum, agg.Avg, agg.Var, agg.Stddev)


def is_linear(aggregation: agg.Aggregation) -> bool:
    """Whether it is computed from sums."""
    return isinstance(aggregation, _LINEAR)


@dataclass(frozen=True, slots=True)
class _Column:
    """One aggregation: which weights an event carries for it, and the result from their sums."""

    ints: int
    pairs: int
    weigh: Callable[[pl.DataFrame], tuple[list[Ints], list[precise.Pair]]]
    result: Callable[[Sequence[Ints], Sequence[precise.Pair]], pl.Series]


class DoesNotFit(Exception):
    """A result that its type cannot hold: which row, and what is wrong."""

    def __init__(self, row: int, fact: str) -> None:
        super().__init__(fact)
        self.row = row
        self.fact = fact


class Sums:
    """Several aggregations over one input: their weights side by side, the number of events first."""

    def __init__(
        self, aggregations: Mapping[str, agg.Aggregation], schema: pl.Schema, result: pl.Schema
    ) -> None:
        self._columns = {
            name: _column(name, aggregation, schema, result[name])
            for name, aggregation in aggregations.items()
        }
        self.width = 1 + sum(column.ints for column in self._columns.values())
        self.fwidth = 2 * sum(column.pairs for column in self._columns.values())

    def weights(self, payload: pl.DataFrame) -> tuple[Ints, Floats]:
        """What each row adds to the sums while it is alive."""
        ints = np.empty((payload.height, self.width), dtype=np.int64)
        floats = np.empty((payload.height, self.fwidth), dtype=np.float64)
        ints[:, 0] = 1
        i, f = 1, 0
        for column in self._columns.values():
            own_ints, own_pairs = column.weigh(payload)
            for values in own_ints:
                ints[:, i] = values
                i += 1
            for high, low in own_pairs:
                floats[:, f], floats[:, f + 1] = high, low
                f += 2
        return ints, floats

    def results(self, ints: Ints, floats: Floats) -> dict[str, pl.Series]:
        """The value of each aggregation, for each row of sums."""
        series = {}
        i, f = 1, 0
        for name, column in self._columns.items():
            own = [ints[:, i + n] for n in range(column.ints)]
            pairs = [(floats[:, f + 2 * n], floats[:, f + 2 * n + 1]) for n in range(column.pairs)]
            if column.ints == 0:
                own = [ints[:, 0]]
            series[name] = column.result(own, pairs).alias(name)
            i += column.ints
            f += 2 * column.pairs
        return series


def _column(name: str, aggregation: agg.Aggregation, schema: pl.Schema, result: pl.DataType) -> _Column:
    who = f"aggregate {name}"
    condition = None if aggregation.where is None else Formula(aggregation.where, schema, who)
    formulas = [Formula(value, schema, who) for value in aggregation.values]

    def passing(payload: pl.DataFrame) -> Mask:
        if condition is None:
            return np.ones(payload.height, dtype=np.bool_)
        return condition.values(payload).fill_null(value=False).to_numpy()

    def values(payload: pl.DataFrame) -> tuple[pl.Series, Mask]:
        series = formulas[0].values(payload)
        present = passing(payload)
        return series, present & series.is_not_null().to_numpy() if series.null_count() else present

    if isinstance(aggregation, agg.Count):
        if not aggregation.values and aggregation.where is None:
            return _Column(0, 0, lambda payload: ([], []), lambda ints, _: pl.Series(ints[0]))
        present = (lambda p: values(p)[1]) if aggregation.values else passing
        return _Column(
            1, 0, lambda p: ([present(p).astype(np.int64)], []), lambda ints, _: pl.Series(ints[0])
        )
    dtype = type_of(aggregation.values[0], schema, who)
    if isinstance(aggregation, agg.Var | agg.Stddev):
        is_root = isinstance(aggregation, agg.Stddev)
        return _Column(
            2, 2, lambda p: _square_weights(*values(p)), lambda i, f: _variance(i, f, is_root=is_root)
        )
    is_mean = isinstance(aggregation, agg.Avg)
    if dtype.is_float():
        return _Column(
            4, 1, lambda p: _float_weights(*values(p)), lambda i, f: _float_sum(i, f, is_mean)
        )
    scale = dtype.scale if isinstance(dtype, pl.Decimal) else 0
    return _Column(
        3,
        0,
        lambda p: _int_weights(who, *values(p)),
        lambda ints, _: _int_mean(ints, scale) if is_mean else _int_sum(who, ints, result),
    )


def _int_weights(who: str, series: pl.Series, present: Mask) -> tuple[list[Ints], list[precise.Pair]]:
    physical = series.to_physical()
    try:
        if physical.dtype != pl.Int64:
            physical = physical.cast(pl.Int64)
        numbers = (physical.fill_null(0) if physical.null_count() else physical).to_numpy()
    except pl.exceptions.InvalidOperationError as problem:
        raise OperatorError(
            f"{who}: a value does not fit 64 bits", detail=str(problem).splitlines()[0]
        ) from problem
    numbers = np.where(present, numbers, 0)
    return [present.astype(np.int64), numbers >> _HALF, numbers & (2**_HALF - 1)], []


def _int_sum(who: str, ints: Sequence[Ints], result: pl.DataType) -> pl.Series:
    count, high, low = ints
    high = high + (low >> _HALF)
    fits = (high >= -(2**31)) & (high < 2**31)
    if not fits.all():
        at = int(np.argmin(fits))
        total = (int(high[at]) << _HALF) + (int(low[at]) & (2**_HALF - 1))
        raise DoesNotFit(at, f"{who}: the sum {total} does not fit 64 bits")
    sums = pl.Series((high << _HALF) | (low & (2**_HALF - 1)))
    if isinstance(result, pl.Decimal):
        sums = sums.cast(pl.Decimal(38, 0)) / pl.Series([10**result.scale]).cast(pl.Decimal(38, 0))
        sums = sums.cast(result)
    elif result != pl.Int64:
        sums = sums.cast(result)
    return _null_without(sums, count)


def _null_without(values: pl.Series, count: Ints) -> pl.Series:
    """Null where there is nothing to have a value of."""
    return values if count.all() else values.set(pl.Series(count == 0), None)


def _int_mean(ints: Sequence[Ints], scale: int) -> pl.Series:
    count, high, low = ints
    some = np.maximum(count, 1).astype(np.float64)
    (upper, lower), (minus_upper, minus_lower) = precise.from_ints(high), precise.from_ints(-low)
    shift = 2.0**_HALF
    total = precise.subtract((upper * shift, lower * shift), (minus_upper, minus_lower))
    mean = precise.rounded(precise.divide(total, some * 10.0**scale))
    return _null_without(pl.Series(mean), count)


def _float_weights(series: pl.Series, present: Mask) -> tuple[list[Ints], list[precise.Pair]]:
    numbers = series.cast(pl.Float64).fill_null(0.0).to_numpy()
    finite = present & np.isfinite(numbers)
    odd = [present & np.isnan(numbers), present & np.isposinf(numbers), present & np.isneginf(numbers)]
    value = np.where(finite, numbers, 0.0)
    counts = [present.astype(np.int64), *(mask.astype(np.int64) for mask in odd)]
    return counts, [(value, np.zeros_like(value))]


def _float_sum(ints: Sequence[Ints], pairs: Sequence[precise.Pair], is_mean: bool) -> pl.Series:
    count, nan, plus, minus = ints
    [pair] = pairs
    if is_mean:
        pair = precise.divide(pair, np.maximum(count, 1).astype(np.float64))
    value = precise.rounded(pair)
    value = np.where(plus > 0, np.inf, np.where(minus > 0, -np.inf, value))
    value = np.where((nan > 0) | ((plus > 0) & (minus > 0)), np.nan, value)
    return _null_without(pl.Series(value), count)


def _square_weights(series: pl.Series, present: Mask) -> tuple[list[Ints], list[precise.Pair]]:
    if series.dtype.is_integer():
        numbers = precise.from_ints(np.where(present, series.cast(pl.Int64).fill_null(0).to_numpy(), 0))
        finite = present
    else:
        floats = series.cast(pl.Float64).fill_null(0.0).to_numpy()
        finite = present & np.isfinite(floats)
        numbers = np.where(finite, floats, 0.0), np.zeros(len(floats))
    odd = present & ~finite
    return [present.astype(np.int64), odd.astype(np.int64)], [
        numbers,
        precise.multiply(numbers, numbers),
    ]


def _variance(ints: Sequence[Ints], pairs: Sequence[precise.Pair], *, is_root: bool) -> pl.Series:
    count, odd = ints
    total, squares = pairs
    size = np.maximum(count, 2).astype(np.float64)
    mean_square = precise.divide(precise.multiply(total, total), size)
    value = precise.rounded(precise.divide(precise.subtract(squares, mean_square), size - 1.0))
    value = np.maximum(value, 0.0)
    value = np.where(odd > 0, np.nan, np.sqrt(value) if is_root else value)
    return pl.Series(value).set(pl.Series(count < 2), None)
