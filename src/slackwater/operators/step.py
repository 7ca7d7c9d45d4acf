"""What an operator is: two questions, asked of every batch and of every promise.

The driver (the in-process runtime, later a Spark stage) hands an operator the data rows of a batch, then
the promise that came with them. For every promise the operator answers (paper 4): *pass*, what may be
emitted now; *keep*, what must still be remembered; *propagate*, what may be promised downstream. The
driver drops promises that say nothing new.

Contract:
1. A batch is atomic. The output after it depends on the input seen so far, not on how it was cut.
2. State belongs to the driver: `open` makes it, every call gets it, nothing is kept on the step.
3. Rows handed in are valid for their port; rows handed out are valid after everything handed out
   before, promises included. (The laws check this clause; it is too dear to check at run time.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import polars as pl

from slackwater.errors import OperatorError
from slackwater.events import Batch
from slackwater.punctuations import Punctuation

__all__ = ["Answer", "Description", "Step", "evaluate"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What follows from a promise: the rows that it releases, and what may be promised in turn."""

    promises: tuple[Punctuation, ...] = ()
    rows: Batch | None = None


@dataclass(frozen=True, slots=True)
class Description:
    """What an operator says of its state: for people, the dashboard and metrics alike."""

    state_rows: int = 0
    held_by: int | None = None
    """the port whose promise holds the operator's own promise back, if it has several ports"""


class Step(Protocol):
    """One operator of a running plan."""

    def open(self) -> Any:
        """Fresh state."""
        ...

    def on_batch(self, state: Any, port: int, rows: Batch) -> Batch:
        """Data rows in, data rows out."""
        ...

    def on_punctuation(self, state: Any, port: int, punctuation: Punctuation) -> Answer:
        """A promise in, what follows from it out."""
        ...

    def describe(self, state: Any) -> Description:
        """How its state stands."""
        ...


def evaluate(expression: pl.Expr, payload: pl.DataFrame, who: str) -> pl.Series:
    """One value per row; a row for which there is none is named."""
    try:
        return payload.with_columns(expression.alias("\0value"))["\0value"]
    except pl.exceptions.PolarsError as problem:
        raise _first_failure(expression, payload, who, problem) from problem


def _first_failure(
    expression: pl.Expr, payload: pl.DataFrame, who: str, problem: pl.exceptions.PolarsError
) -> OperatorError:
    for i in range(payload.height):
        row = payload.slice(i, 1)
        try:
            row.select(expression)
        except pl.exceptions.PolarsError as own_problem:
            return OperatorError(
                f"{who}: {expression} has no value for {row.row(0, named=True)}",
                detail=str(own_problem).splitlines()[0],
                hint="guard the expression with a where, or with strict=False in a cast",
            )
    return OperatorError(f"{who}: {expression} failed", detail=str(problem).splitlines()[0])
