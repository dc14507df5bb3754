"""The locks that a client holds, and those that it waits for."""

from __future__ import annotations

import enum
from collections import deque

from scaler.core.outcome import Outcome, Sink
from scaler.core.outgoing import Outgoing
from scaler_protocol.messages import (
    LOCKS_SINCE_MINOR,
    PROTOCOL_MAJOR,
    CoordinationKind,
    LockAction,
    LockReply,
    LockRequest,
    LockState,
    Status,
    TaskName,
)

_TOLD = Outcome(Status.SUCCESS, b"")
_OLD_SCHEDULER_TEXT = (
    f"The scheduler is too old for locks: it needs version {PROTOCOL_MAJOR}.{LOCKS_SINCE_MINOR} of the protocol."
)
_LEFT_TEXT = "The client has left the scheduler."


class ClaimState(enum.Enum):
    """ASKED: not answered yet. LOST: the claim held the lock or waited for it, and the scheduler ended that. OVER: the
    claim was denied, refused, given up or released."""

    ASKED = 0
    WAITING = 1
    HELD = 2
    RELEASING = 3
    LOST = 4
    OVER = 5


class Claim:
    """One request for a lock. ``text`` says why it was refused or lost. ``sink`` is notified when ``state`` changes."""

    __slots__ = ("number", "name", "task", "action", "state", "text", "sink")

    def __init__(self, name: str, task: TaskName | None, waits: bool, sink: Sink) -> None:
        """``task``: the execution that makes the request, if there is one. ``waits``: wait until the lock is free."""
        self.number = 0
        self.name = name
        self.task = task
        self.action = LockAction.ACQUIRE if waits else LockAction.TRY
        self.state = ClaimState.ASKED
        self.text = ""
        self.sink: Sink | None = sink


_NEXT = {
    LockState.WAITING: ClaimState.WAITING,
    LockState.GRANTED: ClaimState.HELD,
    LockState.DENIED: ClaimState.OVER,
    LockState.RELEASED: ClaimState.OVER,
    LockState.REFUSED: ClaimState.OVER,
    LockState.LOST: ClaimState.LOST,
}


class Claims:
    """The claims of one session. True while a thread waits for an answer."""

    def __init__(self, outgoing: Outgoing) -> None:
        self._outgoing = outgoing
        self._number = 0
        self._claims: dict[int, Claim] = {}
        self._questions: dict[int, tuple[str, Sink]] = {}
        self._is_supported = True

    def __bool__(self) -> bool:
        return bool(self._questions) or any(claim.state is not ClaimState.HELD for claim in self._claims.values())

    @property
    def is_blank(self) -> bool:
        """Whether no lock is held or waited for."""
        return not (self._claims or self._questions)

    # ---- verbs -------------------------------------------------------------------------------------------------------

    def enter(self, claim: Claim) -> None:
        """Ask for a lock."""
        claim.number = self._next_number()
        self._claims[claim.number] = claim
        if self._is_supported:
            self._outgoing.urgent.append(_request(claim, claim.action))
        else:
            self._end(claim, ClaimState.OVER, _OLD_SCHEDULER_TEXT)

    def await_change(self, claim: Claim, sink: Sink) -> None:
        """Notify ``sink`` when a claim that was WAITING has changed."""
        claim.sink = sink
        if claim.state is not ClaimState.WAITING:
            self._tell(claim)

    def release(self, claim: Claim, sink: Sink | None = None) -> None:
        """Release a lock, or leave the queue for it. ``sink`` is notified when that is done. Without a sink, the claim
        is over at once."""
        if claim.number not in self._claims:
            return
        self._outgoing.urgent.append(_release_of(claim.number))  # first: it is sent even if the rest is interrupted
        claim.sink = sink
        claim.state = ClaimState.RELEASING
        if sink is None:
            self._end(claim, ClaimState.OVER)

    def ask(self, name: str, sink: Sink) -> None:
        """Ask whether a lock is held. ``sink`` gets SUCCESS, with a payload that is not empty if it is."""
        number = self._next_number()
        if not self._is_supported:
            self._outgoing.tell(sink, Outcome(Status.EXCEPTION, _OLD_SCHEDULER_TEXT.encode()))
            return
        self._questions[number] = (name, sink)
        self._outgoing.urgent.append(_question(number, name))

    # ---- answers -----------------------------------------------------------------------------------------------------

    def on_reply(self, reply: LockReply, now: float) -> None:
        if reply.number in self._questions:
            self._answer(reply)
            return
        claim = self._claims.get(reply.number)
        if claim is None or (
            claim.state is ClaimState.RELEASING and reply.state in (LockState.GRANTED, LockState.WAITING)
        ):
            return
        state = _NEXT.get(reply.state, claim.state)
        if state in (ClaimState.LOST, ClaimState.OVER):
            self._end(claim, state, reply.text)
        elif state is not claim.state:
            claim.state = state
            self._tell(claim)

    def _answer(self, reply: LockReply) -> None:
        _, sink = self._questions.pop(reply.number)
        if reply.state == LockState.REFUSED:
            self._outgoing.tell(sink, Outcome(Status.EXCEPTION, reply.text.encode()))
        else:
            self._outgoing.tell(sink, Outcome(Status.SUCCESS, b"held" if reply.state == LockState.HELD else b""))

    # ---- the session -------------------------------------------------------------------------------------------------

    def on_welcome(self, minor: int) -> None:
        """The scheduler speaks this minor version."""
        self._is_supported = minor >= LOCKS_SINCE_MINOR
        if not self._is_supported:
            outgoing = self._outgoing
            outgoing.urgent = deque(body for body in outgoing.urgent if not isinstance(body, LockRequest))
            self.lose_all(_OLD_SCHEDULER_TEXT)

    def restatements(self) -> list[LockRequest]:
        """Messages for a scheduler that knows nothing of this session. A lock that is being released is also stated:
        the answer says whether it was still held."""
        requests = []
        for claim in self._claims.values():
            is_held = claim.state in (ClaimState.HELD, ClaimState.RELEASING)
            requests.append(_request(claim, LockAction.RESTATE if is_held else claim.action))
            if claim.state is ClaimState.RELEASING:
                requests.append(_release_of(claim.number))
        return requests + [_question(number, name) for number, (name, _) in self._questions.items()]

    def give_up(self, outcome: Outcome) -> None:
        """The scheduler was out of reach for too long: stop waiting. Locks that are held stay held."""
        for claim in [claim for claim in self._claims.values() if claim.state is not ClaimState.HELD]:
            sink, claim.sink = claim.sink, None
            self._end(claim, ClaimState.OVER)
            self._outgoing.waiting.append(_release_of(claim.number))
            if sink is not None:
                self._outgoing.tell(sink, outcome)
        self._end_questions(outcome)

    def lose_all(self, text: str = _LEFT_TEXT) -> None:
        """The session ends, and with it all its claims."""
        for claim in list(self._claims.values()):
            self._end(claim, ClaimState.LOST, text)
        self._end_questions(Outcome(Status.EXCEPTION, text.encode()))

    def _end_questions(self, outcome: Outcome) -> None:
        questions, self._questions = self._questions, {}
        for _, sink in questions.values():
            self._outgoing.tell(sink, outcome)

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _next_number(self) -> int:
        self._number += 1
        return self._number

    def _end(self, claim: Claim, state: ClaimState, text: str = "") -> None:
        claim.state = state
        claim.text = text
        self._claims.pop(claim.number, None)
        self._tell(claim)

    def _tell(self, claim: Claim) -> None:
        sink, claim.sink = claim.sink, None
        if sink is not None:
            self._outgoing.tell(sink, _TOLD)

    def check(self) -> None:
        for number, claim in self._claims.items():
            assert claim.number == number <= self._number
            assert claim.state not in (ClaimState.LOST, ClaimState.OVER), claim.state


def _request(claim: Claim, action: LockAction) -> LockRequest:
    task = claim.task or TaskName(b"", 0, 0)
    return LockRequest(CoordinationKind.LOCK, action, claim.number, claim.name, task.session, task.task, task.attempt)


def _release_of(number: int) -> LockRequest:
    return LockRequest(CoordinationKind.LOCK, LockAction.RELEASE, number)


def _question(number: int, name: str) -> LockRequest:
    return LockRequest(CoordinationKind.LOCK, LockAction.ASK, number, name)
