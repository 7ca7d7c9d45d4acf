"""Sorted lists against Python's own: a list of copies per list, sorted anew for every read."""

from __future__ import annotations

import pickle
from fractions import Fraction
from itertools import count

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slackwater.kernels.sorted_lists import (
    Between,
    Distinct,
    Highest,
    Lowest,
    Read,
    Script,
    SortedLists,
)

NUMBERS = np.zeros(0, dtype=np.int64)
READS: tuple[Read, ...] = (
    Lowest(2, "a"),
    Highest(3, "a"),
    Lowest(4, "b"),
    Highest(1, "b"),
    Between(1, 2),
    Between(999_999_999_999_999_989, 10**18),
    Distinct(),
)


def run(lists, moves, reads=(), order_a=NUMBERS, order_b=NUMBERS):
    """What the reads give. Other lists' moves are among them, and answers go to any rows of a table."""
    table, at, rows = [], 1, 0
    for number, n, a, b in moves:
        table += [(number, 1, 0b101, a, b), (number, n, 0b10 if n else rows, a, b)]
        rows += not n
    out = np.full((rows, at + sum(read.width for read in reads)), -99)
    matrix = np.array(table, dtype=np.int64).reshape(-1, 5)
    lists.run(Script(matrix, 3, 4, member=1), tuple(reads), (order_a, order_b), out, at)
    assert (out[:, 0] == -99).all()
    return out[:, at:].tolist()


class Model:
    """Every list is a list of copies (a, b)."""

    def __init__(self, lists: int) -> None:
        self.lists: list[list[tuple[int, int]]] = [[] for _ in range(lists)]

    def run(self, moves, reads, rank_a, rank_b):
        answers = []
        for number, n, a, b in moves:
            copies = self.lists[number]
            copies += [(a, b)] * n
            for _ in range(-n):
                copies.remove((a, b))
            if n == 0:
                ordered = sorted(copies, key=lambda item: (rank_a(item[0]), rank_b(item[1])))
                answers.append([x for read in reads for x in answer(read, ordered)])
        return answers

    def items(self):
        return sorted(
            (i, *item, copies.count(item)) for i, copies in enumerate(self.lists) for item in set(copies)
        )


def answer(read, ordered):
    match read:
        case Lowest(k, of):
            some = ordered[::-1][:k] if isinstance(read, Highest) else ordered[:k]
            values = [item["ab".index(of)] for item in some]
            return [len(values), *values, *[0] * (k - len(values))]
        case Between(numerator, denominator):
            if not ordered:
                return [0, 0, 0]
            steps = Fraction(numerator, denominator) * (len(ordered) - 1)
            return [len(ordered), ordered[int(steps)][0], ordered[-int(-steps // 1)][0]]
        case Distinct():
            return [len(set(ordered))]


def items(lists: SortedLists):
    return sorted(zip(*(column.tolist() for column in lists.items()), strict=True))


@st.composite
def scenarios(draw):
    """Batches of moves on three lists; most of them add, then most of them take away."""
    alive: list[list[tuple[int, int]]] = [[] for _ in range(3)]
    batches = []
    for adds in draw(st.lists(st.integers(0, 10), min_size=1, max_size=6)):
        moves = []
        for _ in range(draw(st.integers(0, 25))):
            number = draw(st.sampled_from([0, 0, 0, 0, 1, 2]))
            copies = alive[number]
            kind = draw(st.integers(0, 11))
            if kind >= 10:
                moves.append((number, 0, draw(st.integers(0, 9)), 0))
            elif kind < adds:
                item, n = (
                    (draw(st.integers(0, 9)), draw(st.integers(0, 9))),
                    draw(st.sampled_from([1, 1, 3])),
                )
                copies += [item] * n
                moves.append((number, n, *item))
            elif copies:
                item = draw(st.sampled_from(sorted(set(copies))))
                n = draw(st.sampled_from([1, copies.count(item)]))
                for _ in range(n):
                    copies.remove(item)
                moves.append((number, -n, *item))
        batches.append(moves)
    return batches


@given(
    scenarios(),
    st.sampled_from([4, 8, 128]),
    st.none() | st.permutations(range(10)),
    st.none() | st.permutations(range(10)),
)
def test_any_moves_and_reads(batches, limit, order_a, order_b):
    lists, model = SortedLists(limit), Model(3)
    lists.admit(3)
    for spread, moves in zip(count(1), batches, strict=False):
        # other ranks in every batch, but the same order
        a = NUMBERS if order_a is None else np.array(order_a, dtype=np.int64) * spread - 20
        b = NUMBERS if order_b is None else np.array(order_b, dtype=np.int64) * spread
        every = moves + [(number, 0, 5, 0) for number in range(3)]
        answers = run(lists, every, READS, a, b)
        rank_a = (lambda x: x) if order_a is None else order_a.__getitem__
        rank_b = (lambda x: x) if order_b is None else order_b.__getitem__
        assert answers == model.run(every, READS, rank_a, rank_b)
        assert items(lists) == model.items()
        assert lists.rows() == len(model.items())
        lists = pickle.loads(pickle.dumps(lists))  # noqa: S301


@given(scenarios(), st.sampled_from([4, 8]), st.lists(st.booleans(), min_size=3, max_size=3))
def test_renumbering_keeps_what_is_alive(batches, limit, alive):
    lists, model = SortedLists(limit), Model(3)
    lists.admit(3)
    before, *after = batches
    run(lists, before)
    model.run(before, (), int, int)
    # ten times as far apart: the same order
    lists.renumber(np.array(alive), np.arange(10) * 10, None)
    kept = [number for number in range(3) if alive[number]]
    model.lists = [[(10 * a, b) for a, b in model.lists[number]] for number in kept]
    assert items(lists) == model.items()
    for batch in after:
        moves = [(kept.index(k), n, 10 * a, b) for k, n, a, b in batch if k in kept]
        answers = run(lists, moves, READS, NUMBERS, NUMBERS)
        assert answers == model.run(moves, READS, int, int)
    assert items(lists) == model.items()


@given(st.sets(st.integers(0, 39)), st.permutations(range(40)))
def test_ranks_of_numbers_that_are_gone_mean_nothing(gone, other_ranks):
    lists, model = SortedLists(4), Model(1)
    lists.admit(1)
    moves = [(0, 1, a, 0) for a in range(40)] + [(0, -1, a, 0) for a in sorted(gone)]
    run(lists, moves)
    model.run(moves, (), int, int)
    # those that are left keep their order, the others are anywhere
    ranks = [other_ranks[a] * 7 - 100 if a in gone else a for a in range(40)]
    moves = [
        move for a in range(40) if a not in gone for move in ((0, 1, a, 1), (0, -1, a, 0), (0, 0, a, 0))
    ]
    answers = run(lists, moves, READS, np.array(ranks), NUMBERS)
    assert answers == model.run(moves, READS, ranks.__getitem__, int)


@pytest.mark.parametrize("limit", [4, 16, 128])
@pytest.mark.parametrize("arrival", ["ascending", "descending", "any"])
def test_a_list_grows_into_a_tree_and_back(limit, arrival):
    numbers = np.arange(3000)
    if arrival == "descending":
        numbers = numbers[::-1]
    if arrival == "any":
        numbers = np.random.default_rng(1).permutation(3000)
    lists, model = SortedLists(limit), Model(2)
    lists.admit(2)
    for sign, step in [
        (1, numbers),
        (-1, numbers[::2]),
        (1, numbers[:300:2]),
        (-1, np.sort(numbers)[300:]),
    ]:
        known = set(model.lists[1])
        moves = [(1, sign, int(a), 7) for a in step if sign == 1 or (int(a), 7) in known]
        moves[50::50] = [(1, 0, 1000, 0) for _ in moves[50::50]]
        answers = run(lists, moves, READS, NUMBERS, NUMBERS)
        assert answers == model.run(moves, READS, int, int)
        assert items(lists) == model.items()
    run(lists, [(1, -n, a, b) for _, a, b, n in items(lists)])
    assert lists.rows() == 0
    used = len(lists.pool)
    run(lists, [(0, 1, a, 0) for a in range(1000)])
    assert len(lists.pool) == used, "what was given back is used again"


@example(part=Fraction(3, 5), n=6)
@given(part=st.fractions(0, 1, max_denominator=10**17), n=st.integers(1, 2**62))
def test_between_is_exact_where_products_do_not_fit(part, n):
    lists = SortedLists()
    lists.admit(1)
    steps = part * (n - 1)
    low, high = int(steps), -int(-steps // 1)
    # items 0, 1, 2 ... such that 1 is the copy at `low` and 2 the next, if there are any
    counts = [(0, low), (1, 1), (2, min(1, n - 1 - low)), (3, max(0, n - 2 - low))]
    moves = [(0, copies, a, 0) for a, copies in counts if copies] + [(0, 0, 0, 0)]
    read = Between(part.numerator, part.denominator)
    [answers] = run(lists, moves, [read])
    assert answers == [n, 1, 1 if low == high else 2]


def test_what_is_not_there_cannot_be_taken_away():
    for there in (1, 9):
        lists = SortedLists(4)
        lists.admit(1)
        run(lists, [(0, 1, a, 0) for a in range(there)])
        with pytest.raises(AssertionError, match="is there"):
            run(lists, [(0, -1, 20, 0)])
        with pytest.raises(AssertionError, match="is there"):
            run(lists, [(0, -5, 0, 0)])


def test_lists_come_when_they_are_needed():
    lists = SortedLists()
    lists.admit(1)
    run(lists, [(0, 2, 5, 1)])
    lists.admit(1000)
    run(lists, [(999, 1, 6, 2)])
    assert items(lists) == [(0, 5, 1, 2), (999, 6, 2, 1)]
