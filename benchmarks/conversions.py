"""What it costs to turn a table into a stream, a stream into its history, and both into tables.

The measure is the time that polars' own sort of the same rows by (key, vs) takes in the same run:
a conversion should be a small multiple of it. Sort and conversions take turns, and the best of
several repetitions counts for each. Run as `python -m benchmarks.conversions [rows]`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import polars as pl
from rich.console import Console
from rich.table import Table

from slackwater.events import Batch
from slackwater.history import History
from slackwater.rows import changelog, from_dataframe

REPETITIONS = 7
KEYS = 10_000

Step = Callable[[], object]


def lifetimes(rows: int) -> pl.DataFrame:
    """Events of many keys that arrive nearly in order of their starts."""
    rng = np.random.default_rng(rows)
    vs = np.sort(rng.integers(0, rows, rows)) + rng.integers(0, 1000, rows)
    ve = vs + rng.integers(1, 1000, rows)
    payload = {"key": rng.integers(0, KEYS, rows), "value": rng.random(rows)}
    frame = pl.DataFrame({**payload, "vs": vs, "ve": ve})
    return frame.with_columns(name=pl.format("sensor number {}", pl.col("key") % 100))


def with_adjusts(rows: int, share: float) -> pl.DataFrame:
    """A changelog in which this share of the rows shortens an event that came some rows before."""
    rng = np.random.default_rng(rows)
    adjusts = int(rows * share)
    inserts = lifetimes(rows - adjusts).with_columns(new_ve=pl.lit(None, pl.Int64))
    inserts = inserts.with_columns(kind=pl.lit("insert"), at=pl.int_range(pl.len()).cast(pl.Float64))
    chosen = inserts[np.sort(rng.choice(inserts.height, adjusts, replace=False))]
    shortened = chosen.with_columns(
        kind=pl.lit("adjust"),
        new_ve=(pl.col("vs") + pl.col("ve")) // 2,
        at=pl.col("at") + rng.integers(0, 5000, adjusts) + 0.5,
    )
    return pl.concat([inserts, shortened]).sort("at").drop("at")


def read(table: pl.DataFrame) -> Batch:
    if "kind" in table.columns:
        return from_dataframe(table, vs="vs", ve="ve", kind="kind", new_ve="new_ve")
    return from_dataframe(table, vs="vs", ve="ve")


def round_trip(table: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    batch = read(table)
    return History.of(batch).to_polars(), changelog(batch)


def steps(table: pl.DataFrame) -> dict[str, Step]:
    batch = read(table)
    history = History.of(batch)
    log = changelog(batch)
    assert History.of(read(log)) == history, "a fast answer should also be right"
    return {
        "table to batch": partial(read, table),
        "batch to history": partial(History.of, batch),
        "history to table, sorted": history.to_polars,
        "batch to changelog": partial(changelog, batch),
        "changelog to batch": partial(read, log),
        "table to history and changelog": partial(round_trip, table),
    }


def best_times(work: Mapping[str, Step]) -> dict[str, float]:
    """The shortest time of each, in seconds; they take turns, so that a busy machine hits all."""
    best = dict.fromkeys(work, float("inf"))
    for _ in range(REPETITIONS):
        for name, step in work.items():
            begun = time.perf_counter()
            step()
            best[name] = min(best[name], time.perf_counter() - begun)
    return best


def report(title: str, table: pl.DataFrame) -> Table:
    best = best_times({"sort": partial(table.sort, "key", "vs"), **steps(table)})
    measure = best.pop("sort")
    shown = Table(title=f"{table.height:,} rows, {title}", title_justify="left")
    shown.add_column("conversion")
    shown.add_column("x polars' sort", justify="right")
    shown.add_column("million rows/s", justify="right")
    for name, seconds in best.items():
        shown.add_row(name, f"{seconds / measure:.2f}", f"{table.height / seconds / 1e6:.1f}")
    return shown


def main(rows: int = 1_000_000) -> None:
    console = Console()
    for title, table in (
        ("inserts only", lifetimes(rows)),
        ("5 % adjusts", with_adjusts(rows, 0.05)),
    ):
        console.print(report(title, table))
    console.print(
        f"Time as a multiple of polars' sort of the same rows by (key, vs), best of {REPETITIONS} "
        f"turns; polars with {pl.thread_pool_size()} thread(s)."
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
