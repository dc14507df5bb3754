"""``scaler_worker_manager``: keeps a number of workers running for a scheduler."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence

from scaler_protocol.command import BadInput, hold_stop_signals, run_command, setup_logging
from scaler_worker import __version__
from scaler_worker.manager.config import ManagerSettings, default_name


def main(arguments: Sequence[str] | None = None) -> None:
    run_command(
        ManagerSettings, _run, program="scaler_worker_manager", section="manager",
        description="Keep workers of this KIND running for the scheduler at ADDRESS.",
        version=__version__, distribution="scaler-worker", arguments=arguments,
    )  # fmt: skip


def _run(settings: ManagerSettings) -> None:
    scales = settings.scales
    count = settings.minimum_workers if scales else settings.worker_count
    name = settings.name or default_name(settings.kind)
    from scaler_worker.manager.core.core import ManagerCore
    from scaler_worker.manager.shell.connection import ManagerConnection
    from scaler_worker.manager.shell.local import LocalBackend
    from scaler_worker.manager.shell.loop import ManagerLoop
    from scaler_worker.manager.shell.name_lock import NameLock

    lock = NameLock(settings.name) if settings.name is not None else None
    setup_logging(settings)
    hold_stop_signals()
    jobs = dataclasses.replace(settings, manager=name if scales else None)
    backend = LocalBackend(jobs, settings.most_per_job)
    link = ManagerConnection(settings.address) if scales else None
    loop = ManagerLoop(ManagerCore(count, settings.maximum_workers), backend, settings, name, link)
    asyncio.run(loop.run())
    if lock is not None:
        lock.release()
    if link is not None and link.session.is_refused:
        raise BadInput(link.session.ended)


if __name__ == "__main__":
    main()
