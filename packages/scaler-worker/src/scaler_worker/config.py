"""The settings of ``scaler_cluster``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from scaler_protocol.address import parse_address
from scaler_protocol.command import EVENT_LOOPS, BadInput, LoggingSettings, argument, option
from scaler_protocol.limits import CAPABILITIES_LIMIT, NAME_LIMIT_BYTES, WORKERS_LIMIT
from scaler_protocol.messages import UNITS_PER_WHOLE, UNLIMITED_AMOUNT, Capability
from scaler_protocol.units import BYTES, SECONDS
from scaler_worker.core.settings import ConnectionOptions, ExecutionOptions
from scaler_worker.pinning import PINNING_KINDS, UNBOUND
from scaler_worker.system import default_worker_count
from scaler_worker.termination_notice import NO_PROVIDER, PROVIDERS

OBJECT_RETENTION_SECONDS = 3600


_AMOUNT = re.compile(r"[0-9]+|0?\.[0-9]{1,6}|-1")
DEFAULT_WORKERS_TEXT = "one less than the number of CPUs"


def parse_scheduler_address(text: str) -> str:
    return str(parse_address(text))


def _name(text: str) -> str:
    if len(text.encode(errors="replace")) > NAME_LIMIT_BYTES:
        raise ValueError(f"a name has at most {NAME_LIMIT_BYTES} bytes. Give a shorter one.")
    return text


def _capability(text: str) -> str:
    """``name`` or ``name=amount``, checked and kept as it is."""
    name, separator, amount = text.partition("=")
    if not name or (separator and not _AMOUNT.fullmatch(amount)):
        raise ValueError(
            f"{text!r} is not a capability. Give name or name=amount, where the amount is a whole number, a fraction "
            "of one, such as 0.5, or -1 for any number of tasks."
        )
    _name(name)
    return text


def _offered(name: str, amount: str) -> Capability:
    if amount == "-1":
        return Capability(name, UNLIMITED_AMOUNT)
    return Capability(name, *divmod(round(Decimal(amount) * UNITS_PER_WHOLE), UNITS_PER_WHOLE))


def _preload(text: str) -> str:
    module, _, function = text.partition(":")
    if not all(part.isidentifier() for part in module.split(".")) or (function and not function.isidentifier()):
        raise ValueError(f"{text!r} does not name a function. Give module:function.")
    return text


@dataclass(frozen=True, kw_only=True)
class AgentOptions(ConnectionOptions, LoggingSettings):
    """The options of every command that runs tasks. Those that a core uses are in ``core.settings``."""

    heartbeat_interval: float = option(
        2, "-hi", unit=SECONDS, minimum=0.05, help="Report the state of this host to the scheduler at this interval."
    )
    event_loop: str = option(
        "builtin", "-el", choices=EVENT_LOOPS, help="Select the event loop; uvloop needs scaler-worker[uvloop]."
    )
    io_threads: int = option(
        1,
        "-it",
        minimum=1,
        help="Use this many ZeroMQ I/O threads. On Linux they serve only a local scheduler in another container.",
    )


@dataclass(frozen=True, kw_only=True)
class ClusterSettings(ExecutionOptions, AgentOptions):
    """Every option of the command."""

    address: str = argument(
        help="Connect to the scheduler at this address, such as tcp://127.0.0.1:2345.", parse=parse_scheduler_address
    )
    num_of_workers: int | None = option(
        None,
        "-n",
        metavar="COUNT",
        minimum=1,
        maximum=WORKERS_LIMIT,
        default_text=DEFAULT_WORKERS_TEXT,
        help="Run this many workers on this host, each of which runs one task at a time.",
    )
    worker_names: tuple[str, ...] = option(
        (), "-wn", metavar="NAME", parse=_name, default_text="numbers", help="Name the workers, one name for each: a,b."
    )
    per_worker_capabilities: tuple[str, ...] = option(
        (),
        metavar="NAME[=AMOUNT]",
        parse=_capability,
        see="client.md",
        help="Offer these capabilities to tasks, with the amount that each worker has: linux,gpu=1. A fraction, such "
        "as gpu=0.5, lets workers share a device.",
    )
    pin_workers: str = option(
        UNBOUND,
        choices=PINNING_KINDS,
        see="running.md",
        help="Bind each worker to processors of its own (cpu), or to those of one NUMA node (numa).",
    )
    termination_notices: str = option(
        NO_PROVIDER,
        choices=(NO_PROVIDER, *PROVIDERS),
        see="running.md",
        help="Shut down cleanly when this cloud provider announces that it will take the machine back.",
    )
    preload: str | None = option(
        None,
        metavar="MODULE:FUNCTION",
        parse=_preload,
        help="Call this function in each worker process when it starts, for example to load a model.",
    )
    object_store_memory: int = option(
        0,
        unit=BYTES,
        minimum=0,
        see="objects.md",
        help="Limit the memory of this host's object store. 0 = half of the memory of the host or its control group.",
    )
    spill_directory: str | None = option(
        None,
        metavar="DIR",
        default_text="/var/tmp",
        see="objects.md",
        help="Move objects that do not fit into the object store's memory to this directory.",
    )
    environments_kept: int = option(
        10,
        metavar="COUNT",
        minimum=0,
        see="running.md",
        help="Keep the packages of this many unused environments for later clients.",
    )
    per_worker_loaded_objects_size: int = option(
        512 * 1024 * 1024,
        unit=BYTES,
        minimum=0,
        see="objects.md",
        help="Let each worker process keep loaded objects of this total size for its next tasks. 0 = none.",
    )
    garbage_collect_interval_seconds: float = option(
        30, "-gc", unit=SECONDS, minimum=0.1, help="Collect garbage in idle worker processes at this interval."
    )
    trim_memory_threshold_bytes: int = option(
        1 << 30,
        "-tm",
        unit=BYTES,
        minimum=0,
        help="Return free memory to the system when a worker process uses more memory than this.",
    )

    manager: str | None = option(
        None,
        metavar="NAME",
        parse=_name,
        default_text="none",
        see="managers.md",
        help="Report that this worker manager scales these workers. scaler_worker_manager sets this option.",
    )

    @property
    def worker_count(self) -> int:
        """Raises BadInput when names and number disagree."""
        count = self.num_of_workers or len(self.worker_names) or default_worker_count()
        if self.worker_names and len(self.worker_names) != count:
            raise BadInput(
                f"Cannot name {count} workers: --worker-names has {len(self.worker_names)} names. "
                "Give one name for each worker."
            )
        if len(frozenset(self.worker_names)) != len(self.worker_names):
            raise BadInput("Cannot name the workers: --worker-names has the same name twice. Give different names.")
        return count

    @property
    def capabilities(self) -> tuple[Capability, ...]:
        """Raises BadInput when there are too many."""
        if len(self.per_worker_capabilities) > CAPABILITIES_LIMIT:
            raise BadInput(
                f"Cannot use --per-worker-capabilities: it has more than {CAPABILITIES_LIMIT} capabilities. Give fewer."
            )
        parts = [each.partition("=") for each in self.per_worker_capabilities]
        return tuple(_offered(name, amount or "1") for name, _, amount in parts)
