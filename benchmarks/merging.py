"""Replicas of one history, and merges that read them: what the experiments on logical merge stand on.

The paper's test streams: a history of inserts, of which each replica is another arrangement, with other
rows late and ctis elsewhere; and, for adjusts, what a query says to them (paper 2, section VI-B).

Time is processor time, without what makes the input and looks at the state. Inputs take turns, batch by
batch; of a batch all rows count and then its last cti, as in a query. The memory of a state is its size
when it is written: plain data of what is remembered, payloads included, and the room that is held for
more; the largest of ten looks.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

import slackwater as sw
from slackwater.events import Batch, Placed
from slackwater.operators import Step, step_of
from slackwater.persistence import encode
from slackwater.plan.nodes import Algorithm

ELEMENTS = 200_000
SECOND = 1_000_000
"""a chronon is a microsecond"""
RATE = 5_000
"""elements a second, where the paper tells how fast they come"""
BATCH = 1_000
TURNS = 3
LOOKS = 10
"""at the memory of a state, in a run"""
INPUTS = (2, 4, 6, 8, 10)
NAMES: dict[str, Algorithm] = {"R0": "R0", "R1": "R1", "R2": "R2", "R3+": "R3", "R3-": "R3-", "R4": "R4"}
"""the paper's names, and ours"""
CLEANSED = "C+R1"

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Lines: TypeAlias = Mapping[str, tuple[Sequence[float], Sequence[float]]]


@dataclass(frozen=True)
class Generator:
    """The paper's test streams: inserts only."""

    elements: int = ELEMENTS
    stable_freq: float = 0.01
    """of the elements that are ctis"""
    alive: float = 10_000
    """events at a time, which gives their duration"""
    max_gap: int = 20 * SECOND
    disorder: float = 0.2
    """of the rows that come late"""
    reach: int = 1_000
    """a late row lets at most so many others go first"""
    string: int = 1_000
    """bytes; 0: there is none"""

    @property
    def duration(self) -> int:
        """Of an event; odd."""
        return int(self.alive * self.max_gap / 2) | 1

    def history(self, seed: int = 0) -> Batch:
        """The rows in the order of their starts.

        These are distinct, and even where ends are odd: then each instant changes one group of an
        aggregate only, and its rows have distinct starts as well, which R0 and R1 after a cleanse need.
        """
        random = np.random.default_rng(seed)
        vs = 2 * np.cumsum(random.integers(1, self.max_gap // 2 + 1, self.elements))
        columns = [pl.Series("k", random.integers(0, 401, self.elements))]
        if self.string:
            columns.append(_strings(random, self.elements, self.string))
        return Batch.inserts(vs, vs + self.duration, pl.DataFrame(columns))

    def arrange(self, history: Batch, seed: int) -> Batch:
        """A replica: the rows as they arrive, and ctis that promise all that can be promised there."""
        random = np.random.default_rng([seed, 1])
        late = random.random(history.rows) < self.disorder
        place = np.arange(history.rows) + np.where(
            late, random.integers(1, self.reach + 1, len(late)), 0
        )
        rows = history.take(np.argsort(place, kind="stable"))
        return promised(rows, np.flatnonzero(random.random(history.rows) < self.stable_freq))

    def replicas(self, count: int, seed: int = 0) -> list[Batch]:
        """So many of one history."""
        history = self.history(seed)
        return [self.arrange(history, each) for each in range(count)]


def promised(rows: Batch, places: Ints) -> Batch:
    """The rows with ctis at these places: no later element has a smaller sync."""
    least_to_come = np.minimum.accumulate(rows.sync[::-1])[::-1]
    controls = (Placed(at, sw.cti(int(least_to_come[at]))) for at in places.tolist())
    return replace(rows, controls=tuple(controls))


def _strings(random: np.random.Generator, count: int, length: int) -> pl.Series:
    letters = random.integers(ord("a"), ord("z") + 1, count * length, dtype=np.uint8)
    ends = np.arange(0, count * length + 1, length)
    texts = pa.LargeStringArray.from_buffers(count, pa.py_buffer(ends), pa.py_buffer(letters))
    return pl.Series("s", texts)


def counted(source: sw.Query) -> sw.Query:
    """Counts by group, with a string each: a late row takes other events back, and says new ones.

    Of a row become about four, a third of them adjusts, if so few events are alive as in `Derived.of`.
    """
    return source.group_by("k").aggregate(n=sw.count(), s=sw.max("s"))


def modified(source: sw.Query) -> sw.Query:
    """Counts by group, followed by a change of lifetimes: a late row takes back what was counted."""
    counts = source.group_by("k").aggregate(n=sw.count())
    return counts.window(sw.sliding(40 * SECOND))


def clipped(source: sw.Query) -> sw.Query:
    """Each row until the next of its group: a row has others end sooner, and all events stay."""
    return source.clip(source, on="k")


@dataclass(frozen=True)
class Derived:
    """Streams with adjusts: what a query says to the generator's, at once.

    It reads a hundred rows at a time, of 401 groups: hardly ever two of one group at once.
    """

    generator: Generator
    query: Callable[[sw.Query], sw.Query] = counted

    @classmethod
    def of(cls, elements: int, disorder: float = 0.5) -> Derived:
        """Counts: about so many rows, one in a thousand a cti."""
        return cls(Generator(elements // 4, 0.004, alive=600, disorder=disorder))

    def parts(self, replica: Batch) -> Iterator[tuple[int, Batch]]:
        """What is said, and up to which start rows have come when it is."""
        source = sw.stream(replica.schema, properties=sw.StreamProperties(insert_only=True))
        running = self.query(source).latency(sw.EAGER).open()
        clock = 0
        for part in replica.split(100):
            clock = max(clock, int(part.vs.max(initial=0)))
            for said in running.push(source, part):
                yield clock, said

    def replicas(self, count: int) -> list[Batch]:
        """So many of one history."""
        return [
            Batch.concat([said for _, said in self.parts(each)])
            for each in self.generator.replicas(count)
        ]


class Piece(NamedTuple):
    """Rows that come at once, and the last cti among or behind them."""

    rows: Batch
    cti: sw.Punctuation | None


def pieces(stream: Batch, stops: Iterable[int]) -> list[Piece]:
    """The stream, cut at these rows."""
    places = [placed.position for placed in stream.controls]
    found, start, had = [], 0, 0
    for stop in stops:
        told = int(np.searchsorted(places, stop, side="right"))
        control = stream.controls[told - 1].control if told > had else None
        assert control is None or isinstance(control, sw.Punctuation)
        found.append(Piece(stream.slice(start, stop), control))
        start, had = stop, told
    return found


Script: TypeAlias = list[tuple[int, Piece]]
"""what comes, on which input"""


def in_turn(streams: Sequence[Batch], size: int = BATCH) -> Script:
    """Batch by batch, each with its cti: the others' next rows find out that they are late."""
    return [(port, piece) for _, port, piece in sorted(_turns(streams, size), key=_when)]


def in_step(streams: Sequence[Batch], size: int = BATCH, lags: Sequence[int] = ()) -> Script:
    """The rows of all inputs and then their ctis: as if rows came one by one, nobody first.

    Inputs may lag behind by so many rows.
    """
    turns = []
    for time_, port, (rows, cti) in _turns(streams, size, lags):
        turns.append((time_, port, Piece(rows, None)))
        if cti:
            turns.append((time_, len(streams) + port, Piece(rows.slice(0, 0), cti)))
    return [(port % len(streams), piece) for _, port, piece in sorted(turns, key=_when)]


def _turns(
    streams: Sequence[Batch], size: int, lags: Sequence[int] = ()
) -> Iterator[tuple[int, int, Piece]]:
    for port, stream in enumerate(streams):
        stops = [*range(size, stream.rows, size), stream.rows]
        for stop, piece in zip(stops, pieces(stream, stops), strict=True):
            yield stop + (lags[port] if lags else 0), port, piece


def _when(turn: tuple[int, int, Piece]) -> tuple[int, int]:
    return turn[:2]


@dataclass
class Merging:
    """A merge at work, without a runtime around it; a cleanse before each input, if asked for."""

    schema: pl.Schema
    inputs: int
    name: str
    policy: sw.MergePolicy | None = None
    cleanses: list[Step] = field(default_factory=list)

    def __post_init__(self) -> None:
        known = sw.StreamProperties(vs_payload_key=True)
        streams = [sw.stream(self.schema, name=f"in{i}", properties=known) for i in range(self.inputs)]
        algorithm = NAMES.get(self.name, "R1")
        self.step = step_of(sw.merge(*streams, policy=self.policy, algorithm=algorithm).node, sw.EAGER)
        self.state = self.step.open()
        if self.name == CLEANSED:
            self.cleanses = [step_of(stream.cleanse().node, sw.EAGER) for stream in streams]
        self.cleansing = [each.open() for each in self.cleanses]

    @property
    def bytes(self) -> int:
        """Of all states."""
        return encode([self.state, *self.cleansing]).size

    def push(self, port: int, piece: Piece) -> list[Batch]:
        """Rows, and then their cti; what is said."""
        if not self.cleanses:
            return self._merge(port, piece.rows, [piece.cti] if piece.cti else [])
        cleanse, state = self.cleanses[port], self.cleansing[port]
        said = cleanse.on_batch(state, 0, piece.rows)
        out = self._merge(port, said if isinstance(said, Batch) else said.rows, [])
        if piece.cti:
            answer = cleanse.on_punctuation(state, 0, piece.cti)
            promises = [each for each in answer.promises if isinstance(each, sw.Punctuation)]
            out += self._merge(port, answer.rows, promises)
        return out

    def _merge(self, port: int, rows: Batch | None, promises: list[sw.Punctuation]) -> list[Batch]:
        out = []
        if rows is not None and rows.rows:
            said = self.step.on_batch(self.state, port, rows)
            out.append(said if isinstance(said, Batch) else said.rows)
        out += [self.step.on_punctuation(self.state, port, each).rows for each in promises]
        return [each for each in out if each is not None and each.rows]


@dataclass(frozen=True)
class Measured:
    """Of one run."""

    rows_in: int
    seconds: float
    bytes: int
    inserts: int
    adjusts: int

    @property
    def rate(self) -> float:
        """Rows in, a second."""
        return self.rows_in / self.seconds


def measure(
    script: Script, name: str, *, looks: int = 0, policy: sw.MergePolicy | None = None
) -> Measured:
    """One run; compiled code is loaded before, and no garbage is looked for meanwhile."""
    gc.collect()
    gc.disable()
    inputs = 1 + max(port for port, _ in script)
    schema = script[0][1].rows.schema
    warm, some = Merging(schema, inputs, name, policy), script[0][1].rows
    for piece in (Piece(some, None), Piece(some.slice(0, 0), sw.cti(sw.INF))):
        for port in range(inputs):
            warm.push(port, piece)
    merging = Merging(schema, inputs, name, policy)
    look_at = {len(script) * (look + 1) // looks - 1 for look in range(looks)}
    seconds, most, inserts, adjusts = 0.0, 0, 0, 0
    for turn, (port, piece) in enumerate(script):
        start = time.process_time()
        said = merging.push(port, piece)
        seconds += time.process_time() - start
        for rows in said:
            fresh = int(np.count_nonzero(rows.is_insert))
            inserts, adjusts = inserts + fresh, adjusts + rows.rows - fresh
        if turn in look_at:
            most = max(most, merging.bytes)
    gc.enable()
    return Measured(sum(piece.rows.rows for _, piece in script), seconds, most, inserts, adjusts)


def compare(scripts: Mapping[Any, tuple[Script, str]], turns: int = TURNS) -> dict[Any, Measured]:
    """Runs that take turns: of each that with the median time, and the most memory that was seen."""
    seen: dict[Any, list[Measured]] = {key: [] for key in scripts}
    for turn in range(turns):
        for key, (script, name) in scripts.items():
            seen[key].append(measure(script, name, looks=0 if turn else LOOKS))
    return {
        key: replace(
            sorted(runs, key=lambda run: run.seconds)[turns // 2], bytes=max(run.bytes for run in runs)
        )
        for key, runs in seen.items()
    }
