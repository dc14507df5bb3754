"""ZeroMQ contexts: the threads that move bytes."""

from __future__ import annotations

from typing import TypeAlias
from weakref import WeakSet

import zmq

from scaler_protocol.transport.zeromq import require_threads

Context: TypeAlias = "zmq.Context[zmq.Socket[bytes]]"


def new_context(io_threads: int = 1) -> Context:
    """A separate context: the caller ends it with ``term``, after closing its sockets."""
    return zmq.Context(io_threads)


def shared_context() -> Context:
    """The context of this process, which in-process addresses need. It is never ended."""
    return zmq.Context.instance()


def new_socket(context: Context, kind: int) -> zmq.Socket[bytes]:
    """The first socket of a context starts its threads. If the system does not allow them, libzmq would abort the
    process: raises RuntimeError instead, which ``lack_of_thread`` describes."""
    if context not in _started:
        require_threads(context.get(zmq.IO_THREADS) + _OTHER_THREADS)
    made = context.socket(kind)
    _started.add(context)
    return made


_OTHER_THREADS = 1
"""The thread of a context that closes sockets."""

_started: WeakSet[Context] = WeakSet()
"""Contexts that have their threads."""
