"""Waiting: numbered things, each for one time, and out when it is reached.

The buckets of a calendar (kernels/calendar.py) over things that are numbered anyway. A bucket is a list
that runs through the numbers themselves, so that nothing is copied, and who is to wait for another time
is moved: a thing waits once.

A row of `links` is the next of its list, and the one before: of the first its bucket, as ~bucket.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
# ruff: noqa: PLR0917

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from numba import njit

from slackwater.kernels.calendar import BUCKETS, bucket_of, is_of_one_time

__all__ = ["Waiting"]

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

NEXT, BEFORE = 0, 1
_NOBODY = -1
_ELSEWHERE = np.iinfo(np.int64).min
"""what is before a thing that does not wait"""
# what else there is to know: the time reached, and how many wait
_REACHED, _COUNT = 0, 1


@dataclass(slots=True)
class Waiting:
    """Who waits; for what, is known to whoever has them wait."""

    links: Ints = field(default_factory=lambda: np.empty((0, 2), dtype=np.int64))
    heads: Ints = field(default_factory=lambda: np.full(BUCKETS, _NOBODY))
    facts: Ints = field(default_factory=lambda: np.array([_ELSEWHERE, 0]))

    def __len__(self) -> int:
        return int(self.facts[_COUNT])

    def make_room(self, room: int) -> None:
        """There may be so many things."""
        links = np.full((room, 2), _ELSEWHERE)
        links[: len(self.links)] = self.links
        self.links = links

    def put(self, things: Ints, times: Ints) -> None:
        """Let these wait, each for its time, which is by thing, and not before the one reached."""
        _put(self.links, self.heads, self.facts, things, times)

    def take(self, until: int, times: Ints, new: range, starts: Ints) -> Ints:
        """Those who wait for times up to one, and of new things those that start by then.

        The other new ones wait, if they do not yet.
        """
        out, later = (np.empty(len(self) + len(new), dtype=np.int64) for _ in range(2))
        taken, put_off = _take(
            self.links, self.heads, self.facts, until, times, new.start, new.stop, starts, out, later
        )
        self.put(later[:put_off], times)
        return out[:taken]

    def renumber(self, numbers: Ints, times: Ints, room: int) -> None:
        """Things have other numbers, or none, and there may be so many; times are by the new numbers."""
        waiting = self.links[: len(numbers), BEFORE] != _ELSEWHERE
        left = numbers[waiting & (numbers >= 0)]
        if len(self.links) == room:
            self.links[: len(numbers)] = _ELSEWHERE
        else:
            self.links = np.full((room, 2), _ELSEWHERE)
        self.heads[:] = _NOBODY
        self.facts[_COUNT] = 0
        self.put(left, times)


# The loops are written out: to hand arrays to another function costs more than what it does.


@njit(cache=True)
def _put(links, heads, facts, things, times):
    reached, count = facts[_REACHED], facts[_COUNT]
    for i in range(len(things)):
        thing = things[i]
        following, before = links[thing, NEXT], links[thing, BEFORE]
        if before == _ELSEWHERE:
            count += 1
        else:
            if before >= 0:
                links[before, NEXT] = following
            else:
                heads[~before] = following
            if following >= 0:
                links[following, BEFORE] = before
        b = bucket_of(times[thing], reached)
        following = heads[b]
        links[thing, NEXT], links[thing, BEFORE] = following, ~b
        if following >= 0:
            links[following, BEFORE] = thing
        heads[b] = thing
    facts[_COUNT] = count


@njit(cache=True)
def _take(links, heads, facts, until, times, first, stop, starts, out, later):
    """Write those who are due to `out`; how many, and how many are to wait again (`later`)."""
    n = n_later = 0
    for thing in range(first, stop):
        if links[thing, BEFORE] != _ELSEWHERE:
            continue
        if starts[thing] <= until:
            out[n] = thing
            n += 1
        else:
            later[n_later] = thing
            n_later += 1
    new = n + n_later
    reached = facts[_REACHED]
    if until >= reached:
        last = bucket_of(until, reached)
        facts[_REACHED] = until
        for b in range(last + 1):
            thing = heads[b]
            heads[b] = _NOBODY
            spread = b == last and not is_of_one_time(b)
            while thing >= 0:
                following = links[thing, NEXT]
                links[thing, BEFORE] = _ELSEWHERE
                if spread and times[thing] > until:
                    later[n_later] = thing
                    n_later += 1
                else:
                    out[n] = thing
                    n += 1
                thing = following
    facts[_COUNT] -= n + n_later - new
    return n, n_later
