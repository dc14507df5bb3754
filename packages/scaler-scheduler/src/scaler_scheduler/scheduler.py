"""A scheduler as a child process of a script."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scaler_protocol.command import SupervisedCommand, settings_arguments
from scaler_scheduler.config import SchedulerSettings

DEFAULT_ADDRESS = "tcp://127.0.0.1:0"


class Scheduler:
    """Runs the command ``scaler_scheduler`` as a child process of the calling script.

    No main guard is needed, and the scheduler ends with the script. When it is killed, or ends because it is broken, it
    is started again at the same address; not after it has ended early several times in a row. Durations and sizes are
    numbers, or texts with a unit such as "30s" and "4GiB".

    Args:
        address: Listen on this address, such as tcp://127.0.0.1:2345. Default: a free port of the loopback interface.
        monitor_address: Accept scaler_top, scaler_ui and scaler_gui on this address. Default: a private socket that a
            path in /tmp links to.
        event_log: Write event logs to this directory; replay them with scaler_top --replay DIR.
        event_log_limit_bytes (bytes): Limit the total size of the event logs; the oldest are deleted first. 0 =
            unlimited. Default: 0.
        audit_log: Append each action of a user on the cluster to this file, as a line of JSON with the user's name.
        prometheus_address: Serve Prometheus metrics on this address.
        prometheus_token_file: Require the bearer token in this file for the metrics. Only you may have permission to
            read the file.
        client_memory (bytes): Limit the memory for the tasks, objects and results of one client. 0 = half of the memory
            of the host or its control group. Default: 0.
        grace_seconds (seconds): Give running tasks this long to finish when the scheduler is stopped. Default: 10s.
        insecure: Listen on a public address without keys: anyone who can reach it can run code on this host. Default:
            False.
        io_threads: Use this many ZeroMQ I/O threads. Not used on Linux, where the scheduler serves its own connections.
            Default: 1.
        event_loop: Select the event loop; uvloop needs scaler-scheduler[uvloop]. Default: builtin.
        protected: Refuse a client's request to shut the scheduler down. Default: True.
        max_number_of_tasks_waiting: Limit the number of queued tasks. Further tasks are accepted but held back, which
            is slightly slower; submit never blocks. Graph nodes and nested tasks are exempt. -1 = unlimited. Default:
            -1.
        client_timeout_seconds (seconds): Keep the tasks of a disconnected client for this long. Default: 60s.
        worker_timeout_seconds (seconds): Consider a host lost, and reschedule its tasks, after this long without
            contact. Default: 60s.
        object_retention_seconds (seconds): Keep a large result that its client has not fetched for this long. Default:
            3600s.
        load_balance_seconds (seconds): Wait this long before asking a host for queued tasks again, if it had none to
            return. Default: 1s.
        load_balance_trigger_times: Apply --load-balance-seconds after this many consecutive empty replies. Default: 2.
        per_worker_queue_size: Queue at most this many tasks at one worker, more at a far one. The actual number depends
            on how long tasks take. Default: 1000.
        aging_seconds (seconds): Raise the priority of a client's waiting tasks by one step whenever none of them has
            been started for this long. 0 = never. Default: 0.
        monitor_output: Show the output of tasks in monitors, and keep it in event logs. Default: True.
        group_weights: Give these groups shares of other weights. Every other group has a weight of 1.
        group_limits: Let these groups use at most this many workers at a time.
        logging_paths: Write log lines to these files. Default: /dev/stdout.
        logging_level: Log messages of this level and above. Default: INFO.
        logging_config_file: Configure logging with this file of Python's logging.config format instead.
        log_format: Write log lines as plain text or as one JSON object each. Default: text.
    """

    def __init__(
        self, address: str | None = None, *, monitor_address: str | None = None, event_log: str | None = None,
        event_log_limit_bytes: int | str = 0, audit_log: str | None = None, prometheus_address: str | None = None,
        prometheus_token_file: str | None = None, client_memory: int | str = 0, grace_seconds: float | str = 10.0,
        insecure: bool = False, io_threads: int = 1, event_loop: str = "builtin", protected: bool = True,
        max_number_of_tasks_waiting: int = -1, client_timeout_seconds: float | str = 60.0,
        worker_timeout_seconds: float | str = 60.0, object_retention_seconds: float | str = 3600.0,
        load_balance_seconds: float | str = 1.0, load_balance_trigger_times: int = 2, per_worker_queue_size: int = 1000,
        aging_seconds: float | str = 0.0, monitor_output: bool = True, group_weights: str = "", group_limits: str = "",
        logging_paths: Sequence[str] = ("/dev/stdout",), logging_level: str = "INFO",
        logging_config_file: str | None = None, log_format: str = "text",
    ) -> None:  # fmt: skip
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
        """The address on which it listens. Waits until it serves."""
        return str(self._child.wait_ready()["address"])

    def get_monitor_address(self) -> str:
        """The address to which monitors connect. Waits until it serves."""
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
