"""Automaton: every way through a constant automaton, from every row on (a non-reentrant ATN).

    out = nothing yet, from every row on; and of every way the steps that the next row permits

It says what the loop of `sw.automaton` over a stream of transitions says (frontends/automata.py), but
knows the transitions, so that rows need not go round: all ways of a batch go on at once, one place
further each time, and conditions and registers are computed over columns. Where these are plain
arithmetic of integers and floats (plan/programs.py), compiled code does all of it, way by way.

A row that comes, goes or gets another end changes the ways that begin at rows which look at its place:
of every row it is known up to which place its ways have looked (its reach). These are followed twice,
over the rows as they were and as they are, and the difference is said (differences.py). Of rows that are
new, there is nothing to compare. What is found is not remembered: rows are.

Pass: what the batch changes. Keep: the rows that have not ended before the cti; a way lives no longer
than each of its rows. Propagate: the cti, since a way starts with the last of its rows and ends with the
first.

Promises about columns are answered by closed_ways.py. Pass: nothing more, all is said. Keep: nothing of
a key that is closed for ever; of places that are closed from the first one on, the rows from where a way
looks beyond them. Propagate: of keys as they are; of places as what begins and ends there; of places and
other columns if together they leave none of the others' values out.

Of symbols alone nothing follows. Every row begins ways, whatever its symbol, and these go on with the
rows that are there, the first of them at its own place: with (1, A) there, (1, Z) makes one more of each
way from 1 on. So all of the place where a way begins has to be closed. At the others it would do if rows
of the symbols were that lead to its state; but that is said of single ways, which are not remembered.
What conditions and registers permit is not looked at: any value may come.

    A B* A    in:   (1, A) [1, 9)    (3, A) [3, 9)               (2, B) [2, 9)
              out:  (1, 0, S), (1, 1, q)   (3, 2, S), (3, 3, q)  (2, 1, S), (1, 2, q), (1, 3, F)

Paper 3 section 5.1 (the ATN operator).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from slackwater.columns import column_of, framed, nulls_in, taken, true_in
from slackwater.errors import OperatorError
from slackwater.events import Batch
from slackwater.kernels import automata
from slackwater.kernels.grouping import Keys
from slackwater.kernels.slabs import Changes, Slabs
from slackwater.operators.closed_ways import ClosedWays, closed_for_ever, within
from slackwater.operators.closing import frontiers, matched
from slackwater.operators.differences import difference
from slackwater.operators.projection import of_columns
from slackwater.operators.step import Answer, Description
from slackwater.plan import nodes
from slackwater.plan.arithmetic import Unfit
from slackwater.plan.evaluation import Formula, NoValue
from slackwater.plan.matching import columns_in
from slackwater.plan.programs import Programs, programs
from slackwater.punctuations import Promise, Punctuation
from slackwater.state import sweep_after
from slackwater.times import BEGIN, INF

__all__ = ["Automaton", "State"]

kernel: Any = automata
"""compiled functions, which mypy cannot follow"""

Ints = npt.NDArray[np.int64]
Read = Callable[[str], pl.Series]

_PLACE, _VS, _VE, _PAYLOAD = range(4)
_NONE = np.empty(0, dtype=np.int64)
_LONG = 32
"""programs of more steps than the compiled code has room on its stacks are left to polars"""


@dataclass(slots=True)
class State:
    """Groups and payloads by number, the symbol of each payload; the rows of each group, by place."""

    keys: Keys
    payloads: Keys
    rows: Slabs
    symbols: Ints = field(default_factory=lambda: _NONE)
    longest: int = 0
    """no row looks more places further"""
    cti: int = BEGIN
    closed: ClosedWays = field(default_factory=ClosedWays)
    sweep_at: int = field(default_factory=lambda: sweep_after(0))


@dataclass(frozen=True)
class _Expression:
    """An expression that is evaluated for a few ways at a time."""

    expression: pl.Expr
    schema: pl.Schema
    who: str
    dtype: pl.DataType
    formula: Formula = field(init=False)
    columns: list[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "formula", Formula(self.expression, self.schema, self.who))
        # a frame without columns has no rows
        object.__setattr__(self, "columns", columns_in([self.expression]) or ["end"])

    def over(self, read: Read) -> pl.Series:
        """Its values."""
        known = [read(name) for name in self.columns]
        named = [each.alias(n) for n, each in zip(self.columns, known, strict=True)]
        frame = framed(named, len(known[0]))
        try:
            return self.formula.values(frame)
        except NoValue as problem:
            # it is about a way and a row, and not about a row of the batch alone
            raise OperatorError(problem.fact, detail=problem.detail, hint=problem.hint) from problem


@dataclass(frozen=True, slots=True)
class _Plain:
    """Condition and registers as programs, over integers and floats that are always there."""

    programs: Programs
    targets: Ints
    """of each register, its place among those of integers; of one of floats, from -1 down"""
    i_move: Ints
    f_move: npt.NDArray[np.float64]
    i_first: Ints
    f_first: npt.NDArray[np.float64]

    @classmethod
    def of(cls, node: nodes.Automaton, moves: pl.DataFrame) -> _Plain:
        """Unfit if there is more to it."""
        firsts = {name: first for name, (first, _) in node.registers.items()}
        named: list[tuple[int, dict[str, pl.Series]]] = [(0, firsts), (1, moves.to_dict())]
        loads = {"begin": (2, 0), "end": (2, 1)}
        tables: list[dict[pl.DataType, list[pl.Series]]] = []
        for table, columns in named:
            by_type: dict[pl.DataType, list[pl.Series]] = {pl.Int64(): [], pl.Float64(): []}
            for name, column in columns.items():
                if column.dtype in by_type and not column.null_count():
                    loads[name] = table, len(by_type[column.dtype])
                    by_type[column.dtype].append(column)
                elif table == 0:
                    raise Unfit
            tables.append(by_type)
        targets = [
            loads[name][1] if first.dtype == pl.Int64 else -1 - loads[name][1]
            for name, first in firsts.items()
        ]
        updates = [(update, first.dtype) for first, update in node.registers.values()]
        wanted = programs([(node.where, pl.Boolean()), *updates], node.step_schema, loads)
        if np.diff(wanted.ends).max() > _LONG:
            raise Unfit
        first, move = tables
        return cls(
            wanted,
            np.array(targets, dtype=np.int64),
            _table(move[pl.Int64()], moves.height, np.int64),
            _table(move[pl.Float64()], moves.height, np.float64),
            _table(first[pl.Int64()], 1, np.int64)[0],
            _table(first[pl.Float64()], 1, np.float64)[0],
        )


def _table(columns: list[pl.Series], rows: int, dtype: Any) -> npt.NDArray[Any]:
    """The values of columns, row by row."""
    values = np.empty((rows, len(columns)), dtype=dtype)
    for i, column in enumerate(columns):
        values[:, i] = column.to_numpy()
    return values


@dataclass(slots=True)
class _Ways:
    """Ways that have come equally far."""

    origin: Ints
    """which of the rows that ways begin at"""
    end: Ints
    state: Ints
    vs: Ints
    ve: Ints
    copies: Ints
    registers: list[pl.Series]


@dataclass(frozen=True)
class Automaton:
    """The step of an `Automaton` node."""

    node: nodes.Automaton
    states: pl.Series = field(init=False)
    """by number"""
    symbols: Keys = field(init=False)
    start: int = field(init=False)
    first: Ints = field(init=False)
    """for a state and a symbol, where its transitions begin"""
    after: Ints = field(init=False)
    """for each transition, the state that it leads to"""
    moves: pl.DataFrame = field(init=False)
    """the further columns of the transitions, in that order"""
    registers: list[_Expression] = field(init=False)
    condition: _Expression | None = field(init=False)
    plain: _Plain | None = field(init=False)
    """condition and registers, if compiled code can compute them"""

    def __post_init__(self) -> None:
        node = self.node
        before, after, by, *others = node.table.columns
        # null is no state to go on from, and no symbol
        table = node.table.filter(pl.col(before).is_not_null(), pl.col(by).is_not_null())
        states = Keys(pl.Schema({"state": node.start.dtype}))
        source, target = (states.number(table[name].to_frame("state")) for name in (before, after))
        [start] = states.number(node.start.to_frame("state"))
        symbols = Keys(pl.Schema({node.symbol: table.schema[by]}))
        symbol = symbols.number(table[by].to_frame(node.symbol))
        order = np.lexsort((symbol, source))
        source, target, symbol = source[order], target[order], symbol[order]
        width = len(symbols) + 1
        begins = np.searchsorted(source * width + symbol, np.arange(len(states) * width))
        put = object.__setattr__
        put(self, "states", states.take(np.arange(len(states))).to_series())
        put(self, "symbols", symbols)
        put(self, "start", int(start) if not node.start.has_nulls() else -1)
        put(self, "first", begins.reshape(len(states), width))
        put(self, "after", target)
        put(self, "moves", taken(table.select(others), order))
        schema, where = node.step_schema, node.where
        registers = [
            _Expression(update, schema, f"automaton: register {name}", first.dtype)
            for name, (first, update) in node.registers.items()
        ]
        put(self, "registers", registers)
        who, yes = "automaton where", pl.Boolean()
        condition = None if where is None else _Expression(where, schema, who, yes)
        put(self, "condition", condition)

        try:
            put(self, "plain", _Plain.of(node, self.moves))
        except Unfit:
            put(self, "plain", None)

    def open(self) -> State:
        """No rows."""
        node, schema = self.node, self.node.input.schema
        columns = (node.symbol, *node.further)
        return State(
            Keys(pl.Schema({key: schema[key] for key in node.keys})),
            Keys(pl.Schema({name: schema[name] for name in columns})),
            Slabs(4),
        )

    def on_batch(self, state: State, port: int, rows: Batch) -> Batch:
        """The ways that look at a place where something changes, as they were and as they are."""
        changes = self._changes(state, rows)
        if not len(changes):
            return Batch.empty(self.node.schema)
        is_first = np.ones(len(changes), dtype=np.bool_)
        place = changes.rows[:, _PLACE]
        is_first[1:] = (place[1:] != place[:-1]) | (changes.key[1:] != changes.key[:-1])
        asked = changes.key[is_first], place[is_first].copy()
        was, places = self._ways(state, *asked)
        state.rows.merge(changes)
        said, now = self._ways(state, *asked, known=places)
        changed = difference(was, now) if was.rows else now
        if not changed.rows:
            return said
        # one chunk behind the other: to lay them together takes longer than all that is done with them
        times = ("vs", "old_ve", "new_ve")
        vs, old_ve, new_ve = (np.concatenate([getattr(said, t), getattr(changed, t)]) for t in times)
        return Batch(vs, old_ve, new_ve, said.payload.vstack(changed.payload))

    def _changes(self, state: State, rows: Batch) -> Changes:
        """Which rows come and go, by place; of those without a place it is the first."""
        if not rows.rows:
            return Changes.net(_NONE, (_NONE, _NONE, _NONE, _NONE), _NONE)
        at = rows.payload.get_column(self.node.place)
        nowhere = nulls_in(at)
        place = at.fill_null(BEGIN).to_numpy() if nowhere.any() else at.to_numpy()
        if ((place == BEGIN) & ~nowhere).any():
            raise OperatorError("automaton: there is no place before the least integer")
        key, number = state.keys.number(rows.payload), state.payloads.number(rows.payload)
        state.rows.admit(len(state.keys))
        known = len(state.symbols)
        if len(state.payloads) > known:
            new = state.payloads.take(np.arange(known, len(state.payloads)))
            state.symbols = np.concatenate([state.symbols, self.symbols.find(new)])
        gone, come = rows.old_ve > rows.vs, rows.new_ve > rows.vs
        if not self.node.keys and not gone.any() and (place[1:] > place[:-1]).all():
            # they come in order: there is nothing to be netted
            there = np.column_stack((place, rows.vs, rows.new_ve, number))
            return Changes(key, there, np.ones(len(key), dtype=np.int64))
        columns = tuple(
            np.concatenate([before[gone], after[come]])
            for before, after in (
                (place, place), (rows.vs, rows.vs), (rows.old_ve, rows.new_ve), (number, number)
            )
        )  # fmt: skip
        sign = np.ones(len(columns[0]), dtype=np.int64)
        sign[: int(np.count_nonzero(gone))] = -1
        return Changes.net(np.concatenate([key[gone], key[come]]), columns, sign)

    def _ways(
        self, state: State, key: Ints, place: Ints, known: Ints | None = None
    ) -> tuple[Batch, Any]:
        """All ways from the rows on that look at these places.

        First those that begin where none of the `known` does, then the others. If none are known: all
        ways, and where they begin.
        """
        slabs = state.rows
        given = slabs.start, slabs.size, slabs.rows, slabs.said, key, place, state.longest
        count = kernel.looking(*given, False, _NONE, _NONE)
        row, of = (np.empty(count, dtype=np.int64) for _ in range(2))
        kernel.looking(*given, True, row, of)
        begin = slabs.rows[row, _PLACE]
        ways = self._followed(state, row, of, begin)
        seen = kernel.note(slabs.rows, slabs.said, row, ways.origin, ways.end)
        state.longest = max(state.longest, seen)
        if known is None:
            return self._said(state, ways, of, begin), begin
        is_known = np.isin(begin, known)[ways.origin]
        if not is_known.any():
            return self._said(state, ways, of, begin), Batch.empty(self.node.schema)
        # rows are in order of their places, and so are ways: as a rule those that go on come first
        first = int(np.count_nonzero(is_known))
        which: tuple[Any, Any] = slice(first, None), slice(first)
        if not is_known[:first].all():
            which = np.flatnonzero(~is_known), np.flatnonzero(is_known)
        new, old = (self._said(state, _those(ways, each), of, begin) for each in which)
        return new, old

    def _followed(self, state: State, row: Ints, key: Ints, begin: Ints) -> _Ways:
        """All ways from these rows on."""
        if self.plain is not None and self.start >= 0:
            found = self._at_once(self.plain, state, row, key)
            if found is not None:
                return found
        return self._by_columns(state, row, key, begin)

    def _at_once(self, plain: _Plain, state: State, row: Ints, key: Ints) -> _Ways | None:
        """The same by compiled code alone; none if polars must compute something."""
        slabs, room = state.rows, 8 * len(row) + 64
        done = np.zeros(3, dtype=np.int64)
        wide, real = len(plain.i_first), len(plain.f_first)
        tables: list[npt.NDArray[Any]] = [np.empty((0, kernel.WAY), dtype=np.int64)]
        tables += [np.empty((0, wide), dtype=np.int64), np.empty((0, real), dtype=np.float64)]
        why = kernel.FULL
        while why == kernel.FULL:
            larger = [np.empty((room, each.shape[1]), dtype=each.dtype) for each in tables]
            for before, now in zip(tables, larger, strict=True):
                now[: done[2]] = before[: done[2]]
            tables, room = larger, 2 * room
            why = kernel.follow(
                slabs.start, slabs.size, slabs.rows, slabs.count, state.symbols, self.first, self.after,
                row, key, self.start, *plain.programs, plain.targets, plain.i_move, plain.f_move,
                plain.i_first, plain.f_first, *tables, done,
            )  # fmt: skip
        if why == kernel.UNFIT:
            return None
        ways, whole, reals = (each[: done[2]] for each in tables)
        registers = [
            column_of("", np.ascontiguousarray(whole[:, t] if t >= 0 else reals[:, -1 - t]))
            for t in plain.targets.tolist()
        ]
        columns = (np.ascontiguousarray(ways[:, i]) for i in range(kernel.HINT))
        origin, end, at, vs, ve, copies = columns
        return _Ways(origin, end, at, vs, ve, copies, registers)

    def _by_columns(self, state: State, row: Ints, key: Ints, begin: Ints) -> _Ways:
        """All ways from these rows on, one place further each time."""
        slabs = state.rows
        registers = [first.new_from_index(0, len(row)) for first, _ in self.node.registers.values()]
        ways = _Ways(
            np.arange(len(row)),
            # nothing begins nowhere
            np.where(begin == BEGIN, INF, begin - 1),
            np.full(len(row), self.start),
            slabs.rows[row, _VS],
            slabs.rows[row, _VE],
            slabs.count[row],
            registers,
        )
        found = [ways]
        hint = row
        if self.start < 0:
            return ways
        while len(ways.origin):
            ways, hint = self._step(state, ways, key[ways.origin], begin, hint)
            found.append(ways)
        return _all(found)

    def _step(self, state: State, ways: _Ways, key: Ints, begin: Ints, hint: Ints) -> tuple[_Ways, Ints]:
        """The ways that are one place longer; and where the rows behind them may be."""
        slabs = state.rows
        given = (
            slabs.start, slabs.size, slabs.rows, state.symbols, self.first,
            key, hint, ways.end, ways.state, ways.vs, ways.ve,
        )  # fmt: skip
        count = kernel.steps(*given, False, _NONE, _NONE, _NONE, _NONE, _NONE)
        way, row, move, vs, ve = (np.empty(count, dtype=np.int64) for _ in range(5))
        kernel.steps(*given, True, way, row, move, vs, ve)
        registers = ways.registers
        if self.condition is not None or registers:
            read = self._reader(state, ways, begin, (way, row, move))
            registers = [update.over(read) for update in self.registers]
            if self.condition is not None and count:
                may = true_in(self.condition.over(read))
                if not may.all():
                    some = np.flatnonzero(may)
                    way, row, move, vs, ve = (each[some] for each in (way, row, move, vs, ve))
                    registers = [each.gather(some) for each in registers]
        further = _Ways(
            ways.origin[way],
            ways.end[way] + 1,
            self.after[move],
            vs,
            ve,
            ways.copies[way] * slabs.count[row],
            registers,
        )
        return further, row + 1

    def _reader(self, state: State, ways: _Ways, begin: Ints, steps: tuple[Ints, Ints, Ints]) -> Read:
        """The columns that conditions and registers read, of ways, rows and transitions."""
        names = list(self.node.registers)
        way, row, move = steps
        payload: list[pl.DataFrame] = []

        def read(name: str) -> pl.Series:
            if name in names:
                return ways.registers[names.index(name)].gather(way)
            if name in self.moves.columns:
                return self.moves.get_column(name).gather(move)
            if name == "begin":
                return column_of(name, begin[ways.origin[way]])
            if name == "end":
                return column_of(name, ways.end[way])
            if name == "state":
                return self.states.gather(ways.state[way])
            if not payload:
                payload.append(state.payloads.take(state.rows.rows[row, _PAYLOAD]))
            return payload[0].get_column(name)

        return read

    def _said(self, state: State, ways: _Ways, key: Ints, begin: Ints) -> Batch:
        """The ways as events."""
        if (ways.copies > 1).any():
            ways = _those(ways, np.repeat(np.arange(len(ways.copies)), ways.copies))
        columns = state.keys.take(key[ways.origin]).get_columns() if self.node.keys else []
        starts = column_of("begin", begin[ways.origin])
        ends = column_of("end", ways.end)
        nowhere = begin[ways.origin] == BEGIN
        if nowhere.any():
            mask = column_of("", nowhere)
            starts, ends = starts.set(mask, None), ends.set(mask, None)
        states = (
            self.node.start.new_from_index(0, len(ways.end))
            if self.start < 0
            else self.states.gather(ways.state)
        )
        named = zip(self.node.registers, ways.registers, strict=True)
        columns += [starts, ends, states.alias("state"), *(each.alias(name) for name, each in named)]
        return Batch.inserts(ways.vs, ways.ve, framed(columns, len(ways.end)))

    def on_punctuation(self, state: State, port: int, punctuation: Punctuation) -> Answer:
        """Rows that have ended are forgotten, now and then; the promise holds as it is."""
        state.cti = max(state.cti, punctuation.before)
        state.closed.purge(state.cti)
        state.closed.apart.free(state.cti)
        if state.cti == INF:
            state.rows.clear()
            self._sweep(state)
        elif self._is_time(state):
            self._forget(state)
        return Answer((punctuation,))

    def on_patterns(self, state: State, port: int, told: Sequence[Promise]) -> Answer:
        """Keys and places are closed: what follows for ways; rows are forgotten by it."""
        node, known = self.node, state.closed
        usable = of_columns(known.apart, told, (*node.keys, node.place), node.input.schema, state.cti)
        of_keys = [each for each in usable if each.speaks_only_of(node.keys)]
        of_places = [each for each in usable if not each.speaks_only_of(node.keys)]
        whole, found = within(known, state.keys, state.rows, of_places, node.place)
        of_keys += whole
        self._close(state, of_keys)
        if self._is_time(state):
            self._forget(state)
        return Answer((*of_keys, *found), given_up=known.apart.note(node.input.schema))

    def _close(self, state: State, told: Sequence[Promise]) -> None:
        """Keys are closed."""
        key, until = frontiers(matched(state.keys, told))
        if not len(key):
            return
        slabs = state.rows
        slabs.admit(len(state.keys))
        given = slabs.start, slabs.size, slabs.rows, slabs.count, slabs.said
        slabs.total -= kernel.close(*given, key, until)
        state.closed.forget(key[until == INF])

    def _is_time(self, state: State) -> bool:
        return max(state.rows.total, len(state.payloads), len(state.keys)) >= state.sweep_at

    def _forget(self, state: State) -> None:
        """Drop the rows that have ended, and those that no way needs which may change."""
        slabs, known = state.rows, state.closed
        slabs.admit(len(state.keys))
        given = slabs.start, slabs.size, slabs.rows, slabs.count, slabs.said
        kernel.forget(*given, state.cti)
        key, high, nowhere = closed_for_ever(known)
        if len(key):
            kernel.forget_places(*given, key, high, nowhere)
        self._sweep(state)

    def _sweep(self, state: State) -> None:
        """Close the holes, and forget groups and payloads that are not in use."""
        slabs, count = state.rows, len(state.keys)
        slabs.admit(count)
        alive = (slabs.size[:count] > 0) | state.closed.in_use(count)
        state.closed.renumber(state.keys.keep(alive))
        slabs.compact(alive)
        places = slabs.places()
        used = np.zeros(len(state.payloads), dtype=np.bool_)
        used[slabs.rows[places, _PAYLOAD]] = True
        numbers = state.payloads.keep(used)
        state.symbols = state.symbols[used]
        # new numbers are in the order of the old ones, so that rows stay in order
        slabs.rows[places, _PAYLOAD] = numbers[slabs.rows[places, _PAYLOAD]]
        looked = np.where(slabs.rows[places, _PLACE] == BEGIN, BEGIN, slabs.said[places])
        state.longest = int((looked - slabs.rows[places, _PLACE]).max()) if len(places) else 0
        state.sweep_at = sweep_after(max(slabs.total, len(state.keys)))

    def describe(self, state: State) -> Description:
        """One row for each that is remembered."""
        return Description(state_rows=state.rows.total)


def _those(ways: _Ways, which: Any) -> _Ways:
    """Some of the ways: these, or a slice."""
    registers = [
        each[which] if isinstance(which, slice) else each.gather(which) for each in ways.registers
    ]
    return _Ways(
        ways.origin[which], ways.end[which], ways.state[which], ways.vs[which], ways.ve[which],
        ways.copies[which], registers,
    )  # fmt: skip


def _all(found: list[_Ways]) -> _Ways:
    names = ("origin", "end", "state", "vs", "ve", "copies")
    numbers = {name: np.concatenate([getattr(each, name) for each in found]) for name in names}
    registers = zip(*(each.registers for each in found), strict=True)
    return _Ways(**numbers, registers=[pl.concat(parts) for parts in registers])
