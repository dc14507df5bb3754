"""Lines that the scheduler and its agents log, on their way to monitors."""

from __future__ import annotations

from scaler_protocol.log_lines import LINE_CHARACTERS, LINES_LIMIT
from scaler_protocol.messages import Envelope, LogLine, LogLines
from scaler_protocol.monitor import feed, records
from scaler_protocol.monitor.messages import Events
from scaler_protocol.monitor.records import NONE, Kind, Naming
from scaler_protocol.monitor.ring import RING_HEADER_BYTES, RingReader, RingWriter
from scaler_scheduler.core.daemon_logs import RECORDED_CHARACTERS_PER_SECOND
from scaler_scheduler.shell.event_stream import EventStream
from tests.unit.monitor.test_daemon_logs import shown
from tests.unit.scheduler.playbook import Peer, Playbook
from tests.unit.scheduler.test_managers import manager, report


def lines(first: int, *texts: str) -> LogLines:
    return LogLines(tuple(LogLine(first + place, 1.5, 20, text) for place, text in enumerate(texts)))


def watched(book: Playbook) -> RingReader:
    memory = bytearray(RING_HEADER_BYTES + (1 << 22))
    book.core.watch(RingWriter(memory), 0.0, book.now)
    return RingReader(memory)


def recorded(reader: RingReader) -> list[tuple[int, str]]:
    data, _, _ = reader.take(1 << 22)
    found = [each for each in records.records(data) if each.kind == Kind.LOG]
    return [(each.agent, records.log_line_of(each).text) for each in found]


def test_lines_are_recorded_while_monitors_watch() -> None:
    book = Playbook()
    agent = book.agent()
    index = book.core.state.agents[agent.session].index
    reader = watched(book)
    agent.says(lines(0, "one", "two"))
    book.core.on_logged(list(lines(0, "own").lines), book.now)
    agent.says(lines(1, "two", "three"))  # one that is sent again
    assert recorded(reader) == [(index, "one"), (index, "two"), (NONE, "own"), (index, "three")]


def test_a_recording_begins_with_the_lines_that_came_before() -> None:
    book = Playbook()
    agent = book.agent()
    index = book.core.state.agents[agent.session].index
    agent.says(lines(0, *map(str, range(2 * LINES_LIMIT))))
    book.core.on_logged(list(lines(0, "own").lines), book.now)
    expected = [(NONE, "own"), *((index, str(number)) for number in range(LINES_LIMIT, 2 * LINES_LIMIT))]
    assert recorded(watched(book)) == expected


def test_a_flood_is_limited() -> None:
    book = Playbook()
    agent = book.agent()
    reader = watched(book)
    for number in range(1000):
        agent.says(lines(number, "x" * 5000))
    found = [text for _, text in recorded(reader)]
    assert {len(text) for text in found} == {LINE_CHARACTERS}
    assert sum(map(len, found)) <= RECORDED_CHARACTERS_PER_SECOND


def test_late_watchers_get_the_newest_lines_of_every_log() -> None:
    """However many other records came after them."""
    memory = bytearray(RING_HEADER_BYTES + (1 << 20))
    ring, stream = RingWriter(memory), EventStream()
    stream._reader = RingReader(memory)
    for number in range(3 * LINES_LIMIT):
        for agent in (NONE, 0):
            ring.write(records.log_record(LogLine(number, 1.0, 20, f"{number}"), agent))
    list(stream.take())
    stream._recent.clear()
    texts = [row["text"] for row in shown(*stream.named())]
    assert sorted(texts, key=int) == sorted(2 * [str(number) for number in range(200, 300)], key=int)


def say(cloud: Peer, body: LogLines) -> None:
    """The messages of worker managers have no number."""
    cloud.playbook.deliver(cloud, Envelope(body))
    cloud.playbook.run()


def test_lines_of_a_worker_manager_are_recorded_under_its_name() -> None:
    book = Playbook()
    cloud = manager(book)
    index = book.core.state.agents[cloud.session].index
    say(cloud, lines(0, "too early"))  # it has not said yet what it is
    cloud.says(report("cloud"))
    say(cloud, lines(1, "before"))
    early = watched(book)
    say(cloud, lines(2, "while watched"))
    assert recorded(early) == [(index, "before"), (index, "while watched")]
    late = watched(book)
    found = [record for record in records.records(late.take(1 << 22)[0]) if record.kind == Kind.NAME]
    assert [records.name_of(each)["name"] for each in found if each.flags == Naming.AGENT] == ["manager cloud"]


def test_a_worker_manager_that_joins_is_named_for_monitors() -> None:
    book = Playbook()
    reader = watched(book)
    cloud = manager(book)
    cloud.says(report("cloud"))
    say(cloud, lines(0, "line"))
    data, _, _ = reader.take(1 << 22)
    rows = shown(feed.encode(Events(1.0, 0, data, 0, 1, 7)))
    assert [(row["log"], row["text"]) for row in rows] == [("manager cloud", "line")]
