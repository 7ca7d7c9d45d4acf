"""What consistent output costs, in process, one arrival at a time (paper 5, section 6).

Queries of one to four joins over two streams, whose keys are drawn from so many; the third and the
fourth take each event two ways. Operators take turns (round-robin, as long as queues are). Each
experiment prints a table and draws a figure; in the end stands what the paper has found beside what was
found here.

    python -m benchmarks.consistency                    all of them
    python -m benchmarks.consistency 5a 6               some of them
    python -m benchmarks.consistency --events 500       with shorter streams
    python -m benchmarks.consistency --figures DIRECTORY

    5a  distances between consistent states that heeding finds
    5b  latency, delay and cumulative latency by the period of tokens; the period that is adapted. Time
        is counted in turns (turns.py), so that a run is the same whatever else the machine does
    6   throughput, latency and memory of four queries: no control, heeding (counted, scanned), tokens
    bank  1,000,000 transactions of examples/bank.py, every state that is shown

Where methods are compared they take turns on the same input, and ratios are taken turn by turn; medians
count. Memory is what Python and NumPy have allocated at most; frames of Polars, which are the same for
all, are not in it.

It needs matplotlib, which is in the extra `demo`.
"""

from __future__ import annotations

import argparse
import gc
import tracemalloc
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import mean, median

import matplotlib as mpl
import numpy as np
import polars as pl
from examples import bank
from rich.console import Console

import slackwater as sw
from benchmarks.report import Report, Trend, yes
from benchmarks.turns import CountedTime, MeasuringTime, Taken, WorkingTime
from slackwater.events import Batch
from slackwater.levels import Method, method_for
from slackwater.plan.nodes import Source
from slackwater.runtime.controlled import Controlled
from slackwater.runtime.period import Beat

KEYS = 500
WINDOW = 500
"""events of a stream that an event is joined with, about one of which has its key"""
SPARSE = 5_000
"""keys for Figure 5(b), as in the paper"""
TURNS = 5
LOAD = 0.8
"""of what the system can take, for Figure 5(a)"""
TOO_MUCH = 1.05
"""for Figure 5(b), times what the system can do, is what there is to do with a token for each arrival"""
SELDOM = 100.0
"""arrivals a second, so few that each is worked off before the next one comes"""

INSERTS = sw.StreamProperties(insert_only=True)
LEFT = sw.stream({"k": int, "l": int, "a": int}, name="left", properties=INSERTS)
RIGHT = sw.stream({"k": int, "l": int, "b": int}, name="right", properties=INSERTS)


def queries() -> dict[str, sw.Query]:
    """Q1 to Q4, by how many joins there are."""
    by_k = LEFT.join(RIGHT, on="k")
    by_l = LEFT.join(RIGHT, on="l", suffix="_2")
    both = by_k.join(by_l, on="a", suffix="_3")
    return {
        "Q1": by_k,
        "Q2": by_k.join(LEFT, on="l", suffix="_3"),
        "Q3": both,
        "Q4": both.join(RIGHT, on={"b_3": "b"}, suffix="_4"),
    }


def events(count: int, keys: int = KEYS, seed: int = 0) -> dict[sw.Query, Batch]:
    """Two streams, an event for every chronon, alive as long as the window is."""
    random = np.random.default_rng(seed)
    told = {}
    for stream, name in ((LEFT, "a"), (RIGHT, "b")):
        vs = np.arange(count, dtype=np.int64)
        drawn = {key: random.integers(0, keys, count) for key in "kl"}
        payload = pl.DataFrame({**drawn, name: vs})
        told[stream] = Batch.inserts(vs, vs + WINDOW, payload)
    return told


@dataclass
class Measured:
    """What one run took."""

    seconds: float
    """until all was worked off"""
    offering: float
    """... and before that, until all had arrived"""
    working: float
    """of these seconds, those in which there was something to do"""
    rows: int
    latencies: list[float] = field(repr=False)
    """of every row, from the entrance of the last event that it needs"""
    beats: list[Beat] = field(repr=False)
    marks: list[int] = field(repr=False)
    """how much had been said at every state that is right"""

    @property
    def latency(self) -> float:
        return mean(self.latencies)


def measure(
    query: sw.Query,
    told: dict[sw.Query, Batch],
    by: Method | None,
    rate: float | None = None,
    clock: WorkingTime | CountedTime | None = None,
) -> Measured:
    """One arrival at a time; what comes out is shown at once.

    All is there from the beginning, or so many arrivals come in each second of work, evenly.
    """
    level, by = method_for(None, by)
    clock = clock or WorkingTime()
    controlled = Controlled(
        query.node, level=level, by=by, show=sw.MARKED, schedule=clock.schedule, clock=clock.asked
    )
    pieces = [
        (source_of(stream), piece)
        for some in zip(*(batch.split(1) for batch in told.values()), strict=True)
        for stream, piece in zip(told, some, strict=True)
    ]
    waiting = deque(pieces)
    begun = clock.now()
    if rate is None:
        while waiting:
            controlled.offer(*waiting.popleft())
        come: deque[float] = deque()
    else:
        come = deque((np.arange(len(pieces)) / rate).tolist())
    offering = clock.now() - begun
    batches, seen = controlled.output.batches, 0
    columns = ["ab"[[*told].index(stream)] for stream in map(query_of(told), controlled.sources)]
    entered: list[list[float]] = [[] for _ in columns]
    said: list[float] = []
    gc.collect()
    gc.disable()
    begun = clock.now()
    while True:
        while come and come[0] <= clock.now() - begun:
            come.popleft()
            controlled.offer(*waiting.popleft())
        works = controlled.step()
        clock.over()
        if not works:
            if not come:
                break
            clock.wait_until(begun + come[0])
        now = clock.now()
        for place, count in enumerate(controlled.let_in):
            entered[place] += [now] * (count - len(entered[place]))
        while seen < len(batches):
            said += [now] * batches[seen].rows
            seen += 1
    controlled.run_until_quiet()
    seconds = clock.now() - begun
    working = seconds - clock.skipped
    gc.enable()
    needed = np.zeros(len(said))
    payload = controlled.output.as_batch().payload
    for column, times in zip(columns, entered, strict=True):
        for name in payload.columns:
            if name[0] == column:
                needed = np.maximum(needed, np.array(times)[payload[name].to_numpy()])
    latencies = (np.array(said) - needed).tolist()
    marks = [mark.said for mark in controlled.output.marks]
    return Measured(seconds, offering, working, len(said), latencies, controlled.beats, marks)


def source_of(stream: sw.Query) -> Source:
    """As plans name it."""
    assert isinstance(stream.node, Source), "it is read from outside"
    return stream.node


def capacity(query: sw.Query, told: dict[sw.Query, Batch]) -> float:
    """Arrivals that the system can take a second, without control."""
    run = measure(query, told, None)
    return sum(batch.rows for batch in told.values()) / (run.seconds + run.offering)


def taken(query: sw.Query, told: dict[sw.Query, Batch]) -> Taken:
    """What turns take, when arrivals come seldom and every seventh has a token behind it."""
    clock = MeasuringTime()
    measure(query, told, sw.Tokens(7), SELDOM, clock)
    return clock.taken()


def query_of(told: dict[sw.Query, Batch]) -> Callable[[Source], sw.Query]:
    """The stream of a source."""
    return lambda source: next(stream for stream in told if stream.node is source)


# Figure 5(a)


def figure_5a(report: Report) -> list[Trend]:
    """How far consistent states are from each other, in rows, when nobody makes them."""
    query, told = queries()["Q3"], events(4 * report.elements)
    run = measure(query, told, sw.Heeding(), LOAD * capacity(query, events(report.elements)))
    marks = [0, *dict.fromkeys(run.marks)]
    distances = np.array([stop - start for start, stop in pairwise(marks) if stop > start])
    bins = np.unique(np.geomspace(1, distances.max() + 1, 14).astype(int))
    counts, _ = np.histogram(distances, bins)
    # per row of a bin's width: bins grow
    density = counts / np.diff(bins)
    middle = np.sqrt(bins[:-1] * bins[1:])
    some = density > 0
    xs, ys = np.log(middle[some]), np.log(density[some])
    slope = float(np.polyfit(xs, ys, 1)[0])
    fit = float(np.corrcoef(xs, ys)[0, 1])
    report.table(
        "5a  distances between consistent states (rows)",
        ("rows", "occurrences"),
        [(f"{a} to {b - 1}", f"{n:,}") for a, b, n in zip(bins, bins[1:], counts, strict=False)],
    )
    report.draw(
        "5a-distances", "rows between two consistent states (log)", "log of occurrences per row",
        {"heeding": (middle[some].tolist(), (ys - ys.min()).tolist())}, log=True,
    )  # fmt: skip
    near = float(np.mean(distances <= 10))
    return [
        Trend("5a", "most are a few rows apart", f"{near:.0%} within 10 rows", near > 0.5),
        Trend("5a", "some are hundreds apart", f"the largest: {distances.max():,} rows"),
        Trend("5a", "a power law", f"exponent {slope:.2f}, correlation {fit:.3f}", fit < -0.9),
    ]


# Figure 5(b)

PERIODS = (1, 2, 3, 4, 6, 8, 16, 32, 64, 128, 256, 512)
ADAPTED = 0
"""stands for the period that is found at run time"""


def figure_5b(report: Report) -> list[Trend]:
    """Fewer tokens: they take less time, and right states are further apart."""
    # so long that a period is judged some twenty times in the half that counts
    query, told = queries()["Q3"], events(6 * report.elements, SPARSE)
    measure(query, events(report.elements // 4, SPARSE), None)
    turns = taken(query, events(report.elements, SPARSE))
    rate = TOO_MUCH / (turns.arrival + turns.token)
    # of each period at least a few whole ones
    periods = [period for period in PERIODS if 8 * period <= 12 * report.elements]
    found: dict[int, list[Measured]] = {
        period: [
            measure(query, told, sw.Tokens(period or sw.Adaptive()), rate, CountedTime(turns, seed))
            for seed in range(3 if period else 5)
        ]
        for period in (*periods, ADAPTED)
    }

    def over(period: int, what: Callable[[Beat], float]) -> float:
        """For the median of events, in the median of runs."""
        return median(_for_events(_second_half(run.beats), what) for run in found[period])

    latency = {p: over(p, lambda beat: beat.latency) for p in periods}
    most = {
        p: median(max(beat.latency for beat in _second_half(run.beats)) for run in found[p])
        for p in periods
    }
    delay = {p: over(p, lambda beat: beat.delay) for p in periods}
    cumulative = {p: over(p, lambda beat: beat.cumulative) for p in periods}
    best = min(periods, key=lambda p: cumulative[p])
    reached = over(ADAPTED, lambda beat: beat.cumulative)
    settled = over(ADAPTED, lambda beat: beat.period)
    each = [_for_events(_second_half(run.beats), lambda beat: beat.cumulative) for run in found[ADAPTED]]
    base = cumulative[best]
    report.table(
        "5b  by period of tokens, as multiples of the lowest cumulative latency",
        ("elements", "latency", "longest", "delay", "cumulative"),
        [
            (str(p), *(f"{each[p] / base:.2f}" for each in (latency, most, delay, cumulative)))
            for p in periods
        ] + [(f"adapted ({settled:.0f})", "", "", "", f"{reached / base:.2f}")],
    )  # fmt: skip
    lines = {"latency": latency, "longest latency": most, "delay": delay, "cumulative": cumulative}
    report.draw(
        "5b-period", "elements between tokens (log)", "multiples of the lowest cumulative latency (log)",
        {n: (periods, [each[p] / base for p in periods]) for n, each in lines.items()},
        log=True, log_y=True,
    )  # fmt: skip
    valley = cumulative[periods[0]] > 1.2 * base and cumulative[periods[-1]] > 1.2 * base
    return [
        Trend("5b", "", f"a token takes {turns.token / turns.arrival:.2f} of what an arrival does; "
              f"the load is {rate * turns.arrival:.2f} without tokens"),
        Trend("5b", "latency falls with the period",
              f"{latency[1] / latency[periods[-1]]:.2f} times as long with 1 as with {periods[-1]}",
              latency[1] > latency[periods[-1]]),
        Trend("5b", "cumulative latency is a valley, lowest at 250",
              f"lowest at {best}; {cumulative[periods[0]] / base:.2f} times that at 1, "
              f"{cumulative[periods[-1]] / base:.2f} at {periods[-1]}", valley),
        Trend("5b", "adapted (limit 1.2)",
              f"{reached / base:.2f} of the lowest, at {settled:.0f} elements ("
              + ", ".join(f"{one / base:.2f}" for one in each) + ")", reached <= 1.2 * base),
    ]  # fmt: skip


def _second_half(beats: list[Beat]) -> list[Beat]:
    """The first half meets half a window or finds its period, the last may be of a part of a period."""
    return beats[len(beats) // 2 : -1]


def _for_events(beats: list[Beat], what: Callable[[Beat], float]) -> float:
    """The median over events: of a token as many as it has behind it."""
    found = sorted((what(beat), beat.period) for beat in beats)
    left = sum(events for _, events in found) / 2
    for value, events in found:
        left -= events
        if left <= 0:
            return value
    raise AssertionError("there are some")


# Figure 6

METHODS: dict[str, Method | None] = {
    "no control": None,
    "heeding, counted": sw.Heeding(),
    "heeding, scanned": sw.Heeding(sw.Search.SCAN),
    "tokens": sw.Tokens(100),
}


def figure_6(report: Report) -> list[Trend]:
    """What each method costs, beside no control."""
    told = events(report.elements)
    less = events(max(100, report.elements // 4))
    speed: dict[tuple[str, str], float] = {}
    wait: dict[tuple[str, str], float] = {}
    memory: dict[tuple[str, str], float] = {}
    for name, query in queries().items():
        measure(query, less, None)
        turns: list[dict[str, Measured]] = []
        for turn in range(TURNS):
            order = [*METHODS] if turn % 2 else [*METHODS][::-1]
            turns.append({method: measure(query, told, METHODS[method]) for method in order})
        peak = {method: allocated(query, less, by) for method, by in METHODS.items()}
        for method in METHODS:
            bare = "no control"
            speed[name, method] = median(t[bare].seconds / t[method].seconds for t in turns)
            wait[name, method] = median(t[method].latency / t[bare].latency for t in turns)
            memory[name, method] = peak[method] / peak[bare]
    relative = {key: memory[key] / speed[key] for key in memory}
    figures = {
        "6a-throughput": speed,
        "6b-latency": wait,
        "6c-memory": memory,
        "6d-memory-by-throughput": relative,
    }
    for title, values in figures.items():
        report.table(
            f"{title}, as multiples of no control",
            ("", *METHODS),
            [(q, *(f"{values[q, method]:.2f}" for method in METHODS)) for q in queries()],
        )
        report.draw(
            title, "joins", "multiples of no control",
            {m: (range(1, 5), [values[q, m] for q in queries()]) for m in METHODS},
        )  # fmt: skip
    counted, tokens = (
        min(speed[q, method] for q in queries()) for method in ("heeding, counted", "tokens")
    )

    def most(values: dict[tuple[str, str], float], method: str) -> float:
        return max(values[q, method] for q in queries())

    latest = most(wait, "tokens")
    naive = [speed[q, "heeding, scanned"] for q in queries()]
    return [
        Trend("6a", "heeding with multisets: no difference (limit 0.95)",
              f"at least {counted:.2f}", counted >= 0.95),
        Trend("6a", "tokens: no difference (limit 0.95)", f"at least {tokens:.2f}", tokens >= 0.95),
        Trend("6a", "naive heeding: worse, the more queues there are",
              ", ".join(f"{each:.2f}" for each in naive), naive[-1] < 0.9 and naive[-1] < naive[0]),
        Trend("6b", "tokens: up to 10 % (limit 1.1)", f"at most {latest:.2f}", latest <= 1.1),
        Trend("6c", "multisets: somewhat more", f"at most {most(memory, 'heeding, counted'):.2f}"),
        Trend("6d", "naive heeding: least efficient",
              f"{most(relative, 'heeding, scanned'):.2f}; tokens {most(relative, 'tokens'):.2f}"),
    ]  # fmt: skip


def allocated(query: sw.Query, told: dict[sw.Query, Batch], by: Method | None) -> float:
    """The most that Python and NumPy hold at once, inputs and output included."""
    gc.collect()
    tracemalloc.start()
    measure(query, told, by)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


# The bank


def the_bank(report: Report) -> list[Trend]:
    """Every state that is shown of it, with 1,000,000 transactions."""
    rows = bank.transactions(1_000 * report.elements)
    batch = max(1, rows.height // 100)
    table, wrong = [], 0
    for view in ("outer join with time", "full outer join with time", "balance", "total"):
        bare = bank.run(view, rows, batch=batch, by=None)
        kept = bank.run(view, rows, batch=batch, by=sw.Tokens(5 * batch), compared=3)
        wrong += kept.wrong + kept.different
        table.append(
            (view, f"{bare.states}", f"{bare.wrong}", f"{kept.states}", f"{kept.wrong + kept.different}",
             f"{kept.seconds / bare.seconds:.2f}")
        )  # fmt: skip
    report.table(
        f"The bank, {rows.height:,} transactions",
        ("view", "states, no control", "wrong", "states, tokens", "wrong", "time with tokens"),
        table,
    )
    return [Trend("bank", "", f"{wrong} states that were shown are wrong", wrong == 0)]


EXPERIMENTS: dict[str, Callable[[Report], list[Trend]]] = {
    "5a": figure_5a,
    "5b": figure_5b,
    "6": figure_6,
    "bank": the_bank,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("experiment", nargs="*", choices=[*EXPERIMENTS, []])
    parser.add_argument("--figures", type=Path, default=Path("figures"))
    parser.add_argument(
        "--events", type=int, default=1_000, help="of each stream, by which all are sized"
    )
    given = parser.parse_args()
    mpl.use("Agg")
    console = Console(width=130)
    report = Report(console, given.figures, given.events, "consistency")
    trends = [trend for name in given.experiment or EXPERIMENTS for trend in EXPERIMENTS[name](report)]
    report.table(
        "Paper 5 and this",
        ("figure", "in the paper", "here", "met"),
        [(each.figure, each.paper, each.ours, yes(met=each.met)) for each in trends],
    )


if __name__ == "__main__":
    main()
