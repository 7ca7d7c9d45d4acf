from __future__ import annotations

from slackwater.ledger import Entry, Ledger


def test_a_ledger_keeps_the_thing_itself_in_the_order_of_writing():
    ledger = Ledger()
    row = {"id": 7, "at": None}
    ledger.write(row, reason="no start", place="flights", detail="row 3")
    ledger.write("late", reason="promise broken", place="gate")
    ledger.write(row, reason="no start", place="flights")
    assert len(ledger) == 3
    first = next(iter(ledger))
    assert first == Entry(row, "no start", "flights", "row 3")
    assert first.element is row
    assert ledger.counts() == {"no start": 2, "promise broken": 1}


def test_a_ledger_as_a_table():
    ledger = Ledger()
    assert ledger.to_polars().columns == ["place", "reason", "element", "detail", "since", "until"]
    ledger.write({"id": 7}, reason="no start", place="flights", detail="row 3")
    ledger.write("late", reason="forgotten", place="gate", during=(3, 9))
    assert ledger.to_polars().rows() == [
        ("flights", "no start", "{'id': 7}", "row 3", None, None),
        ("gate", "forgotten", "'late'", "", 3, 9),
    ]
