"""The store: what makes the state of buckets durable.

A bucket's state follows from the parcels of all batches so far. So what is written for each batch is
what came in: its parcels, as they are, before anything of the batch can be seen outside. Now and then
the state itself is written, too; then what came in before is of no more use. To go on at a batch, a
bucket reads the last state before it and takes in the batches between. Hence an ordinary batch writes as
much as it brings, whatever is remembered, and reads nothing.

    <root>/program.json                         what wrote it, see program.py
    <root>/<stage>/<bucket>/<batch>.parcels     what came in
    <root>/<stage>/<bucket>/<batch>.state       what was remembered behind that batch

A file has its name when it is complete, and not before; writing it again, as a repeated batch does, puts
the same in its place. Any file system that pyarrow knows will do.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.fs as pafs

from slackwater import persistence
from slackwater.distributed.parcels import Parcel, from_arrow, to_arrow
from slackwater.distributed.program import Program
from slackwater.errors import OperatorError, PlanError

__all__ = ["Place", "Store"]

Writes = Callable[[pa.NativeFile], object]

_KEPT_STATES = 2
"""a query may be taken up one batch before the last, so one state more than the last"""


@dataclass(frozen=True, slots=True)
class Place:
    """Which bucket of which stage."""

    stage: int
    bucket: int


class Store:
    """The files of one query."""

    def __init__(self, root: str) -> None:
        self._files: pafs.FileSystem
        self._root: str
        self._files, self._root = pafs.FileSystem.from_uri(root) if "://" in root else _local(root)

    def open(self, program: Program) -> None:
        """Begin, or go on if the program fits what is there; else refuse."""
        path = f"{self._root}/program.json"
        mine = {"fingerprint": program.fingerprint, "plan": program.lines()}
        if self._files.get_file_info(path).type is pafs.FileType.NotFound:
            self._files.create_dir(self._root)
            self._write(path, json.dumps(mine, indent=1).encode())
            return
        with self._files.open_input_stream(path) as file:
            theirs = json.loads(file.read())
        if theirs["fingerprint"] != mine["fingerprint"]:
            changed = [line for line in theirs["plan"] if line not in mine["plan"]]
            new = [line for line in mine["plan"] if line not in theirs["plan"]]
            raise PlanError(
                "the checkpoint was written by another plan",
                detail="; ".join([*(f"was: {c}" for c in changed[:3]), *(f"is: {c}" for c in new[:3])]),
                hint="restore the plan, or start anew with another checkpoint",
            )

    # what came in

    def write_parcels(self, place: Place, batch: int, parcels: list[Parcel], now: int) -> int:
        """Write down what came in; how many bytes that is."""
        rows = to_arrow(parcels)
        schema = rows.schema.with_metadata({"now": str(now)})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, schema) as writer:
            writer.write_batch(rows.replace_schema_metadata(schema.metadata))
        data = sink.getvalue()
        self._write(self._path(place, batch, "parcels"), data)
        return len(data)

    def parcels_stamp(self, place: Place, batch: int) -> tuple[int, int] | None:
        """Tells a file from another that was written in its place."""
        info = self._files.get_file_info(self._path(place, batch, "parcels"))
        return None if info.type is pafs.FileType.NotFound else (info.mtime_ns or 0, info.size)

    def read_parcels(self, place: Place, batch: int) -> tuple[list[Parcel], int]:
        """What came in then, and when that was."""
        path = self._path(place, batch, "parcels")
        if self._files.get_file_info(path).type is pafs.FileType.NotFound:
            raise OperatorError(
                f"the state of bucket {place.bucket} of stage {place.stage} cannot be restored",
                detail=f"what came in with batch {batch} is missing",
                hint="the checkpoint is not whole; start anew with another one",
            )
        with self._files.open_input_file(path) as file:
            table = pa.ipc.open_stream(file.read_buffer()).read_all()
        parcels = [parcel for rows in table.to_batches() for parcel in from_arrow(rows)]
        return parcels, int(table.schema.metadata[b"now"])

    # states

    def write_state(self, place: Place, batch: int, state: object) -> int:
        """Write down what is remembered behind a batch; how many bytes that is."""
        path = self._path(place, batch, "state")
        written = 0

        def write(file: pa.NativeFile) -> None:
            nonlocal written
            persistence.encode(state).write(file)
            written = file.tell()

        self._write_with(path, write)
        self._forget_before(place, batch)
        return written

    def last_state(self, place: Place, until: int) -> tuple[int, object] | None:
        """The last state that was written up to a batch, and behind which one."""
        found = [batch for batch, kind in self._listed(place) if kind == "state" and batch <= until]
        if not found:
            return None
        with self._files.open_input_stream(self._path(place, max(found), "state")) as file:
            return max(found), persistence.decode(persistence.Encoded.read(file))

    def forget_after(self, place: Place, batch: int) -> None:
        """What later batches have left behind is of an attempt that came to nothing."""
        for b, kind in list(self._listed(place)):
            if b > batch:
                self._files.delete_file(self._path(place, b, kind))

    def _forget_before(self, place: Place, batch: int) -> None:
        states = sorted(b for b, kind in self._listed(place) if kind == "state" and b <= batch)
        if len(states) < _KEPT_STATES:
            return
        oldest = states[-_KEPT_STATES]
        for b, kind in list(self._listed(place)):
            if b < oldest or (b == oldest and kind == "parcels"):
                self._files.delete_file(self._path(place, b, kind))

    # files

    def _path(self, place: Place, batch: int, kind: str) -> str:
        return f"{self._root}/{place.stage}/{place.bucket}/{batch}.{kind}"

    def _listed(self, place: Place) -> Iterator[tuple[int, str]]:
        directory = f"{self._root}/{place.stage}/{place.bucket}"
        for info in self._files.get_file_info(pafs.FileSelector(directory, allow_not_found=True)):
            batch, _, kind = info.base_name.partition(".")
            if kind in ("state", "parcels"):
                yield int(batch), kind

    def _write(self, path: str, data: bytes | pa.Buffer) -> None:
        self._write_with(path, lambda file: file.write(data))

    def _write_with(self, path: str, write: Writes) -> None:
        directory, _, name = path.rpartition("/")
        unfinished = f"{directory}/.{name}.{uuid.uuid4().hex}"
        try:
            file = self._files.open_output_stream(unfinished)
        except FileNotFoundError:
            self._files.create_dir(directory)
            file = self._files.open_output_stream(unfinished)
        with file:
            write(file)
        self._files.move(unfinished, path)


def _local(root: str) -> tuple[pafs.FileSystem, str]:
    return pafs.LocalFileSystem(), root.rstrip("/")
