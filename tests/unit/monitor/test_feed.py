from __future__ import annotations

import math
from dataclasses import replace

import capnp
import pytest

from scaler_protocol.monitor import feed
from scaler_protocol.monitor.messages import MONITOR_MAJOR, AgentStatus, Events, PeerState, Snapshot
from tests.support.monitoring import agent_status, snapshot


def test_a_snapshot_arrives_as_it_was() -> None:
    sent = snapshot((agent_status(0), agent_status(1, 2, state=PeerState.SUSPECT, silent_seconds=2.0)))
    received = feed.decode(feed.encode(sent, sequence=12))
    assert received.sequence == 12
    assert _without_floats(received.message) == _without_floats(sent)
    assert received.message.agents[1].silent_seconds == pytest.approx(2.0)
    assert received.message.agents[0].lag_seconds == pytest.approx(0.0007)


def test_an_empty_snapshot_arrives() -> None:
    assert feed.decode(feed.encode(snapshot())).message.agents == ()


@pytest.mark.parametrize("payload", [b"", b"x", b"\0" * 7, b"\xff" * 64, b"GET / HTTP/1.1\r\n\r\n", b"\x01" * 4096])
def test_foreign_bytes_are_one_sentence(payload: bytes) -> None:
    with pytest.raises(feed.FeedError, match="^what arrives at this address is not a Scaler monitor stream$"):
        feed.decode(payload)


def test_any_cut_of_a_message_is_a_feed_error_or_a_message() -> None:
    payload = feed.encode(snapshot((agent_status(),)))
    for length in range(0, len(payload), 8):
        with pytest.raises(feed.FeedError):
            feed.decode(payload[:length])


def test_any_damaged_byte_is_a_feed_error_or_a_message() -> None:
    payload = bytearray(feed.encode(snapshot((agent_status(),))))
    for position in range(0, len(payload), 3):
        damaged = bytes(payload[:position]) + bytes([payload[position] ^ 0xFF]) + bytes(payload[position + 1 :])
        try:
            feed.decode(damaged)
        except feed.FeedError:
            pass


def test_another_major_version_is_named() -> None:
    root = feed._library()[1].MonitorMessage.new_message(major=MONITOR_MAJOR + 1)
    with pytest.raises(feed.FeedError, match=f"speaks monitor protocol {MONITOR_MAJOR + 1}, this program"):
        feed.decode(root.to_bytes())


def test_a_state_of_a_later_version_reads_as_suspect() -> None:
    wire = feed._snapshot_to_wire(snapshot((agent_status(0),)))
    wire["agents"]["state"] = (200).to_bytes(8, "little")
    root = feed._library()[1].MonitorMessage.new_message(major=MONITOR_MAJOR, snapshot=wire)
    assert feed.decode(root.to_bytes()).message.agents[0].state is PeerState.SUSPECT


def test_columns_of_different_lengths_are_refused() -> None:
    wire = feed._snapshot_to_wire(snapshot((agent_status(0),)))
    wire["workers"]["pid"] = bytes(8)
    root = feed._library()[1].MonitorMessage.new_message(major=MONITOR_MAJOR, snapshot=wire)
    with pytest.raises(feed.FeedError):
        feed.decode(root.to_bytes())


def test_the_schema_has_every_field_and_no_other() -> None:
    for struct, names in feed._NAMES.items():
        columns = struct.__name__.removesuffix("Status").removesuffix("Count").removesuffix("Group") + "Columns"
        name = columns if hasattr(feed._library()[1], columns) else struct.__name__
        assert capnp_fields(name) == [camel for _, camel in names], struct


def capnp_fields(name: str) -> list[str]:
    schema: capnp.lib.capnp._StructSchema = getattr(feed._library()[1], name).schema
    return list(schema.fieldnames)


def _without_floats(message: Snapshot) -> object:
    def plain(value: object) -> object:
        if isinstance(value, float):
            return None
        if isinstance(value, tuple):
            return tuple(plain(item) for item in value)
        names = getattr(type(value), "__dataclass_fields__", None)
        return value if names is None else {name: plain(getattr(value, name)) for name in names}

    assert all(isinstance(agent, AgentStatus) for agent in message.agents)
    return plain(message)


def test_events_arrive_as_they_were() -> None:
    sent = Events(time=12.5, first=70, records=b"\1\2" * 40, dropped=3, count=2, epoch=9)
    assert feed.decode(feed.encode(sent, sequence=4)) == (4, sent)


def test_a_snapshot_of_an_earlier_minor_version_is_read() -> None:
    wire = {key: value for key, value in feed._snapshot_to_wire(snapshot()).items() if key in _FIRST_KEYS}
    wire["functions"] = {key: wire["functions"][key] for key in ("digest", "name", "unfinished", "finished")}
    root = feed._library()[1].MonitorMessage.new_message(major=MONITOR_MAJOR, snapshot=wire)
    message = feed.decode(root.to_bytes()).message
    assert isinstance(message, Snapshot)
    assert (message.functions[0].unfinished, message.functions[0].succeeded, message.time) == (2_010, 0, 0.0)


_FIRST_KEYS = ("scheduler", "tasks", "sent", "received", "agents", "workers", "clients", "functions")


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_no_message(number: float) -> None:
    whole = snapshot((agent_status(),))
    harmed = (
        replace(whole, time=number),
        replace(whole, scheduler=replace(whole.scheduler, cpu_percent=number)),
        replace(whole, agents=(replace(agent_status(), lag_seconds=number),)),
        Events(number, 0, b"", 0, 0, 7),
    )
    for message in harmed:
        with pytest.raises(feed.FeedError, match="not a Scaler monitor stream"):
            feed.decode(feed.encode(message))
