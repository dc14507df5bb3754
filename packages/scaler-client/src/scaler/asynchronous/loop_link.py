"""The connection between a client and the event loop in which it was opened.

Outcomes reach the loop in batches: a sink puts its outcome into a queue, in whichever thread received it, and the first
outcome of a batch wakes the loop. Usually the loop receives them itself, because it watches the client's connection.
The background thread of the client stands back meanwhile; it reads when the loop is busy with something else.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from scaler.shell.waiting import Waits

if TYPE_CHECKING:
    from scaler.core.session import Session
    from scaler.shell.client_io import ClientIO

T = TypeVar("T")
_BATCH = 512
"""After so many outcomes, other callbacks of the loop have their turn."""

_LEADER_SECONDS = 0.005
"""Period in which the loop checks whether the thread that reads in its place has left."""

_THREADS = 4
_ELSEWHERE = (
    "Cannot use this AsyncClient here: it belongs to the event loop in which it was opened. "
    "Open another AsyncClient in this loop."
)


class LoopEnding(Protocol):
    """Something that has ended, and whose end must be taken in the event loop."""

    def take(self) -> None: ...


class Withdrawable(Protocol):
    """A future whose task can be cancelled within a turn."""

    def withdraw(self) -> None: ...


class LoopLink:
    """``thread`` is that of the loop. ``ended``: what the loop has not taken. ``is_woken``: the loop will take it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, client_io: ClientIO, threads: ThreadPoolExecutor) -> None:
        self.loop = loop
        self.client_io = client_io
        self.thread = threading.get_ident()
        self.ended: deque[LoopEnding] = deque()
        self.is_woken = False
        self.is_nested = client_io.session.is_nested
        self._threads = threads
        self._fd = client_io.reading_fd
        self._cancelled: list[Withdrawable] = []
        self._calls: set[Future[object]] = set()  # that threads are about to send
        self._is_open = True

    def check(self) -> None:
        """Raises RuntimeError outside the loop, and ClientQuitException if the client has ended."""
        if self.client_io.unusable:
            self.client_io.check_usable()
        if threading.get_ident() != self.thread or not self.loop.is_running():  # asyncio's own question is slower
            raise RuntimeError(_ELSEWHERE)

    # ---- outcomes ------------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Let the loop take what has ended. Any thread may call this."""
        self.is_woken = True
        self.post(self.take)

    def post(self, action: Callable[[], object]) -> None:
        """Call ``action`` in the loop. Any thread may call this."""
        try:
            self.loop.call_soon_threadsafe(action)
        except RuntimeError:  # the loop is closed: nothing waits any more
            pass

    def take(self) -> None:
        """Pass on a batch of outcomes, in the loop."""
        self.is_woken = False  # before the first is taken: one that comes later wakes the loop again
        ended = self.ended
        try:
            for _ in range(min(len(ended), _BATCH)):
                first = ended.popleft()
                try:
                    first.take()
                except (KeyboardInterrupt, SystemExit):
                    ended.appendleft(first)  # an interruption loses no outcome
                    raise
        finally:
            if ended and not self.is_woken:
                self.is_woken = True
                self.loop.call_soon(self.take)

    # ---- reading ---------------------------------------------------------------------------------------------------

    def begin_reading(self) -> None:
        self.client_io.loop_reads = True
        try:
            self.loop.add_reader(self._fd, self._read)
        except NotImplementedError:  # a loop that cannot watch descriptors: the background thread reads
            self.client_io.loop_reads = False

    def end_reading(self) -> None:
        if self._is_open:
            self._is_open = False
            if self.client_io.loop_reads:
                self.client_io.loop_reads = False
                self.loop.remove_reader(self._fd)

    def _read(self) -> None:
        if self.client_io.leading:
            self.loop.remove_reader(self._fd)
            self.loop.call_later(_LEADER_SECONDS, self._resume_reading)
            return
        self.is_woken = True
        try:
            self.client_io.read_in_loop()
        finally:
            self.take()

    def _resume_reading(self) -> None:
        if not self._is_open:
            return
        if self.client_io.leading:
            self.loop.call_later(_LEADER_SECONDS, self._resume_reading)
        else:
            self.loop.add_reader(self._fd, self._read)

    # ---- cancels ---------------------------------------------------------------------------------------------------

    def cancel(self, future: Withdrawable) -> None:
        """Cancel the task of ``future``, together with all others that are cancelled in this pass of the loop."""
        if not self._cancelled:
            self.loop.call_soon(self._withdraw)
        self._cancelled.append(future)

    def _withdraw(self) -> None:
        cancelled, self._cancelled = self._cancelled, []

        def withdraw(session: Session) -> None:
            for future in cancelled:
                future.withdraw()

        if not self.client_io.unusable:
            self.client_io.take_turn(withdraw, must_be_usable=False)

    # ---- clients inside tasks: a task that waits lends its slot ------------------------------------------------------

    def note_wait(self, future: asyncio.Future[Any], kind: Waits = Waits.FOR_TASKS) -> None:
        """The loop may wait for ``future`` now. In a task, its worker runs deeper tasks meanwhile."""
        if not self.is_nested or future.done():
            return
        self.client_io.enter_blocked(kind)
        future.add_done_callback(self._leave if kind is Waits.FOR_TASKS else partial(self._leave, kind=kind))

    def end_wait(self, future: asyncio.Future[Any]) -> None:
        """The task of ``future`` has ended, which blocks the loop's own task no more."""
        if self.is_nested and future.remove_done_callback(self._leave):
            self.client_io.leave_blocked()

    def _leave(self, _: object, kind: Waits = Waits.FOR_TASKS) -> None:
        self.client_io.leave_blocked(kind)

    # ---- threads ---------------------------------------------------------------------------------------------------

    def start(self, work: Callable[[], object]) -> Future[object] | None:
        """Do ``work``, which raises nothing, in one of a few threads. None: it has been done."""
        try:
            return self._threads.submit(contextvars.copy_context().run, work)
        except RuntimeError:  # the client has been closed: the work ends at once
            work()
            return None

    def start_call(self, send: Callable[[], object]) -> None:
        """Send a call with ``send``, which raises nothing, in one of a few threads."""
        call = self.start(send)
        if call is not None:
            self._calls.add(call)
            call.add_done_callback(self._calls.discard)

    def after_calls(self, action: Callable[[], object]) -> None:
        """Do ``action`` when the calls that threads are about to send have been sent, in any thread. It may be done
        twice."""
        left = set(self._calls)
        if not left:
            action()

        def note(call: Future[object]) -> None:
            left.discard(call)
            if not left:
                action()

        for call in list(left):
            call.add_done_callback(note)

    def in_thread(self, work: Callable[..., T], *args: Any) -> asyncio.Future[T]:
        """Do ``work`` in one of a few threads. It must not wait for long."""
        call: Callable[[], T] = partial(contextvars.copy_context().run, work, *args)
        return self.loop.run_in_executor(self._threads, call)

    def close_threads(self) -> None:
        self._threads.shutdown(wait=False)


def new_threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="scaler-async")
