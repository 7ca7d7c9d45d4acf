"""The bank in queries that meet in topics: a token is in every partition, and counts when it is in all.

Readers take so few records at once that they stop in the middle of what others have written, and the
last batch of the first query is written twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from examples import bank, bank_apart
from tests.spark.broker import Topics, broker
from tests.spark.jars import jars

import slackwater as sw
from slackwater.spark import sinks
from slackwater.spark.commits import read_commit

FORM: dict[str, Any] = {"vs": "vs", "ve": "ve", "kind": "kind", "new_ve": "new_ve"}
FILES, PARTITIONS = 3, 2
ROWS = bank.transactions(120)


@pytest.fixture(scope="module")
def topics(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Topics]:
    for jar in jars("connector"):
        spark.sql(f"ADD JAR '{jar}'")
    with broker(tmp_path_factory.mktemp("broker")) as servers:
        yield Topics(spark, servers)


def _run(spark: Any, topics: Topics, name: str, place: Path, *, per_batch: int | None = None) -> Any:
    query, streams = bank_apart.GRAPH[name]
    inputs = {}
    for stream in streams:
        read = bank_apart.name_of(stream)
        if stream is bank.TRANSACTIONS:
            inputs[stream] = sw.read_files(str(place / "files"), vs="vs", ve="ve", per_batch=1)
        else:
            inputs[stream] = sw.read_kafka(
                topics.servers, read, per_batch=per_batch, aligned=True, **FORM
            )
    sink: Any = sinks.Kafka(servers=topics.servers, topic=name, tokens=True)
    if name == "total":
        sink = sinks.Parquet(directory=str(place / name))
    checkpoint = str(place / "checkpoints" / name)
    handle = query.start(spark, inputs, checkpoint=checkpoint, sink=sink, trigger={"availableNow": True})
    handle.spark_query.awaitTermination()
    return handle


def test_the_bank_over_topics(spark: Any, topics: Topics, tmp_path: Path) -> None:
    bank_apart.write(ROWS, FILES, tmp_path)
    for name in ("accepted", "credits", "debits"):
        topics.create(name, PARTITIONS)
    first = _run(spark, topics, "accepted", tmp_path)
    # as if the driver had died after the last batch was written, and before Spark noted it
    commits = tmp_path / "checkpoints" / "accepted" / "spark" / "commits"
    (commits / str(FILES - 1)).unlink()
    (commits / f".{FILES - 1}.crc").unlink(missing_ok=True)
    first = _run(spark, topics, "accepted", tmp_path)
    one = _run(spark, topics, "credits", tmp_path, per_batch=70)
    assert one.progress.token[first.name] == FILES - 1
    assert one.progress.batch > 0, "it has read in parts"
    total = _run(spark, topics, "total", tmp_path)
    assert total.progress.token == {}
    assert total.progress.held_by == "debits, partition debits/0: no token yet"
    assert not total.progress.rows_out
    two = _run(spark, topics, "debits", tmp_path, per_batch=90)
    total = _run(spark, topics, "total", tmp_path, per_batch=30)
    named = {each.name: each.progress.batch for each in (one, two, total)}
    assert total.progress.token == {first.name: FILES - 1, **named}
    for number in range(total.progress.batch + 1):
        until = _token(tmp_path / "total", number)
        seen = sinks.committed(str(tmp_path / "total"), until=until) if until else None
        if seen is None:
            continue
        told = sw.from_dataframe(seen, **FORM, schema=bank_apart.TOTAL.schema)
        prefix = ROWS.head(sum(_sizes()[: until[first.name] + 1]))
        assert bank.is_right("total", sw.History.of(told), prefix)


def _token(directory: Path, batch: int) -> dict[str, int]:
    return read_commit(str(directory), f"{batch:09d}.json").token or {}


def _sizes() -> list[int]:
    return [len(part) for part in np.array_split(np.arange(ROWS.height), FILES)]
