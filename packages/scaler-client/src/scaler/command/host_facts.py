"""The facts about a host: a function that tasks run there, and the same on this host.

Workers run the source text of this module, since they need not have scaler-client, and code of another Python version
cannot be loaded.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from scaler_protocol.control_groups import memory_limits_bytes

CONNECT_SECONDS = 3.0
SHARED_MEMORY = "/dev/shm"


def host_facts(packages: list[str], endpoints: list[tuple[str, int]]) -> dict[str, Any]:
    """Plain values. ``endpoints``: hosts and ports to which it tries to connect."""
    began = time.time()
    import resource  # not every system on which clients run has these

    from scaler_protocol.objects.spilling import default_directory, space_of

    spill_directory = os.environ.get("SCALER_SPILL_DIRECTORY") or default_directory()
    spill_bytes, spill_capacity_bytes = space_of(spill_directory)
    shared_memory_bytes, _ = space_of(SHARED_MEMORY)
    with ThreadPoolExecutor(16) as threads:
        obstacles = list(threads.map(_obstacle, endpoints))
    return {
        "host": socket.gethostname(),
        "python": platform.python_version(),
        "packages": dict(_versions(packages)),
        "scaler": dict(_versions(["scaler-worker"])).get("scaler-worker", ""),
        "descriptors": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "processes": resource.getrlimit(resource.RLIMIT_NPROC)[0],
        "spill_directory": spill_directory,
        "spill_bytes": spill_bytes,
        "spill_capacity_bytes": spill_capacity_bytes,
        "shared_memory_bytes": shared_memory_bytes,
        "memory_files": _has_memory_files(),
        "group_memory_bytes": min(memory_limits_bytes(), default=0),
        "unreachable": [(*endpoint, text) for endpoint, text in zip(endpoints, obstacles, strict=True) if text],
        "cpus": len(os.sched_getaffinity(0)),
        "began": began,
        "ended": time.time(),
    }


def _versions(packages: list[str]) -> Iterator[tuple[str, str]]:
    for name in packages:
        try:
            yield name, importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue


def _has_memory_files() -> bool:
    try:
        os.close(os.memfd_create("scaler-doctor"))
    except OSError:
        return False
    return True


def _obstacle(endpoint: tuple[str, int]) -> str:
    """Return why it cannot be reached; empty if it can."""
    try:
        socket.create_connection(endpoint, CONNECT_SECONDS).close()
    except OSError as error:
        return error.strerror or str(error)
    return ""
