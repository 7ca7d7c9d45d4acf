"""Keys that are opened and closed one by one: what is kept, and what the promises cost.

A million keys, a few rows each, all of them without end and without any cti. Some thousand are open at a
time; each is closed when its last row has come, in the batch of that row. The same rows are read by the
same query without the closings, which remembers everything. The figure is the time of the first as a
multiple of that of the second, in processor time; asked is 2 at most.

    python -m benchmarks.closings [keys]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator

import numpy as np
import polars as pl
from rich.console import Console
from rich.table import Table

import slackwater as sw
from slackwater.events import Batch
from slackwater.plan.nodes import Source
from slackwater.punctuations import Closings
from slackwater.runtime.dataflow import Dataflow

ROWS = 3
"""of each key"""
OPEN = 1_000
"""keys between the first row of a key and its last"""
SIZE = 10_000
"""keys in a batch"""

_INSERTS = sw.StreamProperties(insert_only=True)
_SCHEMA = {"k": int, "v": int}
LEFT = sw.stream(_SCHEMA, name="items", properties=_INSERTS)
RIGHT = sw.stream(_SCHEMA, name="bids", properties=_INSERTS)

Part = tuple[sw.Query, Batch]
"""what a source says"""


def grouped(keys: int, size: int) -> Iterator[Part]:
    """Rows of keys in turn: each key has one now, one later and a last one when it is closed."""
    for first in range(0, keys, size):
        new = np.arange(first, min(first + size, keys))
        key = np.concatenate([new, new - OPEN // 2, new - OPEN])
        closed = new - OPEN
        yield LEFT, _batch(key[key >= 0], closed[closed >= 0])
    rest = np.arange(max(0, keys - OPEN), keys)
    yield LEFT, _batch(rest, rest)


def joined(keys: int, size: int) -> Iterator[Part]:
    """An item and its bids; bids close it, then the items do."""
    for first in range(0, keys, size):
        new = np.arange(first, min(first + size, keys))
        closed = (new - OPEN)[new >= OPEN]
        yield LEFT, _batch(new, np.empty(0, dtype=np.int64))
        bids = np.concatenate([new, closed])
        yield RIGHT, _batch(bids, closed)
        yield LEFT, _batch(closed[:0], closed)
    rest = np.arange(max(0, keys - OPEN), keys)
    yield RIGHT, _batch(rest, rest)
    yield LEFT, _batch(rest[:0], rest)


def _batch(
    key: np.ndarray[tuple[int], np.dtype[np.int64]], closed: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> Batch:
    vs = np.arange(len(key), dtype=np.int64)
    payload = pl.DataFrame({"k": key, "v": key % 100})
    rows = Batch(vs, vs, np.full(len(key), sw.INF), payload)
    if not len(closed):
        return rows
    return rows.followed_by([Closings(pl.DataFrame({"k": closed}), np.full(len(closed), sw.INF))])


def _without(parts: list[Part]) -> list[Part]:
    return [(source, part.data()) for source, part in parts]


def run(query: sw.Query, parts: list[Part]) -> tuple[float, int, int]:
    """Seconds of processor time; the most rows that were kept after a batch, and those at the end."""
    dataflow = Dataflow.of(query.node)
    most = 0
    start = time.process_time()
    for source, part in parts:
        assert isinstance(source.node, Source)
        dataflow.push(source.node, part)
        dataflow.run_until_quiet()
        dataflow.take_output()
        kept = sum(each.describe().state_rows for each in dataflow.operators)
        most = max(most, kept)
    return time.process_time() - start, most, kept


QUERIES: dict[str, tuple[sw.Query, Callable[[int, int], Iterator[Part]]]] = {
    "count, sum": (LEFT.group_by("k").aggregate(n=sw.count(), t=sw.sum("v")), grouped),
    "join": (LEFT.join(RIGHT, on="k"), joined),
}


def main(keys: int) -> None:
    """The table."""
    out = Table(title=f"{keys:,} keys, opened and closed one by one, {SIZE:,} in a batch")
    for column in (
        "query",
        "M rows/s",
        "without closings",
        "time, multiple",
        "kept at most",
        "at the end",
        "without",
    ):
        out.add_column(column, justify="left" if column == "query" else "right")
    for name, (query, draw) in QUERIES.items():
        parts = list(draw(keys, SIZE))
        rows = sum(part.rows for _, part in parts)
        # once for the compiled code
        few = list(draw(3 * SIZE, SIZE))
        run(query, few)
        run(query, _without(few))
        seconds, most, kept = run(query, parts)
        other, _, other_kept = run(query, _without(parts))
        out.add_row(
            name,
            f"{rows / seconds / 1e6:.2f}",
            f"{rows / other / 1e6:.2f}",
            f"{seconds / other:.2f}",
            f"{most:,}",
            f"{kept:,}",
            f"{other_kept:,}",
        )
    Console(width=150).print(out)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
