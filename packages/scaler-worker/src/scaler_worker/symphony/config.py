"""The settings of ``scaler_symphony_cluster``."""

from __future__ import annotations

from dataclasses import dataclass

from scaler_protocol.command import argument, option
from scaler_protocol.limits import NO_WORKER
from scaler_worker.config import DEFAULT_WORKERS_TEXT, AgentOptions, parse_scheduler_address
from scaler_worker.system import default_worker_count


def _service(text: str) -> str:
    if not text.strip():
        raise ValueError("the name of a service in Symphony must not be empty. Give its name.")
    return text


def _worker_name(text: str) -> str:
    if not text.strip():
        raise ValueError("the name of a worker must not be empty. Give a name, or leave the option out.")
    return text


@dataclass(frozen=True, kw_only=True)
class SymphonySettings(AgentOptions):
    """Every option of the command."""

    address: str = argument(
        help="Connect to the scheduler at this address, such as tcp://127.0.0.1:2345.", parse=parse_scheduler_address
    )
    service: str = argument(help="Use this Symphony service, such as ScalerService.", parse=_service)
    base_concurrency: int = option(
        default_worker_count(),
        "-n",
        metavar="COUNT",
        minimum=1,
        maximum=NO_WORKER,
        default_text=DEFAULT_WORKERS_TEXT,
        help="Run at most this many tasks in Symphony at the same time, not counting nested tasks.",
    )
    worker_name: str | None = option(
        None,
        "-w",
        metavar="NAME",
        parse=_worker_name,
        default_text="host name and process ID",
        help="Show this name in monitors. Its workers are NAME-0, NAME-1, ...",
    )
    manager: str | None = option(
        None,
        metavar="NAME",
        default_text="none",
        see="managers.md",
        help="Report that this worker manager scales these workers. scaler_worker_manager sets this option.",
    )
