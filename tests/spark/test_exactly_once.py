"""Kill the driver at any moment, start it again: the files hold what an undisturbed run writes.

The input files fix the batches, so that this holds element for element; but for one moment. Spark's file
source writes down which file comes next before Spark writes down that there is a batch. Killed between
the two, it takes that file together with the next one: another batch, the same history.

Every other kill waits for a file that is just being written, in turn by our store, by Spark's checkpoint
and by the sink. Half of the kills take the keepers along, as when a machine fails; else they find out by
themselves, and in the end nothing of them is left. `SLACKWATER_KILLS` says how many (`make kills`: 20,
and tells when they were).
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
from tests.spark import disturbed

import slackwater as sw
from slackwater.spark import sinks

KILLS = int(os.environ.get("SLACKWATER_KILLS", "1"))
FILES = 6 + 4 * KILLS
WRITERS = ("checkpoint/slackwater", "checkpoint/spark", "out")
"""where files are written during a batch"""


def test_the_driver_may_be_killed_at_any_moment(spark: Any, tmp_path: Path) -> None:
    given = disturbed.write_input(tmp_path / "in", FILES)
    wanted = disturbed.undisturbed(spark, given, tmp_path / "undisturbed")
    place, kills, moment = tmp_path / "killed", Counter[str](), random.Random(7)
    place.mkdir()
    with disturbed.own_temporary_directory() as env:
        while True:
            before = disturbed.batches(place)
            driver = disturbed.start_driver(given, place, env=env)
            try:
                if kills.total() < KILLS:
                    _wait_for_a_batch(driver, place, before)
                    kills[_kill_somehow(driver, place, kills.total(), moment)] += 1
                status = driver.wait(timeout=900)
            finally:
                disturbed.end(driver)
            if status == 0:
                break
            assert status == -signal.SIGKILL, disturbed.log(place)
    print(f"{kills.total()} kills: {dict(kills)}; {disturbed.batches(place)} batches")  # noqa: T201
    assert kills.total() == KILLS
    found = sinks.committed(str(place / "out"))
    assert _history(found) == _history(wanted)
    if disturbed.batches(place) == FILES:
        assert found.equals(wanted)


def _history(changes: pl.DataFrame) -> sw.History:
    told = sw.from_dataframe(changes, vs="vs", ve="ve", kind="kind", new_ve="new_ve")
    return sw.History.of(told)


def _wait_for_a_batch(driver: subprocess.Popen[bytes], place: Path, before: int) -> None:
    """It works again."""
    until = time.monotonic() + 300
    while disturbed.batches(place) <= before and driver.poll() is None and time.monotonic() < until:
        time.sleep(0.01)


def _kill_somehow(
    driver: subprocess.Popen[bytes], place: Path, number: int, moment: random.Random
) -> str:
    """Says when it was."""
    if number % 2:
        writer = WRITERS[number // 2 % len(WRITERS)]
        found = _kill_in_a_write(driver, place / writer, keepers_too=number % 4 == 1)
        return f"while a file was written to {writer}" if found else f"just after that, {writer}"
    # at any moment of the next batches: while it reads, computes, writes
    time.sleep(moment.uniform(0.0, 2.0))
    keepers = disturbed.keepers_of(driver.pid) if number % 4 else []
    os.killpg(driver.pid, signal.SIGKILL)
    disturbed.kill(keepers)
    return "at any moment"


def _kill_in_a_write(driver: subprocess.Popen[bytes], where: Path, *, keepers_too: bool) -> bool:
    """Kill it as soon as a file is seen that is not complete; whether it has remained so."""
    keepers = disturbed.keepers_of(driver.pid) if keepers_too else []
    old = set(disturbed.unfinished(where))
    until = time.monotonic() + 30
    while driver.poll() is None and time.monotonic() < until:
        if not old.issuperset(disturbed.unfinished(where)):
            break
    # the store is written by keepers: they first
    disturbed.kill(keepers)
    os.killpg(driver.pid, signal.SIGKILL)
    return not old.issuperset(disturbed.unfinished(where))
