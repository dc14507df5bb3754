"""The scheduler's core: takes in messages and the time, decides, and says what must be sent.

It consists of tables (compiled: ``task_table``, ``priority_queues``, ``placement`` ...), one structure with everything
that the scheduler knows (``state``), and rules, which are functions over that structure. ``message_rules`` names the
rule for each type of message, ``hot_path`` is the compiled path of ordinary tasks and results, and ``tick`` calls what
is due at a certain time.
"""

from __future__ import annotations

from functools import partial

from scaler_protocol.messages import LogLine
from scaler_protocol.monitor.messages import Snapshot
from scaler_protocol.monitor.ring import RingWriter
from scaler_scheduler.core import (
    client_messages,
    count_check,
    daemon_logs,
    disconnection,
    explanation,
    faults,
    hot_path,
    lost_inputs,
    recording,
    session_endings,
    shutdown,
    snapshot,
    tick,
)
from scaler_scheduler.core.settings import Settings
from scaler_scheduler.core.state import SchedulerState


class SchedulerCore:
    """One scheduler: its state, and the events that the shell reports. ``states`` lists what every message does to a
    task in every state. ``on_message``, ``take_effects`` and ``next_deadline`` are those of ``hot_path``."""

    def __init__(self, settings: Settings, now: float) -> None:
        self.state = SchedulerState(settings, now)
        self.on_message = partial(hot_path.on_message, self.state)
        self.take_effects = partial(hot_path.take_effects, self.state)
        self.next_deadline = partial(hot_path.next_deadline, self.state)

    def on_malformed(self, peer: bytes, text: str, now: float) -> None:
        """The data received over the connection of ``peer`` is not a message."""
        session_endings.on_malformed(self.state, peer, text, now)

    def on_peer_lost(self, peer: bytes, now: float) -> None:
        """The connection of ``peer`` ended."""
        disconnection.on_peer_lost(self.state, peer, now)

    def on_stop(self, now: float, grace_seconds: float) -> None:
        """Dispatch nothing more; quit when what runs has ended, or after ``grace_seconds``."""
        shutdown.on_stop(self.state, now, grace_seconds)

    def on_deadline(self, now: float) -> None:
        """Time has passed: handle all that is due."""
        tick.on_deadline(self.state, now)

    def on_described(self, snapshot: bytes, now: float) -> None:
        """The description that a client requested, encoded; empty when it is too large for a message."""
        client_messages.on_described(self.state, snapshot, now)

    def on_fault(self, peer: bytes, kind: str, error: Exception, now: float) -> None:
        """A message of ``peer`` raised ``error``: it costs its sender the session."""
        faults.on_message(self.state, peer, kind, error, now)

    def on_unsendable(self, peer: bytes, error: Exception, now: float) -> None:
        """A message to ``peer`` could not be encoded or sent."""
        known = self.state.agents.get(peer) or self.state.clients.get(peer)
        if known is not None:
            faults.on_receiver(self.state, known, error, now)

    def on_logged(self, lines: list[LogLine], now: float) -> None:
        """The scheduler's process has written these lines to its log."""
        daemon_logs.on_own_lines(self.state, lines, now)

    # ---- monitors --------------------------------------------------------------------------------------------------

    def watch(self, ring: RingWriter, clock_offset: float, now: float) -> None:
        """Write all events from now on into ``ring``. ``clock_offset``: seconds since 1970 at the core's time 0."""
        recording.start(self.state, ring, clock_offset, now)

    def unwatch(self, now: float) -> None:
        """Write no more events."""
        recording.stop(self.state, now)

    def snapshot(self, now: float) -> Snapshot:
        """The snapshot for monitors, without message counts and the figures of the process, which the shell adds."""
        return snapshot.snapshot_of(self.state, now)

    def has_work(self) -> bool:
        """Return whether any client has a task that has not ended."""
        return self.state.totals.unfinished > 0

    def explain(self, session: bytes, task: int) -> str:
        """Return where a task is, and why it has not ended."""
        return explanation.explain(self.state, session, task)

    def check(self) -> None:
        """Assert every invariant; for tests."""
        state = self.state
        wrong = count_check.find_wrong(state)
        assert not wrong, wrong
        state.objects.check()
        state.lineage.check(state.clients)
        state.shares.check(client.table.columns.share for client in state.clients.values())
        for client in state.clients.values():
            client.link.check()
        for agent in state.agents.values():
            agent.link.check()
        lost_inputs.check(state)
        state.locks.check()
        state.named.check()
