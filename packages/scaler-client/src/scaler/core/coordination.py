"""The locks and semaphores that a client holds, and those that it waits for."""

from __future__ import annotations

import enum
from collections import deque
from typing import NamedTuple

from scaler.core.outcome import Outcome, Sink
from scaler.core.outgoing import Outgoing
from scaler_protocol.messages import (
    LOCKS_SINCE_MINOR,
    PROTOCOL_MAJOR,
    PROTOCOL_MINOR,
    SEMAPHORES_SINCE_MINOR,
    CoordinationKind,
    LockAction,
    LockReply,
    LockRequest,
    LockState,
    Status,
    TaskName,
)

_TOLD = Outcome(Status.SUCCESS, b"")
_SINCE_MINOR = {CoordinationKind.LOCK: LOCKS_SINCE_MINOR, CoordinationKind.SEMAPHORE: SEMAPHORES_SINCE_MINOR}
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


class Permit(NamedTuple):
    """The lock or semaphore that a claim asks for. ``limit``: the maximum number of claims that have it at a time; 0
    for a lock."""

    kind: CoordinationKind
    name: str
    limit: int = 0


class Claim:
    """One request for a lock or a semaphore. ``text`` says why it was refused or lost. ``sink`` is notified when
    ``state`` changes."""

    __slots__ = ("number", "permit", "task", "action", "state", "text", "sink")

    def __init__(self, permit: Permit, task: TaskName | None, waits: bool, sink: Sink) -> None:
        """``task``: the execution that makes the request, if there is one. ``waits``: wait until the lock is free."""
        self.number = 0
        self.permit = permit
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
        self._questions: dict[int, tuple[Permit, Sink]] = {}
        self._minor = PROTOCOL_MINOR

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
        obstacle = self._obstacle(claim.permit.kind)
        if obstacle:
            self._end(claim, ClaimState.OVER, obstacle)
        else:
            self._outgoing.urgent.append(_request(claim, claim.action))

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
        self._outgoing.urgent.append(_release_of(claim))  # first: it is sent even if the rest is interrupted
        claim.sink = sink
        claim.state = ClaimState.RELEASING
        if sink is None:
            self._end(claim, ClaimState.OVER)

    def ask(self, permit: Permit, sink: Sink) -> None:
        """Ask whether a lock has all the holders that it may have. ``sink`` gets SUCCESS, and a payload that is not
        empty if it has."""
        number = self._next_number()
        obstacle = self._obstacle(permit.kind)
        if obstacle:
            self._outgoing.tell(sink, Outcome(Status.EXCEPTION, obstacle.encode()))
            return
        self._questions[number] = (permit, sink)
        self._outgoing.urgent.append(_question(number, permit))

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
        self._minor = minor
        for kind in _SINCE_MINOR:
            if self._obstacle(kind):
                self._drop(kind)

    def _obstacle(self, kind: CoordinationKind) -> str:
        """Return why the scheduler is not asked; empty if it knows this kind."""
        since = _SINCE_MINOR[kind]
        if self._minor >= since:
            return ""
        noun = kind.name.lower()
        return f"The scheduler is too old for {noun}s: it needs version {PROTOCOL_MAJOR}.{since} of the protocol."

    def _drop(self, kind: CoordinationKind) -> None:
        """The scheduler does not know this kind."""
        outgoing, text = self._outgoing, self._obstacle(kind)
        outgoing.urgent = deque(
            body for body in outgoing.urgent if not (isinstance(body, LockRequest) and body.kind == kind)
        )
        for claim in [claim for claim in self._claims.values() if claim.permit.kind == kind]:
            self._end(claim, ClaimState.LOST, text)
        asked = [number for number, (permit, _) in self._questions.items() if permit.kind == kind]
        for number in asked:
            self._outgoing.tell(self._questions.pop(number)[1], Outcome(Status.EXCEPTION, text.encode()))

    def restatements(self) -> list[LockRequest]:
        """Messages for a scheduler that knows nothing of this session. A lock that is being released is also stated:
        the answer says whether it was still held."""
        requests = []
        for claim in self._claims.values():
            is_held = claim.state in (ClaimState.HELD, ClaimState.RELEASING)
            requests.append(_request(claim, LockAction.RESTATE if is_held else claim.action))
            if claim.state is ClaimState.RELEASING:
                requests.append(_release_of(claim))
        return requests + [_question(number, permit) for number, (permit, _) in self._questions.items()]

    def give_up(self, outcome: Outcome) -> None:
        """The scheduler was out of reach for too long: stop waiting. Locks that are held stay held."""
        for claim in [claim for claim in self._claims.values() if claim.state is not ClaimState.HELD]:
            sink, claim.sink = claim.sink, None
            self._end(claim, ClaimState.OVER)
            self._outgoing.waiting.append(_release_of(claim))
            if sink is not None:
                self._outgoing.tell(sink, outcome)
        self._end_questions(outcome)

    def lose_all(self, text: str = _LEFT_TEXT) -> None:
        """The session ends, so all its claims end, too."""
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
    session, task, attempt, _ = claim.task or TaskName(b"", 0, 0)
    kind, name, limit = claim.permit
    return LockRequest(kind, action, claim.number, name, session, task, attempt, limit)


def _release_of(claim: Claim) -> LockRequest:
    return LockRequest(claim.permit.kind, LockAction.RELEASE, claim.number)


def _question(number: int, permit: Permit) -> LockRequest:
    return LockRequest(permit.kind, LockAction.ASK, number, permit.name, limit=permit.limit)
