"""Recursive queries: the reachability example of paper 3 section 2, derivations as a bag, cycles.

A path carries the nodes that it visited as a bit vector, the bit of n1 in front, as in the paper:
1010 has visited n1 and n3.
"""

from __future__ import annotations

import polars as pl
import pytest

import slackwater as sw
from slackwater import INF, Query, adjust, col, insert, oracle
from slackwater.errors import OperatorError

sources = sw.stream({"node": str}, name="sources")
links = sw.stream({"a": str, "b": str}, name="links")

BITS = {"n1": 0b1000, "n2": 0b0100, "n3": 0b0010, "n4": 0b0001}


def bit(column: str) -> pl.Expr:
    return col(column).replace_strict(BITS)


def longer_paths(path: Query) -> Query:
    """Figure 1: from sources and from paths found so far one link further, unless visited before."""
    seeds = sources.select(start="node", end="node", visited=bit("node"))
    not_yet = (col("visited") & bit("b")) == 0
    step = seeds.union(path).join(links, on={"end": "a"}, where=not_yet)
    return step.select("start", end="b", visited=col("visited") | bit("b"))


paths = sw.fixpoint(longer_paths, schema={"start": str, "end": str, "visited": int})

SOURCES = [insert(1, None, node="n2"), insert(1, None, node="n3")]
LINKS = [
    insert(2, None, a="n3", b="n1"),
    insert(3, None, a="n1", b="n2"),
    insert(3, None, a="n2", b="n3"),
    insert(4, None, a="n3", b="n4"),
]


def test_reachability_of_paper_3_section_2():
    assert paths.meaning({sources: SOURCES, links: LINKS}).rows() == [
        ("n3", "n1", 0b1010, 2, INF),
        ("n2", "n1", 0b1110, 3, INF),
        ("n2", "n3", 0b0110, 3, INF),
        ("n3", "n2", 0b1110, 3, INF),
        ("n2", "n4", 0b0111, 4, INF),
        ("n3", "n4", 0b0011, 4, INF),
    ]


def test_a_path_lives_while_all_that_it_is_made_of_do():
    """The paper's source [1, 6) with links [2, 8) and [3, 10)."""
    answer = paths.meaning(
        {
            sources: [insert(1, 6, node="n3")],
            links: [insert(2, 8, a="n3", b="n1"), insert(3, 10, a="n1", b="n2")],
        }
    )
    assert answer.rows() == [("n3", "n1", 0b1010, 2, 6), ("n3", "n2", 0b1110, 3, 6)]


def test_a_retracted_link_takes_its_paths_with_it():
    """The paper's link (n3, n1), retracted at 5."""
    answer = paths.meaning({sources: SOURCES, links: [*LINKS, adjust(2, None, 5, a="n3", b="n1")]})
    assert answer.rows() == [
        ("n3", "n1", 0b1010, 2, 5),
        ("n2", "n1", 0b1110, 3, 5),
        ("n3", "n2", 0b1110, 3, 5),
        ("n2", "n3", 0b0110, 3, INF),
        ("n2", "n4", 0b0111, 4, INF),
        ("n3", "n4", 0b0011, 4, INF),
    ]


# Transitive closure, as a bag and as a set


def one_further(reach: Query) -> Query:
    return links.union(reach.join(links, on={"b": "a"}, suffix="_next").select("a", b="b_next"))


closure_bag = sw.fixpoint(one_further, schema={"a": str, "b": str})
closure_set = sw.fixpoint(lambda reach: one_further(reach).distinct(), schema={"a": str, "b": str})

DIAMOND = [
    insert(0, 10, a="a", b="b"),
    insert(0, 7, a="b", b="d"),
    insert(2, 10, a="a", b="c"),
    insert(2, 10, a="c", b="d"),
]


def test_two_derivations_are_two_rows():
    of_a_and_d = closure_bag.where((col("a") == "a") & (col("b") == "d"))
    assert of_a_and_d.meaning({links: DIAMOND}).rows() == [("a", "d", 0, 7), ("a", "d", 2, 10)]


def test_as_a_set_they_are_one():
    of_a_and_d = closure_set.where((col("a") == "a") & (col("b") == "d"))
    assert of_a_and_d.meaning({links: DIAMOND}).rows() == [("a", "d", 0, 10)]


CYCLE = [insert(0, 9, a="x", b="y"), insert(3, 6, a="y", b="x")]


def test_a_set_converges_on_a_cycle():
    assert closure_set.meaning({links: CYCLE}).rows() == [
        ("x", "y", 0, 9),
        ("x", "x", 3, 6),
        ("y", "x", 3, 6),
        ("y", "y", 3, 6),
    ]


def test_a_set_goes_on_while_only_lifetimes_grow():
    """The second round has as many rows as the first: (a, b) has become longer, over c."""
    given = [insert(0, 5, a="a", b="b"), insert(5, 9, a="a", b="c"), insert(5, 9, a="c", b="b")]
    assert closure_set.meaning({links: given}).rows() == [
        ("a", "b", 0, 9),
        ("a", "c", 5, 9),
        ("c", "b", 5, 9),
    ]


def test_a_cycle_does_not_keep_itself_alive():
    """Erratum 25: what is reachable from a source only, is gone when the source is."""

    def body(reach: Query) -> Query:
        return sources.union(reach.join(links, on={"node": "a"}).select(node="b")).distinct()

    reachable = sw.fixpoint(body, schema={"node": str})
    given = [insert(0, None, a="x", b="y"), insert(0, None, a="y", b="x")]
    answer = reachable.meaning({links: given, sources: [insert(2, 5, node="x")]})
    assert answer.rows() == [("x", 2, 5), ("y", 2, 5)]


def test_recursion_without_end_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(oracle, "FIXPOINT_ROUNDS", 20)
    with pytest.raises(OperatorError, match="no fixed point after 20 rounds"):
        closure_bag.meaning({links: CYCLE})


def test_a_fixpoint_within_a_fixpoint():
    """Nodes from which a source can be reached over links that are themselves closed."""

    def body(reach: Query) -> Query:
        back = reach.join(closure_set, on={"node": "b"}).select(node="a")
        return sources.union(back).distinct()

    answer = sw.fixpoint(body, schema={"node": str}).meaning(
        {links: DIAMOND, sources: [insert(0, 10, node="d")]}
    )
    assert answer.rows() == [("b", 0, 7), ("a", 0, 10), ("d", 0, 10), ("c", 2, 10)]


def test_an_empty_graph():
    assert len(closure_bag.meaning({links: []})) == 0
