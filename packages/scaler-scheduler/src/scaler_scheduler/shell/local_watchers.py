"""Watchers on this machine, over a unix socket or a loopback port. ZeroMQ's protocol without libzmq, which would serve
any number of connections of any user, and would end the process where a descriptor is missing."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
import time
from collections import deque

from scaler_protocol.monitor import feed
from scaler_protocol.monitor.bounds import MESSAGE_LIMIT_BYTES
from scaler_protocol.transport.socket_owner import PeerOwners, credentials_of
from scaler_protocol.transport.zmtp import ZmtpConnection
from scaler_scheduler.shell.standstill import LOOK_SECONDS, LOOKS
from scaler_scheduler.shell.watchers import (
    QUEUE_LIMIT,
    SUBSCRIBE_SECONDS,
    TOO_MANY_TOPICS,
    TOO_MANY_WATCHERS,
    TOPIC_LIMIT_BYTES,
    TOPICS_LIMIT,
    WATCHERS_LIMIT,
    Complain,
    WatchRequest,
    is_useful,
)

QUEUE_LIMIT_BYTES = 32 * 1024 * 1024
"""Maximum size of the messages that are kept for one slow watcher. All watchers share the same bytes."""

_READY_LIMIT = 64
_ACCEPT_LIMIT = 64
"""Connections accepted in one turn: a flood of them must not delay the watchers that are there."""

_ROOT = 0
_SUBSCRIBE, _CANCEL = b"\x01", b"\x00"


class LocalWatchers:
    def __init__(self, listener: socket.socket, complain: Complain) -> None:
        """``listener`` is closed with this."""
        listener.setblocking(False)
        self.socket = select.epoll()
        self._listener = listener
        self._complain = complain
        self._complaints: set[str] = set()
        self._watchers: dict[int, LocalWatcher] = {}
        self._looked_at = 0.0
        self._owners = PeerOwners()
        self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self.socket.register(listener, select.EPOLLIN)

    def __len__(self) -> int:
        return len(self._watchers)

    @property
    def look_milliseconds(self) -> int | None:
        return int(LOOK_SECONDS * 1000) if self._watchers else None

    def take(self) -> list[WatchRequest]:
        requests: list[WatchRequest] = []
        for descriptor, _ in self.socket.poll(0, _READY_LIMIT):
            if descriptor == self._listener.fileno():
                self._accept()
            elif descriptor in self._watchers:
                requests += self._serve(self._watchers[descriptor])
        return requests

    def wants(self, kind: bytes) -> bool:
        return any(watcher.wants(kind) for watcher in self._watchers.values())

    def publish(self, kind: bytes, payload: bytes) -> None:
        for watcher in self._watchers.values():
            if watcher.wants(kind):
                watcher.send(kind, payload)

    def reply(self, watcher: LocalWatcher, topic: bytes, payload: bytes) -> None:
        watcher.send(topic, payload)

    def look(self, now: float) -> None:
        if now - self._looked_at < LOOK_SECONDS:
            return
        self._looked_at = now
        for watcher in [each for each in self._watchers.values() if not each.is_welcome(now)]:
            self._lose(watcher)

    def close(self) -> None:
        for watcher in self._watchers.values():
            watcher.connection.close()
        self._watchers.clear()
        self._listener.close()
        if self._spare >= 0:
            os.close(self._spare)
        self._owners.close()
        self.socket.close()

    # ---- connections -----------------------------------------------------------------------------------------------

    def _serve(self, watcher: LocalWatcher) -> list[WatchRequest]:
        topics = watcher.read()
        if watcher.asks_too_much:
            self._complain_once(TOO_MANY_TOPICS)
        if watcher.has_ended or watcher.asks_too_much:
            self._lose(watcher)
        return [WatchRequest(watcher, topic) for topic in topics]

    def _lose(self, watcher: LocalWatcher) -> None:
        self._watchers.pop(watcher.descriptor, None)
        watcher.connection.close()

    def _accept(self) -> None:
        for _ in range(_ACCEPT_LIMIT):
            try:
                connected, _ = self._listener.accept()
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    self._turn_away()
                return
            self._admit(connected)

    def _admit(self, connected: socket.socket) -> None:
        if not self._is_trusted(connected) or not self._has_room():
            connected.close()
            return
        try:
            watcher = LocalWatcher(connected, time.monotonic())
            watcher.connection.watch_in(self.socket.fileno())
        except OSError:
            connected.close()
            return
        self._watchers[watcher.descriptor] = watcher

    def _is_trusted(self, connected: socket.socket) -> bool:
        """Return whether it is this user's, or root's. The kernel may not know the owner of a connection to a port;
        then it is served, as the address allows."""
        if connected.family == socket.AF_UNIX:
            return credentials_of(connected)[1] in (os.geteuid(), _ROOT)
        try:
            return self._owners.owner(connected, connected.getpeername()[:2]) in (os.geteuid(), _ROOT, None)
        except OSError:  # it is gone
            return False

    def _has_room(self) -> bool:
        """Connections that have asked for nothing make room, the oldest first."""
        if len(self._watchers) < WATCHERS_LIMIT:
            return True
        idle = next((each for each in self._watchers.values() if not each.topics), None)
        if idle is None:
            self._complain_once(TOO_MANY_WATCHERS)
            return False
        self._lose(idle)
        return True

    def _turn_away(self) -> None:
        """No descriptor is left. The spare one is used to close the waiting connection, which would otherwise keep
        waking this process."""
        if self._spare >= 0:
            os.close(self._spare)
        self._spare = -1
        with contextlib.suppress(OSError):
            self._listener.accept()[0].close()
            self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def _complain_once(self, sentence: str) -> None:
        if sentence not in self._complaints:
            self._complaints.add(sentence)
            self._complain(sentence)


class LocalWatcher:
    """One connection, what it has asked for, and what waits for it."""

    def __init__(self, connected: socket.socket, now: float) -> None:
        self.connection = ZmtpConnection(
            connected, "PUB", message_limit_bytes=TOPIC_LIMIT_BYTES, waiting_limit_bytes=MESSAGE_LIMIT_BYTES
        )
        self.descriptor = self.connection.fd
        self.topics: set[bytes] = set()
        self.asks_too_much = False
        self._odd_requests = 0
        self._has_history = False
        self._queue: deque[tuple[bytes, bytes]] = deque()
        self._queued_bytes = 0
        self._ask_by = now + SUBSCRIBE_SECONDS
        self._sent = 0
        self._waiting = (0, 0)
        self._looks = 0

    @property
    def has_ended(self) -> bool:
        return self.connection.has_ended or self.connection.is_cut

    def wants(self, kind: bytes) -> bool:
        return any(kind.startswith(topic) for topic in self.topics)

    def read(self) -> list[bytes]:
        """Topics that it asks for now, and did not before."""
        messages = self.connection.read() or ()
        found = [topic for message in messages if (topic := self._request(message)) is not None]
        self._flush()
        return found

    def send(self, topic: bytes, payload: bytes) -> None:
        """Send a message, unless too much waits already: then the watcher misses it."""
        if topic == feed.SNAPSHOT_KIND:
            self._forget_snapshots()
        if len(self._queue) < QUEUE_LIMIT and self._queued_bytes <= QUEUE_LIMIT_BYTES:
            self._queue.append((topic, payload))
            self._queued_bytes += len(payload)
        self._flush()

    def is_welcome(self, now: float) -> bool:
        """False: it has asked for nothing, or its buffers are full and for seconds of this process's life it has taken
        nothing."""
        if not self.topics:
            return now < self._ask_by
        waiting = (self._sent, self.connection.waiting_bytes)
        self._looks = self._looks + 1 if waiting[1] and waiting == self._waiting else 0
        self._waiting = waiting
        return self._looks < LOOKS

    def _request(self, message: list[bytes]) -> bytes | None:
        kind, topic = message[0][:1], message[0][1:]
        if kind == _CANCEL:
            self.topics.discard(topic)
        if kind == _SUBSCRIBE and len(message) == 1 and topic not in self.topics:
            return self._subscribe(topic)
        if kind not in (_SUBSCRIBE, _CANCEL):
            self._count_odd()
        return None

    def _subscribe(self, topic: bytes) -> bytes | None:
        if not is_useful(topic):
            self._count_odd()
        self.asks_too_much |= len(topic) > TOPIC_LIMIT_BYTES
        if self.asks_too_much:
            return None
        self.topics.add(topic)
        if not feed.is_history_topic(topic):
            return topic if is_useful(topic) else None
        had_history, self._has_history = self._has_history, True
        return None if had_history else topic

    def _count_odd(self) -> None:
        self._odd_requests += 1
        self.asks_too_much |= self._odd_requests > TOPICS_LIMIT

    def _forget_snapshots(self) -> None:
        """A newer one replaces those that wait."""
        kept = deque(each for each in self._queue if each[0] != feed.SNAPSHOT_KIND)
        self._queue, self._queued_bytes = kept, sum(len(payload) for _, payload in kept)

    def _flush(self) -> None:
        """A message leaves when the one before has left this process: those that wait are the same bytes for all."""
        while self._queue and self.connection.is_ready and not self.connection.waiting_bytes and not self.has_ended:
            topic, payload = self._queue.popleft()
            self._queued_bytes -= len(payload)
            self.connection.send((topic, payload))
            self._sent += 1
