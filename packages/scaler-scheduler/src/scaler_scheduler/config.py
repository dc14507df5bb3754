"""The settings of the command ``scaler_scheduler``."""

from __future__ import annotations

from dataclasses import dataclass

from scaler_protocol.command import EVENT_LOOPS, LoggingSettings, argument, option
from scaler_protocol.command.settings import settings_of
from scaler_protocol.units import BYTES, SECONDS
from scaler_scheduler.core.settings import SchedulerOptions


@dataclass(frozen=True, kw_only=True)
class SchedulerSettings(SchedulerOptions, LoggingSettings):
    """Every option of the command. Those that the core uses are in ``SchedulerOptions``."""

    address: str = argument(help="Listen on this address, such as tcp://127.0.0.1:2345.")
    monitor_address: str | None = option(
        None,
        "-ma",
        metavar="ADDRESS",
        default_text="a private socket that a path in /tmp links to",
        see="monitor.md",
        help="Accept scaler_top, scaler_ui and scaler_gui on this address.",
    )
    event_log: str | None = option(
        None,
        metavar="DIR",
        see="monitor.md",
        help="Write event logs to this directory; replay them with scaler_top --replay DIR.",
    )
    event_log_limit_bytes: int = option(
        0,
        unit=BYTES,
        minimum=0,
        help="Limit the total size of the event logs; the oldest are deleted first. 0 = unlimited.",
    )
    audit_log: str | None = option(
        None,
        metavar="FILE",
        see="monitor.md",
        help="Append each action of a user on the cluster to this file, as a line of JSON with the user's name.",
    )
    prometheus_address: str | None = option(
        None, metavar="HOST:PORT", see="metrics.md", help="Serve Prometheus metrics on this address."
    )
    prometheus_token_file: str | None = option(
        None,
        metavar="FILE",
        see="metrics.md",
        help="Require the bearer token in this file for the metrics. Only you may have permission to read the file.",
    )
    client_memory: int = option(
        0,
        unit=BYTES,
        minimum=0,
        see="limits.md",
        help="Limit the memory for the tasks, objects and results of one client. "
        "0 = half of the memory of the host or its control group.",
    )
    grace_seconds: float = option(
        10.0, unit=SECONDS, minimum=0, help="Give running tasks this long to finish when the scheduler is stopped."
    )
    insecure: bool = option(
        False, help="Listen on a public address without keys: anyone who can reach it can run code on this host."
    )
    io_threads: int = option(
        1,
        "-it",
        minimum=1,
        help="Use this many ZeroMQ I/O threads. Not used on Linux, where the scheduler serves its own connections.",
    )
    event_loop: str = option(
        "builtin", "-e", choices=EVENT_LOOPS, help="Select the event loop; uvloop needs scaler-scheduler[uvloop]."
    )


def shown_settings(settings: SchedulerSettings) -> tuple[tuple[str, str], ...]:
    """The names and values of all options, for monitors. None of them is a secret: those are in files, whose names the
    options are."""
    values = ((each, getattr(settings, each.name)) for each in settings_of(SchedulerSettings))
    return tuple((each.name, "" if value is None else each.to_text(value)) for each, value in values)
