"""The period of tokens, found while the query runs.

The cumulative latency of a period is the latency of tokens, which falls as there are fewer of them, plus
the time between two of them, which grows: a valley. The way down is felt for. A period is judged by the
median of some tokens, and of as many more as it takes for some hundred elements, since neighbouring
tokens wait for the same things. What is known to be good is the *centre*; another period is tried beside
it, and becomes the centre if it is better. As long as that is so the next one lies further in the same
direction; else the centre is judged again, for loads change, and then its other side. At
the bottom steps are small, and do not end, for the bottom may move.

What has arrived and is in no right state yet says whether the system keeps up. If it becomes more from
one half of these tokens to the other, the period doubles, whatever the latency; if it becomes less, what
had piled up is being worked off, and nothing is judged by it.

Paper 5 sections 4.2 (modify it at runtime) and 6.2 (cumulative latency).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil
from statistics import median

from slackwater.levels import Adaptive

__all__ = ["Period"]

_TOKENS, _ELEMENTS = 7, 256
"""by how many a period is judged, at least"""
_UNHEARD = 2
"""tokens before them, which entered under the period before"""
_GROWTH = 0.15
"""of the elements that have come, how many have piled up if the system does not keep up"""
_WIDE, _NARROW = 2.0, 2.0**0.5
"""the longest step, and the shortest"""
_BETTER = 0.97
"""where steps are short, a period is better if it is by so much"""


@dataclass(slots=True)
class Period:
    """How many elements there are between two tokens."""

    limits: Adaptive
    now: int = field(init=False)
    centre: int = field(init=False)
    latency: float | None = None
    """of the centre, when it was judged last"""
    step: float = 1 / _WIDE
    """from the centre to what is tried next"""
    worse: int = 0
    """sides of the centre that were found to be"""
    heard: list[float] = field(default_factory=list)
    backlogs: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.now = self.centre = self.limits.first

    def hear(self, cumulative: float, backlog: int) -> None:
        """A token came out, so long after what it stands for; and so many elements are behind it."""
        self.heard.append(cumulative)
        self.backlogs.append(backlog)
        if len(self.heard) < _UNHEARD + max(_TOKENS, ceil(_ELEMENTS / self.now)):
            return
        latency = median(self.heard[_UNHEARD:])
        half = (len(self.backlogs) - _UNHEARD) // 2
        grown = median(self.backlogs[-half:]) - median(self.backlogs[_UNHEARD : _UNHEARD + half])
        much = _GROWTH * half * self.now
        self.heard.clear()
        self.backlogs.clear()
        if grown > much:
            self.centre, self.latency = self._beside(self.now, _WIDE), None
            self.now, self.step, self.worse = self.centre, _WIDE, 0
        elif grown >= -much:
            self._judge(latency)

    def _judge(self, latency: float) -> None:
        """Where to go from here."""
        if self.now == self.centre:
            self.latency = latency
            self.now = self._beside(self.centre, self.step)
            if self.now == self.centre:
                # this is as far as it may go
                self.step = 1 / self.step
                self.now = self._beside(self.centre, self.step)
            return
        assert self.latency is not None, "the centre was judged first"
        narrow = 1 / _WIDE < self.step < _WIDE
        if latency < self.latency * (_BETTER if narrow else 1):
            if not self.worse:
                self.step = _WIDE if self.step > 1 else 1 / _WIDE
            self.centre, self.latency, self.worse = self.now, latency, 0
            self.now = self._beside(self.centre, self.step)
            return
        self.worse += 1
        factor = _WIDE if self.worse == 1 else _NARROW
        self.step = 1 / factor if self.step > 1 else factor
        self.now = self.centre

    def _beside(self, period: int, step: float) -> int:
        moved = round(period * step)
        if moved == period:
            moved += 1 if step > 1 else -1
        return min(max(moved, self.limits.least), self.limits.most)
