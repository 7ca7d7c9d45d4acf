"""Replicas: a stream that comes many times, and enters a merge as often.

An origin of such a stream is called replica/partition. What the partitions of one replica say is put
together as for any stream (entrance.py), and is an input of its own of the merges that read it. A
replica that has not been heard of is attached when it is, as one that tells everything; one that tells
less has to be announced, with the time from which on it is complete. What is detached is not looked at,
until it is attached again, and begins anew.

The stream is as far as the replica that is furthest. All rows of a batch are taken in before what is
promised, for what comes behind the promise of another replica is late.

Paper 2 section V-B.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from slackwater.distributed.entrance import Entered, Entrance, Heard
from slackwater.distributed.parcels import Parcel
from slackwater.events import Batch
from slackwater.plan.exchanges import Feed
from slackwater.policies import Progress
from slackwater.runtime.dataflow import Dataflow
from slackwater.times import BEGIN

__all__ = ["Entering", "Replicas", "replica_of"]


def replica_of(origin: str) -> str:
    """The replica that an origin is a partition of.

    >>> replica_of("copy-1/0"), replica_of("eu/copy-1/0")
    ('copy-1', 'eu/copy-1')
    """
    return origin.rpartition("/")[0]


class Entering(NamedTuple):
    """What is remembered of a replica: which input it is, and how it enters, if it is attached."""

    port: int
    entered: Entered | None


@dataclass(slots=True)
class _Replica:
    port: int
    entrance: Entrance | None


class Replicas:
    """The replicas of one stream in one bucket."""

    def __init__(
        self,
        feed: Feed,
        policy: Progress,
        opened: Callable[[Progress], Entrance],
        dataflow: Dataflow,
        *,
        heeding: bool,
    ) -> None:
        assert feed.columns, "a merge has its rows by columns"
        self.feed, self._policy, self._opened = feed, policy, opened
        self._dataflow, self._heeding = dataflow, heeding
        self._known: dict[str, _Replica] = {}

    def attach(self, name: str, since: int) -> None:
        """A replica begins, or begins anew, complete from that time on."""
        port = self._known[name].port if name in self._known else len(self._known)
        self._known[name] = _Replica(port, self._entrance(name))
        self._dataflow.attach_replica(self.feed.entrance, port, name, since, heeding=self._heeding)

    def detach(self, name: str) -> None:
        """A replica is not listened to any longer, if it ever was."""
        if name not in self._known:
            self.attach(name, BEGIN)
        known = self._known[name]
        known.entrance = None
        self._dataflow.detach_replica(self.feed.entrance, known.port)

    def _entrance(self, name: str) -> Entrance:
        own = tuple(each for each in self._policy.origins if replica_of(each) == name)
        return self._opened(replace(self._policy, origins=own))

    def hear(self, parcels: Iterable[Parcel], now: int) -> dict[str, Heard]:
        """They have said how far they are; what each had promised before. Some are new."""
        said: dict[str, list[Parcel]] = {}
        for parcel in parcels:
            said.setdefault(replica_of(parcel.origin), []).append(parcel)
        for name in sorted(said.keys() - self._known.keys()):
            self.attach(name, BEGIN)
        return {
            name: entrance.hear(said.get(name, []), now) for name, entrance in self._attached().items()
        }

    def _attached(self) -> dict[str, Entrance]:
        """Those that the merges listen to."""
        return {
            name: known.entrance
            for name, known in self._known.items()
            if known.entrance is not None and self._dataflow.listens_to(self.feed.entrance, known.port)
        }

    def take_in(self, parcels: Iterable[Parcel], heard: dict[str, Heard]) -> None:
        """Hand over what they have said: all rows, and then how far each is."""
        said: dict[str, list[Parcel]] = {}
        for parcel in parcels:
            said.setdefault(replica_of(parcel.origin), []).append(parcel)
        entrance, flow = self.feed.entrance, self._dataflow
        behind: list[tuple[int, Batch]] = []
        for name, each in self._attached().items():
            port = self._known[name].port
            [part] = each.taken_in(said.get(name, []), heard[name])
            flow.push_replica(entrance, port, part.data())
            told = [placed.control for placed in part.controls]
            behind.append((port, Batch.empty(each.schema).followed_by(told)))
        flow.run_until_quiet()
        for port, batch in behind:
            flow.push_replica(entrance, port, batch)
        flow.run_until_quiet()

    @property
    def promised(self) -> int:
        """As far as the furthest."""
        return max((each.promised for each in self._attached().values()), default=BEGIN)

    @property
    def standing(self) -> dict[str, int]:
        """How far each is that is attached."""
        return {name: each.promised for name, each in self._attached().items()}

    def held_by(self, now: int) -> str:
        """What holds the furthest back."""
        attached = self._attached()
        if not attached:
            return f"{self.feed.entrance.stream_name}: there is no replica to listen to"
        return max(attached.values(), key=lambda each: each.promised).held_by(now)

    def remembered(self) -> dict[str, Entering]:
        """All that is needed to go on from here; the merges remember their own."""
        return {
            name: Entering(known.port, None if known.entrance is None else known.entrance.remembered())
            for name, known in self._known.items()
        }

    def restore(self, state: dict[str, Entering]) -> None:
        """Go on from there."""
        for name, (port, entered) in state.items():
            entrance = None if entered is None else self._entrance(name)
            if entrance is not None and entered is not None:
                entrance.restore(entered)
            self._known[name] = _Replica(port, entrance)
