"""What a match is, by hand: the two facts, what is greedy, who lives together, which row is next."""

from __future__ import annotations

import polars as pl
import pytest

import slackwater as sw
from slackwater import PlanError, col, insert, matched, previous

kinds = sw.stream({"letter": str, "v": int}, name="kinds")
prices = sw.stream({"at": int, "price": int}, name="prices")


def _by_letter(pattern: str) -> dict[str, pl.Expr]:
    return {symbol: col("letter") == symbol for symbol in set(pattern) if symbol.isalpha()}


def _of_kinds(text: str, lasting: int = 1000) -> list[sw.Insert]:
    """A4@100 is a row of kind A with the value 4 at 100."""
    told = []
    for word in text.split():
        what, at = word.split("@")
        told.append(insert(int(at), int(at) + lasting, letter=what[0], v=int(what[1:])))
    return told


def _found(pattern: str, letters: str, lasting: int = 1000, **settings: object) -> list[str]:
    """Which letters each match takes, as 'first-last'; one letter for every time from 1 on."""
    s = sw.stream({"letter": str, "at": int})
    query = s.match(
        pattern,
        where=_by_letter(pattern),
        span=matched().first("at").cast(str) + "-" + matched().last("at").cast(str),
        **settings,  # type: ignore[arg-type]
    )
    told = [insert(i, i + lasting, letter=letter, at=i) for i, letter in enumerate(letters, start=1)]
    return [row[0] for row in query.meaning({s: told}).rows()]


def test_a_then_any_b_then_c() -> None:
    """Issue 7: a match lives from its last row until the first of its rows ends."""
    told = _of_kinds("A4@100 C3@110 A1@120 B6@130 B8@140 C7@150 B9@160")
    query = kinds.match("A B* C", where=_by_letter("ABC"), total=matched("B").sum("v"))
    expected = [(0, 110, 1100), (14, 150, 1120)]
    assert query.meaning({kinds: told}).rows() == expected
    points = [insert(each.vs, each.vs + 1, **each.payload) for each in told]
    within = kinds.match("A B* C", where=_by_letter("ABC"), within=1000, total=matched("B").sum("v"))
    assert within.meaning({kinds: points}).rows() == expected


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (sw.PAST_LAST_ROW, [(26, "1-4"), (17, "5-7")]),
        (sw.TO_NEXT_ROW, [(26, "1-4"), (24, "2-5"), (25, "3-6"), (22, "4-7"), (17, "5-7")]),
    ],
)
def test_as_many_as_cost_less_than_thirty(after: sw.AfterMatch, expected: list[tuple[int, str]]) -> None:
    """Issue 7: the sum counts the row at hand, and what A has taken it keeps."""
    query = prices.match(
        "A+ C",
        where={"A": matched("A").sum("price") < 30},
        after=after,
        total=matched("A").sum("price"),
        span=matched("A").first("at").cast(str) + "-" + matched("C").last("at").cast(str),
    )
    told = [insert(t, None, at=t, price=p) for t, p in enumerate([7, 9, 10, 5, 10, 7, 14], start=1)]
    assert sorted(row[:2] for row in query.meaning({prices: told}).rows()) == sorted(expected)


@pytest.mark.parametrize(
    ("pattern", "letters", "expected"),
    [
        ("A B* C", "ABBC", ["1-4"]),
        ("A B? C", "ABBCABC", ["5-7"]),
        ("A (B | C)+ D", "ABCBDAD", ["1-5"]),
        ("A (B C)* D", "ABCBCDABD", ["1-6"]),
        ("(A B)? A C", "ABAC", ["1-4"]),
        # what was begun and does not match is as if it had not been tried
        ("A (B C)? B D", "ABD", ["1-3"]),
        ("A B C | A B D", "ABD", ["1-3"]),
        # what has matched is not tried in another way
        ("(A | A B) C", "ABC", []),
        ("(A B | A) C", "ABC", ["1-3"]),
        ("A B* B", "ABBB", []),
        ("A+", "AABAAA", ["1-2", "4-6"]),
        ("B*", "ABBA", ["2-3"]),
    ],
)
def test_what_is_taken_is_not_given_back(pattern: str, letters: str, expected: list[str]) -> None:
    assert _found(pattern, letters) == expected


def test_rows_live_together() -> None:
    """With rows that last for 3, the fourth letter is too late for the first."""
    assert _found("A B* C", "ABBC", lasting=3) == []
    assert _found("A B+", "ABBB", lasting=3) == ["1-3"], "what comes too late is not taken"


def test_rows_at_one_time_are_in_order_of_their_payload() -> None:
    s = sw.stream({"a": int, "b": int})
    query = s.match("X Y", where={"Y": col("a") == previous("a")}, b=matched("Y").last("b"))
    told = [insert(1, 9, a=2, b=0), insert(1, 9, a=1, b=5), insert(1, 8, a=1, b=3)]
    assert query.meaning({s: told}).rows() == [(5, 1, 8)]


def test_every_group_has_matches_of_its_own() -> None:
    query = kinds.group_by("v").match("A B", where=_by_letter("AB"), n=matched().count())
    told = _of_kinds("A1@1 A2@2 B2@3 B1@4 B2@5")
    assert query.meaning({kinds: told}).rows() == [(2, 2, 3, 1002), (1, 2, 4, 1001)]


def test_all_that_can_be_said_of_rows() -> None:
    s = sw.stream({"x": float, "k": str})
    a = matched("A")
    query = s.match(
        "A+ B", where={"A": col("k") == "a"},
        n=a.count(), m=a.count("x"), s=a.sum("x"), m_avg=a.avg("x"), low=a.min("x"), high=a.max("x"),
        begin=a.first("x"), end=a.last("x"), rows=matched().count(), none=matched("B").sum("x"),
        nothing=matched("B").min("x"),
    )  # fmt: skip
    told = [insert(t, 99, x=x, k=k) for t, (x, k) in enumerate(
        [(2.0, "a"), (None, "a"), (0.5, "a"), (None, "b")])]  # fmt: skip
    assert query.meaning({s: told}).rows() == [
        (3, 2, 2.5, 1.25, 0.5, 2.0, 2.0, 0.5, 4, 0.0, None, 3, 99)
    ]


@pytest.mark.parametrize(
    ("pattern", "fact", "place"),
    [
        ("A (B C", "ends where '\\)' is missing", "at place 7"),
        ("A B) C", "'\\)' is not expected here", "at place 4"),
        ("A | | B", "nothing before '\\|'", "at place 5"),
        ("* A", "'\\*' is not expected here", "at place 1"),
        ("A B**", "'\\*' repeats what may match no row|'\\*' is not expected", "at place 5"),
        ("A (B?)*", "repeats what may match no row at all", "at place 7"),
        ("", "a symbol is missing", "at place 1"),
        ("A, B", "',' is not expected here", "at place 2"),
    ],
)
def test_what_is_no_pattern(pattern: str, fact: str, place: str) -> None:
    with pytest.raises(PlanError, match=fact) as problem:
        kinds.match(pattern, n=matched().count())
    assert place in problem.value.detail


def test_refusals() -> None:
    count = matched().count()
    for build, fact in [
        (lambda: kinds.match(3, n=count), "3 is not a pattern"),  # type: ignore[arg-type]
        (lambda: kinds.match("A"), "nothing is asked of a match"),
        (lambda: kinds.match("A", where={"B": col("v") > 1}, n=count), "no symbol 'B' in the pattern"),
        (lambda: kinds.match("A", n=matched("B").count()), "no symbol 'B' in the pattern"),
        (lambda: kinds.match("A", n=matched("A").sum("w")), "unknown column 'w'"),
        (lambda: kinds.match("A", where={"A": col("w") > 1}, n=count), "unknown column 'w'"),
        (lambda: kinds.match("A", n=matched("A").sum("letter")), "adds up numbers"),
        (lambda: kinds.match("A", where={"A": col("v")}, n=count), "must be true or false"),
        (lambda: kinds.match("A", where={"A": 1}, n=count), "not an expression"),  # type: ignore[dict-item]
        (lambda: kinds.match("A", v=col("v")), "reads 'v', of no row in particular"),
        (lambda: kinds.match("A", v=previous("v")), "of no row in particular"),
        (lambda: kinds.match("A", after="next", n=count), "where the next match begins"),  # type: ignore[arg-type]
        (lambda: kinds.group_by("v").match("A", v=count), "is a key already"),
        (lambda: matched("A b"), "is not a symbol"),
        (lambda: matched("A").sum(3), "sum is of a column"),  # type: ignore[arg-type]
        (lambda: previous(3), "not the name of a column"),  # type: ignore[arg-type]
    ]:
        with pytest.raises(PlanError, match=fact):
            build()
