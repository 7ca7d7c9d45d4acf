"""The dial and the output latencies, as small value objects.

A query is run at a point of the consistency spectrum: *blocking* says how long an element may be held
back so that fewer results have to be taken back, *memory* how long the past is remembered so that
results can still be corrected. Blocking longer than one remembers makes no sense, hence the triangle
memory >= blocking. Turning the dial never changes what a query means, except for what a finite memory
gives up, and that is listed in the ledger.

Output latency is the other choice: how much of the open future a snapshot operator shows.

Paper 1a section 2.3 and 2.4, paper 1b section 1 (the spectrum).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import Literal

from slackwater.errors import PlanError
from slackwater.times import INF, Duration, duration, show_length

__all__ = [
    "EAGER",
    "MIDDLE",
    "ORDER_PRESERVING",
    "PERFECTNESS_PRESERVING",
    "STRONG",
    "ULTRA",
    "Clock",
    "Dial",
    "OutputLatency",
    "clock_of",
    "dial",
    "weak",
]


class Clock(enum.Enum):
    """What blocking and memory are measured in."""

    APPLICATION = "application"
    """behind the largest vs seen, per source partition"""
    SYSTEM = "system"
    """the clock of the machine, injected"""


@dataclass(frozen=True, slots=True)
class Dial:
    """One point of the spectrum.

    >>> print(Dial(), STRONG, weak("1 h"), sep="; ")
    middle; strong; blocking=0 memory=1 h
    """

    blocking: int = 0
    memory: int = INF
    clock: Clock = Clock.APPLICATION
    perfect: bool = False
    """hold an insert until its end is known too, so that nothing is ever taken back"""

    def __post_init__(self) -> None:
        if self.blocking < 0 or self.memory < 0:
            raise PlanError(
                "blocking and memory cannot be negative",
                detail=f"blocking={show_length(self.blocking)}, memory={show_length(self.memory)}",
            )
        if self.blocking > self.memory:
            raise PlanError(
                "blocking cannot be longer than memory",
                detail=f"blocking={show_length(self.blocking)}, memory={show_length(self.memory)}",
                hint="what is forgotten cannot be waited for: enlarge memory or shrink blocking",
            )

        if self.perfect and self.blocking < INF:
            raise PlanError(
                "nothing can be perfect that does not wait for the cti",
                detail=f"blocking={show_length(self.blocking)}",
                hint="leave blocking infinite, as sw.ULTRA does",
            )

    def turned(self, blocking: Duration | None = None, memory: Duration | None = None) -> Dial:
        """This dial with another blocking or memory.

        >>> print(weak("1 h").turned(blocking="5 s"))
        blocking=5 s memory=1 h
        """
        return replace(
            self,
            blocking=self.blocking if blocking is None else duration(blocking),
            memory=self.memory if memory is None else duration(memory),
        )

    def __str__(self) -> str:
        for name, point in LEVELS.items():
            if point == self:
                return name
        unit = " clock=system" if self.clock is Clock.SYSTEM else ""
        return f"blocking={show_length(self.blocking)} memory={show_length(self.memory)}{unit}"


MIDDLE = Dial()
"""Answer at once, correct for ever."""
STRONG = Dial(blocking=INF)
"""Wait for the cti, then release in sync order: output ordered."""
ULTRA = Dial(blocking=INF, perfect=True)
"""Wait until nothing can be taken back any more: output perfect."""

LEVELS = {"middle": MIDDLE, "strong": STRONG, "ultra": ULTRA}


def weak(memory: Duration) -> Dial:
    """Answer at once, correct for as long as `memory` says, then give up (into the ledger)."""
    return Dial(memory=duration(memory))


def dial(
    level: Dial | str | None = None,
    *,
    blocking: Duration | None = None,
    memory: Duration | None = None,
    clock: Literal["application", "system"] = "application",
) -> Dial:
    """Read a dial as users write it: a level or its name, or blocking and memory.

    >>> dial("strong") == STRONG, dial(blocking="5 s", memory="1 h").blocking
    (True, 5000000)
    >>> dial(blocking="2 h", memory="1 h")
    Traceback (most recent call last):
        ...
    slackwater.errors.PlanError: blocking cannot be longer than memory
      detail: blocking=2 h, memory=1 h
      hint: what is forgotten cannot be waited for: enlarge memory or shrink blocking
    """
    if level is not None:
        if blocking is not None or memory is not None or clock != "application":
            raise PlanError("give either a level or blocking, memory and clock, not both")
        if isinstance(level, Dial):
            return level
        if level not in LEVELS:
            known = ", ".join(LEVELS)
            raise PlanError(f"unknown level {level!r}", hint=f"one of {known}, or sw.weak(memory)")
        return LEVELS[level]
    return Dial(
        blocking=0 if blocking is None else duration(blocking),
        memory=INF if memory is None else duration(memory),
        clock=clock_of(clock),
    )


def clock_of(name: str) -> Clock:
    """A clock by its name."""
    for clock in Clock:
        if clock.value == name:
            return clock
    raise PlanError(f"unknown clock {name!r}", hint="application or system")


class OutputLatency(enum.Enum):
    """How much of the open future a snapshot operator shows."""

    EAGER = "eager"
    """the whole answer over the input so far (the papers' minimum latency)"""
    ORDER_PRESERVING = "order preserving"
    """snapshots up to the output watermark, and the open one with an end of INF, shortened later"""
    PERFECTNESS_PRESERVING = "perfectness preserving"
    """snapshots cut at the output watermark: perfect input gives perfect output"""


EAGER = OutputLatency.EAGER
ORDER_PRESERVING = OutputLatency.ORDER_PRESERVING
PERFECTNESS_PRESERVING = OutputLatency.PERFECTNESS_PRESERVING
