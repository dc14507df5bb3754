"""A whole cluster on this machine, for one application."""

from __future__ import annotations

import atexit
import inspect
import weakref
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any

from scaler.cluster.port import ReservedPort
from scaler.utility.other_names import warn_of_effectless
from scaler.utility.siblings import load_sibling
from scaler_protocol.security import ensure_token

if TYPE_CHECKING:
    from scaler_scheduler import Scheduler
    from scaler_worker import Cluster

_END_SECONDS = 15.0


SCHEDULER_PARAMETERS = {"scheduler_io_threads": "io_threads"}
"""The scheduler's option of each parameter whose name differs from it."""


class SchedulerClusterCombo:
    """Starts a scheduler and workers on this machine as child processes: the same commands as in a terminal.

    Returns when the scheduler accepts connections. No main guard is needed. The processes end with ``shutdown``, with
    the end of ``with``, or with the application. ``n_workers`` may be 0, when other clusters join. An option that both
    commands have applies to both. Durations and sizes are numbers, or texts with a unit such as "30s" and "4GiB".

    Args:
        n_workers: Run this many workers on this host, each of which runs one task at a time.
        address: Listen on this address, such as tcp://127.0.0.1:2345. Default: a free port of the loopback interface.
        monitor_address: Accept scaler_top, scaler_ui and scaler_gui on this address. Default: a private socket that a
            path in /tmp links to.
        worker_io_threads: Use this many ZeroMQ I/O threads. On Linux they serve only a local scheduler in another
            container. Default: 1.
        scheduler_io_threads: Use this many ZeroMQ I/O threads. Not used on Linux, where the scheduler serves its own
            connections. Default: 1.
        max_number_of_tasks_waiting: Limit the number of queued tasks. Further tasks are accepted but held back, which
            is slightly slower; submit never blocks. Graph nodes and nested tasks are exempt. -1 = unlimited. Default:
            -1.
        heartbeat_interval_seconds (seconds): Report the state of this host to the scheduler at this interval. Default:
            2s.
        client_timeout_seconds (seconds): Keep the tasks of a disconnected client for this long. Default: 60s.
        worker_timeout_seconds (seconds): Consider a host lost, and reschedule its tasks, after this long without
            contact. Default: 60s.
        object_retention_seconds (seconds): Keep a large result that its client has not fetched for this long. Default:
            3600s.
        task_timeout_seconds (seconds): Fail tasks that run longer than this and have no timeout_seconds of their own. 0
            = no limit. Default: 0.
        death_timeout_seconds (seconds): Exit after this long without a connection to the scheduler (or to Symphony).
            Default: 300s.
        load_balance_seconds (seconds): Wait this long before asking a host for queued tasks again, if it had none to
            return. Default: 1s.
        load_balance_trigger_times: Apply --load-balance-seconds after this many consecutive empty replies. Default: 2.
        garbage_collect_interval_seconds (seconds): Collect garbage in idle worker processes at this interval. Default:
            30s.
        trim_memory_threshold_bytes (bytes): Return free memory to the system when a worker process uses more memory
            than this. Default: 1GiB.
        per_worker_queue_size: Queue at most this many tasks at one worker, more at a far one. The actual number depends
            on how long tasks take. Default: 1000.
        hard_processor_suspend: Suspend (SIGSTOP) the worker process of a task that waits for nested tasks. Default:
            False.
        protected: Refuse a client's request to shut the scheduler down. Default: True.
        event_loop: Select the event loop; uvloop needs scaler-scheduler[uvloop]. Default: builtin.
        logging_paths: Write log lines to these files. Default: /dev/stderr.
        logging_level: Log messages of this level and above. Default: WARNING.
        logging_config_file: Configure logging with this file of Python's logging.config format instead.
        per_worker_capabilities: Offer these capabilities to tasks, with the amount that each worker has: linux,gpu=1. A
            fraction, such as gpu=0.5, lets workers share a device.
        preload: Call this function in each worker process when it starts, for example to load a model.
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
        aging_seconds (seconds): Raise the priority of a client's waiting tasks by one step whenever none of them has
            been started for this long. 0 = never. Default: 0.
        monitor_output: Show the output of tasks in monitors, and keep it in event logs. Default: True.
        group_weights: Give these groups shares of other weights. Every other group has a weight of 1.
        group_limits: Let these groups use at most this many workers at a time.
        log_format: Write log lines as plain text or as one JSON object each. Default: text.
        worker_names: Name the workers, one name for each: a,b. Default: numbers.
        pin_workers: Bind each worker to processors of its own (cpu), or to those of one NUMA node (numa). Default:
            none.
        termination_notices: Shut down cleanly when this cloud provider announces that it will take the machine back.
            Default: none.
        object_store_memory (bytes): Limit the memory of this host's object store. 0 = half of the memory of the host or
            its control group. Default: 0.
        spill_directory: Move objects that do not fit into the object store's memory to this directory. Default:
            /var/tmp.
        environments_kept: Keep the packages of this many unused environments for later clients. Default: 10.
        per_worker_loaded_objects_size (bytes): Let each worker process keep loaded objects of this total size for its
            next tasks. 0 = none. Default: 512MiB.
        manager: Report that this worker manager scales these workers. scaler_worker_manager sets this option. Default:
            none.
        max_tasks_per_worker: Replace a worker process that has run this many tasks. 0 = never. Default: 0.
        recycle_memory_threshold_bytes (bytes): Replace a worker process that uses more memory than this, as soon as its
            task has ended. 0 = never. Default: 0.
        per_worker_task_queue_size: Another name of per_worker_queue_size.
        object_storage_address: Without effect, as are the following ones: programs written for opengris-scaler pass
            them.
        scaler_policy: Without effect.
        security_config: Without effect: keys are found through SCALER_KEYS.
        worker_manager_id: Without effect.
    """

    def __init__(
        self, n_workers: int, address: str | None = None, monitor_address: str | None = None,
        worker_io_threads: int = 1, scheduler_io_threads: int = 1, max_number_of_tasks_waiting: int = -1,
        heartbeat_interval_seconds: float | str = 2, client_timeout_seconds: float | str = 60.0,
        worker_timeout_seconds: float | str = 60.0, object_retention_seconds: float | str = 3600.0,
        task_timeout_seconds: float | str = 0.0, death_timeout_seconds: float | str = 300.0,
        load_balance_seconds: float | str = 1.0, load_balance_trigger_times: int = 2,
        garbage_collect_interval_seconds: float | str = 30, trim_memory_threshold_bytes: int | str = 1073741824,
        per_worker_queue_size: int = 1000, hard_processor_suspend: bool = False, protected: bool = True,
        event_loop: str = "builtin", logging_paths: Sequence[str] = ("/dev/stderr",), logging_level: str = "WARNING",
        logging_config_file: str | None = None,
        per_worker_capabilities: Mapping[str, float] | Sequence[str] | None = None, preload: str | None = None, *,
        event_log: str | None = None, event_log_limit_bytes: int | str = 0, audit_log: str | None = None,
        prometheus_address: str | None = None, prometheus_token_file: str | None = None, client_memory: int | str = 0,
        grace_seconds: float | str = 10.0, insecure: bool = False, aging_seconds: float | str = 0.0,
        monitor_output: bool = True, group_weights: str = "", group_limits: str = "", log_format: str = "text",
        worker_names: Sequence[str] | None = None, pin_workers: str = "none", termination_notices: str = "none",
        object_store_memory: int | str = 0, spill_directory: str | None = None, environments_kept: int = 10,
        per_worker_loaded_objects_size: int | str = 536870912, manager: str | None = None,
        max_tasks_per_worker: int = 0, recycle_memory_threshold_bytes: int | str = 0,
        per_worker_task_queue_size: int | None = None, object_storage_address: str | None = None,
        scaler_policy: object = None, security_config: object = None, worker_manager_id: object = None,
    ) -> None:  # fmt: skip
        values = {name: value for name, value in locals().items() if name != "self"}
        warn_of_effectless("SchedulerClusterCombo", **{name: values[name] for name in _EFFECTLESS})
        self._open(values)

    def _open(self, values: dict[str, Any]) -> None:
        """Start both commands with these values of the parameters."""
        if not isinstance(values["n_workers"], Integral):
            raise TypeError(f"n_workers must be a whole number, not {values['n_workers']!r}.")
        if values["n_workers"] < 0:
            raise ValueError(
                f"Cannot start {values['n_workers']} workers: the number is negative. Give n_workers 0 or more."
            )
        if values["per_worker_task_queue_size"] is not None:
            values["per_worker_queue_size"] = values["per_worker_task_queue_size"]
        scheduler_class: type[Scheduler] = load_sibling("scaler_scheduler", "Scheduler")
        cluster_class: type[Cluster] = load_sibling("scaler_worker", "Cluster")
        port = ReservedPort() if values["address"] is None else None
        if port is not None:
            values["address"] = port.address
            _make_token()
        self._cluster: Cluster | None = None
        self._scheduler: Scheduler = scheduler_class(**_arguments(scheduler_class, values, SCHEDULER_PARAMETERS))
        try:
            self._start(cluster_class, values, waits=port is None)
        except BaseException:
            self.shutdown()
            raise
        finally:
            if port is not None:
                port.release()

    def _start(self, cluster_class: type[Cluster], values: Mapping[str, Any], waits: bool) -> None:
        """``waits``: start the cluster only when the scheduler serves. An address that was given may belong to another
        scheduler, which is known only then; with a port of their own, both start at the same time."""
        self._scheduler.start()
        _combos.add(self)
        self._address: str = self._scheduler.get_address() if waits else values["address"]
        if values["n_workers"]:
            # The client writes the output of tasks to the same terminal.
            values = {**values, "address": self._address, "echo_streamed_output": False}
            self._cluster = cluster_class(**_arguments(cluster_class, values))
            self._cluster.start(wait=False)
        self._scheduler.get_address()

    def get_address(self) -> str:
        """The scheduler's address."""
        return self._address

    def get_monitor_address(self) -> str:
        """The address to which monitors connect."""
        return self._scheduler.get_monitor_address()

    def shutdown(self) -> None:
        """Stop workers and scheduler. Harmless when repeated, or when they have ended already."""
        if self._cluster is not None:
            self._cluster.terminate()
            _join(self._cluster)
        self._scheduler.terminate()
        _join(self._scheduler)
        _combos.discard(self)

    def __enter__(self) -> SchedulerClusterCombo:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()


def _make_token() -> None:
    """The cluster may read the token before the scheduler has made it. The scheduler reports why it cannot be made."""
    try:
        ensure_token()
    except (OSError, ValueError):
        pass


def _join(command: Scheduler | Cluster) -> None:
    """Wait for a command, which has a grace time of its own. One that is stuck ends with this process."""
    try:
        command.join(_END_SECONDS)
    except TimeoutError:
        pass


def _arguments(
    command_class: type, values: Mapping[str, Any], options: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The values that the class has parameters for. ``options`` has its names of those that it names otherwise."""
    named = {(options or {}).get(name, name): value for name, value in values.items()}
    return {name: named[name] for name in inspect.signature(command_class).parameters if name in named}


_EFFECTLESS = ("object_storage_address", "scaler_policy", "security_config", "worker_manager_id")
_combos: weakref.WeakSet[SchedulerClusterCombo] = weakref.WeakSet()


@atexit.register
def _shut_down_all() -> None:
    for combo in list(_combos):
        combo.shutdown()
