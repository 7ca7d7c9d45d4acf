"""Labels: the values of one column as integers that compare as the values do.

Two values have one label exactly when they are the same (NaN = NaN, -0.0 = 0.0). Where a type fits 64
bits its labels are the values themselves, in a form whose order is that of integers: numbers, booleans,
times, decimals of 18 digits. Values of other types (strings, bytes, wide decimals, lists, structs) are
numbered as they come, and `order` has a *rank* for each number: strings by code point, whatever their
type, NaN above all numbers, nulls inside a list or a struct first.

Ranks are given once and leave gaps. A new value gets one between those of its neighbours, which are
searched in a few sorted runs, each at least 16 times as long as the next. Where no gap is left, and when
all runs have become one, ranks are dealt out anew, in the same order. So a new value costs O(log n) in
the mean, and a known one nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl

from slackwater.columns import column_of
from slackwater.kernels.grouping import Keys

__all__ = ["Labels"]

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_COLUMN = "value"
_SIGN = np.int64(-(2**63))
_ALL_BUT_SIGN = np.int64(2**63 - 1)
_LEAST_RUN = 4096
_RATIO = 16
_FEW = 4
_NONE = -1
# Ranks lie between -END and END.
_END = 2**61
_SMALL_GAP = 2**20


@dataclass(slots=True)
class Labels:
    """The labels of a column's values; of numbered ones, the values by number and their order."""

    dtype: pl.DataType
    keys: Keys = field(init=False)
    ranks: Ints = field(init=False)
    """of numbers 0.. ; there is room for more"""
    ranked: int = 0
    """how many numbers have a rank: the others get one when it is asked for"""
    step: int = _SMALL_GAP
    """the distance of ranks that were dealt out last"""
    runs: list[tuple[pl.Series, Ints]] = field(default_factory=list)
    """the values that have a rank, sorted, and their numbers; each run is longer than the next"""

    def __post_init__(self) -> None:
        self.keys = Keys(pl.Schema({_COLUMN: self.dtype}))
        self.ranks = np.zeros(0, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def is_numbered(self) -> bool:
        """Whether labels are numbers of values that are remembered."""
        dtype = self.dtype
        if isinstance(dtype, pl.Decimal):
            return dtype.precision > 18
        if dtype.is_integer():
            return dtype in (pl.Int128, pl.UInt128)
        return not (dtype.is_float() or dtype.is_temporal() or dtype == pl.Boolean)

    def encode(self, values: pl.Series) -> Ints:
        """A label for each value; none of them is null."""
        assert values.dtype == self.dtype, f"{values.dtype} is not {self.dtype}"
        assert not values.null_count(), "null has no label"
        if self.is_numbered:
            return self.keys.number(values.to_frame(_COLUMN))
        if self.dtype.is_float():
            return _encode_floats(values.cast(pl.Float64).to_numpy())
        if self.dtype == pl.UInt64:
            return values.to_numpy().view(np.int64) ^ _SIGN
        if self.dtype == pl.Int64:
            return values.to_numpy(writable=True)
        return values.to_physical().cast(pl.Int64).to_numpy(writable=True)

    def decode(self, labels: Ints) -> pl.Series:
        """The values again."""
        if self.is_numbered:
            return self.keys.take(labels).to_series()
        if self.dtype.is_float():
            floats = column_of(_COLUMN, _decode_floats(labels))
            return floats if self.dtype == pl.Float64 else floats.cast(self.dtype)
        if self.dtype == pl.UInt64:
            return pl.Series(_COLUMN, (labels ^ _SIGN).view(np.uint64))
        column = column_of(_COLUMN, labels)
        if self.dtype == pl.Int64:
            return column
        if isinstance(self.dtype, pl.Decimal):
            return column.cast(pl.Int128).reinterpret(dtype=self.dtype)
        return column.cast(pl.Int32).cast(pl.Date) if self.dtype == pl.Date else column.cast(self.dtype)

    def keep(self, alive: Mask) -> Ints:
        """Forget the values that are not alive: the new number of each old one, or -1; order is kept."""
        assert self.is_numbered, "labels that are values need not be forgotten"
        renumbered = self.keys.keep(alive)
        self.ranks = self.ranks[: self.ranked][alive[: self.ranked]]
        self.ranked = len(self.ranks)
        filtered = (
            (values.filter(alive[numbers]), renumbered[numbers[alive[numbers]]])
            for values, numbers in self.runs
        )
        self.runs = [run for run in filtered if len(run[0])]
        self._tidy()
        return renumbered

    @property
    def order(self) -> Ints:
        """The rank of each number; empty if labels compare as they are."""
        if self.is_numbered and self.ranked < len(self.keys):
            self._rank()
        return self.ranks[: self.ranked]

    def _rank(self) -> None:
        """Give ranks to the values that came since ranks were last asked for."""
        numbers = np.arange(self.ranked, len(self.keys))
        values = _comparable(self.keys.take(numbers).to_series())
        if len(numbers) > 1:
            sorting = values.arg_sort().to_numpy()
            values, numbers = values[sorting], numbers[sorting]
        below, above = self._neighbours(values)
        ranks = self._between(below, above)
        if ranks is None:
            self._merge(len(self.runs))
            self._deal(len(self.keys))
            ranks = self._between(below, above)
            assert ranks is not None, "ranks that were just dealt out leave room"
        if len(self.keys) > len(self.ranks):
            more = max(len(self.keys), 2 * len(self.ranks)) - len(self.ranks)
            self.ranks = np.concatenate([self.ranks, np.zeros(more, dtype=np.int64)])
        self.ranks[numbers] = ranks
        self.ranked = len(self.keys)
        self.runs.append((values, numbers))
        self._tidy()

    def _neighbours(self, values: pl.Series) -> tuple[Ints, Ints]:
        """Of each new value, the numbers of those next below and above that have a rank; -1 if none."""
        below, above = np.full((2, len(values)), _NONE)
        for at, (run, numbers) in zip(self._places(values), self.runs, strict=True):
            here = np.where(at > 0, numbers[np.maximum(at - 1, 0)], _NONE)
            below = np.where(self._ranks(here, -_END) > self._ranks(below, -_END), here, below)
            here = np.where(at < len(run), numbers[np.minimum(at, len(run) - 1)], _NONE)
            above = np.where(self._ranks(here, _END) < self._ranks(above, _END), here, above)
        return below, above

    def _places(self, values: pl.Series) -> list[Ints]:
        """Where the values belong in each run."""
        if len(values) <= _FEW and values.dtype in (pl.String, pl.Binary):
            # a call of Polars costs more than a search
            wanted = values.to_list()
            return [np.array([bisect_left(run, value) for value in wanted]) for run, _ in self.runs]
        found = (run.search_sorted(values) for run, _ in self.runs)
        return [at.to_numpy().astype(np.int64) for at in found]

    def _ranks(self, numbers: Ints, if_none: int) -> Ints:
        return np.where(numbers == _NONE, if_none, self.ranks[numbers] if self.ranked else if_none)

    def _between(self, below: Ints, above: Ints) -> Ints | None:
        """Ranks for sorted values with these neighbours; None if they do not fit into a gap."""
        low, high = self._ranks(below, -_END), self._ranks(above, _END)
        first = np.flatnonzero(np.concatenate([[True], low[1:] != low[:-1]]))
        sizes = np.diff(np.concatenate([first, [len(low)]]))
        place, size = np.arange(len(low)) - np.repeat(first, sizes), np.repeat(sizes, sizes)
        widest = (high - low) // (size + 1)
        at_end = (below == _NONE) | (above == _NONE)
        # Values often come in order. Then the next ones belong between the last one and its neighbour,
        # again and again: they are put beside the newer of the two, and most of the gap is left.
        beside = np.clip((high - low) // (8 * size), 1, _SMALL_GAP)
        unit = np.minimum(widest, np.where(at_end, self.step, beside))
        if unit.min() == 0:
            return None
        ranks: Ints = np.where(below > above, low + unit * (place + 1), high - unit * (size - place))
        return ranks

    def _deal(self, values: int) -> None:
        """Give new ranks to the only run, such that there is room for so many values at either end."""
        self.step = _END // 2 // (values + 1)
        for _, numbers in self.runs:
            self.ranks[numbers] = (np.arange(len(numbers)) - len(numbers) // 2) * self.step

    def _tidy(self) -> None:
        """Merge the last runs until each is long enough."""
        together, size = 0, 0
        for values, _ in reversed(self.runs):
            if size and len(values) >= max(_LEAST_RUN, _RATIO * size):
                break
            together, size = together + 1, size + len(values)
        self._merge(together)
        if len(self.runs) == 1:
            self._deal(len(self.keys))

    def _merge(self, last: int) -> None:
        """Make the last runs one."""
        if last < 2:
            return
        numbers = np.concatenate([numbers for _, numbers in self.runs[-last:]])
        values = pl.concat([values for values, _ in self.runs[-last:]], rechunk=True)
        # a stable sort merges what is sorted piece by piece
        sorting = np.argsort(self.ranks[numbers], kind="stable")
        self.runs[-last:] = [(values[sorting], numbers[sorting])]


def _comparable(values: pl.Series) -> pl.Series:
    """In a type that Polars sorts as we do."""
    by_text = isinstance(values.dtype, pl.Categorical | pl.Enum)
    return values.cast(pl.String) if by_text else values


def _encode_floats(values: npt.NDArray[np.float64]) -> Ints:
    """The bits of a float are ordered like an integer's if the negative ones are turned round."""
    # one zero, one NaN
    bits = (np.where(np.isnan(values), np.nan, values) + 0.0).view(np.int64)
    return np.where(bits < 0, bits ^ _ALL_BUT_SIGN, bits)


def _decode_floats(labels: Ints) -> npt.NDArray[np.float64]:
    return np.where(labels < 0, labels ^ _ALL_BUT_SIGN, labels).view(np.float64)
