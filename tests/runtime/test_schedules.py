"""Schedules: who is next, and which input is read."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np
import pytest

import slackwater as sw
from slackwater.events import Batch
from slackwater.runtime.dataflow import Dataflow
from slackwater.runtime.queues import Queue
from slackwater.runtime.schedules import BottomUp, Fair, RoundRobin, Schedule, Shuffled


@dataclass
class Porter:
    """A worker that only counts."""

    name: str
    waiting: int
    spent: float = 0.0
    served: list[str] = field(default_factory=list)

    @property
    def ready(self) -> bool:
        return self.waiting > 0


def _order(schedule: Schedule, *porters: Porter) -> str:
    turns, order = schedule.begin(), ""
    while (porter := turns.next(porters)) is not None:
        porter.waiting -= 1
        porter.spent += 1.0
        order += porter.name
    return order


def test_bottom_up_serves_who_is_nearest_to_the_sources() -> None:
    assert _order(BottomUp(), Porter("a", 2), Porter("b", 3)) == "aabbb"


def test_fair_serves_who_has_had_least() -> None:
    assert _order(Fair(), Porter("a", 2, spent=2.5), Porter("b", 4)) == "bbbaba"


def test_round_robin_serves_each_for_as_long_as_its_queues_are() -> None:
    assert _order(RoundRobin(), Porter("a", 2), Porter("b", 3), Porter("c", 0)) == "aabbb"


def test_who_gets_more_while_it_is_served_waits_for_its_next_turn() -> None:
    turns, a, b = RoundRobin().begin(), Porter("a", 1), Porter("b", 1)
    assert turns.next([a, b]) is a
    a.waiting = 5
    assert turns.next([a, b]) is b


def test_the_throws_of_a_die_are_the_same_for_the_same_seed() -> None:
    def thrown(seed: int) -> str:
        return _order(Shuffled(seed), Porter("a", 10), Porter("b", 10))

    assert thrown(1) == thrown(1)
    assert len({thrown(seed) for seed in range(5)}) > 1


def test_settings_may_be_any_whole_number() -> None:
    assert _order(RoundRobin(np.int64(2)), Porter("a", 3), Porter("b", 1)) == "aaba"  # type: ignore[arg-type]
    for seed in np.arange(3):
        thrown = _order(Shuffled(seed), Porter("a", 9), Porter("b", 9))  # type: ignore[arg-type]
        assert thrown == _order(Shuffled(int(seed)), Porter("a", 9), Porter("b", 9))


def _queue(batches: int) -> Queue:
    schema = sw.stream({"k": int}).schema
    return Queue(0, schema, deque([Batch.empty(schema)] * batches))


def test_who_goes_round_reads_its_longest_queue() -> None:
    short, long = _queue(1), _queue(2)
    assert RoundRobin().begin().pick([short, long]) is long
    assert BottomUp().begin().pick([short, long]) is short
    picked = {id(Shuffled(seed).begin().pick([short, long])) for seed in range(10)}
    assert picked == {id(short), id(long)}


@pytest.mark.parametrize("schedule", [BottomUp(), Fair(), RoundRobin(), Shuffled(3)], ids=repr)
def test_the_answer_is_the_same_whoever_was_next(schedule: Schedule) -> None:
    s = sw.stream({"k": int, "v": int})
    query = s.join(s.group_by("k").aggregate(n=sw.count()), on="k", how="full").distinct()
    dataflow = Dataflow.of(query.node, schedule=schedule)
    elements = [sw.insert(t, t + 5, k=t % 3, v=t) for t in range(12)]
    for part in Batch.of(elements, s.schema).split(2):
        dataflow.push(s.node, part)
    dataflow.run_until_quiet()
    told = [element for batch in dataflow.take_output() for element in batch]
    assert sw.History.of(told) == query.meaning({s: elements})
