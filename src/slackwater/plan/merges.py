"""Which algorithm a logical merge needs, by what is known of its inputs; and why.

    R0   perfect, starts strictly increasing     an aggregate of all rows over perfect input
    R1   perfect, equal starts in one order      declared by sources
    R2   perfect, (vs, payload) a key            a grouped aggregate over tumbling windows, perfect input
    R3   (vs, payload) a key                     aggregates and sets over anything
    R4   nothing                                 joins, selects that lose columns

What holds for all inputs counts. An algorithm that was asked for, and needs more than is known, is
taken: whether the inputs keep to it is looked at while it runs, as far as it can be seen. Inputs with
gaps have no R1, which counts the rows of a start.

Paper 2 sections III-C and IV-G, erratum 21.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from slackwater.consistency import OutputLatency
from slackwater.merging import AT_FIRST_SIGHT, AT_STABLE, MergePolicy
from slackwater.plan.nodes import GroupApply, Merge, Node, walk
from slackwater.plan.properties import infer
from slackwater.validity import StreamProperties

__all__ = ["Choice", "chosen", "merges_of"]


@dataclass(frozen=True, slots=True)
class Choice:
    """An algorithm, and why it was taken."""

    algorithm: str
    why: str

    def shown(self, policy: MergePolicy) -> MergePolicy:
        """What of a policy counts: inputs in order are shown at once, for nothing is taken back."""
        if self.algorithm not in ("R0", "R1", "R2"):
            return policy
        return replace(policy, inserts=AT_FIRST_SIGHT, adjusts=AT_STABLE)


def chosen(node: Merge, latency: OutputLatency = OutputLatency.EAGER) -> Choice:
    """The algorithm of a merge."""
    known = infer(node, latency)
    found = _best([known[stream] for stream in node.streams], gaps=node.policy.gaps)
    if node.algorithm == "auto":
        return found
    return Choice(node.algorithm, f"asked for; {found.algorithm} by itself: {found.why}")


def _best(inputs: Sequence[StreamProperties], *, gaps: bool) -> Choice:
    perfect = all(each.perfect for each in inputs)
    if perfect and all(each.strictly_increasing for each in inputs):
        return Choice("R0", "perfect inputs, starts strictly increasing")
    # a row of R1 is known by how many come before it
    if perfect and not gaps and all(each.ties_in_order for each in inputs):
        return Choice("R1", "perfect inputs, equal starts in one order")
    if all(each.vs_payload_key for each in inputs):
        if perfect:
            return Choice("R2", "perfect inputs, (vs, payload) is a key")
        lacking = [i for i, each in enumerate(inputs) if not each.perfect]
        which = "all inputs" if len(lacking) == len(inputs) else f"input {lacking[0]}"
        return Choice("R3", f"(vs, payload) is a key; {which} may be disordered or revised")
    lacking = [i for i, each in enumerate(inputs) if not each.vs_payload_key]
    which = "any input" if len(lacking) == len(inputs) else f"input {lacking[0]}"
    return Choice("R4", f"(vs, payload) is not known to be a key of {which}")


def merges_of(root: Node) -> list[Merge]:
    """The merges of a plan, and of plans for each group in it, as they come in the plan that runs."""
    found: list[Merge] = []
    for node in walk(root):
        if isinstance(node, Merge):
            found.append(node)
        elif isinstance(node, GroupApply):
            found += merges_of(node.body)
    return found
