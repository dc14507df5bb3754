"""The common part of the locks and semaphores of coroutines, which they hold by name in the whole cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from scaler.asynchronous.future import AnswerFuture
from scaler.client.named import check_answer, task_of
from scaler.client.permit import NamedPermit
from scaler.core.coordination import Claim, ClaimState
from scaler.shell.waiting import Waits
from scaler.utility.exceptions import LockLostError

if TYPE_CHECKING:
    from scaler.asynchronous.loop_link import LoopLink
    from scaler.core.session import Session


class AsyncPermit:
    """The common part of the locks and semaphores of an event loop. ``held``: the one that a thread would use."""

    def __init__(self, held: NamedPermit, link: LoopLink) -> None:
        self._held = held
        self._link = link

    @property
    def name(self) -> str:
        return self._held.name

    async def acquire(self) -> bool:
        """Wait for it, and return True. Use ``asyncio.timeout`` to limit the wait."""
        link, held = self._link, self._held
        link.check()
        answer = AnswerFuture(link)
        claim = Claim(held._permit, task_of(link.client_io), True, answer)

        def enter(session: Session) -> None:
            held._claims.append(claim)
            session.claims.enter(claim)

        try:
            link.client_io.take_turn(enter)
            check_answer(await answer)
            if claim.state is ClaimState.WAITING:
                await self._await_change(claim)
            return held._settle(link.client_io, claim)
        except BaseException:
            link.client_io.take_turn(lambda session: held._withdraw(session, claim), must_be_usable=False)
            raise

    async def _await_change(self, claim: Claim) -> None:
        link = self._link
        change = AnswerFuture(link)
        link.client_io.take_turn(lambda session: session.claims.await_change(claim, change), must_be_usable=False)
        link.note_wait(change, Waits.FOR_A_LOCK)
        check_answer(await change)

    async def release(self) -> None:
        """Release it, and return when the scheduler has done so. Raises RuntimeError if this object does not hold it,
        and LockLostError if it has lost it."""
        client_io, held = self._link.client_io, self._held
        answer = AnswerFuture(self._link)

        def release(session: Session) -> tuple[Claim, bool]:
            claim = held._held()
            if claim.state is ClaimState.HELD:
                client_io.check_usable()
                session.claims.release(claim, answer)
            held._claims.remove(claim)
            return claim, claim.state is ClaimState.RELEASING

        claim, is_asked = client_io.take_turn(release, must_be_usable=False)
        if is_asked:
            check_answer(await answer)
        if claim.state is ClaimState.LOST:
            raise held._lost(claim)

    async def locked(self) -> bool:
        """Return whether it cannot be acquired now, because it is held here or elsewhere."""
        self._link.check()
        answer = AnswerFuture(self._link)
        self._link.client_io.take_turn(lambda session: session.claims.ask(self._held._permit, answer))
        return bool(check_answer(await answer))

    async def __aenter__(self) -> None:
        await self.acquire()

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            await self.release()
        except LockLostError as lost:
            if error is None:
                raise
            error.add_note(str(lost))

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"Cannot send {self!r} to a task: it belongs to an event loop. Pass its name.")

    def __repr__(self) -> str:
        return f"Async{self._held!r}"
