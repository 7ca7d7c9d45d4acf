"""A Kafka broker for tests: one node, KRaft, on loopback, in a directory that is thrown away."""

from __future__ import annotations

import os
import socket
import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from tests.spark.jars import jars, java

_SECONDS = 90.0
_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={directory}/logs
auto.create.topics.enable=false
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
"""


@contextmanager
def broker(directory: Path) -> Iterator[str]:
    """A broker that answers at the address that this gives, until it is no longer needed."""
    path = os.pathsep.join(jars("broker"))
    port, controller = _free_ports()
    properties = directory / "server.properties"
    properties.write_text(_PROPERTIES.format(port=port, controller=controller, directory=directory))
    # small: a few topics of a few records
    run = [java(), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", path]
    name = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    with (directory / "log").open("wb") as log:
        told = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log, "cwd": directory}
        format_ = [*run, "kafka.tools.StorageTool", "format", "-t", name, "-c", str(properties)]
        subprocess.run(format_, check=True, timeout=_SECONDS, **told)  # type: ignore[call-overload]  # noqa: S603
        served = subprocess.Popen([*run, "kafka.Kafka", str(properties)], **told)  # type: ignore[call-overload]  # noqa: S603
    try:
        _wait(served, port, directory / "log")
        yield f"127.0.0.1:{port}"
    finally:
        served.terminate()
        try:
            served.wait(timeout=20)
        except subprocess.TimeoutExpired:
            served.kill()
            served.wait(timeout=20)


def _free_ports() -> tuple[int, int]:
    with closing(socket.socket()) as one, closing(socket.socket()) as other:
        for each in (one, other):
            each.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]


def _wait(served: subprocess.Popen[bytes], port: int, log: Path) -> None:
    until = time.monotonic() + _SECONDS
    while True:
        if served.poll() is not None or time.monotonic() > until:
            raise AssertionError(f"the broker does not answer:\n{log.read_text()[-3000:]}")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
            return
        except OSError:
            time.sleep(0.05)


class Topics:
    """Topics of a broker, through the client that is part of Spark's connector."""

    def __init__(self, spark: Any, servers: str) -> None:
        self.servers = servers
        self._java = spark._jvm
        self._clients = self._java.org.apache.kafka.clients
        self._properties = self._java.java.util.HashMap()
        self._properties.put("bootstrap.servers", servers)

    def create(self, topic: str, partitions: int) -> str:
        """A new topic, and its name."""
        admin = self._clients.admin.Admin.create(self._properties)
        new = self._clients.admin.NewTopic(topic, partitions, 1)
        admin.createTopics(self._java.java.util.List.of(new)).all().get()
        admin.close()
        return topic

    def write(self, topic: str, partition: int, values: Iterable[bytes | None]) -> None:
        """Append records to a partition."""
        serializer = self._java.org.apache.kafka.common.serialization.ByteArraySerializer
        producer = self._clients.producer.KafkaProducer(self._properties, serializer(), serializer())
        for value in values:
            given = None if value is None else bytearray(value)
            producer.send(self._clients.producer.ProducerRecord(topic, partition, None, given))
        producer.close()
