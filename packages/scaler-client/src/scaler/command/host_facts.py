"""The facts about a host: a function that tasks run there, and the same on this host."""

from __future__ import annotations

from typing import Any


def host_facts(packages: list[str]) -> dict[str, Any]:
    """Plain values. It uses nothing of this module, since workers get it as code: they need not have scaler-client."""
    import importlib.metadata
    import os
    import platform
    import resource
    import shutil
    import socket
    import time

    versions = {}
    for name in packages:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            pass
    try:
        shared_memory = shutil.disk_usage("/dev/shm").free
    except OSError:
        shared_memory = 0
    return {
        "host": socket.gethostname(),
        "time": time.time(),
        "python": platform.python_version(),
        "packages": versions,
        "descriptors": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "processes": resource.getrlimit(resource.RLIMIT_NPROC)[0],
        "spill_bytes": shutil.disk_usage("/var/tmp").free,
        "shared_memory_bytes": shared_memory,
        "cpus": len(os.sched_getaffinity(0)),
    }


host_facts.__module__ = "__main__"  # pickled as code and not by its name
