"""The number of descriptors that a process may have open."""

from __future__ import annotations

import errno
import os
import resource

_SOFT_AT_START = resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def allow_many_descriptors() -> int:
    """Raise the limit as far as it may be raised without rights: each peer takes a descriptor, each process more, and
    the usual limit of 1,024 is there for programs that use ``select``. Not for processes that run the code of others:
    these get back what is returned here, the limit that this process started with."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return _SOFT_AT_START


def limit_descriptors(soft: int) -> None:
    """Undo ``allow_many_descriptors``, which returned ``soft``."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def require_descriptors(count: int, what: str) -> None:
    """Raise OSError (EMFILE) with a sentence, which begins with "Cannot ``what``", unless this process may open so
    many more. Where that is not known, it may."""
    limit = descriptor_limit()
    used = _open_count(limit)
    if limit - used < count:
        error = OSError(
            f"Cannot {what}: this process may open only {limit} files. It has {used} open, and needs {count} more."
            " Close files or connections, or raise the limit (ulimit -n)."
        )
        error.errno = errno.EMFILE  # not as an argument: it prints as its sentence
        raise error


def descriptor_limit() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def is_lack_of_descriptors(error: BaseException) -> bool:
    """Return whether it is one, also if it comes from libzmq and is not an OSError."""
    return getattr(error, "errno", None) in (errno.EMFILE, errno.ENFILE)


def _open_count(limit: int) -> int:
    """Return how many descriptors are open; 0 where that is not known."""
    try:
        return len(os.listdir("/proc/self/fd")) - 1  # this listing has one
    except OSError as error:
        return limit if error.errno == errno.EMFILE else 0
