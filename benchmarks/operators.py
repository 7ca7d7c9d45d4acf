"""Operators in process, on one core: time as a multiple of one polars sort of the same rows.

The input has one event per tick, each alive for about `live` ticks, 20 % of them late, 5 % shortened
later, and a cti with every hundredth part. Each operator reads it in batches of several sizes. The peer
is polars, with one thread, sorting all input rows by (key, vs) in one call in the same run; the figure
is (time of the operator for all rows) / (time of that sort). The first batches, which load compiled
code, are not counted.

    python -m benchmarks.operators            the table
    python -m benchmarks.operators growth     total time against size, and a batch against what is kept
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl
from rich.console import Console
from rich.table import Table

import slackwater as sw
from slackwater.events import Batch, Placed
from slackwater.operators import Step, step_of
from slackwater.plan.nodes import Latency, Node

SIZES = (1, 100, 1_000, 10_000, 100_000)
MOST_BATCHES = 300
"""of small batches this many are enough"""


@dataclass(frozen=True)
class Input:
    """What a stream looks like."""

    events: int = 500_000
    keys: int = 1_000
    live: int = 10_000
    strings: bool = False

    def draw(self, seed: int = 0) -> Batch:
        """The stream in columns."""
        random = np.random.default_rng(seed)
        vs = np.arange(self.events, dtype=np.int64)
        life = random.integers(self.live // 2, 3 * self.live // 2, self.events)
        key = random.integers(0, self.keys, self.events)
        value = random.integers(0, 100, self.events)
        reach = max(2, self.live // 10)
        late = np.where(random.random(self.events) < 0.2, random.integers(1, reach, self.events), 0)
        again = np.flatnonzero(random.random(self.events) < 0.05)
        place = np.concatenate([vs + late, (vs + late)[again] + random.integers(1, reach, len(again))])
        row = np.concatenate([vs, again])
        old_ve = np.concatenate([vs, (vs + life)[again]])
        new_ve = np.concatenate([vs + life, (vs + life // 2)[again]])
        order = np.argsort(place, kind="stable")
        row, old_ve, new_ve = row[order], old_ve[order], new_ve[order]
        sync = np.minimum(old_ve, new_ve)
        # the strongest promise at each place: no later element has a smaller sync
        least_to_come = np.minimum.accumulate(sync[::-1])[::-1]
        step = max(1, len(row) // 100)
        promises = tuple(
            Placed(at, sw.cti(int(least_to_come[at]))) for at in range(step, len(row), step)
        )
        payload = pl.DataFrame({"k": key[row], "v": value[row]})
        if self.strings:
            payload = payload.select(
                k=pl.format("{}{}", pl.lit("x" * 92), pl.col("k").cast(pl.String)), v="v"
            )
        return Batch(vs[row], old_ve, new_ve, payload, promises)


def queries(schema: pl.Schema) -> dict[str, Callable[[], tuple[Node, int]]]:
    """The operator under test, on top of as many sources as it has ports."""

    def source() -> sw.Query:
        return sw.stream(schema)

    return {
        "count, sum by key": lambda: (
            source().group_by("k").aggregate(n=sw.count(), t=sw.sum("v")).node,
            1,
        ),
        "distinct": lambda: (source().distinct().node, 1),
        "difference": lambda: (source().difference(source()).node, 2),
        "join": lambda: (source().join(source(), on=["k", "v"]).node, 2),
    }


@dataclass
class Drive:
    """An operator at work, without a runtime around it."""

    step: Step

    def __post_init__(self) -> None:
        self.state = self.step.open()
        self.rows_out = 0

    def push_all(self, parts: Iterable[tuple[int, Batch]]) -> None:
        """Several batches, each on its port."""
        for port, part in parts:
            self.push(port, part)

    def push(self, port: int, part: Batch) -> None:
        """One batch, rows and then its last promise."""
        said = self.step.on_batch(self.state, port, part.data())
        if isinstance(said, Batch):
            self.rows_out += said.rows
        if part.controls:
            promise = part.controls[-1].control
            assert isinstance(promise, sw.Punctuation)
            answer = self.step.on_punctuation(self.state, port, promise)
            if answer.rows is not None:
                self.rows_out += answer.rows.rows


def turns(stream: Batch, ports: int, size: int) -> Iterator[tuple[int, Batch]]:
    """The stream in batches; every event on the port that its start chooses, ports in turn."""
    shares = [stream.where(stream.vs % ports == port).split(size) for port in range(ports)]
    for batches in zip(*shares, strict=False):
        yield from enumerate(batches)


def time_of_sort(stream: Batch) -> float:
    """Seconds that polars needs to sort the rows by key and start."""
    frame = pl.DataFrame({"k": stream.payload["k"], "vs": stream.vs})
    return min(_seconds(lambda: frame.sort("k", "vs")) for _ in range(3))


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measure(root: Node, ports: int, stream: Batch, size: int) -> tuple[float, float, float]:
    """Seconds for all rows, rows out per row in, and seconds per batch. Ports are read in turn."""
    parts = list(turns(stream, ports, size))
    warm = min(len(parts) // 4, 50)
    parts = parts[: warm + MOST_BATCHES]
    drive = Drive(_step(root))
    for port, part in parts[:warm]:
        drive.push(port, part)
    before = drive.rows_out
    timed = parts[warm:]
    seconds = _seconds(lambda: drive.push_all(timed))
    rows = sum(part.rows for _, part in timed)
    return seconds / rows * stream.rows, (drive.rows_out - before) / rows, seconds / len(timed)


def table(console: Console) -> None:
    for keys in (1_000, 100_000):
        for strings in (False, True):
            stream = Input(keys=keys, strings=strings).draw()
            sort = time_of_sort(Input(keys=keys).draw())
            kind = "100-byte strings" if strings else "integers"
            out = Table(title=f"{keys:,} keys, {kind}: multiples of one polars sort ({sort:.3f} s)")
            out.add_column("operator")
            out.add_column("latency")
            for size in SIZES:
                out.add_column(f"{size:,}", justify="right")
            for column in ("M rows/s", "rows out", "batch of 1"):
                out.add_column(column, justify="right")
            for name, latency, root, ports in _runnable(stream.schema):
                results = {size: measure(root(), ports, stream, size) for size in SIZES}
                best = results[10_000]
                out.add_row(
                    name,
                    latency,
                    *(f"{results[size][0] / sort:.1f}" for size in SIZES),
                    f"{stream.rows / best[0] / 1e6:.2f}",
                    f"{best[1]:.2f}",
                    f"{results[1][2] * 1e3:.2f} ms",
                )
            console.print(out)


def _runnable(schema: pl.Schema) -> Iterator[tuple[str, str, Callable[[], Node], int]]:
    for name, build in queries(schema).items():
        for latency in (sw.PERFECTNESS_PRESERVING, sw.EAGER):
            _, ports = build()
            try:
                step_of(build()[0], latency)
            except sw.PlanError as refusal:
                Console(stderr=True).print(f"{name}: {refusal.fact}")
                break

            def root(
                build: Callable[[], tuple[Node, int]] = build, latency: sw.OutputLatency = latency
            ) -> Node:
                return Latency(build()[0], latency)

            yield name, latency.name.split("_")[0].lower(), root, ports
            if name != "count, sum by key":
                break


def growth(console: Console) -> None:
    """How total time grows with the number of events, and a batch with what is remembered."""
    out = Table(title="Growth")
    for column in (
        "operator",
        "10^4",
        "10^5",
        "10^6",
        "10^7",
        "exponent",
        "batch at 10^4 live",
        "at 10^6",
        "ratio",
    ):
        out.add_column(column, justify="left" if column == "operator" else "right")
    for name, latency, root, ports in _runnable(Input().draw().schema):
        totals = []
        for events in (10_000, 100_000, 1_000_000, 10_000_000):
            stream = Input(events=events, live=1_000).draw()
            drive = Drive(_step(root()))
            totals.append(_seconds(partial(drive.push_all, list(turns(stream, ports, 10_000)))))
        exponent = np.polyfit(np.log([1e4, 1e5, 1e6, 1e7]), np.log(totals), 1)[0]
        small, large = (_batch_at(root(), ports, live) for live in (10_000, 1_000_000))
        out.add_row(
            f"{name}, {latency}",
            *(f"{t:.2f} s" for t in totals),
            f"{exponent:.2f}",
            f"{small * 1e3:.2f} ms",
            f"{large * 1e3:.2f} ms",
            f"{large / small:.2f}",
        )
    console.print(out)


def _step(root: Node) -> Step:
    assert isinstance(root, Latency)
    return step_of(root.input, root.latency)


def _batch_at(root: Node, ports: int, live: int) -> float:
    """Mean seconds of a batch of 1,000 once so many events are alive, over 400 of them."""
    stream = Input(events=2 * live + 500_000, keys=100_000, live=live).draw()
    drive = Drive(_step(root))
    parts = list(turns(stream, ports, 1_000))
    filled, timed = parts[: 2 * live // 1_000], parts[2 * live // 1_000 :][:400]
    drive.push_all(filled)
    return _seconds(lambda: drive.push_all(timed)) / len(timed)


if __name__ == "__main__":
    if "growth" in sys.argv[1:]:
        growth(Console(width=140))
    else:
        table(Console(width=140))
