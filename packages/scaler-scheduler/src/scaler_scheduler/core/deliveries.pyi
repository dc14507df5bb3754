from typing import Any

class Delivery:
    """One Results message of an agent. Each run forwarded from it holds it once; when the last one releases it, its
    number is put on the agent's list of released messages (``agent.releases``)."""

    agent: Any
    sequence: int
    def __init__(self, agent: Any, sequence: int) -> None: ...
    def hold(self) -> None: ...
    def release(self) -> None: ...
