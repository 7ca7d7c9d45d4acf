"""Progress: what a stream may promise when it comes from several origins.

Every origin (a partition of a source, a bucket of an earlier stage) has its own order and its own
promise; a stream promises the least of them. How an origin of a source comes to promise something is a
matter of policy (policies.py).

The clock is that of the batches, so that a repetition comes to the same end. An origin that has been
idle counts again as soon as it speaks. What it then says about a time that has been promised away in
the meantime is late: it goes to the ledger, and so does what is later than its lateness allows.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from slackwater.policies import Progress
from slackwater.times import BEGIN, INF

__all__ = ["Frontier", "Origin"]


@dataclass(slots=True)
class Origin:
    """How far one origin is."""

    promised: int = BEGIN
    latest: int = BEGIN
    heard: int = BEGIN
    """the time of the last batch in which it had rows or a promise"""


@dataclass(slots=True)
class Frontier:
    """How far a stream is, given its origins."""

    policy: Progress = field(default_factory=Progress)
    origins: dict[str, Origin] = field(default_factory=dict)
    promised: int = BEGIN

    def hear(self, name: str, *, promise: int, latest: int, now: int) -> None:
        """An origin has said so much."""
        origin = self.origins.setdefault(name, Origin(heard=now))
        if promise > origin.promised or latest > BEGIN:
            origin.heard = now
        origin.promised = max(origin.promised, promise)
        origin.latest = max(origin.latest, latest)

    def _of(self, origin: Origin) -> int:
        if self.policy.lateness is None or origin.latest == BEGIN:
            return origin.promised
        return max(origin.promised, origin.latest - self.policy.lateness, BEGIN + 1)

    def _is_idle(self, origin: Origin, now: int) -> bool:
        return self.policy.idle is not None and now - origin.heard >= self.policy.idle

    def advance(self, now: int) -> int:
        """The promise of the stream now; it never goes back."""
        for name in self.policy.origins:
            # one that has not spoken yet counts, too, until it is idle
            self.origins.setdefault(name, Origin(heard=now))
        if len(self.origins) >= self.policy.partitions:
            every = list(self.origins.values())
            awake = [origin for origin in every if not self._is_idle(origin, now)]
            closed = all(origin.promised == INF for origin in every)
            # while all sleep nothing moves, and those that have ended no longer count
            told = [self._of(origin) for origin in awake]
            if told and (closed or min(told) < INF):
                self.promised = max(self.promised, min(told))
        return self.promised

    def held_by(self, now: int) -> str | None:
        """The origin that holds the promise back: the one that has promised least."""
        awake = {n: self._of(o) for n, o in self.origins.items() if not self._is_idle(o, now)}
        return min(awake, key=lambda name: awake[name]) if awake else None
