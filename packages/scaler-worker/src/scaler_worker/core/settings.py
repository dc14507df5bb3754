"""The settings of an agent's core: the options that its user may set, and what its shell tells it."""

from __future__ import annotations

from dataclasses import dataclass

from scaler_protocol.messages import Capability
from scaler_protocol.options import option
from scaler_protocol.units import BYTES, SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOptions:
    """Options that the core of every agent uses as they are."""

    death_timeout_seconds: float = option(
        300.0,
        "-ds",
        unit=SECONDS,
        minimum=0.1,
        help="Exit after this long without a connection to the scheduler (or to Symphony).",
    )
    grace_seconds: float = option(
        10.0, unit=SECONDS, minimum=0, help="Give running tasks this long to finish on shutdown."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionOptions(ConnectionOptions):
    """Options that the core of an agent with worker processes uses as they are."""

    task_timeout_seconds: float = option(
        0.0,
        "-tts",
        unit=SECONDS,
        minimum=0,
        help="Fail tasks that run longer than this and have no timeout_seconds of their own. 0 = no limit.",
    )
    max_tasks_per_worker: int = option(
        0,
        metavar="COUNT",
        minimum=0,
        see="running.md",
        help="Replace a worker process that has run this many tasks. 0 = never.",
    )
    recycle_memory_threshold_bytes: int = option(
        0,
        unit=BYTES,
        minimum=0,
        see="running.md",
        help="Replace a worker process that uses more memory than this, as soon as its task has ended. 0 = never.",
    )
    echo_streamed_output: bool = option(
        True,
        see="client.md",
        help="Also write the warnings and streamed output of tasks, which clients show, to this command's own output.",
    )
    hard_processor_suspend: bool = option(
        False, "-hps", help="Suspend (SIGSTOP) the worker process of a task that waits for nested tasks."
    )


@dataclass(frozen=True, slots=True)
class AgentSettings(ExecutionOptions):
    """``process_limit``: the most worker processes at a time; 0: no limit. ``fixed_slots``: a worker process serves
    only the slot that it was started for, whose devices it has. ``uses_store``: whether large values go
    through the object store of the host. ``manager``: the worker manager that started the agent; empty: none.
    ``address``: of the scheduler, for the log; empty: the log does not say that the scheduler is away."""

    name: str
    worker_names: tuple[str, ...]
    capabilities: tuple[Capability, ...] = ()
    process_limit: int = 0
    fixed_slots: bool = False
    uses_store: bool = False
    manager: str = ""
    address: str = ""
