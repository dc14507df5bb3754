"""The progress of the latest maps of each client, for monitors.

A client numbers its maps, and the options of a run name the map to which the run belongs.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import nlargest

from scaler_protocol.monitor.messages import MapStatus
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.map_loads import MapLoad
from scaler_scheduler.core.run_records import RunRecord
from scaler_scheduler.core.state import SchedulerState

MAPS_LIMIT = 100
"""Maps of one client that are kept, the latest ones."""

SHOWN_LIMIT = 200
TASKS_LIMIT = 10_000_000
"""Tasks of unfinished maps that are counted for one snapshot, of all clients together, in about 10 ms."""


def join(client: ClientPeer, record: RunRecord, number: int) -> None:
    """The tasks of a run belong to a map."""
    load = client.maps.get(number)
    if load is None:
        if len(client.maps) >= MAPS_LIMIT:
            del client.maps[next(iter(client.maps))]
        load = client.maps[number] = MapLoad(record.function.name)
    record.join_map(load)


def maps_of(state: SchedulerState) -> tuple[MapStatus, ...]:
    """Return the latest maps, those with most to do first."""
    return tuple(nlargest(SHOWN_LIMIT, _counted(state), key=lambda row: row.unfinished))


def _counted(state: SchedulerState) -> Iterator[MapStatus]:
    room = TASKS_LIMIT
    for client in state.clients.values():
        for number, load in reversed(client.maps.items()):
            unfinished = running = 0
            if not load.is_over:
                room -= sum(stop - first for first, stop in load.ranges)
                if room < 0:
                    return
                unfinished, running = client.table.columns.count_map(load)
            yield MapStatus(client.shown_id, number, load.function, load.total, unfinished, running, load.failed)
