"""Threads of processes that continue when memory is scarce."""

from __future__ import annotations

from _thread import start_new_thread
from collections.abc import Callable


def start_thread(run: Callable[[], object]) -> None:
    """Run it in a daemon thread. Raises RuntimeError if the system allows no thread, or has no memory for one.

    ``threading.Thread.start`` waits until the thread runs. A thread that finds no memory for its first steps ends
    without a word, and then that wait never ends."""
    start_new_thread(run, ())


def is_lack_of_thread(error: RuntimeError) -> bool:
    """Return whether Python has started no thread because it could not."""
    return "new thread" in str(error)


def lack_of_thread(error: RuntimeError) -> str:
    """Return why Python has started no thread, and in a second sentence what helps."""
    if "shutdown" in str(error):
        return (
            "the interpreter is exiting, and starts no threads any more. Let the main thread wait for the threads that"
            " need more (Thread.join)."
        )
    return (
        "the system allows no more threads, or has no memory for one. End threads or processes of this user, or raise"
        " what limits them (ulimit -u, ulimit -v, a service or container)."
    )
