"""The progress of the latest maps, for monitors.

A client numbers its maps, and the options of a run name the map to which the run belongs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice, repeat, zip_longest

from scaler_protocol.messages import MAP_TASKS_UNKNOWN
from scaler_protocol.monitor.messages import MapStatus
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.map_loads import MapLoad
from scaler_scheduler.core.run_records import RunRecord
from scaler_scheduler.core.state import SchedulerState

SHOWN_LIMIT = 200
TASKS_LIMIT = 10_000_000
"""Tasks of maps that are looked at for one snapshot, of all clients together, in about 10 ms."""

_Maps = list[tuple[ClientPeer, MapLoad]]


def join(client: ClientPeer, record: RunRecord, is_resubmitted: bool) -> None:
    """The tasks of a run belong to a map. After a restart nothing is known about those that had ended before."""
    options = record.run.options
    load = client.table.columns.maps.find(options.map_number, record.function.name, record.function.module)
    if load.expected != MAP_TASKS_UNKNOWN:
        load.expected = MAP_TASKS_UNKNOWN if is_resubmitted and options.map_tasks else options.map_tasks
    record.join_map(load)


def maps_of(state: SchedulerState) -> tuple[MapStatus, ...]:
    """Return the latest maps, those with most to do first. Maps with unfinished tasks precede all others, and each
    client has its turn."""
    tables = [(client, client.table.columns.maps) for client in state.clients.values()]
    live = _in_turn(((client, table.live) for client, table in tables), SHOWN_LIMIT)
    ended = _in_turn(((client, table.ended) for client, table in tables), SHOWN_LIMIT - len(live))
    rows = [*_counted(live), *(_row(client, load, 0, 0) for client, load in ended)]
    return tuple(sorted(rows, key=lambda row: -row.unfinished))


def _in_turn(maps: Iterable[tuple[ClientPeer, dict[int, MapLoad]]], limit: int) -> _Maps:
    """Return the latest map of each client, then those before them, until there are as many as the limit."""
    having = islice(((client, loads) for client, loads in maps if loads), limit)
    columns = [zip(repeat(client), reversed(loads.values())) for client, loads in having]
    turns = (each for turn in zip_longest(*columns) for each in turn if each is not None)
    return list(islice(turns, limit))


def _counted(maps: _Maps) -> Iterator[MapStatus]:
    """Each client gets an equal part of the room, and what those before it have left."""
    loads_of: dict[ClientPeer, list[MapLoad]] = {}
    for client, load in maps:
        loads_of.setdefault(client, []).append(load)
    room = TASKS_LIMIT
    for place, (client, loads) in enumerate(loads_of.items()):
        part = room // (len(loads_of) - place)
        counts, left = client.table.columns.count_maps(loads, part)
        room -= part - left
        for load, (unfinished, running) in zip(loads, counts, strict=True):
            yield _row(client, load, unfinished, running)


def _row(client: ClientPeer, load: MapLoad, unfinished: int, running: int) -> MapStatus:
    return MapStatus(
        client.shown_id, load.number, load.function, load.total, unfinished, running, load.failed, load.module,
        load.canceled, *_to_come(load),
    )  # fmt: skip


def _to_come(load: MapLoad) -> tuple[int, bool]:
    """Return how many tasks are still to come, and whether there may be more. If no task is left, the client may as
    well have ended the map before its end."""
    if not load.live_tasks:
        return 0, False
    if load.expected == MAP_TASKS_UNKNOWN:
        return 0, True
    return max(0, load.expected - load.total), False
