"""Payloads: rows in an append-only store, referred to by number.

Columns of numbers and times are NumPy arrays with room for more: to add and to gather costs what is
moved. The other columns lie in a frame of few chunks (kernels/chunks.py).

Values come out as they went in, bit for bit; they are compared by identity (null = null, NaN = NaN).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from slackwater.columns import blank, column_of, framed, some_columns, taken
from slackwater.identity import same
from slackwater.kernels.chunks import Chunks

__all__ = ["Payloads"]

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(slots=True)
class Column:
    """Values of a fixed width, and which of them are null if any are."""

    dtype: pl.DataType
    values: npt.NDArray[Any] = field(init=False)
    null: Mask | None = None

    def __post_init__(self) -> None:
        self.values = pl.Series([], dtype=self.dtype).to_physical().to_numpy(writable=True)

    def append(self, column: pl.Series, places: Ints, before: int) -> None:
        values, null = _parts(column)
        after = before + len(places)
        if after > len(self.values):
            self.values = _grown(self.values, before, after)
        self.values[before:after] = values if len(places) == len(values) else values[places]
        if null is None and self.null is None:
            return
        if self.null is None:
            self.null = np.zeros(len(self.values), dtype=np.bool_)
        elif after > len(self.null):
            self.null = _grown(self.null, before, len(self.values))
        self.null[before:after] = False if null is None else null[places]

    def take(self, name: str, numbers: Ints) -> pl.Series:
        column = column_of(name, self.values[numbers])
        if column.dtype != self.dtype:
            column = column.cast(self.dtype)
        return column if self.null is None else column.set(column_of("", self.null[numbers]), None)

    def are(self, numbers: Ints, column: pl.Series, places: Ints) -> bool:
        values, null = _parts(column)
        mine, theirs = self.values[numbers], values[places]
        same = mine == theirs
        if self.dtype.is_float():
            same |= (mine != mine) & (theirs != theirs)  # noqa: PLR0124  NaN
        if self.null is not None or null is not None:
            none = np.zeros(len(numbers), dtype=np.bool_)
            is_null = none if self.null is None else self.null[numbers]
            should_be = none if null is None else null[places]
            same = np.where(is_null | should_be, is_null & should_be, same)
        return bool(same.all())

    def keep(self, alive: Mask) -> None:
        """Only these, in place."""
        kept = self.values[: len(alive)][alive]
        self.values[: len(kept)] = kept
        if self.null is not None:
            self.null[: len(kept)] = self.null[: len(alive)][alive]


@dataclass(slots=True)
class Payloads:
    """Rows that are referred to by number, in order of arrival."""

    schema: pl.Schema
    height: int = 0
    columns: dict[str, Column] = field(init=False)
    others: list[str] = field(init=False)
    rest: Chunks = field(init=False)
    """the other columns"""

    def __post_init__(self) -> None:
        self.columns = {name: Column(dtype) for name, dtype in self.schema.items() if _is_fixed(dtype)}
        self.others = [name for name in self.schema if name not in self.columns]
        self.rest = Chunks(pl.Schema({name: self.schema[name] for name in self.others}))

    def append(self, frame: pl.DataFrame, places: Ints) -> None:
        """The rows of the frame at these places, which ascend, get the next numbers.

        Columns that are not in the schema are left out.
        """
        before, self.height = self.height, self.height + len(places)
        for name, column in self.columns.items():
            column.append(frame.get_column(name), places, before)
        if self.others:
            some = some_columns(frame, self.others)
            self.rest.append(some if len(places) == some.height else taken(some, places))

    def take(self, numbers: Ints, names: Sequence[str] | None = None) -> pl.DataFrame:
        """The rows with these numbers; of these columns, if not of all."""
        wanted = self.schema.names() if names is None else names
        if not wanted:
            return blank(len(numbers))
        others = [name for name in wanted if name not in self.columns]
        rest = self.rest.take(numbers, others) if others else self.rest.frame
        columns = [
            self.columns[name].take(name, numbers) if name in self.columns else rest.get_column(name)
            for name in wanted
        ]
        return framed(columns, len(numbers))

    def are(self, numbers: Ints, frame: pl.DataFrame, places: Ints, names: list[str]) -> bool:
        """Whether rows of the store and rows of the frame are the same in these columns."""
        others = [name for name in names if name not in self.columns]
        for name in names:
            if name in self.columns and not self.columns[name].are(
                numbers, frame.get_column(name), places
            ):
                return False
        if not others:
            return True
        mine, theirs = (
            taken(some_columns(self.rest.frame, others), numbers),
            taken(some_columns(frame, others), places),
        )
        return bool(same(mine, theirs).all())

    def keep(self, alive: Mask) -> None:
        """Forget the other rows; these are numbered from 0, in the same order."""
        self.height = int(np.count_nonzero(alive))
        for column in self.columns.values():
            column.keep(alive)
        if self.others:
            self.rest.keep(np.flatnonzero(alive))


def _is_fixed(dtype: pl.DataType) -> bool:
    if dtype in (pl.Int128, pl.UInt128):
        return False
    is_number = dtype.is_integer() or dtype in (pl.Float32, pl.Float64)
    return is_number or isinstance(dtype, pl.Date | pl.Datetime | pl.Duration | pl.Time)


def _parts(column: pl.Series) -> tuple[npt.NDArray[Any], Mask | None]:
    """The values, with anything in place of a null; and which are null, if any are."""
    if column.dtype.is_temporal():
        column = column.to_physical()
    if not column.null_count():
        return column.to_numpy(), None
    return column.fill_null(0).to_numpy(), column.is_null().to_numpy()


def _grown(values: npt.NDArray[Any], used: int, needed: int) -> npt.NDArray[Any]:
    """The same with room for so many at least, and as much again as there was."""
    more = np.zeros(max(needed, 2 * len(values)), dtype=values.dtype)
    more[:used] = values[:used]
    return more
