"""Which machines can be reached from which, while links come and go, late and wrongly told.

    reach(a, b)  <-  link(a, b)
    reach(a, c)  <-  reach(a, b), link(b, c)

A link is told when it comes up, with the time at which its lease ends; half of the reports are late.
Some links go down before that, and some turn out never to have been there: what was derived from them
is taken back, over cycles, too. What can be reached is asked as a set, of every instant.

Spark turns the loop in buckets: `a` comes round unchanged, so each bucket has the links that begin at
some machines, and is told all others. After every file the answer is right so far, and says which part
of it is final. It is compared with the same query in this process, and with a search from every machine
at every instant.

Paper 3, section 2; docs/recursion.md.

    python examples/reachability.py [links]
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ["PYSPARK_PYTHON"] = sys.executable

import numpy as np
import polars as pl
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

import slackwater as sw

LINKS = 90
MACHINES = 30
LEASE = 40
LATE = 15
FILES = 4
FORM: dict[str, Any] = {"vs": "vs", "ve": "ve", "kind": "kind", "new_ve": "new_ve"}
PAIR = {"a": int, "b": int}
LINK = sw.stream(PAIR, name="link")


def one_further(reach: sw.Query) -> sw.Query:
    """All links, and what can be reached over one more."""
    further = reach.join(LINK, on={"b": "a"}, suffix="_next").select("a", b="b_next")
    return LINK.union(further).distinct()


REACH = sw.fixpoint(one_further, schema=PAIR)


def told(links: int) -> pl.DataFrame:
    """What is told of links, in the order in which it comes, with the time `at` which it comes.

    Two thirds last as long as their lease, one sixth goes down before, one sixth was never there.
    """
    random = np.random.default_rng(3)
    a = random.integers(0, MACHINES, links)
    vs = np.arange(links)
    up = pl.DataFrame(
        {
            "at": vs + random.integers(0, 2, links) * random.integers(0, LATE, links),
            "kind": "insert",
            "vs": vs,
            "ve": vs + random.integers(5, LEASE, links),
            "new_ve": pl.Series([None] * links, dtype=pl.Int64),
            "a": a,
            "b": (a + random.integers(1, MACHINES, links)) % MACHINES,
        }
    )
    fate = pl.Series(random.integers(0, 6, links))
    down = up.filter(fate == 0).with_columns(new_ve=(pl.col("vs") + pl.col("ve")) // 2)
    wrong = up.filter(fate == 1).with_columns(new_ve=pl.col("vs"))
    revised = pl.concat([down, wrong]).with_columns(at=pl.col("at") + 1, kind=pl.lit("adjust"))
    return pl.concat([up, revised]).sort("at", maintain_order=True)


def files(links: int) -> list[pl.DataFrame]:
    """The same in files, each of which ends with a promise: nothing is later than that."""
    rows = told(links)
    step = (links + LATE) // FILES + 1
    parts = []
    for number in range(FILES):
        last = number == FILES - 1
        # an adjust speaks of its link, which may be as old as a report is late
        before = sw.INF if last else (number + 1) * step - LATE - 1
        cti = pl.DataFrame({"kind": ["cti"], "vs": [before]})
        part = (
            rows.filter(pl.col("at") // step == number)
            if not last
            else rows.filter(pl.col("at") // step >= number)
        )
        parts.append(pl.concat([part.drop("at"), cti], how="diagonal"))
    return parts


def batch(links: int) -> set[tuple[int, int, int]]:
    """(instant, a, b): a search from every machine, at every instant at which something changes."""
    rows = told(links)
    known = {
        (row["vs"], row["a"], row["b"], row["ve"]): row["ve"]
        for row in rows.to_dicts()
        if row["kind"] == "insert"
    }
    for row in rows.filter(pl.col("kind") == "adjust").to_dicts():
        known[row["vs"], row["a"], row["b"], row["ve"]] = row["new_ve"]
    found = set()
    for now in instants(links):
        next_to: dict[int, list[int]] = {}
        for (vs, a, b, _), ve in known.items():
            if vs <= now < ve:
                next_to.setdefault(a, []).append(b)
        for start, first in next_to.items():
            seen: set[int] = set()
            waiting = [*first]
            while waiting:
                machine = waiting.pop()
                if machine not in seen:
                    seen.add(machine)
                    waiting += next_to.get(machine, [])
            found |= {(now, start, machine) for machine in seen}
    return found


def instants(links: int) -> list[int]:
    """At which something of the links changes."""
    rows = told(links)
    times = pl.concat([rows["vs"], rows["ve"], rows["new_ve"].drop_nulls()])
    return sorted(times.unique().to_list())


def at_every_instant(answer: pl.DataFrame, links: int) -> set[tuple[int, int, int]]:
    """An answer as the batch computation gives it."""
    rows = answer.select("a", "b", "vs", "ve").rows()
    return {(now, a, b) for now in instants(links) for a, b, vs, ve in rows if vs <= now < ve}


def main(links: int = LINKS) -> None:
    console = Console()
    console.print(REACH.explain(format="stages", buckets=4), style="dim", highlight=False, markup=False)
    parts = files(links)
    shown = Table(
        "links told", "pairs that were told", "of these final", "kept", title="Who can reach whom"
    )
    in_process = REACH.open()
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    same = True
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "in").mkdir()
        handle = REACH.start(
            spark,
            {LINK: sw.read_files(str(Path(place) / "in"), **FORM)},
            checkpoint=str(Path(place) / "checkpoint"),
            buckets=4,
        )
        for number, part in enumerate(parts):
            in_process.push(LINK, sw.from_dataframe(part, **FORM, schema=PAIR))
            part.write_parquet(Path(place) / "in" / f"{number}.parquet")
            handle.process_all_available()
            answer, settled = handle.output.history(), handle.output.settled()
            same &= handle.output.as_history() == in_process.output.as_history()
            rows = sum(p.filter(pl.col("kind") == "insert").height for p in parts[: number + 1])
            kept = handle.progress.state_rows
            shown.add_row(*(f"{n:,}" for n in (rows, answer.height, settled.height, kept)))
        handle.stop()
    spark.stop()
    console.print(shown)
    if not same:
        raise SystemExit("The answers on Spark and in this process differ.")
    wanted = batch(links)
    if at_every_instant(answer, links) != wanted:
        raise SystemExit("The answer is not that of a search from every machine.")
    if settled.height != answer.height:
        raise SystemExit("All links are told, and some of the answer is not final.")
    console.print(
        f"After every file the same as in this process; at the end all {len(wanted):,} pairs of all "
        f"{len(instants(links)):,} instants equal a search from every machine."
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
