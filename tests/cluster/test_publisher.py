"""The publisher process: what watchers and the scheduler see of it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import zmq

from scaler_protocol.monitor.subscription import Subscription
from scaler_scheduler.shell import publisher as publisher_module
from scaler_scheduler.shell import restarts
from scaler_scheduler.shell.publisher import Publisher
from tests.support.commands import alive, child_environment, descendants
from tests.support.monitoring import agent_status, snapshot
from tests.support.waiting import wait_until


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"ipc://{tmp_path}/monitor"


@pytest.fixture
def publisher(address: str) -> Iterator[Publisher]:
    running = Publisher(address)
    running.start()
    yield running
    running.close()


@pytest.fixture
def context() -> Iterator[zmq.Context[zmq.Socket[bytes]]]:
    with zmq.Context() as made:
        yield made


def publish(publisher: Publisher, success: int) -> None:
    """Until the child has taken it."""
    wait_until(publisher.watched)
    wait_until(lambda: publisher.watched() and publisher._taken)
    publisher.publish(snapshot((agent_status(),), success=success))


def receive(subscription: Subscription) -> int:
    """How many tasks succeeded, as the next message says."""
    received = wait_until(subscription.receive)
    assert received is not None
    return received.message.tasks.success


def test_every_watcher_gets_what_is_published(
    publisher: Publisher, address: str, context: zmq.Context[zmq.Socket[bytes]]
) -> None:
    watchers = [Subscription(context, address) for _ in range(3)]
    publish(publisher, 5)
    assert [receive(watcher) for watcher in watchers] == [5, 5, 5]
    for watcher in watchers:
        watcher.close()


def test_a_late_watcher_gets_the_last_snapshot_at_once(
    publisher: Publisher, address: str, context: zmq.Context[zmq.Socket[bytes]]
) -> None:
    first = Subscription(context, address)
    publish(publisher, 5)
    assert receive(first) == 5
    late = Subscription(context, address)
    assert receive(late) == 5
    late.close()
    first.close()


def test_nothing_is_made_while_nobody_watches(
    publisher: Publisher, address: str, context: zmq.Context[zmq.Socket[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    watcher = Subscription(context, address)
    publish(publisher, 5)
    assert receive(watcher) == 5
    watcher.close()
    wait_until(lambda: not publisher.watched())
    monkeypatch.setattr(publisher_module.feed, "encode", lambda *_: pytest.fail("encoded with nobody watching"))
    publisher.publish(snapshot())
    monkeypatch.undo()
    new = Subscription(context, address)  # the snapshot from before is out of date by now
    publish(publisher, 6)
    assert receive(new) == 6
    new.close()


def test_publishing_never_waits_for_a_stopped_child(
    publisher: Publisher, address: str, context: zmq.Context[zmq.Socket[bytes]]
) -> None:
    watcher = Subscription(context, address)
    publish(publisher, 5)
    assert receive(watcher) == 5
    wait_until(lambda: publisher.watched() and publisher._taken)
    child = _child(publisher)
    os.kill(child, signal.SIGSTOP)
    try:
        started = time.monotonic()
        for number in range(1000):
            publisher.publish(snapshot((agent_status(0, 8),), success=number))
        assert time.monotonic() - started < 2.0
    finally:
        os.kill(child, signal.SIGCONT)
    publish(publisher, 77)
    wait_until(lambda: receive(watcher) == 77)
    watcher.close()


def test_a_busy_address_is_one_sentence(publisher: Publisher, address: str) -> None:
    with pytest.raises(OSError, match=f"^the monitor address {address} is already in use$"):
        Publisher(address).start()
    assert publisher.watched() is False
    assert Path(address.removeprefix("ipc://")).exists()


def test_a_busy_port_is_one_sentence() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(OSError, match="is already in use"):
            Publisher(address).start()


def test_a_file_that_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "precious"
    file.write_text("data")
    with pytest.raises(OSError, match="a file with this name exists"):
        Publisher(f"ipc://{file}").start()
    assert file.read_text() == "data"


def test_a_missing_folder_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="cannot listen on the monitor address .*: No such file or directory"):
        Publisher(f"ipc://{tmp_path}/none/monitor").start()


def test_port_zero_becomes_a_free_port(context: zmq.Context[zmq.Socket[bytes]]) -> None:
    publisher = Publisher("tcp://localhost:0")
    publisher.start()
    assert not publisher.address.endswith(":0")
    watcher = Subscription(context, publisher.address)
    publish(publisher, 5)
    assert receive(watcher) == 5
    watcher.close()
    publisher.close()


def test_it_interrupts_nobody_who_works(publisher: Publisher) -> None:
    threads = psutil.Process(_child(publisher)).threads()
    assert [os.sched_getscheduler(thread.id) for thread in threads] == [os.SCHED_BATCH] * len(threads)


def test_other_users_cannot_connect(publisher: Publisher, address: str) -> None:
    assert os.stat(address.removeprefix("ipc://")).st_mode & 0o077 == 0


def test_close_leaves_nothing_and_may_be_repeated(address: str) -> None:
    publisher = Publisher(address)
    publisher.start()
    child = _child(publisher)
    publisher.close()
    publisher.close()
    assert not alive(child)
    assert not Path(address.removeprefix("ipc://")).exists()


def test_a_killed_publisher_leaves_nothing(address: str) -> None:
    publisher = Publisher(address)
    publisher.start()
    assert publisher._process is not None
    publisher._process.kill()
    publisher._process.wait()
    publisher.close()
    assert not Path(address.removeprefix("ipc://")).exists()


def test_a_killed_scheduler_takes_its_publisher_along_and_another_can_start(address: str) -> None:
    source = f"""
import time
from scaler_scheduler.shell.publisher import Publisher
publisher = Publisher({address!r})
publisher.start()
print("ready", flush=True)
time.sleep(1000)
"""
    with subprocess.Popen(
        [sys.executable, "-c", source], env=child_environment(), stdout=subprocess.PIPE, text=True
    ) as scheduler:
        assert scheduler.stdout is not None
        assert scheduler.stdout.readline() == "ready\n"
        (child,) = descendants(scheduler.pid)
        scheduler.kill()
    replacement = Publisher(address)
    replacement.start()  # at once: it waits for the one before to leave
    wait_until(lambda: not alive(child.pid))
    assert Path(address.removeprefix("ipc://")).exists()
    replacement.close()


def test_a_killed_publisher_is_started_again(
    publisher: Publisher, address: str, context: zmq.Context[zmq.Socket[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restarts, "FIRST_PAUSE_SECONDS", 0.1)
    watcher = Subscription(context, address)
    publish(publisher, 5)
    assert receive(watcher) == 5
    os.kill(_child(publisher), signal.SIGKILL)
    wait_until(lambda: not publisher.watched())
    # libzmq subscribes again when the watcher next uses its socket.
    wait_until(lambda: watcher.receive() is None and publisher.watched())
    publish(publisher, 6)
    wait_until(lambda: receive(watcher) == 6)
    assert [warning for warning in publisher.take_warnings() if "is started again" in warning] != []
    watcher.close()


def test_a_stopped_watcher_costs_no_memory_and_no_other_watcher(
    publisher: Publisher, address: str, context: zmq.Context[zmq.Socket[bytes]]
) -> None:
    source = f"""
import zmq
from scaler_protocol.monitor.subscription import Subscription
watcher = Subscription(zmq.Context(), {address!r})
while watcher.receive() is None:
    watcher.socket.poll()
print("watching", flush=True)
watcher.socket.poll()
"""
    large = snapshot(tuple(agent_status(number, 20) for number in range(50)))
    other = Subscription(context, address)
    with subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE, text=True) as stopped:
        publish(publisher, 5)
        assert stopped.stdout is not None
        assert stopped.stdout.readline() == "watching\n"
        stopped.send_signal(signal.SIGSTOP)
        process = psutil.Process(_child(publisher))
        before = process.memory_info().rss
        for _ in range(300):
            wait_until(lambda: publisher.watched() and publisher._taken)
            publisher.publish(large)
            assert wait_until(other.receive)
        assert process.memory_info().rss - before < 16 * 1024 * 1024
        stopped.kill()
    other.close()


def test_the_publisher_is_small(publisher: Publisher) -> None:
    process = psutil.Process(_child(publisher))
    assert process.memory_info().rss < 60 * 1024 * 1024


def _child(publisher: Publisher) -> int:
    assert publisher._process is not None
    return publisher._process.pid
