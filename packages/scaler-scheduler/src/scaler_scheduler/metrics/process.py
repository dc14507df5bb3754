"""The process behind ``--prometheus-address``:
``python -m scaler_scheduler.metrics.process FD HOST PORT MONITOR [TOKEN-FILE]``.

It watches the monitor address like any screen and answers scrapes with the last snapshot, so a scrape costs the
scheduler nothing. On the inherited socket FD it says ``ready PORT`` or ``error SENTENCE``; it ends when the other end
is closed.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import zmq
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric

from scaler_protocol.command.inherited import restore_signals
from scaler_protocol.command.interpreter import restore_environment
from scaler_protocol.monitor.feed import FeedError
from scaler_protocol.monitor.messages import Snapshot
from scaler_protocol.monitor.subscription import Subscription
from scaler_protocol.private_file import read_private_file
from scaler_scheduler.metrics.families import families_of
from scaler_scheduler.metrics.http import Figures, HttpServer

_STALE_SECONDS = 5.0
_LOOK_SECONDS = 0.2
"""The interval of checks for snapshots, which arrive once a second."""


class LastSnapshot:
    """A collector, and the figures that were last made of it."""

    def __init__(self) -> None:
        self._last: Snapshot | None = None
        self._taken_at = 0.0
        self._rendered: dict[tuple[str, bool], bytes] = {}
        self._registry = CollectorRegistry()
        self._registry.register(self)

    @property
    def is_up(self) -> bool:
        """Whether the scheduler has reported lately."""
        return self._last is not None and time.monotonic() - self._taken_at < _STALE_SECONDS

    def take(self, snapshot: Snapshot) -> None:
        self._last, self._taken_at = snapshot, time.monotonic()
        self._rendered.clear()

    def collect(self) -> Iterator[Metric]:
        """``scaler_up`` is 0, and nothing else is there, when the scheduler has been silent."""
        yield GaugeMetricFamily("scaler_up", "1: the scheduler reports.", value=int(self.is_up))
        if self._last is not None and self.is_up:
            yield from families_of(self._last)

    def render(self, accept: str) -> tuple[bytes, str]:
        encode, content_type = choose_encoder(accept)
        key = content_type, self.is_up
        if key not in self._rendered:
            self._rendered[key] = encode(self._registry)
        return self._rendered[key], content_type


class TokenFile:
    """The token that Prometheus must send, read for each scrape, so that it can be replaced. No path: none is required.
    If it cannot be read, the reason is written once to stderr."""

    def __init__(self, path: str) -> None:
        self._path = Path(path) if path else None
        self._problem = ""

    def read(self) -> bytes | None:
        if self._path is None:
            return None
        try:
            token = read_private_file(self._path)
        except OSError as error:
            self._say(str(error))
            raise
        if not token:
            self._say(f"{self._path} is missing or empty")
        return token or b""

    def _say(self, problem: str) -> None:
        if problem != self._problem:
            self._problem = problem
            print(f"scaler_scheduler: nothing for Prometheus: {problem}", file=sys.stderr, flush=True)


def main(arguments: list[str]) -> int:
    restore_signals()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the scheduler, which then closes this process
    restore_environment()
    scheduler = socket.socket(fileno=int(arguments[0]))
    host, port, monitor_address, *token_file = arguments[1], int(arguments[2]), *arguments[3:]
    with zmq.Context() as context:
        try:
            subscription = Subscription(context, monitor_address)
        except ValueError as error:
            hint = f"--prometheus-address needs observe.key for {monitor_address}, or an ipc --monitor-address"
            scheduler.send(f"error {hint}: {error}".encode())
            return 1
        try:
            return asyncio.run(_serve(subscription, scheduler, host, port, TokenFile("".join(token_file))))
        finally:
            subscription.close()


async def _serve(subscription: Subscription, scheduler: socket.socket, host: str, port: int, token: TokenFile) -> int:
    last = LastSnapshot()
    server = HttpServer(Figures(last.render, lambda: last.is_up, token.read).answer)
    try:
        bound = await server.start(host, port)
    except OSError as error:
        scheduler.send(f"error cannot listen on the Prometheus address {host}:{port}: {_reason(error)}".encode())
        return 1
    scheduler.send(f"ready {bound}".encode())
    try:
        await _watch(Watcher(subscription, last), scheduler)
    finally:
        server.close()
    return 0


def _reason(error: OSError) -> str:
    """The system's reason, without the sentence that asyncio builds around it."""
    is_of_system = error.errno is not None and error.errno > 0
    return os.strerror(error.errno) if is_of_system else error.strerror or str(error)  # type: ignore[arg-type]


class Watcher:
    """Takes in what the monitor address says. A reason why that is not possible is said once on stderr."""

    def __init__(self, subscription: Subscription, last: LastSnapshot) -> None:
        self._subscription = subscription
        self._last = last
        self._problem = ""

    def take(self) -> bool:
        """Return whether there may be more."""
        try:
            received = self._subscription.receive()
        except FeedError as error:
            self._say(f"scaler_scheduler: nothing for Prometheus: {error}")
            return True
        if received is not None and isinstance(received.message, Snapshot):
            self._problem = ""
            self._last.take(received.message)
        return received is not None

    def _say(self, problem: str) -> None:
        if problem != self._problem:
            self._problem = problem
            print(problem, file=sys.stderr, flush=True)


async def _watch(watcher: Watcher, scheduler: socket.socket) -> None:
    """Run until the scheduler is gone."""
    gone = asyncio.Event()
    asyncio.get_running_loop().add_reader(scheduler, gone.set)
    while not gone.is_set():
        while watcher.take():
            await asyncio.sleep(0)
        try:
            await asyncio.wait_for(gone.wait(), _LOOK_SECONDS)
        except TimeoutError:
            pass


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
