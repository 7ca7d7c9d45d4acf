"""Where the answer of a query on Spark goes.

    Memory()                  in the handle: `query.output`; also after a restart
    Console(rows=20)          on the screen, a table per batch
    Callback(function=f)      f(batch, number), in the driver; the same number again after a failure
    Parquet(directory=...)    changelog rows, written where they are; see `committed`
    Delta(table=...)          changelog rows, in a Delta table
    Kafka(servers=, topic=)   records of a topic, see kafka_sink.py

With `settled=True` only what can no longer change is told, each event once, with its final lifetime.

With `key=` the first three and Delta take the *latest view*: the current row of every key, that is the
one that started last among those that have not been taken back. `Memory(key="k")` keeps it
(`query.view()`), `Callback` gets its changes (`Upserts`), `Delta` is merged by key.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import IO, Any

import polars as pl
from rich import console, table
from rich.text import Text

from slackwater.distributed.latest import Upserts, upserts_of
from slackwater.errors import OperatorError
from slackwater.events import Batch
from slackwater.rows import changelog
from slackwater.spark.delta import Delta
from slackwater.spark.kafka_sink import Kafka
from slackwater.spark.memory import Memory
from slackwater.spark.parquet import Parquet, aligned, committed, scan
from slackwater.spark.receiving import Keyed, Sink
from slackwater.spark.snapshots import At, snapshot
from slackwater.times import show

__all__ = [
    "At",
    "Callback",
    "Console",
    "Delta",
    "Kafka",
    "Memory",
    "Parquet",
    "Sink",
    "Upserts",
    "aligned",
    "committed",
    "scan",
    "snapshot",
]


@dataclass(frozen=True, kw_only=True)
class Callback(Keyed):
    """A function gets what a batch adds: a `Batch`, or with a key `Upserts`; and its number."""

    function: Callable[[Any, int], object]

    def take(self, said: Batch, batch: int, promise: int) -> None:
        """Call it."""
        news = upserts_of(said, self.keys) if self.keys else said
        try:
            self.function(news, batch)
        except Exception as problem:
            # a user's function may raise anything, and Java would tell it among its own words
            called = getattr(self.function, "__name__", type(self.function).__name__)
            [_, *frames] = traceback.extract_tb(problem.__traceback__)
            place = f"{frames[0].filename}, line {frames[0].lineno}; " if frames else ""
            raise OperatorError(
                f"the callback {called} raised {type(problem).__name__}: {problem}",
                detail=f"{place}it was told batch {batch}",
                hint="started again from its checkpoint, the query tells it that batch again",
            ) from problem


@dataclass(frozen=True, kw_only=True)
class Console(Keyed):
    """The screen, or a notebook: for every batch the first rows that it adds, and what is settled."""

    rows: int = 20
    file: IO[str] | None = field(default=None, repr=False)

    def take(self, said: Batch, batch: int, promise: int) -> None:
        """Show them."""
        changes = _changed(upserts_of(said, self.keys)) if self.keys else changelog(said.data())
        title = f"batch {batch}: {changes.height} changes, settled until {show(promise)}"
        shown = table.Table(title=title, title_justify="left")
        # as it is: a value may look like markup
        for name in changes.columns:
            shown.add_column(Text(name))
        for row in changes.head(self.rows).rows(named=True):
            shown.add_row(*(Text(_text(name, value)) for name, value in row.items()))
        more = changes.height - self.rows
        if more > 0:
            shown.caption = f"and {more} more"
        screen = console.Console(file=self.file)
        screen.print(shown if changes.height else title)


def _changed(changes: Upserts) -> pl.DataFrame:
    parts = {"upsert": changes.upserts, "delete": changes.deletes}
    return pl.concat(
        [rows.select(pl.lit(kind).alias("kind"), pl.all()) for kind, rows in parts.items()],
        how="diagonal",
    )


def _text(name: str, value: object) -> str:
    if value is None:
        return ""
    return show(value) if name in ("vs", "ve", "new_ve") and isinstance(value, int) else str(value)
