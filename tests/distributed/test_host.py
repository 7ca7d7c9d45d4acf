"""Buckets that are asked for a batch, whatever they were at before: they come to the same."""

from __future__ import annotations

import multiprocessing
import pickle
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.distributed import host as hosts
from slackwater.distributed import keeper
from slackwater.distributed.bucket import Said, parcels_of
from slackwater.distributed.host import Host
from slackwater.distributed.lines import Line, Message
from slackwater.distributed.parcels import SCHEMA, From, Parcel, from_arrow, spread, to_arrow
from slackwater.distributed.program import Program, program_of
from slackwater.distributed.quarters import Quarters, clear, inode_of
from slackwater.distributed.store import Place, Received, Store
from slackwater.ledger import Entry

SOURCE = sw.stream({"k": int, "v": int}, name="s")
QUERY = SOURCE.group_by("k").aggregate(n=sw.count(), top=sw.max("v"))
BATCHES = 8
WHERE = Place(1, 0)


def _program() -> Program:
    return program_of(QUERY.node, buckets=1)


def _parcels(number: int) -> list[Parcel]:
    random = np.random.default_rng(number)
    vs = 10 * number + random.integers(0, 10, 20)
    payload = pl.DataFrame({"k": random.integers(0, 3, 20), "v": random.integers(0, 50, 20)})
    rows = sw.Batch.inserts(vs, vs + random.integers(1, 30, 20), payload)
    return list(parcels_of(From("0", 10 * number), (1, 0), spread(rows, ["k"], 1), 1))


def _received(number: int, now: int) -> Received:
    return Received.of([to_arrow(_parcels(number))], now)


def _write_states_after(log_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "_LEAST_LOG", log_bytes)
    monkeypatch.setattr(hosts, "weight", lambda _: 0)


def _shown(said: Said) -> list[object]:
    schema = QUERY.schema
    return [(p.promise, list(p.batch(schema))) for p in said.parcels]


def _undisturbed(root: Path) -> list[list[object]]:
    host = Host(_program(), Store(str(root)))
    return [_shown(host.step(WHERE, number, _received(number, now=number))) for number in range(BATCHES)]


@pytest.mark.parametrize("least", [0, 1 << 20], ids=["states often", "parcels only"])
def test_a_new_host_goes_on(least: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write_states_after(least, monkeypatch)
    wanted = _undisturbed(tmp_path / "a")
    store = Store(str(tmp_path / "b"))
    for number in range(BATCHES):
        said = Host(_program(), store).step(WHERE, number, _received(number, now=number))
        assert _shown(said) == wanted[number]
    if least == 0:
        files = [path.name for path in (tmp_path / "b" / "1" / "0").iterdir()]
        assert len(files) <= 5, "what is of no more use is gone"


def test_a_batch_may_be_repeated_and_a_query_taken_up_earlier(tmp_path: Path) -> None:
    wanted = _undisturbed(tmp_path / "a")
    host = Host(_program(), Store(str(tmp_path / "b")))
    for number in (0, 1, 1, 2, 3, 3, 2, 3, 4, 5, 1, 2, 3, 4, 5, 6, 7):
        assert _shown(host.step(WHERE, number, _received(number, now=number))) == wanted[number]


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    host = Host(_program(), Store(str(tmp_path)))
    with pytest.raises(sw.OperatorError, match="cannot be restored") as error:
        host.step(WHERE, 3, _received(3, now=3))
    assert "batch 2 is missing" in error.value.detail


def test_another_plan_is_refused_and_the_same_goes_on(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    store.begin(store.fitting(_program()))
    store.begin(store.fitting(_program()))
    other = SOURCE.group_by("k").aggregate(n=sw.count(), top=sw.min("v"))
    with pytest.raises(sw.PlanError, match="another plan") as error:
        store.fitting(program_of(other.node, buckets=1))
    assert "Min" in error.value.detail


def test_hosts_may_take_turns(tmp_path: Path) -> None:
    """A bucket goes from one to the other and back; each is behind when it is asked again."""
    wanted = _undisturbed(tmp_path / "a")
    hosts_ = [Host(_program(), Store(str(tmp_path / "b"))) for _ in range(2)]
    for number, which in enumerate((0, 1, 1, 0, 1, 0, 0, 1)):
        said = hosts_[which].step(WHERE, number, _received(number, now=number))
        assert _shown(said) == wanted[number]


def test_a_batch_that_another_host_has_run_again_is_taken_from_there(tmp_path: Path) -> None:
    """What came in differed, as it does where rows are drawn anew: all go on from what was recorded."""
    wanted = _undisturbed(tmp_path / "a")
    store = Store(str(tmp_path / "b"))
    one, other = (Host(_program(), store) for _ in range(2))
    one.step(WHERE, 0, _received(7, now=0))
    store.write_record(0, {WHERE: other.step(WHERE, 0, _received(0, now=0)).standing.link})
    assert _shown(one.step(WHERE, 1, _received(1, now=1))) == wanted[1]
    # and an attempt that is asked for again counts, whoever was there in the meantime
    other.step(WHERE, 1, _received(6, now=1))
    again = one.step(WHERE, 1, _received(1, now=1))
    assert _shown(again) == wanted[1]
    store.write_record(1, {WHERE: again.standing.link})
    assert _shown(other.step(WHERE, 2, _received(2, now=2))) == wanted[2]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of an application, whose keepers end with the test."""
    # short: the name of a socket has at most a hundred characters
    temporary = tempfile.mkdtemp()
    monkeypatch.setattr(tempfile, "tempdir", temporary)
    monkeypatch.setenv("TMPDIR", temporary)
    yield "test"
    for started in keeper._started:
        started.terminate()
    for started in keeper._started:
        started.wait(timeout=60)
    keeper._started.clear()
    keeper._lines.clear()
    assert not list(Path(temporary).iterdir()), "they leave nothing behind"
    Path(temporary).rmdir()


def _asked(number: int, root: Path) -> keeper.Asked:
    pickled = pickle.dumps(_program())
    rows = [to_arrow(_parcels(number))]
    return keeper.Asked(WHERE, number, number, rows, program=pickled, root=str(root))


def _parcels_of(told: Message) -> list[Parcel]:
    return [parcel for rows in told.rows for parcel in from_arrow(rows)]


def test_a_keeper_does_it_for_others(run: str, tmp_path: Path) -> None:
    """It is started when it is needed, and again when it is gone: killed, or told to end."""
    wanted = _undisturbed(tmp_path / "a")
    for number in range(6):
        if number in (2, 4):
            [started] = keeper._started
            started.kill() if number == 2 else started.terminate()
            started.wait(timeout=60)
        told = keeper.ask(run, 0, _asked(number, tmp_path / "b"))
        said = [(p.promise, list(p.batch(QUERY.schema))) for p in _parcels_of(told)]
        assert said == wanted[number]
        assert told.header["standing"]["rows_in"] == 20


def test_a_line_carries_messages_of_any_size_until_the_other_end_is_gone() -> None:
    one, other = (Line(connection) for connection in multiprocessing.Pipe())
    large = to_arrow([Parcel(1, 0, 0, "0", "", n, rows=1, data=bytes(1 << 20)) for n in range(3)])
    messages = [Message({"n": 1}), Message({"n": 2}, [large, to_arrow([])]), Message({"n": 3}, [large])]
    with ThreadPoolExecutor(1) as pool:
        sent = pool.map(one.send, messages)
        for message in messages:
            told = other.receive()
            assert (told.header, [*told.rows]) == (message.header, [*message.rows])
        assert [*sent] == [None] * len(messages)
    one.close()
    with pytest.raises(EOFError):
        other.receive()


def test_a_message_that_is_cut_off_between_two_batches_is_not_a_whole_one() -> None:
    near, far = multiprocessing.Pipe()
    rows = to_arrow([Parcel(1, 0, 0, "0", "", 0, rows=1, data=bytes(64))])
    told = {"header": "{}", "batches": "2"}
    with open(near.fileno(), "wb", closefd=False) as file:
        writer = pa.ipc.new_stream(file, SCHEMA.with_metadata(told))
        writer.write_batch(rows)
    near.close()
    with pytest.raises(EOFError):
        Line(far).receive()


def test_a_program_that_a_keeper_cannot_read_is_told(run: str, tmp_path: Path) -> None:
    """It may name a module that only those have who ask."""
    pickled = b"cmodule_of_nobody\nname\n."
    asked = keeper.Asked(WHERE, 0, 0, [], program=pickled, root=str(tmp_path))
    with pytest.raises(sw.OperatorError, match="cannot read the program") as caught:
        keeper.ask(run, 0, asked)
    assert "module_of_nobody" in caught.value.detail


def test_what_goes_wrong_in_a_keeper_is_told(run: str, tmp_path: Path) -> None:
    with pytest.raises(sw.OperatorError, match="cannot be restored"):
        keeper.ask(run, 0, _asked(5, tmp_path))


def test_a_keeper_lives_as_long_as_one_of_those_who_asked(
    run: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two executors of a host share it; the one that has started it may go first."""
    with _process() as first, _process() as second:
        for number, guardian in enumerate((first, second)):
            monkeypatch.setattr(keeper, "_guardian", lambda guardian=guardian: guardian.pid)
            keeper.ask(run, 0, _asked(number, tmp_path / "b"))
        [started] = keeper._started
        first.kill()
        first.wait()
        told = keeper.ask(run, 0, _asked(2, tmp_path / "b"))
        assert told.header["standing"]["rows_in"] == 20
        assert keeper._started == [started]
        assert started.poll() is None
        second.kill()
        second.wait()
        assert started.wait(timeout=60) == 0


@contextmanager
def _process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process


def test_who_ends_does_not_remove_what_its_successor_has(run: str) -> None:
    """A keeper that is slow to end finds another's socket in its place."""
    quarters = Quarters(run)
    with quarters.entered(0):
        first = socket.create_server(str(quarters.socket(0)), family=socket.AF_UNIX)
        inode = inode_of(quarters.socket(0))
        quarters.socket(0).unlink()
        second = socket.create_server(str(quarters.socket(0)), family=socket.AF_UNIX)
    quarters.leave(0, inode)
    assert quarters.socket(0).exists()
    assert len(quarters.key) == 32
    first.close()
    second.close()
    clear()
    assert not quarters.path.exists()


def test_what_others_have_left_is_removed_if_it_is_of_keepers(run: str) -> None:
    killed, strange = Quarters("killed"), Quarters("strange")
    for quarters in (killed, strange):
        with quarters.entered(3):
            socket.create_server(str(quarters.socket(3)), family=socket.AF_UNIX).close()
    (strange.path / "notes.lock").touch()
    clear()
    assert not killed.path.exists()
    assert [path.name for path in strange.path.glob("*.*")] == ["notes.lock"]
    (strange.path / "notes.lock").unlink()
    clear()


def test_many_come_and_go_at_once(run: str) -> None:
    """The directory is removed and made again under them; nobody ever meets another in a slot."""
    inside = [0, 0]
    met = []

    def come_and_go(seed: int) -> None:
        for turn in range(60):
            slot = (seed + turn) % 2
            quarters = Quarters(run)
            with quarters.entered(slot):
                inside[slot] += 1
                met.append(inside[slot])
                assert len(quarters.key) == 32
                inside[slot] -= 1
            quarters.leave(slot, None)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(come_and_go, range(6)))
    assert set(met) == {1}


def test_what_an_attempt_has_left_behind_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch is run, with its state written; then it is repeated, with other rows."""
    _write_states_after(0, monkeypatch)
    store = Store(str(tmp_path / "b"))
    Host(_program(), store).step(WHERE, 0, _received(7, now=0))
    wanted = _undisturbed(tmp_path / "a")
    _write_states_after(1 << 20, monkeypatch)
    for number in range(3):
        said = Host(_program(), store).step(WHERE, number, _received(number, now=number))
        assert _shown(said) == wanted[number]
        store.write_record(number, {WHERE: said.standing.link})


@pytest.mark.parametrize("least", [0, 1 << 20], ids=["states often", "parcels only"])
def test_who_should_be_dead_spoils_nothing(
    least: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host of an earlier run goes on behind every batch of the next one, with other rows."""
    _write_states_after(least, monkeypatch)
    wanted = _undisturbed(tmp_path / "a")
    store = Store(str(tmp_path / "b"))
    stale = Host(_program(), store)
    stale.step(WHERE, 0, _received(70, now=0))
    for number in range(BATCHES):
        said = Host(_program(), store).step(WHERE, number, _received(number, now=number))
        assert _shown(said) == wanted[number]
        store.write_record(number, {WHERE: said.standing.link})
        stale.step(WHERE, number + 1, _received(71 + number, now=0))


def test_without_a_record_nobody_guesses(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    for seed in (1, 2):
        Host(_program(), store).step(WHERE, 0, _received(seed, now=0))
    with pytest.raises(sw.OperatorError, match="cannot be restored") as error:
        Host(_program(), store).step(WHERE, 1, _received(3, now=1))
    assert "came in 2 ways" in error.value.detail


def test_a_file_that_is_not_what_was_written_is_refused(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    host = Host(_program(), store)
    for number in range(2):
        host.step(WHERE, number, _received(number, now=number))
    first, second = sorted((tmp_path / "1" / "0").iterdir())
    spoiled = second.read_bytes()
    first.write_bytes(spoiled)
    with pytest.raises(sw.OperatorError, match="cannot be restored") as error:
        Host(_program(), store).step(WHERE, 2, _received(2, now=2))
    assert "batch 0 is not what was written" in error.value.detail
    first.unlink()
    with pytest.raises(sw.OperatorError, match="cannot be restored") as error:
        Host(_program(), store).step(WHERE, 2, _received(2, now=2))
    assert "batch 0 is missing" in error.value.detail


def test_what_was_set_aside_and_how_it_stood_is_read_again(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    assert store.buckets is None
    assert store.last_record() is None
    store.begin(store.fitting(program_of(QUERY.node, buckets=3)))
    store.write_entries(4, [Entry(sw.cti(3), "late", "s")])
    store.write_entries(4, [Entry(sw.cti(5), "late", "s"), Entry("x", "bad", "s", "why")])
    store.write_entries(5, [])
    for number in range(301):
        store.write_record(number, {WHERE: "a"}, {"rows_in": number})
    again = Store(str(tmp_path))
    assert again.buckets == 3
    assert again.entries() == {4: [Entry("cti(5)", "late", "s"), Entry("x", "bad", "s", "why")]}
    assert again.last_record() == {"rows_in": 300, "links": {"1/0": "a"}}
    assert again.record(199) is None, "records are kept for a while"
