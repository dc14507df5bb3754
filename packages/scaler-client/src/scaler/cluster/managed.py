"""A worker manager as a child process, with a scheduler of its own if needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, Self

from scaler.utility.siblings import load_sibling
from scaler_protocol.command import SupervisedCommand, settings_arguments

if TYPE_CHECKING:
    from scaler_scheduler import Scheduler

_END_SECONDS = 15.0


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
        try:
            if address is None:
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
        settings_class = load_sibling("scaler_worker.manager.kinds", "KINDS")[kind].load_settings_class()
        arguments = settings_arguments(settings_class, values)
        self._manager = SupervisedCommand("scaler_worker.manager.cli", arguments, "scaler_worker_manager")
        self._manager.start()
        self._manager.wait_ready()

    def shutdown(self) -> None:
        """Stop the workers, and the scheduler if there is one of its own. Harmless when repeated."""
        for command in (self._manager, self._scheduler):
            if command is not None:
                command.terminate()
                try:
                    command.join(_END_SECONDS)
                except TimeoutError:
                    pass  # it ends with this process


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
