"""Figure 2 of paper 4: what promises do to the state, to the first result and to the time in all.

Two sensors report temperatures for 60 hours; union, distinct, the highest of every hour. A sensor says 0
to 30 times an hour which minutes it is through with, and the last time that it is with the hour. As in
the paper distinct passes at once what is new, and the group-by answers when an hour is closed: without
promises at the end. The same rows come in the same batches at every rate; a batch is two minutes of one
sensor, because at 30 an hour so much lies between two promises.

(a) The rows that distinct keeps, as reports come. (b) Processor time up to the first result and in all,
as multiples of the whole run without promises: medians of runs that take turns.

    python -m benchmarks.warehouse DIRECTORY [reports a minute] [runs]

The directory gets both figures as PNG. It needs matplotlib, which is in the extra `demo`.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
import polars as pl
from matplotlib import pyplot as plt
from matplotlib.ticker import StrMethodFormatter
from rich.console import Console
from rich.table import Table

import slackwater as sw

HOURS = 60
RATES = (0, 1, 2, 6, 15, 30)
"""punctuations an hour, of each sensor"""
MINUTES = 2
"""in a batch"""
WITHIN = 1.10
"""asked of the time in all"""

SCHEMA = {"hour": int, "minute": int, "temp": int}
_INSERTS = sw.StreamProperties(insert_only=True)
SENSORS = [sw.stream(SCHEMA, name=f"sensor{number}", properties=_INSERTS) for number in (1, 2)]
_FIRST, _SECOND = (sensor.select("hour", "temp") for sensor in SENSORS)
DISTINCT = _FIRST.union(_SECOND).distinct().latency(sw.EAGER)
HIGHEST = DISTINCT.group_by("hour").aggregate(highest=sw.max("temp")).latency(sw.PERFECTNESS_PRESERVING)

_EMPTY = pl.DataFrame(schema={**SCHEMA, "vs": int, "ve": int, "kind": str, "pattern": str})

Script = list[tuple[sw.Query, sw.Batch]]
"""what the sensors say, a batch at a time"""


def script(rate: int, reports: int) -> Script:
    """All batches: `reports` a minute of each sensor, in hundredths of a degree."""
    random = np.random.default_rng(4)
    said: Script = []
    for hour in range(HOURS):
        for start in range(0, 60, MINUTES):
            minute = np.repeat(np.arange(start, start + MINUTES), reports)
            for sensor in SENSORS:
                temp = random.integers(2_000, 9_500, len(minute))
                rows = pl.DataFrame(
                    {"hour": hour, "minute": minute, "temp": temp, "vs": 0, "kind": "insert"}
                )
                told = [_EMPTY, rows, *_promises(rate, hour, start + MINUTES)]
                said.append((sensor, _read(pl.concat(told, how="diagonal_relaxed"))))
    return said


def _promises(rate: int, hour: int, until: int) -> list[pl.DataFrame]:
    """What a sensor says when it is through with the minutes before `until`."""
    if not rate or until % (60 // rate):
        return []
    since = until - 60 // rate
    minutes = f', "minute": {{"low": {since}, "high": {until - 1}}}' if until < 60 else ""
    return [pl.DataFrame({"kind": "punctuation", "pattern": f'{{"hour": {hour}{minutes}}}'})]


def _read(table: pl.DataFrame) -> sw.Batch:
    return sw.from_dataframe(table, vs="vs", ve="ve", kind="kind", pattern="pattern", schema=SCHEMA)


class Timed(NamedTuple):
    """Seconds of processor time."""

    first: float
    whole: float


def timed(said: Script) -> Timed:
    """One run, up to the end of both sensors."""
    ends = [(sensor, sw.Batch.of([sw.cti(sw.INF)], sensor.schema)) for sensor in SENSORS]
    running = HIGHEST.open()
    first = None
    gc.collect()
    start = time.process_time()
    for sensor, batch in (*said, *ends):
        answer = running.push(sensor, batch)
        if first is None and any(part.rows for part in answer):
            first = time.process_time() - start
    whole = time.process_time() - start
    assert first is not None
    assert running.output.history().height == HOURS
    return Timed(first, whole)


def kept(said: Script) -> tuple[list[int], list[int]]:
    """Reports so far, and the rows that distinct keeps then."""
    running = HIGHEST.open()
    reports, rows = [0], [0]
    for sensor, batch in said:
        running.push(sensor, batch)
        [state] = [status.state for status in running.describe() if status.name == "Distinct"]
        reports.append(reports[-1] + batch.rows)
        rows.append(state.state_rows)
    return reports, rows


def main(directory: str, reports: int = 60, runs: int = 5) -> None:
    place, console = Path(directory), Console(width=110)
    place.mkdir(parents=True, exist_ok=True)
    scripts = {rate: script(rate, reports) for rate in RATES}
    states = {rate: kept(scripts[rate]) for rate in (0, 1, 30)}  # which also loads the compiled code
    state_figure(place / "warehouse-state.png", states)
    of_state = Table(title=f"Rows that distinct keeps; {states[0][0][-1]:,} reports in {HOURS} hours")
    for name in ("punctuations an hour", "at most", "at most, of those without"):
        of_state.add_column(name, justify="right")
    for rate, (_, rows) in states.items():
        of_state.add_row(f"{rate}", f"{max(rows):,}", f"{max(rows) / max(states[0][1]):.3f}")
    console.print(of_state)

    times: dict[int, list[Timed]] = {rate: [] for rate in RATES}
    for _ in range(runs):
        for rate in RATES:
            times[rate].append(timed(scripts[rate]))
    whole = statistics.median(each.whole for each in times[0])
    first = {rate: statistics.median(each.first for each in times[rate]) / whole for rate in RATES}
    # each by the run without promises of its own turn: what slows the machine slows both
    ratio = {
        rate: [each.whole / base.whole for each, base in zip(times[rate], times[0], strict=True)]
        for rate in RATES
    }
    total = {rate: statistics.median(ratio[rate]) for rate in RATES}
    of_time = Table(title=f"Time, of that of the whole run without promises; medians of {runs}")
    for name in (
        "punctuations an hour",
        "first result",
        "in all",
        "least",
        "most",
        f"within {WITHIN:.2f}",
    ):
        of_time.add_column(name, justify="right")
    for rate in RATES:
        of_time.add_row(
            f"{rate}",
            f"{first[rate]:.3f}",
            f"{total[rate]:.2f}",
            f"{min(ratio[rate]):.2f}",
            f"{max(ratio[rate]):.2f}",
            "yes" if total[rate] <= WITHIN else "no",
        )
    console.print(of_time)
    time_figure(place / "warehouse-time.png", first, total, reports)


def state_figure(path: Path, states: dict[int, tuple[list[int], list[int]]]) -> None:
    """Figure 2(a)."""
    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    for rate, line, label in ((0, "-", "without punctuations"), (1, ":", "1 punctuation an hour")):
        reports, rows = states[rate]
        axes.plot(reports, rows, line, linewidth=2, label=f"{label}: at most {max(rows):,}")
    axes.set(title="State of distinct over the union", xlabel="reports so far", ylabel="rows kept")
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.legend(loc="upper left")
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def time_figure(path: Path, first: dict[int, float], total: dict[int, float], reports: int) -> None:
    """Figure 2(b)."""
    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    axes.axhspan(0, WITHIN, color="tab:green", alpha=0.08, label=f"up to {WITHIN:.2f}")
    axes.plot(list(total), list(total.values()), "o-", label="in all")
    axes.plot(list(first), list(first.values()), "s--", label="first result")
    axes.set(
        title=f"Time with punctuations, {60 * reports:,} reports an hour of each sensor",
        xlabel="punctuations an hour, of each sensor",
        ylabel="of the whole run without punctuations",
        ylim=(0, max(1.3, 1.1 * max(total.values()))),
    )
    axes.set_xticks(list(total))
    axes.legend(loc="center right")
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=130)
    plt.close(figure)


if __name__ == "__main__":
    mpl.use("Agg")
    main(sys.argv[1], *map(int, sys.argv[2:]))
