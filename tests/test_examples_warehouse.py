"""The query of examples/warehouse.py in this process, in small: it keeps what is open, and is right."""

from __future__ import annotations

import polars as pl
from examples import warehouse

import slackwater as sw

HOURS = 6


def test_what_is_kept_does_not_grow_and_every_hour_is_final_when_all_are_through() -> None:
    sent = warehouse.halls(HOURS)
    knowing, unknowing = warehouse.HIGHEST.open(), warehouse.UNKNOWING.open()
    kept, grown = [], []
    for until in range(60, 60 * HOURS + 61, 60):
        for name, rows in sent.items():
            part = rows.filter(pl.col("at").is_between(until - 60, until - 1)).drop("at")
            for running, some in ((knowing, part), (unknowing, part.filter(warehouse.IS_ROW))):
                stream = warehouse.HALLS[name]
                elements = sw.from_dataframe(some, **warehouse.TABLE, schema=warehouse.SCHEMA)
                running.push(stream, elements)
        kept.append(_kept(knowing))
        grown.append(_kept(unknowing))
        # reports take less than an hour: nothing of the hour before the last one is missing
        assert set(range(until // 60 - 2)) <= set(knowing.output.settled()["hour"])
    wanted = warehouse.batch(sent)
    closed = wanted.filter(pl.col("hour") < HOURS - 1)
    assert _answer(knowing.output.settled()).equals(closed)
    assert _answer(knowing.output.history()).equals(wanted)
    assert _answer(unknowing.output.history()).equals(wanted)
    assert unknowing.output.settled().is_empty()
    assert grown == sorted(grown)
    assert grown[-1] > 4 * max(kept)
    # never more than two hours are open; without promises each adds about as much as the first
    assert max(kept) < 2 * max(b - a for a, b in zip([0, *grown], grown, strict=False))


def test_a_northern_sensor_that_is_silent_holds_its_hour_open() -> None:
    sent = warehouse.halls(2)
    running = warehouse.HIGHEST.open()
    silent = ~((pl.col("sensor") == warehouse.NORTHERN[-1]) & ~warehouse.IS_ROW)
    for name, rows in sent.items():
        elements = sw.from_dataframe(
            rows.filter(silent).drop("at"), **warehouse.TABLE, schema=warehouse.SCHEMA
        )
        running.push(warehouse.HALLS[name], elements)
    assert running.output.settled().is_empty()
    through = sw.punctuation(sensor=warehouse.NORTHERN[-1], hour=0)
    running.push(warehouse.NORTH, [through])
    assert running.output.settled()["hour"].to_list() == [0]


def _kept(running: sw.RunningQuery) -> int:
    return sum(status.state.state_rows for status in running.describe())


def _answer(table: pl.DataFrame) -> pl.DataFrame:
    return table.select("hour", "highest").sort("hour")
