"""What is told of experiments: tables, figures, and the trend of a paper beside ours."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import matplotlib as mpl
from matplotlib import pyplot as plt
from rich.console import Console
from rich.table import Table

Lines: TypeAlias = Mapping[str, tuple[Sequence[float], Sequence[float]]]


@dataclass(frozen=True)
class Trend:
    """What the paper has found, and what was found here."""

    figure: str
    paper: str
    ours: str
    met: bool | None = None
    """whether it is within the limit, if there is one"""


@dataclass(frozen=True)
class Report:
    """Where tables and figures go, and how long streams are."""

    console: Console
    place: Path
    elements: int
    series: str
    """what names of figures begin with"""

    def table(self, title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Print it; the first column is a name."""
        table = Table(title=title)
        for i, column in enumerate(columns):
            table.add_column(column, justify="right" if i else "left")
        for row in rows:
            table.add_row(*row)
        self.console.print(table)

    def draw(
        self,
        name: str,
        x: str,
        y: str,
        lines: Lines,
        *,
        log: bool = False,
        log_y: bool = False,
        marker: str = "o-",
    ) -> None:
        """Lines over one axis, as a PNG."""
        self.place.mkdir(parents=True, exist_ok=True)
        figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
        for label, (xs, ys) in lines.items():
            axes.plot(xs, ys, marker, label=label, markersize=4, linewidth=1.5)
        axes.set(xlabel=x, ylabel=y, title=name.replace("-", " "))
        if log:
            axes.set_xscale("log")
        if log_y:
            axes.set_yscale("log")
        else:
            axes.set_ylim(bottom=0)
        axes.legend()
        axes.grid(alpha=0.3)
        figure.savefig(self.place / f"{self.series}-{name}.png", dpi=130)
        plt.close(figure)


Figure: TypeAlias = Callable[[Report], list[Trend]]


def experiments(
    about: str, figures: Mapping[str, Figure], elements: int, of: str, *, series: str
) -> None:
    """Run those that are named on the command line, or all; then say what was found beside the paper."""
    options = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("figure", nargs="*", help=" ".join(figures), metavar="figure")
    options.add_argument("--elements", type=int, default=elements, help=of)
    options.add_argument("--figures", type=Path, default=Path("figures"), help="where they go")
    given = options.parse_args()
    if unknown := set(given.figure) - set(figures):
        options.error(f"there is no figure {unknown.pop()}")
    mpl.use("Agg")
    report = Report(Console(width=130), given.figures, given.elements, series)
    trends = []
    for name in given.figure or figures:
        start = time.monotonic()
        trends += figures[name](report)
        report.console.print(f"[dim]{name}: {time.monotonic() - start:.0f} s[/dim]")
    report.table(
        f"Our trend against the paper's; {given.elements:,} elements",
        ["figure", "paper", "here", "within"],
        [[each.figure, each.paper, each.ours, yes(met=each.met)] for each in trends],
    )


def mb(size: float) -> str:
    return f"{size / 1e6:.2f}"


def rate(rate: float) -> str:
    return f"{rate / 1e6:.3f}"


def yes(*, met: bool | None) -> str:
    return "" if met is None else "yes" if met else "no"
