from scaler_scheduler.core.agents import Agent

class Delivery:
    """One Results message of an agent. Each run forwarded from it holds it once; when the last one lets go, its number
    is put on the agent's list of released messages."""

    agent: Agent
    sequence: int
    def __init__(self, agent: Agent, sequence: int) -> None: ...
    def hold(self) -> None: ...
    def let_go(self) -> None: ...
