"""Join by hand: the paper's tables, the errata, unmatched parts; and with long lists of events."""

from __future__ import annotations

import random
from typing import Literal

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest
from tests.laws import forget_at_once

import slackwater as sw
from slackwater.events import Batch, Element
from slackwater.identity import hash_rows
from slackwater.operators import live_events
from slackwater.operators.join import Join as JoinStep
from slackwater.plan.nodes import Join, Source
from slackwater.runtime.dataflow import Dataflow
from slackwater.validity import StreamProperties

LEFT, RIGHT = sw.stream({"p": str}, name="left"), sw.stream({"p": str}, name="right")


def _run(query: sw.Query, *script: tuple[sw.Query, Element]) -> list[Element]:
    return list(query.run(list(script), batch=1))


def test_the_papers_tables() -> None:
    """Paper 1b 4.3, Tables 1, 3 and 4; S1's first row ends at 2 (erratum 10)."""
    script: list[tuple[sw.Query, Element]] = [
        (LEFT, sw.insert(0, 2, p="A0")),
        (LEFT, sw.cti(1)),
        (LEFT, sw.insert(2, 6, p="A1")),
        (RIGHT, sw.insert(3, 5, p="A1")),
        (RIGHT, sw.cti(3)),
        (LEFT, sw.adjust(2, 6, 4, p="A1")),
    ]
    out = LEFT.join(RIGHT, on="p").run(script, batch=1)
    assert list(out) == [sw.insert(3, 5, p="A1"), sw.cti(1), sw.adjust(3, 5, 4, p="A1")]
    assert out.history().rows() == [("A1", 3, 4)]


def test_erratum_14_a_row_behind_the_other_cti_may_still_grow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("slackwater.state.SWEEP_FROM", 0)
    out = _run(
        LEFT.join(RIGHT, on="p"),
        (LEFT, sw.insert(0, 5, p="a")),
        (LEFT, sw.cti(5)),
        (RIGHT, sw.cti(10)),
        (LEFT, sw.adjust(0, 5, 20, p="a")),
        (RIGHT, sw.insert(12, 15, p="a")),
    )
    assert out == [sw.cti(5), sw.insert(12, 15, p="a")]


def test_an_end_that_moves_twice_within_a_batch_moves_once() -> None:
    other = (RIGHT, sw.insert(0, 8, p="a"))
    changes = [sw.insert(0, 9, p="a"), sw.adjust(0, 9, 4, p="a"), sw.adjust(0, 4, 6, p="a")]
    out = LEFT.join(RIGHT, on="p").run([other, *((LEFT, change) for change in changes)], batch=3)
    assert list(out) == [sw.insert(0, 6, p="a")]


def test_an_anti_join_shows_no_pairs_whose_columns_could_have_one_name() -> None:
    a, b = (sw.stream({"k": str, "v": int}, name=name) for name in "ab")
    both = a.join(b, on="k")
    query = both.join(both.where(sw.col("v") > 1), on="k", how="anti")
    given = {
        a: [sw.insert(0, 9, k="x", v=1), sw.insert(0, 9, k="y", v=2)],
        b: [sw.insert(2, 9, k=key, v=5) for key in "xy"],
    }
    for batch in (1, 10):
        assert query.run(given, batch=batch).as_history() == query.meaning(given)
    assert query.select("k").run(given).history().rows() == [("x", 2, 9)]


KEYED_LEFT = sw.stream({"k": str, "l": str}, name="left")
KEYED_RIGHT = sw.stream({"k": str, "r": str}, name="right")


@pytest.mark.parametrize("batch", [1, 3, 50])
@pytest.mark.parametrize(
    ("ahead", "behind", "own"), [(KEYED_LEFT, KEYED_RIGHT, "lr"), (KEYED_RIGHT, KEYED_LEFT, "rl")]
)
def test_events_that_are_over_by_the_other_sides_cti(
    ahead: sw.Query, behind: sw.Query, own: str, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are not kept, and yet may go, or last longer, and come twice."""
    monkeypatch.setattr("slackwater.state.SWEEP_FROM", 0)
    pairs = KEYED_LEFT.join(KEYED_RIGHT, on="k")
    names = {ahead: own[0], behind: own[1]}
    for seed in range(20):
        die = random.Random(seed)
        script: list[tuple[sw.Query, Element]] = []
        alive: dict[sw.Query, list[tuple[int, int, dict[str, str]]]] = {ahead: [], behind: []}
        cti = 0
        for _ in range(100):
            stream = die.choice([ahead, behind, behind])
            first, events = cti if stream is ahead else 0, alive[stream]
            named = [event for event in events if event[1] >= first]
            if stream is ahead and die.random() < 0.3:
                cti += die.randrange(4)
                script.append((ahead, sw.cti(cti)))
            elif named and die.random() < 0.6:
                vs, ve, payload = die.choice(named)
                new_ve = max(vs, first) + die.randrange(12)
                events.remove((vs, ve, payload))
                script.append((stream, sw.adjust(vs, ve, new_ve, **payload)))
                if new_ve > vs:
                    events.append((vs, new_ve, payload))
            else:
                vs, long = first + die.randrange(6), die.randrange(1, 12)
                payload = {"k": die.choice("ab"), names[stream]: die.choice("xy")}
                script.append((stream, sw.insert(vs, vs + long, **payload)))
                events.append((vs, vs + long, payload))
        at_last = [
            (stream, sw.insert(vs, ve, **payload))
            for stream, events in alive.items()
            for vs, ve, payload in events
        ]
        out = pairs.run(script, batch=batch).history()
        assert out.rows() == pairs.run(at_last).history().rows()


def test_an_event_that_is_not_kept_moves_once_within_a_batch() -> None:
    script: list[tuple[sw.Query, Element]] = [
        (RIGHT, sw.insert(0, 30, p="a")),
        (RIGHT, sw.cti(20)),
    ]
    changes = [sw.insert(0, 9, p="a"), sw.adjust(0, 9, 4, p="a"), sw.adjust(0, 4, 6, p="a")]
    running = LEFT.join(RIGHT, on="p").open()
    for stream, element in script:
        running.push(stream, [element])
    [said] = running.push(LEFT, changes)
    assert [*said] == [sw.insert(0, 6, p="a")]
    [said] = running.push(LEFT, [sw.adjust(0, 6, 25, p="a")])
    assert [*said] == [sw.adjust(0, 6, 25, p="a")]
    [join] = running.describe()
    assert join.state.state_rows == 2


def test_unmatched_parts_keep_their_start_and_are_coalesced() -> None:
    """Partners overlap; when the first goes, only what nobody covers becomes unmatched."""
    out = _run(
        LEFT.join(RIGHT, on="p", how="anti"),
        (LEFT, sw.insert(0, 10, p="a")),
        (RIGHT, sw.insert(3, 6, p="a")),
        (LEFT, sw.cti(1)),
        (RIGHT, sw.cti(2)),
        (RIGHT, sw.insert(5, 8, p="a")),
        (RIGHT, sw.adjust(3, 6, 3, p="a")),
        (RIGHT, sw.adjust(5, 8, 5, p="a")),
        (LEFT, sw.adjust(0, 10, 4, p="a")),
    )
    assert out == [
        sw.insert(0, 10, p="a"),
        sw.adjust(0, 10, 3, p="a"),
        sw.insert(6, 10, p="a"),
        sw.cti(1),
        sw.adjust(6, 10, 6, p="a"),
        sw.insert(8, 10, p="a"),
        sw.adjust(0, 3, 5, p="a"),
        sw.adjust(0, 5, 10, p="a"),
        sw.adjust(8, 10, 8, p="a"),
        sw.adjust(0, 10, 4, p="a"),
    ]


def test_a_full_join_shows_either_sides_key_and_null_keys_match_nothing() -> None:
    left = sw.stream({"k": int, "a": int}, name="left")
    right = sw.stream({"key": int, "b": int}, name="right")
    out = left.join(right, on={"k": "key"}, how="full").run(
        {
            left: [sw.insert(0, 4, k=1, a=1), sw.insert(0, 4, k=None, a=2)],
            right: [sw.insert(2, 6, key=1, b=3), sw.insert(0, 4, key=None, b=4)],
        }
    )
    assert out.history().rows() == [
        (1, 1, None, 0, 2),
        (None, None, 4, 0, 4),
        (None, 2, None, 0, 4),
        (1, 1, 3, 2, 4),
        (1, None, 3, 4, 6),
    ]


def _long_script(seed: int, sources: tuple[sw.Query, sw.Query]) -> list[tuple[sw.Query, Element]]:
    """Long lists of events of few keys, some of them very long-lived, in random order, with adjusts."""
    rng = random.Random(seed)
    script: list[tuple[sw.Query, Element]] = []
    alive: list[tuple[sw.Query, int, int, dict[str, int]]] = []
    for i in range(300):
        source, vs = sources[i % 2], rng.randrange(200)
        ve = vs + rng.choice([1, 3, 10, 200])
        payload = {"k": rng.randrange(2), "v": rng.randrange(3)}
        script.append((source, sw.insert(vs, ve, **payload)))
        alive.append((source, vs, ve, payload))
        if rng.random() < 0.5:
            at = rng.randrange(len(alive))
            source, vs, ve, payload = alive.pop(at)
            new_ve = rng.choice([vs, vs + 1, ve + 5, ve + 100])
            script.append((source, sw.adjust(vs, ve, new_ve, **payload)))
            if new_ve > vs:
                alive.append((source, vs, new_ve, payload))
    return script


@pytest.mark.parametrize("how", ["inner", "left", "full", "anti"])
@pytest.mark.parametrize("batch", [1, 7, 1000])
def test_long_lists(how: str, batch: int) -> None:
    sources = sw.stream({"k": int, "v": int}, name="l"), sw.stream({"k": int, "v": int}, name="r")
    query = sources[0].join(sources[1], on="k", how=how)  # type: ignore[arg-type]
    script = _long_script(batch, sources)
    inputs = {s: [element for source, element in script if source is s] for s in sources}
    arrivals: object = inputs if batch > 1 else script
    out = query.run(arrivals, batch=batch)  # type: ignore[arg-type]
    assert out.as_history() == query.meaning(inputs)


def test_payloads_with_one_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the third seed all rows have one hash."""

    def poor(payload: pl.DataFrame, seed: int) -> npt.NDArray[np.uint64]:
        return hash_rows(payload, seed) if seed > 2 else np.zeros(payload.height, dtype=np.uint64)

    monkeypatch.setattr(live_events, "hashes_of", poor)
    sources = sw.stream({"k": int, "v": int}, name="l"), sw.stream({"k": int, "v": int}, name="r")
    query = sources[0].join(sources[1], on="k")
    script = _long_script(0, sources)
    inputs = {s: [element for source, element in script if source is s] for s in sources}
    for batch in (1, 10):
        assert query.run(script, batch=batch).as_history() == query.meaning(inputs)


def test_hashes_are_made_when_the_first_adjust_comes() -> None:
    """Events that differ only in what is hashed: until then nobody has to tell them apart."""
    sources = sw.stream({"k": int, "v": int}, name="l"), sw.stream({"k": int, "v": int}, name="r")
    query = sources[0].join(sources[1], on="k")
    flow = Dataflow.of(query.node)
    [join] = flow.operators
    some = Batch.of([sw.insert(0, 9, k=0, v=v) for v in range(50)])
    ended = Batch.of([sw.adjust(0, 9, v % 10, k=0, v=v) for v in reversed(range(50))])
    other = Batch.of([sw.insert(3, 8, k=0, v=0)])
    for port, batch in ((0, some), (1, other), (0, ended)):
        source = sources[port].node
        assert isinstance(source, Source)
        assert not join.state.sides[0].hashed
        flow.push(source, batch)
        flow.run_until_quiet()
    assert [side.hashed for side in join.state.sides] == [True, False]
    out = sw.History.of([element for batch in flow.take_output() for element in batch])
    expected = query.meaning({sources[0]: [*some, *ended], sources[1]: [*other]})
    assert out == expected


@pytest.mark.parametrize("how", ["inner", "left"])
def test_columns_that_nobody_reads_are_left_out_of_pairs(how: Literal["inner", "left"]) -> None:
    """Only of pairs, for rows that are alone stand beside them in one batch."""
    left, right = sw.stream({"k": int, "a": int}), sw.stream({"k": int, "b": int, "c": int})
    node = left.join(right, on="k", how=how, where=sw.col("c") > sw.col("a")).node
    assert isinstance(node, Join)
    step = JoinStep(node, sw.EAGER, read={"a", "b"})
    state = step.open()
    step.on_batch(state, 0, Batch.of([sw.insert(0, 9, k=1, a=1)]))
    rows = step.on_batch(state, 1, Batch.of([sw.insert(2, 5, k=1, b=b, c=b) for b in (1, 2)])).rows
    assert rows is not None
    pairs = rows.where(rows.payload["b"].is_not_null().to_numpy()).payload
    assert pairs.rows() == ([(1, 2)] if how == "inner" else [(1, 1, 2, 2)])


def test_what_a_row_is_set_aside_for_is_written_down_with_all_of_it() -> None:
    left, right = sw.stream({"k": int, "a": str}, name="l"), sw.stream({"k": int, "b": int}, name="r")
    query = left.join(right, on="k").select(n=sw.col("a").cast(int))
    script: list[tuple[sw.Query, Element]] = [
        (left, sw.insert(0, 9, k=1, a="x")),
        (right, sw.insert(0, 9, k=1, b=7)),
    ]
    out = query.run(script, batch=1, on_invalid=sw.LEDGER)
    assert [entry.element for entry in out.ledger] == [sw.insert(0, 9, k=1, a="x", b=7)]


def test_an_end_told_far_ahead_is_no_time_for_order_preserving() -> None:
    """Only while the input is in order does an adjust of a pair move the watermark."""
    out = _run(
        LEFT.join(RIGHT, on="p", how="left").latency(sw.ORDER_PRESERVING),
        (RIGHT, sw.insert(1, 99, p="b")),
        (LEFT, sw.insert(0, 9, p="a")),
        (LEFT, sw.insert(1, 99, p="b")),
        (LEFT, sw.adjust(1, 99, 50, p="b")),
        (LEFT, sw.cti(1)),
        (RIGHT, sw.cti(10)),
        (LEFT, sw.cti(10)),
    )
    a, b = {"p": "a"}, {"p": "b"}
    assert out == [
        sw.insert(0, sw.INF, **a),
        sw.insert(1, 99, **b),
        sw.adjust(1, 99, 50, **b),
        sw.cti(1),
        sw.adjust(0, sw.INF, 9, **a),
        sw.cti(10),
    ]


@pytest.mark.parametrize("how", ["anti", "left"])
@pytest.mark.parametrize("latency", [sw.ORDER_PRESERVING, sw.PERFECTNESS_PRESERVING])
def test_what_is_final_before_the_ctis_say_so_is_shown_before_it_is_forgotten(
    how: Literal["anti", "left"], latency: sw.OutputLatency
) -> None:
    """One side has closed a key, or only inserts; then a cti of the other passes its event."""
    forget_at_once(True)
    schema = {"k": str, "v": int}
    right, closing = (sw.stream(schema, name=name) for name in ("right", "closing"))
    inserting = sw.stream(schema, properties=StreamProperties(insert_only=True))
    event, end = sw.insert(-5, -4, k="b", v=0), sw.cti(sw.INF)
    for left, told, cti in (
        (closing, [event, sw.punctuation(k="b")], sw.cti(0)),
        (inserting, [event], end),
    ):
        query = left.join(right, on="k", how=how).latency(latency)
        script = [*((left, each) for each in told), (right, cti), (left, end), (right, end)]
        out = query.run(script, batch=1)
        assert out.as_history() == query.meaning({left: [event], right: []})
