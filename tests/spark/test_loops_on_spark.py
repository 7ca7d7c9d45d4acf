"""A loop on Spark: taken up again from its checkpoint, and stopped if it does not end."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import slackwater as sw
from slackwater.events import Element
from slackwater.rows import changelog

link = sw.stream({"a": str, "b": str}, name="link")
FORM: dict[str, Any] = {"vs": "vs", "ve": "ve", "kind": "kind", "new_ve": "new_ve"}


def _further(reach: sw.Query) -> sw.Query:
    return reach.join(link, on={"b": "a"}, suffix="_next").select("a", b="b_next")


reach = sw.fixpoint(lambda reach: link.union(_further(reach)).distinct(), schema={"a": str, "b": str})

BATCHES: list[list[Element]] = [
    [sw.insert(0, 20, a="x", b="y"), sw.insert(2, 9, a="y", b="x"), sw.insert(4, 30, a="p", b="x")],
    [sw.insert(3, 12, a="y", b="z"), sw.cti(3)],
    [sw.adjust(0, 20, 7, a="x", b="y"), sw.insert(5, 8, a="z", b="p")],
    [sw.adjust(4, 30, 4, a="p", b="x"), sw.insert(6, 15, a="q", b="y"), sw.cti(sw.INF)],
]


def _write(number: int, elements: list[Element], directory: Path) -> None:
    directory.mkdir(exist_ok=True)
    path = directory / f"{number}.parquet"
    changelog(sw.Batch.of(elements, link.schema)).write_parquet(path)
    os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


def _start(spark: Any, query: sw.Query, place: Path) -> Any:
    rows = sw.read_files(str(place / "in"), **FORM, per_batch=1)
    checkpoint = str(place / "checkpoint")
    return query.start(
        spark, {link: rows}, checkpoint=checkpoint, buckets=2, trigger={"availableNow": True}
    )


def test_a_loop_goes_on_where_it_was(spark: Any, tmp_path: Path) -> None:
    """After two batches and a stop: what was derived is taken back, and settled, by what comes later."""
    for some in (BATCHES[:2], BATCHES):
        for number, elements in enumerate(some):
            _write(number, elements, tmp_path / "in")
        handle = _start(spark, reach, tmp_path)
        handle.spark_query.awaitTermination()
        handle.stop()
        assert handle.spark_query.exception() is None
        said = [element for elements in some for element in elements]
        assert handle.output.as_history() == reach.meaning({link: said})
        in_process = reach.run({link: said}, batch=1)
        assert handle.output.settled_until == in_process.settled_until
    assert handle.progress.state_rows == 0


def test_a_loop_that_does_not_end_says_what_kept_circulating(spark: Any, tmp_path: Path) -> None:
    ways = sw.fixpoint(lambda ways: link.union(_further(ways)), schema={"a": str, "b": str}, rounds=20)
    _write(0, [sw.insert(0, 9, a="x", b="x")], tmp_path / "in")
    handle = _start(spark, ways, tmp_path)
    with pytest.raises(sw.OperatorError) as failed:
        handle.process_all_available()
    handle.stop()
    assert failed.value.fact == "the query has stopped: fixpoint: no fixed point after 20 rounds"
    assert failed.value.detail == "still circulating: insert(0, 9, a='x', b='x')"
    assert failed.value.hint.startswith("bound the recursion with a where")


def test_what_cannot_turn_is_refused_before_anything_is_written(spark: Any, tmp_path: Path) -> None:
    counted = sw.fixpoint(
        lambda reach: link.union(reach.group_by("a").aggregate(b=sw.max("b"))),
        schema={"a": str, "b": str},
    )
    (tmp_path / "in").mkdir()
    with pytest.raises(sw.PlanError, match="Aggregate cannot be on the loop"):
        _start(spark, counted, tmp_path)
    assert not (tmp_path / "checkpoint").exists()
