"""What an agent, its zygote and its processors say to each other beside task messages.

From the agent to a processor: an encoded Tasks message, or OBJECT (key, size, with a descriptor), DROP (keys),
STORE (the name of the cluster, by which the host's object store is found), VALUES
(the sequence below which no value is needed any more, or nothing; an encoded Results message with values of graph
nodes, or two empty frames; an encoded Tasks message). From a processor to its agent: READY, LARGE (sequence, size,
with a descriptor), OUTPUT (sequence, stream, bytes), FAILED (text); an eventfd says that there are results on the
board. From the agent to the zygote: a pickled ProcessorOptions with the descriptors of stream, board, stderr, fault
file and eventfd; the zygote answers with the number and the process id.
"""

from __future__ import annotations

import signal
import struct
from dataclasses import dataclass

from scaler_protocol.messages import ObjectKey

READY = b"ready"
LARGE = b"large"
OUTPUT = b"output"
FAILED = b"failed"
OBJECT = b"object"
DROP = b"drop"
VALUES = b"values"
STORE = b"store"

STDOUT, STDERR = 1, 2
"""Streams of a task's output."""

BLOCKED = b"blocked"
WAITS_FOR_A_LOCK = b"waits for a lock"
UNBLOCKED = b"unblocked"
"""From a nested client to the agent: its task waits for tasks or for a lock, or goes on. Each replaces the one
before."""

INTERRUPT_SIGNAL = signal.SIGRTMIN + 8
"""Not one of the signals that user code usually takes for itself."""

_NUMBER = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class ProcessorOptions:
    number: int
    agent_pid: int
    worker_name: str
    agent_socket: str
    scheduler_address: str
    preload: str
    collect_interval_seconds: float
    trim_threshold_bytes: int
    is_spare: bool
    echoes_streamed_output: bool = True


def pack_number(number: int) -> bytes:
    return _NUMBER.pack(number)


def unpack_number(frame: bytes) -> int:
    return int(_NUMBER.unpack(frame)[0])


def pack_key(key: ObjectKey) -> bytes:
    return _NUMBER.pack(key.number) + key.owner


def unpack_key(frame: bytes) -> ObjectKey:
    return ObjectKey(frame[8:], unpack_number(frame[:8]))
