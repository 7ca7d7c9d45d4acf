"""The dial turned while a query runs, a heart that beats, and counts of partitions, on Spark."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import slackwater as sw

FORM: dict[str, Any] = {"vs": "vs", "ve": "ve", "kind": "kind", "new_ve": "new_ve"}
DDL = "k long, p string, kind string, vs long, ve long, new_ve long, n long"
TYPES = {
    "k": pl.Int64, "p": pl.String, "kind": pl.String, "vs": pl.Int64, "ve": pl.Int64,
    "new_ve": pl.Int64, "n": pl.Int64,
}  # fmt: skip


class Input:
    """A directory to which files of changelog rows are added."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._written = 0
        directory.mkdir()

    def add(self, *rows: dict[str, Any]) -> None:
        table = pl.DataFrame(list(rows), schema=TYPES)
        path = self.directory / f"{self._written}.parquet"
        unfinished = self.directory / f".{self._written}"
        table.write_parquet(unfinished)
        os.utime(unfinished, (1_700_000_000 + self._written, 1_700_000_000 + self._written))
        unfinished.rename(path)
        self._written += 1

    def read(self, spark: Any, policy: sw.Progress, **more: Any) -> Any:
        frame = spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1).parquet(str(self.directory))
        return sw.from_dataframe(frame, **FORM, **more, partition="p", progress=policy)


def _insert(vs: int, ve: int, k: int, p: str = "a") -> dict[str, Any]:
    return {"k": k, "p": p, "kind": "insert", "vs": vs, "ve": ve}


def _cti(time: int, p: str = "a") -> dict[str, Any]:
    return {"p": p, "kind": "cti", "vs": time}


def test_the_dial_is_turned_while_the_query_runs(spark: Any, tmp_path: Path) -> None:
    """From strong to an answer at once, then to a short memory; and all of it again after a restart."""
    s = sw.stream({"k": int}, name="s")
    query = s.group_by("k").aggregate(n=sw.count()).consistency("strong")
    given = Input(tmp_path / "in")
    where: dict[str, Any] = {"checkpoint": str(tmp_path / "checkpoint"), "turnable": True}
    given.add(_insert(1, 50, 1), _insert(2, 50, 2))
    handle = query.start(spark, {s: given.read(spark, sw.progress())}, **where)
    try:
        handle.process_all_available()
        assert handle.output.history().height == 0, "strong waits for the cti"
        with pytest.raises(sw.PlanError, match="longer than memory"):
            handle.turn(memory=5)
        handle.turn(blocking=0)
        handle.process_all_available()
        assert sorted(handle.output.history()["k"]) == [1, 2]
        handle.turn(memory=5)
        given.add(_insert(100, 101, 3))
        handle.process_all_available()
        assert handle.progress.settled_until == 95
    finally:
        handle.stop()
    given.add(_insert(60, 99, 4), _insert(96, 99, 5), _cti(2**63 - 1))
    again = query.start(spark, {s: given.read(spark, sw.progress())}, **where)
    try:
        assert (again.dial.blocking, again.dial.memory) == (0, 5)
        assert again.await_settled(sw.INF, timeout=120)
    finally:
        again.stop()
    [entry] = again.ledger
    assert (entry.reason, entry.since, entry.until) == ("forgotten", 60, 99)
    whole = again.output.as_batch()
    sw.validate(whole)
    rows = [(1, 1, 50), (2, 2, 50), (3, 100, 101), (5, 96, 99)]
    assert sw.History.of(whole).to_polars().select("k", "vs", "ve").sort("k").rows() == rows


def test_a_heartbeat_finds_that_a_partition_is_idle(spark: Any, tmp_path: Path) -> None:
    """Nothing comes any more; a second later the partition that had promised less does not count."""
    s, t = sw.stream({"k": int}, name="s"), sw.stream({"k": int}, name="t")
    query = s.join(t, on="k")
    policy = sw.progress(idle="1 s")
    one, other = Input(tmp_path / "one"), Input(tmp_path / "other")
    one.add(_insert(1, 50, 1), _cti(5))
    other.add(_insert(1, 50, 1), _cti(40))
    handle = query.start(
        spark,
        {s: one.read(spark, policy), t: other.read(spark, sw.progress())},
        checkpoint=str(tmp_path / "checkpoint"),
        heartbeat="1 s",
    )
    try:
        assert handle.await_settled(40, timeout=60)
        assert "held back by s: all partitions are idle" in repr(handle)
    finally:
        handle.stop()
    assert handle.output.history().rows() == [(1, 1, 50)]


def test_each_partition_is_counted_by_itself(spark: Any, tmp_path: Path) -> None:
    """An adjust before what it adjusts, counts before what they count, in two partitions."""
    s = sw.stream({"k": int}, name="s", disordered=True)
    query = s.group_by("k").aggregate(n=sw.count())
    given = Input(tmp_path / "in")
    given.add(
        {"k": 1, "p": "a", "kind": "adjust", "vs": 1, "ve": 9, "new_ve": 4},
        {"p": "a", "kind": "count", "n": 2},
        {"p": "b", "kind": "count", "ve": 7, "n": 1},
        _insert(3, 6, 2, "b"),
    )
    rows = given.read(spark, sw.progress(partitions=2), count="n")
    handle = query.start(spark, {s: rows}, checkpoint=str(tmp_path / "checkpoint"))
    try:
        handle.process_all_available()
        assert "held back by s, partition a" in repr(handle)
        given.add(_insert(1, 9, 1, "a"))
        assert handle.await_settled(7, timeout=60)
        assert "held back by s, partition b" in repr(handle)
        given.add({"p": "b", "kind": "count", "vs": 7, "n": 0})
        assert handle.await_settled(sw.INF, timeout=60)
    finally:
        handle.stop()
    assert handle.output.history().rows() == [(1, 1, 1, 4), (2, 1, 3, 6)]
    assert len(handle.ledger) == 0


def test_what_is_no_longer_of_interest_is_told_while_the_query_runs(spark: Any, tmp_path: Path) -> None:
    """State is freed, rows are left out, and so it stays after a restart."""
    s = sw.stream({"k": int}, name="s")
    query = s.group_by("k").aggregate(n=sw.count())
    given = Input(tmp_path / "in")
    where: dict[str, Any] = {"checkpoint": str(tmp_path / "checkpoint"), "feedback": True}
    given.add(*(_insert(1, 50, k) for k in range(10)))
    handle = query.start(spark, {s: given.read(spark, sw.progress())}, **where)
    try:
        handle.process_all_available()
        before = handle.progress.state_rows
        handle.ignore(sw.punctuation(k=sw.between(0, 7)))
        handle.process_all_available()
        assert handle.progress.state_rows == before // 5
    finally:
        handle.stop()
    given.add(*(_insert(2, 50, k) for k in range(10)), _cti(60))
    handle = query.start(spark, {s: given.read(spark, sw.progress())}, **where)
    try:
        handle.process_all_available()
        history = handle.output.history()
        assert history.filter(pl.col("k") < 8)["n"].to_list() == [1] * 8
        assert history.filter(pl.col("k") >= 8)["n"].to_list() == [1, 1, 2, 2]
        assert handle.output.settled()["k"].unique().to_list() == [8, 9]
        with pytest.raises(sw.SlackwaterError, match="for some time"):
            handle.ignore(sw.punctuation(5, k=3))
        with pytest.raises(sw.SlackwaterError, match="not started to be turned"):
            handle.turn(blocking=3)
    finally:
        handle.stop()


def test_who_was_not_started_to_be_told_says_so(spark: Any, tmp_path: Path) -> None:
    s = sw.stream({"k": int}, name="s")
    given = Input(tmp_path / "in")
    handle = s.distinct().start(
        spark, {s: given.read(spark, sw.progress())}, checkpoint=str(tmp_path / "checkpoint")
    )
    try:
        with pytest.raises(sw.SlackwaterError, match="feedback=True"):
            handle.ignore(sw.punctuation(k=3))
    finally:
        handle.stop()
