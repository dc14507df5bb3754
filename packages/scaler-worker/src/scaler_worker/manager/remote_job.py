"""A job on a host that is reached through SSH: one ``scaler_cluster``, and the process that starts and ends it.

The manager runs ``BOOTSTRAP`` there. On stdin it sends one line of JSON with the arguments, the keys and the address;
then ``stop`` for a clean end, and an empty line now and then. At the end of stdin, or when nothing comes for
a long time, the connection or the manager is lost, and the job ends at once. On stdout it gets lines of JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
import threading
import time
from typing import Any, TextIO

from scaler_protocol.address import parse_address
from scaler_protocol.command import BadInput, ChildCommand
from scaler_protocol.command.exit_descriptor import open_exit_descriptor
from scaler_protocol.keys import VARIABLE
from scaler_protocol.private_folder import MemoryFolder
from scaler_worker import __version__

BOOTSTRAP = (
    "import sys; print('{\"python\": [%d, %d]}' % sys.version_info[:2]); sys.stdout.flush(); "
    "from scaler_worker.manager.remote_job import main; main()"
)
"""Says which Python this is before anything can fail that depends on it."""

REACH_SECONDS = 5.0
ORDER_SECONDS = 30.0
"""The manager sends the order with the connection, and gives up a job that does not start within 45 s."""

_REPORT_SECONDS = 5.0
_CHUNK_SIZE_BYTES = 65536
_NO_ORDER = (
    f"it has received no order from this manager for {ORDER_SECONDS:.0f} s. Check the network and what runs between "
    "the hosts, such as a ProxyCommand."
)
_LINE_LIMIT = 16_384
"""Characters of a line of output; a longer one is forwarded in parts, which the manager takes whole."""


def main() -> None:
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGHUP, _leave)
    sys.path[:] = [entry for entry in sys.path if entry]  # the home directory, where modules may be anything
    channel = JobChannel(os.dup(1))
    channel.report(version=__version__)
    try:
        order = channel.receive_order(ORDER_SECONDS)
    except TimeoutError:
        channel.report(failed=_NO_ORDER)
        return
    if order is None:
        return
    problem = _reach_problem(order["address"])
    if problem is not None:
        channel.report(failed=problem)
        return
    try:
        folder = MemoryFolder({name: text.encode() for name, text in order["keys"].items()}) if order["keys"] else None
    except OSError as error:
        channel.report(failed=f"it cannot keep the keys in its memory, /dev/shm: {error.strerror}. Make room there.")
        return
    try:
        if folder is not None:
            os.environ[VARIABLE] = str(folder.path)
        _run(channel, order)
    finally:
        if folder is not None:
            folder.remove()


def _leave(*_: object) -> None:
    sys.exit(1)


class JobChannel:
    """Lines from and to the manager. Several threads may report."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._received = b""

    def report(self, **facts: Any) -> None:
        """Nothing happens if the manager is gone: the end of stdin tells that."""
        data = json.dumps(facts).encode() + b"\n"
        with self._lock, contextlib.suppress(OSError):
            self._write(data)

    def _write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._descriptor, data) :]

    def receive_order(self, patience_seconds: float) -> dict[str, Any] | None:
        """None: the manager is gone. Raises TimeoutError: behind a network that fails without a message, stdin stays
        open."""
        deadline = time.monotonic() + patience_seconds
        while b"\n" not in self._received:
            if not select.select([0], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise TimeoutError
            part = os.read(0, _CHUNK_SIZE_BYTES)
            if not part:
                return None
            self._received += part
        line, _, self._received = self._received.partition(b"\n")
        return dict(json.loads(line))

    def receive_words(self) -> list[str] | None:
        """The lines that have arrived; None: the manager is gone."""
        try:
            part = os.read(0, _CHUNK_SIZE_BYTES)
        except OSError:
            part = b""
        *lines, self._received = (self._received + part).split(b"\n")
        return [line.decode() for line in lines] if part else None


def _reach_problem(text: str) -> str | None:
    """Return why this host cannot connect to the scheduler, and what to do."""
    address = parse_address(text)
    if address.scheme != "tcp":
        return None
    try:
        socket.create_connection((address.host, address.port), REACH_SECONDS).close()
        return None
    except OSError as error:
        reason = error.strerror or "no answer"
        return (
            f"it cannot reach the scheduler at {text} ({reason}). Give an address of the scheduler's host that this "
            f"host can reach, and let its firewall accept port {address.port}."
        )


def _run(channel: JobChannel, order: dict[str, Any]) -> None:
    """Run until the job has ended."""
    _forward_output(channel)
    child = ChildCommand("scaler_worker.cli", order["arguments"])
    child.start()
    starting = threading.Thread(target=_report_start, args=(channel, child), daemon=True)
    starting.start()
    try:
        _attend(channel, child, order["silence_seconds"])
    finally:
        if child.is_alive:
            child.kill()
        child.join()
    starting.join(_REPORT_SECONDS)
    channel.report(ended=child.exit_code)


def _report_start(channel: JobChannel, child: ChildCommand) -> None:
    try:
        child.wait_ready()
        channel.report(ready=True)
    except BadInput as error:
        channel.report(failed=f"scaler_cluster refused to start: {error}", refused=True)
    except (TimeoutError, RuntimeError):
        pass  # how it ends is reported


def _attend(channel: JobChannel, child: ChildCommand, silence_seconds: float) -> None:
    """Return when the child has ended, or must end at once."""
    assert child.pid is not None
    try:
        exit_descriptor = open_exit_descriptor(child.pid)
    except ProcessLookupError:
        return
    poll = select.poll()
    poll.register(exit_descriptor, select.POLLIN)
    poll.register(0, select.POLLIN)
    deadline = time.monotonic() + silence_seconds
    while time.monotonic() < deadline:
        ready = [descriptor for descriptor, _ in poll.poll(1000 * max(0.0, deadline - time.monotonic()))]
        if exit_descriptor in ready:
            return
        if 0 in ready:
            words = channel.receive_words()
            if words is None:
                return
            deadline = time.monotonic() + silence_seconds
            if "stop" in words:
                child.terminate()


def _forward_output(channel: JobChannel) -> None:
    """Forward the output of this process and its children from here on, line by line."""
    reading, writing = os.pipe()
    os.dup2(writing, 1)
    os.dup2(writing, 2)
    os.close(writing)
    threading.Thread(target=_forward, args=(channel, reading), daemon=True).start()


def _forward(channel: JobChannel, descriptor: int) -> None:
    with open(descriptor, errors="backslashreplace") as lines:
        _forward_lines(channel, lines)


def _forward_lines(channel: JobChannel, lines: TextIO) -> None:
    while line := lines.readline(_LINE_LIMIT):  # a line that never ends must not fill the memory
        channel.report(log=line.rstrip("\n"))


if __name__ == "__main__":
    main()
