"""The in-process runtime: arrival order, the edge, control elements, refusals."""

from __future__ import annotations

import pickle
from dataclasses import dataclass

import polars as pl
import pytest

import slackwater as sw
from slackwater.events import Control, Element
from slackwater.plan.nodes import Argument, Source
from slackwater.runtime import Dataflow, Execution


def _numbers(name: str = "s") -> sw.Query:
    return sw.stream({"a": int}, name=name)


def test_a_script_of_pairs_is_read_in_its_order() -> None:
    s, t = _numbers("s"), _numbers("t")
    script: list[tuple[sw.Query, Element]] = [
        (t, sw.insert(5, 9, a=1)),
        (s, sw.insert(0, 9, a=2)),
        (s, sw.cti(4)),
        (t, sw.cti(3)),
        (t, sw.adjust(5, 9, 7, a=1)),
    ]
    out = s.union(t).run(script, batch=1)
    assert list(out) == [
        sw.insert(5, 9, a=1),
        sw.insert(0, 9, a=2),
        sw.cti(3),
        sw.adjust(5, 9, 7, a=1),
    ]
    assert out.history().rows() == [(2, 0, 9), (1, 5, 7)]


def test_streams_are_read_in_turn_a_batch_at_a_time() -> None:
    s, t = _numbers("s"), _numbers("t")
    inputs = {
        s: [sw.insert(i, i + 1, a=i) for i in range(3)],
        t: [sw.insert(i, i + 1, a=10 + i) for i in range(5)],
    }
    out = s.union(t).run(inputs, batch=2)
    assert [e.payload["a"] for e in out if isinstance(e, sw.Insert)] == [0, 1, 10, 11, 2, 12, 13, 14]


def test_of_a_batch_only_the_last_promise_is_passed_on_but_each_is_kept() -> None:
    s = _numbers()
    elements = [sw.insert(0, 5, a=1), sw.cti(1), sw.insert(3, 4, a=2), sw.cti(2), sw.cti(2)]
    assert list(s.inserts().run({s: elements}, batch=10)) == [
        sw.insert(0, sw.INF, a=1),
        sw.insert(3, sw.INF, a=2),
        sw.cti(2),
    ]
    with pytest.raises(sw.InvalidStream, match=r"insert\(0, 4, a=2\) breaks the promise cti\(1\)"):
        s.inserts().run({s: [sw.insert(0, 5, a=1), sw.cti(1), sw.insert(0, 4, a=2)]}, batch=10)


def test_an_offender_raises_by_its_name_or_goes_to_the_ledger() -> None:
    s = _numbers("orders")
    bad: list[tuple[list[Element], str, Element]] = [
        ([sw.cti(5), sw.insert(4, 6, a=1)], "promise broken", sw.insert(4, 6, a=1)),
        ([sw.adjust(1, 9, 3, a=1)], "unknown event", sw.adjust(1, 9, 3, a=1)),
        (
            [sw.insert(1, 9, a=1), sw.adjust(1, 8, 3, a=1)],
            "chain out of order",
            sw.adjust(1, 8, 3, a=1),
        ),
    ]
    for elements, rule, offender in bad:
        good = sw.insert(7, 8, a=7)
        with pytest.raises(sw.InvalidStream) as error:
            s.inserts().run({s: [*elements, good]})
        assert error.value.rule == rule
        assert error.value.element == offender
        assert error.value.position == len(elements) - 1

        out = s.inserts().run({s: [*elements, good]}, on_invalid=sw.LEDGER, batch=2)
        [entry] = out.ledger
        assert (entry.element, entry.reason, entry.place) == (offender, rule, "orders")
        kept = [e for e in [*elements, good] if e != offender and isinstance(e, sw.Insert)]
        assert len(out.history()) == len(kept)


def test_rows_of_other_columns_are_refused() -> None:
    s = _numbers()
    table = pl.DataFrame({"at": [1], "b": [1]})
    with pytest.raises(sw.InvalidElement, match="do not have the columns of the stream"):
        s.inserts().run({s: sw.from_dataframe(table, vs="at")})
    with pytest.raises(sw.InvalidElement, match="unknown column 'b'"):
        s.inserts().run({s: [sw.insert(0, 1, b=1)]})
    with pytest.raises(sw.InvalidElement, match="cannot hold 'x'"):
        s.inserts().run({s: [sw.insert(0, 1, a="x")]})


def test_inputs_must_be_streams_that_the_query_reads() -> None:
    s, t = _numbers("s"), _numbers("t")
    with pytest.raises(sw.PlanError, match="does not read 't'"):
        s.inserts().run({t: []})
    with pytest.raises(sw.PlanError, match="is not a stream from outside"):
        s.inserts().run({s.inserts(): []})
    with pytest.raises(sw.PlanError, match="no input for 't'"):
        s.union(t).run({s: []})
    with pytest.raises(sw.PlanError, match="one element or more"):
        s.inserts().run({s: []}, batch=0)


def test_what_cannot_be_run_is_refused_by_name() -> None:
    with pytest.raises(sw.PlanError) as refusal:
        sw.Query(Argument(pl.Schema({"a": pl.Int64}))).run({})
    assert refusal.value.fact == "Argument cannot be run yet"


def test_an_expression_that_fails_on_data_names_the_row() -> None:
    s = sw.stream({"a": str})
    q = s.select(n=sw.col("a").cast(pl.Int64))
    with pytest.raises(sw.OperatorError, match=r"select n: .* has no value for \{'a': 'x'\}"):
        q.run({s: [sw.insert(0, 1, a="1"), sw.insert(0, 1, a="x")]})


@dataclass(frozen=True)
class Token(Control):
    """A control element that the runtime knows nothing of."""

    number: int


def test_other_control_elements_keep_their_exact_place() -> None:
    s = _numbers()
    elements: list[Element] = [
        sw.insert(0, 5, a=1),
        sw.cti(0),
        Token(1),
        sw.insert(3, 4, a=2),
        Token(2),
        sw.cti(3),
    ]
    out = s.where(sw.col("a") > 0).shift(1).run({s: elements}, batch=10)
    assert list(out) == [
        sw.insert(1, 6, a=1),
        sw.cti(1),
        Token(1),
        sw.insert(4, 5, a=2),
        Token(2),
        sw.cti(4),
    ]


def test_control_elements_that_would_have_to_be_aligned_are_refused() -> None:
    s, t = _numbers("s"), _numbers("t")
    with pytest.raises(sw.PlanError, match="Union cannot align"):
        s.union(t).run({s: [Token(1)], t: []})


def test_a_node_with_several_readers_runs_once() -> None:
    s = _numbers()
    positive = s.where(sw.col("a") > 0)
    running = positive.union(positive.shift(5), positive).open()
    running.push(s, [sw.insert(0, 5, a=1), sw.insert(0, 5, a=-1)])
    [where, shift, union] = running.describe()
    assert (where.name, where.rows_in, where.rows_out) == ("Where", 2, 1)
    assert (shift.name, shift.rows_in) == ("AlterLifetime", 1)
    assert (union.name, union.rows_in, union.rows_out) == ("Union", 3, 3)


def test_describe_says_who_holds_the_promise_back() -> None:
    s, t = _numbers("s"), _numbers("t")
    running = s.union(t).open()
    running.push(s, [sw.cti(9)])
    [union] = running.describe()
    assert (union.promised, union.state.held_by) == (sw.BEGIN, 1)
    running.push(t, [sw.cti(12)])
    [union] = running.describe()
    assert (union.promised, union.state.held_by) == (9, 0)


def test_settled_includes_an_end_at_the_promise_only_if_nothing_can_lengthen_it() -> None:
    elements = [sw.insert(0, 5, a=1), sw.insert(0, 4, a=2), sw.cti(5)]
    unknown = _numbers()
    declared = sw.stream({"a": int}, properties=sw.StreamProperties(never_lengthens=True))
    assert unknown.shift(0).run({unknown: elements}).settled().rows() == [(2, 0, 4)]
    assert declared.shift(0).run({declared: elements}).settled().rows() == [(2, 0, 4), (1, 0, 5)]


def test_a_query_may_be_a_source_itself() -> None:
    s = _numbers()
    out = s.run({s: [sw.insert(0, 5, a=1), sw.cti(5)]})
    assert list(out) == [sw.insert(0, 5, a=1), sw.cti(5)]


def test_the_output_as_tables() -> None:
    s = _numbers()
    out = s.run({s: [sw.insert(0, None, a=1), sw.adjust(0, None, 5_000_000, a=1), sw.cti(1)]})
    assert out.changelog().rows() == [
        ("insert", 0, sw.INF, None, 1),
        ("adjust", 0, sw.INF, 5_000_000, 1),
        ("cti", 1, None, None, None),
    ]
    [(a, vs, ve)] = out.history(datetimes=True).rows()
    assert (a, str(vs), str(ve)) == (1, "1970-01-01 00:00:00+00:00", "1970-01-01 00:00:05+00:00")
    assert (out.taken_back, len(out), out.settled_until) == (1, 3, 1)


def test_deep_plans_do_not_exhaust_the_stack() -> None:
    query = source = _numbers()
    for _ in range(3000):
        query = query.shift(1)
    dataflow = Dataflow.of(query.node)
    assert len(dataflow.operators) == 3000
    execution = Execution(query.node)
    assert isinstance(source.node, Source)
    [out] = execution.push(source.node, [sw.insert(0, 5, a=1)])
    assert list(out) == [sw.insert(3000, 3005, a=1)]


def test_a_query_that_failed_says_so_and_takes_no_more() -> None:
    s = _numbers()
    running = s.inserts().open()
    with pytest.raises(sw.InvalidStream):
        running.push(s, [sw.insert(0, 10, a=1), sw.adjust(5, 9, 6, a=7)])
    with pytest.raises(sw.OperatorError, match="has stopped") as stopped:
        running.push(s, [sw.insert(0, 10, a=1)])
    assert "adjusts an event that does not exist" in stopped.value.detail


def test_elements_that_do_not_fit_go_to_the_ledger_too() -> None:
    s = _numbers()
    elements = [sw.insert(0, 5, a="x"), sw.insert(0, 5, b=1), sw.insert(0, 5, a=1)]
    out = s.run({s: elements}, on_invalid=sw.LEDGER)
    assert [entry.element for entry in out.ledger] == elements[:2]
    assert {entry.reason for entry in out.ledger} == {"does not fit the columns"}
    assert out.history().rows() == [(1, 0, 5)]


def test_columns_may_come_in_another_order() -> None:
    s = sw.stream({"a": int, "b": str})
    table = pl.DataFrame({"b": ["x"], "a": [1], "at": [7]})
    assert list(s.run({s: sw.from_dataframe(table, vs="at")})) == [sw.insert(7, 8, a=1, b="x")]


DECLARED: list[tuple[sw.StreamProperties, list[Element]]] = [
    (sw.StreamProperties(insert_only=True), [sw.insert(0, 5, a=1), sw.adjust(0, 5, 3, a=1)]),
    (sw.StreamProperties(never_lengthens=True), [sw.insert(0, 5, a=1), sw.adjust(0, 5, 9, a=1)]),
    (sw.StreamProperties(ordered=True), [sw.insert(4, 5, a=1), sw.insert(3, 9, a=2)]),
    (
        sw.StreamProperties(ordered=True),
        [sw.insert(4, 9, a=1), sw.adjust(4, 9, 6, a=1), sw.insert(5, 9, a=2)],
    ),
    (sw.StreamProperties(strictly_increasing=True), [sw.insert(4, 5, a=1), sw.insert(4, 9, a=2)]),
    (sw.StreamProperties(vs_payload_key=True), [sw.insert(4, 5, a=1), sw.insert(4, 9, a=1)]),
]


@pytest.mark.parametrize(("properties", "elements"), DECLARED)
@pytest.mark.parametrize("batch", [1, 10])
def test_a_declared_property_that_is_false_is_named(
    properties: sw.StreamProperties, elements: list[Element], batch: int
) -> None:
    s = sw.stream({"a": int}, properties=properties)
    with pytest.raises(sw.InvalidStream, match="breaks the declared property") as broken:
        s.run({s: elements}, batch=batch)
    assert broken.value.element == elements[-1]
    assert len(list(s.run({s: elements[:-1]}, batch=batch))) == len(elements) - 1


def test_inserts_alone_are_settled_at_the_promise() -> None:
    s = sw.stream({"a": int}, properties=sw.StreamProperties(insert_only=True))
    out = s.latency(sw.EAGER).run({s: [sw.insert(5, 10, a=1), sw.cti(10)]})
    assert out.settled().rows() == [(1, 5, 10)]


def test_a_query_that_was_interrupted_takes_no_more() -> None:
    """Whatever ends a batch half way: the state may be that of neither the batch nor what was before."""
    s = _numbers()

    def interrupted(values: list[int]) -> int:
        if len(values) > 1:
            raise KeyboardInterrupt
        return len(values)

    query = s.aggregate(n=sw.group_function(interrupted, "a", dtype=int))
    execution = Execution(query.node)
    assert isinstance(s.node, Source)
    execution.push(s.node, [sw.insert(0, 9, a=1)])
    with pytest.raises(KeyboardInterrupt):
        execution.push(s.node, [sw.insert(3, 9, a=2)])
    with pytest.raises(sw.OperatorError, match="has stopped") as problem:
        execution.push(s.node, [sw.insert(5, 9, a=3)])
    assert "interruption" in str(problem.value)


def test_a_snapshot_tells_another_execution_what_may_be_adjusted_and_what_is_promised() -> None:
    s = _numbers()
    assert isinstance(s.node, Source)
    first = Execution(s.distinct().node)
    first.push(s.node, [sw.insert(0, 9, a=1), sw.cti(2)])

    def restored() -> Execution:
        again = Execution(s.distinct().node)
        again.restore(pickle.loads(pickle.dumps(first.snapshot())))  # noqa: S301
        return again

    second = restored()
    assert second.output.settled_until == 2
    second.push(s.node, [sw.adjust(0, 9, 5, a=1)])
    assert list(second.output) == [sw.adjust(0, 9, 5, a=1)]
    with pytest.raises(sw.InvalidStream, match="breaks the promise"):
        restored().push(s.node, [sw.insert(0, 3, a=2)])


@pytest.mark.parametrize("later", [[], [sw.insert(1, 2, a=-1)]])
def test_the_clock_goes_on_where_nothing_arrives(later: list[Element]) -> None:
    """A where lets nothing through, and what waits behind it must still be told the time."""
    s = _numbers()
    assert isinstance(s.node, Source)
    clock = [0]
    query = s.where(sw.col("a") > 0).aggregate(n=sw.count()).consistency(blocking=5, clock="system")
    execution = Execution(query.node, now=lambda: clock[0])
    execution.push(s.node, [sw.insert(0, 9, a=1)])
    assert not len(execution.output)
    clock[0] = 100
    execution.push(s.node, later)
    assert list(execution.output) == [sw.insert(0, 9, n=1)]


def test_the_ledger_names_the_elements_of_a_group_as_they_came_and_whose_they_are() -> None:
    s, t = sw.stream({"k": str, "a": int}, name="s"), sw.stream({"k": str, "b": int}, name="t")
    counted = s.group_by("k").apply(lambda g: g.where(sw.col("a") > 0).aggregate(n=sw.count()))
    stream = [sw.insert(9, 12, k="a", a=1), sw.insert(0, 5, k="a", a=1), sw.cti(20)]
    [entry] = counted.consistency(memory=2).run({s: stream}, batch=1).ledger
    assert entry.element == stream[1]
    assert entry.place == "Finalize memory=2 over s"
    late = [(t, sw.insert(9, 12, k="a", b=1)), (t, sw.insert(0, 5, k="a", b=1))]
    [entry] = s.join(t, on="k").consistency(memory=2).run(late, batch=1).ledger
    assert entry.place == "Finalize memory=2 over t"


def test_a_dial_that_is_turned_again_is_replaced_whatever_the_latency_between() -> None:
    s = _numbers()
    counted = s.aggregate(n=sw.count())
    twice = counted.consistency("strong").latency(sw.ORDER_PRESERVING).consistency(memory=3)
    once = counted.latency(sw.ORDER_PRESERVING).consistency(memory=3)
    assert twice.explain() == once.explain()


@pytest.mark.parametrize("batch", [1, 2, 3, 4, 100])
def test_with_a_finite_memory_counts_are_kept_however_they_are_cut(batch: int) -> None:
    s = sw.stream({"a": int}, disordered=True)
    stream: list[Element] = [
        sw.external_cti(0, 0),
        sw.external_cti(5, 1, since=0),
        sw.external_cti(30, 1, since=5),
        sw.external_cti(sw.INF, 0, since=30),
    ]
    stream += [sw.insert(1, 50, a=1), sw.insert(20, 50, a=2)]
    out = s.aggregate(n=sw.count()).consistency(memory=6).run({s: stream}, batch=batch)
    assert out.settled_until == sw.INF
    assert not len(out.ledger)


def test_batches_and_clocks_are_whole_numbers() -> None:
    s = _numbers()
    with pytest.raises(sw.PlanError, match="one element or more"):
        s.run({s: []}, batch=1.5)  # type: ignore[arg-type]
    assert isinstance(s.node, Source)
    execution = Execution(s.align("1 s", clock="system").node, now=lambda: 0.5)  # type: ignore[arg-type,return-value]
    with pytest.raises(sw.PlanError, match="whole chronons"):
        execution.push(s.node, [sw.insert(0, 9, a=1)])


def test_a_query_that_has_stopped_gives_no_snapshot() -> None:
    """It stopped in the middle of a batch: what it remembers and what it has said do not fit."""
    source = sw.stream({"v": int})
    node = source.aggregate(t=sw.sum("v")).select(r=sw.col("t").cast(pl.Int8)).node
    running = Execution(node)
    [at] = running.edges
    with pytest.raises(sw.SlackwaterError):
        running.push(at, [sw.insert(0, 10, v=1), sw.insert(20, 30, v=200)])
    with pytest.raises(sw.OperatorError, match="has stopped"):
        running.snapshot()
