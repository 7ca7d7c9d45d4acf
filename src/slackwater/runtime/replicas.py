"""The replicas of streams in one process: each enters a merge through an edge of its own.

A replica is known by a name. One that has not been heard of is attached when it is, as one that tells
everything. What is detached is not looked at, until it is attached again, and begins anew.
"""

from __future__ import annotations

from collections.abc import Callable

from slackwater.admission import Admission
from slackwater.errors import PlanError
from slackwater.plan.nodes import Source
from slackwater.runtime.dataflow import Dataflow
from slackwater.runtime.edge import Edge
from slackwater.times import BEGIN

__all__ = ["Entered", "Replicas"]

Entered = dict[str, tuple[int, Admission | None]]
"""of each replica, which input it is, and what it may still adjust if it is attached"""


class Replicas:
    """The replicas of one stream."""

    def __init__(self, source: Source, edge: Callable[[Source], Edge], dataflow: Dataflow) -> None:
        self._source, self._edge, self._dataflow = source, edge, dataflow
        self._ports: dict[str, int] = {}
        self._edges: dict[str, Edge] = {}

    def of(self, name: str | None) -> tuple[int, Edge] | None:
        """Which input a replica is, and its edge; None if it is detached."""
        name = self._named(name)
        if name not in self._ports:
            self.attach(name)
        return (self._ports[name], self._edges[name]) if name in self._edges else None

    def attach(self, name: str | None, since: int = BEGIN) -> None:
        """A replica begins, or begins anew, complete from that time on."""
        name = self._named(name)
        port = self._ports.setdefault(name, len(self._ports))
        self._edges[name] = self._edge(self._source)
        self._dataflow.attach_replica(self._source, port, name, since, heeding=False)

    def detach(self, name: str | None) -> None:
        """A replica is not listened to any longer, if it ever was."""
        name = self._named(name)
        if name not in self._ports:
            self.attach(name)
        self._edges.pop(name, None)
        self._dataflow.detach_replica(self._source, self._ports[name])

    def _named(self, name: str | None) -> str:
        if isinstance(name, str):
            return name
        raise PlanError(
            f"{self._source.stream_name} has replicas, and it is not said which of them this is",
            detail=f"replica={name!r}",
            hint='push(stream, elements, replica="a"); run({stream: {"a": elements, ...}})',
        )

    def remembered(self) -> Entered:
        """All that is needed to go on from here; the merges remember their own."""
        return {
            name: (port, self._edges[name].validator if name in self._edges else None)
            for name, port in self._ports.items()
        }

    def restore(self, state: Entered) -> None:
        """Go on from there."""
        for name, (port, validator) in state.items():
            self._ports[name] = port
            if validator is not None:
                self._edges[name] = self._edge(self._source)
                self._edges[name].validator = validator
