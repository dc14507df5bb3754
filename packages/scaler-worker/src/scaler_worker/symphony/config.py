"""The settings of ``scaler_symphony_cluster``."""

from __future__ import annotations

from dataclasses import dataclass

from scaler_protocol.address import parse_address
from scaler_protocol.command import EVENT_LOOPS, LoggingSettings, argument, option
from scaler_protocol.limits import NO_WORKER
from scaler_worker.system import default_worker_count


def _address(text: str) -> str:
    return str(parse_address(text))


def _service(text: str) -> str:
    if not text.strip():
        raise ValueError("the name of a service in Symphony must not be empty")
    return text


def _base_concurrency(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a whole number") from None
    if number < 1:
        raise ValueError(f"with {number} tasks at a time nothing would ever run: give 1 or more")
    return number


def _worker_name(text: str) -> str:
    if not text.strip():
        raise ValueError("a worker's name must not be empty")
    return text


@dataclass(frozen=True, kw_only=True)
class SymphonySettings(LoggingSettings):
    address: str = argument(help="where the scheduler listens, such as tcp://127.0.0.1:2345", parse=_address)
    service: str = argument(help="the name of the service in Symphony, such as ScalerService", parse=_service)
    base_concurrency: int = option(
        default_worker_count(),
        "-n",
        help="tasks in Symphony at a time, beside nested ones",
        parse=_base_concurrency,
        maximum=NO_WORKER,
    )
    worker_name: str | None = option(None, "-w", help="the name that monitors show", parse=_worker_name)
    heartbeat_interval: float = option(2, "-hi", help="seconds between status reports", minimum=0.05)
    death_timeout_seconds: float = option(
        300, "-ds", help="exit when the scheduler or Symphony is out of reach for so long", minimum=0.1
    )
    grace_seconds: float = option(10, help="what running tasks get to end when this is stopped", minimum=0)
    event_loop: str = option("builtin", "-el", help="event loop", choices=EVENT_LOOPS)
    io_threads: int = option(1, "-it", help="threads that move bytes", minimum=1)
