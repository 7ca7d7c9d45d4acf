"""How loops find out how far they are: figures 6 to 11 of paper 3, sections 5.2 and 5.3.

By disorder (every hundredth event comes early), by inactivity (pauses between groups of a hundred) and
by lulls (nothing happens between two punctuations): what joins on the loop remember, how many guesses
and promises there are, how far promises are behind what really comes, and how long none is made.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache

import numpy as np

import slackwater as sw
import slackwater.state
from benchmarks.recursing import BATCH, GAP, Seen, Tosses, observed
from benchmarks.report import Report, Trend
from slackwater.speculation import Speculation

WAYS: Mapping[str, Speculation] = {
    "HWM": sw.HighWaterMark(), "Probing": sw.Probing(), "Hybrid": sw.Hybrid()
}  # fmt: skip
EARLY = (0, 4, 8, 12, 16)
PAUSES = (0, 100, 200, 400, 800)
LULLS = (0.0, 0.2, 0.4, 0.6, 0.8)

Found = Mapping[tuple[str, float], Seen]


def disorder(report: Report) -> list[Trend]:
    """Figures 6, 8 and 10."""
    found = _by_disorder(report.elements // 60)
    _tell(report, "6-disorder-and-state", "events that joins remember", found, lambda s: s.size)
    _tell(report, "8-disorder-and-promises", "promises", found, lambda s: len(s.promises))
    _tell(report, "10-disorder-and-lag", "lag, in chronons", found, lambda s: s.lag)
    _table(report, "Figures 6, 8, 10: every 100th event comes so many punctuations early", found)
    bound = GAP / 2
    least = float(found["Hybrid", 0].lag / bound)
    lags = [found["HWM", each].lag for each in EARLY]
    fit = float(np.corrcoef(EARLY, lags)[0, 1])
    grows = {name: found[name, EARLY[-1]].size / found[name, 0].size for name in WAYS}
    lag = {name: found[name, EARLY[-1]].lag / found[name, 0].lag for name in WAYS}
    made = {name: len(found[name, EARLY[-1]].promises) / len(found[name, 0].promises) for name in WAYS}
    guesses = {name: found[name, 0].speculated / max(1, len(found[name, 0].promises)) for name in WAYS}
    return [
        Trend(
            "6", "HWM: state grows with disorder; the others: no dependency", _each(grows),
            grows["HWM"] > 2 and max(grows["Probing"], grows["Hybrid"]) < 1.3,
        ),
        Trend(
            "8", "HWM: fewer promises with disorder; the others: no dependency", _each(made),
            made["HWM"] < 0.5 and min(made["Probing"], made["Hybrid"]) > 0.75,
        ),
        Trend(
            "8", "guesses for a promise: HWM about 1, Probing many", _each(guesses),
            guesses["Probing"] > 2 * guesses["Hybrid"],
        ),
        Trend("10", "HWM: lag linear in disorder", f"r = {fit:.3f}, {_each(lag)}", fit > 0.98),
        Trend(
            "10", "Hybrid, in order: close to d/2 (limit 1.3 of it)",
            f"{found['Hybrid', 0].lag:.0f} chronons, {least:.2f} of d/2 = {bound:.0f}", least <= 1.3,
        ),
    ]  # fmt: skip


def inactivity(report: Report) -> list[Trend]:
    """Figure 7."""
    found = _by_pause(report.elements // 60)
    _tell(report, "7-inactivity-and-guesses", "guesses", found, lambda s: s.speculated)
    _table(
        report, "Figure 7: after each 100 events nothing comes for as long as so many would take", found
    )
    longest = PAUSES[-1]
    counts = {name: found[name, longest].speculated for name in WAYS}
    share = max(
        found["Hybrid", pause].speculated / max(1, len(found["Hybrid", pause].promises))
        for pause in PAUSES
    )
    return [
        Trend(
            "7", "Probing: orders of magnitude more guesses than HWM",
            f"{counts['Probing'] / counts['HWM']:.0f} times as many",
            counts["Probing"] > 10 * counts["HWM"],
        ),
        Trend("7", "Hybrid: at most 2 guesses for a promise", f"{share:.2f} at most", share <= 2),
    ]  # fmt: skip


def lulls(report: Report) -> list[Trend]:
    """Figures 9 and 11."""
    found = _by_lull(report.elements // 60)
    _tell(report, "9-lulls-and-guesses", "guesses", found, lambda s: s.speculated)
    _tell(report, "11-lulls-and-silence", "longest time without a promise", found, lambda s: s.silence)
    _table(
        report, "Figures 9, 11: how likely it is that nothing happens between two punctuations", found
    )
    silence = [found["HWM", each].silence for each in LULLS]
    hybrid = max(found["Hybrid", each].silence for each in LULLS) / found["Hybrid", 0].silence
    most = found["Probing", LULLS[-1]].speculated / found["Hybrid", LULLS[-1]].speculated
    never_shrinks = all(b >= a for a, b in itertools.pairwise(silence))
    return [
        Trend(
            "9", "Probing: guesses go on; Hybrid: only if there is something to gain",
            f"Probing makes {most:.0f} times as many", most > 10,
        ),
        Trend(
            "11", "HWM: longest silence grows with lulls",
            " ".join(f"{each:.0f}" for each in silence), never_shrinks and silence[-1] > 4 * silence[0],
        ),
        Trend("11", "Hybrid: within 2 of what it is without", f"{hybrid:.2f}", hybrid <= 2),
    ]  # fmt: skip


@cache
def _by_disorder(events: int) -> Found:
    return _seen(EARLY, lambda early: Tosses(events, early=int(early)))


@cache
def _by_pause(events: int) -> Found:
    return _seen(PAUSES, lambda pause: Tosses(events, pause=int(pause)))


@cache
def _by_lull(events: int) -> Found:
    return _seen(LULLS, lambda likely: Tosses(events, lulls=likely))


def _seen(values: Sequence[float], stream: Callable[[float], Tosses]) -> Found:
    with _forgetting_at_once():
        return {
            (name, value): observed(speculation, stream(value))
            for value in values
            for name, speculation in WAYS.items()
        }


@contextmanager
def _forgetting_at_once() -> Iterator[None]:
    """What is past is not only found now and then: what is remembered is what has to be."""
    kept = slackwater.state.SWEEP_FROM, slackwater.state.SWEEP_FACTOR
    slackwater.state.SWEEP_FROM, slackwater.state.SWEEP_FACTOR = 0, 1
    try:
        yield
    finally:
        slackwater.state.SWEEP_FROM, slackwater.state.SWEEP_FACTOR = kept


def _tell(report: Report, name: str, what: str, found: Found, value: Callable[[Seen], float]) -> None:
    xs = sorted({x for _, x in found})
    lines = {who: (xs, [value(found[who, x]) for x in xs]) for who in WAYS}
    report.draw(name, name.split("-")[1], what, lines)


def _table(report: Report, title: str, found: Found) -> None:
    report.table(
        f"{title}; batches of {BATCH}, a punctuation every {GAP}",
        ["", "", "remembered", "guesses", "promises", "lag", "longest silence"],
        [
            [
                name, f"{x:g}", f"{seen.size:.0f}", f"{seen.speculated:,}", f"{len(seen.promises):,}",
                f"{seen.lag:.1f}", f"{seen.silence:.0f}",
            ]
            for (name, x), seen in found.items()
        ],
    )  # fmt: skip


def _each(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.2f}" for name, value in values.items())
