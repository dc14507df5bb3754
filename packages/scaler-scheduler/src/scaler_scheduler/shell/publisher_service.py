"""The work of the publisher's own process. Its arguments: ``ADDRESS LISTENER PATH LINK [LOG LIMIT]``.

Takes snapshots from the scheduler over a socket, and event records from a ring in memory that they
share; gives both to every watcher and keeps them in the file LOG, and those that follow it, in LIMIT bytes together
(0: without bound). Watchers connect to the inherited socket LISTENER (-1: this process listens on ADDRESS itself).
It tells the scheduler ``ready ADDRESS``, ``error SENTENCE``, ``watched`` and ``unwatched`` (snapshots are wanted, or
not), ``events`` and ``no-events`` (so are records), ``taken`` for each snapshot, ``ring`` for each ring, ``warning
SENTENCE``, and ``trouble SENTENCE`` for what goes on until another one comes (none: it is over).

Ends when the scheduler does, and then removes the file PATH of the socket and the LINK to it. Ends with code 70 when
turn after turn fails; then the scheduler starts another one, which listens on the same socket.
"""

from __future__ import annotations

import contextlib
import mmap
import socket
import time
from typing import NamedTuple

import zmq

from scaler_protocol.command.turn_guard import TurnGuard
from scaler_protocol.monitor import feed
from scaler_protocol.monitor.messages import Snapshot
from scaler_scheduler.shell import snapshot_transfer
from scaler_scheduler.shell.event_stream import EventStream
from scaler_scheduler.shell.local_watchers import LocalWatchers
from scaler_scheduler.shell.log_keeper import LogKeeper
from scaler_scheduler.shell.monitor_socket import MonitorFiles
from scaler_scheduler.shell.watchers import Watchers, WatchRequest

DRAIN_MILLISECONDS = 100


class Task(NamedTuple):
    """The command line, by which the scheduler passes its settings to this process."""

    address: str
    listener: int
    path: str
    link: str
    log: str
    log_limit_bytes: int


class PublisherProcess:
    """``scheduler``: a connected socket to the scheduler, which keeps the boundaries of messages."""

    def __init__(self, scheduler: socket.socket, watchers: Watchers, log: LogKeeper | None = None) -> None:
        self._scheduler = scheduler
        self._watchers = watchers
        self._log = log
        self._stream = EventStream()
        self._watched = self._wants_events = log is not None
        self._last: bytes | None = None
        self._poller = zmq.Poller()
        self._poller.register(scheduler, zmq.POLLIN)
        self._poller.register(watchers.socket, zmq.POLLIN)

    def serve(self) -> None:
        """Returns when the scheduler is gone. SystemExit when this process fails turn after turn."""
        guard = TurnGuard("Publisher")
        if self._log is not None:
            self._tell("watched")
            self._tell("events")
        while self._scheduler_is_there():
            with guard:
                self._turn()

    def _scheduler_is_there(self) -> bool:
        """Return whether it has not closed its end."""
        try:
            return bool(self._scheduler.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        except BlockingIOError:
            return True
        except OSError:
            return False

    def _turn(self) -> None:
        ready = dict(self._poller.poll(self._patience_milliseconds()))
        self._read_watchers()
        if self._scheduler.fileno() in ready:
            self._read_scheduler()
        self._drain()
        self._watchers.look(time.monotonic())

    def _patience_milliseconds(self) -> int | None:
        return DRAIN_MILLISECONDS if self._stream.is_open else self._watchers.look_milliseconds

    def _read_watchers(self) -> None:
        requests = self._watchers.take()
        self._send_subscriptions()
        for request in requests:
            self._answer(request)

    def _answer(self, request: WatchRequest) -> None:
        """Send a new watcher the messages that it gets at once."""
        if feed.is_history_topic(request.topic):
            for payload in self._stream.history():
                self._watchers.reply(request.watcher, request.topic, payload)
        elif self._last is not None and feed.SNAPSHOT_KIND.startswith(request.topic):
            self._watchers.reply(request.watcher, feed.SNAPSHOT_KIND, self._last)

    def _send_subscriptions(self) -> None:
        """Tell the scheduler which messages are needed, if that has changed."""
        events = self._log is not None or self._watchers.wants(feed.EVENTS_KIND)
        watched = events or self._watchers.wants(feed.SNAPSHOT_KIND)
        if watched != self._watched:
            self._watched = watched
            self._tell("watched" if watched else "unwatched")
            if not watched:
                self._last = None  # no new ones are made now, so it would be out of date for the next watcher
        if events != self._wants_events:
            self._wants_events = events
            self._tell("events" if events else "no-events")

    def _read_scheduler(self) -> None:
        try:
            text, descriptors, _, _ = socket.recv_fds(self._scheduler, 256, 4)
        except ConnectionResetError:  # it is gone
            return
        kind, *numbers = text.split() or [b""]
        for descriptor in descriptors:
            if kind == feed.SNAPSHOT_KIND:
                self._on_snapshot(descriptor)
            else:
                self._drain()
                self._stream.open(descriptor, *map(int, numbers))
                self._tell("ring")

    def _on_snapshot(self, descriptor: int) -> None:
        try:
            self._drain()  # what happened before it goes before it
            snapshot, sequence = _read_snapshot(descriptor)
            self._last = feed.encode(snapshot, sequence)
            self._publish(feed.SNAPSHOT_KIND, self._last)
        finally:
            self._tell("taken")

    def _drain(self) -> None:
        """Publish the records that wait. While they are not wanted, there are none to come."""
        try:
            for payload in self._stream.take():
                self._publish(feed.EVENTS_KIND, payload)
        except ValueError as error:
            self._tell(f"warning {error} There are no events until a monitor watches again.")
        if not self._wants_events:
            self._stream.close()

    def _publish(self, kind: bytes, payload: bytes) -> None:
        self._watchers.publish(kind, payload)
        if self._log is not None:
            news = self._log.keep(kind, payload, self._stream)
            if news:
                self._tell(f"warning {news}")
                self._tell(f"trouble {news if self._log.is_failing else ''}")

    def _tell(self, line: str) -> None:
        _tell(self._scheduler, line)


def _tell(scheduler: socket.socket, line: str) -> None:
    """Tell the process. If it has gone, that is noticed elsewhere."""
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        scheduler.send(line.encode("utf-8", "replace"))


def _read_snapshot(descriptor: int) -> tuple[Snapshot, int]:
    """It was made by the scheduler itself."""
    with open(descriptor, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as memory:
        return snapshot_transfer.load(memory)


def serve(scheduler: socket.socket, arguments: list[str]) -> int:
    """Return the exit code. Raises what ``shortage_text`` describes if this process lacks what it needs."""
    task = _task(arguments)
    try:
        log = LogKeeper(task.log, task.log_limit_bytes) if task.log else None
    except (OSError, ValueError) as error:
        _tell(scheduler, f"error cannot write the event log {task.log}: {_reason(error)}")
        return 1
    try:
        return _serve_locally(task, scheduler, log) if task.listener >= 0 else _serve_network(task, scheduler, log)
    finally:
        if log is not None:
            log.close()


def _task(arguments: list[str]) -> Task:
    address, listener, path, link, log, limit = [*arguments, "", "0"][:6]
    return Task(address, int(listener), path, link, log, int(limit))


def _reason(error: OSError | ValueError) -> str:
    return str(error.strerror if isinstance(error, OSError) else error)


def _serve_locally(task: Task, scheduler: socket.socket, log: LogKeeper | None) -> int:
    files = MonitorFiles(task.path, task.link)
    watchers = LocalWatchers(socket.socket(fileno=task.listener), lambda text: _tell(scheduler, f"warning {text}"))
    try:
        _tell(scheduler, f"ready {task.address}")
        PublisherProcess(scheduler, watchers, log).serve()
        files.remove()  # the scheduler may have been killed
    finally:
        watchers.close()
    return 0


def _serve_network(task: Task, scheduler: socket.socket, log: LogKeeper | None) -> int:
    from scaler_scheduler.shell.network_watchers import NetworkWatchers

    with zmq.Context() as context:
        watchers = NetworkWatchers(context, lambda text: _tell(scheduler, f"warning {text}"))
        try:
            _tell(scheduler, f"ready {watchers.bind(task.address)}")
            PublisherProcess(scheduler, watchers, log).serve()
        except (OSError, ValueError) as error:
            _tell(scheduler, f"error {_reason(error)}")
            return 1
        finally:
            watchers.close()
    return 0
