"""What a task prints, for the client that asked for it."""

from __future__ import annotations

import io
from typing import TextIO

from scaler_protocol.transport.stream import StreamConnection
from scaler_worker.processor import channel

PIECE_CHARACTERS = 16 * 1024


class OutputStream(io.TextIOBase):
    """Writes through to the processor's own stream and sends a copy to the agent."""

    def __init__(self, original: TextIO, stream: int, sequence: int, connection: StreamConnection) -> None:
        self._original = original
        self._prefix = [channel.OUTPUT, channel.pack_number(sequence), channel.pack_number(stream)]
        self._connection = connection

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._original.fileno()

    def write(self, text: str) -> int:
        for start in range(0, len(text), PIECE_CHARACTERS):
            piece = text[start : start + PIECE_CHARACTERS]
            self._connection.send([*self._prefix, piece.encode(errors="replace")])
        return self._original.write(text)

    def flush(self) -> None:
        self._original.flush()
