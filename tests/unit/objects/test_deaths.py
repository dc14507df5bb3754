"""What is left when one side dies."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy
import pytest

from scaler_protocol.messages import StoreAbandon, StoreCreate, StoreDrop
from scaler_protocol.objects.errors import MissingObject, StoreUnavailable
from scaler_protocol.objects.layout import parts_of
from scaler_protocol.objects.link import LinkLost
from tests.support.sabotage import write_sabotage
from tests.support.waiting import wait_until
from tests.unit.objects.conftest import Connect
from tests.unit.objects.programs import Program
from tests.unit.objects.test_store import LARGE, key, status_when


def test_a_reader_killed_while_it_maps_gives_the_memory_back(cluster: bytes, connect: Connect) -> None:
    one = connect()
    one.put(key(1), b"a" * LARGE)
    code = "views = [store.get(key(1)) for _ in range(5)]; say(bytes(views[0][:1]).decode()); hear()"
    with Program(cluster, code) as reader:
        assert reader.hear() == "a"
        one.drop([key(1)])
        status = one.status(30)
        assert status.pinned_bytes == LARGE and status.objects == 0
        reader.kill()
    status_when(one, lambda status: status.pinned_bytes == 0 and status.used_bytes == 0)


def test_readers_killed_again_and_again(cluster: bytes, connect: Connect) -> None:
    """Whatever they were doing: memory comes back and readers that live see what was written."""
    one = connect()
    code = """
number = 0
while True:
    number += 1
    name = key(os.getpid() * 1_000_000 + number)
    store.put(name, bytes([number % 251]) * (100_000 + number % 7 * 300_000))
    view = store.get(name)
    assert view[0] == view[-1] == number % 251
    if number == 20: say("running")
    if number % 3: store.drop([name])
"""
    mine = b"m" * LARGE
    one.put(key(1), mine)
    view = one.get(key(1), 30)
    for _ in range(6):
        with Program(cluster, code) as program:
            assert program.hear() == "running"
            program.kill()
        assert view == mine and one.get(key(1), 30) == mine
    one.forget(key(1).owner)
    del view
    gc.collect()
    status_when(one, lambda status: status.used_bytes == 0 and status.pinned_bytes == 0)


def test_a_writer_killed_in_the_middle_leaves_nothing(cluster: bytes, connect: Connect) -> None:
    one = connect()
    code = """
from scaler_protocol.messages import StoreCreate
store.connect()
store._link.ask(key(1), StoreCreate(key(1), 50_000_000))
say("granted"); hear()
"""
    with Program(cluster, code) as writer:
        assert writer.hear() == "granted"
        outcome: list[object] = []

        def wait() -> None:
            try:
                outcome.append(one.get(key(1), 60))
            except MissingObject as error:
                outcome.append(error)

        waiting = threading.Thread(target=wait)
        waiting.start()
        writer.kill()
        waiting.join()
    assert isinstance(outcome[0], MissingObject)
    assert status_when(one, lambda status: status.used_bytes == 0).objects == 0


def test_what_a_killed_writer_had_put_stays(cluster: bytes, connect: Connect) -> None:
    one = connect()
    one.connect()
    with Program(
        cluster, "store.put(key(1), b'small'); store.put(key(2), bytes(3_000_000)); say('put'); hear()"
    ) as dead:
        assert dead.hear() == "put"
        dead.kill()
    assert one.get(key(1), 30) == b"small" and one.get(key(2), 30) == bytes(3_000_000)


def test_a_killed_store_leaves_mappings_and_is_replaced(connect: Connect) -> None:
    one = connect()
    one.put(key(1), b"a" * LARGE)
    one.put(key(2), b"b" * LARGE)
    array = numpy.frombuffer(one.get(key(1), 30), dtype="u1")
    status = one.status(30)
    os.kill(status.pid, signal.SIGKILL)
    with pytest.raises(MissingObject):
        one.get(key(2), 30)
    assert one.store != status.store
    assert array.sum() == LARGE * ord("a")
    one.put(key(1), b"b" * LARGE)
    assert one.get(key(1), 30) == b"b" * LARGE and array[0] == ord("a")


def test_a_store_stopped_in_its_tracks_is_a_timeout(connect: Connect) -> None:
    one = connect()
    one.put(key(1), b"x" * LARGE)
    pid = one.status(30).pid
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(TimeoutError):
            one.get(key(1), 0.2)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert one.get(key(1), 30) == b"x" * LARGE


def test_a_fork_keeps_what_it_inherited(connect: Connect) -> None:
    """The parent lets go of an array that its child still reads: the store must not use that memory again."""
    one, other = connect(), connect()
    one.put(key(1), b"a" * LARGE)
    array = numpy.frombuffer(one.get(key(1), 30), dtype="u1")
    go, going = os.pipe()
    child = os.fork()
    if not child:
        os.read(go, 1)
        right = array.sum() == LARGE * ord("a")
        mine = one.get(key(1000), 30) == b"new"  # over a connection of its own
        os._exit(0 if right and mine else 1)
    del array
    gc.collect()
    one.drop([key(1)])
    for number in range(2, 8):
        one.put(key(number), b"b" * LARGE)
    other.put(key(1000), b"new")
    assert other.status(30).pinned_bytes == LARGE
    os.write(going, b"x")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    status_when(other, lambda status: status.pinned_bytes == 0)
    os.close(go)
    os.close(going)


def test_forks_without_arrays_cost_nothing(connect: Connect) -> None:
    one = connect()
    one.put(key(1), b"a" * LARGE)
    store = one.store
    for _ in range(3):
        child = os.fork()
        if not child:
            os._exit(0 if one.get(key(1), 30) == b"a" * LARGE else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert one.store == store and one.get(key(1), 30) == b"a" * LARGE


def test_what_was_put_soon_survives_a_fork(connect: Connect) -> None:
    one, other = connect(), connect()
    one.put(key(1), b"a" * LARGE)
    array = numpy.frombuffer(one.get(key(1), 30), dtype="u1")  # so that the connection is given up
    one.put(key(2), b"b")
    one.put_somewhere(key(3), b"c", soon=True)
    child = os.fork()
    if not child:
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert other.get(key(3), 30) == b"c" and array.sum() == LARGE * ord("a")


def test_nothing_is_held_for_a_connection_that_was_given_up(connect: Connect) -> None:
    """An object that is put soon, while another thread forks, goes over the next connection."""
    one, other = connect(), connect()
    one.put(key(1), b"a" * LARGE)
    array = numpy.frombuffer(one.get(key(1), 30), dtype="u1")
    link = one._connected()
    link.after_fork()
    with pytest.raises(LinkLost):
        link.tell_soon(StoreDrop((key(2),)))
    one.put_somewhere(key(3), b"c", soon=True)
    one.flush()
    assert other.get(key(3), 30) == b"c" and array.sum() == LARGE * ord("a")


def test_an_interrupted_request_spoils_nothing(connect: Connect) -> None:
    one = connect()
    one.put(key(1), b"a" * LARGE)

    class Interrupted(BaseException):
        pass

    def interrupt(*_: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for microseconds in range(20, 3000, 37):
            try:
                signal.setitimer(signal.ITIMER_REAL, microseconds / 1e6)
                while True:
                    one.get(key(1), 30)
                    one.put(key(microseconds), bytes(1000))
            except Interrupted:
                signal.setitimer(signal.ITIMER_REAL, 0)
            assert one.get(key(1), 30) == b"a" * LARGE
    finally:
        signal.signal(signal.SIGALRM, before)
    gc.collect()
    status_when(one, lambda status: status.pinned_bytes == 0)


def test_what_was_put_soon_survives_an_interrupted_request(connect: Connect) -> None:
    one, other = connect(), connect()
    one.put(key(1), b"a")
    one.put_somewhere(key(2), b"b", soon=True)
    pid = other.status(30).pid
    os.kill(pid, signal.SIGSTOP)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(KeyboardInterrupt):
            one.contains(key(3), 30)
    finally:
        signal.signal(signal.SIGALRM, before)
        os.kill(pid, signal.SIGCONT)
    assert other.get(key(2), 30) == b"b"


def test_nobody_else_of_this_host_gets_in(connect: Connect, cluster: bytes) -> None:
    one = connect()
    one.put(key(1), b"secret")
    if os.getuid() != 0:
        pytest.skip("another user is needed, which only root can become")
    code = (
        "import os, socket; os.setgroups([]); os.setgid(65534); os.setuid(65534); s = socket.socket(socket.AF_UNIX); "
        f"s.connect('\\0scaler-store-0-{cluster.hex()}'); s.settimeout(20); print(len(s.recv(1)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "0\n" or "ConnectionResetError" in done.stderr, done.stderr
    wait_until(lambda: one.status(30).objects == 1)


def test_threads_go_on_when_one_is_interrupted(connect: Connect) -> None:
    """The interruption ends the connection that they share; each goes on with the next one."""
    one, other = connect(), connect()
    other.connect()
    outcomes: list[object] = []

    def wait() -> None:
        outcomes.append(one.contains(key(1), 60))

    writer = other._connected()
    writer.ask(key(1), StoreCreate(key(1), LARGE))
    threads = [threading.Thread(target=wait) for _ in range(3)]
    for thread in threads:
        thread.start()
    one._connected().spoil()
    assert one.contains(key(2)) is None
    writer.tell(StoreAbandon(key(1)))
    for thread in threads:
        thread.join(30)
    assert outcomes == [None] * 3


def test_a_writer_whose_connection_was_cut_writes_into_no_other_object(connect: Connect) -> None:
    """It does not know yet that its connection has ended, or is in the middle of a copy."""
    one, other = connect(), connect()
    writer = one._connected()
    granted = writer.ask(key(1), StoreCreate(key(1), LARGE))
    writer._stream.shut_down()
    status_when(other, lambda status: status.objects == 0)
    other.put(key(2), b"o" * LARGE)
    writer.write(granted, granted.offset, parts_of(b"w" * LARGE))
    assert other.get(key(2), 30) == b"o" * LARGE
    assert one.put(key(1), b"w" * LARGE) == LARGE
    status_when(other, lambda status: status.objects == 2 and status.used_bytes == 2 * LARGE)


def test_nothing_is_read_through_a_connection_that_another_thread_has_ended(connect: Connect) -> None:
    """The store may have used the memory for another object by then."""
    one = connect()
    one.put(key(1), b"a" * LARGE)
    reader = one._connected()
    extent = reader.ask_for(key(1), 30)
    reader._releases.leave()
    with pytest.raises(LinkLost):
        reader.read(extent)


FAILS_WHILE_TOLD_TO = """
if module == "scaler_protocol.objects.store":
    from scaler_protocol.objects.server import ObjectServer
    settle = ObjectServer._settle_doubts
    def sabotaged(self):
        if os.path.exists({flag!r}):
            raise {error}
        settle(self)
    ObjectServer._settle_doubts = sabotaged
"""


@pytest.mark.parametrize(
    ("error", "why"),
    [("ValueError('a defect')", "ValueError: a defect"), ("MemoryError", "ended: it has no memory left")],
)
def test_a_store_that_fails_in_turn_after_turn_ends_says_why_and_another_takes_its_place(
    error: str, why: str, connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flag = tmp_path / "fails"
    write_sabotage(tmp_path / "path", FAILS_WHILE_TOLD_TO.format(flag=str(flag), error=error))
    monkeypatch.syspath_prepend(str(tmp_path / "path"))
    one = connect()
    first = one.connect()
    one.put(key(1), b"a" * LARGE)
    view = one.get(key(1), 30)
    flag.touch()
    with pytest.raises(StoreUnavailable, match=why):
        one.status(60)
    flag.unlink()
    assert one.connect() != first
    with pytest.raises(MissingObject):
        one.get(key(1), 30)
    assert view == b"a" * LARGE, "what is mapped stays"
    one.put(key(2), b"b" * LARGE)
    assert one.get(key(2), 30) == b"b" * LARGE
