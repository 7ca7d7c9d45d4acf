"""What a logical merge shows of its inputs, and when. Policies are values:

MergePolicy()                              as Algorithm R3: an insert at first sight, adjusts at ctis
MergePolicy(inserts=FROM_LEADER)           an insert only if the input that is furthest says it
MergePolicy(inserts=HALF_FROZEN)           ... when some input has promised that it stays
MergePolicy(inserts=After(0.5))            ... when half of the inputs have said it
MergePolicy(adjusts=EVERY)                 every end at once, whoever says it
MergePolicy(adjusts=WITH_LEADER)           every end that the furthest input says
MergePolicy(trailing=5_000_000)            promises trail the furthest input's by so much
MergePolicy(gaps=True)                     inputs may lack elements: that is written down, no more
MergePolicy(contradiction=QUARANTINE)      who contradicts the others is not listened to any longer

All of them give the same history in the end; what differs is how soon and how often something is said.

Paper 2 sections V-A and V-C.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from fractions import Fraction

from slackwater.errors import PlanError
from slackwater.times import Duration, duration, show_length

__all__ = [
    "AT_FIRST_SIGHT",
    "AT_STABLE",
    "EVERY",
    "FROM_LEADER",
    "HALF_FROZEN",
    "QUARANTINE",
    "STOP",
    "WITH_LEADER",
    "Adjusts",
    "After",
    "Contradiction",
    "Inserts",
    "MergePolicy",
    "after",
    "merge_policy",
]


class Inserts(enum.Enum):
    """When an insert is shown, if not after a fraction of the inputs has said it."""

    AT_FIRST_SIGHT = "at first sight"
    FROM_LEADER = "from the leading input"
    HALF_FROZEN = "when half frozen"


AT_FIRST_SIGHT, FROM_LEADER, HALF_FROZEN = Inserts


@dataclass(frozen=True, slots=True)
class After:
    """An insert is shown when at least this part of the inputs has said it."""

    fraction: Fraction

    def __post_init__(self) -> None:
        if not 0 < self.fraction <= 1:
            raise PlanError(
                "merge: an insert is shown after a part of the inputs",
                detail=f"it is {self.fraction}",
                hint="sw.after(0.5): when half of them have said it; more than 0, at most 1",
            )

    def needed(self, inputs: int) -> int:
        """How many of so many inputs that is."""
        return max(1, math.ceil(self.fraction * inputs))

    def __str__(self) -> str:
        return f"after {self.fraction} of the inputs"


def after(fraction: float | Fraction) -> After:
    """Show an insert when at least this part of the inputs has said it.

    >>> after(0.5).needed(3)
    2
    """
    try:
        exact = Fraction(fraction)
    except (TypeError, ValueError, OverflowError) as problem:
        raise PlanError(f"merge: {fraction!r} is not a part of the inputs") from problem
    return After(exact.limit_denominator(1000) or exact)


class Adjusts(enum.Enum):
    """When the end of an event that was shown is shown to be another."""

    AT_STABLE = "at ctis"
    EVERY = "every one"
    WITH_LEADER = "with the leading input"


AT_STABLE, EVERY, WITH_LEADER = Adjusts


class Contradiction(enum.Enum):
    """What is done when inputs contradict each other."""

    STOP = "stop"
    QUARANTINE = "quarantine the minority"


STOP, QUARANTINE = Contradiction


@dataclass(frozen=True, slots=True)
class MergePolicy:
    """What a merge shows, and when."""

    inserts: Inserts | After = AT_FIRST_SIGHT
    adjusts: Adjusts = AT_STABLE
    trailing: int = 0
    gaps: bool = False
    contradiction: Contradiction = STOP

    def __post_init__(self) -> None:
        for value, known in (
            (self.inserts, (Inserts, After)),
            (self.adjusts, (Adjusts,)),
            (self.contradiction, (Contradiction,)),
        ):
            if not isinstance(value, known):
                raise PlanError(
                    f"merge: {value!r} is no policy",
                    hint="inserts=sw.AT_FIRST_SIGHT, sw.FROM_LEADER, sw.HALF_FROZEN or sw.after(0.5); "
                    "adjusts=sw.AT_STABLE, sw.EVERY or sw.WITH_LEADER; "
                    "contradiction=sw.STOP or sw.QUARANTINE",
                )
        if not isinstance(self.gaps, bool):
            raise PlanError(f"merge: gaps={self.gaps!r} is neither True nor False")
        if self.trailing < 0:
            raise PlanError("merge: trailing cannot be negative", detail=f"it is {self.trailing}")

    def __str__(self) -> str:
        inserts = self.inserts if isinstance(self.inserts, After) else self.inserts.value
        parts = [f"inserts {inserts}", f"adjusts {self.adjusts.value}"]
        parts += [f"trailing {show_length(self.trailing)}"] if self.trailing else []
        parts += ["gaps allowed"] if self.gaps else []
        parts += [self.contradiction.value] if self.contradiction is not STOP else []
        return ", ".join(parts)


def merge_policy(
    *,
    inserts: Inserts | After = AT_FIRST_SIGHT,
    adjusts: Adjusts = AT_STABLE,
    trailing: Duration = 0,
    gaps: bool = False,
    contradiction: Contradiction = STOP,
) -> MergePolicy:
    """What a merge shows, and when; durations as elsewhere.

    >>> print(merge_policy(inserts=after(0.5), trailing="5 s"))
    inserts after 1/2 of the inputs, adjusts at ctis, trailing 5 s
    """
    return MergePolicy(inserts, adjusts, duration(trailing), gaps, contradiction)
