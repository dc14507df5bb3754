"""Memory and disk that are used up."""

from __future__ import annotations

import gc
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from scaler_protocol.messages import StoreFailure, StoreRefused, StoreSettings
from scaler_protocol.objects.agent_connection import AgentConnection
from scaler_protocol.objects.connection import StoreConnection
from scaler_protocol.objects.core import memory
from scaler_protocol.objects.errors import StoreFull
from tests.support.waiting import wait_until
from tests.unit.objects.conftest import Connect
from tests.unit.objects.test_store import key, status_when
from tests.unit.objects.test_transfers import Host

MEBIBYTE = 1 << 20
Limit = Callable[[int, str], StoreConnection]


@pytest.fixture
def limited(cluster: bytes, connect: Connect) -> Iterator[Limit]:
    """A connection to a store with so much memory, that spills there."""
    agents: list[AgentConnection] = []

    def limit(memory_bytes: int, spill_directory: str) -> StoreConnection:
        agents.append(AgentConnection.open(cluster, StoreSettings(memory_bytes, spill_directory, "")))
        return connect()

    yield limit
    for agent in agents:
        agent.close()


def pattern(number: int, size: int) -> bytes:
    return bytes([number % 251]) * size


def test_the_least_recently_used_go_to_disk_and_come_back(limited: Limit, tmp_path: Path) -> None:
    one = limited(64 * MEBIBYTE, str(tmp_path))
    size = 5 * MEBIBYTE
    for number in range(40):
        one.put(key(number), pattern(number, size))
        assert one.contains(key(0)) == size
    status = one.status(30)
    assert status.reserved_bytes <= 64 * MEBIBYTE and status.objects == 40
    assert status.spilled_bytes >= 28 * size
    assert not list(tmp_path.iterdir()), "spilled objects have names"
    for number in reversed(range(40)):
        assert one.get(key(number), 30) == pattern(number, size)
    one.forget(key(0).owner)
    assert one.status(30).spilled_bytes == 0


def test_small_objects_go_to_disk_too(limited: Limit, tmp_path: Path) -> None:
    one = limited(16 * MEBIBYTE, str(tmp_path))
    for number in range(600):
        one.put(key(number), pattern(number, 100_000))
    for number in range(600):
        assert one.get(key(number), 30) == pattern(number, 100_000)
    assert one.status(30).reserved_bytes <= 16 * MEBIBYTE


def test_an_object_larger_than_the_memory_names_the_flag(limited: Limit, tmp_path: Path) -> None:
    one = limited(8 * MEBIBYTE, str(tmp_path))
    with pytest.raises(StoreFull, match="--object-store-memory"):
        one.put(key(1), bytes(9 * MEBIBYTE))
    one.put(key(1), bytes(7 * MEBIBYTE))


def test_what_a_client_keeps_does_not_fill_the_memory(limited: Limit, tmp_path: Path) -> None:
    """Once half of it is mapped, what is got is a copy, which can be written to as well."""
    one = limited(32 * MEBIBYTE, str(tmp_path))
    kept = []
    for number in range(20):
        one.put(key(number), pattern(number, 4 * MEBIBYTE))
        kept.append(one.get(key(number), 30))
        one.drop([key(number)])
    assert one.status(30).pinned_bytes == 20 * MEBIBYTE
    for number, view in enumerate(kept):
        view[7] = 255
        assert view[:7] == pattern(number, 7) and view[8:] == pattern(number, 4 * MEBIBYTE - 8) and view[7] == 255
    del view
    kept.clear()
    gc.collect()
    status_when(one, lambda status: status.pinned_bytes == 0)


def test_what_is_mapped_never_leaves_and_new_objects_wait_for_it(limited: Limit, tmp_path: Path) -> None:
    one = limited(16 * MEBIBYTE, str(tmp_path))
    for number in (1, 2):
        one.put(key(number), pattern(number, 7 * MEBIBYTE))
    views = [one.get(key(1), 30), one.get(key(2), 30)]
    putting = threading.Thread(target=one.put, args=(key(3), pattern(3, 7 * MEBIBYTE)))
    putting.start()
    wait_until(lambda: key(3) in one._connected()._pending)  # the store has it before what is asked from now on
    assert one.status(30).objects == 2 and putting.is_alive()
    del views[0]
    gc.collect()
    putting.join(30)
    assert one.get(key(3), 30) == pattern(3, 7 * MEBIBYTE)
    assert views[0] == pattern(2, 7 * MEBIBYTE)


def test_memory_that_stays_mapped_is_an_error_that_names_the_flag(limited: Limit, tmp_path: Path) -> None:
    one = limited(16 * MEBIBYTE, str(tmp_path))
    one.put(key(1), bytes(15 * MEBIBYTE))
    view = one.get(key(1), 30)
    began = time.monotonic()
    with pytest.raises(StoreFull, match="--object-store-memory"):
        one.put(key(2), bytes(7 * MEBIBYTE))
    assert time.monotonic() - began < memory.FULL_SECONDS + 5
    assert len(view) == 15 * MEBIBYTE and one.status(30).objects == 1


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MiB."""
    if os.getuid() != 0:
        pytest.skip("only root can mount a small file system")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "scaler-test", str(tmp_path)], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr}")
    yield tmp_path
    subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


def test_a_full_disk_is_an_error_that_names_both_flags(limited: Limit, small_disk: Path) -> None:
    one = limited(16 * MEBIBYTE, str(small_disk))
    stored = []
    with pytest.raises(StoreFull, match="--object-store-memory.*--spill-directory") as raised:
        for number in range(20):
            one.put(key(number), pattern(number, 3 * MEBIBYTE))
            stored.append(number)
    assert str(small_disk) in str(raised.value) and "No space left" in str(raised.value)
    assert len(stored) >= 5
    for number in stored:
        assert one.contains(key(number)) == 3 * MEBIBYTE
    one.drop([key(number) for number in stored[:-1]])
    one.put(key(100), pattern(100, 3 * MEBIBYTE))
    assert one.get(key(stored[-1]), 30) == pattern(stored[-1], 3 * MEBIBYTE)


def test_a_receiver_with_a_full_disk_names_both_flags(small_disk: Path) -> None:
    """It says so instead of taking what it has no room for; what it has stays."""
    sender, receiver = Host(), Host("127.0.0.1", 16 * MEBIBYTE, str(small_disk))
    size = 3 * MEBIBYTE
    fetched = []
    try:
        for number in range(20):
            sender.program.put(key(number), pattern(number, size))
            receiver.agent.fetch(key(number), size, [sender.endpoint])
            (answer,) = receiver.answers()
            if isinstance(answer, StoreRefused):
                break
            fetched.append(number)
        assert isinstance(answer, StoreRefused) and answer.failure == StoreFailure.FULL
        assert "--object-store-memory" in answer.text and "--spill-directory" in answer.text
        assert len(fetched) >= 5
        for number in fetched:
            assert receiver.program.contains(key(number)) == size
    finally:
        sender.close()
        receiver.close()


def test_a_directory_that_cannot_be_used_is_an_error_that_names_the_flag(limited: Limit, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    one = limited(8 * MEBIBYTE, str(tmp_path / "file"))
    with pytest.raises(StoreFull, match="--spill-directory"):
        for number in range(5):
            one.put(key(number), bytes(3 * MEBIBYTE))


def test_a_hundred_thousand_small_objects_leave_memory_flat(connect: Connect) -> None:
    """A million takes a minute; ``python -m tests.unit.objects.test_limits`` does it."""
    many_small_objects(connect(), 100_000)


def many_small_objects(one: StoreConnection, count: int) -> None:
    data = bytes(40_000)
    store = psutil.Process(one.status(30).pid)

    def work(first: int) -> None:
        for start in range(first, first + count // 2, 100):
            for number in range(start, start + 100):
                one.put(key(number), data)
            one.drop([key(number) for number in range(start, start + 100)])

    work(0)
    assert one.status(30).objects == 0
    reserved, store_rss, own_rss = one.status(30).reserved_bytes, store.memory_info(), psutil.Process().memory_info()
    work(count)
    status = one.status(30)
    assert status.objects == 0 and status.reserved_bytes <= max(reserved, 32 * MEBIBYTE)
    assert store.memory_info().rss - store_rss.rss < 8 * MEBIBYTE
    assert psutil.Process().memory_info().rss - own_rss.rss < 8 * MEBIBYTE


def test_idle_memory_is_given_back(connect: Connect) -> None:
    one = connect()
    for number in range(4):
        one.put(key(number), bytes(80 * MEBIBYTE))
    one.forget(key(0).owner)
    assert one.status(30).reserved_bytes >= 80 * MEBIBYTE
    status_when(one, lambda status: status.reserved_bytes == 0)


if __name__ == "__main__":
    connection = StoreConnection(os.urandom(16), may_start=True)
    many_small_objects(connection, 1_000_000)
    connection.close()
