"""What a sink is: a value that says where an answer goes, and what takes it there while a query runs.

A sink gets what every batch adds to the answer, with the number of the batch; a batch may be repeated,
and then comes with the same number and the same content. So a sink that puts what it gets under that
number holds every batch once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field

import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from slackwater.distributed.latest import latest
from slackwater.distributed.program import Program
from slackwater.distributed.tokens import Token
from slackwater.errors import PlanError
from slackwater.events import Batch
from slackwater.ledger import Ledger
from slackwater.plan.nodes import Cleanse, Node
from slackwater.runtime.output import Output

__all__ = ["Delivery", "Keyed", "Opening", "Receiver", "Rewrites", "Sink"]

Rewrites = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class Delivery:
    """What a batch has added to the answer."""

    batch: int
    said: Batch
    """as far as it has come to the driver; then the promise, if that is a new one"""
    promise: int
    """how far the answer can no longer change"""
    written: tuple[str, ...] = ()
    """the files that tasks have written for the sink"""
    token: Token = field(default_factory=dict)
    """of which batches of which queries it is the answer, with those before it; empty: of none yet"""


@dataclass(frozen=True)
class Opening:
    """What a sink gets to know when a query starts."""

    query: str
    """names the query, also after a restart"""
    root: str
    """a directory under the checkpoint, for the sink's own use"""
    program: Program
    ledger: Ledger
    through: int = -1
    """the last batch whose answer was taken; -1: there is none"""

    def require_whole(self, place: str, *, has_last: bool) -> None:
        """Raise if what a sink keeps does not go up to there: it would go on behind a gap."""
        if self.through >= 0 and not has_last:
            raise PlanError(
                "the answer so far is not there",
                detail=f"batch {self.through} is through, and {place} does not hold it",
                hint="give the sink that the query had, or start anew with another checkpoint",
            )


@dataclass(frozen=True)
class Sink:
    """Takes the answer. `settled`: only what can no longer change, each event once."""

    settled: bool = False

    def plan(self, root: Node) -> Node:
        """The query whose changelog the sink wants."""
        # across buckets rows have no order, so none has to wait for another
        return Cleanse(root, in_order=False) if self.settled else root

    def resolved(self, place: Callable[[str], str]) -> Sink:
        """The same sink with places as the whole cluster knows them."""
        return self

    @property
    def place(self) -> str:
        """Where the answer is, if the sink cannot see by itself that it was there so far; or nothing."""
        return ""

    def prepared(self, spark: SparkSession, schema: pl.Schema, root: str) -> Sink:
        """The same sink, ready for a query with such an answer and with its store there."""
        return self

    def in_tasks(self, schema: pl.Schema) -> Rewrites | None:
        """What to do with the parcels where they are; what is left of them goes to the driver."""
        return None

    @contextmanager
    def published(self, frame: DataFrame, schema: pl.Schema) -> Iterator[DataFrame]:
        """Write a batch with Spark; what is left of it goes to the driver."""
        yield frame

    def opened(self, at: Opening) -> Receiver:
        """The sink at work."""
        return Receiver(self)

    def take(self, said: Batch, batch: int, promise: int) -> None:
        """What a batch has added, as far as it has come to the driver."""


@dataclass(frozen=True)
class Keyed(Sink):
    """A sink that also takes a latest view: the current row of every key (distributed/latest.py)."""

    _: KW_ONLY
    key: str | tuple[str, ...] | list[str] = ()

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns of the key; none if it is not a view."""
        return (self.key,) if isinstance(self.key, str) else tuple(self.key)

    def plan(self, root: Node) -> Node:
        """The view's query, if it is one."""
        root = super().plan(root)
        return latest(root, self.keys) if self.keys else root


class Receiver:
    """A sink while a query runs. This one remembers nothing."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink

    def take(self, delivery: Delivery) -> None:
        """What a batch has added."""
        self.sink.take(delivery.said, delivery.batch, delivery.promise)

    @property
    def output(self) -> Output:
        """The answer so far, where the sink keeps it."""
        raise PlanError(
            "the answer is not kept in the handle",
            detail=f"it goes to {self.sink}",
            hint="sinks.Memory() keeps it there",
        )

    def view(self) -> pl.DataFrame:
        """The current row of every key, where the sink keeps that."""
        raise PlanError(
            "there is no view in the handle",
            detail=f"the answer goes to {self.sink}",
            hint="sinks.Memory(key=...) keeps one",
        )
