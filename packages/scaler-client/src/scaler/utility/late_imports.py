"""Modules that a call loads when it is made, because most programs do not need them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from scaler_protocol.command.remedies import is_lack_of_memory, shortage_text


@contextmanager
def late_import(purpose: str) -> Iterator[None]:
    """Around an import. If this process has no memory for it, raises MemoryError, and if it has no descriptor, OSError:
    "Cannot ``purpose``: ...", with the remedy."""
    try:
        yield
    except (ImportError, MemoryError, OSError, SystemError) as error:
        lack = shortage_text(error, "this process")
        if not lack:
            raise
        text = f"Cannot {purpose}: {lack}"
        raise (MemoryError(text) if is_lack_of_memory(error) else OSError(text)) from error
