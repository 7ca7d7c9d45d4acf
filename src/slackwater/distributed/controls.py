"""What is said to a running query beside its inputs: how its dial is turned, what is of no interest.

It is written down as JSON, so that a directory of such files can be an input of Spark's. Promises are
rows of a changelog inside of it, since a pattern may hold values of any type.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Sequence

import polars as pl

from slackwater.consistency import Clock, Dial
from slackwater.distributed.parcels import pack_promises
from slackwater.punctuations import Closings, Promise, Punctuation
from slackwater.rows import from_changelog

__all__ = ["pack_ignored", "pack_turn", "read_control"]


def pack_turn(dial: Dial) -> str:
    """The dial stands so from now on."""
    told = {"blocking": dial.blocking, "memory": dial.memory, "clock": dial.clock.value}
    return json.dumps(told)


def pack_ignored(told: Sequence[Promise], schema: pl.Schema) -> str:
    """Rows of the answer with such payloads are no longer of interest."""
    return json.dumps({"ignored": base64.b64encode(pack_promises(told, schema)).decode()})


def read_control(data: bytes | memoryview | str | None, schema: pl.Schema) -> Dial | list[Promise]:
    """What such a text says."""
    assert data is not None, "it says something"
    told = json.loads(bytes(data) if not isinstance(data, str) else data)
    if "ignored" not in told:
        return Dial(blocking=told["blocking"], memory=told["memory"], clock=Clock(told["clock"]))
    rows = pl.read_ipc_stream(io.BytesIO(base64.b64decode(told["ignored"])))
    placed = from_changelog(rows, schema).controls
    return [each.control for each in placed if isinstance(each.control, Punctuation | Closings)]
