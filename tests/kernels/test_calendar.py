"""What waits in a calendar comes out when its time is reached, once, whatever the times are."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.kernels.calendar import CHUNK, Calendar
from slackwater.runtime.run import Execution
from slackwater.times import INF

WIDTH = 4


def rows_of(times: list[int], first: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    rows = np.zeros((len(times), WIDTH), dtype=np.int64)
    rows[:, 0] = times
    rows[:, 1] = range(first, first + len(times))
    rows[:, 2] = [-1 if i % 3 == 0 else 1 for i in range(len(times))]
    return rows


def times_after(reached: int) -> st.SearchStrategy[int]:
    near = st.integers(reached, min(reached + 300, INF))
    return near | st.integers(reached, INF) | st.just(INF)


@given(st.data())
def test_what_is_due_comes_out_and_nothing_else(data: st.DataObject) -> None:
    calendar = Calendar(WIDTH)
    reached = data.draw(st.sampled_from([-(2**63), -1000, -1, 0, 2**40]))
    calendar.take(reached)
    waiting: dict[int, int] = {}
    put = 0
    for _ in range(data.draw(st.integers(1, 8))):
        times = data.draw(st.lists(times_after(reached), max_size=3 * CHUNK))
        rows = rows_of(times, put)
        calendar.put(rows)
        waiting.update(zip(range(put, put + len(times)), times, strict=True))
        put += len(times)
        reached = data.draw(times_after(reached))
        due = {number: time for number, time in waiting.items() if time <= reached}
        taken = calendar.take(reached)
        assert Counter(taken[:, 1].tolist()) == Counter(due.keys())
        assert {n: t for t, n in taken[:, :2].tolist()} == due
        waiting = {number: time for number, time in waiting.items() if time > reached}
        used = calendar.pool[calendar.used()]
        assert {n: t for t, n in used[:, :2].tolist()} == waiting
        assert len(calendar) == len(waiting) == len(used)
        assert calendar.taking == np.count_nonzero(used[:, 2] < 0)


def test_an_end_that_moves_for_ever_leaves_no_heap_of_changes() -> None:
    """Each move takes the end before it back; that both are gone shows when there are many."""
    source = sw.stream({"v": int})
    node = source.aggregate(n=sw.count()).latency(sw.PERFECTNESS_PRESERVING).node
    running = Execution(node)
    [at] = running.edges
    moves = [sw.adjust(0, end, end + 1, v=1) for end in range(1_000_000, 1_010_000)]
    running.push(at, [sw.insert(0, 1_000_000, v=1)])
    for first in range(0, len(moves), 100):
        running.push(at, moves[first : first + 100])
    assert max(status.state.state_rows for status in running.describe()) < 5_000
    out = running.push(at, [sw.cti(2_000_000)])
    assert [(e.vs, e.ve) for batch in out for e in batch if isinstance(e, sw.Insert)] == [(0, 1_010_000)]
