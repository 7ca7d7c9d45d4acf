"""Workers of Spark run task after task: what each of them begins with.

Between two tasks Spark's daemon collects garbage, and looks at all that was ever imported while it does
so: some 90 ms for polars, numba and pyspark. The next task waits for that. What a worker has when its
first task begins stays as long as it does, so it need not be looked at again.

Java speaks to a worker over TCP, and holds a small message back until the one before is acknowledged
(Nagle's algorithm); Linux acknowledges after 40 ms, in the hope of an answer to go with it. So a task
waited that long for its first rows. Here whatever has come is acknowledged at once. Where Spark was told
to use Unix sockets (spark.python.unix.domain.socket.enabled) there is nothing to be done.
"""

from __future__ import annotations

import gc
import os
import socket
import stat
from collections.abc import Iterator
from functools import cache

import pyarrow as pa

__all__ = ["promptly", "settle_in"]


@cache
def settle_in() -> None:
    """What there is now is no garbage, and will not be: once in a worker, before its first work."""
    gc.freeze()


def promptly(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches that Java sends, each as soon as it may be."""
    _acknowledge()
    for batch in batches:
        _acknowledge()
        yield batch


def _acknowledge() -> None:
    # it holds for what has come, and not for ever
    for line in _lines():
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)


@cache
def _lines() -> list[socket.socket]:
    """The connections of this worker by TCP: those to Java, which stay as long as it does."""
    if not hasattr(socket, "TCP_QUICKACK"):
        return []  # not Linux
    # all numbers first: a copy may get one that the directory itself had
    numbers = [number for number in map(int, os.listdir("/proc/self/fd")) if _is_socket(number)]
    return [line for line in map(_copied, numbers) if line is not None]


def _is_socket(number: int) -> bool:
    try:
        return stat.S_ISSOCK(os.fstat(number).st_mode)
    except OSError:
        # closed by now, as the directory is that was listed
        return False


def _copied(number: int) -> socket.socket | None:
    """Another handle of the same connection, if it is one by TCP."""
    try:
        line = socket.socket(fileno=os.dup(number))
    except OSError:
        # closed by another thread
        return None
    if line.family in (socket.AF_INET, socket.AF_INET6) and line.type == socket.SOCK_STREAM:
        return line
    line.close()
    return None
