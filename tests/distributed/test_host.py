"""Buckets that are asked for a batch, whatever they were at before: they come to the same."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import slackwater as sw
from slackwater.distributed import host as hosts
from slackwater.distributed import keeper
from slackwater.distributed.bucket import Said, parcels_of
from slackwater.distributed.host import Host
from slackwater.distributed.parcels import From, Parcel, from_arrow, spread
from slackwater.distributed.program import Program, program_of
from slackwater.distributed.store import Place, Store

SOURCE = sw.stream({"k": int, "v": int}, name="s")
QUERY = SOURCE.group_by("k").aggregate(n=sw.count(), top=sw.max("v"))
BATCHES = 8
WHERE = Place(1, 0)


def _program() -> Program:
    return program_of(QUERY.node, buckets=1)


def _parcels(number: int) -> list[Parcel]:
    random = np.random.default_rng(number)
    vs = 10 * number + random.integers(0, 10, 20)
    payload = pl.DataFrame({"k": random.integers(0, 3, 20), "v": random.integers(0, 50, 20)})
    rows = sw.Batch.inserts(vs, vs + random.integers(1, 30, 20), payload)
    return list(parcels_of(From("0", 10 * number), (1, 0), spread(rows, ["k"], 1), 1))


def _shown(said: Said) -> list[object]:
    schema = QUERY.schema
    return [(p.promise, list(p.batch(schema))) for p in said.parcels]


def _undisturbed(root: Path) -> list[list[object]]:
    host = Host(_program(), Store(str(root)))
    return [_shown(host.step(WHERE, number, _parcels(number), now=number)) for number in range(BATCHES)]


@pytest.mark.parametrize("least", [0, 1 << 20], ids=["states often", "parcels only"])
def test_a_new_host_goes_on(least: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "_LEAST_LOG", least)
    wanted = _undisturbed(tmp_path / "a")
    store = Store(str(tmp_path / "b"))
    for number in range(BATCHES):
        said = Host(_program(), store).step(WHERE, number, _parcels(number), now=number)
        assert _shown(said) == wanted[number]
    if least == 0:
        files = [path.name for path in (tmp_path / "b" / "1" / "0").iterdir()]
        assert len(files) <= 5, "what is of no more use is gone"


def test_a_batch_may_be_repeated_and_a_query_taken_up_earlier(tmp_path: Path) -> None:
    wanted = _undisturbed(tmp_path / "a")
    host = Host(_program(), Store(str(tmp_path / "b")))
    for number in (0, 1, 1, 2, 3, 3, 2, 3, 4, 5, 1, 2, 3, 4, 5, 6, 7):
        assert _shown(host.step(WHERE, number, _parcels(number), now=number)) == wanted[number]


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    host = Host(_program(), Store(str(tmp_path)))
    with pytest.raises(sw.OperatorError, match="cannot be restored") as error:
        host.step(WHERE, 3, _parcels(3), now=3)
    assert "batch 0 is missing" in error.value.detail


def test_another_plan_is_refused_and_the_same_goes_on(tmp_path: Path) -> None:
    Store(str(tmp_path)).open(_program())
    Store(str(tmp_path)).open(_program())
    other = SOURCE.group_by("k").aggregate(n=sw.count(), top=sw.min("v"))
    with pytest.raises(sw.PlanError, match="another plan") as error:
        Store(str(tmp_path)).open(program_of(other.node, buckets=1))
    assert "Min" in error.value.detail


def test_a_keeper_does_it_for_others(tmp_path: Path) -> None:
    """It is started when it is needed, and again when it is gone."""
    wanted = _undisturbed(tmp_path / "a")
    pickled = pickle.dumps(_program())
    run = f"test-{tmp_path.name}"[-40:]
    try:
        for number in range(4):
            if number == 2:
                keeper.dismiss(run)
            asked = keeper.Asked(
                WHERE, number, number, _parcels(number), program=pickled, root=str(tmp_path / "b")
            )
            told = keeper.ask(run, 0, asked)
            said = [(p.promise, list(p.batch(QUERY.schema))) for p in from_arrow(told.rows)]
            assert said == wanted[number]
            assert told.header["standing"]["rows_in"] == 20
    finally:
        keeper.dismiss(run)
        _wait_for_the_end()
    assert not keeper._directory(run).joinpath("0.socket").exists()


def test_what_goes_wrong_in_a_keeper_is_told(tmp_path: Path) -> None:
    run = f"test-{tmp_path.name}"[-40:]
    pickled = pickle.dumps(_program())
    try:
        asked = keeper.Asked(WHERE, 5, 5, _parcels(5), program=pickled, root=str(tmp_path))
        with pytest.raises(sw.OperatorError, match="cannot be restored"):
            keeper.ask(run, 0, asked)
    finally:
        keeper.dismiss(run)
        _wait_for_the_end()


def _wait_for_the_end() -> None:
    for started in keeper._started:
        started.wait(timeout=60)
    keeper._started.clear()
    keeper._connections.clear()


def test_what_an_attempt_has_left_behind_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch is run, with its state written; then it is repeated, with other rows."""
    monkeypatch.setattr(hosts, "_LEAST_LOG", 0)
    store = Store(str(tmp_path / "b"))
    Host(_program(), store).step(WHERE, 0, _parcels(7), now=0)
    wanted = _undisturbed(tmp_path / "a")
    monkeypatch.setattr(hosts, "_LEAST_LOG", 1 << 20)
    for number in range(3):
        said = Host(_program(), store).step(WHERE, number, _parcels(number), now=number)
        assert _shown(said) == wanted[number]
