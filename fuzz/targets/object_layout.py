"""The bytes of large objects: a pickle and its buffers, cut or forged, gives its parts or ValueError.

A planned and written object is read as the same object; no buffer lies outside of the object.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fuzz.choices import Choices
from scaler_protocol.objects.layout import MAGIC, load, plan


def one_input(data: bytes) -> None:
    """The first byte says how the rest is used: as an object, or as buffers to write."""
    if data[:1] and data[0] & 1:
        write(Choices(data[1:]))
    else:
        read(data[1:])


def read(data: bytes) -> None:
    try:
        pickled, buffers = load(data, parts)
    except ValueError:
        return
    assert len(pickled) + sum(map(len, buffers)) <= len(data) or data[: len(MAGIC)] == MAGIC
    assert all(buffer in data for buffer in buffers) and pickled in data


def parts(pickled: memoryview | bytes, buffers: Sequence[memoryview] = ()) -> tuple[bytes, list[bytes]]:
    return bytes(pickled), [bytes(buffer) for buffer in buffers]


def write(choices: Choices) -> None:
    pickled = choices.take(choices.below(64))
    buffers = [choices.take(choices.below(100)) for _ in range(choices.below(5))]
    planned = plan(pickled, [memoryview(buffer) for buffer in buffers])
    view = bytearray(planned.size + choices.below(100))
    planned.write_into(memoryview(view))
    for data in (planned.to_bytes(), view):
        if buffers or pickled[: len(MAGIC)] != MAGIC:
            assert buffers == [] or load(memoryview(data), parts) == (pickled, buffers)


def seeds() -> Iterator[bytes]:
    for buffers in ([], [b""], [b"abc", b"x" * 100]):
        yield b"\0" + plan(b"pickle", [memoryview(each) for each in buffers]).to_bytes()
    yield b"\1" + bytes(range(200))
