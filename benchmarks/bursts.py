"""``python -m benchmarks.bursts KIND ...``: a burst of tasks, from which a manager scales from 0 workers and back to 0.

The batch systems, and the API server of Kubernetes, are those of the tests. Prints, for each
kind: the time until the last result, the most workers that ran, the time from the last result until the manager
counted no job, and the jobs that the batch system still counts then.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from scaler import Client
from scaler_protocol.key_files import generate
from scaler_protocol.transport.curve_authentication import new_key_pair
from tests.support.batch_programs import BatchPrograms
from tests.support.commands import Command, child_environment, command_line, start_scheduler
from tests.support.gridengine_site import gridengine_site
from tests.support.kubernetes_site import GOOD_IMAGE, api_server
from tests.support.ports import free_port
from tests.support.slurm_site import network_address, slurm_site
from tests.support.ssh_server import ssh_server
from tests.support.waiting import wait_until

KINDS = ("local", "ssh", "slurm", "gridengine", "pbs", "lsf", "kubernetes")
_END_SECONDS = 120.0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bursts", description=__doc__)
    parser.add_argument("kinds", nargs="+", choices=KINDS)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=0.1, help="of each task")
    parser.add_argument("--workers", type=int, default=8)
    arguments = parser.parse_args()
    for kind in arguments.kinds:
        print(f"{kind}: {measure(kind, arguments.tasks, arguments.seconds, arguments.workers)}", flush=True)


def measure(kind: str, tasks: int, seconds: float, workers: int) -> str:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="burst-")))
        flags, left = stack.enter_context(SITES[kind](folder))
        generate(folder / "keys", new_key_pair)
        os.environ["SCALER_KEYS"] = str(folder / "keys")
        address = f"tcp://{network_address()}:{free_port()}"
        stack.enter_context(start_scheduler(address, "--protected=False"))
        words = [kind, address, f"--maximum-workers={workers}", "--target-seconds=10", "--name=burst", *flags]
        manager = stack.enter_context(Command(command_line("scaler_worker_manager", *words), child_environment()))
        client = stack.enter_context(Client(address))
        result = _burst(client, tasks, seconds)
        assert manager.terminate() == 0
        return f"{result}, {left()} jobs left"


def _burst(client: Client, tasks: int, seconds: float) -> str:
    begin = time.monotonic()
    futures = [client.submit(time.sleep, seconds) for _ in range(tasks)]
    most = 0
    while not all(future.done() for future in futures):
        most = max(most, len(client.cluster_info().workers))
        time.sleep(0.5)
    finished = time.monotonic()
    wait_until(lambda: _counted(client) == (0, 0), _END_SECONDS, "no workers")
    counted = _counted(client)
    return (
        f"{tasks} tasks in {finished - begin:.0f} s with at most {most} workers, {counted[0] + counted[1]} workers "
        f"as counted by the manager {time.monotonic() - finished:.0f} s later"
    )


def _counted(client: Client) -> tuple[int, int]:
    """The workers that start and that run, as the manager has reported them."""
    (text,) = [each.value for each in client.cluster_info().snapshot.settings if each.name == "worker manager burst"]
    starting, running = (re.search(rf"([0-9]+) {word}", text) for word in ("starting", "running"))
    return int(starting[1]) if starting else 0, int(running[1]) if running else 0


# ---- where jobs run --------------------------------------------------------------------------------------------------

Site = Iterator[tuple[list[str], Callable[[], int]]]
"""The options of a manager there, and the number of jobs that exist as the site itself counts them."""


@contextmanager
def _local(folder: Path) -> Site:
    yield [], lambda: 0


@contextmanager
def _ssh(folder: Path) -> Site:
    (folder / "server").mkdir()
    with ssh_server(folder / "server") as server:
        flags = [f"--hosts={server.name}=8", f"--ssh-config={server.config}", f"--remote-python={sys.executable}"]
        yield flags, lambda: len(server.processes("scaler_worker"))


@contextmanager
def _slurm(folder: Path) -> Site:
    with slurm_site(4) as site:
        os.environ["SLURM_CONF"] = str(site.configuration)
        yield [f"--output={folder}/%j"], lambda: len(site.jobs())


@contextmanager
def _gridengine(folder: Path) -> Site:
    with gridengine_site(8) as site:
        os.environ.update(site.variables)
        yield [f"--output={folder}"], lambda: len(site.jobs())


@contextmanager
def _kubernetes(folder: Path) -> Site:
    with api_server(folder / "server") as server:
        os.environ["KUBECONFIG"] = str(server.kube_config())
        yield [f"--image={GOOD_IMAGE}"], lambda: len(server.pods())


def _stand_in(kind: str) -> Callable[[Path], Any]:
    @contextmanager
    def site(folder: Path) -> Site:
        programs = BatchPrograms(kind, folder / "site")
        os.environ["PATH"] = f"{programs.path}:{os.environ['PATH']}"
        os.environ[programs.variable] = str(programs.folder)
        yield [f"--output={folder}"], lambda: len(programs.jobs())

    return site


SITES = {
    "local": _local, "ssh": _ssh, "slurm": _slurm, "gridengine": _gridengine, "pbs": _stand_in("pbs"),
    "lsf": _stand_in("lsf"), "kubernetes": _kubernetes,
}  # fmt: skip


if __name__ == "__main__":
    main()
