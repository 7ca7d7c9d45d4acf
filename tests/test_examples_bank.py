"""The bank test, in this process: 10,000 transactions (paper 5; no money is made, none is lost)."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from examples import bank

import slackwater as sw

ROWS = bank.transactions(10_000)
FEW = ROWS.head(1_000)

SEEN = ("outer join without time", "outer join with time", "full outer join with time", "total")
"""views in which half of an input can be seen at once, whatever the prefix"""


@pytest.mark.parametrize("view", SEEN)
@pytest.mark.parametrize("schedule", [sw.RoundRobin(), sw.Shuffled(1)], ids=repr)
def test_without_control_money_is_made_and_partners_are_missing(view: str, schedule: Any) -> None:
    verdict = bank.run(view, FEW, batch=10, by=None, schedule=schedule)
    assert verdict.wrong > 0


@pytest.mark.parametrize("view", bank.VIEWS)
def test_what_tokens_show_is_right_for_a_prefix(view: str) -> None:
    verdict = bank.run(view, ROWS, batch=250, by=sw.Tokens(1_000), compared=2)
    assert (verdict.wrong, verdict.different) == (0, 0)
    assert verdict.states >= 10


@pytest.mark.parametrize("view", SEEN)
@pytest.mark.parametrize(
    ("by", "schedule"),
    [(sw.Tokens(50, in_step=True), sw.Shuffled(2)), (sw.Heeding(), sw.RoundRobin())],
    ids=repr,
)
def test_however_it_is_made_so(view: str, by: Any, schedule: Any) -> None:
    verdict = bank.run(view, FEW, batch=20, by=by, compared=2, schedule=schedule)
    assert (verdict.wrong, verdict.different) == (0, 0)
    assert verdict.states >= 10


@pytest.mark.parametrize("view", bank.VIEWS)
def test_one_at_a_time_in_any_order(view: str) -> None:
    rows = FEW.head(40)
    for by in (sw.Heeding(), sw.Tokens(7), sw.Drain()):
        verdict = bank.run(view, rows, batch=1, by=by, compared=3, schedule=sw.Shuffled(1))
        assert (verdict.wrong, verdict.different) == (0, 0)


def test_with_the_inner_join_early_totals_are_not_zero_and_right_all_the_same() -> None:
    """An account that has only paid is not in it."""
    out = bank.VIEWS["total, inner join"].run(
        {bank.TRANSACTIONS: bank.told(FEW.head(40))}, batch=1, by=sw.Tokens(1)
    )
    totals = [out.until(mark).snapshot(bank.SECONDS)["total"].to_list() for mark in out.marks[:40]]
    assert any(each and each != [0] for each in totals)


def test_the_check_sees_what_is_wrong() -> None:
    """A total, and a pair, that must not be there; and a state of another prefix."""
    watch = bank.Watch("total")
    watch.look(sw.Batch.of([sw.insert(0, None, total=1)]))
    watch.look(sw.Batch.of([sw.adjust(0, None, 5, total=1)]))
    watch.look(sw.Batch.of([sw.adjust(0, 5, 0, total=1)]))
    assert (watch.states, watch.wrong) == (3, 2)
    lonely = pl.DataFrame({"id": [1], "other": [None]}, schema={"id": pl.Int64, "other": pl.Int64})
    assert bank.never("outer join with time", lonely).to_list() == [True]
    for view in ("credits", "debits", "balance"):
        history = bank.VIEWS[view].run({bank.TRANSACTIONS: bank.told(FEW)}).as_history()
        assert bank.is_right(view, history, FEW)
        assert not bank.is_right(view, history, FEW.head(900))


@pytest.mark.parametrize("compared", [1, 2, 5])
def test_so_many_states_are_compared_in_full(compared: int) -> None:
    verdict = bank.run("accepted", FEW.head(40), batch=1, by=sw.Tokens(4), compared=compared)
    assert (verdict.compared, verdict.different) == (compared, 0)
