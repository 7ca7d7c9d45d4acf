"""The query of examples/reachability.py in this process and in buckets, in small: right, and final."""

from __future__ import annotations

from examples import reachability

import slackwater as sw
from slackwater.distributed.program import program_of
from slackwater.distributed.rehearsal import Rehearsal
from slackwater.plan.nodes import Source

LINKS = 60


def test_the_answer_is_that_of_a_search_from_every_machine() -> None:
    source = reachability.LINK.node
    assert isinstance(source, Source)
    in_process = reachability.REACH.open()
    in_buckets = Rehearsal(program_of(reachability.REACH.node, buckets=3))
    for part in reachability.files(LINKS):
        rows = sw.from_dataframe(part, **reachability.FORM, schema=reachability.PAIR)
        in_process.push(reachability.LINK, rows)
        in_buckets.batch({source: {"0": rows}})
        assert in_buckets.output.as_history() == in_process.output.as_history()
        assert in_buckets.output.settled_until == in_process.output.settled_until
    answer = in_buckets.output.history()
    assert reachability.at_every_instant(answer, LINKS) == reachability.batch(LINKS)
    assert in_buckets.output.settled().height == answer.height
