"""Chunks: rows of any types in an append-only frame, referred to by number.

The frame has few chunks, the later the smaller: to add a row copies little, and to take some looks into
few. For columns of fixed width an array with room for more is better (operators/payload_store.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl

from slackwater.columns import some_columns, taken, whole

__all__ = ["Chunks"]

_MOST_CHUNKS = 8
_WORTH = 16
"""so many rows are put into one chunk while one is taken from several"""


@dataclass(slots=True)
class Chunks:
    """Rows by number, in order of arrival."""

    schema: pl.Schema
    frame: pl.DataFrame = field(init=False)
    heights: list[int] = field(default_factory=list)
    """of its chunks"""

    def __post_init__(self) -> None:
        self.frame = pl.DataFrame(schema=self.schema)

    def __len__(self) -> int:
        return self.frame.height

    def append(self, rows: pl.DataFrame) -> None:
        """These get the next numbers."""
        if not rows.height:
            return
        before, last, heights = len(self), rows.height, self.heights
        while heights and (heights[-1] < 2 * last or len(heights) >= _MOST_CHUNKS):
            last += heights.pop()
        kept = before + rows.height - last
        rows = whole(self.frame.slice(kept).vstack(rows) if kept < before else rows)
        self.frame = self.frame.slice(0, kept).vstack(rows) if kept else rows
        heights.append(last)

    def take(self, numbers: npt.NDArray[np.int64], names: Sequence[str] | None = None) -> pl.DataFrame:
        """The rows with these numbers; of these columns, if not of all.

        Polars takes them from several chunks more than ten times as slowly as from one. Where many are
        taken, it costs less to make it one first.
        """
        if len(self.heights) > 1 and _WORTH * len(numbers) >= len(self):
            self.frame = whole(self.frame)
            self.heights = [len(self)]
        return taken(self.frame if names is None else some_columns(self.frame, names), numbers)

    def keep(self, kept: npt.NDArray[np.int64]) -> None:
        """Forget the others; these are numbered from 0, in this order."""
        self.frame = whole(taken(self.frame, kept))
        self.heights = [len(kept)] if len(kept) else []
