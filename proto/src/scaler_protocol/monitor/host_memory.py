"""The memory of hosts: what is used of what there is, by all of their processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from scaler_protocol.monitor.format import format_bytes
from scaler_protocol.monitor.messages import AgentStatus


class HostMemory(NamedTuple):
    """``limit_bytes`` is what the host, or the control group of its agent, may use; 0: not known."""

    free_bytes: int = 0
    limit_bytes: int = 0

    @property
    def used_bytes(self) -> int:
        return max(0, self.limit_bytes - self.free_bytes)

    @property
    def share(self) -> float:
        """The part of it that is used; 0 if that is not known."""
        return self.used_bytes / self.limit_bytes if self.limit_bytes else 0.0

    @property
    def text(self) -> str:
        """A few words; empty if nothing is known."""
        if self.limit_bytes:
            return f"{format_bytes(self.used_bytes)} of {format_bytes(self.limit_bytes)}"
        return f"{format_bytes(self.free_bytes)} free" if self.free_bytes else ""


def memory_of(agent: AgentStatus) -> HostMemory:
    return HostMemory(agent.rss_free_bytes, agent.memory_limit_bytes)


def memory_by_host(agents: Sequence[AgentStatus]) -> dict[str, HostMemory]:
    """Return the memory of each host that reports it: that of the agent with the least free memory, since agents may be
    in different control groups."""
    found: dict[str, HostMemory] = {}
    for agent in agents:
        memory = memory_of(agent)
        if any(memory):
            found[agent.host] = min(memory, found.get(agent.host, memory))
    return found


def total_memory(agents: Sequence[AgentStatus]) -> HostMemory:
    """The sum of the hosts that report their limit, or of all if none of them does."""
    memories = list(memory_by_host(agents).values())
    limited = [each for each in memories if each.limit_bytes]
    free = sum(each.free_bytes for each in limited or memories)
    return HostMemory(free, sum(each.limit_bytes for each in limited))
