"""The store as a process, seen by the programs that use it."""

from __future__ import annotations

import gc
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from scaler_protocol.messages import UPLOAD_NUMBER, ObjectKey, StoreStatus
from scaler_protocol.objects import starting
from scaler_protocol.objects.connection import StoreConnection
from scaler_protocol.objects.errors import MissingObject, StoreUnavailable
from scaler_protocol.objects.layout import parts_of
from scaler_protocol.objects.memory import Releases
from scaler_protocol.objects.names import socket_name
from tests.support.descriptors import free_descriptors
from tests.support.waiting import wait_until
from tests.unit.objects.conftest import Connect
from tests.unit.objects.programs import Program

OWNER = b"owner of objects"
LARGE = 3 * 1024 * 1024
SIZES = [0, 1, 4096, 100_000, 300_000, 1024 * 1024 - 1, 1024 * 1024, LARGE, 70 * 1024 * 1024]


def key(number: int) -> ObjectKey:
    return ObjectKey(OWNER, number)


def status_when(connection: StoreConnection, condition: Callable[[StoreStatus], bool]) -> StoreStatus:
    wait_until(lambda: condition(connection.status(30)), 30)
    return connection.status(30)


@pytest.mark.parametrize("size", SIZES)
def test_what_one_puts_another_gets(connect: Connect, size: int) -> None:
    data = os.urandom(min(size, 1000)) * (size // 1000 + 1)
    one, other = connect(), connect()
    for number in (1, 2, 3):  # fresh memory, then memory used before
        assert one.put(key(number), data[:size]) == size
        assert other.contains(key(number)) == size
        assert other.get(key(number), 30) == data[:size]
        one.drop([key(number)])
        with pytest.raises(MissingObject):
            one.get(key(number), 30)


def test_a_process_without_descriptors_fails_and_continues_when_it_has_some(connect: Connect) -> None:
    connection = connect()
    connection.status(30)
    with free_descriptors(0), pytest.raises(StoreUnavailable, match="Too many open files.*ulimit -n"):
        connection.put(key(1), bytes(LARGE))
    assert connection.put(key(1), bytes(LARGE)) == LARGE
    assert connection.get(key(1), 30) == bytes(LARGE)


@pytest.mark.parametrize("is_known", [True, False])
def test_many_objects_are_put_with_one_call(connect: Connect, is_known: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Together they are larger than a region. ``is_known``: whether the store says that it knows the message."""
    if not is_known:
        monkeypatch.setattr(starting, "PLACE_MANY_FEATURE", "unknown")
    one, other = connect(), connect()
    for first in (1, 1000):  # fresh memory, then memory used before
        data = {key(first + number): bytes([number]) * (40_000 + 97 * number) for number in range(250)}
        store = one.put_all([(each, parts_of(content)) for each, content in data.items()])
        one.flush()
        assert store == one.store == other.connect()
        assert all(other.get(each, 30) == content for each, content in data.items())
        one.drop(list(data))
        status_when(one, lambda status: status.objects == 0)


@pytest.mark.parametrize("position", [None, 0, LARGE - 1])
def test_a_mapping_used_again_shows_the_next_object_and_nothing_written_before(
    connect: Connect, position: int | None
) -> None:
    """``position``: where a reader writes."""
    one, other = connect(), connect()
    for number in range(1, 21):
        data = bytes([number]) * LARGE
        one.put(key(number), data)
        view = other.get(key(number), 30)
        assert view == data
        if position is not None:
            view[position] = 255
        one.drop([key(number)])
        del view
        status_when(one, lambda status: status.pinned_bytes == 0 and status.objects == 0)


def test_mappings_that_are_kept_end_with_their_connection(connect: Connect) -> None:
    one, other = connect(), connect()
    one.put(key(1), bytes(LARGE))
    before = mappings()
    views = [other.get(key(1), 30)]
    assert mappings() == before + 1
    views.clear()
    other.unmap_unused()
    assert mappings() == before
    views.append(other.get(key(1), 30))
    other.close()
    assert bytes(views[0][:10]) == bytes(10)
    views.clear()
    assert mappings() == before


def mappings() -> int:
    """Of this process, of segments, private."""
    with open("/proc/self/maps") as file:
        return sum("rw-p" in line and "memfd:" in line for line in file)


@pytest.mark.parametrize("size", [1000, LARGE])
def test_what_a_reader_writes_is_its_own(connect: Connect, size: int) -> None:
    one, other = connect(), connect()
    one.put(key(1), bytes(size))
    view = other.get(key(1), 30)
    view[:] = b"\1" * size
    assert one.get(key(1), 30) == bytes(size) == other.get(key(1), 30)
    assert view == b"\1" * size


def test_memory_is_used_again_only_when_nobody_maps_it(connect: Connect) -> None:
    one, other = connect(), connect()
    one.put(key(1), b"a" * LARGE)
    view = other.get(key(1), 30)
    one.drop([key(1)])
    for number in range(2, 6):
        one.put(key(number), b"b" * LARGE)
    assert view == b"a" * LARGE
    assert one.status().pinned_bytes == LARGE
    before = one.status().used_bytes
    del view
    gc.collect()
    status_when(one, lambda status: status.pinned_bytes == 0 and status.used_bytes < before)


def test_an_object_that_is_there_stays_as_it_is(connect: Connect) -> None:
    one, other = connect(), connect()
    for size in (1000, LARGE):
        one.put(key(size), b"a" * size)
        other.put(key(size), b"b" * size)
        assert one.get(key(size), 30) == b"a" * size


def test_an_owner_is_forgotten_with_all_its_objects(connect: Connect) -> None:
    one = connect()
    one.put(ObjectKey(b"another owner...", 1), b"stays")
    for number in range(10):
        one.put(key(number), b"goes")
    one.forget(OWNER)
    assert one.status(30).objects == 1
    assert one.contains(ObjectKey(b"another owner...", 1)) == 5


def test_what_a_client_has_sent_stays_while_it_is_connected(connect: Connect) -> None:
    """It may come back after the scheduler has given it up."""
    one, other = connect(), connect()
    one.put(ObjectKey(OWNER, UPLOAD_NUMBER), b"small")
    one.put(ObjectKey(OWNER, UPLOAD_NUMBER + 1), b"a" * LARGE)
    one.put(ObjectKey(OWNER, 1), b"a result")
    other.forget(OWNER)
    assert other.status(30).objects == 2
    one.close()
    status_when(other, lambda status: status.objects == 0)


def test_threads_share_a_connection(connect: Connect) -> None:
    one = connect()
    failures = []

    def work(thread: int) -> None:
        try:
            for round in range(50):
                size = (thread * 50 + round) * 997 % 400_000
                name = key(thread * 1000 + round)
                one.put(name, bytes([thread]) * size)
                assert one.get(name, 30) == bytes([thread]) * size
                one.drop([name])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert one.status(30).objects == 0


def test_what_was_put_before_a_word_on_another_way_is_there(connect: Connect) -> None:
    """The word may reach the store before the object does: it looks again before it says that there is none."""
    one, other = connect(), connect()
    one.connect()
    other.connect()
    for number in range(500):
        one.put(key(number), b"x" * 10)
        assert other.get(key(number), 30) == b"x" * 10
        one.put(key(number + 1000), b"x" * 10)
        other.drop([key(number + 1000)])
    status_when(other, lambda status: status.objects == 500)  # the last drop may wait for what it drops


def test_objects_that_are_put_soon_are_there_for_others_after_a_flush(connect: Connect) -> None:
    one, other = connect(), connect()
    one.put(key(1), b"a")  # so that there is memory for the next ones
    for number in (2, 3):
        one.put_somewhere(key(number), b"b" * number, soon=True)
    assert other.contains(key(2), 30) is None
    one.flush()
    assert [other.get(key(number), 30) for number in (2, 3)] == [b"bb", b"bbb"]
    one.put_somewhere(key(4), b"c", soon=True)
    assert one.get(key(4), 30) == b"c", "its own connection needs no flush"


def test_without_leave_no_store_is_started(cluster: bytes) -> None:
    connection = StoreConnection(cluster, may_start=False)
    with pytest.raises(StoreUnavailable):
        connection.connect()
    connection.close()


def test_programs_that_start_at_once_share_a_store(cluster: bytes) -> None:
    program = (
        "import sys; from scaler_protocol.objects.connection import StoreConnection\n"
        "connection = StoreConnection(bytes.fromhex(sys.argv[1]), True)\n"
        "print(connection.connect().hex(), flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", program, cluster.hex()]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    programs = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        for _ in range(4)
    ]
    try:
        stores = {program.stdout.readline() for program in programs if program.stdout}
        assert len(stores) == 1
    finally:
        for each in programs:
            each.communicate()


def test_a_store_ends_with_its_last_peer(connect: Connect) -> None:
    one, other = connect(), connect()
    pid = one.status().pid
    other.connect()
    one.close()
    assert os.path.exists(f"/proc/{pid}") and other.status(30).pid == pid
    other.close()
    wait_until(lambda: not os.path.exists(f"/proc/{pid}") or is_zombie(pid))


def is_zombie(pid: int) -> bool:
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rsplit(")", 1)[1].split()[0] == "Z"


def test_threads_that_put_one_key_at_once(connect: Connect) -> None:
    one = connect()
    size = 40 * 1024 * 1024
    threads = [threading.Thread(target=one.put, args=(key(1), bytes([7]) * size)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert one.get(key(1), 30) == bytes([7]) * size
    assert status_when(one, lambda status: status.used_bytes <= size + 4096).objects == 1


def test_a_host_without_shared_memory_files(cluster: bytes) -> None:
    """A container may have no /dev/shm, or one of 64 MiB: objects are not there."""
    if (
        shutil.which("unshare") is None
        or subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode
    ):
        pytest.skip("only root can take /dev/shm away, with the command unshare, and not in every container")
    command = (
        "unshare",
        "--mount",
        "sh",
        "-c",
        'while umount --lazy /dev/shm 2> /dev/null; do :; done; exec "$@"',
        "sh",
    )
    code = "say(os.path.ismount('/dev/shm')); store.put(key(1), bytes(80_000_000)); say(len(store.get(key(1), 30)))"
    with Program(cluster, code, command) as program:
        assert program.hear() == "False"
        assert program.hear() == "80000000"


def test_a_system_without_memory_files_has_no_store(cluster: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    connection = StoreConnection(cluster, may_start=True)
    with pytest.raises(StoreUnavailable, match="Linux"):
        connection.put(key(1), b"x")
    connection.close()


def test_whoever_is_no_peer_is_sent_away(connect: Connect, cluster: bytes) -> None:
    one = connect()
    one.put(key(1), b"x")
    for words in (b"GET / HTTP/1.1\r\n\r\n", bytes(100), b"\xff" * 100):
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.settimeout(30)
            stranger.connect("\0" + socket_name(cluster)[1:])
            stranger.sendall(words)
            stranger.shutdown(socket.SHUT_WR)
            while stranger.recv(1000):
                pass
    assert one.get(key(1), 30) == b"x"


def test_the_store_hears_of_no_end_while_something_is_copied() -> None:
    """It would use the memory for other objects."""
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    releases = Releases(writing)
    copy = releases.begin_copy()
    assert copy is not None
    releases.leave()
    with pytest.raises(BlockingIOError):
        os.read(reading, 1)
    assert releases.begin_copy() is None
    del copy
    assert os.read(reading, 1) == b""
    os.close(reading)
