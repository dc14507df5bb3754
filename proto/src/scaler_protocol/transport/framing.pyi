"""Messages as bytes of a stream, little-endian: u32 size of what follows, u16 number of frames, u32 length of each
frame, then the frames' bytes."""

from collections.abc import Sequence

SIZE_LIMIT_BYTES: int
"""A larger message is invalid: the connection ends."""

def pack(frames: Sequence[bytes]) -> bytes:
    """Raises ValueError for more than 64 frames, none, or too many bytes."""

class Incoming:
    """The bytes read from a stream, until they are taken message by message. ``stream.pyx`` reads into its room."""

    @property
    def broken(self) -> bool:
        """The received bytes are not a message: nothing more is taken."""

    limit_bytes: int
    """A larger message is not read."""

    def take(self) -> list[bytes] | None:
        """One message; None: none is complete. Liveness probes (one empty frame) are swallowed."""
