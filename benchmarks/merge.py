"""Logical merge, in process, on one core: the experiments of paper 2, section VI, and what it costs.

Replicas are arrangements of one history: other rows are late in each, and ctis stand elsewhere. Each
experiment prints a table and draws a figure; in the end stands what the paper has found beside what was
found here.

    python -m benchmarks.merge                          all of them
    python -m benchmarks.merge 2 7 throughput           some of them
    python -m benchmarks.merge 3 --elements 50000       with shorter streams
    python -m benchmarks.merge --figures DIRECTORY      where the figures go, as PNG

    2  memory by inputs                        6  memory and throughput by ctis
    3  throughput by inputs                    7  cleansed first, or merged as it is
    4  adjusts in and out, by disorder         8  bursts
    5  throughput by lag                       9  congestion
    10 two plans for one query, with feedback
    throughput  of R3 as a multiple of one polars sort, of R0 as a multiple of a copy

The machine may be shared: where two are compared they take turns, and medians count.

It needs matplotlib, which is in the extra `demo`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import polars as pl

from benchmarks.merge_applications import figure_8, figure_9, figure_10
from benchmarks.merge_behaviour import figure_2, figure_3, figure_4, figure_5, figure_6, figure_7
from benchmarks.merging import ELEMENTS, TURNS, Generator, Ints, Script, in_step, in_turn, measure
from benchmarks.report import Figure, Report, Trend, experiments, yes
from slackwater.events import Batch


def throughput(report: Report) -> list[Trend]:
    """R3 against one sort of all rows, R0 against a copy of those that survive."""
    trends, table = [], []
    for kind, string in (("an integer", 0), ("an integer and a string of 12", 12)):
        streams = Generator(report.elements, string=string).replicas(3)
        script = in_turn(streams, 10_000)
        # as they come
        arriving = [piece.rows for _, piece in script]
        frame = pl.concat(
            each.payload.with_columns(vs=pl.Series(each.vs)) for each in arriving
        ).rechunk()
        order = ["vs", *streams[0].schema]
        in_order = in_turn(Generator(report.elements, disorder=0, string=string).replicas(3), 10_000)
        surviving = list(survivors(in_order))
        sort = partial(frame.sort, order)
        copy = partial(_copied, surviving)
        for name, work, against, peer, limit in (
            ("R3+", script, "sort", sort, 1.0),
            ("R3+, in step", in_step(streams, 10_000), "sort", sort, 1.0),
            ("R0", in_order, "copy", copy, 2.0),
        ):
            turns = []
            for _ in range(TURNS + 2):
                # of either the best of three: what comes first finds nothing in the processor's caches
                seconds = min(_seconds(peer) for _ in range(3))
                own = min(measure(work, name.split(",")[0]).seconds for _ in range(3))
                turns.append((own / seconds, seconds))
            multiple, seconds = sorted(turns)[len(turns) // 2]
            rows = sum(piece.rows.rows for _, piece in work)
            table.append(
                [
                    f"{name}, {kind}", f"{multiple * seconds * 1e3:.2f}", against,
                    f"{seconds * 1e3:.2f}", f"{multiple:.2f}", f"{limit}",
                    yes(met=multiple <= limit), f"{rows / (multiple * seconds) / 1e6:.2f}",
                ]
            )  # fmt: skip
            trends.append(
                Trend("throughput", "", f"{name}, {kind}: {multiple:.2f} of a {against} (limit {limit})",
                      multiple <= limit)
            )  # fmt: skip
    report.table(
        f"Three inputs in batches of 10,000, {3 * report.elements:,} rows, medians of {TURNS + 2}",
        ["", "ms", "peer", "ms", "multiple", "limit", "within", "M rows/s in"],
        table,
    )
    return trends


def survivors(script: Script) -> Iterator[tuple[Batch, Ints]]:
    """Of each batch the rows that start later than all before."""
    latest = -1
    for _, (rows, _) in script:
        at = np.flatnonzero(rows.vs > latest)
        if len(at):
            yield rows, at
            latest = int(rows.vs[at[-1]])


def _copied(those: list[tuple[Batch, Ints]]) -> list[Batch]:
    return [rows.take(at) for rows, at in those]


def _seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


FIGURES: dict[str, Figure] = {
    "2": figure_2,
    "3": figure_3,
    "4": figure_4,
    "5": figure_5,
    "6": figure_6,
    "7": figure_7,
    "8": figure_8,
    "9": figure_9,
    "10": figure_10,
    "throughput": throughput,
}


if __name__ == "__main__":
    experiments(
        "The experiments of paper 2, section VI.", FIGURES, ELEMENTS, "of a stream", series="merge"
    )
