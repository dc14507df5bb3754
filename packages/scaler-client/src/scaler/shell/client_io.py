"""The client's input and output: moves messages between the session and its connection, in the callers' threads.

A thread that waits for a result *leads*: it polls the connection without holding the lock and feeds the session itself,
so that no result has to be passed between threads. Further threads follow: they sleep on the condition of their target,
and one of them is promoted when the leader leaves. The thread of ``background_reader`` reads when no caller does.

The descriptor of a ZeroMQ socket is edge-triggered: a thread that has sent something must also receive until nothing is
left, and wake the leader if the leader may wait for what was received.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from scaler.core.effects import ReplaceConnection
from scaler.core.outcome import Outcome
from scaler.core.session import SCHEDULER
from scaler.shell.background_reader import BackgroundReader
from scaler.shell.connection import parent_task
from scaler.shell.interruptions import shielded
from scaler.shell.notices import Notices
from scaler.shell.polling import Poller, Waker
from scaler.shell.retrieval import DIRECT_BYTES, Retrieval
from scaler.shell.slot_lending import SlotLending
from scaler.shell.waiting import PendingAnswer, Waits
from scaler.utility.exceptions import ClientQuitException
from scaler.utility.private_apis import ownership_of
from scaler_protocol.codec import MalformedMessage, decode, encode
from scaler_protocol.effects import Send
from scaler_protocol.messages import ObjectKey, ObjectRequest, Status

if TYPE_CHECKING:
    from scaler.core.large_results import LargeResult
    from scaler.core.session import Session
    from scaler.shell.client_store import ClientStore
    from scaler.shell.connection import ClientConnection
    from scaler.shell.waiting import Target
    from scaler_protocol.messages import TaskName

Result = TypeVar("Result")
_futures_logger = logging.getLogger("concurrent.futures")
_REST_SECONDS = 10.0
"""Seconds for which the session of a client inside a task that has ended is kept for the next client."""

_MEMORY_RETRY_SECONDS = 1.0
_SETTLING_SECONDS = 1.0
_SETTLING_TICK_SECONDS = 0.01
_GLANCE_SECONDS = 0.0002
_FORKED = "Cannot use this client here: it was created before its process was forked. Create a new Client in the child."
STOPPED = "client is already stopped."
_NOT_HERE = "Cannot wait for a result here: the garbage collector has interrupted the client. Do not wait in __del__."


class ClientIO:
    """``lock`` guards session and connection. ``loads`` loads small results, ``loads_object`` large ones. ``unusable``
    says why no call is possible any more; it is empty while calls are possible. ``leads`` counts the times that callers
    have begun to read. ``loop_reads``: an event loop watches ``reading_fd`` and calls ``read_in_loop``."""

    def __init__(
        self,
        session: Session,
        connection: ClientConnection,
        objects: ClientStore,
        loads: Callable[[bytes], Any],
        loads_object: Callable[[Any], Any],
    ) -> None:
        self.session = session
        self._submissions = session.submissions
        self.objects = objects
        self.loads = loads
        self.loads_object = loads_object
        self.lock = threading.RLock()  # not to be taken twice: so that code run by the garbage collector can tell
        self.unusable = ""
        self.is_forked = False
        self.loop_reads = False
        self._connection = connection
        self._nested = connection.nested
        # The thread that leads, under the key 0. It enters and leaves in one step each, so that a thread that Ctrl-C
        # interrupts right after entering leaves as well.
        self.leading: dict[int, int] = {}
        # Whether this thread holds the lock. If a caller finds this true, the garbage collector or the end of an object
        # has called the client in the middle of the session's work.
        self.is_mine = ownership_of(self.lock)
        self.notices = Notices(objects, _weakly(self._send_by_scheduler))
        self._interrupted = False
        self.leads = 0
        self._followers: dict[int, Target] = {}
        self._leader_waker = Waker()
        self._leader_poller = Poller(connection, self._leader_waker)
        waker = Waker()
        self._background_poller = Poller(connection, waker)
        self.background = BackgroundReader(self, self._background_poller, waker)
        self._abandoned = False
        self._lending = SlotLending()
        self._rests_since: float | None = None
        self._forget: Callable[[], object] | None = None
        self._glanced_at = 0.0
        _instances.add(self)
        if connection.nested:  # connected already: nothing that can be polled will say so
            self.read_now(self._background_poller)
        self.background.start()

    # ---- for callers -------------------------------------------------------------------------------------------

    def check_usable(self) -> None:
        if self.unusable:
            raise ClientQuitException(self.unusable)

    def turn(self, polled_at: float | None = None) -> None:
        """Send what waits and receive what is there, with the lock held. Pass ``polled_at`` if the caller has just
        polled: then receive before sending. After releasing the lock, call ``settle_notices`` if there are ``notices``
        or a thread is ``leading``; after a call was submitted, ``settle_after_call``."""
        session, receive = self.session, self._connection.receive
        has_received = polled_at is not None
        now = time.monotonic() if polled_at is None else polled_at
        if session.is_nested and not has_received:  # also where there is no agent, in Symphony
            session.live_in(parent_task())  # a client may be used by one task after the other
        if self._interrupted:
            self.mend()
        try:
            frames = receive() if has_received else None
            while True:
                while frames is not None:
                    try:
                        session.on_message(SCHEDULER, decode(frames), now)
                    except MalformedMessage:
                        pass
                    frames = receive()
                effects = session.take_effects(now)
                for effect in effects:
                    if type(effect) is Send:
                        self._connection.send(encode(effect.envelope))
                    elif type(effect) is ReplaceConnection:
                        self._reconnect(now)
                    else:
                        self.notices.append(effect)
                if has_received and not effects:
                    return
                has_received = True
                frames = receive()
                if frames is None:
                    return
        except BaseException as error:
            self.note_interruption(error)
            raise

    def settle_notices(self) -> None:
        """Carry out what must not run under the lock. Wakes the leader, which may wait for what was received here."""
        try:
            if self.notices:
                self.notices.settle()
        finally:
            if self.leading:
                self._leader_waker.wake()

    def take_turn(self, change: Callable[[Session], Result], *, must_be_usable: bool = True) -> Result:
        """Let ``change`` act on the session with the lock held, then send and receive, and run callbacks. This is how
        callers use the session. ``must_be_usable``: raise ClientQuitException if the client has ended; otherwise
        ``change`` acts on the ended session.

        This takes a function, and is not a context manager: Ctrl-C may interrupt a context manager that is written in
        Python before its first instruction, and the lock would stay locked."""
        if must_be_usable:
            self.check_usable()
        with self.lock:
            if must_be_usable:
                self.check_usable()  # again: nothing may be added after a disconnect
            try:
                result = change(self.session)
            except BaseException as error:
                self.note_interruption(error)
                raise
            if not self.unusable:
                self.turn()
        self.settle_notices()
        return result

    def take_turn_shielded(self, change: Callable[[Session], object]) -> None:
        """Like ``take_turn``, but no signal handler interrupts it, and it does nothing if the client has ended.
        ``change`` must be idempotent. Use this to cancel the tasks of a call that ends early."""

        def act() -> None:
            with self.lock:
                if not self.unusable:
                    self.mend()
                    change(self.session)
                    self.turn()

        if self.unusable or self.defers(act):
            return
        shielded(act)
        self.settle_notices()

    def defers(self, action: Callable[[], object]) -> bool:
        """True if this thread holds the lock, because the garbage collector has interrupted the session's work to run
        a ``__del__`` or to close an iterator: then ``action`` runs later, in the background thread."""
        if not self.is_mine():
            return False
        self.background.defer(action)
        return True

    def glance(self) -> None:
        """Make progress for a thread that calls ``done`` again and again; cheap, and at a limited rate."""
        now = time.monotonic()
        if now < self._glanced_at + _GLANCE_SECONDS or self.unusable or self.is_mine():
            return
        self._act_if_free(self._glance)

    def _glance(self, now: float) -> None:
        self._glanced_at = now
        self.turn(now)

    def _act_if_free(self, act: Callable[[float], None]) -> None:
        """Run ``act`` with the lock held and the time, then run callbacks. Does nothing if another thread holds the
        lock."""
        try:
            is_held = self.lock.acquire(blocking=False)
        except BaseException:  # Ctrl-C, just after the lock was taken
            if self.is_mine():
                self.lock.release()
            raise
        if not is_held:
            return
        try:
            act(time.monotonic())
        finally:
            self.lock.release()
        self.settle_notices()

    @property
    def reading_fd(self) -> int:
        return self._connection.fd

    @property
    def wants_write(self) -> bool:
        return self._connection.wants_write

    def read_in_loop(self) -> None:
        """Receive, and meet a deadline that has passed, for an event loop that has found the connection readable. Does
        nothing if another thread is at work; that thread receives everything."""
        self.leads += 1
        if not self.unusable and not self.is_mine():
            self._act_if_free(self._read_in_loop)

    def _read_in_loop(self, now: float) -> None:
        self._meet_deadline(self.session.next_deadline(), now)
        self.turn(now)

    def note_interruption(self, error: BaseException) -> None:
        """A signal handler (Ctrl-C) raised ``error`` in the middle of the session's work, or there was no memory for
        it: repair the session, now or at the next turn, which comes soon."""
        if not isinstance(error, Exception) or type(error) is MemoryError:
            self._interrupted = True
            self.mend()
            self.background.wake()
            self._leader_waker.wake()

    def mend(self) -> None:
        """Repair the session after an interruption, with the lock held."""
        if self._interrupted:
            self.session.on_interrupted(time.monotonic())
            self._interrupted = False

    def wait(self, target: Target, timeout_seconds: float | None = None, kind: Waits = Waits.FOR_TASKS) -> None:
        """Wait until ``target`` is settled. Raises TimeoutError."""
        if self.unusable:
            return self._refuse_wait(target)
        if self.is_mine():
            raise RuntimeError(_NOT_HERE)
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        me = threading.get_ident()
        in_callback = self.leading.get(0) == me  # which the leader calls
        self.leads += 1
        if self.notices or self.background.reads or self._submissions.open_runs or self._nested:
            self._enter_wait(kind)
        try:
            if self.leading.setdefault(0, me) == me or self._follow_until_it_leads(me, target, deadline):
                self._lead(target, deadline)
        finally:
            if not in_callback and 0 in self.leading and self.leading[0] == me:  # no call: nothing interrupts
                del self.leading[0]
                if self._followers:
                    self._promote()
            if self.background.is_parked or self._nested or (self.background.dozes and self.session.ranges):
                self._leave_wait(kind)
        return None

    def _follow_until_it_leads(self, me: int, target: Target, deadline: float | None) -> bool:
        """Follow other threads. Returns False if ``target`` is settled, and True if this thread leads now."""
        while self.leading.setdefault(0, me) != me:
            if self._follow(target, deadline):
                return False
        return True

    def fetch(self, large: LargeResult) -> PendingAnswer:
        """Get a large result."""
        return self.fetch_all([large])[0]

    def fetch_all(self, larges: Sequence[LargeResult]) -> list[PendingAnswer]:
        """Get large results, in one turn of the session."""
        views = [self.objects.get(large.key, large.store) for large in larges]
        return self.take_turn(lambda session: list(map(self.begin_fetch, larges, views)))

    def take_here(self, larges: Sequence[LargeResult]) -> list[memoryview | None]:
        """Take those large results that are known to be in the store of this host, in one turn of the session."""
        views = [self.objects.get(large.key, large.store) if large.store else None for large in larges]

        def note(session: Session) -> None:
            for large, view in zip(larges, views, strict=True):
                if view is not None:
                    session.large.has_taken(large)

        if any(view is not None for view in views):
            self.take_turn(note)
        return views

    def begin_fetch(self, large: LargeResult, view: memoryview | None) -> PendingAnswer:
        """Begin to get a large result, with the lock held. ``view``: its bytes, if they are here already."""
        if view is not None:
            answer = PendingAnswer(self)
            answer.outcome = Outcome(Status.SUCCESS, view)
            self.session.large.has_taken(large)
        elif large.store and large.size >= DIRECT_BYTES and self.objects.can_fetch:
            answer = Retrieval(self, large)
            self.session.large.fetch(large, answer, direct=True)
        else:
            answer = PendingAnswer(self)
            self.session.large.fetch(large, answer)
        return answer

    def make_condition(self, target: Target) -> tuple[threading.Condition, bool]:
        """The condition of ``target``, and whether it was made now. It is made under the lock, so that a thread that
        settles ``target`` under the lock either sees the condition or has settled ``target`` before."""
        if self.is_forked:
            return self._condition_in_child(target), False
        self.background.is_awaited = True
        if self.background.dozes:
            self.background.wake()
        with self.lock:
            condition = target._lazy_condition
            if condition is not None:
                return condition, False
            target.prepare_condition()
            condition = target._lazy_condition = threading.Condition()
            return condition, True

    def _condition_in_child(self, target: Target) -> threading.Condition:
        """Return a condition for a forked child, which has no thread of the parent that could settle the target or
        release the lock."""
        if not target.is_settled():
            self.check_usable()
        if target._lazy_condition is None:
            target.prepare_condition()
            target._lazy_condition = threading.Condition()
        return target._lazy_condition

    def abandon(self) -> None:
        """The client was collected without a disconnect: leave when its last task has ended. The garbage collector
        calls this."""
        self._abandoned = True
        self.background.wake()

    def close(self) -> None:
        """Cancel all tasks, leave the scheduler and end. May be called twice and from several threads."""
        if self.unusable:
            return
        if self.is_mine():
            self.abandon()
            return
        with self.lock:
            if self.unusable:
                return
            self._quit()
        self.settle_notices()
        self.background.wake()
        self._leader_waker.wake()
        self.background.join(1.0)
        for target in list(self._followers.values()):
            with target._condition:
                target._condition.notify_all()
        self.objects.close()
        _instances.discard(self)

    def rest(self, forget: Callable[[], object]) -> bool:
        """Offer this for reuse by the next client inside a task. Returns False if work is left. ``forget`` is called
        when it ends because no client has used it for a while."""
        if not self._nested or self.unusable or self.is_mine():
            return False
        with self.lock:
            if self.unusable or self._interrupted:
                return False
            now = time.monotonic()
            if not self.session.is_blank:
                self.turn(now)  # released objects are reported now
            held = (
                self.leading or self._followers or self._lending.is_lent or self.notices or self.background.has_deferred
            )
            if held or not self.session.is_blank:
                return False
            self._rests_since, self._forget = now, forget
            return True

    def resume(self, parent: TaskName) -> bool:
        """Continue for the client of another task. Returns False if this has ended meanwhile."""
        if self.unusable:
            return False
        with self.lock:
            if self.unusable or self._abandoned or self.session.refusal:
                return False
            self._rests_since = self._forget = None
            self.session.live_in(parent)
            return True

    def mark_forked(self) -> None:
        self.unusable, self.is_forked = _FORKED, True

    # ---- nested clients: a task that waits lends its slot --------------------------------------------------------

    def enter_blocked(self, kind: Waits = Waits.FOR_TASKS) -> None:
        self._note_wait(kind, 1)

    def leave_blocked(self, kind: Waits = Waits.FOR_TASKS) -> None:
        self._note_wait(kind, -1)

    def settle_after_call(self) -> None:
        """Like ``settle_notices``, after a call was submitted. Notices that are new to a callback follow when it has
        returned: their callbacks may submit calls, too, and would nest until the stack is exhausted."""
        if not self.notices.are_settled_here:
            self.settle_notices()
        elif self.leading:
            self._leader_waker.wake()

    def _note_wait(self, kind: Waits, change: int) -> None:
        if not self._nested or not kind:
            return
        with self.lock:
            word = self._lending.note(kind, change)
            if word is not None and not self.unusable:
                self._lending.told(word)
                self._connection.tell_wait(word)

    # ---- leader and followers ------------------------------------------------------------------------------------

    def _enter_wait(self, kind: Waits) -> None:
        if self.notices:  # in a callback, or after an interrupted thread
            self.notices.settle()
        if self.background.reads:
            self.background.wake()
        if self._submissions.ask_flush():
            with self.lock:
                self.turn()
            self.settle_notices()
        if self._nested:
            self.enter_blocked(kind)

    def _leave_wait(self, kind: Waits) -> None:
        if self._nested:
            self.leave_blocked(kind)
        if self.background.is_parked or self.background.dozes:
            self.background.wake()

    def _lead(self, target: Target, deadline: float | None) -> None:
        poller, session = self._leader_poller, self.session
        while not target.is_settled():
            due = session.next_deadline()
            until = due if deadline is None or (due is not None and due < deadline) else deadline
            poller.poll(until, self._connection.wants_write)
            if poller.monitor_ready:
                self._look_at_connection()
            with self.lock:
                if not self.unusable:
                    self._pass(due)
            if self.notices:
                self.notices.settle()
            if self.unusable:
                self._refuse_wait(target)
            if deadline is not None:
                _check_deadline(target, deadline)

    def _follow(self, target: Target, deadline: float | None) -> bool:
        """Sleep until the condition of ``target`` is notified. Returns whether ``target`` is settled."""
        condition = target._condition
        with condition:
            if target.is_settled():
                return True
            self._followers[id(target)] = target
            if not self.leading:
                return False  # the leader left before it could see this follower
            condition.wait(None if deadline is None else max(0.0, deadline - time.monotonic()))
        self._followers.pop(id(target), None)
        if target.is_settled() and not self.leading:
            self._promote()
        if self.unusable:
            self._refuse_wait(target)
        _check_deadline(target, deadline)
        return target.is_settled()

    def _promote(self) -> None:
        """Wake one follower, which will lead. One whose target is settled already wakes the next."""
        for target in list(self._followers.values()):
            self._followers.pop(id(target), None)
            with target._condition:
                target._condition.notify_all()
            if not target.is_settled():
                return

    def _refuse_wait(self, target: Target) -> None:
        """Raise ClientQuitException unless ``target`` is settled. Another thread, such as the one that ends the client,
        may just be settling it."""
        until = time.monotonic() + _SETTLING_SECONDS  # a callback may last longer
        while True:
            is_over = not self._is_settled_elsewhere() or time.monotonic() > until
            if target.is_settled():
                return
            if is_over:
                raise ClientQuitException(self.unusable)
            with target._condition:
                if not target.is_settled():
                    target._condition.wait(_SETTLING_TICK_SECONDS)

    def _is_settled_elsewhere(self) -> bool:
        return not self.is_forked and self.notices.are_elsewhere

    def _look_at_connection(self) -> None:
        """Take the events of the connection, which tells of each only once, and answer them: Ctrl-C must not interrupt
        this. A nested client looks after each poll, so this has to be cheap: there, Ctrl-C may interrupt it."""
        if self._nested:
            with self.lock:
                if not self.unusable:
                    self._take_events(time.monotonic())
        else:
            shielded(self._answer_events)

    def _answer_events(self) -> None:
        with self.lock:
            if not self.unusable:
                self._take_events(time.monotonic())
                self.turn()

    # ---- with the lock held --------------------------------------------------------------------------------------

    def _pass(self, due: float | None) -> None:
        """After a poll: meet the deadline ``due`` if it has passed, send and receive."""
        now = time.monotonic()
        self._meet_deadline(due, now)
        self.turn(now)

    def _meet_deadline(self, due: float | None, now: float) -> None:
        if due is None or now < due:
            return
        try:
            self.session.on_deadline(now)
        except BaseException as error:
            self.note_interruption(error)
            raise

    def _take_events(self, now: float) -> None:
        for event in self._connection.events():
            if event == "connected":
                self.session.on_connected(now, self._connection.token)
            elif event == "key_refused":
                self.session.on_key_refused(self._connection.obstacle, now)
            elif event == "ended":
                self.session.on_connection_ended(now)
            else:
                self.session.on_peer_lost(SCHEDULER, now)
        self.session.on_obstacle(self._connection.obstacle)

    def _reconnect(self, now: float) -> None:
        self._connection.reconnect()
        if self._nested:  # nothing that can be polled will say whether that succeeded
            self._take_events(now)

    def _quit(self) -> None:
        now = time.monotonic()
        welcomed = self.session.welcomed
        self.session.quit(now)
        for effect in self.session.take_effects(now):
            if isinstance(effect, Send):
                self._connection.send(encode(effect.envelope))
            else:
                self.notices.append(effect)
        self.unusable = STOPPED
        self._connection.close(linger=welcomed)

    def _send_by_scheduler(self, key: ObjectKey) -> None:
        """An object could not be pushed."""
        now = time.monotonic()
        self.take_turn_shielded(lambda session: session.objects.on_request(ObjectRequest(key), now))

    # ---- for the background thread -------------------------------------------------------------------------------

    def read_now(self, poller: Poller) -> None:
        """Receive what is there, and carry out the notices. Callbacks may do anything, but no exception leaves this."""
        try:
            self._receive_now(poller)
        except MemoryError:  # the scheduler repeats what was lost; meanwhile other threads may free memory
            _futures_logger.exception("no memory left to receive results; trying again")
            time.sleep(_MEMORY_RETRY_SECONDS)
        try:
            self.settle_notices()
        except BaseException:  # a callback that exits does not end this thread, which others rely on
            _futures_logger.exception("exception in a callback of the client's thread")

    def _receive_now(self, poller: Poller) -> None:
        if poller.monitor_ready:
            self._look_at_connection()
        with self.lock:
            if not self.unusable:
                self._pass(self.session.next_deadline())

    @property
    def is_over(self) -> bool:
        """Whether no one will ever use this client again, and its last task has ended."""
        return self._abandoned and not self.session.has_unfinished

    def end_rest(self) -> None:
        """End this if it has rested for long enough."""
        if self._rests_since is None:
            return
        with self.lock:
            forget = self._forget
            if self._rests_since is None or forget is None or time.monotonic() < self._rests_since + _REST_SECONDS:
                return
            self._quit()
            _instances.discard(self)
        forget()


def _check_deadline(target: Target, deadline: float | None) -> None:
    if deadline is not None and time.monotonic() >= deadline and not target.is_settled():
        raise TimeoutError()


def _weakly(method: Callable[[ObjectKey], None]) -> Callable[[ObjectKey], None]:
    """Call the method while its object exists. A cycle would keep the descriptors of an ended client open."""
    reference = weakref.WeakMethod(method)

    def call(key: ObjectKey) -> None:
        existing = reference()
        if existing is not None:
            existing(key)

    return call


_instances: weakref.WeakSet[ClientIO] = weakref.WeakSet()


def _after_fork() -> None:
    for client_io in list(_instances):
        client_io.mark_forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
