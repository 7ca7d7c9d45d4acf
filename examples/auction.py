"""An online auction without windows: items come and go, each with its own bids, and none by a clock.

    price of an item = the sum of the increases that were bid on it

Items and bids are joined by item and summed. By time neither operator could ever let go of anything: an
open item may get a bid at any moment. But the sellers' portal says of every item that no other has its
number, and the buyers' portal says when bidding for an item is over. These promises are rows among the
others. An item is kept until both have been made, a bid not at all once its item is known, and a price
is settled the moment that bidding ends.

Spark computes it from files, as the portals would send them. What is kept follows the number of open
items, and not that of bids. The prices are compared with those of a batch computation.

Paper 4, Example 2 and section 1.3.

    python examples/auction.py [number of items]
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

os.environ["PYSPARK_PYTHON"] = sys.executable

import numpy as np
import polars as pl
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

import slackwater as sw
from slackwater.spark import sinks

OPEN = 400
"""so many items are for sale at a time, about"""
PER_ITEM = 8
"""bids on each, on average"""
FILES = 12
"""... of each portal"""

INSERTS = sw.StreamProperties(insert_only=True)
ITEMS = sw.stream({"item": int, "seller": int}, name="items", properties=INSERTS)
BIDS = sw.stream({"item": int, "increase": int, "buyer": int}, name="bids", properties=INSERTS)
PRICES = ITEMS.join(BIDS, on="item").group_by("item").aggregate(price=sw.sum("increase"))

IS_ROW = pl.col("kind") == "insert"


def portals(items: int) -> dict[str, pl.DataFrame]:
    """What sellers and buyers send, in the order of `at`: rows, and promises about an item."""
    random = np.random.default_rng(4)
    number = 1_000 + np.arange(items)
    opened = 10 * np.arange(items)
    closed = opened + random.integers(5 * OPEN, 15 * OPEN, items)
    which = random.integers(0, items, PER_ITEM * items)
    bid_at = opened[which] + (random.random(len(which)) * (closed - opened)[which]).astype(np.int64)
    sold = pl.DataFrame({"at": opened, "item": number, "seller": random.integers(0, 99, items)})
    bids = pl.DataFrame(
        {
            "at": bid_at,
            "item": number[which],
            "increase": random.integers(1, 100, len(which)),
            "buyer": random.integers(0, 9_999, len(which)),
        }
    )
    return {
        "items": _with_promises(sold, pl.DataFrame({"at": opened, "item": number})),
        "bids": _with_promises(bids, pl.DataFrame({"at": closed, "item": number})),
    }


def _with_promises(rows: pl.DataFrame, closed: pl.DataFrame) -> pl.DataFrame:
    """Rows, and behind those of the same moment what is closed then: for ever, so without a time."""
    told = rows.with_columns(vs="at", ve=pl.lit(None, pl.Int64), kind=pl.lit("insert"))
    promises = closed.with_columns(kind=pl.lit("punctuation"))
    return pl.concat([told, promises], how="diagonal").sort("at", maintain_order=True)


@contextmanager
def session() -> Iterator[SparkSession]:
    """Spark in this machine."""
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


def main(items: int = 20_000) -> None:
    console = Console()
    console.print(PRICES.explain(), style="dim", highlight=False, markup=False)
    sent = portals(items)
    step = max(int(rows["at"].max()) for rows in sent.values()) // FILES + 1  # type: ignore[arg-type]
    shown = Table("bids so far", "items open", "rows kept", "prices settled", title="The auction")
    with tempfile.TemporaryDirectory() as place, session() as spark:
        for name in sent:
            (Path(place) / name).mkdir()
        handle = PRICES.start(
            spark,
            {
                stream: sw.read_files(f"{place}/{name}", vs="vs", ve="ve", kind="kind")
                for stream, name in ((ITEMS, "items"), (BIDS, "bids"))
            },
            checkpoint=f"{place}/checkpoint",
            sink=sinks.Memory(settled=True),
        )
        for number in range(FILES):
            for name, rows in sent.items():
                part = rows.filter(pl.col("at") // step == number).drop("at")
                part.write_parquet(Path(place) / name / f"{number:03d}.parquet")
            handle.process_all_available()
            so_far = {name: rows.filter(pl.col("at") // step <= number) for name, rows in sent.items()}
            begun, over = (so_far[name].filter(~IS_ROW).height for name in ("items", "bids"))
            shown.add_row(
                f"{so_far['bids'].filter(IS_ROW).height:,}",
                f"{begun - over:,}",
                f"{handle.progress.state_rows:,}",
                f"{final(handle.output.history()).height:,}",
            )
        console.print(shown)
        prices = final(handle.output.history())
        handle.stop()
    wanted = sent["bids"].filter(IS_ROW).group_by("item").agg(price=pl.col("increase").sum())
    if not prices.sort("item").equals(wanted.sort("item")):
        raise SystemExit("The prices are not those of the batch computation.")
    console.print(f"All {prices.height:,} prices equal those of a batch computation.")


def final(history: pl.DataFrame) -> pl.DataFrame:
    """The last price of every item, which goes on for ever."""
    return history.filter(pl.col("ve") == sw.INF).select("item", "price")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
