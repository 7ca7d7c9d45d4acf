"""Operators in process, on one core: time as a multiple of one polars sort of the same rows.

The input has one event per tick, each alive for about `live` ticks, 20 % of them late, 5 % shortened
later, and a cti with every hundredth part. Each operator reads it in batches of several sizes. The peer
is polars, with one thread, sorting all input rows by (key, vs) in one call in the same run; the figure
is (time of the operator for all rows) / (time of that sort), both in processor time. The machine may be
shared: operator and sort take turns, and the figure is the median of the turns. The first batches, which
load compiled code, are not counted.

    python -m benchmarks.operators            the table
    python -m benchmarks.operators one        a batch of one element, for every operator
    python -m benchmarks.operators growth     total time against size, and a batch against what is kept

Further words choose operators by name: `python -m benchmarks.operators join distinct`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
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
TURNS = 3


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


@dataclass(frozen=True)
class Subject:
    """An operator under test, on top of as many sources as it has ports."""

    build: Callable[..., sw.Query]
    ports: int = 1
    one_match: bool = False
    """whether as many events are alive as there are keys, so that each meets about one other"""
    has_latency: bool = True

    def root(self, schema: pl.Schema, latency: sw.OutputLatency) -> Node:
        """The plan."""
        return Latency(self.build(*(sw.stream(schema) for _ in range(self.ports))).node, latency)


SUBJECTS = {
    "count, sum": Subject(lambda s: s.group_by("k").aggregate(n=sw.count(), t=sw.sum("v"))),
    "min, max": Subject(lambda s: s.group_by("k").aggregate(low=sw.min("v"), high=sw.max("v"))),
    "top 3": Subject(lambda s: s.group_by("k").aggregate(top=sw.top_k("v", 3))),
    "median": Subject(lambda s: s.group_by("k").aggregate(m=sw.percentile("v", 0.5))),
    "rank": Subject(lambda s: s.group_by("k").aggregate(place=sw.rank("v"))),
    "distinct": Subject(lambda s: s.distinct()),
    "difference": Subject(lambda a, b: a.difference(b), ports=2),
    "join": Subject(lambda a, b: a.join(b, on="k"), ports=2, one_match=True, has_latency=False),
    "left join": Subject(lambda a, b: a.join(b, on="k", how="left"), ports=2, one_match=True),
    "anti join": Subject(lambda a, b: a.join(b, on="k", how="anti"), ports=2, one_match=True),
}

OTHERS = {
    "where": Subject(lambda s: s.where(sw.col("v") > 50)),
    "select": Subject(lambda s: s.select("k", w=sw.col("v") + 1)),
    "hopping": Subject(lambda s: s.window(sw.hopping(2_000, 500))),
    "chop": Subject(lambda s: s.chop(10_000)),
    "deletes": Subject(lambda s: s.deletes()),
    "point at end": Subject(lambda s: s.point_at_end()),
    "session": Subject(lambda s: s.group_by("k").window(sw.session(100))),
    "union": Subject(lambda a, b: a.union(b), ports=2),
    "clip by a stream": Subject(lambda a, b: a.clip(b, on="k"), ports=2),
    "intersect": Subject(lambda a, b: a.intersect(b), ports=2),
    "full join": Subject(lambda a, b: a.join(b, on="k", how="full"), ports=2, one_match=True),
    "percentile, first": Subject(
        lambda s: s.group_by("k").aggregate(p=sw.percentile("v", 0.9), f=sw.first("v"))
    ),
    "product": Subject(lambda s: s.group_by("k").aggregate(p=sw.product(sw.col("v").cast(float)))),
    "count distinct": Subject(lambda s: s.group_by("k").aggregate(d=sw.count_distinct("v"))),
    "avg, stddev": Subject(lambda s: s.group_by("k").aggregate(m=sw.avg("v"), d=sw.stddev("v"))),
    "last": Subject(lambda s: s.group_by("k").aggregate(last=sw.last("v"))),
    "fold": Subject(
        lambda s: s.group_by("k").aggregate(
            f=sw.fold(
                "v",
                init=lambda: 0,
                add=lambda state, value: state + value,
                remove=lambda state, value: state - value,
                result=lambda state: state,
                dtype=int,
            )
        )
    ),
    "group function": Subject(
        lambda s: s.group_by("k").aggregate(f=sw.group_function(len, "v", dtype=int))
    ),
    "shift": Subject(lambda s: s.shift(5)),
    "clip": Subject(lambda s: s.clip(500)),
    "inserts": Subject(lambda s: s.inserts()),
    "difference all": Subject(lambda a, b: a.difference(b, all=True), ports=2),
    "join where": Subject(
        lambda a, b: a.join(b, on="k", where=sw.col("v") > sw.col("v_right")), ports=2, one_match=True
    ),
    "punctuate": Subject(lambda s: s.punctuate(lateness=5_000)),
    "align": Subject(lambda s: s.align(100)),
    "cleanse": Subject(lambda s: s.cleanse()),
    "sort": Subject(lambda s: s.sort("v")),
    "finalize": Subject(lambda s: s.finalize(100_000)),
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
        out = said if isinstance(said, Batch) else said.rows
        self.rows_out += out.rows if out is not None else 0
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
    start = time.process_time()
    work()
    return time.process_time() - start


@dataclass(frozen=True)
class Measured:
    """Of one operator and batch size: seconds for all rows, for one batch, for a row of output."""

    multiple: float
    """of the time of the sort"""
    total: float
    batch: float
    per_row_out: float
    out_per_in: float


def measure(root: Node, ports: int, stream: Batch, size: int, sorted_too: Batch) -> Measured:
    """The turn with the median multiple. Ports are read one after the other."""
    parts = list(turns(stream, ports, size))
    warm = min(len(parts) // 4, 50)
    parts = parts[: warm + MOST_BATCHES]
    timed = parts[warm:]
    rows = sum(part.rows for _, part in timed)
    seen = []
    for _ in range(TURNS):
        sort = time_of_sort(sorted_too)
        drive = Drive(_step(root))
        drive.push_all(parts[:warm])
        before = drive.rows_out
        seconds = _seconds(partial(drive.push_all, timed))
        out, total = drive.rows_out - before, seconds / rows * stream.rows
        seen.append(
            Measured(total / sort, total, seconds / len(timed), seconds / max(out, 1), out / rows)
        )
    return sorted(seen, key=lambda one: one.multiple)[TURNS // 2]


def table(console: Console, names: Sequence[str]) -> None:
    """Every operator, kind of input and batch size."""
    for keys in (1_000, 100_000):
        for strings in (False, True):
            kind = "100-byte strings" if strings else "integers"
            out = Table(title=f"{keys:,} keys, {kind}: multiples of one polars sort of (key, vs)")
            out.add_column("operator")
            out.add_column("latency")
            for size in SIZES:
                out.add_column(f"{size:,}", justify="right")
            for column in ("M rows/s", "out/in", "ns per row out", "batch of 1"):
                out.add_column(column, justify="right")
            for name in names:
                _add_rows(out, name, keys, strings=strings)
            console.print(out)


def _add_rows(out: Table, name: str, keys: int, *, strings: bool) -> None:
    subject = SUBJECTS[name]
    live = 2 * keys if subject.one_match else 10_000
    stream = Input(keys=keys, live=live, strings=strings).draw()
    integers = Input(keys=keys, live=live).draw()
    latencies = [sw.PERFECTNESS_PRESERVING, sw.EAGER] if subject.has_latency else [sw.EAGER]
    for latency in latencies:
        results = {
            size: measure(subject.root(stream.schema, latency), subject.ports, stream, size, integers)
            for size in SIZES
        }
        best = results[10_000]
        out.add_row(
            name,
            latency.name.split("_")[0].lower() if subject.has_latency else "",
            *(f"{results[size].multiple:.1f}" for size in SIZES),
            f"{stream.rows / best.total / 1e6:.2f}",
            f"{best.out_per_in:.2f}",
            f"{best.per_row_out * 1e9:.0f}",
            f"{results[1].batch * 1e3:.2f} ms",
        )


_FILLED = 20_000
"""elements before those that come one by one: some events have ended, and ctis have passed them"""
_ONE_BY_ONE = 1_100
_WARM = 100
"""of them are not counted: what is compiled is looked up when it is first called"""
_ONES_PER_CTI = 10


def batches_of_one(console: Console, names: Sequence[str]) -> None:
    """One element at a time, every tenth with a cti, where 10,000 events are alive: mean and longest."""
    out = Table(title="A batch of one element, 1,000 keys, 10,000 events alive, ms")
    for column in ("operator", "perfectness", "eager", "strings, perfectness", "strings, eager"):
        out.add_column(column, justify="left" if column == "operator" else "right")
    for name in names:
        subject = {**SUBJECTS, **OTHERS}[name]
        cells = []
        for strings in (False, True):
            live = 2_000 if subject.one_match else 10_000
            stream = Input(events=2 * _FILLED, live=live, strings=strings).draw()
            for latency in (sw.PERFECTNESS_PRESERVING, sw.EAGER):
                times = _one_by_one(subject, stream, latency)
                cells.append(f"{np.mean(times) * 1e3:.2f} ({np.max(times) * 1e3:.1f})")
        out.add_row(name, *cells)
        console.print(name, *cells)
    console.print(out)


def _one_by_one(subject: Subject, stream: Batch, latency: sw.OutputLatency) -> list[float]:
    """Seconds of each."""
    drive = Drive(_step(subject.root(stream.schema, latency)))
    filled, ones = stream.slice(0, _FILLED), stream.slice(_FILLED, _FILLED + _ONE_BY_ONE)
    for port in range(subject.ports):
        # all of them, which turns that end with the shorter port would not be
        drive.push_all(
            (port, part) for part in filled.where(filled.vs % subject.ports == port).split(1_000)
        )
    sync = stream.sync[_FILLED:]
    least_to_come = np.minimum.accumulate(sync[::-1])[::-1]
    times = []
    for at, [one] in enumerate(zip(ones.split(1), strict=True)):
        port = int(one.vs[0]) % subject.ports
        work = [(port, one)]
        if at % _ONES_PER_CTI == 0:
            promise = one.slice(0, 0).followed_by([sw.cti(int(least_to_come[at]))])
            work = [*((each, promise) for each in range(subject.ports)), *work]
        times.append(_seconds(partial(drive.push_all, work)))
    return times[_WARM:]


def growth(console: Console, names: Sequence[str]) -> None:
    """How total time grows with the number of events, and a batch with what is remembered."""
    out = Table(title="Growth, perfectness preserving")
    sizes = (10_000, 100_000, 1_000_000, 10_000_000)
    for column in (
        "operator",
        *(f"10^{len(str(size)) - 1}" for size in sizes),
        "exponent",
        "batch at 10^4 live",
        "at 10^6",
        "ratio",
    ):
        out.add_column(column, justify="left" if column == "operator" else "right")
    for name in names:
        subject = SUBJECTS[name]
        totals = []
        # once for the compiled code
        for events in (sizes[0], *sizes):
            stream = Input(events=events, live=1_000).draw()
            drive = Drive(_step(subject.root(stream.schema, sw.PERFECTNESS_PRESERVING)))
            parts = list(turns(stream, subject.ports, 10_000 // subject.ports))
            totals.append(_seconds(partial(drive.push_all, parts)))
        totals = totals[1:]
        exponent = np.polyfit(np.log(sizes), np.log(totals), 1)[0]
        small, large = _batches_at(subject, (10_000, 1_000_000))
        out.add_row(
            name,
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


def _batches_at(subject: Subject, lives: Sequence[int]) -> list[float]:
    """Mean seconds of a batch of 1,000 once so many events are alive, over 1,000 of them.

    There are so many keys that a batch changes as much, whatever is alive: each event meets about one of
    a join's other side, and the thousand are of almost as many groups. (With ten events alive in each
    group, a batch would meet all of 1,000 groups twice, or 2,000 of 100,000 once: twice the change.)
    The sizes take turns of 50 batches, so that a machine that is busy for a while is so for all.
    """
    drives = []
    for live in lives:
        keys = live // 2 if subject.one_match else live
        filled_with = 4 * live  # until what is remembered no longer grows
        stream = Input(events=filled_with + 1_000_000, keys=keys, live=live).draw()
        drive = Drive(_step(subject.root(stream.schema, sw.PERFECTNESS_PRESERVING)))
        parts = list(turns(stream, subject.ports, 1_000))
        drive.push_all(parts[: filled_with // 1_000])
        drives.append((drive, parts[filled_with // 1_000 :][:1_000]))
    seconds = [0.0 for _ in lives]
    for first in range(0, 1_000, 50):
        for i, (drive, parts) in enumerate(drives):
            seconds[i] += _seconds(partial(drive.push_all, parts[first : first + 50]))
    return [s / 1_000 for s in seconds]


if __name__ == "__main__":
    modes = {"growth": growth, "one": batches_of_one}
    words = sys.argv[1:]
    mode = modes[words[0]] if words and words[0] in modes else table
    known = {**SUBJECTS, **OTHERS} if mode is batches_of_one else SUBJECTS
    chosen = [name for name in known if not (set(words) - set(modes)) or name in words]
    mode(Console(width=150), chosen)
