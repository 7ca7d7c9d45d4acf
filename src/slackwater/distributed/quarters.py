"""Quarters: where the keepers of an application live on a host, and how they come and go.

    <temp>/slackwater-<uid>/<run>/lock            held while anything below is made or removed
    <temp>/slackwater-<uid>/<run>/key             both ends of a connection know it
    <temp>/slackwater-<uid>/<run>/<slot>.lock     held by who looks for its keeper, or ends as it
    <temp>/slackwater-<uid>/<run>/<slot>.socket   where it answers
    <temp>/slackwater-<uid>/<run>/<slot>.log      what it had to say

Workers of several executors may look for a keeper while it ends. So there is one at a time who starts or
removes it, and a keeper that ends removes its own socket, never that of its successor. Who leaves last
takes the directory with it, and what others that were killed have left. Hence a lock that one has waited
for may be of a file that is gone: then one looks again.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from slackwater.errors import OperatorError

__all__ = ["Quarters", "clear", "inode_of"]


class Quarters:
    """The directory of one application on this host."""

    def __init__(self, run: str) -> None:
        self.path = _base() / run

    def socket(self, slot: int) -> Path:
        """Where the keeper of a slot answers; short, since the names of sockets have to be."""
        return self.path / f"{slot}.socket"

    def log(self, slot: int) -> Path:
        """What it had to say."""
        return self.path / f"{slot}.log"

    @property
    def sockets(self) -> list[Path]:
        """Of all keepers."""
        return sorted(self.path.glob("*.socket"))

    @property
    def key(self) -> bytes:
        """What both ends of a connection know."""
        return (self.path / "key").read_bytes()

    @contextmanager
    def entered(self, slot: int) -> Iterator[None]:
        """Alone with a slot: nobody else looks for its keeper, starts it or ends as it."""
        while True:
            with self._locked():
                self._make_key()
                lock = self._lock(slot).open("w")
            with lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if _is_at(lock.fileno(), self._lock(slot)):
                    yield
                    return

    def leave(self, slot: int, inode: int | None) -> None:
        """Remove what a keeper has had, if the socket is still the one that it made."""
        with self.entered(slot), self._locked():
            if inode_of(self.socket(slot)) in (inode, None):
                self._remove(slot)
            self._clear()

    def clear(self) -> None:
        """Remove what keepers that were killed have left."""
        if self.path.is_dir():
            with self._locked():
                self._clear()

    def _clear(self) -> None:
        # whatever else is there is not ours, and stays
        for lock in self.path.glob("*.lock"):
            if not lock.stem.isdecimal():
                continue
            slot = int(lock.stem)
            with lock.open("w") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    continue  # somebody is looking for it, or starts it
                if not _answers(self.socket(slot)):
                    self._remove(slot)
        if not any(self.path.glob("*.lock")):
            for name in ("key", "lock"):
                (self.path / name).unlink(missing_ok=True)
            with suppress(OSError):  # others may be about to enter
                self.path.rmdir()
                self.path.parent.rmdir()

    def _remove(self, slot: int) -> None:
        for path in (self.socket(slot), self.log(slot), self._lock(slot)):
            path.unlink(missing_ok=True)

    def _lock(self, slot: int) -> Path:
        return self.path / f"{slot}.lock"

    def _make_key(self) -> None:
        path = self.path / "key"
        if not path.exists():
            path.touch(mode=0o600)
            path.write_bytes(secrets.token_bytes(32))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        path = self.path / "lock"
        while True:
            try:
                _make(_base())
                _require_private(_base())
                _make(self.path)
                file = path.open("w")
            except FileNotFoundError:
                continue  # the last one has just left
            with file:
                fcntl.flock(file, fcntl.LOCK_EX)
                if _is_at(file.fileno(), path):
                    yield
                    return


def clear() -> None:
    """Remove what keepers of other applications have left that were killed."""
    if _base().is_dir():
        for path in _base().iterdir():
            Quarters(path.name).clear()


def inode_of(path: Path) -> int | None:
    """Tells a file from another that has the same name later."""
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return None


def _base() -> Path:
    return Path(tempfile.gettempdir()) / f"slackwater-{os.getuid()}"


def _make(directory: Path) -> None:
    # not exist_ok, which looks whether it is there and is surprised if it is gone by then
    with suppress(FileExistsError):
        directory.mkdir(mode=0o700)


def _require_private(base: Path) -> None:
    if base.stat().st_uid != os.getuid() or base.stat().st_mode & 0o077:
        raise OperatorError("the directory of the keepers is not private", detail=str(base))


def _is_at(file: int, path: Path) -> bool:
    """Whether an open file is still the one with that name."""
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    mine = os.fstat(file)
    return (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino)


def _answers(path: Path) -> bool:
    """Whether somebody listens there."""
    with socket.socket(socket.AF_UNIX) as tried:
        tried.setblocking(False)
        try:
            tried.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        except BlockingIOError:
            return True  # it has much to do
    return True
