"""What a directory of Parquet files says of itself: which files each batch of the answer has.

    <directory>/<batch>-<task>-<attempt>.parquet     kind, vs, ve, new_ve and the payload
    <directory>/_batches/<batch>.json                its files, and how far the answer is settled

A batch is there when its list is. What is in no list is not read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.distributed.files import Directory

__all__ = ["COMMITS", "Commit", "commits_in", "read_commit"]

COMMITS = "_batches"
"""the directory of the lists"""


@dataclass(frozen=True)
class Commit:
    """One batch of an answer."""

    batch: int
    query: str
    """who has written it"""
    settled_until: int
    files: list[str]
    place: Directory

    @property
    def paths(self) -> list[str]:
        """Its files, as their file system knows them."""
        return [self.place.path(name) for name in self.files]

    def tables(self) -> Iterator[pa.Table]:
        """Its rows, file by file."""
        for path in self.paths:
            with self.place.files.open_input_file(path) as file:
                # a task has one core
                yield pq.ParquetFile(file).read(use_threads=False)

    def write(self) -> None:
        """From now on it is there."""
        facts = {
            "batch": self.batch,
            "query": self.query,
            "settled_until": self.settled_until,
            "files": self.files,
        }
        self.place.write(f"{COMMITS}/{self.batch:09d}.json", json.dumps(facts).encode())


def read_commit(directory: str | Directory, name: str) -> Commit:
    """A list by its name."""
    place = Directory(directory) if isinstance(directory, str) else directory
    return Commit(**json.loads(place.read(f"{COMMITS}/{name}")), place=place)


def commits_in(directory: str | Directory) -> Iterator[str]:
    """The names of the lists of a directory, in the order of their batches."""
    place = Directory(directory) if isinstance(directory, str) else directory
    yield from sorted(place.listed(COMMITS))
