"""``nodes``, ``cluster_resources`` and ``available_resources``: what the hosts of the cluster offer."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from scaler.compat.ray.connecting import current_client, own_workers
from scaler_protocol.monitor.messages import AgentStatus, PeerState

_AMOUNTS = re.compile(r"(.+?) ([0-9.]+) of ([0-9.]+)(?:, |$)")
_STARTING_SECONDS = 30.0
_TICK_SECONDS = 0.02


def nodes() -> list[dict[str, Any]]:
    """Describe the agents, each with its host and resources. A worker is one CPU."""
    return [_node(agent) for agent in _agents()]


def cluster_resources() -> dict[str, float]:
    """The resources of all agents: ``CPU``, which is the number of workers, ``GPU``, and others by their names."""
    return _sum(map(_offered, filter(_is_alive, _agents())))


def available_resources() -> dict[str, float]:
    """The resources that no task has now. One of which nothing is left does not occur."""
    return _sum(map(_left, filter(_is_alive, _agents())))


def _agents() -> tuple[AgentStatus, ...]:
    """The agents of the cluster. One that ``init`` has just started gets time to connect."""
    client = current_client()
    until = time.monotonic() + _STARTING_SECONDS
    while True:
        agents = client.cluster_info().agents
        if sum(len(agent.workers) for agent in agents) >= own_workers() or time.monotonic() > until:
            return agents
        time.sleep(_TICK_SECONDS)


def _node(agent: AgentStatus) -> dict[str, Any]:
    return {
        "NodeID": agent.session.hex(),
        "Alive": _is_alive(agent),
        "NodeManagerAddress": agent.host,
        "NodeManagerHostname": agent.host,
        "NodeName": agent.name,
        "Resources": _offered(agent),
        "alive": _is_alive(agent),
    }


def _is_alive(agent: AgentStatus) -> bool:
    return agent.state in (PeerState.CONNECTED, PeerState.PAUSED)


def _offered(agent: AgentStatus) -> dict[str, float]:
    amounts = {_ray_name(name): float(total) for name, _, total in _AMOUNTS.findall(agent.capabilities_left)}
    return {"CPU": float(len(agent.workers)), **amounts}


def _left(agent: AgentStatus) -> dict[str, float]:
    idle = sum(not worker.has_task or worker.slot_lent for worker in agent.workers)
    amounts = {_ray_name(name): float(left) for name, left, _ in _AMOUNTS.findall(agent.capabilities_left)}
    return {"CPU": float(idle), **amounts}


def _ray_name(capability: str) -> str:
    return "GPU" if capability == "gpu" else capability


def _sum(amounts: Iterable[dict[str, float]]) -> dict[str, float]:
    total: defaultdict[str, float] = defaultdict(float)
    for each in amounts:
        for name, amount in each.items():
            total[name] += amount
    return {name: amount for name, amount in total.items() if amount > 0}
