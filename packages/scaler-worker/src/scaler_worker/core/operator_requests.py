"""Requests of operators and clients that concern the tasks of this host: stacks, profiles, kept output, and the
replacement of a worker process."""

from __future__ import annotations

from scaler_protocol.effects import Log
from scaler_protocol.messages import (
    EndProcess,
    OutputReply,
    OutputRequest,
    ProfileReply,
    ProfileRequest,
    StackReply,
    StackRequest,
)
from scaler_protocol.profile import ProfileTree
from scaler_worker.core.effects import ReadStack
from scaler_worker.core.execution_backend import ExecutionBackend
from scaler_worker.core.profiles import Profiles
from scaler_worker.core.stack_text import shown_stack
from scaler_worker.core.state import AgentState

_IDLE_TEXT = "Cannot show the stack: the worker has no task."
_NO_STACK_TEXT = "Cannot show the stack: the task waits on its host, or has just ended."
_SILENT_TEXT = "Cannot show the stack: the worker process did not answer. It is suspended, or has just ended."


class OperatorRequests:
    def __init__(self, state: AgentState, backend: ExecutionBackend) -> None:
        self._state = state
        self._backend = backend
        self._profiles = Profiles()

    def on_stack_request(self, request: StackRequest, now: float) -> None:
        number = self._backend.number_asked_for(request.session, request.task, request.worker)
        if number is None:
            self._state.unsent.append(
                StackReply(request.number, False, _IDLE_TEXT if request.worker else _NO_STACK_TEXT)
            )
        else:
            self._state.outbox.add(ReadStack(request.number, number))

    def on_stack(self, request: int, text: str | None, now: float) -> None:
        """The answer to ReadStack, as faulthandler writes it; None: the process did not answer."""
        reply = (
            StackReply(request, False, _SILENT_TEXT) if text is None else StackReply(request, True, shown_stack(text))
        )
        self._state.unsent.append(reply)

    def on_profile_request(self, request: ProfileRequest, now: float) -> None:
        answer = self._profiles.on_request(request, now)
        if isinstance(answer, ProfileReply):
            self._state.unsent.append(answer)
        elif answer is not None:
            self._state.outbox.add(answer)

    def on_profile(self, number: int, tree: ProfileTree, now: float) -> None:
        """The samples of a profile that was to end."""
        reply = self._profiles.on_profile(number, tree)
        if reply is not None:
            self._state.unsent.append(reply)

    def end_overdue_profiles(self, now: float) -> None:
        """Ask for the samples of profiles whose time is over."""
        for effect in self._profiles.take_overdue(now):
            self._state.outbox.add(effect)

    def on_output_request(self, request: OutputRequest, now: float) -> None:
        pieces = self._backend.output_of(request.session, request.task, request.worker)
        self._state.unsent.append(OutputReply(request.number, True, "", tuple(pieces)))

    def on_end_process(self, order: EndProcess, now: float) -> None:
        """An operator wants the process of a worker to be replaced."""
        when = "is killed" if order.at_once else "is replaced when its task has ended"
        if self._backend.replace_process(order.worker, order.at_once):
            self._state.outbox.add(Log("WARNING", f"An operator asks for it: the process of {order.worker} {when}"))
