"""Objects on their way from store to store. Two clusters on one host are two stores; network namespaces, two hosts."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from scaler_protocol.messages import (
    UPLOAD_NUMBER,
    ObjectKey,
    ReceivedBytes,
    StoreFailure,
    StoreFound,
    StoreRefused,
    StoreSettings,
    StoreStatus,
)
from scaler_protocol.objects.agent_connection import AgentAnswer, AgentConnection
from scaler_protocol.objects.connection import StoreConnection
from scaler_protocol.objects.errors import Unreachable
from scaler_protocol.objects.polling import wait_readable
from scaler_protocol.security import ensure_token
from tests.support.waiting import wait_until

KEY = ObjectKey(b"owner of objects", 1)
KEY_OF_CLIENT = ObjectKey(b"owner of objects", UPLOAD_NUMBER + 1)
SIZES = [0, 1, 32 * 1024, 512 * 1024, 512 * 1024 + 1, 20_000_001]


class Host:
    """A store, and the two kinds of programs that use it."""

    def __init__(self, host: str = "127.0.0.1", memory_bytes: int = 0, spill_directory: str = "") -> None:
        ensure_token()
        cluster = os.urandom(16)
        self.agent = AgentConnection.open(cluster, StoreSettings(memory_bytes, spill_directory, host))
        self.program = StoreConnection(cluster, may_start=False)
        self.endpoint = self.status().endpoint

    def status(self) -> StoreStatus:
        self.agent.ask_status()
        return next(each for each in self.answers() if isinstance(each, StoreStatus))

    def fetch(self, size: int, *sources: Host | str) -> AgentAnswer:
        self.agent.fetch(KEY, size, [each if isinstance(each, str) else each.endpoint for each in sources])
        return self.answers()[0]

    def answers(self) -> list[AgentAnswer]:
        while not (answers := self.agent.on_readable()):
            assert not self.agent.lost, "the store has ended"
            assert wait_readable(self.agent.fd, 30), "no answer"
        return answers

    def close(self) -> None:
        self.agent.close()
        self.program.close()


@pytest.fixture
def hosts() -> Iterator[list[Host]]:
    hosts = [Host() for _ in range(3)]
    yield hosts
    for host in hosts:
        host.close()


@pytest.mark.parametrize("size", SIZES)
def test_an_object_travels(hosts: list[Host], size: int) -> None:
    one, other, _ = hosts
    data = os.urandom(size)
    one.program.put(KEY, data)
    assert other.fetch(size, one) == StoreFound(KEY, size)
    assert other.program.get(KEY, 30) == data
    assert one.status().sent_bytes == size == other.status().received_bytes
    assert one.status().pinned_bytes == 0
    assert other.fetch(size, one) == StoreFound(KEY, size)
    assert other.status().received_bytes == size, "it was fetched twice"
    assert one.status().received_from == ()
    assert other.status().received_from == (ReceivedBytes(one.status().endpoint, size),)


def test_those_who_want_it_at_once_get_it_once(hosts: list[Host]) -> None:
    one, other, _ = hosts
    size = 5_000_000
    one.program.put(KEY, bytes(size))
    threads = [threading.Thread(target=other.program.fetch, args=(KEY, size, [one.endpoint], 30)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert other.program.contains(KEY) == size
    assert one.status().sent_bytes == size


def test_a_store_that_has_it_now_serves_the_next(hosts: list[Host]) -> None:
    first, second, third = hosts
    size = 3_000_000
    first.program.put(KEY, bytes(size))
    assert second.fetch(size, first) == StoreFound(KEY, size)
    first.program.drop([KEY])
    assert third.fetch(size, first, second) == StoreFound(KEY, size)
    assert second.status().sent_bytes == size


def test_a_source_that_is_not_there_is_passed_over(hosts: list[Host]) -> None:
    one, other, _ = hosts
    one.program.put(KEY, bytes(1000))
    nowhere = "tcp://127.0.0.1:9#0123"
    began = time.monotonic()
    assert other.fetch(1000, nowhere, one) == StoreFound(KEY, 1000)
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("source", ["tcp://127.0.0.1:9#0123", "nonsense", "ipc:///tmp/nothing"])
def test_what_cannot_be_reached_is_said(hosts: list[Host], source: str) -> None:
    answer = hosts[0].fetch(1000, source)
    assert isinstance(answer, StoreRefused) and answer.failure.name == "UNREACHABLE"
    assert hosts[0].status().objects == 0 and hosts[0].status().used_bytes == 0
    began = time.monotonic()
    assert isinstance(hosts[0].fetch(1000, source), StoreRefused)
    assert time.monotonic() - began < 1.5, "it was tried again at once"


def test_nobody_fetches_without_the_ticket(hosts: list[Host]) -> None:
    one, other, _ = hosts
    one.program.put(KEY, bytes(1000))
    address, _, ticket = one.endpoint.partition("#")
    answer = other.fetch(1000, f"{address}#{'0' * len(ticket)}")
    assert isinstance(answer, StoreRefused)
    assert one.status().sent_bytes == 0


def test_a_wrong_size_is_no_object(hosts: list[Host]) -> None:
    one, other, _ = hosts
    one.program.put(KEY, bytes(1000))
    assert isinstance(other.fetch(1001, one), StoreRefused)


def test_with_keys_only_their_holders_fetch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from scaler_protocol.key_files import generate
    from scaler_protocol.transport.curve_authentication import new_key_pair

    generate(tmp_path / "keys", new_key_pair)
    generate(tmp_path / "foreign", new_key_pair)
    monkeypatch.setenv("SCALER_KEYS", str(tmp_path / "keys"))
    one, other = Host(), Host()
    monkeypatch.setenv("SCALER_KEYS", str(tmp_path / "foreign"))
    foreigner = Host()
    try:
        one.program.put(KEY, bytes(2_000_000))
        assert other.fetch(2_000_000, one) == StoreFound(KEY, 2_000_000)
        assert isinstance(foreigner.fetch(2_000_000, one), StoreRefused)
    finally:
        for host in (one, other, foreigner):
            host.close()


def without_cryptography(folder: Path) -> Path:
    """Return a folder that, on the path of imports, makes this one fail."""
    (folder / "cryptography").mkdir()
    (folder / "cryptography" / "__init__.py").write_text("raise ImportError")
    return folder


@pytest.mark.parametrize("seals", [True, False])
def test_a_transfer_ends_with_the_key_of_the_receiver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seals: bool
) -> None:
    """It is refused and does not hang, and nothing of it is visible. The sender keeps the object."""
    from scaler_protocol.key_files import generate
    from scaler_protocol.objects.bulk_offers import can_seal
    from scaler_protocol.transport.curve_authentication import new_key_pair

    if not can_seal() and seals:
        pytest.skip("cryptography is not installed")
    generate(tmp_path / "keys", new_key_pair)
    (tmp_path / "keys" / "admin.key").unlink()
    if not seals:
        monkeypatch.syspath_prepend(without_cryptography(tmp_path))  # stores inherit it
    monkeypatch.setenv("SCALER_KEYS", str(tmp_path / "keys"))
    one, other = Host(), Host()
    size = 200_000_000
    try:
        one.program.put(KEY, bytes(size))
        other.agent.fetch(KEY, size, [one.endpoint])
        while not (received := other.status().received_bytes):
            pass
        assert received < size
        os.kill(pid := other.status().pid, signal.SIGSTOP)
        try:
            (tmp_path / "keys" / "work.pub").rename(tmp_path / "gone")
            wait_until(lambda: not one.status().pinned_bytes, 30)
        finally:
            os.kill(pid, signal.SIGCONT)
        (answer,) = other.answers()
        assert isinstance(answer, StoreRefused) and answer.failure == StoreFailure.UNREACHABLE
        assert other.program.contains(KEY) is None
        assert one.program.contains(KEY) == size, "it was lost"
    finally:
        one.close()
        other.close()


def test_a_source_killed_in_the_middle_is_replaced(hosts: list[Host]) -> None:
    first, second, third = hosts
    size = 300_000_000
    data = os.urandom(1000) * (size // 1000)
    first.program.put(KEY, data)
    assert second.fetch(size, first) == StoreFound(KEY, size)
    pid = first.status().pid
    third.agent.fetch(KEY, size, [first.endpoint, second.endpoint])
    while not third.status().received_bytes:
        pass
    os.kill(pid, signal.SIGKILL)
    assert third.answers()[0] == StoreFound(KEY, size)
    assert third.program.get(KEY, 30) == data


def test_a_store_killed_while_it_receives(hosts: list[Host]) -> None:
    """Its peers see its end; the source lets go of what it kept for it."""
    one, other, _ = hosts
    size = 300_000_000
    one.program.put(KEY, bytes(size))
    other.agent.fetch(KEY, size, [one.endpoint])
    while not other.status().received_bytes:
        pass
    os.kill(other.status().pid, signal.SIGKILL)
    while not other.agent.lost:
        assert wait_readable(other.agent.fd, 30)
        other.agent.on_readable()
    wait_until(lambda: not one.status().pinned_bytes, 30)
    with pytest.raises(Unreachable):
        one.program.fetch(ObjectKey(KEY.owner, 2), 5, [other.endpoint], 30)


def test_an_object_that_is_still_coming_goes_on_to_the_next_store(hosts: list[Host]) -> None:
    first, second, third = hosts
    size = 300_000_000
    data = os.urandom(1000) * (size // 1000)
    first.program.put(KEY_OF_CLIENT, data)
    pid = first.status().pid
    second.agent.fetch(KEY_OF_CLIENT, size, [first.endpoint])
    while second.status().received_bytes < size // 10:
        pass
    os.kill(pid, signal.SIGSTOP)
    try:
        third.agent.fetch(KEY_OF_CLIENT, size, [second.endpoint])
        wait_until(lambda: third.status().received_bytes > size // 20, 30)
        assert second.status().objects == 0
    finally:
        os.kill(pid, signal.SIGCONT)
    assert second.answers()[0] == third.answers()[0] == StoreFound(KEY_OF_CLIENT, size)
    assert third.program.get(KEY_OF_CLIENT, 30) == data
    assert first.status().sent_bytes == size
    wait_until(lambda: not second.status().pinned_bytes, 30)


def test_when_the_rest_does_not_come_the_next_store_continues_elsewhere(hosts: list[Host]) -> None:
    first, second, third = hosts
    size = 300_000_000
    data = os.urandom(1000) * (size // 1000)
    spare = Host()
    try:
        for each in (first, spare):
            each.program.put(KEY_OF_CLIENT, data)
        pid = first.status().pid
        second.agent.fetch(KEY_OF_CLIENT, size, [first.endpoint])
        while second.status().received_bytes < size // 10:
            pass
        os.kill(pid, signal.SIGSTOP)
        third.agent.fetch(KEY_OF_CLIENT, size, [second.endpoint, spare.endpoint])
        wait_until(lambda: third.status().received_bytes > size // 20, 30)
        os.kill(pid, signal.SIGKILL)
        assert isinstance(second.answers()[0], StoreRefused)
        assert third.answers()[0] == StoreFound(KEY_OF_CLIENT, size)
        assert third.program.get(KEY_OF_CLIENT, 30) == data
        assert second.status().used_bytes == 0
        assert spare.status().sent_bytes < size, "it began again"
    finally:
        spare.close()
