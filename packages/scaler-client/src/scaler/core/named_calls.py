"""The requests of a client for values that are shared by name, and what it has to state again to another scheduler."""

from __future__ import annotations

import enum
from collections import deque
from typing import NamedTuple

from scaler.core.effects import Log
from scaler.core.outcome import Outcome, Sink
from scaler.core.outgoing import Outgoing
from scaler_protocol.messages import (
    NAMED_VALUES_SINCE_MINOR,
    PROTOCOL_MAJOR,
    PROTOCOL_MINOR,
    CoordinationKind,
    NamedAction,
    NamedReply,
    NamedRequest,
    NamedState,
    Status,
    TaskName,
)

CHANGES_LIMIT = 10_000
"""The last changes of this many names are stated again to another scheduler."""

_TOLD = Outcome(Status.SUCCESS, b"")
_OLD_SCHEDULER_TEXT = (
    "The scheduler is too old for values that are shared by name: it needs version "
    f"{PROTOCOL_MAJOR}.{NAMED_VALUES_SINCE_MINOR} of the protocol."
)
_LEFT_TEXT = "The client has left the scheduler."
_LOST_ITEMS_TEXT = "Another scheduler has started: the items that were in queues of the cluster are lost."


class CallState(enum.Enum):
    """ASKED: not answered yet. LEAVING: given up, and it is not known yet whether it was done. ABSENT: nothing was
    done. FAILED: refused, or the session has ended. ENDED: given up, and nothing was done."""

    ASKED = 0
    WAITING = 1
    LEAVING = 2
    DONE = 3
    ABSENT = 4
    FAILED = 5
    ENDED = 6


_NEXT = {
    NamedState.DONE: CallState.DONE,
    NamedState.ABSENT: CallState.ABSENT,
    NamedState.REFUSED: CallState.FAILED,
    NamedState.ENDED: CallState.ENDED,
}


class Named(NamedTuple):
    """The object that a call is about. ``limit``: the maximum size of a queue."""

    kind: CoordinationKind
    name: str
    limit: int = 0


class NamedCall:
    """One request. ``text`` says why it failed, ``result`` is the value that was read, ``count`` the number of items.
    ``sink`` is notified when ``state`` changes."""

    __slots__ = ("number", "named", "action", "value", "task", "state", "text", "result", "count", "sink")

    def __init__(
        self, named: Named, action: NamedAction, value: bytes, task: TaskName | None, sink: Sink | None
    ) -> None:
        """``task``: the execution that makes the request, if there is one."""
        self.number = 0
        self.named = named
        self.action = action
        self.value = value
        self.task = task
        self.state = CallState.ASKED
        self.text = ""
        self.result = b""
        self.count = 0
        self.sink = sink


class _Change(NamedTuple):
    """The last change of a name by this session. ``value`` is None if it was cleared."""

    number: int
    value: bytes | None
    version: int
    task: TaskName | None


class NamedCalls:
    """The calls of one session. True while a thread waits for an answer."""

    def __init__(self, outgoing: Outgoing) -> None:
        self._outgoing = outgoing
        self._number = 0
        self._calls: dict[int, NamedCall] = {}
        self._changes: dict[Named, _Change] = {}
        self._minor = PROTOCOL_MINOR
        self._has_used_queues = False

    def __bool__(self) -> bool:
        return bool(self._calls)

    # ---- verbs -------------------------------------------------------------------------------------------------------

    def start(self, call: NamedCall) -> None:
        """Make a request."""
        self._number += 1
        call.number = self._number
        self._calls[call.number] = call
        if self._minor < NAMED_VALUES_SINCE_MINOR:
            self._end(call, CallState.FAILED, _OLD_SCHEDULER_TEXT)
        else:
            self._outgoing.urgent.append(_request(call))

    def await_change(self, call: NamedCall, sink: Sink) -> None:
        """Notify ``sink`` when a call that was WAITING has changed."""
        call.sink = sink
        if call.state is not CallState.WAITING:
            self._tell(call)

    def give_up(self, call: NamedCall, sink: Sink | None = None) -> None:
        """Wait no longer. ``sink`` is notified when it is known whether the request was done. Without a sink, an item
        that was taken returns to its queue."""
        if call.number not in self._calls:
            if sink is not None:
                call.sink = sink
                self._tell(call)
            else:
                self._return(call)
            return
        if call.state is CallState.LEAVING:
            call.sink = sink
            return
        self._outgoing.urgent.append(_withdrawal_of(call))  # first: it is sent even if the rest is interrupted
        call.sink = sink
        call.state = CallState.LEAVING

    # ---- answers -----------------------------------------------------------------------------------------------------

    def on_reply(self, reply: NamedReply, now: float) -> None:
        call = self._calls.get(reply.number)
        if call is None:
            self._on_restated(reply)
            return
        state = _NEXT.get(reply.named_state)
        if state is None:
            if call.state is CallState.ASKED:
                call.state = CallState.WAITING
                self._tell(call)
            return
        is_abandoned = call.state is CallState.LEAVING and call.sink is None
        call.result, call.count = bytes(reply.value), reply.count
        if state is CallState.DONE:
            self._has_used_queues |= call.named.kind == CoordinationKind.QUEUE
            self._note_change(call, reply.version)
        self._end(call, state, reply.text)
        if is_abandoned:
            self._return(call)

    def _on_restated(self, reply: NamedReply) -> None:
        """A change that is not the last one is not stated again."""
        if reply.named_state in (NamedState.ENDED, NamedState.REFUSED):
            for named in [named for named, change in self._changes.items() if change.number == reply.number]:
                del self._changes[named]

    def _note_change(self, call: NamedCall, version: int) -> None:
        if call.action in (NamedAction.SET, NamedAction.TRY_SET, NamedAction.CLEAR):
            value = None if call.action == NamedAction.CLEAR else call.value
            self._changes.pop(call.named, None)
            self._changes[call.named] = _Change(call.number, value, version, call.task)
            if len(self._changes) > CHANGES_LIMIT:
                del self._changes[next(iter(self._changes))]

    # ---- the session -------------------------------------------------------------------------------------------------

    def on_welcome(self, minor: int) -> None:
        """The scheduler speaks this minor version."""
        self._minor = minor
        if minor < NAMED_VALUES_SINCE_MINOR:
            outgoing = self._outgoing
            outgoing.urgent = deque(body for body in outgoing.urgent if not isinstance(body, NamedRequest))
            for call in list(self._calls.values()):
                self._end(call, CallState.FAILED, _OLD_SCHEDULER_TEXT)

    def restatements(self) -> list[NamedRequest]:
        """Messages for a scheduler that knows nothing of this session: the last changes, then the requests that were
        not answered. Those that were given up are over."""
        if self._minor < NAMED_VALUES_SINCE_MINOR:
            return []
        if self._has_used_queues:
            self._outgoing.effects.append(Log("WARNING", _LOST_ITEMS_TEXT))
        for call in [call for call in self._calls.values() if call.state is CallState.LEAVING]:
            self._end(call, CallState.ENDED)
        changes = [_restatement(named, change) for named, change in self._changes.items()]
        return changes + [_request(call) for call in self._calls.values()]

    def disconnect(self, outcome: Outcome) -> None:
        """The scheduler was out of reach for too long: stop waiting."""
        for call in list(self._calls.values()):
            sink, call.sink = call.sink, None
            self._end(call, CallState.ENDED)
            self._outgoing.waiting.append(_withdrawal_of(call))
            if sink is not None:
                self._outgoing.tell(sink, outcome)

    def end_all(self, text: str = _LEFT_TEXT) -> None:
        """The session ends, so all its calls end, too."""
        for call in list(self._calls.values()):
            self._end(call, CallState.FAILED, text)
        self._changes.clear()

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _end(self, call: NamedCall, state: CallState, text: str = "") -> None:
        call.state = state
        call.text = text
        self._calls.pop(call.number, None)
        self._tell(call)

    def _return(self, call: NamedCall) -> None:
        """The item that was taken, if there is one, is the first of its queue again."""
        if call.state is CallState.DONE and call.action in (NamedAction.TAKE, NamedAction.TRY_TAKE):
            call.state = CallState.ENDED
            self.start(NamedCall(call.named, NamedAction.RETURN, call.result, None, None))

    def _tell(self, call: NamedCall) -> None:
        sink, call.sink = call.sink, None
        if sink is not None:
            self._outgoing.tell(sink, _TOLD)

    def check(self) -> None:
        for number, call in self._calls.items():
            assert call.number == number <= self._number
            assert call.state in (CallState.ASKED, CallState.WAITING, CallState.LEAVING), call.state
        assert len(self._changes) <= CHANGES_LIMIT


def _request(call: NamedCall) -> NamedRequest:
    session, task, attempt, _ = call.task or TaskName(b"", 0, 0)
    kind, name, limit = call.named
    return NamedRequest(kind, call.action, call.number, name, call.value, 0, session, task, attempt, limit)


def _restatement(named: Named, change: _Change) -> NamedRequest:
    kind, name, _ = named
    session, task, attempt, _ = change.task or TaskName(b"", 0, 0)
    action = NamedAction.RESTATE_CLEARED if change.value is None else NamedAction.RESTATE
    return NamedRequest(kind, action, change.number, name, change.value or b"", change.version, session, task, attempt)


def _withdrawal_of(call: NamedCall) -> NamedRequest:
    return NamedRequest(call.named.kind, NamedAction.WITHDRAW, call.number)
