"""Keepers: processes that hold the state of buckets between two batches.

Whatever carries a plan (Spark's Python workers) runs a bucket's batch now in this process and now in
that. So that the state is not moved with it, every host has a few keepers, and the process that got the
batch asks the one that has the bucket:

    worker  --  step of bucket 5, batch 17, parcels  -->  keeper 1
    worker  <--  parcels, ledger, standing           --   keeper 1

A keeper is started by the first who needs it, serves all queries of an application, and ends by itself:
when its guardian (the process that started the workers) is gone, when nobody has asked for a while, or
when it is told to. Nothing is lost with it: what it knows is in the store.

Messages are Arrow streams over a Unix socket, in a directory that is the user's alone; both ends know a
key. The program comes as its maker pickled it for the workers, by the same hands: nothing else is ever
unpickled, and nothing that came from a source.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import pickle
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any

import pyarrow as pa

from slackwater.distributed.bucket import Said
from slackwater.distributed.host import Host
from slackwater.distributed.parcels import SCHEMA, Parcel, from_arrow, to_arrow
from slackwater.distributed.program import Program
from slackwater.distributed.store import Place, Store
from slackwater.errors import OperatorError, SlackwaterError

__all__ = ["Asked", "Told", "ask", "dismiss", "forget"]

IDLE_SECONDS = 600.0
_START_SECONDS = 60.0


class Asked:
    """One step of one bucket."""

    def __init__(
        self, place: Place, batch: int, now: int, parcels: list[Parcel], *, program: bytes, root: str
    ) -> None:
        self.header = {
            "stage": place.stage,
            "bucket": place.bucket,
            "batch": batch,
            "now": now,
            "program": _name(program),
            "root": root,
        }
        self.parcels = parcels
        self.program = program


class Told:
    """The answer."""

    def __init__(self, header: dict[str, Any], rows: pa.RecordBatch) -> None:
        self.header, self.rows = header, rows


# the side that asks

_connections: dict[str, Connection] = {}
_started: list[subprocess.Popen[bytes]] = []


def ask(run: str, slot: int, asked: Asked) -> Told:
    """Have a keeper of this host do it; start it if there is none."""
    message = _message(asked.header, to_arrow(asked.parcels))
    for attempt in range(3):
        connection = _connected(run, slot)
        try:
            connection.send_bytes(message)
            header, rows = _parsed(connection.recv_bytes())
            if header.get("needs") == "program":
                connection.send_bytes(asked.program)
                header, rows = _parsed(connection.recv_bytes())
        except (EOFError, OSError):
            # it is gone: its store is not
            _connections.pop(f"{run}/{slot}", None)
            if attempt == 2:
                raise
            continue
        if "fact" in header:
            raise OperatorError(header["fact"], detail=header["detail"], hint=header["hint"])
        return Told(header, rows)
    raise AssertionError("unreachable")


def dismiss(run: str) -> None:
    """Tell the keepers of a run on this host that they are no longer needed."""
    _tell_all(run, {"end": True})


def forget(run: str, root: str) -> None:
    """Tell them that the query with that store has ended."""
    _tell_all(run, {"forget": root})


def _tell_all(run: str, header: dict[str, Any]) -> None:
    directory = _directory(run)
    for socket in sorted(directory.glob("*.socket")):
        try:
            with Client(str(socket), family="AF_UNIX", authkey=_key(directory)) as connection:
                connection.send_bytes(_message(header, to_arrow([])))
                connection.recv_bytes()
        except (EOFError, OSError, AuthenticationError):
            # it has ended by itself
            continue


def _connected(run: str, slot: int) -> Connection:
    name = f"{run}/{slot}"
    if name not in _connections:
        directory = _directory(run)
        socket = directory / f"{slot}.socket"
        with _locked(directory / f"{slot}.lock"):
            connection = _try(socket, directory)
            if connection is None:
                socket.unlink(missing_ok=True)
                _start(directory, slot)
                until = time.monotonic() + _START_SECONDS
                while (connection := _try(socket, directory)) is None:
                    if time.monotonic() > until:
                        raise OperatorError(
                            "a keeper does not answer",
                            detail=f"slot {slot}; it was started {_START_SECONDS:.0f} s ago",
                            hint=f"see {directory}/{slot}.log",
                        )
                    time.sleep(0.02)
        _connections[name] = connection
    return _connections[name]


def _try(socket: Path, directory: Path) -> Connection | None:
    try:
        return Client(str(socket), family="AF_UNIX", authkey=_key(directory))
    except (FileNotFoundError, ConnectionRefusedError, EOFError):
        return None


def _directory(run: str) -> Path:
    """The user's own; short, since the names of sockets have to be."""
    base = Path(tempfile.gettempdir()) / f"slackwater-{os.getuid()}"
    base.mkdir(mode=0o700, exist_ok=True)
    if base.stat().st_uid != os.getuid() or base.stat().st_mode & 0o077:
        raise OperatorError("the directory of the keepers is not private", detail=str(base))
    directory = base / run
    directory.mkdir(mode=0o700, exist_ok=True)
    return directory


def _key(directory: Path) -> bytes:
    path = directory / "key"
    with _locked(directory / "key.lock"):
        if not path.exists():
            path.touch(mode=0o600)
            path.write_bytes(secrets.token_bytes(32))
        return path.read_bytes()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _start(directory: Path, slot: int) -> None:
    command = [sys.executable, "-m", "slackwater.distributed.keeper", str(directory), str(slot)]
    command.append(str(_guardian()))
    with (directory / f"{slot}.log").open("ab") as log:
        started = subprocess.Popen(  # noqa: S603
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, "POLARS_MAX_THREADS": "1"},
        )
    # those that have ended are let go
    _started[:] = [*(other for other in _started if other.poll() is None), started]


def _guardian() -> int:
    """The process that the worker belongs to: its grandparent, under Spark the executor."""
    try:
        stat = Path(f"/proc/{os.getppid()}/stat").read_text()
        return int(stat.rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        # no such place here: it will end when nobody asks
        return 0


# the side that answers


class _Keeper:
    def __init__(self, directory: Path, slot: str) -> None:
        self._directory, self._slot = directory, slot
        self._lock = threading.Lock()
        self._programs: dict[str, Program] = {}
        self._hosts: dict[tuple[str, str], Host] = {}
        self.asked_last = time.monotonic()

    @property
    def is_busy(self) -> bool:
        """Whether it is at work."""
        return self._lock.locked()

    def leave(self) -> None:
        """End, and leave nothing behind but what others still use."""
        for kind in ("socket", "lock", "log"):
            (self._directory / f"{self._slot}.{kind}").unlink(missing_ok=True)
        if not any(self._directory.glob("*.socket")):
            shutil.rmtree(self._directory, ignore_errors=True)
        os._exit(0)

    def serve(self, connection: Connection) -> None:
        try:
            while True:
                message = connection.recv_bytes()
                with self._lock:
                    self.asked_last = time.monotonic()
                    header, rows = _parsed(message)
                    if "end" in header:
                        connection.send_bytes(_message({}, to_arrow([])))
                        self.leave()
                    if "forget" in header:
                        self._forget(header["forget"])
                        connection.send_bytes(_message({}, to_arrow([])))
                        continue
                    connection.send_bytes(self._answered(connection, header, rows))
                    self.asked_last = time.monotonic()
        except (EOFError, OSError):
            # who asked is gone
            connection.close()

    def _forget(self, root: str) -> None:
        self._hosts = {known: host for known, host in self._hosts.items() if known[1] != root}
        self._programs = {name: self._programs[name] for name, _ in self._hosts}

    def _answered(self, connection: Connection, header: dict[str, Any], rows: pa.RecordBatch) -> bytes:
        name, root = header["program"], header["root"]
        if name not in self._programs:
            connection.send_bytes(_message({"needs": "program"}, to_arrow([])))
            pickled = connection.recv_bytes()
            assert _name(pickled) == name, "the program that was asked for"
            # made by who started the query, and brought here by its own workers
            self._programs[name] = pickle.loads(pickled)  # noqa: S301
        host = self._hosts.get((name, root))
        if host is None:
            host = self._hosts[name, root] = Host(self._programs[name], Store(root))
        place = Place(header["stage"], header["bucket"])
        try:
            said = host.step(place, header["batch"], from_arrow(rows), header["now"])
        except SlackwaterError as problem:
            fact = {"fact": problem.fact, "detail": problem.detail, "hint": problem.hint}
            return _message(fact, to_arrow([]))
        except Exception as problem:  # noqa: BLE001  # whatever it is, who asked has to know
            trace = "".join(traceback.format_exception(problem))
            fact = {"fact": f"{place} failed: {problem!r}", "detail": trace, "hint": ""}
            return _message(fact, to_arrow([]))
        return _message(_told(said), to_arrow(said.parcels))


def _told(said: Said) -> dict[str, Any]:
    entries = [
        {"element": repr(e.element), "reason": e.reason, "place": e.place, "detail": e.detail}
        for e in said.entries
    ]
    return {"standing": asdict(said.standing), "entries": entries}


def _watch(keeper: _Keeper, guardian: int) -> None:
    while True:
        time.sleep(1.0)
        if not keeper.is_busy and time.monotonic() - keeper.asked_last > IDLE_SECONDS:
            keeper.leave()
        if guardian > 0:
            try:
                os.kill(guardian, 0)
            except ProcessLookupError:
                keeper.leave()
            except PermissionError:
                pass  # it lives, and is another user's


def main(directory: str, slot: str, guardian: str) -> None:
    """Keep buckets until nobody needs them."""
    place = Path(directory)
    keeper = _Keeper(place, slot)
    threading.Thread(target=_watch, args=(keeper, int(guardian)), daemon=True).start()
    with Listener(str(place / f"{slot}.socket"), family="AF_UNIX", authkey=_key(place)) as listener:
        while True:
            try:
                connection = listener.accept()
            except (AuthenticationError, EOFError, OSError):
                # somebody else, or somebody who is gone
                continue
            threading.Thread(target=keeper.serve, args=(connection,), daemon=True).start()


# messages


def _message(header: dict[str, Any], rows: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    schema = SCHEMA.with_metadata({"header": json.dumps(header)})
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(rows.replace_schema_metadata(schema.metadata))
    message: bytes = sink.getvalue().to_pybytes()
    return message


def _parsed(message: bytes) -> tuple[dict[str, Any], pa.RecordBatch]:
    reader = pa.ipc.open_stream(pa.py_buffer(message))
    header: dict[str, Any] = json.loads(reader.schema.metadata[b"header"])
    return header, reader.read_next_batch()


def _name(program: bytes) -> str:
    return hashlib.sha256(program).hexdigest()[:16]


if __name__ == "__main__":
    main(*sys.argv[1:])
