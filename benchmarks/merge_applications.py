"""Logical merge at work: figures 8 to 10 of paper 2, section VI-E.

Bursts and congestion go by a simulated clock; two plans for one query by the time that they take.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
import pyarrow.compute as pc

import slackwater as sw
from benchmarks.merging import RATE, Floats, Generator, Ints, Merging, pieces
from benchmarks.report import Lines, Report, Trend
from slackwater.events import Batch, Placed
from slackwater.runtime.dataflow import Dataflow
from slackwater.runtime.schedules import Fair


def departures(
    count: int, delays: Floats, *, during: Sequence[tuple[float, float]] = ((0, np.inf),)
) -> Floats:
    """When rows come that are made at a steady rate, and pass through a queue that is held up at times.

    The queue lets four times as many through as are made, so that it catches up. It is held up by the
    row's delay if it gets there during one of these times.
    """
    service = 1 / (4 * RATE)
    left = np.empty(count)
    free = 0.0
    for i, delay in enumerate(delays.tolist()):
        now = max(i / RATE, free)
        held = any(start <= now < stop for start, stop in during)
        free = now + service + (delay if held else 0)
        left[i] = free
    return left


def simulate(streams: Sequence[Batch], arrivals: Sequence[Floats], step: float) -> tuple[Floats, Ints]:
    """A merge of what arrives, a step at a time: the ends of the steps, and the rows out in each."""
    ends = np.arange(step, max(float(each[-1]) for each in arrivals) + step, step)
    parts = [
        pieces(stream, np.searchsorted(times, ends, side="right").tolist())
        for stream, times in zip(streams, arrivals, strict=True)
    ]
    merging = Merging(streams[0].schema, len(streams), "R3+")
    out = np.zeros(len(ends), dtype=np.int64)
    for at, turn in enumerate(zip(*parts, strict=True)):
        for port, piece in enumerate(turn):
            if piece.rows.rows or piece.cti:
                out[at] += sum(rows.rows for rows in merging.push(port, piece))
    return ends, out


def rates(times: Floats, weights: Ints | None, until: float, interval: float) -> Floats:
    """Rows a second, by interval."""
    edges = np.arange(0, until + interval / 2, interval)
    return np.histogram(times, edges, weights=weights)[0] / interval


def figure_8(report: Report) -> list[Trend]:
    """Bursts: delays are in ms, a hundred times the distance of two rows at the paper's rate."""
    interval, inputs = 0.05, 4
    streams = Generator(min(report.elements, 50_000), string=20).replicas(inputs)
    count = streams[0].rows
    arrivals = []
    for port in range(inputs):
        random = np.random.default_rng([8, port])
        held = random.random(count) < random.uniform(0.003, 0.005)
        delays = np.where(held, np.maximum(0, random.normal(20e-3, 5e-3, count)), 0)
        arrivals.append(departures(count, delays))
    ends, out = simulate(streams, arrivals, 0.005)
    until = count / RATE
    of_inputs = [rates(each, None, until, interval) for each in arrivals]
    # a row that comes in a step is counted when the step ends
    of_output = rates(ends - 0.0025, out, until, interval)
    # the start is left out, where nothing can have been held up
    varies = [float(np.std(each[1:]) / np.mean(each[1:])) for each in (*of_inputs, of_output)]
    named = [*(f"input {port}" for port in range(inputs)), "output"]
    report.table(
        f"Figure 8: bursts; rows a second, in intervals of {interval * 1e3:.0f} ms",
        ["", "mean", "least", "most", "coefficient of variation"],
        [
            [name, *(f"{each:,.0f}" for each in (np.mean(of), np.min(of), np.max(of))), f"{cv:.3f}"]
            for name, of, cv in zip(named, [*of_inputs, of_output], varies, strict=True)
        ],
    )
    xs = (np.arange(len(of_output)) * interval).tolist()
    lines = {"input 0": (xs, of_inputs[0].tolist()), "output": (xs, of_output.tolist())}
    report.draw("8-bursts", "s", "rows/s", lines, marker="-")
    *theirs, ours = varies
    told = f"coefficient of variation {ours:.3f}, of inputs {min(theirs):.3f} to {max(theirs):.3f}"
    return [Trend("8", "the output is smoother than any input", told, ours < min(theirs))]


def figure_9(report: Report) -> list[Trend]:
    """Congestion: for some seconds a row takes 1 ms more (sd 0.25), five times its time."""
    interval = 0.5
    streams = Generator(report.elements, string=20).replicas(3)
    count = streams[0].rows
    until = count / RATE
    # in the paper's 40 s: two at once around 18 s
    shares = [[(0.10, 0.20), (0.70, 0.80)], [(0.40, 0.50)], [(0.425, 0.525)]]
    congested = [[(start * until, stop * until) for start, stop in each] for each in shares]
    arrivals = []
    for port, during in enumerate(congested):
        delays = np.maximum(0, np.random.default_rng([9, port]).normal(1e-3, 0.25e-3, count))
        arrivals.append(departures(count, delays, during=during))
    ends, out = simulate(streams, arrivals, 0.02)
    of_inputs = [rates(each, None, until, interval) for each in arrivals]
    of_output = rates(ends - 0.01, out, until, interval)
    starts = np.arange(len(of_output)) * interval
    then = np.zeros(len(starts), dtype=np.bool_)
    for begin, end in (span for each in congested for span in each):
        then |= (starts + interval > begin) & (starts < end)
    rows = [*((f"input {port}", of) for port, of in enumerate(of_inputs)), ("output", of_output)]
    report.table(
        f"Figure 9: congestion; rows a second, in intervals of {interval} s",
        ["", "mean", "least while congested", "of the mean", "most"],
        [
            [
                name,
                f"{np.mean(of):,.0f}",
                f"{np.min(of[then]):,.0f}",
                f"{np.min(of[then]) / np.mean(of):.2f}",
                f"{np.max(of):,.0f}",
            ]
            for name, of in rows
        ],
    )
    xs = starts.tolist()
    report.draw(
        "9-congestion", "s", "rows/s", {name: (xs, of.tolist()) for name, of in rows}, marker="-"
    )
    ratio = float(np.min(of_output[then]) / np.mean(of_output))
    told = f"least rate {ratio:.2f} of the mean (limit 0.9)"
    return [Trend("9", "no dip at the output", told, ratio >= 0.9)]


# Two plans for one query

CHEAP, DEAR = 500, 5_000
"""rounds of a loop that a row takes. In the paper 176 s become 34, if rows are expensive to nobody: by
half of e + c for c, which is a factor of more than nine."""
HALF = 200
"""values up to this one are low"""


@dataclass(frozen=True)
class Switched:
    """One run of plans, all input being there when it begins."""

    seconds: float
    """of processor time"""
    busiest: float
    """of the plan that has taken most"""
    dear: int
    """rows for which a plan was expensive"""
    rows: int
    times: list[float]
    shown: list[int]
    """so many rows at each of these times"""


def switching(elements: int) -> Batch:
    """Values that are low and high by turns, of 10,000 to 30,000 rows each where there are 200,000.

    Events are short: of one that lasts, each plan has to say that it is there.
    """
    generator = Generator(elements, alive=100, string=0)
    history = generator.history()
    random = np.random.default_rng(10)
    turns = random.integers(elements // 20, 3 * elements // 20 + 1, 20)
    high = np.repeat(np.arange(20) % 2, turns)[:elements]
    values = random.integers(0, HALF, elements) + (HALF + 1) * high
    return generator.arrange(replace(history, payload=pl.DataFrame({"x": values})), 0)


@dataclass
class Plan:
    """A function that selects rows, the same ones whatever is dear to it; and what it has cost."""

    dear: range
    seconds: float = 0.0
    rows: int = 0
    """that were dear"""

    def __call__(self, column: Any) -> Any:
        begun = time.process_time()
        for value in column.to_pylist():
            is_dear = value in self.dear
            self.rows += is_dear
            sum(range(DEAR if is_dear else CHEAP))
        self.seconds += time.process_time() - begun
        return pc.not_equal(column, HALF // 2)


UDF0, UDF1 = range(HALF + 1), range(HALF + 1, 2 * HALF + 1)
"""what each is expensive for: low values, and high ones"""


def switched(stream: Batch, *dear: range, feedback: bool) -> Switched:
    """Run one plan, or several and a merge.

    Feedback is taken where events are known never to be lengthened, which the source tells or not.
    """
    known = sw.StreamProperties(insert_only=feedback, vs_payload_key=True)
    source = sw.stream(stream.schema, name="values", properties=known)
    plans = [Plan(each) for each in dear]
    queries = [source.where(sw.function(plan, "x", returns=bool)) for plan in plans]
    query = sw.merge(*queries, algorithm="R3") if len(queries) > 1 else queries[0]
    begun, times, shown = 0.0, [0.0], [0]

    class Watched(Fair):
        def next(self, operators: Sequence[Any]) -> Any:
            times.append(time.process_time() - begun)
            shown.append(operators[-1].rows_out)
            return Fair.next(self, operators)

    dataflow = Dataflow.of(query.node, schedule=Watched())
    [entrance] = dataflow.sources
    stops = [*range(500, stream.rows, 500), stream.rows]
    for rows, cti in pieces(stream, stops):
        controls = (Placed(rows.rows, cti),) if cti else ()
        dataflow.push(entrance, replace(rows, controls=controls))
    dataflow.push(entrance, Batch.of([sw.cti(sw.INF)], stream.schema))
    begun = time.process_time()
    dataflow.run_until_quiet()
    seconds = time.process_time() - begun
    out = dataflow.take_output()
    rows_out = sum(int(np.count_nonzero(batch.is_insert)) for batch in out)
    busiest = max(plan.seconds for plan in plans)
    return Switched(seconds, busiest, sum(plan.rows for plan in plans), rows_out, times, shown)


def figure_10(report: Report) -> list[Trend]:
    """Two plans, each expensive for other values; all of it on one core.

    Where each plan has a core of its own, as in the paper, the time is that of the busiest.
    """
    stream = switching(report.elements)
    switched(stream.slice(0, 1_000), UDF0, UDF1, feedback=True)  # compiled code is loaded
    runs = {
        "UDF0": switched(stream, UDF0, feedback=False),
        "UDF1": switched(stream, UDF1, feedback=False),
        "R3+": switched(stream, UDF0, UDF1, feedback=False),
        "R3+, feedback": switched(stream, UDF0, UDF1, feedback=True),
    }
    assert len({run.rows for run in runs.values()}) == 1, "all say the same"
    without, told = runs["R3+"], runs["R3+, feedback"]
    report.table(
        f"Figure 10: two plans for one query, {report.elements:,} elements",
        ["", "s, on one core", "s, of the busiest plan", "rows that were expensive", "rows out"],
        [
            [name, f"{run.seconds:.2f}", f"{run.busiest:.2f}", f"{run.dear:,}", f"{run.rows:,}"]
            for name, run in runs.items()
        ],
    )
    lines: Lines = {name: (run.times, run.shown) for name, run in runs.items()}
    report.draw("10-switching", "s of processor time", "rows out", lines, marker="-")
    faster, busiest = without.seconds / told.seconds, without.busiest / told.busiest
    alone = min(runs["UDF0"].seconds, runs["UDF1"].seconds)
    return [
        Trend(
            "10", "with feedback nearly 5x faster than without",
            f"{faster:.1f}x (limit 4); busiest plan {busiest:.1f}x", faster >= 4,
        ),
        Trend(
            "10", "without feedback no faster than the better plan",
            f"{without.busiest / alone:.2f} of its time, on a core each", without.busiest >= 0.9 * alone,
        ),
        Trend(
            "10", "with feedback about 5x faster than one plan",
            f"{alone / told.seconds:.1f}x on one core, {alone / told.busiest:.1f}x on a core each",
            alone > told.seconds,
        ),
    ]  # fmt: skip
