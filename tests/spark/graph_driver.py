"""A driver that a test starts, kills and starts again: the bank in four queries, up to the last total.

usage: python -m tests.spark.graph_driver place transactions
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ["PYSPARK_PYTHON"] = sys.executable

from examples import bank_apart

NAMES = ("accepted", "credits", "debits", "total")


def main(place: str, transactions: str) -> None:
    from tests.spark.session import session  # noqa: PLC0415

    spark = session()
    running = {name: bank_apart.start(spark, name, Path(place)) for name in NAMES}
    first, total = running["accepted"], running["total"]
    # a first query that was killed between two batches may have taken two files at once
    while first.progress.rows_in < int(transactions) or (
        total.progress.token.get(first.name) != first.progress.batch
    ):
        for query in running.values():
            query.process_all_available()
    for query in running.values():
        query.stop()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
