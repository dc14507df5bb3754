"""Symphony's Python API, ``soamapi``, as far as it is used: found at run time, since only IBM distributes it."""

from __future__ import annotations

import array
import importlib
from typing import Any

from scaler_protocol.command import BadInput

_USER, _PASSWORD = "Guest", "Guest"
_SESSION_TYPE = "RecoverableAllHistoricalData"
_SESSION_NAME = "ScalerSession"
_NAMES = (
    "Message", "SessionCallback", "SessionCreationAttributes", "SessionFlags", "TaskSubmissionAttributes",
    "DefaultSecurityCallback", "connect", "initialize",
)  # fmt: skip


class Soam:
    """Raises BadInput when the API is not here. ``callbacks`` of a session have the methods ``on_response(handle)`` and
    ``on_exception(exception)``; Symphony calls them from threads of its own."""

    def __init__(self, service: str) -> None:
        self._api = _import()
        self._service = service
        self._connection: Any = None
        self._callback: Any = None
        self._message_class = _message_class(self._api)
        self._callback_class = _callback_class(self._api)

    def initialize(self) -> None:
        self._api.initialize()

    def create_session(self, callbacks: Any) -> Any:
        """Create a session by a connection of its own: that of a session that ended may be what ended it. Raises
        whatever Symphony raises."""
        security = self._api.DefaultSecurityCallback(_USER, _PASSWORD)
        self._connection = self._api.connect(self._service, security)
        attributes = self._api.SessionCreationAttributes()
        attributes.set_session_type(_SESSION_TYPE)
        attributes.set_session_name(_SESSION_NAME)
        attributes.set_session_flags(self._api.SessionFlags.PARTIAL_ASYNC)
        self._callback = self._callback_class(callbacks)  # kept, whether the API keeps it or not
        attributes.set_session_callback(self._callback)
        return self._connection.create_session(attributes)

    def send(self, session: Any, payload: bytes) -> Any:
        """The id of the task, which is the session's own."""
        attributes = self._api.TaskSubmissionAttributes()
        attributes.set_task_input(self._message_class(payload))
        return session.send_task_input(attributes).get_id()

    def users_own(self, embedded: Any) -> BaseException | None:
        """The exception embedded in a failure, if clients know it, too: not one of the API's own."""
        package = type(embedded).__module__.partition(".")[0].lstrip("_")
        return embedded if isinstance(embedded, BaseException) and package != self._api.__name__ else None

    def output(self, handle: Any) -> bytes:
        """The output of the service."""
        message = self._message_class()
        handle.populate_task_output(message)
        return bytes(message.payload)


def _import() -> Any:
    try:
        api = importlib.import_module("soamapi")
    except Exception as error:  # it is third-party code: missing libraries make it fail in many ways
        raise BadInput(
            f"Cannot import soamapi, the Python API of IBM Spectrum Symphony: {error}. Install Symphony's client on "
            "this host and put the directory of its Python API into PYTHONPATH."
        ) from None
    missing = [name for name in _NAMES if not hasattr(api, name)]
    if missing:
        raise BadInput(
            f"Cannot use the module soamapi in {getattr(api, '__file__', None) or 'no file'}: it is not the Python "
            f"API of IBM Spectrum Symphony, because it has no {missing[0]}. Put the directory of Symphony's first into "
            "PYTHONPATH."
        )
    return api


def _message_class(api: Any) -> type:
    class Message(api.Message):
        """One byte array, either way."""

        def __init__(self, payload: bytes = b"") -> None:
            super().__init__()
            self.payload = payload

        def on_serialize(self, stream: Any) -> None:
            data = array.array("b", self.payload)
            stream.write_byte_array(data, 0, len(data))

        def on_deserialize(self, stream: Any) -> None:
            self.payload = bytes(stream.read_byte_array("b"))

    return Message


def _callback_class(api: Any) -> type:
    class Callback(api.SessionCallback):
        def __init__(self, callbacks: Any) -> None:
            super().__init__()
            self._callbacks = callbacks

        def on_response(self, handle: Any) -> None:
            self._callbacks.on_response(handle)

        def on_exception(self, exception: Any) -> None:
            self._callbacks.on_exception(exception)

    return Callback
