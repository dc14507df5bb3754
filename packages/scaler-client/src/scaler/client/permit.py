"""The common part of locks and semaphores, which clients and tasks of the whole cluster hold by name."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from scaler.client.named import NamedObject, NamingClient, check_answer, left, task_of
from scaler.core.coordination import Claim, ClaimState, Permit
from scaler.shell.client_io import ClientIO, Waits
from scaler.shell.waiting import PendingAnswer
from scaler.utility.exceptions import DisconnectedError, LockLostError, ScalerError

if TYPE_CHECKING:
    from scaler.core.session import Session


class NamedPermit(NamedObject):
    """The common part of locks and semaphores."""

    def __init__(self, permit: Permit, client: NamingClient | None) -> None:
        """If ``client`` is None, the object uses the client of the task that uses it."""
        super().__init__(permit.name, client)
        self._permit = permit
        self._claims: list[Claim] = []

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Acquire it, and return whether that succeeded. ``timeout``: seconds to wait for it; -1 means no limit."""
        _check_timeout(blocking, timeout)
        deadline = None if timeout == -1 else time.monotonic() + timeout
        client_io = self._client_io_to_wait()
        answer = PendingAnswer(client_io, Waits.NOT_AT_ALL)
        claim = Claim(self._permit, task_of(client_io), blocking, answer)

        def enter(session: Session) -> None:
            self._claims.append(claim)
            session.claims.enter(claim)

        try:
            client_io.take_turn(enter)
            self._await(client_io, claim, answer, deadline)
            return self._settle(client_io, claim)
        except BaseException:
            client_io.take_turn(lambda session: self._withdraw(session, claim), must_be_usable=False)
            raise

    def release(self) -> None:
        """Release it. Raises RuntimeError if this object does not hold it, and LockLostError if it has lost it."""
        client_io = self._client_io()
        if client_io.defers(self.release):
            return
        answer = PendingAnswer(client_io, Waits.NOT_AT_ALL)

        def release(session: Session) -> Claim:
            claim = self._held()
            if claim.state is ClaimState.HELD:
                client_io.check_usable()
                session.claims.release(claim, answer)
            self._claims.remove(claim)
            return claim

        claim = client_io.take_turn(release, must_be_usable=False)
        if claim.state is ClaimState.RELEASING or answer.is_settled():
            check_answer(answer.wait())
        if claim.state is ClaimState.LOST:
            raise self._lost(claim)

    def locked(self) -> bool:
        """Return whether it cannot be acquired now, because it is held here or elsewhere."""
        client_io = self._client_io()
        answer = PendingAnswer(client_io, Waits.NOT_AT_ALL)
        client_io.take_turn(lambda session: session.claims.ask(self._permit, answer))
        return bool(check_answer(answer.wait()))

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            self.release()
        except LockLostError as lost:
            if error is None:
                raise
            error.add_note(str(lost))

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _await(self, client_io: ClientIO, claim: Claim, answer: PendingAnswer, deadline: float | None) -> None:
        """The scheduler answers at once. The worker is lent to other tasks only if the lock is not free."""
        try:
            check_answer(answer.wait(left(deadline)))
            if claim.state is ClaimState.WAITING:
                change = PendingAnswer(client_io, Waits.FOR_A_LOCK)
                client_io.take_turn(lambda session: session.claims.await_change(claim, change), must_be_usable=False)
                check_answer(change.wait(left(deadline)))
        except TimeoutError as error:
            if isinstance(error, DisconnectedError):
                raise

    def _settle(self, client_io: ClientIO, claim: Claim) -> bool:
        """The wait is over. Returns whether the claim holds the lock; a claim that does not is withdrawn."""

        def settle(session: Session) -> bool:
            is_held = claim.state is ClaimState.HELD
            if not is_held:
                self._withdraw(session, claim)
            return is_held

        if client_io.take_turn(settle, must_be_usable=False):
            return True
        if claim.text:
            raise ScalerError(f"Cannot acquire the {self.noun} {self.name!r}: {claim.text}")
        return False

    def _withdraw(self, session: Session, claim: Claim) -> None:
        """Within a turn."""
        if claim in self._claims:
            self._claims.remove(claim)
        session.claims.release(claim)

    def _lost(self, claim: Claim) -> LockLostError:
        return LockLostError(f"The {self.noun} {self.name!r} was lost while it was held. {claim.text}")

    def _held(self) -> Claim:
        """The claim to release."""
        for state in (ClaimState.HELD, ClaimState.LOST):
            for claim in self._claims:
                if claim.state is state:
                    return claim
        raise RuntimeError(f"Cannot release the {self.noun} {self.name!r}: this object does not hold it.")


def _check_timeout(blocking: bool, timeout: float) -> None:
    """Check the timeout like ``threading.Lock``."""
    if not blocking and timeout != -1:
        raise ValueError("can't specify a timeout for a non-blocking call")
    if timeout < 0 and timeout != -1:
        raise ValueError("timeout value must be a non-negative number")
    if timeout > threading.TIMEOUT_MAX:
        raise OverflowError("timeout value is too large")
