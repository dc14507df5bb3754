"""The service that Symphony's hosts run for Scaler: deploy it once, under a name such as ScalerService.

Its hosts need Python, cloudpickle and soamapi. Whatever else tasks import, they need, too; tasks that use ``Client()``
need scaler-client. See docs/symphony.md.
"""

from __future__ import annotations

import array
from typing import Any

import cloudpickle
import soamapi


class Message(soamapi.Message):
    """One byte array, either way."""

    def __init__(self, payload: bytes = b"") -> None:
        super().__init__()
        self.payload = payload

    def on_serialize(self, stream: Any) -> None:
        data = array.array("b", self.payload)
        stream.write_byte_array(data, 0, len(data))

    def on_deserialize(self, stream: Any) -> None:
        self.payload = bytes(stream.read_byte_array("b"))


class ScalerService(soamapi.ServiceContainer):
    """Calls the function that an input holds, and returns what it returns."""

    def on_create_service(self, service_context: Any) -> None:
        pass

    def on_session_enter(self, session_context: Any) -> None:
        pass

    def on_invoke(self, task_context: Any) -> None:
        message = Message()
        task_context.populate_task_input(message)
        function, *args = cloudpickle.loads(message.payload)
        task_context.set_task_output(Message(cloudpickle.dumps(function(*args))))

    def on_session_leave(self) -> None:
        pass

    def on_destroy_service(self) -> None:
        pass


if __name__ == "__main__":
    ScalerService().run()
