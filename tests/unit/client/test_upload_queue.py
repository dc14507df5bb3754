"""How many bytes of objects are sent ahead: over simulated uplinks, in virtual time."""

from __future__ import annotations

from collections import deque

import pytest

from scaler.core.upload_queue import MOST_LIMIT_BYTES, UploadQueue
from scaler.core.uploads import Upload
from scaler_protocol.messages import CREDIT_WITHOUT_END, ObjectKey

MEGABYTE = 1_000_000


class Uplink:
    """Carries messages in order, one after the other. Each is acknowledged a round trip after it has left."""

    def __init__(self, bytes_per_second: float, round_trip_seconds: float) -> None:
        self.now = 100.0
        self.queue = UploadQueue()
        self.sizes: list[int] = []
        self.waits: list[float] = []
        self._bytes_per_second = bytes_per_second
        self._round_trip_seconds = round_trip_seconds
        self._free_at = self.now
        self._sequence = 0
        self._acknowledgements: deque[tuple[float, int]] = deque()

    def add(self, size: int, number: int = 1) -> Upload:
        upload = Upload(ObjectKey(b"s" * 16, number), bytes(size), deque())
        upload.limit = size
        self.queue.add(upload)
        return upload

    def run(self, until_seconds: float) -> None:
        """``waits`` gets how long a message that is sent after each acknowledgement would wait."""
        end = self.now + until_seconds
        self._send()
        while self._acknowledgements and self._acknowledgements[0][0] <= end:
            self.now, sequence = self._acknowledgements.popleft()
            self.queue.note_acknowledged(sequence, self.now)
            self._send()
            self.queue.check()
            self.waits.append(max(0.0, self._free_at - self.now))
        self.now = end

    def _send(self) -> None:
        while (upload := self.queue.next()) is not None:
            piece = upload.piece(self.queue.piece_bytes)
            upload.note_sent(piece)
            self._sequence += 1
            self.queue.note_sent(self._sequence, len(piece.data), self.now)
            self.sizes.append(len(piece.data))
            self._free_at = max(self._free_at, self.now) + len(piece.data) / self._bytes_per_second
            self._acknowledgements.append((self._free_at + self._round_trip_seconds, self._sequence))


@pytest.mark.parametrize("round_trip_seconds", [0.001, 0.05, 0.3])
@pytest.mark.parametrize("rate", [0.1 * MEGABYTE, MEGABYTE, 10 * MEGABYTE])
def test_a_message_waits_for_a_fraction_of_a_second(rate: float, round_trip_seconds: float) -> None:
    uplink = Uplink(rate, round_trip_seconds)
    upload = uplink.add(int(60 * rate))
    uplink.run(60)
    assert max(uplink.waits[len(uplink.waits) // 4 :]) < 0.4
    assert upload.sent > 0.8 * 60 * rate  # and the uplink is used


def test_a_fast_connection_is_not_slowed_down() -> None:
    uplink = Uplink(1000 * MEGABYTE, 0.02)
    upload = uplink.add(3000 * MEGABYTE)
    uplink.run(3)
    assert upload.sent > 1500 * MEGABYTE
    assert uplink.queue.limit_bytes == MOST_LIMIT_BYTES


def test_an_object_with_little_left_passes_and_the_oldest_comes_to_its_end() -> None:
    uplink = Uplink(MEGABYTE, 0.01)
    large = uplink.add(5 * MEGABYTE, 1)
    small = uplink.add(100_000, 2)
    uplink.run(0.6)
    assert small.complete and not large.complete
    for number in range(3, 100):
        uplink.add(100_000, number)
    uplink.run(11)
    assert large.complete


def test_what_is_dropped_or_out_of_credit_leaves_the_queue() -> None:
    uplink = Uplink(MEGABYTE, 0.01)
    dropped, limited, ended = uplink.add(MEGABYTE, 1), uplink.add(MEGABYTE, 2), uplink.add(MEGABYTE, 3)
    dropped.let_go()
    limited.limit = 50_000
    ended.grant(CREDIT_WITHOUT_END)
    uplink.run(1)
    assert not uplink.queue and sum(uplink.sizes) == 50_000
    assert uplink.queue.bytes_under_way == 0


def test_after_a_reconnection_delays_are_measured_from_then_on() -> None:
    uplink = Uplink(MEGABYTE, 0.01)
    uplink.add(MEGABYTE)
    uplink.run(0)
    pieces, limit = uplink.queue.pieces_under_way, uplink.queue.limit_bytes
    uplink.queue.resume(2, uplink.now + 50)
    uplink.queue.check()
    assert (uplink.queue.pieces_under_way, uplink.queue.limit_bytes) == (pieces - 2, limit)
    uplink.queue.note_acknowledged(10**9, uplink.now + 50.02)
    assert not uplink.queue.bytes_under_way and uplink.queue.limit_bytes > limit
    uplink.queue.restart()
    uplink.queue.check()
