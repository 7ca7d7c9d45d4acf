"""What the tests that kill something share: the input, a driver in a process of its own, and who belongs
to it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from tests.spark import driver

import slackwater as sw
from slackwater.spark import sinks

__all__ = [
    "batches",
    "descendants",
    "end",
    "keepers_of",
    "kill",
    "log",
    "own_temporary_directory",
    "start_driver",
    "undisturbed",
    "unfinished",
    "write_input",
]

ROWS = 200


def write_input(directory: Path, files: int) -> Path:
    """Files that fix the batches: one each, in the order of their times."""
    directory.mkdir()
    rng = np.random.default_rng(5)
    for number in range(files):
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
        end = 2**63 - 1 if number == files - 1 else now - 100
        ctis = pl.DataFrame({"kind": ["cti"], "vs": [end]})
        path = directory / f"{number:03d}.parquet"
        pl.concat([rows, moved, ctis], how="diagonal").write_parquet(path)
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
    return directory


def start_driver(
    given: Path, place: Path, *words: str, env: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """tests/spark/driver.py, with its checkpoint, its answer and its log in a place."""
    paths = [str(given), str(place / "checkpoint"), str(place / "out")]
    with (place / "log").open("ab") as log:
        return subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", "tests.spark.driver", *paths, *words],
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, **(env or {})},
        )


def end(driver: subprocess.Popen[bytes]) -> None:
    """A driver that has not ended by itself, with all that belongs to it."""
    if driver.poll() is None:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()


def undisturbed(spark: Any, given: Path, place: Path) -> pl.DataFrame:
    """What it writes when nobody is killed."""
    handle = driver.start(spark, str(given), str(place / "checkpoint"), str(place / "out"))
    try:
        assert handle.await_settled(sw.INF, timeout=600)
    finally:
        handle.stop()
    return sinks.committed(str(place / "out"))


@contextmanager
def own_temporary_directory() -> Iterator[dict[str, str]]:
    """An environment in which keepers live in a place of their own; in the end they have left it."""
    # short: the name of a socket has at most a hundred characters
    place = Path(tempfile.mkdtemp())
    yield {"TMPDIR": str(place)}
    until = time.monotonic() + 30
    while (left := list(place.glob("slackwater-*/*"))) and time.monotonic() < until:
        time.sleep(0.05)
    assert not left, f"keepers have left {left}"
    # the last one may just be removing its own directory
    shutil.rmtree(place, ignore_errors=True)


def kill(pids: list[int]) -> None:
    """Those that have not ended by themselves."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def log(place: Path) -> str:
    """What a driver had to say at last."""
    return (place / "log").read_text()[-3000:]


def batches(place: Path) -> int:
    """How many are committed."""
    return len(list((place / "out" / "_batches").glob("*.json")))


def unfinished(place: Path) -> list[Path]:
    """Files that are being written: ours and Spark's have a dot in front until they are complete."""
    return [path for path in _walk(place) if path.name.startswith(".") and path.suffix != ".crc"]


def _walk(directory: Path) -> Iterator[Path]:
    # faster than Path.rglob, and what vanishes meanwhile does not matter
    for base, _, names in os.walk(directory):
        yield from (Path(base, name) for name in names)


def _processes() -> dict[int, tuple[int, list[str]]]:
    """All that run: their parents, and how they were called."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                words = (entry / "cmdline").read_text(errors="replace").split("\0")
            except (FileNotFoundError, ProcessLookupError):
                continue
            found[int(entry.name)] = parent, words
    return found


def descendants(pid: int) -> dict[int, list[str]]:
    """The processes below one, and how they were called."""
    processes = _processes()
    found: dict[int, list[str]] = {}
    waiting = [pid]
    while waiting:
        above = waiting.pop()
        for each, (parent, words) in processes.items():
            if parent == above and each not in found:
                found[each] = words
                waiting.append(each)
    return found


def keepers_of(pid: int) -> list[int]:
    """The keepers of a driver. They outlive the workers that start them, but name an executor."""
    executors = {str(each) for each in descendants(pid)}
    return [
        each
        for each, (_, words) in _processes().items()
        if "slackwater.distributed.keeper" in words and executors.intersection(words)
    ]
