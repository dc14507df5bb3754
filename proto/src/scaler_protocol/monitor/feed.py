"""Encodes and decodes the monitor stream.

One ZeroMQ message has two frames: its topic (what a watcher subscribes to) and a Cap'n Proto ``MonitorMessage``
(``schemas/monitor.capnp``). The same bytes go through the pipe between a scheduler and its publisher.

A watcher subscribes to ``SNAPSHOT_KIND``, and to ``EVENTS_KIND`` if it wants these, too: events are recorded only while
a watcher does. One that also wants earlier events subscribes, before these, to a topic of its own:
``new_history_topic()``. It gets, once, what the publisher has kept: Events with all names, then recent ones.
"""

from __future__ import annotations

import functools
import os
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from scaler_protocol.command.descriptors import require_descriptors
from scaler_protocol.messages import WorkerStatus
from scaler_protocol.monitor.bounds import (
    IDENTITY_LIMIT_BYTES,
    ROWS_LIMIT,
    all_measured,
    counted,
    measured,
    short_text,
    shown_text,
)
from scaler_protocol.monitor.format import is_time
from scaler_protocol.monitor.messages import (
    MONITOR_MAJOR,
    MONITOR_MINOR,
    ActorStatus,
    AgentStatus,
    ClientStatus,
    EndedClientStatus,
    Events,
    EventTotals,
    FunctionStatus,
    GraphStatus,
    GroupStatus,
    HostStoreStatus,
    HostTraffic,
    MapStatus,
    MessageCount,
    MonitorMessage,
    ObjectStatus,
    PeerState,
    RunningTaskStatus,
    SchedulerStatus,
    Setting,
    Snapshot,
    TaskCounts,
    WaitGroup,
)

SNAPSHOT_KIND = b"snapshot"
EVENTS_KIND = b"events"
HISTORY_PREFIX = b"history."
_HISTORY_ID_SIZE = 8
_DESCRIPTORS_NEEDED = 8

_Row = TypeVar("_Row")

_VERSION_HINT = "use both from the same release"


class FeedError(ValueError):
    """The received bytes are not a monitor message that can be shown; the text is one plain sentence."""


class RefusedError(FeedError):
    """The publisher does not let this watcher in, or cannot be trusted; one sentence. The watcher tries again."""


class Received(NamedTuple):
    sequence: int
    message: MonitorMessage


def new_history_topic() -> bytes:
    """A topic that no other watcher has subscribed to."""
    return HISTORY_PREFIX + os.urandom(_HISTORY_ID_SIZE).hex().encode()


def is_history_topic(topic: bytes) -> bool:
    return topic.startswith(HISTORY_PREFIX) and len(topic) == len(HISTORY_PREFIX) + 2 * _HISTORY_ID_SIZE


def kind_of(message: MonitorMessage) -> bytes:
    """The topic that a message is published under."""
    return EVENTS_KIND if isinstance(message, Events) else SNAPSHOT_KIND


def encode(message: MonitorMessage, sequence: int = 0) -> bytes:
    """The second frame of a monitor message."""
    head = {"major": MONITOR_MAJOR, "minor": MONITOR_MINOR, "sequence": sequence}
    if isinstance(message, Events):
        body: dict[str, Any] = {"events": _fields(message)}
    else:
        body = {"snapshot": _snapshot_to_wire(message)}
    return bytes(_library()[1].MonitorMessage.new_message(**head, **body).to_bytes())


def decode(payload: bytes) -> Received:
    """The inverse of :func:`encode`; FeedError for foreign bytes, another major version or an unknown kind."""
    library, schema = _library()
    try:
        with schema.MonitorMessage.from_bytes(payload, traversal_limit_in_words=_words_to_read(payload)) as root:
            received = _decode_root(root)
            if not is_time(received.message.time):
                raise ValueError("not a time")
            return received
    except FeedError:
        raise
    except (library.KjException, struct.error, ValueError, TypeError, OverflowError) as error:
        raise FeedError("the stream at this address is not a Scaler monitor stream") from error


def _words_to_read(payload: bytes) -> int:
    """Every part of a message is read once or twice; in one that is read again and again, rows share their bytes."""
    return len(payload) // 4 + 1024


@functools.cache
def _library() -> tuple[Any, Any]:
    """pycapnp and the schema, loaded at first use: a scheduler serves before it reports its state. Raises OSError when
    descriptors are missing; the library of pycapnp would then end the process."""
    require_descriptors(_DESCRIPTORS_NEEDED, "read or write the state of a cluster")
    import capnp

    return capnp, capnp.load(str(Path(__file__).parent.parent / "schemas" / "monitor.capnp"))


def _decode_root(root: Any) -> Received:
    if root.major != MONITOR_MAJOR:
        text = f"the scheduler uses monitor protocol {root.major}, this program {MONITOR_MAJOR}: {_VERSION_HINT}"
        raise FeedError(text)
    kind = str(root.which())
    if kind == "events":
        return Received(root.sequence, _struct(Events, root.events))
    if kind != "snapshot":
        raise FeedError("the monitor stream contains an unknown kind of message")
    return Received(root.sequence, _snapshot_from_wire(root.snapshot))


def _snapshot_to_wire(snapshot: Snapshot) -> dict[str, Any]:
    workers = [worker for agent in snapshot.agents for worker in agent.workers]
    running = [task for agent in snapshot.agents for task in agent.running]
    return {
        "scheduler": _fields(snapshot.scheduler),
        "tasks": _fields(snapshot.tasks),
        "sent": _columns(MessageCount, snapshot.sent),
        "received": _columns(MessageCount, snapshot.received),
        "agents": _columns(AgentStatus, snapshot.agents),
        "workers": _columns(WorkerStatus, workers),
        "running": _columns(RunningTaskStatus, running),
        "clients": _columns(ClientStatus, snapshot.clients),
        "endedClients": _columns(EndedClientStatus, snapshot.ended_clients),
        "functions": _columns(FunctionStatus, snapshot.functions),
        "time": snapshot.time,
        "settings": _columns(Setting, snapshot.settings),
        "waits": _columns(WaitGroup, snapshot.waits),
        "graphs": _columns(GraphStatus, snapshot.graphs),
        "stores": _columns(HostStoreStatus, snapshot.stores),
        "objects": _columns(ObjectStatus, snapshot.objects),
        "maps": _columns(MapStatus, snapshot.maps),
        "traffic": _columns(HostTraffic, snapshot.traffic),
        "groups": _columns(GroupStatus, snapshot.groups),
        "actors": _columns(ActorStatus, snapshot.actors),
        "events": _fields(snapshot.events),
        "functionCount": counted(snapshot.function_count),
        "waitCount": counted(snapshot.wait_count),
        "graphCount": counted(snapshot.graph_count),
        "actorCount": counted(snapshot.actor_count),
        "trouble": short_text(snapshot.trouble),
    }


def _snapshot_from_wire(reader: Any) -> Snapshot:
    return Snapshot(
        scheduler=_struct(SchedulerStatus, reader.scheduler),
        tasks=_struct(TaskCounts, reader.tasks),
        sent=tuple(_rows(MessageCount, reader.sent)),
        received=tuple(_rows(MessageCount, reader.received)),
        agents=tuple(_agents(reader)),
        clients=tuple(_rows(ClientStatus, reader.clients)),
        ended_clients=tuple(_rows(EndedClientStatus, reader.endedClients)),
        functions=tuple(_rows(FunctionStatus, reader.functions)),
        time=reader.time,
        settings=tuple(_rows(Setting, reader.settings)),
        waits=tuple(_rows(WaitGroup, reader.waits)),
        graphs=tuple(_rows(GraphStatus, reader.graphs)),
        stores=tuple(_rows(HostStoreStatus, reader.stores)),
        objects=tuple(_rows(ObjectStatus, reader.objects)),
        maps=tuple(_rows(MapStatus, reader.maps)),
        traffic=tuple(_rows(HostTraffic, reader.traffic)),
        groups=tuple(_rows(GroupStatus, reader.groups)),
        actors=tuple(_rows(ActorStatus, reader.actors)),
        events=_struct(EventTotals, reader.events),
        function_count=reader.functionCount,
        wait_count=reader.waitCount,
        graph_count=reader.graphCount,
        actor_count=reader.actorCount,
        trouble=shown_text(reader.trouble),
    )


def _agents(reader: Any) -> Iterator[AgentStatus]:
    workers, running = _rows(WorkerStatus, reader.workers), _rows(RunningTaskStatus, reader.running)
    for agent in _rows(AgentStatus, reader.agents):
        state = PeerState(agent.state) if agent.state <= PeerState.PAUSED else PeerState.SUSPECT
        count: Any = agent.workers
        running_count: Any = agent.running or 0
        its_workers, its_tasks = tuple(islice(workers, count)), tuple(islice(running, running_count))
        yield replace(agent, state=state, workers=its_workers, running=its_tasks)


# ---- dataclass fields and schema fields have the same names, in snake_case and camelCase -----------------------------


def _camel(name: str) -> str:
    return re.sub(r"_(\w)", lambda match: match.group(1).upper(), name)


_STRUCTS = (
    SchedulerStatus, TaskCounts, MessageCount, AgentStatus, WorkerStatus, RunningTaskStatus, ClientStatus,
    EndedClientStatus, FunctionStatus, Setting, WaitGroup, GraphStatus, HostStoreStatus, HostTraffic, ObjectStatus,
    MapStatus, GroupStatus, ActorStatus, EventTotals, Events,
)  # fmt: skip
_NAMES: dict[type, list[tuple[str, str]]] = {
    each: [(field.name, _camel(field.name)) for field in fields(each)] for each in _STRUCTS
}


_Clean = Callable[[Any], Any]


def _cut_identity(value: bytes) -> bytes:
    return value[:IDENTITY_LIMIT_BYTES]


def _packed_counts(counts: Sequence[int]) -> bytes:
    return _packed("Q", counts[:_COUNTS_LIMIT])


def _unpacked_counts(data: bytes) -> tuple[int, ...]:
    count = min(len(data) // 8, _COUNTS_LIMIT)
    return struct.unpack(f"<{count}Q", data[: 8 * count])


def _short_texts(names: Sequence[str]) -> list[str]:
    return [short_text(name) for name in names[:_TEXTS_LIMIT]]


def _shown_texts(names: Any) -> tuple[str, ...]:
    return tuple(shown_text(name) for name in islice(names, _TEXTS_LIMIT))


def _cleaners(by_type: dict[str, _Clean]) -> dict[type, list[_Clean]]:
    return {each: [by_type.get(str(field.type), lambda value: value) for field in fields(each)] for each in _STRUCTS}


_TO_WIRE = _cleaners({"str": short_text, "int": counted, "float": measured})
_FROM_WIRE = _cleaners({"str": shown_text, "float": measured})
_LISTS_TO_WIRE: dict[str, _Clean] = {
    "str": short_text, "bytes": _cut_identity, "counts": _packed_counts, "tuple[str, ...]": _short_texts
}  # fmt: skip
_LISTS_FROM_WIRE: dict[str, _Clean] = {
    "str": shown_text, "bytes": _cut_identity, "counts": _unpacked_counts, "tuple[str, ...]": _shown_texts
}  # fmt: skip
_TEXTS_LIMIT = 16
"""Maximum number of texts in one row: a little more than any has."""

_COUNTS_LIMIT = 64
"""Maximum number of counts of one distribution: a little more than any has."""

_PROCESS_ID_LIMIT = 2**32 - 1
_SIGNED_LIMIT = 2**63 - 1


def _fields(value: Any) -> dict[str, Any]:
    names, cleaners = _NAMES[type(value)], _TO_WIRE[type(value)]
    found = {camel: clean(getattr(value, name)) for (name, camel), clean in zip(names, cleaners, strict=True)}
    if "pid" in found:
        found["pid"] = min(found["pid"], _PROCESS_ID_LIMIT)
    return found


def _struct(row_type: type[_Row], reader: Any) -> _Row:
    names, cleaners = _NAMES[row_type], _FROM_WIRE[row_type]
    return row_type(*(clean(getattr(reader, camel)) for (_, camel), clean in zip(names, cleaners, strict=True)))


def _columns(row_type: type, rows: Sequence[Any]) -> dict[str, Any]:
    return {_camel(name): _column(kind, list(map(attrgetter(name), rows))) for name, kind in _COLUMNS[row_type]}


def _rows(row_type: type[_Row], reader: Any) -> Iterator[_Row]:
    """Read rows. Columns at the end that an earlier minor version does not send have their defaults. Raises ValueError
    if the columns have different lengths, as only those of a damaged message have."""
    columns = [_values(kind, getattr(reader, _camel(name))) for name, kind in _COLUMNS[row_type]]
    while len(columns) > 1 and columns[0] and not columns[-1]:
        columns.pop()
    return (row_type(*row) for row in zip(*columns, strict=True))


_PACKED = {"int": "Q", "float": "f", "bool": "?", "PeerState": "Q"}
"""The formats of packed numbers by annotation, as ``struct`` writes them; texts and bytes travel as lists."""

_OWN_KINDS: dict[type, dict[str, str]] = {
    AgentStatus: {"workers": "count", "running": "count"},
    WaitGroup: {"oldest_seconds": "d", "priority": "q", "lowest_priority": "q", "highest_priority": "q"},
    RunningTaskStatus: {"priority": "q"},
    EndedClientStatus: {"used_seconds": "d"},
    FunctionStatus: {
        field.name: "counts" if field.name.endswith("_counts") else "d"
        for field in fields(FunctionStatus)
        if field.name.endswith(("_counts", "_seconds"))
    },
}
"""The fields whose columns are not of the kind that their annotation says."""

_COLUMNS: dict[type, list[tuple[str, str]]] = {
    each: [
        (field.name, _OWN_KINDS.get(each, {}).get(field.name) or _PACKED.get(str(field.type), str(field.type)))
        for field in fields(each)
    ]
    for each in _STRUCTS
}


def _column(kind: str, values: list[Any]) -> Any:
    if kind in _LISTS_TO_WIRE:
        return list(map(_LISTS_TO_WIRE[kind], values))
    return _packed("Q", list(map(len, values))) if kind == "count" else _packed(kind, values)


def _values(kind: str, column: Any) -> Sequence[Any]:
    """ValueError when there are more rows than any scheduler has."""
    size = 1 if kind in _LISTS_FROM_WIRE else struct.calcsize(f"<{_code(kind)}")
    if len(column) > ROWS_LIMIT * size:
        raise ValueError("too many rows")
    if kind in _LISTS_FROM_WIRE:
        return list(map(_LISTS_FROM_WIRE[kind], column))
    values = struct.unpack(f"<{len(column) // size}{_code(kind)}", column)
    return all_measured(values) if kind in _FLOATS else values


_FLOATS = ("f", "d")


def _code(kind: str) -> str:
    return "Q" if kind == "count" else kind


def _packed(code: str, values: Sequence[Any]) -> bytes:
    if code in _FLOATS:
        values = all_measured(values)
    try:
        return struct.pack(f"<{len(values)}{code}", *values)
    except struct.error:  # a number that no column takes
        return struct.pack(f"<{len(values)}{code}", *map(_signed if code == "q" else counted, values))


def _signed(value: int) -> int:
    return max(-_SIGNED_LIMIT, min(value, _SIGNED_LIMIT))
