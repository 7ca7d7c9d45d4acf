"""High availability on Spark: three queries compute the same, two are killed, and nobody notices.

    python examples/failover.py

Three replicas of one query run as Spark applications of their own. They read the same files, each at its
own pace, and write their answers to out/copy-1, out/copy-2 and out/copy-3, with their own revisions. One
more query merges whatever it finds under out/copy-*. Copy 1 is killed (SIGKILL), then copy 2; copy 2
begins anew in a directory of its own, which the merge finds, and which is told what is past, so that it
need not be told again. All the while the merged answer goes on.

At the end: how long the longest pause between two commits of the merged answer was, and whether its
history is the one that the definition of the query gives for all rows.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

os.environ["PYSPARK_PYTHON"] = sys.executable

import numpy as np
import polars as pl

import slackwater as sw
from slackwater.spark import sinks

READINGS = sw.stream(
    {"sensor": int, "temp": int}, name="readings", properties=sw.StreamProperties(insert_only=True)
)
HOURLY = READINGS.window(sw.tumbling(20)).group_by("sensor").aggregate(n=sw.count(), most=sw.max("temp"))
# of every sensor and time there is one row: (vs, payload) is a key
COPIES = sw.stream(
    dict(HOURLY.schema),
    name="copies",
    replicated=True,
    properties=sw.StreamProperties(vs_payload_key=True),
)
EVERY = 0.5
"""seconds from one file of readings to the next"""
AT_FIRST = 8
"""files that are there before"""
ROWS = 400
SENSORS = 20


def session(cores: int) -> Any:
    """Spark, small and on loopback."""
    from pyspark.sql import SparkSession  # noqa: PLC0415

    made = (
        SparkSession.builder.master(f"local[{cores}]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.sql.shuffle.partitions", str(cores))
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    made.sparkContext.setLogLevel("ERROR")
    return made


# what is measured


def readings(number: int, last: int) -> pl.DataFrame:
    """The rows of one file: some late, and behind them how far the sensors are."""
    rng = np.random.default_rng(number)
    now = number * 10
    vs = now + rng.integers(0, 10, ROWS) - np.where(rng.random(ROWS) < 0.2, rng.integers(0, 30, ROWS), 0)
    rows = pl.DataFrame(
        {
            "kind": "insert",
            "vs": vs,
            "ve": vs + 1,
            "sensor": rng.integers(0, SENSORS, ROWS),
            "temp": rng.integers(0, 100, ROWS),
        }
    )
    end = sw.INF if number == last else now - 30
    return pl.concat([rows, pl.DataFrame({"kind": ["cti"], "vs": [end]})], how="diagonal")


def feed(directory: Path, first: int, last: int, every: float) -> None:
    """Files at a steady rate; nobody sees half of one."""
    began = time.monotonic()
    for number in range(first, last + 1):
        time.sleep(max(0.0, began + (number - first) * every - time.monotonic()))
        path = directory / f".{number:05d}.parquet"
        readings(number, last).write_parquet(path)
        path.rename(directory / f"{number:05d}.parquet")


# one replica


def replica(base: str, name: str, per_batch: str) -> None:
    """One copy of the query, as an application of its own."""
    given = sw.read_files(f"{base}/in", vs="vs", ve="ve", kind="kind", per_batch=int(per_batch))
    handle = HOURLY.start(
        session(1),
        {READINGS: given},
        checkpoint=f"{base}/checkpoints/{name}",
        sink=sinks.Parquet(directory=f"{base}/out/{name}"),
        trigger={"processingTime": "1 second"},
        feedback=f"{base}/feedback",
    )
    handle.await_settled(sw.INF)
    handle.stop()


class Copy:
    """A replica at work in a process of its own."""

    def __init__(self, base: Path, name: str, per_batch: int, niceness: int) -> None:
        self.name, self._commits = name, base / "out" / name / "_batches"
        words = [sys.executable, __file__, "replica", str(base), name, str(per_batch)]
        with (base / f"{name}.log").open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603
                words, stdout=log, stderr=log, start_new_session=True
            )
        # to start takes much of the processor, which is the others' while they need it
        os.setpriority(os.PRIO_PROCESS, self._process.pid, niceness)

    @property
    def commits(self) -> int:
        """How many batches it has told."""
        return len([*self._commits.glob("*.json")])

    def kill(self) -> None:
        """With all that belongs to it."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


# all together


def main(seconds: float = 60) -> None:
    """Run it, and look at what came out."""
    with tempfile.TemporaryDirectory(prefix="failover") as place:
        copies: list[Copy] = []
        try:
            demonstrate(Path(place), seconds, copies)
        finally:
            for each in copies:
                each.kill()


def demonstrate(base: Path, seconds: float, copies: list[Copy]) -> None:
    """Three replicas, two failures, one answer."""
    (base / "in").mkdir()
    files = AT_FIRST + int(seconds / EVERY)
    began = time.monotonic()

    def say(what: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s  {what}", flush=True)

    def begin(name: str, per_batch: int, niceness: int = 5) -> Copy:
        copies.append(Copy(base, name, per_batch, niceness))
        return copies[-1]

    # some files are there when the replicas begin, for each to show that it works
    for number in range(AT_FIRST):
        readings(number, files - 1).write_parquet(base / "in" / f"{number:05d}.parquet")
    first, second, third = begin("copy-1", 2), begin("copy-2", 3), begin("copy-3", 4)
    merged = sw.merge(COPIES).start(
        session(1),
        {COPIES: sw.read_committed(f"{base}/out/copy-*")},
        checkpoint=f"{base}/checkpoints/merged",
        sink=sinks.Parquet(directory=f"{base}/merged"),
        trigger={"processingTime": "2 seconds"},
        feedback_to=f"{base}/feedback",
    )
    wait(lambda: all(each.commits > 0 for each in copies), copies, base)
    wait(lambda: len(merged.progress.replicas.get("copies", {})) == len(copies), copies, base)
    say("three replicas, each at its own pace")
    since = time.time()
    rest = (base / "in", AT_FIRST, files - 1, EVERY)
    threading.Thread(target=feed, args=rest, daemon=True).start()
    time.sleep(seconds / 8)
    first.kill()
    say(f"copy-1 killed, after {first.commits} batches")
    time.sleep(seconds / 8)
    second.kill()
    say(f"copy-2 killed, after {second.commits} batches")
    time.sleep(seconds / 8)
    again = begin("copy-2b", 20, niceness=19)
    say("copy-2 begins anew, as copy-2b")
    wait(lambda: again.commits > 0, [again, third], base)
    wait(lambda: "copy-2b" in merged.progress.replicas.get("copies", {}), [again, third], base)
    say("copy-2b is attached")
    assert merged.await_settled(sw.INF, timeout=600), "the answer is complete"
    say("the answer is complete")
    merged.stop()
    report(base, since, files)


def wait(happens: Any, copies: list[Copy], base: Path, timeout: float = 300) -> None:
    """Until something happens; whoever ends before that has failed."""
    until = time.monotonic() + timeout
    while not happens():
        if time.monotonic() > until:
            logs = "\n".join((base / f"{each.name}.log").read_text()[-2000:] for each in copies)
            raise TimeoutError(f"it did not happen in {timeout} s\n{logs}")
        time.sleep(0.1)


def report(base: Path, since: float, files: int) -> None:
    """The pauses, and whether the answer is right."""
    commits = sorted((base / "merged" / "_batches").glob("*.json"))
    times = [path.stat().st_mtime for path in commits]
    gaps = [later - earlier for earlier, later in pairwise(times) if earlier >= since]
    median, longest = statistics.median(gaps), max(gaps)
    print(
        f"{len(commits)} commits of the merged answer; from one to the next {median:.2f} s in the "
        f"median, {longest:.2f} s at most: {longest / median:.2f} times"
    )
    rows = pl.concat([readings(number, files - 1) for number in range(files)])
    told = sw.from_dataframe(rows, vs="vs", ve="ve", kind="kind", schema=READINGS.schema)
    wanted = HOURLY.meaning({READINGS: told})
    changes = sinks.committed(f"{base}/merged")
    answer = sw.History.of(
        sw.from_dataframe(changes, vs="vs", ve="ve", kind="kind", new_ve="new_ve", schema=HOURLY.schema)
    )
    assert answer == wanted, "the merged answer is not the right one"
    print(f"{changes.height} rows told, {len(answer)} in the end: as the definition has it")


if __name__ == "__main__":
    if sys.argv[1:2] == ["replica"]:
        replica(*sys.argv[2:])
    else:
        main(*map(float, sys.argv[1:]))
