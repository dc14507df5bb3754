"""The settings of a scheduler's core: the options that its user may set, what its shell tells it, and constants."""

from __future__ import annotations

from dataclasses import dataclass

from scaler_protocol.handshake import ServerHandshake
from scaler_protocol.options import option
from scaler_protocol.units import SECONDS
from scaler_scheduler.core.group_settings import counts_text, weights_text
from scaler_scheduler.core.limits import CLIENT_MEMORY_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerOptions:
    """The options of the command that the core uses as they are."""

    protected: bool = option(True, "-p", help="Refuse a client's request to shut the scheduler down.")
    max_number_of_tasks_waiting: int = option(
        -1,
        "-mt",
        minimum=-1,
        help="Limit the number of queued tasks. Further tasks are accepted but held back, which is slightly slower; "
        "submit never blocks. Graph nodes and nested tasks are exempt. -1 = unlimited.",
    )
    client_timeout_seconds: float = option(
        60.0, "-ct", unit=SECONDS, minimum=0, help="Keep the tasks of a disconnected client for this long."
    )
    worker_timeout_seconds: float = option(
        60.0,
        "-wt",
        unit=SECONDS,
        minimum=1,
        help="Consider a host lost, and reschedule its tasks, after this long without contact.",
    )
    object_retention_seconds: float = option(
        3600.0,
        "-ot",
        unit=SECONDS,
        minimum=0,
        help="Keep a large result that its client has not fetched for this long.",
    )
    load_balance_seconds: float = option(
        1.0,
        "-ls",
        unit=SECONDS,
        minimum=0,
        help="Wait this long before asking a host for queued tasks again, if it had none to return.",
    )
    load_balance_trigger_times: int = option(
        2, "-lbt", minimum=1, help="Apply --load-balance-seconds after this many consecutive empty replies."
    )
    per_worker_queue_size: int = option(
        1000,
        "-qs",
        minimum=1,
        help="Queue at most this many tasks at one worker, more at a far one. The actual number depends on how "
        "long tasks take.",
    )
    aging_seconds: float = option(
        0.0,
        unit=SECONDS,
        minimum=0,
        help="Raise the priority of a client's waiting tasks by one step whenever none of them has been started for "
        "this long. 0 = never.",
    )
    monitor_output: bool = option(
        True, see="monitor.md", help="Show the output of tasks in monitors, and keep it in event logs."
    )
    group_weights: str = option(
        "",
        metavar="GROUP=WEIGHT,...",
        parse=weights_text,
        see="running.md",
        help="Give these groups shares of other weights. Every other group has a weight of 1.",
    )
    group_limits: str = option(
        "",
        metavar="GROUP=WORKERS,...",
        parse=counts_text,
        see="running.md",
        help="Let these groups use at most this many workers at a time.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(SchedulerOptions):
    """``handshake``: how peers of this machine and the scheduler prove their identity to each other; None: they cannot.
    ``cluster`` identifies this cluster across restarts. ``shown`` has the names and values that monitors show."""

    address: str
    session: bytes
    epoch: int
    handshake: ServerHandshake | None = None
    cluster: bytes = b""
    client_memory_bytes: int = CLIENT_MEMORY_BYTES
    version: str = ""
    python_version: str = ""
    shown: tuple[tuple[str, str], ...] = ()
    host: str = ""
    pid: int = 0
    user: str = ""


PING_SECONDS = 0.4
"""An agent that was sent nothing for this long is sent a Ping, which extends its lease."""

IDLE_PING_SECONDS = 2.2
"""The same for an agent without tasks, which needs no lease: its heartbeats and their echoes are enough. Agents use the
same interval while they have nothing."""

TICK_SECONDS = 0.2
"""The interval of the tick, while any peer is connected."""

IDLE_TICKS = 5
"""One tick in this many looks at an agent that has no tasks."""

ALIVE_SECONDS = 0.95
"""A connection that ends within this time of its agent's last message ended because the process died or reconnects.
Less than the shortest time (1.5 s) in which the transport gives up a stopped agent: what runs there goes on."""

IDLE_ALIVE_SECONDS = IDLE_PING_SECONDS + 0.1
"""The same for an agent without tasks, which says less. It may be a stopped one, so it has more time to come back."""

RECONNECT_SECONDS = 0.7
"""Seconds that an agent whose connection ended has to connect again, until it is lost."""

STALL_SECONDS = 0.3
"""Lateness of a tick that shows that the scheduler itself did not run. Together with the length of a tick, this is less
than what ALIVE_SECONDS leaves of the transport's time: messages read late do not make a stopped agent look alive."""

STALL_RECONNECT_SECONDS = 5.0
"""Replaces RECONNECT_SECONDS after a stall: peers may have stopped together with the scheduler."""

SUSPECT_SECONDS = 1.5
"""After this long without contact an agent gets no new tasks."""

IDLE_SUSPECT_SECONDS = 2 * IDLE_PING_SECONDS + 0.6
"""The same for an agent without tasks."""

RELIEF_SECONDS = 2.5
"""After this long without contact an agent starts no more tasks, because its lease has ended."""

SHORT_TASK_US = 100_000.0
"""A task this short has either ended at a silent agent or never started there, so there is no need to wait for it."""

BYTES_PER_SECOND = 1e9
"""Speed of objects from host to host, until transfers have been measured."""

HOLD_SECONDS = 1.0
"""After a restart, tasks wait for this long for an agent that says that it has them."""

HOLD_ONCE_SECONDS = 10.0
"""Tasks that must not start twice wait longer: their agent may be paused, or connect again late."""

PATIENCE_SECONDS = 5.0
"""Agents wait for a function at least this long after its last bytes arrived."""

RESULT_BUDGET_BYTES = 64 * 1024 * 1024
"""Result bytes that a client may leave unacknowledged before its further tasks pause."""

CLIENT_ACKNOWLEDGEMENT_SECONDS = 0.001
"""Seconds that a client waits for an acknowledgement if no result carries one. Its next batch may wait for it."""

HOUSEKEEPING_SECONDS = 0.1
"""Seconds for which acknowledgements and releases for agents may be delayed: no work waits for them."""

HOUSEKEEPING_WITH_TASKS_SECONDS = 0.01
"""Seconds after which they go together with tasks, which wake an agent anyway."""

HOUSEKEEPING_PER_AGENT_SECONDS = 0.00002
STOP_SECONDS = 1.0
"""Seconds that agents and clients have to learn that a shutdown was accepted."""

ATTACH_SECONDS = 10.0
"""Seconds from the Hello of an agent until it must have attached."""
