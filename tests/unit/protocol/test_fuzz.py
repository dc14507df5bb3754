"""Whatever the bytes are, reading them gives an envelope or MalformedMessage: no crash, no other error, no memory taken
that the bytes do not justify."""

from __future__ import annotations

import random
import struct
import tracemalloc

import pytest

from scaler_protocol.codec import MalformedMessage, decode, encode
from scaler_protocol.messages import Envelope, Results, Tasks
from scaler_protocol.monitor.ring import RING_HEADER_BYTES, RingWriter
from tests.unit.protocol import samples

ENVELOPES = [*samples.all_envelopes(), Envelope(Results(samples.timed_runs()), 5, 6)]
IDS = [samples.name_of(envelope.body) for envelope in ENVELOPES]


def survives(frames: list[bytes]) -> bool:
    """Whether it could be read; then all of it is looked at, so that a bad pointer shows."""
    try:
        envelope = decode(frames)
    except MalformedMessage:
        return False
    repr(envelope)
    body = envelope.body
    if isinstance(body, Tasks):
        for run in body.runs:
            [run.slots(index) for index in range(min(run.count, 100))]
            run.references()
            assert run.slice(0, run.count) == run
    if isinstance(body, Results):
        for result_run in body.runs:
            list(result_run.rows())
            bytes(result_run.task_column)
            RingWriter(bytearray(RING_HEADER_BYTES + 4096)).write_ended(result_run, 1, 0, 0, [(0, 0)], None)
            result_run.age_column  # noqa: B018
    return True


@pytest.mark.parametrize("envelope", ENVELOPES, ids=IDS)
def test_flipped_bits(envelope: Envelope) -> None:
    frames = encode(envelope)
    chance = random.Random(1)
    for _ in range(1500):
        head = bytearray(frames[0])
        for _ in range(chance.choice([1, 1, 2, 5])):
            head[chance.randrange(len(head))] ^= 1 << chance.randrange(8)
        survives([bytes(head), *frames[1:]])


@pytest.mark.parametrize("envelope", ENVELOPES, ids=IDS)
def test_words_replaced(envelope: Envelope) -> None:
    frames = encode(envelope)
    chance = random.Random(2)
    words = len(frames[0]) // 8
    edges = [0, 1, 2, 3, 5, 6, 7, 2**64 - 1, 2**63, 0x0000000700000001, 0xFFFFFFFC00000001, 0xFFFFFFFF00000002, 1 << 35]
    for _ in range(1500):
        head = bytearray(frames[0])
        value = chance.choice([chance.choice(edges), chance.getrandbits(64), chance.getrandbits(40)])
        struct.pack_into("<Q", head, 8 * chance.randrange(words), value)
        survives([bytes(head), *frames[1:]])


@pytest.mark.parametrize("envelope", ENVELOPES, ids=IDS)
def test_truncated(envelope: Envelope) -> None:
    frames = encode(envelope)
    for size in range(len(frames[0])):
        assert not survives([frames[0][:size], *frames[1:]])


def test_truncated_payload() -> None:
    for body in (Tasks([samples.rich_run()]), Results([samples.result_run()])):
        head, payload = encode(Envelope(body))
        assert not any(survives([head, payload[:size]]) for size in range(len(payload)))
        assert not survives([head])


def test_random_bytes() -> None:
    chance = random.Random(3)
    for _ in range(5000):
        words = chance.randrange(40)
        framed = struct.pack("<II", 0, words) + chance.randbytes(8 * words)
        survives([chance.choice([framed, chance.randbytes(chance.randrange(200))]), chance.randbytes(20)])


def test_number_of_frames() -> None:
    for envelope in ENVELOPES:
        frames = encode(envelope)
        assert survives(frames)
        if samples.name_of(envelope.body) != "Relay":
            assert not survives([*frames, b"", b""])
    assert not survives([])
    assert not survives([b""])


def test_foreign_protocols() -> None:
    assert not survives([b"GET / HTTP/1.1\r\n\r\n"])
    assert not survives([b"\x80\x04\x95"])
    assert not survives([b"\xff" * 1000])


def bomb(count: int, target_words: int, pointers_per_element: int) -> bytes:
    """A Tasks message with a list of ``count`` runs of which every pointer leads to the same large blob."""
    words = [0] * (1 + 4 + 4)
    words[0] = (3 << 32) | (1 << 48)
    words[4] = (1 << 32) | (3 << 48)
    element = 5 + pointers_per_element
    total = count * element
    words[6] = (2 << 2) | 1 | (7 << 32) | (total << 35)
    words.append((count << 2) | (5 << 32) | (pointers_per_element << 48))
    body = []
    blob = len(words) + total
    for index in range(count):
        body += [0, 1 | (1 << 32), 0, 0, 0]
        for pointer in range(pointers_per_element):
            here = len(words) + index * element + 5 + pointer
            body.append(((blob - here - 1) << 2) | 1 | (2 << 32) | ((target_words * 8) << 35))
    words += body + [0x6161616161616161] * (target_words - 1) + [0x0061616161616161]
    return struct.pack("<II", 0, len(words)) + struct.pack(f"<{len(words)}Q", *words)


def test_shared_targets_do_not_multiply() -> None:
    """1,000 runs whose names are all the same 128 KiB: 128 MiB of text if it were believed."""
    head = bomb(1000, 16 * 1024, 8)
    tracemalloc.start()
    try:
        assert not survives([head, b""])
        assert tracemalloc.get_traced_memory()[1] < 4 * 1024 * 1024
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("tag", range(31))
def test_lists_of_nothing_do_not_multiply(tag: int) -> None:
    """A list of half a billion structs of no size costs two words."""
    for fields in (1, 3, 8):
        words = [(3 << 32) | (1 << 48), 0, 0, tag, (0 << 2) | (fields << 48)]
        for index in range(fields):
            words.append(((fields - index - 1) << 2) | 1 | (7 << 32))
        words.append(0x1FFFFFFF << 2)
        head = struct.pack("<II", 0, len(words)) + struct.pack(f"<{len(words)}Q", *words)
        tracemalloc.start()
        try:
            survives([head])
            survives([head, b""])
            assert tracemalloc.get_traced_memory()[1] < 1024 * 1024
        finally:
            tracemalloc.stop()


def test_many_tasks_without_arguments_are_refused() -> None:
    """They cost no bytes on the wire, but the receiver would keep a state for each."""
    run = samples.plain_run(1)
    empty = type(run)(run.session, run.function, "f", b"", 0, 1, (), run.options, [[]])
    head, payload = encode(Envelope(Tasks([empty])))
    position = head.index(struct.pack("<II", 1, 1))
    for count, fine in ((2**20, True), (2**20 + 1, False), (2**32 - 1, False), (0, False)):
        assert survives([head[:position] + struct.pack("<I", count) + head[position + 4 :], payload]) == fine
