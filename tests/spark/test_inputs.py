"""Files as tasks read them: what cannot be used is told with its file, and with its row there."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import slackwater as sw
from slackwater.distributed.files import Directory
from slackwater.ledger import Ledger
from slackwater.rows import Files, Form
from slackwater.spark import inputs
from slackwater.spark.commits import Commit
from slackwater.spark.inputs import frame_of
from slackwater.spark.reading import Reading

SCHEMA = pl.Schema({"k": pl.Int64})
ROWS = pl.DataFrame({"k": [1, 2, 3, 4], "vs": [5, 5, None, None], "p": ["x", None, "x", None]})


def _read(path: Path, ledger: Ledger, kind: Any = "parquet", partition: str | None = None) -> list[Any]:
    now = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    found = pa.record_batch(
        [pa.array([f"file:{path}"]), pa.array([now], pa.timestamp("us", "UTC"))],
        names=["path", "modificationTime"],
    )
    form = Form("vs")
    columns = [*SCHEMA, *form.special, *([] if partition is None else [partition])]
    parts = inputs._read_files(iter([found]), Files(str(path.parent), kind, None), columns)
    reading = Reading("s", form, SCHEMA, ledger)
    return [(origin, list(rows)) for origin, _, rows in inputs._pieces(parts, partition, reading)]


def test_what_cannot_be_used_is_told_with_its_row_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many rows are read at once, and whatever partition they are of."""
    path = tmp_path / "0.parquet"
    ROWS.write_parquet(path)
    for partition in (None, "p"):
        for together in (3, 100):
            monkeypatch.setattr(inputs, "_TOGETHER", together)
            ledger = Ledger()
            read = _read(path, ledger, partition=partition)
            assert sum(len(rows) for _, rows in read) == 2
            places = {entry.element["k"]: entry.detail for entry in ledger}  # type: ignore[index]
            assert places == {3: f"file:{path}, row 2", 4: f"file:{path}, row 3"}


def test_who_has_no_partition_promises_for_nobody_else(tmp_path: Path) -> None:
    names = [None, "None", "'None'", "", "Nones"]
    path = tmp_path / "0.parquet"
    pl.DataFrame({"k": range(5), "vs": range(5), "p": names}).write_parquet(path)
    read = _read(path, Ledger(), partition="p")
    assert len({origin for origin, _ in read}) == len(names)
    assert [rows[0].payload["k"] for _, rows in read] == [*range(5)]
    assert read[0][0] == "None"


def _cut(path: Path) -> None:
    ROWS.write_parquet(path)
    path.write_bytes(path.read_bytes()[:-9])


UNREADABLE: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "no Parquet": ("parquet", lambda path: path.write_text("k,vs"), "cannot be read as parquet"),
    "half of a file": ("parquet", _cut, "cannot be read as parquet"),
    "none": ("parquet", lambda path: path, "cannot be read as parquet"),
    "no Arrow": ("arrow", lambda path: path.write_text("k,vs"), "cannot be read as arrow"),
    "a column too few": ("parquet", lambda path: ROWS.drop("vs").write_parquet(path), "no column 'vs'"),
    "one too few in Arrow": ("arrow", lambda path: ROWS.drop("k").write_ipc(path), "no column 'k'"),
    "another type": (
        "parquet",
        lambda path: ROWS.cast({"k": pl.String}).write_parquet(path),
        "column 'k' is String, not Int64",
    ),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_file_that_cannot_be_read_is_named(name: str, tmp_path: Path) -> None:
    kind, write, fact = UNREADABLE[name]
    path = tmp_path / "0"
    write(path)
    with pytest.raises(sw.OperatorError, match=fact) as failed:
        _read(path, Ledger(), kind)
    assert str(path) in failed.value.fact
    assert failed.value.detail
    assert failed.value.hint


def test_where_nothing_is_nothing_can_be_read(spark: Any, tmp_path: Path) -> None:
    for given in (sw.read_files(f"{tmp_path}/in", vs="vs"), sw.read_committed(f"{tmp_path}/out")):
        with pytest.raises(sw.PlanError, match="there is nothing to be read at") as refused:
            frame_of(spark, given)
        assert refused.value.hint


def test_a_directory_is_named_by_a_text(tmp_path: Path) -> None:
    place: Any = tmp_path
    for read in (lambda: sw.read_files(place, vs="vs"), lambda: sw.read_committed(place)):
        with pytest.raises(sw.PlanError, match="does not name a directory") as refused:
            read()
        assert "str(path)" in refused.value.hint
    with pytest.raises(sw.PlanError, match="at least one file is read at once"):
        sw.read_files("in", vs="vs", per_batch=0)


def test_times_of_96_bits_are_those_that_were_written(tmp_path: Path) -> None:
    """As Spark writes them: an end that never comes is often one in the year 9999."""
    path = tmp_path / "0.parquet"
    times = [(dt.datetime(2024, 1, 1), dt.datetime(9999, 12, 31)), (dt.datetime(1500, 1, 1), None)]
    vs, ve = (pa.array(column, pa.timestamp("us")) for column in zip(*times, strict=True))
    table = pa.table({"vs": vs, "ve": ve, "k": [1, 2]})
    pq.write_table(table, path, use_deprecated_int96_timestamps=True)
    read = inputs._read_file(str(path), Files(str(tmp_path), "parquet", None), ["vs", "ve", "k"])
    assert pl.DataFrame(read).select("vs", "ve").rows() == times


def test_an_answer_below_what_is_read_is_not_read_as_rows(tmp_path: Path) -> None:
    """Who looks at the start does not see it there, nor what comes later."""
    path = tmp_path / "answer" / "0.parquet"
    path.parent.mkdir()
    ROWS.write_parquet(path)
    assert len(_read(path, Ledger())) == 1
    Commit(0, "q", 7, [], Directory(str(path.parent))).write()
    with pytest.raises(sw.OperatorError, match="are the answer of another query") as failed:
        _read(path, Ledger())
    assert "read_committed" in failed.value.hint
