"""Combined rows: what an aggregate of sums has to know of many events that begin and end together.

    (vs, ve, keys, how many they are, what they add to each sum)

All of these are integers that are added anyway (sums.py), so it makes no difference where: the answer is
the same to the last bit. Only events that are never taken back are combined: nobody could say of a sum
which of its events it is.

Combined rows are a batch like others. Besides the keys they have a column for the number of events, and
one for each sum that is not zero, named by its slot.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from slackwater.events import Batch
from slackwater.kernels import combining
from slackwater.kernels.grouping import Keys
from slackwater.operators.sums import Sums, Weight

__all__ = ["Combined", "Weighed", "together", "weighed"]

kernel: Any = combining
"""compiled functions, which mypy cannot follow"""

Ints = npt.NDArray[np.int64]

_EVENTS = "\0events"
_SLOT = "\0slot "
_ALL = slice(None)


class Weighed(NamedTuple):
    """Combined rows as an aggregate takes them in."""

    events: Ints
    weights: list[Weight]


class Combined:
    """Adds up inserts by start, end and keys, one batch after the other.

    It remembers nothing of them but what numbers their keys have, and its room to work in.
    """

    def __init__(self, keys: pl.Schema, sums: Sums) -> None:
        self._keys, self._sums = Keys(keys), sums
        self._slots = np.empty(0, dtype=np.int32)

    def of(self, rows: Batch) -> Batch:
        """The rows of one batch, combined."""
        keys, sums = self._keys, self._sums
        number = keys.number(rows.payload)
        layout = sums.open()
        weights = sums.lay(layout, sums.weigh(rows.payload), rows.rows)
        if len(self._slots) < 2 * rows.rows:
            self._slots = np.full(1 << max(6, (2 * rows.rows - 1).bit_length()), -1, dtype=np.int32)
        times = map(_writable, (rows.vs, rows.new_ve))
        first, totals = kernel.add_up(number, *times, weights, self._slots)
        columns = keys.take(number[first]).get_columns() if keys.schema else []
        columns.append(pl.Series(_EVENTS, np.ascontiguousarray(totals[:, 0])))
        for slot in np.flatnonzero(layout.columns >= 0).tolist():
            values = np.ascontiguousarray(totals[:, layout.columns[slot]])
            columns.append(pl.Series(f"{_SLOT}{slot}", values))
        return Batch.inserts(rows.vs[first], rows.new_ve[first], pl.DataFrame(columns))


def together(batches: Sequence[Batch]) -> Batch:
    """Several as one: a sum that one of them has no column for is zero there."""
    names = dict.fromkeys(name for batch in batches for name in batch.schema)
    filled = [
        replace(
            batch,
            payload=pl.DataFrame(
                [
                    batch.payload.get_column(name)
                    if name in batch.schema
                    else pl.Series(name, np.zeros(batch.rows, dtype=np.int64))
                    for name in names
                ]
            ),
        )
        for batch in batches
    ]
    return Batch.concat(filled)


def weighed(rows: Batch) -> Weighed:
    """What combined rows add."""
    return Weighed(rows.payload.get_column(_EVENTS).to_numpy(), list(_weights(rows.payload)))


def _weights(payload: pl.DataFrame) -> Iterator[Weight]:
    for column in payload.get_columns():
        if column.name.startswith(_SLOT):
            yield Weight(_ALL, int(column.name.removeprefix(_SLOT)), column.to_numpy())


def _writable(column: Ints) -> Ints:
    # compiled kernels tell the two apart
    return np.require(column, requirements=["C", "W"])
