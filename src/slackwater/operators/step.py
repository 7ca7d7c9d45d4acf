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

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import polars as pl

from slackwater.errors import OperatorError
from slackwater.events import Batch
from slackwater.punctuations import Punctuation

__all__ = ["Answer", "Description", "GivenUp", "Now", "Step", "evaluate", "wall_clock"]

Now: TypeAlias = Callable[[], int]
"""tells system time, in chronons; injected, so that tests can move it"""


def wall_clock() -> int:
    """The clock of this machine, in microseconds."""
    return time.time_ns() // 1000


@dataclass(frozen=True, slots=True)
class GivenUp:
    """Rows that an operator could not use: the driver writes them into the ledger."""

    rows: Batch
    reason: str
    details: tuple[str, ...]
    """one for each row"""


@dataclass(frozen=True, slots=True)
class Answer:
    """What follows: the rows that are released, what may be promised after them, what is given up."""

    promises: tuple[Punctuation, ...] = ()
    rows: Batch | None = None
    given_up: GivenUp | None = None


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

    def on_batch(self, state: Any, port: int, rows: Batch) -> Batch | Answer:
        """Data rows in, data rows out; an answer if there is more to say than rows."""
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
