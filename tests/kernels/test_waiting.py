"""Who waits comes out when its time is reached, once, whatever the times are, also if it is moved."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slackwater.kernels.waiting import Waiting
from slackwater.times import INF

ROOM = 40
NONE = range(0)


def times_after(reached: int) -> st.SearchStrategy[int]:
    near = st.integers(reached, min(reached + 300, INF))
    return near | st.integers(reached, INF) | st.just(INF)


@given(st.data())
def test_what_is_due_comes_out_and_nothing_else(data: st.DataObject) -> None:
    waiting = Waiting()
    waiting.make_room(ROOM)
    times = np.zeros(ROOM, dtype=np.int64)
    reached = data.draw(st.sampled_from([-(2**63), -1000, -1, 0, 2**40]))
    waiting.take(reached, times, NONE, times)
    known: dict[int, int] = {}
    for _ in range(data.draw(st.integers(1, 8))):
        moved = data.draw(st.dictionaries(st.integers(0, ROOM - 1), times_after(reached)))
        for thing, time in moved.items():
            times[thing] = time
        waiting.put(np.array([*moved], dtype=np.int64), times)
        known |= moved
        assert len(waiting) == len(known)
        reached = data.draw(times_after(reached))
        due = sorted(thing for thing, time in known.items() if time <= reached)
        assert sorted(waiting.take(reached, times, NONE, times).tolist()) == due
        known = {thing: time for thing, time in known.items() if time > reached}
        if data.draw(st.booleans()):
            # every other number is nobody's any more
            numbers = np.where(np.arange(ROOM) % 2 == 0, np.arange(ROOM) // 2, -1)
            known = {thing // 2: time for thing, time in known.items() if thing % 2 == 0}
            times = np.concatenate([times[::2], np.zeros(ROOM // 2, dtype=np.int64)])
            waiting.renumber(numbers, times, ROOM)
        assert len(waiting) == len(known)


def test_new_things_come_out_or_wait_for_their_starts() -> None:
    waiting = Waiting()
    waiting.make_room(4)
    starts = np.array([1, 5, 3, 9])
    times = starts.copy()
    times[2] = 7
    waiting.put(np.array([2]), times)
    assert waiting.take(4, times, range(4), starts).tolist() == [0]
    assert waiting.take(6, times, NONE, starts).tolist() == [1]
    assert sorted(waiting.take(INF, times, NONE, starts).tolist()) == [2, 3]
