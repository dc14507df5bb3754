"""The number of descriptors that a process may have open."""

from __future__ import annotations

import errno
import os
import resource


def allow_many_descriptors() -> int:
    """Raise the limit as far as it may be raised without rights: each peer takes a descriptor, each process more, and
    the usual limit of 1,024 is there for programs that use ``select``. Not for processes that run the code of others:
    these get back what is returned here, the limit as it was."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return soft


def limit_descriptors(soft: int) -> None:
    """Undo ``allow_many_descriptors``, which returned ``soft``."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def require_descriptors(count: int) -> None:
    """OSError (EMFILE) unless this process may open so many more. Where that is not known, it may."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    try:
        used = len(os.listdir("/proc/self/fd"))
    except OSError as error:
        if error.errno != errno.EMFILE:
            return
        used = limit
    if limit - used < count:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
