"""Physical streams to draw for a given history: any order, any detour, any promise that is kept.

Every valid stream is an interleaving of *lives*: the elements of one event, each of which continues
the one before. The life of an event ends with its lifetime in the history; the life of a phantom,
an event that the history lacks, ends with its removal. Adjusts are matched as a multiset, so lives
of equal events may be interleaved as freely as others. A stream is therefore drawn in three steps:
the lives, their interleaving, the punctuations (those about columns: drawn_promises.py).

Invariant: no element has sync INF, so that nothing but the end of a stream is promised by cti(INF).

Paper 1a section 2.2 (order, closedness), paper 2 section III (equal streams, growing adjusts).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, pairwise
from typing import Any, TypeAlias

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from slackwater.events import Adjust, Element, Event, Insert
from slackwater.history import History
from slackwater.punctuations import Punctuation
from slackwater.testing.drawn_history import start_and_payload
from slackwater.testing.drawn_payload import Columns, payloads
from slackwater.testing.drawn_promises import draw_promises
from slackwater.times import INF, Duration, duration, plus

__all__ = ["batchings", "several", "streams"]

Data: TypeAlias = Insert | Adjust


@dataclass(frozen=True, slots=True)
class _Manner:
    """How a history is told: the options of `streams`."""

    disorder: int
    ordered: bool
    adjusts: bool
    lengthen: bool
    unbounded: bool
    vs_payload_key: bool
    ctis: bool
    closed: bool
    patterns: bool | Collection[str]


def streams(
    history: History,
    *,
    columns: Columns | None = None,
    disorder: Duration = INF,
    ordered: bool = False,
    perfect: bool = False,
    adjusts: bool = True,
    lengthen: bool = True,
    unbounded: bool = True,
    vs_payload_key: bool = False,
    ctis: bool = True,
    closed: bool = True,
    patterns: bool | Collection[str] = False,
) -> SearchStrategy[list[Element]]:
    """Valid physical streams that reconstitute to exactly this history.

    Events may arrive with another end that is corrected later, in several steps, and may be removed
    and inserted again; events that the history lacks may appear and be removed. Some adjusts change
    nothing (new_ve = ve). Punctuations stand as early as is valid, or later, or repeat others.

    - `disorder`: how far, in chronons, an element may come behind one with a later sync. Only what
      corrects an earlier element may come later than that: it has to follow it.
    - `ordered`: sync never decreases, and an event is shortened at most once. `perfect`: nor is
      there any adjust.
    - `adjusts=False`: inserts only. `lengthen=False`: no adjust makes an event end later.
    - `unbounded=False`: nothing ends at INF that does not do so in the history.
    - `vs_payload_key`: at no time two events with one start and payload (nor in the history).
    - `ctis=False`: no punctuations on the way. `closed`: the stream ends with cti(INF).
    - `patterns`: also promises about columns (constants, lists, ranges), up to a time or for ever; or
      only about the columns that are named. Nothing that they cover comes later.
    - `columns`: strategies for the payloads of events that the history lacks.

    >>> from slackwater.testing import simplest
    >>> from slackwater.events import adjust, insert
    >>> history = History.of([insert(0, 5, k="a"), insert(2, 4, k="b")])
    >>> simplest(streams(history))
    [insert(0, 5, k='a'), insert(2, 4, k='b'), cti(INF)]
    >>> simplest(streams(history), lambda stream: adjust(0, None, 5, k="a") in stream)
    [insert(0, INF, k='a'), insert(2, 4, k='b'), adjust(0, INF, 5, k='a'), cti(INF)]
    >>> from slackwater.punctuations import punctuation
    >>> simplest(streams(history, patterns=True), lambda stream: stream[1] == punctuation(k="a"))
    [insert(0, 5, k='a'), punctuation(k='a'), insert(2, 4, k='b'), punctuation(k='b'), cti(INF)]
    """
    manner = _Manner(
        disorder=0 if ordered or perfect else duration(disorder),
        ordered=ordered or perfect,
        adjusts=adjusts and not perfect,
        lengthen=lengthen,
        unbounded=unbounded,
        vs_payload_key=vs_payload_key,
        ctis=ctis,
        closed=closed,
        patterns=patterns,
    )
    return _streams(history, manner, columns)


def several(history: History, n: int = 2, **options: Any) -> SearchStrategy[list[list[Element]]]:
    """`n` physical streams of one history, as replicas would send it. Options as for `streams`.

    >>> from slackwater.testing import simplest
    >>> from slackwater.events import insert
    >>> history = History.of([insert(0, 5, k="a"), insert(2, 4, k="b")])
    >>> simplest(several(history, adjusts=False, ctis=False), lambda pair: pair[0] != pair[1])[1]
    [insert(2, 4, k='b'), insert(0, 5, k='a'), cti(INF)]
    """
    return st.lists(streams(history, **options), min_size=n, max_size=n)


def batchings(stream: Iterable[Element]) -> SearchStrategy[list[list[Element]]]:
    """Ways to cut a stream into batches of one element or more: whole, one by one, or anywhere.

    The parts are lists; `Batch.of(part, schema)` makes columns of one.

    >>> from slackwater.testing import simplest
    >>> from slackwater.events import insert
    >>> simplest(batchings([insert(0, 5), insert(1, 2), insert(2, 9)]), lambda cut: len(cut) == 2)
    [[insert(0, 5)], [insert(1, 2), insert(2, 9)]]
    """
    elements = list(stream)
    if not elements:
        return st.just([])
    places = range(1, len(elements))
    cuts: SearchStrategy[Iterable[int]] = st.just(())
    if places:
        cuts = st.one_of(cuts, st.sets(st.sampled_from(places)), st.just(places))
    return cuts.map(lambda cut: [elements[a:b] for a, b in pairwise((0, *sorted(cut), len(elements)))])


@st.composite
def _streams(draw: DrawFn, history: History, manner: _Manner, columns: Columns | None) -> list[Element]:
    events = history.events()
    if manner.vs_payload_key:
        assert len(set(map(start_and_payload, events))) == len(events), "the history lacks the key"
    lives: list[list[Data]] = [[Insert(*event)] for event in events]
    if manner.adjusts:
        lives = _lives(draw, events, manner, payloads(history.schema, columns))
    data = _interleaved(draw, lives, manner.disorder)
    promises: list[list[Punctuation]] = [[] for _ in range(len(data) + 1)]
    if manner.ctis:
        promises = [list(map(Punctuation, times)) for times in _promises(draw, data, manner.ordered)]
    if manner.patterns:
        names = list(history.schema) if manner.patterns is True else list(manner.patterns)
        told = draw_promises(draw, data, history.schema, names)
        promises = [[*about_columns, *ctis] for about_columns, ctis in zip(told, promises, strict=True)]
    *on_the_way, at_end = promises
    stream: list[Element] = []
    for promised, element in zip(on_the_way, data, strict=True):
        stream += (*promised, element)
    stream += at_end
    return [*stream, Punctuation(INF)] if manner.closed else stream


# What makes a stream more than one insert per event is drawn as short lists of numbers that say
# which event or element they concern. An example shrinks well so: it can lose an event or a
# deviation without all the others changing their meaning. And the strategies, being of numbers
# below a limit, can be kept: making one takes longer than drawing from it.


@cache
def _below(n: int) -> SearchStrategy[int]:
    return st.integers(0, n - 1)


@cache
def _deviations(limits: tuple[int, ...], max_size: int) -> SearchStrategy[list[tuple[int, ...]]]:
    return st.lists(st.tuples(*map(_below, limits)), max_size=max_size)


def _lives(
    draw: DrawFn, events: list[Event], manner: _Manner, fresh: SearchStrategy[dict[str, Any]]
) -> list[list[Data]]:
    """The elements of each event of the history, then those of some phantoms."""
    times = sorted({time for event in events for time in (event.vs, event.ve) if time < INF})
    told = [*events, *_phantoms(draw, events, times, fresh)]
    if manner.vs_payload_key:
        # of equal keys the first stays, which is the one of the history
        told = list({start_and_payload(event): event for event in reversed(told)}.values())[::-1]
    if not told:
        return []
    ends = [_possible_ends(event, times, manner) for event in told]
    detours: list[list[int]] = [[] for _ in told]
    most = max(map(len, ends))
    for which, end in draw(_deviations((len(told), most), 2 * len(told))):
        detours[which].append(ends[which][end % len(ends[which])])
    return [_life(*of, manner) for of in zip(told, detours, strict=True)]


def _phantoms(
    draw: DrawFn, events: list[Event], times: list[int], fresh: SearchStrategy[dict[str, Any]]
) -> list[Event]:
    """Events with an empty lifetime, near those of the history, with a payload of one or not."""
    starts = [*times, *(time + 1 for time in times), plus(times[0], -1)] if times else [0]
    # one number beyond the known payloads asks for a new one
    drawn = draw(_deviations((len(starts), len(events) + 1), 2))
    known = [event.payload for event in events]
    return [
        Event(vs := starts[start], vs, known[which] if which < len(known) else draw(fresh))
        for start, which in drawn
    ]


def _possible_ends(event: Event, times: list[int], manner: _Manner) -> list[int]:
    """Ends that an event may have on the way: near its own, or where another starts or ends."""
    vs, ve, _ = event
    before = ve - 1 if ve < INF else vs + 1
    ends = [plus(ve, 1), plus(ve, 2), before, ve, vs + 1, *times, *([INF] * manner.unbounded), vs]
    return [end for end in ends if end >= vs]


def _life(event: Event, detours: list[int], manner: _Manner) -> list[Data]:
    """The elements of one event, by way of these ends (vs: gone for a while) to its own."""
    vs, ve, payload = event
    *gone, kept = _split(detours, vs)
    if vs == ve:
        # a phantom must have been there
        gone.append(kept if any(gone) else kept or [vs + 1])
    ends = [vs]
    for stay in gone:
        ends += (*_before_removal(stay, manner), vs)
    if vs < ve:
        ends += (*_before_last(kept, ve, manner), ve)
    return [
        Insert(vs, new, payload) if old == vs else Adjust(vs, old, new, payload)
        for old, new in pairwise(ends)
        # not there before nor after is no element; INF to INF would be one with sync INF
        if not (old == new and old in (vs, INF))
    ]


def _split(ends: list[int], at: int) -> list[list[int]]:
    """The runs between occurrences of `at`, empty ones included."""
    runs: list[list[int]] = [[]]
    for end in ends:
        if end == at:
            runs.append([])
        else:
            runs[-1].append(end)
    return runs


def _before_removal(ends: list[int], manner: _Manner) -> list[int]:
    """These ends, as far as the manner permits them before a removal."""
    if manner.ordered:
        # the removal has sync vs: an adjust before it would have a later one
        return ends[:1]
    return ends if manner.lengthen else sorted(ends, reverse=True)


def _before_last(ends: list[int], ve: int, manner: _Manner) -> list[int]:
    """These ends, as far as the manner permits them before the last one."""
    if not manner.lengthen:
        falling = sorted((max(end, ve) for end in ends), reverse=True)
        return falling[:1] if manner.ordered else falling
    if not manner.ordered:
        return ends
    # syncs rise if the ends do, and still do if one that is too long is cut to the next
    rising = sorted(end for end in ends if end <= ve)
    for place, end in enumerate(ends):
        if end > ve:
            return [*rising[:place], end, *rising[place:]]
    return rising


def _interleaved(draw: DrawFn, lives: list[list[Data]], disorder: int) -> list[Data]:
    """The lives as one sequence: of those that may go on, the one with the least delay does.

    A life may go on if this leaves nothing behind by more than `disorder`. Where a life itself goes
    back further than that, nothing remains but to tell it first.
    """
    count = sum(map(len, lives))
    if not count:
        return []
    # in sync order, nearly so, or in any
    bound = sorted((0, min(2, disorder), disorder))[draw(_below(3))] if disorder else 0
    delays = [0] * count
    for which, delay in draw(_deviations((count, 10), count)):
        delays[which] = delay
    # each life in reverse, so that pop gives its next element: delay, element, least sync from it on
    waiting: list[list[tuple[int, Data, int]]] = []
    for life in filter(None, lives):
        reverse = life[::-1]
        least = accumulate((element.sync for element in reverse), min)
        waiting.append([(delays.pop(), *of) for of in zip(reverse, least, strict=True)])
    told: list[Data] = []
    while waiting:
        behind = min(waiting, key=lambda life: life[-1][2])
        limit = plus(behind[-1][2], bound)
        ready = [life for life in waiting if life[-1][1].sync <= limit] or [behind]
        chosen = min(ready, key=lambda life: (life[-1][0], life[-1][1].sync))
        told.append(chosen.pop()[1])
        waiting = [life for life in waiting if life]
    return told


def _promises(draw: DrawFn, data: list[Data], ordered: bool) -> list[list[int]]:
    """The times promised before each element, and at the end.

    cti(t) may stand where every later element has sync >= t.
    """
    syncs = [element.sync for element in data]
    ends = (e.ve if isinstance(e, Insert) else max(e.ve, e.new_ve) for e in data)
    beyond = 1 + max((time for time in (*syncs, *ends) if time < INF), default=-1)
    limits = list(accumulate(reversed(syncs), min, initial=beyond))[::-1]
    promises: list[list[int]] = [[] for _ in limits]
    if draw(_below(2)):
        # all that can be promised, as soon as it can
        for place, limit in enumerate(limits):
            if place == 0 or limit > limits[place - 1]:
                promises[place].append(limit)
    # what could have been promised some places before, or a little less
    for place, late, less in draw(_deviations((len(limits), 4, 3), 4)):
        promised = plus(limits[max(0, place - late)], -less)
        if ordered and place > 0:
            promised = max(promised, syncs[place - 1])
        promises[place].append(promised)
    return [sorted(promised) for promised in promises] if ordered else promises
