"""The latest view, told by its changes, is that of the history."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import slackwater as sw
import slackwater.distributed.latest
import slackwater.state
from slackwater.distributed.latest import Upserts, View, latest, upserts_of
from slackwater.events import Element
from slackwater.identity import place
from slackwater.query import Query

s = sw.stream({"k": str, "v": int, "w": float}, name="s")


def wanted(history: sw.History, keys: list[str]) -> list[tuple[object, ...]]:
    """By definition: per key the event that starts last, the largest if several do."""
    best: dict[object, tuple[object, ...]] = {}
    for event in history.events():
        key = tuple(event.payload[name] for name in keys)
        rest = tuple(event.payload[name] for name in history.schema if name not in keys)
        row = (event.vs, tuple(place(value) for value in rest)), (*key, *rest, event.vs)
        if key not in best or best[key] < row:
            best[key] = row
    return sorted((row for _, row in best.values()), key=place)  # type: ignore[misc]


def _changes(seed: int) -> list[sw.Batch]:
    """Rows that come, end elsewhere and go; ctis; null keys; several that start together."""
    random = np.random.default_rng(seed)
    alive: list[tuple[int, int, str | None, int | None]] = []
    batches, promised = [], 0
    for _ in range(12):
        elements: list[Element] = []
        for _ in range(6):
            touchable = [e for e in alive if e[0] >= promised]
            if touchable and random.random() < 0.4:
                old = touchable[random.integers(len(touchable))]
                alive.remove(old)
                vs, ve, k, v = old
                end = vs if random.random() < 0.7 else ve + 3
                elements.append(sw.adjust(vs, ve, end, k=k, v=v, w=0.5))
                if end > vs:
                    alive.append((vs, end, k, v))
            else:
                vs = promised + int(random.integers(0, 8))
                ve = vs + int(random.integers(1, 9))
                k = [None, "a", "b"][random.integers(3)]
                v = [None, 1, 2][random.integers(3)]
                elements.append(sw.insert(vs, ve, k=k, v=v, w=0.5))
                alive.append((vs, ve, k, v))
        if random.random() < 0.5:
            promised += int(random.integers(1, 4))
            elements.append(sw.cti(promised))
        batches.append(sw.Batch.of(elements, s.schema))
    return batches


@pytest.mark.parametrize("keys", [["k"], ["k", "v"], ["w", "k", "v"]])
def test_the_view_is_that_of_the_history_after_every_batch(
    keys: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # what is settled is forgotten at once, and nobody notices
    monkeypatch.setattr(slackwater.state, "SWEEP_FROM", 0)
    monkeypatch.setattr(slackwater.state, "SWEEP_FACTOR", 0)
    for seed in range(8):
        query = Query(latest(s.node, keys))
        running = query.open()
        view = View(query.schema, keys)
        so_far: list[sw.Batch] = []
        for batch in _changes(seed):
            so_far.append(batch)
            said = running.push(s, batch)
            changes = upserts_of(sw.Batch.concat([sw.Batch.empty(query.schema), *said]), keys)
            view.take(changes)
            got = view.table().select([*keys, *(c for c in s.schema if c not in keys), "vs"])
            assert sorted(got.rows(), key=place) == wanted(
                sw.History.of(sw.Batch.concat(so_far), s.schema), keys
            )


def test_what_a_dashboard_shows() -> None:
    """A count that goes up, is corrected, and whose only event turns out never to have been."""
    counts = s.inserts().group_by("k").aggregate(n=sw.count())
    query = Query(latest(counts.node, ["k"]))
    running = query.open()
    row = {"v": 1, "w": 0.0}
    told = [
        upserts_of(sw.Batch.concat(running.push(s, [element])), ["k"])
        for element in (
            sw.insert(3, 4, k="a", **row),
            sw.insert(5, 6, k="a", **row),
            sw.insert(1, 2, k="b", **row),
            sw.adjust(5, 6, 5, k="a", **row),
            sw.adjust(1, 2, 1, k="b", **row),
        )
    ]
    assert [(each.upserts.rows(), each.deletes.rows()) for each in told] == [
        ([("a", 1, 3)], []),
        ([("a", 2, 5)], []),
        ([("b", 1, 1)], []),
        ([("a", 1, 3)], []),
        ([], [("b",)]),
    ]


def test_what_is_settled_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slackwater.state, "SWEEP_FROM", 8)
    query = Query(latest(s.node, ["k"]))
    running = query.open()
    for time in range(200):
        running.push(s, [sw.insert(time, time + 1, k="a", v=time, w=0.0), sw.cti(time)])
    rows = [status.state.state_rows for status in running.describe()]
    assert max(rows) < 20, rows


def test_a_key_that_is_no_column_is_refused() -> None:
    with pytest.raises(sw.PlanError, match="no such key: 'x'"):
        latest(s.node, ["x"])


def test_what_comes_and_goes_within_a_batch_is_not_told() -> None:
    rows = sw.Batch.of(
        [sw.insert(1, None, k="a"), sw.adjust(1, None, 1, k="a")], pl.Schema({"k": pl.String})
    )
    changes = upserts_of(rows, ["k"])
    assert isinstance(changes, Upserts)
    assert len(changes) == 0


@pytest.mark.parametrize("dtype", [pl.Time(), pl.Datetime("us"), pl.Date()], ids=str)
def test_values_that_python_does_not_have_are_in_the_view_as_they_are(dtype: pl.DataType) -> None:
    """Two nanoseconds of one microsecond are two keys, and there are times behind the year 9999."""
    numbers = [1, 2, 1_500, 1 if dtype == pl.Time() else 2**31 - 1]
    numbers += [2**62] if isinstance(dtype, pl.Datetime) else []
    rows = pl.DataFrame({"k": pl.Series(numbers).cast(pl.Int32 if dtype == pl.Date() else pl.Int64)})
    rows = rows.select(k=pl.col("k").cast(dtype), v=pl.col("k").cast(dtype))
    query = sw.stream(dict(rows.schema), name="s")
    vs = np.arange(rows.height)
    told = Query(latest(query.node, ["k"])).open().push(query, sw.Batch.inserts(vs, vs + 1, rows))
    view = View(rows.schema, ["k"])
    view.take(upserts_of(sw.Batch.concat(told), ["k"]))
    wanted = rows.with_columns(vs=pl.Series(vs)).unique("k", keep="last")
    assert view.table().sort("vs").equals(wanted.sort("vs"))


def test_a_view_is_put_together_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slackwater.distributed.latest, "_MANY", 3)
    view, table = View(pl.Schema({"k": pl.Int64}), ["k"]), dict[int, int]()
    random = np.random.default_rng(1)
    for batch in range(40):
        keys = random.choice(9, 4, replace=False)
        upserts = pl.DataFrame({"k": keys[:2], "vs": [batch, batch]})
        view.take(Upserts(upserts, pl.DataFrame({"k": keys[2:]})))
        table |= dict.fromkeys(keys[:2].tolist(), batch)
        for key in keys[2:].tolist():
            table.pop(key, None)
        if batch % 5 == 0:
            assert dict(view.table().rows()) == table
    assert len(view) == len(table)
