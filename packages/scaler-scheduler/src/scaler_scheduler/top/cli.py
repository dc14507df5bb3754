"""The command ``scaler_top``."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

import zmq

from scaler_protocol.address import parse_address
from scaler_protocol.command import BadInput, argument, option, run_command
from scaler_protocol.monitor.document import document_of
from scaler_protocol.monitor.feed import FeedError
from scaler_protocol.monitor.messages import Snapshot
from scaler_protocol.monitor.subscription import Subscription


@dataclass(frozen=True, kw_only=True)
class TopSettings:
    address: str = argument(help="the scheduler's monitor address, such as ipc:///tmp/127.0.0.1_2345_monitor")
    timeout: float = option(5.0, "-t", help="seconds of silence after which the scheduler counts as lost", minimum=0.1)
    json: bool = option(False, "-j", help="print one snapshot as JSON and exit")


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    run_command(
        TopSettings,
        run,
        program="scaler_top",
        section="top",
        description="Shows what a Scaler cluster does, in a terminal.",
        arguments=arguments,
    )


def run(settings: TopSettings) -> int:
    """The exit code: 1 when ``--json`` got nothing in time."""
    _check_address(settings.address)
    if not settings.json:
        _check_terminal()
    with zmq.Context() as context:
        subscription = _subscribe(context, settings.address)
        try:
            return _print_snapshot(subscription, settings) if settings.json else _show(subscription, settings)
        finally:
            subscription.close()


def _check_address(address: str) -> None:
    try:
        scheme = parse_address(address).scheme
    except ValueError as error:
        raise BadInput(str(error)) from None
    if scheme == "inproc":
        raise BadInput(f"{address!r} cannot be reached from another process: expected tcp://host:port or ipc://path.")


def _check_terminal() -> None:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise BadInput("standard input and output are not a terminal; --json prints one snapshot without one")


def _subscribe(context: zmq.Context[zmq.Socket[bytes]], address: str) -> Subscription:
    try:
        return Subscription(context, address)
    except ValueError as error:
        raise BadInput(str(error)) from None


def _show(subscription: Subscription, settings: TopSettings) -> int:
    # Here, because --json needs no curses.
    from scaler_scheduler.top.application import Application
    from scaler_scheduler.top.terminal import Terminal, TerminalError

    try:
        with Terminal() as terminal:
            Application(subscription, terminal, settings.address, settings.timeout).run()
    except TerminalError as error:
        raise BadInput(str(error)) from None
    return 0


def _print_snapshot(subscription: Subscription, settings: TopSettings) -> int:
    try:
        message = _wait_for_message(subscription, time.monotonic() + settings.timeout)
    except FeedError as error:
        return _fail(str(error))
    if message is None:
        return _fail(f"nothing heard from {settings.address} within {settings.timeout:g} seconds")
    try:
        print(json.dumps(document_of(message), indent=2), flush=True)
    except BrokenPipeError:  # the reader has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _wait_for_message(subscription: Subscription, deadline: float) -> Snapshot | None:
    while (remaining := deadline - time.monotonic()) > 0:
        if subscription.socket.poll(int(remaining * 1000) + 1):
            received = subscription.receive()
            if received is not None and isinstance(received.message, Snapshot):
                return received.message
    return None


def _fail(text: str) -> int:
    print(f"scaler_top: {text}", file=sys.stderr)
    return 1
