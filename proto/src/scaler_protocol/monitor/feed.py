"""Encodes and decodes the monitor stream.

One ZeroMQ message has two frames: its kind (what a watcher subscribes to) and a Cap'n Proto ``MonitorMessage``
(``schemas/monitor.capnp``). The same bytes go through the pipe between a scheduler and its publisher.
"""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import capnp

from scaler_protocol.messages import WorkerStatus
from scaler_protocol.monitor.messages import (
    MONITOR_MAJOR,
    MONITOR_MINOR,
    AgentStatus,
    ClientStatus,
    FunctionStatus,
    MessageCount,
    MonitorMessage,
    PeerState,
    SchedulerStatus,
    Snapshot,
    TaskCounts,
)

SNAPSHOT_KIND = b"snapshot"

_SCHEMA = capnp.load(str(Path(__file__).parent.parent / "schemas" / "monitor.capnp"))
_VERSION_HINT = "use both from the same release"


class FeedError(ValueError):
    """What arrived is not a monitor message that can be shown; the text is one plain sentence."""


class Received(NamedTuple):
    sequence: int
    message: MonitorMessage


def encode(message: MonitorMessage, sequence: int = 0) -> bytes:
    """The second frame of a monitor message."""
    head = {"major": MONITOR_MAJOR, "minor": MONITOR_MINOR, "sequence": sequence}
    root = _SCHEMA.MonitorMessage.new_message(**head, snapshot=_to_wire(message))
    return bytes(root.to_bytes())


def decode(payload: bytes) -> Received:
    """The inverse of :func:`encode`; FeedError for foreign bytes, another major version or an unknown kind."""
    try:
        with _SCHEMA.MonitorMessage.from_bytes(payload) as root:
            return _decode_root(root)
    except FeedError:
        raise
    except (capnp.KjException, ValueError, TypeError) as error:
        raise FeedError("what arrives at this address is not a Scaler monitor stream") from error


def _decode_root(root: Any) -> Received:
    if root.major != MONITOR_MAJOR:
        text = f"the scheduler speaks monitor protocol {root.major}, this program {MONITOR_MAJOR}: {_VERSION_HINT}"
        raise FeedError(text)
    if str(root.which()) != "snapshot":
        raise FeedError("the monitor stream carries a kind of message that this program does not know")
    return Received(root.sequence, _from_wire(Snapshot, root.snapshot))


# ---- dataclass fields and schema fields have the same names, in snake_case and camelCase -----------------------------


def _camel(name: str) -> str:
    return re.sub(r"_(\w)", lambda match: match.group(1).upper(), name)


_STRUCTS = (
    Snapshot, SchedulerStatus, TaskCounts, MessageCount, AgentStatus, WorkerStatus, ClientStatus, FunctionStatus
)  # fmt: skip
_NAMES: dict[type, list[tuple[str, str]]] = {
    struct: [(field.name, _camel(field.name)) for field in fields(struct)] for struct in _STRUCTS
}

_NESTED: dict[tuple[type, str], type] = {
    (Snapshot, "scheduler"): SchedulerStatus,
    (Snapshot, "tasks"): TaskCounts,
    (AgentStatus, "state"): PeerState,
}

_LISTS: dict[tuple[type, str], type] = {
    (Snapshot, "sent"): MessageCount,
    (Snapshot, "received"): MessageCount,
    (Snapshot, "agents"): AgentStatus,
    (Snapshot, "clients"): ClientStatus,
    (Snapshot, "functions"): FunctionStatus,
    (AgentStatus, "workers"): WorkerStatus,
}


def _to_wire(value: Any) -> Any:
    names = _NAMES.get(type(value))
    if names is not None:
        return {camel: _to_wire(getattr(value, name)) for name, camel in names}
    if isinstance(value, tuple):
        return [_to_wire(item) for item in value]
    return int(value) if isinstance(value, PeerState) else value


def _from_wire(struct: type, reader: Any) -> Any:
    values = (_field_from_wire(struct, name, getattr(reader, camel)) for name, camel in _NAMES[struct])
    return struct(*values)


def _field_from_wire(struct: type, name: str, value: Any) -> Any:
    item = _LISTS.get((struct, name))
    if item is not None:
        return tuple(_from_wire(item, element) for element in value)
    nested = _NESTED.get((struct, name))
    if nested is PeerState:
        return PeerState(value) if value <= PeerState.LOST else PeerState.SUSPECT
    return _from_wire(nested, value) if nested is not None else value
