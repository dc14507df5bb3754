"""The way in which each engine runs on several hosts: what to start on which, and how a client connects.

``python -m benchmarks.peers.between_hosts PEER ADDRESS WORKLOAD SIZE`` is the client: it prints its figures as JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from benchmarks.functions import noop
from benchmarks.hosts import Host, running
from benchmarks.peers import Engine

_PORT = 2345
_START_SECONDS = 2.0
_CONNECT_SECONDS = 60.0
_WARM_TASKS = 100

Started = Iterator[tuple[str, dict[str, str]]]
"""The address for clients, and what their environment needs."""


@dataclass(frozen=True)
class RemotePeer:
    """``catalogue_name`` names the peer whose environment it needs. ``start`` gets the Python of that environment, the
    hosts (scheduler, workers, client, further workers) and the number of workers of a host; ``connect`` runs in that
    Python."""

    name: str
    title: str
    catalogue_name: str
    start: Callable[[str, list[Host], int], Any]
    connect: Callable[[str], Any]


def _worker_hosts(hosts: list[Host]) -> list[Host]:
    return [hosts[1], *hosts[3:]]


def _command(python: str, name: str) -> str:
    return str(Path(python).parent / name)


# ---- Scaler ------------------------------------------------------------------------------------------------------


@contextmanager
def start_insecure(python: str, hosts: list[Host], workers: int) -> Started:
    with _scaler(python, hosts, workers, {}, ("--insecure",)) as address:
        yield address, {}


@contextmanager
def start_with_keys(python: str, hosts: list[Host], workers: int) -> Started:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([_command(python, "scaler_keygen"), folder], check=True, capture_output=True)
        settings = {"SCALER_KEYS": folder}
        with _scaler(python, hosts, workers, settings, ()) as address:
            yield address, settings


@contextmanager
def _scaler(
    python: str, hosts: list[Host], workers: int, settings: dict[str, str], options: tuple[str, ...]
) -> Iterator[str]:
    address = f"tcp://{hosts[0].address}:{_PORT}"
    with ExitStack() as stack:
        quiet = ("--logging-level", "ERROR")
        stack.enter_context(
            running(hosts[0], _command(python, "scaler_scheduler"), address, *options, *quiet, settings=settings)
        )
        cluster = (_command(python, "scaler_cluster"), "-n", str(workers), *quiet, address)
        for host in _worker_hosts(hosts):
            stack.enter_context(running(host, *cluster, settings=settings))
        yield address


@contextmanager
def connect_scaler(address: str) -> Iterator[Engine]:
    from benchmarks.peers.scaler_here import ScalerEngine
    from scaler import Client

    with Client(address) as client:
        yield ScalerEngine(client)


# ---- dask.distributed --------------------------------------------------------------------------------------------


@contextmanager
def start_dask(python: str, hosts: list[Host], workers: int) -> Started:
    address = f"tcp://{hosts[0].address}:{_PORT}"
    dask = _command(python, "dask")
    scheduler = (dask, "scheduler", "--host", hosts[0].address, "--port", str(_PORT))
    worker = (dask, "worker", address, "--nworkers", str(workers), "--nthreads", "1")
    with ExitStack() as stack:
        stack.enter_context(running(hosts[0], *scheduler, "--no-dashboard"))
        for host in _worker_hosts(hosts):
            stack.enter_context(running(host, *worker, "--no-dashboard", "--host", host.address))
        yield address, {}


@contextmanager
def connect_dask(address: str) -> Iterator[Engine]:
    from distributed import Client

    from benchmarks.peers.dask import DaskEngine

    with Client(address, timeout=_CONNECT_SECONDS) as client:
        client.wait_for_workers(1, timeout=_CONNECT_SECONDS)
        yield DaskEngine(client)


# ---- ray ---------------------------------------------------------------------------------------------------------


@contextmanager
def start_ray(python: str, hosts: list[Host], workers: int) -> Started:
    """A client needs a node of its own, on its host."""
    address = f"{hosts[0].address}:{_PORT}"
    ray = (_command(python, "ray"), "start", "--block", "--disable-usage-stats")
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
        head = (*ray, "--head", "--port", str(_PORT), "--num-cpus", "0", "--include-dashboard", "false")
        stack.enter_context(running(hosts[0], *head, "--node-ip-address", hosts[0].address, "--temp-dir", folder))
        time.sleep(5 * _START_SECONDS)
        for host, cpus in (*((each, workers) for each in _worker_hosts(hosts)), (hosts[2], 0)):
            node = (*ray, "--address", address, "--num-cpus", str(cpus), "--node-ip-address", host.address)
            stack.enter_context(running(host, *node))
        time.sleep(5 * _START_SECONDS)
        yield address, {}


@contextmanager
def connect_ray(address: str) -> Iterator[Engine]:
    import ray

    from benchmarks.peers.ray import RayEngine

    own_address = subprocess.run(["hostname", "-I"], capture_output=True, text=True).stdout.split()[0]
    ray.init(address, _node_ip_address=own_address, logging_level="ERROR", log_to_driver=False)
    try:
        yield cast(Engine, RayEngine(ray))  # which takes no collections
    finally:
        ray.shutdown()


REMOTE_PEERS = {
    peer.name: peer
    for peer in (
        RemotePeer("insecure", "Scaler, insecure", "scaler_here", start_insecure, connect_scaler),
        RemotePeer("keys", "Scaler, keys", "scaler_here", start_with_keys, connect_scaler),
        RemotePeer("dask", "dask.distributed, unencrypted", "dask", start_dask, connect_dask),
        RemotePeer("ray", "ray, unencrypted", "ray", start_ray, connect_ray),
    )
}


# ---- the client --------------------------------------------------------------------------------------------------


def main(arguments: list[str]) -> None:
    from benchmarks.workloads.catalogue import WORKLOADS

    peer, address, workload, size = arguments
    with REMOTE_PEERS[peer].connect(address) as engine:
        engine.map(noop, range(_WARM_TASKS))
        time.sleep(_START_SECONDS)  # processes that still start take the cores from others
        engine.map(noop, range(_WARM_TASKS))
        figures = WORKLOADS[workload].function(engine, int(size))
        print("\n" + json.dumps(figures), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
