"""Workers on this host that a worker manager keeps running, with a scheduler of their own if needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scaler.cluster.managed import ManagedCluster, ManagedWorkers


class LocalCluster(ManagedCluster):
    """Runs ``scaler_worker_manager local`` as a child process, and a scheduler if no address is given. The
    processes end with ``shutdown``, with the end of ``with``, or with the application.

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
        values = {
            "num_of_workers": n_workers,
            "minimum_workers": minimum_workers,
            "maximum_workers": maximum_workers,
            "name": name,
            "per_worker_capabilities": per_worker_capabilities,
        }
        self._workers = ManagedWorkers("local", address, values, logging_level)
