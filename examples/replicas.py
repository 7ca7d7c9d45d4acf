"""Copies of one query, merged: what breaks off, lags or is replaced does not show in the answer.

Processes start and end on machines, and alarms are raised on machines: which alarms concern which
process? Processes may run for days, so a query that is started anew needs days to know them all. The
answer is read from a logical merge of copies of the query, and compared with a batch computation:

- high availability: three copies on links of their own, merged in two layers; two break off at once, and
  one of them comes back
- fast availability: two plans for one query, each slow for other data; the answer follows the faster
- fast forward: as before, but the merge tells the slower plan what is past, which it then leaves out
- jumpstart: a new copy is seeded with the processes that are alive, and takes over
- cut-over: a plan is replaced by another one, and nobody notices

    python examples/replicas.py [number of processes]
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow.compute as pc
from rich.console import Console
from rich.table import Table

import slackwater as sw
from slackwater.events import Batch, Element
from slackwater.history import History
from slackwater.plan.nodes import Source
from slackwater.runtime.dataflow import Dataflow
from slackwater.runtime.schedules import Fair

PROCESS, ALARM = {"machine": int, "process": int}, {"machine": int, "alarm": int}
EVERY = 10
"""processes started between two ctis"""
# a process keeps the end that it is first said to have, or gets an earlier one
_INPUT = sw.StreamProperties(never_lengthens=True)


def history(processes: int, seed: int = 1) -> tuple[list[sw.Insert], list[sw.Insert]]:
    """What happened: processes, some of which run very long, and alarms that last for a moment."""
    rng = random.Random(seed)
    started = [
        sw.insert(t, t + rng.choice((20, 50, 5 * processes)), machine=rng.randrange(5), process=t)
        for t in range(processes)
    ]
    alarms = [sw.insert(t, t + 3, machine=rng.randrange(5), alarm=t) for t in range(0, processes, 7)]
    return started, alarms


def told(events: list[sw.Insert], seed: int) -> Iterator[list[Element]]:
    """A link: some events come late, and the end of some is a guess at first. Parts end with a cti."""
    rng = random.Random(seed)
    places = {event: event.vs + rng.choice((0, 0, 0, rng.randrange(8))) for event in events}
    waiting = sorted(events, key=lambda event: places[event])
    for start in range(0, len(waiting), EVERY):
        part: list[Element] = []
        for event in waiting[start : start + EVERY]:
            if rng.random() < 0.2:
                guess = event.ve + rng.randrange(1, 9)
                part += [sw.insert(event.vs, guess, **event.payload)]
                part += [sw.adjust(event.vs, guess, event.ve, **event.payload)]
            else:
                part.append(event)
        later = [event.vs for event in waiting[start + EVERY :]]
        yield [*part, sw.cti(min(later, default=sw.INF))]


class Copy:
    """One copy of the query, with links of its own."""

    def __init__(
        self, name: str, seed: int, plan: Callable[[sw.Query, sw.Query], sw.Query] | None = None
    ):
        self.processes = sw.stream(PROCESS, name=f"{name}: processes", properties=_INPUT)
        self.alarms = sw.stream(ALARM, name=f"{name}: alarms", properties=_INPUT)
        self.query = (plan or joined)(self.processes, self.alarms)
        self.seed = seed

    def says(self, *events: list[sw.Insert]) -> Iterator[tuple[sw.Query, list[Element]]]:
        """Its input, part by part, processes and alarms in turn."""
        streams = (self.processes, self.alarms)
        parts = [
            [(s, part) for part in told(each, self.seed)]
            for s, each in zip(streams, events, strict=True)
        ]
        total = max(map(len, parts))
        for i in range(total):
            for some in parts:
                first, last = i * len(some) // total, (i + 1) * len(some) // total
                yield from some[first:last]


def joined(processes: sw.Query, alarms: sw.Query) -> sw.Query:
    """The alarms of the machine of a process, while it runs."""
    return processes.join(alarms, on="machine")


def other_plan(processes: sw.Query, alarms: sw.Query) -> sw.Query:
    """The same, the other way round."""
    pairs = alarms.select(m="machine", alarm="alarm").join(processes, on={"m": "machine"})
    return pairs.select("process", "alarm", machine="m").select("machine", "process", "alarm")


def right(*events: list[sw.Insert]) -> History:
    """The answer of a batch computation."""
    copy = Copy("all", 0)
    return copy.query.meaning(dict(zip((copy.processes, copy.alarms), events, strict=True)))


def high_availability(processes: int) -> dict[str, Any]:
    """Three copies in two layers; two break off, one comes back."""
    events = history(processes)
    a, b, c = (Copy(name, seed) for seed, name in enumerate("abc"))
    near = sw.merge(a.query, b.query)
    running = sw.merge(near, c.query).open()
    feeds = {copy: [*copy.says(*events)] for copy in (a, b, c)}
    turns = max(map(len, feeds.values()))
    for i in range(turns):
        if i == turns // 3:
            running.detach(a.query)
            running.detach(c.query)
        if i == 2 * turns // 3:
            # a copy that was started anew has to be told everything, or what jumpstart() says
            running.attach(c.query)
            for stream, part in feeds[c][:i]:
                running.push(stream, part)
        for copy, parts in feeds.items():
            alive = copy is b or i < turns // 3 or (copy is c and i >= 2 * turns // 3)
            if alive and i < len(parts):
                running.push(*parts[i])
    return _judged(running.output, right(*events))


def fast_forward(processes: int, *, feedback: bool = True) -> dict[str, Any]:
    """Two plans on one core, each slow for one half of the machines, which take turns in the data."""
    spent = {"low": 0, "high": 0}

    def slow(name: str, machines: range) -> Any:
        def keep(machine: Any) -> Any:
            spent[name] += sum(each in machines for each in machine.to_pylist())
            for each in machine.to_pylist():
                sum(range(20_000 if each in machines else 0))
            return pc.greater_equal(machine, 0)

        return sw.function(keep, "machine", returns=bool)

    rows = sw.stream(PROCESS, name="rows", properties=sw.StreamProperties(insert_only=feedback))
    plans = [rows.where(slow("low", range(3))), rows.where(slow("high", range(3, 6)))]
    dataflow = Dataflow.of(sw.merge(*plans, algorithm="R3").node, schedule=Fair())
    events = [sw.insert(t, t + 1, machine=(t // 200 % 2) * 3, process=t) for t in range(processes)]
    for start in range(0, processes, EVERY):
        part: list[Element] = [*events[start : start + EVERY]]
        dataflow.push(_source(rows), Batch.of([*part, sw.cti(start + EVERY)], rows.schema))
    dataflow.run_until_quiet()
    answer = History.of([each for batch in dataflow.take_output() for each in batch])
    return {"right": answer == History.of(events), "rows that were slow": sum(spent.values())}


def fast_availability(processes: int) -> dict[str, Any]:
    """The same without feedback: the answer is as soon as the faster plan's, all work is done twice."""
    return fast_forward(processes, feedback=False)


def jumpstart(processes: int) -> dict[str, Any]:
    """A new copy that knows the processes which are alive, instead of reading days of input."""
    started, alarms = history(processes)
    old, new = Copy("old", 1), Copy("new", 2)
    running = sw.merge(old.query, new.query).open()
    running.detach(new.query)
    now = processes // 2
    feed = [*old.says(started, alarms)]
    for stream, part in feed[: len(feed) // 2]:
        running.push(stream, part)
    # what a checkpoint has, or another copy: all that ends now or later
    alive = [[event for event in events if event.ve >= now] for events in (started, alarms)]
    running.attach(new.query, since=now)
    seeded = 0
    for stream, part in new.says(*alive):
        running.push(stream, part)
        seeded += len(part)
    settled = running.output.settled_until
    for stream, part in feed[len(feed) // 2 :]:
        running.push(stream, part)
        if running.output.settled_until > now and running.output.settled_until > settled:
            # the merge has come to where the new copy is complete: the old one can go
            running.detach(old.query)
            break
    return _judged(running.output, right(started, alarms)) | {"read anew": seeded}


def cut_over(processes: int) -> dict[str, Any]:
    """Another plan takes over in the middle; it has been told everything meanwhile."""
    events = history(processes)
    old, new = Copy("old", 1), Copy("new", 2, other_plan)
    running = sw.merge(old.query, new.query).open()
    half = len([*old.says(*events)]) // 2
    for stream, part in [*old.says(*events)][:half]:
        running.push(stream, part)
    feed = [*new.says(*events)]
    for stream, part in feed[:half]:
        running.push(stream, part)
    running.detach(old.query)
    for stream, part in feed[half:]:
        running.push(stream, part)
    return _judged(running.output, right(*events))


def _judged(output: Any, answer: History) -> dict[str, Any]:
    complete = output.settled_until == sw.INF
    return {
        "right": complete and output.as_history() == answer,
        "rows": len(answer),
        "taken back": output.taken_back,
    }


def _source(query: sw.Query) -> Source:
    assert isinstance(query.node, Source)
    return query.node


APPLICATIONS = (high_availability, fast_availability, fast_forward, jumpstart, cut_over)


def main(processes: int = 1_000) -> None:
    """All of them."""
    table = Table("application", "right", "remarks", title=f"{processes:,} processes")
    for application in APPLICATIONS:
        found = application(processes)
        remarks = ", ".join(f"{name} {value:,}" for name, value in found.items() if name != "right")
        table.add_row(application.__name__.replace("_", " "), str(found["right"]), remarks)
        assert found["right"], application.__name__
    Console().print(table)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
