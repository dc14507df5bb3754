"""The kinds of worker managers: a table."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scaler_worker.manager.backend import WorkerBackend


@dataclass(frozen=True)
class ManagerKind:
    """``summary``: where its jobs run, for the help. The classes are named as module:class and loaded when asked for:
    a manager needs those of one kind. ``starts_at_once``: no job waits in a queue, so that a script that starts the
    manager waits until one runs. ``outlives_manager``: its jobs do not end with the manager."""

    summary: str
    settings: str
    backend: str
    starts_at_once: bool = False
    outlives_manager: bool = False

    def load_settings_class(self) -> type[Any]:
        """ManagerSettings, or a class derived from it that adds the options of this kind."""
        return _load(self.settings)

    def load_backend(self, settings: Any) -> WorkerBackend:
        """Made from settings of that class. Raises BadInput."""
        return _load(self.backend)(settings)


KINDS: Mapping[str, ManagerKind] = {
    "local": ManagerKind(
        summary="child processes on this host",
        settings="scaler_worker.manager.config:ManagerSettings",
        backend="scaler_worker.manager.shell.local:LocalBackend",
    ),
    "ssh": ManagerKind(
        summary="processes on other hosts, reached through SSH",
        settings="scaler_worker.manager.ssh_config:SSHSettings",
        backend="scaler_worker.manager.shell.ssh:SSHBackend",
        starts_at_once=True,
    ),
    "slurm": ManagerKind(
        summary="batch jobs of Slurm",
        settings="scaler_worker.manager.slurm_config:SlurmSettings",
        backend="scaler_worker.manager.shell.batch:BatchBackend",
        outlives_manager=True,
    ),
    "gridengine": ManagerKind(
        summary="batch jobs of Grid Engine",
        settings="scaler_worker.manager.gridengine_config:GridEngineSettings",
        backend="scaler_worker.manager.shell.batch:BatchBackend",
        outlives_manager=True,
    ),
    "pbs": ManagerKind(
        summary="batch jobs of PBS",
        settings="scaler_worker.manager.pbs_config:PBSSettings",
        backend="scaler_worker.manager.shell.batch:BatchBackend",
        outlives_manager=True,
    ),
    "lsf": ManagerKind(
        summary="batch jobs of LSF",
        settings="scaler_worker.manager.lsf_config:LSFSettings",
        backend="scaler_worker.manager.shell.batch:BatchBackend",
        outlives_manager=True,
    ),
    "kubernetes": ManagerKind(
        summary="pods of Kubernetes",
        settings="scaler_worker.manager.kubernetes_config:KubernetesSettings",
        backend="scaler_worker.manager.shell.pods:PodBackend",
        outlives_manager=True,
    ),
    "symphony": ManagerKind(
        summary="tasks in IBM Spectrum Symphony",
        settings="scaler_worker.manager.symphony_config:SymphonyManagerSettings",
        backend="scaler_worker.manager.shell.symphony:symphony_backend",
    ),
}


def _load(name: str) -> Any:
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)
