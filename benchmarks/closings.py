"""Keys that are opened and closed one by one: what is kept, and what the promises cost.

A million keys, a few rows each, and no cti. Each is closed when its last row has come, in the batch of
that row; some thousand are open at a time, and they close in another order than they were opened. The
same rows are read by the same query without the closings, which remembers everything.

*Tuples*: rows of paper 4 have no time, they are [0, INF) here (erratum 26). After every batch, of 10,000
rows, of 100 and of one, no more rows may be kept than keys are open; the run fails where more are. What
is promised is remembered at the edges, which judge by it, and by what comes out: counted apart, and
compact, as closed keys lie densely. A join also notes of each open key that one side has closed it.

*Lifetimes*: rows that begin at different times, and have no end. An aggregate has a row for each
snapshot, so that it keeps each endpoint of an open group (rows that come later may still begin between
them), and a join whose both inputs repeat keys keeps the rows of both.

Asked is that throughput is at least half of that without closings: a multiple of the time of 2 at most,
in processor time. What judges the rows at the edges is in it.

    python -m benchmarks.closings [keys]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
from rich.console import Console
from rich.table import Table

import slackwater as sw
from slackwater.events import Batch
from slackwater.operators import join
from slackwater.plan.nodes import Source
from slackwater.promises import Promises
from slackwater.punctuations import Closings
from slackwater.runtime.run import Execution

ROWS = 3
"""of each key"""
OPEN = 1_000
"""keys between the first row of a key and its last; of tuples on average"""
SIZE = 10_000
"""rows in a batch; of lifetimes, keys"""
SIZES = (SIZE, 100, 1)
MOST_BATCHES = 3_000
"""so small that with many keys there were more of them: then there are fewer keys"""

_INSERTS = sw.StreamProperties(insert_only=True)
_SCHEMA = {"k": int, "v": int}
LEFT = sw.stream(_SCHEMA, name="items", properties=_INSERTS)
RIGHT = sw.stream(_SCHEMA, name="bids", properties=_INSERTS)

Ints = npt.NDArray[np.int64]
_NONE = np.empty(0, dtype=np.int64)


class Part(NamedTuple):
    """What a source says, and how many keys are open when it has."""

    source: sw.Query
    batch: Batch
    open: int

    def without(self) -> Part:
        """The same rows, and no closings."""
        return self._replace(batch=self.batch.data())


# tuples


class Life(NamedTuple):
    """The rows of all keys in the order in which they come."""

    key: Ints
    stage: Ints
    """which of its key's rows it is: 0 the first, ROWS - 1 the last"""

    @classmethod
    def of(cls, keys: int) -> Life:
        """A key is opened at each step, and open for a time of its own."""
        lasts = np.random.default_rng(7).uniform(0.5, 1.5, keys) * OPEN
        begins = np.arange(keys)
        steps = np.concatenate([begins + lasts * stage / (ROWS - 1) for stage in range(ROWS)])
        order = np.argsort(steps, kind="stable")
        return cls(order % keys, order // keys)


def of_one(keys: int, size: int) -> Iterator[Part]:
    """One stream has all rows, and closes a key with the last of them."""
    life, is_open = Life.of(keys), 0
    for at in range(0, len(life.key), size):
        key, stage = life.key[at : at + size], life.stage[at : at + size]
        closed = key[stage == ROWS - 1]
        is_open += int(np.count_nonzero(stage == 0)) - len(closed)
        yield Part(LEFT, _tuples(key, closed), is_open)


def of_auction(keys: int, size: int) -> Iterator[Part]:
    """Items have unique numbers, so each is closed on their side as it comes; bids close the auction."""
    life, is_open = Life.of(keys), 0
    for at in range(0, len(life.key), size):
        key, stage = life.key[at : at + size], life.stage[at : at + size]
        items, bids, closed = key[stage == 0], key[stage > 0], key[stage == ROWS - 1]
        is_open += len(items)
        if len(items):
            yield Part(LEFT, _tuples(items, items), is_open)
        is_open -= len(closed)
        if len(bids):
            yield Part(RIGHT, _tuples(bids, closed), is_open)


def of_two(keys: int, size: int) -> Iterator[Part]:
    """Both sides may have a row, and both close it when it has come for the last time."""
    life, is_open = Life.of(keys), 0
    for at in range(0, len(life.key), size):
        key, stage = life.key[at : at + size], life.stage[at : at + size]
        closed = key[stage == ROWS - 1]
        is_open += int(np.count_nonzero(stage == 0))
        yield Part(LEFT, _tuples(key[stage != 1], closed), is_open)
        is_open -= len(closed)
        yield Part(RIGHT, _tuples(key[(stage == 1) & (key % 2 == 0)], closed), is_open)


def _tuples(key: Ints, closed: Ints) -> Batch:
    return _batch(np.zeros(len(key), dtype=np.int64), key, closed)


# lifetimes


def grouped(keys: int, size: int) -> Iterator[Part]:
    """Rows of keys in turn: each key has one now, one later and a last one when it is closed."""
    for first in range(0, keys, size):
        new = np.arange(first, min(first + size, keys))
        key = np.concatenate([new, new - OPEN // 2, new - OPEN])
        closed = new - OPEN
        yield Part(LEFT, _beginning(key[key >= 0], closed[closed >= 0]), min(OPEN, len(new) + first))
    rest = np.arange(max(0, keys - OPEN), keys)
    yield Part(LEFT, _beginning(rest, rest), 0)


def joined(keys: int, size: int) -> Iterator[Part]:
    """An item and its bids; bids close it, then the items do."""
    for first in range(0, keys, size):
        new = np.arange(first, min(first + size, keys))
        closed = (new - OPEN)[new >= OPEN]
        is_open = len(new) + min(first, OPEN)
        yield Part(LEFT, _beginning(new, _NONE), is_open)
        yield Part(RIGHT, _beginning(np.concatenate([new, closed]), closed), is_open)
        yield Part(LEFT, _beginning(_NONE, closed), is_open - len(closed))
    rest = np.arange(max(0, keys - OPEN), keys)
    yield Part(RIGHT, _beginning(rest, rest), len(rest))
    yield Part(LEFT, _beginning(_NONE, rest), 0)


def _beginning(key: Ints, closed: Ints) -> Batch:
    return _batch(np.arange(len(key), dtype=np.int64), key, closed)


def _batch(vs: Ints, key: Ints, closed: Ints) -> Batch:
    payload = pl.DataFrame({"k": key, "v": key % 100})
    rows = Batch(vs, vs, np.full(len(key), sw.INF), payload)
    if not len(closed):
        return rows
    return rows.followed_by([Closings(pl.DataFrame({"k": closed}), np.full(len(closed), sw.INF))])


# at work


class Outcome(NamedTuple):
    """What a run took, and what it kept."""

    seconds: float
    """of processor time"""
    kept: int
    """rows at most, after a batch"""
    open: int
    """keys at that time"""
    over: int
    """by how many rows more than keys were open, at most"""
    left: int
    """rows at the end"""
    promises: int
    """ranges and values that are remembered at most, at the edges and by the output"""
    noted: int
    """keys at most of which one side alone has promised something"""


def run(query: sw.Query, parts: list[Part], *, counted: bool = True) -> Outcome:
    """The query over these parts, judged and counted after each."""
    execution = Execution(query.node)
    seconds, most, is_open, over, kept, promises, noted = 0.0, 0, 0, -sys.maxsize, 0, 0, 0
    for part in parts:
        assert isinstance(part.source.node, Source)
        start = time.process_time()
        execution.push(part.source.node, part.batch)
        seconds += time.process_time() - start
        execution.output.batches.clear()
        if not counted:
            continue
        kept = sum(status.state.state_rows for status in execution.describe())
        over = max(over, kept - part.open)
        if kept > most:
            most, is_open = kept, part.open
        promises = max(promises, _remembered(execution))
        noted = max(noted, _noted(execution))
    return Outcome(seconds, most, is_open, over, kept, promises, noted)


def _remembered(execution: Execution) -> int:
    """How many ranges and values streams have promised that are remembered."""
    streams = [edge.validator.promises for edge in execution.edges.values()]
    return sum(map(_ranges, [*streams, execution.output.promised]))


def _ranges(promises: Promises) -> int:
    return 0 if promises.known is None else len(promises.known)


def _noted(execution: Execution) -> int:
    """Keys of which a join remembers what one side has promised and the other has not."""
    states = [state for state, *_ in execution.snapshot().operators]
    return sum(
        int(np.count_nonzero(state.ports.in_use(state.ctis)))
        for state in states
        if isinstance(state, join.State)
    )


Trial = tuple[sw.Query, Callable[[int, int], Iterator[Part]]]
"""a query, and what is said to it: of so many keys, in batches of so many rows"""

COUNT = LEFT.group_by("k").aggregate(n=sw.count(), t=sw.sum("v"))
JOIN = LEFT.join(RIGHT, on="k")
TUPLES: dict[str, Trial] = {
    "count, sum": (COUNT, of_one),
    "distinct": (LEFT.distinct(), of_one),
    "join": (JOIN, of_auction),
    "difference": (LEFT.difference(RIGHT), of_two),
    "intersect": (LEFT.intersect(RIGHT), of_two),
}
LIFETIMES: dict[str, Trial] = {"count, sum": (COUNT, grouped), "join": (JOIN, joined)}


def _table(title: str) -> Table:
    table = Table(title=title)
    names = "query", "rows a batch", "M rows/s", "without", "time, multiple"
    kept = "kept at most", "open then", "at the end", "without", "promises", "of one side"
    for column in (*names, *kept):
        table.add_column(column, justify="left" if column == "query" else "right")
    return table


def _measured(table: Table, name: str, trial: Trial, keys: int, size: int) -> Outcome:
    """One line of a table."""
    query, draw = trial
    few = list(draw(min(keys, 3 * SIZE), size))[:1000]
    for each in (few, [part.without() for part in few]):
        # once for the compiled code
        run(query, each, counted=False)
    parts = list(draw(keys, size))
    rows = sum(part.batch.rows for part in parts)
    # what is counted in between takes time of its own: first without it
    seconds = run(query, parts, counted=False).seconds
    without = [part.without() for part in parts]
    other = run(query, without, counted=False).seconds
    found, all_kept = run(query, parts), run(query, without).left
    table.add_row(
        name,
        f"{size:,}",
        f"{rows / seconds / 1e6:.3f}",
        f"{rows / other / 1e6:.3f}",
        f"{seconds / other:.2f}",
        f"{found.kept:,}",
        f"{found.open:,}",
        f"{found.left:,}",
        f"{all_kept:,}",
        f"{found.promises:,}",
        f"{found.noted:,}",
    )
    return found


def main(keys: int) -> None:
    """Both tables."""
    console = Console(width=160)
    table = _table(f"tuples [0, INF): {keys:,} keys, opened and closed one by one")
    over: list[str] = []
    for name, trial in TUPLES.items():
        for size in SIZES:
            found = _measured(table, name, trial, min(keys, MOST_BATCHES * size // ROWS), size)
            if found.over > 0:
                over.append(f"{name}, {size:,} rows a batch: {found.over:,} rows more than open keys")
    console.print(table)
    table = _table(f"rows that begin at different times: {keys:,} keys")
    for name, trial in LIFETIMES.items():
        _measured(table, name, trial, keys, SIZE)
    console.print(table)
    if over:
        raise SystemExit("\n".join(["more is kept than is open:", *over]))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
