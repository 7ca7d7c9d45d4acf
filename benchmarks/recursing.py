"""The W query over tosses of a coin, and a clock: what the experiments on recursion stand on.

Paper 3, sections 4 and 5: U D^i U^j D^k U^l with i + k = j + l, in a window of 30 events, as an
automaton with one register. Tosses come one a chronon, punctuations every hundred, unless somebody tells
otherwise: events may come early, groups of them far apart, or not at all.

Behaviour is looked at by a clock that counts turns of operators: it goes the same everywhere. Input
comes at its time, whether what came before has gone round or not. A unit of system time is what an event
takes to come, so that lag and silence are in events (or chronons, which is the same).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

import slackwater as sw
from slackwater import col
from slackwater.events import Batch
from slackwater.plan.nodes import Join, Source
from slackwater.punctuations import Punctuation
from slackwater.runtime.dataflow import Dataflow
from slackwater.runtime.running import Running
from slackwater.speculation import Speculation

GAP = 100
"""chronons, and events, between two punctuations"""
BATCH = 20
WINDOW = 30
TURNS_AN_EVENT = 10
"""operators that run while an event comes: some twice as many as there is work for"""

Ints: TypeAlias = npt.NDArray[np.int64]

tosses = sw.stream({"at": int, "symbol": str}, name="tosses")
steps = sw.stream({"before": str, "after": str, "symbol": str, "step": int, "above": int}, name="steps")

# m counts downs minus ups behind the first U
W = (
    ("S", "a", "U", 0, -99), ("a", "b", "D", 1, -99), ("b", "b", "D", 1, -99), ("b", "c", "U", -1, -99),
    ("c", "c", "U", -1, -99), ("c", "d", "D", 1, -99), ("d", "d", "D", 1, -99), ("d", "e", "U", -1, 0),
    ("e", "e", "U", -1, 0),
)  # fmt: skip


def ways(speculation: Speculation | None = None, *, native: bool = False) -> sw.Query:
    """All ways through the automaton, whole ones and others: what comes out where the loop is closed.

    `native`: by the operator that knows the transitions, without a loop.
    """
    return sw.automaton(
        tosses,
        transitions() if native else steps,
        start="S",
        registers={"m": (0, col("m") + col("step"))},
        where=col("m") > col("above"),
        speculation=speculation,
    )


def whole(ways: sw.Query) -> sw.Query:
    """Those that are the pattern."""
    return ways.where((col("state") == "e") & (col("m") == 0))


def transitions() -> pl.DataFrame:
    """The automaton, as a table."""
    return pl.DataFrame(W, schema=steps.schema, orient="row")


def rules() -> Batch:
    """The automaton as a stream, in which it does not change."""
    never = np.full(len(W), -WINDOW)
    rows = Batch.inserts(never, np.full(len(W), sw.INF), transitions())
    return rows.followed_by([sw.cti(sw.INF)])


def tossed(at: Ints, seed: int = 0) -> Batch:
    """What was tossed at these times."""
    sides = np.random.default_rng(seed).integers(0, 2, int(at.max(initial=0)) + 1)[at]
    symbols = pl.Series("symbol", ["D", "U"])[sides.astype(np.uint32)]
    return Batch.inserts(at, at + WINDOW, pl.DataFrame([pl.Series("at", at), symbols]))


@dataclass(frozen=True)
class Tosses:
    """A stream of tosses, in the order in which they come."""

    events: int
    early: int = 0
    """every hundredth event comes so many punctuations before its time"""
    pause: int = 0
    """system time in which nothing comes, after each hundred events"""
    lulls: float = 0.0
    """how likely it is that nothing happens between two punctuations"""
    batch: int = BATCH
    seed: int = 0

    def arrivals(self) -> Iterator[tuple[int, Batch]]:
        """When each batch is there, and what it is; no batch goes over a punctuation."""
        at = np.arange(self.events)
        # the others come when they would have come, for that is what punctuations speak of
        place = np.where(at % GAP == GAP - 1, np.maximum(at - self.early * GAP, 0), at)
        order = np.argsort(place, kind="stable")
        is_lull = np.random.default_rng([self.seed, 1]).random(self.events // GAP + 1) < self.lulls
        for start in range(0, self.events, self.batch):
            stop = min(start + self.batch, self.events)
            some = order[slice(*np.searchsorted(place[order], [start, stop]))]
            rows = tossed(some[~is_lull[some // GAP]], self.seed)
            told = [sw.cti(stop)] if stop % GAP == 0 else []
            if len(rows) or told:
                yield stop + start // GAP * self.pause, rows.followed_by(told)


@dataclass
class Seen:
    """What came out where the loop is closed, and when; in units of system time."""

    outputs: list[tuple[float, int]] = field(default_factory=list)
    """when, and the smallest sync"""
    promises: list[tuple[float, int]] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    """how many events the joins on the loop remember, whenever something came"""
    speculated: int = 0
    ended: float = 0.0

    @property
    def lag(self) -> float:
        """How far the promises are behind the smallest sync that is still to come, over time."""
        times = np.array([when for when, _ in self.outputs])
        to_come = np.minimum.accumulate(np.array([sync for _, sync in self.outputs])[::-1])[::-1]
        told = np.array([when for when, _ in self.promises]), np.array([t for _, t in self.promises])
        # from the first promise until nothing more comes
        moments = np.unique(np.concatenate([times, told[0]]))
        moments = moments[(moments >= told[0][0]) & (moments <= times[-1])]
        total = 0.0
        for now, after in pairwise(moments.tolist()):
            real = to_come[np.searchsorted(times, now, side="right")]
            explicit = told[1][np.searchsorted(told[0], now, side="right") - 1]
            assert explicit <= real, "what was promised holds"
            total += (after - now) * int(real - explicit)
        return total / float(moments[-1] - moments[0])

    @property
    def silence(self) -> float:
        """The longest time without a promise, until the input has ended."""
        times = [when for when, _ in self.promises if when <= self.ended]
        return max((b - a for a, b in pairwise([0.0, *times, self.ended])), default=self.ended)

    @property
    def size(self) -> float:
        """How many events the joins on the loop remember on the average."""
        return float(np.mean(self.kept))


def observed(speculation: Speculation, stream: Tosses) -> Seen:
    """The W query while such tosses come."""
    flow = Dataflow.of(ways(speculation).node)
    joins = [each for each in flow.operators if each.passage and isinstance(each.node, Join)]
    [closing] = [each for each in flow.operators if each.back]
    given(flow, steps, rules())
    flow.run_until_quiet()
    flow.take_output()
    seen, turn, begun = Seen(), 0, closing.state.known.speculated
    for when, batch in stream.arrivals():
        due = when * TURNS_AN_EVENT
        turn = _until(flow, seen, turn, due, probes=speculation.always)
        given(flow, tosses, batch)
        seen.kept.append(sum(_kept(each) for each in joins))
        turn = max(turn, due)
    seen.ended = turn / TURNS_AN_EVENT
    seen.speculated = closing.state.known.speculated - begun
    while flow.step():
        turn += 1
        _note(flow, seen, turn)
    return seen


def given(flow: Dataflow, stream: sw.Query, batch: Batch) -> None:
    """A batch has come; it is not waited for what follows from it."""
    assert isinstance(stream.node, Source)
    flow.push(stream.node, batch)
    flow.wake()


def _until(flow: Dataflow, seen: Seen, turn: int, due: int, *, probes: bool) -> int:
    """Go on until something is due. Who always guesses does so also if nothing is to be done."""
    while turn < due:
        if not flow.step():
            if not probes:
                return due
            flow.wake()
        turn += 1
        _note(flow, seen, turn)
    return turn


def _note(flow: Dataflow, seen: Seen, turn: int) -> None:
    for batch in flow.take_output():
        now = turn / TURNS_AN_EVENT
        if batch.rows:
            seen.outputs.append((now, int(batch.sync.min())))
        seen.promises += [(now, c.before) for _, c in batch.controls if isinstance(c, Punctuation)]


def _kept(join: Running) -> int:
    return join.describe().state_rows
