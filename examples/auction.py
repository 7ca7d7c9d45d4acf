"""An online auction without windows: items come and go, each with its own bids, and none has a date.

    price of an item = the sum of the increases that were bid on it

Items and bids are joined by item and summed. Neither operator could ever let go of anything by time: an
item may get a bid at any moment as long as it is open. But the seller's portal says of every item that it
is the only one with its number, and the buyers' portal says when bidding for an item is over. These two
promises are rows among the others. An item is kept until both have been made, a bid not at all once its
item is known, and a price is settled the moment that bidding ends.

Spark computes it from files, as the portals would send them. What is kept follows the number of open
items; the prices are compared with those of a batch computation.

Paper 4, Examples 2 and 1.3.

    python examples/auction.py [items]
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

os.environ["PYSPARK_PYTHON"] = sys.executable

import numpy as np
import polars as pl
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

import slackwater as sw
from slackwater.spark import sinks

OPEN = 500
"""so many items are for sale at a time"""
BIDS = 8
"""on each, on average"""
FILES = 12

INSERTS = sw.StreamProperties(insert_only=True)
ITEMS = sw.stream({"item": int, "seller": int}, name="items", properties=INSERTS)
BIDS_ON = sw.stream({"item": int, "increase": int, "buyer": int}, name="bids", properties=INSERTS)
PRICES = ITEMS.join(BIDS_ON, on="item").group_by("item").aggregate(price=sw.sum("increase"))


def portals(items: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """What sellers and buyers send, in the order of `at`: rows, and promises of kind "punctuation"."""
    random = np.random.default_rng(4)
    opened = np.arange(items) * 10
    closed = opened + random.integers(5 * OPEN, 15 * OPEN, items)
    number = np.arange(items) + 1000
    sold = pl.DataFrame({"at": opened, "item": number, "seller": random.integers(0, 99, items)})
    unique = sold.select("at", "item", seller=pl.lit(None, pl.Int64), kind=pl.lit("punctuation"))
    which = random.integers(0, items, BIDS * items)
    at = opened[which] + (random.random(len(which)) * (closed - opened)[which]).astype(np.int64)
    bids = pl.DataFrame(
        {
            "at": at,
            "item": number[which],
            "increase": random.integers(1, 100, len(which)),
            "buyer": random.integers(0, 9999, len(which)),
        }
    )
    over = pl.DataFrame({"at": closed, "item": number}).with_columns(
        increase=pl.lit(None, pl.Int64), buyer=pl.lit(None, pl.Int64), kind=pl.lit("punctuation")
    )
    insert = pl.lit("insert").alias("kind")
    # a promise comes behind the row of the same moment, and holds for ever: it has no time of its own
    rows = [
        pl.concat([first.with_columns(insert), then]).sort("at", maintain_order=True)
        for first, then in ((sold, unique), (bids, over))
    ]
    timed = [
        each.with_columns(vs=pl.when(pl.col("kind") == "insert").then("at")) for each in rows
    ]
    return timed[0], timed[1]


def write(directory: Path, rows: pl.DataFrame, until: int) -> None:
    """In files, a file for each stretch of time."""
    directory.mkdir(parents=True)
    step = until // FILES + 1
    for number in range(FILES):
        part = rows.filter(pl.col("at") // step == number).drop("at")
        path = directory / f"{number:03d}.parquet"
        part.write_parquet(path)
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


def main(items: int = 20_000) -> None:
    console = Console()
    console.print(PRICES.explain(), style="dim", highlight=False, markup=False)
    sold, bids = portals(items)
    until = int(bids["at"].max())  # type: ignore[arg-type]
    seen: list[tuple[int, int, int]] = []
    with tempfile.TemporaryDirectory() as place:
        write(Path(place) / "items", sold, until)
        write(Path(place) / "bids", bids, until)
        spark = (
            SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.ui.showConsoleProgress", "false")
            .getOrCreate()
        )
        spark.sparkContext.setLogLevel("ERROR")
        handle = PRICES.start(
            spark,
            {
                stream: sw.read_files(
                    f"{place}/{name}", vs="vs", unbounded=True, kind="kind", per_batch=1
                )
                for stream, name in ((ITEMS, "items"), (BIDS_ON, "bids"))
            },
            checkpoint=f"{place}/checkpoint",
            sink=sinks.Memory(settled=True),
            trigger={"availableNow": True},
            on_batch=None,
        )
        handle.spark_query.awaitTermination()
        prices = final(handle.output.history())
        left = handle.progress.state_rows
        handle.stop()
        spark.stop()
    wanted = (
        bids.filter(pl.col("kind") == "insert").group_by("item").agg(price=pl.col("increase").sum())
    )
    right = prices.sort("item").equals(wanted.sort("item"))
    console.print(f"{prices.height:,} prices are settled, {left} rows are kept at the end")
    console.print("They equal the batch computation." if right else "[red]They are WRONG.[/]")
    if not right:
        raise SystemExit(1)


def final(history: pl.DataFrame) -> pl.DataFrame:
    """The last price of every item: the row that goes on for ever."""
    return history.filter(pl.col("ve") == sw.INF).select("item", "price")
