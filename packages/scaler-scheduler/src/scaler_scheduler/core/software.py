"""The software of workers, for clients that compare it with their own: versions of Python and packages, and the
machine.

Each agent reports it with its session. A client is told once about each kind of host that differs from the others.
"""

from __future__ import annotations

from scaler_protocol.link import content_bytes
from scaler_protocol.messages import SOFTWARE_SINCE_MINOR, HostSoftware
from scaler_scheduler.core import outbox
from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.state import SchedulerState

REPORT_LIMIT_BYTES = 4096


def on_report(state: SchedulerState, agent: Agent, body: HostSoftware, now: float) -> None:
    """An agent says what its workers run with. A report that no agent makes is ignored: clients would get it all."""
    if content_bytes(body) > REPORT_LIMIT_BYTES:
        return
    if agent.manager is None and state.software.add(agent.session, body):
        for client in state.clients.values():
            if client.connection.is_open and _compares(client):
                outbox.answer(state, client.session, client.route, body, now)


def tell_client(state: SchedulerState, client: ClientPeer, now: float) -> None:
    """A client has connected."""
    if _compares(client):
        for each in state.software.kinds():
            outbox.answer(state, client.session, client.route, each, now)


def _compares(client: ClientPeer) -> bool:
    """Clients inside tasks run where the tasks do."""
    return not client.hello.parent_session and client.hello.minor >= SOFTWARE_SINCE_MINOR
