"""The period of tokens, found while the query runs.

The cumulative latency of a period is the latency of tokens, which falls as there are fewer of them, plus
the time between two of them, which grows: a valley, and a cliff where there are so many tokens that the
system does not keep up. The way down is felt for. One period is known to be good, the *centre*; another
is tried beside it, and becomes the centre if it is better. As long as that is so the next one lies
further in the same direction; else the centre is judged again, for loads change, and then its other
side. When both sides are worse steps become small, and are taken less often, but they do not end, for
the bottom may move. Where the way down is long steps are twice as wide; if such a one was too far, a
shorter one is tried on the same side.

Only tokens that entered under a period say something of it. It is judged by the later half of them,
since the earlier ones wait for what the period before has left behind. Queues are long by chance, too:
what is known of a centre is a mean of all looks at it, in which the latest counts half, and one that is
much worse all at once is believed to be so when more comes than before, or when it stays so.

Three things keep a bad trial from being dear:

- It ends when some tokens in a row take much longer than the centre's: three, or as many as have some
  thirty elements between them. If it was of a shorter period, none that is as short is tried for a
  while, the longer the more often that happens, unless less comes in meanwhile.
- What it leaves behind is worked off before the centre is judged again.
- When work piles up at the centre itself, the centre is too short: it doubles, at least. Until what has
  piled up is worked off there is a token for every quarter of it: fewer would wait for each other, more
  would be in the way. So the period grows with what waits, whatever it is that holds up the system, and
  shrinks with it.

Paper 5 sections 4.2 (modify it at runtime) and 6.2 (cumulative latency).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, inf
from statistics import median

from slackwater.levels import Adaptive

__all__ = ["Beat", "Period"]

_TOKENS, _ELEMENTS = 5, 256
"""by how many a period is judged, at least"""
_GROWTH = 0.15
"""of the elements that have come, how many have piled up if the system does not keep up"""
_SHARE = 4
"""tokens within what waits, while that is worked off"""
_LESS = 0.97
"""what waits becomes less if no more than so much of it is left"""
_WIDE, _NARROW = 2.0, 2.0**0.5
"""the longest step, and the shortest"""
_LONG = 4
"""times the latency, is a delay from which the way down is long: then a step is twice as wide"""
_BETTER = 0.97
"""where steps are short, a period is better if it is by so much"""
_SAME, _OTHER = 1.05, 1.3
"""so many times as long is as long as before; or the load is another"""
_DOUBTS = 4
"""looks in a row at a centre that is much worse, while no more comes than before, until that counts"""
_MUCH, _BAD, _BAD_ELEMENTS = 1.5, 3, 32
"""times the centre's latency, and tokens in a row, by which a trial ends; and the elements between them,
at least: tokens that are close to each other wait for the same things"""
_REST = 7
"""how often at most the centre is judged between two trials"""
_BARRED = 4, 16
"""how often the centre is judged until a period that was too short is tried again: at first, at most"""


@dataclass(frozen=True, slots=True)
class Beat:
    """One token, after it has come out."""

    period: int
    """elements that had entered since the one before"""
    latency: float
    """seconds that it took"""
    delay: float
    """seconds since the one before came out"""

    @property
    def cumulative(self) -> float:
        """How long an event waits at most: from its entrance to the first token behind it."""
        return self.latency + self.delay


@dataclass(slots=True)
class Period:
    """How many elements there are between two tokens."""

    limits: Adaptive
    now: int = field(init=False)
    turn: int = 0
    """how often it has been changed: of a token it is remembered under which turn it entered"""
    centre: int = field(init=False)
    cost: float | None = None
    """cumulative latency of the centre, when it was judged last"""
    usual: float = 0.0
    """elements behind a token then"""
    step: float = 1 / _WIDE
    """from the centre to what is tried next"""
    worse: int = 0
    """sides of the centre that were found to be"""
    strides: bool = True
    """whether what is tried next may be twice as far away as a wide step"""
    doubts: int = 0
    """how often in a row the centre has looked much worse, which may be chance"""
    pause: int = 0
    """how often the centre is judged between two trials"""
    paused: int = 0
    left: float | None = None
    """cumulative latency at the centre while something waits that was left behind there"""
    too_short: int = 0
    """a period at which the system does not keep up"""
    barred: int = 0
    """how often the centre is judged until that may be tried again"""
    bar: int = _BARRED[0]
    pace: float = 0.0
    """elements a second that have come"""
    pace_here: float = 0.0
    """... when the centre was judged to be what it is"""
    pace_then: float = 0.0
    """... when that was found to be too short"""
    piled: float | None = None
    """what waited when it was looked at last, since it has piled up"""
    gives_way: bool = False
    """whether work piled up when it was looked at last"""
    heard: list[tuple[Beat, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.now = self.centre = self.limits.first

    def hear(self, beat: Beat, backlog: int, turn: int) -> None:
        """A token came out that entered under some turn; and so many elements are behind it."""
        if turn != self.turn:
            return
        self.heard.append((beat, backlog))
        # the first has elements behind it that entered before
        heard = self.heard[1:]
        if self._is_bad(heard):
            self.heard = []
            self._end_trial(dear=True)
        elif len(heard) >= max(_TOKENS, ceil(_ELEMENTS / self.now)):
            self.heard = []
            self._look_at(heard)

    def _is_bad(self, heard: Sequence[tuple[Beat, int]]) -> bool:
        """Whether a trial can be given up."""
        enough = max(_BAD, ceil(_BAD_ELEMENTS / self.now))
        if self.now == self.centre or self.cost is None or len(heard) < enough:
            return False
        return all(beat.cumulative > _MUCH * self.cost for beat, _ in heard[-enough:])

    def _look_at(self, heard: Sequence[tuple[Beat, int]]) -> None:
        """Enough of one period."""
        half = len(heard) // 2
        earlier, later = heard[:half], heard[half:]
        waiting = median(backlog for _, backlog in later)
        grown = waiting - median(backlog for _, backlog in earlier)
        elements, seconds = sum(beat.period for beat, _ in heard), sum(beat.delay for beat, _ in heard)
        # what came in, and not what came out
        self.pace = (elements + 2 * grown) / seconds if seconds else inf
        much = _GROWTH * elements / 2
        if grown > much:
            if self.cost is not None and self.now < self.centre:
                self._end_trial(dear=True)
            else:
                self._give_way(waiting)
            return
        self.gives_way = False
        if self.pace * _OTHER < self.pace_then:
            # less comes than when that was too short
            self._lift_bar()
        if self.piled is not None and self._works_off(waiting):
            return
        if grown >= -much:
            cost = median(beat.cumulative for beat, _ in later)
            is_long = median(beat.delay - _LONG * beat.latency for beat, _ in later) > 0
            if self.now == self.centre:
                self._judge_centre(cost, waiting, is_long=is_long)
            elif cost < self._known() * (1 if self.step in (_WIDE, 1 / _WIDE) else _BETTER):
                self._move(cost, waiting, is_long=is_long)
            else:
                self._end_trial(dear=False)

    def _known(self) -> float:
        assert self.cost is not None, "the centre was judged before"
        return self.cost

    def _give_way(self, waiting: float) -> None:
        """The system does not keep up with the centre, or with nothing at all."""
        if not self.gives_way:
            # if it did, no period would be long enough
            self._bar()
        self.gives_way, self.piled = True, waiting
        self.cost, self.left, self.step = None, None, 1 / _WIDE
        self._is_new_here()
        self.centre = max(self._beside(self.now, _WIDE), self._share_of(waiting))
        self._go(self.centre)

    def _works_off(self, waiting: float) -> bool:
        """What had piled up: whether it is still becoming less."""
        assert self.piled is not None, "there is something"
        if waiting > self.piled * _LESS and self.now >= self._share_of(waiting):
            self.piled = None
            return False
        self.piled = waiting
        self.centre = self._share_of(waiting)
        self._go(self.centre)
        return True

    def _share_of(self, waiting: float) -> int:
        """A period at which there are some tokens within what waits."""
        return min(max(self._least, int(waiting) // _SHARE), self.limits.most)

    @property
    def _least(self) -> int:
        """The shortest period that may be tried."""
        return max(self.limits.least, ceil(self.too_short * _NARROW) if self.barred else 1)

    def _judge_centre(self, cost: float, waiting: float, *, is_long: bool) -> None:
        """And go on from there, unless it is not the centre that this was about."""
        known = inf if self.cost is None else self.cost
        if self.left is not None:
            if cost < self.left / _SAME and (self.cost is None or cost > known * _SAME):
                self.left = cost
                return
            self.left = None
            if cost > known * _OTHER and waiting > self.usual * _OTHER:
                # it does not become less: there is no room for that here
                self._give_way(waiting)
                return
        self.barred = max(0, self.barred - 1)
        if cost > known * _OTHER and self.cost is not None:
            self.doubts += 1
            if self.doubts < _DOUBTS and self.pace_here / _OTHER < self.pace < self.pace_here * _OTHER:
                return
            self._is_new_here()
            self.step = 1 / _WIDE if is_long else _WIDE
        elif self.cost is not None and cost < known / _OTHER:
            self._is_new_here()
            self._lift_bar()
        elif self.cost is not None:
            cost, waiting = (known + cost) / 2, (self.usual + waiting) / 2
        self.doubts = 0
        self.cost, self.usual, self.pace_here = cost, waiting, self.pace
        if self.paused:
            self.paused -= 1
        else:
            self._go(self._next(is_long=is_long))

    def _move(self, cost: float, waiting: float, *, is_long: bool) -> None:
        """What was tried is better."""
        if not self.worse:
            self.step = _WIDE if self.step > 1 else 1 / _WIDE
        self.centre, self.cost, self.usual, self.pace_here = self.now, cost, waiting, self.pace
        self._is_new_here()
        self._go(self._next(is_long=is_long))

    def _end_trial(self, *, dear: bool) -> None:
        """What was tried is worse, or much worse."""
        if dear and self.now < self.centre:
            self._bar()
        if self.now * _WIDE < self.centre:
            # too far: what is nearer may be better all the same
            self.strides = False
        else:
            self.worse += 1
            factor = _WIDE if self.worse == 1 else _NARROW
            self.step = 1 / factor if self.step > 1 else factor
            if self.worse % 2 == 0:
                self.pause = self.paused = min(_REST, 2 * self.pause + 1)
        self.left = inf
        self._go(self.centre)

    def _is_new_here(self) -> None:
        self.worse = self.pause = self.paused = 0
        self.strides, self.doubts = True, 0

    def _bar(self) -> None:
        again = self.now == self.too_short
        self.bar = min(_BARRED[1], 2 * self.bar) if again else _BARRED[0]
        self.too_short, self.barred, self.pace_then = self.now, self.bar, self.pace

    def _lift_bar(self) -> None:
        self.too_short = self.barred = 0

    def _next(self, *, is_long: bool) -> int:
        """What to try beside the centre; the centre itself if there is nothing."""
        for _ in range(2):
            wide = self.step / 2 if is_long and self.strides and self.step < 1 else self.step
            period = self._beside(self.centre, wide)
            if period < self.centre:
                period = min(max(period, self._least), self.centre)
            if period != self.centre:
                return period
            self.step = 1 / self.step
        return self.centre

    def _go(self, period: int) -> None:
        if period != self.now:
            self.now = period
            self.turn += 1

    def _beside(self, period: int, step: float) -> int:
        moved = round(period * step)
        if moved == period:
            moved += 1 if step > 1 else -1
        return min(max(moved, self.limits.least), self.limits.most)
