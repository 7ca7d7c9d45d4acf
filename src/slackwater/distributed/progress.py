"""Progress: what a stream may promise when it comes from several origins.

Every origin (a partition of a source, a bucket of an earlier stage) has its own order and its own
promise; a stream promises the least of them. How an origin of a source comes to promise something is a
matter of policy (policies.py).

The clock is that of the batches, so that a repetition comes to the same end. An origin that has been
idle counts again as soon as it speaks. What it then says about a time that has been promised away in
the meantime is late: it goes to the ledger, and so does what is later than its lateness allows.

A source of which all partitions are idle has nobody to follow among its own; it follows the other
sources of the query (`follow`), up to the least that one of them promises which is awake. So it holds
nothing back that could go on without it, and moves no further than anything could need. Where all
sources are idle, or the others have ended, it stays: nothing says how much time has passed.

Beside the promises goes how far the starts of rows have come: the slowest and the furthest origin
(`Reached`), by which operators wait and forget that see a share of the rows only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from slackwater.policies import Progress
from slackwater.punctuations import Reached
from slackwater.times import BEGIN, INF

__all__ = ["Frontier", "Origin", "follow"]


@dataclass(slots=True)
class Origin:
    """How far one origin is."""

    promised: int = BEGIN
    latest: int = BEGIN
    slowest: int = BEGIN
    """how far the slowest is of those that it speaks for; the latest, if it speaks for itself"""
    heard: int = BEGIN
    """the time of the last batch in which it had rows or a promise"""
    held_by: str = ""
    """what holds its promise back, as it says"""


@dataclass(slots=True)
class Frontier:
    """How far a stream is, given its origins."""

    policy: Progress = field(default_factory=Progress)
    origins: dict[str, Origin] = field(default_factory=dict)
    promised: int = BEGIN
    reached: Reached = field(default_factory=lambda: Reached(BEGIN, BEGIN))
    began: int | None = None
    """the time of the first batch"""

    def hear(
        self,
        name: str,
        *,
        promise: int,
        latest: int,
        now: int,
        slowest: int,
        held_by: str = "",
        spoke: bool = False,
    ) -> None:
        """An origin has said so much. `spoke`: it had something to say, if only of the past."""
        origin = self.origins.setdefault(name, Origin(heard=now))
        if spoke or promise > origin.promised or latest > BEGIN:
            origin.heard = now
        origin.promised = max(origin.promised, promise)
        origin.latest = max(origin.latest, latest)
        origin.slowest = max(origin.slowest, slowest)
        origin.held_by = held_by

    @property
    def told(self) -> dict[str, int]:
        """What each origin has promised itself."""
        return {name: origin.promised for name, origin in self.origins.items()}

    def unended(self) -> list[str]:
        """The origins that can still say something; of those that are not known yet, any names."""
        missing = self.policy.partitions - len(self.origins)
        known = [name for name, origin in self.origins.items() if origin.promised < INF]
        return [*known, *(f"\0{number}" for number in range(missing))]

    def _of(self, origin: Origin) -> int:
        if self.policy.lateness is None or origin.latest == BEGIN:
            return origin.promised
        return max(origin.promised, origin.latest - self.policy.lateness, BEGIN + 1)

    def _is_idle(self, since: int, now: int) -> bool:
        return self.policy.idle is not None and now - since >= self.policy.idle

    def _awake(self, now: int) -> dict[str, Origin]:
        """Those that count: they have not ended, and are not idle."""
        return {
            name: origin
            for name, origin in self.origins.items()
            if origin.promised < INF and not self._is_idle(origin.heard, now)
        }

    def _knows_all(self, now: int) -> bool:
        """Whether all partitions have been heard of, or those that have not are idle as well."""
        assert self.began is not None, "it has begun"
        return len(self.origins) >= self.policy.partitions or self._is_idle(self.began, now)

    @property
    def _has_ended(self) -> bool:
        heard = len(self.origins) >= self.policy.partitions
        return heard and all(origin.promised == INF for origin in self.origins.values())

    def advance(self, now: int) -> int:
        """The promise of the stream now; it never goes back."""
        for name in self.policy.origins:
            # one that has not spoken yet counts, too, until it is idle
            self.origins.setdefault(name, Origin(heard=now))
        self.began = now if self.began is None else self.began
        furthest = max((o.latest for o in self.origins.values()), default=BEGIN)
        slowest = self.reached.slowest
        if self._has_ended:
            self.promised = slowest = INF
        elif self._knows_all(now):
            # while all sleep nothing moves, and those that have ended no longer count
            awake = self._awake(now).values()
            if awake:
                self.promised = max(self.promised, min(map(self._of, awake)))
                slowest = max(slowest, min(origin.slowest for origin in awake))
        self.reached = Reached(slowest, max(furthest, self.reached.furthest))
        return self.promised

    def sleeps(self, now: int) -> bool:
        """Whether no partition is left that would move it."""
        return not self._has_ended and self._knows_all(now) and not self._awake(now)

    def held_by(self, now: int) -> tuple[str, Origin | None]:
        """What holds the promise back: the origin that has promised least, or why there is none."""
        if self._has_ended:
            return "", None
        if not self._knows_all(now):
            return f"{len(self.origins)} of {self.policy.partitions} partitions are known", None
        awake = self._awake(now)
        if not awake:
            return "all partitions are idle", None
        name = min(awake, key=lambda each: self._of(awake[each]))
        return name, awake[name]


def follow(sources: Iterable[Frontier], now: int, others: Iterable[int] = ()) -> None:
    """Sources of which all partitions are idle promise what the least of the others does.

    `others` are promises of sources that follow nobody.
    """
    awake = [promised for promised in others if promised < INF]
    asleep: list[Frontier] = []
    for frontier in sources:
        if frontier.sleeps(now):
            asleep.append(frontier)
        elif frontier.promised < INF:
            awake.append(frontier.promised)
    if awake:
        for frontier in asleep:
            frontier.promised = max(frontier.promised, min(awake))
