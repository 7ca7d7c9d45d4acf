"""Aggregations that need the events of a group: what they say, step by step, and what stops them."""

from __future__ import annotations

import pytest

import slackwater as sw

LATENCIES = list(sw.OutputLatency)
s = sw.stream({"k": str, "v": int})


def _insert(vs: int, ve: int, v: int | None, k: str = "a") -> sw.Insert:
    return sw.insert(vs, ve, k=k, v=v)


def test_the_next_largest_comes_back_when_the_largest_goes() -> None:
    q = s.aggregate(top=sw.max("v"))
    out = q.run({s: [_insert(0, 9, 1), _insert(2, 5, 7), sw.adjust(2, 5, 2, k="a", v=7)]}, batch=1)
    assert list(out) == [
        sw.insert(0, 9, top=1),
        sw.adjust(0, 9, 2, top=1),
        sw.insert(2, 5, top=7),
        sw.insert(5, 9, top=1),
        sw.adjust(0, 2, 9, top=1),
        sw.adjust(2, 5, 2, top=7),
        sw.adjust(5, 9, 5, top=1),
    ]


def test_an_event_that_changes_nothing_only_cuts() -> None:
    """The maximum stays, so the row keeps its value and gets another end; the endpoints are new."""
    q = s.aggregate(top=sw.max("v"))
    out = q.run({s: [_insert(0, 9, 7), _insert(2, 5, 1)]}, batch=1)
    assert out.history().rows() == [(7, 0, 2), (7, 2, 5), (7, 5, 9)]
    rows = out.as_batch()
    assert not ((rows.new_ve == rows.vs) & ~rows.is_insert).any(), "nothing is removed"


@pytest.mark.parametrize("latency", LATENCIES)
def test_who_is_first_does_not_depend_on_ends_that_may_still_move(latency: sw.OutputLatency) -> None:
    """Both start at 0, which is frozen; then the end of one moves past that of the other."""
    q = s.aggregate(first=sw.first("v"), last=sw.last("v")).latency(latency)
    told = [
        _insert(0, 8, 2),
        _insert(0, 9, 1),
        sw.cti(5),
        sw.adjust(0, 8, 12, k="a", v=2),
        sw.cti(sw.INF),
    ]
    out = q.run({s: told}, batch=1)
    sw.validate(list(out))
    assert out.history().rows() == [(1, 2, 0, 9), (2, 2, 9, 12)]


def test_a_late_event_far_back_moves_what_it_touches_and_no_more() -> None:
    told = [_insert(10 * i, 10 * i + 15, i) for i in range(50)]
    q = s.aggregate(top=sw.top_k("v", 2))
    running = q.open()
    for element in told:
        running.push(s, [element])
    late = [sw.Batch.of(part, q.schema) for part in running.push(s, [_insert(101, 104, 99)])]
    assert sum(batch.rows for batch in late) <= 4


def _broken(state: int, value: int) -> int:
    raise ValueError("not today")


def test_a_fold_that_raises_is_named_with_its_arguments() -> None:
    fold = sw.fold("v", init=int, add=_broken, remove=_broken, result=int, dtype=int)
    with pytest.raises(sw.OperatorError, match="aggregate total: _broken failed") as problem:
        s.aggregate(total=fold).run({s: [_insert(0, 9, 1)]})
    assert "ValueError: not today" in str(problem.value)


def test_a_result_of_another_type_than_declared_is_refused() -> None:
    words = sw.group_function(lambda values: "many", "v", dtype=int)
    with pytest.raises(sw.OperatorError, match="aggregate n: a result is not of type Int64"):
        s.aggregate(n=words).run({s: [_insert(0, 9, 1)]})


def test_a_product_that_does_not_fit_is_refused_and_one_that_comes_back_is_right() -> None:
    big = [_insert(0, 9, 2**40), _insert(0, 9, 2**40, k="b")]
    q = s.aggregate(p=sw.product("v"))
    with pytest.raises(sw.OperatorError, match="aggregate p: the product does not fit 64 bits"):
        q.run({s: big}, batch=1)
    out = q.run({s: [*big, sw.adjust(0, 9, 0, k="b", v=2**40)]}, batch=3)
    assert out.history().rows() == [(2**40, 0, 9)]


def test_a_percentile_needs_a_fraction_that_can_be_counted() -> None:
    with pytest.raises(sw.PlanError, match="at most 18 digits"):
        sw.percentile("v", 1e-20)
