"""The client's background thread: it reads the connection while no caller does.

It *ticks* while callers are active, *dozes* (with longer ticks) while they wait for each task that they submit, is
*parked* while a thread leads for long, and *reads* when a tick has passed without a caller. If a result has a callback,
and few calls were made, it reads at once: the next calls may depend on that result. It also runs the actions that
finalizers have deferred, and ends a client that was collected or has rested for long enough.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Protocol

from scaler.core.session import Session
from scaler.shell.polling import Poller, Waker
from scaler.utility.exceptions import ClientQuitException
from scaler_protocol.command.threads import lack_of_thread

_futures_logger = logging.getLogger("concurrent.futures")
_TICK_MILLISECONDS = 1
_DOZE_MILLISECONDS = 20
"""The longest tick while all callers submit a task, wait for it and submit the next. An acknowledgement may wait this
long."""

_LOOP_MILLISECONDS = 2
"""An event loop that watches the connection has this long to receive before the background thread does."""


_FEW_CALLS = 16
"""If more calls come between two looks, callers are at work, and reading would take their time."""


class ReadClient(Protocol):
    """The client whose connection is read. ``leads``: the number of times that callers have begun to read."""

    session: Session
    unusable: str
    leading: dict[int, int]
    leads: int
    loop_reads: bool

    @property
    def is_over(self) -> bool: ...

    @property
    def wants_write(self) -> bool: ...

    def read_now(self, poller: Poller) -> None: ...

    def settle_notices(self) -> None: ...

    def end_rest(self) -> None: ...

    def close(self) -> None: ...


class BackgroundReader:
    """The thread and its state. ``reads`` and ``dozes`` tell callers that they must ``wake`` it. Callers set
    ``is_awaited`` when they leave a callback to be called, or make a condition to be notified."""

    def __init__(self, client: ReadClient, poller: Poller, waker: Waker) -> None:
        self.reads = False
        self.dozes = False
        self.is_parked = False
        self.is_awaited = False
        self._submissions = client.session.submissions
        self._poller = poller
        self._waker = waker
        self._deferred: deque[Callable[[], object]] = deque()
        # Only the running thread refers to the client: a cycle would keep the descriptors of an ended client open.
        self._thread = threading.Thread(target=self._run, args=(client,), name="scaler-client", daemon=True)

    def start(self) -> None:
        """Raises RuntimeError if no thread can be started."""
        try:
            self._thread.start()
        except RuntimeError as error:
            raise RuntimeError(f"Cannot create a client: {lack_of_thread(error)}") from error

    def wake(self) -> None:
        """Make the thread stand back, because it polls although callers are active again; or end its doze, because
        something arrives that no thread waits for."""
        self._waker.wake()

    def defer(self, action: Callable[[], object]) -> None:
        """Run ``action`` in the thread, soon."""
        self._deferred.append(action)
        self._waker.wake()

    @property
    def has_deferred(self) -> bool:
        return bool(self._deferred)

    def join(self, timeout_seconds: float) -> None:
        """Wait until the thread has ended, unless this is the thread."""
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout_seconds)

    def _run(self, client: ReadClient) -> None:
        submissions = self._submissions
        seen = -1
        while not client.unusable:
            calls = client.leads + submissions.submitted
            if calls != seen and self.is_awaited and (seen < 0 or calls - seen <= _FEW_CALLS):
                seen = calls
                self._expect()
            elif calls != seen:
                seen = self._stand_by(client)
            elif client.leading:
                self._park(client)
            else:
                self._read(client)
            self._run_deferred(client)
            if client.is_over:
                client.close()
            client.end_rest()
        self._run_deferred(client)

    def _expect(self) -> None:
        """A callback waits for a result: read next, and let the open batch leave."""
        self.is_awaited = False
        self._submissions.ask_flush()

    def _run_deferred(self, client: ReadClient) -> None:
        """An action may receive the result that a leader waits for: the leader is woken after each."""
        while self._deferred:
            try:
                self._deferred.popleft()()
            except ClientQuitException:
                pass  # the client has ended: nothing is left to do
            except Exception:
                _futures_logger.exception("exception in a deferred action of a finalizer")
            client.settle_notices()

    def _stand_by(self, client: ReadClient) -> int:
        """Wait until a tick has passed without a call. Returns the number of calls so far.

        Callers that submit a task and wait for it, again and again, read everything themselves. Then the ticks grow
        longer: this thread dozes. A caller that leaves work for it wakes it, and the ticks are short again."""
        submissions, poll_waker = self._submissions, self._poller.poll_waker
        tick = _TICK_MILLISECONDS
        mark, seen, ahead = client.leads + submissions.submitted, -1, submissions.submitted - client.leads
        while mark != seen:
            if poll_waker(tick):
                self._waker.clear()
                mark = -1 if self.dozes else mark
                break
            was_ahead, ahead = ahead, submissions.submitted - client.leads
            tick = min(2 * tick, _DOZE_MILLISECONDS) if ahead == was_ahead else _TICK_MILLISECONDS
            self.dozes = tick > _TICK_MILLISECONDS
            mark, seen = client.leads + submissions.submitted, mark
        self.dozes = False
        return mark

    def _park(self, client: ReadClient) -> None:
        """A thread leads for long: wait until it leaves and wakes this thread."""
        self.is_parked = True
        still_led = bool(client.leading)  # asked after the flag is up: a leader that leaves now sees it
        if self._poller.poll_waker(None if still_led else _TICK_MILLISECONDS):
            self._waker.clear()
        self.is_parked = False

    def _read(self, client: ReadClient) -> None:
        """No other thread reads: receive, then poll until something happens or a caller comes."""
        self.reads = True
        client.read_now(self._poller)
        if not client.unusable and not client.is_over:
            self._poller.poll(client.session.next_deadline(), client.wants_write)
            if client.loop_reads and self._poller.poll_waker(_LOOP_MILLISECONDS):
                self._waker.clear()
        self.reads = False
        if not client.leading:
            client.read_now(self._poller)
