"""Names of sessions and contents."""

from __future__ import annotations

import hashlib
import os

ID_SIZE_BYTES = 16


def new_session() -> bytes:
    """16 random bytes, never all starting with zero: ZeroMQ keeps routing ids that start with a zero byte to itself."""
    while True:
        session = os.urandom(ID_SIZE_BYTES)
        if session[0]:
            return session


def digest(data: bytes) -> bytes:
    """Names ``data`` by its content (blake2b, 16 bytes)."""
    return hashlib.blake2b(data, digest_size=ID_SIZE_BYTES).digest()
