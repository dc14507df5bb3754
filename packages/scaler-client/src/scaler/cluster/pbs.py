"""Workers in batch jobs of PBS, with a scheduler of their own if needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scaler.cluster.batch import BatchWorkers
from scaler.cluster.managed import ManagedCluster


class PBSCluster(ManagedCluster):
    """Runs ``scaler_worker_manager pbs`` as a child process, and a scheduler on this host if no address is given.
    ``shutdown``, the end of ``with``, or that of the application cancels the jobs, also if the application is killed.
    If its children are killed with it, as when its host fails, jobs end because they lose their scheduler.

    The jobs find the keys in the directory that SCALER_KEYS names, which the nodes share. If there is none yet, the
    cluster creates keys in ~/.scaler, and sets SCALER_KEYS in this process until ``shutdown``.

    Args:
        n_workers: Keep this many workers running in all jobs together.
        address: Use the scheduler at this address. Default: start one that the nodes can reach.
        minimum_workers: With ``maximum_workers``: always run this many.
        maximum_workers: Follow the load: run as many workers as the tasks need, at most this many. Give this or
            ``n_workers``.
        workers_per_job: Run at most this many workers in one job. Default: 1 with ``maximum_workers``, or else all.
        queue: Submit the jobs to this queue. Default: PBS's own.
        account: Charge this account for the jobs. Default: PBS's own.
        project: Submit the jobs for this project. Default: PBS's own.
        resources: Reserve these further resources for each job, such as "ngpus=1:model=fast".
        time_limit_seconds (seconds): Let each job run for this long. Its workers drain before, and a new job replaces
            it. Default: that of the queue.
        cpus_per_worker: Reserve this many CPUs for each worker.
        memory_per_worker (bytes): Reserve this much memory for each worker. Default: that of the queue.
        output: Write the output of each job to this file on its node. Default: a file per job in
            the working directory.
        qsub_options: Pass these further options to qsub, such as "-l place=excl".
        job_setup: Run this shell command in each job before its workers start.
        remote_python: Run this Python on the nodes; it must have scaler-worker installed. Default: this one's path.
        name: Reserve this name, and adopt the jobs of an earlier manager of this name. Default: one for this cluster.
        death_timeout_seconds (seconds): End the workers after this long without a connection to the scheduler.
            Default: 60 s if this call starts the scheduler, or else 300 s.
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
        workers_per_job: int | None = None,
        queue: str | None = None,
        account: str | None = None,
        project: str | None = None,
        resources: str | None = None,
        time_limit_seconds: float | str | None = None,
        cpus_per_worker: int = 1,
        memory_per_worker: int | str | None = None,
        output: str | None = None,
        qsub_options: str | None = None,
        job_setup: str | None = None,
        remote_python: str | None = None,
        name: str | None = None,
        death_timeout_seconds: float | str | None = None,
        per_worker_capabilities: Mapping[str, float] | Sequence[str] | None = None,
        logging_level: str = "WARNING",
    ) -> None:
        values = {
            "num_of_workers": n_workers,
            "minimum_workers": minimum_workers,
            "maximum_workers": maximum_workers,
            "workers_per_job": workers_per_job,
            "queue": queue,
            "account": account,
            "project": project,
            "resources": resources,
            "time_limit_seconds": time_limit_seconds,
            "cpus_per_worker": cpus_per_worker,
            "memory_per_worker": memory_per_worker,
            "output": output,
            "qsub_options": qsub_options,
            "job_setup": job_setup,
            "remote_python": remote_python,
            "name": name,
            "death_timeout_seconds": death_timeout_seconds,
            "per_worker_capabilities": per_worker_capabilities,
        }
        self._workers = BatchWorkers("pbs", address, values, logging_level)
