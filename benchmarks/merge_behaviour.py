"""Logical merge by what its inputs are like: figures 2 to 7 of paper 2, sections VI-C and VI-D."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

import slackwater as sw
from benchmarks.merging import (
    CLEANSED,
    INPUTS,
    LOOKS,
    NAMES,
    RATE,
    SECOND,
    TURNS,
    Derived,
    Generator,
    Ints,
    Measured,
    Merging,
    Script,
    clipped,
    compare,
    in_step,
    measure,
    modified,
    pieces,
)
from benchmarks.report import Report, Trend, mb, rate
from slackwater.events import Batch


def figure_2(report: Report) -> list[Trend]:
    """Memory by inputs; ordered, no adjusts."""
    found = _in_order(report.elements)
    _by_inputs(report, "2-memory", "MB", found, lambda run: run.bytes / 1e6)
    growth = {name: found[name, 10].bytes / found[name, 2].bytes for name in NAMES}
    most = max(found[name, count].bytes for name in ("R0", "R1", "R2") for count in INPUTS)
    return [
        Trend("2", "R0, R1, R2: negligible", f"at most {most:,} bytes", most < 100_000),
        Trend(
            "2", "R3+: almost independent of the inputs",
            f"10 inputs take {growth['R3+']:.2f} of 2 (limit 1.3)", growth["R3+"] <= 1.3,
        ),
        Trend(
            "2", "R3-: linear in the inputs",
            f"10 inputs take {growth['R3-']:.2f} of 2 (11 copies of 3: 3.7)", _is_linear(found, "R3-"),
        ),
    ]  # fmt: skip


@cache
def _in_order(elements: int) -> dict[tuple[str, int], Measured]:
    """Ordered inputs, as many as there may be, by each algorithm; figures 2 and 3."""
    streams = Generator(elements, disorder=0).replicas(max(INPUTS))
    return {
        (name, count): measure(in_step(streams[:count]), name, looks=LOOKS)
        for count in INPUTS
        for name in NAMES
    }


def _is_linear(found: Mapping[tuple[str, int], Measured], name: str) -> bool:
    """Whether memory grows with the inputs, by about as much with each."""
    sizes = [found[name, count].bytes for count in INPUTS]
    return sizes[-1] > 2 * sizes[0] and float(np.corrcoef(INPUTS, sizes)[0, 1]) > 0.99


def _by_inputs(
    report: Report,
    name: str,
    unit: str,
    found: Mapping[tuple[str, int], Measured],
    value: Callable[[Measured], float],
) -> None:
    names = list(dict.fromkeys(who for who, _ in found))
    counts = sorted({count for _, count in found})
    report.table(
        f"Figure {name}: {unit}, by number of inputs",
        ["", *map(str, counts)],
        [[who, *(f"{value(found[who, count]):.3f}" for count in counts)] for who in names],
    )
    lines = {who: (counts, [value(found[who, count]) for count in counts]) for who in names}
    report.draw(name, "inputs", unit, lines)


def figure_3(report: Report) -> list[Trend]:
    """Throughput by inputs, and of three in turns; ordered, no adjusts."""
    found = _in_order(report.elements)
    _by_inputs(report, "3-throughput", "M rows/s in", found, lambda run: run.rate / 1e6)
    script = in_step(Generator(report.elements, disorder=0).replicas(3))
    runs = compare({name: (script, name) for name in NAMES})
    report.table(
        f"Figure 3: three ordered inputs, medians of {TURNS}",
        ["", "M rows/s in", "M rows/s out", "of R3+"],
        [
            [
                name,
                rate(run.rate),
                rate(run.inserts / run.seconds),
                f"{run.rate / runs['R3+'].rate:.2f}",
            ]
            for name, run in runs.items()
        ],
    )
    trends = []
    for faster, slower in (("R0", "R1"), ("R1", "R2"), ("R2", "R3+"), ("R3+", "R4"), ("R3+", "R3-")):
        ratio = runs[faster].rate / runs[slower].rate
        least = 1.0 if faster == "R3+" else 0.95
        trends.append(
            Trend(
                "3",
                f"{faster} at least as fast as {slower}",
                f"{ratio:.2f} times as fast (limit {least})",
                ratio >= least,
            )
        )
    return trends


SHOWN = {
    "R3+": sw.merge_policy(),
    "R3+, after half of the inputs": sw.merge_policy(inserts=sw.after(0.5)),
    "R3+, half frozen": sw.merge_policy(inserts=sw.HALF_FROZEN),
}


def figure_4(report: Report) -> list[Trend]:
    """Adjusts out of a merge of three, and of one query without it, by disorder.

    Output size is the number of adjusts. The paper puts disorder into one stream and feeds that into a
    query, of which a count with a change of lifetimes is its example: so its inputs are copies. Beside
    these stand replicas whose disorder is their own. Each of them counts otherwise in between, and says
    events that do not stay and that no other one says. Shown at first sight, as Algorithm R3 does, they
    have to be taken back one by one: as many as all inputs together take back. A policy that waits until
    half of the inputs agree, or until an event is half frozen, does not say them. Where all events stay
    and only their ends change, nothing of this is seen.
    """
    disorders = [each / 10 for each in range(7)]
    trends = []
    for query in (modified, clipped):
        generator = Derived.of(report.elements // 2).generator
        adjusts: dict[str, list[int]] = {}
        for disorder in disorders:
            derived = Derived(replace(generator, disorder=disorder, string=20), query)
            streams = derived.replicas(3)
            copies = in_step([streams[0]] * 3)
            found = {
                "without a merge": int(np.count_nonzero(~streams[0].is_insert)),
                "R3+, of copies": measure(copies, "R3+").adjusts,
            }
            for name, policy in SHOWN.items():
                found[f"{name}, of replicas"] = measure(in_step(streams), "R3+", policy=policy).adjusts
            for name, said in found.items():
                adjusts.setdefault(name, []).append(said)
        title = (query.__doc__ or "").partition(":")[0]
        report.table(
            f"Figure 4: adjusts, three inputs. {title}",
            ["disorder", *(f"{disorder:.0%}" for disorder in disorders)],
            [[name, *(f"{each:,}" for each in said)] for name, said in adjusts.items()],
        )
        percent = [100 * each for each in disorders]
        lines = {name: (percent, said) for name, said in adjusts.items()}
        report.draw(f"4-adjusts-{query.__name__}", "disorder, %", "adjusts", lines)
        trends += _chattiness(query.__name__, adjusts)
    return trends


def _chattiness(query: str, adjusts: Mapping[str, list[int]]) -> list[Trend]:
    without, copies = adjusts["without a merge"], adjusts["R3+, of copies"]
    grow = all(after >= before for before, after in pairwise(copies))
    trends = []
    if query == modified.__name__:
        told = f"{copies[0]:,} to {copies[-1]:,}"
        trends.append(Trend("4", f"{query}: adjusts grow with disorder", told, grow))
    for name, said in adjusts.items():
        if name == "without a merge":
            continue
        ratios = [out / max(1, one) for one, out in zip(without, said, strict=True) if one or out]
        told = f"{name}: {min(ratios):.2f} to {max(ratios):.2f} of those without"
        met: bool | None = max(ratios) <= 1
        if name == "R3+, of replicas" and query == modified.__name__:
            # shown at first sight, they cannot be fewer
            told, met = f"{told}: each replica says events of its own", None
        trends.append(Trend("4", f"{query}: fewer than without a merge", told, met))
    return trends


def figure_5(report: Report) -> list[Trend]:
    """Throughput by lag of two of three inputs."""
    generator = Generator(report.elements, stable_freq=0.001, alive=4)  # 40 s
    streams = generator.replicas(3)
    lags = range(6)
    runs = compare({lag: (in_step(streams, lags=[0, lag * RATE, lag * RATE]), "R3+") for lag in lags})
    report.table(
        f"Figure 5: throughput of R3+ by lag of two of three inputs, medians of {TURNS}",
        ["lag, s", "M rows/s in", "of no lag"],
        [[f"{lag}", rate(run.rate), f"{run.rate / runs[0].rate:.2f}"] for lag, run in runs.items()],
    )
    report.draw(
        "5-lag", "lag, s", "M rows/s in", {"R3+": (lags, [runs[lag].rate / 1e6 for lag in lags])}
    )
    ratio = runs[5].rate / runs[0].rate
    return [Trend("5", "throughput grows with lag", f"{ratio:.2f} at 5 s, of no lag", ratio > 1)]


def figure_6(report: Report) -> list[Trend]:
    """Memory and throughput by ctis.

    In batches of 100, whatever the ctis, so that one in a hundred still counts.
    """
    freqs = (0.00001, 0.0001, 0.001, 0.01)
    scripts: dict[Any, tuple[Script, str]] = {}
    for freq in freqs:
        script = in_step(Generator(report.elements, stable_freq=freq).replicas(3), size=100)
        scripts |= {(name, freq): (script, name) for name in ("R3+", "R4")}
    runs = compare(scripts, turns=1)
    report.table(
        "Figure 6: three inputs by frequency of ctis",
        ["", *(f"{freq:.3%}" for freq in freqs)],
        [
            *([f"{name}, MB", *(mb(runs[name, f].bytes) for f in freqs)] for name in ("R3+", "R4")),
            *(
                [f"{name}, M rows/s in", *(rate(runs[name, f].rate) for f in freqs)]
                for name in ("R3+", "R4")
            ),
        ],
    )
    percent = [100 * freq for freq in freqs]
    for what, unit in (("memory", "MB"), ("throughput", "M rows/s in")):
        lines = {
            name: (
                percent,
                [(runs[name, f].bytes if unit == "MB" else runs[name, f].rate) / 1e6 for f in freqs],
            )
            for name in ("R3+", "R4")
        }
        report.draw(f"6-{what}", "ctis, % of the elements", unit, lines, log=True)
    trends = []
    for name in ("R3+", "R4"):
        first, last = runs[name, freqs[0]], runs[name, freqs[-1]]
        trends += [
            Trend(
                "6", f"{name}: memory falls with ctis", f"to {last.bytes / first.bytes:.2f}",
                last.bytes < first.bytes,
            ),
            Trend(
                "6", f"{name}: throughput falls with ctis", f"to {last.rate / first.rate:.2f}",
                last.rate < first.rate,
            ),
        ]  # fmt: skip
    return trends


def figure_7(report: Report) -> list[Trend]:
    """Memory, throughput and latency, where streams are cleansed first, or merged as they are."""
    derived = Derived.of(report.elements)
    streams = derived.replicas(max(INPUTS))
    adjusts = np.mean([np.mean(~stream.is_insert) for stream in streams])
    names = ("R3+", CLEANSED, "R3-")
    found = {
        (name, count): measure(in_step(streams[:count]), name, looks=LOOKS)
        for count in INPUTS
        for name in names
    }
    report.console.print(f"{streams[0].rows:,} rows in each input, {adjusts:.0%} of them adjusts")
    _by_inputs(report, "7-memory", "MB", found, lambda run: run.bytes / 1e6)
    _by_inputs(report, "7-throughput", "M rows/s in", found, lambda run: run.rate / 1e6)
    more = found[CLEANSED, 10].bytes / found["R3+", 10].bytes
    apart = found["R3-", 10].bytes / found["R3-", 2].bytes
    faster = [found["R3+", count].rate / found[CLEANSED, count].rate for count in INPUTS]
    latencies = {name: latency(derived, name) for name in ("R3+", CLEANSED)}
    report.table(
        "Section VI-D.3: until a final event is shown, three inputs",
        ["", "mean, s of application time", "median", "most", "ms of work for a batch"],
        [
            [
                name,
                *(f"{each / SECOND:,.1f}" for each in (np.mean(of), np.median(of), np.max(of))),
                f"{ms:.2f}",
            ]
            for name, (of, ms) in latencies.items()
        ],
    )
    mean, cleansed = (float(np.mean(latencies[name][0])) / SECOND for name in ("R3+", CLEANSED))
    return [
        Trend("7", "C+R1 at 10 inputs: nearly 7x of R3+", f"{more:.1f}x (limit 5)", more >= 5),
        Trend(
            "7", "R3-: memory linear in the inputs", f"10 inputs take {apart:.2f} of 2",
            _is_linear(found, "R3-"),
        ),
        Trend(
            "7", "R3+ is faster than C+R1, and more so with more inputs",
            " ".join(f"{each:.2f}" for each in faster) + f" times, {INPUTS} inputs",
            min(faster) > 1 and faster[-1] > faster[0],
        ),
        Trend(
            "VI-D.3", "latency of C+R1 orders of magnitude higher",
            f"{cleansed:,.0f} s, and {mean:,.1f} s of application time", cleansed > 100 * mean,
        ),
    ]  # fmt: skip


def latency(derived: Derived, name: str) -> tuple[Ints, float]:
    """Of each event that stays, how much later than it first came it is shown; and ms for a batch."""
    streams = [list(derived.parts(each)) for each in derived.generator.replicas(3)]
    merging = Merging(streams[0][0][1].schema, 3, name)
    came, shown, seconds, batches = [], [], 0.0, 0
    for turn in zip(*streams, strict=False):
        clock = max(clock for clock, _ in turn)
        for port, (_, said) in enumerate(turn):
            [piece] = pieces(said, [said.rows])
            came.append(_at(said, clock))
            start = time.process_time()
            out = merging.push(port, piece)
            seconds, batches = seconds + time.process_time() - start, batches + 1
            shown += [_at(rows, clock) for rows in out]
    events = ["vs", "k", "n"]
    first, then = (pl.concat(each).group_by(events).agg(pl.min("clock")) for each in (came, shown))
    staying = sw.History.of(Batch.concat([said for _, said in streams[0]])).to_polars()
    both = then.join(first, on=events, suffix="_came").join(staying, on=events, how="semi")
    waited: Ints = (both["clock"] - both["clock_came"]).to_numpy()
    return waited, seconds / batches * 1e3


def _at(rows: Batch, clock: int) -> pl.DataFrame:
    inserts = rows.where(rows.is_insert)
    return inserts.payload.select("k", "n").with_columns(
        vs=pl.Series(inserts.vs), clock=pl.lit(clock, pl.Int64)
    )
