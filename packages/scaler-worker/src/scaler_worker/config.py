"""The settings of ``scaler_cluster``."""

from __future__ import annotations

from dataclasses import dataclass

from scaler_protocol.address import parse_address
from scaler_protocol.command import EVENT_LOOPS, BadInput, LoggingSettings, argument, option
from scaler_protocol.limits import CAPABILITIES_LIMIT, NAME_LIMIT_BYTES, WORKERS_LIMIT
from scaler_protocol.messages import Capability
from scaler_worker.system import default_worker_count

OBJECT_RETENTION_SECONDS = 3600


def _address(text: str) -> str:
    return str(parse_address(text))


def _name(text: str) -> str:
    if len(text.encode(errors="replace")) > NAME_LIMIT_BYTES:
        raise ValueError(f"a name has at most {NAME_LIMIT_BYTES} bytes")
    return text


def _capability(text: str) -> str:
    """``name`` or ``name=amount``, checked and kept as it is."""
    name, separator, amount = text.partition("=")
    if not name or (separator and not (amount.isascii() and amount.isdigit())):
        raise ValueError(f"{text!r} is no capability: expected name or name=amount")
    _name(name)
    return text


def _preload(text: str) -> str:
    module, _, function = text.partition(":")
    if not all(part.isidentifier() for part in module.split(".")) or (function and not function.isidentifier()):
        raise ValueError(f"{text!r} is not of the form module:function")
    return text


@dataclass(frozen=True, kw_only=True)
class ClusterSettings(LoggingSettings):
    address: str = argument(help="where the scheduler listens, such as tcp://127.0.0.1:2345", parse=_address)
    num_of_workers: int | None = option(
        None, "-n", help="workers on this host (default: processors - 1)", minimum=1, maximum=WORKERS_LIMIT
    )
    worker_names: tuple[str, ...] = option((), "-wn", help="a name for each worker, such as a,b", parse=_name)
    heartbeat_interval: float = option(2, "-hi", help="seconds between status reports", minimum=0.05)
    task_timeout_seconds: float = option(0, "-tts", help="a task that runs longer fails; 0: none does", minimum=0)
    death_timeout_seconds: float = option(
        300, "-ds", help="exit when the scheduler is out of reach for so long", minimum=0.1
    )
    grace_seconds: float = option(10, help="what running tasks get to end when this is stopped", minimum=0)
    garbage_collect_interval_seconds: float = option(
        30, "-gc", help="seconds between garbage collections of an idle worker", minimum=0.1
    )
    trim_memory_threshold_bytes: int = option(
        1 << 30, "-tm", help="give memory back to the system when a worker uses more than this", minimum=0
    )
    hard_processor_suspend: bool = option(
        False, "-hps", help="stop (SIGSTOP) the process of a task that waits for nested tasks"
    )
    event_loop: str = option("builtin", "-el", help="event loop", choices=EVENT_LOOPS)
    io_threads: int = option(1, "-it", help="threads that move bytes", minimum=1)
    preload: str | None = option(None, help="module:function that each worker calls when it starts", parse=_preload)
    object_store_memory: int = option(
        0, help="bytes that this host's object store may hold in memory; 0: half of the host's memory", minimum=0
    )
    spill_directory: str | None = option(None, help="where objects go that are too many for it; default: /var/tmp")
    echo_streamed_output: bool = option(
        True, help="also write here the warnings and the streamed output of tasks, which their client shows"
    )
    per_worker_capabilities: tuple[str, ...] = option(
        (), help="what tasks may ask for, such as linux,gpu=1", parse=_capability
    )

    @property
    def worker_count(self) -> int:
        """Raises BadInput when names and number disagree."""
        count = self.num_of_workers or len(self.worker_names) or default_worker_count()
        if self.worker_names and len(self.worker_names) != count:
            raise BadInput(f"--worker-names has {len(self.worker_names)} names for {count} workers")
        if len(frozenset(self.worker_names)) != len(self.worker_names):
            raise BadInput("--worker-names has the same name twice")
        return count

    @property
    def capabilities(self) -> tuple[Capability, ...]:
        """Raises BadInput when there are too many."""
        if len(self.per_worker_capabilities) > CAPABILITIES_LIMIT:
            raise BadInput(f"--per-worker-capabilities has more than {CAPABILITIES_LIMIT} capabilities")
        parts = [each.partition("=") for each in self.per_worker_capabilities]
        return tuple(Capability(name, int(amount) if amount else 1) for name, _, amount in parts)
