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
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
    one, other = socket.socketpair()
    with near, far, one, other:
        lines = workers._lines()
        found = {line.getsockname() for line in lines}
        assert {near.getsockname(), far.getsockname()} <= found
        kinds = {(line.family, line.type) for line in lines}
        assert kinds <= {(family, socket.SOCK_STREAM) for family in (socket.AF_INET, socket.AF_INET6)}
        numbers = [line.fileno() for line in lines]
        assert len({*numbers}) == len(numbers), "each of them once"
        rows = [pa.record_batch({"x": [n]}) for n in range(3)]
        assert [*workers.promptly(iter(rows))] == rows
        for line in lines:
            # copies, of which the other end would otherwise wait for the last
            line.close()
    workers._lines.cache_clear()
