"""Promises about payloads, on Spark: they settle and free what they speak of, also after a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import slackwater as sw
from slackwater.spark import sinks

INSERTS = sw.StreamProperties(insert_only=True)
ITEMS = sw.stream({"item": int, "seller": str}, name="items", properties=INSERTS)
BIDS = sw.stream({"item": int, "increase": int}, name="bids", properties=INSERTS)
PRICES = ITEMS.join(BIDS, on="item").group_by("item").aggregate(price=sw.sum("increase"))
LAST = 40


def _portals() -> dict[str, list[pl.DataFrame]]:
    """Four files of each: items that are the only ones of their number, and bids until each is over."""
    random = np.random.default_rng(1)
    number = np.arange(LAST)
    opened, closed = number * 10, number * 10 + 100
    which = random.integers(0, LAST, 8 * LAST)
    items = pl.DataFrame({"at": opened, "item": number, "seller": [f"s{i % 5}" for i in range(LAST)]})
    bids = pl.DataFrame(
        {
            "at": opened[which] + random.integers(0, 100, len(which)),
            "item": number[which],
            "increase": random.integers(1, 9, len(which)),
        }
    )
    over = {"items": opened, "bids": closed}
    files = {}
    for name, rows in (("items", items), ("bids", bids)):
        told = rows.with_columns(vs="at", ve=pl.lit(None, pl.Int64), kind=pl.lit("insert"))
        promises = pl.DataFrame({"at": over[name], "item": number, "kind": "punctuation"})
        whole = pl.concat([told, promises], how="diagonal").sort("at", maintain_order=True)
        files[name] = [whole.filter(pl.col("at") // 125 == part).drop("at") for part in range(4)]
    assert not any(part.is_empty() for part in files["bids"])
    return files


@pytest.mark.parametrize("columnar", [True, False])
def test_prices_of_an_auction_that_is_closed_item_by_item(
    spark: Any, tmp_path: Path, columnar: bool
) -> None:
    files = _portals()
    for name in files:
        (tmp_path / name).mkdir()

    def given(name: str) -> Any:
        form: dict[str, Any] = {"vs": "vs", "ve": "ve", "kind": "kind"}
        if columnar:
            return sw.read_files(str(tmp_path / name), **form)
        columns = "seller string" if name == "items" else "increase long"
        ddl = f"item long, {columns}, vs long, ve long, kind string"
        return sw.from_dataframe(spark.readStream.schema(ddl).parquet(str(tmp_path / name)), **form)

    kept = []
    settled: pl.DataFrame = pl.DataFrame()
    for run in ((0, 1), (2, 3)):
        handle = PRICES.start(
            spark,
            {ITEMS: given("items"), BIDS: given("bids")},
            checkpoint=str(tmp_path / "checkpoint"),
            sink=sinks.Memory(settled=True),
            buckets=3,
        )
        for part in run:
            for name, tables in files.items():
                tables[part].write_parquet(tmp_path / name / f"{part}.parquet")
            handle.process_all_available()
            kept.append(handle.progress.state_rows)
        settled = handle.output.history()
        handle.stop()
    assert kept[-1] == 0 < kept[0]
    bids = pl.concat(files["bids"]).filter(pl.col("kind") == "insert")
    wanted = bids.group_by("item").agg(price=pl.col("increase").sum()).sort("item")
    assert settled.filter(pl.col("ve") == sw.INF).select("item", "price").sort("item").equals(wanted)


def test_a_bid_on_an_item_that_is_over_is_set_aside(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "bids").mkdir()
    handle = (
        BIDS.group_by("item")
        .aggregate(price=sw.sum("increase"))
        .start(
            spark,
            {BIDS: sw.read_files(str(tmp_path / "bids"), vs="vs", ve="ve", kind="kind", pattern="p")},
            checkpoint=str(tmp_path / "checkpoint"),
            sink=sinks.Memory(),
            on_invalid=sw.LEDGER,
        )
    )
    rows = [
        {"kind": "insert", "item": 1, "increase": 5, "vs": 0},
        {"kind": "punctuation", "p": '{"item": {"high": 3}}'},
        {"kind": "insert", "item": 2, "increase": 5, "vs": 7},
        {"kind": "insert", "item": 9, "increase": 5, "vs": 7},
    ]
    schema = {"kind": str, "item": int, "increase": int, "vs": int, "ve": int, "p": str}
    pl.DataFrame(rows, schema=schema).write_parquet(tmp_path / "bids" / "0.parquet")
    handle.process_all_available()
    output, [entry] = handle.output, list(handle.ledger)
    handle.stop()
    assert entry.reason == "promise broken"
    assert "item=2" in str(entry.element)
    assert "between(None, 3)" in entry.detail
    assert [row[0] for row in output.settled().rows()] == [1]
    assert sorted(row[0] for row in output.history().rows()) == [1, 9]
