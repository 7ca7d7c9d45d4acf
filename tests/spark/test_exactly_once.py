"""Kill the driver at any moment, start it again: the files hold what an undisturbed run writes.

The input files fix the batches, so that this holds element for element. `SLACKWATER_KILLS` says how
often the driver is killed (`make kills`: 20 times).
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl

from slackwater.spark import sinks

KILLS = int(os.environ.get("SLACKWATER_KILLS", "1"))
FILES = 6 + 4 * KILLS
ROWS = 200


def _write_input(directory: Path) -> None:
    directory.mkdir()
    rng = np.random.default_rng(5)
    for number in range(FILES):
        now = number * ROWS
        vs = now + np.arange(ROWS) - rng.integers(0, 40, ROWS)
        rows = pl.DataFrame(
            {
                "k": rng.integers(0, 9, ROWS),
                "v": rng.integers(0, 1000, ROWS) / 8,
                "kind": "insert",
                "vs": vs,
                "ve": vs + rng.integers(1, 300, ROWS),
                "new_ve": pl.Series([None] * ROWS, dtype=pl.Int64),
            }
        )
        moved = rows.filter(pl.Series(rng.random(ROWS) < 0.1)).with_columns(
            kind=pl.lit("adjust"), new_ve=pl.col("vs") + pl.col("ve") % 97
        )
        end = 2**63 - 1 if number == FILES - 1 else now - 100
        ctis = pl.DataFrame({"kind": ["cti"], "vs": [end]})
        path = directory / f"{number:03d}.parquet"
        pl.concat([rows, moved, ctis], how="diagonal").write_parquet(path)
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


def _started(given: Path, place: Path) -> subprocess.Popen[bytes]:
    words = [str(given), str(place / "checkpoint"), str(place / "out")]
    with (place / "log").open("ab") as log:
        return subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", "tests.spark.driver", *words],
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _batches(place: Path) -> int:
    return len(list((place / "out" / "_batches").glob("*.json")))


def test_the_driver_may_be_killed_at_any_moment(tmp_path: Path) -> None:
    given = tmp_path / "in"
    _write_input(given)
    places = [tmp_path / name for name in ("undisturbed", "killed")]
    for place in places:
        place.mkdir()
    assert _started(given, places[0]).wait(timeout=900) == 0, (places[0] / "log").read_text()[-3000:]
    wanted = sinks.committed(str(places[0] / "out"))
    assert _batches(places[0]) == FILES

    moment = random.Random(7)
    place, killed = places[1], 0
    while True:
        driver = _started(given, place)
        before = _batches(place)
        if killed < KILLS:
            # once it works again, at any moment of the next batches: while it reads, computes, writes
            until = time.monotonic() + 300
            while _batches(place) <= before and driver.poll() is None and time.monotonic() < until:
                time.sleep(0.01)
            time.sleep(moment.uniform(0.0, 2.0))
            if driver.poll() is None:
                os.killpg(driver.pid, signal.SIGKILL)
                killed += 1
        status = driver.wait(timeout=900)
        if status == 0:
            break
        assert status == -signal.SIGKILL, (place / "log").read_text()[-3000:]
    assert killed == KILLS
    assert sinks.committed(str(place / "out")).equals(wanted)
