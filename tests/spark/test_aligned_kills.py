"""Kill four queries at any moment and start them again: what the last one shows stays of one prefix.

Only for `make kills`: each start of Spark takes a while, and four queries work side by side.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from examples import bank, bank_apart
from tests.spark import disturbed, graph_driver

KILLS = int(os.environ.get("SLACKWATER_KILLS", "0")) // 5
FILES = 4 + 2 * KILLS
ROWS = bank.transactions(200 * FILES)


@pytest.mark.skipif(not KILLS, reason="make kills")
def test_all_queries_may_be_killed_at_any_moment(tmp_path: Path) -> None:
    bank_apart.write(ROWS, FILES, tmp_path)
    moment = random.Random(11)
    with disturbed.own_temporary_directory() as env:
        for kill in range(KILLS + 1):
            before = _commits(tmp_path)
            with (tmp_path / "log").open("ab") as log:
                driver = subprocess.Popen(  # noqa: S603
                    [sys.executable, "-m", "tests.spark.graph_driver", str(tmp_path), str(ROWS.height)],
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    env={**os.environ, **env},
                )
            try:
                if kill < KILLS:
                    until = time.monotonic() + 900
                    while _commits(tmp_path) < before + 3 and driver.poll() is None:
                        assert time.monotonic() < until, disturbed.log(tmp_path)
                        time.sleep(0.01)
                    time.sleep(moment.uniform(0.0, 1.5))
                    if driver.poll() is None:
                        os.killpg(driver.pid, signal.SIGKILL)
                status = driver.wait(timeout=900)
            finally:
                disturbed.end(driver)
            assert status in (0, -signal.SIGKILL), disturbed.log(tmp_path)
    assert status == 0, disturbed.log(tmp_path)
    verdict = bank_apart.verdict("total", ROWS, tmp_path)
    assert verdict.compared
    assert (verdict.wrong, verdict.different) == (0, 0)


def _commits(place: Path) -> int:
    return sum(len([*(place / name / "_batches").glob("*.json")]) for name in graph_driver.NAMES)
