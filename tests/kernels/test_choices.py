"""Choices: compiled, against the same written down as what it means, instant by instant."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

from slackwater.kernels import choices
from slackwater.kernels.choices import COLUMNS

kernel: Any = choices

Ints = npt.NDArray[np.int64]
LAST = 12
"""no row lives longer"""


class Row(NamedTuple):
    vs: int
    ve: int
    place: int
    rank: int
    row: int


Said = dict[int, set[tuple[int, int]]]
"""by instant: places and ranks"""


def _instants(rows: list[Row]) -> Said:
    return {t: {(r.place, r.rank) for r in rows if r.vs <= t < r.ve} for t in range(LAST)}


def _meant(
    candidates: list[Row], said: list[Row], waits: set[int], since: int, until: int
) -> tuple[Said, set[int]]:
    """What is to be said at every instant, and where the key waits more."""
    alive, now, more = _instants(candidates), _instants(said), set[int]()
    for t in range(since, until):
        old = now[t]
        new = {(p, r) for p, r in old if any(q == p and s < r for q, s in alive[t])}
        if new != old:
            more.add(t)
        elif t not in waits:
            best = None
            for rank, place in sorted((rank, place) for place, rank in alive[t]):
                if best is not None and place >= best:
                    continue
                best = place
                if not any(p == place or (p < place and r <= rank + 1) for p, r in new):
                    new = new | {(place, rank + 1)}
            new = {(p, r) for p, r in new if not any(q < p and s <= r for q, s in new)}
        now[t] = new
    return now, more


def _drawn(rng: random.Random, size: int, *, is_set: bool) -> list[Row]:
    rows = []
    for i in range(size):
        vs = rng.randrange(LAST - 1)
        place = 0 if is_set else rng.randrange(4)
        rows.append(Row(vs, rng.randint(vs + 1, LAST), place, rng.randrange(5), i))
    return rows


def _said_before(rng: random.Random, candidates: list[Row]) -> list[Row]:
    """What was chosen among other candidates than there are now."""
    others = [each for each in candidates if rng.random() < 0.7]
    others += [each._replace(rank=max(0, each.rank - 1)) for each in candidates if rng.random() < 0.3]
    return _rows_of(*_compiled([(others, [], [], [(0, LAST)])])[0])


def _rows_of(before: list[Row], changes: Ints) -> list[Row]:
    """The rows after the changes, which name rows that are there."""
    rows = {(r.vs, r.place, r.rank): r for r in before}
    for vs, old_ve, new_ve, place, rank in changes.tolist():
        old = rows.pop((vs, place, rank), None)
        assert old_ve == (vs if old is None else old.ve), "an adjust names the event as it is"
        assert new_ve != old_ve
        if new_ve > vs:
            rows[vs, place, rank] = Row(vs, new_ve, place, rank, 0)
    return sorted(rows.values())


Key = tuple[list[Row], list[Row], list[tuple[int, int]], list[tuple[int, int]]]
"""candidates, what is said, where it waits, and the stretches to look at"""


def _compiled(keys: list[Key]) -> list[tuple[list[Row], Ints]]:
    """What is said of each before, and changes as (vs, old_ve, new_ve, place, rank)."""
    changes, _ = _run(keys)
    return [(said, changes[i]) for i, (_, said, _, _) in enumerate(keys)]


def _run(keys: list[Key]) -> tuple[list[Ints], list[set[int]]]:
    def arrays(column: int, width: int) -> tuple[Ints, Ints]:
        at = np.cumsum([0, *(len(key[column]) for key in keys)])
        return at, np.array([r for key in keys for r in key[column]], dtype=np.int64).reshape(-1, width)

    c_at, candidates = arrays(0, COLUMNS)
    s_at, said = arrays(1, COLUMNS)
    # a row's number says whose place it is
    place = np.concatenate([candidates[:, 2], said[:, 2]])
    candidates[:, 4], said[:, 4] = np.arange(len(candidates)), np.arange(len(said)) + len(candidates)
    found, more = kernel.chosen(c_at, candidates, s_at, said, *arrays(3, 2), *arrays(2, 2))
    changes = [
        np.array([(vs, a, b, place[row], rank) for k, vs, a, b, rank, row in found.tolist() if k == key])
        for key in range(len(keys))
    ]
    waits = [
        {t for k, a, b in more.tolist() if k == key for t in range(a, b)} for key in range(len(keys))
    ]
    return changes, waits


@pytest.mark.parametrize("is_set", [True, False], ids=["a set", "least values"])
@pytest.mark.parametrize("size", [3, 9, 70])
def test_it_chooses_what_is_meant(size: int, is_set: bool) -> None:
    rng = random.Random(size)
    keys: list[Key] = []
    for _ in range(120 if size < 70 else 12):
        candidates = _drawn(rng, rng.randint(0, size), is_set=is_set)
        said = _said_before(rng, candidates)
        since = rng.randrange(LAST - 1)
        until = rng.randint(since + 1, LAST)
        waits = [(a, a + 2) for a in (rng.randrange(LAST - 2),) if rng.random() < 0.3]
        keys.append((candidates, said, waits, [(since, until)]))
    changes, more = _run(keys)
    for (candidates, said, waits, [(since, until)]), some, again in zip(
        keys, changes, more, strict=True
    ):
        waiting = {t for a, b in waits for t in range(a, b)}
        expected, expected_more = _meant(candidates, said, waiting, since, until)
        assert _instants(_rows_of(said, some)) == expected
        assert again == expected_more


def test_stretches_of_a_key_are_looked_at_one_after_the_other() -> None:
    """The second begins with what the first has said, and with where it waits."""
    rng = random.Random(5)
    for _ in range(100):
        candidates = _drawn(rng, 6, is_set=False)
        said = _said_before(rng, candidates)
        changes, more = _run([(candidates, said, [], [(0, 6), (4, LAST)])])
        now, waits = _meant(candidates, said, set(), 0, 6)
        between = [Row(t, t + 1, p, r, 0) for t, some in now.items() for p, r in some]
        expected, again = _meant(candidates, between, waits, 4, LAST)
        assert _instants(_rows_of(said, changes[0])) == expected
        assert more[0] == waits | again


def test_neighbours_that_say_the_same_are_one_row() -> None:
    candidates = [Row(t, t + 1, 0, 0, t) for t in range(5)]
    [changes], _ = _run([(candidates, [], [], [(0, LAST)])])
    assert changes.tolist() == [[0, 0, 5, 0, 1]]
