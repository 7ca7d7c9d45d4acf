"""A plan made visible: as a tree of text, and as a Mermaid flowchart.

Every line is a node with its settings; in brackets what is known of its output stream. A node that
several others read is shown once and referred to by number afterwards.
"""

from __future__ import annotations

from collections import Counter

import polars as pl

from slackwater.plan.nodes import Fixpoint, GroupApply, Node, Source, walk
from slackwater.plan.properties import infer
from slackwater.validity import StreamProperties

__all__ = ["mermaid", "text"]


def text(root: Node) -> str:
    """The plan as a tree, the result on top."""
    properties = infer(root)
    readers = Counter(child for node in walk(root) for child in node.inputs)
    numbers: dict[Node, int] = {}
    lines: list[str] = []

    def show(node: Node, first: str, rest: str) -> None:
        if node in numbers:
            lines.append(f"{first}{node.name} (see #{numbers[node]})")
            return
        mark = ""
        if readers[node] > 1:
            numbers[node] = len(numbers) + 1
            mark = f" #{numbers[node]}, runs once"
        known = ", ".join(properties[node].names())
        lines.append(first + _label(node) + (f" [{known}]" if known else "") + mark)
        children = [*node.inputs, node.body] if isinstance(node, GroupApply) else list(node.inputs)
        for i, child in enumerate(children):
            last = i == len(children) - 1
            show(child, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "))

    _infer_subplans(root, properties)
    show(root, "", "")
    return "\n".join(lines)


def mermaid(root: Node) -> str:
    """The plan as a Mermaid flowchart, sources at the bottom."""
    names = {node: f"n{i}" for i, node in enumerate(walk(root))}
    lines = ["flowchart BT"]
    lines += (f'    {name}["{_label(node).replace(chr(34), "#quot;")}"]' for node, name in names.items())
    lines += (f"    {names[child]} --> {name}" for node, name in names.items() for child in node.inputs)
    for node, name in names.items():
        if isinstance(node, Fixpoint) and node.argument in names:
            lines.append(f"    {name} -. loop .-> {names[node.argument]}")
    return "\n".join(lines)


def _label(node: Node) -> str:
    columns = f" ({_columns(node.schema)})" if isinstance(node, Source) else ""
    return f"{node.name} {node.describe()}".rstrip() + columns


def _columns(schema: pl.Schema) -> str:
    return ", ".join(f"{name}: {dtype}" for name, dtype in schema.items())


def _infer_subplans(root: Node, properties: dict[Node, StreamProperties]) -> None:
    for node in walk(root):
        if isinstance(node, GroupApply):
            properties.update(infer(node.body))
            _infer_subplans(node.body, properties)
