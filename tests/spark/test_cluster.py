"""Two executors on this machine, one of which is killed: the answer is that of a run in peace.

Input files fix the batches, so that this holds element for element. With SLACKWATER_KILLS above one
(`make kills`) the other executor is killed, too.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pyspark
from tests.spark import disturbed

from slackwater.spark import sinks

KILLS = min(2, int(os.environ.get("SLACKWATER_KILLS", "1")))
FILES = 3 + 2 * KILLS
MASTER = "local-cluster[2,1,1024]"


def _home(place: Path) -> Path:
    """Spark as it was installed, but its executors have their working directories here."""
    home = place / "spark"
    home.mkdir()
    for name in ("bin", "jars", "python"):
        (home / name).symlink_to(Path(pyspark.__file__).parent / name)
    return home


def _executors(pid: int) -> list[int]:
    found = disturbed.descendants(pid).items()
    return sorted(each for each, words in found if any("ExecutorBackend" in word for word in words))


def test_executors_may_be_killed(spark: Any, tmp_path: Path) -> None:
    given = disturbed.write_input(tmp_path / "in", FILES)
    place = tmp_path / "killed"
    place.mkdir()
    with disturbed.own_temporary_directory() as env:
        env["SPARK_HOME"] = str(_home(tmp_path))
        env["SPARK_LOCAL_IP"], env["SPARK_LOCAL_HOSTNAME"] = "127.0.0.1", "localhost"
        cluster = disturbed.start_driver(given, place, MASTER, env=env)
        try:
            killed = [_kill_an_executor(cluster, place, after=1 + 2 * i, which=i) for i in range(KILLS)]
            # while it goes on
            wanted = disturbed.undisturbed(spark, given, tmp_path / "undisturbed")
            assert cluster.wait(timeout=900) == 0, disturbed.log(place)
        finally:
            disturbed.end(cluster)
    assert len(set(killed)) == KILLS
    assert disturbed.batches(place) == FILES
    assert sinks.committed(str(place / "out")).equals(wanted)


def _kill_an_executor(cluster: subprocess.Popen[bytes], place: Path, after: int, which: int) -> int:
    """Once so many batches are there; the one that was started first, or another."""
    until = time.monotonic() + 600
    while disturbed.batches(place) < after or len(_executors(cluster.pid)) < 2:
        assert cluster.poll() is None and time.monotonic() < until, disturbed.log(place)  # noqa: PT018
        time.sleep(0.05)
    executor = _executors(cluster.pid)[which]
    os.kill(executor, signal.SIGKILL)
    return executor
