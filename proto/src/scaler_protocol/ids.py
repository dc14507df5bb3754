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


def shown_id(session: bytes) -> bytes:
    """The id of a session that monitors see. A peer that knows the real id can take over its connection, so it is for
    its own peers only; the first four bytes, which logs show, are the same."""
    return session and session[:4] + digest(session)[4:]


def split_ids(ids: bytes) -> list[bytes]:
    """Return the ids that follow one another in ``ids``. An incomplete one at the end does not count."""
    starts = range(0, len(ids) - ID_SIZE_BYTES + 1, ID_SIZE_BYTES)
    return [ids[start : start + ID_SIZE_BYTES] for start in starts]


def digest(data: bytes | memoryview) -> bytes:
    """Names ``data`` by its content (blake2b, 16 bytes)."""
    return hashlib.blake2b(data, digest_size=ID_SIZE_BYTES).digest()
