"""The latest view: of every key, the row that started last; what a dashboard shows.

A changing answer tells of each key many rows, one after the other. Its latest view is a table with one
row per key: the one with the greatest start among those that have not been taken back; of several that
start together the one that `last` picks. When the answer takes a key's last row back, the one before it
is shown again; when it takes back all of them, the key is gone. That a row has ended changes nothing.

The view is itself a query, hence run, spread and made durable as every other:

    per key:   last row of   inserts(answer) clipped by the next start in the answer

in which a row of the view is one without end. Since its changes follow from the changelog of that query
alone, who takes them need not remember anything: a batch says which keys have another row now, and which
have none (`upserts_of`). The query remembers, per key, the rows that may still be taken back, and the
last before them: ClipBy forgets a row, though it has no end, once where it is cut is final.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from slackwater.errors import PlanError
from slackwater.events import Batch
from slackwater.identity import row_ids
from slackwater.plan import lifetimes
from slackwater.plan import nodes as n
from slackwater.plan.aggregations import last
from slackwater.times import INF

__all__ = ["Upserts", "View", "latest", "upserts_of"]

_ROW = "\0row"
_MANY = 10_000
"""so many changes are put together at once, or as many as there are rows"""


def latest(root: n.Node, keys: Sequence[str]) -> n.Node:
    """The query whose rows without end are the latest view of another one."""
    unknown = [key for key in keys if key not in root.schema]
    if unknown or not keys:
        raise PlanError(
            f"no such key: {', '.join(map(repr, unknown))}" if unknown else "a view has a key",
            detail=f"the answer has: {', '.join(root.schema)}",
        )
    argument = n.Argument(root.schema)
    rows: n.Node = n.ClipBy(n.AlterLifetime(argument, lifetimes.inserts()), argument, ())
    # whole rows are picked, lest columns come from different ones; something has to be
    rest = [name for name in root.schema if name not in keys] or list(keys)
    picked = n.Aggregate(rows, (), {_ROW: last(pl.struct(*rest))})
    body = n.Select(picked, {name: pl.col(_ROW).struct.field(name) for name in rest})
    return n.GroupApply(root, tuple(keys), argument, body)


@dataclass(frozen=True, slots=True)
class Upserts:
    """What a batch changes in a view. A key is in one of both, if at all."""

    upserts: pl.DataFrame
    """the new rows: the keys, the other columns, and vs, when each began"""
    deletes: pl.DataFrame
    """the keys that no longer have a row"""

    def __len__(self) -> int:
        return self.upserts.height + self.deletes.height


def upserts_of(said: Batch, keys: Sequence[str]) -> Upserts:
    """What the changelog of a `latest` query changes in the view."""
    came, went = said.new_ve == INF, said.old_ve == INF
    said = said.data().where(came | went)
    rows = said.payload.with_columns(pl.Series("vs", said.vs, dtype=pl.Int64))
    sign = np.where(said.new_ve == INF, 1, -1)
    ids = row_ids(rows)
    # a row may come and go within a batch
    net = np.bincount(ids, weights=sign, minlength=rows.height).astype(np.int64)
    # equal rows are numbered by the first of them, so the others have no net of their own
    upserts = rows.filter(pl.Series(net > 0, dtype=pl.Boolean))
    gone = rows.filter(pl.Series(net < 0, dtype=pl.Boolean)).select(keys)
    both = row_ids(pl.concat([upserts.select(keys), gone]))
    kept, left = both[: upserts.height], both[upserts.height :]
    assert len(np.unique(kept)) == len(kept), "of a key, one row is the latest"
    assert len(np.unique(left)) == len(left), "of a key, one row was the latest"
    return Upserts(upserts, gone.filter(pl.Series(~np.isin(left, kept), dtype=pl.Boolean)))


class View:
    """A latest view in memory.

    What batches change waits until there is as much of it as there are rows, or somebody asks: so a
    batch costs what it changes. Columns stay columns, with values that Python may not have.
    """

    def __init__(self, schema: pl.Schema, keys: Sequence[str]) -> None:
        self._keys = list(keys)
        self._rows = pl.DataFrame(schema=pl.Schema({**schema, "vs": pl.Int64()}))
        self._waiting: list[Upserts] = []
        self._many = 0
        """how many changes wait"""

    def take(self, changes: Upserts) -> None:
        """What a batch changes."""
        if not len(changes):
            return
        self._waiting.append(changes)
        self._many += len(changes)
        if self._many > max(_MANY, self._rows.height):
            self._put_together()

    def _put_together(self) -> None:
        """Of each key there is what was said of it last."""
        said = [self._rows.with_columns(pl.lit(True).alias(_ROW))]
        for each in self._waiting:
            said.append(each.upserts.with_columns(pl.lit(True).alias(_ROW)))
            said.append(each.deletes.with_columns(pl.lit(False).alias(_ROW)))
        every = pl.concat(said, how="diagonal")
        places = np.full(every.height, -1, dtype=np.int64)
        # of rows with one key the last one is written last
        places[row_ids(every.select(self._keys))] = np.arange(every.height)
        self._rows = every[places[places >= 0]].filter(_ROW).drop(_ROW)
        self._waiting, self._many = [], 0

    def table(self) -> pl.DataFrame:
        """One row per key, in no order."""
        if self._waiting:
            self._put_together()
        return self._rows

    def __len__(self) -> int:
        return self.table().height
