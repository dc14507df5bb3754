"""``scaler_cluster`` (and ``scaler_worker``, the same program): the workers of this host."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence

from scaler_protocol.command import run_command, setup_logging
from scaler_protocol.command.descriptors import allow_many_descriptors
from scaler_protocol.command.log_tail import LogTail, log_tail
from scaler_protocol.command.service_manager import notify
from scaler_worker import __version__
from scaler_worker.config import ClusterSettings
from scaler_worker.system import processor_count
from scaler_worker.thread_limits import FOR_ALL, thread_limits


def main(arguments: Sequence[str] | None = None) -> None:
    run_command(
        ClusterSettings, _run, program="scaler_cluster", section="cluster",
        description="Run workers on this host for the scheduler at ADDRESS.", version=__version__,
        distribution="scaler-worker", arguments=arguments,
    )  # fmt: skip


def _run(settings: ClusterSettings) -> int:
    count = settings.worker_count
    setup_logging(settings)
    with log_tail() as tail:
        return _run_logged(settings, count, tail)


def _run_logged(settings: ClusterSettings, count: int, tail: LogTail) -> int:
    notify(STATUS="Starting workers")
    from scaler_worker.shell.zygote import Zygote

    zygote = Zygote(allow_many_descriptors(), _limit_threads(count))
    zygote.begin()  # it does its imports while this process does its own
    from scaler_worker.shell.agent import run_agent

    return run_agent(settings, count, zygote, tail)


def _limit_threads(worker_count: int) -> dict[str, str]:
    """The variables that do it, for the worker processes."""
    limits = thread_limits(worker_count, processor_count(), os.environ)
    if FOR_ALL in limits:
        threads = "1 thread" if limits[FOR_ALL] == "1" else f"{limits[FOR_ALL]} threads"
        logging.info(f"Numerical libraries use at most {threads} in each worker. Set {FOR_ALL} for another number.")
    return limits


if __name__ == "__main__":
    main()
