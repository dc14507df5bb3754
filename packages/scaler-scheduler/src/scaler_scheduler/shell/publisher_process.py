"""The publisher's own process: ``python -m scaler_scheduler.shell.publisher_process FD ADDRESS [LOG LIMIT]``.

Takes snapshots from the scheduler over the inherited socket FD, and event records from a ring in memory that they
share; gives both to every watcher of ADDRESS and keeps them in the file LOG, and those that follow it, in LIMIT bytes
together (0: without bound). It tells the scheduler ``ready ADDRESS``,
``error SENTENCE``, ``watched`` and ``unwatched`` (snapshots are wanted, or not), ``events`` and ``no-events`` (so are
records), ``taken`` for each snapshot, ``ring`` for each ring, ``warning SENTENCE``, ``trouble SENTENCE`` for what goes
on until another one comes (none: it is over). Ends when the scheduler does, and
leaves no socket file behind.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pickle
import signal
import socket
import stat
import sys
import time
from dataclasses import replace
from types import FrameType

import zmq

from scaler_protocol.address import Address, parse_address
from scaler_protocol.keys import monitor_keys
from scaler_protocol.monitor import feed
from scaler_protocol.monitor.messages import Snapshot
from scaler_protocol.transport.doorkeeper import Doorkeeper
from scaler_scheduler.shell.event_stream import EventStream
from scaler_scheduler.shell.key_watch import KeyWatch
from scaler_scheduler.shell.log_keeper import LogKeeper
from scaler_scheduler.shell.standstill import Standstill
from scaler_scheduler.shell.subscription_limit import TOPIC_LIMIT_BYTES, TOPICS_LIMIT, SubscriptionLimit

BUSY_RETRY_SECONDS = 2.0
"""How long an address may stay busy: the publisher of a scheduler that just ended takes a moment to leave."""

RETRY_INTERVAL_SECONDS = 0.05
QUEUE_LIMIT = 64
"""Messages, of at most half a MiB or one snapshot each, kept for one slow watcher; beyond, it misses some. Each
snapshot is complete, so the next one is enough."""

DRAIN_MILLISECONDS = 100
KEYS_MILLISECONDS = 1000
WATCHER_LIFE_MILLISECONDS = 5000
"""For whoever sends no heartbeats, over tcp: how long what was sent may lie there."""


class PublisherProcess:
    def __init__(
        self, scheduler: socket.socket, context: zmq.Context[zmq.Socket[bytes]], log: LogKeeper | None = None
    ) -> None:
        self._scheduler = scheduler
        self._log = log
        self._stream = EventStream()
        self._context = context
        self._doorkeeper: Doorkeeper | None = None
        self._watchers = context.socket(zmq.XPUB)
        self._topics: set[bytes] = set()
        self._watched = self._wants_events = log is not None
        self._last: list[bytes] | None = None
        self._limit = SubscriptionLimit()
        self._standstill = Standstill()
        self._key_watch: KeyWatch | None = None
        self._complained = False
        self._socket_file: tuple[str, int] | None = None
        _set_options(self._watchers)

    def bind(self, address: str) -> str:
        """The address with its real port. OSError with one plain sentence when it is busy or cannot be bound."""
        deadline = time.monotonic() + BUSY_RETRY_SECONDS
        while True:
            try:
                return self._bind(parse_address(address))
            except (OSError, zmq.ZMQError) as error:
                if error.errno != errno.EADDRINUSE or time.monotonic() > deadline:
                    raise OSError(error.errno, _sentence(address, error)) from error
                time.sleep(RETRY_INTERVAL_SECONDS)

    def serve(self) -> None:
        """Returns when the scheduler is gone."""
        if self._log is not None:
            self._tell("watched")
            self._tell("events")
        poller = zmq.Poller()
        poller.register(self._scheduler, zmq.POLLIN)
        poller.register(self._watchers, zmq.POLLIN)
        alive = True
        while alive:
            ready = dict(poller.poll(self._wait_milliseconds()))
            if self._watchers in ready:
                self._read_watchers()
            if self._scheduler.fileno() in ready:
                alive = self._read_scheduler()
            self._drain()
            self._standstill.cut(time.monotonic())
            if self._key_watch is not None:
                self._key_watch.cut(time.monotonic())

    def _wait_milliseconds(self) -> int | None:
        if self._stream.is_open:
            return DRAIN_MILLISECONDS
        return None if self._key_watch is None else KEYS_MILLISECONDS

    def close(self) -> None:
        self._watchers.close()
        self._scheduler.close()
        if self._doorkeeper is not None:
            self._doorkeeper.close()
        if self._log is not None:
            self._log.close()
        if self._socket_file is not None and _inode(self._socket_file[0]) == self._socket_file[1]:
            os.unlink(self._socket_file[0])

    def _bind(self, address: Address) -> str:
        _check_free(address)
        self._use_keys(address)
        self._watchers.setsockopt(zmq.IPV6, ":" in address.host)
        host = "127.0.0.1" if address.host == "localhost" else address.host
        self._watchers.bind(str(replace(address, host=host)))
        if address.scheme == "ipc":
            self._socket_file = (address.path, _inode(address.path))
            return str(address)
        bound = parse_address(self._watchers.getsockopt_string(zmq.LAST_ENDPOINT))
        return str(replace(address, port=bound.port))

    def _use_keys(self, address: Address) -> None:
        keys = monitor_keys(address)
        if keys is None or self._doorkeeper is not None:
            return
        self._doorkeeper = Doorkeeper(self._context, keys.user_of)
        self._key_watch = KeyWatch(keys.known.users)
        self._watchers.setsockopt(zmq.CURVE_SERVER, 1)
        self._watchers.setsockopt(zmq.CURVE_SECRETKEY, keys.secret)
        self._watchers.setsockopt(zmq.ZAP_DOMAIN, b"scaler")

    def _read_watchers(self) -> None:
        while self._watchers.poll(0):
            frame = self._watchers.recv(copy=False)
            request = frame.bytes
            if request[:1] == b"\x01":
                self._standstill.watch(frame)
                if self._key_watch is not None:
                    self._key_watch.watch(frame)
                self._count(frame, request[1:])
                self._on_watcher(request[1:])
            elif request[:1] == b"\x00":
                self._on_last_watcher_left(request[1:])

    def _count(self, frame: zmq.Frame, topic: bytes) -> None:
        if topic in (feed.SNAPSHOT_KIND, feed.EVENTS_KIND) or not self._limit.count(frame, time.monotonic()):
            return
        if self._complained:
            return
        self._complained = True
        self._tell(f"warning A watcher that subscribed to more than {TOPICS_LIMIT} topics was disconnected.")

    def _on_watcher(self, topic: bytes) -> None:
        if feed.is_history_topic(topic):
            for payload in self._stream.history():
                self._watchers.send_multipart([topic, payload])
            return
        if not _is_useful(topic):
            return
        self._topics.add(topic)
        self._tell_wishes()
        if self._last is not None and feed.SNAPSHOT_KIND.startswith(topic):
            self._watchers.send_multipart(self._last)

    def _on_last_watcher_left(self, topic: bytes) -> None:
        self._topics.discard(topic)
        self._tell_wishes()

    def _tell_wishes(self) -> None:
        """What the scheduler is to send, if that has changed."""
        watched = bool(self._topics) or self._log is not None
        events = self._log is not None or any(feed.EVENTS_KIND.startswith(topic) for topic in self._topics)
        if watched != self._watched:
            self._watched = watched
            self._tell("watched" if watched else "unwatched")
            if not watched:
                self._last = None  # nobody makes new ones now, so it would be out of date for the next watcher
        if events != self._wants_events:
            self._wants_events = events
            self._tell("events" if events else "no-events")

    def _read_scheduler(self) -> bool:
        text, descriptors, _, _ = socket.recv_fds(self._scheduler, 256, 4)
        if not text:
            return False
        kind, *numbers = text.split()
        for descriptor in descriptors:
            if kind == feed.SNAPSHOT_KIND:
                self._on_snapshot(*pickle.loads(_read_whole(descriptor)))
            else:
                self._drain()
                self._stream.open(descriptor, *map(int, numbers))
                self._tell("ring")
        return True

    def _on_snapshot(self, snapshot: Snapshot, sequence: int) -> None:
        self._drain()  # what happened before it goes before it
        payload = feed.encode(snapshot, sequence)
        self._publish(feed.SNAPSHOT_KIND, payload)
        self._last = [feed.SNAPSHOT_KIND, payload]
        self._tell("taken")

    def _drain(self) -> None:
        """Publish the records that wait. While nobody wants them, there are none to come."""
        try:
            for payload in self._stream.take():
                self._publish(feed.EVENTS_KIND, payload)
        except ValueError as error:
            self._tell(f"warning {error} There are no events until somebody watches again.")
        if not self._wants_events:
            self._stream.close()

    def _publish(self, kind: bytes, payload: bytes) -> None:
        if self._topics:
            self._watchers.send_multipart([kind, payload])
        if self._log is not None:
            news = self._log.keep(kind, payload, self._stream)
            if news:
                self._tell(f"warning {news}")
                self._tell(f"trouble {news if self._log.is_failing else ''}")

    def _tell(self, line: str) -> None:
        self._scheduler.send(line.encode())


def _is_useful(topic: bytes) -> bool:
    """Whether anything is published under it."""
    return feed.SNAPSHOT_KIND.startswith(topic) or feed.EVENTS_KIND.startswith(topic)


def _set_options(watchers: zmq.Socket[bytes]) -> None:
    watchers.setsockopt(zmq.LINGER, 0)
    watchers.setsockopt(zmq.SNDHWM, QUEUE_LIMIT)
    watchers.setsockopt(zmq.MAXMSGSIZE, TOPIC_LIMIT_BYTES)
    watchers.setsockopt(zmq.XPUB_VERBOSE, 1)  # tell of every new watcher, so that it gets the last snapshot at once
    # A stopped watcher is disconnected, and with it goes its queue, by its own heartbeats, which say how long they are
    # good for, or else by ``Standstill``. No heartbeats go out from here: with full buffers they could not, and each
    # answer to one ends that time.
    watchers.setsockopt(zmq.TCP_MAXRT, WATCHER_LIFE_MILLISECONDS)


def _check_free(address: Address) -> None:
    """ZeroMQ takes an ipc path over from whoever listens there, and deletes a file of any kind: look first."""
    if address.scheme != "ipc" or address.path.startswith("@"):
        return
    try:
        if not stat.S_ISSOCK(os.stat(address.path).st_mode):
            raise FileExistsError(errno.EEXIST, "a file with this name exists")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        if probe.connect_ex(address.path) != errno.ECONNREFUSED:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))


def _inode(path: str) -> int:
    try:
        return os.stat(path).st_ino
    except OSError:
        return 0


def _sentence(address: str, error: OSError | zmq.ZMQError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"the monitor address {address} is already in use"
    reason = (error.strerror if isinstance(error, OSError) else None) or os.strerror(error.errno or 0)
    return f"cannot listen on the monitor address {address}: {reason}"


def _read_whole(descriptor: int) -> bytes:
    with open(descriptor, "rb") as file:
        file.seek(0)
        return file.read()


def _leave(number: int, frame: FrameType | None) -> None:
    raise SystemExit(0)


def _yield_to_tasks() -> None:
    """Whenever there is something to publish, others have work to do: this process interrupts none of them, and is run
    when its turn comes. A container may forbid the wish; then it is run like others."""
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def main() -> int:
    _yield_to_tasks()  # first: threads that are started later do as this one does
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the scheduler, which then closes this process
    signal.signal(signal.SIGTERM, _leave)
    os.umask(0o077)  # an ipc socket file is for the same user only
    scheduler = socket.socket(fileno=int(sys.argv[1]))
    with zmq.Context() as context:
        try:
            log = LogKeeper(sys.argv[3], int(sys.argv[4])) if len(sys.argv) > 3 else None
        except (OSError, ValueError) as error:
            scheduler.send(f"error cannot write the event log {sys.argv[3]}: {_reason(error)}".encode())
            return 1
        publisher = PublisherProcess(scheduler, context, log)
        try:
            return _run(publisher, scheduler, sys.argv[2])
        except (BrokenPipeError, ConnectionResetError):  # the scheduler is gone
            return 0
        finally:
            publisher.close()


def _reason(error: OSError | ValueError) -> str:
    return str(error.strerror if isinstance(error, OSError) else error)


def _run(publisher: PublisherProcess, scheduler: socket.socket, address: str) -> int:
    try:
        bound = publisher.bind(address)
    except (OSError, ValueError) as error:
        scheduler.send(f"error {_reason(error)}".encode())
        return 1
    scheduler.send(f"ready {bound}".encode())
    publisher.serve()
    return 0


if __name__ == "__main__":
    sys.exit(main())
