"""The agents, and the locations of bytes (contract of data_locations.pyx).

``by_store`` lists the agents of a host, which share what is in its object store. Moving takes 1 ms and the bytes' time.
"""

from typing import Any

from scaler_scheduler.core.agent_loads import AgentLoad

class DataLocations:
    """The agents, and the locations of the bytes that tasks need. ``objects``: those that clients sent, by key;
    ``bytes_per_us``: how fast they move between hosts."""

    by_index: dict[int, AgentLoad]
    by_session: dict[bytes, AgentLoad]
    by_store: dict[bytes, list[AgentLoad]]
    bytes_per_us: float
    def __init__(self, objects: dict[Any, Any], bytes_per_us: float) -> None: ...
    def add(self, agent: AgentLoad) -> None: ...
    def remove(self, agent: AgentLoad) -> None: ...
