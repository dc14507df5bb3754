"""Event records from a publisher and from a whole scheduler, as watchers and event logs get them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from select import select

import psutil
import pytest
import zmq

from scaler import Client, SchedulerClusterCombo
from scaler_protocol.address import default_monitor_address
from scaler_protocol.messages import Status
from scaler_protocol.monitor import records
from scaler_protocol.monitor.messages import Events, Snapshot
from scaler_protocol.monitor.records import AGAIN, Kind, Naming
from scaler_protocol.monitor.replay import Replay
from scaler_protocol.monitor.ring import RingWriter
from scaler_protocol.monitor.subscription import Subscription
from scaler_scheduler.shell import publisher_restarts
from scaler_scheduler.shell.publisher import Publisher
from scaler_scheduler.shell.watchers import QUEUE_LIMIT
from tests.support import functions
from tests.support.commands import alive, descendants, run_command, start_cluster, start_scheduler
from tests.support.ports import free_address
from tests.support.waiting import wait_until

Context = zmq.Context[zmq.Socket[bytes]]


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
def context() -> Iterator[Context]:
    with zmq.Context() as made:
        yield made


@dataclass
class Heard:
    """What a watcher has heard."""

    subscription: Subscription
    snapshot: Snapshot | None = None
    names: dict[tuple[int, int], dict] = field(default_factory=dict)
    kinds: Counter = field(default_factory=Counter)
    firsts: list[int] = field(default_factory=list)
    ended: Counter = field(default_factory=Counter)
    places: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Worker and duration of the last execution that ended with a status."""
    gaps: int = 0
    next: int | None = None

    def listen(self) -> Heard:
        """Take in all that waits."""
        while (received := self.subscription.receive()) is not None:
            self.apply(received.message)
        return self

    def apply(self, message: Snapshot | Events) -> None:
        if isinstance(message, Snapshot):
            self.snapshot = message
            return
        self.gaps += self.next is not None and message.first > self.next
        self.next = max(self.next or 0, message.first + message.count)
        for record in records.records(message.records):
            self._take(record)

    def _take(self, record: records.Record) -> None:
        self.kinds[record.kind] += 1
        if record.kind == Kind.NAME:
            self.names[record.flags, record.first] = records.name_of(record)
        elif record.kind == Kind.HANDED:
            self.firsts.append(record.first)
        elif record.kind in records.ENDINGS:
            columns = records.ended_columns(record)
            statuses = columns.statuses
            if record.agent != records.NONE:
                rows = zip(statuses.tolist(), columns.durations.tolist(), strict=True)
                self.places.update((status & ~AGAIN, (record.worker, duration)) for status, duration in rows)
            self.ended.update(status for status in statuses.tolist() if not status & AGAIN)


def ring_of(publisher: Publisher, first: int = 0) -> RingWriter:
    wait_until(lambda: publisher.watched() and publisher.wants_events())
    ring: list[RingWriter | None] = []

    def ask() -> bool:
        publisher.watched()
        ring.append(publisher.ring(first, 7))
        return ring[-1] is not None

    wait_until(ask)
    assert ring[-1] is not None
    return ring[-1]


def handed(first: int, session: int = 0) -> bytes:
    return records.record(Kind.HANDED, time=1, first=first, count=1, session=session)


# ---- a publisher ----------------------------------------------------------------------------------------------------


def test_records_reach_those_who_want_them(publisher: Publisher, address: str, context: Context) -> None:
    watcher, plain = Heard(Subscription(context, address, True)), Heard(Subscription(context, address))
    ring = ring_of(publisher)
    for number in range(1000):
        ring.write(handed(number))
    wait_until(lambda: len(watcher.listen().firsts) == 1000)
    assert watcher.firsts == list(range(1000)) and watcher.gaps == 0
    assert plain.listen().kinds == {}
    for each in (watcher, plain):
        each.subscription.close()
    wait_until(lambda: not publisher.watched())
    assert not publisher.wants_events()


def test_snapshots_alone_want_no_records(publisher: Publisher, address: str, context: Context) -> None:
    watcher = Subscription(context, address)
    wait_until(publisher.watched)
    assert not publisher.wants_events()
    watcher.close()


def test_records_begin_again_for_a_watcher_that_comes_when_the_last_one_leaves(
    publisher: Publisher, address: str, context: Context
) -> None:
    """The scheduler looks now and then only, and sees watchers each time."""
    first = Heard(Subscription(context, address, True))
    ring_of(publisher)
    before = publisher.wants_events()
    first.subscription.close()
    wait_until(lambda: not _asks_for_events(publisher))
    second = Heard(Subscription(context, address, True))
    wait_until(lambda: _asks_for_events(publisher))
    assert publisher.wants_events() not in (0, before)
    ring_of(publisher).write(handed(7))
    wait_until(lambda: second.listen().firsts == [7])
    second.subscription.close()


def _asks_for_events(publisher: Publisher) -> int:
    publisher.watched()
    return publisher.wants_events()


def test_a_late_watcher_gets_the_names_and_the_recent_past(
    publisher: Publisher, address: str, context: Context
) -> None:
    first = Heard(Subscription(context, address, True))
    ring = ring_of(publisher)
    ring.write(records.name_record(Naming.SESSION, 3, {"session": "ab"}))
    for number in range(10):
        ring.write(handed(number))
    wait_until(lambda: len(first.listen().firsts) == 10)
    late = Heard(Subscription(context, address, True))
    wait_until(lambda: len(late.listen().firsts) == 10)
    ring.write(handed(10))
    wait_until(lambda: len(late.listen().firsts) == 11 and len(first.listen().firsts) == 11)
    assert late.firsts == first.firsts == list(range(11))
    assert late.names == first.names == {(Naming.SESSION, 3): {"session": "ab"}}
    assert late.gaps == first.gaps == 0
    for each in (first, late):
        each.subscription.close()


def test_a_late_watcher_misses_nothing_of_many_small_batches(
    publisher: Publisher, address: str, context: Context
) -> None:
    first = Heard(Subscription(context, address, True))
    ring = ring_of(publisher)
    for number in range(QUEUE_LIMIT + 10):  # more than are kept for a watcher that does not read
        ring.write(handed(number))
        wait_until(lambda wanted=number + 1: len(first.listen().firsts) == wanted)
    late = Subscription(context, address, True)
    messages: list[Events] = []

    def heard() -> bool:
        while (received := late.receive()) is not None:
            messages.append(received.message)
        return sum(each.count for each in messages) == QUEUE_LIMIT + 10

    wait_until(heard)
    assert len([each for each in messages if each.count]) == 1
    late.close()
    first.subscription.close()


def test_subscriptions_to_anything_do_no_harm(publisher: Publisher, address: str, context: Context) -> None:
    with context.socket(zmq.SUB) as garbage:
        garbage.setsockopt(zmq.LINGER, 0)
        garbage.setsockopt(zmq.RECONNECT_IVL, 1000)
        for number in range(5000):
            garbage.subscribe(os.urandom(8 + number % 40))
        garbage.subscribe(b"history." + b"x" * 100_000)
        garbage.subscribe(b"snapshot and more")
        garbage.connect(address)
        watcher = Heard(Subscription(context, address, True))
        ring = ring_of(publisher)
        ring.write(handed(1))
        wait_until(lambda: watcher.listen().firsts == [1])
        assert not garbage.poll(0)
        watcher.subscription.close()
        wait_until(lambda: not publisher.watched())


@pytest.mark.parametrize("topics", [[b"%d" % number for number in range(101)], [b"history." + b"x" * 2000]])
def test_who_subscribes_to_too_much_is_disconnected(
    publisher: Publisher, address: str, context: Context, topics: list[bytes]
) -> None:
    with context.socket(zmq.SUB) as garbage, garbage.get_monitor_socket(zmq.EVENT_DISCONNECTED) as events:
        garbage.setsockopt(zmq.LINGER, 0)
        garbage.setsockopt(zmq.RECONNECT_IVL, -1)
        for topic in topics[:-1]:
            garbage.subscribe(topic)
        garbage.subscribe(b"snapshot")
        garbage.connect(address)
        wait_until(publisher.watched)
        assert not events.poll(0)
        garbage.subscribe(topics[-1])
        assert events.poll(20_000)
        wait_until(lambda: not publisher.watched())
        garbage.disable_monitor()


def test_what_is_no_subscription_does_no_harm(publisher: Publisher, address: str, context: Context) -> None:
    with context.socket(zmq.XSUB) as garbage:
        garbage.setsockopt(zmq.LINGER, 0)
        garbage.connect(address)
        for _ in range(100):
            garbage.send(b"\x02" + os.urandom(50_000))
            garbage.send(b"")
        watcher = Heard(Subscription(context, address, True))
        ring_of(publisher).write(handed(1))
        wait_until(lambda: watcher.listen().firsts == [1])
        watcher.subscription.close()


def test_after_its_publisher_was_killed_a_watcher_gets_records_again(
    publisher: Publisher, address: str, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher_restarts, "FIRST_PAUSE_SECONDS", 0.1)
    watcher = Heard(Subscription(context, address, True))
    ring_of(publisher).write(handed(1))
    wait_until(lambda: watcher.listen().firsts == [1])
    before = publisher.wants_events()
    assert publisher._process is not None
    os.kill(publisher._process.pid, signal.SIGKILL)
    wait_until(lambda: not publisher.watched())
    wait_until(lambda: watcher.listen() and publisher.watched() and publisher.wants_events())
    assert publisher.wants_events() != before
    ring_of(publisher, first=5).write(handed(2))
    wait_until(lambda: watcher.listen().firsts == [1, 2])
    assert watcher.gaps == 1
    watcher.subscription.close()


WATCHER = """
import sys, time, zmq
from scaler_protocol.monitor.subscription import Subscription
watcher = Subscription(zmq.Context(), sys.argv[1], True)
while watcher.receive() is None:
    watcher.socket.poll()
time.sleep(1.5)  # it sends heartbeats
print("watching", flush=True)
watcher.socket.poll()
"""


@pytest.mark.parametrize("transport", ["tcp", "ipc"])
def test_a_stopped_watcher_is_disconnected_though_all_buffers_to_it_are_full(
    context: Context, address: str, transport: str
) -> None:
    publisher = Publisher("tcp://127.0.0.1:0" if transport == "tcp" else address)
    publisher.start()
    command = [sys.executable, "-c", WATCHER, publisher.address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as stopped:
        try:
            ring = ring_of(publisher)
            ring.write(handed(0))
            assert stopped.stdout is not None and stopped.stdout.readline() == "watching\n"
            stopped.send_signal(signal.SIGSTOP)
            record = records.record(Kind.HANDED, time=1, first=1, count=1, body=os.urandom(256 * 1024))
            for _ in range(100):
                ring.write(record)
            wait_until(lambda: not publisher.watched())
        finally:
            stopped.kill()
            publisher.close()


WITHOUT_HEARTBEATS = """
import sys, zmq
watcher = zmq.Context().socket(zmq.SUB)
watcher.setsockopt(zmq.RCVHWM, 1)
for topic in sys.argv[2:]:
    watcher.subscribe(topic)
watcher.connect(sys.argv[1])
watcher.poll()
print("watching", flush=True)
while True:
    watcher.recv_multipart()
"""


@pytest.mark.parametrize("transport", ["tcp", "ipc"])
def test_stopped_watchers_without_heartbeats_are_disconnected_and_may_come_back(
    context: Context, address: str, transport: str
) -> None:
    publisher = Publisher("tcp://127.0.0.1:0" if transport == "tcp" else address)
    publisher.start()
    command = [sys.executable, "-c", WITHOUT_HEARTBEATS, publisher.address, "snapshot", "events"]
    other = Heard(Subscription(context, publisher.address, True))
    ring = ring_of(publisher)
    process = psutil.Process(publisher._process.pid)  # type: ignore[union-attr]
    record = records.record(Kind.HANDED, time=1, first=1, count=1, body=os.urandom(256 * 1024))
    stopped: list[subprocess.Popen[str]] = []
    try:
        wait_until(lambda: other.listen().firsts or ring.write(record) and None)
        files = process.num_fds()
        for number in range(3):
            stopped.append(subprocess.Popen([*command, f"history.{number:016x}"], stdout=subprocess.PIPE, text=True))
            wait_until(lambda each=stopped[-1]: ring.write(record) and select([each.stdout], [], [], 0.05)[0])
            stopped[-1].send_signal(signal.SIGSTOP)
        assert process.num_fds() == files + len(stopped)
        wait_until(
            lambda: ring.write(record) and other.listen() and process.num_fds() == files, 30, "all are disconnected"
        )
        heard = len(other.listen().firsts)
        wait_until(lambda: ring.write(record) and len(other.listen().firsts) > heard)
        stopped[0].send_signal(signal.SIGCONT)
        wait_until(lambda: process.num_fds() == files + 1, what="it connects again")
    finally:
        for each in stopped:
            each.kill()
            each.communicate()
        other.subscription.close()
        publisher.close()


def test_a_stopped_watcher_costs_the_publisher_a_bound(publisher: Publisher, address: str, context: Context) -> None:
    other = Heard(Subscription(context, address, True))
    command = [sys.executable, "-c", WATCHER, address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as stopped:
        ring = ring_of(publisher)
        ring.write(handed(0))
        assert stopped.stdout is not None and stopped.stdout.readline() == "watching\n"
        stopped.send_signal(signal.SIGSTOP)
        process = psutil.Process(publisher._process.pid)  # type: ignore[union-attr]
        record = records.record(Kind.HANDED, time=1, first=1, count=1, body=os.urandom(256 * 1024))
        peak = 0
        for number in range(1, 601, 20):
            assert all([ring.write(record) for _ in range(20)])
            wait_until(lambda wanted=number + 20: len(other.listen().firsts) >= wanted)
            peak = max(peak, process.memory_info().rss)
        assert peak < 200 * 1024 * 1024
        stopped.kill()
    other.subscription.close()


# ---- a whole scheduler ----------------------------------------------------------------------------------------------


def test_every_task_of_a_map_is_in_the_records() -> None:
    with SchedulerClusterCombo(2) as combo, Client(combo.get_address()) as client, zmq.Context() as context:
        watcher = Heard(Subscription(context, default_monitor_address(combo.get_address()), True))
        wait_until(lambda: watcher.listen().names)
        assert client.map(functions.square, range(20_000)) == [number * number for number in range(20_000)]
        failing = client.submit(functions.raise_value_error, "why")
        assert failing.exception() is not None
        wait_until(lambda: sum(watcher.listen().ended.values()) == 20_001)
        wait_until(lambda: watcher.listen().snapshot is not None and watcher.snapshot.tasks.success == 20_000)
        assert watcher.ended == {0: 20_000, 2: 1} and watcher.gaps == 0
        assert watcher.kinds[Kind.FAILED] == 1
        names = {naming: [name for (kind, _), name in watcher.names.items() if kind == naming] for naming in Naming}
        assert {name["name"] for name in names[Naming.FUNCTION]} == {"square", "raise_value_error"}
        assert len(names[Naming.AGENT][0]["workers"]) == 2
        watcher.subscription.close()


def test_tasks_that_were_stopped_say_where_they_ran() -> None:
    with SchedulerClusterCombo(2) as combo, Client(combo.get_address()) as client, zmq.Context() as context:
        watcher = Heard(Subscription(context, default_monitor_address(combo.get_address()), True))
        wait_until(lambda: watcher.listen().names)
        stopped = client.submit_verbose(functions.sleep_and_return, (60.0,), timeout_seconds=1.0)
        died = client.submit_verbose(os._exit, (3,), rerun=False)
        assert stopped.exception() is not None and died.exception() is not None
        wait_until(lambda: sum(watcher.listen().ended.values()) == 2)
        assert set(watcher.places) == {Status.TIMED_OUT, Status.PROCESSOR_DIED}
        assert all(worker in (0, 1) for worker, _ in watcher.places.values())
        assert 500_000 <= watcher.places[Status.TIMED_OUT][1] < 10_000_000  # less than the limit: loading counts there
        watcher.subscription.close()


def test_actors_and_calls_that_are_cancelled_say_where_they_were_and_for_how_long() -> None:
    with SchedulerClusterCombo(2) as combo, Client(combo.get_address()) as client, zmq.Context() as context:
        watcher = Heard(Subscription(context, default_monitor_address(combo.get_address()), True))
        wait_until(lambda: watcher.listen().names)
        actor = client.actor(functions.Sleeper)
        call = actor.sleep(1000)
        wait_until(lambda: [each.function for each in client.cluster_info().running] == ["Sleeper.sleep"])
        assert call.cancel()
        wait_until(lambda: watcher.listen().ended[Status.CANCELLED] == 1)
        assert _is_placed(watcher.places[Status.CANCELLED])
        actor.kill()
        wait_until(lambda: watcher.listen().ended[Status.CANCELLED] == 2)
        assert _is_placed(watcher.places[Status.CANCELLED])
        watcher.subscription.close()


def _is_placed(place: tuple[int, int]) -> bool:
    """Return whether an execution ran at a worker for a second at least."""
    worker, duration_us = place
    return worker in (0, 1) and 1_000_000 < duration_us < 100_000_000


def test_an_event_log_has_everything_though_its_scheduler_and_publisher_were_killed(tmp_path: Path) -> None:
    address, folder = free_address(), tmp_path / "logs"
    with start_scheduler(address, "--event-log", str(folder)) as scheduler, start_cluster(address, "-n", "2"):
        with Client(address) as client:
            client.map(functions.square, range(5000))
            wait_until(lambda: _ended_in(folder) == 5000)
            (publisher,) = (each for each in descendants(scheduler.process.pid) if "publisher" in str(each.cmdline()))
            publisher.kill()
            wait_until(lambda: not alive(publisher.pid))
            wait_until(lambda: client.map(functions.square, range(100)) and _ended_in(folder) > 5000)
        scheduler.process.kill()
        scheduler.process.wait()
    assert len(list(folder.glob("*.events"))) == 1
    assert _snapshots_in(folder)[-1].tasks.success > 5000


def test_an_event_log_has_all_from_the_first_task_to_the_last_and_ends_with_the_true_totals(tmp_path: Path) -> None:
    address = free_address()
    with start_scheduler(address, "--event-log", str(tmp_path)) as scheduler:
        with start_cluster(address, "-n", "2"), Client(address) as client:
            client.map(functions.square, range(3000))
        scheduler.process.terminate()
        assert scheduler.process.wait() == 0
    kinds = [
        record.kind
        for message in _messages_in(tmp_path)
        if isinstance(message, Events)
        for record in records.records(message.records)
    ]
    assert kinds.count(Kind.CLIENT_JOINED) == kinds.count(Kind.AGENT_JOINED) == kinds.count(Kind.CLIENT_LEFT) == 1
    assert _ended_in(tmp_path) == _snapshots_in(tmp_path)[-1].tasks.success == 3000


def test_a_log_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    finished = run_command("scaler_scheduler", free_address(), "--event-log", str(tmp_path / "file"))
    assert finished.returncode == 2
    assert finished.stderr.count("\n") == 1 and "cannot write the event log" in finished.stderr


def test_a_full_disk_is_said_once_and_on_the_screens_and_stops_nothing(tmp_path: Path, context: Context) -> None:
    address = free_address()
    with start_scheduler(address, "--event-log", str(tmp_path)) as scheduler, start_cluster(address, "-n", "1"):
        watcher = Heard(Subscription(context, default_monitor_address(address), True))
        (publisher,) = (each for each in descendants(scheduler.process.pid) if "publisher" in str(each.cmdline()))
        (path,) = tmp_path.iterdir()
        publisher.rlimit(psutil.RLIMIT_FSIZE, (path.stat().st_size, psutil.RLIM_INFINITY))
        wait_until(lambda: watcher.listen().snapshot is not None and watcher.snapshot.trouble)
        assert str(watcher.snapshot.trouble).startswith(f"The event log {path} cannot be written: ")
        with Client(address) as client:
            client.map(functions.square, range(1000))
        publisher.rlimit(psutil.RLIMIT_FSIZE, (psutil.RLIM_INFINITY, psutil.RLIM_INFINITY))
        wait_until(lambda: not watcher.listen().snapshot.trouble)
        watcher.subscription.close()
        scheduler.process.terminate()
        assert scheduler.process.wait() == 0
        assert scheduler.output.count("cannot be written") == scheduler.output.count("is written again") == 1
    assert _snapshots_in(tmp_path)[-1].tasks.success == 1000


def test_all_logs_together_keep_to_their_bound(tmp_path: Path) -> None:
    small, large = tmp_path / "20200102T000000Z-1.events", tmp_path / "20200101T000000Z-1.events"
    small.write_bytes(bytes(10_000))
    large.write_bytes(bytes(1_000_000))
    with start_scheduler(free_address(), "--event-log", str(tmp_path), "--event-log-limit-bytes", "500000"):
        wait_until(lambda: not large.exists())
        assert small.exists() and len(list(tmp_path.iterdir())) == 2


def _messages_in(folder: Path) -> list[Snapshot | Events]:
    replay = Replay(folder)
    try:
        return list(replay.messages(replay.start, replay.end))
    finally:
        replay.close()


def _ended_in(folder: Path) -> int:
    try:
        messages = _messages_in(folder)
    except ValueError:
        return 0  # nothing there yet
    heard = Heard(subscription=None)  # type: ignore[arg-type]
    for message in messages:
        heard.apply(message)
    return sum(heard.ended.values())


def _snapshots_in(folder: Path) -> list[Snapshot]:
    return [message for message in _messages_in(folder) if isinstance(message, Snapshot)]
