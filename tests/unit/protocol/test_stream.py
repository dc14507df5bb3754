from __future__ import annotations

import os
import random
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scaler_protocol.transport.stream import SIZE_LIMIT_BYTES, StreamConnection
from tests.support.descriptors import free_descriptors

Pair = tuple[StreamConnection, StreamConnection]


@pytest.fixture
def pair() -> Iterator[Pair]:
    one, other = StreamConnection.pair()
    yield one, other
    one.close()
    other.close()


@pytest.fixture
def raw() -> Iterator[tuple[socket.socket, StreamConnection]]:
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    connection = StreamConnection(other)
    yield one, connection
    one.close()
    connection.close()


def packed(frames: list[bytes]) -> bytes:
    lengths = struct.pack(f"<{len(frames)}I", *map(len, frames))
    body = struct.pack("<H", len(frames)) + lengths + b"".join(frames)
    return struct.pack("<I", len(body)) + body


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_messages_both_ways(pair: Pair) -> None:
    one, other = pair
    assert one.receive() is None
    assert one.send([b"a", b"", b"c"]) and one.send([b"next"])
    assert other.receive() == [b"a", b"", b"c"]
    assert other.receive() == [b"next"]
    assert other.receive() is None and not other.eof
    assert other.send([b"back"]) and one.receive() == [b"back"]


def test_the_wire_is_as_documented(raw: tuple[socket.socket, StreamConnection]) -> None:
    plain, connection = raw
    connection.send([b"abc", b""])
    assert plain.recv(100) == packed([b"abc", b""]) == b"\x0d\0\0\0" + b"\x02\0" + b"\x03\0\0\0" + b"\0\0\0\0" + b"abc"


def test_any_cut_of_the_stream_gives_the_same_messages(raw: tuple[socket.socket, StreamConnection]) -> None:
    plain, connection = raw
    chance = random.Random(1)
    messages = [[chance.randbytes(chance.randrange(200)) for _ in range(1 + chance.randrange(4))] for _ in range(200)]
    messages = [message for message in messages if message != [b""]]
    data = b"".join(map(packed, messages))
    received = []
    while data:
        size = chance.choice([1, 2, 5, 50, 1000])
        plain.sendall(data[:size])
        data = data[size:]
        while (message := connection.receive()) is not None:
            received.append(message)
    assert received == messages


def test_probes_are_swallowed(pair: Pair) -> None:
    one, other = pair
    one.send([b""])
    one.send([b"x"])
    assert other.receive() == [b"x"] and other.receive() is None


def test_what_the_kernel_does_not_take_waits(pair: Pair) -> None:
    one, other = pair
    large = [os.urandom(1_000_000)]
    assert all(one.send(large) for _ in range(4)) and one.send([b"last"])
    assert one.wants_write and 3_000_000 < one.outgoing_bytes < 4_100_000
    received = []
    while one.wants_write or len(received) < 5:
        one.flush()
        while (message := other.receive()) is not None:
            received.append(message)
    assert received == [large] * 4 + [[b"last"]] and one.outgoing_bytes == 0


def test_held_messages_leave_with_the_next_one(pair: Pair) -> None:
    one, other = pair
    one.hold([b"first"])
    one.hold([b"second", b""])
    assert other.receive() is None and not one.wants_write
    one.send([b"third"])
    assert [other.receive() for _ in range(4)] == [[b"first"], [b"second", b""], [b"third"], None]
    one.hold([b"fourth"])
    assert one.flush() and other.receive() == [b"fourth"]
    one.hold([b"never"])
    one.close()
    assert other.receive() is None and other.eof


def test_descriptors_travel_with_their_message(pair: Pair) -> None:
    one, other = pair
    before = open_descriptors()
    for text in (b"first", b"second"):
        descriptor = os.memfd_create("test")
        os.write(descriptor, text)
        one.send([b"none"])
        one.send([text], [descriptor])
        os.close(descriptor)
    for text in (b"first", b"second"):
        assert other.receive() == [b"none"]
        assert other.receive() == [text]
        received = other.received_fds.popleft()
        assert os.pread(received, 100, 0) == text
        assert not os.get_inheritable(received)
        os.close(received)
    assert open_descriptors() == before


def test_descriptors_wait_with_their_message(pair: Pair) -> None:
    """The sender closes its own at once; they arrive all the same, and none is left open."""
    one, other = pair
    before = open_descriptors()
    one.send([bytes(3_000_000)])
    for index in range(5):
        descriptor = os.memfd_create("test")
        os.write(descriptor, b"%d" % index)
        one.send([b"%d" % index], [descriptor, descriptor])
        os.close(descriptor)
    received: list[list[bytes]] = []
    while len(received) < 6:
        one.flush()
        while (message := other.receive()) is not None:
            received.append(message)
    contents = [os.pread(descriptor, 10, 0) for descriptor in other.received_fds]
    assert contents == [b"0", b"0", b"1", b"1", b"2", b"2", b"3", b"3", b"4", b"4"]
    while other.received_fds:
        os.close(other.received_fds.popleft())
    assert open_descriptors() == before


def test_a_message_whose_descriptors_find_no_room_ends_the_connection(pair: Pair) -> None:
    """The descriptors of a later message would be taken for its own."""
    one, other = pair
    before = open_descriptors()
    descriptor = os.memfd_create("test")
    one.send([b"first"], [descriptor, descriptor])
    os.close(descriptor)
    with free_descriptors(1):
        assert other.receive() is None
    assert other.eof and other.lacks_descriptors and not other.received_fds
    assert open_descriptors() == before


def test_closing_closes_descriptors_nobody_took() -> None:
    before = open_descriptors()
    one, other = StreamConnection.pair()
    descriptor = os.memfd_create("test")
    one.send([b"taken"], [descriptor])
    assert other.receive() == [b"taken"]
    one.send([bytes(3_000_000)])
    one.send([b"never sent"], [descriptor])
    os.close(descriptor)
    for connection in (one, other, one, other):
        connection.close()
    assert open_descriptors() == before


def test_the_end_of_the_other_side(pair: Pair) -> None:
    one, other = pair
    one.send([b"last words"])
    one.close()
    assert other.receive() == [b"last words"] and other.receive() is None
    assert other.eof
    assert not other.send([b"x"]) and not other.wants_write
    assert not one.send([b"x"])


def test_writing_to_a_dead_end_is_no_error(pair: Pair) -> None:
    one, other = pair
    other.close()
    one.send([b"x"])
    assert not one.send([bytes(3_000_000)]) and one.eof


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack("<IH", SIZE_LIMIT_BYTES + 1, 1),
        struct.pack("<IH", 100, 0),
        struct.pack("<IH", 100, 65535),
        struct.pack("<IH", 2, 1),
        struct.pack("<IHI", 6, 1, 5) + b"",
        struct.pack("<IHI", 7, 1, 5) + b"x",
    ],
)
def test_what_is_no_message_ends_the_connection(raw: tuple[socket.socket, StreamConnection], data: bytes) -> None:
    plain, connection = raw
    plain.sendall(packed([b"fine"]) + data)
    assert connection.receive() == [b"fine"]
    assert connection.receive() is None and connection.eof


def test_bad_messages_are_not_sent(pair: Pair) -> None:
    for frames in ([], [b"x"] * 65, [bytes(SIZE_LIMIT_BYTES)]):
        with pytest.raises(ValueError):
            pair[0].send(frames)


def test_large_messages_cut_anywhere(raw: tuple[socket.socket, StreamConnection]) -> None:
    """Larger than one reading takes, with small ones between them."""
    plain, connection = raw
    plain.setblocking(False)
    chance = random.Random(2)
    sizes = [chance.choice([1, 300, 100_000, 262_130, 262_144, 700_000, 3_000_000]) for _ in range(60)]
    messages = [[chance.randbytes(size), b"tail"] for size in sizes]
    data = memoryview(b"".join(map(packed, messages)))
    received = []
    while len(received) < len(messages):
        try:
            data = data[plain.send(data[: chance.randrange(1, 400_000)]) :] if data else data
        except BlockingIOError:
            pass
        if chance.random() < 0.7 or not data:
            while (message := connection.receive()) is not None:
                received.append(message)
    assert received == messages


def test_frames_may_be_any_buffer(pair: Pair) -> None:
    one, other = pair
    frames: list[Any] = [memoryview(b"abcdef")[::2], bytearray(b"xyz"), b""]
    assert one.send(frames) and one.send((b"tuple",))
    assert other.receive() == [b"ace", b"xyz", b""] and other.receive() == [b"tuple"]
    with pytest.raises(TypeError):
        one.send(["text"])  # type: ignore[list-item]


def test_waiting_ends_with_a_message(pair: Pair) -> None:
    one, other = pair
    threading.Timer(0.05, one.send, ([b"now"],)).start()
    began = time.monotonic()
    other.wait(20)
    assert time.monotonic() - began < 10 and other.receive() == [b"now"]
    other.wait(0.01)
    assert other.receive() is None


def test_what_waits_to_be_written_goes_out_while_waiting(pair: Pair) -> None:
    one, other = pair
    large = [bytes(2_000_000)]
    one.send(large)
    received = None
    while received is None:
        received = other.receive()
        if one.wants_write:
            one.wait(0.05)
    assert received == large and not one.wants_write


def test_several_threads_may_flush(pair: Pair) -> None:
    """As threads of a worker process do while its main thread waits for messages."""
    one, other = pair
    messages = [[bytes([number]) * 50_000] for number in range(200)] * 4
    for message in messages:
        one.send(message)

    def flush() -> None:
        while one.wants_write:
            one.wait(0.01)

    threads = [threading.Thread(target=flush, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    received = []
    while len(received) < len(messages) and not other.eof:
        message = other.receive()
        if message is None:
            other.wait(0.1)
        else:
            received.append(message)
    for thread in threads:
        thread.join(20)
    assert received == messages and not one.wants_write


def test_a_connection_hardly_takes_memory_until_much_is_read() -> None:
    before = resident_bytes()
    pairs = [StreamConnection.pair() for _ in range(50)]
    grown = resident_bytes() - before
    for pair in pairs:
        for connection in pair:
            connection.close()
    assert grown < 100 * 100_000


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
