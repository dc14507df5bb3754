"""Reading small objects without a question to the store."""

from __future__ import annotations

import mmap
import os
import signal
from pathlib import Path

import pytest

from scaler_protocol.messages import ObjectKey, StoreSettings
from scaler_protocol.objects.agent_connection import AgentConnection
from scaler_protocol.objects.connection import StoreConnection
from scaler_protocol.objects.directory import SLOTS, Directory, DirectoryView
from scaler_protocol.objects.dropped_objects import LIMIT, Dropped
from scaler_protocol.objects.errors import MissingObject
from tests.unit.objects.conftest import Connect
from tests.unit.objects.programs import Program
from tests.unit.objects.test_store import LARGE, key

OWNER = b"owner of objects"


def test_what_is_published_is_found_until_it_is_withdrawn() -> None:
    directory = Directory()
    view = DirectoryView(directory.fd)
    assert view.find(OWNER, 7) is None
    directory.publish(OWNER, 7, 3, 8192, 40_000)
    entry = view.find(OWNER, 7)
    assert entry is not None and entry[2:] == (3, 8192, 40_000) and view.stands(entry)
    assert view.find(OWNER, 8) is None and view.find(b"another one here", 7) is None
    directory.withdraw(OWNER, 7)
    assert view.find(OWNER, 7) is None and not view.stands(entry)
    directory.publish(OWNER, 7, 3, 8192, 40_000)
    assert not view.stands(entry), "an entry that was made again is another one"


def test_when_there_is_no_room_older_entries_go() -> None:
    directory = Directory()
    view = DirectoryView(directory.fd)
    for number in range(2 * SLOTS):
        directory.publish(OWNER, number, 1, number * 4096, 1)
    found = [number for number in range(2 * SLOTS) if view.find(OWNER, number) is not None]
    assert found == list(range(SLOTS, 2 * SLOTS))
    entry = view.find(OWNER, SLOTS)
    assert entry is not None and entry.offset == SLOTS * 4096
    directory.withdraw(OWNER, 0)  # is not there any more
    assert view.stands(entry)


def test_other_owners_are_left_out() -> None:
    directory = Directory()
    view = DirectoryView(directory.fd)
    for owner in (b"", b"short", b"x" * 17):
        directory.publish(owner, 1, 1, 0, 1)
        assert view.find(owner, 1) is None
        directory.withdraw(owner, 1)


def test_a_peer_cannot_write_it_or_change_its_size() -> None:
    directory = Directory()
    view = DirectoryView(directory.fd)
    for change in (lambda: os.ftruncate(directory.fd, 0), lambda: mmap.mmap(directory.fd, 4096)):
        with pytest.raises(OSError):
            change()
    directory.publish(OWNER, 1, 1, 0, 1)
    assert view.find(OWNER, 1) is not None


def test_what_is_not_a_directory_is_refused() -> None:
    reading, writing = os.pipe()
    with pytest.raises((OSError, ValueError)):
        DirectoryView(reading)
    os.close(reading)
    os.close(writing)


def test_drops_count_until_they_are_handled() -> None:
    dropped = Dropped()
    dropped.add([key(1)])
    before = dropped.position
    dropped.add([key(2)])
    dropped.on_handled(before)
    assert dropped.may_have(key(2)) and not dropped.may_have(key(1))
    dropped.add([OWNER])
    assert dropped.may_have(key(3)) and not dropped.may_have(ObjectKey(b"another one here", 3))
    dropped.add(key(number) for number in range(2 * LIMIT))
    assert dropped.may_have(ObjectKey(b"another one here", 3))
    dropped.on_handled(dropped.position)
    assert not dropped.may_have(key(2))


def test_small_objects_are_read_from_a_store_that_does_not_answer(connect: Connect) -> None:
    one, other = connect(), connect()
    for number in range(3):
        one.put(key(number), bytes([number]) * 40_000)
    assert other.get(key(0), 30) == bytes(40_000)  # and with it the segment
    pid = one.status(30).pid
    os.kill(pid, signal.SIGSTOP)
    try:
        assert other.get(key(1), 0.2) == b"\1" * 40_000
        assert one.get(key(2), 0.2)[-1] == 2
        one.drop([key(2)])
        with pytest.raises(TimeoutError):
            one.get(key(2), 0.2)
    finally:
        os.kill(pid, signal.SIGCONT)
    with pytest.raises(MissingObject):
        one.get(key(2), 30)


def test_objects_that_went_to_disk_are_read_as_before(cluster: bytes, connect: Connect, tmp_path: Path) -> None:
    one = connect()
    agent = AgentConnection.open(cluster, StoreSettings(16 * 1024 * 1024, str(tmp_path), ""))
    one.status(30)
    for _ in range(2):
        for number in range(200):
            one.put(key(number), number.to_bytes(4, "little") * 50_000)
            if number % 7 == 0:
                assert one.get(key(number // 2), 30)[:4] == (number // 2).to_bytes(4, "little")
    assert one.status(30).spilled_bytes > 0
    for number in range(200):
        view = one.get(key(number), 30)
        assert view[:4] == view[-4:] == number.to_bytes(4, "little")
    agent.close()


CHURN = """
import itertools, random
chance = random.Random(os.getpid())
for turn in itertools.count():
    number = chance.randrange(40)
    roll = chance.random()
    try:
        if roll < 0.3:
            store.put(key(number), bytes([number]) * (33_000 + number * 5_000))
        elif roll < 0.45:
            store.drop([key(number)])
        else:
            data = bytes(store.get(key(number)))
            if data != bytes([number]) * (33_000 + number * 5_000):
                say("wrong")
    except MissingObject:
        pass
    if turn == 300:
        say("running")
"""


def test_no_reader_sees_memory_that_is_used_again(cluster: bytes, connect: Connect) -> None:
    """Processes that write, drop and read the same few keys, killed and replaced at any moment: when another one has
    done so for a while."""
    one: StoreConnection = connect()
    programs = [Program(cluster, CHURN) for _ in range(3)]
    try:
        assert [each.hear() for each in programs] == ["running"] * 3
        for turn in range(6):
            programs[turn % 3].process.kill()
            assert not programs[turn % 3].process.communicate()[0]
            programs[turn % 3] = Program(cluster, CHURN)
            assert programs[turn % 3].hear() == "running"
        for number in range(40):
            try:
                assert one.get(key(number), 30) == bytes([number]) * (33_000 + number * 5_000)
            except MissingObject:
                pass
        one.put(key(1000), b"l" * LARGE)
        assert one.get(key(1000), 30) == b"l" * LARGE
    finally:
        for each in programs:
            each.process.kill()
    assert not any(each.process.communicate()[0] for each in programs), "a reader saw bytes of another object"
