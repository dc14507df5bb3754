"""Stores that are stopped, or stuck: whoever waits for one ends it, and goes on with the next."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from scaler_protocol.messages import StoreAbandon, StoreCreate, StoreSettings
from scaler_protocol.objects import silence
from scaler_protocol.objects.agent_connection import AgentConnection
from scaler_protocol.objects.errors import MissingObject, StoreUnavailable
from scaler_protocol.objects.silence import Silence
from tests.support.namespaces import apart
from tests.support.waiting import wait_until
from tests.unit.objects.conftest import Connect
from tests.unit.objects.programs import Program
from tests.unit.objects.test_store import LARGE, key


@pytest.fixture(autouse=True)
def short_periods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(silence, "PERIOD_SECONDS", 0.3)


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """It goes on at the end, if it lives."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        try:
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            pass


def test_whoever_waits_ends_a_stopped_store(connect: Connect) -> None:
    one = connect()
    one.put(key(1), b"a" * LARGE)
    view = one.get(key(1), 30)
    status = one.status(30)
    with stopped(status.pid):
        with pytest.raises(MissingObject):
            one.get(key(1))
        assert one.store != status.store and view == b"a" * LARGE
        one.put(key(1), b"b" * LARGE)
    assert one.get(key(1), 30) == b"b" * LARGE


def test_all_threads_go_on(connect: Connect) -> None:
    one = connect()
    one.put(key(1), b"x")
    with stopped(one.status(30).pid):
        found: list[int | None] = []
        threads = [threading.Thread(target=lambda: found.append(one.contains(key(1)))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert found == [None] * 4


def test_who_only_tells_does_not_hang(connect: Connect) -> None:
    """Until the socket takes no more, nothing is waited for."""
    one = connect()
    one.put(key(1), b"x")
    store = one.store
    with stopped(one.status(30).pid):
        while one.store == store:
            one.drop([key(number) for number in range(1000)])
    assert one.contains(key(1), 30) is None


def test_who_comes_later_ends_it_too(connect: Connect) -> None:
    one, other = connect(), connect()
    one.put(key(1), b"x")
    with stopped(one.status(30).pid):
        assert other.connect() != one.store


def test_closing_does_not_wait_for_who_reaches_it(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = connect(), connect()
    one.put(key(1), b"x")
    monkeypatch.setattr(silence, "PERIOD_SECONDS", 1.0)
    outcome: list[object] = []

    def reach() -> None:
        try:
            outcome.append(other.connect())
        except StoreUnavailable as error:
            outcome.append(error)

    with stopped(one.status(30).pid):
        reaching = threading.Thread(target=reach)
        reaching.start()
        wait_until(other._lock.locked)
        began = time.monotonic()
        other.close()
        assert time.monotonic() - began < 3
        reaching.join(30)
    assert isinstance(outcome[0], StoreUnavailable)


def test_waiting_for_an_object_is_no_silence_of_the_store(connect: Connect) -> None:
    one, other = connect(), connect()
    store = other.connect()
    link = other._connected()
    link.ask(key(1), StoreCreate(key(1), LARGE))
    with pytest.raises(TimeoutError):
        one.get(key(1), 8 * silence.PERIOD_SECONDS)
    link.tell(StoreAbandon(key(1)))
    with pytest.raises(MissingObject):
        one.get(key(1), 30)
    assert one.store == store


def test_those_that_were_stopped_together_go_on_together(cluster: bytes, connect: Connect) -> None:
    one = connect()
    one.put(key(1), b"x")
    status = one.status(30)
    code = """
from scaler_protocol.objects import silence
silence.PERIOD_SECONDS = 0.3
say("ready")
while hear() == "get":
    say(bytes(store.get(key(1))).decode())
"""
    with Program(cluster, code) as program:
        assert program.hear() == "ready"
        with stopped(status.pid):
            program.say("get")
            with stopped(program.process.pid):
                time.sleep(8 * silence.PERIOD_SECONDS)
        assert program.hear() == "x"
    assert one.status(30).store == status.store


def test_an_agent_ends_a_stopped_store(cluster: bytes) -> None:
    agent = AgentConnection.open(cluster, StoreSettings(0, "", ""))
    pid = agent._silence.pid
    try:
        for _ in range(30):
            agent.on_period()
            wait_until(agent.on_readable)
        assert not agent.lost
        with stopped(pid):
            periods = 0
            while not agent.lost:
                agent.on_period()
                periods += 1
            assert periods == 6
            wait_until(lambda: not os.path.exists(f"/proc/{pid}") or "zombie" in state(pid))
    finally:
        agent.close()


def state(pid: int) -> str:
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return file.read()


def test_a_store_at_work_gets_more_time(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    one = connect()
    one.connect()
    silent = Silence(one._connected()._stream.plain_socket)
    assert silent.pid == one.status(30).pid
    monkeypatch.setattr(Silence, "_is_busy", lambda _: True)
    assert not any(silent.is_final() for _ in range(19)) and silent.is_final()


IN_A_CONTAINER = """
import socket, sys
from scaler_protocol.objects.silence import Silence
with socket.socket(socket.AF_UNIX) as connected:
    connected.connect(sys.argv[1])
    silence = Silence(connected)
    assert silence.pid == 0
    while not silence.is_final():
        pass
print("lives")
"""


def test_whoever_waits_for_a_store_outside_of_its_container_ends_nobody(tmp_path: Path) -> None:
    """0, the number of such a process, would mean the group of whoever asks."""
    with socket.socket(socket.AF_UNIX) as store:
        store.bind(str(tmp_path / "store"))
        store.listen()
        code = [sys.executable, "-c", IN_A_CONTAINER, str(tmp_path / "store")]
        command = [*apart("--mount-proc"), "sh", "-c", '"$@"; true', "sh", *code]  # the first process cannot be killed
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, process_group=0)
        assert done.stdout == "lives\n", done
