"""Workers on hosts that are reached through SSH, with a scheduler of their own if needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scaler.cluster.managed import ManagedCluster, ManagedWorkers
from scaler.cluster.own_keys import OwnKeys
from scaler.utility.siblings import load_sibling


class SSHCluster(ManagedCluster):
    """Runs ``scaler_worker_manager ssh`` as a child process, and a scheduler on this host if no address is given. The
    processes end with ``shutdown``, with the end of ``with``, or with the application, also those on the hosts.

    Nothing needs to be copied to the hosts: their workers get the keys through SSH. If there are none yet, the cluster
    creates keys, and sets SCALER_KEYS in this process until ``shutdown``.

    Args:
        hosts: Run workers on these hosts: HOST, USER@HOST:PORT or HOST=WORKERS. One text with commas works, too.
        n_workers: Keep this many workers running on all hosts together. Default: the sum of their numbers.
        address: Use the scheduler at this address. Default: start one that the hosts can reach.
        minimum_workers: With ``maximum_workers``: always run this many.
        maximum_workers: Follow the load: run as many workers as the tasks need, at most this many. Give this or
            ``n_workers``.
        remote_python: Run this Python on the hosts; it must have scaler-worker installed. Default: this one's path, or
            else python3.
        ssh_config: Let ssh read this configuration file. Default: ~/.ssh/config.
        name: Reserve this name: a second manager of the same name is refused.
        death_timeout_seconds (seconds): End the workers after this long without a connection to the scheduler.
            Default: 60 s if this call starts the scheduler, or else 300 s.
        per_worker_capabilities: Offer these capabilities to tasks, with the amount that each worker has.
        logging_level: Log messages of this level and above to stderr. Default: WARNING.
    """

    def __init__(
        self,
        hosts: Sequence[str],
        n_workers: int | None = None,
        address: str | None = None,
        *,
        minimum_workers: int = 0,
        maximum_workers: int | None = None,
        remote_python: str | None = None,
        ssh_config: str | None = None,
        name: str | None = None,
        death_timeout_seconds: float | str | None = None,
        per_worker_capabilities: Mapping[str, float] | Sequence[str] | None = None,
        logging_level: str = "WARNING",
    ) -> None:
        self._keys = OwnKeys()
        values = {
            "hosts": hosts if isinstance(hosts, str) else tuple(hosts),
            "num_of_workers": n_workers,
            "minimum_workers": minimum_workers,
            "maximum_workers": maximum_workers,
            "remote_python": remote_python,
            "ssh_config": ssh_config,
            "name": name,
            "death_timeout_seconds": death_timeout_seconds,
            "per_worker_capabilities": per_worker_capabilities,
        }
        own_address = None
        if address is None:
            find = load_sibling("scaler_worker.manager.shell.ssh_route", "address_for_hosts")
            own_address = find(hosts, ssh_config)
            self._keys.make_if_missing()
        try:
            self._workers = ManagedWorkers("ssh", address, values, logging_level, own_address)
        except BaseException:
            self._keys.forget()
            raise

    def shutdown(self) -> None:
        """Stop the workers, and the scheduler if this cluster started it. Harmless when repeated."""
        super().shutdown()
        self._keys.forget()
