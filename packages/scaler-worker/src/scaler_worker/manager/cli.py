"""``scaler_worker_manager``: keeps a number of workers running for a scheduler."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import sys
from collections.abc import Mapping, Sequence

from scaler_protocol.command import BadInput, current_parent, hold_stop_signals, run_command, setup_logging
from scaler_protocol.command.completion import FLAG, Completable
from scaler_protocol.command.log_tail import log_tail
from scaler_protocol.command.runner import print_completion
from scaler_protocol.command.service_manager import notify
from scaler_worker import __version__
from scaler_worker.manager.config import ManagerSettings, default_name
from scaler_worker.manager.kinds import KINDS

SCRIPT_SECONDS = 75.0
"""A script that starts a manager waits for this long in addition if its name is not free yet."""

_MARGIN_SECONDS = 5.0


def main(arguments: Sequence[str] | None = None) -> None:
    given = sys.argv[1:] if arguments is None else arguments
    if list(given[:1]) == [FLAG]:
        kinds = {name: Completable(kind.summary, kind.load_settings_class()) for name, kind in KINDS.items()}
        print_completion("scaler_worker_manager", Completable(_description(None), None, kinds), given[1:])
    kind = chosen_kind(given, os.environ)
    settings_class = KINDS[kind].load_settings_class() if kind is not None else ManagerSettings
    run_command(
        settings_class, _run, program="scaler_worker_manager", section="manager",
        description=_description(kind), version=__version__, distribution="scaler-worker", arguments=given,
    )  # fmt: skip


def chosen_kind(arguments: Sequence[str], environment: Mapping[str, str]) -> str | None:
    """The kind whose options the command has: the first argument. None: there is none, or an unknown one."""
    first = next(iter(arguments), "")
    kind = environment.get("SCALER_MANAGER_KIND", "") if first.startswith("-") else first
    return kind if kind in KINDS else None


def _description(kind: str | None) -> str:
    if kind is not None:
        return f"Keep workers running for the scheduler at ADDRESS. Kind {kind}: {KINDS[kind].summary}."
    kinds = "; ".join(f"{name}: {each.summary}" for name, each in KINDS.items())
    return (
        f"Keep workers running for the scheduler at ADDRESS. Kinds: {kinds}. The options below are those of every "
        "kind; scaler_worker_manager KIND --help shows all that a kind has."
    )


def _run(settings: ManagerSettings) -> int:
    settings.check_kind()
    hold_stop_signals()
    notify(STATUS="Starting")
    scales = settings.scales
    count = settings.minimum_workers if scales else settings.worker_count
    name = settings.name or default_name(settings.kind, scales)
    from scaler_worker.manager.core.manager import ManagerCore
    from scaler_worker.manager.shell.connection import ManagerConnection
    from scaler_worker.manager.shell.loop import ManagerLoop
    from scaler_worker.manager.shell.name_lock import NameLock

    setup_logging(settings)
    with log_tail() as tail:
        reserved = settings.reserved_name
        lock = NameLock(reserved, _ending_seconds(settings)) if reserved is not None else None
        kind = KINDS[settings.kind]
        backend = kind.load_backend(dataclasses.replace(settings, manager=name) if scales else settings)
        connection = ManagerConnection(settings.address, tail)
        core = ManagerCore(count, settings.maximum_workers)
        waits = kind.starts_at_once and count > 0
        on_ending = lock.tell_ending if lock is not None else lambda: None
        loop = ManagerLoop(core, backend, settings, name, connection, waits, kind.outlives_manager, on_ending)
        asyncio.run(loop.run())
    if lock is not None:
        lock.release()
    if connection.session.is_name_taken or (scales and connection.session.is_refused):
        raise BadInput(connection.session.ended)
    return core.exit_code


def _ending_seconds(settings: ManagerSettings) -> float:
    """Return how long to wait for an earlier manager of the name that only ends its jobs."""
    from scaler_worker.manager.shell.loop import ABANDONED_SECONDS

    seconds = settings.grace_seconds + ABANDONED_SECONDS + _MARGIN_SECONDS
    return seconds if current_parent() is None else min(seconds, SCRIPT_SECONDS)


if __name__ == "__main__":
    main()
