"""Keepers: processes that hold the state of buckets between two batches.

Whatever carries a plan (Spark's Python workers) runs a bucket's batch now in this process and now in
that. So that the state is not moved with it, every host has a few keepers, and the process that got the
batch asks the one that has the bucket:

    worker  --  step of bucket 5, batch 17, parcels  -->  keeper 1
    worker  <--  parcels, ledger, standing           --   keeper 1

A keeper is started by the first who needs it, serves all queries of an application and all executors of
its host, and ends by itself: when those who asked are gone (their guardians, the executors that started
them), or when nobody has asked for a while. Nothing is lost with it: what it knows is in the store. How
keepers come and go is in quarters.py.

Messages (lines.py) go over a Unix socket, in a directory that is the user's alone; both ends know a key.
The program comes as its maker pickled it for the workers, by the same hands: nothing else is ever
unpickled, and nothing that came from a source.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import select
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Listener
from pathlib import Path
from typing import Any

import pyarrow as pa

from slackwater.distributed.allocation import keeping_memory
from slackwater.distributed.bucket import Said
from slackwater.distributed.host import Host
from slackwater.distributed.lines import Line, Message
from slackwater.distributed.parcels import Parcel, from_arrow, to_arrow
from slackwater.distributed.program import Program
from slackwater.distributed.quarters import Quarters, clear, inode_of
from slackwater.distributed.store import Place, Received, Store
from slackwater.errors import OperatorError, SlackwaterError

__all__ = ["Asked", "ask", "forget", "slot_of"]

IDLE_SECONDS = 600.0
_START_SECONDS = 60.0
_TRIES = 3


class Asked:
    """One step of one bucket."""

    def __init__(
        self,
        place: Place,
        batch: int,
        now: int,
        parcels: Sequence[pa.RecordBatch],
        *,
        program: bytes,
        root: str,
    ) -> None:
        header = {
            "stage": place.stage,
            "bucket": place.bucket,
            "batch": batch,
            "now": now,
            "program": _name(program),
            "root": root,
            "guardian": _guardian(),
        }
        self.message = Message(header, parcels)
        self.program = program


# the side that asks

_lines: dict[str, Line] = {}
_started: list[subprocess.Popen[bytes]] = []


def slot_of(bucket: int, most: int) -> int:
    """Which keeper of this host has a bucket: there are as many as cores, and at most so many."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return bucket % max(1, min(most, cores))


def ask(run: str, slot: int, asked: Asked) -> Message:
    """Have a keeper of this host do it; start it if there is none."""
    for _ in range(_TRIES - 1):
        try:
            return _asked_once(run, slot, asked)
        except (EOFError, OSError):
            # it is gone: its store is not
            continue
    return _asked_once(run, slot, asked)


def _asked_once(run: str, slot: int, asked: Asked) -> Message:
    line = _connected(run, slot)
    try:
        line.send(asked.message)
        told = line.receive()
        if told.header.get("needs") == "program":
            line.send(Message({}, [to_arrow([Parcel(0, 0, 0, "", "", 0, data=asked.program)])]))
            told = line.receive()
    except BaseException:
        # whatever it was, the next answer might be to this question
        _lines.pop(f"{run}/{slot}").close()
        raise
    if "fact" in told.header:
        header = told.header
        raise OperatorError(header["fact"], detail=header["detail"], hint=header["hint"])
    return told


def forget(run: str, root: str) -> None:
    """Tell the keepers of this host that the query with that store has ended."""
    quarters = Quarters(run)
    for socket in quarters.sockets:
        try:
            with Client(str(socket), family="AF_UNIX", authkey=quarters.key) as connection:
                line = Line(connection)
                line.send(Message({"forget": root}))
                line.receive()
        except (EOFError, OSError, AuthenticationError):
            # it has ended by itself
            continue


def _connected(run: str, slot: int) -> Line:
    name = f"{run}/{slot}"
    if name not in _lines:
        quarters = Quarters(run)
        with quarters.entered(slot):
            line = _try(quarters, slot)
            if line is None:
                quarters.socket(slot).unlink(missing_ok=True)
                line = _start(quarters, slot)
        _lines[name] = line
    return _lines[name]


def _try(quarters: Quarters, slot: int) -> Line | None:
    try:
        return Line(Client(str(quarters.socket(slot)), family="AF_UNIX", authkey=quarters.key))
    except (FileNotFoundError, ConnectionError, EOFError):
        return None


def _start(quarters: Quarters, slot: int) -> Line:
    """Start a keeper, and wait until it answers."""
    words = [quarters.path.name, str(slot), str(_guardian())]
    command = [sys.executable, "-m", "slackwater.distributed.keeper", *words]
    with quarters.log(slot).open("ab") as log:
        started = subprocess.Popen(  # noqa: S603
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**keeping_memory(os.environ), "POLARS_MAX_THREADS": "1"},
        )
    # those that have ended are let go
    _started[:] = [*(other for other in _started if other.poll() is None), started]
    until = time.monotonic() + _START_SECONDS
    while (line := _try(quarters, slot)) is None:
        if started.poll() is not None or time.monotonic() > until:
            said = quarters.log(slot).read_text(errors="replace")[-2000:]
            raise OperatorError(
                "a keeper does not answer",
                detail=f"slot {slot}, exit status {started.poll()}: {said.strip() or 'it said nothing'}",
                hint=f"{' '.join(command)} must run on every host",
            )
        time.sleep(0.02)
    return line


def _guardian() -> int:
    """The process that the worker belongs to: its grandparent, under Spark the executor."""
    try:
        stat = Path(f"/proc/{os.getppid()}/stat").read_text()
        return int(stat.rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        # no such place here: it will end when nobody asks
        return 0


# the side that answers


class _Guardians:
    """Processes whose workers have asked; when the last of them is gone, so is all need for a keeper."""

    def __init__(self) -> None:
        self._files: dict[int, int] = {}
        self._lock = threading.Lock()
        self._known: set[int] = set()

    def add(self, pid: int) -> None:
        """One more; 0 is nobody."""
        with self._lock:
            if pid <= 0 or pid in self._files:
                return
            try:
                self._files[pid] = os.pidfd_open(pid)
            except ProcessLookupError:
                pass  # gone already
            except OSError:
                return  # not on this system: it will end when nobody asks
            self._known.add(pid)

    def wait(self, seconds: float) -> bool:
        """Wait for so long, or until one of them is gone; whether there is nobody left."""
        poll = select.poll()
        with self._lock:
            pids = {file: pid for pid, file in self._files.items()}
        for file in pids:
            poll.register(file, select.POLLIN)
        gone = [pids[file] for file, _ in poll.poll(seconds * 1000)]
        with self._lock:
            for pid in gone:
                os.close(self._files.pop(pid))
            return bool(self._known) and not self._files


class _Signals:
    """Whether it was told to end: soon, for nobody is to wait here, least of all who holds the lock.

    Python runs a handler in the main thread, and that one may be about to wait for a connection: then
    the handler would run when the next one comes. What is written to a pipe is there at once.
    """

    def __init__(self) -> None:
        self._told, told = os.pipe()
        os.set_blocking(told, False)
        signal.set_wakeup_fd(told, warn_on_full_buffer=False)
        # without a handler the process would end where it stands
        signal.signal(signal.SIGTERM, _nothing)

    @property
    def told_to_end(self) -> bool:
        return bool(select.select([self._told], [], [], 0)[0])


def _nothing(*_: object) -> None:
    pass


class _Keeper:
    def __init__(self, quarters: Quarters, slot: int) -> None:
        self._quarters, self._slot = quarters, slot
        self._lock = threading.Lock()
        self._programs: dict[str, Program] = {}
        self._hosts: dict[tuple[str, str], Host] = {}
        self._inode: int | None = None
        self._asked_last = time.monotonic()
        self._signals = _Signals()
        self.guardians = _Guardians()

    def listens(self) -> None:
        """Its socket is there."""
        self._inode = inode_of(self._quarters.socket(self._slot))

    def watch(self) -> None:
        """End when nobody needs it."""
        while not (self.guardians.wait(1.0) or self._signals.told_to_end or self._is_idle):
            pass
        try:
            self._quarters.leave(self._slot, self._inode)
        finally:
            # what is half done is not in the store, and whoever asked for it is gone or asks again
            os._exit(0)

    @property
    def _is_idle(self) -> bool:
        return not self._lock.locked() and time.monotonic() - self._asked_last > IDLE_SECONDS

    def serve(self, line: Line) -> None:
        try:
            while True:
                message = line.receive()
                with self._lock:
                    self.guardians.add(message.header.get("guardian", 0))
                    if "forget" in message.header:
                        self._forget(message.header["forget"])
                        line.send(Message({}))
                        continue
                    line.send(self._answered(line, *message))
                    self._asked_last = time.monotonic()
        except (EOFError, OSError):
            # who asked is gone
            return
        finally:
            # also where something unforeseen has ended it: nobody is to wait for an answer
            line.close()

    def _forget(self, root: str) -> None:
        self._hosts = {known: host for known, host in self._hosts.items() if known[1] != root}
        self._programs = {name: self._programs[name] for name, _ in self._hosts}

    def _answered(self, line: Line, header: dict[str, Any], rows: Sequence[pa.RecordBatch]) -> Message:
        name, root = header["program"], header["root"]
        if name not in self._programs:
            line.send(Message({"needs": "program"}))
            [given] = line.receive().rows
            [parcel] = from_arrow(given)
            assert parcel.data is not None, "it was asked for"
            pickled = bytes(parcel.data)
            assert _name(pickled) == name, "the program that was asked for"
            try:
                # made by who started the query, and brought here by its own workers
                self._programs[name] = pickle.loads(pickled)  # noqa: S301
            except Exception as problem:  # noqa: BLE001  # whatever it is, who asked has to know
                fact = {
                    "fact": "a keeper cannot read the program",
                    "detail": "".join(traceback.format_exception_only(problem)).strip(),
                    "hint": "what the query's functions import must be installed on every host",
                }
                return Message(fact)
        host = self._hosts.get((name, root))
        if host is None:
            host = self._hosts[name, root] = Host(self._programs[name], Store(root))
        place = Place(header["stage"], header["bucket"])
        try:
            said = host.step(place, header["batch"], Received.of(rows, header["now"]))
            answer = [to_arrow(said.parcels)]
        except SlackwaterError as problem:
            return Message({"fact": problem.fact, "detail": problem.detail, "hint": problem.hint})
        except Exception as problem:  # noqa: BLE001  # whatever it is, who asked has to know
            trace = "".join(traceback.format_exception(problem))
            return Message({"fact": f"{place} failed: {problem!r}", "detail": trace, "hint": ""})
        return Message(_told(said), answer)


def _told(said: Said) -> dict[str, Any]:
    entries = [entry.written() for entry in said.entries]
    return {"standing": asdict(said.standing), "entries": entries}


def main(run: str, slot: int, guardian: int) -> None:
    """Keep buckets until nobody needs them."""
    clear()
    quarters = Quarters(run)
    keeper = _Keeper(quarters, slot)
    keeper.guardians.add(guardian)
    with Listener(str(quarters.socket(slot)), family="AF_UNIX", authkey=quarters.key) as listener:
        keeper.listens()
        threading.Thread(target=keeper.watch, daemon=True).start()
        while True:
            try:
                connection = listener.accept()
            except (AuthenticationError, EOFError, OSError):
                # somebody else, or somebody who is gone
                continue
            threading.Thread(target=keeper.serve, args=(Line(connection),), daemon=True).start()


def _name(program: bytes) -> str:
    return hashlib.sha256(program).hexdigest()[:16]


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
