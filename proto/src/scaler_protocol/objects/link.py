"""One connection to a store, used by several threads: requests, their answers, and pins.

Answers may come in any order; one request a key is under way. Whoever waits and finds nobody reading reads for all.
A pin is released when its mapping is collected, which may happen in any thread at any moment: so releasing takes no
lock that is held and never waits; who holds the lock sends what has come up meanwhile.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from typing import Any

from scaler_protocol.codec import decode, encode
from scaler_protocol.messages import (
    Envelope,
    ObjectKey,
    Refused,
    StoreExtent,
    StoreGranted,
    StoreRegion,
    StoreRelease,
    StoreSegmentClosed,
    StoreStatus,
)
from scaler_protocol.objects.errors import StoreUnavailable
from scaler_protocol.objects.memory import Mapping
from scaler_protocol.objects.polling import wait_readable, wait_writable
from scaler_protocol.objects.segments import Segments
from scaler_protocol.transport.stream import StreamConnection

REGION_KEY = ObjectKey(b"region", 0)
STATUS_KEY = ObjectKey(b"status", 0)
"""Stand for the keys of answers that have none: there is one region and one status a connection."""


class LinkLost(StoreUnavailable):
    """The store has ended, or this connection to it."""


class Link:
    """``store`` is the id of the store at the other end."""

    def __init__(self, stream: StreamConnection, store: bytes) -> None:
        self.store = store
        self.segments = Segments()
        self.lost = False
        self._stream = stream
        self._condition = threading.Condition(threading.Lock())
        self._why_lost = "The object store of this host has ended."
        self._reading = False
        self._pending: dict[ObjectKey, list[Any]] = {}  # at most one answer each
        self._mapped: dict[int, weakref.ref[Mapping]] = {}
        self._released: deque[int] = deque()
        self._retired = False  # says nothing more
        self._left = False  # ends when nothing is mapped

    # ---- requests ------------------------------------------------------------------------------------------------

    def tell(self, body: Any) -> None:
        """Send what has no answer."""
        with self._condition:
            self._send(body)
        self._send_released()

    def ask(self, key: ObjectKey, body: Any, timeout: float | None = None) -> Any:
        """The answer to ``body``, which is about ``key``. Raises TimeoutError and LinkLost."""
        self.begin(key, body, timeout)
        return self.finish(key, timeout)

    def begin(self, key: ObjectKey, body: Any, timeout: float | None = None) -> None:
        """Ask, and go on; ``finish`` takes the answer."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._condition:
            while key in self._pending:  # another thread asks about the same key, and waits for its answer
                self._wait(deadline)
            self._pending[key] = []
            try:
                self._send(body)
            except BaseException:
                del self._pending[key]
                raise

    def finish(self, key: ObjectKey, timeout: float | None = None) -> Any:
        deadline = None if timeout is None else time.monotonic() + timeout
        try:
            while not self._pending[key]:
                if self._wait_or_lead(key, deadline):
                    self._lead(deadline)
            return self._pending[key][0]
        finally:
            with self._condition:
                del self._pending[key]
                self._condition.notify_all()
            self._send_released()

    def _send(self, body: Any) -> None:
        if self._retired:
            raise LinkLost("This connection to the object store is not used any more.")
        self._stream.send(encode(Envelope(body)))
        while not self._stream.flush() and not self._stream.eof:
            wait_writable(self._stream.fd, 1.0)
        self._check_alive()

    def _wait_or_lead(self, key: ObjectKey, deadline: float | None) -> bool:
        """True: nobody reads, so the caller must."""
        with self._condition:
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
        try:
            wait_readable(self._stream.fd, self._rest(deadline))
        finally:
            with self._condition:
                self._reading = False
                self._condition.notify_all()
                self._take_all()

    def _wait(self, deadline: float | None) -> None:
        self._condition.wait(self._rest(deadline))

    def _rest(self, deadline: float | None) -> float | None:
        """How many seconds are left. Raises TimeoutError and LinkLost."""
        self._check_alive()
        if deadline is None:
            return None
        rest = deadline - time.monotonic()
        if rest <= 0:
            raise TimeoutError("The object store did not answer in time.")
        return rest

    def _check_alive(self) -> None:
        if self._stream.eof or self.lost:
            self.lost = True
            raise LinkLost(self._why_lost)

    def _take_all(self) -> None:
        while (frames := self._stream.receive()) is not None:
            self._take(decode(frames).body)

    def _take(self, body: Any) -> None:
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
            self._released.append(body.pin)  # whoever asked has given up

    def _take_segment(self, body: StoreGranted | StoreExtent | StoreRegion) -> None:
        if body.segment and not self.segments.has(body.segment):
            self.segments.add(body.segment, self._stream.received_fds.popleft(), body.segment_size)

    # ---- pins ----------------------------------------------------------------------------------------------------

    def read(self, extent: StoreExtent) -> memoryview:
        """The pinned bytes; the pin goes with them."""
        if not extent.size:
            self._release(extent.pin)
            return memoryview(bytearray())
        try:
            view = self.segments.read(extent.segment, extent.offset, extent.size)
        except BaseException:
            self._release(extent.pin)
            raise
        if isinstance(view.obj, Mapping):
            pin = extent.pin
            self._mapped[pin] = weakref.ref(view.obj, lambda _: self._release(pin))
        else:
            self._release(extent.pin)
        return view

    def _release(self, pin: int) -> None:
        self._mapped.pop(pin, None)
        self._released.append(pin)
        if self._retired:
            self._close_if_unused()
        else:
            self._send_released()

    def _send_released(self) -> None:
        """What this call leaves in the queue, the one who holds the lock sends."""
        while self._released and self._condition.acquire(blocking=False):
            try:
                pins = []
                while self._released:
                    pins.append(self._released.popleft())
                if pins and not self._retired:
                    self._stream.send(encode(Envelope(StoreRelease(tuple(pins)))))
            finally:
                self._condition.release()

    # ---- the end -------------------------------------------------------------------------------------------------

    @property
    def is_usable(self) -> bool:
        return not (self.lost or self._retired)

    @property
    def has_mapped(self) -> bool:
        return bool(self._mapped)

    def spoil(self) -> None:
        """A request was interrupted: it cannot be known who waits for what. All who wait are sent away; pins stay."""
        self.lost = True
        with self._condition:
            self._reading = False
            self._condition.notify_all()

    def retire(self) -> None:
        """Say nothing more: the store keeps all pins, until the connection ends."""
        self._retired = True

    def leave(self) -> None:
        """End the connection when nothing is mapped through it, here and in every process that was forked while it was
        open."""
        self._retired = self._left = True
        self._close_if_unused()

    def after_fork_in_child(self) -> None:
        """This process only keeps the connection open, for what it has inherited."""
        self._condition = threading.Condition(threading.Lock())
        self.leave()

    def _close_if_unused(self) -> None:
        if self._left and not self._mapped:
            self._stream.close()
            self.segments.close()
