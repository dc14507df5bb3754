"""A host's store for programs that must not wait: agents, driven by the readiness of a descriptor.

Each verb sends a message; what it leads to comes out of ``on_readable``, in any order:

* ``find``: StoreFound or ObjectMissing
* ``fetch``: StoreFound, or StoreRefused (``failure`` UNREACHABLE: none of the sources answers)
* ``read``: Readable, ObjectMissing or StoreRefused
* ``create``: Writable, StoreFound (it is there already) or StoreRefused
* ``ask_status``: StoreStatus

So do LogLines: the log of the store, if its settings say that this connection receives it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Union

from scaler_protocol.codec import decode, encode
from scaler_protocol.messages import (
    Envelope,
    LogLines,
    ObjectKey,
    ObjectMissing,
    Refused,
    StoreAbandon,
    StoreCreate,
    StoreDrop,
    StoreExtent,
    StoreFetch,
    StoreFind,
    StoreForget,
    StoreFound,
    StoreGet,
    StoreGranted,
    StoreRefused,
    StoreRegion,
    StoreSeal,
    StoreSegmentClosed,
    StoreSettings,
    StoreStatus,
    StoreStatusRequest,
)
from scaler_protocol.objects.errors import NO_DESCRIPTOR_TEXT
from scaler_protocol.objects.segments import Segments
from scaler_protocol.objects.silence import ENDED_TEXT, Silence
from scaler_protocol.objects.starting import Reached, reach

_KEYS_PER_MESSAGE = 1000


@dataclass(frozen=True, slots=True)
class Readable:
    """The bytes of an object. They stay in memory while ``view``, or anything made of it, lives."""

    key: ObjectKey
    view: memoryview


@dataclass(frozen=True, slots=True)
class Writable:
    """There is room: ``write`` all of it, then ``seal``; or ``abandon``."""

    key: ObjectKey
    size: int


AgentAnswer = Union[StoreFound, ObjectMissing, StoreRefused, StoreStatus, LogLines, Readable, Writable]


class AgentConnection:
    """One connection to one store. When ``lost``, all that was asked is void: close it and open another."""

    def __init__(self, reached: Reached) -> None:
        self.store = reached.store
        self.why_lost = "The object store of this host has ended."
        """One sentence, when ``lost``."""
        self._stream = reached.stream
        self._silence = Silence(reached.stream.plain_socket)
        self._has_heard = True
        self._ended = False
        self._releases = reached.releases
        self._directory = reached.directory
        self._segments = Segments(maps_always=True)
        self._granted: dict[ObjectKey, StoreGranted] = {}

    @classmethod
    def open(cls, cluster: bytes, settings: StoreSettings, may_start: bool = True) -> AgentConnection:
        """Starts the store when there is none and ``may_start``, which takes about 0.1 s; up to 20 s when there is one
        that does not answer. Raises StoreUnavailable."""
        connection = cls(reach(cluster, may_start))
        connection._send(settings)
        return connection

    @property
    def fd(self) -> int:
        """Readable when ``on_readable`` has something to do (level-triggered)."""
        return self._stream.fd

    @property
    def lost(self) -> bool:
        """The store has ended. Existing mappings stay valid."""
        return self._ended or self._stream.eof

    @property
    def wants_write(self) -> bool:
        """Watch ``fd`` for writing too, and call ``flush``."""
        return self._stream.wants_write

    def flush(self) -> None:
        """Send what waits."""
        self._stream.flush()

    def close(self) -> None:
        """May be called twice. Existing mappings stay valid."""
        self._releases.leave()
        self._stream.close()
        self._segments.close()

    # ---- verbs ---------------------------------------------------------------------------------------------------

    def knows(self, key: ObjectKey) -> bool:
        """Return whether the object is here, as far as can be seen without a question; if not, ``find`` it."""
        return self._directory is not None and self._directory.find(key.owner, key.number) is not None

    def find(self, key: ObjectKey) -> None:
        """Is it here? Answered when it is written, if it is being written."""
        self._send(StoreFind(key))

    def read(self, key: ObjectKey) -> None:
        self._send(StoreGet(key))

    def create(self, key: ObjectKey, size: int) -> None:
        self._send(StoreCreate(key, size))

    def write(self, key: ObjectKey, offset: int, data: bytes) -> None:
        """A piece of an object that is Writable. Raises OSError when the host has no memory left, and KeyError."""
        granted = self._granted[key]
        if offset + len(data) > granted.size:
            raise ValueError("More bytes are written than the object has.")
        self._segments.write_piece(granted.segment, granted.offset + offset, data)

    def seal(self, key: ObjectKey) -> None:
        """All of it was written."""
        del self._granted[key]
        self._send(StoreSeal(key))

    def abandon(self, key: ObjectKey) -> None:
        """It will not be written. Harmless when it was not granted."""
        if self._granted.pop(key, None) is not None:
            self._send(StoreAbandon(key))

    def fetch(self, key: ObjectKey, size: int, sources: Sequence[str]) -> None:
        """Have the store get it from other stores, whose endpoints are ``sources``."""
        self._send(StoreFetch(key, size, tuple(sources)))

    def drop(self, keys: Sequence[ObjectKey]) -> None:
        for start in range(0, len(keys), _KEYS_PER_MESSAGE):
            self._send(StoreDrop(tuple(keys[start : start + _KEYS_PER_MESSAGE])))

    def forget(self, owner: bytes) -> None:
        """Drop all objects of this owner."""
        self._send(StoreForget(owner))

    def ask_status(self) -> None:
        self._send(StoreStatusRequest())

    def on_period(self) -> list[AgentAnswer]:
        """Ask for a sign of life; to be called every ``PERIOD_SECONDS`` of ``silence``. A store that has not given one
        for too long is ended, and ``lost``. Returns the answers, as ``on_readable``."""
        answers = self.on_readable()
        if self._has_heard:
            self._silence.end()
        elif self._silence.is_final():
            self._ended = True
            self.why_lost = ENDED_TEXT
        self._has_heard = False
        if not self.wants_write:
            self.ask_status()
        return answers

    def _send(self, body: Any) -> None:
        self._stream.send(encode(Envelope(body)))

    # ---- answers -------------------------------------------------------------------------------------------------

    def on_readable(self) -> list[AgentAnswer]:
        """The answers that have arrived. Check ``lost`` after it."""
        answers: list[AgentAnswer] = []
        while (frames := self._stream.receive()) is not None:
            self._has_heard = True
            body = decode(frames).body
            if isinstance(body, StoreSegmentClosed):
                self._segments.remove(body.segment)
            elif isinstance(body, Refused):
                self.why_lost = body.text
            else:
                answers.append(self._answer(body))
        if self._stream.lacks_descriptors:
            self.why_lost = NO_DESCRIPTOR_TEXT
        return answers

    def _answer(self, body: Any) -> AgentAnswer:
        if isinstance(body, (StoreGranted, StoreExtent, StoreRegion)):
            self._take_segment(body)
        if isinstance(body, StoreExtent):
            return Readable(body.key, self._segments.read(body, self._releases))
        if isinstance(body, StoreGranted):
            return self._grant(body)
        assert isinstance(body, (StoreFound, ObjectMissing, StoreRefused, StoreStatus, LogLines))
        return body

    def _grant(self, granted: StoreGranted) -> StoreFound | Writable:
        if granted.sealed:
            return StoreFound(granted.key, granted.size)
        self._granted[granted.key] = granted
        return Writable(granted.key, granted.size)

    def _take_segment(self, body: StoreGranted | StoreExtent | StoreRegion) -> None:
        if body.segment and not self._segments.has(body.segment):
            self._segments.add(body.segment, self._stream.received_fds.popleft(), body.segment_size)
