"""Slackwater: a temporal stream engine. It answers at once, takes back what turns out wrong, and says
which part of the answer can no longer change.

A stream is a history of events, each a payload that is alive during [vs, ve), told in pieces that may
come late, out of order, or be revised:

    sw.insert(0, 10, sensor="a", temp=31.0)        an event begins to exist
    sw.adjust(0, 10, 4, sensor="a", temp=31.0)     its end moves (to its start: it is removed)
    sw.cti(20)                                     a promise: the history before 20 no longer changes
    sw.punctuation(sensor="a")                     another: nothing more comes from sensor a

Write a query once:

    readings = sw.stream({"sensor": str, "temp": float}, name="readings")
    hot = readings.where(sw.col("temp") > 30).window(sw.tumbling("10 min"))

Look at it with `hot.explain()`. Run it in this process with `hot.run({readings: elements})`: iterating
the result gives elements in arrival order, `.history()` the answer as a table, `.settled()` the part of
it that is final. `hot.meaning(...)` computes the answer by definition, for tests.

Expressions are Polars expressions that look at one row at a time; your own function of Arrow arrays
becomes one with `sw.function(f, "temp", returns=float)`. A row that breaks a rule, or for which an
expression has no value, stops the query with an error that names it; with `on_invalid=sw.LEDGER` it is
set aside, and `.ledger` says which and why.

Times are integers (chronons), or datetimes and strings such as "10 min", which become microseconds;
`sw.INF`, or None for an end, is the end of time. Tables become streams with `sw.from_dataframe`.
"""

from polars import col

from slackwater.consistency import (
    EAGER,
    MIDDLE,
    ORDER_PRESERVING,
    PERFECTNESS_PRESERVING,
    STRONG,
    ULTRA,
    Dial,
    OutputLatency,
    weak,
)
from slackwater.corrections import CHANGES, CORRECTIONS, Told
from slackwater.errors import (
    InvalidElement,
    InvalidStream,
    InvalidTime,
    OperatorError,
    PlanError,
    SlackwaterError,
)
from slackwater.events import Adjust, Batch, Control, Event, Insert, adjust, insert
from slackwater.frontends.automata import automaton
from slackwater.frontends.datalog import datalog
from slackwater.history import History
from slackwater.ledger import Ledger
from slackwater.levels import (
    HELD,
    INPUT_PREFIX_CONSISTENT,
    INPUT_PREFIX_UPDATE_COMPLETE,
    MARKED,
    NO_LEVEL,
    SYNCHRONIZED_INPUT_PREFIX_CONSISTENT,
    UPDATE_COMPLETE,
    Adaptive,
    Drain,
    Heeding,
    Level,
    Search,
    Tokens,
)
from slackwater.merging import (
    AT_FIRST_SIGHT,
    AT_STABLE,
    EVERY,
    FROM_LEADER,
    HALF_FROZEN,
    QUARANTINE,
    STOP,
    WITH_LEADER,
    MergePolicy,
    after,
    merge_policy,
)
from slackwater.patterns import ANY, between, one_of
from slackwater.plan.aggregations import (
    avg,
    count,
    count_distinct,
    first,
    fold,
    group_function,
    last,
    max,
    min,
    percentile,
    product,
    rank,
    stddev,
    sum,
    top_k,
    var,
)
from slackwater.plan.functions import function
from slackwater.plan.knowledge import all_reported, domain, ordered_by, unique
from slackwater.plan.lifetimes import VE, VS, hopping, least, most, session, sliding, tumbling
from slackwater.plan.matching import PAST_LAST_ROW, TO_NEXT_ROW, AfterMatch, matched, previous
from slackwater.policies import Progress, progress
from slackwater.punctuations import Closings, ExternalCti, Punctuation, cti, external_cti, punctuation
from slackwater.query import Grouped, Query, RunningQuery, Windowed, fixpoint, merge, stream
from slackwater.rows import changelog, from_dataframe, from_open_close, read_committed, read_files
from slackwater.runtime import LEDGER, RAISE, BottomUp, Fair, Output, RoundRobin, Shuffled
from slackwater.speculation import HighWaterMark, Hybrid, Probing
from slackwater.times import BEGIN, INF
from slackwater.topics import read_kafka
from slackwater.validity import StreamProperties, closed_up_to, validate

__version__ = "0.1.0.dev0"

__all__ = [
    "ANY",
    "AT_FIRST_SIGHT",
    "AT_STABLE",
    "BEGIN",
    "CHANGES",
    "CORRECTIONS",
    "EAGER",
    "EVERY",
    "FROM_LEADER",
    "HALF_FROZEN",
    "HELD",
    "INF",
    "INPUT_PREFIX_CONSISTENT",
    "INPUT_PREFIX_UPDATE_COMPLETE",
    "LEDGER",
    "MARKED",
    "MIDDLE",
    "NO_LEVEL",
    "ORDER_PRESERVING",
    "PAST_LAST_ROW",
    "PERFECTNESS_PRESERVING",
    "QUARANTINE",
    "RAISE",
    "STOP",
    "STRONG",
    "SYNCHRONIZED_INPUT_PREFIX_CONSISTENT",
    "TO_NEXT_ROW",
    "ULTRA",
    "UPDATE_COMPLETE",
    "VE",
    "VS",
    "WITH_LEADER",
    "Adaptive",
    "Adjust",
    "AfterMatch",
    "Batch",
    "BottomUp",
    "Closings",
    "Control",
    "Dial",
    "Drain",
    "Event",
    "ExternalCti",
    "Fair",
    "Grouped",
    "Heeding",
    "HighWaterMark",
    "History",
    "Hybrid",
    "Insert",
    "InvalidElement",
    "InvalidStream",
    "InvalidTime",
    "Ledger",
    "Level",
    "MergePolicy",
    "OperatorError",
    "Output",
    "OutputLatency",
    "PlanError",
    "Probing",
    "Progress",
    "Punctuation",
    "Query",
    "RoundRobin",
    "RunningQuery",
    "Search",
    "Shuffled",
    "SlackwaterError",
    "StreamProperties",
    "Tokens",
    "Told",
    "Windowed",
    "adjust",
    "after",
    "all_reported",
    "automaton",
    "avg",
    "between",
    "changelog",
    "closed_up_to",
    "col",
    "count",
    "count_distinct",
    "cti",
    "datalog",
    "domain",
    "external_cti",
    "first",
    "fixpoint",
    "fold",
    "from_dataframe",
    "from_open_close",
    "function",
    "group_function",
    "hopping",
    "insert",
    "last",
    "least",
    "matched",
    "max",
    "merge",
    "merge_policy",
    "min",
    "most",
    "one_of",
    "ordered_by",
    "percentile",
    "previous",
    "product",
    "progress",
    "punctuation",
    "rank",
    "read_committed",
    "read_files",
    "read_kafka",
    "session",
    "sliding",
    "stddev",
    "stream",
    "sum",
    "top_k",
    "tumbling",
    "unique",
    "validate",
    "var",
    "weak",
]
