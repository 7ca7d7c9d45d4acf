"""What a start on Spark finds out by itself: which rows can only be inserts, and which Python to run."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

import slackwater as sw
from slackwater.plan.nodes import Source, walk
from slackwater.rows import Unread
from slackwater.spark.beforehand import require_python
from slackwater.spark.declared import declared

s, t = sw.stream({"k": int}, name="s"), sw.stream({"k": int}, name="t")
CHANGES = sw.read_files("t", vs="vs", ve="ve", kind="kind", new_ve="new_ve")


@pytest.mark.parametrize(
    "rows", [sw.read_files("s", vs="vs"), sw.read_files("s", vs="vs", ve="ve")], ids=["points", "events"]
)
def test_rows_without_a_kind_are_inserts(rows: Unread) -> None:
    query = s.join(t, on="k").union(s.join(s, on="k"))
    assert isinstance(s.node, Source)
    assert isinstance(t.node, Source)
    root, inputs = declared(query.node, {s.node: rows, t.node: CHANGES})
    found = [node for node in walk(root) if isinstance(node, Source)]
    assert {node.stream_name: node.properties.insert_only for node in found} == {"s": True, "t": False}
    assert [inputs[node] for node in found] == [rows, CHANGES]
    assert t.node in found, "what nothing is found out of stays as it is"


def test_workers_run_this_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON")
    settings: dict[str, str] = {}
    spark: Any = SimpleNamespace(
        conf=SimpleNamespace(get=settings.get), sparkContext=SimpleNamespace(pythonExec="python3")
    )
    require_python(spark)
    assert spark.sparkContext.pythonExec == sys.executable
    settings["spark.pyspark.python"] = spark.sparkContext.pythonExec = "/another/python"
    with pytest.raises(sw.PlanError, match="another Python"):
        require_python(spark)
