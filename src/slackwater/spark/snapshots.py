"""A snapshot of several queries at one token: of each the batch that it was behind, and its offsets.

A token names, for every query that has a part in an answer, its last batch. So it is a cut through all
of them that no row crosses (paper 5 section 4.2: a drained system): what each had read, remembered and
written by then corresponds to the same prefix of the original inputs.

Not here: to go back there. A query that is started again goes on from its last batch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from slackwater.distributed.files import Directory
from slackwater.distributed.store import Store
from slackwater.distributed.tokens import Token
from slackwater.errors import PlanError

__all__ = ["At", "snapshot"]


@dataclass(frozen=True)
class At:
    """Where one query is at a token."""

    query: str
    """its name, by which tokens call it"""
    checkpoint: str
    batch: int
    offsets: tuple[str, ...]
    """of each of its inputs, up to where it had read, as Spark writes it"""
    settled_until: int
    rows_out: int
    """how many rows its answer had"""
    is_whole: bool
    """whether its state at that point can be built from what the checkpoint holds"""


def snapshot(token: Token, checkpoints: Iterable[str]) -> list[At]:
    """Of each query, given by its checkpoint, where it is at a token that names it.

    Spark keeps the offsets of the last hundred batches (`spark.sql.streaming.minBatchesToRetain`), and
    so does the store: a token that is older cannot be looked up.
    """
    return [_at(token, checkpoint) for checkpoint in checkpoints]


def _at(token: Token, checkpoint: str) -> At:
    store = Store(f"{checkpoint}/slackwater")
    name = store.name
    if name is None or name not in token:
        raise PlanError(
            f"the token does not name the query of {checkpoint}",
            detail=f"it names {', '.join(token)}; the query is {name or 'not started yet'}",
            hint="the token of a query names those that it reads, and those that they read",
        )
    batch = token[name]
    record, place = store.record(batch), Directory(f"{checkpoint}/spark/offsets")
    if record is None or not place.has(str(batch)):
        raise PlanError(
            f"batch {batch} of {checkpoint} is no longer known",
            detail="of each query the last hundred batches are",
        )
    # a version, what holds for the whole batch, and a line for each input
    _, _, *offsets = place.read(str(batch)).decode().splitlines()
    settled, rows = int(record["settled_until"]), int(record["rows_out"])
    return At(name, checkpoint, batch, tuple(offsets), settled, rows, store.is_whole(batch))
