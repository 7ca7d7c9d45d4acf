"""Lines: messages between a worker and a keeper, as Arrow streams on one socket.

A message is a header, which is JSON in the schema's metadata, and parcels as rows. Its buffers go from
where they are to the socket, and from there to where they are read: a batch may be large, and every
copy of it costs as much as a good part of the work on it.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import pyarrow as pa

from slackwater.distributed.parcels import SCHEMA

__all__ = ["Line", "Message"]

_BUFFER = 1 << 16


class Message(NamedTuple):
    """What is said at once."""

    header: dict[str, Any]
    rows: Sequence[pa.RecordBatch] = ()


class Line:
    """One end of a connection. EOFError: the other one is gone."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        number = connection.fileno()
        self._in = io.BufferedReader(io.FileIO(number, "rb", closefd=False), _BUFFER)
        self._out = io.BufferedWriter(io.FileIO(number, "wb", closefd=False), _BUFFER)

    def send(self, message: Message) -> None:
        """Say something."""
        # how many batches there are: a stream that is cut off between two looks like a whole one
        told = {"header": json.dumps(message.header), "batches": str(len(message.rows))}
        schema = SCHEMA.with_metadata(told)
        with pa.ipc.new_stream(pa.PythonFile(self._out, "w"), schema) as writer:
            for rows in message.rows:
                writer.write_batch(rows)
        self._out.flush()

    def receive(self) -> Message:
        """Wait for what the other end says."""
        if not self._in.peek(1):
            raise EOFError
        try:
            with pa.ipc.open_stream(pa.PythonFile(self._in, "r")) as reader:
                told = reader.schema.metadata
                message = Message(json.loads(told[b"header"]), list(reader))
        except pa.ArrowInvalid as problem:
            # it has ended in the middle of a message
            raise EOFError from problem
        if len(message.rows) < int(told[b"batches"]):
            raise EOFError
        return message

    def close(self) -> None:
        """Be gone. What was not sent must not be later, to whoever has the number of the socket then."""
        self._in.raw.close()
        self._out.raw.close()
        self._connection.close()
