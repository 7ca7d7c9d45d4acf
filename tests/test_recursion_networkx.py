"""Recursion against an independent engine: networkx, asked again at every instant.

Links appear, expire, get other ends and are taken back; graphs have cycles, so that what is reached may
seem to support itself. After every batch the answer is compared at all instants at which it can change.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import TypeAlias

import networkx as nx
import polars as pl
import pytest

import slackwater as sw
from slackwater import INF, History, Query, adjust, col, cti, insert
from slackwater.events import Event
from slackwater.oracle import meaning
from slackwater.plan.nodes import Fixpoint, Node, walk
from slackwater.plan.rewrites import rewritten

links = sw.stream({"a": int, "b": int, "w": int}, name="links")
sources = sw.stream({"node": int}, name="sources")


def _reached(reach: Query) -> Query:
    return sources.union(reach.join(links, on={"node": "a"}).select(node="b")).distinct()


def _distances(far: Query) -> Query:
    further = far.join(links, on={"node": "a"}).select(node="b", cost=col("cost") + col("w"))
    every = sources.select("node", cost=pl.lit(0, dtype=pl.Int64)).union(further)
    return every.group_by("node").aggregate(cost=sw.min("cost")).distinct()


def _closure(reach: Query) -> Query:
    """Not linear: two ways that are known make a longer one."""
    both = reach.join(reach.select(m="a", c="b"), on={"b": "m"}).select("a", b="c")
    return links.select("a", "b").union(both).distinct()


Graph: TypeAlias = nx.MultiDiGraph


def _nx_reached(graph: Graph, starts: set[int]) -> set[tuple[int, ...]]:
    return {(n,) for s in starts for n in ({s} | nx.descendants(graph, s) if s in graph else {s})}


def _nx_distances(graph: Graph, starts: set[int]) -> set[tuple[int, ...]]:
    found = dict.fromkeys(starts, 0)
    known = {s for s in starts if s in graph}
    if known:
        found |= nx.multi_source_dijkstra_path_length(graph, known, weight="w")
    return {(node, cost) for node, cost in found.items()}


def _nx_closure(graph: Graph, starts: set[int]) -> set[tuple[int, ...]]:
    return set(nx.transitive_closure(nx.DiGraph(graph)).edges)


Asked = Callable[[Graph, set[int]], set[tuple[int, ...]]]
QUERIES: dict[str, tuple[Query, Asked]] = {
    "reached": (sw.fixpoint(_reached, schema={"node": int}), _nx_reached),
    "distances": (sw.fixpoint(_distances, schema={"node": int, "cost": int}), _nx_distances),
    "closure": (sw.fixpoint(_closure, schema={"a": int, "b": int}), _nx_closure),
}


def _edges(kind: str, rng: random.Random) -> Iterator[tuple[int, int]]:
    if kind == "random":
        graph = nx.gnp_random_graph(9, 0.2, seed=rng.randrange(10**6), directed=True)
    elif kind == "scale-free":
        graph = nx.scale_free_graph(14, seed=rng.randrange(10**6))
    else:
        graph = nx.cycle_graph(7, create_using=nx.DiGraph)
    edges = [(a, b) for a, b, *_ in graph.edges]
    rng.shuffle(edges)
    yield from edges


class Told:
    """What both engines are told: a history that changes, from a time on that is promised."""

    def __init__(self, query: Query, asked: Asked, rng: random.Random) -> None:
        self.running = query.open()
        self.asked, self.rng = asked, rng
        self.reads_sources = asked is not _nx_closure
        self.alive: list[tuple[Query, Event]] = []
        self.past: list[tuple[Query, Event]] = []
        self.promised = 0

    def say(self, stream: Query, payload: dict[str, int]) -> None:
        vs = self.promised + self.rng.randint(0, 6)
        ve = self.rng.choice([vs + self.rng.randint(1, 9), INF])
        self.alive.append((stream, Event(vs, ve, payload)))
        self.running.push(stream, [insert(vs, ve, **payload)])

    def change(self) -> None:
        """Some event ends elsewhere, or never was."""
        if not self.alive:
            return
        at = self.rng.randrange(len(self.alive))
        stream, event = self.alive[at]
        ends = [event.vs, event.vs + self.rng.randint(1, 9), INF]
        end = self.rng.choice([e for e in ends if e >= self.promised and e != event.ve] or [event.ve])
        if end == event.ve:
            return
        self.running.push(stream, [adjust(event.vs, event.ve, end, **event.payload)])
        self.alive[at : at + 1] = [(stream, event._replace(ve=end))] if end > event.vs else []

    def promise(self) -> None:
        self.promised += self.rng.randint(1, 3)
        for stream in (links, sources) if self.reads_sources else (links,):
            self.running.push(stream, [cti(self.promised)])
        self.past += [each for each in self.alive if each[1].ve < self.promised]
        self.alive = [each for each in self.alive if each[1].ve >= self.promised]
        assert self.running.output.settled_until == self.promised

    def compare(self) -> None:
        answer = self.running.output.as_history()
        told = [*self.alive, *self.past]
        times = {t for _, e in told for t in (e.vs, e.ve)} | {e.vs for e in answer.events()}
        for time in times - {INF}:
            graph, starts = nx.MultiDiGraph(), set()
            for stream, event in told:
                if event.vs <= time < event.ve:
                    if stream is sources:
                        starts.add(event.payload["node"])
                    else:
                        graph.add_edge(event.payload["a"], event.payload["b"], w=event.payload["w"])
            assert _alive(answer, time) == sorted(self.asked(graph, starts)), f"at {time}"


def _alive(answer: History, time: int) -> list[tuple[int, ...]]:
    """As a list: a set has every row once."""
    return sorted(tuple(e.payload.values()) for e in answer.events() if e.vs <= time < e.ve)


@pytest.mark.parametrize("kind", ["random", "scale-free", "cycle"])
@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("seed", range(3))
def test_at_every_instant_the_answer_is_that_of_networkx(name: str, kind: str, seed: int) -> None:
    rng = random.Random(f"{name} {kind} {seed}")
    told = Told(*QUERIES[name], rng)
    for a, b in _edges(kind, rng):
        told.say(links, {"a": a, "b": b, "w": rng.randint(0, 3)})
        if told.reads_sources and rng.random() < 0.15:
            told.say(sources, {"node": rng.randrange(5)})
        if rng.random() < 0.4:
            told.change()
        if rng.random() < 0.1:
            told.promise()
        if rng.random() < 0.3:
            told.compare()
    for _ in range(15):
        told.change()
    told.compare()


@pytest.mark.parametrize("name", QUERIES)
def test_a_loop_that_carries_ranks_means_the_same(name: str) -> None:
    query, _ = QUERIES[name]
    rng = random.Random(name)
    rows = [
        insert(t, t + rng.randint(1, 9), a=a, b=b, w=t % 3)
        for t, (a, b) in enumerate(_edges("cycle", rng))
    ]
    given: dict[Node, History] = {
        links.node: History.of([*rows, *(insert(0, 5, a=b, b=a, w=1) for a, b in _edges("cycle", rng))]),
        sources.node: History.of([insert(0, 9, node=1), insert(5, 12, node=3)]),
    }
    plan = rewritten(query.node)
    assert any(isinstance(node, Fixpoint) and node.best is not None for node in walk(plan))
    assert meaning(plan, given) == meaning(query.node, given)


def test_a_cycle_neither_keeps_itself_alive_nor_counts_to_infinity() -> None:
    """Erratum 25: the way in is taken back, and the cycle stays behind, reached by nobody."""
    running = QUERIES["distances"][0].open()
    running.push(sources, [insert(0, None, node=0)])
    ring = [(1, 2), (2, 3), (3, 1)]
    running.push(links, [insert(0, None, a=a, b=b, w=1) for a, b in [(0, 1), *ring]])
    assert running.output.as_history().rows() == [
        (0, 0, 0, INF), (1, 1, 0, INF), (2, 2, 0, INF), (3, 3, 0, INF)
    ]  # fmt: skip
    running.push(links, [adjust(0, None, 5, a=0, b=1, w=1)])
    assert running.output.as_history().rows() == [
        (1, 1, 0, 5), (2, 2, 0, 5), (3, 3, 0, 5), (0, 0, 0, INF)
    ]  # fmt: skip


def test_a_way_in_that_is_replaced_within_a_batch_does_not_leave_the_cycle_alone() -> None:
    """One batch takes the only way in back, and adds a link by which the cycle would support itself."""
    running = QUERIES["reached"][0].open()
    running.push(sources, [insert(0, None, node=0)])
    running.push(links, [insert(0, None, a=0, b=1, w=1), insert(0, None, a=1, b=2, w=1)])
    running.push(links, [insert(0, None, a=2, b=1, w=1), adjust(0, None, 0, a=0, b=1, w=1)])
    assert running.output.as_history().rows() == [(0, 0, INF)]


def test_negative_costs_end_where_no_cycle_is_negative() -> None:
    running = QUERIES["distances"][0].open()
    running.push(sources, [insert(0, None, node=0)])
    given = [(0, 1, 5), (1, 2, -4), (2, 1, 4), (0, 2, 3)]
    running.push(links, [insert(0, None, a=a, b=b, w=w) for a, b, w in given])
    assert running.output.as_history().rows() == [(0, 0, 0, INF), (1, 5, 0, INF), (2, 1, 0, INF)]
    running.push(links, [adjust(0, None, 7, a=0, b=1, w=5)])
    assert running.output.as_history().rows() == [
        (1, 5, 0, 7), (2, 1, 0, 7), (0, 0, 0, INF), (1, 7, 7, INF), (2, 3, 7, INF)
    ]  # fmt: skip


def test_a_negative_cycle_is_stopped() -> None:
    query = sw.fixpoint(_distances, schema={"node": int, "cost": int}, rounds=30)
    given = [insert(0, None, a=0, b=1, w=1), insert(0, None, a=1, b=0, w=-2)]
    with pytest.raises(sw.OperatorError, match="no fixed point after 30 rounds"):
        query.run({sources: [insert(0, None, node=0)], links: given})


def test_a_value_that_grows_round_a_cycle_and_then_stays_is_grounded_all_the_same() -> None:
    """The largest weight on any way: what is better may have been derived from what it replaces."""

    def body(far: Query) -> Query:
        heavier = far.join(links, on={"node": "a"}).select(node="b", w=pl.max_horizontal("w", "w_right"))
        every = sources.select("node", w=pl.lit(0, dtype=pl.Int64)).union(heavier)
        return every.group_by("node").aggregate(w=sw.max("w")).distinct()

    running = sw.fixpoint(body, schema={"node": int, "w": int}).open()
    ring = [(0, 1, 3), (1, 2, 9), (2, 0, 1)]
    running.push(links, [insert(0, None, a=a, b=b, w=w) for a, b, w in ring])
    running.push(sources, [insert(0, None, node=0)])
    assert running.output.as_history().rows() == [(0, 9, 0, INF), (1, 9, 0, INF), (2, 9, 0, INF)]
    running.push(links, [adjust(0, None, 4, a=1, b=2, w=9)])
    assert running.output.as_history().rows() == [
        (0, 9, 0, 4), (1, 9, 0, 4), (2, 9, 0, 4), (0, 0, 4, INF), (1, 3, 4, INF)
    ]  # fmt: skip
    running.push(sources, [adjust(0, None, 0, node=0)])
    assert not len(running.output.as_history())


def test_windows_are_refused_on_the_loop_of_a_set() -> None:
    query = sw.fixpoint(lambda r: _reached(r.window(sw.sliding(3))), schema={"node": int})
    with pytest.raises(sw.PlanError, match=r"sliding.* cannot be on a loop of a set"):
        query.run({links: [], sources: []})


def test_what_is_not_a_least_value_is_refused_on_the_loop() -> None:
    def body(far: Query) -> Query:
        return _distances(far).group_by("node").aggregate(cost=sw.sum("cost")).distinct()

    query = sw.fixpoint(body, schema={"node": int, "cost": int})
    with pytest.raises(sw.PlanError, match=r"Aggregate cost = Sum.* cannot be on the loop"):
        query.run({links: [], sources: []})
    middle = sw.fixpoint(lambda r: _reached(r).select("node"), schema={"node": int})
    with pytest.raises(sw.PlanError, match="Distinct cannot be on the loop"):
        middle.run({links: [], sources: []})
