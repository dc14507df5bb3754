"""Values of the whole cluster that have a name, for coroutines: the common part of events, variables and queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from scaler.asynchronous.future import AnswerFuture
from scaler.client.named import check_answer, task_of
from scaler.core.named_calls import CallState, Named, NamedCall
from scaler.shell.waiting import Waits

if TYPE_CHECKING:
    from scaler.asynchronous.loop_link import LoopLink
    from scaler.client.named_value import NamedValue
    from scaler_protocol.messages import NamedAction


class AsyncNamedValue:
    """The common part of the events, variables and queues of an event loop. ``shared``: the one that a thread would
    use."""

    def __init__(self, shared: NamedValue, link: LoopLink) -> None:
        self._shared = shared
        self._link = link

    @property
    def name(self) -> str:
        return self._shared.name

    async def _call(self, action: NamedAction, value: bytes = b"") -> NamedCall:
        """Make a request, and wait until it is done. One that is cancelled is given up."""
        link, shared = self._link, self._shared
        link.check()
        answer = AnswerFuture(link)
        call = NamedCall(Named(shared.kind, shared.name, shared.limit), action, value, task_of(link.client_io), answer)
        try:
            link.client_io.take_turn(lambda session: session.named.start(call))
            check_answer(await answer)
            if call.state is CallState.WAITING:
                await self._await_change(call)
        except BaseException:
            link.client_io.take_turn(lambda session: session.named.give_up(call), must_be_usable=False)
            raise
        return shared._checked(call)

    async def _await_change(self, call: NamedCall) -> None:
        link = self._link
        change = AnswerFuture(link)
        link.client_io.take_turn(lambda session: session.named.await_change(call, change), must_be_usable=False)
        link.note_wait(change, Waits.FOR_A_LOCK)
        check_answer(await change)

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"Cannot send {self!r} to a task: it belongs to an event loop. Pass its name.")

    def __repr__(self) -> str:
        return f"Async{self._shared!r}"
