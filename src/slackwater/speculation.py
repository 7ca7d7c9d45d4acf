"""Speculation: how a loop finds out how far it has got.

On a loop every operator waits for itself, so that no promise ever gets round. The operator that closes
the loop (operators/fixpoint.py) therefore sends out a guess, a *speculative punctuation*, behind the
rows that it sends round. Operators on the loop pass it on as they would the cti, without acting on it.
When it is back, all rows have come by that were ahead of it, and what they say of the time before it
decides whether it was right: then it is *promoted* to a cti.

Three ways of guessing, as values:

HighWaterMark()   at the largest sync seen, plus one; it lodges at operators whose other inputs lag
Probing()         at the end of time; operators revise it down to what their other inputs have promised
Hybrid()          as Probing, but only if some input's promise (*external progress*) leaves something to
                  gain. The default

At most one guess is on its way at any time. Whether one sets out is asked whenever something new has
come: rows, or the promise of an input. What holds for all of them is in `Circulation`.

Paper 3 sections 3.4, 3.5 and 5.3, in our convention (erratum 23): cti(t) speaks of what is before t.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from slackwater.events import Control
from slackwater.times import BEGIN, INF, show

__all__ = [
    "Circulation",
    "ExternalPatterns",
    "ExternalProgress",
    "HighWaterMark",
    "Hybrid",
    "Probing",
    "Speculation",
    "Speculative",
]


@dataclass(frozen=True, slots=True, repr=False)
class Speculative(Control):
    """A guess on its way round a loop: that no element with a sync before this time follows it."""

    before: int
    lodges: bool = False
    """whether it waits where it cannot pass as it is; else it is revised"""

    def __repr__(self) -> str:
        return f"speculative({show(self.before)})"


@dataclass(frozen=True, slots=True, repr=False)
class ExternalProgress(Control):
    """What an input from outside the loop has promised, on its way to the operator that closes it."""

    origin: int
    """which of the loop's inputs"""
    before: int

    def __repr__(self) -> str:
        return f"external_progress({self.origin}, {show(self.before)})"


@dataclass(frozen=True, slots=True, repr=False)
class ExternalPatterns(Control):
    """What an input from outside has promised of payloads, on its way to who closes the loop.

    By the names that columns have where it is. It is a guess there, and nothing that holds.
    """

    told: tuple[Control, ...]

    def __repr__(self) -> str:
        return f"external_patterns({', '.join(map(repr, self.told))})"


@dataclass(slots=True)
class Circulation:
    """What is known where a loop is closed: of the rows that come by, of the inputs, of the guess."""

    external: list[int]
    """what each input of the loop has promised"""
    promised: int = BEGIN
    """what was promoted last"""
    highest: int = BEGIN
    """one more than the largest sync of all rows"""
    earliest: int = INF
    """the smallest sync of the rows that came since the guess set out"""
    flying: int | None = None
    """the guess that is on its way"""
    missed: int | None = None
    """the last guess, if rows contradicted it"""
    has_news: bool = False
    """whether anything has come since the last guess set out"""
    speculated: int = 0
    """how many guesses there were"""
    promoted: int = 0
    """how many ctis became of them"""

    @property
    def progress(self) -> int:
        """What all inputs have promised."""
        return min(self.external, default=INF)


@dataclass(frozen=True, slots=True)
class HighWaterMark:
    """Guess that all is done up to the latest row. After the inputs have ended: that all is done."""

    lodges: ClassVar[bool] = True
    always: ClassVar[bool] = False

    def guess(self, known: Circulation) -> int | None:
        """The time to guess at now; None if there is nothing to gain."""
        if known.missed is not None:
            return known.missed
        time = INF if known.progress == INF else known.highest
        return time if time > known.promised else None

    def proven(self, known: Circulation, back: int) -> int:
        """What a guess proves that is back: all of it, or nothing."""
        assert known.flying is not None
        return known.flying if known.earliest >= known.flying else BEGIN

    def __str__(self) -> str:
        return "high-water mark"


@dataclass(frozen=True, slots=True)
class Probing:
    """Guess that all is done, always, and see what is left of it."""

    lodges: ClassVar[bool] = False
    always: ClassVar[bool] = True
    """whether it also guesses when nothing has come"""

    def guess(self, known: Circulation) -> int | None:
        """The end of time, whatever is known."""
        return INF

    def proven(self, known: Circulation, back: int) -> int:
        """What is left of the guess, up to the earliest row that came meanwhile."""
        return min(back, known.earliest)

    def __str__(self) -> str:
        return "probing"


@dataclass(frozen=True, slots=True)
class Hybrid:
    """Guess that all is done if the inputs have promised more than was promoted so far."""

    lodges: ClassVar[bool] = False
    always: ClassVar[bool] = False

    def guess(self, known: Circulation) -> int | None:
        """The end of time, if there is something to gain."""
        return INF if known.progress > known.promised else None

    def proven(self, known: Circulation, back: int) -> int:
        """What is left of the guess, up to the earliest row that came meanwhile."""
        return min(back, known.earliest)

    def __str__(self) -> str:
        return "hybrid"


Speculation: TypeAlias = HighWaterMark | Probing | Hybrid
