"""What is said to a running query beside its inputs: how its dial is turned, what is of no interest,
which replicas of a stream come and go, which input of a merge one of its buckets has quarantined.

It is written down as JSON, so that a directory of such files can be an input of Spark's. Promises are
rows of a changelog inside of it, since a pattern may hold values of any type.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import polars as pl

from slackwater.consistency import Clock, Dial
from slackwater.distributed.parcels import pack_promises
from slackwater.punctuations import Closings, Promise, Punctuation
from slackwater.rows import from_changelog

__all__ = [
    "Attached",
    "Detached",
    "Ignored",
    "Outdated",
    "Plain",
    "Quarantined",
    "Told",
    "pack_ignored",
    "pack_told",
    "pack_turn",
    "read_control",
]


class Ignored(NamedTuple):
    """Rows of the answer with such payloads are no longer of interest."""

    told: list[Promise]


class Outdated(NamedTuple):
    """Events of the answer that end before that time are no longer of interest."""

    before: int


class Attached(NamedTuple):
    """A replica of a stream begins, complete from that time on."""

    stream: str
    replica: str
    since: int


class Detached(NamedTuple):
    """A replica of a stream is not listened to any longer."""

    stream: str
    replica: str


class Quarantined(NamedTuple):
    """An input of a merge contradicts the others: a bucket has found it out, and tells all."""

    stage: int
    merge: int
    """which of the stage's merges"""
    port: int
    begun: int
    """how often it had been attached by then: what it says when it begins anew is heard"""
    streams: str
    """what is merged, for people"""
    called: str
    """the input, for people"""


Plain: TypeAlias = Outdated | Attached | Detached | Quarantined
Told: TypeAlias = Dial | Ignored | Plain
_PLAIN: dict[str, type[Plain]] = {
    "outdated": Outdated,
    "attached": Attached,
    "detached": Detached,
    "quarantined": Quarantined,
}


def pack_turn(dial: Dial) -> str:
    """The dial stands so from now on."""
    told = {"blocking": dial.blocking, "memory": dial.memory, "clock": dial.clock.value}
    return json.dumps(told)


def pack_ignored(told: Sequence[Promise], schema: pl.Schema) -> str:
    """Rows of the answer with such payloads are no longer of interest."""
    return json.dumps({"ignored": base64.b64encode(pack_promises(told, schema)).decode()})


def pack_told(told: Plain) -> str:
    """What says it all by itself."""
    return json.dumps({type(told).__name__.lower(): told._asdict()})


def read_control(data: bytes | memoryview | str | None, schema: pl.Schema) -> Told:
    """What such a text says."""
    assert data is not None, "it says something"
    told = json.loads(bytes(data) if not isinstance(data, str) else data)
    for name, kind in _PLAIN.items():
        if name in told:
            return kind(**told[name])
    if "ignored" not in told:
        return Dial(blocking=told["blocking"], memory=told["memory"], clock=Clock(told["clock"]))
    rows = pl.read_ipc_stream(io.BytesIO(base64.b64decode(told["ignored"])))
    placed = from_changelog(rows, schema).controls
    return Ignored([p.control for p in placed if isinstance(p.control, Punctuation | Closings)])
