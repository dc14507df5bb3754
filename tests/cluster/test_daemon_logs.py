"""The logs of a real scheduler and agent, as monitors and event logs get them."""

from __future__ import annotations

import os
import signal
from functools import partial
from pathlib import Path

import psutil
import zmq

from scaler import Client, SchedulerClusterCombo
from scaler_protocol.address import default_monitor_address
from scaler_protocol.monitor.model import Model
from scaler_protocol.monitor.replay import Replay
from scaler_protocol.monitor.subscription import Subscription
from tests.support.commands import Command, child_environment, command_line, start_scheduler
from tests.support.ports import free_address
from tests.support.waiting import wait_until


class Watcher:
    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], address: str) -> None:
        self._model = Model(0.0)
        self._subscription = Subscription(context, address, True)

    def has_line(self, source: str, text: str) -> bool:
        while (received := self._subscription.receive()) is not None:
            self._model.apply(received.message, 0.0)
        return has_line(self._model, source, text)

    def close(self) -> None:
        self._subscription.close()


def has_line(model: Model, source: str, text: str) -> bool:
    return any(source in row[2] and text in row[4] for row in model.rows("logs")[0])


def heard(context: zmq.Context[zmq.Socket[bytes]], address: str, *expected: tuple[str, str]) -> None:
    """A new watcher hears of these lines, each given by its source and a part of it."""
    watcher = Watcher(context, address)
    for source, text in expected:
        wait_until(partial(watcher.has_line, source, text), what=text)
    watcher.close()


def test_late_watchers_get_the_lines_of_scheduler_and_agent(tmp_path: Path) -> None:
    logs = (str(tmp_path / "log"),)
    with (
        SchedulerClusterCombo(1, logging_paths=logs, logging_level="INFO") as combo,
        Client(combo.get_address()) as client,
        zmq.Context() as context,
    ):
        worker = client.submit(os.getpid).result(timeout=60)
        address = default_monitor_address(combo.get_address())
        started = (("scheduler", "monitor address is"), ("-", "Worker[0] started"))
        heard(context, address, *started)
        psutil.Process(worker).send_signal(signal.SIGKILL)
        heard(context, address, *started, ("-", f"Worker process {worker} died: SIGKILL"))


def test_a_recording_has_the_lines(tmp_path: Path) -> None:
    settings = {"event_log": str(tmp_path), "logging_paths": (str(tmp_path / "log"),), "logging_level": "INFO"}
    with SchedulerClusterCombo(1, **settings) as combo, Client(combo.get_address()) as client:  # type: ignore[arg-type]
        assert client.submit(abs, -1).result(timeout=60) == 1
        wait_until(partial(recorded, tmp_path, "-", "Worker[0] started"))
    assert recorded(tmp_path, "scheduler", "event log is")


def recorded(folder: Path, source: str, text: str) -> bool:
    """Whether the recordings have this line: not before anything is written to the new event log."""
    try:
        return has_line(replayed(folder), source, text)
    except ValueError:
        return False


def replayed(folder: Path) -> Model:
    recording, model = Replay(str(folder)), Model(0.0)
    for message in recording.messages(recording.start, recording.end):
        model.apply(message, 0.0)
    recording.close()
    return model


def test_object_stores_and_worker_managers_are_shown_too(tmp_path: Path) -> None:
    address = free_address()
    scheduler = start_scheduler(address, "--event-log", tmp_path)
    flags = ("--minimum-workers", 1, "--maximum-workers", 1, "--name", "cloud")
    manager = Command(command_line("scaler_worker_manager", "local", address, *flags), child_environment())
    with scheduler, manager, Client(address) as client, zmq.Context() as context:
        assert client.submit(len, bytes(1 << 20)).result(timeout=60) == 1 << 20  # by way of the store
        monitor = default_monitor_address(address)
        heard(context, monitor, ("-", "Object store: Started as process"))
        (job,) = (each.pid for each in psutil.Process(manager.pid).children())
        psutil.Process(job).send_signal(signal.SIGKILL)
        heard(context, monitor, ("manager cloud", f"Job {job} was ended by signal 9"))
        assert manager.terminate() == 0
    assert recorded(tmp_path, "manager cloud", f"Job {job} was ended by signal 9")
