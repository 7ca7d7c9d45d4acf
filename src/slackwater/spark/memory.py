"""An answer that is kept in the handle: `query.output`, and for a view `query.view()`.

It is in memory, and what each batch has added is in files under the checkpoint, so that it is there
again after a restart. The files of a view are put together now and then: they do not grow with time,
but with the number of its keys.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from slackwater.distributed.files import Directory
from slackwater.distributed.latest import Upserts, View, upserts_of
from slackwater.rows import changelog, from_changelog
from slackwater.runtime.output import Output
from slackwater.spark.receiving import Delivery, Keyed, Opening, Receiver

__all__ = ["Memory"]

_TOGETHER = 64
"""so many batches of a view, and its table is written"""


@dataclass(frozen=True)
class Memory(Keyed):
    """The handle keeps it; with a key, the current row of every key."""

    def opened(self, at: Opening) -> Receiver:
        """What earlier runs have left, to go on with."""
        receiver = _ViewInMemory(self, at) if self.keys else _InMemory(self, at)
        at.require_whole(at.root, has_last=receiver.last >= at.through)
        return receiver


class _InMemory(Receiver):
    """All that was said."""

    def __init__(self, sink: Memory, at: Opening) -> None:
        super().__init__(sink)
        self._program, self._ledger = at.program, at.ledger
        self._files = _Numbered(at.root)
        self._lock = threading.Lock()
        """who asks, asks between two batches"""
        self.last = -1
        self._output = Output(at.program.schema, at.ledger, at.program.properties)
        self._read_until(None)

    def _read_until(self, batch: int | None) -> None:
        """As it was before a batch; None: as it was last."""
        program = self._program
        self._output = Output(program.schema, self._ledger, program.properties)
        for number in self._files.numbers("said"):
            if batch is None or number < batch:
                rows = self._files.read(number, "said")
                self._output.append(from_changelog(rows, program.schema))
                self.last = number

    def take(self, delivery: Delivery) -> None:
        """Append it, in the place of what the same batch may have said before."""
        self._files.write(delivery.batch, "said", changelog(delivery.said))
        with self._lock:
            if delivery.batch <= self.last:
                self._read_until(delivery.batch)
            self._output.append(delivery.said)
            self.last = delivery.batch

    @property
    def output(self) -> Output:
        """As it is now: batches that come later are not in it."""
        with self._lock:
            return self._output.so_far()


class _ViewInMemory(Receiver):
    """The current rows."""

    def __init__(self, sink: Memory, at: Opening) -> None:
        super().__init__(sink)
        self._keys, self._schema = sink.keys, at.program.schema
        self._files = _Numbered(at.root)
        self._lock = threading.Lock()
        self.last = -1
        self._read_until(None)

    def _read_until(self, batch: int | None) -> None:
        self._view = View(self._schema, self._keys)
        tables = [n for n in self._files.numbers("table") if batch is None or n < batch]
        self.last = start = tables[-1] if tables else -1
        none = pl.DataFrame(schema={key: self._schema[key] for key in self._keys})
        if tables:
            self._view.take(Upserts(self._files.read(start, "table"), none))
        for number in self._files.numbers("upserts"):
            if start < number and (batch is None or number < batch):
                upserts = self._files.read(number, "upserts")
                self._view.take(Upserts(upserts, self._files.read(number, "deletes")))
                self.last = number

    def take(self, delivery: Delivery) -> None:
        """Put the new rows in the place of the old ones."""
        number = delivery.batch
        changes = upserts_of(delivery.said, self._keys)
        # the upserts last: with them the batch is there
        self._files.write(number, "deletes", changes.deletes)
        self._files.write(number, "upserts", changes.upserts)
        with self._lock:
            if number <= self.last:
                self._read_until(number)
            self._view.take(changes)
            self.last = number
        if number % _TOGETHER == _TOGETHER - 1:
            self._files.write(number, "table", self._table())
            # the batch may be repeated, so what the table before is made of stays
            self._files.forget_before(number - _TOGETHER)

    def view(self) -> pl.DataFrame:
        return self._table().sort(*self._keys, nulls_last=False)

    def _table(self) -> pl.DataFrame:
        with self._lock:
            return self._view.table()


class _Numbered:
    """Tables by number and kind."""

    def __init__(self, root: str) -> None:
        self._directory = Directory(root)

    def write(self, number: int, kind: str, rows: pl.DataFrame) -> None:
        data = io.BytesIO()
        rows.write_ipc_stream(data)
        self._directory.write(f"{number}.{kind}", data.getvalue())

    def read(self, number: int, kind: str) -> pl.DataFrame:
        return pl.read_ipc_stream(io.BytesIO(self._directory.read(f"{number}.{kind}")))

    def numbers(self, kind: str) -> list[int]:
        return sorted(number for number, known in self._listed() if known == kind)

    def forget_before(self, number: int) -> None:
        for each, kind in list(self._listed()):
            if each < number:
                self._directory.delete(f"{each}.{kind}")

    def _listed(self) -> Iterator[tuple[int, str]]:
        for name in self._directory.listed():
            number, _, kind = name.partition(".")
            yield int(number), kind
