"""The bank in several queries, each of which reads what others have written.

    accepted    reads the transactions
    credits     reads accepted                  debits      reads accepted
    total       reads credits and debits
    ids         reads accepted                  others      reads accepted
    partners    reads ids and others: each transaction with itself

All run on Spark at their own pace, and meet in directories. `total` and `partners` join two paths of the
same transactions, of which one is always ahead. Reading with `aligned=True`, they take in both up to the
same token: every batch that they write is the answer to one prefix of the transactions. That is checked
here for each batch: against what must never be, and against a computation from the prefix that its token
names.

    python -m examples.bank_apart [transactions] [files]

docs/consistency.md; the bank in one query: bank.py.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from examples import bank
from rich.console import Console
from rich.table import Table

import slackwater as sw
from slackwater.plan.nodes import Source
from slackwater.rows import from_changelog
from slackwater.spark import sinks
from slackwater.spark.commits import commits_in, read_commit

ACCEPTED = bank.TRANSACTIONS.where(sw.col("amount") > 0)


def _stream(name: str, query: sw.Query) -> sw.Query:
    return sw.stream(dict(query.schema), name=name)


def name_of(stream: sw.Query) -> str:
    """Of a stream that is read."""
    assert isinstance(stream.node, Source), "it is what is read"
    return stream.node.stream_name


accepted = _stream("accepted", ACCEPTED)
CREDITS = accepted.group_by("to_account").aggregate(credits=sw.sum("amount"))
DEBITS = accepted.group_by("from_account").aggregate(debits=sw.sum("amount"))
credits_, debits = _stream("credits", CREDITS), _stream("debits", DEBITS)
BOTH = credits_.join(debits, on={"to_account": "from_account"}, how="full")
BALANCE = sw.col("credits").fill_null(0) - sw.col("debits").fill_null(0)
TOTAL = BOTH.select(balance=BALANCE).aggregate(total=sw.sum("balance"))
IDS = accepted.select("id", "ts")
OTHERS = accepted.select("id", "ts", other="id")
ids, others = _stream("ids", IDS), _stream("others", OTHERS)
PARTNERS = ids.join(others, on=("id", "ts"), how="left").select("id", "other")

GRAPH: dict[str, tuple[sw.Query, tuple[sw.Query, ...]]] = {
    "accepted": (ACCEPTED, (bank.TRANSACTIONS,)),
    "credits": (CREDITS, (accepted,)),
    "debits": (DEBITS, (accepted,)),
    "total": (TOTAL, (credits_, debits)),
    "ids": (IDS, (accepted,)),
    "others": (OTHERS, (accepted,)),
    "partners": (PARTNERS, (ids, others)),
}
"""what each query is, and which answers it reads"""
VIEWS = {"total": "total", "partners": "outer join with time"}
"""what is looked at, and which view of the bank in one query it is"""


def write(rows: pl.DataFrame, files: int, place: Path) -> None:
    """The transactions as they arrive, in so many files; and directories for the answers."""
    for name in GRAPH:
        (place / name / "_batches").mkdir(parents=True)
    (place / "files").mkdir()
    for number, part in enumerate(np.array_split(np.arange(rows.height), files)):
        batch = rows[part].drop("arrival").with_columns(vs="ts", ve=pl.lit(None, dtype=pl.Int64))
        path = place / "files" / f"{number:04d}.parquet"
        batch.write_parquet(path)
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


def start(spark: Any, name: str, place: Path, *, aligned: bool = True, **more: Any) -> Any:
    """One of the queries."""
    query, streams = GRAPH[name]
    inputs = {
        stream: sw.read_files(str(place / "files"), vs="vs", ve="ve", per_batch=1)
        if stream is bank.TRANSACTIONS
        else sw.read_committed(str(place / name_of(stream)), aligned=aligned)
        for stream in streams
    }
    return query.start(
        spark,
        inputs,
        checkpoint=str(place / "checkpoints" / name),
        sink=sinks.Parquet(directory=str(place / name)),
        **more,
    )


def verdict(name: str, rows: pl.DataFrame, place: Path) -> bank.Verdict:
    """Whether every batch of a view has left the answer to the prefix that its token names."""
    view, directory, begun = VIEWS[name], str(place / name), time.perf_counter()
    schema = GRAPH[name][0].schema
    watch, compared, different = bank.Watch(view), 0, 0
    said = sw.Batch.empty(schema)
    for number in commits_in(directory):
        commit = read_commit(directory, number)
        tables = [from_changelog(pl.DataFrame(table), schema) for table in commit.tables()]
        added = sw.Batch.concat([sw.Batch.empty(schema), *tables])
        watch.look(added)
        said = sw.Batch.concat([said, added])
        prefix = rows.head(_accepted(place, commit.token or {}))
        compared += 1
        different += not bank.is_right(view, sw.History.of(said), prefix)
    return bank.Verdict(watch.states, watch.wrong, compared, different, time.perf_counter() - begun)


def _accepted(place: Path, token: dict[str, int]) -> int:
    """How many transactions the first query had taken in at a token."""
    names = [*commits_in(str(place / "accepted"))]
    if not names:
        return 0
    first = read_commit(str(place / "accepted"), names[0]).query
    if first not in token:
        return 0
    return sinks.committed(str(place / "accepted"), until={first: token[first]}).height


def main(count: int = 10_000, files: int = 8) -> None:
    """All seven at once."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession  # noqa: PLC0415

    console = Console()
    rows = bank.transactions(count)
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    table = Table("view", "batches", "wrong", "different from the prefix", title="Seven queries")
    with tempfile.TemporaryDirectory() as given:
        place = Path(given)
        write(rows, files, place)
        running = {name: start(spark, name, place) for name in GRAPH}
        while any(
            running[name].progress.token.get(running["accepted"].name, -1) < files - 1 for name in VIEWS
        ):
            for query in running.values():
                query.process_all_available()
        for query in running.values():
            query.stop()
        spark.stop()
        honest = True
        for name in VIEWS:
            found = verdict(name, rows, place)
            table.add_row(name, *map(str, (found.compared, found.wrong, found.different)))
            honest &= not (found.wrong or found.different)
    console.print(table)
    if not honest:
        raise SystemExit("A state that was shown is wrong.")
    console.print("Every batch left the answer to a prefix of the transactions.")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
