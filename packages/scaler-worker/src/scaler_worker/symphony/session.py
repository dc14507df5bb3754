"""Sessions with Symphony, in threads: what blocks is done in one of ours, what Symphony says comes from its own.

``SymphonyGateway`` does what the core wants, in order, and posts events. A session's answers are matched to executions
by the ids that ``send_task_input`` returns; an answer may come before it has returned.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from scaler_protocol.command import BadInput
from scaler_worker.symphony.core.answer import SymphonyAnswer
from scaler_worker.symphony.core.effects import OpenSession, SendInput
from scaler_worker.symphony.payload import Garbage, describe_text, failure_report, pack_call, unpack_answer
from scaler_worker.symphony.soam import Soam

# ---- events ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Opened:
    session: int


@dataclass(frozen=True, slots=True)
class Ended:
    """It ended, or could not be opened."""

    session: int
    text: str


@dataclass(frozen=True, slots=True)
class Taken:
    number: int


@dataclass(frozen=True, slots=True)
class NotTaken:
    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Answered:
    number: int
    answer: SymphonyAnswer


@dataclass(frozen=True, slots=True)
class ExecutionFailed:
    """``{task}`` in the text stands for the name of the task. ``report`` is what ``failure_report`` makes of
    the exception that is the reason, if there is one."""

    number: int
    text: str
    report: bytes = b""


@dataclass(frozen=True, slots=True)
class Noted:
    """Something for the log."""

    text: str


Event = Opened | Ended | Taken | NotTaken | Answered | ExecutionFailed | Noted


# ---- one session -----------------------------------------------------------------------------------------------


class ServiceSession:
    """One session and its answers. ``number`` is the core's."""

    def __init__(self, number: int, soam: Soam, service: str, post: Callable[[Event], None]) -> None:
        self.number = number
        self._soam = soam
        self._service = service
        self._post = post
        self._lock = threading.Lock()
        self._executions: dict[Any, int] = {}
        self._early: dict[Any, _Said] = {}
        self._is_sending = False
        self._is_open = False
        self._end_text: str | None = None
        self._handle: Any = None

    def open(self) -> None:
        """Raises what Symphony raises, or SessionEnded when it ended before it was open."""
        self._handle = self._soam.create_session(self)
        with self._lock:
            if self._end_text is not None:
                raise SessionEnded(self._end_text)
            self._is_open = True

    def close(self) -> None:
        """Nothing it says counts any more."""
        with self._lock:
            self._end_text = self._end_text or "closed"

    def send(self, number: int, payload: bytes) -> None:
        """Posts Taken or NotTaken, and with the first perhaps the answer."""
        with self._lock:
            if self._end_text is not None:
                return
            self._is_sending = True
        try:
            identity = self._soam.send(self._handle, payload)
        except Exception as error:
            self._stop_sending()
            self._post(NotTaken(number, describe(error)))
            return
        self._post(Taken(number))
        with self._lock:
            early = self._early.pop(identity, None)
            if early is None:
                self._executions[identity] = number
        self._stop_sending()
        if early is not None:
            self._deliver(number, early)

    def _stop_sending(self) -> None:
        with self._lock:
            self._is_sending = False
            strange, self._early = self._early, {}
        for identity in strange:
            self._post(Noted(f"Symphony answered task {identity}, which is not known or was answered before"))

    # ---- Symphony's threads ----------------------------------------------------------------------------------

    def on_response(self, handle: Any) -> None:
        """Nothing may be raised into Symphony."""
        try:
            identity, said = handle.get_id(), self._read(handle)
        except Exception as error:
            self._post(Noted(f"Symphony sent an answer that cannot be read: {describe(error)}"))
            return
        with self._lock:
            if self._end_text is not None:
                return
            number = self._executions.pop(identity, None)
            is_early = number is None and self._is_sending
            if is_early:
                self._early[identity] = said
        if number is not None:
            self._deliver(number, said)
        elif not is_early:
            self._post(Noted(f"Symphony answered task {identity}, which is not known or was answered before"))

    def on_exception(self, exception: Any) -> None:
        text = describe(exception)
        with self._lock:
            if self._end_text is not None:
                return
            self._end_text = text
            was_open = self._is_open
        if was_open:
            self._post(Ended(self.number, text))

    def _read(self, handle: Any) -> _Said:
        """Nothing that Symphony raises may leave a task without an end."""
        try:
            if handle.is_successful():
                return _Said(self._soam.output(handle))
        except Exception as error:
            return _Said(None, f"the output of {{task}} cannot be read: {_safe(describe(error))}")
        exception, embedded = _reason(handle)
        reason = exception if embedded is None else embedded
        what = "Symphony gives no reason" if reason is None else _safe(describe(reason))
        problem = f"the service {self._service} could not run {{task}}: {what}"
        return _Said(None, problem, self._soam.users_own(embedded))

    def _deliver(self, number: int, said: _Said) -> None:
        if said.output is None:
            text = f"Symphony: {said.problem}. {self._advice()}"
            report = b"" if said.error is None else failure_report(said.error, text.replace("{task}", "the task"))
            self._post(ExecutionFailed(number, text, report))
            return
        try:
            self._post(Answered(number, unpack_answer(said.output, number)))
        except Garbage as error:
            text = f"Symphony: the service {self._service} returned {_safe(str(error))} for {{task}}. {self._advice()}"
            self._post(ExecutionFailed(number, text))

    def _advice(self) -> str:
        return (
            "Check that the service is that of examples/symphony/service.py, and that its hosts have cloudpickle and "
            "this version of Python."
        )


@dataclass(frozen=True, slots=True)
class _Said:
    """An output; or what the problem is, and the exception that users are to get, if there is one."""

    output: bytes | None
    problem: str = ""
    error: BaseException | None = None


class SessionEnded(Exception):
    """Symphony ended a session while it was being opened."""


# ---- all of them -----------------------------------------------------------------------------------------------


class SymphonyGateway:
    """``post`` is called in any thread, with an event."""

    def __init__(self, service: str, scheduler_address: str, worker_name: str, post: Callable[[Event], None]) -> None:
        self._service = service
        self._scheduler_address = scheduler_address
        self._worker_name = worker_name
        self._post = post
        self._soam = Soam(service)
        self._session: ServiceSession | None = None
        self._requests: queue.SimpleQueue[OpenSession | SendInput | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="symphony", daemon=True)

    def connect(self) -> None:
        """Opens session 1, in the caller's thread. Raises BadInput: a user can correct mistakes at the start."""
        try:
            self._soam.initialize()
        except Exception as error:
            raise BadInput(
                f"Cannot start Symphony's API: {describe(error)}. Set up the environment of Symphony's client first "
                "(cshrc.platform or profile.platform)."
            ) from None
        try:
            self._open(1)
        except Exception as error:
            raise BadInput(
                f"Cannot open a session of the Symphony service {self._service}: {describe(error)}. Check that the "
                "service is registered and enabled under this name, and that the user Guest may use it."
            ) from None

    def start(self) -> None:
        self._thread.start()

    def request(self, effect: OpenSession | SendInput) -> None:
        self._requests.put(effect)

    def stop(self) -> None:
        """Send nothing more. Calls that Symphony is carrying out are not waited for."""
        self._requests.put(None)
        if self._session is not None:
            self._session.close()

    def _work(self) -> None:
        while (request := self._requests.get()) is not None:
            if isinstance(request, SendInput):
                self._send(request)
            else:
                self._try_to_open(request.session)

    def _send(self, request: SendInput) -> None:
        session = self._session
        if session is None or session.number != request.session:
            return  # it was meant for one that has ended
        try:
            payload = pack_call(request.number, request.call, self._scheduler_address, self._worker_name)
        except Exception as error:  # memory, most likely
            self._post(NotTaken(request.number, describe(error)))
            return
        session.send(request.number, payload)

    def _try_to_open(self, number: int) -> None:
        if self._session is not None and self._session.number == number:
            self._post(Opened(number))
            return
        try:
            self._open(number)
        except Exception as error:
            self._post(Ended(number, f"Cannot open a session of {self._service}, will retry: {describe(error)}"))
            return
        self._post(Opened(number))

    def _open(self, number: int) -> None:
        if self._session is not None:
            self._session.close()
        session = ServiceSession(number, self._soam, self._service, self._post)
        session.open()
        self._session = session


def describe(error: Any) -> str:
    """One line, whatever it is."""
    name, text = type(error).__name__, describe_text(error)
    return f"{name}: {text}" if text else name


def _reason(handle: Any) -> tuple[Any, Any]:
    """Return why a task failed, as Symphony has it: an exception, most often, and the one embedded in it, if there is
    one."""
    try:
        exception = handle.get_exception()
    except Exception as error:
        return error, None
    try:
        return exception, exception.get_embedded_exception()
    except Exception:
        return exception, None


def _safe(text: str) -> str:
    """Braces are the core's."""
    return text.replace("{task}", "(task)")
