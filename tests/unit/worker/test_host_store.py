"""The agent's side of its host's store, with real stores."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from scaler_protocol.messages import ObjectKey, StoreSettings, StoreStatus
from scaler_protocol.objects import silence
from scaler_protocol.objects.agent_connection import AgentConnection
from scaler_protocol.objects.connection import StoreConnection
from scaler_protocol.objects.errors import StoreUnavailable
from scaler_protocol.objects.memory import AVAILABLE
from scaler_protocol.security import ensure_token
from scaler_worker.shell import host_store
from scaler_worker.shell.host_store import AgentHostStore

if not AVAILABLE:
    pytest.skip("object stores need Linux", allow_module_level=True)

KEYS = [ObjectKey(b"owner of objects", number) for number in range(4)]


class Told:
    """What an agent is told."""

    def __init__(self) -> None:
        self.words: list[tuple[Any, ...]] = []
        self.statuses: list[StoreStatus] = []

    def store_status(self, status: StoreStatus) -> None:
        self.statuses.append(status)

    def store_lost(self) -> None:
        self.words.append(("lost",))

    def stored(self, key: ObjectKey) -> None:
        self.words.append(("stored", key))

    def not_stored(self, key: ObjectKey, relayed: bool) -> None:
        self.words.append(("not stored", key, relayed))

    def stored_view(self, key: ObjectKey, view: memoryview | None) -> None:
        self.words.append(("view", key, None if view is None else bytes(view)))


class Side:
    def __init__(self, cluster: bytes, host: str = "", receives_log: bool = False) -> None:
        self.loop = asyncio.new_event_loop()
        self.told = Told()
        self.store = AgentHostStore(self.loop, self.told, StoreSettings(0, "", host, receives_log))
        self.store.join(cluster)

    def run_until(self, condition: Callable[[], object]) -> None:
        async def wait() -> None:
            async with asyncio.timeout(30):
                while not condition():
                    await asyncio.sleep(0.005)

        self.loop.run_until_complete(wait())

    def close(self) -> None:
        self.store.close()
        self.loop.close()


@pytest.fixture
def cluster() -> bytes:
    ensure_token()
    return os.urandom(16)


@pytest.fixture
def other(cluster: bytes) -> Iterator[StoreConnection]:
    connection = StoreConnection(cluster, may_start=True)
    yield connection
    connection.close()


@pytest.fixture
def side(cluster: bytes) -> Iterator[Side]:
    made = Side(cluster)
    yield made
    made.close()


def test_the_log_says_once_why_there_is_no_store(
    cluster: bytes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise StoreUnavailable("Cannot keep the token of this user.")

    monkeypatch.setattr(AgentConnection, "open", fail)
    side = Side(cluster)
    for key in KEYS[:2]:
        side.store.fetch(key, 1, [])
        side.run_until(lambda key=key: ("not stored", key, True) in side.told.words)
    side.close()
    assert caplog.messages == [
        "This host has no object store, so its large values go through the scheduler. Cannot keep the token of this "
        "user."
    ]


def test_what_is_asked_while_it_connects_is_asked_then(side: Side, other: StoreConnection) -> None:
    for key in KEYS[:2]:
        other.put(key, b"content")
    side.store.find(KEYS[:1])
    side.store.read(KEYS[1])
    side.store.drop(KEYS[:1])
    side.run_until(lambda: len(side.told.words) == 2)
    assert side.told.words == [("stored", KEYS[0]), ("view", KEYS[1], b"content")]
    assert other.contains(KEYS[0], 30) is None


def test_where_there_is_no_store_nothing_is_found_and_none_is_started(side: Side) -> None:
    side.store.attach()
    side.store.attach()
    side.store.find(KEYS[:2])
    side.store.read(KEYS[2])
    side.run_until(lambda: len(side.told.words) == 4)
    assert side.told.words == [
        ("lost",), ("not stored", KEYS[0], False), ("not stored", KEYS[1], False), ("view", KEYS[2], None),
    ]  # fmt: skip
    assert not side.told.statuses


def test_one_is_started_to_fetch_from_others(side: Side) -> None:
    side.store.find(KEYS[:1])
    side.store.fetch(KEYS[1], 1000, ["tcp://127.0.0.1:9#nobody"])
    side.run_until(lambda: len(side.told.words) == 2 and side.told.statuses)
    assert side.told.words == [("not stored", KEYS[0], False), ("not stored", KEYS[1], True)]


def test_where_there_may_be_other_hosts_it_is_there_at_once_and_again(cluster: bytes) -> None:
    side = Side(cluster, "127.0.0.1")
    try:
        side.run_until(lambda: side.told.statuses)
        assert side.told.statuses[0].endpoint.startswith("tcp://127.0.0.1:")
        os.kill(side.told.statuses[0].pid, signal.SIGKILL)
        side.run_until(lambda: side.told.words == [("lost",)])
        side.store.ask_status()
        side.run_until(lambda: side.told.statuses[-1].store != side.told.statuses[0].store)
    finally:
        side.close()


def test_another_cluster_has_another_store(side: Side, other: StoreConnection) -> None:
    other.put(KEYS[0], b"content")
    side.store.find(KEYS[:1])
    side.store.join(os.urandom(16))
    side.store.find(KEYS[:1])
    side.run_until(lambda: len(side.told.words) == 2)
    assert side.told.words == [("not stored", KEYS[0], False)] * 2


def test_the_loop_goes_on_while_a_store_does_not_answer(
    side: Side, other: StoreConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which is ended in the end."""
    monkeypatch.setattr(silence, "PERIOD_SECONDS", 0.3)
    monkeypatch.setattr(host_store, "PERIOD_SECONDS", 0.3)
    other.put(KEYS[0], b"content")
    os.kill(other.status(30).pid, signal.SIGSTOP)
    side.store.find(KEYS[:1])
    ticks: list[int] = []
    while not side.told.words:
        side.run_until(lambda: True)
        side.loop.run_until_complete(asyncio.sleep(0.01))
        ticks.append(1)
    assert len(ticks) > 20 and side.told.words == [("not stored", KEYS[0], False)]


def test_one_that_stops_later_is_ended_too(side: Side, other: StoreConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_store, "PERIOD_SECONDS", 0.3)
    other.put(KEYS[0], b"content")
    side.store.find(KEYS[:1])
    side.run_until(lambda: side.told.words and side.told.statuses)
    os.kill(side.told.statuses[0].pid, signal.SIGSTOP)
    side.store.find(KEYS[1:2])
    side.run_until(lambda: len(side.told.words) == 3)
    assert side.told.words[1:] == [("lost",), ("not stored", KEYS[1], False)]


def test_closing_while_it_connects_leaves_nothing(cluster: bytes) -> None:
    side = Side(cluster, "127.0.0.1")
    side.close()


def test_the_agent_logs_what_its_store_logs(cluster: bytes, caplog: pytest.LogCaptureFixture) -> None:
    side = Side(cluster, "127.0.0.1", receives_log=True)
    with caplog.at_level("INFO"):
        side.run_until(lambda: caplog.messages and side.told.statuses)
    assert caplog.messages == [f"Object store: Started as process {side.told.statuses[0].pid}."]
    side.close()
