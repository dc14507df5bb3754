"""The bytes that the object stores of hosts have sent to each other, for monitors."""

from __future__ import annotations

from collections import Counter
from heapq import nlargest
from operator import attrgetter

from scaler_protocol.monitor.messages import HostTraffic
from scaler_scheduler.core.state import SchedulerState

SHOWN_LIMIT = 200


def traffic_of(state: SchedulerState) -> tuple[HostTraffic, ...]:
    """Return the pairs of hosts with most traffic first. A host that has left is named by the endpoint of its store."""
    hosts = {agent.store_endpoint: agent.host for agent in state.agents.values() if agent.store_endpoint}
    sums: Counter[tuple[str, str]] = Counter()
    for agents in state.agents_by_store.values():
        said = next((agent.store_status for agent in agents if agent.store_status is not None), None)
        for each in said.received_from if said is not None else ():
            source = hosts.get(each.endpoint) or each.endpoint.partition("#")[0]
            sums[source, agents[0].host] += each.size_bytes
    rows = (HostTraffic(source, target, size) for (source, target), size in sums.items())
    return tuple(nlargest(SHOWN_LIMIT, rows, key=attrgetter("received_bytes")))
