"""Recursion, in process, on one core: the experiments of paper 3, section 5, and graphs that change.

Each experiment prints a table and draws figures; in the end stands what the paper has found beside what
was found here.

    python -m benchmarks.recursion                          all of them
    python -m benchmarks.recursion disorder stages          some of them
    python -m benchmarks.recursion 5.1 --elements 50000     with shorter streams
    python -m benchmarks.recursion --figures DIRECTORY      where the figures go, as PNG

    5.1         the W query by a loop and by the native operator, against one polars sort of its input
    disorder    figures 6, 8, 10: events that come early
    inactivity  figure 7: pauses
    lulls       figures 9, 11: times in which nothing happens
    stages      against evaluation in stages, which waits until all is quiet
    packages    what the packages of this machine depend on, against networkx asked again and again
    hub         a node with thousands of links to it

The machine may be shared: time is processor time, and medians count. Figures 6 to 11 count turns of
operators, and are the same everywhere.

It needs matplotlib, which is in the extra `demo`, and networkx, a development dependency.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
from rich.console import Console

from benchmarks.recursion_behaviour import disorder, inactivity, lulls
from benchmarks.recursion_graphs import hub, packages
from benchmarks.recursion_throughput import figure_5_1, stages
from benchmarks.report import Report, Trend, yes

ELEMENTS = 200_000

FIGURES: dict[str, Callable[[Report], list[Trend]]] = {
    "5.1": figure_5_1,
    "disorder": disorder,
    "inactivity": inactivity,
    "lulls": lulls,
    "stages": stages,
    "packages": packages,
    "hub": hub,
}


def main() -> None:
    options = argparse.ArgumentParser(description="The experiments of paper 3, section 5.")
    options.add_argument("figure", nargs="*", help=" ".join(FIGURES), metavar="figure")
    options.add_argument("--elements", type=int, default=ELEMENTS, help="tosses, for 5.1")
    options.add_argument("--figures", type=Path, default=Path("figures"), help="where they go")
    given = options.parse_args()
    if unknown := set(given.figure) - set(FIGURES):
        options.error(f"there is no figure {unknown.pop()}")
    report = Report(Console(width=130), given.figures, given.elements, "recursion")
    trends = []
    for name in given.figure or FIGURES:
        start = time.monotonic()
        trends += FIGURES[name](report)
        report.console.print(f"[dim]{name}: {time.monotonic() - start:.0f} s[/dim]")
    report.table(
        f"Our trend against the paper's; {given.elements:,} elements",
        ["figure", "paper", "here", "within"],
        [[each.figure, each.paper, each.ours, yes(met=each.met)] for each in trends],
    )


if __name__ == "__main__":
    mpl.use("Agg")
    main()
