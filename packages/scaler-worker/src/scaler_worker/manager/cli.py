"""``scaler_worker_manager``: keeps a number of workers running for a scheduler."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from scaler_protocol.command import hold_stop_signals, run_command, setup_logging
from scaler_worker import __version__
from scaler_worker.manager.config import ManagerSettings


def main(arguments: Sequence[str] | None = None) -> None:
    run_command(
        ManagerSettings, _run, program="scaler_worker_manager", section="manager",
        description="Keep workers of this KIND running for the scheduler at ADDRESS.",
        version=__version__, distribution="scaler-worker", arguments=arguments,
    )  # fmt: skip


def _run(settings: ManagerSettings) -> None:
    count = settings.worker_count
    from scaler_worker.manager.core.core import ManagerCore
    from scaler_worker.manager.shell.local import LocalBackend
    from scaler_worker.manager.shell.loop import ManagerLoop
    from scaler_worker.manager.shell.name_lock import NameLock

    lock = NameLock(settings.name) if settings.name is not None else None
    setup_logging(settings)
    hold_stop_signals()
    loop = ManagerLoop(ManagerCore(count), LocalBackend(settings), settings.per_worker_capabilities)
    asyncio.run(loop.run())
    if lock is not None:
        lock.release()


if __name__ == "__main__":
    main()
