"""The publisher's own process: ``python -m scaler_scheduler.shell.publisher_process FD ADDRESS``.

Takes snapshots from the scheduler over the inherited socket FD and gives them to every watcher of ADDRESS. It tells the
scheduler: ``ready ADDRESS``, ``error SENTENCE``, ``watched``, ``unwatched``, and ``taken`` for each snapshot. Ends when
the scheduler does, and leaves no socket file behind.
"""

from __future__ import annotations

import errno
import os
import signal
import socket
import stat
import sys
import time
from dataclasses import replace
from types import FrameType

import zmq

from scaler_protocol.address import Address, parse_address

BUSY_RETRY_SECONDS = 2.0
"""How long an address may stay busy: the publisher of a scheduler that just ended takes a moment to leave."""

RETRY_INTERVAL_SECONDS = 0.05
QUEUE_LIMIT = 8
"""Messages kept for one slow watcher; beyond, it misses some. Each snapshot is complete, so the next one is enough."""


class PublisherProcess:
    def __init__(self, scheduler: socket.socket, context: zmq.Context[zmq.Socket[bytes]]) -> None:
        self._scheduler = scheduler
        self._watchers = context.socket(zmq.XPUB)
        self._topics: set[bytes] = set()
        self._last: list[bytes] | None = None
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
        poller = zmq.Poller()
        poller.register(self._scheduler, zmq.POLLIN)
        poller.register(self._watchers, zmq.POLLIN)
        alive = True
        while alive:
            ready = dict(poller.poll())
            if self._watchers in ready:
                self._read_watchers()
            if self._scheduler.fileno() in ready:
                alive = self._read_scheduler()

    def close(self) -> None:
        self._watchers.close()
        self._scheduler.close()
        if self._socket_file is not None and _inode(self._socket_file[0]) == self._socket_file[1]:
            os.unlink(self._socket_file[0])

    def _bind(self, address: Address) -> str:
        _check_free(address)
        self._watchers.setsockopt(zmq.IPV6, ":" in address.host)
        host = "127.0.0.1" if address.host == "localhost" else address.host
        self._watchers.bind(str(replace(address, host=host)))
        if address.scheme == "ipc":
            self._socket_file = (address.path, _inode(address.path))
            return str(address)
        bound = parse_address(self._watchers.getsockopt_string(zmq.LAST_ENDPOINT))
        return str(replace(address, port=bound.port))

    def _read_watchers(self) -> None:
        while self._watchers.poll(0):
            request = self._watchers.recv()
            if request[:1] == b"\x01":
                self._on_watcher(request[1:])
            elif request[:1] == b"\x00":
                self._on_last_watcher_left(request[1:])

    def _on_watcher(self, topic: bytes) -> None:
        if not self._topics:
            self._tell("watched")
        self._topics.add(topic)
        if self._last is not None:
            self._watchers.send_multipart(self._last)

    def _on_last_watcher_left(self, topic: bytes) -> None:
        self._topics.discard(topic)
        if not self._topics:
            self._last = None  # nobody makes new ones now, so it would be out of date for the next watcher
            self._tell("unwatched")

    def _read_scheduler(self) -> bool:
        kind, descriptors, _, _ = socket.recv_fds(self._scheduler, 256, 4)
        if not kind:
            return False
        for descriptor in descriptors:
            self._publish([kind, _read_whole(descriptor)])
        self._tell("taken")
        return True

    def _publish(self, frames: list[bytes]) -> None:
        if self._topics:
            self._last = frames
            self._watchers.send_multipart(frames)

    def _tell(self, line: str) -> None:
        self._scheduler.send(line.encode())


def _set_options(watchers: zmq.Socket[bytes]) -> None:
    watchers.setsockopt(zmq.LINGER, 0)
    watchers.setsockopt(zmq.SNDHWM, QUEUE_LIMIT)
    watchers.setsockopt(zmq.XPUB_VERBOSE, 1)  # tell of every new watcher, so that it gets the last snapshot at once
    watchers.setsockopt(zmq.HEARTBEAT_IVL, 1000)  # a stopped watcher is disconnected, and with it goes its queue
    watchers.setsockopt(zmq.HEARTBEAT_TIMEOUT, 5000)


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


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the scheduler, which then closes this process
    signal.signal(signal.SIGTERM, _leave)
    os.umask(0o077)  # an ipc socket file is for the same user only
    scheduler = socket.socket(fileno=int(sys.argv[1]))
    with zmq.Context() as context:
        publisher = PublisherProcess(scheduler, context)
        try:
            return _run(publisher, scheduler, sys.argv[2])
        except (BrokenPipeError, ConnectionResetError):  # the scheduler is gone
            return 0
        finally:
            publisher.close()


def _run(publisher: PublisherProcess, scheduler: socket.socket, address: str) -> int:
    try:
        bound = publisher.bind(address)
    except (OSError, ValueError) as error:
        text = error.strerror if isinstance(error, OSError) else str(error)
        scheduler.send(f"error {text}".encode())
        return 1
    scheduler.send(f"ready {bound}".encode())
    publisher.serve()
    return 0


if __name__ == "__main__":
    sys.exit(main())
