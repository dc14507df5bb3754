"""The reasons why agents get no new tasks, in words."""

from __future__ import annotations

from collections.abc import Iterable

from scaler_protocol.monitor.bounds import shown_text
from scaler_protocol.monitor.format import format_count
from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.draining import is_draining

HOST_LIMIT = 64
"""Characters of the name of a host."""

PAUSED, DRAINING, SILENT = "paused", "draining", "silent"


def unavailability(agent: Agent) -> str:
    """Return why an agent gets no new tasks; empty if it may get some. A silent one may be paused, too."""
    if agent.is_available:
        return ""
    if agent.suspect or not agent.connection.is_open or not agent.attached:
        return SILENT
    return DRAINING if is_draining(agent) else PAUSED


def unavailable_text(agents: Iterable[Agent]) -> str:
    """Return how many workers get no new tasks, by reason, and on which host: ``paused (4 on host a) or silent (9 on 2
    hosts)``. Empty: all agents may get some."""
    counts = dict.fromkeys((PAUSED, DRAINING, SILENT), 0)
    hosts: dict[str, dict[str, None]] = {reason: {} for reason in counts}
    for agent in agents:
        reason = unavailability(agent)
        if reason:
            counts[reason] += len(agent.worker_names)
            hosts[reason][agent.host] = None
    parts = [
        f"{reason} ({format_count(counts[reason])} on {_place(places)})" for reason, places in hosts.items() if places
    ]
    return " or ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))


def _place(hosts: dict[str, None]) -> str:
    if len(hosts) > 1:
        return f"{format_count(len(hosts))} hosts"
    return f"host {shown_text(next(iter(hosts)), HOST_LIMIT)}"
