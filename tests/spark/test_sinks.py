"""Where answers go on Spark: each batch once, also after a restart, and what listeners get to see."""

from __future__ import annotations

import datetime as dt
import io
import json
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from pyspark.sql.streaming.listener import StreamingQueryListener

import slackwater as sw
from slackwater.corrections import corrected
from slackwater.distributed.files import Directory
from slackwater.distributed.program import program_of
from slackwater.ledger import Ledger
from slackwater.rows import changelog
from slackwater.spark import memory, sinks
from slackwater.spark.commits import Commit
from slackwater.spark.parquet import _Committing
from slackwater.spark.receiving import Delivery, Opening, Sink

COLUMNS = {"k": str, "v": int, "p": str}
DDL = "k string, v long, p string, kind string, vs long, ve long, new_ve long"
FORM: dict[str, Any] = {"vs": "vs", "ve": "ve", "kind": "kind", "new_ve": "new_ve"}
LAST = 2**63 - 1

s = sw.stream(COLUMNS, name="s")
COUNTS = s.inserts().group_by("k").aggregate(n=sw.count(), most=sw.max("v"))
"""keys that count up, are corrected and go away"""

FILES: list[list[Any]] = [
    [
        ("insert", 1, 9, None, "a", 5, "x"),
        ("insert", 2, 9, None, "b", 6, "y"),
        ("insert", 3, 9, None, None, 1, "x"),
        ("upsert", 3, 9, None, "a", 1, "x"),
    ],
    [("insert", 4, 9, None, "a", 7, "x"), ("adjust", 2, 9, 2, "b", 6, "y")],
    [
        ("adjust", 4, 9, 4, "a", 7, "x"),
        ("insert", 6, 9, None, "c", 2, "y"),
        ("insert", 6, 5, None, "c", 2, "y"),
    ],
    [("cti", LAST, None, None, None, None, "x"), ("cti", LAST, None, None, None, None, "y")],
]


def _frame(rows: list[Any]) -> pl.DataFrame:
    types = {"kind": str, "vs": int, "ve": int, "new_ve": int, "k": str, "v": int, "p": str}
    return pl.DataFrame(rows, schema=types, orient="row").select(DDL_ORDER)


DDL_ORDER = [part.split()[0] for part in DDL.split(", ")]


def _write(directory: Path, numbers: range) -> None:
    directory.mkdir(exist_ok=True)
    for number in numbers:
        path = directory / f"{number}.parquet"
        _frame(FILES[number]).write_parquet(path)
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


def _read(spark: Any, directory: Path) -> Any:
    """The partition is a column of the payload, too."""
    frame = spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1).parquet(str(directory))
    return sw.from_dataframe(frame, **FORM, partition="p", progress=sw.progress(partitions=2))


def _elements(files: int) -> sw.Batch:
    rows = [row for file in FILES[:files] for row in file if row[0] in ("insert", "adjust")]
    return sw.from_dataframe(_frame([row for row in rows if row[1] < row[2]]), **FORM, schema=COLUMNS)


def _latest(files: int) -> pl.DataFrame:
    """The view by definition: from the history, the row of each key that starts last."""
    history = COUNTS.meaning({s: _elements(files)}).to_polars()
    newest = history.group_by("k").agg(pl.all().sort_by("vs").last())
    return newest.select("k", "n", "most", "vs").sort("k", nulls_last=False)


class _Listening(StreamingQueryListener):
    """Keeps what it has seen under our name."""

    def __init__(self) -> None:
        self.seen: dict[int, Any] = {}
        self.news = threading.Condition()

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        observed = event.progress.observedMetrics.get("slackwater")
        with self.news:
            if observed is not None:
                self.seen[event.progress.batchId] = observed.asDict()
            self.news.notify_all()

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        pass

    def wait_for(self, batch: int) -> None:
        with self.news:
            assert self.news.wait_for(lambda: batch in self.seen, timeout=60)


def test_a_view_goes_on_after_a_restart_and_so_does_all_that_the_handle_knows(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two files, then two more with another number of cores; the checkpoint has a blank in its name."""
    given = tmp_path / "in"
    checkpoint = f"file:{tmp_path}/check point"
    listening = _Listening()
    spark.streams.addListener(listening)
    try:
        _write(given, range(2))
        to = sinks.Memory(key="k")
        where: dict[str, Any] = {"checkpoint": checkpoint, "sink": to}
        first = COUNTS.start(spark, {s: _read(spark, given)}, buckets=3, **where)
        try:
            first.process_all_available()
            listening.wait_for(1)
        finally:
            first.stop()
        assert first.view().equals(_latest(2))
        assert first.ledger.counts() == {"unknown kind": 1}
        before = first.progress
        assert (before.batch, before.rows_in) == (1, 5)
        assert before.state_bytes > 0
        assert listening.seen[1]["rows_in"] == 2
        assert listening.seen[0]["set_aside"] == 1
        figures = listening.seen[1]
        assert (figures["state_rows"], figures["state_bytes"]) == (
            before.state_rows,
            before.state_bytes,
        )
        assert listening.seen[0]["rows_out"] + figures["rows_out"] == before.rows_out
        assert listening.seen[0]["taken_back"] + figures["taken_back"] == before.taken_back > 0
        with pytest.raises(sw.PlanError, match="not kept"):
            _ = first.output

        _write(given, range(2, 4))
        # the number of buckets is that of the checkpoint
        again = COUNTS.start(spark, {s: _read(spark, given)}, **where)
        assert again.view().equals(_latest(2))
        assert again.progress == before
        assert again.ledger.counts() == {"unknown kind": 1}
        try:
            assert again.await_settled(sw.INF, timeout=60)
        finally:
            again.stop()
        assert again.view().equals(_latest(4))
        assert again.ledger.counts() == {"unknown kind": 1, "ends before it starts": 1}
        assert again.progress.rows_in == 7
    finally:
        spark.streams.removeListener(listening)


def test_of_two_queries_that_begin_in_one_directory_the_second_is_refused(tmp_path: Path) -> None:
    sink = sinks.Parquet(directory=str(tmp_path))
    program = program_of(COUNTS.node, buckets=1)
    first, second = (
        _Committing(sink, Opening(query, str(tmp_path), program, Ledger())) for query in ("one", "two")
    )
    delivery = Delivery(0, sw.Batch.empty(COUNTS.schema), 5, ("a.parquet",))
    first.take(delivery)
    first.take(delivery)
    with pytest.raises(sw.PlanError, match="another query"):
        second.take(delivery)


def test_files_hold_what_was_committed_and_nothing_else(spark: Any, tmp_path: Path) -> None:
    """An attempt that should be dead writes as well; a batch that is through is not put there again."""
    given, out = tmp_path / "in", tmp_path / "out put"
    _write(given, range(2))
    to = sinks.Parquet(directory=str(out))
    where: dict[str, Any] = {"checkpoint": str(tmp_path / "checkpoint"), "sink": to, "buckets": 2}
    handle = COUNTS.start(spark, {s: _read(spark, given)}, **where)
    try:
        handle.process_all_available()
    finally:
        handle.stop()
    before = sinks.committed(str(out))
    [some] = sorted(out.glob("000000001-*.parquet"))[:1]
    (out / some.name.replace("-0", "-9")).write_bytes(some.read_bytes())
    assert sinks.committed(f"file:{out}").equals(before)
    listed = json.loads((out / "_batches" / "000000001.json").read_text())["files"]

    # Spark did not get to know that the last batch was through
    (tmp_path / "checkpoint" / "spark" / "commits" / "1").unlink()
    (tmp_path / "checkpoint" / "spark" / "commits" / ".1.crc").unlink(missing_ok=True)
    _write(given, range(2, 4))
    again = COUNTS.start(spark, {s: _read(spark, given)}, **where)
    try:
        assert again.await_settled(sw.INF, timeout=60)
    finally:
        again.stop()
    assert json.loads((out / "_batches" / "000000001.json").read_text())["files"] == listed
    said = sw.from_dataframe(sinks.committed(str(out)), **FORM, schema=COUNTS.schema)
    assert sw.History.of(said) == COUNTS.meaning({s: _elements(4)})
    assert again.progress.rows_in == 7, "a batch that is repeated counts once"
    rows = sinks.scan(str(out)).filter(pl.col("kind") == "insert").select(pl.len()).collect().item()
    assert rows == said.is_insert.sum()

    batches = []
    for listed in sorted((out / "_batches").glob("*.json")):
        files = json.loads(listed.read_text())["files"]
        told = pl.concat(pl.read_parquet(out / file) for file in files) if files else None
        if told is not None:
            batches.append(sw.from_dataframe(told, **FORM, schema=COUNTS.schema))
    is_correction = corrected(batches)
    assert (again.progress.corrections, again.progress.changes) == (
        np.count_nonzero(is_correction),
        np.count_nonzero(~is_correction),
    )
    assert is_correction.any(), "the second file speaks of times before those of the first"
    whole = sw.Batch.concat(batches)
    for kind, mask in ((sw.CORRECTIONS, is_correction), (sw.CHANGES, ~is_correction)):
        only = sw.from_dataframe(sinks.committed(str(out), told=kind), **FORM, schema=COUNTS.schema)
        assert list(only) == list(whole.data().where(mask))

    where["checkpoint"] = str(tmp_path / "another")
    with pytest.raises(sw.PlanError, match="another query"):
        COUNTS.start(spark, {s: _read(spark, given)}, **where)


def test_inputs_are_those_of_the_query(spark: Any, tmp_path: Path) -> None:
    other = sw.stream(COLUMNS, name="other")
    rows = _read(spark, tmp_path)
    where: dict[str, Any] = {"checkpoint": str(tmp_path / "checkpoint")}
    with pytest.raises(sw.PlanError, match="no input for 'other'"):
        s.union(other).start(spark, {s: rows}, **where)
    with pytest.raises(sw.PlanError, match="does not read 'other'"):
        s.start(spark, {s: rows, other: rows}, **where)
    with pytest.raises(sw.PlanError, match="cannot use"):
        s.start(spark, {s: rows}, checkpoint="nowhere://x/y")
    with pytest.raises(sw.PlanError, match="no such key"):
        s.start(spark, {s: rows}, **where, sink=sinks.Memory(key="x"))
    assert not (tmp_path / "checkpoint").exists()


# Without Spark: a sink gets batches, some of them twice, and is opened again in between.


def _batches(query: sw.Query) -> list[Delivery]:
    running = query.open()
    said = []
    for number, file in enumerate(FILES[:3]):
        good = _frame([row for row in file if row[0] != "upsert" and row[1] < row[2]])
        rows = sw.from_dataframe(good, **FORM, schema=COLUMNS)
        batches = [sw.Batch.empty(query.schema), *running.push(s, rows)]
        said.append(Delivery(number, sw.Batch.concat(batches).data(), number))
    return said


def _taken(sink: Sink, tmp_path: Path) -> Any:
    query = sw.Query(sink.plan(COUNTS.node))
    program = program_of(query.node, buckets=1)
    at = Opening("q", str(tmp_path / "own"), program, Ledger())
    first, second, third = _batches(query)
    receiver = sink.opened(at)
    for delivery in (first, second, second):
        receiver.take(delivery)
    receiver = sink.opened(at)
    for delivery in (second, third):
        receiver.take(delivery)
    return receiver


WHOLE: dict[str, Callable[[Path], Sink]] = {
    "all rows in memory": lambda _: sinks.Memory(),
    "a view in memory": lambda _: sinks.Memory(key="k"),
    "files": lambda place: sinks.Parquet(directory=str(place / "out")),
}


@pytest.mark.parametrize("name", WHOLE)
def test_what_is_kept_goes_on_where_it_was(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sink that has not got all that was said so far would begin in the middle."""
    monkeypatch.setattr(memory, "_TOGETHER", 2)
    sink = WHOLE[name](tmp_path)
    program = program_of(sink.plan(COUNTS.node), buckets=1)
    at = Opening("q", str(tmp_path / "own"), program, Ledger())
    with pytest.raises(sw.PlanError, match="the answer so far is not there") as refused:
        sink.opened(replace(at, through=0))
    assert refused.value.detail.startswith("batch 0 is through")
    receiver = sink.opened(at)
    for delivery in _batches(sw.Query(sink.plan(COUNTS.node))):
        # the driver may have ended before the batch was recorded, or just after
        receiver.take(delivery)
        sink.opened(replace(at, through=delivery.batch - 1))
        sink.opened(replace(at, through=delivery.batch))
    with pytest.raises(sw.PlanError, match="the answer so far is not there"):
        sink.opened(replace(at, through=3))


def test_a_query_whose_sink_is_refused_has_not_begun(spark: Any, tmp_path: Path) -> None:
    """The checkpoint is open for another one."""
    out = str(tmp_path / "out")
    Commit(0, "another", 5, [], Directory(out)).write()
    (tmp_path / "in").mkdir()
    given, checkpoint = {s: _read(spark, tmp_path / "in")}, str(tmp_path / "checkpoint")
    with pytest.raises(sw.PlanError, match="another query"):
        COUNTS.start(spark, given, checkpoint=checkpoint, sink=sinks.Parquet(directory=out))
    (tmp_path / "file").write_text("x")
    with pytest.raises(sw.PlanError, match="cannot be a directory"):
        COUNTS.start(spark, given, checkpoint=str(tmp_path / "file"))
    s.distinct().start(spark, given, checkpoint=checkpoint).stop()
    with pytest.raises(sw.PlanError, match="another plan"):
        COUNTS.start(spark, given, checkpoint=checkpoint)


def test_memory_is_there_again(tmp_path: Path) -> None:
    receiver = _taken(sinks.Memory(), tmp_path)
    assert receiver.output.as_history() == COUNTS.meaning({s: _elements(3)})


def test_the_files_of_a_view_do_not_pile_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_TOGETHER", 8)
    query = sw.Query(sinks.Memory(key="k").plan(COUNTS.node))
    at = Opening("q", str(tmp_path), program_of(query.node, buckets=1), Ledger())
    receiver = sinks.Memory(key="k").opened(at)
    running = query.open()
    for number in range(40):
        row = sw.insert(number, number + 1, k=str(number % 5), v=number, p="x")
        said = sw.Batch.concat([sw.Batch.empty(query.schema), *running.push(s, [row])])
        receiver.take(Delivery(number, said, number))
    assert len(list(tmp_path.iterdir())) < 40
    assert receiver.view().height == 5
    assert sinks.Memory(key="k").opened(at).view().equals(receiver.view())


def test_a_delta_table_has_every_change_once(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    _taken(sinks.Delta(table=str(tmp_path / "table")), tmp_path)
    table = deltalake.DeltaTable(str(tmp_path / "table"))
    rows = pl.DataFrame(table.to_pyarrow_table())
    said = sw.from_dataframe(rows, **FORM, schema=COUNTS.schema)
    assert sw.History.of(said, disordered=True) == COUNTS.meaning({s: _elements(3)})
    assert table.version() == 2
    assert table.history(1)[0]["settled_until"] == "2"


def test_a_delta_table_is_a_view(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    place = f"file:{tmp_path}/table"
    _taken(sinks.Delta(table=place, key=["k"]), tmp_path)
    table = deltalake.DeltaTable(str(tmp_path / "table"))
    rows = pl.DataFrame(table.to_pyarrow_table())
    assert rows.select("k", "n", "most", "vs").sort("k", nulls_last=False).equals(_latest(3))
    assert table.version() == 2


@pytest.mark.parametrize(
    "dtype",
    [pl.List(pl.Duration("us")), pl.UInt8(), pl.UInt128(), pl.Struct([]), pl.Enum(["a"]), pl.Float16()],
    ids=str,
)
def test_what_a_delta_table_cannot_hold_is_refused(dtype: pl.DataType, tmp_path: Path) -> None:
    query = sw.stream({"k": str, "span": dtype}, name="spans")
    at = Opening("q", str(tmp_path), program_of(query.node, buckets=1), Ledger())
    with pytest.raises(sw.PlanError, match="cannot hold the column 'span'"):
        sinks.Delta(table=str(tmp_path / "table")).opened(at)


OTHERS: dict[str, tuple[pl.DataFrame, str]] = {
    "other columns": (pl.DataFrame({"x": [1]}), "has x; the rows have kind, vs, ve, new_ve, k, n, most"),
    "another type": (
        changelog(sw.Batch.empty(pl.Schema({"k": pl.String(), "n": pl.Float64(), "most": pl.Int64()}))),
        '\'n\' is PrimitiveType("double"), not PrimitiveType("long")',
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_delta_table_of_other_rows_is_refused(name: str, tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    rows, detail = OTHERS[name]
    table = str(tmp_path / "table")
    deltalake.write_deltalake(table, rows)
    at = Opening("q", str(tmp_path), program_of(COUNTS.node, buckets=1), Ledger())
    with pytest.raises(sw.PlanError, match="has other columns") as refused:
        sinks.Delta(table=table).opened(at)
    assert refused.value.detail.endswith(detail)
    assert refused.value.hint


@pytest.mark.parametrize("key", [(), ("k",)])
def test_a_delta_table_has_the_answer_of_one_query(key: tuple[str, ...], tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    sink = sinks.Delta(table=str(tmp_path / "table"), key=key)
    _taken(sink, tmp_path)
    # who tidies up is no query
    deltalake.DeltaTable(str(tmp_path / "table")).optimize.compact()
    program = program_of(sink.plan(COUNTS.node), buckets=1)
    sink.opened(Opening("q", str(tmp_path), program, Ledger()))
    with pytest.raises(sw.PlanError, match="another query has put its answer there") as refused:
        sink.opened(Opening("r", str(tmp_path), program, Ledger()))
    assert "query q, this one is r" in refused.value.detail


BERLIN = pl.Datetime("us", "Europe/Berlin")


@pytest.mark.parametrize("dtype", [BERLIN, pl.List(BERLIN), pl.Struct({"at": BERLIN})], ids=str)
@pytest.mark.parametrize("key", [(), ("k",)])
def test_a_delta_table_with_times_of_a_zone_goes_on(
    key: tuple[str, ...], dtype: pl.DataType, tmp_path: Path
) -> None:
    """They are in it as instants in UTC, which is the only zone that it knows."""
    deltalake = pytest.importorskip("deltalake")
    rows = sw.stream({"k": dtype, "n": int}, name="rows")
    sink = sinks.Delta(table=str(tmp_path / "table"), key=key)
    query = sw.Query(sink.plan(rows.node))
    instant = dt.datetime(2024, 7, 1, tzinfo=dt.UTC)
    value: Any = {pl.List: [instant], pl.Struct: {"at": instant}}.get(dtype.base_type(), instant)
    at = Opening("q", str(tmp_path), program_of(query.node, buckets=1), Ledger())
    for number in range(2):
        [said] = query.open().push(rows, [sw.insert(number, number + 1, k=value, n=number)])
        sink.opened(at).take(Delivery(number, said, number))
    table = pl.DataFrame(deltalake.DeltaTable(str(tmp_path / "table")).to_pyarrow_table())
    assert table.height == (1 if key else 2)
    assert table["k"].to_list() == [value] * table.height


def test_the_console_shows_the_first_rows(tmp_path: Path) -> None:
    screen = io.StringIO()
    _taken(sinks.Console(rows=2, file=screen), tmp_path)
    first, *_ = screen.getvalue().split("batch 1")
    assert "batch 0: 3 changes, settled until 0" in first
    assert "insert" in first
    assert "INF" in first
    assert "and 1 more" in first
    screen = io.StringIO()
    _taken(sinks.Console(key="k", file=screen), tmp_path)
    assert "delete" in screen.getvalue()


def test_the_console_shows_values_as_they_are() -> None:
    """Also those that rich would take for its own."""
    words = ["[/]", "[red]x", "a[b]"]
    said = sw.Batch.of([sw.insert(1, 2, **{"[k]": word}) for word in words])
    screen = io.StringIO()
    sinks.Console(file=screen).take(said, 0, 5)
    for word in (*words, "[k]"):
        assert word in screen.getvalue()


def test_a_callback_gets_the_changes_of_a_view(tmp_path: Path) -> None:
    table: dict[Any, Any] = {}

    def take(changes: sinks.Upserts, number: int) -> None:
        for (key,) in changes.deletes.rows():
            table.pop(key, None)
        table.update({row[0]: row for row in changes.upserts.rows()})

    _taken(sinks.Callback(key="k", function=take), tmp_path)
    assert sorted(table.values(), key=str) == sorted(_latest(3).rows(), key=str)


def test_an_answer_is_read_between_two_batches(tmp_path: Path) -> None:
    """Who reads it while the query goes on must not take what was settled later for what he has read."""
    program = program_of(s.node, buckets=1)
    at = Opening("q", str(tmp_path), program, Ledger())
    receiver = sinks.Memory().opened(at)
    row = {"k": "a", "v": 1, "p": "x"}
    receiver.take(Delivery(0, sw.Batch.of([sw.insert(0, 100, **row), sw.cti(50)], s.schema), 50))
    read = receiver.output
    told = [sw.adjust(0, 100, 60, **row), sw.punctuation(k="b"), sw.cti(200)]
    receiver.take(Delivery(1, sw.Batch.of(told, s.schema), 200))
    assert read.as_history().to_polars()["ve"].to_list() == [100]
    assert (read.settled_until, read.settled().height, len(read.promised)) == (50, 0, 0)
    assert receiver.output.settled()["ve"].to_list() == [60]
