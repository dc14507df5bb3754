"""The messages between an agent, its zygote and its worker processes, in addition to task messages.

From the agent to a worker process: START, before which it does nothing; then an encoded Tasks message, or OBJECT (key,
size, with a descriptor), DROP (keys), STORE (the name of the cluster, by which the host's object store is found),
VALUES (the sequence below which no value is needed any more, or nothing; an encoded Results message with values of
graph nodes, or two empty frames; an encoded Tasks message). From a process to its agent: READY, LARGE (sequence, size,
with a descriptor), WARNED (sequence, bytes, text for the log), FAILED (text); an eventfd says that there are results on
the board. Its output goes through two pipes. From the agent to the zygote: a pickled WorkerProcessOptions with the
descriptors of stream, board, stdout, stderr, an epoll descriptor that contains the reading ends of these two, fault
file and eventfd;
the zygote answers with the number and the process id.
"""

from __future__ import annotations

import fcntl
import signal
import struct
from collections.abc import Callable

from scaler_protocol.messages import ObjectKey
from scaler_protocol.value import value

START = b"start"
READY = b"ready"
LARGE = b"large"
FAILED = b"failed"
WARNED = b"warned"
OBJECT = b"object"
DROP = b"drop"
VALUES = b"values"
STORE = b"store"

STDOUT, STDERR = 1, 2
"""Streams of a task's output, and their descriptors."""

BLOCKED = b"blocked"
WAITS_FOR_A_LOCK = b"waits for a lock"
UNBLOCKED = b"unblocked"
"""A nested client tells the agent that its task waits for tasks or for a lock, or continues. Each replaces the one
before."""

INTERRUPT_SIGNAL = signal.SIGRTMIN + 8
"""Not one of the signals that user code usually takes for itself."""

STACK_SIGNAL = signal.SIGRTMIN + 9
STACK_FILE = "scaler-stack"
"""The name of the memory file to which a worker process writes the stacks of its threads at this signal."""

RESULT_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL
"""The seals of the memory file with a large result: it stays as it is."""

PROFILE_SIGNAL = signal.SIGRTMIN + 10
PROFILE_FILE = "scaler-profile"
"""The name of the memory file through which the agent asks for samples, which begin at this signal, and gets them."""

WARNINGS_LIMIT_BYTES = 256 * 1024
"""Maximum size of one WARNED message."""

_NUMBER = struct.Struct("<Q")


class ChannelError(ValueError):
    """A worker process said what none can say. It runs user code, which may write anything to its descriptors."""


@value(frozen=True, slots=True)
class Ready:
    """It can take tasks."""


@value(frozen=True, slots=True)
class Large:
    """The bytes of the result of the task with this sequence: in the descriptor that came with the message."""

    sequence: int
    size: int


@value(frozen=True, slots=True)
class Warned:
    """Warnings that the task with this sequence has raised, for its client."""

    sequence: int
    data: bytes
    log: bytes


@value(frozen=True, slots=True)
class PreparationFailed:
    """It cannot be made ready."""

    text: str


@value(frozen=True, slots=True)
class WorkerProcessOptions:
    number: int
    agent_pid: int
    worker_name: str
    agent_socket: str
    scheduler_address: str
    preload: str
    collect_interval_seconds: float
    trim_threshold_bytes: int
    loaded_objects_limit_bytes: int
    is_spare: bool
    variables: dict[str, str]
    spill_directory: str = ""
    echoes_warnings: bool = True


Said = Ready | Large | Warned | PreparationFailed


def pack_number(number: int) -> bytes:
    return _NUMBER.pack(number)


def unpack_number(frame: bytes) -> int:
    return int(_NUMBER.unpack(frame)[0])


def pack_key(key: ObjectKey) -> bytes:
    return _NUMBER.pack(key.number) + key.owner


def unpack_key(frame: bytes) -> ObjectKey:
    return ObjectKey(frame[8:], unpack_number(frame[:8]))


def read_from_worker_process(frames: list[bytes]) -> Said:
    """The message that a worker process sent to its agent. Raises ChannelError."""
    kind, *fields = frames
    reader = _READERS.get(kind)
    if reader is None or len(fields) != reader[0]:
        raise ChannelError(f"it sent an unknown message of {len(frames)} frames")
    try:
        return reader[1](fields)
    except struct.error:
        raise ChannelError("it sent a number that does not have eight bytes") from None


def _warned(fields: list[bytes]) -> Warned:
    if len(fields[1]) + len(fields[2]) > WARNINGS_LIMIT_BYTES:
        raise ChannelError("one of its tasks raised too many warnings")
    return Warned(unpack_number(fields[0]), fields[1], fields[2])


def _large(fields: list[bytes]) -> Large:
    return Large(unpack_number(fields[0]), unpack_number(fields[1]))


_READERS: dict[bytes, tuple[int, Callable[[list[bytes]], Said]]] = {
    READY: (0, lambda fields: Ready()),
    LARGE: (2, _large),
    WARNED: (3, _warned),
    FAILED: (1, lambda fields: PreparationFailed(fields[0].decode(errors="replace"))),
}
