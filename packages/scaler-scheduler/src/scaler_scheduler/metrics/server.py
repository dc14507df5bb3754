"""The child process that answers Prometheus, seen from the scheduler's."""

from __future__ import annotations

import importlib.util
import os
import select
import socket
import subprocess
from pathlib import Path

from scaler_protocol.address import Address, parse_address
from scaler_protocol.command import BadInput
from scaler_protocol.command.errors import unusable_text
from scaler_protocol.command.interpreter import module_command
from scaler_protocol.command.remedies import with_remedy
from scaler_protocol.private_file import read_private_file

_MODULE = "scaler_scheduler.metrics.process"
_START_TIMEOUT_SECONDS = 15.0
_EXIT_TIMEOUT_SECONDS = 2.0


class MetricsServer:
    """Ends with the scheduler, however that ends. Not started again when it dies: machines notice a failed scrape."""

    def __init__(self, address: str, monitor_address: str, token_file: str | None = None) -> None:
        """``address``: ``host:port`` or ``tcp://host:port``; ``token_file``: of what must be shown. Raises BadInput for
        anything else, or without the library."""
        self._host, self._port = _host_and_port(address)
        self._token_file = _checked_token_file(token_file)
        self._monitor_address = _with_port(monitor_address)
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        if importlib.util.find_spec("prometheus_client") is None:
            raise BadInput(
                "Cannot serve metrics: prometheus_client is missing. Run pip install 'scaler-scheduler[prometheus]'."
            )

    def start(self) -> str:
        """Returns the URL once it listens. Raises BadInput when it cannot."""
        ours, theirs = socket.socketpair()
        arguments = str(theirs.fileno()), self._host, str(self._port), self._monitor_address, self._token_file
        command, environment = module_command(_MODULE, *arguments)
        self._socket = ours
        with theirs:
            try:
                self._process = subprocess.Popen(
                    command,
                    env=environment,
                    pass_fds=(theirs.fileno(),),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                )
            except OSError as error:
                self.close()
                raise BadInput(f"Cannot serve metrics: {with_remedy(error, 'this scheduler')}.") from None
        word, _, rest = self._answer().partition(" ")
        if word != "ready":
            self.close()
            raise BadInput(rest or f"Cannot serve metrics on {self._host}:{self._port}: its process did not start.")
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{rest}/metrics"

    @property
    def is_open_to_others(self) -> bool:
        """Whether other machines may read it, and need no token for it."""
        return not self._token_file and not Address("tcp", host=self._host).is_local

    def close(self) -> None:
        """End the child and wait for it. May be called twice."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._process is not None:
            try:
                self._process.wait(_EXIT_TIMEOUT_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def _answer(self) -> str:
        assert self._socket is not None
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return self._socket.recv(4096).decode() if poll.poll(1000 * _START_TIMEOUT_SECONDS) else ""


def _host_and_port(address: str) -> tuple[str, int]:
    try:
        parsed = parse_address(address if "://" in address else f"tcp://{address}")
    except ValueError as error:
        raise BadInput(unusable_text("--prometheus-address", str(error))) from None
    if parsed.scheme != "tcp":
        raise BadInput(f"Cannot use --prometheus-address: {address!r} is not of the form host:port. Give host:port.")
    return parsed.host, parsed.port


def _checked_token_file(path: str | None) -> str:
    if path is None:
        return ""
    try:
        token = read_private_file(Path(path))
    except OSError as error:
        raise BadInput(f"Cannot read --prometheus-token-file {path}: {error.strerror or error}.") from None
    if not token:
        raise BadInput(
            f"Cannot use --prometheus-token-file {path}: it is missing or empty. "
            f"Make one with (umask 077; openssl rand -hex 32 > {path})."
        )
    return os.path.abspath(path)


def _with_port(monitor_address: str) -> str:
    parsed = parse_address(monitor_address)
    if parsed.scheme == "tcp" and parsed.port == 0:
        raise BadInput(
            "Cannot use --prometheus-address: --monitor-address has port 0. Give --monitor-address a port of its own."
        )
    return monitor_address
