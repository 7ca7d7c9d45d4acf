"""Counting: how far a stream is complete, as its external ctis say and its elements confirm.

An external cti says how many elements have a sync in [since, t). `Counting` keeps those that are not
confirmed yet, and the syncs of all elements from `complete` on. The stream is complete up to t when
intervals that lead there without a gap have as many elements as they say.

The intervals are disjoint. One that begins where another does is cut at the shorter one's end, so that
counts since the beginning of the stream may be given again and again, in any order:

    told      [BEGIN, 8): 4     [BEGIN, 5): 1          [9, 12): 2     [BEGIN, 9): 4
    kept      [BEGIN, 8): 4     [BEGIN, 5): 1          + [9, 12): 2   + [8, 9): 0
                                [5, 8): 3

Behind `complete` nothing is told apart any more: only how many elements there are from the beginning of
an unfinished interval on, and from `known_until` on, before which the source is known to have `known`.

Syncs lie in sorted runs, each more than twice as long as the next: a batch costs its own size, with a
logarithm, and a question a search in every run.

Paper 1b sections 3 and 4.6 (CTILifetimes, receivedevents), erratum 15.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

import numpy as np

from slackwater.punctuations import ExternalCti
from slackwater.times import BEGIN, INF, Times, show

__all__ = ["Counting", "Interval"]


@dataclass(slots=True)
class Interval:
    """So many elements have a sync in [start, end)."""

    start: int
    end: int
    expected: int
    behind: int = 0
    """how many of them have come with a sync behind `complete`"""

    def __str__(self) -> str:
        return f"[{show(self.start)}, {show(self.end)})"


@dataclass(slots=True)
class Counting:
    """What external ctis have told, and which syncs have been seen."""

    complete: int = BEGIN
    """no element with an earlier sync is waited for"""
    intervals: list[Interval] = field(default_factory=list)
    """in order; all end after `complete`"""
    known_until: int = BEGIN
    known: int = 0
    known_behind: int = 0
    """how many elements have come with a sync from `known_until` on, but behind `complete`"""
    runs: list[Times] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.intervals) + sum(map(len, self.runs))

    def see(self, syncs: Times) -> None:
        """Elements have come. Late ones count, too: they are among those the source has counted."""
        if self.complete == INF:
            return
        syncs = np.sort(syncs)
        late = int(np.searchsorted(syncs, self.complete))
        if late:
            self.known_behind += late - int(np.searchsorted(syncs[:late], self.known_until))
            for interval in self.intervals:
                if interval.start >= self.complete:
                    break
                interval.behind += late - int(np.searchsorted(syncs[:late], interval.start))
        self.runs.append(syncs[late:])
        while len(self.runs) > 1 and len(self.runs[-2]) <= 2 * len(self.runs[-1]):
            last = self.runs.pop()
            # a stable sort merges what is sorted already
            self.runs[-1] = np.sort(np.concatenate([self.runs[-1], last]), kind="stable")
        if not len(self.runs[-1]):
            self.runs.pop()

    def seen(self, interval: Interval) -> int:
        """How many elements of the interval have come."""
        return interval.behind + self._count(max(interval.start, self.complete), interval.end)

    def _count(self, start: int, end: int) -> int:
        """How many seen syncs lie in [start, end), or with an end of INF, from start on."""
        if start >= end:
            return 0
        return sum(
            (len(run) if end == INF else int(np.searchsorted(run, end)))
            - int(np.searchsorted(run, start))
            for run in self.runs
        )

    def counts_from(self, time: int) -> bool:
        """Whether it is still known how many elements have come from that time on."""
        known = self.known_until if time == BEGIN else time
        starts = (interval.start for interval in self.intervals[:1])
        return known >= self.complete or known == self.known_until or known in starts

    def tell(self, told: ExternalCti) -> str:
        """Take in an external cti that can be counted. What it contradicts, if so; else nothing."""
        new = Interval(told.since, told.before, told.count)
        if new.end <= self.complete:
            # nothing that was not known
            return ""
        if new.start == BEGIN:
            new.start, new.expected = self.known_until, new.expected - self.known
        at = bisect_left(self.intervals, new.start, key=lambda interval: interval.start)
        while at < len(self.intervals) and self.intervals[at].start == new.start < new.end:
            other = self.intervals[at]
            at += 1
            if other.end > new.end:
                # the new one is its beginning
                rest = Interval(new.end, other.end, other.expected - new.expected)
                if not 0 <= new.expected <= other.expected:
                    return f"it contradicts {other.expected} elements in {other}"
                other.end, other.expected = new.end, new.expected
                self.intervals.insert(at, rest)
                return ""
            new.start, new.expected = other.end, new.expected - other.expected
        if new.expected < 0 or (new.start == new.end and new.expected):
            return f"more or fewer elements were counted before {show(new.start)}"
        if new.start == new.end:
            return ""
        for other in self.intervals[max(0, at - 1) : at + 1]:
            if other.start < new.end and new.start < other.end:
                return f"it overlaps {other}, and does not begin where that does"
        if new.start < self.complete:
            assert new.start == self.known_until, "a count from there is known"
            new.behind = self.known_behind
        self.intervals.insert(at, new)
        return ""

    def advance(self) -> list[Interval]:
        """Go as far as what has come confirms. The intervals that it contradicts."""
        wrong: list[Interval] = []
        while self.intervals and self.intervals[0].start <= self.complete:
            first = self.intervals[0]
            seen = self.seen(first)
            if seen < first.expected:
                break
            if seen > first.expected:
                wrong.append(self.intervals.pop(0))
            else:
                self.pass_(first.end)
        return wrong

    def pass_(self, time: int) -> None:
        """Nothing with an earlier sync is waited for any more."""
        if time <= self.complete:
            return
        for interval in self.intervals:
            if interval.start >= time:
                break
            if interval.end > time:
                interval.behind += self._count(max(interval.start, self.complete), time)
        known_from = self.known_until
        while self.intervals and self.intervals[0].end <= time:
            gone = self.intervals.pop(0)
            if gone.start == self.known_until:
                self.known_until, self.known = gone.end, self.known + gone.expected
        if self.known_until > known_from:
            self.known_behind = 0
        self.known_behind += self._count(max(self.known_until, self.complete), time)
        self.complete = time
        left = (run[np.searchsorted(run, time) :] for run in self.runs)
        self.runs = [run for run in left if len(run) and time < INF]
