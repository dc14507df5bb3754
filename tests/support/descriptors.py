"""The limit of open files of this process."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def free_descriptors(count: int) -> Iterator[None]:
    """Meanwhile, this process can open only so many further descriptors."""
    taken = [os.dup(0) for _ in range(count + 1)]
    for each in taken:
        os.close(each)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (taken[-1], hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
