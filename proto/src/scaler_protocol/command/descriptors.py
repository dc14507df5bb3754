"""How many descriptors a process may have open."""

from __future__ import annotations

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
