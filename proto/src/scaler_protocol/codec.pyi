"""The hand-written Cap'n Proto codec of the hot messages (contract; the code is codec.pyx)."""

from collections.abc import Iterable, Iterator, Sequence

from scaler_protocol.fields import MalformedMessage
from scaler_protocol.messages import Envelope, Hello
from scaler_protocol.result_run import ResultRun, ResultRunBuilder
from scaler_protocol.task_run import TaskRun, TaskRunBuilder

__all__ = [
    "HARD_LIMIT_BYTES",
    "TASKS_LIMIT",
    "MalformedMessage",
    "ResultRun",
    "ResultRunBuilder",
    "TaskRun",
    "TaskRunBuilder",
    "decode",
    "decode_hello",
    "encode",
    "split",
    "split_results",
]

TASKS_LIMIT: int
"""No message has more tasks: a task without arguments costs no bytes."""

HARD_LIMIT_BYTES: int
"""``encode`` refuses more. Messages are planned for MESSAGE_LIMIT_BYTES (``split``, ``TaskRunBuilder.fits``); the rest
is room for functions that ride along, and for a relayed message inside another."""

def encode(envelope: Envelope) -> list[bytes]:
    """The message's frames: a Cap'n Proto message, then payload frames. Raises ValueError over the message limit."""

def decode(frames: Sequence[bytes]) -> Envelope:
    """Raises MalformedMessage, whatever the bytes are. Runs keep the payload frame alive and copy nothing."""

def decode_hello(frames: Sequence[bytes]) -> Hello | None:
    """The Hello of a peer that has not authenticated; None: another message, which is not looked into. Raises
    MalformedMessage."""

def split(runs: Iterable[TaskRun], limit_bytes: int = ...) -> Iterator[list[TaskRun]]:
    """Groups (and slices where one run is too large) so that each group is one message under the limit."""

def split_results(runs: Iterable[ResultRun], limit_bytes: int = ...) -> Iterator[list[ResultRun]]: ...
