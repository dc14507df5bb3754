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
from scaler_protocol.command.service_manager import notify
from scaler_protocol.monitor.past import GO_TO_TEXT
from scaler_scheduler import __version__

if TYPE_CHECKING:
    from scaler_scheduler.web.sources import PageSource
    from scaler_scheduler.web.token import TokenCheck

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, kw_only=True)
class UiSettings:
    address: str | None = argument(
        default=None,
        help="Watch the scheduler at this address of this machine, such as tcp://127.0.0.1:2345, or the one with this "
        "monitor address.",
    )
    host: str = option(
        "127.0.0.1",
        metavar="HOST",
        help="Listen on this host address. Nothing is encrypted, so use a tunnel for access from other machines.",
    )
    port: int = option(50001, metavar="PORT", minimum=0, maximum=65535, help="Listen on this port. 0 = any free port.")
    allowed_hosts: tuple[str, ...] = option(
        (), metavar="NAME", help="Accept requests for these further host names, such as the name of a proxy."
    )
    token: str | None = option(
        None,
        metavar="TOKEN",
        default_text="a new token at each start",
        help="Require this token from browsers (?token=...), at least 8 characters. Other users can read the command "
        "line, so set SCALER_UI_TOKEN or use a file instead.",
    )
    require_token: bool = option(True, help="Require the token. Without it, anyone who can reach the port can watch.")
    actions: bool = option(
        True,
        help="Let pages pause, resume and drain workers and cancel tasks, with this user's rights. Needs the token.",
    )
    replay: str | None = option(
        None, metavar="DIR", help="Replay the event logs that scaler_scheduler --event-log DIR has written."
    )
    go_to: str | None = option(
        None, metavar="TIME", help="With --replay, begin at this time, such as 03:00 or 2023-11-14T14:03:59."
    )


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    run_command(
        UiSettings,
        run,
        program="scaler_ui",
        section="ui",
        description="Show the state of a Scaler cluster in a browser.",
        version=__version__,
        distribution="scaler-scheduler",
        arguments=arguments,
    )


def run(settings: UiSettings) -> int:
    """Serve until told to stop; the exit code."""
    _check_extra()
    token = _token(settings)
    source = _source(settings)
    loop = asyncio.new_event_loop()
    hold_stop_signals()
    try:
        loop.run_until_complete(_serve(loop, source, settings, token))
    finally:
        source.close()
        loop.close()
    return 0


def _check_extra() -> None:
    try:
        import aiohttp  # noqa: F401
    except ImportError:
        raise BadInput(
            "Cannot start the web monitor: the package aiohttp is missing. Run pip install 'scaler-scheduler[ui]'."
        ) from None


def _token(settings: UiSettings) -> str | None:
    """None: anyone who reaches the port may watch."""
    from scaler_scheduler.web.token import SHORTEST, new_token

    if not settings.require_token:
        return None
    if settings.token is None:
        return new_token()
    if len(settings.token) < SHORTEST or not settings.token.isprintable() or " " in settings.token:
        raise BadInput(
            f"Cannot use this token: it needs at least {SHORTEST} printable characters and no space. "
            "Give a longer one, or --no-require-token to let anyone who can reach the port watch."
        )
    return settings.token


def _source(settings: UiSettings) -> PageSource:
    from scaler_scheduler.web.sources import LiveSource, RecordedSource

    try:
        if settings.replay is not None:
            return RecordedSource(settings.replay, settings.go_to)
        if settings.go_to is not None:
            raise BadInput(GO_TO_TEXT)
        if settings.address is None:
            raise BadInput("Missing argument ADDRESS. Give the address of a scheduler, or --replay DIR.")
        parse_watched_address(settings.address)
        return LiveSource(settings.address)
    except ValueError as error:
        raise BadInput(str(error)) from None


async def _serve(loop: asyncio.AbstractEventLoop, source: PageSource, settings: UiSettings, token: str | None) -> None:
    from scaler_scheduler.web.operations import PageOperations
    from scaler_scheduler.web.origin_check import OriginCheck
    from scaler_scheduler.web.server import UiServer
    from scaler_scheduler.web.token import TokenCheck

    stopped = asyncio.Event()
    install_stop_signals(loop, stopped.set)
    token_check = TokenCheck(token)
    origin_check = OriginCheck((settings.host, socket.gethostname(), *settings.allowed_hosts))
    server = UiServer(
        source, origin_check, token_check, PageOperations(source, settings.actions and token_check.has_token)
    )
    try:
        port = await server.start(settings.host, settings.port)
    except (OSError, OverflowError) as error:
        await server.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise BadInput(
            f"Cannot listen on {settings.host} port {settings.port}: {reason}. Choose another --port."
        ) from None
    _say_where(settings.host, port, token_check)
    try:
        await server.run(stopped)
    finally:
        await server.close()


def _say_where(host: str, port: int, token_check: TokenCheck) -> None:
    shown = f"[{host}]" if ":" in host else host
    address = token_check.address(f"http://{shown}:{port}/")
    print(f"scaler_ui: open {address}", flush=True)
    if not token_check.has_token:
        _warn(f"anyone who can reach port {port} of this machine can watch: no token is required")
    elif host not in LOOPBACK:
        _warn(f"port {port} carries everything unencrypted, the token included: prefer a tunnel (ssh -L)")
    notify(READY="1", STATUS=f"Serving at {shown}:{port}")
    parent = current_parent()
    if parent is not None:
        parent.report_ready(url=address)


def _warn(text: str) -> None:
    print(f"scaler_ui: {text}", file=sys.stderr)
