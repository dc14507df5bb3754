"""How many descriptors a process may have open."""

from __future__ import annotations

import resource


def allow_many_descriptors() -> None:
    """Raise the limit as far as it may be raised without rights: each peer takes a descriptor, and the usual limit of
    1,024 is there for programs that use ``select``. Not for processes that run the code of others."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
