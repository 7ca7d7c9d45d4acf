"""Laws of consistency: under every schedule, what is marked is the answer to the prefix that it names.

Two families, as ever: methods against a recomputation from the prefix (the checker decides), and the
output of every method against the oracle in the end. Plans are those of the laws of operators, each
given a second way through: what is drawn is also joined with, or united with, itself.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from itertools import groupby
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.laws import CASES, Case

import slackwater as sw
from slackwater.consistency import Clock
from slackwater.errors import InvalidElement, InvalidStream, PlanError
from slackwater.events import Element
from slackwater.persistence import decode, encode
from slackwater.plan import nodes
from slackwater.runtime import Execution
from slackwater.runtime.output import Mark
from slackwater.testing import histories, streams
from slackwater.testing.visible import Log, State, anomalies, answer_of


def _ways(case: Case) -> dict[str, sw.Query]:
    """The plan, with a second way for what it reads."""
    query = case.query
    return {
        "alone": query,
        "and again": query.union(query.select(*query.schema.names())),
        "without itself": query.join(query, on=query.schema.names()[0], how="anti", suffix="_again"),
    }


def _is_controllable(case: Case) -> bool:
    """Plans of which every answer is that to a prefix: no loops, no merges, no clocks, nothing held."""
    return not any(map(_is_refused, nodes.walk(case.query.node)))


def _is_refused(node: nodes.Node) -> bool:
    match node:
        case nodes.Latency():
            return node.latency is not sw.EAGER
        case nodes.Align():
            return bool(node.blocking) or node.clock is Clock.SYSTEM
        case nodes.Consistency():
            return bool(node.dial.blocking) or node.dial.perfect
    return isinstance(node, nodes.Cleanse | nodes.Sort | nodes.Fixpoint | nodes.Merge)


CONTROLLED = [name for name, case in CASES.items() if _is_controllable(case())]
REFUSED = [name for name in CASES if name not in CONTROLLED]
METHODS: list[sw.levels.Method] = [
    sw.Heeding(),
    sw.Heeding(sw.Search.SCAN),
    sw.Tokens(1),
    sw.Tokens(3),
    sw.Tokens(2, in_step=True),
    sw.Tokens(sw.Adaptive(first=2, most=4)),
    sw.Drain(),
]
FEW = settings(max_examples=max(4, settings().max_examples // 50))


def _drawn(data: st.DataObject, case: Case, *, patterns: bool = False) -> dict[sw.Query, list[Element]]:
    told = {}
    for source in case.sources:
        history = data.draw(histories(source.schema, unbounded=case.unbounded))
        drawn = streams(history, unbounded=case.unbounded, adjusts=case.adjusts, patterns=patterns)
        told[source] = list(data.draw(drawn))
    return told


@pytest.mark.parametrize("name", CONTROLLED)
def test_what_is_marked_is_the_answer_to_the_prefix_that_it_names(name: str) -> None:
    case = CASES[name]()
    ways = _ways(case)

    @FEW
    @given(data=st.data())
    def law(data: st.DataObject) -> None:
        inputs = _drawn(data, case, patterns=data.draw(st.booleans()))
        query = ways[data.draw(st.sampled_from([*ways]))]
        by = data.draw(st.sampled_from(METHODS))
        schedule: Any = data.draw(
            st.one_of(st.builds(sw.Shuffled, st.integers(0, 999)), st.just(sw.RoundRobin()))
        )
        show = data.draw(st.sampled_from([sw.HELD, sw.MARKED]))
        out = query.run(inputs, batch=data.draw(st.integers(1, 3)), by=by, schedule=schedule, show=show)
        found = anomalies(
            Log.of(out, inputs), sw.INPUT_PREFIX_CONSISTENT, answer_of(query, *case.sources)
        )
        assert not found, (by, schedule, found[0])
        assert out.as_history() == query.meaning(inputs)
        if any(inputs.values()) and not isinstance(by, sw.Heeding):
            assert out.marks[-1].said == len(out)
            assert dict(out.marks[-1].offsets) == {
                source.node.stream_name: len(each)  # type: ignore[attr-defined]
                for source, each in inputs.items()
            }
        if isinstance(by, sw.Tokens):
            tokens = [mark.token for mark in out.marks]
            # what an operator is told of interest, it may promise behind the last one
            tokens = tokens[:-1] if tokens and tokens[-1] is None else tokens
            assert tokens == [*range(1, len(tokens) + 1)], "one right state for every token"

    law()


STEPS: list[sw.levels.Method] = [
    sw.Tokens(1, in_step=True),
    sw.Tokens(3, in_step=True),
    sw.Tokens(sw.Adaptive(first=2, most=4), in_step=True),
    sw.Drain(),
]


@pytest.mark.parametrize("name", CONTROLLED)
def test_inputs_that_are_kept_in_step_are_at_one_time(name: str) -> None:
    """Level 4: elements arrive in an order, and every marked state answers what had come by then."""
    case = CASES[name]()
    ways = _ways(case)

    @FEW
    @given(data=st.data())
    def law(data: st.DataObject) -> None:
        inputs = _drawn(data, case)
        query = ways[data.draw(st.sampled_from([*ways]))]
        left = {source: list(told) for source, told in inputs.items()}
        script: list[tuple[sw.Query, Element]] = []
        while any(left.values()):
            source = data.draw(st.sampled_from([each for each in left if left[each]]))
            script.append((source, left[source].pop(0)))
        batch = data.draw(st.integers(1, 3))
        out = query.run(
            script,
            batch=batch,
            level=sw.SYNCHRONIZED_INPUT_PREFIX_CONSISTENT,
            by=data.draw(st.sampled_from(STEPS)),
            schedule=sw.Shuffled(data.draw(st.integers(0, 999))),
            show=data.draw(st.sampled_from([sw.HELD, sw.MARKED])),
        )
        found = anomalies(
            Log.of(out, inputs, times=_arrivals(inputs, script, batch)),
            sw.SYNCHRONIZED_INPUT_PREFIX_CONSISTENT,
            answer_of(query, *case.sources),
        )
        assert not found, found[0]
        assert out.as_history() == query.meaning(inputs)
        assert bool(out.marks) == bool(script)

    law()


def _arrivals(
    inputs: dict[sw.Query, list[Element]], script: list[tuple[sw.Query, Element]], batch: int
) -> dict[sw.Query, list[int]]:
    """Of each element, which batch it arrived in."""
    times: dict[sw.Query, list[int]] = {source: [] for source in inputs}
    time = 0
    for source, run in groupby(script, key=lambda pair: pair[0]):
        for place, _ in enumerate(run):
            time += place % batch == 0
            times[source].append(time)
    return times


@pytest.mark.parametrize("level", [sw.UPDATE_COMPLETE, sw.INPUT_PREFIX_UPDATE_COMPLETE])
@FEW
@given(data=st.data())
def test_labels_keep_the_weaker_levels(level: sw.Level, data: st.DataObject) -> None:
    case = CASES[data.draw(st.sampled_from(CONTROLLED))]()
    query = _ways(case)["and again"]
    inputs = _drawn(data, case)
    schedule = sw.Shuffled(data.draw(st.integers(0, 999)))
    out = query.run(inputs, batch=1, level=level, by=sw.Heeding(), schedule=schedule)
    assert not anomalies(Log.of(out, inputs), level)


def _controllable_refusals() -> dict[str, sw.Query]:
    s = sw.stream({"k": int}, name="s")
    hop = {"k": int}
    return {
        "with a loop": sw.fixpoint(lambda r: s.union(r).distinct(), schema=hop),
        "with a merge": sw.merge(s, s.shift(1).shift(-1)),
        "by the clock": s.align(5, clock="system"),
        "at output latency": s.distinct().latency(sw.ORDER_PRESERVING),
        "Align holds rows back": s.align(5),
        "Align holds rows": s.distinct().consistency("strong"),
        "Cleanse holds rows back": s.cleanse(),
        "Sort holds rows back": s.sort("k"),
        "called 's'": s.union(sw.stream({"k": int}, name="s")),
    }


@pytest.mark.parametrize("why", _controllable_refusals())
def test_what_cannot_keep_a_level_is_refused(why: str) -> None:
    query = _controllable_refusals()[why]
    with pytest.raises(PlanError, match=why):
        query.run([], by=sw.Tokens(1))


def _by_groups() -> dict[str, Callable[[sw.Query], sw.Query]]:
    hop = {"v": int}
    return {
        "with a loop": lambda g: sw.fixpoint(lambda r: g.select("v").union(r).distinct(), schema=hop),
        "with a merge": lambda g: sw.merge(g, g.shift(1).shift(-1)),
        "Align goes by the clock": lambda g: g.align(5, clock="system"),
        "Finalize goes by the clock": lambda g: g.finalize(5, clock="system"),
        "at output latency": lambda g: g.distinct().latency(sw.ORDER_PRESERVING),
        "Sort holds rows back": lambda g: g.sort("v"),
    }


@pytest.mark.parametrize("why", _by_groups())
def test_what_is_done_group_by_group_is_looked_at_as_well(why: str) -> None:
    s = sw.stream({"k": int, "v": int}, name="s")
    query = s.group_by("k").apply(_by_groups()[why])
    with pytest.raises(PlanError, match=why):
        query.run([], by=sw.Tokens(1))
    if why == "with a loop":
        assert query.open(level=sw.INPUT_PREFIX_CONSISTENT).output.marks == []
        return
    with pytest.raises(PlanError, match=why):
        query.open(level=sw.INPUT_PREFIX_CONSISTENT)


def test_a_dial_that_remembers_by_the_clock_is_refused() -> None:
    s = sw.stream({"k": int}, name="s")
    query = s.distinct().consistency(memory=5, clock="system")
    with pytest.raises(PlanError, match="Finalize goes by the clock"):
        query.run([], by=sw.Tokens(1))
    with pytest.raises(PlanError, match="Finalize goes by the clock"):
        query.open(level=sw.INPUT_PREFIX_CONSISTENT)


@pytest.mark.parametrize("name", REFUSED)
def test_all_others_are_refused(name: str) -> None:
    with pytest.raises(PlanError, match=r"a (schedule for|level of consistency)"):
        CASES[name]().query.run([], by=sw.Tokens(1))


def test_a_dial_that_holds_nothing_back_is_not_refused() -> None:
    """Without state there is nothing to wait for (placement)."""
    s = sw.stream({"k": int}, name="s")
    for query in (s.where(sw.col("k") > 0).consistency("strong"), s.distinct().consistency("middle")):
        out = query.run({s: [sw.insert(0, 9, k=1)]}, by=sw.Tokens(1))
        assert [mark.said for mark in out.marks] == [1]


def test_what_holds_rows_back_may_take_turns() -> None:
    """A schedule alone claims nothing of prefixes."""
    s = sw.stream({"k": int}, name="s")
    told = [sw.insert(3, 9, k=1), sw.insert(1, 9, k=2), sw.cti(20)]
    for query in (s.align(5), s.sort("k"), s.distinct().latency(sw.ORDER_PRESERVING)):
        out = query.run({s: told}, batch=1, schedule=sw.Shuffled(1))
        assert out.as_history() == query.meaning({s: told})
        assert not out.marks


def test_what_a_short_memory_gives_up_is_missing_in_marked_states_as_it_is_when_drained() -> None:
    s = sw.stream({"k": int}, name="s")
    query = s.finalize(3).aggregate(n=sw.count())
    told = [sw.insert(t, t + 3, k=t) for t in (1, 4, 12, 2, 14, 5)]
    out = query.run({s: told}, batch=1, by=sw.Tokens(2), schedule=sw.Shuffled(1))
    assert len(out.ledger)
    assert out.as_history() != query.meaning({s: told})
    assert [mark.offsets["s"] for mark in out.marks] == [2, 4, 6]
    for mark in out.marks:
        assert out.until(mark) == query.run({s: told[: mark.offsets["s"]]}, batch=1).as_history()


@pytest.mark.parametrize(
    "asked",
    [
        {"level": sw.SYNCHRONIZED_INPUT_PREFIX_CONSISTENT, "by": sw.Heeding()},
        {"level": sw.SYNCHRONIZED_INPUT_PREFIX_CONSISTENT, "by": sw.Tokens(5)},
        {"level": sw.NO_LEVEL, "by": sw.Tokens(5)},
        {"by": 5},
    ],
    ids=str,
)
def test_levels_that_a_method_cannot_keep_are_refused(asked: dict[str, Any]) -> None:
    s = sw.stream({"k": int}, name="s")
    with pytest.raises(PlanError) as refused:
        s.distinct().run({s: []}, **asked)
    assert refused.value.detail
    assert refused.value.hint


def test_periods_that_are_none_are_refused() -> None:
    for every in (0, -1, 1.5, "often"):
        with pytest.raises(PlanError, match="between two tokens"):
            sw.Tokens(every)  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="between the least and the most"):
        sw.Adaptive(first=5, least=10)
    for first in (4.5, "few"):
        with pytest.raises(PlanError, match="whole numbers"):
            sw.Adaptive(first=first)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("made", "fact"),
    [
        (lambda: sw.Heeding("multiset"), "not a way to search"),  # type: ignore[arg-type]
        (lambda: sw.Heeding("scan"), "not a way to search"),  # type: ignore[arg-type]
        (lambda: sw.Heeding(True), "not a way to search"),  # type: ignore[arg-type]
        (lambda: sw.Tokens(True), "between two tokens"),
        (lambda: sw.Tokens(5, in_step="no"), "in step, or they are not"),  # type: ignore[arg-type]
        (lambda: sw.Tokens(5, 1), "in step, or they are not"),  # type: ignore[arg-type]
        (lambda: sw.Adaptive(first=True), "whole numbers"),
        (lambda: sw.RoundRobin(0), "one batch or more"),
        (lambda: sw.RoundRobin("many"), "one batch or more"),  # type: ignore[arg-type]
        (lambda: sw.Shuffled(None), "a whole number"),  # type: ignore[arg-type]
        (lambda: sw.Shuffled([1]), "a whole number"),  # type: ignore[arg-type]
    ],
)
def test_settings_that_are_none_are_refused_when_they_are_written(
    made: Callable[[], object], fact: str
) -> None:
    with pytest.raises(PlanError, match=fact) as refused:
        made()
    assert refused.value.detail
    assert refused.value.hint or "least" in refused.value.detail


@pytest.mark.parametrize(
    ("asked", "fact"),
    [
        ({"show": sw.MARKED}, "no level of consistency is asked for"),
        ({"show": "held", "schedule": sw.RoundRobin()}, "no level of consistency is asked for"),
        ({"show": sw.MARKED, "level": sw.NO_LEVEL}, "no level of consistency is asked for"),
        ({"show": "at once", "by": sw.Tokens(1)}, "'at once' is not one of 'held', 'marked'"),
        ({"by": sw.Tokens}, "is not a way to keep a level"),
        ({"by": sw.Tokens(1), "schedule": sw.RoundRobin}, "not a schedule"),
        ({"by": sw.Tokens(1), "schedule": "round robin"}, "not a schedule"),
        ({"level": "right"}, "not one of"),
    ],
    ids=str,
)
def test_what_is_asked_of_a_run_is_looked_at_first(asked: dict[str, Any], fact: str) -> None:
    s = sw.stream({"k": int}, name="s")
    with pytest.raises(PlanError, match=fact):
        s.distinct().run({s: []}, **asked)


def test_what_is_promised_behind_the_last_token_is_shown_as_well() -> None:
    """The join has no use for the right input any more, and says so: then none of it is promised."""
    known = sw.StreamProperties(insert_only=True)
    s, left, right = (sw.stream({"k": int}, name=name, properties=known) for name in ("s", "l", "r"))
    query = s.union(left.join(right.select(k="k"), on="k").select("k"))
    inputs: dict[sw.Query, list[Element]] = {
        right: [],
        s: [sw.insert(0, 1, k=1), sw.cti(sw.INF)],
        left: [sw.cti(sw.INF)],
    }
    for by in (sw.Tokens(1), sw.Tokens(1, in_step=True), sw.Heeding(), sw.Drain()):
        for seed in range(6):
            for show in (sw.HELD, sw.MARKED):
                out = query.run(inputs, batch=1, by=by, schedule=sw.Shuffled(seed), show=show)
                assert out.settled_until == sw.INF
                assert out.marks[-1].said == len(out) == 2
                if not isinstance(by, sw.Heeding):
                    assert out.marks[-1].offsets == {"s": 2, "l": 1, "r": 0}


def test_a_mark_of_another_output_is_refused() -> None:
    s = sw.stream({"k": int}, name="s")
    told = [sw.insert(t, 9, k=t) for t in range(4)]
    short, long = (s.run({s: each}, by=sw.Tokens(1)) for each in (told[:2], told))
    with pytest.raises(PlanError, match="not a state of this output"):
        short.until(long.marks[-1])


def test_how_it_is_shown_may_be_written_as_a_word() -> None:
    s = sw.stream({"k": int}, name="s")
    told = [sw.insert(t, 9, k=t) for t in range(4)]
    late = told[::-1]
    changes = {
        show: s.run({s: late}, batch=1, by=sw.Tokens(4), show=show).corrections  # type: ignore[arg-type]
        for show in ("held", "marked")
    }
    assert changes == {"held": 0, "marked": 3}, "what is held comes as one batch"


@pytest.mark.parametrize("name", CONTROLLED)
def test_every_state_after_a_push_is_the_answer_to_what_was_pushed(name: str) -> None:
    """In step too: pushes are one clock."""
    case = CASES[name]()
    ways = _ways(case)

    @FEW
    @given(data=st.data())
    def law(data: st.DataObject) -> None:
        inputs = _drawn(data, case)
        query = ways[data.draw(st.sampled_from([*ways]))]
        running = query.open(level=sw.SYNCHRONIZED_INPUT_PREFIX_CONSISTENT)
        left = {source: list(told) for source, told in inputs.items()}
        times: dict[sw.Query, list[int]] = {source: [] for source in inputs}
        clock = 0
        while any(left.values()):
            source = data.draw(st.sampled_from([each for each in left if left[each]]))
            some = data.draw(st.integers(1, 3))
            clock += 1
            times[source] += [clock] * len(left[source][:some])
            running.push(source, left[source][:some])
            del left[source][:some]
        out = running.output
        assert len(out.marks) == clock
        found = anomalies(
            Log.of(out, inputs, times=times),
            sw.SYNCHRONIZED_INPUT_PREFIX_CONSISTENT,
            answer_of(query, *case.sources),
        )
        assert not found, found[0]

    law()


def _not_after_a_push() -> dict[str, tuple[sw.Query, dict[str, Any]]]:
    s, t = (sw.stream({"k": int}, name=name) for name in "st")
    return {
        "with a merge": (sw.merge(s, t), {}),
        "by the clock": (s.align(5, clock="system"), {}),
        "Sort holds rows back": (s.sort("k"), {}),
        "at output latency": (s.distinct().latency(sw.ORDER_PRESERVING), {}),
        "can be turned": (s.distinct(), {"turnable": True}),
        "called 's'": (s.union(sw.stream({"k": int}, name="s")), {}),
    }


@pytest.mark.parametrize("why", _not_after_a_push())
def test_a_query_that_is_opened_refuses_a_level_that_it_cannot_keep(why: str) -> None:
    query, asked = _not_after_a_push()[why]
    with pytest.raises(PlanError, match=why):
        query.open(level=sw.INPUT_PREFIX_CONSISTENT, **asked)
    assert query.open(**asked).output.marks == []


@pytest.mark.parametrize("by", [sw.Tokens(1), sw.Drain(), sw.Heeding()], ids=repr)
def test_promises_that_stand_together_count_one_by_one(by: Any) -> None:
    """An offset is a number of elements as their reader has them; so is what had been said."""
    s = sw.stream({"k": int}, name="s")
    query = s.distinct()
    closed = [sw.punctuation(5, k=k) for k in range(6)]
    told = [sw.insert(1, 3, k=3), *closed, sw.insert(6, 9, k=9)]
    # what another query says has them in one
    [batch] = s.open().push(s, told[:7])
    assert (len(batch), batch.elements, len(list(batch))) == (2, 7, 7)
    parts = [batch, sw.Batch.of(told[7:], s.schema)]
    out = query.run({s: sw.Batch.concat(parts)}, batch=3, by=by, show=sw.MARKED)
    running = query.open(level=sw.INPUT_PREFIX_CONSISTENT)
    for part in parts:
        running.push(s, part)
    assert [mark.offsets["s"] for mark in running.output.marks] == [7, 8]
    for said in (out, running.output):
        log = Log.of(said, {s: told})
        assert len(said) == len(list(said)) == len(told)
        assert log.visible[-1] == State(8, {"s": 8})
        assert not anomalies(log, sw.INPUT_PREFIX_CONSISTENT, answer_of(query, s))
        for mark in said.marks:
            assert said.until(mark) == query.meaning({s: told[: mark.offsets["s"]]})
    halves = [running.output.until(Mark(said, {})).rows() for said in (0, 1, 5, 7, 8)]
    assert halves == [[], *[[(3, 1, 3)]] * 3, [(3, 1, 3), (9, 6, 9)]]


@pytest.mark.parametrize("by", [*METHODS, None], ids=repr)
def test_what_is_set_aside_counts_in_offsets_and_not_in_the_answer(by: Any) -> None:
    """What breaks a rule is an element of its stream, and has a place in it."""
    s = sw.stream({"k": int}, name="s")
    query = s.distinct().union(s.aggregate(k=sw.sum("k")))
    told = [
        sw.insert(0, 9, k=1),
        sw.adjust(3, 9, 4, k=7),
        sw.insert(1, 9, k=2),
        sw.cti(5),
        sw.insert(2, 9, k=3),
        sw.insert(6, 9, k=4),
    ]
    for seed in range(4):
        if by is None:
            running = query.open(level=sw.INPUT_PREFIX_CONSISTENT, on_invalid=sw.LEDGER)
            for element in told:
                running.push(s, [element])
            out = running.output
        else:
            out = query.run({s: told}, batch=1, by=by, schedule=sw.Shuffled(seed), on_invalid=sw.LEDGER)
        assert [entry.element for entry in out.ledger] == [told[1], told[4]]
        assert out.marks[-1].offsets == {"s": 6}
        log = Log.of(out, {s: told})
        answer = answer_of(query, s, on_invalid=sw.LEDGER)
        assert not anomalies(log, sw.INPUT_PREFIX_CONSISTENT, answer)
        with pytest.raises(InvalidStream):
            anomalies(log, sw.INPUT_PREFIX_CONSISTENT, answer_of(query, s))


def test_what_does_not_fit_the_columns_is_no_element_of_a_stream() -> None:
    s = sw.stream({"k": int}, name="s")
    told = [sw.insert(1, 3, z=1), sw.insert(1, 3, k=1), sw.punctuation(20, q=3), sw.insert(3, 4, k=3)]
    out = s.run({s: told}, batch=1, by=sw.Tokens(1), on_invalid=sw.LEDGER)
    assert len(out.ledger) == 2
    assert [mark.offsets["s"] for mark in out.marks] == [1, 2]


def test_who_goes_on_from_a_snapshot_goes_on_counting() -> None:
    s, t = (sw.stream({"k": int}, name=name) for name in "st")
    query = s.join(t, on="k").aggregate(n=sw.count())
    script = [(source, sw.insert(n, 9, k=n % 2)) for n in range(4) for source in (s, t)]
    level, said, offsets = sw.INPUT_PREFIX_CONSISTENT, list[Element](), list[dict[str, int]]()
    execution = Execution(query.node, level=level)
    for source, element in script:
        state = decode(encode(execution.snapshot()))
        execution = Execution(query.node, level=level)
        execution.restore(state)
        assert isinstance(source.node, nodes.Source)
        execution.push(source.node, [element])
        [mark] = execution.output.marks
        said += execution.output
        offsets.append(dict(mark.offsets))
        prefix = {each: [e for of, e in script[: len(offsets)] if of is each] for each in (s, t)}
        assert offsets[-1] == {"s": len(prefix[s]), "t": len(prefix[t])}
        assert sw.History.of(said, query.schema) == query.meaning(prefix)
    without = Execution(query.node)
    without.restore(state)
    with pytest.raises(PlanError, match="not in the snapshot"):
        Execution(query.node, level=level).restore(without.snapshot())


def test_what_is_of_no_interest_any_more_would_be_missing_in_marked_states() -> None:
    s = sw.stream({"k": int}, name="s")
    running = s.distinct().open(level=sw.INPUT_PREFIX_CONSISTENT)
    with pytest.raises(PlanError, match="no longer of interest") as refused:
        running.ignore(sw.punctuation(k=2))
    assert refused.value.detail
    assert refused.value.hint
    running.push(s, [sw.insert(0, 9, k=2)])
    assert [mark.said for mark in running.output.marks] == [1], "and it goes on"


def test_a_loop_is_the_answer_to_what_was_pushed() -> None:
    s = sw.stream({"a": int, "b": int}, name="s")
    ways = sw.fixpoint(
        lambda r: s.union(r.join(s, on={"b": "a"}, suffix="_2").select("a", b="b_2")).distinct(),
        schema={"a": int, "b": int},
    )
    running = ways.open(level=sw.INPUT_PREFIX_CONSISTENT)
    told = [sw.insert(0, 9, a=1, b=2), sw.insert(2, 9, a=2, b=3), sw.insert(3, 7, a=3, b=1)]
    for element in told:
        running.push(s, iter([element]))
    assert [mark.offsets["s"] for mark in running.output.marks] == [1, 2, 3]
    for mark in running.output.marks:
        assert running.output.until(mark) == ways.meaning({s: told[: mark.offsets["s"]]})


def test_a_period_may_be_any_whole_number() -> None:
    s = sw.stream({"k": int}, name="s")
    out = s.run({s: [sw.insert(t, 9, k=t) for t in range(4)]}, batch=1, by=sw.Tokens(np.int64(2)))  # type: ignore[arg-type]
    assert [mark.said for mark in out.marks] == [2, 4]


@pytest.mark.parametrize(
    "state",
    [
        State(3),
        State(-1),
        State(1.0),  # type: ignore[arg-type]
        State("1"),  # type: ignore[arg-type]
        State(1, {"s": 3}),
        State(1, {"s": -1}),
        State(1, {}),
        State(1, {"t": 1}),
        State(1, {"s": True}),
        State(1, {"s": None}),  # type: ignore[dict-item]
        State(1, {"s": "1"}),  # type: ignore[dict-item]
    ],
)
def test_a_log_that_contradicts_itself_is_refused(state: State) -> None:
    s = sw.stream({"k": int}, name="s")
    told = [sw.insert(0, 9, k=1), sw.insert(1, 9, k=2)]
    with pytest.raises(PlanError, match="log") as refused:
        anomalies(Log({"s": told}, told, [state]), sw.INPUT_PREFIX_CONSISTENT, answer_of(s, s))
    assert refused.value.detail
    assert refused.value.hint


def test_a_log_may_come_from_anywhere() -> None:
    """Numbers of NumPy, what can be read once only, a batch; and a level may be a word."""
    s = sw.stream({"k": int}, name="s")
    told = [sw.insert(0, 9, k=1), sw.insert(1, 9, k=2)]
    states = [State(1, {"s": np.int64(1)}), State(1, {"s": np.int64(2)})]  # type: ignore[dict-item]
    log = Log({"s": told}, sw.Batch.of(told, s.schema), iter(states))  # type: ignore[arg-type]
    [found] = anomalies(log, "input-prefix consistent", answer_of(s, s))  # type: ignore[arg-type]
    assert found.state == states[1]


@pytest.mark.parametrize("level", [None, "right", 4])
def test_what_is_no_level_is_not_kept_by_every_log(level: Any) -> None:
    s = sw.stream({"k": int}, name="s")
    with pytest.raises(PlanError, match="not a level"):
        anomalies(Log({"s": []}, [sw.insert(0, 9, k=1)], [State(1)]), level, answer_of(s, s))


@pytest.mark.parametrize("offsets", [None, {"s": 2}])
def test_what_takes_back_what_was_not_there_is_an_anomaly(offsets: Any) -> None:
    """Some systems say it in another order, or twice: then no state behind it is right."""
    s = sw.stream({"k": int}, name="s")
    told = [sw.insert(0, 9, k=1), sw.adjust(0, 9, 0, k=1)]
    answer, level = answer_of(s, s), sw.INPUT_PREFIX_CONSISTENT
    states = [State(n) for n in range(3)] + [State(3, offsets)]
    [found] = anomalies(Log({"s": told}, [*told, told[1]], states), level, answer)
    assert (found.state.said, "not the answer to anything" in found.why) == (3, True)
    turned = Log({"s": told}, told[::-1], states[:3])
    assert [each.state.said for each in anomalies(turned, level, answer)] == [1, 2]
    # columns that the answer does not have are a mistake in how the log was read
    with pytest.raises(InvalidElement, match="unknown column"):
        anomalies(Log({"s": told}, [sw.insert(0, 9, z=1)], [State(1, offsets)]), level, answer)


def test_arrivals_may_be_counted_from_0() -> None:
    inputs: dict[str, list[Element]] = {"s": [sw.insert(0, 9, k=1)], "t": [sw.insert(1, 9, k=2)]}
    said = [*inputs["s"], *inputs["t"], *inputs["t"]]
    log = Log(inputs, said, [State(n) for n in range(4)], origins=[("s", 0), ("t", 0), ("t", 0)])
    found = anomalies(log, sw.INPUT_PREFIX_UPDATE_COMPLETE)
    assert [each.state.said for each in found] == [2]


def test_a_log_of_other_inputs_than_the_answer_is_refused() -> None:
    s, t = (sw.stream({"k": int}, name=name) for name in "st")
    log, level = Log({"s": []}, [], [State(0)]), sw.INPUT_PREFIX_CONSISTENT
    for answer in (answer_of(t, t), answer_of(s.union(t), s, t), answer_of(s)):
        with pytest.raises(PlanError, match="other inputs"):
            anomalies(log, level, answer)


def test_times_that_go_back_are_refused() -> None:
    s = sw.stream({"k": int}, name="s")
    told = [sw.insert(0, 9, k=1), sw.insert(1, 9, k=2)]
    log = Log({"s": told}, told, [State(1, {"s": 1})], {"s": [2, 1]})
    with pytest.raises(PlanError, match="go back"):
        anomalies(log, sw.SYNCHRONIZED_INPUT_PREFIX_CONSISTENT, answer_of(s, s))


def test_inputs_are_at_one_time_only_if_it_is_said_of_every_element() -> None:
    s = sw.stream({"k": int}, name="s")
    told = [sw.insert(0, 9, k=1), sw.insert(1, 9, k=2)]
    level, answer = sw.SYNCHRONIZED_INPUT_PREFIX_CONSISTENT, answer_of(s, s)
    for times in ({}, {"s": [1]}):
        with pytest.raises(PlanError, match="not known"):
            anomalies(Log({"s": told}, told, [State(1, {"s": 1})], times), level, answer)
    assert not anomalies(Log({"s": told}, told, [State(1, {"s": 1})], {"s": [1, 2]}), level, answer)
    assert anomalies(Log({"s": told}, told, [State(1, {"s": 1})], {"s": [1, 1]}), level, answer)
    assert anomalies(Log({"s": told}, told, [State(1, {"s": 2})], {"s": [1, 2]}), level, answer)


def test_inputs_and_their_times_may_be_read_once_only_and_times_be_datetimes() -> None:
    s = sw.stream({"k": int}, name="s")
    told = [sw.insert(0, 9, k=1), sw.insert(1, 9, k=2)]
    level, answer = sw.SYNCHRONIZED_INPUT_PREFIX_CONSISTENT, answer_of(s, s)
    begun = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    states = [State(0), State(1), State(1, {"s": 1}), State(2, {"s": 2})]
    for times, wrong in {
        (begun, begun + dt.timedelta(seconds=1)): [],
        (begun, begun): states[1:3],
    }.items():
        log = Log({"s": iter(told)}, told, states, {"s": iter(times)})  # type: ignore[dict-item]
        assert [each.state for each in anomalies(log, level, answer)] == wrong


def test_of_an_output_without_marks_every_state_was_seen() -> None:
    """Else whatever it shows would pass."""
    s = sw.stream({"k": int}, name="s")
    query = s.union(s.select(k=sw.col("k") + 1))
    told = [sw.insert(0, 9, k=1)]
    out = query.run({s: told}, schedule=sw.Shuffled(1))
    with pytest.raises(PlanError, match="no state of this output is marked") as refused:
        Log.of(out, {s: told})
    assert refused.value.hint
    found = anomalies(
        Log.of(out, {s: told}, every=True), sw.INPUT_PREFIX_CONSISTENT, answer_of(query, s)
    )
    assert [each.state.said for each in found] == [1]
    nothing = query.run({s: []}, schedule=sw.Shuffled(1))
    assert not anomalies(Log.of(nothing, {s: []}), sw.INPUT_PREFIX_CONSISTENT, answer_of(query, s))
