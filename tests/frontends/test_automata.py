"""Automata: the examples of paper 3 section 4, registers, windows, automata that change."""

from __future__ import annotations

import random
from typing import Any

import polars as pl
import pytest

import slackwater as sw
from slackwater import INF, PlanError, adjust, col, cti, insert

symbols = sw.stream({"at": int, "symbol": str}, name="symbols")
moves = sw.stream({"before": str, "after": str, "symbol": str}, name="moves")

AB_STAR_A = [("S", "q", "A"), ("q", "q", "B"), ("q", "F", "A")]
SEEDS = {(1, 0, "S"), (2, 1, "S"), (3, 2, "S"), (4, 3, "S")}


def _moves(transitions: list[tuple[str, str, str]]) -> list[sw.Insert]:
    return [insert(0, None, before=a, after=b, symbol=c) for a, b, c in transitions]


def _symbols(text: str, lasting: int = INF) -> list[sw.Insert]:
    return [
        insert(i, INF if lasting == INF else i + lasting, at=i, symbol=c)
        for i, c in enumerate(text, start=1)
    ]


def test_abba_of_section_4() -> None:
    """A, AB, ABB, ABBA and the second A, with the states that they end in, and four seeds."""
    found = sw.automaton(symbols, moves, start="S")
    out = found.run({moves: [*_moves(AB_STAR_A), cti(9)], symbols: [*_symbols("ABBA"), cti(9)]}, batch=1)
    rows = out.as_history().rows()
    assert len(rows) == 9
    assert {row[:3] for row in rows} == SEEDS | {
        (1, 1, "q"), (1, 2, "q"), (1, 3, "q"), (1, 4, "F"), (4, 4, "q")
    }  # fmt: skip
    assert out.settled_until == 9


def test_a_window_bounds_how_long_a_match_takes() -> None:
    """With symbols that last for 3, ABBA takes too long, and ABB does not."""
    found = sw.automaton(symbols, moves, start="S")
    out = found.run({moves: _moves(AB_STAR_A), symbols: _symbols("ABBA", lasting=3)})
    assert {row[:3] for row in out.as_history().rows()} == SEEDS | {
        (1, 1, "q"), (1, 2, "q"), (1, 3, "q"), (4, 4, "q")
    }  # fmt: skip


def test_the_automaton_changes_while_it_runs() -> None:
    """From time 3 on, B is no longer passed over; and then it turns out that C is instead."""
    running = sw.automaton(symbols, moves, start="S").where(col("state") == "F").open()
    running.push(moves, _moves(AB_STAR_A))
    running.push(symbols, _symbols("ABBA"))
    assert running.output.as_history().rows() == [(1, 4, "F", 4, INF)]
    running.push(moves, [adjust(0, None, 3, before="q", after="q", symbol="B")])
    assert not len(running.output.as_history())
    running.push(moves, [insert(0, None, before="q", after="q", symbol="B")])
    assert running.output.as_history().rows() == [(1, 4, "F", 4, INF)]


steps = sw.stream({"before": str, "after": str, "symbol": str, "step": int, "above": int}, name="steps")

# U D^i U^j D^k U^l with i + k = j + l: m counts downs minus ups behind the first U
W = [
    ("S", "a", "U", 0, -99), ("a", "b", "D", 1, -99), ("b", "b", "D", 1, -99), ("b", "c", "U", -1, -99),
    ("c", "c", "U", -1, -99), ("c", "d", "D", 1, -99), ("d", "d", "D", 1, -99), ("d", "e", "U", -1, 0),
    ("e", "e", "U", -1, 0),
]  # fmt: skip


def _is_w(text: str) -> bool:
    """By definition: all ways to cut it."""
    if not text.startswith("U"):
        return False
    rest = text[1:]
    n = len(rest)
    return any(
        rest == "D" * i + "U" * j + "D" * k + "U" * (n - i - j - k) and i + k == j + (n - i - j - k)
        for i in range(1, n)
        for j in range(1, n - i)
        for k in range(1, n - i - j)
        if n - i - j - k >= 1
    )


@pytest.mark.parametrize("seed", range(3))
def test_the_w_query(seed: int) -> None:
    rng = random.Random(seed)
    text = "".join(rng.choice("UD") for _ in range(40))
    query = sw.automaton(
        symbols,
        steps,
        start="S",
        registers={"m": (0, col("m") + col("step"))},
        where=col("m") > col("above"),
    ).where((col("state") == "e") & (col("m") == 0))
    names = list(steps.schema)
    given = [insert(0, None, **dict(zip(names, row, strict=True))) for row in W]
    arrivals = _symbols(text, lasting=30)
    rng.shuffle(arrivals)
    out = query.run({steps: given, symbols: arrivals}, batch=7)
    found = sorted(row[:2] for row in out.as_history().rows())
    expected = [
        (i + 1, j)
        for i in range(len(text))
        for j in range(i + 1, min(i + 30, len(text)) + 1)
        if _is_w(text[i:j])
    ]
    assert found == expected
    assert expected, "there is something to be found"


# The same with transitions that do not change


def test_abba_in_one_pass() -> None:
    """A, AB, ABB, ABBA and the second A, and four seeds, as by the loop."""
    found = sw.automaton(symbols, AB_STAR_A, start="S")
    out = found.run({symbols: [*reversed(_symbols("ABBA")), cti(9)]}, batch=1)
    rows = out.as_history().rows()
    assert len(rows) == 9
    assert {row[:3] for row in rows} == SEEDS | {
        (1, 1, "q"), (1, 2, "q"), (1, 3, "q"), (1, 4, "F"), (4, 4, "q")
    }  # fmt: skip
    assert out.settled_until == 9


def test_what_is_behind_the_cti_is_forgotten() -> None:
    running = sw.automaton(symbols, AB_STAR_A, start="S").open()
    for start in range(1, 6000, 100):
        told = [insert(at, at + 30, at=at, symbol="AB"[at % 3 > 0]) for at in range(start, start + 100)]
        running.push(symbols, [*told, cti(start + 100)])
    assert sum(status.state.state_rows for status in running.describe()) < 2500


def test_explain_says_which_it_is() -> None:
    loop, native = sw.automaton(symbols, moves, start="S"), sw.automaton(symbols, AB_STAR_A, start="S")
    assert "Fixpoint an automaton whose transitions are a stream, and may change" in loop.explain()
    assert "Automaton native, its 3 transitions being constant: from 'S'" in native.explain()


W_TABLE = [dict(zip(("before", "after", "symbol", "step", "above"), row, strict=True)) for row in W]


@pytest.mark.parametrize(
    "transitions", [W_TABLE, pl.DataFrame(W_TABLE), pl.DataFrame(W_TABLE).to_dict()]
)
def test_the_w_query_in_one_pass(transitions: Any) -> None:
    rng = random.Random(1)
    text = "".join(rng.choice("UD") for _ in range(200))
    query = sw.automaton(
        symbols,
        transitions,
        start="S",
        registers={"m": (0, col("m") + col("step"))},
        where=col("m") > col("above"),
    ).where((col("state") == "e") & (col("m") == 0))
    arrivals = _symbols(text, lasting=30)
    rng.shuffle(arrivals)
    found = sorted(row[:2] for row in query.run({symbols: arrivals}, batch=50).as_history().rows())
    ends = [(i, j) for i in range(200) for j in range(i + 1, min(i + 30, 200) + 1)]
    assert found == [(i + 1, j) for i, j in ends if _is_w(text[i:j])]
    assert found, "there is something to be found"


tosses = sw.stream({"at": int, "symbol": str, "x": float}, name="tosses")
rules = sw.stream({"before": int, "after": int, "symbol": str, "step": int, "y": float}, name="rules")


@pytest.mark.parametrize("seed", range(25))
def test_one_pass_says_what_the_loop_says(seed: int) -> None:
    """Random automata with registers, symbols that come late, twice, end early and are taken back."""
    rng = random.Random(seed)
    names = list(rules.schema)
    table = [
        dict(zip(names, (rng.randrange(3), rng.randrange(3), rng.choice("abc"), rng.randint(-1, 2),
                         rng.choice([0.5, -1.0, 2.0])), strict=True))
        for _ in range(rng.randint(1, 6))
    ]  # fmt: skip
    settings: dict[str, Any] = {
        "start": 0,
        "registers": {
            "m": (0, col("m") * rng.choice([1, 1, 2]) + col("step")),
            "far": (0.0, col("far") + col("x") * col("y")),
        },
        "where": rng.choice([
            None, col("m") > -2, (col("far") < 2.0) & (col("x") != 0.0), col("end") - col("begin") < 4,
        ]),
    }  # fmt: skip
    by_loop = sw.automaton(tosses, rules, **settings)
    in_one_pass = sw.automaton(tosses, table, **settings)
    loop, native = by_loop.open(), in_one_pass.open()
    moves_told = [insert(0, None, **row) for row in table]
    loop.push(rules, moves_told)
    alive: list[sw.Insert] = []
    told: list[sw.Insert | sw.Adjust] = []
    for at in [*rng.sample(range(12), 12), 3, 7]:
        x = rng.choice([1.0, 0.0, None, -0.5])
        alive.append(insert(at, at + rng.randint(1, 9), at=at, symbol=rng.choice("abcd"), x=x))
        told.append(alive[-1])
        if rng.random() < 0.3:
            gone = alive.pop(rng.randrange(len(alive)))
            end = rng.randint(gone.vs, gone.ve - 1)
            told.append(adjust(gone.vs, gone.ve, end, **gone.payload))
    while told:
        size = rng.randint(1, 5)
        part, told = told[:size], told[size:]
        loop.push(tosses, part)
        native.push(tosses, part)
        assert native.output.as_history() == loop.output.as_history()
    left = [insert(each.vs, each.ve, **each.payload) for each in alive]
    assert in_one_pass.meaning({tosses: left}) == by_loop.meaning({tosses: left, rules: moves_told})
    for each in (loop, native):
        each.push(tosses, [cti(6)])
        assert each.output.settled_until == (6 if each is native else sw.BEGIN)
    loop.push(rules, [cti(6)])
    settled = [sw.History(each.output.settled()) for each in (loop, native)]
    assert settled[0] == settled[1]


def test_refusals_of_tables() -> None:
    registers: dict[str, tuple[object, pl.Expr]] = {"m": (0, col("m") + 0.5)}
    for build, fact in [
        (lambda: sw.automaton(symbols, [("S", "q")], start="S"), "these transitions are no table"),
        (lambda: sw.automaton(symbols, 3, start="S"), "these transitions are no table"),  # type: ignore[arg-type]
        (lambda: sw.automaton(symbols, {"a": [1], "b": [2]}, start=1), "transitions need 3 columns"),
        (lambda: sw.automaton(symbols, [("S", 1, "A")], start="S"), "states are of different types"),
        (lambda: sw.automaton(symbols, [("S", "q", 1)], start="S"), "symbols of different types"),
        (
            lambda: sw.automaton(symbols, AB_STAR_A, start="S", registers=registers),
            "the register 'm' goes on as another type",
        ),
        (lambda: sw.automaton(symbols, AB_STAR_A, start="S", where=col("z") > 1), "unknown column 'z'"),
        (lambda: sw.automaton(symbols, AB_STAR_A, start="S", where=col("end")), "true or false"),
    ]:
        with pytest.raises(PlanError, match=fact):
            build()


def test_refusals() -> None:
    few = sw.stream({"at": int}, name="few")
    words = sw.stream({"at": str, "symbol": str}, name="words")
    clash = sw.stream({"at": int, "symbol": str, "state": str}, name="clash")
    again = sw.stream({"at": int, "symbol": str, "step": int}, name="again")
    for stream, rules, fact in [
        (few, moves, "symbols need 2 columns"),
        (words, moves, "'at' does not say the place"),
        (clash, moves, "symbols have a column 'state'"),
        (again, steps, "both have 'step'"),
        (symbols, few, "transitions need 3 columns"),
    ]:
        with pytest.raises(PlanError, match=fact):
            sw.automaton(stream, rules, start="S")
    with pytest.raises(PlanError, match="begins with an expression"):
        sw.automaton(symbols, moves, start="S", registers={"m": (col("m"), col("m") + 1)})


def test_closed_places_close_what_begins_and_ends_there() -> None:
    """Places need not be closed in one piece; what looks beyond them may still go on."""
    running = sw.automaton(symbols, AB_STAR_A, start="S").open()

    def said(*elements: Any) -> list[Any]:
        batches = running.push(symbols, list(elements))
        return [e for batch in batches for e in batch if isinstance(e, sw.Punctuation)]

    running.push(symbols, _symbols("ABBA"))
    assert said(sw.punctuation(at=sw.between(None, 2))) == [
        sw.punctuation(begin=sw.between(None, 0)),
        sw.punctuation(begin=sw.between(1, 2), end=sw.between(None, 2)),
    ]
    assert said(sw.punctuation(9, at=3)) == [
        # before 9 only
        sw.punctuation(9, begin=sw.between(1, 3), end=sw.between(None, 3))
    ]
    assert said(sw.punctuation(symbol="A")) == [], "with B, another seed begins the same ways"
    # ABBA and A look at 5
    assert said(sw.punctuation(at=sw.between(3, 5))) == [sw.punctuation(begin=sw.between(None, 5))]
    assert set(running.output.settled().rows()) == set(running.output.as_history().rows())
    assert said(sw.punctuation(at=sw.between(6, None))) == [sw.punctuation(begin=sw.between(None, None))]
    assert said(sw.punctuation(at=None)) == [sw.cti(INF)]


def test_places_in_order_leave_only_the_rows_that_ways_may_go_on_with() -> None:
    """Without time: a promise follows every place, and a way looks at four places at most."""
    in_order = symbols.punctuate(sw.ordered_by("at"))
    running = sw.automaton(in_order, AB_STAR_A, start="S").open()
    kept = []
    for begin in range(0, 9000, 90):
        rows = [insert(0, INF, at=begin + i, symbol=c) for i, c in enumerate("ABBAZZ" * 15)]
        running.push(symbols, rows)
        kept.append(sum(status.state.state_rows for status in running.describe()))
    assert max(kept) <= 2048
    closed = running.output.settled()
    assert len(closed) > 0.99 * len(running.output.as_history())


def test_a_group_that_is_closed_is_forgotten() -> None:
    keyed = sw.stream({"k": str, "at": int, "symbol": str}, name="keyed")
    ways = keyed.group_by("k").apply(
        lambda group: sw.automaton(group.select("at", "symbol"), AB_STAR_A, start="S")
    )
    running = ways.open()
    running.push(keyed, [insert(0, INF, k=k, at=i, symbol="A") for k in "xy" for i in range(3)])
    out = running.push(keyed, [sw.punctuation(k="x"), sw.punctuation(k="y", at=sw.between(None, 1))])
    assert [e for batch in out for e in batch] == [
        sw.punctuation(k="x"),
        sw.punctuation(k="y", begin=sw.between(None, -1)),
        sw.punctuation(k="y", begin=sw.between(0, 1), end=sw.between(None, 1)),
    ]
    assert sum(status.state.state_rows for status in running.describe()) == 3
