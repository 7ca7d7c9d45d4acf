"""High availability on Spark: three queries compute the same, two are killed, and nobody notices.

    python examples/failover.py

Three replicas of one query run as Spark applications of their own. They read the same files, each at its
own pace, and write their answers to out/copy-1, out/copy-2 and out/copy-3, with their own revisions. One
more query merges whatever it finds under out/copy-*. Copy 1 is killed (SIGKILL), then copy 2; copy 2
begins anew in a directory of its own, which the merge finds, and which is told what is past, so that it
need not be told again. When it has caught up, all goes on for a while. All the while the merged answer
goes on.

At the end: how long the longest pause between two commits of the merged answer was, and whether its
history is the one that the definition of the query gives for all rows.

Four applications of Spark are to fit on two cores, beside each other and while one of them starts, which
takes some 20 seconds of a core. So they do not all wake at the same moment (Spark counts triggers from
the epoch: two seconds are the same two seconds for all), Java compiles less, and who begins anew has the
lowest priority. A machine with a core for each needs none of that.
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
from collections.abc import Callable
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
EVERY = 1.0
"""seconds from one file of readings to the next"""
AT_FIRST = 8
"""files that are there before"""
ROWS = 400
SENSORS = 20
PACES = {"copy-1": "1400 milliseconds", "copy-2": "1700 milliseconds", "copy-3": "1900 milliseconds"}
"""how often each replica looks for files"""
AGAIN = "copy-2b"
"""the replica that begins anew"""
OFTEN = "3 seconds"
"""how often the merging query looks for what they have said: not so often that they have said nothing"""


def session(cores: int) -> Any:
    """Spark, small and on loopback."""
    from pyspark.sql import SparkSession  # noqa: PLC0415

    made = (
        SparkSession.builder.master(f"local[{cores}]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        # it lives for a minute: what the best code would save, it takes to make it
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.sql.shuffle.partitions", str(cores))
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    made.sparkContext.setLogLevel("ERROR")
    return made


# what is measured


def readings(number: int, *, is_last: bool = False) -> pl.DataFrame:
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
    end = sw.INF if is_last else now - 30
    return pl.concat([rows, pl.DataFrame({"kind": ["cti"], "vs": [end]})], how="diagonal")


class Sensors:
    """They write files, at a steady rate, until they are told to end."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir()
        self.files = 0
        self._end = threading.Event()
        self._writing = threading.Thread(target=self._go_on, daemon=True)
        now = time.time()
        for number in range(AT_FIRST):
            # files are read in the order of their times, which must not be the same
            self._write(at=now - AT_FIRST + number)

    def begin(self) -> None:
        """From now on one after the other."""
        self._writing.start()

    def end(self) -> None:
        """One more, and nothing comes any more."""
        self._end.set()
        self._writing.join()
        self._write(is_last=True)

    def _go_on(self) -> None:
        began, before = time.monotonic(), self.files
        while not self._end.wait(began + (self.files - before) * EVERY - time.monotonic()):
            self._write()

    def _write(self, *, is_last: bool = False, at: float | None = None) -> None:
        # nobody sees half of a file
        path = self._directory / f".{self.files:05d}.parquet"
        readings(self.files, is_last=is_last).write_parquet(path)
        if at is not None:
            os.utime(path, (at, at))
        path.rename(self._directory / f"{self.files:05d}.parquet")
        self.files += 1


# one replica


def replica(base: str, name: str, pace: str, per_batch: str) -> None:
    """One copy of the query, as an application of its own."""
    given = sw.read_files(f"{base}/in", vs="vs", ve="ve", kind="kind", per_batch=int(per_batch))
    handle = HOURLY.start(
        session(1),
        {READINGS: given},
        checkpoint=f"{base}/checkpoints/{name}",
        sink=sinks.Parquet(directory=f"{base}/out/{name}"),
        trigger={"processingTime": pace},
        feedback=f"{base}/feedback",
    )
    handle.await_settled(sw.INF)
    handle.stop()


class Copy:
    """A replica at work in a process of its own."""

    def __init__(self, base: Path, name: str, pace: str, per_batch: int, niceness: int) -> None:
        self.name, self._base = name, base
        words = [sys.executable, __file__, "replica", str(base), name, pace, str(per_batch)]
        with (base / f"{name}.log").open("ab") as log:
            # a group of its own, to be killed as one; but in our session, as Linux may weigh
            # priorities within sessions only
            self._process = subprocess.Popen(  # noqa: S603
                words, stdout=log, stderr=log, process_group=0
            )
        os.setpriority(os.PRIO_PROCESS, self._process.pid, niceness)

    @property
    def commits(self) -> int:
        """How many batches it has told."""
        return len([*(self._base / "out" / self.name / "_batches").glob("*.json")])

    def require_alive(self) -> None:
        """Raise if it has ended by itself."""
        if self._process.poll() is not None:
            said = (self._base / f"{self.name}.log").read_text()[-4000:]
            raise RuntimeError(f"{self.name} has ended: {self._process.returncode}\n{said}")

    def kill(self) -> None:
        """With all that belongs to it."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


# all together


class Stage:
    """Where it all takes place, and what is said about it."""

    def __init__(self, base: Path, copies: list[Copy]) -> None:
        self.base, self._copies = base, copies
        self.sensors = Sensors(base / "in")
        self._began = time.monotonic()
        self.merged = sw.merge(COPIES).start(
            session(1),
            {COPIES: sw.read_committed(f"{base}/out/copy-*")},
            checkpoint=f"{base}/checkpoints/merged",
            sink=sinks.Parquet(directory=f"{base}/merged"),
            trigger={"processingTime": OFTEN},
            feedback_to=f"{base}/feedback",
        )

    def say(self, what: str) -> None:
        """What has happened, and when."""
        print(f"{time.monotonic() - self._began:6.1f} s  {what}", flush=True)

    def begin(self, name: str, pace: str, per_batch: int, niceness: int) -> Copy:
        """One replica more."""
        self._copies.append(Copy(self.base, name, pace, per_batch, niceness))
        return self._copies[-1]

    def kill(self, copy: Copy) -> None:
        """One replica less."""
        copy.kill()
        self._copies.remove(copy)
        self.say(f"{copy.name} killed, after {copy.commits} batches")

    def far(self, name: str) -> int:
        """How far the merging query knows a replica to be."""
        replicas: dict[str, int] = self.merged.progress.replicas.get("copies", {})
        return replicas.get(name, -sw.INF)

    def wait(self, happens: Callable[[], bool], timeout: float = 300) -> None:
        """Until something happens; whoever ends before that has failed."""
        until = time.monotonic() + timeout
        while not happens():
            for copy in self._copies:
                copy.require_alive()
            # raises if it has failed
            assert not self.merged.await_settled(sw.INF, timeout=0.1), "there is more to come"
            if time.monotonic() > until:
                raise TimeoutError(f"it did not happen in {timeout} s")


def main(seconds: float = 60) -> None:
    """Run it, and look at what came out."""
    with tempfile.TemporaryDirectory(prefix="failover") as place:
        copies: list[Copy] = []
        try:
            compiled()
            demonstrate(Path(place), seconds / 4, copies)
        finally:
            for each in copies:
                each.kill()


def compiled() -> None:
    """Loops are compiled when they run first, which takes seconds, once on a machine."""
    rows = [pl.concat([readings(n) for n in some]) for some in (range(3), range(3, 6))]
    told = [
        sw.from_dataframe(each, vs="vs", ve="ve", kind="kind", schema=READINGS.schema) for each in rows
    ]
    one, merging = HOURLY.open(), sw.merge(COPIES).open()
    for each in told:
        for out in one.push(READINGS, each):
            for name in ("a", "b"):
                merging.push(COPIES, out, replica=name)
        merging.detach(COPIES, replica="b")


def demonstrate(base: Path, pause: float, copies: list[Copy]) -> None:
    """Three replicas, two failures, one answer."""
    stage = Stage(base, copies)
    first, second, third = (stage.begin(name, pace, 20, 5) for name, pace in PACES.items())
    here = (AT_FIRST - 1) * 10 - 30
    stage.wait(lambda: all(stage.far(each.name) >= here for each in copies))
    stage.say("three replicas, each at its own pace")
    stage.sensors.begin()
    since = time.time()
    time.sleep(pause)
    stage.kill(first)
    time.sleep(pause)
    stage.kill(second)
    time.sleep(pause)
    stage.begin(AGAIN, PACES[second.name], 100, 19)
    stage.say(f"copy-2 begins anew, as {AGAIN}")
    stage.wait(lambda: stage.far(AGAIN) > -sw.INF)
    stage.say(f"{AGAIN} is attached")
    stage.wait(lambda: stage.far(AGAIN) >= stage.far(third.name))
    stage.say(f"{AGAIN} has caught up")
    time.sleep(pause)
    stage.sensors.end()
    assert stage.merged.await_settled(sw.INF, timeout=300), "the answer is complete"
    stage.say("the answer is complete")
    stage.merged.stop()
    report(base, since, stage.sensors.files)


def report(base: Path, since: float, files: int) -> None:
    """The pauses, and whether the answer is right."""
    commits = sorted((base / "merged" / "_batches").glob("*.json"))
    times = [path.stat().st_mtime for path in commits]
    gaps = [later - earlier for earlier, later in pairwise(times) if earlier >= since]
    median, longest = statistics.median(gaps), max(gaps)
    print(
        f"{len(gaps)} commits of the merged answer; from one to the next {median:.2f} s in the "
        f"median, {longest:.2f} s at most: {longest / median:.2f} times"
    )
    rows = pl.concat([readings(number, is_last=number == files - 1) for number in range(files)])
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
