"""The publisher process: what watchers and the scheduler see of it."""

from __future__ import annotations

import contextlib
import os
import resource
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

from scaler_protocol.address import default_monitor_address, parse_address
from scaler_protocol.monitor.subscription import Subscription
from scaler_scheduler.shell import publisher as publisher_module
from scaler_scheduler.shell import publisher_process, publisher_restarts
from scaler_scheduler.shell.monitor_socket import listen_at
from scaler_scheduler.shell.publisher import Publisher
from tests.support.commands import Command, alive, child_environment, descendants, run_command, start_scheduler
from tests.support.monitoring import agent_status, snapshot
from tests.support.ports import free_address
from tests.support.users import another_user, listen
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
        assert time.monotonic() - started < 20
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
    monkeypatch.setattr(publisher_restarts, "FIRST_PAUSE_SECONDS", 0.1)
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


def test_a_publisher_is_started_again_although_its_socket_was_removed(
    publisher: Publisher, address: str, context: zmq.Context[zmq.Socket[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher_restarts, "FIRST_PAUSE_SECONDS", 0.1)
    os.unlink(address.removeprefix("ipc://"))
    os.kill(_child(publisher), signal.SIGKILL)
    wait_until(lambda: publisher.watched() or any("is started again" in each for each in publisher.take_warnings()))
    with contextlib.closing(Subscription(context, address)) as watcher:
        wait_until(lambda: watcher.receive() is None and publisher.watched())
        publish(publisher, 6)
        assert receive(watcher) == 6


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


def test_one_that_keeps_dying_is_given_up_and_nobody_listens_any_more(
    address: str, monkeypatch: pytest.MonkeyPatch, context: zmq.Context[zmq.Socket[bytes]]
) -> None:
    monkeypatch.setattr(publisher_module, "_MODULE", "tests.support.broken_publisher")
    monkeypatch.setattr(publisher_restarts, "FIRST_PAUSE_SECONDS", 0.001)
    publisher = Publisher(address)
    publisher.begin()
    said: list[str] = []
    wait_until(lambda: publisher.watched() or said.extend(publisher.take_warnings()) or "goes on without" in str(said))
    assert len(said) == publisher_restarts.RESTARTS_LIMIT + 1 and publisher.error is None
    assert said[0] == "The publisher ended (exit code 70): it is started again in 0.001 s."
    assert said[-1] == "The publisher ended too often (exit code 70): the scheduler goes on without monitors."
    assert not Path(address.removeprefix("ipc://")).exists()
    publisher.publish(snapshot())
    assert not publisher.watched()
    publisher.close()


LACKS_MEMORY = (
    "its process has no memory left. Free memory, or raise what limits it (ulimit -v, a service or container)."
)


def test_without_memory_it_says_so_and_is_started_again(
    address: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(publisher_module, "_MODULE", "tests.support.starved_publisher")
    publisher = Publisher(address)
    publisher.begin()
    said: list[str] = []
    wait_until(lambda: publisher.watched() or said.extend(publisher.take_warnings()) or said)
    assert said == [f"The publisher ended (exit code 71): it is started again in 1 s. Reason: {LACKS_MEMORY}"]
    monkeypatch.setattr(publisher_module, "_MODULE", publisher_process.__name__)
    with zmq.Context() as context:
        watcher = Subscription(context, address)
        wait_until(lambda: watcher.receive() is None and publisher.watched())
        publish(publisher, 5)
        assert receive(watcher) == 5
        watcher.close()
    publisher.close()
    assert "Traceback" not in capfd.readouterr().err


def test_one_without_memory_that_is_waited_for_is_an_error(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publisher_module, "_MODULE", "tests.support.starved_publisher")
    with pytest.raises(OSError, match="did not start: its process has no memory left"):
        Publisher(address).start()


def test_without_descriptors_it_is_started_when_there_are_some(address: str) -> None:
    publisher = Publisher(address)
    publisher._monitor_socket = listen_at(parse_address(address))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = max(int(each) for each in os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (used, limits[1]))
    held = []
    try:
        with contextlib.suppress(OSError):
            while True:
                held.append(os.open(os.devnull, os.O_RDONLY))
        publisher.begin()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for descriptor in held:
            os.close(descriptor)
    (warning,) = publisher.take_warnings()
    assert warning.startswith("The publisher cannot be started (Too many open files: ")
    assert publisher.error is None
    with zmq.Context() as context:
        watcher = Subscription(context, address)
        wait_until(lambda: watcher.receive() is None and publisher.watched())
        watcher.close()
    publisher.close()


def test_a_watcher_waits_through_the_death_of_its_publisher(
    publisher: Publisher, address: str, context: zmq.Context[zmq.Socket[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The socket is the scheduler's: whoever connects while there is no publisher is served by the next one."""
    monkeypatch.setattr(publisher_restarts, "FIRST_PAUSE_SECONDS", 0.5)
    os.kill(_child(publisher), signal.SIGKILL)
    wait_until(lambda: not publisher.watched() and publisher._process is None)
    watcher = Subscription(context, address)
    wait_until(lambda: watcher.receive() is None and publisher.watched())
    publish(publisher, 5)
    assert wait_until(watcher.receive).message.tasks.success == 5
    watcher.close()


# ---- a whole scheduler ----------------------------------------------------------------------------------------------


def test_the_socket_of_a_scheduler_that_was_killed_with_its_publisher_is_replaced_and_swept() -> None:
    address, other = free_address(), free_address()
    with start_scheduler(address) as scheduler:
        monitor = watched_path(scheduler)
        kill_both(scheduler)
        assert os.path.exists(monitor)
        with start_scheduler(address) as again:  # the same name
            assert watched_path(again) == monitor and heard_at(default_monitor_address(address))
            kill_both(again)
        with start_scheduler(other) as third:  # another one
            wait_until(lambda: heard_at(default_monitor_address(other)))
            assert not os.path.lexists(monitor)
            assert not os.path.lexists(default_monitor_address(address).removeprefix("ipc://"))
            assert os.path.exists(watched_path(third))


def test_what_another_user_has_at_the_well_known_name_keeps_no_scheduler_from_starting() -> None:
    address = free_address()
    path = default_monitor_address(address).removeprefix("ipc://")
    try:
        with another_user(lambda: listen(path)), start_scheduler(address) as scheduler:
            scheduler.wait_for_output("monitor address is")
            logged = scheduler.output.partition("monitor address is ")[2].split()[0]
            assert logged != f"ipc://{path}"
            wait_until(lambda: heard_at(logged))
            done = run_command("scaler_top", f"ipc://{path}", "--json")
            assert done.returncode == 1 and "is served by user nobody, not by you" in done.stderr
    finally:
        os.unlink(path)


def test_a_scheduler_whose_publisher_keeps_dying_goes_on() -> None:
    address = free_address()
    with start_scheduler(address) as scheduler:
        for _ in range(3):
            child = wait_until(lambda: publisher_of(scheduler))
            os.kill(child.pid, signal.SIGKILL)
            wait_until(lambda child=child: not alive(child.pid))
        scheduler.wait_for_output(r"The publisher ended \(signal 9\): it is started again in 2 s")
        wait_until(lambda: heard_at(default_monitor_address(address)))


def test_a_signal_to_the_group_of_a_scheduler_ends_no_publisher_before_it() -> None:
    address = free_address()
    with start_scheduler(address) as scheduler:
        child = wait_until(lambda: publisher_of(scheduler))
        wait_until(lambda: heard_at(default_monitor_address(address)))
        os.kill(child.pid, signal.SIGTERM)  # as one to the group does, but certainly before the scheduler looks
        assert heard_at(default_monitor_address(address)) and alive(child.pid)
        scheduler.process.terminate()
        assert scheduler.wait() == 0 and not alive(child.pid)
        assert "The publisher ended" not in scheduler.output


def watched_path(scheduler: Command) -> str:
    scheduler.wait_for_output("monitor address is")
    wait_until(lambda: publisher_of(scheduler))
    return os.path.realpath(scheduler.output.partition("monitor address is ipc://")[2].split()[0])


def publisher_of(scheduler: Command) -> psutil.Process | None:
    for child in descendants(scheduler.process.pid):
        with contextlib.suppress(psutil.Error):  # it has ended
            if "publisher_process" in str(child.cmdline()):
                return child
    return None


def kill_both(scheduler: Command) -> None:
    child = wait_until(lambda: publisher_of(scheduler))
    os.kill(child.pid, signal.SIGSTOP)  # or it would clean up
    scheduler.process.kill()
    scheduler.process.wait()
    os.kill(child.pid, signal.SIGKILL)
    wait_until(lambda: not alive(child.pid))


def heard_at(address: str) -> bool:
    return run_command("scaler_top", address, "--json").returncode == 0


def test_what_cannot_be_handed_over_for_lack_of_descriptors_is_left_out(publisher: Publisher, address: str) -> None:
    with zmq.Context() as context:
        watcher = Subscription(context, address, events=True)
        publish(publisher, 5)
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
        try:
            publisher.publish(snapshot(success=6))
            assert publisher.ring(0, 7) is None
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        publish(publisher, 7)
        wait_until(lambda: receive(watcher) == 7)
        watcher.close()
