"""The store: what makes the state of buckets durable.

A bucket's state follows from the parcels of all batches so far. So what is written for each batch is
what came in: its parcels, as they are, before anything of the batch can be seen outside. Now and then
the state itself is written, too; then what came in before is of no more use. To go on at a batch, a
bucket reads the last state before it and takes in the batches between. Hence an ordinary batch writes as
much as it brings, whatever is remembered, and reads nothing.

    program.json                                       what wrote it, see program.py
    <stage>/<bucket>/<batch>-<before>-<link>.parcels   what came in
    <stage>/<bucket>/<batch>-<link>.state              what was remembered behind that batch
    batches/<batch>.json                               of which links it consists, and how it stood
    ledger/<batch>.json                                what it has set aside

What came in is a chain: a link is the digest of the link before and of the parcels. A batch may be run
several times, by tasks that Spark repeats and by keepers of a driver that is long dead. If they got the
same, they write the same file; if not, another one, which is not the link that the batch is recorded
with, and which nobody reads. So nobody can spoil what others have written, and what is read is known to
be what was meant. Files that are older than the last states are deleted, whosever they are.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from slackwater import persistence
from slackwater.distributed.files import Directory
from slackwater.distributed.parcels import SCHEMA, Parcel, from_arrow, in_order
from slackwater.distributed.program import Program
from slackwater.errors import OperatorError, PlanError
from slackwater.ledger import Entry
from slackwater.runtime.edge import RAISE
from slackwater.times import BEGIN

__all__ = ["FIRST", "Place", "Received", "Store", "linked"]

FIRST = "0" * 16
"""the link before all batches"""
_KEPT_RECORDS = 100
"""a record is needed until the next batch is through; more of them are for people"""


@dataclass(frozen=True, slots=True)
class Place:
    """Which bucket of which stage."""

    stage: int
    bucket: int

    def __str__(self) -> str:
        return f"bucket {self.bucket} of stage {self.stage}"


@dataclass(frozen=True, slots=True)
class Received:
    """What came in with a batch: rows as they came, and the parcels in the order of their origins."""

    rows: Sequence[pa.RecordBatch]
    parcels: list[Parcel]
    now: int

    @classmethod
    def of(cls, rows: Sequence[pa.RecordBatch], now: int) -> Received:
        """At that time."""
        return cls(rows, in_order(parcel for each in rows for parcel in from_arrow(each)), now)


@dataclass(frozen=True, slots=True)
class _File:
    """A name, read: `before` is empty for a state."""

    batch: int
    before: str
    link: str

    @property
    def name(self) -> str:
        if self.before:
            return f"{self.batch}-{self.before}-{self.link}.parcels"
        return f"{self.batch}-{self.link}.state"


def linked(before: str, received: Received) -> str:
    """The link that follows another one."""
    digest = hashlib.blake2b(f"{before} {received.now}".encode(), digest_size=8)
    for p in received.parcels:
        told = p.promise, p.latest, p.slowest, p.held_by, p.stands_for
        digest.update(repr((p.feed, p.origin, p.part, p.number, *told, p.rows)).encode())
        if p.data is not None:
            digest.update(p.data)
    return digest.hexdigest()


class Store:
    """The files of one query."""

    def __init__(self, root: str) -> None:
        self._directory = Directory(root)

    # what wrote it

    def fitting(
        self,
        program: Program,
        beside: Sequence[str] = (),
        places: Mapping[str, str] | None = None,
        *,
        has_read: bool = False,
    ) -> dict[str, Any]:
        """What is to be written down of a program that may begin here, or go on; else refuse.

        `beside` are the inputs that are no streams of the plan; `places` say where each stream comes
        from and how it is read, and where the answer goes, if that must stay the same. All these must
        once a batch was begun: it `has_read` something. "query" is its name, for sinks: the one that it
        has already, if it goes on.
        """
        mine: dict[str, Any] = {
            "fingerprint": program.fingerprint,
            "plan": program.lines(),
            "buckets": program.buckets,
            "on_invalid": program.on_invalid.value,
            "beside": [*beside],
            "places": dict(places or {}),
        }
        theirs = self._program()
        if theirs is None:
            return {**mine, "query": uuid.uuid4().hex}
        if theirs["fingerprint"] != mine["fingerprint"]:
            changed = [line for line in theirs["plan"] if line not in mine["plan"]]
            new = [line for line in mine["plan"] if line not in theirs["plan"]]
            raise PlanError(
                "the checkpoint was written by another plan",
                detail="; ".join([*(f"was: {c}" for c in changed[:3]), *(f"is: {c}" for c in new[:3])]),
                hint="restore the plan, or start anew with another checkpoint",
            )
        if has_read or self.last_record() is not None:
            self._require_as_many(theirs, mine)
            self._require_same_places(theirs, mine)
        if theirs["on_invalid"] != mine["on_invalid"]:
            self._require_lenient(program)
        return {**mine, "query": theirs["query"]}

    def begin(self, facts: Mapping[str, Any]) -> None:
        """From now on it is that program's."""
        if facts != self._program():
            self._directory.write("program.json", json.dumps(facts, indent=1).encode())

    def _require_as_many(self, theirs: Mapping[str, Any], mine: Mapping[str, Any]) -> None:
        """Spark knows its inputs by their number."""
        # earlier versions have not written it
        if theirs.get("beside", mine["beside"]) == mine["beside"]:
            return
        was, now = (", ".join(each["beside"]) or "nothing" for each in (theirs, mine))
        raise PlanError(
            "the checkpoint was written with other inputs beside the streams",
            detail=f"was: {was}; is: {now}",
            hint="turnable=, feedback=, heartbeat= as they were, or start anew with another checkpoint",
        )

    def _require_same_places(self, theirs: Mapping[str, Any], mine: Mapping[str, Any]) -> None:
        """What was read of an input was read of that one; what was answered so far is at that place."""
        # earlier versions have not written it
        was, now = theirs.get("places", {}), mine["places"]
        others = [
            f"{what}: was {was[what]}; is {now[what]}"
            for what in now
            if was.get(what, now[what]) != now[what]
        ]
        if others:
            raise PlanError(
                "the checkpoint was written with other inputs, or with another sink",
                detail="; ".join(others),
                hint="give what the query had, or start anew with another checkpoint",
            )

    @staticmethod
    def _require_lenient(program: Program) -> None:
        """What has gone through goes through again where more is forgiven, but not where less is."""
        if program.on_invalid is RAISE:
            raise PlanError(
                "the checkpoint may hold elements that are invalid",
                detail="so far they were set aside, and would now stop the query when it is restored",
                hint="keep on_invalid=sw.LEDGER, or start anew with another checkpoint",
            )

    @property
    def buckets(self) -> int | None:
        """In how many buckets the state is; None before the first start."""
        program = self._program()
        return None if program is None else int(program["buckets"])

    @property
    def name(self) -> str | None:
        """Of the query; None before the first start."""
        program = self._program()
        return None if program is None else str(program["query"])

    def _program(self) -> dict[str, Any] | None:
        if not self._directory.has("program.json"):
            return None
        program: dict[str, Any] = json.loads(self._directory.read("program.json"))
        return program

    # what came in

    def write_parcels(
        self, place: Place, batch: int, before: str, received: Received
    ) -> tuple[str, int]:
        """Write down what came in behind a link; the new link, and how many bytes that is."""
        link = linked(before, received)
        schema = SCHEMA.with_metadata({"now": str(received.now)})
        written = 0

        def write(file: pa.NativeFile) -> None:
            nonlocal written
            with pa.ipc.new_stream(file, schema) as writer:
                for rows in received.rows:
                    writer.write_batch(rows)
            written = file.tell()

        self._directory.write_with(_path(place, _File(batch, before, link)), write)
        return link, written

    def _read_parcels(self, place: Place, file: _File) -> Received:
        path = self._directory.path(_path(place, file))
        with self._directory.files.open_input_file(path) as opened:
            table = pa.ipc.open_stream(opened.read_buffer()).read_all()
        received = Received.of(table.to_batches(), int(table.schema.metadata[b"now"]))
        if linked(file.before, received) != file.link:
            raise _not_whole(place, f"what came in with batch {file.batch} is not what was written")
        return received

    # states

    def write_state(self, place: Place, batch: int, link: str, state: object) -> int:
        """Write down what is remembered behind a batch; how many bytes that is."""
        written = 0

        def write(file: pa.NativeFile) -> None:
            nonlocal written
            persistence.encode(state).write(file)
            written = file.tell()

        self._directory.write_with(_path(place, _File(batch, "", link)), write)
        return written

    def _read_state(self, place: Place, file: _File) -> object:
        with self._directory.files.open_input_stream(self._directory.path(_path(place, file))) as opened:
            return persistence.decode(persistence.Encoded.read(opened))

    def forget_before(self, place: Place, batch: int) -> None:
        """A state behind that batch is there: what is older, and what came in with it, may go."""
        for file in list(self._listed(place)):
            if file.batch < batch or (file.batch == batch and file.before):
                self._directory.delete(_path(place, file))

    # the way back

    def past(self, place: Place, batch: int) -> Past:
        """How a bucket came to stand where it stood behind a batch."""
        files = list(self._listed(place))
        states = {(file.batch, file.link): file for file in files if not file.before}
        parcels = {(file.batch, file.link): file for file in files if file.before}
        link = self._link(place, batch, files)
        since: list[_File] = []
        for number in range(batch, -1, -1):
            if (number, link) in states:
                state = self._read_state(place, states[number, link])
                return Past(self, place, number, link, state, since[::-1])
            if (number, link) not in parcels:
                detail = f"what came in with batch {number} is missing"
                others = [file.link for file in files if file.batch == number]
                if others:
                    detail += f": the next one follows {link}, and there is {', '.join(others)}"
                raise _not_whole(place, detail)
            since.append(parcels[number, link])
            link = parcels[number, link].before
        if link != FIRST:
            raise _not_whole(place, f"its first batch follows another one, {link}")
        return Past(self, place, -1, FIRST, None, since[::-1])

    def _link(self, place: Place, batch: int, files: list[_File]) -> str:
        """The link that a batch was recorded with; without a record, the only one that there is."""
        if batch < 0:
            return FIRST
        recorded = self.recorded(place, batch)
        if recorded is not None:
            return recorded
        found = {file.link for file in files if file.batch == batch}
        if len(found) > 1:
            raise _not_whole(place, f"batch {batch} was never recorded, and came in {len(found)} ways")
        return found.pop() if found else FIRST

    # what a batch came to, as told by who takes its answer

    def write_record(
        self, batch: int, links: Mapping[Place, str], facts: Mapping[str, Any] | None = None
    ) -> None:
        """A batch is through: these are the links that it consists of, and how it stood."""
        by_place = {f"{place.stage}/{place.bucket}": link for place, link in links.items()}
        record = {**(facts or {}), "links": by_place}
        self._directory.write(f"batches/{batch}.json", json.dumps(record).encode())
        if batch % _KEPT_RECORDS == 0:
            for number in self._numbers("batches"):
                if number < batch - _KEPT_RECORDS:
                    self._directory.delete(f"batches/{number}.json")

    def record(self, batch: int) -> dict[str, Any] | None:
        """How a batch stood when it was through; None if it was not."""
        if not self._directory.has(f"batches/{batch}.json"):
            return None
        record: dict[str, Any] = json.loads(self._directory.read(f"batches/{batch}.json"))
        return record

    def recorded(self, place: Place, batch: int) -> str | None:
        """The link that a batch was recorded with, if it was."""
        record = self.record(batch)
        if record is None:
            return None
        link = record["links"].get(f"{place.stage}/{place.bucket}")
        if link is None:
            raise _not_whole(place, f"the record of batch {batch} does not know it")
        return str(link)

    def promised(self, source: str, batch: int) -> int | None:
        """What a source had promised when a batch began; None if nobody has written that down."""
        if batch == 0:
            return BEGIN
        promise = (self.record(batch - 1) or {}).get("promises", {}).get(source)
        return None if promise is None else int(promise)

    def spoken(self, batch: int) -> int:
        """The highest sync that the answer had when a batch began."""
        return int((self.record(batch - 1) or {}).get("highest", BEGIN))

    def is_whole(self, batch: int) -> bool:
        """Whether all buckets can be built as they were behind that batch."""
        places = (self.record(batch) or {}).get("links", {})
        try:
            for place in places:
                stage, _, bucket = place.partition("/")
                self.past(Place(int(stage), int(bucket)), batch)
        except OperatorError:
            return False
        return bool(places)

    def last_record(self) -> dict[str, Any] | None:
        """That of the last batch."""
        numbers = self._numbers("batches")
        return self.record(max(numbers)) if numbers else None

    def write_entries(self, batch: int, entries: list[Entry]) -> None:
        """What a batch has set aside; a batch that is repeated says it again."""
        name = f"ledger/{batch}.json"
        if entries or self._directory.has(name):
            content = [entry.written() for entry in entries]
            self._directory.write(name, json.dumps(content).encode())

    def entries(self) -> dict[int, list[Entry]]:
        """What all batches have set aside."""
        return {
            number: [Entry(**e) for e in json.loads(self._directory.read(f"ledger/{number}.json"))]
            for number in self._numbers("ledger")
        }

    # files

    def _numbers(self, directory: str) -> list[int]:
        names = (name.partition(".") for name in self._directory.listed(directory))
        return sorted(int(number) for number, _, kind in names if kind == "json")

    def _listed(self, place: Place) -> Iterator[_File]:
        for name in self._directory.listed(f"{place.stage}/{place.bucket}"):
            words, _, kind = name.partition(".")
            match kind, words.split("-"):
                case "parcels", [batch, before, link]:
                    yield _File(int(batch), before, link)
                case "state", [batch, link]:
                    yield _File(int(batch), "", link)


@dataclass(frozen=True, slots=True)
class Past:
    """The last state of a bucket up to some batch, and what came in since."""

    _store: Store
    _place: Place
    batch: int
    """behind which the state was"""
    link: str
    state: object | None
    _since: list[_File]

    def since(self) -> Iterator[tuple[int, str, Received]]:
        """What came in with the batches after that: their numbers, their links, their parcels."""
        for file in self._since:
            yield file.batch, file.link, self._store._read_parcels(self._place, file)


def _path(place: Place, file: _File) -> str:
    return f"{place.stage}/{place.bucket}/{file.name}"


def _not_whole(place: Place, detail: str) -> OperatorError:
    return OperatorError(
        f"the state of {place} cannot be restored",
        detail=detail,
        hint="the checkpoint is not whole; start anew with another one",
    )
