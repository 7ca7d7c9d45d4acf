"""Finalize over disordered streams: by hand, then any stream in any order against slow definitions."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.laws import Case, Trial

import slackwater as sw
from slackwater.events import Element
from slackwater.identity import identity
from slackwater.operators import links
from slackwater.operators.mend import Mend
from slackwater.plan.nodes import Finalize, Node, walk
from slackwater.plan.placement import placed
from slackwater.testing import ManualClock, batchings, histories, streams

# make room often
links.LEAST_ROOM = 1

S = sw.stream({"a": int}, name="s", disordered=True)
Data: TypeAlias = sw.Insert | sw.Adjust


def _said(running: sw.RunningQuery, *elements: Element) -> list[Element]:
    return [element for batch in running.push(S, list(elements)) for element in batch]


def _ledger(out: sw.Output) -> list[tuple[object, str, str, tuple[int | None, int | None]]]:
    return [(e.element, e.reason, e.detail, (e.since, e.until)) for e in out.ledger]


# By hand


def test_table_5_step_by_step() -> None:
    """Erratum 15: event 1 has sync 8, so that 4 events lie in [0, 8)."""
    node = S.finalize("inf").node
    assert isinstance(node, Finalize)
    step = Mend(node)
    state = step.open()
    # the paper's time begins at 0
    step.on_punctuation(state, 0, sw.cti(0))

    def arrives(element: Element) -> list[Element]:
        if isinstance(element, sw.ExternalCti):
            answer = step.on_external_cti(state, 0, element)
        else:
            answer = step.on_batch(state, 0, sw.Batch.of([element], node.schema))
        new = [promise for promise in answer.promises if promise.before > 0]
        return [*(answer.rows or ()), *new]

    def broken() -> list[Element]:
        return list(state.links.waiting())

    def received() -> list[int]:
        return sorted(time for run in state.counting.runs for time in run.tolist())

    assert arrives(sw.adjust(0, 10, 8, a=0)) == []
    assert broken() == [sw.adjust(0, 10, 8, a=0)]
    assert received() == [8]

    assert arrives(sw.adjust(0, 6, 4, a=0)) == []
    assert broken() == [sw.adjust(0, 10, 8, a=0), sw.adjust(0, 6, 4, a=0)]
    assert received() == [4, 8]

    assert arrives(sw.adjust(0, 8, 6, a=0)) == []
    assert broken() == [sw.adjust(0, 10, 4, a=0)]
    assert received() == [4, 6, 8]

    assert arrives(sw.insert(0, 10, a=0)) == [sw.insert(0, 4, a=0)]
    assert broken() == []
    assert list(state.links.shown()) == [sw.insert(0, 4, a=0)]
    assert received() == [0, 4, 6, 8]

    assert arrives(sw.external_cti(8, 4, since=0)) == []
    [n] = state.counting.intervals
    assert (n.start, n.end, n.expected, state.counting.seen(n)) == (0, 8, 4, 3)

    assert arrives(sw.insert(1, 5, a=1)) == [sw.insert(1, 5, a=1), sw.cti(8)]
    assert state.counting.intervals == []
    assert received() == [8]
    assert list(state.links.shown()) == []


def test_an_insert_is_kept_until_its_end_is_behind_the_promise() -> None:
    """Erratum 15: by its start alone, [0, 100) would lose its legal retraction after cti 8."""
    running = S.finalize("inf").open()
    assert _said(running, sw.insert(0, 100, a=1), sw.external_cti(8, 1)) == [
        sw.insert(0, 100, a=1),
        sw.cti(8),
    ]
    assert _said(running, sw.adjust(0, 100, 8, a=1)) == [sw.adjust(0, 100, 8, a=1)]


def test_a_count_waits_for_all_before_it_and_then_abutting_ones_advance_together() -> None:
    running = S.finalize("inf").open()
    assert _said(running, sw.external_cti(9, 1, since=5), sw.insert(5, 6, a=1)) == [sw.insert(5, 6, a=1)]
    assert _said(running, sw.external_cti(20, 0, since=9)) == []
    assert _said(running, sw.external_cti(3, 0)) == [sw.cti(3)]
    assert _said(running, sw.external_cti(5, 1, since=3)) == []
    assert _said(running, sw.insert(4, 6, a=1)) == [sw.insert(4, 6, a=1), sw.cti(20)]


def test_a_promise_waits_for_chains_that_reach_behind_it() -> None:
    """12->10 has sync 10: both elements before 9 are there, and one of them cannot be said yet."""
    running = S.finalize("inf").open()
    elements = [sw.insert(0, 12, a=1), sw.adjust(0, 10, 8, a=1), sw.external_cti(9, 2)]
    assert _said(running, *elements) == [sw.insert(0, 12, a=1), sw.cti(8)]
    assert _said(running, sw.adjust(0, 12, 10, a=1)) == [sw.adjust(0, 12, 8, a=1), sw.cti(9)]


def test_a_chain_that_comes_back_to_an_end_does_not_wait_for_ever() -> None:
    """10->6 may be taken for the first change of [0, 10): then 10->8->10 is a loop, and is left out."""
    running = S.finalize("inf").open()
    assert _said(running, sw.insert(0, 10, a=1), sw.adjust(0, 10, 6, a=1)) == [
        sw.insert(0, 10, a=1),
        sw.adjust(0, 10, 6, a=1),
    ]
    loop = [sw.adjust(0, 8, 10, a=1), sw.adjust(0, 10, 8, a=1)]
    assert _said(running, *loop, sw.external_cti(None, 4)) == [sw.cti(None)]
    assert len(running.output.ledger) == 0


def test_an_insert_that_meets_its_removal_is_not_said() -> None:
    running = S.finalize("inf").open()
    assert _said(running, sw.adjust(3, 9, 3, a=1)) == []
    assert _said(running, sw.insert(3, 9, a=1)) == []
    assert _said(running, sw.insert(3, 9, a=1)) == [sw.insert(3, 9, a=1)]


def test_what_nothing_can_lead_to_any_more_is_unlinked() -> None:
    running = S.finalize("inf").open()
    lost = sw.adjust(0, 7, 9, a=1)
    assert _said(running, lost, sw.external_cti(7, 0)) == [sw.cti(7)]
    assert _said(running, sw.external_cti(8, 1)) == [sw.cti(8)]
    assert _ledger(running.output) == [
        (lost, "unlinked", "nothing before 8 leads to what it continues", (7, 9))
    ]
    # nor is what continues it
    assert _said(running, sw.adjust(0, 9, 12, a=1)) == []
    assert [entry.reason for entry in running.output.ledger] == ["unlinked", "forgotten"]


def test_what_waits_behind_the_limit_is_forgotten_from_there_on() -> None:
    running = S.finalize(5).open()
    _said(running, sw.adjust(6, 20, 18, a=1), sw.adjust(6, 18, 9, a=1), sw.adjust(6, 9, 7, a=1))
    assert _said(running, sw.insert(15, 99, a=2)) == [sw.insert(15, 99, a=2), sw.cti(10)]
    why = "what it continues did not come before 10 was the limit"
    assert _ledger(running.output) == [
        (sw.adjust(6, 9, 7, a=1), "forgotten", why, (7, 9)),
        (sw.adjust(6, 18, 9, a=1), "forgotten", why, (9, 18)),
    ]
    # 20->18 still waits; the insert is behind the limit itself, and takes it along
    assert _said(running, sw.insert(6, 20, a=1)) == []
    assert _ledger(running.output)[2:] == [
        (
            sw.insert(6, 20, a=1),
            "forgotten",
            "it came behind 10",
            (6, 20),
        ),
        (
            sw.adjust(6, 20, 18, a=1),
            "forgotten",
            "it continues what was given up",
            (18, 20),
        ),
    ]


def test_late_elements_count() -> None:
    """What the memory gives up was counted by the source all the same."""
    running = S.finalize(5).open()
    _said(running, sw.external_cti(18, 3), sw.insert(15, 16, a=1), sw.insert(17, 18, a=2))
    assert running.output.settled_until == 12
    assert _said(running, sw.insert(3, 4, a=3)) == [sw.cti(18)]
    assert [entry.element for entry in running.output.ledger] == [sw.insert(3, 4, a=3)]


def test_a_count_goes_on_from_a_part_that_the_memory_left_incomplete() -> None:
    running = S.finalize(5).open()
    assert _said(running, sw.external_cti(10, 7)) == []
    assert _said(running, sw.insert(15, 16, a=1)) == [sw.insert(15, 16, a=1), sw.cti(10)]
    assert _said(running, sw.external_cti(16, 8)) == [sw.cti(16)]


def test_a_count_of_what_was_forgotten_is_forgotten() -> None:
    out = S.finalize("inf").run({S: [sw.cti(6), sw.external_cti(8, 1, since=5)]}, batch=1)
    assert _ledger(out) == [
        (
            sw.external_cti(8, 1, since=5),
            "forgotten",
            "what came before 6 is not counted any more",
            (None, None),
        )
    ]


# What counts contradict


def test_an_element_too_many_breaks_the_promise() -> None:
    elements = [sw.external_cti(8, 0), sw.insert(3, 9, a=1)]
    with pytest.raises(sw.OperatorError, match=r"insert\(3, 9, a=1\) breaks the promise cti\(8\)"):
        S.finalize("inf").run({S: elements}, batch=1)
    out = S.finalize("inf").run({S: elements}, batch=1, on_invalid=sw.LEDGER)
    assert list(out) == [sw.cti(8)]
    assert out.ledger.counts() == {"promise broken": 1}


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ([sw.external_cti(8, 2), sw.external_cti(8, 3)], "more or fewer elements"),
        ([sw.external_cti(8, 2), sw.external_cti(9, 1)], "more or fewer elements"),
        ([sw.external_cti(8, 2), sw.external_cti(5, 3)], r"it contradicts 2 elements in \[BEGIN, 8\)"),
        ([sw.external_cti(8, 2, since=0), sw.external_cti(9, 2, since=4)], r"it overlaps \[0, 8\)"),
        ([sw.insert(0, 9, a=1), sw.insert(0, 9, a=1), sw.external_cti(8, 1)], "2 elements of it have"),
    ],
)
def test_counts_that_cannot_be_are_refused(told: list[Element], why: str) -> None:
    with pytest.raises(sw.OperatorError) as refusal:
        S.finalize("inf").run({S: told}, batch=1)
    assert refusal.match("cannot be used")
    assert refusal.match(why)
    out = S.finalize("inf").run({S: told}, batch=1, on_invalid=sw.LEDGER)
    assert out.ledger.counts() == {"count contradicted": 1}


def test_external_ctis_are_checked_when_they_are_made() -> None:
    with pytest.raises(sw.InvalidElement, match="must end after it starts"):
        sw.external_cti(3, 1, since=3)
    with pytest.raises(sw.InvalidElement, match="-1 is not a number of elements"):
        sw.external_cti(3, -1)


# Where


def test_only_a_disordered_stream_may_send_them() -> None:
    s = sw.stream({"a": int}, name="plain")
    with pytest.raises(sw.InvalidElement, match=r"plain: .* not declared disordered"):
        s.run({s: [sw.external_cti(8, 0)]})
    out = s.run({s: [sw.external_cti(8, 0), sw.cti(3)]}, on_invalid=sw.LEDGER)
    assert list(out) == [sw.cti(3)]
    assert [entry.element for entry in out.ledger] == [sw.external_cti(8, 0)]


def test_a_disordered_stream_cannot_be_declared_to_be_in_order() -> None:
    with pytest.raises(sw.PlanError, match="can only be declared insert_only or never_lengthens"):
        sw.stream({"a": int}, disordered=True, properties=sw.StreamProperties(ordered=True))


def test_projections_pass_everything_on_as_it_comes() -> None:
    doubled = S.select(b=sw.col("a") * 2).consistency("strong")
    elements = [sw.external_cti(8, 2), sw.adjust(0, 9, 4, a=1), sw.insert(0, 9, a=1)]
    running = doubled.open()
    assert _said(running, *elements[:2]) == [sw.external_cti(8, 2), sw.adjust(0, 9, 4, b=2)]
    with pytest.raises(sw.InvalidStream, match="adjusts an event that has not come"):
        running.output.as_history()
    assert _said(running, elements[2]) == [sw.insert(0, 9, b=2)]
    assert running.output.as_history() == doubled.meaning({S: elements})
    assert running.output.as_history().rows() == [(2, 0, 4)]


def _outline(query: sw.Query) -> str:
    def show(node: Node) -> str:
        inner = f"({', '.join(map(show, node.inputs))})" if node.inputs else ""
        settings = f" {node.describe()}" if isinstance(node, Finalize) else ""
        return f"{node.name}{settings}{inner}"

    return show(placed(query.node))


def test_where_a_disordered_source_is_mended() -> None:
    positive = S.where(sw.col("a") > 0)
    plain = sw.stream({"a": int}, name="plain")
    mended = "Finalize memory=INF(Source)"
    assert _outline(S.select(b="a")) == "Select(Source)"
    assert _outline(S.select(b="a").finalize(3)) == "Finalize memory=3(Select(Source))"
    assert _outline(positive) == f"Where({mended})"
    assert _outline(S.shift(2)) == f"AlterLifetime({mended})"
    assert _outline(S.union(plain)) == f"Union({mended}, Source)"
    assert _outline(S.select(b="a").distinct()) == f"Distinct(Select({mended}))"
    once = "Finalize memory=9(Source)"
    assert _outline(positive.distinct().consistency(memory=9)) == (
        f"Consistency(Distinct(Where({once})))"
    )
    assert _outline(positive.union(plain).distinct().consistency(memory=9)) == (
        f"Consistency(Distinct(Finalize memory=9(Union(Where({once}), Source))))"
    )
    both = S.distinct().consistency(memory=9).union(S.distinct().consistency(memory=4))
    assert _outline(both) == (
        f"Union(Consistency(Distinct({once})), Consistency(Distinct(Finalize memory=4({once}))))"
    )
    shared = S.shift(1).union(S.where(sw.col("a") > 0))
    assert sum(isinstance(node, Finalize) for node in walk(placed(shared.node))) == 1


# Laws

WIDE = sw.stream({"k": str, "x": float}, name="wide", disordered=True)


@given(data=st.data())
def test_a_valid_stream_comes_out_at_once(data: st.DataObject) -> None:
    trial = Trial(Case(WIDE.finalize("inf"), (WIDE,)))
    stream = data.draw(streams(data.draw(histories(WIDE.schema))))
    for part in data.draw(batchings(stream)):
        trial.push(WIDE, part)
    trial.close()
    assert len(trial.output.ledger) == 0


def _write_down_and_read_back(running: sw.RunningQuery) -> None:
    execution = running._execution
    execution.restore(pickle.loads(pickle.dumps(execution.snapshot())))  # noqa: S301


def _counted(data: st.DataObject, stream: list[Element]) -> list[Element]:
    """The stream with an external cti for each cti, in any order."""
    rows = [element for element in stream if isinstance(element, sw.Insert | sw.Adjust)]
    times = sorted({e.before for e in stream if isinstance(e, sw.Punctuation)} | {sw.INF})
    in_all = data.draw(st.booleans())
    told: list[Element] = []
    for since, time in zip([sw.BEGIN, *times], times, strict=False):
        start = sw.BEGIN if in_all else since
        told.append(sw.external_cti(time, _count(rows, start, time), since=start))
    return list(data.draw(st.permutations([*rows, *told])))


def _count(rows: Iterable[Data], since: int, time: int) -> int:
    return sum(since <= row.sync and (row.sync < time or time == sw.INF) for row in rows)


def _differences(rows: Iterable[Data], columns: Iterable[str]) -> Counter[tuple[Any, ...]]:
    """How often each end of each event is come to, less how often it is left."""
    ends: Counter[tuple[Any, ...]] = Counter()
    for row in rows:
        key = (row.vs, identity({name: row.payload[name] for name in columns}))
        old, new = (row.vs, row.ve) if isinstance(row, sw.Insert) else (row.ve, row.new_ve)
        ends[*key, old] -= 1
        ends[*key, new] += 1
    return ends


def _complete(rows: list[Data], told: list[sw.ExternalCti]) -> int:
    """How far counts lead that are confirmed, each from where another has led."""
    reached = sw.BEGIN
    while steps := [
        count.before
        for count in told
        if count.since <= reached < count.before
        and _count(rows, count.since, count.before) == count.count
    ]:
        reached = max(steps)
    return reached


@pytest.mark.parametrize("columns", [["k", "x"], ["k"]])
@given(data=st.data())
def test_any_order_gives_the_history_and_each_promise_at_its_earliest(
    columns: list[str], data: st.DataObject
) -> None:
    """With fewer columns more events are equal: whose adjust is whose cannot be told."""
    history = data.draw(histories(WIDE.schema))
    query = WIDE.select(*columns).finalize("inf")
    running = query.open()
    arrived: list[Data] = []
    told: list[sw.ExternalCti] = []
    for part in data.draw(batchings(_counted(data, data.draw(streams(history))))):
        _write_down_and_read_back(running)
        running.push(WIDE, part)
        arrived += (e for e in part if isinstance(e, sw.Insert | sw.Adjust))
        told += (e for e in part if isinstance(e, sw.ExternalCti))
        said = [e for e in running.output if isinstance(e, sw.Insert | sw.Adjust)]
        shown = _differences(said, columns)
        unsaid = _differences(arrived, columns)
        unsaid.subtract(shown)
        # an end that is to be left is left as soon as it is shown
        assert not any(often < 0 < shown[end] for end, often in unsaid.items())
        waits = min((end for (*_, end), often in unsaid.items() if often), default=sw.INF)
        assert running.output.settled_until == min(_complete(arrived, told), waits)
    sw.validate(running.output.as_batch())
    assert running.output.as_history() == query.meaning({WIDE: history})
    assert running.output.settled_until == sw.INF
    assert len(running.output.ledger) == 0
    assert not any(status.state.state_rows for status in running.describe())


Dialled: TypeAlias = Callable[[int, Literal["application", "system"]], sw.Query]
PLANS: list[Dialled] = [
    lambda memory, clock: S.finalize(memory, clock=clock),
    lambda memory, clock: S.aggregate(n=sw.count()).consistency(memory=memory, clock=clock),
    lambda memory, clock: (
        S.where(sw.col("a") > 0)
        .window(sw.hopping(4, 2))
        .aggregate(n=sw.count())
        .consistency(blocking=memory // 2, memory=memory, clock=clock)
    ),
]


@given(
    data=st.data(),
    memory=st.integers(0, 8),
    plan=st.sampled_from(PLANS),
    clock=st.sampled_from(["application", "system"]),
)
def test_the_output_is_the_oracles_over_the_input_minus_exactly_the_ledger(
    data: st.DataObject, memory: int, plan: Dialled, clock: Literal["application", "system"]
) -> None:
    query = plan(memory, clock)
    stream = _counted(data, data.draw(streams(data.draw(histories(S.schema)))))
    manual = ManualClock()
    running = query.open(now=manual.now)
    for element in stream:
        manual.advance(data.draw(st.integers(0, 3)))
        _write_down_and_read_back(running)
        running.push(S, [element])
    # a count may have come when what it counts was forgotten
    running.push(S, [sw.cti(sw.INF)])
    sw.validate(running.output.as_batch())
    kept = [element for element in stream if isinstance(element, sw.Insert | sw.Adjust)]
    for entry in running.output.ledger:
        # what the memory let pass uncounted may be what a link is missing
        assert entry.reason in ("forgotten", "unlinked")
        if not isinstance(entry.element, sw.ExternalCti):
            assert isinstance(entry.element, sw.Insert | sw.Adjust)
            kept.remove(entry.element)
    assert running.output.as_history() == query.meaning({S: kept})
    assert running.output.settled_until == sw.INF
    assert not any(status.state.state_rows for status in running.describe())


@given(data=st.data(), memory=st.integers(0, 8))
def test_what_is_given_up_does_not_depend_on_how_the_stream_is_cut(
    data: st.DataObject, memory: int
) -> None:
    stream = _counted(data, data.draw(streams(data.draw(histories(S.schema)))))
    # a count may have come when what it counts was forgotten
    closing = sw.cti(sw.INF)
    one_by_one = S.finalize(memory).run({S: [*stream, closing]}, batch=1)
    running = S.finalize(memory).open()
    for part in data.draw(batchings(stream)):
        running.push(S, part)
    running.push(S, [closing])

    def given_up(out: sw.Output) -> Counter[object]:
        # a count comes behind the rows of its batch
        return Counter(e.element for e in out.ledger if not isinstance(e.element, sw.ExternalCti))

    assert given_up(running.output) == given_up(one_by_one)
    assert running.output.as_history() == one_by_one.as_history()
