"""Recursion at run time: the examples of paper 3 step by step, what is refused, what has no end.

A path carries the nodes that it visited as a bit vector, the bit of n1 in front, as in the paper.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tests.oracle.test_fixpoint import (
    CYCLE,
    DIAMOND,
    LINKS,
    SOURCES,
    closure_bag,
    closure_set,
    links,
    longer_paths,
    one_further,
    sources,
)

import slackwater as sw
import slackwater.state
from slackwater import INF, adjust, col, cti, insert
from slackwater.errors import OperatorError, PlanError
from slackwater.events import Batch
from slackwater.operators.fixpoint import State
from slackwater.persistence import decode, encode
from slackwater.plan.nodes import Source
from slackwater.runtime import Execution
from slackwater.runtime.dataflow import Dataflow
from slackwater.runtime.queues import Queue
from slackwater.runtime.running import Running
from slackwater.runtime.schedules import BottomUp
from slackwater.speculation import Speculation, Speculative


def _as_a_set(reach: sw.Query) -> sw.Query:
    return one_further(reach).distinct()


PATHS = {"start": str, "end": str, "visited": int}


def _paths(speculation: Speculation) -> sw.Query:
    return sw.fixpoint(longer_paths, schema=PATHS, speculation=speculation)


WAYS = (sw.Hybrid(), sw.Probing(), sw.HighWaterMark())
each_way = pytest.mark.parametrize("speculation", WAYS, ids=str)


def path(vs: int, start: str, end: str, visited: int, ve: int = INF) -> sw.Insert:
    return insert(vs, ve, start=start, end=end, visited=visited)


@each_way
def test_reachability_step_by_step(speculation: Speculation) -> None:
    """Paper 3 section 2: exactly these outputs at times 1 to 4."""
    running = _paths(speculation).open()

    def told(stream: sw.Query, *elements: sw.Insert) -> set[object]:
        return {element for batch in running.push(stream, elements) for element in batch}

    assert told(sources, *SOURCES) == set()
    assert told(links, LINKS[0]) == {path(2, "n3", "n1", 0b1010)}
    assert told(links, *LINKS[1:3]) == {
        path(3, "n3", "n2", 0b1110), path(3, "n2", "n3", 0b0110), path(3, "n2", "n1", 0b1110)
    }  # fmt: skip
    assert told(links, LINKS[3]) == {path(4, "n3", "n4", 0b0011), path(4, "n2", "n4", 0b0111)}


@each_way
def test_a_path_lives_while_all_that_it_is_made_of_do(speculation: Speculation) -> None:
    """The paper's source [1, 6) with links [2, 8) and [3, 10)."""
    out = _paths(speculation).run(
        {
            sources: [insert(1, 6, node="n3"), cti(20)],
            links: [insert(2, 8, a="n3", b="n1"), insert(3, 10, a="n1", b="n2"), cti(20)],
        }
    )
    assert list(out)[:2] == [path(2, "n3", "n1", 0b1010, 6), path(3, "n3", "n2", 0b1110, 6)]
    assert out.settled().height == (2 if out.settled_until > 6 else 0)


@each_way
def test_a_retracted_link_takes_its_paths_with_it(speculation: Speculation) -> None:
    """The paper's link (n3, n1), retracted at 5."""
    running = _paths(speculation).open()
    running.push(sources, SOURCES)
    running.push(links, LINKS)
    [*said] = (e for b in running.push(links, [adjust(2, None, 5, a="n3", b="n1")]) for e in b)
    assert set(said) == {
        adjust(2, None, 5, start="n3", end="n1", visited=0b1010),
        adjust(3, None, 5, start="n3", end="n2", visited=0b1110),
        adjust(3, None, 5, start="n2", end="n1", visited=0b1110),
    }


# How guesses go round: section 3.5


class Turns:
    """A dataflow of which a test says who is next, and where every guess is looked at."""

    def __init__(self, speculation: Speculation) -> None:
        self.flow = Dataflow.of(_paths(speculation).node, schedule=self)
        self.seen: list[tuple[str, str]] = []
        self.stopped: Callable[[Running], bool] = lambda _: False
        *_, self.union, self.join, self.select, self.ffp = self.flow.operators

    def begin(self) -> Turns:
        return self

    def pick(self, queues: Sequence[Queue]) -> Queue:
        return queues[0]

    def next(self, workers: Sequence[Any]) -> Any:
        operators: Sequence[Running] = workers
        guesses = [
            control
            for operator in operators
            for queue in operator.inbound
            for batch in queue.batches
            for _, control in batch.controls
            if isinstance(control, Speculative)
        ]
        assert len(guesses) + self.lodged() <= 1, "one at a time"
        awake = [operator for operator in operators if not self.stopped(operator)]
        chosen = BottomUp().next(awake)
        if chosen is not None:
            queue = next(queue for queue in chosen.inbound if queue.batches)
            told = queue.batches[0].controls
            name = chosen.node.name
            self.seen += ((name, repr(c)) for _, c in told if isinstance(c, Speculative))
        return chosen

    def lodged(self) -> int:
        passages = (operator.passage for operator in self.flow.operators if operator.passage)
        return sum(guess is not None for passage in passages for guess in passage.heard.lodged)

    def push(self, stream: sw.Query, *elements: sw.Insert | sw.Punctuation) -> list[object]:
        node = stream.node
        assert isinstance(node, Source)
        batch = Batch.of([e for e in elements if isinstance(e, sw.Insert)], node.schema)
        promises = [e for e in elements if isinstance(e, sw.Punctuation)]
        self.flow.push(node, batch.followed_by(promises))
        self.flow.run_until_quiet()
        return [element for out in self.flow.take_output() for element in out]

    @property
    def state(self) -> State:
        state = self.ffp.state
        assert isinstance(state, State)
        return state


def test_a_high_water_mark_lodges_is_contradicted_goes_round_again_and_is_promoted() -> None:
    """Erratum 23: sp(3) and dp(2) of the paper are 4 and cti(3) here."""
    turns = Turns(sw.HighWaterMark())
    turns.push(sources, *SOURCES, cti(6))
    turns.push(links, LINKS[0], cti(3))
    turns.seen.clear()
    turns.push(links, LINKS[1])
    assert turns.state.known.flying == 4
    assert turns.lodged() == 1
    assert turns.seen == [("Union", "speculative(4)"), ("Join", "speculative(4)")]
    turns.push(links, LINKS[2])
    assert turns.state.known.earliest == 3, "it will be contradicted"
    turns.seen.clear()
    said = turns.push(links, LINKS[3], cti(5))
    once = [(name, "speculative(4)") for name in ("Union", "Join", "Select", "Fixpoint")]
    assert turns.seen[:6] == [once[2], once[3], *once], "released, sent round again"
    assert said[-2:] == [cti(4), cti(5)], "promoted; then the next one, at the new mark"


def test_probing_is_revised_and_stops_at_rows_that_came_meanwhile() -> None:
    """Erratum 23: revised to 6 by the union, then to 3 by the join."""
    turns = Turns(sw.Probing())
    turns.push(sources, *SOURCES, cti(6))
    turns.push(links, LINKS[0], cti(2))
    turns.seen.clear()
    # the guess waits before the union until another row has come by
    turns.stopped = lambda operator: operator is turns.union
    turns.push(links, LINKS[1], cti(3))
    assert turns.state.known.flying == INF
    turns.push(links, LINKS[2])
    assert turns.state.known.earliest == 3
    turns.stopped = lambda _: False
    said = turns.push(links)
    assert turns.seen[:4] == [
        ("Union", "speculative(INF)"),
        ("Join", "speculative(6)"),
        ("Select", "speculative(3)"),
        ("Fixpoint", "speculative(3)"),
    ]
    assert cti(3) in said


def test_hybrid_guesses_only_if_there_is_something_to_gain() -> None:
    turns = Turns(sw.Hybrid())
    turns.push(sources, *SOURCES, cti(6))
    assert turns.state.known.speculated == 0, "the links have promised nothing"
    turns.push(links, LINKS[0], cti(3))
    assert (turns.state.known.speculated, turns.state.known.promised) == (1, 3)
    for _ in range(3):
        turns.push(sources, cti(7))
        turns.push(links, LINKS[1])
    assert turns.state.known.speculated == 1, "the links have promised no more"
    turns.push(links, cti(5))
    assert (turns.state.known.speculated, turns.state.known.promised) == (2, 5)


@each_way
@pytest.mark.parametrize("seed", range(4))
def test_there_is_one_guess_at_a_time_and_every_time_is_passed(
    speculation: Speculation, seed: int
) -> None:
    """`Turns` looks before every turn; whoever is next is drawn."""
    rng = random.Random(seed)
    turns = Turns(speculation)
    turns.stopped = lambda operator: rng.random() < 0.3 and operator is not turns.ffp
    for t in range(12):
        turns.push(sources, insert(t, t + rng.randint(1, 5), node=f"n{rng.randint(1, 4)}"), cti(t))
        ends = (f"n{rng.randint(1, 4)}" for _ in range(2))
        turns.push(links, insert(t, t + rng.randint(1, 9), a=next(ends), b=next(ends)), cti(t))
    turns.stopped = lambda _: False
    turns.push(sources, cti(INF))
    said = turns.push(links, cti(INF))
    assert said[-1] == cti(INF)
    assert turns.state.known.promoted <= turns.state.known.speculated


@each_way
def test_what_is_past_is_forgotten(speculation: Speculation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slackwater.state, "SWEEP_FROM", 0)
    monkeypatch.setattr(slackwater.state, "SWEEP_FACTOR", 0)
    running = _paths(speculation).open()
    for t in range(0, 100, 2):
        running.push(sources, [insert(t, t + 3, node="n3"), cti(t)])
        running.push(links, [insert(t, t + 3, a="n3", b="n1"), cti(t)])
    assert running.output.settled_until >= 96
    assert max(status.state.state_rows for status in running.describe()) <= 12


def test_a_query_without_end_is_stopped_and_shows_what_kept_circulating() -> None:
    query = sw.fixpoint(
        lambda reach: links.union(
            reach.join(links, on={"b": "a"}, suffix="_next").select("a", b="b_next")
        ),
        schema={"a": str, "b": str},
        rounds=20,
    )
    with pytest.raises(OperatorError) as stopped:
        query.run({links: CYCLE})
    assert stopped.value.fact == "fixpoint: no fixed point after 20 rounds"
    assert "still circulating: insert(3, 6, a='x', b=" in (stopped.value.detail or "")


def test_a_query_that_multiplies_every_round_is_stopped_before_it_takes_all_memory() -> None:
    """Ten ways from each node to itself: ten times as many rows each round."""
    query = sw.fixpoint(
        lambda reach: links.union(
            reach.join(links, on={"b": "a"}, suffix="_next").select("a", b="b_next")
        ),
        schema={"a": str, "b": str},
        rows=100_000,
    )
    ring = [insert(0, 9, a="x", b="x") for _ in range(10)]
    with pytest.raises(OperatorError) as stopped:
        query.run({links: ring})
    assert stopped.value.fact == "fixpoint: no fixed point after 111,110 rows in 5 rounds"
    assert "still circulating: insert(0, 9, a='x', b='x')" in (stopped.value.detail or "")
    assert "rows=" in (stopped.value.hint or "")


def test_rows_are_counted_by_batch() -> None:
    query = sw.fixpoint(lambda reach: reach.where(col("a") == "").union(links),
                        schema={"a": str, "b": str}, rows=3)  # fmt: skip
    running = query.open()
    for t in range(4):
        running.push(links, [insert(t, 9, a="x", b=f"{i}") for i in range(3)])
    with pytest.raises(OperatorError, match="after 4 rows in 1 rounds"):
        running.push(links, [insert(5, 9, a="y", b=f"{i}") for i in range(4)])


def test_the_same_query_runs_where_it_has_an_end() -> None:
    given = [insert(0, 10, a="a", b="b"), insert(0, 7, a="b", b="d"), insert(2, 9, a="a", b="d")]
    out = closure_bag.run({links: given})
    assert out.as_history() == closure_bag.meaning({links: given})


REFUSED: dict[str, tuple[Callable[[sw.Query], sw.Query], str]] = {
    "align": (lambda r: r.align(2).union(links), "Align cannot be on the loop"),
    "finalize": (lambda r: r.finalize(2).union(links), "Finalize cannot be on the loop"),
    "cleanse": (lambda r: r.union(links).cleanse(), "Cleanse cannot be on the loop"),
    "sort": (lambda r: r.sort("a").union(links), "Sort cannot be on the loop"),
    "the dial": (lambda r: r.consistency("strong").union(links), "the dial cannot be turned"),
    "the dial behind": (
        lambda r: r.union(links).consistency(blocking=3),
        "the dial cannot be turned",
    ),
    "punctuate": (lambda r: r.punctuate(lateness=5).union(links), "Punctuate cannot be on the loop"),
    "shift back": (lambda r: r.shift(-1).union(links), r"AlterLifetime .* cannot be on the loop"),
    "shorten": (lambda r: r.extend(-1).union(links), r"AlterLifetime .* cannot be on the loop"),
    "round down": (
        lambda r: r.alter_lifetime(start=sw.VS.floor(3)).union(links),
        r"AlterLifetime .* cannot be on the loop",
    ),
    "a constant": (
        lambda r: r.alter_lifetime(start=0, end=sw.VE).union(links),
        r"AlterLifetime .* cannot be on the loop",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_when_the_plan_is_built(name: str) -> None:
    body, fact = REFUSED[name]
    with pytest.raises(PlanError, match=fact):
        sw.fixpoint(body, schema={"a": str, "b": str})


FORWARD: dict[str, Callable[[sw.Query], sw.Query]] = {
    "sliding": lambda r: r.window(sw.sliding(3)),
    "tumbling": lambda r: r.window(sw.tumbling(3)),
    "hopping": lambda r: r.window(sw.hopping(4, 2)),
    "shift": lambda r: r.shift(1),
    "round up": lambda r: r.alter_lifetime(start=sw.VS.ceil(3), end=sw.VE.ceil(3)),
    "clip": lambda r: r.clip(3),
}


@pytest.mark.parametrize("name", FORWARD)
def test_windows_that_move_forward_may_be_on_the_loop(name: str) -> None:
    query = sw.fixpoint(lambda r: FORWARD[name](r).union(links), schema={"a": str, "b": str})
    assert list(query.schema) == ["a", "b"]


def test_refused_when_the_plan_is_run() -> None:
    schema = {"a": str, "b": str}
    counted = sw.fixpoint(
        lambda r: r.union(links).group_by("a", "b").aggregate(n=sw.count()).select("a", "b"),
        schema=schema,
    )
    negated = sw.fixpoint(lambda r: links.join(r, on={"a": "b"}, how="anti"), schema=schema)
    for query in (counted, negated):
        with pytest.raises(PlanError, match="cannot be on the loop"):
            query.run({links: []})


def test_a_loop_within_a_loop_may_not_read_it() -> None:
    schema = {"a": str, "b": str}
    inner = sw.fixpoint(
        lambda outer: sw.fixpoint(lambda r: r.where(col("a") == "x").union(outer), schema=schema),
        schema=schema,
    )
    with pytest.raises(PlanError, match="a loop within a loop"):
        inner.run({})


def test_a_loop_that_is_read_by_another() -> None:
    """Nodes from which a source can be reached over links that are themselves closed."""
    query = sw.fixpoint(
        lambda reach: sources.union(
            reach.join(closure_set, on={"node": "b"}).select(node="a")
        ).distinct(),
        schema={"node": str},
    )
    given = {links: [*DIAMOND, cti(20)], sources: [insert(0, 10, node="d"), cti(20)]}
    for batch in (1, 3):
        out = query.run(given, batch=batch)
        assert out.as_history() == query.meaning(given)
        assert out.settled_until == 20


def test_a_body_that_does_not_read_the_loop_is_all_there_is() -> None:
    query = sw.fixpoint(lambda _: links.distinct(), schema={"a": str, "b": str})
    out = query.run({links: [*CYCLE, cti(7)]})
    assert out.as_history() == query.meaning({links: CYCLE})
    assert out.settled_until == 7


@pytest.mark.parametrize("speculation", WAYS, ids=str)
def test_a_snapshot_in_the_middle_can_be_written_and_read(speculation: Speculation) -> None:
    """Also with a guess that has lodged."""
    query = sw.fixpoint(_as_a_set, schema={"a": str, "b": str}, speculation=speculation)
    first, second = Execution(query.node), Execution(query.node)
    node = links.node
    assert isinstance(node, Source)
    first.push(node, [*CYCLE, cti(2)])
    second.restore(decode(encode(first.snapshot())))
    for execution in (first, second):
        execution.push(node, [adjust(3, 6, 4, a="y", b="x"), insert(5, 8, a="y", b="z")])
        execution.push(node, [cti(INF)])
        assert execution.output.settled_until == INF
    said = [element for batch in second.output.batches for element in batch]
    assert said == [
        element for batch in first.output.batches[-len(second.output.batches) :] for element in batch
    ]


def test_what_nobody_wants_to_see_still_leads_to_other_rows() -> None:
    running = sw.fixpoint(_as_a_set, schema={"a": str, "b": str}).open()
    running.push(links, [insert(0, 9, a="x", b="y")])
    running.ignore(sw.punctuation(b="z"))
    running.push(links, [insert(0, 9, a="y", b="z"), insert(0, 9, a="z", b="w")])
    found = {(row[0], row[1]) for row in running.output.as_history().rows()}
    assert found == {("x", "y"), ("x", "w"), ("y", "w"), ("z", "w")}


def test_a_row_without_a_value_on_the_loop_goes_to_the_ledger() -> None:
    def body(reach: sw.Query) -> sw.Query:
        number = col("b").cast(int).cast(str)
        return links.union(reach.join(links, on={"b": "a"}, suffix="_n").select(a=number, b="b_n"))

    query = sw.fixpoint(body, schema={"a": str, "b": str})
    given = [insert(0, 9, a="1", b="2"), insert(2, 5, a="2", b="3"), insert(2, 5, a="x", b="y"),
             insert(3, 9, a="y", b="z")]  # fmt: skip
    out = query.run({links: given}, on_invalid=sw.LEDGER)
    [entry] = out.ledger
    assert (entry.reason, entry.since, entry.until) == ("no value", 3, 5)
    assert {row[:2] for row in out.as_history().rows()} == {
        ("1", "2"), ("2", "3"), ("x", "y"), ("y", "z")
    }  # fmt: skip


def test_bad_settings_are_refused() -> None:
    with pytest.raises(PlanError, match="is no way to speculate"):
        sw.fixpoint(lambda r: r.union(links), schema={"a": str, "b": str}, speculation="hybrid")  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="rounds is a number"):
        sw.fixpoint(lambda r: r.union(links), schema={"a": str, "b": str}, rounds=0)
    with pytest.raises(PlanError, match="rows is a number"):
        sw.fixpoint(lambda r: r.union(links), schema={"a": str, "b": str}, rows=0)
