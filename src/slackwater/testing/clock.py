"""System time for tests: injected wherever a clock is needed, and moved by hand."""

from __future__ import annotations

from slackwater.errors import InvalidTime
from slackwater.times import Duration, Instant, chronon, duration, plus

__all__ = ["ManualClock"]


class ManualClock:
    """System time that stands still until a test moves it.

    >>> clock = ManualClock()
    >>> clock.advance("5 s")
    >>> clock.now()
    5000000
    """

    def __init__(self, start: Instant = 0) -> None:
        self._now = chronon(start)

    def now(self) -> int:
        """The time, in chronons."""
        return self._now

    def advance(self, by: Duration) -> None:
        """Let time pass."""
        length = duration(by)
        if length < 0:
            raise InvalidTime(f"a clock cannot go back by {by!r}", hint="make a new clock instead")
        self._now = plus(self._now, length)
