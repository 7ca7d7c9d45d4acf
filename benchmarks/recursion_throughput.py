"""What recursion costs: section 5.1 of paper 3, and evaluation in stages.

A loop costs by the round and by the row. Rounds are shared by all that goes round at the same time, so a
larger batch costs less per event, and so does input that is let in while what came before still goes
round. Who waits until all is quiet (staged evaluation) pays for each batch as many rounds as the longest
way has steps.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from statistics import median

import numpy as np
import polars as pl

import slackwater as sw
from benchmarks.merging import TURNS
from benchmarks.recursing import GAP, Tosses, given, rules, steps, tossed, tosses, ways, whole
from benchmarks.report import Report, Trend
from slackwater.events import Batch
from slackwater.punctuations import Punctuation
from slackwater.runtime.dataflow import Dataflow
from slackwater.runtime.running import Running

SIZES = (100, 1_000, 10_000, 30_000)
"""events in a batch"""
PAPERS = {"cyclic": 30_000, "native": 150_000}
"""events a second, on its machine"""
BATCH = 20
"""where stages are compared, as for figures 6 to 11"""
LOADS = (0.3, 0.5, 0.7, 0.9)
_BUSY = 0.5
"""below that, hardly anything comes while something else goes round, and both are the same"""


def figure_5_1(report: Report) -> list[Trend]:
    """The W query by a loop and by the native operator, output dropped, against one sort of the rows."""
    rates: dict[str, dict[int, float]] = {}
    for name in PAPERS:
        rates[name] = {}
        for size in SIZES:
            # with small batches a tenth takes as long
            events = report.elements if size >= 1_000 else report.elements // 10
            found = [events / _work(events, size, native=name == "native") for _ in range(TURNS)]
            rates[name][size] = median(found)
    rows = tossed(np.arange(report.elements))
    frame = rows.payload.with_columns(vs=pl.Series(rows.vs))
    shuffled = frame.sample(fraction=1, shuffle=True, seed=0)
    order = ["vs", "at", "symbol"]
    in_order, sort = (
        report.elements / min(_seconds(partial(each.sort, order)) for _ in range(5))
        for each in (frame, shuffled)
    )
    report.table(
        f"Section 5.1: the W query over {report.elements:,} tosses, medians of {TURNS}; the paper has "
        "30,000 and 150,000",
        ["", *(f"batches of {size:,}" for size in SIZES), "times the paper's"],
        [
            [name, *(f"{rate:,.0f}" for rate in by_size.values()),
             f"{max(by_size.values()) / PAPERS[name]:.1f}"]
            for name, by_size in rates.items()
        ],
    )  # fmt: skip
    report.draw(
        "5.1-throughput", "events in a batch", "events/s",
        {name: (SIZES, list(by_size.values())) for name, by_size in rates.items()}, log=True,
    )  # fmt: skip
    cyclic, native = (max(by_size.values()) for by_size in rates.values())
    alike = max(rates["cyclic"][size] / rates["native"][size] for size in SIZES)
    return [
        Trend(
            "5.1", "cyclic: 30,000 events/s on its machine",
            f"{cyclic:,.0f}, {cyclic / 30_000:.1f} times (aim 10)",
        ),
        Trend(
            "5.1", "native: 150,000 events/s on its machine",
            f"{native:,.0f}, {native / 150_000:.1f} times (aim 10)",
        ),
        Trend(
            "5.1", "cyclic: a fifth of native (at least)",
            f"{cyclic / native:.2f} of it at best; {alike:.2f} with batches of one size",
            cyclic >= native / 5,
        ),
        Trend(
            "5.1", "(ours) native: within 20 of a sort of the rows",
            f"{sort / native:.1f} of the rows shuffled, {in_order / native:.0f} of them as they come",
            sort / native <= 20,
        ),
    ]  # fmt: skip


def _work(events: int, size: int, *, native: bool) -> float:
    """Seconds of the processor for so many, all of which are there from the beginning."""
    running = whole(ways(native=native)).open()
    if not native:
        running.push(steps, rules())
    batches = [
        tossed(np.arange(start, min(start + size, events))).followed_by([sw.cti(start + size)])
        for start in range(0, events, size)
    ]
    start = time.process_time()
    for batch in batches:
        running.push(tosses, batch)
    return time.process_time() - start


def _seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


@dataclass
class Clock:
    """A plan at work by measured seconds of the processor; while nobody works, time passes by itself."""

    flow: Dataflow
    now: float = 0.0
    arrived: dict[int, float] = field(default_factory=dict)
    """when what was tossed at a time was there, or its punctuation"""
    latencies: list[float] = field(default_factory=list)
    """of ways, each from its last event on"""
    promised: list[float] = field(default_factory=list)
    """of punctuations, each until the answer has come as far"""
    due: list[int] = field(default_factory=list)

    def come(self, batch: Batch, when: float) -> None:
        """A batch is there; it may have waited since."""
        for at in batch.payload["at"].to_list():
            self.arrived[at] = when
        for _, control in batch.controls:
            assert isinstance(control, Punctuation)
            self.arrived[-control.before] = when
            self.due.append(control.before)

    def step(self) -> bool:
        """One operator, and what comes out."""
        begun = time.process_time()
        is_busy = self.flow.step()
        self.now += time.process_time() - begun
        for batch in self.flow.take_output():
            ends = batch.where(batch.payload["end"].to_numpy() >= batch.payload["begin"].to_numpy())
            self.latencies += (self.now - self.arrived[end] for end in ends.payload["end"].to_list())
            for _, control in batch.controls:
                assert isinstance(control, Punctuation)
                while self.due and self.due[0] <= control.before:
                    self.promised.append(self.now - self.arrived[-self.due.pop(0)])
        return is_busy


Policy = Callable[[Clock, Running], Iterator[None]]
"""lets the plan work until it takes the next batch"""


def _freely(clock: Clock, closing: Running) -> Iterator[None]:
    """A batch is let in after every round."""
    while True:
        rows = closing.rows_in
        while closing.rows_in == rows and clock.step():
            pass
        yield


def _staged(clock: Clock, closing: Running) -> Iterator[None]:
    """A batch is let in when all is quiet."""
    while True:
        while clock.step():
            pass
        yield


POLICIES: dict[str, Policy] = {"on the fly": _freely, "staged": _staged}


def stages(report: Report) -> list[Trend]:
    """Batches let in while others go round, or when all is quiet. They come at random intervals."""
    batches = list(Tosses(report.elements // 50, batch=BATCH).arrivals())
    events = batches[-1][0]
    rates = {
        name: median(events / _run(policy, batches, 0.0).now for _ in range(TURNS))
        for name, policy in POLICIES.items()
    }
    runs = {
        (name, load): _run(policy, batches, 1 / (rates["staged"] * load))
        for load in LOADS
        for name, policy in POLICIES.items()
    }
    report.table(
        f"{events:,} tosses in batches of {BATCH}, a punctuation every {GAP}; ms that a way and a "
        "promise take, mean (and 95 %), by load, as a part of what the staged plan can do",
        ["", "at most/s", *(f"{load:.0%}: {what}" for load in LOADS for what in ("way", "promise"))],
        [
            [
                name, f"{rates[name]:,.0f}",
                *(_shown(times) for load in LOADS
                  for times in (runs[name, load].latencies, runs[name, load].promised)),
            ]
            for name in POLICIES
        ],
    )  # fmt: skip
    report.draw(
        "staged", "load, as a part of what the staged plan can do", "ms until a way is out, mean",
        {name: (LOADS, [1e3 * float(np.mean(runs[name, load].latencies)) for load in LOADS])
         for name in POLICIES},
    )  # fmt: skip
    faster = rates["on the fly"] / rates["staged"]
    longer = {load: _longer(runs["staged", load], runs["on the fly", load]) for load in LOADS}
    told = "; ".join(f"{load:.0%} load: {a:.1f}, {b:.1f}" for load, (a, b) in longer.items())
    busy = [each for load in LOADS if load >= _BUSY for each in longer[load]]
    return [
        Trend("staged", "on the fly: at least its throughput", f"{faster:.1f} times", faster >= 1),
        Trend(
            "staged", "on the fly: lower latency",
            f"staged takes so many times as long for a way, and a promise: {told}", min(busy) > 1,
        ),
    ]  # fmt: skip


def _longer(staged: Clock, ours: Clock) -> tuple[float, float]:
    """How many times as long a way takes, and a promise."""
    ways_, promises = (
        float(np.mean(getattr(staged, what)) / np.mean(getattr(ours, what)))
        for what in ("latencies", "promised")
    )
    return ways_, promises


def _run(policy: Policy, batches: list[tuple[int, Batch]], pace: float) -> Clock:
    """All batches, one after the other; an event takes so many seconds on the average to come."""
    flow = Dataflow.of(ways().node)
    [closing] = [each for each in flow.operators if each.back]
    given(flow, steps, rules())
    flow.run_until_quiet()
    flow.take_output()
    clock = Clock(flow)
    working = policy(clock, closing)
    gaps = np.random.default_rng(0).exponential(BATCH * pace, len(batches))
    for due, (_, batch) in zip(np.cumsum(gaps).tolist(), batches, strict=True):
        while clock.now < due:
            if not clock.step():
                clock.now = due
        clock.come(batch, due)
        given(flow, tosses, batch)
        next(working)
    while clock.step():
        pass
    return clock


def _shown(seconds: list[float]) -> str:
    return f"{1e3 * float(np.mean(seconds)):.1f} ({1e3 * float(np.quantile(seconds, 0.95)):.1f})"
