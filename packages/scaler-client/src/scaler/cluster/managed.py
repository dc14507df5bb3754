"""A worker manager as a child process, with a scheduler of its own if needed."""

from __future__ import annotations

import atexit
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, Self

from scaler.utility.siblings import load_sibling
from scaler_protocol.command import SupervisedCommand, settings_arguments
from scaler_protocol.command.child import START_TIMEOUT_SECONDS

if TYPE_CHECKING:
    from scaler_scheduler import Scheduler

_END_SECONDS = 15.0

_OWN_DEATH_TIMEOUT_SECONDS = 60.0
"""A scheduler of the cluster's own is back in seconds, or never. It considers a host lost, and has its tasks executed
elsewhere, after as long."""

_NAME_SECONDS = 80.0
"""A manager waits for up to 75 s until an earlier one of its name, whose program was killed, has ended its jobs."""

_DEATH_TIMEOUT = "death_timeout_seconds"


class ManagedWorkers:
    """Runs ``scaler_worker_manager KIND`` with these values of its settings, and a scheduler at ``own_address`` if
    ``address`` is None. ``own_address`` None: a free port of the loopback interface. Raises BadInput, a ValueError."""

    def __init__(
        self,
        kind: str,
        address: str | None,
        values: Mapping[str, Any],
        logging_level: str,
        own_address: str | None = None,
    ) -> None:
        logs: dict[str, Any] = {"logging_level": logging_level, "logging_paths": ("/dev/stderr",)}
        self._scheduler: Scheduler | None = None
        self._manager: SupervisedCommand | None = None
        self._pid = os.getpid()
        try:
            if address is None:
                values = with_own_scheduler(values)
                self._scheduler = load_sibling("scaler_scheduler", "Scheduler")(own_address, **logs)
                self._scheduler.start()
                address = self._scheduler.get_address()
            self.address = address
            echo = self._scheduler is None
            self._start_manager(
                kind, {"kind": kind, "address": address, "echo_streamed_output": echo, **values, **logs}
            )
        except BaseException:
            self.shutdown()
            raise

    def _start_manager(self, kind: str, values: Mapping[str, Any]) -> None:
        found = load_sibling("scaler_worker.manager.kinds", "KINDS")[kind]
        arguments = settings_arguments(found.load_settings_class(), values)
        if found.outlives_manager:
            atexit.register(self._end_with_script)
        self._manager = SupervisedCommand("scaler_worker.manager.cli", arguments, "scaler_worker_manager")
        self._manager.start()
        self._manager.wait_ready(START_TIMEOUT_SECONDS + (_NAME_SECONDS if found.outlives_manager else 0.0))

    def _end_with_script(self) -> None:
        """A script that ends without ``shutdown`` leaves no job. A fork of the script is not its end."""
        if os.getpid() == self._pid:
            self.shutdown()

    def shutdown(self) -> None:
        """Stop the workers, and the scheduler if there is one of its own. Harmless when repeated."""
        atexit.unregister(self._end_with_script)
        for command in (self._manager, self._scheduler):
            if command is not None:
                command.terminate()
                try:
                    command.join(_END_SECONDS)
                except TimeoutError:
                    pass  # it ends with this process


def with_own_scheduler(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the values for workers whose scheduler ends with this process. They wait for it for a shorter time, unless
    the user has set one."""
    is_open = _DEATH_TIMEOUT in values and values[_DEATH_TIMEOUT] is None
    if not is_open or f"SCALER_MANAGER_{_DEATH_TIMEOUT.upper()}" in os.environ:
        return values
    return {**values, _DEATH_TIMEOUT: _OWN_DEATH_TIMEOUT_SECONDS}


class RunningWorkers(Protocol):
    """The workers that a cluster runs."""

    address: str

    def shutdown(self) -> None: ...


class ManagedCluster:
    """A cluster whose workers are kept running by a worker manager. Leave with ``shutdown``, or use it in ``with``.
    Each kind of cluster sets ``_workers``."""

    _workers: RunningWorkers

    def get_address(self) -> str:
        """The scheduler's address."""
        return self._workers.address

    def shutdown(self) -> None:
        """Stop the workers, and the scheduler if this cluster started it. Harmless when repeated."""
        self._workers.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
