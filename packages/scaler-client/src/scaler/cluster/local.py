"""Workers on this host that a worker manager keeps running, with a scheduler of their own if needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from scaler.utility.siblings import load_sibling
from scaler_protocol.command import SupervisedCommand, settings_arguments

if TYPE_CHECKING:
    from scaler_scheduler import Scheduler

_END_SECONDS = 15.0


class LocalCluster:
    """Runs ``scaler_worker_manager local`` as a child process, and a scheduler if no address is given. Leave with
    ``shutdown``, or use it in ``with``; the processes end with the application in any case.

    Args:
        n_workers: Keep this many workers running on this host.
        minimum_workers: With ``maximum_workers``: always run this many.
        maximum_workers: Follow the load: run as many workers as the tasks need, at most this many. Give this or
            ``n_workers``.
        address: Use the scheduler at this address. Default: start one at a free port of the loopback interface.
        name: Reserve this name: a second manager of the same name is refused.
        per_worker_capabilities: Offer these capabilities to tasks, with the amount that each worker has.
        logging_level: Log messages of this level and above to stderr. Default: WARNING.
    """

    def __init__(
        self,
        n_workers: int | None = None,
        address: str | None = None,
        *,
        minimum_workers: int = 0,
        maximum_workers: int | None = None,
        name: str | None = None,
        per_worker_capabilities: Mapping[str, float] | Sequence[str] | None = None,
        logging_level: str = "WARNING",
    ) -> None:
        logs: dict[str, Any] = {"logging_level": logging_level, "logging_paths": ("/dev/stderr",)}
        self._scheduler: Scheduler | None = None
        self._manager: SupervisedCommand | None = None
        try:
            if address is None:
                self._scheduler = load_sibling("scaler_scheduler", "Scheduler")(**logs)
                self._scheduler.start()
                address = self._scheduler.get_address()
            values = {
                "kind": "local",
                "address": address,
                "num_of_workers": n_workers,
                "minimum_workers": minimum_workers,
                "maximum_workers": maximum_workers,
                "name": name,
                "per_worker_capabilities": per_worker_capabilities,
                "echo_streamed_output": self._scheduler is None,
                **logs,
            }
            arguments = settings_arguments(load_sibling("scaler_worker.manager.config", "ManagerSettings"), values)
            self._manager = SupervisedCommand("scaler_worker.manager.cli", arguments, "scaler_worker_manager")
            self._manager.start()
            self._manager.wait_ready()
        except BaseException:
            self.shutdown()
            raise
        self._address = address

    def get_address(self) -> str:
        """The scheduler's address."""
        return self._address

    def shutdown(self) -> None:
        """Stop the workers, and the scheduler if this cluster started it. Harmless when repeated."""
        for command in (self._manager, self._scheduler):
            if command is not None:
                command.terminate()
                try:
                    command.join(_END_SECONDS)
                except TimeoutError:
                    pass  # it ends with this process

    def __enter__(self) -> LocalCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
