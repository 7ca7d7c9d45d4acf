"""Progress on the fly: more comes while what came before still goes round (paper 3 sections 1 and 5)."""

from __future__ import annotations

import random

import numpy as np
import pytest
from benchmarks.recursing import Tosses, given, observed, rules, steps, tossed, tosses, ways

import slackwater as sw
from slackwater import INF
from slackwater.events import Batch
from slackwater.history import History
from slackwater.punctuations import Punctuation
from slackwater.runtime.dataflow import Dataflow
from slackwater.speculation import Speculation, Speculative

each_way = pytest.mark.parametrize(
    "speculation", [sw.Hybrid(), sw.Probing(), sw.HighWaterMark()], ids=str
)


def _guesses(flow: Dataflow) -> int:
    """How many are on their way, or wait somewhere."""
    queued = sum(
        isinstance(placed.control, Speculative)
        for operator in flow.operators
        for queue in operator.inbound
        for batch in queue.batches
        for placed in batch.controls
    )
    passages = [operator.passage for operator in flow.operators if operator.passage is not None]
    return queued + sum(each is not None for passage in passages for each in passage.heard.lodged)


@each_way
@pytest.mark.parametrize("seed", range(2))
def test_what_is_let_in_while_rows_go_round_changes_nothing(speculation: Speculation, seed: int) -> None:
    """The W query over events of which some come early, let in after any number of turns."""
    rng = random.Random(seed)
    query = ways(speculation)
    rows = tossed(np.arange(40), seed)
    place = np.array([max(at - 20, 0) if at % 10 == 9 else at for at in range(40)])
    flow = Dataflow.of(query.node)
    given(flow, steps, rules())
    said: list[Batch] = []
    promised = -INF
    for start in range(0, 40, 5):
        stop = start + 5
        told = sw.cti(INF if stop == 40 else stop if stop % 10 == 0 else 0)
        some = np.flatnonzero((place >= start) & (place < stop))
        given(
            flow, tosses, rows.take(np.array(rng.sample(some.tolist(), len(some)))).followed_by([told])
        )
        turns = 10_000 if stop == 40 else rng.choice([0, 3, 20, 60])
        while turns and flow.step():
            turns -= 1
            assert _guesses(flow) <= 1, "one at a time"
            for out in flow.take_output():
                assert not out.rows or int(out.sync.min()) >= promised, "what was promised holds"
                promised = max(
                    [promised, *(c.before for _, c in out.controls if isinstance(c, Punctuation))]
                )
                said.append(out)
    assert promised == INF, "every time is passed"
    assert History.of([e for batch in said for e in batch]) == query.meaning(
        {tosses: list(rows), steps: list(rules())}
    )


def test_hybrid_is_near_the_bound_and_guesses_no_more_than_it_has_to() -> None:
    """Half of the distance of promises is the least that is possible on the average (section 5.2.1)."""
    seen = observed(sw.Hybrid(), Tosses(1_000))
    assert seen.lag <= 1.3 * 50
    assert seen.speculated <= 2 * len(seen.promises)
    paused = observed(sw.Hybrid(), Tosses(1_000, pause=500))
    assert paused.speculated <= 2 * len(paused.promises)


def test_events_that_come_early_hold_the_high_water_mark_up_and_nobody_else() -> None:
    early = Tosses(1_500, early=6)
    hwm, hybrid = observed(sw.HighWaterMark(), early), observed(sw.Hybrid(), early)
    assert hwm.lag > 3 * hybrid.lag
    assert len(hybrid.promises) > 10 * len(hwm.promises)


def test_where_nothing_happens_hybrid_goes_on_promising() -> None:
    lulls = Tosses(2_000, lulls=0.7)
    hwm, hybrid = observed(sw.HighWaterMark(), lulls), observed(sw.Hybrid(), lulls)
    assert hybrid.silence <= 2 * observed(sw.Hybrid(), Tosses(2_000)).silence
    assert hwm.silence > 2 * hybrid.silence
