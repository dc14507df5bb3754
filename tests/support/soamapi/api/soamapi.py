"""A stand-in for IBM's ``soamapi``: the calls that Scaler and its users' service make, and no others.

It talks to the broker beside this folder, whose socket $SOAMAPI_BROKER names. Like the real one it calls back from
threads of its own, several at a time.
"""

from __future__ import annotations

import array
import os
import pickle
import socket
import struct
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

_SIZE = struct.Struct("<Q")
_CALLBACK_THREADS = 3
_is_initialized = False


class SoamException(Exception):
    """``embedded``: what it is about, when something else raised it."""

    def __init__(self, text: str, embedded: BaseException | None = None) -> None:
        super().__init__(text)
        self._embedded = embedded

    def get_embedded_exception(self) -> BaseException | None:
        return self._embedded


class SessionFlags:
    PARTIAL_ASYNC = 4


# ---- messages --------------------------------------------------------------------------------------------------


class Message:
    def on_serialize(self, stream: Any) -> None:
        raise NotImplementedError

    def on_deserialize(self, stream: Any) -> None:
        raise NotImplementedError


class _OutputStream:
    __slots__ = ("data",)

    def __init__(self) -> None:
        self.data = b""

    def write_byte_array(self, data: array.array[int], offset: int, length: int) -> None:
        if not isinstance(data, array.array) or data.typecode != "b":
            raise SoamException("write_byte_array takes an array of type b")
        self.data += data[offset : offset + length].tobytes()


class _InputStream:
    __slots__ = ("_data",)

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read_byte_array(self, kind: str) -> array.array[int]:
        if kind != "b":
            raise SoamException("read_byte_array knows arrays of type b")
        data, self._data = self._data, b""
        return array.array("b", data)


def _serialized(message: Message) -> bytes:
    if not isinstance(message, Message):
        raise SoamException(f"{type(message).__name__} is no Message")
    stream = _OutputStream()
    message.on_serialize(stream)
    return stream.data


# ---- the wire --------------------------------------------------------------------------------------------------


class _Wire:
    """Pickled dictionaries over the broker's socket."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._lock = threading.Lock()
        try:
            self._socket.connect(os.environ["SOAMAPI_BROKER"])
        except (OSError, KeyError) as error:
            raise SoamException(f"the session director is not reachable ({error})") from None

    def send(self, message: dict[str, Any]) -> None:
        data = pickle.dumps(message)
        try:
            with self._lock:
                self._socket.sendall(_SIZE.pack(len(data)) + data)
        except OSError as error:
            raise SoamException(f"the connection is lost ({error})") from None

    def receive(self) -> dict[str, Any] | None:
        """None: the other side is gone."""
        header = self._read(_SIZE.size)
        data = self._read(_SIZE.unpack(header)[0]) if header is not None else None
        return None if data is None else pickle.loads(data)

    def _read(self, size: int) -> bytes | None:
        parts = bytearray()
        while len(parts) < size:
            try:
                part = self._socket.recv(min(size - len(parts), 1 << 20))
            except OSError:
                return None
            if not part:
                return None
            parts += part
        return bytes(parts)


# ---- clients ---------------------------------------------------------------------------------------------------


class DefaultSecurityCallback:
    def __init__(self, user: str, password: str) -> None:
        self._login = user, password


class SessionCallback:
    def on_response(self, handle: Any) -> None:
        raise NotImplementedError

    def on_exception(self, exception: Any) -> None:
        raise NotImplementedError


class SessionCreationAttributes:
    def __init__(self) -> None:
        self._values: dict[str, Any] = {}

    def set_session_type(self, name: str) -> None:
        self._values["type"] = name

    def set_session_name(self, name: str) -> None:
        self._values["name"] = name

    def set_session_flags(self, flags: int) -> None:
        self._values["flags"] = flags

    def set_session_callback(self, callback: SessionCallback) -> None:
        if not isinstance(callback, SessionCallback):
            raise SoamException(f"{type(callback).__name__} is no SessionCallback")
        self._values["callback"] = callback


class TaskSubmissionAttributes:
    def __init__(self) -> None:
        self._input: bytes | None = None

    def set_task_input(self, message: Message) -> None:
        self._input = _serialized(message)


class TaskInputHandle:
    def __init__(self, identity: str) -> None:
        self._identity = identity

    def get_id(self) -> str:
        return self._identity


class TaskOutputHandle:
    def __init__(self, message: dict[str, Any]) -> None:
        self._message = message

    def get_id(self) -> str:
        return self._message["task"]

    def is_successful(self) -> bool:
        return self._message["error"] is None

    def populate_task_output(self, message: Message) -> None:
        if not self.is_successful():
            raise SoamException("a task that failed has no output")
        message.on_deserialize(_InputStream(self._message["output"]))

    def get_exception(self) -> SoamException | None:
        error, embedded = self._message["error"], self._message.get("embedded")
        if error is None:
            return None
        return SoamException("the task failed", pickle.loads(embedded) if embedded else SoamException(error))


def initialize() -> None:
    global _is_initialized
    _is_initialized = True


def connect(service: str, security: DefaultSecurityCallback) -> Connection:
    if not _is_initialized:
        raise SoamException("initialize() comes first")
    if not isinstance(security, DefaultSecurityCallback):
        raise SoamException("connect() takes a DefaultSecurityCallback")
    return Connection(service, security._login)


class Connection:
    def __init__(self, service: str, login: tuple[str, str]) -> None:
        self._wire = _Wire()
        self._callbacks = ThreadPoolExecutor(_CALLBACK_THREADS, "soamapi")
        self._requests: dict[int, Future[dict[str, Any]]] = {}
        self._sessions: dict[str, Session] = {}
        self._lock = threading.Lock()
        self._count = 0
        self._is_lost = False
        threading.Thread(target=self._listen, name="soamapi-reader", daemon=True).start()
        self._ask({"ask": "connect", "service": service, "login": login})

    def create_session(self, attributes: SessionCreationAttributes) -> Session:
        values = attributes._values
        if values.get("type") != "RecoverableAllHistoricalData" or values.get("flags") != SessionFlags.PARTIAL_ASYNC:
            raise SoamException("this session type, or these flags, are not known")
        if not values.get("name") or values.get("callback") is None:
            raise SoamException("a session needs a name and a callback")
        with self._lock:
            answer_of = self._begin({"ask": "session", "name": values["name"]})
        answer = _checked(answer_of.result())
        session = Session(self, answer["session"], values["callback"])
        with self._lock:
            self._sessions[answer["session"]] = session
        self._wire.send({"ask": "listen", "session": answer["session"]})
        return session

    def _ask(self, message: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            future = self._begin(message)
        return _checked(future.result())

    def _begin(self, message: dict[str, Any]) -> Future[dict[str, Any]]:
        future: Future[dict[str, Any]] = Future()
        if self._is_lost:
            raise SoamException("the connection is lost")
        self._count += 1
        self._requests[self._count] = future
        self._wire.send({**message, "request": self._count})
        return future

    def _listen(self) -> None:
        while (message := self._wire.receive()) is not None:
            if "request" in message:
                self._requests.pop(message["request"]).set_result(message)
            elif "ended" in message:
                self._end(message["session"], message["ended"])
            else:
                session = self._sessions.get(message["session"])
                if session is not None:
                    session._answered.add(message["task"])
                    self._callbacks.submit(session._callback.on_response, TaskOutputHandle(message))
        with self._lock:
            self._is_lost = True
        for session in list(self._sessions):
            self._end(session, "the connection to the session manager is lost")
        for request in list(self._requests.values()):
            request.set_result({"error": "the connection is lost"})

    def _end(self, identity: str, text: str) -> None:
        session = self._sessions.pop(identity, None)
        if session is not None:
            session._has_ended = True
            self._callbacks.submit(session._callback.on_exception, SoamException(text))


class Session:
    def __init__(self, connection: Connection, identity: str, callback: SessionCallback) -> None:
        self._connection = connection
        self._identity = identity
        self._callback = callback
        self._has_ended = False
        self._answered: set[str] = set()

    def send_task_input(self, attributes: TaskSubmissionAttributes) -> TaskInputHandle:
        if attributes._input is None:
            raise SoamException("the task has no input")
        if self._has_ended:
            raise SoamException("the session has ended")
        request = {"ask": "task", "session": self._identity, "input": attributes._input}
        answer = self._connection._ask(request)
        self._wait_for_answer(answer["task"], answer["return_after_seconds"])
        return TaskInputHandle(answer["task"])

    def _wait_for_answer(self, task: str, seconds: float) -> None:
        """The real one, too, may call back before it returns here."""
        deadline = time.monotonic() + seconds
        while task not in self._answered and time.monotonic() < deadline:
            time.sleep(0.001)
        if seconds and task in self._answered:
            time.sleep(0.002)
        self._answered.discard(task)


def _checked(answer: dict[str, Any]) -> dict[str, Any]:
    if answer.get("error") is not None:
        raise SoamException(answer["error"])
    return answer


# ---- services --------------------------------------------------------------------------------------------------


class ServiceContainer:
    """One instance of the service, in a process of its own: one task at a time."""

    def run(self) -> None:
        wire = _Wire()
        wire.send({"instance": os.getpid()})
        tasks: list[dict[str, Any]] = []
        arrived = threading.Semaphore(0)

        def listen() -> None:
            while (message := wire.receive()) is not None:
                tasks.append(message)
                arrived.release()
            os._exit(0)  # whatever runs: the broker is gone

        threading.Thread(target=listen, daemon=True).start()
        self.on_create_service(None)  # type: ignore[attr-defined]
        entered: str | None = None
        while True:
            arrived.acquire()
            task = tasks.pop(0)
            if task["session"] != entered:
                if entered is not None:
                    self.on_session_leave()  # type: ignore[attr-defined]
                entered = task["session"]
                self.on_session_enter(None)  # type: ignore[attr-defined]
            wire.send(self._invoke(task))

    def _invoke(self, task: dict[str, Any]) -> dict[str, Any]:
        context = TaskContext(task["input"])
        try:
            self.on_invoke(context)  # type: ignore[attr-defined]
        except BaseException as error:
            return {"error": f"{type(error).__name__}: {error}", "output": b""}
        return {"error": None, "output": context._output}


class TaskContext:
    def __init__(self, data: bytes) -> None:
        self._input = data
        self._output = b""

    def populate_task_input(self, message: Message) -> None:
        message.on_deserialize(_InputStream(self._input))

    def set_task_output(self, message: Message) -> None:
        self._output = _serialized(message)
