"""Every operator on Spark, against the oracle: two source partitions, one to three buckets, files that
come one or two to a trigger.

A trigger takes half a second, so examples are few: drawn beforehand, the same on every run, the longest
of several, and a few queries run at a time. `make test` tries a choice of cases in which every kind of
node, aggregation, join and output latency occurs; SLACKWATER_TURN=1, 2, ... makes it another choice.
`make laws-spark` tries all of them, SLACKWATER_SPARK_EXAMPLES times each.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, TypeVar

import polars as pl
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from tests.bags import Bag
from tests.laws import CASES, Case, answers_at_once

import slackwater as sw
from slackwater.events import Element, Stream
from slackwater.history import History
from slackwater.oracle import meaning
from slackwater.plan import nodes
from slackwater.plan.carried import carried
from slackwater.plan.properties import output_latencies
from slackwater.plan.rewrites import rewritten
from slackwater.punctuations import Punctuation
from slackwater.rows import changelog
from slackwater.testing import histories, streams
from slackwater.times import BEGIN
from slackwater.validity import Validator

pytestmark = pytest.mark.spark_laws

EXAMPLES = int(os.environ.get("SLACKWATER_SPARK_EXAMPLES", "0"))
"""of every case; 0: one, of a choice of cases"""
TURN = int(os.environ.get("SLACKWATER_TURN", "0"))
TOGETHER = 4
"""so many queries run at a time"""
DRAWN_FOR_ONE = 8
"""the longest of so many is tried"""
FORM: dict[str, Any] = {
    "vs": "vs",
    "ve": "ve",
    "kind": "kind",
    "new_ve": "new_ve",
    "pattern": "pattern",
    "partition": "p",
}

T = TypeVar("T")


@dataclass(frozen=True)
class Example:
    """How a case is told: for each source its files, in which every row says its partition."""

    files: dict[sw.Query, list[dict[str, list[Element]]]]
    per_trigger: int
    buckets: int
    reads: Literal["parquet", "arrow", "dataframe"]

    @property
    def elements(self) -> int:
        return sum(
            len(part) for files in self.files.values() for file in files for part in file.values()
        )

    @property
    def triggers(self) -> int:
        return max(-(-len(files) // self.per_trigger) for files in self.files.values())


@st.composite
def _examples(draw: DrawFn, case: Case) -> Example:
    files = {}
    for source in case.sources:
        count = draw(st.integers(2, 4))
        cut = {name: _cut(draw, _stream(draw, source, case), count) for name in ("a", "b")}
        files[source] = [{name: parts[i] for name, parts in cut.items()} for i in range(count)]
    reads: Any = draw(st.sampled_from(["parquet", "arrow", "dataframe"]))
    # Spark reads the files of a trigger in the order of their sizes
    per_trigger = 1 if reads == "dataframe" else draw(st.integers(1, 2))
    return Example(files, per_trigger, draw(st.integers(1, 3)), reads)


def _stream(draw: DrawFn, source: sw.Query, case: Case) -> list[Element]:
    history = draw(histories(source.schema, unbounded=case.unbounded, max_size=5))
    return draw(streams(history, unbounded=case.unbounded, patterns=draw(st.booleans())))


def _cut(draw: DrawFn, stream: list[Element], count: int) -> list[list[Element]]:
    """So many parts, some of which may be empty: a partition need not have rows in every trigger."""
    places = draw(st.lists(st.integers(0, len(stream)), min_size=count - 1, max_size=count - 1))
    return [stream[a:b] for a, b in pairwise((0, *sorted(places), len(stream)))]


def _drawn(name: str, count: int) -> list[Example]:
    """Examples of a case that are the same on every run."""
    found: list[Example] = []

    @seed(zlib.crc32(name.encode()) + TURN)
    @settings(
        max_examples=DRAWN_FOR_ONE * count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(_examples(CASES[name]()))
    def draw(example: Example) -> None:
        found.append(example)

    draw()
    return [max(some, key=lambda example: example.elements) for some in _in_groups(found, DRAWN_FOR_ONE)]


def _in_groups(values: Sequence[T], size: int) -> list[Sequence[T]]:
    return [values[start : start + size] for start in range(0, len(values), size)]


# which cases


def _features(name: str) -> set[object]:
    """What a case tries."""
    root = CASES[name]().query.node
    features: set[object] = set(output_latencies(root).values())
    for node in [*nodes.walk(root), *nodes.walk(rewritten(root))]:
        features.add(type(node))
        if isinstance(node, nodes.Join):
            features.add((type(node), node.how))
        elif isinstance(node, nodes.Aggregate):
            features |= {type(each) for each in node.aggregations.values()}
        elif isinstance(node, nodes.Fixpoint):
            best = None if node.best is None else node.best.value is None
            features.add((type(node), best, bool(carried(node).columns)))
    return features


def _choice() -> list[str]:
    """A few cases that together try everything; which of those that are as good is a matter of turns."""
    names = sorted(CASES, key=lambda name: zlib.crc32(f"{TURN} {name}".encode()))
    features = {name: _features(name) for name in names}
    missing = set().union(*features.values())
    chosen = []
    while missing:
        best = max(names, key=lambda name: len(features[name] & missing))
        chosen.append(best)
        missing -= features[best]
    return chosen


def _tried() -> list[tuple[str, int]]:
    """Cases and the numbers of their examples."""
    if not EXAMPLES:
        return [(name, 0) for name in _choice()]
    return [(name, number) for name in CASES for number in range(EXAMPLES)]


GROUPS = _in_groups(_tried(), TOGETHER)


# what is tried


@pytest.mark.parametrize("group", GROUPS, ids=[", ".join(f"{n} {i}" for n, i in g) for g in GROUPS])
def test_a_plan_on_spark_means_what_it_means(
    group: Sequence[tuple[str, int]], spark: Any, tmp_path: Path
) -> None:
    at_work = []
    for place, (name, number) in enumerate(group):
        case, example = CASES[name](), _drawn(name, max(1, EXAMPLES))[number]
        at_work.append((name, case, example, _start(spark, case, example, tmp_path / str(place))))
    for name, case, example, handle in at_work:
        handle.spark_query.awaitTermination()
        handle.stop()
        try:
            _check(case, example, handle)
        except AssertionError as problem:
            problem.add_note(f"{name}: {example}")
            raise


def _start(spark: Any, case: Case, example: Example, place: Path) -> Any:
    inputs = {}
    for number, (source, files) in enumerate(example.files.items()):
        directory = place / str(number)
        _write(source, files, directory, "parquet" if example.reads == "dataframe" else example.reads)
        inputs[source] = _read(spark, source, directory, example)
    return case.query.start(
        spark,
        inputs,
        checkpoint=str(place / "checkpoint"),
        buckets=example.buckets,
        trigger={"availableNow": True},
    )


def _write(source: sw.Query, files: list[dict[str, list[Element]]], directory: Path, form: str) -> None:
    directory.mkdir(parents=True)
    for number, file in enumerate(files):
        nothing = pl.DataFrame(schema={"pattern": pl.String})
        tables = [
            pl.concat([changelog(sw.Batch.of(part, source.schema)), nothing], how="diagonal").select(
                "kind", "vs", "ve", "new_ve", "pattern", *source.schema, p=pl.lit(name)
            )
            for name, part in file.items()
        ]
        table = pl.concat(tables)
        path = directory / f"{number}.{form}"
        table.write_parquet(path) if form == "parquet" else table.write_ipc(path)
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


def _read(spark: Any, source: sw.Query, directory: Path, example: Example) -> Any:
    policy = sw.progress(partitions=2)
    if example.reads == "dataframe":
        columns = ", ".join(f"{name} {_SPARK[dtype]}" for name, dtype in source.schema.items())
        frame = (
            spark.readStream.schema(
                f"{columns}, kind string, vs long, ve long, new_ve long, pattern string, p string"
            )
            .option("maxFilesPerTrigger", example.per_trigger)
            .parquet(str(directory))
        )
        return sw.from_dataframe(frame, **FORM, progress=policy)
    return sw.read_files(
        str(directory), **FORM, progress=policy, form=example.reads, per_batch=example.per_trigger
    )


_SPARK = {pl.String(): "string", pl.Int64(): "long", pl.Float64(): "double"}


def _check(case: Case, example: Example, handle: Any) -> None:
    """After every trigger: valid, and right so far; at the end: what was settled was final."""
    failure = handle.spark_query.exception()
    assert failure is None, failure
    assert len(handle.output.batches) == example.triggers
    root = case.query.node
    eager = answers_at_once(root)
    valid, answer, settled_until = Validator(), Bag(), BEGIN
    prefixes: list[tuple[int, Bag]] = []
    for out, said in zip(handle.output.batches, _prefixes(example), strict=True):
        valid.admit(out)
        answer.take_in(out)
        promises = [p.control for p in out.controls if isinstance(p.control, Punctuation)]
        settled_until = max([settled_until, *(each.before for each in promises if each.is_cti)])
        prefixes.append((settled_until, answer.copy()))
        if eager:
            assert answer == Bag.of(meaning(root, said)), "EAGER: the oracle's answer over the prefix"
    final = Bag.of(meaning(root, said))
    assert settled_until == sw.INF, "closed input closes the output"
    assert answer == final
    for until, then in prefixes:
        assert then.settled(until) == final.settled(until), f"what was settled before {until}"
    assert handle.progress.state_rows == 0, "the last promise empties the state"
    assert not len(handle.ledger)


def _prefixes(example: Example) -> Iterator[dict[nodes.Node, History]]:
    """What the sources have said after each trigger."""
    bags = {source: Bag() for source in example.files}
    for trigger in range(example.triggers):
        for source, files in example.files.items():
            start = trigger * example.per_trigger
            for file in files[start : start + example.per_trigger]:
                for part in file.values():
                    bags[source].take_in(_data(part, source))
        yield {source.node: bag.history(source.schema) for source, bag in bags.items()}


def _data(part: Stream, source: sw.Query) -> sw.Batch:
    return sw.Batch.of(part, source.schema).data()


def test_the_choice_tries_everything() -> None:
    chosen = _choice()
    assert set().union(*map(_features, chosen)) == set().union(*map(_features, CASES))
    assert len(chosen) < len(CASES) / 4
