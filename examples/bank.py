"""A bank moves money between accounts. None is made, none is lost: the total is 0, at every moment.

    accepted    the transactions themselves
    outer joins each transaction with itself, by its number alone, and by its number and time
    credits     what has come into an account     debits    what has gone out of it
    balance     credits minus debits: both are joined, and where one is missing it is 0
    total       the balances of all accounts

Every view takes a transaction two ways and joins what comes out. Systems that show what one way says
before the other has said its part show partners that are missing though they are there, and money that
is made and lost: this is the streaming-consistency bank test, at which several have failed.

Here operators take turns, as they like, on transactions that come up to ten seconds late. First with no
control; then output is shown when synchronization tokens say that it is right. Every state that a user
can see is checked: against what must never be, and against a computation from the very prefix of the
input that it names. With `spark`, each micro-batch is a token.

Paper 5; docs/consistency.md.

    python examples/bank.py [transactions]
    python examples/bank.py spark [transactions]
"""

from __future__ import annotations

import itertools
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from rich.console import Console
from rich.table import Table

import slackwater as sw
from slackwater.events import Batch
from slackwater.runtime import Output

SECONDS = 60
"""transactions happen in so many"""
LATE = 10.0
"""seconds that one is on its way, at most"""
ACCOUNTS = 10

TRANSACTIONS = sw.stream(
    {"id": int, "from_account": int, "to_account": int, "amount": int, "ts": int},
    name="transactions",
    properties=sw.StreamProperties(insert_only=True),
)


def accepted() -> sw.Query:
    """What is known is known for ever: the rows of [0, INF)."""
    return TRANSACTIONS.alter_lifetime(start=0, end=sw.VE).select("id", "ts")


def outer_join(*, with_time: bool, how: Any = "left") -> sw.Query:
    """Each transaction with itself; `other` is null where it has no partner."""
    rows = TRANSACTIONS.select("id", "ts") if with_time else accepted()
    others = rows.select("id", "ts", other="id")
    return rows.join(others, on=("id", "ts") if with_time else ("id",), how=how).select("id", "other")


def credits_() -> sw.Query:
    """What has come into each account, from the second of a transaction on."""
    return TRANSACTIONS.group_by("to_account").aggregate(credits=sw.sum("amount"))


def debits() -> sw.Query:
    """What has gone out of it."""
    return TRANSACTIONS.group_by("from_account").aggregate(debits=sw.sum("amount"))


def balance(how: Any = "full") -> sw.Query:
    """From the second of a transaction on, what each account has had in and out."""
    both = credits_().join(debits(), on={"to_account": "from_account"}, how=how)
    difference = sw.col("credits").fill_null(0) - sw.col("debits").fill_null(0)
    return both.select(account="to_account", balance=difference)


def total(how: Any = "full") -> sw.Query:
    """The sum of all balances."""
    return balance(how).aggregate(total=sw.sum("balance"))


VIEWS = {
    "accepted": accepted(),
    "outer join without time": outer_join(with_time=False),
    "outer join with time": outer_join(with_time=True),
    "full outer join with time": outer_join(with_time=True, how="full"),
    "credits": credits_(),
    "debits": debits(),
    "balance": balance(),
    "total": total(),
    "total, inner join": total("inner"),
}


def transactions(rows: int, seed: int = 0) -> pl.DataFrame:
    """Amounts of 1 between random accounts, in the order in which they arrive."""
    random = np.random.default_rng(seed)
    ts = np.sort(random.integers(0, SECONDS, rows))
    return pl.DataFrame(
        {
            "id": np.arange(rows),
            "from_account": random.integers(0, ACCOUNTS, rows),
            "to_account": random.integers(0, ACCOUNTS, rows),
            "amount": np.ones(rows, dtype=np.int64),
            "ts": ts,
            "arrival": ts + random.uniform(0, LATE, rows),
        }
    ).sort("arrival")


def told(rows: pl.DataFrame) -> Batch:
    """As a stream: a transaction counts from its second on."""
    vs = rows["ts"].to_numpy().astype(np.int64)
    return Batch.inserts(vs, np.full(len(vs), sw.INF), rows.drop("arrival"))


# What is right


def is_right(view: str, history: sw.History, prefix: pl.DataFrame) -> bool:
    """Whether what was shown is the answer to a prefix of the transactions, computed by other means."""
    if not view.startswith(("credits", "debits", "balance", "total")):
        return history.frame.sort("id").equals(_one_by_one(view, prefix).sort("id"))
    at = ((second, prefix.filter(pl.col("ts") <= second)) for second in range(SECONDS))
    return all(sorted(history.snapshot(second).rows()) == _sums(view, rows) for second, rows in at)


def _one_by_one(view: str, rows: pl.DataFrame) -> pl.DataFrame:
    """Views in which each transaction is a row, from its second on or for ever, with its lifetime."""
    payload = {"ts": pl.col("ts")} if view == "accepted" else {"other": pl.col("id")}
    begins = pl.col("ts") if "with time" in view else pl.lit(0)
    return rows.select("id", **payload, vs=begins.cast(pl.Int64), ve=pl.lit(sw.INF, dtype=pl.Int64))


def _sums(view: str, rows: pl.DataFrame) -> list[tuple[Any, ...]]:
    """Views that add up, of transactions that all count."""
    credits = rows.group_by(account="to_account").agg(credits=pl.col("amount").sum())
    debits = rows.group_by(account="from_account").agg(debits=pl.col("amount").sum())
    if view in ("credits", "debits"):
        return sorted((credits if view == "credits" else debits).rows())
    how = "inner" if view.endswith("inner join") else "full"
    both = credits.join(debits, on="account", how=how, coalesce=True)  # type: ignore[arg-type]
    difference = pl.col("credits").fill_null(0) - pl.col("debits").fill_null(0)
    balances = both.select("account", balance=difference)
    if view == "balance":
        return sorted(balances.rows())
    return [(balances["balance"].sum(),)] if balances.height else []


def never(view: str, rows: pl.DataFrame) -> pl.Series:
    """Rows that must not be there in any state, at any moment, whatever has arrived."""
    if "outer join" in view:
        return rows["id"].is_null() | rows["other"].is_null()
    if view == "total":
        return rows["total"] != 0
    return pl.Series(values=np.zeros(rows.height, dtype=np.bool_))


@dataclass
class Watch:
    """A user who looks at a view, and counts the states with something in it that must never be."""

    view: str
    states: int = 0
    wrong: int = 0
    lies: int = 0
    """rows that must not be there, and are"""

    def look(self, seen: Batch) -> None:
        """All of this came at once."""
        if not seen.rows:
            return
        is_lie = never(self.view, seen.payload).to_numpy()
        begins, ends = seen.new_ve > seen.vs, seen.old_ve > seen.vs
        self.lies += int(np.count_nonzero(is_lie & begins)) - int(np.count_nonzero(is_lie & ends))
        self.states += 1
        self.wrong += self.lies > 0


def states(output: Output) -> list[Batch]:
    """What came at once: between two marks, or if nothing is marked, each batch."""
    whole = output.as_batch()
    if not output.marks:
        return output.batches
    bounds = [0, *dict.fromkeys(mark.said for mark in output.marks)]
    return [whole.slice(start, stop) for start, stop in itertools.pairwise(bounds)]


# In this process


@dataclass(frozen=True)
class Verdict:
    """How many states a user saw of a view, and how many of them were wrong."""

    states: int
    wrong: int
    """with something in it that must never be"""
    compared: int
    different: int
    """from a computation over the prefix that the state names"""
    seconds: float = field(compare=False)


def run(
    view: str,
    rows: pl.DataFrame,
    *,
    batch: int,
    by: sw.levels.Method | None,
    compared: int = 5,
    **how: Any,
) -> Verdict:
    """Run a view over the transactions, and check all that could be seen; `compared` states in full."""
    begun = time.perf_counter()
    schedule = how.pop("schedule", sw.RoundRobin())
    out = VIEWS[view].run({TRANSACTIONS: told(rows)}, batch=batch, by=by, schedule=schedule, **how)
    seconds = time.perf_counter() - begun
    watch = Watch(view)
    for seen in states(out):
        watch.look(seen)
    different, marks = 0, _some(out.marks, compared)
    for mark in marks:
        prefix = rows.head(mark.offsets["transactions"])
        different += not is_right(view, out.until(mark), prefix)
    return Verdict(watch.states, watch.wrong, len(marks), different, seconds)


def _some(marks: Sequence[Any], count: int) -> list[Any]:
    """The last one, and others spread over all."""
    if len(marks) <= count:
        return [*marks]
    places = np.linspace(len(marks) - 1, 0, count).round().astype(int)
    return [marks[place] for place in sorted(places.tolist())]


def main(count: int = 10_000) -> None:
    console = Console()
    rows = transactions(count)
    batch = max(1, count // 200)
    methods: dict[str, sw.levels.Method | None] = {
        "no control": None,
        "heeding": sw.Heeding(),
        "tokens": sw.Tokens(batch * 10),
    }
    table = Table(
        "view", *methods, title=f"{count:,} transactions: states seen, and how many were wrong"
    )
    honest = True
    for view in VIEWS:
        cells = []
        for name, by in methods.items():
            verdict = run(view, rows, batch=batch, by=by)
            cells.append(f"{verdict.states:,}, {verdict.wrong + verdict.different:,}")
            honest &= name == "no control" or not (verdict.wrong or verdict.different)
        table.add_row(view, *cells)
    console.print(table)
    if not honest:
        raise SystemExit("A state that was shown as right is wrong.")
    console.print("What was shown as right is the answer to the prefix of the input that it names.")


# On Spark


def watched(spark: Any, view: str, rows: pl.DataFrame, files: int, place: Path) -> Verdict:
    """Run a view there, a file to a micro-batch; what each adds is what a user sees at once."""
    # only who asks for Spark waits for it
    from slackwater.spark import sinks  # noqa: PLC0415

    (place / "files").mkdir(parents=True)
    parts = np.array_split(np.arange(rows.height), files)
    for number, part in enumerate(parts):
        batch = rows[part].drop("arrival").with_columns(vs="ts", ve=pl.lit(None, dtype=pl.Int64))
        path = place / "files" / f"{number:04d}.parquet"
        batch.write_parquet(path)
        # files are taken in the order of their times
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
    said: dict[int, Batch] = {}
    begun = time.perf_counter()
    query = VIEWS[view].start(
        spark,
        {TRANSACTIONS: sw.read_files(str(place / "files"), vs="vs", ve="ve", per_batch=1)},
        checkpoint=str(place / "checkpoint"),
        sink=sinks.Callback(function=lambda batch, number: said.update({number: batch})),
    )
    query.process_all_available()
    query.stop()
    seconds = time.perf_counter() - begun
    watch, different = Watch(view), 0
    seen: list[Batch] = []
    for count, number in enumerate(sorted(said)):
        watch.look(said[number])
        seen.append(said[number].data())
        prefix = rows.head(int(parts[min(count, files - 1)][-1]) + 1)
        different += not is_right(view, sw.History.of(Batch.concat(seen)), prefix)
    return Verdict(watch.states, watch.wrong, len(said), different, seconds)


def main_on_spark(count: int = 10_000, files: int = 8) -> None:
    """The outer join and the total, where a micro-batch is a token."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession  # noqa: PLC0415

    console = Console()
    rows = transactions(count)
    table = Table("view", "states", "wrong", "different from the prefix", title="On Spark")
    honest = True
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory() as place:
        for view in ("outer join with time", "total"):
            verdict = watched(spark, view, rows, files, Path(place) / view.replace(" ", "-"))
            table.add_row(view, *map(str, (verdict.states, verdict.wrong, verdict.different)))
            honest &= not (verdict.wrong or verdict.different)
    spark.stop()
    console.print(table)
    if not honest:
        raise SystemExit("A state that was shown is wrong.")
    console.print("Every micro-batch left the answer to a prefix of the input.")


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if arguments[:1] == ["spark"]:
        main_on_spark(*map(int, arguments[1:]))
    else:
        main(*map(int, arguments))
