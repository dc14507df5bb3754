"""The settings of ``scaler_worker_manager kubernetes``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from scaler_protocol.address import parse_address
from scaler_protocol.command import BadInput, option
from scaler_protocol.limits import WORKERS_LIMIT
from scaler_protocol.units import BYTES
from scaler_worker.manager.config import ManagerSettings, default_name

_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,43}[A-Za-z0-9])?")


@dataclass(frozen=True, kw_only=True)
class KubernetesSettings(ManagerSettings):
    """The options of the kind ``kubernetes``, besides those of every kind."""

    num_of_workers: int | None = option(
        None,
        "-n",
        metavar="COUNT",
        minimum=1,
        maximum=WORKERS_LIMIT,
        default_text="none",
        help="Run this many workers in all pods together, each of which runs one task at a time.",
    )
    image: str | None = option(
        None, metavar="IMAGE", default_text="none; required", help="Run this image, which must contain scaler_cluster."
    )
    namespace: str | None = option(
        None,
        metavar="NAME",
        default_text="that of the kubectl configuration",
        help="Create the pods in this namespace.",
    )
    kube_config: str | None = option(
        None,
        metavar="FILE",
        default_text="$KUBECONFIG, ~/.kube/config, or the account of the manager's own pod",
        help="Read the address of the API server, and the credentials for it, from this file.",
    )
    kube_context: str | None = option(
        None, metavar="NAME", default_text="the current one", help="Use this context of the --kube-config file."
    )
    cpus_per_worker: int = option(1, metavar="COUNT", minimum=1, help="Reserve this many CPUs for each worker.")
    memory_per_worker: int | None = option(
        None,
        unit=BYTES,
        minimum=1,
        default_text="none",
        help="Reserve this much memory for each worker, and limit it to that.",
    )
    keys_secret: str | None = option(
        None,
        metavar="NAME",
        default_text="one that the manager creates from its own keys",
        help="Let the workers use the keys in this Secret, which contains work.key and the public keys.",
    )
    pod_template: str | None = option(
        None,
        metavar="FILE",
        default_text="none",
        see="managers.md",
        help="Merge this pod, in YAML, into each pod, for example for tolerations, volumes or GPUs.",
    )

    @property
    def own_name(self) -> str:
        """The manager's name, which its pods carry. Raises BadInput when Kubernetes does not allow it in a label."""
        name = self.name or default_name(self.kind)
        if not _LABEL.fullmatch(name):
            raise BadInput(
                f"Cannot use the name {name} in Kubernetes. Give a --name of at most 45 letters, digits, underscores, "
                "dots and hyphens, which begins and ends with a letter or digit."
            )
        return name

    @property
    def reserved_name(self) -> str:
        """Its jobs outlive it, so that another manager of its name would have them."""
        return self.own_name

    @property
    def worker_count(self) -> int:
        """Raises BadInput when no number was given."""
        if self.worker_names:
            raise BadInput(
                "Cannot name workers that run in pods. Leave out --worker-names: they are named after their pods."
            )
        if self.num_of_workers is None:
            raise BadInput(
                "Cannot run workers in Kubernetes: give their number with --num-of-workers or --maximum-workers."
            )
        return self.num_of_workers

    def check(self) -> None:
        """Raises BadInput."""
        if not self.image:
            raise BadInput("Cannot run workers in Kubernetes without an image. Give --image; see deploy/containers.")
        if parse_address(self.address).is_local:
            raise BadInput(
                f"Cannot run workers in Kubernetes: pods cannot reach the scheduler at {self.address}. Let the "
                "scheduler listen at an address of its host in the network, and give that."
            )
