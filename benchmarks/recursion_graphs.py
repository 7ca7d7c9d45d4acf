"""Recursion over graphs that change, beside networkx, which is asked again at every instant.

The packages of this machine, a real graph with cycles: what is wanted, and all that it depends on; and
the closure of the whole, in which a link that is taken away touches hundreds of pairs. And a hub: a
node with thousands of links to it, of which one after the other is taken back.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from statistics import median

import networkx as nx

import slackwater as sw
from benchmarks.packages import STATUS, Registry, link, needed, read, wanted
from benchmarks.report import Report, Trend
from slackwater.events import Batch
from slackwater.times import INF

INSTANTS = 200
HUB = 4_000
LINKS = 30
"""that are taken back, one by one"""


def packages(report: Report) -> list[Trend]:
    """What packages depend on, while they appear, expire and lose links; the answer is compared."""
    if not STATUS.is_file():
        report.console.print(f"packages: there is no {STATUS} here")
        return []
    edges = read()
    registry, running = Registry(edges), needed().open()
    ours: list[float] = []
    theirs: list[float] = []
    asked: list[set[str]] = []
    for now, (links, wants) in enumerate(registry.changes(INSTANTS)):
        with _timed(ours):
            running.push(link, links)
            running.push(wanted, wants)
        with _timed(theirs):
            asked.append(registry.needed(now))
    answer = running.output.as_history().rows()
    wrong = 0
    for now, expected in enumerate(asked):
        wrong += sorted(name for name, vs, ve in answer if vs <= now < ve) != sorted(expected)
    closure = _closure(edges)
    whole = nx.DiGraph(edges)
    cycles = sum(len(c) > 1 for c in nx.strongly_connected_components(whole))
    report.table(
        f"{len(whole):,} packages, {len(edges):,} links, {cycles} cycles; {INSTANTS} instants: packages "
        "appear and go, links end or never were",
        ["", "events", "ms an instant", "of networkx"],
        [
            ["what is needed, kept up to date", f"{len(answer):,}", f"{1e3 * median(ours[1:]):.1f}",
             f"{median(ours[1:]) / median(theirs[1:]):.2f}"],
            ["the same by networkx, anew", "", f"{1e3 * median(theirs[1:]):.1f}", "1"],
            *closure,
        ],
    )  # fmt: skip
    return [
        Trend(
            "packages", "(ours) at every instant what networkx says",
            f"{wrong} of {INSTANTS} instants differ", wrong == 0,
        )
    ]  # fmt: skip


def _closure(edges: list[tuple[str, str]]) -> list[list[str]]:
    """All pairs, made at once, and then link by link away and back."""
    query = sw.fixpoint(
        lambda far: link.union(
            far.join(link, on={"b": "a"}, suffix="_next").select("a", b="b_next")
        ).distinct(),
        schema={"a": str, "b": str},
    )
    running = query.open()
    graph = nx.DiGraph(edges)
    ours: list[float] = []
    theirs: list[float] = []
    with _timed(ours):
        running.push(link, [sw.insert(0, None, a=a, b=b) for a, b in edges])
    with _timed(theirs):
        nx.transitive_closure(graph)
    away: list[float] = []
    for a, b in Random(0).sample(edges, LINKS):
        with _timed(away):
            running.push(link, [sw.adjust(0, None, 0, a=a, b=b)])
            running.push(link, [sw.insert(0, None, a=a, b=b)])
    pairs = len(running.output.as_history())
    return [
        ["all pairs, at once", f"{pairs:,}", f"{1e3 * ours[0]:.1f}", f"{ours[0] / theirs[0]:.2f}"],
        ["... a link away and back", "", f"{1e3 * median(away):.1f}", f"{median(away) / theirs[0]:.2f}"],
        ["... by networkx, anew", "", f"{1e3 * theirs[0]:.1f}", "1"],
    ]


def hub(report: Report) -> list[Trend]:
    """Links to a node that has very many of them are taken back, one by one."""
    table, costs = [], {}
    for size in (HUB // 16, HUB // 4, HUB):
        random = Random(0)
        alike = _hub([(0, INF)] * size)
        apart = _hub([(random.randrange(1_000), random.randrange(2_000, 3_000)) for _ in range(size)])
        costs[size] = median(alike)
        table.append([f"{size:,} links", f"{1e3 * median(alike):.1f}", f"{1e3 * median(apart):.1f}"])
    report.table(
        f"A node that so many others have links to; a link is taken back, medians of {LINKS}",
        ["", "ms, all with one lifetime", "ms, all with other lifetimes"],
        table,
    )
    small, large = min(costs), max(costs)
    return [
        Trend(
            "hub", "(ours) a link costs no more than looking at the node's others",
            f"{large // small} times the links: {costs[large] / costs[small]:.1f} times the time",
            costs[large] / costs[small] <= large // small,
        )
    ]  # fmt: skip


def _hub(lives: list[tuple[int, int]]) -> list[float]:
    running, size = needed().open(), len(lives)
    rows = [sw.insert(vs, ve, a=f"n{i}", b="hub") for i, (vs, ve) in enumerate(lives)]
    running.push(link, Batch.of(rows))
    running.push(wanted, Batch.of([sw.insert(0, None, p=f"n{i}") for i in range(size)]))
    spent: list[float] = []
    for i, (vs, ve) in enumerate(lives[:LINKS]):
        with _timed(spent):
            running.push(link, [sw.adjust(vs, ve, vs, a=f"n{i}", b="hub")])
    return spent


@contextmanager
def _timed(spent: list[float]) -> Iterator[None]:
    begun = time.process_time()
    yield
    spent.append(time.process_time() - begun)
