"""A scheduler as a child process of a script."""

from __future__ import annotations

from typing import Any

from scaler_protocol.command import SupervisedCommand, settings_arguments
from scaler_scheduler.config import SchedulerSettings

DEFAULT_ADDRESS = "tcp://127.0.0.1:0"


class Scheduler:
    """Runs the command ``scaler_scheduler`` beside the calling script; no main guard is needed, and it ends with the
    script. Without an address it takes a free port of the loopback interface. When it is killed, or ends because it is
    broken, it is started again at the same address; not after it has died early several times in a row."""

    def __init__(
        self,
        address: str | None = None,
        *,
        monitor_address: str | None = None,
        event_log: str | None = None,
        event_log_limit_bytes: int = 0,
        prometheus_address: str | None = None,
        prometheus_token_file: str | None = None,
        protected: bool = True,
        io_threads: int = 1,
        event_loop: str = "builtin",
        max_number_of_tasks_waiting: int = -1,
        client_timeout_seconds: float = 60,
        worker_timeout_seconds: float = 60,
        object_retention_seconds: float = 3600,
        load_balance_seconds: float = 1,
        load_balance_trigger_times: int = 2,
        per_worker_queue_size: int = 1000,
        client_memory: int = 0,
        grace_seconds: float = 10,
        insecure: bool = False,
        logging_paths: tuple[str, ...] = ("/dev/stdout",),
        logging_level: str = "INFO",
        logging_config_file: str | None = None,
        log_format: str = "text",
    ) -> None:
        values = {name: value for name, value in locals().items() if name != "self"}
        values["address"] = address or DEFAULT_ADDRESS

        def renewed(facts: dict[str, Any]) -> list[str]:
            return settings_arguments(SchedulerSettings, {**values, "address": facts["address"]})

        arguments = settings_arguments(SchedulerSettings, values)
        self._child = SupervisedCommand("scaler_scheduler.cli", arguments, "scaler_scheduler", renewed)

    @property
    def pid(self) -> int | None:
        return self._child.pid

    def start(self) -> None:
        """Start it; ``get_address`` waits until it serves."""
        self._child.start()

    def get_address(self) -> str:
        """Where it listens, known when it serves."""
        return str(self._child.wait_ready()["address"])

    def get_monitor_address(self) -> str:
        """Where monitors connect."""
        return str(self._child.wait_ready()["monitor_address"])

    def terminate(self) -> None:
        """Ask it to end. Harmless when repeated."""
        self._child.terminate()

    def join(self, timeout: float | None = None) -> None:
        """Wait until it has ended."""
        self._child.join(timeout)

    def __enter__(self) -> Scheduler:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.terminate()
        self.join()
