"""Workers in IBM Spectrum Symphony, with a scheduler of their own if needed."""

from __future__ import annotations

from scaler.cluster.managed import ManagedCluster, ManagedWorkers


class SymphonyCluster(ManagedCluster):
    """Runs ``scaler_worker_manager symphony`` as a child process, and a scheduler if no address is given. The
    processes end with ``shutdown``, with the end of ``with``, or with the application.

    Args:
        service: Use this Symphony service, such as ScalerService.
        n_workers: Run at most this many tasks in Symphony at the same time.
        minimum_workers: With ``maximum_workers``: always run this many.
        maximum_workers: Follow the load: run as many workers as the tasks need, at most this many. Give this or
            ``n_workers``.
        address: Use the scheduler at this address. Default: start one at a free port of the loopback interface.
        name: Reserve this name: a second manager of the same name is refused.
        workers_per_job: Run at most this many tasks in one session. Default: 1 with ``maximum_workers``, or else all.
        logging_level: Log messages of this level and above to stderr. Default: WARNING.
    """

    def __init__(
        self,
        service: str,
        n_workers: int | None = None,
        address: str | None = None,
        *,
        minimum_workers: int = 0,
        maximum_workers: int | None = None,
        name: str | None = None,
        workers_per_job: int | None = None,
        logging_level: str = "WARNING",
    ) -> None:
        values = {
            "service": service,
            "num_of_workers": n_workers,
            "minimum_workers": minimum_workers,
            "maximum_workers": maximum_workers,
            "name": name,
            "workers_per_job": workers_per_job,
        }
        self._workers = ManagedWorkers("symphony", address, values, logging_level)
