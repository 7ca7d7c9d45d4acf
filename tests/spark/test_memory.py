"""What the handle keeps, and what is seen of it meanwhile. Nothing here starts Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import slackwater as sw
from slackwater.distributed.latest import latest
from slackwater.distributed.program import program_of
from slackwater.ledger import Ledger
from slackwater.spark.memory import Memory
from slackwater.spark.receiving import Delivery, Opening, Receiver

S = sw.stream({"k": int, "v": int}, name="s")
BATCHES = 12


@pytest.mark.parametrize("key", ["", "k"])
def test_a_batch_that_is_repeated_takes_nothing_away_meanwhile(key: str, tmp_path: Path) -> None:
    sink = Memory(key=key) if key else Memory()
    root = latest(S.node, [key]) if key else S.node
    program = program_of(root, buckets=1)
    receiver = sink.opened(Opening("q", str(tmp_path), program, Ledger()))
    end = None if key else 9
    rows = [sw.Batch.of([sw.insert(0, end, k=k, v=0)], program.schema) for k in range(BATCHES)]
    deliveries = [Delivery(number, said, sw.BEGIN) for number, said in enumerate(rows)]
    for delivery in deliveries:
        receiver.take(delivery)
    look = _view_of(receiver) if key else _output_of(receiver)
    assert look() == BATCHES
    seen: set[int] = set()

    def repeat() -> None:
        for _ in range(10):
            receiver.take(deliveries[-1])

    repeating = threading.Thread(target=repeat)
    repeating.start()
    while repeating.is_alive():
        seen.add(look())
    repeating.join()
    assert seen <= {BATCHES}
    again = sink.opened(Opening("q", str(tmp_path), program, Ledger(), BATCHES - 1))
    assert (_view_of(again) if key else _output_of(again))() == BATCHES


def _view_of(receiver: Receiver) -> Callable[[], int]:
    return lambda: receiver.view().height


def _output_of(receiver: Receiver) -> Callable[[], int]:
    return lambda: receiver.output.history().height
