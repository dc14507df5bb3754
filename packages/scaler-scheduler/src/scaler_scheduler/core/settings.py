"""The settings of a scheduler's core, and the constants of its timing."""

from __future__ import annotations

from dataclasses import dataclass

from scaler_protocol.handshake import ServerHandshake
from scaler_scheduler.core.limits import CLIENT_MEMORY_BYTES


@dataclass(frozen=True, slots=True)
class Settings:
    """Times are in seconds. ``handshake``: how peers on this machine and the scheduler authenticate each other; None:
    they cannot. ``cluster`` identifies this cluster across restarts."""

    address: str
    session: bytes
    epoch: int
    handshake: ServerHandshake | None = None
    cluster: bytes = b""
    protected: bool = True
    max_number_of_tasks_waiting: int = -1
    client_timeout_seconds: float = 60.0
    worker_timeout_seconds: float = 60.0
    object_retention_seconds: float = 3600.0
    load_balance_seconds: float = 1.0
    load_balance_trigger_times: int = 2
    per_worker_queue_size: int = 1000
    client_memory_bytes: int = CLIENT_MEMORY_BYTES
    version: str = ""
    python_version: str = ""
    host: str = ""
    pid: int = 0


PING_SECONDS = 0.4
"""An agent that was sent nothing for this long is sent a Ping, which extends its lease."""

TICK_SECONDS = 0.2
"""The interval of the tick, while any peer is connected."""

ALIVE_SECONDS = 0.95
"""A connection that ends within this time of its agent's last message ended because the process died or reconnects.
Less than the shortest time (1.5 s) in which the transport gives up a stopped agent: what runs there goes on."""

RECONNECT_SECONDS = 0.7
STALL_SECONDS = 0.3
"""When a tick is this late, the scheduler itself did not run. Together with the length of a tick, this is less than
what ALIVE_SECONDS leaves of the transport's time: messages read late do not make a stopped agent look alive."""

STALL_RECONNECT_SECONDS = 5.0
"""Replaces RECONNECT_SECONDS after a stall: peers may have stopped together with the scheduler."""

SUSPECT_SECONDS = 1.5
RELIEF_SECONDS = 2.5
"""After this long without contact an agent starts no more tasks, because its lease has ended."""

SHORT_TASK_US = 100_000.0
"""A task this short has either ended at a silent agent or never started there, so there is no need to wait for it."""

BYTES_PER_SECOND = 1e9
"""How fast objects move from host to host, until transfers have been measured."""

HOLD_SECONDS = 1.0
PATIENCE_SECONDS = 5.0
"""Agents wait for a function at least this long after its last bytes arrived."""

RESULT_BUDGET_BYTES = 64 * 1024 * 1024
"""Result bytes that a client may leave unacknowledged before its further tasks pause."""

CLIENT_ACKNOWLEDGEMENT_SECONDS = 0.001
"""How long a client waits for an acknowledgement when no result carries one. Its next batch may wait for it."""

HOUSEKEEPING_SECONDS = 0.01
"""How long acknowledgements and releases for agents may be delayed: no work waits for them."""

HOUSEKEEPING_PER_AGENT_SECONDS = 0.00002
STOP_SECONDS = 1.0
"""How long agents and clients have to learn that a shutdown was accepted."""

ATTACH_SECONDS = 10.0
"""How long an agent may take from its Hello until it attaches."""
