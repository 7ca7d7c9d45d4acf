"""The period of tokens, found while the query runs.

The cumulative latency of a period is the latency of tokens, which falls as there are fewer of them, plus
the time between two of them, which grows: a valley. The way down is felt for: a period is kept for some
tokens, their median is compared with that of the last period, and the next step goes on in the same
direction, or back and half as far. At the bottom the steps stay small, but do not end, for the bottom
may move. A backlog that grows from each token to the next says that the system does not keep up: then
the period grows, whatever the latency.

Paper 5 sections 4.2 (modify it at runtime) and 6.2 (cumulative latency).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

from slackwater.levels import Adaptive

__all__ = ["Period"]

_HEARD = 7
"""tokens by which a period is judged"""
_WIDE, _NARROW = 2.0, 1.19
"""the longest step, and the shortest"""


@dataclass(slots=True)
class Period:
    """How many elements there are between two tokens."""

    limits: Adaptive
    now: int = field(init=False)
    step: float = _WIDE
    heard: list[float] = field(default_factory=list)
    backlogs: list[int] = field(default_factory=list)
    before: float | None = None
    """the cumulative latency of the period before this one"""

    def __post_init__(self) -> None:
        self.now = self.limits.first

    def hear(self, cumulative: float, backlog: int) -> None:
        """A token came out, so long after what it stands for; and so much waits outside."""
        self.heard.append(cumulative)
        self.backlogs.append(backlog)
        if len(self.heard) < _HEARD:
            return
        # those that entered under the last period do not count
        latency = median(self.heard[2:])
        is_behind = all(before < after for before, after in pairwise(self.backlogs))
        self.heard.clear()
        self.backlogs.clear()
        if is_behind:
            self.step, self.before = _WIDE, None
        elif self.before is not None and latency > self.before:
            self.step = 1 / self.step**0.5
            if _NARROW > self.step > 1 / _NARROW:
                self.step = _NARROW if self.step > 1 else 1 / _NARROW
        self.before = latency
        self._move()

    def _move(self) -> None:
        moved = round(self.now * self.step)
        if moved == self.now:
            moved += 1 if self.step > 1 else -1
        self.now = min(max(moved, self.limits.least), self.limits.most)
