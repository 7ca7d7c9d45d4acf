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

from benchmarks.recursion_behaviour import disorder, inactivity, lulls
from benchmarks.recursion_graphs import hub, packages
from benchmarks.recursion_throughput import figure_5_1, stages
from benchmarks.report import Figure, experiments

ELEMENTS = 200_000

FIGURES: dict[str, Figure] = {
    "5.1": figure_5_1,
    "disorder": disorder,
    "inactivity": inactivity,
    "lulls": lulls,
    "stages": stages,
    "packages": packages,
    "hub": hub,
}


if __name__ == "__main__":
    experiments(
        "The experiments of paper 3, section 5.",
        FIGURES,
        ELEMENTS,
        "tosses, for 5.1",
        series="recursion",
    )
