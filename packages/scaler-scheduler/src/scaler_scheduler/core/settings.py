"""What a scheduler's core is told when it starts."""

from __future__ import annotations

from dataclasses import dataclass

from scaler_protocol.handshake import ServerHandshake
from scaler_scheduler.core.limits import CLIENT_MEMORY_BYTES


@dataclass(frozen=True, slots=True)
class Settings:
    """Times are in seconds. ``handshake``: how peers of this machine and the scheduler prove who they are; None: they
    cannot. ``cluster`` names this cluster over restarts."""

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
"""An agent that was sent nothing for so long is sent a Ping, so that its lease goes on."""

TICK_SECONDS = 0.2
"""How often timed things are looked at while anybody is connected."""

ALIVE_SECONDS = 0.95
"""A connection that ends within this time of its agent's last message ended because the process died or reconnects.
Less than the shortest time (1.5 s) in which the transport gives up a stopped agent: what runs there goes on."""

RECONNECT_SECONDS = 0.7
STALL_SECONDS = 0.3
"""A tick that comes so much too late: the scheduler itself stood still. With a tick's length it stays below what
ALIVE_SECONDS leaves of the transport's time: what was read late has not yet made a stopped agent look alive."""

STALL_RECONNECT_SECONDS = 5.0
"""In place of RECONNECT_SECONDS after a stall: who is gone may have stood still together with the scheduler."""

SUSPECT_SECONDS = 1.5
RELIEF_SECONDS = 2.5
"""Silent for so long, an agent starts nothing any more: its lease is over."""

SHORT_TASK_US = 100_000.0
"""A task that takes no longer either never started at a silent agent or has ended there: it need not be waited for."""

BYTES_PER_SECOND = 1e9
"""How fast objects move from host to host, until transfers have shown it."""

HOLD_SECONDS = 1.0
PATIENCE_SECONDS = 5.0
"""Agents wait for a function at least so long after its last bytes came."""

RESULT_BUDGET_BYTES = 64 * 1024 * 1024
"""Result bytes a client may leave unacknowledged before its further tasks pause."""

CLIENT_ACKNOWLEDGEMENT_SECONDS = 0.001
"""How long a client waits for an acknowledgement that a result does not carry: its next batch may wait for it."""

HOUSEKEEPING_SECONDS = 0.01
"""How long agents may wait for acknowledgements and releases: nothing waits for these."""

HOUSEKEEPING_PER_AGENT_SECONDS = 0.00002
STOP_SECONDS = 1.0
"""After a shutdown was accepted, agents and clients have so long to hear of it."""

ATTACH_SECONDS = 10.0
"""An agent that says Hello and nothing more is given up."""
