"""Rows that are added up where they are read: the same answer, row by row, promise by promise."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slackwater as sw
from slackwater.consistency import OutputLatency
from slackwater.distributed.combining import Combiner, Combining
from slackwater.distributed.program import Program, program_of
from slackwater.distributed.rehearsal import Rehearsal
from slackwater.distributed.store import Store
from slackwater.operators import step_of
from slackwater.operators.aggregate import Aggregate
from slackwater.operators.combined import Combined, together
from slackwater.plan.nodes import Source
from slackwater.times import BEGIN

FEWER = settings(max_examples=max(1, settings().max_examples // 10))
INSERTS = sw.StreamProperties(insert_only=True)
s = sw.stream({"k": str, "v": int, "x": float}, name="s", properties=INSERTS)
t = sw.stream({"k": str, "w": int}, name="t", properties=INSERTS)
WINDOW = sw.hopping(6, 3)
grouped = s.window(WINDOW).group_by("k")
SUMS = grouped.aggregate(
    n=sw.count(),
    some=sw.count("x"),
    total=sw.sum("v"),
    few=sw.sum("v", where=sw.col("x") > 0),
    mean=sw.avg("x"),
    spread=sw.stddev("v"),
    floats=sw.sum("x"),
)
LONG = (
    s.where(sw.col("v") != 1)
    .select("k", "v", y=sw.col("v") % 2)
    .window(sw.tumbling(4))
    .group_by("k")
    .aggregate(n=sw.count(), t=sw.sum("v"), odd=sw.sum("y"))
)

Row = tuple[int, str | None, int | None, float | None]
rows_: st.SearchStrategy[list[Row]] = st.lists(
    st.tuples(
        st.integers(0, 15),
        st.sampled_from(["a", "b", None]),
        st.one_of(st.none(), st.integers(-3, 3), st.sampled_from([2**40, -(2**50)])),
        st.one_of(st.none(), st.sampled_from([0.1, -0.0, 1e300, math.inf, math.nan, -7.5])),
    ),
    max_size=20,
)


def _batch(rows: Sequence[Row]) -> sw.Batch:
    schema = pl.Schema({"k": pl.String, "v": pl.Int64, "x": pl.Float64})
    payload = pl.DataFrame([row[1:] for row in rows], schema=schema, orient="row")
    vs = np.array([row[0] for row in rows], dtype=np.int64)
    return sw.Batch.inserts(vs, vs + 1, payload)


def _program(query: sw.Query, *, lateness: int | None = 3, buckets: int = 2) -> Program:
    sources = (node for node in (s.node, t.node) if isinstance(node, Source))
    policy = sw.progress(lateness=lateness) if lateness is not None else sw.progress()
    return program_of(
        query.node,
        buckets=buckets,
        progress=dict.fromkeys(sources, policy),
        on_invalid=sw.LEDGER,
    )


def _combining(query: sw.Query) -> Combining | None:
    program = _program(query)
    [source] = (source for source in program.sources if source.stream_name == "s")
    return program.combining(source)


@pytest.mark.parametrize("latency", OutputLatency)
@FEWER
@given(st.lists(rows_, max_size=4), st.integers(0, 3))
def test_an_aggregate_says_the_same_to_what_was_combined(
    latency: OutputLatency,
    batches: list[list[Row]],
    gap: int,
) -> None:
    found = _combining(SUMS)
    assert found is not None
    step = step_of(found.aggregate, latency)
    assert isinstance(step, Aggregate)
    one, other = step.open(), step.open()
    keys = {key: found.aggregate.schema[key] for key in found.aggregate.keys}
    combined = Combined(pl.Schema(keys), step.sums)
    promised = BEGIN
    for at, rows in enumerate(batches):
        batch = _batch([(row[0] + 4 * at, *row[1:]) for row in rows])
        batch = batch.where(batch.vs >= promised)
        [window] = (step_of(node, latency) for node in found.chain)
        seen = window.on_batch(None, 0, batch)
        assert isinstance(seen, sw.Batch)
        said = step.on_batch(one, 0, seen)
        # some as they are, the others in two pieces, which need not have the same sums
        third = seen.rows // 3
        pieces = seen.slice(third, 2 * third), seen.slice(2 * third, seen.rows)
        sums = together([combined.of(piece) for piece in pieces])
        assert _bag(said) == _bag(step.on_sums(other, seen.slice(0, third), sums))
        promised = 4 * at - gap
        told = sw.cti(found.promise(promised))
        first, second = (step.on_punctuation(state, 0, told) for state in (one, other))
        assert first.promises == second.promises
        assert _bag(first.rows) == _bag(second.rows)


def _bag(rows: sw.Batch | None) -> Counter[str]:
    return Counter(map(repr, rows or ()))


@pytest.mark.parametrize(
    "query", [SUMS, SUMS.latency(sw.PERFECTNESS_PRESERVING), LONG], ids=["sums", "perfect", "long"]
)
@FEWER
@given(st.lists(st.tuples(rows_, rows_), min_size=2, max_size=5), st.integers(1, 3))
def test_a_plan_answers_the_same_and_sets_the_same_aside(
    query: sw.Query,
    batches: list[tuple[list[Row], ...]],
    buckets: int,
) -> None:
    assert _combining(query) is not None
    program = _program(query, buckets=buckets)
    with_, without = Rehearsal(program), Rehearsal(program)
    with_.combines = True
    [source] = program.sources
    for at, partitions in enumerate(batches):
        given_ = {
            source: {
                str(p): _batch([(row[0] + 8 * at, *row[1:]) for row in rows])
                for p, rows in enumerate(partitions)
            }
        }
        said = [rehearsal.batch(given_, now=at) for rehearsal in (with_, without)]
        assert [sum(told.standing.rows_in for told in each) for each in said] == [
            sum(map(len, partitions))
        ] * 2
        assert with_.output.settled_until == without.output.settled_until
        assert with_.output.as_history() == without.output.as_history()
    assert Counter(map(repr, with_.ledger)) == Counter(map(repr, without.ledger))


def test_what_is_combined_is_less() -> None:
    found = _combining(SUMS)
    assert found is not None
    rows = _batch([(n % 3, "ab"[n % 2], n, 0.5) for n in range(100)])
    [(sums, stand_for), (others, _)] = Combiner(found, 1).shares(rows)
    assert (sums.rows, stand_for) == (2, 66)
    assert others.vs.tolist() == [0] * 34


@pytest.mark.parametrize(
    "query",
    [
        s.window(sw.sliding(5)).group_by("k").aggregate(n=sw.count()),
        s.group_by("k").aggregate(n=sw.count()),
        s.window(WINDOW).shift(1).group_by("k").aggregate(n=sw.count()),
        s.window(WINDOW).aggregate(n=sw.count()),
        grouped.aggregate(n=sw.count(), most=sw.max("v")),
        grouped.aggregate(n=sw.count()).union(s.window(WINDOW).select("k", n="v")),
        s.window(WINDOW).join(t, on="k").group_by("k").aggregate(n=sw.count()),
        s.window(WINDOW).select(k="k").distinct().group_by("k").aggregate(n=sw.count()),
        s.select(k=sw.col("k") + "!", v="v").window(WINDOW).group_by("k").aggregate(n=sw.count()),
        s.window(WINDOW).finalize(10).group_by("k").aggregate(n=sw.count()),
    ],
)
def test_otherwise_rows_travel_as_they_are(query: sw.Query) -> None:
    assert _combining(query) is None


def test_nor_are_sources_combined_that_take_back() -> None:
    changing = sw.stream({"k": str, "v": int, "x": float}, name="s")
    query = changing.window(WINDOW).group_by("k").aggregate(n=sw.count())
    program = program_of(query.node, buckets=2)
    assert program.combining(program.sources[0]) is None


def test_a_task_gives_up_where_few_rows_meet_their_like() -> None:
    found = _combining(SUMS)
    assert found is not None
    combiner = Combiner(found, BEGIN)
    alone, many = _batch([(n, "a", n, 0.5) for n in range(0, 90, 3)]), _batch([(0, "a", 1, 0.5)] * 50)
    assert combiner.shares(alone) == [(alone, 0)]
    assert combiner.shares(many) == [(many, 0)]
    assert Combiner(found, None).shares(many) == [(many, 0)], "nobody knows what was promised"


def test_what_a_source_had_promised_is_in_the_record_of_the_batch_before(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    store.write_record(6, {}, {"promises": {"s": 17}})
    store.write_record(7, {}, {})
    promised = [store.promised("s", batch) for batch in (0, 7, 8, 9)]
    assert promised == [BEGIN, 17, None, None]


def test_combined_rows_that_break_the_promise_are_refused() -> None:
    found = _combining(SUMS)
    assert found is not None
    [(sums, _), _] = Combiner(found, BEGIN).shares(_batch([(0, "a", 1, 0.5)] * 9))
    with pytest.raises(sw.OperatorError, match="behind the promise"):
        found.require_promised(sums, 100)
