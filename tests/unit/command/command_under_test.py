"""A small real command, run as a child process by the tests beside it."""

import asyncio
import logging
import os
import sys
import time
from dataclasses import dataclass

from scaler_protocol.command import (
    BadInput,
    LoggingSettings,
    argument,
    current_parent,
    install_stop_signals,
    new_event_loop,
    option,
    run_command,
    setup_logging,
)
from scaler_protocol.command.turn_guard import BROKEN_CODE


@dataclass(frozen=True, kw_only=True)
class Settings(LoggingSettings):
    address: str = argument(help="what to do: serve, stubborn, refuse, crash, broken")
    event_loop: str = option("builtin", "-e", help="loop", choices=("builtin", "uvloop"))
    mark: str | None = option(None, help="file removed at the end")
    parent_patience_seconds: float = option(0, help="after the end of the script")


def serve(settings: Settings) -> int:
    setup_logging(settings)
    loop = new_event_loop(settings.event_loop)
    stubborn = settings.address == "stubborn"
    install_stop_signals(
        loop, (lambda: None) if stubborn else loop.stop, lambda: clean_up(settings), settings.parent_patience_seconds
    )
    parent = current_parent()
    if parent is not None:
        parent.report_ready(pid=os.getpid(), path=sys.path, pythonpath=os.environ.get("PYTHONPATH"))
    logging.info("serving")
    loop.call_later(60, loop.stop)
    loop.run_forever()
    loop.run_until_complete(asyncio.sleep(0))
    clean_up(settings)
    return 0


def clean_up(settings: Settings) -> None:
    if settings.mark:
        os.unlink(settings.mark)


def run(settings: Settings) -> int | None:
    if settings.address == "refuse":
        raise BadInput("this address\nis refused")
    if settings.address == "crash":
        os._exit(7)
    if settings.address == "broken":
        return BROKEN_CODE
    if settings.address == "silent":
        time.sleep(60)
    return serve(settings)


if __name__ == "__main__":
    run_command(
        Settings,
        run,
        program="under_test",
        section="scheduler",
        description="For tests.",
        version="1.0",
        distribution="tests",
    )
