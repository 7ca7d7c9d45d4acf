"""The packages of this machine and what they depend on: a real graph, with cycles, on every Debian.

The database of dpkg is text: a stanza for each package, with fields. An edge a -> b says that a depends
on b, as one of several that will do or as what provides it. What is not installed is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import networkx as nx

import slackwater as sw
from slackwater.times import INF

__all__ = ["STATUS", "Registry", "dependencies", "link", "needed", "read", "wanted"]

STATUS = Path("/var/lib/dpkg/status")
_FIELDS = ("Pre-Depends", "Depends")
_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]*")


def read(status: Path = STATUS) -> list[tuple[str, str]]:
    """The edges, without doubles, in the order of the file."""
    return dependencies(status.read_text(encoding="utf-8"))


def dependencies(status: str) -> list[tuple[str, str]]:
    """The edges in a text.

    >>> dependencies('''Package: a
    ... Status: install ok installed
    ... Depends: b (>= 2), c | d, e:any
    ...
    ... Package: b
    ... Status: install ok installed
    ... Pre-Depends: a
    ...
    ... Package: d2
    ... Status: install ok installed
    ... Provides: d (= 1), x
    ...
    ... Package: e
    ... Status: deinstall ok config-files
    ... ''')
    [('a', 'b'), ('a', 'd2'), ('b', 'a')]
    """
    installed = [each for each in map(_fields, status.split("\n\n")) if _is_installed(each)]
    by_name: dict[str, list[str]] = {}
    for each in installed:
        for name in (each["Package"], *_names(each.get("Provides", ""))):
            by_name.setdefault(name, []).append(each["Package"])
    edges = (
        (each["Package"], other)
        for each in installed
        for field in _FIELDS
        for name in _names(each.get(field, ""))
        for other in by_name.get(name, ())
    )
    return [*dict.fromkeys(edges)]


def _is_installed(fields: Mapping[str, str]) -> bool:
    return fields.get("Status", "").endswith(" installed")


def _fields(stanza: str) -> dict[str, str]:
    # what a field goes on with in further lines is none of these
    lines = (line.partition(": ") for line in stanza.splitlines() if not line.startswith(" "))
    return {name: value for name, _, value in lines}


def _names(listed: str) -> Iterator[str]:
    for each in re.split(r"[,|]", listed):
        found = _NAME.match(each.strip())
        if found:
            yield found[0]


@dataclass
class Registry:
    """Packages that come and go, as elements of streams, and as lists that say what was meant.

    At first most links are there, some of them for a while. Then, at every instant, a package appears
    with all that it depends on, one goes (its links end), a link turns out never to have been there, and
    what is wanted changes.
    """

    edges: Sequence[tuple[str, str]]
    seed: int = 0
    links: list[list[Any]] = field(default_factory=list)
    """vs, ve, and from which package to which"""
    wanted: list[list[Any]] = field(default_factory=list)

    def changes(self, instants: int) -> Iterator[tuple[list[Any], list[Any]]]:
        """What is told of links and of what is wanted, instant by instant; promises too."""
        random = Random(self.seed)
        of: dict[str, list[str]] = {}
        for package, other in self.edges:
            of.setdefault(package, []).append(other)
        missing = set(random.sample(sorted(of), len(of) // 5))
        begin = [(a, b) for a, b in self.edges if a not in missing]
        first = [
            self._link(0, random.choice([INF, INF, random.randint(1, instants)]), *e) for e in begin
        ]
        want = [self._want(0, INF, name) for name in random.sample(sorted(of), len(of) // 20)]
        yield [*first, sw.cti(1)], [*want, sw.cti(1)]
        for now in range(1, instants):
            links: list[Any] = []
            if missing:
                package = random.choice(sorted(missing))
                missing.discard(package)
                links += [self._link(now, INF, package, other) for other in of[package]]
            going = random.choice([each for each in self.links if each[1] == INF])[2]
            missing.add(going)
            links += [
                _ends(each, now) for each in self.links if each[2] == going and each[1] > now > each[0]
            ]
            recent = [each for each in self.links if each[0] == now and each[1] > now]
            if recent and random.random() < 0.5:
                links.append(_ends(random.choice(recent), now))
            want = [self._want(now, now + random.randint(1, instants), random.choice(sorted(of)))]
            yield [*links, sw.cti(now + 1)], [*want, sw.cti(now + 1)]

    def _link(self, vs: int, ve: int, package: str, other: str) -> sw.Insert:
        self.links.append([vs, ve, package, other])
        return sw.insert(vs, ve, a=package, b=other)

    def _want(self, vs: int, ve: int, package: str) -> sw.Insert:
        self.wanted.append([vs, ve, package])
        return sw.insert(vs, ve, p=package)

    def needed(self, now: int) -> set[str]:
        """All that is needed at an instant, by networkx."""
        graph = nx.DiGraph((a, b) for vs, ve, a, b in self.links if vs <= now < ve)
        wanted = {name for vs, ve, name in self.wanted if vs <= now < ve}
        return wanted.union(*(nx.descendants(graph, name) for name in wanted if name in graph))


def _ends(link: list[Any], now: int) -> sw.Adjust:
    """It ends now; if it has begun now, it never was."""
    vs, ve, package, other = link
    link[1] = now
    return sw.adjust(vs, ve, now, a=package, b=other)


link = sw.stream({"a": str, "b": str}, name="link")
wanted = sw.stream({"p": str}, name="wanted")


def needed() -> sw.Query:
    """What is wanted, and all that it depends on."""
    return sw.fixpoint(
        lambda need: wanted.union(need.join(link, on={"p": "a"}).select(p="b")).distinct(),
        schema={"p": str},
    )
