"""Errors between a store and its peers. Each text is one sentence for users."""

from __future__ import annotations


class StoreError(Exception):
    """The store did not do what it was asked."""


class MissingObject(StoreError):
    """The store does not have the object, and no peer writes it."""


class StoreFull(StoreError):
    """There is no room: the text names the flags that make some."""


class Unreachable(StoreError):
    """No other store that has the object answers."""


class StoreUnavailable(StoreError):
    """This host has no store of this cluster, or cannot have one."""


NO_DESCRIPTOR_TEXT = (
    "Cannot use the memory of the object store: this process has no file descriptor left. Close files, or raise the"
    " limit (ulimit -n)."
)
