"""Messages as a release wrote them: every later version of the same major number must read them.

``python -m tests.unit.protocol.golden`` writes those that the current minor version lacks. It changes no existing file.
"""

from __future__ import annotations

import struct
from pathlib import Path

from scaler_protocol.codec import encode
from scaler_protocol.messages import PROTOCOL_MAJOR, PROTOCOL_MINOR
from tests.unit.protocol import samples

FOLDER = Path(__file__).parent / "golden"


def pack(frames: list[bytes]) -> bytes:
    """As on a stream socket."""
    body = struct.pack(f"<H{len(frames)}I", len(frames), *map(len, frames)) + b"".join(frames)
    return struct.pack("<I", len(body)) + body


def unpack(data: bytes) -> list[bytes]:
    size, count = struct.unpack_from("<IH", data)
    assert size == len(data) - 4
    frames = []
    position = 6 + 4 * count
    for length in struct.unpack_from(f"<{count}I", data, 6):
        frames.append(data[position : position + length])
        position += length
    return frames


def write() -> None:
    folder = FOLDER / f"{PROTOCOL_MAJOR}.{PROTOCOL_MINOR}"
    folder.mkdir(parents=True, exist_ok=True)
    for envelope in samples.all_envelopes():
        path = folder / f"{samples.name_of(envelope.body)}.bin"
        if not path.exists():
            path.write_bytes(pack(encode(envelope)))


if __name__ == "__main__":
    write()
