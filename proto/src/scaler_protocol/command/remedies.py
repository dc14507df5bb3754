"""Remedies for what the system refuses to a process."""

from __future__ import annotations

import errno

from scaler_protocol.command.threads import is_lack_of_thread, lack_of_thread

_FREE_MEMORY = "Free memory, or raise what limits it (ulimit -v, a service or container)."
_NOT_MAPPED = ("failed to map segment", "cannot allocate memory", "out of memory")
"""The words of the dynamic loader for a library that finds no memory, in lower case."""


def with_remedy(error: OSError, process: str) -> str:
    """Return why this has failed and, where that is known, what helps: without a period. ``process`` names the process
    in that text, as in "this agent"."""
    remedy = _REMEDIES.get(error.errno or 0, "")
    why = error.strerror or str(error)
    return f"{why}: {remedy.format(process=process)}" if remedy else why


def is_lack_of_memory(error: BaseException) -> bool:
    """Return whether this process has found no memory for something, such as a module that it has imported."""
    if isinstance(error, ImportError):
        return any(words in str(error).lower() for words in _NOT_MAPPED)
    if isinstance(error, SystemError):  # CPython's compiler forgets to raise MemoryError
        return "function compile> returned NULL" in str(error)
    return type(error) is MemoryError or (isinstance(error, OSError) and error.errno == errno.ENOMEM)


def shortage_text(error: BaseException, process: str) -> str:
    """Return what the system refuses to this process, and what helps; empty if ``error`` says something else.
    ``process`` names it, as in "this agent"."""
    if is_lack_of_memory(error):
        return f"{process} has no memory left. {_FREE_MEMORY}"
    if isinstance(error, RuntimeError) and is_lack_of_thread(error):
        return lack_of_thread(error)
    if isinstance(error, OSError) and error.errno in _REMEDIES:
        return f"{with_remedy(error, process)}."
    return ""


_REMEDIES = {
    errno.EMFILE: "close files or connections of {process}, or raise its limit (ulimit -n)",
    errno.EAGAIN: "end processes or threads of this user, or raise the limit (ulimit -u)",
    errno.ENOMEM: "free memory, or raise what limits that of {process} (ulimit -v, a service or container)",
    errno.EFBIG: "raise the limit of {process} for the size of files (ulimit -f)",
}
