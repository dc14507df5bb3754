"""One connection to a store, used by several threads: requests and their answers.

Answers may come in any order; one request a key is under way. A waiting thread reads for all if no other thread reads.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

from scaler_protocol.codec import decode, encode
from scaler_protocol.messages import (
    Envelope,
    ObjectKey,
    Refused,
    StoreDrop,
    StoreExtent,
    StoreForget,
    StoreGet,
    StoreGranted,
    StoreRegion,
    StoreSegmentClosed,
    StoreStatus,
    StoreStatusRequest,
)
from scaler_protocol.objects import silence
from scaler_protocol.objects.dropped_objects import Dropped
from scaler_protocol.objects.errors import StoreUnavailable
from scaler_protocol.objects.layout import Part
from scaler_protocol.objects.memory import Copy
from scaler_protocol.objects.polling import wait_readable, wait_writable
from scaler_protocol.objects.segments import Segments
from scaler_protocol.objects.starting import Reached

REGION_KEY = ObjectKey(b"region", 0)
STATUS_KEY = ObjectKey(b"status", 0)
"""Stand for the keys of answers that have none: there is one region and one status a connection."""


_SPOIL_SECONDS = 1.0
"""To wait for a thread that sends: what waits for its next message must leave before the connection is given up."""


class LinkLost(StoreUnavailable):
    """The store has ended, or this connection to it."""


class StoreLink:
    """``store`` is the id of the store at the other end."""

    def __init__(self, reached: Reached) -> None:
        self.store = reached.store
        self.segments = Segments()
        self.lost = False
        self.takes_many = reached.takes_many
        """Whether the store knows StorePlaceMany."""
        self._stream = reached.stream
        self._silence = silence.Silence(reached.stream.plain_socket)
        self._releases = reached.releases
        self._directory = reached.directory
        self._dropped = Dropped()
        self._lock = threading.Lock()  # a Condition itself may be interrupted between taking its lock and saying so
        self._condition = threading.Condition(self._lock)
        self._why_lost = "The object store of this host has ended."
        self._reading = False
        self._pending: dict[ObjectKey, list[Any]] = {}  # at most one answer each
        self._retired = False

    # ---- requests ------------------------------------------------------------------------------------------------

    def tell(self, body: Any) -> None:
        """Send what has no answer."""
        with self._lock:
            self._send(body)

    def tell_soon(self, body: Any) -> None:
        """Send what has no answer with the next message, or with ``flush``. Raises LinkLost."""
        with self._lock:
            self._check_in_use()
            self._check_alive()
            self._stream.hold(encode(Envelope(body)))

    def flush(self) -> None:
        """Send what waits for the next message. Raises LinkLost."""
        with self._lock:
            self._write()

    def ask(self, key: ObjectKey, body: Any, timeout: float | None = None) -> Any:
        """The answer to ``body``, which is about ``key``. Raises TimeoutError and LinkLost."""
        self.begin(key, body, timeout)
        return self.finish(key, timeout)

    def begin(self, key: ObjectKey, body: Any, timeout: float | None = None) -> None:
        """Ask, and go on; ``finish`` takes the answer."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._lock:
            self._await_others(key, deadline)
            self._pending[key] = []
            try:
                self._send(body)
            except BaseException:
                del self._pending[key]
                raise

    def finish(self, key: ObjectKey, timeout: float | None = None) -> Any:
        deadline = None if timeout is None else time.monotonic() + timeout
        try:
            return self._await_answer(key, deadline)
        finally:
            with self._lock:
                del self._pending[key]
                self._condition.notify_all()

    def _await_others(self, key: ObjectKey, deadline: float | None) -> None:
        """Another thread may ask about the same key, and wait for its answer."""
        while key in self._pending:
            self._wait(deadline)

    def _await_answer(self, key: ObjectKey, deadline: float | None) -> Any:
        while not self._pending[key]:
            if self._wait_or_lead(key, deadline):
                self._lead(deadline)
        return self._pending[key][0]

    def _send(self, body: Any) -> None:
        self._check_in_use()
        self._stream.send(encode(Envelope(body)))
        self._write()

    def _write(self) -> None:
        while not self._stream.flush() and not self._stream.eof:
            if wait_writable(self._stream.fd, silence.PERIOD_SECONDS):
                self._silence.end()
            else:
                self._count_silence()
        self._check_alive()

    def _wait_or_lead(self, key: ObjectKey, deadline: float | None) -> bool:
        """True if no thread reads, so that the caller must."""
        with self._lock:
            if self._pending[key]:
                return False
            if self._reading:
                self._wait(deadline)
                return False
            self._check_alive()
            self._reading = True
            return True

    def _lead(self, deadline: float | None) -> None:
        """Take in what comes for all. No lock is held while nothing comes."""
        is_silent = False
        try:
            rest = self._rest(deadline)
            period = silence.PERIOD_SECONDS
            is_ready = wait_readable(self._stream.fd, period if rest is None else min(rest, period))
            is_silent = not is_ready and (rest is None or rest >= period)
        finally:
            with self._lock:
                self._reading = False
                self._condition.notify_all()
                self._take_all()
        if is_silent:
            self._ask_whether_it_lives()

    def _ask_whether_it_lives(self) -> None:
        """A wait for an object may be long, a wait for a sign of life may not."""
        with self._lock:
            self._count_silence()
            if not self._stream.wants_write:
                self._stream.send(encode(Envelope(StoreStatusRequest())))

    def _count_silence(self) -> None:
        if self._silence.is_final():
            self.lost = True
            self._why_lost = silence.ENDED_TEXT
            self._condition.notify_all()
        self._check_alive()

    def _wait(self, deadline: float | None) -> None:
        self._condition.wait(self._rest(deadline))

    def _rest(self, deadline: float | None) -> float | None:
        """Return how many seconds are left. Raises TimeoutError and LinkLost."""
        self._check_alive()
        if deadline is None:
            return None
        rest = deadline - time.monotonic()
        if rest <= 0:
            raise TimeoutError("The object store did not answer in time.")
        return rest

    def _check_in_use(self) -> None:
        if self._retired:
            raise LinkLost("This connection to the object store is no longer in use.")

    def _check_alive(self) -> None:
        if self._stream.eof or self.lost:
            self.lost = True
            raise LinkLost(self._why_lost)

    def _take_all(self) -> None:
        while (frames := self._stream.receive()) is not None:
            self._take(decode(frames).body)

    def _take(self, body: Any) -> None:
        self._silence.end()
        if isinstance(body, StoreSegmentClosed):
            self.segments.remove(body.segment)
            return
        if isinstance(body, Refused):
            self._why_lost = body.text
            return
        if isinstance(body, (StoreGranted, StoreExtent, StoreRegion)):
            self._take_segment(body)
        key = REGION_KEY if isinstance(body, StoreRegion) else STATUS_KEY if isinstance(body, StoreStatus) else body.key
        waiting = self._pending.get(key)
        if waiting is not None and not waiting:
            waiting.append(body)
        elif isinstance(body, StoreExtent):
            self._releases.release(body.pin)  # the caller has given up

    def _take_segment(self, body: StoreGranted | StoreExtent | StoreRegion) -> None:
        if body.segment and not self.segments.has(body.segment):
            self.segments.add(body.segment, self._stream.received_fds.popleft(), body.segment_size)

    def copy_published(self, key: ObjectKey) -> memoryview | None:
        """A small object, copied without a question to the store. None: ask for it."""
        if self._directory is None or self._dropped.may_have(key):
            return None
        entry = self._directory.find(key.owner, key.number)
        if entry is None:
            return None
        data = self.segments.copy(entry.segment, entry.offset, entry.size)
        return data if data is not None and self._directory.stands(entry) else None

    def drop(self, body: StoreDrop | StoreForget) -> None:
        """``copy_published`` finds none of these objects from now on."""
        self._dropped.add(body.keys if isinstance(body, StoreDrop) else (body.owner,))
        self.tell(body)

    def ask_for(self, key: ObjectKey, timeout: float | None) -> Any:
        """The answer to StoreGet. By then the store has handled the drops that were sent before, since messages of one
        connection have an order."""
        position = self._dropped.position
        answer = self.ask(key, StoreGet(key), timeout)
        self._dropped.on_handled(position)
        return answer

    def read(self, extent: StoreExtent) -> memoryview:
        """The pinned bytes; the pin goes with them. Raises LinkLost."""
        copy = self._begin_copy()
        try:
            return self.segments.read(extent, self._releases)
        except KeyError:
            raise LinkLost(self._why_lost) from None  # closed meanwhile by another thread
        finally:
            del copy

    def write(self, place: StoreGranted | StoreRegion, offset: int, parts: Sequence[Part]) -> None:
        """Write to the granted place, from ``offset`` of its segment on. Raises LinkLost, and OSError when the host has
        no memory left."""
        copy = self._begin_copy()
        try:
            self.segments.write(place.segment, offset, parts, place.fresh)
        except KeyError:
            raise LinkLost(self._why_lost) from None  # closed meanwhile by another thread
        finally:
            del copy

    def _begin_copy(self) -> Copy:
        """The store uses the memory for nothing else while the answer exists, even if another thread closes this.
        Raises LinkLost."""
        copy = self._releases.begin_copy()
        if copy is None:
            raise LinkLost(self._why_lost)
        return copy

    # ---- the end -------------------------------------------------------------------------------------------------

    @property
    def is_usable(self) -> bool:
        return not (self.lost or self._retired)

    def spoil(self) -> None:
        """A request was interrupted: it cannot be known who waits for what. All who wait are sent away."""
        self.lost = True
        if self._lock.acquire(timeout=_SPOIL_SECONDS):
            self._stream.flush()
            self._reading = False
            self._condition.notify_all()
            self._lock.release()

    def after_fork(self) -> None:
        """The child has inherited what is mapped: the store must hear of no release, only that both have ended all."""
        if self._releases.mapped:
            self._retired = True
            self._releases.silence()
            if self._lock.acquire(timeout=_SPOIL_SECONDS):
                self._stream.flush()
                self._lock.release()

    def close(self, is_inherited: bool = False) -> None:
        """Close the connection; mapped memory stays. Waiting threads are woken, unless the connection ``is_inherited``:
        then only the copy of this process ends."""
        self._retired = True
        if not is_inherited:
            self._stream.shut_down()
        self._releases.leave()
        self._stream.close()
        self.segments.close()
