"""A plan made visible: as a tree of text, as a Mermaid flowchart, and in the stages that Spark runs.

Every line is a node with its settings; in brackets what is known of its output stream. A node that
several others read is shown once and referred to by number afterwards. A plan with a dial is shown with
the operators that the dial stands for in their places.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import polars as pl

from slackwater.plan.exchanges import Cut, cut
from slackwater.plan.merges import Choice, chosen, merges_of
from slackwater.plan.nodes import (
    Argument,
    Consistency,
    Fixpoint,
    GroupApply,
    Latency,
    Merge,
    Node,
    Source,
    walk,
)
from slackwater.plan.placement import placed
from slackwater.plan.preaggregation import preaggregated
from slackwater.plan.properties import infer, output_latencies
from slackwater.plan.rewrites import GROUP, rewritten

__all__ = ["in_stages", "mermaid", "stages", "text"]


def text(root: Node) -> str:
    """The plan as a tree, the result on top."""
    written, root = root, placed(root)
    choices = _choices(root, written)
    nodes = _with_subplans(root)
    properties = {node: known for plan in _plans(root) for node, known in infer(plan).items()}
    readers = Counter(child for node in nodes for child in node.inputs)
    numbers: dict[Node, int] = {}
    lines: list[str] = []
    waiting = [(root, "", "")]
    while waiting:
        node, first, rest = waiting.pop()
        if node in numbers:
            lines.append(f"{first}{node.name} (see #{numbers[node]})")
            continue
        mark = ""
        if readers[node] > 1:
            numbers[node] = len(numbers) + 1
            mark = f" #{numbers[node]}, runs once"
        known = ", ".join(properties[node].names())
        lines.append(first + _label(node, choices) + (f" [{known}]" if known else "") + mark)
        children = [*node.inputs, node.body] if isinstance(node, GroupApply) else list(node.inputs)
        for child in reversed(children):
            last = child is children[-1]
            branch, below = ("└─ ", "   ") if last else ("├─ ", "│  ")
            waiting.append((child, rest + branch, rest + below))
    return "\n".join(lines)


def mermaid(root: Node) -> str:
    """The plan as a Mermaid flowchart, sources at the bottom."""
    written, root = root, placed(root)
    choices = _choices(root, written)
    names = {node: f"n{i}" for i, node in enumerate(_with_subplans(root))}
    lines = ["flowchart BT"]
    lines += (
        f'    {name}["{_label(node, choices).replace(chr(34), "#quot;")}"]'
        for node, name in names.items()
    )
    lines += (f"    {names[child]} --> {name}" for node, name in names.items() for child in node.inputs)
    for node, name in names.items():
        if isinstance(node, Fixpoint) and node.argument in names:
            lines.append(f"    {name} -. loop .-> {names[node.argument]}")
        if isinstance(node, GroupApply):
            lines.append(f"    {names[node.body]} -- per group --> {name}")
    return "\n".join(lines)


def stages(root: Node, buckets: int | None = None, aligned: Sequence[str] = ()) -> str:
    """The stages that Spark runs: what enters each, by which columns, and what runs in it.

    With a number of buckets, also how many of them have work to do; with the names of sources that are
    aligned, that these wait for each other.
    """
    return in_stages(cut(preaggregated(rewritten(root))), buckets, aligned)


def in_stages(
    found: Cut, buckets: int | None, aligned: Sequence[str], standing: Mapping[int, str] | None = None
) -> str:
    """The stages of a plan that was cut, and how those stand of which that is known, by number."""
    lines = [f"up to the last common token: {', '.join(aligned)}"] if aligned else []
    described = found.describe(buckets)
    latencies = output_latencies(found.root)
    for number, (said_of_it, stage) in enumerate(zip(described, found.stages, strict=True), 1):
        lines.append(said_of_it)
        plans = (*(mending.plan for mending in stage.mends), *stage.roots)
        shown = [node for node in walk(*plans) if not isinstance(node, _UNSEEN)]
        choices: dict[Node, Choice] = {
            node: chosen(node, latencies[stage.origins[node]])
            for node in shown
            if isinstance(node, Merge)
        }
        said = (f"{_label(node, choices)} {stage.loops.get(node, '')}".rstrip() for node in shown)
        labels = (label.replace(GROUP, "group.").replace("\0", "").replace("\1", "") for label in said)
        lines += (f"    {label}" for label in labels)
        if standing and number in standing:
            lines.append(f"    so far: {standing[number]}")
    return "\n".join(lines)


_UNSEEN = (Source, Argument, Consistency, Latency)


def _choices(shown: Node, written: Node) -> dict[Node, Choice]:
    """How each merge that is shown is done in the plan that runs.

    A plan for each group runs over all groups at once, where other things are known of its streams.
    """
    merges = merges_of(shown)
    if not merges:
        return {}
    at_work = rewritten(written)
    latencies = output_latencies(at_work)
    pairs = zip(merges, merges_of(at_work), strict=True)
    return {shown: chosen(each, latencies[each]) for shown, each in pairs}


def _label(node: Node, choices: Mapping[Node, Choice]) -> str:
    if isinstance(node, Merge):
        choice = choices[node]
        return f"{node.name} {choice.algorithm} ({choice.why}), {choice.shown(node.policy)}"
    columns = f" ({_columns(node.schema)})" if isinstance(node, Source) else ""
    return f"{node.name} {node.describe()}".rstrip() + columns


def _columns(schema: pl.Schema) -> str:
    return ", ".join(f"{name}: {dtype}" for name, dtype in schema.items())


def _plans(root: Node) -> list[Node]:
    """The plan and the subplans in it, outermost first."""
    plans = [root]
    for plan in plans:
        plans += (node.body for node in walk(plan) if isinstance(node, GroupApply))
    return plans


def _with_subplans(root: Node) -> list[Node]:
    return list(dict.fromkeys(node for plan in _plans(root) for node in walk(plan)))
