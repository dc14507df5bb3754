"""Workers in pods of Kubernetes, with a scheduler of their own if needed."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence

from scaler.cluster.managed import ManagedCluster, ManagedWorkers
from scaler.cluster.own_keys import OwnKeys
from scaler.utility.siblings import load_sibling


class KubernetesCluster(ManagedCluster):
    """Runs ``scaler_worker_manager kubernetes`` as a child process, and a scheduler on this host if no address is
    given. ``shutdown``, the end of ``with``, or that of the application deletes the pods, also if the application is
    killed. If its children are killed with it, as when its host fails, workers end because they lose their scheduler.

    The pods get the keys of SCALER_KEYS in a Secret, which is deleted at the end. If there are none yet, the cluster
    creates keys, and sets SCALER_KEYS in this process until ``shutdown``.

    Args:
        n_workers: Keep this many workers running in all pods together.
        address: Use the scheduler at this address. Default: start one that the pods can reach.
        image: Run this image, which must contain scaler_cluster and the same Python as this process.
        minimum_workers: With ``maximum_workers``: always run this many.
        maximum_workers: Follow the load: run as many workers as the tasks need, at most this many. Give this or
            ``n_workers``.
        workers_per_job: Run at most this many workers in one pod. Default: 1 with ``maximum_workers``, or else all.
        namespace: Create the pods in this namespace. Default: that of the kubectl configuration.
        kube_config: Read the address of the API server, and the credentials for it, from this file. Default: that of
            kubectl, or the account of the pod in which this process runs.
        kube_context: Use this context of the ``kube_config`` file. Default: the current one.
        cpus_per_worker: Reserve this many CPUs for each worker.
        memory_per_worker (bytes): Reserve this much memory for each worker, and limit it to that. Default: none.
        keys_secret: Let the workers use the keys in this Secret. Default: one that is created from this process's keys.
        pod_template: Merge the pod in this YAML file into each pod.
        name: Reserve this name, and adopt the pods of an earlier manager of this name. Default: one for this cluster.
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
        image: str,
        minimum_workers: int = 0,
        maximum_workers: int | None = None,
        workers_per_job: int | None = None,
        namespace: str | None = None,
        kube_config: str | None = None,
        kube_context: str | None = None,
        cpus_per_worker: int = 1,
        memory_per_worker: int | str | None = None,
        keys_secret: str | None = None,
        pod_template: str | None = None,
        name: str | None = None,
        death_timeout_seconds: float | str | None = None,
        per_worker_capabilities: Mapping[str, float] | Sequence[str] | None = None,
        logging_level: str = "WARNING",
    ) -> None:
        values = {
            "num_of_workers": n_workers,
            "image": image,
            "minimum_workers": minimum_workers,
            "maximum_workers": maximum_workers,
            "workers_per_job": workers_per_job,
            "namespace": namespace,
            "kube_config": kube_config,
            "kube_context": kube_context,
            "cpus_per_worker": cpus_per_worker,
            "memory_per_worker": memory_per_worker,
            "keys_secret": keys_secret,
            "pod_template": pod_template,
            "name": name or _own_name(),
            "death_timeout_seconds": death_timeout_seconds,
            "per_worker_capabilities": per_worker_capabilities,
        }
        own_address = None
        self._keys = OwnKeys()
        if address is None:
            route = load_sibling("scaler_worker.manager.shell.pods_route", "address_for_pods")
            own_address = route(kube_config, kube_context)
            self._keys.make_if_missing()
        try:
            self._workers = ManagedWorkers("kubernetes", address, values, logging_level, own_address)
        except BaseException:
            self._keys.forget()
            raise

    def shutdown(self) -> None:
        """Delete the pods, and stop the scheduler if this cluster started it. Harmless when repeated."""
        super().shutdown()
        self._keys.forget()


def _own_name() -> str:
    """A name that no other cluster has: a scheduler of its own has nothing to do with the pods of earlier ones."""
    host = socket.gethostname().partition(".")[0]
    return f"{host[:20]}-{os.getpid()}-{os.urandom(4).hex()}"
