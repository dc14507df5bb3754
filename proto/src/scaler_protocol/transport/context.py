"""ZeroMQ contexts: the threads that move bytes."""

from __future__ import annotations

from typing import TypeAlias

import zmq

Context: TypeAlias = "zmq.Context[zmq.Socket[bytes]]"


def new_context(io_threads: int = 1) -> Context:
    """A separate context: the caller ends it with ``term``, after closing its sockets."""
    return zmq.Context(io_threads)


def shared_context() -> Context:
    """The context of this process, which in-process addresses need. It is never ended."""
    return zmq.Context.instance()
