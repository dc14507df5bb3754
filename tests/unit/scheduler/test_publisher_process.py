"""The publisher's process, in this one: what it does when it fails."""

from __future__ import annotations

import contextlib
import os
import pickle
import socket
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from scaler_protocol.command.turn_guard import BROKEN_CODE
from scaler_protocol.monitor import feed
from scaler_protocol.monitor.messages import Snapshot
from scaler_scheduler.shell import snapshot_transfer
from scaler_scheduler.shell.publisher_service import PublisherProcess
from scaler_scheduler.shell.watchers import WatchRequest
from tests.support.hostile import Hostile
from tests.support.monitoring import agent_status, snapshot


class Watchers:
    """Somebody who wants everything, and keeps it."""

    look_milliseconds = 10

    def __init__(self) -> None:
        self.socket, self._other = socket.socketpair()
        self.published: list[tuple[bytes, bytes]] = []
        self.fails = False
        self.turns = 0

    def take(self) -> list[WatchRequest]:
        self.turns += 1
        if self.fails:
            raise RuntimeError("broken")
        return []

    def wants(self, kind: bytes) -> bool:
        return True

    def publish(self, kind: bytes, payload: bytes) -> None:
        self.published.append((kind, payload))

    def reply(self, watcher: Any, topic: bytes, payload: bytes) -> None:
        raise AssertionError

    def look(self, now: float) -> None:
        """Nothing to do."""

    def close(self) -> None:
        self.socket.close()
        self._other.close()


@pytest.fixture
def watchers() -> Iterator[Watchers]:
    made = Watchers()
    yield made
    made.close()


@pytest.fixture
def channel() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    yield ours, theirs
    ours.close()
    theirs.close()


def hand_over(channel: socket.socket, message: Snapshot | bytes) -> None:
    payload = message if isinstance(message, bytes) else snapshot_transfer.dump(message, 1)
    descriptor = os.memfd_create("test")
    os.write(descriptor, payload)
    socket.send_fds(channel, [feed.SNAPSHOT_KIND], [descriptor])
    os.close(descriptor)


def test_one_whose_turns_keep_failing_ends_with_a_code_of_its_own(
    watchers: Watchers, channel: tuple[socket.socket, socket.socket]
) -> None:
    watchers.fails = True
    with pytest.raises(SystemExit) as ended:
        PublisherProcess(channel[1], watchers).serve()
    assert ended.value.code == BROKEN_CODE and watchers.turns == 8


def test_what_cannot_be_published_is_left_out_and_the_next_is_not(
    watchers: Watchers, channel: tuple[socket.socket, socket.socket]
) -> None:
    for message in (b"junk", snapshot(success=1), pickle.dumps(("junk", 1)), snapshot(success=2)):
        hand_over(channel[0], message)
    channel[0].shutdown(socket.SHUT_WR)
    PublisherProcess(channel[1], watchers).serve()
    found = [feed.decode(payload).message for _, payload in watchers.published]
    assert [message.tasks.success for message in found if isinstance(message, Snapshot)] == [1, 2]
    said = []
    with contextlib.suppress(BlockingIOError):
        while line := channel[0].recv(100, socket.MSG_DONTWAIT):
            said.append(line)
    assert said.count(b"taken") == 4  # or the scheduler would hand over no other


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 1e300, -1e300])
def test_a_heartbeat_with_any_float_reaches_the_screens(
    watchers: Watchers, channel: tuple[socket.socket, socket.socket], number: float
) -> None:
    agent = agent_status()
    workers = (replace(agent.workers[0], cpu_percent=number), *agent.workers[1:])
    hand_over(channel[0], snapshot((replace(agent, cpu_percent=number, lag_seconds=number, workers=workers),)))
    channel[0].shutdown(socket.SHUT_WR)
    PublisherProcess(channel[1], watchers).serve()
    ((_, payload),) = watchers.published
    (found,) = feed.decode(payload).message.agents
    assert found.workers[1:] == workers[1:] and 0 <= found.cpu_percent < float("inf")


@pytest.mark.parametrize("seed", range(10))
def test_any_snapshot_is_published(watchers: Watchers, channel: tuple[socket.socket, socket.socket], seed: int) -> None:
    hostile = Hostile(seed)
    for _ in range(30):
        hand_over(channel[0], hostile.snapshot())
    channel[0].shutdown(socket.SHUT_WR)
    PublisherProcess(channel[1], watchers).serve()
    assert len(watchers.published) == 30
    for _, payload in watchers.published:
        feed.decode(payload)
