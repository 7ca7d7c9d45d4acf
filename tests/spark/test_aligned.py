"""Several queries that meet in directories: what the last one shows is of one prefix of the input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from examples import bank, bank_apart

import slackwater as sw
from slackwater.distributed.program import program_of
from slackwater.errors import OperatorError, PlanError
from slackwater.ledger import Ledger
from slackwater.plan.nodes import Source
from slackwater.spark import sinks
from slackwater.spark.commits import commits_in, read_commit
from slackwater.spark.receiving import Delivery, Opening

FILES = 3
ROWS = bank.transactions(10_000)


def _run(spark: Any, name: str, place: Path, **more: Any) -> Any:
    query = bank_apart.start(spark, name, place, trigger={"availableNow": True}, **more)
    query.spark_query.awaitTermination()
    return query


def test_the_bank_in_four_queries(spark: Any, tmp_path: Path) -> None:
    """Credits are ahead of debits by all of the input, then by a part of it."""
    bank_apart.write(ROWS, FILES, tmp_path)
    first = _run(spark, "accepted", tmp_path)
    assert first.progress.token == {first.name: FILES - 1}
    one, two = _run(spark, "credits", tmp_path), bank_apart.start(spark, "debits", tmp_path)
    # one batch is read at once: no token is passed over
    tokens = [
        read_commit(str(tmp_path / "credits"), name).token for name in _commits(tmp_path, "credits")
    ]
    assert [token[first.name] for token in tokens if token] == [*range(FILES)]
    total = bank_apart.start(spark, "total", tmp_path)
    for query in (two, total):
        query.process_all_available()
        query.stop()
    # what is there of debits may have come while the last query ran
    total = _run(spark, "total", tmp_path)
    named = {each.name: FILES - 1 for each in (first, one, two)}
    assert total.progress.token == {**named, total.name: total.progress.batch}
    names = ("accepted", "credits", "debits", "total")
    cut = sinks.snapshot(total.progress.token, [str(tmp_path / "checkpoints" / each) for each in names])
    for name, at in zip(names, cut, strict=True):
        assert at.batch == total.progress.token[at.query]
        assert at.is_whole
        assert at.offsets
        answer = sinks.committed(str(tmp_path / name), until=total.progress.token)
        assert answer.height == at.rows_out
    verdict = bank_apart.verdict("total", ROWS, tmp_path)
    assert verdict.compared >= FILES
    assert (verdict.wrong, verdict.different) == (0, 0)
    # by hand: both answers as of the same prefix
    directories = [str(tmp_path / name) for name in ("credits", "debits")]
    assert sinks.aligned(*directories) == named
    earlier = {first.name: 1}
    sides = [sinks.committed(each, until=earlier) for each in directories]
    spent = [_sum(side, column) for side, column in zip(sides, ("credits", "debits"), strict=True)]
    assert spent[0] == spent[1] == sinks.committed(str(tmp_path / "accepted"), until=earlier).height


def _commits(place: Path, name: str) -> list[str]:
    return [*commits_in(str(place / name))]


def _sum(rows: pl.DataFrame, column: str) -> int:
    """Of what is there in the last second."""
    told = sw.from_dataframe(rows, vs="vs", ve="ve", kind="kind", new_ve="new_ve")
    return int(sw.History.of(told).snapshot(bank.SECONDS)[column].sum())


def test_without_tokens_money_is_made(spark: Any, tmp_path: Path) -> None:
    rows = ROWS.head(100)
    bank_apart.write(rows, 1, tmp_path)
    for name in ("accepted", "credits"):
        _run(spark, name, tmp_path)
    _run(spark, "total", tmp_path, aligned=False)
    assert bank_apart.verdict("total", rows, tmp_path).wrong


def test_what_cannot_be_aligned_is_refused(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="cannot be aligned"):
        sw.read_committed("answers/copy-*", aligned=True)
    with pytest.raises(PlanError, match="not found idle"):
        sw.read_committed("answers", aligned=True, progress=sw.progress(idle="1 s"))
    copies = sw.stream(
        {"k": int}, name="c", replicated=True, properties=sw.StreamProperties(vs_payload_key=True)
    )
    with pytest.raises(PlanError, match="replicas are not aligned"):
        sw.merge(copies).start(
            spark,
            {copies: sw.read_committed("answers", aligned=True)},
            checkpoint=str(tmp_path / "checkpoint"),
        )


def test_an_answer_without_tokens_is_refused(spark: Any, tmp_path: Path) -> None:
    rows = ROWS.head(10)
    bank_apart.write(rows, 1, tmp_path)
    _run(spark, "accepted", tmp_path)
    [name] = _commits(tmp_path, "accepted")
    path = tmp_path / "accepted" / "_batches" / name
    facts = json.loads(path.read_text())
    # as an earlier version has left it
    path.write_text(json.dumps({key: each for key, each in facts.items() if key != "token"}))
    query = bank_apart.start(spark, "credits", tmp_path)
    with pytest.raises(OperatorError, match="tells no token"):
        query.process_all_available()
    query.stop()
    # as one has left it that holds rows back
    path.write_text(json.dumps(facts | {"holds_back": "blocking=5: what is shown lacks what waits"}))
    query = bank_apart.start(spark, "credits", tmp_path)
    with pytest.raises(OperatorError, match="less than the answer at its token"):
        query.process_all_available()
    query.stop()


@pytest.mark.parametrize("settled", [False, True])
def test_an_answer_that_holds_rows_back_says_so(settled: bool, tmp_path: Path) -> None:
    """Nothing here starts Spark."""
    query, (accepted,) = bank_apart.GRAPH["credits"]
    sink = sinks.Parquet(directory=str(tmp_path / "credits"), settled=settled)
    (tmp_path / "credits").mkdir()
    root = sink.plan(query.latency(sw.EAGER).node)
    assert isinstance(accepted.node, Source)
    program = program_of(root, buckets=1, aligned=[accepted.node])
    token = {"accepted": 3, "credits": 0}
    sink.opened(Opening("q", str(tmp_path), program, Ledger())).take(
        Delivery(0, sw.Batch.empty(program.schema), 0, token=token)
    )
    if not settled:
        assert sinks.aligned(sink.directory) == token
        return
    with pytest.raises(OperatorError, match="less than the answer at its token") as refused:
        sinks.aligned(sink.directory)
    assert "what waits for promises" in refused.value.detail
    topic = sinks.Kafka(servers="localhost:9092", topic="credits", tokens=True)
    with pytest.raises(PlanError, match="a token would be told"):
        topic.opened(Opening("q", str(tmp_path), program, Ledger()))
