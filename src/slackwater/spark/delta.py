"""A Delta table: changelog rows appended to it, or the latest view merged into it by key.

Written by the driver through delta-rs (the package deltalake), which needs no connector that fits
Spark's version. Every commit carries the transaction (query, batch) of Delta's protocol: a batch whose
transaction is in the table is not written again. A batch without changes commits nothing.

The commit's metadata say how far the answer was settled then: `settled_until`, in chronons.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from slackwater.distributed.files import opened
from slackwater.distributed.latest import Upserts, upserts_of
from slackwater.errors import PlanError
from slackwater.events import Batch
from slackwater.rows import changelog
from slackwater.spark.receiving import Delivery, Keyed, Opening, Receiver

__all__ = ["Delta"]


@dataclass(frozen=True, kw_only=True)
class Delta(Keyed):
    """A Delta table, which is made if it is not there.

    Without a key: kind, vs, ve, new_ve and the payload, one row per change. With one: the payload and
    vs, one row per key. Needs the extra `slackwater[delta]`.
    """

    table: str

    def resolved(self, place: Callable[[str], str]) -> Delta:
        """With the table as the whole cluster knows it."""
        return replace(self, table=place(self.table))

    @property
    def place(self) -> str:
        """The table: a batch without changes leaves no trace there."""
        return f"the Delta table {self.table}"

    def opened(self, at: Opening) -> Receiver:
        """The table, if it can hold such rows."""
        _require_types(at.program.schema)
        receiver = _Table(self, at.query)
        receiver.require_fits(Batch.empty(at.program.schema))
        receiver.require_own(at.query)
        return receiver


_QUERY = "slackwater.query"
"""in a commit: whose answer it is"""


class _Table(Receiver):
    def __init__(self, sink: Delta, query: str) -> None:
        super().__init__(sink)
        self._keys = sink.keys
        files, path = opened(sink.table)
        self._place = path if files.type_name == "local" else sink.table
        self._query, self._application = query, f"slackwater-{query}"
        self._delta = _deltalake()

    def require_fits(self, none: Batch) -> None:
        """Raise if the table is there and holds rows of another kind."""
        if not self._delta.DeltaTable.is_deltatable(self._place):
            return
        rows = upserts_of(none, self._keys).upserts if self._keys else changelog(none)
        # as Delta knows them, whose zone is UTC
        known = rows.cast({name: _in_utc(dtype) for name, dtype in rows.schema.items()})
        ours = self._delta.Schema.from_arrow(known.to_arrow().schema)
        theirs = self._delta.DeltaTable(self._place).schema()
        wanted, found = ({each.name: each.type for each in of.fields} for of in (ours, theirs))
        if found != wanted:
            raise PlanError(
                "the Delta table has other columns than what is to be written",
                detail=f"{self._place} has {', '.join(found)}; the rows have {', '.join(wanted)}"
                if found.keys() != wanted.keys()
                else ", ".join(
                    f"{name!r} is {found[name]}, not {wanted[name]}"
                    for name in wanted
                    if found[name] != wanted[name]
                ),
                hint="give the query a table of its own, which need not be there yet",
            )

    def require_own(self, query: str) -> None:
        """Raise if another query has put its answer there: theirs would be one table."""
        if not self._delta.DeltaTable.is_deltatable(self._place):
            return
        history = self._delta.DeltaTable(self._place).history()
        theirs = next((commit[_QUERY] for commit in history if _QUERY in commit), query)
        if theirs != query:
            raise PlanError(
                "another query has put its answer there",
                detail=f"{self._place} has that of query {theirs}, this one is {query}",
                hint="give each query a table of its own; a query that goes on needs its checkpoint",
            )

    def take(self, delivery: Delivery) -> None:
        """Write it, if it is not there."""
        changes = upserts_of(delivery.said, self._keys) if self._keys else delivery.said.data()
        if not len(changes):
            return
        properties = self._delta.CommitProperties(
            custom_metadata={
                _QUERY: self._query,
                "settled_until": str(delivery.promise),
                "batch": str(delivery.batch),
                "token": json.dumps(dict(delivery.token)),
            },
            app_transactions=[self._delta.Transaction(self._application, delivery.batch)],
        )
        exists = self._delta.DeltaTable.is_deltatable(self._place)
        if exists:
            done = self._delta.DeltaTable(self._place).transaction_version(self._application)
            if done is not None and done >= delivery.batch:
                return
        if isinstance(changes, Upserts):
            if exists:
                self._merge(changes, properties)
                return
            # all keys are new
            rows = changes.upserts
        else:
            rows = changelog(changes)
        self._delta.write_deltalake(self._place, rows, mode="append", commit_properties=properties)

    def _merge(self, changes: Upserts, properties: Any) -> None:
        gone = "gone"
        while gone in changes.upserts.columns:
            gone += "_"
        rows = pl.concat(
            [
                changes.upserts.with_columns(pl.lit(False).alias(gone)),
                changes.deletes.with_columns(pl.lit(True).alias(gone)),
            ],
            how="diagonal",
        )
        # nulls are a key, too
        same = (f"old.{_quoted(key)} IS NOT DISTINCT FROM new.{_quoted(key)}" for key in self._keys)
        columns = {name: f"new.{_quoted(name)}" for name in changes.upserts.columns}
        merging = self._delta.DeltaTable(self._place).merge(
            rows,
            predicate=" AND ".join(same),
            source_alias="new",
            target_alias="old",
            commit_properties=properties,
        )
        merging = merging.when_matched_delete(f"new.{gone}")
        merging = merging.when_matched_update(columns)
        merging.when_not_matched_insert(columns, predicate=f"NOT new.{gone}").execute()


def _quoted(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def _deltalake() -> Any:
    try:
        return importlib.import_module("deltalake")
    except ImportError as problem:
        raise PlanError(
            "Delta tables need a package that is not there",
            detail=str(problem),
            hint="pip install 'slackwater[delta]'",
        ) from problem


def _require_types(schema: pl.Schema) -> None:
    for name, dtype in schema.items():
        wrong = _unknown_to_delta(dtype)
        if wrong is not None:
            raise PlanError(
                f"a Delta table cannot hold the column {name!r}",
                detail=f"its values are {wrong}",
                hint="select() it as another type, for example cast(pl.Int64)",
            )


def _unknown_to_delta(dtype: pl.DataType) -> pl.DataType | None:
    """The part of a type that a Delta table has no equal for."""
    if isinstance(dtype, pl.List | pl.Array):
        return _unknown_to_delta(_instance(dtype.inner))
    if isinstance(dtype, pl.Struct):
        if not dtype.fields:
            return dtype
        parts = (_unknown_to_delta(_instance(field.dtype)) for field in dtype.fields)
        return next((part for part in parts if part is not None), None)
    finer = isinstance(dtype, pl.Datetime) and dtype.time_unit == "ns"
    return dtype if finer or isinstance(dtype, _UNKNOWN) else None


def _in_utc(dtype: pl.DataType) -> pl.DataType:
    """The type with the same instants, told in UTC."""
    if isinstance(dtype, pl.Datetime) and dtype.time_zone is not None:
        return pl.Datetime(dtype.time_unit, "UTC")
    if isinstance(dtype, pl.List):
        return pl.List(_in_utc(_instance(dtype.inner)))
    if isinstance(dtype, pl.Array):
        return pl.Array(_in_utc(_instance(dtype.inner)), dtype.size)
    if isinstance(dtype, pl.Struct):
        return pl.Struct({each.name: _in_utc(_instance(each.dtype)) for each in dtype.fields})
    return dtype


_UNKNOWN = (
    # Delta has signed integers only
    *(pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64, pl.UInt128),
    *(pl.Duration, pl.Time, pl.Int128, pl.Float16),
    *(pl.Categorical, pl.Enum, pl.Object, pl.Null),
)


def _instance(dtype: Any) -> pl.DataType:
    made: pl.DataType = dtype() if isinstance(dtype, type) else dtype
    return made
