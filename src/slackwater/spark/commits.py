"""What a directory of Parquet files says of itself: which files each batch of the answer has.

    <directory>/<batch>-<task>-<attempt>.parquet     kind, vs, ve, new_ve and the payload
    <directory>/_batches/<batch>.json                its files, how far the answer is settled, its token

A batch is there when its list is. What is in no list is not read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.distributed.files import Directory
from slackwater.distributed.tokens import Token, agreement, require_shared, united
from slackwater.errors import OperatorError, PlanError

__all__ = ["COMMITS", "Commit", "aligned", "at_token", "commits_in", "read_commit"]

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
    token: dict[str, int] | None = None
    """of which batches of which queries it is the answer, with those before it; None: that was not told,
    empty: there is none yet"""
    holds_back: str = ""
    """why it is less than the answer at its token, if it is"""

    @property
    def paths(self) -> list[str]:
        """Its files, as their file system knows them."""
        return [self.place.path(name) for name in self.files]

    def require_whole(self) -> None:
        """Raise if another answer at the same token would be of more than this one shows."""
        if self.holds_back:
            raise OperatorError(
                f"batch {self.batch} in {self.place.root} is less than the answer at its token",
                detail=self.holds_back,
                hint="let the last query wait, and none before it; or read it without aligned=True",
            )

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
            "token": self.token,
            "holds_back": self.holds_back,
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


def at_token(directory: str | Directory, token: Token) -> list[str]:
    """The names of the lists up to the one that is at a token, which another query may have told."""
    place = Directory(directory) if isinstance(directory, str) else directory
    names = [*commits_in(place)]
    while names:
        own = read_commit(place, names[-1]).token or {}
        shared = own.keys() & token.keys()
        if shared and all(own[query] == token[query] for query in shared):
            return names
        names.pop()
    raise PlanError(
        f"no batch in {place.root} is at that token",
        detail=f"it is {dict(token)}",
        hint="sinks.aligned(directory, ...) names one at which several are",
    )


def aligned(*directories: str) -> dict[str, int]:
    """The furthest token at which all these answers are: `committed(directory, until=token)` cuts there.

    So who reads the answers of several queries by hand sees them as of one prefix of the input that they
    come from. Empty if there is none yet.
    """
    tokens: dict[str, list[dict[str, int]]] = {}
    for directory in directories:
        place = Directory(directory)
        commits = [read_commit(place, name) for name in commits_in(place)]
        for commit in commits:
            commit.require_whole()
        tokens[directory] = [commit.token for commit in commits if commit.token]
    if not all(tokens.values()):
        return {}
    require_shared({directory: of[0] for directory, of in tokens.items()})
    places = agreement([*tokens.values()])
    if places is None:
        return {}
    return united([of[place] for of, place in zip(tokens.values(), places, strict=True)])
