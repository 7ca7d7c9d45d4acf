"""Cleanse: the same history as a perfect stream, ordered and with nothing ever taken back.

    out = input

It is Align at its extreme: an insert waits until a cti, or a promise about its payload, says that its
end can no longer change, and nothing with a later vs overtakes it; unless `in_order` is not asked for,
and then it waits for nothing else. See operators/align.py, which has the three invariants.

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
