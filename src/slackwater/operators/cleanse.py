"""Cleanse: the same history as a perfect stream, ordered and with nothing ever taken back.

    out = input

It is Align at its extreme: an insert waits until a cti, or a promise about its payload, says that its
end can no longer change, and nothing with a later vs overtakes it; unless `in_order` is not asked for,
and then it waits for nothing else.

Pass: inserts whose end is settled, by a cti or by a promise about their payload, and, in order, whose
start no other can overtake. Keep: the others, with what was said of their ends. Propagate: ctis as Align
does; a promise about payloads when no row that it speaks of is held (operators/align.py).

Paper 1a section 2.3 (ultra), erratum 13.
"""

from __future__ import annotations

from slackwater.operators.align import Align
from slackwater.plan import nodes
from slackwater.times import INF

__all__ = ["cleanse"]


def cleanse(node: nodes.Cleanse) -> Align:
    """The step of a `Cleanse` node."""
    return Align(nodes.Align(node.input, INF, perfect=True, in_order=node.in_order))
