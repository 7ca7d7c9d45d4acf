"""What a program carries to other places, and when it may go on with another's state."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark import cloudpickle

import slackwater as sw
from slackwater.distributed.bucket import Bucket, parcels_of
from slackwater.distributed.parcels import From, Parcel, shared
from slackwater.distributed.program import Program, program_of
from slackwater.distributed.store import Store
from slackwater.plan import functions
from slackwater.plan.nodes import Aggregate
from slackwater.runtime.edge import OnInvalid

s = sw.stream({"k": int, "v": float}, name="s")


def _program(query: sw.Query, lateness: int | None = None) -> Program:
    policies = {query.node: sw.Progress(lateness)} if query is s else {}
    return program_of(query.node, buckets=2, progress=policies)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda: s.select(r=sw.col("v").round(1)), lambda: s.select(r=sw.col("v").round(2))),
        (lambda: s.where(sw.col("v") > 1), lambda: s.where(sw.col("v") > 2)),
        (lambda: s.window(sw.tumbling(5)), lambda: s.window(sw.tumbling(6))),
    ],
)
def test_another_plan_has_another_fingerprint(
    one: Callable[[], sw.Query], other: Callable[[], sw.Query]
) -> None:
    assert _program(one()).fingerprint == _program(one()).fingerprint
    assert _program(one()).fingerprint != _program(other()).fingerprint


def test_so_has_another_policy() -> None:
    fingerprints = {_program(s, lateness).fingerprint for lateness in (None, 5, 6)}
    assert len(fingerprints) == 3
    policies = [sw.progress(lateness=5, partitions=n) for n in (1, 2)]
    programs = [program_of(s.node, buckets=2, progress={s.node: policy}) for policy in policies]  # type: ignore[dict-item]
    assert programs[0].fingerprint != programs[1].fingerprint


def test_functions_that_are_written_again_are_the_same() -> None:
    """They are numbered by process, and a restart must find its plan."""

    def query(*names: str) -> sw.Query:
        shown = {
            name: sw.function(lambda v: v, sw.function(lambda v: v, "v", returns=float), returns=float)
            for name in names
        }
        return s.select(**shown)

    assert _program(query("a", "b")).fingerprint == _program(query("a", "b")).fingerprint
    assert _program(query("a", "b")).fingerprint != _program(query("a", "c")).fingerprint


def _doubled(factor: float) -> Callable[..., pa.Array]:
    return lambda v: pc.multiply(v, factor)


_OFFSET = 1.0


def _helped(v: pa.Array) -> pa.Array:
    """With what the module has."""
    return pc.add(_doubled(2)(v), _OFFSET)


def _helped_one_by_one(v: pa.Array) -> pa.Array:
    """The same within a comprehension, which is code of its own."""
    return pa.array([each + _OFFSET for each in v.to_pylist()])


def test_another_function_of_the_same_name_is_another_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was said with the old one could not be taken back with the new one."""

    def fingerprint(function: Callable[..., pa.Array]) -> str:
        return _program(s.select(v=sw.function(function, "v", returns=float))).fingerprint

    assert fingerprint(_doubled(2)) == fingerprint(_doubled(2))
    assert fingerprint(_doubled(2)) != fingerprint(_doubled(3))
    assert fingerprint(lambda v: pc.add(v, 1)) != fingerprint(lambda v: pc.add(v, 2))
    assert fingerprint(partial(_helped)) == fingerprint(partial(_helped))
    before, within = fingerprint(_helped), fingerprint(_helped_one_by_one)
    monkeypatch.setitem(globals(), "_OFFSET", 2.0)
    assert fingerprint(_helped) != before
    assert fingerprint(_helped_one_by_one) != within
    monkeypatch.setitem(globals(), "_OFFSET", 1.0)
    assert fingerprint(_helped) == before
    monkeypatch.setitem(globals(), "_doubled", lambda factor: lambda v: v)
    assert fingerprint(_helped) != before


@pytest.mark.parametrize("name", ["init", "add", "remove", "result"])
def test_so_is_another_aggregate_of_the_same_name(name: str) -> None:
    def fingerprint(**others: Callable[..., Any]) -> str:
        parts: dict[str, Any] = {
            "init": lambda: 0.0,
            "add": lambda total, v: total + v,
            "remove": lambda total, v: total - v,
            "result": lambda total: total,
        }
        return _program(s.aggregate(r=sw.fold("v", **{**parts, **others}, dtype=float))).fingerprint

    assert fingerprint() == fingerprint() != fingerprint(**{name: lambda *given: given[-1:]})


def test_what_a_function_runs_is_the_same_in_every_process() -> None:
    """Sets have another order in each, and objects another place."""
    told = (
        "from slackwater.plan.code import digest_of\n"
        "class Kept:\n"
        "    def __call__(self, v): return v in {'a', 'b', 'c', 'd'}\n"
        "kept = Kept()\n"
        "print(digest_of(lambda v: kept(v) or v in {'x', 'y', 'z'}), digest_of(kept))"
    )
    seen = {
        subprocess.run(  # noqa: S603
            [sys.executable, "-c", told],
            env={**os.environ, "PYTHONHASHSEED": str(number)},
            capture_output=True,
            check=True,
        ).stdout
        for number in range(3)
    }
    assert len(seen) == 1


def _begun(store: Store, program: Program, *beside: str) -> str:
    facts = store.fitting(program, beside)
    store.begin(facts)
    return str(facts["query"])


def test_more_may_be_forgiven_after_a_restart_but_not_less(tmp_path: Path) -> None:
    def opened(on_invalid: OnInvalid) -> str:
        return _begun(Store(str(tmp_path)), program_of(s.node, buckets=1, on_invalid=on_invalid))

    name = opened(sw.RAISE)
    assert opened(sw.LEDGER) == name
    assert opened(sw.LEDGER) == name
    with pytest.raises(sw.PlanError, match="may hold elements that are invalid"):
        opened(sw.RAISE)


def test_what_enters_beside_the_streams_is_fixed_with_the_first_batch(tmp_path: Path) -> None:
    """Spark could not tell which of its offsets are whose."""
    store = Store(str(tmp_path))

    def opened(*beside: str) -> str:
        return _begun(store, program_of(s.node, buckets=1), *beside)

    name = opened("a heartbeat")
    assert opened() == name, "nothing was read yet"
    store.write_record(0, {})
    assert opened() == name
    with pytest.raises(sw.PlanError, match="other inputs beside") as refused:
        opened("a heartbeat")
    assert refused.value.detail == "was: nothing; is: a heartbeat"


def test_where_rows_come_from_is_fixed_with_the_first_batch_that_is_begun(tmp_path: Path) -> None:
    """It may have failed, and will be run again with the files that Spark has written down."""
    store, program = Store(str(tmp_path)), program_of(s.node, buckets=1)
    store.begin(store.fitting(program, places={"'s'": "/wrong"}))
    store.begin(store.fitting(program, places={"'s'": "/in"}))
    store.fitting(program, places={"'s'": "/in"}, has_read=True)
    with pytest.raises(sw.PlanError, match="other inputs, or with another sink") as refused:
        store.fitting(program, places={"'s'": "/other"}, has_read=True)
    assert refused.value.detail == "'s': was /in; is /other"
    with pytest.raises(sw.PlanError, match="other inputs beside"):
        store.fitting(program, ["a heartbeat"], {"'s'": "/in"}, has_read=True)


def test_a_source_that_is_judged_first_keeps_the_latency_of_its_readers() -> None:
    """It is needed by k and by v: the plan is made anew with one entrance."""
    query = (
        s.group_by("k")
        .aggregate(n=sw.count())
        .union(s.select(k=sw.col("v").cast(int), v="v").group_by("k").aggregate(n=sw.count()))
    )
    program = _program(query.latency(sw.PERFECTNESS_PRESERVING))
    counts = [latency for node, latency in program.latencies.items() if isinstance(node, Aggregate)]
    assert counts == [sw.PERFECTNESS_PRESERVING] * 2
    assert len(program.cut.stages) == 2


def test_user_functions_come_along(monkeypatch: pytest.MonkeyPatch) -> None:
    """To a process that has never heard of them."""
    double = sw.function(lambda v: pc.multiply(v, pa.scalar(2.0)), "v", returns=float)
    program = _program(s.where(double > 3).select("k", twice=double))
    pickled = cloudpickle.dumps(program)
    monkeypatch.setattr(functions, "_FUNCTIONS", {})
    there: Program = cloudpickle.loads(pickled)
    rows = sw.Batch.of([sw.insert(0, 5, k=1, v=1.0), sw.insert(1, 5, k=1, v=2.0)], s.schema)
    said = [
        element
        for number in range(2)
        for parcel in Bucket(there, 1, number)
        .step([p for p in _sent(there, rows) if p.bucket == number], now=0)
        .parcels
        for element in parcel.batch(there.schema)
    ]
    assert said == [sw.insert(1, 5, k=1, twice=4.0)]


def _sent(program: Program, rows: sw.Batch) -> list[Parcel]:
    [source] = program.sources
    [target] = program.targets(source)
    return list(parcels_of(From("0"), (1, 0), shared(rows, target.columns, 2, "0"), 2))
