"""Topics of a real broker as sources and sinks: the answer is right whatever is bad, idle, repeated."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import fastavro
import numpy as np
import polars as pl
import pytest
from tests.spark.broker import Topics, broker
from tests.spark.jars import jars

import slackwater as sw
from slackwater.events import Element
from slackwater.rows import changelog
from slackwater.spark import sinks

COLUMNS = {"k": int, "v": float}
FORM: dict[str, Any] = {"vs": "vs", "ve": "ve", "kind": "kind", "new_ve": "new_ve"}
ROWS = 60
AVRO = {
    "type": "record",
    "name": "change",
    "fields": [
        {"name": "kind", "type": "string"},
        *({"name": name, "type": ["null", "long"]} for name in ("vs", "ve", "new_ve", "k")),
        {"name": "v", "type": ["null", "double"]},
    ],
}

s = sw.stream(COLUMNS, name="s")
COUNTS = s.group_by("k").aggregate(n=sw.count(), t=sw.sum("v"))
c = sw.stream(dict(COUNTS.schema), name="c")
OF_COUNTS = c.group_by("n").aggregate(of=sw.count())


@pytest.fixture(scope="module")
def topics(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Topics]:
    for jar in jars("connector"):
        spark.sql(f"ADD JAR '{jar}'")
    with broker(tmp_path_factory.mktemp("broker")) as servers:
        yield Topics(spark, servers)


def _changes(batch: int, *, last: bool = False) -> list[pl.DataFrame]:
    """What a batch adds to each of two partitions: a changelog with a cti at its end."""
    random = np.random.default_rng(batch)
    partitions = []
    for partition in range(2):
        vs = batch * ROWS + np.arange(ROWS) - random.integers(0, 20, ROWS)
        rows = pl.DataFrame(
            {
                "kind": "insert",
                "vs": vs,
                "ve": vs + random.integers(1, 100, ROWS),
                "new_ve": pl.Series([None] * ROWS, dtype=pl.Int64),
                "k": random.integers(0, 5, ROWS),
                # a payload is in one partition only, as an adjust has to be with its insert
                "v": (2 * random.integers(0, 100, ROWS) + partition) / 8,
            }
        )
        moved = rows.filter(pl.Series(random.random(ROWS) < 0.2)).with_columns(
            kind=pl.lit("adjust"), new_ve=pl.col("vs") + pl.col("ve") % 31
        )
        promise = sw.INF if last else batch * ROWS - 40
        ctis = pl.DataFrame({"kind": ["cti"], "vs": [promise]})
        partitions.append(pl.concat([rows, moved, ctis], how="diagonal"))
    return partitions


def _values(rows: pl.DataFrame, form: str) -> list[bytes]:
    if form == "json":
        return rows.write_ndjson().encode().splitlines()
    if form == "arrow":
        return [part.write_ipc_stream(None).getvalue() for part in rows.iter_slices(25)]
    values = []
    for row in rows.iter_rows(named=True):
        out = io.BytesIO()
        fastavro.schemaless_writer(out, AVRO, row)
        values.append(out.getvalue())
    return values


def _write(topics: Topics, topic: str, partitions: list[pl.DataFrame], form: str) -> None:
    for number, rows in enumerate(partitions):
        topics.write(topic, number, _values(rows, form))


def _elements(*batches: list[pl.DataFrame]) -> sw.Batch:
    whole = pl.concat([rows for batch in batches for rows in batch])
    return sw.from_dataframe(whole.filter(pl.col("kind") != "cti"), **FORM, schema=COLUMNS)


def test_avro_of_all_topics_that_match_a_pattern(spark: Any, topics: Topics, tmp_path: Path) -> None:
    changes = _changes(0), _changes(1, last=True)
    for name, batch in zip(("avro-one", "avro-two"), changes, strict=True):
        _write(topics, topics.create(name, 2), batch, "avro")
    # each topic ends with its own promise; only together they are all there is
    for partition in range(2):
        topics.write("avro-one", partition, _values(_changes(1, last=True)[0].tail(1), "avro"))
    given = sw.read_kafka(topics.servers, pattern="avro-.*", value="avro", avro_schema=AVRO, **FORM)
    handle = COUNTS.start(spark, {s: given}, checkpoint=str(tmp_path / "checkpoint"))
    try:
        assert handle.await_settled(sw.INF, timeout=120)
    finally:
        handle.stop()
    assert not len(handle.ledger)
    assert handle.output.history().equals(COUNTS.meaning({s: _elements(*changes)}).to_polars())


def _again(checkpoint: Path) -> None:
    """As if the driver had died after the last batch was written, and before Spark noted it."""
    commits = checkpoint / "spark" / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)


@pytest.mark.parametrize("form", ["json", "arrow"])
def test_a_topic_between_two_queries(
    form: Literal["json", "arrow"], spark: Any, topics: Topics, tmp_path: Path
) -> None:
    """The first writes a batch twice; the second has read it once by then, and been stopped."""
    first, second = topics.create(f"{form}-in", 2), topics.create(f"{form}-out", 2)
    changes = _changes(2), _changes(3, last=True)
    sink = sinks.Kafka(servers=topics.servers, topic=second, value=form, key=["k"])

    def counted() -> Any:
        given = sw.read_kafka(topics.servers, first, value=form, **FORM)
        return COUNTS.start(spark, {s: given}, checkpoint=str(tmp_path / "first"), sink=sink)

    def recounted() -> Any:
        given = sw.read_kafka(topics.servers, second, value=form, **FORM)
        return OF_COUNTS.start(spark, {c: given}, checkpoint=str(tmp_path / "second"))

    for batch in changes:
        _write(topics, first, batch, form)
        handle = counted()
        handle.process_all_available()
        handle.stop()
        again = recounted()
        again.process_all_available()
        again.stop()
        _again(tmp_path / "first")
    handle = counted()
    handle.process_all_available()
    handle.stop()
    assert handle.progress.settled_until == sw.INF
    again = recounted()
    again.process_all_available()
    again.stop()

    written = _records(spark, topics, second)
    # each batch was written twice, in the same words
    twice = written.group_by("partition", "headers", "key", "value").len()
    assert twice["len"].to_list() == [2] * twice.height
    assert written.height > 4
    assert not len(handle.ledger)
    assert not len(again.ledger)
    whole = COUNTS.group_by("n").aggregate(of=sw.count())
    wanted = whole.meaning({s: _elements(*changes)}).to_polars()
    assert again.output.as_history().to_polars().equals(wanted)


def test_a_topic_that_is_a_view_has_the_current_row_of_every_key(
    spark: Any, topics: Topics, tmp_path: Path
) -> None:
    """Rows come, are replaced and go, and a batch is written twice."""
    source, view = topics.create("view-in", 2), topics.create("view-out", 3)
    sink = sinks.Kafka(servers=topics.servers, topic=view, key=["k"], view=True)
    given = sw.read_kafka(topics.servers, source, **FORM)
    said: list[Element] = []

    def tell(*elements: Element) -> None:
        said.extend(elements)
        _write(topics, source, [changelog(sw.Batch.of(elements, s.schema))], "json")
        handle = COUNTS.start(spark, {s: given}, checkpoint=str(tmp_path / "checkpoint"), sink=sink)
        handle.process_all_available()
        handle.stop()

    tell(*(sw.insert(at, at + 10, k=at % 3, v=1.5) for at in range(9)), sw.insert(5, 9, k=7, v=1.0))
    _again(tmp_path / "checkpoint")
    tell(sw.adjust(5, 9, 5, k=7, v=1.0), sw.adjust(8, 18, 8, k=2, v=1.5), sw.insert(40, 50, k=0, v=2.0))
    written = _records(spark, topics, view)
    assert written["key"].null_count() == 0
    assert written["value"].null_count() > 0, "a key has gone"
    table = dict(written.sort("partition", "offset").select("key", "value").iter_rows())
    found = [json.loads(value) for value in table.values() if value is not None]
    history = COUNTS.meaning({s: said}).to_polars()
    wanted = history.sort("vs").group_by("k").last().select("k", "n", "t", "vs").sort("k")
    assert pl.DataFrame(found).select("k", "n", "t", "vs").sort("k").equals(wanted)
    assert {json.loads(key)["k"] for key, value in table.items() if value is None} == {7}


def test_a_view_that_could_not_be_one_is_refused() -> None:
    for wrong in ({"key": ()}, {"value": "arrow"}, {"tokens": True}):
        asked: dict[str, Any] = {"servers": "", "topic": "t", "key": ["k"], "view": True, **wrong}
        with pytest.raises(sw.PlanError, match="under its key, and nothing else"):
            sinks.Kafka(**asked)


def _records(spark: Any, topics: Topics, topic: str) -> pl.DataFrame:
    read = spark.read.format("kafka").option("kafka.bootstrap.servers", topics.servers)
    records = read.option("subscribe", topic).option("includeHeaders", "true").load()
    columns = records.select("partition", "offset", "key", "value", "headers").toArrow()
    frame: Any = pl.from_arrow(columns)
    told: pl.DataFrame = frame
    return told.with_columns(
        headers=pl.Series([json.dumps([h["value"].decode() for h in row]) for row in told["headers"]])
    )


def test_a_poisoned_record_is_in_the_ledger_and_the_query_lives(
    spark: Any, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.create("poisoned", 2)
    good: list[dict[str, Any]] = [{"k": 1, "v": 2.5, "vs": n, "ve": n + 5} for n in range(4)]
    bad = [
        b"{",
        json.dumps({**good[0], "k": "one"}).encode(),
        json.dumps({"k": 1, "vs": 1, "ve": 2}).encode(),
        json.dumps({**good[0], "ve": 0}).encode(),
        None,
    ]
    lines = [json.dumps(row).encode() for row in good]
    topics.write(topic, 0, [lines[0], *bad, lines[1]])
    topics.write(topic, 1, [lines[2]])
    given = sw.read_kafka(topics.servers, topic, vs="vs", ve="ve")
    handle = s.start(spark, {s: given}, checkpoint=str(tmp_path / "checkpoint"))
    try:
        handle.process_all_available()
        topics.write(topic, 1, [b"\xff", lines[3]])
        handle.process_all_available()
    finally:
        handle.stop()
    told = sorted((entry.detail.partition(":")[0], entry.reason) for entry in handle.ledger)
    where = "topic 'poisoned', partition {}, offset {}".format
    reasons = ["bad JSON", "wrong type", "missing field", "ends before it starts", "no value"]
    wanted = [(where(0, offset), reason) for offset, reason in enumerate(reasons, 1)]
    assert told == [*wanted, (where(1, 1), "bad JSON")]
    elements = [sw.insert(row["vs"], row["ve"], k=row["k"], v=row["v"]) for row in good]
    assert handle.output.history().equals(s.meaning({s: elements}).to_polars())


def test_promises_about_keys_come_among_the_records(spark: Any, topics: Topics, tmp_path: Path) -> None:
    """A key is closed when both partitions have said so; its group is told, and forgotten."""
    topic = topics.create("closed", 2)

    def say(partition: int, *records: dict[str, Any]) -> None:
        topics.write(topic, partition, [json.dumps(record).encode() for record in records])

    rows = [{"kind": "insert", "vs": n, "ve": None, "k": n % 3, "v": 1.0} for n in range(6)]
    closed: list[dict[str, Any]] = [{"kind": "punctuation", "about": {"k": {"one_of": [0, 1]}}}]
    say(0, *rows[:3], *closed)
    say(1, *rows[3:], {"kind": "punctuation", "k": 1})
    given = sw.read_kafka(topics.servers, topic, vs="vs", ve="ve", kind="kind", pattern_column="about")
    query, to = s.group_by("k").aggregate(n=sw.count()), sinks.Memory(settled=True)
    handle = query.start(spark, {s: given}, sink=to, checkpoint=str(tmp_path / "checkpoint"))
    try:
        handle.process_all_available()
        assert handle.output.history().rows() == [(1, 1, 1, 4), (1, 2, 4, sw.INF)]
        say(1, {"kind": "punctuation", "k": 0})
        handle.process_all_available()
        # the group of 2 is open
        told = handle.output.history().rows()
        assert told == [(0, 1, 0, 3), (1, 1, 1, 4), (0, 2, 3, sw.INF), (1, 2, 4, sw.INF)]
        assert not len(handle.ledger)
    finally:
        handle.stop()


@pytest.mark.parametrize("value", ["json", "arrow"])
def test_promises_about_keys_go_from_query_to_query_through_a_topic(
    spark: Any, topics: Topics, tmp_path: Path, value: Any
) -> None:
    """What the first promises of its answer closes groups of the second, which has no ctis."""
    topic = topics.create(f"promised-{value}", 2)
    inserts = [sw.insert(n, None, k=n % 3, v=1.0) for n in range(6)]
    told = [*inserts, sw.punctuation(k=1), sw.punctuation(k=sw.between(5, 9))]
    (tmp_path / "rows").mkdir()
    rows = changelog(sw.Batch.of(told, s.schema))
    rows.write_parquet(tmp_path / "rows" / "0.parquet")
    source = sw.read_files(str(tmp_path / "rows"), pattern="pattern", **FORM)
    to = sinks.Kafka(servers=topics.servers, topic=topic, value=value, key=["k"])
    first = s.where(sw.col("v") > 0).start(
        spark, {s: source}, sink=to, checkpoint=str(tmp_path / "first")
    )
    given = sw.read_kafka(topics.servers, topic, value=value, pattern_column="pattern", **FORM)
    counted = s.group_by("k").aggregate(n=sw.count())
    second = counted.start(
        spark,
        {s: given},
        sink=sinks.Memory(settled=True),
        checkpoint=str(tmp_path / "second"),
        on_invalid=sw.LEDGER,
    )
    try:
        first.process_all_available()
        second.process_all_available()
        assert second.output.history().rows() == [(1, 1, 1, 4), (1, 2, 4, sw.INF)]
        late = [{"kind": "insert", "vs": 9, "ve": None, "new_ve": None, "k": 7, "v": 1.0}]
        topics.write(topic, 0, [json.dumps(row).encode() for row in late] if value == "json" else [])
        second.process_all_available()
        reasons = [entry.reason for entry in second.ledger]
        assert reasons == (["promise broken"] if value == "json" else [])
    finally:
        first.stop()
        second.stop()


def test_an_idle_partition_does_not_hold_the_promise_back(
    spark: Any, topics: Topics, tmp_path: Path
) -> None:
    """One is busy, one has fallen silent, and one has never said anything."""
    topic = topics.create("idle", 3)

    def say(partition: int, at: int) -> None:
        topics.write(topic, partition, [json.dumps({"k": partition, "v": 0.0, "vs": at}).encode()])

    say(0, 100)
    say(1, 50)
    policy = sw.progress(lateness=0, idle="2 s")
    given = sw.read_kafka(topics.servers, topic, vs="vs", progress=policy)
    handle = s.start(spark, {s: given}, checkpoint=str(tmp_path / "checkpoint"))
    try:
        handle.process_all_available()
        # nobody knows what the third will say, and it has not been silent for long
        assert handle.progress.settled_until == sw.BEGIN
        at, until = 100, time.monotonic() + 60
        while handle.progress.settled_until < 200 and time.monotonic() < until:
            at += 10
            say(0, at)
            handle.process_all_available()
        assert 200 <= handle.progress.settled_until <= at
        assert not len(handle.ledger)
        # it comes back, and has something to say of a time that is settled, and of now
        topics.write(
            topic, 1, [json.dumps({"k": 1, "v": 0.0, "vs": vs}).encode() for vs in (60, at + 1)]
        )
        handle.process_all_available()
    finally:
        handle.stop()
    assert handle.ledger.counts() == {"late": 1}
    assert handle.output.history().filter(k=1)["vs"].to_list() == [50, at + 1]


def test_what_cannot_be_read_or_written_is_refused_at_the_start(
    spark: Any, topics: Topics, tmp_path: Path
) -> None:
    where: dict[str, Any] = {"checkpoint": str(tmp_path / "checkpoint")}
    given = sw.read_kafka(topics.servers, "nowhere", vs="vs")
    with pytest.raises(sw.PlanError, match="Kafka does not say what nowhere is"):
        s.start(spark, {s: given}, **where)
    raw = sw.stream({"raw": pl.Binary}, name="raw")
    given = sw.read_kafka(topics.servers, topics.create("there", 1), vs="vs")
    with pytest.raises(sw.PlanError, match="'raw' cannot be read from JSON"):
        raw.start(spark, {raw: given}, **where)
    other = topics.create("elsewhere", 1)
    sink = sinks.Kafka(servers=topics.servers, topic=other, key=["nothing"])
    with pytest.raises(sw.PlanError, match="no column 'nothing'"):
        s.start(spark, {s: given}, sink=sink, **where)
    given = sw.read_kafka(topics.servers, "there", value="arrow", vs="vs")
    sink = sinks.Kafka(servers=topics.servers, topic=other)
    with pytest.raises(sw.PlanError, match="'raw' cannot be written as JSON"):
        raw.start(spark, {raw: given}, sink=sink, **where)
    sink = sinks.Kafka(servers=topics.servers, topic="there")
    with pytest.raises(sw.PlanError, match="would read its own answer"):
        raw.start(spark, {raw: given}, sink=sink, **where)


def test_topics_that_are_replicas(spark: Any, topics: Topics, tmp_path: Path) -> None:
    """One breaks off, another is created while the query runs; a topic's partitions go together."""
    copies = sw.stream(COLUMNS, name="copies", replicated=True)
    changes = _changes(0), _changes(1, last=True)
    _write(topics, topics.create("copy-1", 2), changes[0], "json")
    given = sw.read_kafka(topics.servers, pattern="copy-.*", progress=sw.progress(partitions=2), **FORM)
    handle = sw.merge(copies).start(spark, {copies: given}, checkpoint=str(tmp_path / "checkpoint"))
    try:
        assert handle.await_settled(-40, timeout=120)
        topics.create("copy-2", 2)
        for batch in changes:
            _write(topics, "copy-2", batch, "json")
        assert handle.await_settled(sw.INF, timeout=120)
        assert set(handle.progress.replicas["copies"]) == {"copy-1", "copy-2"}
    finally:
        handle.stop()
    assert not len(handle.ledger)
    wanted = sw.History.of(_elements(*changes), s.schema)
    assert handle.output.as_history() == wanted


def test_feedback_through_a_topic(spark: Any, topics: Topics, tmp_path: Path) -> None:
    """Queries that write topics, found by a pattern, merged; who begins anew is told what is past.

    By a topic, which may hold something else as well.
    """
    properties = sw.StreamProperties(insert_only=True)
    source = sw.stream({"k": int}, name="source", properties=properties)
    counts = source.window(sw.tumbling(20)).group_by("k").aggregate(n=sw.count())
    copies = sw.stream(
        dict(counts.schema),
        name="copies",
        replicated=True,
        properties=sw.StreamProperties(vs_payload_key=True),
    )
    feedback = sw.topic(topics.servers, topics.create("feedback", 1))
    topics.write("feedback", 0, [b"no feedback", None, b'{"detached": {}}'])
    rows = pl.DataFrame({"vs": np.arange(1_000), "k": np.arange(1_000) % 3})
    (tmp_path / "in").mkdir()
    rows.write_parquet(tmp_path / "in" / "0.parquet")

    def replica(name: str, **more: Any) -> Any:
        given = sw.read_files(str(tmp_path / "in"), vs="vs", progress=sw.progress(lateness=100))
        sink = sinks.Kafka(servers=topics.servers, topic=topics.create(name, 1), value="arrow")
        checkpoint = str(tmp_path / name)
        query = counts.start(spark, {source: given}, checkpoint=checkpoint, sink=sink, **more)
        query.process_all_available()
        query.stop()
        return query.progress

    given = sw.read_kafka(
        topics.servers, pattern="answer-.*", value="arrow", progress=sw.progress(partitions=1), **FORM
    )
    merged = sw.merge(copies).start(
        spark, {copies: given}, checkpoint=str(tmp_path / "merged"), feedback_to=feedback
    )
    first = replica("answer-1")
    merged.process_all_available()
    again = replica("answer-2", feedback=feedback)
    merged.process_all_available()
    merged.stop()
    assert merged.progress.settled_until == first.settled_until == 900
    assert set(merged.progress.replicas["copies"]) == {"answer-1", "answer-2"}
    # who begins anew leaves out what is past, and tells the rest
    assert 0 < again.rows_out < first.rows_out / 3
    told = sw.from_dataframe(rows, vs="vs", schema=source.schema)
    assert merged.output.as_history() == counts.meaning({source: told})


def test_a_topic_of_feedback_has_to_exist(spark: Any, topics: Topics, tmp_path: Path) -> None:
    given = sw.read_kafka(topics.servers, topics.create("for-feedback", 1), **FORM)
    with pytest.raises(sw.PlanError, match="Kafka does not say what nowhere is"):
        COUNTS.start(
            spark,
            {s: given},
            checkpoint=str(tmp_path),
            feedback_to=sw.topic(topics.servers, "nowhere"),
        )
