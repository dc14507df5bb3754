from __future__ import annotations

import math
from dataclasses import replace

import capnp
import pytest

from scaler_protocol.monitor import feed
from scaler_protocol.monitor.bounds import MEASURE_LIMIT, ROWS_LIMIT, TEXT_LIMIT
from scaler_protocol.monitor.messages import (
    MONITOR_MAJOR,
    AgentStatus,
    Events,
    PeerState,
    Setting,
    Snapshot,
    TaskCounts,
)
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
    with pytest.raises(feed.FeedError, match="^the stream at this address is not a Scaler monitor stream$"):
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
    with pytest.raises(feed.FeedError, match=f"uses monitor protocol {MONITOR_MAJOR + 1}, this program"):
        feed.decode(root.to_bytes())


def test_a_state_of_a_later_version_reads_as_suspect() -> None:
    wire = feed._snapshot_to_wire(snapshot((agent_status(0),)))
    wire["agents"]["state"] = (200).to_bytes(8, "little")
    root = feed._library()[1].MonitorMessage.new_message(major=MONITOR_MAJOR, snapshot=wire)
    assert feed.decode(root.to_bytes()).message.agents[0].state is PeerState.SUSPECT


def test_an_earlier_version_does_not_say_whether_a_paused_agent_leaves() -> None:
    paused = agent_status(0, state=PeerState.PAUSED)
    wire = feed._snapshot_to_wire(snapshot((replace(paused, draining=True),)))
    assert wire["agents"]["state"] == int(PeerState.PAUSED).to_bytes(8, "little")
    states = []
    for names in (set(wire["agents"]), set(wire["agents"]) - {"draining"}):
        sent = {**wire, "agents": {name: wire["agents"][name] for name in names}}
        root = feed._library()[1].MonitorMessage.new_message(major=MONITOR_MAJOR, snapshot=sent)
        states += [agent.state_name for agent in feed.decode(root.to_bytes()).message.agents]
    assert states == ["draining", "paused"]


def test_columns_of_different_lengths_are_refused() -> None:
    wire = feed._snapshot_to_wire(snapshot((agent_status(0),)))
    wire["workers"]["pid"] = bytes(8)
    root = feed._library()[1].MonitorMessage.new_message(major=MONITOR_MAJOR, snapshot=wire)
    with pytest.raises(feed.FeedError):
        feed.decode(root.to_bytes())


def test_the_schema_has_every_field_and_no_other() -> None:
    for struct, names in feed._NAMES.items():
        columns = (
            struct.__name__.removesuffix("Group").removesuffix("Status").removesuffix("Count").removeprefix("Host")
            + "Columns"
        )
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
def test_what_is_no_time_is_no_message(number: float) -> None:
    with pytest.raises(feed.FeedError, match="not a Scaler monitor stream"):
        feed.decode(feed.encode(replace(snapshot((agent_status(),)), time=number)))


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, 1e300, -1e300, -1.0, 3.5e38, 5e-324])
def test_any_float_arrives_within_bounds(number: float) -> None:
    whole = snapshot((replace(agent_status(), lag_seconds=number, cpu_percent=number),))
    whole = replace(whole, scheduler=replace(whole.scheduler, cpu_percent=number, uptime_seconds=number))
    function = replace(whole.functions[0], duration_seconds=number)
    whole = replace(whole, functions=(function, *whole.functions[1:]))
    found = feed.decode(feed.encode(whole)).message
    agent = found.agents[0]
    measures = (agent.lag_seconds, agent.cpu_percent, found.scheduler.uptime_seconds, found.scheduler.cpu_percent)
    assert all(0 <= value <= MEASURE_LIMIT for value in (*measures, found.functions[0].duration_seconds))
    assert found.functions[1:] == whole.functions[1:] and agent.workers == whole.agents[0].workers


@pytest.mark.parametrize("number", [-1, -(2**70), 2**64, 2**64 - 1, 10**400])
def test_any_count_arrives_within_bounds(number: int) -> None:
    agent = replace(agent_status(), pid=number, rss_bytes=number, sent=number)
    whole = replace(snapshot((agent,)), function_count=number, tasks=TaskCounts(number, number))
    whole = replace(whole, scheduler=replace(whole.scheduler, pid=number, rss_bytes=number))
    found = feed.decode(feed.encode(whole)).message
    counts = (found.function_count, found.tasks.running, found.scheduler.pid, *(found.agents[0].pid,))
    assert all(0 <= value < 2**64 for value in counts)


@pytest.mark.parametrize(
    "text", ["", "x" * 10_000, "\0", "\ud800", "\u202e", "\x1b[2J\n", "\U0001f600" * 5000, "\uffff"]
)
def test_any_text_arrives_in_short(text: str) -> None:
    agent = replace(agent_status(), name=text, host=text, session=text.encode("utf-8", "replace"))
    whole = replace(snapshot((agent,)), trouble=text, settings=(Setting(text, text),))
    whole = replace(whole, scheduler=replace(whole.scheduler, host=text))
    found = feed.decode(feed.encode(whole)).message
    texts = (found.trouble, found.agents[0].name, found.settings[0].value, found.scheduler.host)
    assert all(len(each) <= TEXT_LIMIT and each.isprintable() and bool(each) == bool(text) for each in texts)


def test_rows_that_share_their_bytes_are_refused() -> None:
    """A message can name one long text many times."""
    library = feed._library()[1]
    message = library.MonitorMessage.new_message(major=MONITOR_MAJOR)
    settings = message.init("snapshot").init("settings")
    settings.init("value", 100)
    column = settings.init("name", 100)
    column[0] = "x" * 4000
    data = bytearray(message.to_bytes())
    # Each further pointer leads to the text of the first.
    start = data.index(b"x" * 4000)
    first = next(at for at in range(0, start, 8) if _leads_to(data, at, start))
    for number in range(1, 100):
        at = first + 8 * number
        offset = (start - at - 8) // 8
        data[at : at + 8] = (offset << 2 | 1 | (4001 << 3 | 2) << 32).to_bytes(8, "little")
    with pytest.raises(feed.FeedError, match="not a Scaler monitor stream"):
        feed.decode(bytes(data))


def _leads_to(data: bytearray, at: int, start: int) -> bool:
    pointer = int.from_bytes(data[at : at + 8], "little")
    return pointer & 3 == 1 and pointer >> 35 == 4001 and at + 8 + 8 * (pointer >> 2 & 0x3FFFFFFF) == start


def test_more_rows_than_any_scheduler_has_are_refused() -> None:
    settings = tuple(Setting("", "") for _ in range(ROWS_LIMIT + 1))
    with pytest.raises(feed.FeedError):
        feed.decode(feed.encode(replace(snapshot(), settings=settings)))
