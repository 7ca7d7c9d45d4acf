"""What cannot be started is refused before anything is begun, with a fact, a detail and a hint."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark import SparkContext

import slackwater as sw
from slackwater.distributed.files import Directory
from slackwater.distributed.program import program_of
from slackwater.distributed.store import Place, Store
from slackwater.plan.nodes import Source
from slackwater.spark import sinks
from slackwater.spark.beforehand import require_apart, require_offsets, require_types
from slackwater.spark.commits import Commit
from slackwater.spark.kafka import once

s = sw.stream({"k": int}, name="s")
other = sw.stream({"k": int}, name="other")
ROWS = pl.DataFrame({"k": [1], "vs": [5]})
FILES = sw.read_files("/in", vs="vs")
GOOD: dict[str, Any] = {"inputs": {s: FILES}, "checkpoint": "/checkpoint"}

WITHOUT_SPARK: dict[str, tuple[dict[str, Any], str, str]] = {
    "rows": ({"inputs": {s: [sw.insert(1, 2, k=1)]}}, r"\[insert\(1, 2, k=1\)\] cannot be read", "list"),
    "a table": ({"inputs": {s: ROWS}}, "s: a DataFrame cannot be read", "DataFrame"),
    "a batch": ({"inputs": {s: sw.from_dataframe(ROWS, vs="vs")}}, "cannot be read", "Batch"),
    "no mapping": ({"inputs": [FILES]}, "inputs are given per stream", "list"),
    "no stream": ({"inputs": {s.where(sw.col("k") > 1): FILES}}, "is not a stream from outside", ""),
    "an input too few": ({"inputs": {}}, "no input for 's'", "s"),
    "an input too many": ({"inputs": {s: FILES, other: FILES}}, "does not read 'other'", "it reads: s"),
    "a word for a sink": ({"sink": "console"}, "'console' is not a sink", "str"),
    "nothing for a sink": ({"sink": {}}, "{} is not a sink", "dict"),
    "the class of a sink": ({"sink": sinks.Memory}, "is not a sink", "the class of one"),
    "a number for a checkpoint": ({"checkpoint": 7}, "checkpoint=7 does not name", "int"),
    "a path for a checkpoint": ({"checkpoint": Path("/checkpoint")}, "does not name", "PosixPath"),
    "no checkpoint": ({"checkpoint": ""}, "does not name a directory", "empty"),
    "no buckets": ({"buckets": 0}, "one share or more", ""),
    "a word for buckets": ({"buckets": "many"}, "one share or more", "str"),
    "no session": ({}, "None is not a session of Spark", "NoneType"),
}


@pytest.mark.parametrize("name", WITHOUT_SPARK)
def test_what_cannot_be_started_is_refused(name: str) -> None:
    asked, fact, detail = WITHOUT_SPARK[name]
    given = GOOD | asked
    with pytest.raises(sw.PlanError, match=fact) as refused:
        s.start(None, given.pop("inputs"), **given)
    assert detail in refused.value.detail
    assert refused.value.hint


def test_a_session_that_was_stopped_is_refused(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # as stop() leaves it
    monkeypatch.setattr(spark.sparkContext, "_jsc", None)
    with pytest.raises(sw.PlanError, match="was stopped") as refused:
        s.start(spark, {s: FILES}, checkpoint=str(tmp_path / "checkpoint"))
    assert refused.value.hint


TRIGGERS: dict[str, tuple[Any, str]] = {
    "a word": ("10 seconds", "does not say when"),
    "nothing": ({}, "does not say when"),
    "two": ({"once": True, "availableNow": True}, "does not say when"),
    "an unknown one": ({"sometimes": True}, "no trigger 'sometimes'"),
    "one without batches": ({"continuous": "1 second"}, "no trigger 'continuous'"),
    "a number for a time": ({"processingTime": 10}, "cannot be 10"),
    "a time that is none": ({"processingTime": "soon"}, "'soon' is no time"),
    "not now": ({"availableNow": False}, "cannot be False"),
}


@pytest.mark.parametrize("name", TRIGGERS)
def test_a_trigger_is_one_that_spark_has(name: str, spark: Any, tmp_path: Path) -> None:
    trigger, fact = TRIGGERS[name]
    with pytest.raises(sw.PlanError, match=fact) as refused:
        s.start(spark, {s: FILES}, checkpoint=str(tmp_path / "checkpoint"), trigger=trigger)
    assert refused.value.hint
    assert not (tmp_path / "checkpoint").exists()


def test_a_dataframe_is_a_streaming_one_with_the_columns_of_the_stream(
    spark: Any, tmp_path: Path
) -> None:
    def refused(given: Any, fact: str) -> None:
        with pytest.raises(sw.PlanError, match=fact) as problem:
            s.start(spark, {s: given}, checkpoint=str(tmp_path / "checkpoint"))
        assert problem.value.hint
        assert not (tmp_path / "checkpoint").exists()

    def streaming(columns: str) -> Any:
        return spark.readStream.schema(columns).parquet(str(tmp_path))

    refused(streaming("k long, vs long"), "does not say when its rows are")
    refused(sw.from_dataframe(spark.range(3), vs="id"), "not a streaming one")
    refused(sw.from_dataframe(streaming("k long"), vs="vs"), "no column 'vs'")
    refused(sw.from_dataframe(streaming("vs long"), vs="vs"), "no column 'k'")
    refused(
        sw.from_dataframe(streaming("k string, vs long"), vs="vs"), "column 'k' is String, not Int64"
    )
    refused(sw.from_dataframe(streaming("k long, vs long"), vs="vs", partition="p"), "no column 'p'")


UNKNOWN_TO_ARROW: dict[str, pl.DataType] = {
    "integers of 128 bits": pl.Int128(),
    "a list of them": pl.List(pl.UInt128),
}
UNKNOWN_TO_PARQUET: dict[str, pl.DataType] = {
    **UNKNOWN_TO_ARROW,
    "a struct without fields": pl.Struct([]),
    "one in a list": pl.List(pl.Struct({"a": pl.Struct([])})),
}
KNOWN: dict[str, pl.DataType] = {
    "half a float": pl.Float16(),
    "words": pl.Enum(["a", "b"]),
    "lists of lists": pl.List(pl.Array(pl.Duration("us"), 2)),
    "a struct": pl.Struct({"d": pl.Decimal(38, 3), "t": pl.Time, "n": pl.Null}),
}
PARQUET = sinks.Parquet(directory="/out")
ARROW = sinks.Kafka(servers="localhost:9092", topic="t", value="arrow")


@pytest.mark.parametrize("name", [*UNKNOWN_TO_PARQUET, *KNOWN])
def test_types_are_refused_by_those_who_do_not_know_them(name: str) -> None:
    """Parcels carry them all, so that they come as far as the answer."""
    rows = sw.stream({"k": int, "c": (UNKNOWN_TO_PARQUET | KNOWN)[name]}, name="s")
    inside = program_of(rows.group_by("c").aggregate(n=sw.count()).select("n").node, buckets=2)
    answer = program_of(rows.distinct().node, buckets=2)
    for sink, form, unknown in (
        (sinks.Memory(), "", {}),
        (PARQUET, "to Parquet", UNKNOWN_TO_PARQUET),
        (ARROW, "as Arrow", UNKNOWN_TO_ARROW),
    ):
        require_types(inside, sink)
        if name not in unknown:
            require_types(answer, sink)
            continue
        with pytest.raises(sw.PlanError, match=f"column 'c' cannot be written {form}"):
            require_types(answer, sink)


def test_what_no_parcel_carries_is_refused_wherever_it_would_travel() -> None:
    rows = sw.stream({"k": int, "nothing": pl.Array(pl.Int8, 0)}, name="s")
    with pytest.raises(sw.PlanError, match="column 'nothing' cannot travel"):
        require_types(program_of(rows.select("k").node, buckets=2), sinks.Memory())
    with pytest.raises(sw.PlanError, match="column 'c' has a type that a stream cannot carry"):
        sw.stream({"c": pl.List(pl.Struct({"a": pl.Object}))})


def _answered(spark: Any, place: Path, **other: Any) -> Any:
    """A query over a file, as far as it comes, with something else than the first time."""
    given: dict[str, Any] = {"directory": "in", "vs": "vs", "sink": sinks.Console(), **other}
    rows = sw.read_files(str(place / given["directory"]), vs=given["vs"])
    handle = s.start(spark, {s: rows}, checkpoint=str(place / "checkpoint"), sink=given["sink"])
    handle.process_all_available()
    handle.stop()
    return handle


def test_what_goes_on_reads_what_it_has_read(spark: Any, tmp_path: Path) -> None:
    for name in ("in", "elsewhere"):
        (tmp_path / name / "below").mkdir(parents=True)
        table = pl.DataFrame({"k": [1], "vs": [5], "other": [7]})
        table.write_parquet(tmp_path / name / "0.parquet")
        table.write_parquet(tmp_path / name / "below" / "1.parquet")
    assert _answered(spark, tmp_path).progress.rows_in == 2, "files below it are read, too"
    for other, told in (
        ({"directory": "elsewhere"}, "/elsewhere (vs='vs')"),
        ({"vs": "other"}, "/in (vs='other')"),
    ):
        with pytest.raises(sw.PlanError, match="other inputs, or with another sink") as refused:
            _answered(spark, tmp_path, **other)
        assert refused.value.detail.startswith("'s': was parquet files in ")
        assert refused.value.detail.endswith(told)
        assert refused.value.hint
    assert _answered(spark, tmp_path).progress.rows_in == 2


def _source(query: sw.Query) -> Source:
    assert isinstance(query.node, Source)
    return query.node


APART = [
    ("/data", "/data-out"),
    ("/data", "/data/_out"),
    ("/data/in", "/data"),
    ("/data/in-*", "/data/out"),
    ("/data/{in,more}", "/data/out"),
    ("/data/[^a-n]*", "/data/in"),
]
WITHIN = [
    ("/data", "/data"),
    ("/data/", "/data/out/a"),
    ("/data/in-*", "/data/in-1/out"),
    ("/d?", "/da/x"),
    ("/data/{in,out-{a,b}}", "/data/out-b/x"),
    ("/data/[^a-n]*", "/data/out"),
]


@pytest.mark.parametrize(("read", "written"), [*APART, *WITHIN])
def test_a_query_does_not_read_what_it_writes(read: str, written: str) -> None:
    """Files in directories below the input's are read as well."""
    parquet, delta = sinks.Parquet(directory=written), sinks.Delta(table=written)
    for sink, checkpoint in ((sinks.Memory(), written), (parquet, "/c"), (delta, "/c")):
        given = {_source(s): sw.read_files(read, vs="vs")}
        if (read, written) in APART:
            require_apart(given, sink, checkpoint, str)
            continue
        with pytest.raises(sw.PlanError, match="s: the query would read its own") as refused:
            require_apart(given, sink, checkpoint, str)
        assert written in refused.value.detail
        assert refused.value.hint


def test_a_query_does_not_read_its_own_answer_as_a_batch_of_others() -> None:
    """The pattern of their directories or topics would find it, too."""
    source = _source(s)
    for pattern in ("/answers/copy-*", "/answers/{copy-merged,other}", "/answers/copy-merged"):
        given = {source: sw.read_committed(pattern)}
        require_apart(given, sinks.Parquet(directory="/answers/merged"), "/c", str)
        require_apart(given, sinks.Parquet(directory="/answers/copy-merged/below"), "/c", str)
        with pytest.raises(sw.PlanError, match="s: the query would read its own answer") as refused:
            require_apart(given, sinks.Parquet(directory="/answers/copy-merged"), "/c", str)
        assert refused.value.hint
    topics = sw.read_kafka("a:9092,b:9092", pattern="copy-.*", vs="vs")
    known = replace(topics, progress=sw.Progress(origins=("copy-1/0", "copy-merged/0")))
    for servers, topic in (("a:9092", "merged"), ("c:9092", "copy-merged")):
        require_apart({source: known}, sinks.Kafka(servers=servers, topic=topic), "/c", str)
    with pytest.raises(sw.PlanError, match="s: the query would read its own answer") as refused:
        require_apart({source: known}, sinks.Kafka(servers="b:9092", topic="copy-merged"), "/c", str)
    assert refused.value.hint


def test_an_answer_is_not_read_as_files(tmp_path: Path) -> None:
    """A task that was run twice has left two files, of which one counts."""
    given = {_source(s): sw.read_files(str(tmp_path), vs="vs", ve="ve", kind="kind", new_ve="new_ve")}
    require_apart(given, sinks.Memory(), "/c", str)
    Commit(0, "q", 7, [], Directory(str(tmp_path))).write()
    with pytest.raises(sw.PlanError, match="are the answer of another query") as refused:
        require_apart(given, sinks.Memory(), "/c", str)
    assert "read_committed" in refused.value.hint


def test_an_answer_goes_on_where_it_was(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pl.DataFrame({"k": [1], "vs": [5]}).write_parquet(tmp_path / "in" / "0.parquet")
    one, other = (sinks.Delta(table=str(tmp_path / name)) for name in ("one", "other"))
    _answered(spark, tmp_path, sink=one)
    with pytest.raises(sw.PlanError, match="another sink") as refused:
        _answered(spark, tmp_path, sink=other)
    assert "was the Delta table" in refused.value.detail
    with pytest.raises(sw.PlanError, match="another sink"):
        _answered(spark, tmp_path, sink=sinks.Console())
    _answered(spark, tmp_path, sink=one)
    in_no_table = tmp_path / "in no table"
    (in_no_table / "in").mkdir(parents=True)
    pl.DataFrame({"k": [1], "vs": [5]}).write_parquet(in_no_table / "in" / "0.parquet")
    _answered(spark, in_no_table)
    with pytest.raises(sw.PlanError, match="another sink") as refused:
        _answered(spark, in_no_table, sink=other)
    assert "the answer: was in no table and no topic; is the Delta table" in refused.value.detail
    assert not (tmp_path / "other").exists()


def test_a_topic_goes_on_with_rows_where_they_were() -> None:
    """An adjust must not come to another partition than the insert before it."""

    def place(topic: str = "t", **other: Any) -> str:
        return sinks.Kafka(servers="localhost:9092", topic=topic, **{"partitions": 2, **other}).place

    others = [place("u"), place(partitions=3), place(key=["k"]), place(key=["k", "v"])]
    others += [place(value="arrow"), place(key=["k"], view=True)]
    assert len({place(), *others}) == 1 + len(others)
    assert place(tokens=True) == place()
    assert place(key="key") == place(key=["key"])


def test_what_kafka_has_said_of_one_topic_it_has_not_said_of_another(tmp_path: Path) -> None:
    """A query that is refused, for its topic is another one, leaves the checkpoint as it was."""

    def known(of: str, counts: Any, root: str = "new") -> Any:
        return once(f"{tmp_path}/{root}", "partitions of s", of, lambda: counts)

    assert known("wrong", ["wrong/0"]) == ["wrong/0"]
    assert known("t", ["t/0", "t/1"]) == ["t/0", "t/1"]
    # a partition that is added later is not one of those
    assert known("t", ["t/0", "t/1", "t/2"]) == ["t/0", "t/1"]
    assert known("like t/.*", ["t/0"]) == ["t/0"]
    written_before = tmp_path / "old" / "known"
    written_before.mkdir(parents=True)
    (written_before / "partitions of s.json").write_text('["t/0"]')
    assert known("t", ["t/0", "t/1"], "old") == ["t/0"]


def test_with_its_spark_a_query_has_ended(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").mkdir()
    rows = sw.read_files(str(tmp_path / "in"), vs="vs")
    handle = s.start(spark, {s: rows}, checkpoint=str(tmp_path / "checkpoint"))
    with monkeypatch.context() as stopped:
        stopped.setattr(SparkContext, "_active_spark_context", None)
        handle.stop()
        assert handle.spark_query.isActive, "nobody was asked to stop it"
    handle.stop()
    assert not handle.spark_query.isActive


def test_what_has_lost_its_offsets_is_refused(tmp_path: Path) -> None:
    """Spark would read all input again, into batches that are through."""
    store = Store(f"{tmp_path}/slackwater")
    require_offsets(store, str(tmp_path))
    store.write_record(3, {Place(1, 0): "0"}, {"batch": 3})
    with pytest.raises(sw.PlanError, match="not whole") as refused:
        require_offsets(store, str(tmp_path))
    assert "batch 3" in refused.value.detail
    offsets = tmp_path / "spark" / "offsets"
    offsets.mkdir(parents=True)
    (offsets / "3").write_text("v1")
    require_offsets(store, str(tmp_path))
