"""How the partitions of a source come to promise something. Policies are values:

Progress()                       by the ctis among its rows
Progress(lateness=5_000_000)     ... and none of its rows is more than that behind its latest start
Progress(idle=60_000_000)        ... and it no longer counts when it has said nothing for so long
Progress(partitions=3)           ... and nothing is promised before so many have been heard of
Progress(origins=("t/0", "t/1")) ... nor before these have, which are known from the start

With `idle`, a partition that was never heard of is idle so long after the first batch, and a source of
which all partitions are idle follows the other sources of the query. What comes later than a policy has
said goes to the ledger, with all that continues it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from slackwater.errors import PlanError
from slackwater.times import Duration, duration, show_length

__all__ = ["Progress", "progress"]


@dataclass(frozen=True, slots=True)
class Progress:
    """How the origins of a source come to promise something."""

    lateness: int | None = None
    idle: int | None = None
    partitions: int = 1
    origins: tuple[str, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        for name in ("lateness", "idle"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise PlanError(f"progress: {name} cannot be negative", detail=f"it is {value}")
        if self.partitions < 1:
            raise PlanError("progress: there is at least one partition")

    def __str__(self) -> str:
        parts = ["ctis in band"]
        if self.lateness is not None:
            parts.append(f"lateness {show_length(self.lateness)}")
        if self.idle is not None:
            parts.append(f"idle after {show_length(self.idle)}")
        if self.partitions > 1:
            parts.append(f"{self.partitions} partitions")
        return ", ".join(parts)


def progress(
    *, lateness: Duration | None = None, idle: Duration | None = None, partitions: int = 1
) -> Progress:
    """How a source's partitions make progress; durations as elsewhere.

    >>> progress(lateness="5 s", idle="1 min")
    Progress(lateness=5000000, idle=60000000, partitions=1)
    """
    return Progress(
        None if lateness is None else duration(lateness),
        None if idle is None else duration(idle),
        partitions,
    )
