"""The command ``scaler_ui``."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from scaler_protocol.address import parse_watched_address
from scaler_protocol.command import (
    BadInput,
    argument,
    current_parent,
    hold_stop_signals,
    install_stop_signals,
    option,
    run_command,
)

if TYPE_CHECKING:
    from scaler_scheduler.web.sources import Source

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, kw_only=True)
class UiSettings:
    address: str | None = argument(
        default=None, help="the scheduler's monitor address, such as ipc:///tmp/127.0.0.1_2345_monitor"
    )
    host: str = option("127.0.0.1", help="where to listen; there is no password, so whoever reaches it can watch")
    port: int = option(50001, help="where to listen; 0: any free port", minimum=0, maximum=65535)
    allowed_hosts: tuple[str, ...] = option(
        (), help="names, beside this machine's own, under which browsers reach this monitor"
    )
    replay: str | None = option(None, help="show what a scheduler with --event-log wrote to this folder instead")


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    run_command(
        UiSettings,
        run,
        program="scaler_ui",
        section="ui",
        description="Shows what a Scaler cluster does, in a browser.",
        arguments=arguments,
    )


def run(settings: UiSettings) -> int:
    """Serve until told to stop; the exit code."""
    _check_extra()
    source = _source(settings)
    loop = asyncio.new_event_loop()
    hold_stop_signals()
    try:
        loop.run_until_complete(_serve(loop, source, settings))
    finally:
        source.close()
        loop.close()
    return 0


def _check_extra() -> None:
    try:
        import aiohttp  # noqa: F401
    except ImportError:
        raise BadInput("the web monitor needs the package aiohttp: pip install 'scaler-scheduler[ui]'") from None


def _source(settings: UiSettings) -> Source:
    from scaler_scheduler.web.sources import LiveSource, RecordedSource

    try:
        if settings.replay is not None:
            return RecordedSource(settings.replay)
        if settings.address is None:
            raise BadInput("ADDRESS is missing: give the monitor address that the scheduler logs, or --replay DIR")
        parse_watched_address(settings.address)
        return LiveSource(settings.address)
    except ValueError as error:
        raise BadInput(str(error)) from None


async def _serve(loop: asyncio.AbstractEventLoop, source: Source, settings: UiSettings) -> None:
    from scaler_scheduler.web.guard import Guard
    from scaler_scheduler.web.server import Server

    stopped = asyncio.Event()
    install_stop_signals(loop, stopped.set)
    server = Server(source, Guard((settings.host, socket.gethostname(), *settings.allowed_hosts)))
    try:
        port = await server.start(settings.host, settings.port)
    except (OSError, OverflowError) as error:
        await server.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise BadInput(
            f"cannot listen on {settings.host} port {settings.port} ({reason}): choose another --port"
        ) from None
    _say_where(settings.host, port)
    try:
        await server.run(stopped)
    finally:
        await server.close()


def _say_where(host: str, port: int) -> None:
    shown = f"[{host}]" if ":" in host else host
    print(f"scaler_ui: open http://{shown}:{port}/", flush=True)
    if host not in LOOPBACK:
        print(
            f"scaler_ui: whoever reaches port {port} of this machine can watch: there is no password", file=sys.stderr
        )
    parent = current_parent()
    if parent is not None:
        parent.report_ready(url=f"http://{shown}:{port}/")
