"""A connection to one host: a process of the program ssh, and what the job at its other end reports."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import select
import shlex
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import IO, Any

from scaler_protocol.command.exit_descriptor import open_exit_descriptor
from scaler_protocol.command.logs import plain_text
from scaler_worker.manager.core.ssh_facts import LINE_LIMIT_BYTES, TEXT_LIMIT, facts_in
from scaler_worker.manager.core.ssh_hosts import RemoteHost
from scaler_worker.manager.remote_job import BOOTSTRAP

CONNECT_SECONDS = 10
ALIVE_SECONDS = 10.0
_KEPT_LINES = 40
_CHUNK_SIZE_BYTES = 65_536
_COMPLAINT = "scaler_cluster: "
_OPTIONS = (
    "-T",
    "-oBatchMode=yes",
    f"-oConnectTimeout={CONNECT_SECONDS}",
    "-oServerAliveInterval=15",
    "-oServerAliveCountMax=4",
    "-oControlPath=none",
    "-oForwardAgent=no",
    "-oClearAllForwardings=yes",
)


def ssh_command(host: RemoteHost, config: str | None, *options: str) -> list[str]:
    """The beginning of a command line, without what runs on the host."""
    command = ["ssh", *options]
    if config is not None:
        command += ["-F", config]
    if host.port is not None:
        command += ["-p", str(host.port)]
    if host.user:
        command += ["-l", host.user]
    return [*command, "--", host.host]


def remote_command(python: str | None) -> str:
    """Return the command for the user's shell on the host, whichever it is."""
    script = 'p=$1; [ -z "$2" ] || command -v "$p" >/dev/null || p=$2; exec "$p" -c "$3"'
    first, other = (python, "") if python is not None else (sys.executable, "python3")
    return "exec sh -c " + shlex.join([script, "sh", first, other, BOOTSTRAP])


class SSHConnection:
    """Starts ssh and sends the order at once. Two threads read what comes back; ``facts`` are those that the job has
    reported: python, version, ready, failed, refused and ended. ``complaint``: the sentence with which
    ``scaler_cluster`` ended. Raises OSError if ssh is missing, or processes and descriptors are short.

    An ssh that has ended is reaped by ``close`` and not before, so that its number, which is that of its process group,
    belongs to no other process while it may be killed."""

    def __init__(self, host: RemoteHost, config: str | None, python: str | None, order: Mapping[str, Any]) -> None:
        self.facts: dict[str, Any] = {}
        self.complaint = ""
        self._was_ended = False
        self.started_at = time.monotonic()
        self._host = host
        self._output: deque[str] = deque(maxlen=_KEPT_LINES)
        self._spoken_at = self.started_at
        self._process = subprocess.Popen(
            [*ssh_command(host, config, *_OPTIONS), remote_command(python)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C in a terminal reaches the manager, which then ends its jobs in order
        )
        try:
            self._exit_descriptor = open_exit_descriptor(self._process.pid)
        except OSError:
            self._reap()
            raise
        data = json.dumps(order).encode() + b"\n"
        self._threads = [
            threading.Thread(target=self._converse, args=(data,), name="ssh", daemon=True),
            threading.Thread(target=self._read_errors, name="ssh errors", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def exit_code(self) -> int | None:
        """The exit code of ssh, once everything that it wrote has been read. None: it runs."""
        if self._process.returncode is not None:
            return self._process.returncode
        if any(thread.is_alive() for thread in self._threads):
            return None
        found = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if found is None:
            return None
        return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status

    @property
    def output(self) -> str:
        """The last lines that ssh, or the host before the job began, wrote to stderr."""
        return "\n".join(self._output)

    def keep_alive(self, now: float) -> None:
        """Tell the job now and then that its manager exists."""
        if "version" in self.facts and now - self._spoken_at >= ALIVE_SECONDS:
            self._spoken_at = now
            self._say("")

    def stop(self) -> None:
        """Ask the job to end cleanly; at once if it has not begun."""
        if "version" in self.facts:
            self._say("stop")
        else:
            self.end()

    def end(self) -> None:
        """End ssh and its children, such as a ProxyCommand, at once, which also ends the job. A further call kills what
        is left of them."""
        self._signal(signal.SIGKILL if self._was_ended else signal.SIGTERM)
        self._was_ended = True

    def close(self) -> None:
        """After its end. Kill children that are left of it."""
        os.close(self._exit_descriptor)
        self._reap()

    def _signal(self, number: int) -> None:
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    def _reap(self) -> None:
        self._signal(signal.SIGKILL)
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert stream is not None
            try:
                stream.close()
            except OSError:
                pass  # what it had not written is lost

    def _say(self, word: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(word.encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            pass  # it is ending

    # ---- the threads -------------------------------------------------------------------------------------------------

    def _converse(self, order: bytes) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(order)
            self._process.stdin.flush()
        except OSError:
            pass  # why it ended is read from stderr
        for line in self._lines(self._process.stdout):
            self._on_line(line.decode(errors="backslashreplace"))

    def _on_line(self, line: str) -> None:
        """Handle a line. The output of a login script of the user has no facts."""
        facts = facts_in(line)
        if not facts:
            logging.debug(f"{self._host.text} printed: {line}")
        elif "log" in facts:
            self._on_log(plain_text(facts["log"]))
        else:
            self.facts.update(
                {name: plain_text(value) if isinstance(value, str) else value for name, value in facts.items()}
            )

    def _on_log(self, line: str) -> None:
        if line.startswith(_COMPLAINT):
            self.complaint = line.removeprefix(_COMPLAINT)
        print(f"{self._host.text}: {line}", file=sys.stderr, flush=True)

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        for line in self._lines(self._process.stderr):
            self._output.append(plain_text(line.decode(errors="backslashreplace").rstrip()[:TEXT_LIMIT]))

    def _lines(self, stream: IO[bytes]) -> Iterator[bytes]:
        return _split(_parts(stream.fileno(), self._exit_descriptor))


def _parts(descriptor: int, exit_descriptor: int) -> Iterator[bytes]:
    """Yield the output of a process until it closes the pipe or ends. A process that it has started, such as a
    connection that other ssh share, may keep the pipe open for longer."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    poll.register(exit_descriptor, select.POLLIN)
    while exit_descriptor not in [ready for ready, _ in poll.poll()]:
        part = os.read(descriptor, _CHUNK_SIZE_BYTES)
        if not part:
            return
        yield part
    yield _waiting_bytes(descriptor)


def _waiting_bytes(descriptor: int) -> bytes:
    """Return the bytes that a pipe contains now."""
    (size,) = struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)))
    return os.read(descriptor, size) if size else b""


def _split(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of a text. A line that never ends must not fill the memory."""
    rest = b""
    for part in parts:
        *lines, rest = (rest + part).split(b"\n")
        yield from lines
        if len(rest) >= LINE_LIMIT_BYTES:
            yield rest
            rest = b""
    if rest:
        yield rest
