"""Small event logs that ask a reader for much."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path

from scaler_protocol.messages import Status
from scaler_protocol.monitor import feed, records
from scaler_protocol.monitor.log_frames import EVENTS, MAGIC, SNAPSHOT, frame
from scaler_protocol.monitor.messages import AgentStatus, Events, PeerState, SchedulerStatus, Setting, Snapshot
from scaler_protocol.monitor.records import Flag, Kind, Naming

TIME = 1_700_000_000.0
_US = int(TIME * 1e6)


def write_log(folder: Path, *messages: Snapshot | Events) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "20231114T221320Z-7.events"
    frames = [
        frame(SNAPSHOT if isinstance(message, Snapshot) else EVENTS, TIME + number / 10, feed.encode(message))
        for number, message in enumerate([Snapshot(SchedulerStatus("tcp://x:1", 7), time=TIME), *messages])
    ]
    path.write_bytes(MAGIC + b"".join(frames))
    return path


def _events(found: list[bytes]) -> list[Events]:
    return [Events(TIME, 0, b"".join(found), 0, 0, 7)]


def workers_of_high_numbers() -> list[Events]:
    """Each record names the last worker that an agent can have."""
    return _events(
        [
            records.ran_record(1, [1], [1], time=_US, session=0, agent=agent, worker=65_534, attempt=1)
            for agent in range(20_000)
        ]
    )


def workers_in_columns() -> list[Events]:
    return _events(
        [
            records.ended_record([1], [1], [1], [0], time=_US, session=0, agent=agent, workers=[65_533])
            for agent in range(20_000)
        ]
    )


def graphs_handed_out() -> list[Events]:
    """Graphs with one node and a wide span, handed out whole."""
    found = []
    for graph in range(100):
        last = (graph + 1) * 159_999
        body = struct.pack("<Q", last)
        found.append(records.record(Kind.GRAPH, time=_US, session=0, first=last - 159_998, count=1, body=body))
        handed = records.record(Kind.HANDED, time=_US, session=0, first=last - 159_998, count=159_999)
        found.extend([handed] * 100)
    return _events(found)


def graphs_of_edges() -> list[Events]:
    body = struct.pack("<Q", 5) + struct.pack("<QQ", 1, 2) * 1_000_000
    return _events([records.record(Kind.GRAPH, time=_US, session=0, first=1, count=1, body=body)])


def graphs_without_nodes() -> list[Events]:
    body = struct.pack("<Q", 5)
    return _events([records.record(Kind.GRAPH, time=_US, session=0, first=1, count=0, body=body)] * 60_000)


def pickles() -> list[Events]:
    """What a pickle remembers, it may number as it likes."""
    bombs = [
        b"\x80\x05N" + b"r" + (2**27).to_bytes(4, "little") + b".",
        b"\x80\x05\x96" + (2**31).to_bytes(8, "little"),
    ]
    return _events(
        [
            records.failed_record(Status.EXCEPTION, bomb, time=_US, session=0, task=number)
            for number in range(20)
            for bomb in bombs
        ]
    )


def failures() -> list[Events]:
    """Each has a cause and a long text of its own."""
    found = []
    for number in range(2000):
        text = f"\U0001f600{number} ".encode() + b"x" * 32_000
        found.append(records.failed_record(Status.TIMED_OUT, text, time=_US, session=0, task=number))
    return [Events(TIME, 0, b"".join(found[start : start + 400]), 0, 0, 7) for start in range(0, 2000, 400)]


def long_payloads() -> list[Events]:
    body = struct.pack("<II", 60_000_000, 60_000_000) + b"x" * 60_000_000
    return _events([records.record(Kind.FAILED, time=_US, flags=Status.TIMED_OUT, session=0, first=1, body=body)])


def names() -> list[Events]:
    found = [
        records.name_record(Naming.FUNCTION, index, {"digest": "", "name": f"{index}" + "x" * 700})
        for index in range(120_000)
    ]
    return [Events(TIME, 0, b"".join(found[start : start + 40_000]), 0, 0, 7) for start in range(0, 120_000, 40_000)]


def names_of_workers() -> list[Events]:
    found = [
        records.name_record(Naming.AGENT, index, {"name": "a", "host": "h", "workers": [0] * 100_000})
        for index in range(30)
    ]
    return _events(found)


def deep_names() -> list[Events]:
    return _events([records.record(Kind.NAME, time=_US, flags=Naming.AGENT, body=b"[" * 10_000_000)])


def distant_names() -> list[Events]:
    return _events(
        [
            records.name_record(naming, index, {"name": "x"})
            for naming in (Naming.SESSION, Naming.FUNCTION)
            for index in (0, 2**24 - 1)
        ]
    )


def steps_that_are_not_there() -> list[Events]:
    head = struct.pack("<II", 0, 0)
    return _events(
        [
            records.record(Kind.STEPPED, time=_US, session=0, count=2**32 - 1, body=head),
            records.record(Kind.RAN, time=_US, flags=Flag.SHORT, session=0, count=2**31, body=head),
            records.record(Kind.ENDED, time=_US, session=0, count=2**32 - 1, body=head),
        ]
    )


def tasks() -> list[Events]:
    """Far more than a log holds, in two bytes each."""
    body = struct.pack("<II", 0, 0) + bytes(2 * 4_000_000)
    return _events([records.record(Kind.STEPPED, time=_US, session=0, first=1, count=4_000_000, body=body)] * 5)


def rows() -> list[Snapshot]:
    """Agents without end, each with a name that takes a byte."""
    agent = AgentStatus(b"", "x", "x", 1, PeerState.CONNECTED)
    many = tuple(Setting("", "") for _ in range(1_000_000))
    return [
        Snapshot(SchedulerStatus("tcp://x:1", 7), time=TIME, agents=(agent,) * 50_000),
        Snapshot(SchedulerStatus("tcp://x:1", 7), time=TIME, settings=many),
    ]


def epochs() -> list[Events]:
    """A scheduler that starts again and again, and names much each time."""
    named = b"".join(records.name_record(Naming.SESSION, index, {"host": "x" * 500}) for index in range(1000))
    return [Events(TIME, 0, named, 0, 0, epoch) for epoch in range(50)]


def certificates() -> list[Events]:
    payload = json.dumps([{"stack": ["\n"] * 5000, "peak_memory": 10**400}]).encode()
    return _events(
        [
            records.failed_record(Status.PROCESSOR_DIED, payload, time=_US, session=0, task=number)
            for number in range(100)
        ]
    )


ATTACKS: list[Callable[[], list[Events] | list[Snapshot]]] = [
    workers_of_high_numbers, workers_in_columns, graphs_handed_out, graphs_of_edges, graphs_without_nodes, pickles,
    failures, long_payloads, names, names_of_workers, deep_names, distant_names, steps_that_are_not_there, tasks, rows,
    epochs, certificates,
]  # fmt: skip
