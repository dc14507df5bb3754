"""The command ``scaler_top``."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

import zmq

from scaler_protocol.address import parse_watched_address
from scaler_protocol.command import BadInput, argument, option, run_command
from scaler_protocol.monitor.document import document_of
from scaler_protocol.monitor.feed import FeedError
from scaler_protocol.monitor.messages import Snapshot
from scaler_protocol.monitor.moments import moment_of
from scaler_protocol.monitor.past import GO_TO_TEXT
from scaler_protocol.monitor.replay import Replay
from scaler_protocol.monitor.subscription import Subscription
from scaler_protocol.units import SECONDS
from scaler_scheduler import __version__
from scaler_scheduler.top.trace import write_trace
from scaler_scheduler.top.view import PAGES

if TYPE_CHECKING:
    from scaler_scheduler.top.operations import Operations
    from scaler_scheduler.top.source import ScreenSource

_LOOK_SECONDS = 0.1
"""Period in which an unreachable address is noticed."""


@dataclass(frozen=True, kw_only=True)
class TopSettings:
    address: str | None = argument(
        default=None,
        help="Watch the scheduler at this address of this machine, such as tcp://127.0.0.1:2345, or the one with this "
        "monitor address.",
    )
    timeout: float = option(
        5.0, "-t", unit=SECONDS, minimum=0.1, help="Consider the scheduler lost after this long without a message."
    )
    page: str = option("overview", "-p", metavar="PAGE", choices=tuple(PAGES.values()), help="Show this page first.")
    json: bool = option(False, "-j", help="Print one snapshot as JSON and exit.")
    replay: str | None = option(
        None, "-r", metavar="DIR", help="Replay the event logs that scaler_scheduler --event-log DIR has written."
    )
    trace: str | None = option(
        None,
        metavar="FILE",
        help="With --replay, write the tasks to FILE as a trace for Perfetto, and exit.",
    )
    trace_from: str | None = option(
        None,
        metavar="TIME",
        default_text="the start of the recording",
        help="Begin the trace or report at this time, such as 14:03:59 or 2023-11-14T14:03:59.",
    )
    trace_until: str | None = option(
        None, metavar="TIME", default_text="the end of the recording", help="End the trace or report at this time."
    )
    report: str | None = option(
        None, metavar="FILE", help="With --replay, write an HTML report of the recording to FILE, and exit."
    )
    go_to: str | None = option(
        None, metavar="TIME", help="With --replay, begin at this time, such as 03:00 or 2023-11-14T14:03:59."
    )


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    run_command(
        TopSettings,
        run,
        program="scaler_top",
        section="top",
        description="Show the state of a Scaler cluster in a terminal.",
        version=__version__,
        distribution="scaler-scheduler",
        arguments=arguments,
    )


def run(settings: TopSettings) -> int:
    """The exit code: 1 when ``--json`` got nothing in time."""
    if settings.replay is not None:
        return _run_replay(settings, settings.replay)
    if settings.trace is not None:
        raise BadInput("Cannot write a trace of a running cluster. Use --replay DIR, or Trace in scaler_ui.")
    if settings.report is not None:
        raise BadInput("Cannot write a report of a running cluster. Use --replay DIR, with what --event-log recorded.")
    if settings.go_to is not None:
        raise BadInput(GO_TO_TEXT)
    if settings.address is None:
        raise BadInput("Missing argument ADDRESS. Give the address of a scheduler, or --replay DIR.")
    _check_address(settings.address)
    if not settings.json:
        _check_terminal()
    with zmq.Context() as context:
        subscription = _subscribe(context, settings.address, events=not settings.json)
        try:
            return _print_heard(subscription, settings) if settings.json else _watch(subscription, settings)
        finally:
            subscription.close()


def _run_replay(settings: TopSettings, folder: str) -> int:
    if not settings.json and settings.trace is None and settings.report is None:
        _check_terminal()
    try:
        replay = Replay(folder)
    except ValueError as error:
        raise BadInput(str(error)) from None
    try:
        if settings.trace is not None:
            return _write(write_trace, "trace", replay, settings, settings.trace)
        if settings.report is not None:
            from scaler_scheduler.top.report import write_report

            return _write(write_report, "report", replay, settings, settings.report)
        return _print_last(replay) if settings.json else _play(replay, settings)
    finally:
        replay.close()


def _write(
    write: Callable[[Replay, str, float, float], str], what: str, replay: Replay, settings: TopSettings, path: str
) -> int:
    start = _moment(settings.trace_from, replay, replay.start)
    stop = replay.end if settings.trace_until is None else _until(settings.trace_until, start)
    if stop < start:
        raise BadInput(f"Cannot write a {what}: it would end before it begins. Give --trace-from and --trace-until.")
    try:
        print(write(replay, path, start, stop))
    except OSError as error:
        return _fail(f"Cannot write the {what} {path}: {error.strerror or error}. Choose another file.")
    return 0


def _moment(text: str | None, replay: Replay, default: float) -> float:
    try:
        return default if text is None else replay.find(text)
    except ValueError as error:
        raise BadInput(str(error)) from None


def _until(text: str, start: float) -> float:
    try:
        return moment_of(text, start)
    except ValueError as error:
        raise BadInput(str(error)) from None


def _check_address(address: str) -> None:
    try:
        parse_watched_address(address)
    except ValueError as error:
        raise BadInput(str(error)) from None


def _check_terminal() -> None:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise BadInput(
            "Cannot show the screens: standard input and output are not a terminal. Use --json to print one snapshot."
        )


def _subscribe(context: zmq.Context[zmq.Socket[bytes]], address: str, events: bool) -> Subscription:
    try:
        return Subscription(context, address, events=events)
    except ValueError as error:
        raise BadInput(str(error)) from None


def _watch(subscription: Subscription, settings: TopSettings) -> int:
    # Here, because --json needs no curses.
    from scaler_scheduler.top.operations import Operations
    from scaler_scheduler.top.source import Live

    address = settings.address or ""
    operations = Operations(address)
    try:
        return _show(Live(subscription, settings.timeout), address, settings.page, operations)
    finally:
        operations.close()


def _play(replay: Replay, settings: TopSettings) -> int:
    from scaler_protocol.monitor.failure_marks import FailureMarks
    from scaler_protocol.monitor.player import Player
    from scaler_scheduler.top.source import Recording

    player = Player(replay, settings.timeout)
    player.seek(_moment(settings.go_to, replay, replay.start))
    return _show(Recording(player, FailureMarks(replay)), settings.replay or "", settings.page)


def _show(source: ScreenSource, address: str, page: str, operations: Operations | None = None) -> int:
    from scaler_scheduler.top.application import Application
    from scaler_scheduler.top.terminal import Terminal, TerminalError

    try:
        with Terminal() as terminal:
            Application(source, terminal, address, operations, page).run()
    except TerminalError as error:
        raise BadInput(str(error)) from None
    return 0


def _print_heard(subscription: Subscription, settings: TopSettings) -> int:
    try:
        message = _wait_for_message(subscription, time.monotonic() + settings.timeout)
    except FeedError as error:
        return _fail(str(error))
    if message is None:
        return _fail(
            f"Cannot print a snapshot: nothing was heard from {settings.address} within {settings.timeout:g} seconds. "
            "Check the address and that the scheduler is running."
        )
    return _print(message)


def _print_last(replay: Replay) -> int:
    """The last snapshot of a recording: what was known when it ended."""
    messages = replay.messages(replay.end, replay.end)
    message = next((each for each in messages if isinstance(each, Snapshot)), None)
    return _print(message) if message is not None else _fail("Cannot print a snapshot: this recording has none.")


def _print(message: Snapshot) -> int:
    try:
        print(json.dumps(document_of(message), indent=2), flush=True)
    except BrokenPipeError:  # the reader has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _wait_for_message(subscription: Subscription, deadline: float) -> Snapshot | None:
    while (remaining := deadline - time.monotonic()) > 0:
        subscription.socket.poll(int(min(remaining, _LOOK_SECONDS) * 1000) + 1)
        received = subscription.receive()
        if received is not None and isinstance(received.message, Snapshot):
            return received.message
    return None


def _fail(text: str) -> int:
    print(f"scaler_top: {text}", file=sys.stderr)
    return 1
