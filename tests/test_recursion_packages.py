"""Recursion on a real graph: the packages that are installed on this machine, against networkx.

Of a Debian there is such a graph, with cycles; elsewhere these tests are skipped.
"""

from __future__ import annotations

from random import Random

import networkx as nx
import pytest
from benchmarks.packages import STATUS, Registry, dependencies, link, needed, read, wanted

import slackwater as sw
from slackwater import insert

is_debian = pytest.mark.skipif(not STATUS.is_file(), reason=f"no packages of dpkg: there is no {STATUS}")


def test_what_a_status_says() -> None:
    status = "\n\n".join([
        "Package: a\nStatus: install ok installed\nDepends: b (>= 2) | c, d:any",
        "Package: b\nStatus: install ok installed\nDescription: text\n Depends: c",
        "Package: d1\nStatus: hold ok installed\nProvides: x, d (= 3)\nPre-Depends: a",
        "Package: c\nStatus: deinstall ok config-files\nDepends: a",
    ])  # fmt: skip
    assert dependencies(status) == [("a", "b"), ("a", "d1"), ("d1", "a")]


def _some(edges: list[tuple[str, str]], size: int, seed: int) -> list[tuple[str, str]]:
    """Those among some packages and what they need, and all cycles."""
    graph = nx.DiGraph(edges)
    start = set(Random(seed).sample(sorted(graph), size))
    start |= {name for some in nx.strongly_connected_components(graph) if len(some) > 1 for name in some}
    kept = start.union(*(nx.descendants(graph, name) for name in start))
    return [(a, b) for a, b in edges if a in kept]


@is_debian
@pytest.mark.parametrize("seed", range(2))
def test_what_is_needed_is_what_networkx_says_at_every_instant(seed: int) -> None:
    instants = 25
    registry = Registry(_some(read(), 60, seed), seed)
    running = needed().open()
    for now, (links, wants) in enumerate(registry.changes(instants)):
        running.push(link, links)
        running.push(wanted, wants)
        assert running.output.settled_until == now + 1
    answer = running.output.as_history().rows()
    for now in range(instants):
        found = [name for name, vs, ve in answer if vs <= now < ve]
        assert len(found) == len({*found}), "a set"
        assert {*found} == registry.needed(now), f"at {now}"


@is_debian
def test_cycles_of_packages_do_not_keep_themselves() -> None:
    """What was wanted is not any more: nothing is needed, though some packages need each other."""
    edges = read()
    cycles = [c for c in nx.strongly_connected_components(nx.DiGraph(edges)) if len(c) > 1]
    if not cycles:
        pytest.skip("no packages depend on each other here")
    running = needed().open()
    running.push(link, [insert(0, None, a=a, b=b) for a, b in edges])
    running.push(wanted, [insert(0, None, p=name) for cycle in cycles for name in sorted(cycle)])
    assert len(running.output.as_history()) >= sum(map(len, cycles))
    running.push(wanted, [sw.adjust(0, None, 0, p=name) for cycle in cycles for name in sorted(cycle)])
    assert not len(running.output.as_history())
