"""What follows of some columns from promises about others: against every payload of a small domain."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.operators import projection
from slackwater.operators.projection import MOST_BOXES, Apart, of_columns
from slackwater.punctuations import Closings, Promise, Punctuation
from slackwater.times import BEGIN

SCHEMA = pl.Schema({"a": pl.Int64(), "b": pl.Int64(), "v": pl.Int64()})
KEPT = ("a", "b")
KEYS, VALUES = (0, 1, None), (-1, 0, 1, 2, 3, None)
"""of which -1 and 3 stand for all below and above"""

KEY = st.sampled_from([sw.ANY, 0, 1, None, sw.one_of(0, 1), sw.between(0, 1), sw.between(None, 0)])
PIECE = st.sampled_from([
    sw.between(None, 0), sw.between(None, 1), sw.between(1, None), sw.between(2, None), None, 0, 1,
    sw.one_of(1, None), sw.ANY,
])  # fmt: skip
PROMISE = st.builds(
    lambda before, a, b, v: sw.punctuation(before, a=a, b=b, v=v),
    st.sampled_from([5, 9, None]), KEY, KEY, PIECE,
)  # fmt: skip


def _before(told: list[Punctuation], payload: tuple[int | None, ...]) -> int:
    """Up to when one of them closes a payload."""
    point = sw.punctuation(BEGIN + 1, **dict(zip(SCHEMA, payload, strict=True)))
    return max((p.before for p in told if p.implies(point)), default=BEGIN)


def _one_by_one(told: list[Promise]) -> list[Punctuation]:
    return [one for each in told for one in (each if isinstance(each, Closings) else [each])]


@given(parts=st.lists(st.lists(PROMISE, max_size=3), max_size=6))
def test_of_a_key_it_is_promised_what_is_promised_of_all_its_values(
    parts: list[list[Punctuation]],
) -> None:
    apart = Apart()
    told: list[Punctuation] = []
    found: list[Punctuation] = []
    for part in parts:
        told += part
        found += _one_by_one(of_columns(apart, Closings.of(part, SCHEMA), KEPT, SCHEMA, BEGIN))
    assert all(each.speaks_only_of(KEPT) for each in found)
    for key in product(KEYS, KEYS):
        true = min(_before(told, (*key, value)) for value in VALUES)
        assert _before(found, (*key, 0)) == true, key


@pytest.mark.parametrize("size", [1, 7, 700])
def test_what_is_told_of_many_keys_is_found_of_each(size: int) -> None:
    """Pieces of one key stand between those of others; no more are open than are remembered."""
    apart, found = Apart(), list[Punctuation]()
    for first in range(0, 2 * MOST_BOXES, size):
        some = range(first, min(first + size, 2 * MOST_BOXES))
        for piece in (sw.between(None, 0), sw.between(1, None), None):
            told = Closings.of([sw.punctuation(a=key, v=piece) for key in some], SCHEMA)
            found += _one_by_one(of_columns(apart, told, KEPT, SCHEMA, BEGIN))
    assert found == [sw.punctuation(a=key) for key in range(2 * MOST_BOXES)]
    assert not len(apart)


@pytest.mark.parametrize("column", ["v", "b"])
def test_a_cti_frees_the_pieces_that_it_has_passed(column: str) -> None:
    apart = Apart()
    told = [sw.punctuation(before, a=before, **{column: sw.between(None, 1)}) for before in (5, 7, 9)]
    values = Closings.of([sw.punctuation(6, a=1, **{column: 2})], SCHEMA)
    assert of_columns(apart, [*told, *values], ["a"], SCHEMA, BEGIN) == []
    remembered = []
    for cti in (4, 5, 6, 8, 9):
        apart.free(cti)
        remembered.append(len(apart))
    assert remembered == [4, 3, 2, 1, 0]
    rest = [sw.punctuation(12, a=1, **{column: piece}) for piece in (sw.between(None, 1), None)]
    assert of_columns(apart, rest, ["a"], SCHEMA, 9) == []
    last = [sw.punctuation(12, a=1, **{column: sw.between(2, None)})]
    assert _one_by_one(of_columns(apart, last, ["a"], SCHEMA, 9)) == [sw.punctuation(12, a=1)]


@pytest.mark.parametrize(
    "build",
    [
        pytest.param(build, id=name)
        for name, build in {
            "select": lambda s: s.select(a="a"),
            "aggregate": lambda s: s.group_by("a").aggregate(n=sw.count()),
            "rank": lambda s: s.group_by("a").aggregate(n=sw.rank("v")),
            "session": lambda s: s.group_by("a").window(sw.session(2)),
            "join": lambda s: s.join(s.select("a").distinct(), on="a"),
        }.items()
    ],
)
def test_what_a_cti_has_passed_may_come_again_in_pieces(build: Callable[[sw.Query], sw.Query]) -> None:
    """What it frees is not needed: later pieces say the key as a whole."""
    stream = sw.stream({"a": int, "v": int}, name="s")
    running = build(stream).open()
    pieces = [sw.between(None, 1), sw.between(2, None), None]
    running.push(stream, [sw.punctuation(5, a=1, v=pieces[0]), sw.cti(5)])
    said = [
        e for piece in pieces for b in running.push(stream, [sw.punctuation(9, a=1, v=piece)]) for e in b
    ]
    assert sw.punctuation(9, a=1) in said


HEARING: dict[str, Callable[[sw.Query], sw.Query]] = {
    "select": lambda s: s.select("a"),
    "aggregate": lambda s: s.group_by("a").aggregate(n=sw.count()),
    "rank": lambda s: s.group_by("a").aggregate(n=sw.rank("v")),
    "session": lambda s: s.group_by("a").window(sw.session(2)),
    "match": lambda s: s.group_by("a").match("A", n=sw.matched("A").count()),
    "join": lambda s: s.join(s.select("a").distinct().select(c="a"), on={"a": "c"}),
    "clip": lambda s: s.clip(s.distinct().select("a"), on="a"),
    "group": lambda s: s.group_by("a").apply(lambda group: group.aggregate(n=sw.count())),
    "automaton": lambda s: s.group_by("a").apply(
        lambda group: sw.automaton(
            group.select("p", symbol=sw.col("b")), [("s", "q", 1), ("q", "q", 2)], start="s"
        )
    ),
}


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([sw.punctuation(a=key, v=sw.between(0, 9)) for key in range(40)], id="ranges"),
        pytest.param([sw.punctuation(a=key, v=0) for key in range(40)], id="values"),
    ],
)
@pytest.mark.parametrize("build", [pytest.param(build, id=name) for name, build in HEARING.items()])
def test_the_ledger_says_that_promises_are_forgotten(
    build: Callable[[sw.Query], sw.Query],
    pieces: list[Punctuation],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(projection, "MOST_BOXES", 4)
    monkeypatch.setattr(projection, "MOST_CLOSINGS", 4)
    # boxes wait before they are counted
    monkeypatch.setattr(projection, "FEW", 0)
    stream = sw.stream({"a": int, "b": int, "p": int, "v": int}, name="s")
    running = build(stream).open()
    for at, piece in enumerate(pieces):
        running.push(stream, [piece])
        assert (len(running.output.ledger) > 0) == (at >= 4)
    of_each: dict[str, list[tuple[object, int]]] = {}
    for entry in running.output.ledger:
        assert entry.reason == "promise forgotten"
        assert (entry.since, entry.until) == (None, None)
        so_far = int(entry.detail.split("forgotten by now: ")[1])
        of_each.setdefault(entry.place, []).append((entry.element, so_far))
    # the oldest goes with each that is too many; it is said whenever they are twice as many
    for told in of_each.values():
        assert [so_far for _, so_far in told] == [1, 2, 4, 8, 16, 32]
        assert [element for element, _ in told] == [pieces[at] for at in (0, 1, 2, 4, 8, 16)]


def test_nothing_is_said_of_promises_that_others_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that is closed as a whole, in the same batch or a later one, needs its pieces no more."""
    monkeypatch.setattr(projection, "MOST_BOXES", 8)
    monkeypatch.setattr(projection, "MOST_CLOSINGS", 8)
    monkeypatch.setattr(projection, "FEW", 0)
    stream = sw.stream({"a": int, "v": int}, name="s")
    running = stream.select("a").group_by("a").aggregate(n=sw.count()).open()
    for key in range(100):
        pieces = [sw.punctuation(a=key, v=piece) for piece in (sw.between(None, 0), 1, 2)]
        running.push(stream, pieces)
        running.push(stream, [*pieces, sw.punctuation(a=key)] if key % 2 else [sw.punctuation(a=key)])
    assert running.output.ledger.counts() == {}
