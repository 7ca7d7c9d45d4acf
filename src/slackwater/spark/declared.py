"""What is known of a source by the form of its rows: without a kind, every row is an insert.

Then nothing of the source has to be remembered to judge it, and what ends at a promise is settled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from slackwater.plan import nodes as n
from slackwater.rows import Unread

__all__ = ["declared"]


def declared(root: n.Node, inputs: Mapping[n.Source, Unread]) -> tuple[n.Node, dict[n.Source, Unread]]:
    """The plan, and what it reads, with sources that say what their rows can be."""
    known = {source: _declared(source, given) for source, given in inputs.items()}
    built: dict[n.Node, n.Node] = dict(known.items())
    for node in n.walk(root):
        if node not in built:
            built[node] = n.over(node, [built[child] for child in node.inputs])
    return built[root], {known[source]: given for source, given in inputs.items()}


def _declared(source: n.Source, given: Unread) -> n.Source:
    if given.form.kind is not None or source.properties.insert_only:
        return source
    return replace(source, properties=replace(source.properties, insert_only=True))
