"""A cluster of workers on this host, started from Python."""

from __future__ import annotations

from collections.abc import Sequence

from scaler_protocol.command import SupervisedCommand, settings_arguments
from scaler_worker.config import ClusterSettings


class Cluster:
    """Runs ``scaler_cluster`` as a child process. It ends with this process, however this process ends. When it is
    killed, or ends because it is broken, it is started again; not after it has died early several times in a row."""

    def __init__(
        self,
        address: str,
        n_workers: int,
        worker_names: Sequence[str] | None = None,
        heartbeat_interval_seconds: float = 2,
        task_timeout_seconds: float = 0,
        death_timeout_seconds: float = 300,
        grace_seconds: float = 10,
        garbage_collect_interval_seconds: float = 30,
        trim_memory_threshold_bytes: int = 1 << 30,
        hard_processor_suspend: bool = False,
        event_loop: str = "builtin",
        worker_io_threads: int = 1,
        preload: str | None = None,
        object_store_memory: int = 0,
        spill_directory: str | None = None,
        echo_streamed_output: bool = True,
        per_worker_capabilities: Sequence[str] | None = None,
        logging_paths: Sequence[str] = ("/dev/stdout",),
        logging_level: str = "INFO",
        logging_config_file: str | None = None,
        log_format: str = "text",
    ) -> None:
        """The settings of the command. Nothing is started yet."""
        values = {
            "address": str(address),
            "num_of_workers": n_workers,
            "worker_names": tuple(worker_names or ()),
            "heartbeat_interval": heartbeat_interval_seconds,
            "task_timeout_seconds": task_timeout_seconds,
            "death_timeout_seconds": death_timeout_seconds,
            "grace_seconds": grace_seconds,
            "garbage_collect_interval_seconds": garbage_collect_interval_seconds,
            "trim_memory_threshold_bytes": trim_memory_threshold_bytes,
            "hard_processor_suspend": hard_processor_suspend,
            "event_loop": event_loop,
            "io_threads": worker_io_threads,
            "preload": preload,
            "object_store_memory": object_store_memory,
            "spill_directory": spill_directory,
            "echo_streamed_output": echo_streamed_output,
            "per_worker_capabilities": tuple(per_worker_capabilities or ()),
            "logging_paths": tuple(logging_paths),
            "logging_level": logging_level,
            "logging_config_file": logging_config_file,
            "log_format": log_format,
        }
        arguments = settings_arguments(ClusterSettings, values)
        self._command = SupervisedCommand("scaler_worker.cli", arguments, "scaler_cluster")

    def start(self, wait: bool = True) -> None:
        """``wait``: until the agent runs, so that bad settings are an error here. Raises BadInput, a ValueError."""
        self._command.start()
        if wait:
            self._command.wait_ready()

    def terminate(self) -> None:
        """Running tasks get the grace time. Harmless when it has ended."""
        self._command.terminate()

    def kill(self) -> None:
        """End it at once."""
        self._command.kill()

    def join(self, timeout_seconds: float | None = None) -> None:
        self._command.join(timeout_seconds)

    @property
    def pid(self) -> int | None:
        return self._command.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._command.exit_code
