"""The process behind ``--prometheus-address``: ``python -m scaler_scheduler.metrics.process FD HOST PORT MONITOR``.

It watches the monitor address like any screen and answers scrapes with the last snapshot, so a scrape costs the
scheduler nothing. On the inherited socket FD it says ``ready PORT`` or ``error SENTENCE``; it ends when the other end
is closed.
"""

from __future__ import annotations

import signal
import socket
import sys
import time
from collections.abc import Iterator

import zmq
from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from scaler_protocol.command.inherited import restore_signals
from scaler_protocol.command.interpreter import restore_environment
from scaler_protocol.monitor.feed import FeedError
from scaler_protocol.monitor.messages import Snapshot
from scaler_protocol.monitor.subscription import Subscription
from scaler_scheduler.metrics.families import families_of

_STALE_SECONDS = 5.0
_LOOK_MILLISECONDS = 1000
"""How soon it is noticed that the monitor address lets nobody in."""


class LastSnapshot:
    """A collector. Read by the threads that answer scrapes, written by the one that watches."""

    def __init__(self) -> None:
        self._last: tuple[Snapshot, float] | None = None

    def take(self, snapshot: Snapshot) -> None:
        self._last = (snapshot, time.monotonic())

    def collect(self) -> Iterator[Metric]:
        """``scaler_up`` is 0, and nothing else is there, when the scheduler has been silent."""
        last = self._last
        fresh = last is not None and time.monotonic() - last[1] < _STALE_SECONDS
        yield GaugeMetricFamily("scaler_up", "1: the scheduler reports.", value=int(fresh))
        if last is not None and fresh:
            yield from families_of(last[0])


def main(arguments: list[str]) -> int:
    restore_signals()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the scheduler, which then closes this process
    restore_environment()
    scheduler = socket.socket(fileno=int(arguments[0]))
    host, port, monitor_address = arguments[1], int(arguments[2]), arguments[3]
    with zmq.Context() as context:
        try:
            subscription = Subscription(context, monitor_address)
        except ValueError as error:
            hint = f"--prometheus-address needs observe.key for {monitor_address}, or an ipc --monitor-address"
            scheduler.send(f"error {hint}: {error}".encode())
            return 1
        try:
            return _serve(subscription, scheduler, host, port)
        finally:
            subscription.close()


def _serve(subscription: Subscription, scheduler: socket.socket, host: str, port: int) -> int:
    collector, registry = LastSnapshot(), CollectorRegistry()
    registry.register(collector)
    try:
        server, _ = start_http_server(port, host, registry)
    except OSError as error:
        scheduler.send(f"error cannot listen on the Prometheus address {host}:{port}: {error.strerror}".encode())
        return 1
    scheduler.send(f"ready {server.server_port}".encode())
    try:
        _watch(subscription, scheduler, collector)
    finally:
        server.shutdown()
        server.server_close()
    return 0


class Watcher:
    """Takes in what the monitor address says. A reason why that is not possible is said once on stderr."""

    def __init__(self, subscription: Subscription, collector: LastSnapshot) -> None:
        self._subscription = subscription
        self._collector = collector
        self._problem = ""

    def take(self) -> None:
        try:
            received = self._subscription.receive()
        except FeedError as error:
            self._say(f"scaler_scheduler: nothing for Prometheus: {error}")
            return
        if received is not None and isinstance(received.message, Snapshot):
            self._problem = ""
            self._collector.take(received.message)

    def _say(self, problem: str) -> None:
        if problem != self._problem:
            self._problem = problem
            print(problem, file=sys.stderr, flush=True)


def _watch(subscription: Subscription, scheduler: socket.socket, collector: LastSnapshot) -> None:
    """Until the scheduler is gone."""
    watcher = Watcher(subscription, collector)
    poller = zmq.Poller()
    poller.register(scheduler, zmq.POLLIN)
    poller.register(subscription.socket, zmq.POLLIN)
    while scheduler.fileno() not in dict(poller.poll(_LOOK_MILLISECONDS)):
        watcher.take()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
