"""What workers of Spark begin with."""

from __future__ import annotations

import socket
import sys

import pyarrow as pa
import pytest

from slackwater.spark import workers


@pytest.mark.skipif(sys.platform != "linux", reason="others have no such option")
def test_what_comes_by_tcp_is_acknowledged_and_nothing_else_is_touched() -> None:
    workers._lines.cache_clear()
    before = len(workers._lines())
    workers._lines.cache_clear()
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
    one, other = socket.socketpair()
    with near, far, one, other:
        lines = workers._lines()
        found = {line.getsockname() for line in lines}
        assert {near.getsockname(), far.getsockname()} <= found
        assert len(lines) == before + 2, "sockets of other kinds are no lines"
        rows = [pa.record_batch({"x": [n]}) for n in range(3)]
        assert [*workers.promptly(iter(rows))] == rows
        for line in lines:
            line.close()
    workers._lines.cache_clear()
