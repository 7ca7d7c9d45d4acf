"""Datalog: the programs of paper 3, what else rules can say, and what is refused, by rule."""

from __future__ import annotations

import pytest

import slackwater as sw
from slackwater import INF, PlanError, Query, adjust, cti, insert

link = sw.stream({"a": str, "b": str}, name="link")
source = sw.stream({"node": str}, name="source")
road = sw.stream({"a": str, "b": str, "length": int}, name="road")
GIVEN = {"link": link, "source": source, "road": road}

LINKS = [
    insert(2, None, a="n3", b="n1"),
    insert(3, None, a="n1", b="n2"),
    insert(3, None, a="n2", b="n3"),
    insert(4, None, a="n3", b="n4"),
]
SOURCES = [insert(1, None, node="n2"), insert(1, None, node="n3")]

# Paper 3, introduction, with erratum 22
PATHS = """
    reachable(X, [X]) :- source(X).
    reachable(X, [X|P]) :- link(Y, X), reachable(Y, P), notIn(X, P).
"""


def test_reachability_of_the_introduction() -> None:
    query = sw.datalog(PATHS, GIVEN, "reachable")
    out = query.run({link: [*LINKS, cti(9)], source: [*SOURCES, cti(9)]})
    assert out.settled_until == 9
    assert sorted(out.as_history().rows()) == [
        ("n1", ["n1", "n3"], 2, INF),
        ("n1", ["n1", "n3", "n2"], 3, INF),
        ("n2", ["n2"], 1, INF),
        ("n2", ["n2", "n1", "n3"], 3, INF),
        ("n3", ["n3"], 1, INF),
        ("n3", ["n3", "n2"], 3, INF),
        ("n4", ["n4", "n3"], 4, INF),
        ("n4", ["n4", "n3", "n2"], 4, INF),
    ]


def test_a_retracted_link_takes_back_what_was_derived_from_it() -> None:
    running = sw.datalog(PATHS, GIVEN, "reachable").open()
    running.push(source, SOURCES)
    running.push(link, LINKS)
    running.push(link, [adjust(2, None, 5, a="n3", b="n1")])
    gone = [row for row in running.output.as_history().rows() if row[3] == 5]
    assert sorted(gone) == [
        ("n1", ["n1", "n3"], 2, 5),
        ("n1", ["n1", "n3", "n2"], 3, 5),
        ("n2", ["n2", "n1", "n3"], 3, 5),
    ]


symbol = sw.stream({"at": int, "symbol": str}, name="symbol")
transition = sw.stream({"from": str, "to": str, "symbol": str}, name="transition")

# Paper 3, section 4, with erratum 22
NFA = """
    Reach(B, B - 1, s) :- Input(B, A).
    Reach(B, T, Q) :- Reach(B, T - 1, R), Input(T, A), Transition(R, Q, A).
"""
AB_STAR_A = [("s", "q", "A"), ("q", "q", "B"), ("q", "f", "A")]


def test_automaton_of_section_4() -> None:
    """AB*A over ABBA: A, AB, ABB, ABBA and the second A, with four seeds of length 0."""
    query = sw.datalog(NFA, {"Input": symbol, "Transition": transition}, "Reach")
    moves = [insert(0, None, **{"from": a, "to": b, "symbol": c}) for a, b, c in AB_STAR_A]
    symbols = [insert(i, None, at=i, symbol=c) for i, c in enumerate("ABBA", start=1)]
    out = query.run({symbol: [*symbols, cti(9)], transition: [*moves, cti(9)]}, batch=1)
    assert out.settled_until == 9
    found = {row[:3] for row in out.as_history().rows()}
    seeds = {(1, 0, "s"), (2, 1, "s"), (3, 2, "s"), (4, 3, "s")}
    matches = {(1, 1, "q"), (1, 2, "q"), (1, 3, "q"), (1, 4, "f"), (4, 4, "q")}
    assert found == seeds | matches
    assert len(out.as_history()) == 9
    # the automaton is a stream: without the transition on B, AB*A is AA, and that is not there
    running = query.open()
    running.push(transition, moves)
    running.push(symbol, symbols)
    running.push(transition, [adjust(0, None, 0, **{"from": "q", "to": "q", "symbol": "B"})])
    left = {row[:3] for row in running.output.as_history().rows()}
    assert left == seeds | {(1, 1, "q"), (4, 4, "q")}


def test_rules_share_what_they_derive_as_a_set_with_maximal_lifetimes() -> None:
    query = sw.datalog("both(X) :- link(X, _). both(X) :- link(_, X).", GIVEN, "both")
    given = [insert(0, 5, a="x", b="y"), insert(5, 9, a="y", b="x")]
    assert query.run({link: given}).as_history().rows() == [("x", 0, 9), ("y", 0, 9)]


def _answer(rules: str, relation: str, **given: list[sw.Insert]) -> list[tuple[object, ...]]:
    """What the run says, which must be what the plan means."""
    query = sw.datalog(rules, GIVEN, relation)
    read = {GIVEN[name]: rows for name, rows in given.items()}
    answer = query.run(read, batch=2).as_history()
    assert answer == query.meaning(read)
    return sorted(answer.rows())


def _roads(*roads: tuple[str, str, int]) -> list[sw.Insert]:
    return [insert(0, 9, a=a, b=b, length=length) for a, b, length in roads]


def test_least_distances() -> None:
    rules = """
        far(X, min(D)) :- source(X), D = 0.
        far(Y, min(D + L)) :- far(X, D), road(X, Y, L).   # over cycles, too
    """
    roads = _roads(("x", "y", 4), ("x", "z", 1), ("z", "y", 2), ("y", "x", 1))
    assert _answer(rules, "far", source=[insert(2, 7, node="x")], road=roads) == [
        ("x", 0, 2, 7),
        ("y", 3, 2, 7),
        ("z", 1, 2, 7),
    ]


def test_relations_that_are_defined_by_each_other() -> None:
    rules = """
        even(X) :- source(X).
        odd(Y) :- even(X), link(X, Y).
        even(Y) :- odd(X), link(X, Y).
    """
    chain = [insert(0, 9, a=a, b=b) for a, b in map(tuple, ["ab", "bc", "cd", "da", "dx"])]
    given = {"source": [insert(1, 5, node="a")], "link": chain}
    assert _answer(rules, "even", **given) == [("a", 1, 5), ("c", 1, 5), ("x", 1, 5)]
    assert _answer(rules, "odd", **given) == [("b", 1, 5), ("d", 1, 5)]


def test_negation_in_strata() -> None:
    rules = """
        reach(X) :- source(X).
        reach(Y) :- reach(X), link(X, Y).
        node(X) :- link(X, _).
        node(X) :- link(_, X).
        lost(X) :- node(X), not reach(X).
        end(X) :- reach(X), not link(X, _).
    """
    chain = [insert(0, 9, a="a", b="b"), insert(0, 9, a="c", b="d"), insert(4, 6, a="b", b="c")]
    given = {"source": [insert(0, 9, node="a")], "link": chain}
    assert _answer(rules, "lost", **given) == [
        ("c", 0, 4), ("c", 6, 9), ("d", 0, 4), ("d", 6, 9)
    ]  # fmt: skip
    assert _answer(rules, "end", **given) == [("b", 0, 4), ("b", 6, 9), ("d", 4, 6)]


def test_aggregates_are_over_distinct_solutions() -> None:
    rules = "out(X, count(Y), sum(L)) :- road(X, Y, L), L > 0. all(count()) :- road(X, _, _)."
    roads = _roads(("x", "y", 4), ("x", "y", 4), ("x", "z", 1), ("z", "y", 2), ("z", "x", 0))
    assert _answer(rules, "out", road=roads) == [("x", 2, 5, 0, 9), ("z", 1, 2, 0, 9)]
    assert _answer(rules, "all", road=roads) == [(2, 0, 9)]


def test_constants_conditions_and_arithmetic() -> None:
    rules = """
        far(Y, T, "far away") :- road(x, Y, L), T = (L * 2 + 1) % 10, T >= 3, Y != "y".
        loop(X) :- road(X, X, _).
    """
    roads = _roads(("x", "y", 4), ("x", "z", 1), ("x", "x", 0), ("y", "z", 1))
    assert _answer(rules, "far", road=roads) == [("z", 3, "far away", 0, 9)]
    assert _answer(rules, "loop", road=roads) == [("x", 0, 9)]


def test_terms_without_variables() -> None:
    rules = """
        below(X, -1) :- road(X, _, L), L > -2 - 1, L != 7 // 2.
        at(X) :- road(X, _, -2), D = 1 + 2, D > 0.
        one_of(X, "at " + "all") :- source(X), in(X, [x, y]), not road(X, _, 6 // -3).
    """
    roads = _roads(("x", "y", -2), ("y", "z", -3), ("z", "x", 3), ("w", "x", 4))
    assert _answer(rules, "below", road=roads) == [("w", -1, 0, 9), ("x", -1, 0, 9)]
    assert _answer(rules, "at", road=roads) == [("x", 0, 9)]
    sources = [insert(0, 9, node=node) for node in "xyz"]
    assert _answer(rules, "one_of", road=roads, source=sources) == [("y", "at all", 0, 9)]


def test_equations_join() -> None:
    """Not by all pairs: what is known on one side is a key."""
    query = sw.datalog("next(X, Y) :- road(X, _, L), road(Y, _, M), M = L + 1.", GIVEN, "next")
    assert "Join inner on" in query.explain()
    assert "cross" not in query.explain()
    roads = _roads(("a", "z", 1), ("b", "z", 2), ("c", "z", 2))
    assert sorted(r[:2] for r in query.run({road: roads}).as_history().rows()) == [
        ("a", "b"), ("a", "c")
    ]  # fmt: skip


def test_a_stream_by_itself_is_a_set() -> None:
    query = sw.datalog("p(X) :- source(X).", GIVEN, "source")
    given = [insert(0, 5, node="a"), insert(3, 9, node="a")]
    assert query.run({source: given}).as_history().rows() == [("a", 0, 9)]


WRONG: dict[str, tuple[str, str, str]] = {
    "a head variable": ("p(X, Z) :-\n link(X, Y).", "Z is not bound", "line 1: p(X, Z) :- link(X, Y)."),
    "an anonymous head": ("p(X, _) :- link(X, _).", "_ is not bound", "p(X, _)"),
    "a negated variable": ("p(X) :- source(X), not link(X, Y).", "Y is not bound", "line 1"),
    "a condition": ("p(X) :- source(X), Y > 3.", "Y is not bound", "line 1"),
    "arity": ("p(X) :- link(X).", "link has 2 columns, and not 1", "line 1"),
    "arity of heads": (
        "p(X) :- source(X).\np(X, Y) :- link(X, Y).",
        "p has 1 arguments in its first rule",
        "line 2",
    ),
    "unknown": ("p(X) :- source(X), q(X).", "nobody knows 'q'", "p(X) :- source(X), q(X)."),
    "given": ("link(X, Y) :- road(X, Y, _).", "link is given, and cannot be defined", "line 1"),
    "a fact": ("p(a).", "nothing says when this holds", "p(a)."),
    "erratum 22": ("Reach(B, B-1, start).", "nothing says when this holds", "Reach(B, B-1, start)."),
    "negation": (
        "p(X) :- source(X).\np(Y) :- link(X, Y), not p(X).",
        "p is defined by its own negation",
        "line 2",
    ),
    "counting itself": ("p(X, count(Y)) :- p(Y, X).", "p is defined by its own count", "line 1"),
    "no beginning": ("p(X) :- p(Y), link(Y, X).", "p has no rule to begin with", "line 1"),
    "types": ("p(X) :- source(X).\np(L) :- road(_, _, L).", "p has Int64 here and String", "line 2"),
    "types of a join": (
        "p(X) :- source(X), road(_, _, X).",
        "join: the keys 'X' and 'X' have different",
        "line 1",
    ),
    "no aggregate": ("p(X, median(L)) :- road(X, _, L).", "median is not an aggregate", "line 1"),
    "other aggregates": (
        "p(X, min(L)) :- road(X, _, L).\np(X, max(L)) :- road(_, X, L).",
        "p has other aggregates in its first rule",
        "line 2",
    ),
    "types in a head": ("p(X) :- source(X).\np(X + 1) :- source(X).", "select X: the", "line 2: p"),
    "types of a sum": ("p(X, sum(Y)) :- link(X, Y).", "aggregate Y: cannot aggregate", "line 1"),
    "division": ("p(X, 1 / (2 - 2)) :- source(X).", "nothing is divided by 0", "line 1"),
    "constants": ("p(X, 1 - a) :- source(X).", "these constants do not go together", "line 1"),
    "a large number": ("p(X, 9223372036854775808) :- source(X).", "a number does not fit", "line 1"),
    "a list of several types": ("p(X) :- source(X), in(X, [x, 1]).", "a list has values of", "line 1"),
    "an empty list": ("p(X, []) :- source(X).", "an empty list has no type", "line 1"),
    "syntax": ("p(X) :- source(X)", "the end is not expected here", "p(X) :- source(X)"),
    "a character": (
        "p(X) :- source(X) & link(X, X).",
        "'&' is not expected here",
        "p(X) :- source(X) &",
    ),
    "no relation": ("q(X) :- source(X).", "no rule defines 'p'", ""),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_point_at_the_rule(name: str) -> None:
    rules, fact, detail = WRONG[name]
    with pytest.raises(PlanError) as refused:
        sw.datalog(rules, GIVEN, "p")
    assert f"datalog: {fact}" in refused.value.fact
    assert detail in (refused.value.detail or "")


def test_progress_and_bounds_are_those_of_a_fixpoint() -> None:
    rules = "n(X, D) :- source(X), D = 0. n(Y, D + 1) :- n(X, D), link(X, Y)."
    query: Query = sw.datalog(rules, GIVEN, "n", speculation=sw.HighWaterMark(), rounds=10)
    with pytest.raises(sw.OperatorError, match="no fixed point after 10 rounds"):
        query.run({source: [insert(0, 9, node="a")], link: [insert(0, 9, a="a", b="a")]})
