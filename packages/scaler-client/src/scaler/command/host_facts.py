"""The facts about a host: a function that tasks run there, and the same on this host."""

from __future__ import annotations

from typing import Any


def host_facts(packages: list[str], endpoints: list[tuple[str, int]]) -> dict[str, Any]:
    """Plain values. It uses nothing of this module, since workers get it as code: they need not have scaler-client.
    ``endpoints``: hosts and ports to which it tries to connect."""
    import importlib.metadata
    import os
    import platform
    import resource
    import shutil
    import socket
    import time
    from concurrent.futures import ThreadPoolExecutor

    def obstacle(endpoint: tuple[str, int]) -> str:
        try:
            socket.create_connection(endpoint, 3.0).close()
        except OSError as error:
            return error.strerror or str(error)
        return ""

    def number_in(path: str) -> int:
        try:
            with open(path, encoding="ascii") as file:
                return int(file.read())
        except (OSError, ValueError):
            return 0

    versions = {}
    for name in packages:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            pass
    try:
        os.close(os.memfd_create("scaler-doctor"))
        memory_files = True
    except OSError:
        memory_files = False
    with ThreadPoolExecutor(16) as threads:
        obstacles = list(threads.map(obstacle, endpoints))
    return {
        "host": socket.gethostname(),
        "time": time.time(),
        "python": platform.python_version(),
        "packages": versions,
        "descriptors": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "processes": resource.getrlimit(resource.RLIMIT_NPROC)[0],
        "spill_bytes": shutil.disk_usage("/var/tmp").free,
        "memory_files": memory_files,
        "group_memory_bytes": number_in("/sys/fs/cgroup/memory.max"),
        "unreachable": [(*endpoint, text) for endpoint, text in zip(endpoints, obstacles, strict=True) if text],
        "cpus": len(os.sched_getaffinity(0)),
    }


host_facts.__module__ = "__main__"  # pickled as code and not by its name
