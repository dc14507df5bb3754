"""A whole cluster on this machine, for one application."""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from scaler.cluster.port import ReservedPort
from scaler.utility.siblings import load_sibling
from scaler_protocol.security import ensure_token

if TYPE_CHECKING:
    from scaler_scheduler import Scheduler
    from scaler_worker import Cluster

_END_SECONDS = 15.0


class SchedulerClusterCombo:
    """Starts a scheduler and ``n_workers`` workers as child processes: the same commands as in a terminal. Needs no
    main guard. Leave with ``shutdown``, or use it in ``with``; they end with the application in any case."""

    def __init__(
        self,
        n_workers: int,
        address: str | None = None,
        monitor_address: str | None = None,
        worker_io_threads: int = 1,
        scheduler_io_threads: int = 1,
        max_number_of_tasks_waiting: int = -1,
        heartbeat_interval_seconds: float = 2,
        client_timeout_seconds: float = 60,
        worker_timeout_seconds: float = 60,
        object_retention_seconds: float = 3600,
        task_timeout_seconds: float = 0,
        death_timeout_seconds: float = 300,
        load_balance_seconds: float = 1,
        load_balance_trigger_times: int = 2,
        garbage_collect_interval_seconds: float = 30,
        trim_memory_threshold_bytes: int = 1 << 30,
        per_worker_queue_size: int = 1000,
        hard_processor_suspend: bool = False,
        protected: bool = True,
        event_loop: str = "builtin",
        logging_paths: Sequence[str] = ("/dev/stderr",),
        logging_level: str = "WARNING",
        logging_config_file: str | None = None,
        per_worker_capabilities: Mapping[str, int] | Sequence[str] | None = None,
        preload: str | None = None,
    ) -> None:
        """Returns when the scheduler serves. ``address`` defaults to a free port of the loopback interface;
        ``n_workers`` may be 0: other clusters may join. Logs are those of a library: warnings, to stderr.
        ``preload``: ``module:function`` that each worker process calls when it starts."""
        if n_workers < 0:
            raise ValueError(f"n_workers must not be negative, but is {n_workers}.")
        scheduler_class: type[Scheduler] = load_sibling("scaler_scheduler", "Scheduler")
        cluster_class: type[Cluster] = load_sibling("scaler_worker", "Cluster")
        self._cluster: Cluster | None = None
        port = ReservedPort() if address is None else None
        if port is not None:
            _make_token()
        self._scheduler: Scheduler = scheduler_class(
            port.address if port else address,
            monitor_address=monitor_address,
            protected=protected,
            io_threads=scheduler_io_threads,
            event_loop=event_loop,
            max_number_of_tasks_waiting=max_number_of_tasks_waiting,
            client_timeout_seconds=client_timeout_seconds,
            worker_timeout_seconds=worker_timeout_seconds,
            object_retention_seconds=object_retention_seconds,
            load_balance_seconds=load_balance_seconds,
            load_balance_trigger_times=load_balance_trigger_times,
            per_worker_queue_size=per_worker_queue_size,
            logging_paths=tuple(logging_paths),
            logging_level=logging_level,
            logging_config_file=logging_config_file,
        )
        self._scheduler.start()
        _combos.add(self)
        try:
            # With a port of its own the cluster starts while the scheduler does. An address that was given may be
            # somebody else's: that is known only when the scheduler serves there.
            self._address = port.address if port else self._scheduler.get_address()
            if n_workers:
                self._cluster = cluster_class(
                    self._address,
                    n_workers,
                    heartbeat_interval_seconds=heartbeat_interval_seconds,
                    task_timeout_seconds=task_timeout_seconds,
                    death_timeout_seconds=death_timeout_seconds,
                    garbage_collect_interval_seconds=garbage_collect_interval_seconds,
                    trim_memory_threshold_bytes=trim_memory_threshold_bytes,
                    hard_processor_suspend=hard_processor_suspend,
                    event_loop=event_loop,
                    worker_io_threads=worker_io_threads,
                    preload=preload,
                    echo_streamed_output=False,  # the client writes it to the same terminal
                    per_worker_capabilities=_capability_texts(per_worker_capabilities),
                    logging_paths=tuple(logging_paths),
                    logging_level=logging_level,
                    logging_config_file=logging_config_file,
                )
                self._cluster.start(wait=False)
            self._scheduler.get_address()
        except BaseException:
            self.shutdown()
            raise
        finally:
            if port is not None:
                port.release()

    def get_address(self) -> str:
        """The scheduler's address."""
        return self._address

    def get_monitor_address(self) -> str:
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
    """The cluster may look for it before the scheduler has made it. The scheduler says why it cannot be made."""
    try:
        ensure_token()
    except (OSError, ValueError):
        pass


def _join(command: Scheduler | Cluster) -> None:
    """It has a grace time of its own; one that is stuck beyond it ends with this process."""
    try:
        command.join(_END_SECONDS)
    except TimeoutError:
        pass


def _capability_texts(capabilities: Mapping[str, int] | Sequence[str] | None) -> tuple[str, ...]:
    if not capabilities:
        return ()
    if isinstance(capabilities, Mapping):
        return tuple(f"{name}={amount}" for name, amount in sorted(capabilities.items()))
    return tuple(capabilities)


_combos: weakref.WeakSet[SchedulerClusterCombo] = weakref.WeakSet()


@atexit.register
def _shut_down_all() -> None:
    for combo in list(_combos):
        combo.shutdown()
