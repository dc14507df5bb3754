"""The speed of objects between the stores of hosts, measured from their transfers."""

from __future__ import annotations

import statistics

from scaler_protocol.messages import ObjectKey

LEAST_BYTES = 4 * 1024 * 1024
"""A smaller transfer shows how long it takes to begin."""

SLOWEST_BYTES_PER_SECOND = 1e6
FASTEST_BYTES_PER_SECOND = 2e10
_WEIGHT = 0.25
_SLOW = 0.25


class Transfers:
    """Transfers in progress, by agent and object, and the rate of completed ones; recent ones count more."""

    def __init__(self, bytes_per_second: float) -> None:
        self.bytes_per_second = bytes_per_second
        self._rates: dict[bytes, float] = {}  # of each agent's last transfer
        self._began: dict[tuple[bytes, ObjectKey], float] = {}

    def begin(self, agent: bytes, key: ObjectKey, size: int, now: float) -> None:
        """Note that an agent was told where its store can fetch the object."""
        if size >= LEAST_BYTES:
            self._began[agent, key] = now

    def end(self, agent: bytes, key: ObjectKey, size: int, now: float) -> None:
        """The object has arrived; ``size`` 0: it did not."""
        began = self._began.pop((agent, key), None) if self._began else None
        if began is None or not size:
            return
        rate = size / max(now - began, size / FASTEST_BYTES_PER_SECOND)
        self._rates[agent] = rate
        self.bytes_per_second += _WEIGHT * (max(rate, SLOWEST_BYTES_PER_SECOND) - self.bytes_per_second)

    def slow_agents(self) -> set[bytes]:
        """Return the agents whose last transfer took more than four times as long as is usual."""
        usual = statistics.median(self._rates.values()) if self._rates else 0.0
        return {agent for agent, rate in self._rates.items() if rate < _SLOW * usual}

    def forget_agent(self, agent: bytes) -> None:
        self._rates.pop(agent, None)
        self._began = {name: began for name, began in self._began.items() if name[0] != agent}
