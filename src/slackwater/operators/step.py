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
4. Where an expression has no value for some rows of the batch, `NoValue` comes before any change of
   state: the driver stops the query, or sets these rows aside and asks again without them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

from slackwater.consistency import Dial
from slackwater.errors import OperatorError
from slackwater.events import Batch
from slackwater.punctuations import ExternalCti, Promise, Punctuation, Reached
from slackwater.speculation import ExternalPatterns, ExternalProgress, Speculative
from slackwater.times import Times

__all__ = [
    "Answer",
    "Ask",
    "AskedStep",
    "ClosingStep",
    "CountingStep",
    "Description",
    "GivenUp",
    "Now",
    "PatternStep",
    "Step",
    "ToldStep",
    "TurnableStep",
    "wall_clock",
]

Now: TypeAlias = Callable[[], int]
"""tells system time, in chronons; injected, so that tests can move it"""
Ask: TypeAlias = Callable[[int, Promise], Times]
"""asks the input at a port up to when nothing with some payloads can come (asked.py)"""


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
    error: OperatorError | None = None
    """what stops a query that is not to go on without them"""


@dataclass(frozen=True, slots=True)
class Answer:
    """What follows: the rows that are released, what may be promised after them, what is given up."""

    promises: tuple[Promise, ...] = ()
    rows: Batch | None = None
    given_up: GivenUp | tuple[GivenUp, ...] | None = None
    """several where the reasons differ"""
    unwanted: tuple[tuple[int, Promise], ...] = ()
    """of which ports rows with which payloads are of no interest any more; whatever comes may be less"""
    outdated: tuple[tuple[int, int], ...] = ()
    """... and before which times events end that are of no interest any more"""
    back: Batch | None = None
    """what goes round again, if the operator closes a loop"""


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
        """A promise about time in, a cti, what follows from it out."""
        ...

    def describe(self, state: Any) -> Description:
        """How its state stands."""
        ...


@runtime_checkable
class PatternStep(Step, Protocol):
    """An operator that answers promises about any attribute. The others drop them, and say less."""

    def on_patterns(self, state: Any, port: int, told: Sequence[Promise]) -> Answer:
        """All promises in that came with one batch and are no ctis, what follows from them out."""
        ...


@runtime_checkable
class AskedStep(Step, Protocol):
    """An operator that may be on a loop: it can be asked what would be so."""

    def closed_until(self, state: Any, asked: Promise, ask: Ask) -> Times:
        """Up to when nothing with these payloads comes out, as far as inputs are closed (asked.py).

        One time for each question, or one for all. Nothing is changed.
        """
        ...


@runtime_checkable
class CountingStep(Step, Protocol):
    """An operator that makes promises of external ctis. The others pass them on."""

    def on_external_cti(self, state: Any, port: int, told: ExternalCti) -> Answer:
        """A count in, what follows from it out."""
        ...


@runtime_checkable
class ToldStep(Step, Protocol):
    """An operator that waits or forgets by how far the sources have come. The others pass that on."""

    def on_reached(self, state: Any, reached: Reached) -> Answer:
        """So far they have come; what follows from it out."""
        ...


@runtime_checkable
class ClosingStep(Step, Protocol):
    """An operator that closes a loop."""

    def on_wake(self, state: Any) -> None:
        """Something has come from outside."""
        ...

    def on_quiet(self, state: Any) -> Answer:
        """Nothing is on its way any more; what sets out then."""
        ...

    def on_speculative(self, state: Any, told: Speculative) -> Answer:
        """A guess is back, what follows from it out."""
        ...

    def on_external_progress(self, state: Any, told: ExternalProgress) -> Answer:
        """An input of the loop has promised something; what follows from it out."""
        ...

    def on_external_patterns(self, state: Any, told: ExternalPatterns) -> Answer:
        """An input of the loop has promised something of payloads."""
        ...

    def on_concluded(self, state: Any, told: Sequence[Promise]) -> None:
        """So much is promised of payloads of what comes out."""
        ...


@runtime_checkable
class TurnableStep(Step, Protocol):
    """An operator that the dial has placed."""

    def on_turn(self, state: Any, dial: Dial) -> Answer:
        """Wait and remember for so long from now on; what is released by that."""
        ...
