"""The software of agents, for ``software``."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from scaler_protocol.messages import HostSoftware

KINDS_LIMIT = 16
"""Further kinds of hosts are not reported to clients."""

_Kind = tuple[str, str, tuple[str, ...]]


class SoftwareTable:
    """The software of each agent. Agents with equal software are one kind, whichever their hosts are."""

    def __init__(self) -> None:
        self._kind_by_agent: dict[bytes, _Kind] = {}
        self._agents_by_kind: dict[_Kind, dict[bytes, HostSoftware]] = {}

    def add(self, agent: bytes, software: HostSoftware) -> bool:
        """The first report of an agent counts. Returns whether clients should hear of it: no other agent has the same
        software."""
        if agent in self._kind_by_agent:
            return False
        kind = software.python_version, software.machine, software.packages
        others = self._agents_by_kind.setdefault(kind, {})
        others[agent] = software
        self._kind_by_agent[agent] = kind
        return len(others) == 1 and len(self._agents_by_kind) <= KINDS_LIMIT

    def remove(self, agent: bytes) -> None:
        """Forget an agent, if it has reported its software."""
        kind = self._kind_by_agent.pop(agent, None)
        if kind is None:
            return
        del self._agents_by_kind[kind][agent]
        if not self._agents_by_kind[kind]:
            del self._agents_by_kind[kind]

    def kinds(self) -> Iterator[HostSoftware]:
        """Return one report of each kind."""
        for agents in islice(self._agents_by_kind.values(), KINDS_LIMIT):
            yield next(iter(agents.values()))
