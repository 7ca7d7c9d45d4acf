"""Files: a place is named in one way, wherever it is, and a file is there when it is whole.

A place is a path of this machine (relative ones begin where the process runs), or a URI as Spark writes
it: `file:/x` and `file:///x` are /x, `s3a://` is what pyarrow calls `s3://`, and so on for every file
system that pyarrow knows. In the path of a `file:` URI nothing is escaped, as in Hadoop's.

Whoever writes a file writes it under another name first. So a reader never sees half of one, and of two
who write the same file one comes last, with all of it.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.fs as pafs

from slackwater.errors import PlanError

__all__ = ["Directory", "Writes", "opened"]

Writes = Callable[[pa.NativeFile], object]

_SCHEME = re.compile("([A-Za-z][A-Za-z0-9+.-]*):")
_OTHER_NAMES = {"s3a": "s3", "s3n": "s3"}
"""what Hadoop calls file systems that pyarrow knows by another name"""


def opened(place: str) -> tuple[pafs.FileSystem, str]:
    """The file system of a place, and what it is called there.

    >>> opened("file:/data/a b"), opened("file:///data/a b/")
    ((<pyarrow._fs.LocalFileSystem object at ...>, '/data/a b'), (<...>, '/data/a b'))
    """
    found = _SCHEME.match(place)
    if found is None:
        return pafs.LocalFileSystem(), os.path.abspath(place)
    scheme, rest = found[1].lower(), place[found.end() :]
    if scheme == "file":
        authority, path = rest[2:].split("/", 1) if rest.startswith("//") else ("", rest)
        if authority not in ("", "localhost"):
            raise PlanError(
                f"{place!r} names another machine's files",
                hint="file:/path is this machine's; others are reached by s3://, hdfs:// and so on",
            )
        return pafs.LocalFileSystem(), os.path.normpath("/" + path.lstrip("/"))
    try:
        files, path = pafs.FileSystem.from_uri(f"{_OTHER_NAMES.get(scheme, scheme)}:{rest}")
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as problem:
        raise PlanError(
            f"{place!r} is no place that can be written to",
            detail=str(problem),
            hint="a path, or a URI of a file system that pyarrow knows: file, s3, gs, abfss, hdfs",
        ) from problem
    return files, path.rstrip("/")


class Directory:
    """A directory, which need not be there yet. Names in it are relative, with slashes."""

    def __init__(self, place: str) -> None:
        self.files: pafs.FileSystem
        self.root: str
        self.files, self.root = opened(place)

    def require(self) -> None:
        """Raise if there can be no such directory, for a file is there, or where it would have to be."""
        path = self.root
        while path.strip("/"):
            kind = self.files.get_file_info(path).type
            if kind is pafs.FileType.File:
                raise PlanError(
                    f"{self.root!r} cannot be a directory",
                    detail=f"{path} is a file" if path != self.root else "it is a file",
                    hint="name a directory; it need not be there yet",
                )
            if kind is not pafs.FileType.NotFound:
                return
            path = path.rpartition("/")[0]

    def path(self, name: str) -> str:
        """What a file in it is called in its file system."""
        return f"{self.root}/{name}"

    def has(self, name: str) -> bool:
        """Whether there is such a file."""
        kind = self.files.get_file_info(self.path(name)).type
        return kind is not pafs.FileType.NotFound

    def listed(self, directory: str = "") -> Iterator[str]:
        """The names of the files in a directory below it; not of those that are still being written."""
        where = self.path(directory) if directory else self.root
        for info in self.files.get_file_info(pafs.FileSelector(where, allow_not_found=True)):
            if info.type is pafs.FileType.File and not info.base_name.startswith("."):
                yield info.base_name

    def read(self, name: str) -> bytes:
        """All of a file."""
        with self.files.open_input_stream(self.path(name)) as file:
            data: bytes = file.read()
        return data

    def write(self, name: str, data: bytes | pa.Buffer) -> None:
        """Put a file there, or another in its place."""
        self.write_with(name, lambda file: file.write(data))

    def write_with(self, name: str, write: Writes) -> None:
        """Put a file there that a function writes."""
        path = self.path(name)
        directory, _, base = path.rpartition("/")
        unfinished = f"{directory}/.{base}.{uuid.uuid4().hex}"
        try:
            file = self.files.open_output_stream(unfinished)
        except FileNotFoundError:
            self.files.create_dir(directory)
            file = self.files.open_output_stream(unfinished)
        with file:
            write(file)
        self.files.move(unfinished, path)

    def delete(self, name: str) -> None:
        """Take a file away; somebody else may have done so."""
        try:
            self.files.delete_file(self.path(name))
        except FileNotFoundError:
            # two who clear up after the same batch
            return
