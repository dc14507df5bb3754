"""Which results of agents have reached their clients, so that agents may forget them."""

from __future__ import annotations

from scaler_scheduler.core.agents import Agent


class Delivery:
    """One Results message of an agent. Each run forwarded from it holds it once; when the last one lets go, its number
    is put on the agent's list of released messages."""

    __slots__ = ("agent", "holders", "sequence")

    def __init__(self, agent: Agent, sequence: int) -> None:
        self.agent = agent
        self.sequence = sequence
        self.holders = 0

    def hold(self) -> None:
        self.holders += 1

    def let_go(self) -> None:
        self.holders -= 1
        if self.holders == 0 and self.sequence:
            self.agent.releases.append(self.sequence)
