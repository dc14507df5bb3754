"""What a store logs gets to one agent of its host."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from scaler_protocol.command.log_tail import LogTail
from scaler_protocol.command.logs import PlainRecord
from scaler_protocol.log_lines import LINES_LIMIT
from scaler_protocol.messages import LogLine, LogLines, StoreSettings
from scaler_protocol.objects.agent_connection import AgentConnection
from scaler_protocol.objects.errors import StoreFull
from scaler_protocol.objects.polling import wait_readable
from scaler_protocol.objects.store_log import StoreLog
from tests.unit.objects.conftest import Connect
from tests.unit.objects.test_store import key

MEBIBYTE = 1 << 20
LOG = StoreSettings(8 * MEBIBYTE, "", "", receives_log=True)


def log(tail: LogTail, text: str) -> None:
    tail.handle(PlainRecord("root", 30, "file.py", 1, text, (), None))


def taken(log: StoreLog, now: float) -> tuple[int, list[str]] | None:
    found = log.take(now)
    return None if found is None else (found[0], [line.text for line in found[1].lines])


def test_lines_wait_for_a_receiver_and_go_to_the_first_one() -> None:
    tail = LogTail()
    store_log = StoreLog(tail)
    log(tail, "one")
    assert taken(store_log, 1.0) is None and store_log.next_deadline() is None
    store_log.add_receiver(3)
    store_log.add_receiver(2)
    assert taken(store_log, 1.0) == (3, ["one"])
    log(tail, "two")
    store_log.remove_receiver(3)
    store_log.remove_receiver(3)
    assert taken(store_log, 2.0) == (2, ["two"])


def test_lines_are_sent_once_a_second() -> None:
    tail = LogTail()
    store_log = StoreLog(tail)
    store_log.add_receiver(1)
    log(tail, "one")
    assert taken(store_log, 10.0) == (1, ["one"])
    for number in range(2 * LINES_LIMIT):
        log(tail, str(number))
        assert taken(store_log, 10.0 + number / 1000) is None
    assert store_log.next_deadline() == 11.0
    assert taken(store_log, 11.0) == (1, [str(number) for number in range(LINES_LIMIT, 2 * LINES_LIMIT)])
    assert taken(store_log, 12.0) is None and store_log.next_deadline() is None


def lines_of(agent: AgentConnection, count: int) -> list[LogLine]:
    """The next lines that this agent gets, at least so many."""
    found: list[LogLine] = []
    while len(found) < count:
        assert wait_readable(agent.fd, 30.0)
        found += [line for answer in agent.on_readable() if isinstance(answer, LogLines) for line in answer.lines]
    return found


def test_the_first_agent_gets_the_lines_and_the_next_one_those_after_it_has_left(
    cluster: bytes, connect: Connect, tmp_path: Path
) -> None:
    client = connect()  # has started the store
    pid = client.status(30).pid
    first, second = (AgentConnection.open(cluster, LOG) for _ in range(2))
    assert [line.text for line in lines_of(first, 1)] == [f"Started as process {pid}."]
    first.close()
    blocked = tmp_path / "file"
    blocked.touch()
    third = AgentConnection.open(cluster, StoreSettings(0, str(blocked), ""))  # an agent of an older version
    with pytest.raises(StoreFull):
        for number in range(20):
            client.put(key(number), bytes(MEBIBYTE))
    (line,) = lines_of(second, 1)
    assert line.number == 1 and line.level == 30 and line.text.startswith(f"Cannot write objects to disk: {blocked}: ")
    client.drop([key(number) for number in range(20)])
    third.close()
    working = AgentConnection.open(cluster, StoreSettings(0, str(tmp_path), ""))
    for number in range(20, 40):
        client.put(key(number), bytes(MEBIBYTE))
    assert [each.text for each in lines_of(second, 1)] == ["Objects can be written to disk again."]
    for agent in (second, working):
        agent.close()
    assert os.listdir(tmp_path) == ["file"]
