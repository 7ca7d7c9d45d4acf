"""A tournament knows the least value of each column, and who is at a limit or below it."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slackwater.kernels import tournament
from slackwater.kernels.tournament import NONE

COLUMNS = 2
values = st.integers(-5, 5) | st.just(int(NONE))


@given(st.data())
def test_it_knows_what_a_look_at_all_would_tell(data: st.DataObject) -> None:
    leaves = data.draw(st.sampled_from([1, 2, 7, 8, 9, 16, 64, 65, 600]))
    tree = np.empty((tournament.rows_for(leaves), COLUMNS), dtype=np.int64)
    tree[:leaves] = NONE
    tournament.build(tree, leaves)
    for _ in range(data.draw(st.integers(1, 5))):
        some = data.draw(st.lists(st.integers(0, leaves - 1), max_size=20))
        for key in some:
            tree[key] = data.draw(st.tuples(values, values))
        tournament.renew(tree, leaves, np.array(some, dtype=np.int64))
        assert (tree[-1] == tree[:leaves].min(axis=0)).all()
        column, limit = data.draw(st.integers(0, COLUMNS - 1)), data.draw(st.integers(-6, 6))
        known = data.draw(st.integers(0, leaves))
        found = tournament.up_to(tree, leaves, column, limit, known)
        assert found.tolist() == np.flatnonzero(tree[:known, column] <= limit).tolist()
