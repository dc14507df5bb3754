"""A cluster of workers on this host, started from Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scaler_protocol.command import SupervisedCommand, settings_arguments
from scaler_worker.config import ClusterSettings

CLUSTER_PARAMETERS = {
    "n_workers": "num_of_workers",
    "heartbeat_interval_seconds": "heartbeat_interval",
    "worker_io_threads": "io_threads",
}
"""The option of each parameter whose name differs from it."""


class Cluster:
    """Runs the command ``scaler_cluster`` as a child process of the calling script.

    It ends with the script, however the script ends. When it is killed, or ends because it is broken, it is started
    again; not after it has ended early several times in a row. Durations and sizes are numbers, or texts with a unit
    such as "30s" and "4GiB". Nothing is started before ``start``.

    Args:
        address: Connect to the scheduler at this address, such as tcp://127.0.0.1:2345.
        n_workers: Run this many workers on this host, each of which runs one task at a time.
        worker_names: Name the workers, one name for each: a,b. Default: numbers.
        heartbeat_interval_seconds (seconds): Report the state of this host to the scheduler at this interval. Default:
            2s.
        task_timeout_seconds (seconds): Fail tasks that run longer than this and have no timeout_seconds of their own. 0
            = no limit. Default: 0.
        death_timeout_seconds (seconds): Exit after this long without a connection to the scheduler (or to Symphony).
            Default: 300s.
        grace_seconds (seconds): Give running tasks this long to finish on shutdown. Default: 10s.
        garbage_collect_interval_seconds (seconds): Collect garbage in idle worker processes at this interval. Default:
            30s.
        trim_memory_threshold_bytes (bytes): Return free memory to the system when a worker process uses more memory
            than this. Default: 1GiB.
        hard_processor_suspend: Suspend (SIGSTOP) the worker process of a task that waits for nested tasks. Default:
            False.
        event_loop: Select the event loop; uvloop needs scaler-worker[uvloop]. Default: builtin.
        worker_io_threads: Use this many ZeroMQ I/O threads. On Linux they serve only a local scheduler in another
            container. Default: 1.
        preload: Call this function in each worker process when it starts, for example to load a model.
        object_store_memory (bytes): Limit the memory of this host's object store. 0 = half of the memory of the host or
            its control group. Default: 0.
        spill_directory: Move objects that do not fit into the object store's memory to this directory. Default:
            /var/tmp.
        echo_streamed_output: Also write the warnings and streamed output of tasks, which clients show, to this
            command's own output. Default: True.
        per_worker_capabilities: Offer these capabilities to tasks, with the amount that each worker has: linux,gpu=1. A
            fraction, such as gpu=0.5, lets workers share a device.
        logging_paths: Write log lines to these files. Default: /dev/stdout.
        logging_level: Log messages of this level and above. Default: INFO.
        logging_config_file: Configure logging with this file of Python's logging.config format instead.
        log_format: Write log lines as plain text or as one JSON object each. Default: text.
        pin_workers: Bind each worker to processors of its own (cpu), or to those of one NUMA node (numa). Default:
            none.
        termination_notices: Shut down cleanly when this cloud provider announces that it will take the machine back.
            Default: none.
        environments_kept: Keep the packages of this many unused environments for later clients. Default: 10.
        per_worker_loaded_objects_size (bytes): Let each worker process keep loaded objects of this total size for its
            next tasks. 0 = none. Default: 512MiB.
        manager: Report that this worker manager scales these workers. scaler_worker_manager sets this option. Default:
            none.
        max_tasks_per_worker: Replace a worker process that has run this many tasks. 0 = never. Default: 0.
        recycle_memory_threshold_bytes (bytes): Replace a worker process that uses more memory than this, as soon as its
            task has ended. 0 = never. Default: 0.
    """

    def __init__(
        self, address: str, n_workers: int, worker_names: Sequence[str] | None = None,
        heartbeat_interval_seconds: float | str = 2, task_timeout_seconds: float | str = 0.0,
        death_timeout_seconds: float | str = 300.0, grace_seconds: float | str = 10.0,
        garbage_collect_interval_seconds: float | str = 30, trim_memory_threshold_bytes: int | str = 1073741824,
        hard_processor_suspend: bool = False, event_loop: str = "builtin", worker_io_threads: int = 1,
        preload: str | None = None, object_store_memory: int | str = 0, spill_directory: str | None = None,
        echo_streamed_output: bool = True, per_worker_capabilities: Mapping[str, float] | Sequence[str] | None = None,
        logging_paths: Sequence[str] = ("/dev/stdout",), logging_level: str = "INFO",
        logging_config_file: str | None = None, log_format: str = "text", *, pin_workers: str = "none",
        termination_notices: str = "none", environments_kept: int = 10,
        per_worker_loaded_objects_size: int | str = 536870912, manager: str | None = None,
        max_tasks_per_worker: int = 0, recycle_memory_threshold_bytes: int | str = 0,
    ) -> None:  # fmt: skip
        values = {CLUSTER_PARAMETERS.get(name, name): value for name, value in locals().items() if name != "self"}
        arguments = settings_arguments(ClusterSettings, values)
        self._command = SupervisedCommand("scaler_worker.cli", arguments, "scaler_cluster")

    def start(self, wait: bool = True) -> None:
        """Start it. ``wait``: until the agent runs, so that bad settings raise BadInput, a ValueError, here. Otherwise
        they are logged."""
        self._command.start(is_awaited=wait)
        if wait:
            self._command.wait_ready()

    def terminate(self) -> None:
        """Ask it to end; running tasks get the grace time. Harmless when it has ended."""
        self._command.terminate()

    def kill(self) -> None:
        """End it at once."""
        self._command.kill()

    def join(self, timeout_seconds: float | None = None) -> None:
        """Wait until it has ended. Raises TimeoutError."""
        self._command.join(timeout_seconds)

    @property
    def pid(self) -> int | None:
        return self._command.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._command.exit_code
