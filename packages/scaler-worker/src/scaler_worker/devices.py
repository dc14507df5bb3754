"""Devices: which GPUs, or other counted devices of a host, each of its workers may use.

A capability is a count. If the host also names its devices, each worker gets its own for as long as it lives, so that
two tasks never use the same device at a time, unless the operator lets them share it (an amount below 1). Variables
name the devices of a capability:

* ``SCALER_RESOURCE_<NAME>``, for any capability: a list such as ``0,1``.
* For ``gpu`` also ``CUDA_VISIBLE_DEVICES`` or ``ROCR_VISIBLE_DEVICES``; if none of these is set, the devices are those
  that NVIDIA's driver shows.

A capability whose devices are not named stays a mere count.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scaler_protocol.command import BadInput
from scaler_protocol.messages import UNITS_PER_WHOLE, UNLIMITED_AMOUNT, Capability

GPU = "gpu"
CUDA_VARIABLE = "CUDA_VISIBLE_DEVICES"
GPU_VARIABLES = CUDA_VARIABLE, "ROCR_VISIBLE_DEVICES"
NVIDIA_DRIVER_PATH = Path("/proc/driver/nvidia/gpus")
"""The driver of NVIDIA has one folder here for each device."""


@dataclass(frozen=True)
class NamedDevices:
    """The devices of one capability on this host. ``variables`` tell a worker process which of them are its own;
    ``source`` says where the names come from."""

    variables: tuple[str, ...]
    names: tuple[str, ...]
    source: str


def resource_variable(capability: str) -> str:
    """``SCALER_RESOURCE_GPU`` for ``gpu``."""
    return "SCALER_RESOURCE_" + re.sub(r"[^A-Z0-9]", "_", capability.upper())


def find_devices(
    capability: str, environment: Mapping[str, str], nvidia_path: Path = NVIDIA_DRIVER_PATH
) -> NamedDevices | None:
    """The devices of ``capability`` that this host names. None: it names none."""
    own = resource_variable(capability)
    is_gpu = capability == GPU
    for variable in (own, *(GPU_VARIABLES if is_gpu else ())):
        if variable in environment:
            text = environment[variable]
            names = tuple(name.strip() for name in text.split(",") if name.strip())
            library = (CUDA_VARIABLE if variable == own else variable,) if is_gpu else ()
            return NamedDevices((own, *library), names, f"{variable}={text}")
    count = len(list(nvidia_path.iterdir())) if is_gpu and nvidia_path.is_dir() else 0
    names = tuple(str(index) for index in range(count))
    return NamedDevices((own, CUDA_VARIABLE), names, f"{count} in {nvidia_path}") if count else None


def assign_devices(
    capabilities: Sequence[Capability], worker_count: int, environment: Mapping[str, str]
) -> list[dict[str, str]]:
    """The variables of each worker that name its devices; nothing where no devices are named. Raises BadInput if the
    host has fewer devices than its workers offer."""
    variables: list[dict[str, str]] = [{} for _ in range(worker_count)]
    for capability in capabilities:
        devices = find_devices(capability.name, environment)
        if devices is not None and capability.units and capability.amount < UNLIMITED_AMOUNT:
            for worker, names in enumerate(_share(capability, devices, worker_count)):
                variables[worker].update(dict.fromkeys(devices.variables, ",".join(names)))
    return variables


def _share(capability: Capability, devices: NamedDevices, worker_count: int) -> list[tuple[str, ...]]:
    """The devices of each worker: consecutive ones."""
    workers_per_device = max(1, UNITS_PER_WHOLE // capability.units)
    devices_per_worker = max(1, capability.amount)
    needed = -(-worker_count // workers_per_device) * devices_per_worker
    if needed > len(devices.names):
        amount = f"{capability.units / UNITS_PER_WHOLE:.15g}"
        raise BadInput(
            f"Cannot offer {capability.name}={amount} at each of {worker_count} workers: they need {needed} devices, "
            f"and this host has {len(devices.names)} ({devices.source}). Offer less, or start fewer workers."
        )
    first = [worker // workers_per_device * devices_per_worker for worker in range(worker_count)]
    return [devices.names[start : start + devices_per_worker] for start in first]
